"""Collapse, forecast before training: the regime of the best linear VAE, from the spectrum of the data alone."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised.data.synthetic import LinearOptimum, optimal_noise_variance, probabilistic_pca
from polarised.errors import ConfigError
from polarised.regime.spectrum import Likelihood, Spectrum, measure_spectrum
from polarised.schemas import stamp

__all__ = ["Case", "Curve", "Forecast", "Reduction", "forecast", "loss_threshold"]

Array = NDArray[np.float64]
Case = Literal["collapse", "clusters", "linear"]
Reduction = Literal["likelihood", "sum", "mean", "mean_of_both"]

LIKELIHOODS = ("gaussian", "bernoulli", "poisson")
REDUCTIONS = {
    "likelihood": "the negative log-likelihood summed over values, and the KL summed over latents",
    "sum": "the error summed over values, and the KL summed over latents",
    "mean": "the error averaged over values, but the KL summed over latents",
    "mean_of_both": "the error averaged over values, and the KL averaged over latents",
}
# Within these multiples of the threshold, training on samples decides late, if at all.
UNDECIDED = (0.8, 1.25)
# A Gaussian code costs at least a nat more than the entropy of the clusters it distinguishes.
WORTH_IT = 1.0
SHOWN = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)


class Curve(NamedTuple):
    """The number of variables a linear model keeps at each threshold b, and the beta of each b in the user's loss."""

    threshold: Array
    beta: Array
    active: NDArray[np.int64]
    alive: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Forecast:
    """The behaviour of a linear VAE on this data at this setting, and what it implies for a network.

    `threshold` is b: a variable reduces the loss if its eigenvalue exceeds b. `case` is "linear" if some do; "clusters"
    if none does, but a code of clusters would reduce the loss (use a warm-up, or it is never found); "collapse" if no
    known code does. It is not a bound on networks: their best code may have more or fewer variables.

    Args:
        beta: The weight of the rate.
        variance: The decoder's variance, if the likelihood has one.
        latents: The number of variables.
        likelihood: The likelihood of the decoder.
        reduction: How the loss of the user is summed or averaged.
        alpha: The threshold of the types.
        threshold: b, the eigenvalue above which a variable reduces the loss.
        spectrum: The eigenvalues of the data.
    """

    beta: float
    variance: float | None
    latents: int
    likelihood: Likelihood
    reduction: Reduction
    alpha: float
    threshold: float
    spectrum: Spectrum = field(repr=False)

    @cached_property
    def optimum(self) -> LinearOptimum:
        """The best linear model at the threshold: variance, KL and decoder of each variable, strongest first."""
        return probabilistic_pca(
            self.spectrum.eigenvalues,
            latents=self.latents,
            noise_variance=self.threshold,
        )

    @property
    def types(self) -> tuple[str, ...]:
        """The type of each variable by the rule of `classify`, strongest first."""
        active, alive = _counts(self._eigenvalues, np.array([self.threshold]), self.alpha)
        return (
            ("active",) * int(active[0])
            + ("mixed",) * int(alive[0] - active[0])
            + ("passive",) * (self.latents - int(alive[0]))
        )

    @property
    def active(self) -> int:
        """The number of variables that would be active: eigenvalue >= b / alpha."""
        return self.types.count("active")

    @property
    def mixed(self) -> int:
        """The number of variables that would be mixed: neither active nor passive."""
        return self.types.count("mixed")

    @property
    def passive(self) -> int:
        """The number of variables that would be passive: eigenvalue <= b / (1 - alpha), or none left."""
        return self.types.count("passive")

    @property
    def alive(self) -> int:
        """The number of variables that would not be passive."""
        return self.latents - self.passive

    @property
    def undecided(self) -> int:
        """The number of variables so close to the threshold (0.8 to 1.25 of it) that training may end either way."""
        relative = self._eigenvalues / self.threshold
        return int(((relative > UNDECIDED[0]) & (relative < UNDECIDED[1])).sum())

    @property
    def gain(self) -> float:
        """The gain of the best code of clusters over collapse in nats: max_K B_K / 2b - H_K; -inf if none was tried.

        B_K is the variance between K clusters, H_K the entropy of their labels.
        """
        found = self.spectrum.clusters
        return max((each.between / (2 * self.threshold) - each.entropy for each in found), default=-math.inf)

    @property
    def case(self) -> Case:
        """Which of the three cases applies, see the class."""
        if self.spectrum.eigenvalues[0] > self.threshold:
            return "linear"
        return "clusters" if self.gain > WORTH_IT else "collapse"

    @property
    def explained(self) -> float:
        """The share of the variance that a linear model explains through a sample of its code."""
        kept = np.minimum(self._eigenvalues, self.threshold).sum() - self._eigenvalues.sum()
        return float(-kept / self.spectrum.total)

    @property
    def rate(self) -> float:
        """The KL of the linear model in nats."""
        return float(self.optimum.kl.sum())

    @property
    def loss(self) -> float | None:
        """The loss of the best linear model in nats, which no well-trained network exceeds; Gaussian likelihood only.

        A model with a higher loss on the training data is not fully trained.
        """
        if self.likelihood != "gaussian" or self.reduction != "likelihood" or self.variance is None:
            return None
        return -probabilistic_pca(
            self.spectrum.eigenvalues,
            latents=self.latents,
            noise_variance=self.variance,
            beta=self.beta,
        ).elbo

    @property
    def optimal_variance(self) -> float | None:
        """The decoder variance with the largest ELBO at this beta; None if the likelihood is not Gaussian."""
        if self.likelihood != "gaussian":
            return None
        return optimal_noise_variance(self.spectrum.eigenvalues, latents=self.latents, beta=self.beta)

    @property
    def largest_beta(self) -> float:
        """The beta from which every variable of a linear model is passive, with the rest of the loss unchanged."""
        return float((1 - self.alpha) * self.spectrum.eigenvalues[0] / self.threshold * self.beta)

    @property
    def curve(self) -> Curve:
        """The number of alive variables over the threshold, from where all are active to where all are passive."""
        measured = self._eigenvalues[self._eigenvalues > 1e-6 * self._eigenvalues[0]]
        low, high = min(self.alpha * measured[-1], self.threshold) / 2, max(measured[0], self.threshold) * 2
        thresholds = np.unique(np.append(np.geomspace(low, high, 160), self.threshold))
        active, alive = _counts(self._eigenvalues, thresholds, self.alpha)
        return Curve(thresholds, thresholds * (self.beta / self.threshold), active, alive)

    @property
    def sentence(self) -> str:
        """What to expect, in a sentence or two."""
        relative = self.spectrum.eigenvalues[0] / self.threshold
        where = f"the largest eigenvalue is {relative:.3g} times the threshold {self.threshold:.3g}"
        if self.case == "linear":
            counts = f"{self.alive} of {self.latents} ({self.active} active, {self.mixed} mixed)"
            return (
                f"A linear model would keep {counts} alive: {where}, so collapse is no minimum and training leaves it; "
                "a network usually keeps fewer."
            )
        if self.case == "clusters":
            return (
                f"A linear model would collapse entirely: {where}. So would a network without warm-up, but a code "
                f"of clusters gains {self.gain:.1f} nats over collapse: raise beta slowly from 0."
            )
        return f"A linear model would collapse entirely: {where}, and no known code reduces the loss. {self._remedy}"

    @property
    def line(self) -> str:
        """The forecast in one line, as printed before training."""
        words = {
            "linear": f"a linear model keeps {self.alive} of {self.latents} alive, a network usually fewer",
            "clusters": "will collapse without warm-up; a non-linear code may be better",
            "collapse": "will collapse",
        }
        setting = f"beta {self.beta:g}" + ("" if self.variance is None else f", decoder variance {self.variance:g}")
        best = self.optimal_variance
        hint = "" if self.case == "linear" or best is None else f"; the best decoder variance is {best:.3g}"
        return f"Forecast at {setting}: {words[self.case]} (largest eigenvalue {self._share}){hint}."

    @property
    def notes(self) -> tuple[str, ...]:
        """The assumptions and limits of the forecast."""
        spectrum, found = self.spectrum, []
        if self.reduction != "likelihood":
            found.append(
                f"The loss is {REDUCTIONS[self.reduction]}: beta {self.beta:g} acts like beta "
                f"{self.threshold:g} beside {'half the squared' if self.likelihood == 'gaussian' else 'the summed'} "
                "error."
            )
        elif self.likelihood == "gaussian" and self.case == "linear":
            mean = loss_threshold(self.beta, likelihood="gaussian", reduction="mean", values=self._values, latents=1)
            if mean >= spectrum.eigenvalues[0]:
                found.append(
                    f"A loss that averages the squared error over the {self._values} values but sums the KL has the "
                    f"threshold {mean:.3g} and would collapse: set reduction='mean' if yours does."
                )
        if self.likelihood != "gaussian":
            found.append(
                f"Under a {self.likelihood.capitalize()} likelihood the onset of collapse is exact; the counts below "
                "it are those of a Gaussian approximation, which holds near the threshold."
            )
        if spectrum.left_out:
            found.append(f"{spectrum.left_out} of the values hardly vary and were excluded.")
        if self.likelihood == "gaussian" and spectrum.whole and spectrum.smallest >= 0 and 2 < spectrum.largest <= 255:
            found.append(
                f"The values are whole numbers up to {spectrum.largest:g}: a model that divides them by 255 has a "
                "spectrum 65,025 times smaller; pass the values that your model receives."
            )
        if spectrum.rows < len(spectrum.eigenvalues):
            found.append(
                f"{spectrum.rows} rows of {len(spectrum.eigenvalues)} values: the eigenvalues are those of this "
                "sample; with more data the largest would be smaller."
            )
        if self.undecided:
            found.append(
                f"{self.undecided} of the eigenvalues lie within 0.8 to 1.25 of the threshold: whether such a variable "
                "is alive is decided late in training, if at all."
            )
        return tuple(found)

    def at(self, *, beta: float | None = None, variance: float | None = None, latents: int | None = None) -> "Forecast":
        """Return the forecast for the same data at another setting, without reading the data again.

        Args:
            beta: The weight of the KL; unchanged by default.
            variance: The decoder variance; unchanged by default.
            latents: The number of latents, at most the number of measured eigenvalues; unchanged by default.

        Returns:
            The new forecast.

        Raises:
            ConfigError: If the setting is invalid, or needs eigenvalues that were not measured.
        """
        size = self.latents if latents is None else latents
        if size > self.spectrum.leading < len(self.spectrum.eigenvalues):
            raise ConfigError(
                f"expected at most {self.spectrum.leading} latents, the number of measured eigenvalues, got {size}; "
                "pass that many to forecast"
            )
        strength = self.beta if beta is None else beta
        spread = self.variance if variance is None else variance
        threshold = loss_threshold(
            strength,
            variance=spread,
            likelihood=self.likelihood,
            reduction=self.reduction,
            values=self._values,
            latents=size,
        )
        return replace(self, beta=strength, variance=spread, latents=size, threshold=threshold)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, lists and strings."""
        curve = self.curve
        values = {
            "beta": self.beta,
            "variance": self.variance,
            "latents": self.latents,
            "likelihood": self.likelihood,
            "reduction": self.reduction,
            "alpha": self.alpha,
            "threshold": self.threshold,
            "rows": self.spectrum.rows,
            "values": self._values,
            "active": self.active,
            "mixed": self.mixed,
            "passive": self.passive,
            "undecided": self.undecided,
            "case": self.case,
            "cluster_gain": self.gain,
            "explained": self.explained,
            "rate": self.rate,
            "loss": self.loss,
            "optimal_variance": self.optimal_variance,
            "largest_beta": self.largest_beta,
            "eigenvalues": self._eigenvalues.tolist(),
            "total_variance": self.spectrum.total,
            "curve": {name: getattr(curve, name).tolist() for name in Curve._fields},
            "sentence": self.sentence,
            "notes": list(self.notes),
        }
        return stamp("forecast", values)

    def table(self) -> list[tuple[float, float, int, int, int]]:
        """Return rows of (beta, threshold, active, mixed, passive) around and including the setting."""
        thresholds = np.array(SHOWN) * self.threshold
        active, alive = _counts(self._eigenvalues, thresholds, self.alpha)
        return [
            (factor * self.beta, float(b), int(a), int(o - a), self.latents - int(o))
            for factor, b, a, o in zip(SHOWN, thresholds, active, alive, strict=True)
        ]

    def __str__(self) -> str:
        lines = [f"{'beta':>10} {'threshold':>10} {'active':>7} {'mixed':>7} {'passive':>7}"]
        for beta, threshold, active, mixed, passive in self.table():
            mark = "  <- here" if threshold == self.threshold else ""
            lines.append(f"{beta:>10.4g} {threshold:>10.4g} {active:>7} {mixed:>7} {passive:>7}{mark}")
        best = self.optimal_variance
        also = [] if best is None else [f"The best decoder variance at this beta is {best:.3g}."]
        return "\n".join([*lines, self.sentence, *also, *self.notes])

    @property
    def _eigenvalues(self) -> Array:
        return self.spectrum.eigenvalues[: self.latents]

    @property
    def _values(self) -> int:
        return len(self.spectrum.eigenvalues) + self.spectrum.left_out

    @property
    def _share(self) -> str:
        return f"{self.spectrum.eigenvalues[0] / self.threshold:.3g} times the threshold"

    @property
    def _remedy(self) -> str:
        best = self.optimal_variance
        if best is None or self.reduction != "likelihood":
            return f"Every beta of {self.largest_beta:.3g} or more does this; choose a smaller one."
        better = self.at(variance=best)
        kept = f"{better.alive} of {self.latents}" if better.alive else "none"
        return f"The best decoder variance is {best:.3g}, which would keep {kept} alive."


def forecast(
    data: Any,
    *,
    beta: float = 1.0,
    variance: float | None = None,
    latents: int = 10,
    likelihood: Likelihood = "gaussian",
    reduction: Reduction = "likelihood",
    alpha: float = 0.1,
    bias: bool = True,
    seed: int = 0,
) -> Forecast:
    """Forecast before training which variables a VAE would keep, from the spectrum of the data.

    With S the covariance of the data (divided by n), eigenvalues lambda_1 >= lambda_2 >= ..., and b = beta variance,
    the best linear VAE has posterior variance b / max(lambda_j, b) and rate max(0, log(lambda_j / b)) / 2 in variable j
    [Tipping1999, eq. 7], [Lucas2019, section 4]. By the rule of `classify`

        active  lambda_j >= b / alpha,    passive  lambda_j <= b / (1 - alpha),    mixed otherwise.

    For a network, lambda_1 > b only implies that collapse is not a minimum, and lambda_1 <= b that a run which starts
    near collapse stays there; k-means tests whether another code would be better.

    Args:
        data: An array (n, ...), a `Dataset`, or an iterable of batches, as the model receives them; bytes are divided
            by 255.
        beta: The weight of the KL in the loss.
        variance: The variance of a Gaussian decoder; 1 by default.
        latents: The number of latent variables.
        likelihood: The reconstruction term: "gaussian" (squared error), "bernoulli" (cross-entropy) or
            "poisson".
        reduction: How the loss is summed: "likelihood", the negative log-likelihood with its variance; "sum", the plain
            squared error or cross-entropy; "mean", its mean over the values; "mean_of_both", with the KL averaged over
            latents as well.
        alpha: The threshold of the types.
        bias: Whether the decoder can add a constant to every value.
        seed: Seed of the search for clusters, and of the starting point of the iteration for wide data.

    Returns:
        The forecast; its method `at` returns that of other settings without a new pass.

    Raises:
        ConfigError: If a setting is invalid.
        DataError: If the data are not numbers of one shape, do not vary, or do not fit the likelihood.

    >>> from polarised.data import linear_gaussian
    >>> expected = forecast(linear_gaussian(), variance=0.3, latents=8)
    >>> expected.active, expected.mixed, expected.passive
    (2, 2, 4)
    """
    if likelihood not in LIKELIHOODS:
        raise ConfigError(
            f"expected likelihood as one of {', '.join(LIKELIHOODS)}, got {likelihood!r}; there is no forecast for "
            "perceptual, adversarial and absolute errors"
        )
    if not 0 < alpha < 0.5:
        raise ConfigError(f"expected alpha between 0 and 0.5, got {alpha}; the papers use 0.1")
    if type(latents) is not int or latents < 1:
        raise ConfigError(f"expected latents as a whole number of at least 1, got {latents!r}")
    if variance is None and likelihood == "gaussian" and reduction == "likelihood":
        variance = 1.0
    settings: dict[str, Any] = {"variance": variance, "likelihood": likelihood, "reduction": reduction}
    loss_threshold(beta, **settings, values=1, latents=latents)
    spectrum = measure_spectrum(data, leading=latents, likelihood=likelihood, bias=bias, seed=seed)
    values = len(spectrum.eigenvalues) + spectrum.left_out
    return Forecast(
        beta=beta,
        variance=variance,
        latents=latents,
        likelihood=likelihood,
        reduction=reduction,
        alpha=alpha,
        threshold=loss_threshold(beta, **settings, values=values, latents=latents),
        spectrum=spectrum,
    )


def loss_threshold(
    beta: float,
    *,
    variance: float | None = None,
    likelihood: Likelihood = "gaussian",
    reduction: Reduction = "likelihood",
    values: int,
    latents: int,
) -> float:
    """Return b, the eigenvalue above which a variable reduces the loss, for a loss as commonly written.

    Gaussian: beta variance under the log-likelihood, beta / 2 under the summed squared error, beta D / 2 if it is
    averaged over the D values, beta D / 2d if the KL is also averaged over the d latents. Other likelihoods:
    beta, beta, beta D, beta D / d.

    Args:
        beta: The weight of the KL.
        variance: The variance of a Gaussian decoder, if the loss has one.
        likelihood: The reconstruction term.
        reduction: How the loss is summed, see `forecast`.
        values: The number of values in an input, D.
        latents: The number of latent variables, d.

    Returns:
        The threshold b, in the units of the eigenvalues.

    Raises:
        ConfigError: If a setting is invalid.

    >>> loss_threshold(1.0, reduction="mean", values=784, latents=10)
    392.0
    """
    if not (math.isfinite(beta) and beta > 0):
        raise ConfigError(f"expected a positive beta, got {beta}; without a KL no variable becomes passive")
    if reduction not in REDUCTIONS:
        raise ConfigError(f"expected reduction as one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    if variance is not None:
        if likelihood != "gaussian" or reduction != "likelihood":
            raise ConfigError(
                'expected variance only with a Gaussian likelihood and reduction="likelihood", got it with '
                f'{likelihood} and "{reduction}", whose loss has none; omit it'
            )
        if not (math.isfinite(variance) and variance > 0):
            raise ConfigError(f"expected a positive variance, got {variance}")
    if reduction == "likelihood":
        return beta * (1.0 if variance is None else variance)
    share = 0.5 if likelihood == "gaussian" else 1.0
    if reduction == "sum":
        return beta * share
    return beta * share * values / (latents if reduction == "mean_of_both" else 1)


def _counts(eigenvalues: Array, thresholds: Array, alpha: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of active and of alive variables at each threshold."""
    ratio = thresholds[:, None] / np.maximum(eigenvalues, thresholds[:, None])
    return (ratio <= alpha).sum(axis=1), (1 - ratio > alpha).sum(axis=1)
