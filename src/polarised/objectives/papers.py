"""The objectives of the papers, each in about ten lines below its equation.

Rate = E[KL(q(z|x) || p(z))], distortion = E[-log p(x|z)]; both in nats per image, summed over latents and pixels. The
loss is the sum of the terms returned.
"""

# ruff: noqa: D102 (the abstract class documents the methods)
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from polarised.errors import ConfigError
from polarised.models.distributions import Prior, nearest_gaussian_variance
from polarised.objectives.schedules import Length, Ramp, cut_short, in_steps, level
from polarised.objectives.step import Objective, Step
from polarised.objectives.terms import (
    Distance,
    covariance_penalty,
    critic_network,
    critic_terms,
    distortion,
    inclusive_kl,
    maximum_mean_discrepancy,
    posterior_covariance,
    posterior_noise,
    rate,
    rate_parts,
)
from polarised.regime.encodings import Estimator
from polarised.registry import register

__all__ = [
    "DIPVAE",
    "ELBO",
    "IVAE",
    "RTCVAE",
    "AnnealedVAE",
    "BetaTCVAE",
    "BetaVAE",
    "Decomposition",
    "FactorVAE",
]


@register(
    "objective",
    title="VAE",
    title_given_u="iVAE",
    summary="the evidence lower bound",
    references=("Kingma2014",),
)
@dataclass(frozen=True, kw_only=True)
class ELBO(Objective):
    """Minimise the negative evidence lower bound: the plain VAE, and the iVAE under the prior `Conditional`.

    loss = distortion + rate  [Kingma2014, eq. 3]

    An unused variable rests at the prior: its loss is (s/s_p + m^2/s_p - 1 - log s/s_p)/2, which is 0 at s_p, m = 0.

    >>> ELBO()
    ELBO()
    """

    def __call__(self, step: Step) -> dict[str, Tensor]:
        return {"distortion": distortion(step), "rate": rate(step)}


@register(
    "objective",
    title="beta-VAE",
    summary="the rate weighted by beta",
    symbol="β",
    strength=("beta",),
    references=("Higgins2017",),
    example=({}, {"warm_up": 10}),
    neutral=({"beta": 1.0},),
)
@dataclass(frozen=True, kw_only=True)
class BetaVAE(Objective):
    """Weight the rate by beta.

    loss = distortion + beta rate  [Higgins2017, eq. 4]

    An unused variable rests at the prior, as under `ELBO`: beta only scales its loss.

    Args:
        beta: The weight of the rate.
        warm_up: Steps over which that weight rises linearly from 0, or a share of the run as a float; 0 for none.
        ramp: A schedule of beta to use instead, such as `cyclical` [Fu2019].

    >>> BetaVAE(beta=8.0)
    BetaVAE(beta=8.0, warm_up=0, ramp=None)
    """

    beta: float = 4.0
    warm_up: Length = 0
    ramp: Ramp = None

    def __call__(self, step: Step) -> dict[str, Tensor]:
        beta = self.beta * level(step.number, step.steps, ramp=self.ramp, length=self.warm_up)
        return {"distortion": distortion(step), "rate": beta * rate(step)}

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        return _warn_partial("beta", self.beta, self.warm_up, steps, self.ramp)


@register(
    "objective",
    title="annealed VAE",
    summary="the rate kept at a growing capacity",
    symbol="C",
    strength=("c_max",),
    strength_title="capacity (larger is weaker)",
    references=("Burgess2018",),
)
@dataclass(frozen=True, kw_only=True)
class AnnealedVAE(Objective):
    """Keep the rate at a capacity that grows linearly.

    loss = distortion + gamma |rate - C(t)|, C(t) = c_max min(1, t / iteration_threshold)  [Burgess2018, eq. 8]

    The rate is averaged over the batch before the absolute value, as in disentanglement_lib.

    An unused variable rests nowhere. Below the capacity the gradient of each KL_j is reversed, -gamma m in the mean and
    -gamma (s - 1) / 2 in log s: the variable moves away from the prior, its mean twice as fast as its variance. A
    constant mean m adds m^2 / 2 nats of rate without distortion. At the capacity all codes of the same total rate have
    the same loss, so a constant mean stays where it is.

    Args:
        gamma: The weight of the distance from the capacity.
        c_max: The final capacity, in nats.
        iteration_threshold: The steps over which the capacity grows, or a share of the run as a float.
        ramp: A schedule of the capacity to use instead.

    >>> AnnealedVAE(c_max=50.0).gamma
    1000.0
    """

    gamma: float = 1000.0
    c_max: float = 25.0
    iteration_threshold: Length = 100_000
    ramp: Ramp = None

    def __call__(self, step: Step) -> dict[str, Tensor]:
        capacity = self.c_max * level(step.number, step.steps, ramp=self.ramp, length=self.iteration_threshold)
        return {"distortion": distortion(step), "capacity": self.gamma * (rate(step) - capacity).abs()}

    def rest_variance(self, prior: Prior, count: int = 1) -> Tensor | None:
        return None if self.gamma > 0 else super().rest_variance(prior, count)

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        return _warn_partial("the capacity", self.c_max, self.iteration_threshold, steps, self.ramp)


@register(
    "objective",
    title="FactorVAE",
    summary="the total correlation penalised, estimated by a critic",
    symbol="γ",
    strength=("gamma",),
    references=("Kim2018",),
    example=({"critic_width": 16}, {"critic_width": 16, "compatibility": "disentanglement_lib"}),
    neutral=({"gamma": 0.0, "critic_width": 8},),
)
@dataclass(frozen=True, kw_only=True)
class FactorVAE(Objective):
    """Penalise the total correlation of z, estimated by a critic that separates codes from shuffled codes.

    loss = distortion + rate + gamma E[log D(z) / (1 - D(z))]  [Kim2018, eq. 2]
    critic loss = -E[log D(z)] / 2 - E[log(1 - D(shuffled z))] / 2

    The critic is constant in the first line and z in the second, so one backward pass updates both, with the old
    weights. An unused variable rests at the prior's variance: it is independent of the others for any mean and
    variance, so the total correlation is flat in both and only the rate acts on it; errors of the critic make it
    fluctuate. Unlike the paper, but like disentanglement_lib, this shuffles the same batch instead of a second one.
    Because of its shared step counter, 300,000 steps of that library are 150,000 updates.

    Args:
        gamma: The weight of the total correlation.
        critic_layers: The number of hidden layers of the critic.
        critic_width: The units in each of them.
        critic_learning_rate: The learning rate of the critic.
        critic_betas: The betas of Adam for the critic.
        compatibility: "disentanglement_lib" clips the critic's probabilities at 1e-6, as that library does.

    >>> FactorVAE(gamma=40.0).critic_betas
    (0.5, 0.9)
    """

    gamma: float = 10.0
    critic_layers: int = 6
    critic_width: int = 1000
    critic_learning_rate: float = 1e-4
    critic_betas: tuple[float, float] = (0.5, 0.9)
    compatibility: Literal["none", "disentanglement_lib"] = "none"

    def __call__(self, step: Step) -> dict[str, Tensor]:
        correlation, loss = critic_terms(step, clip=0.0 if self.compatibility == "none" else 1e-6)
        return {
            "distortion": distortion(step),
            "rate": rate(step),
            "total_correlation": self.gamma * correlation,
            "critic": loss,
        }

    def critic(self, latents: int) -> nn.Module:
        return critic_network(latents, layers=self.critic_layers, width=self.critic_width)

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        return _warn_no_effect("gamma", self.gamma, 0.0, "the total correlation")


@register(
    "objective",
    title="beta-TCVAE",
    summary="the three parts of the rate, each with its own weight",
    symbol="β",
    strength=("beta",),
    references=("Chen2018",),
    example=tuple({"estimator": name} for name in get_args(Estimator)),
    neutral=({"beta": 1.0},),
)
@dataclass(frozen=True, kw_only=True)
class BetaTCVAE(Objective):
    """Weight the three parts of the rate: mutual information, total correlation and dimension-wise KL.

    loss = distortion + alpha MI + beta TC + gamma DW  [Chen2018, eq. 4]
         = distortion + rate + (alpha - 1) MI + (beta - 1) TC + (gamma - 1) DW

    The second line is used, with the rate in closed form: it has the same expectation and less noise, and with weights
    of 1 it is exactly the ELBO.
    An unused variable rests at the prior's variance: log q(z_ij|x_k) of a posterior that is the same for all k is a
    common term of both logsumexps and cancels in TC for every batch and all weights.

    Args:
        alpha: The weight of the mutual information of x and z.
        beta: The weight of the total correlation.
        gamma: The weight of the dimension-wise KL.
        estimator: The weights of the minibatch estimate, see `importance_weights`: "mss0" are the stratified weights as
            released; "disentanglement_lib" drops the constants, as that library does, which does not change the
            gradients and makes the value strongly negative.
        ramp: A schedule of beta - 1, the weight of TC beyond that of the ELBO.

    >>> BetaTCVAE(beta=8.0).estimator
    'mws'
    """

    alpha: float = field(default=1.0, metadata={"may_be_negative": True})
    beta: float = 6.0
    gamma: float = 1.0
    estimator: Estimator = "mws"
    ramp: Ramp = None

    def __call__(self, step: Step) -> dict[str, Tensor]:
        beyond = (self.beta - 1) * level(step.number, step.steps, ramp=self.ramp)
        parts = rate_parts(step, estimator=self.estimator, weights=(self.alpha - 1, beyond, self.gamma - 1))
        return {"distortion": distortion(step), "rate": rate(step), **parts._asdict()}

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        partial = _warn_partial("beta - 1", self.beta - 1, 0, steps, self.ramp)
        return _warn_no_effect("beta", self.beta, 1.0, "the total correlation") or partial


@register(
    "objective",
    title="DIP-VAE",
    titled_by="variant",
    summary="the covariance of the code pulled towards the identity",
    symbol="λ",
    strength=("lambda_od",),
    references=("Kumar2018",),
    example=({"variant": "I"}, {"variant": "II"}),
    neutral=({"variant": "I", "lambda_od": 0.0}, {"variant": "II", "lambda_od": 0.0}),
)
@dataclass(frozen=True, kw_only=True)
class DIPVAE(Objective):
    """Pull the covariance of the code towards the identity: that of its mean (I) or of its sample (II).

    loss = distortion + rate + lambda_od sum_{i != j} C_ij^2 + lambda_d sum_i (C_ii - 1)^2  [Kumar2018, eq. 6 and 7]
    C = Cov[E[z|x]] (I), or + E[Cov[z|x]] (II)

    An unused variable rests at variance 1. Under variant I its mean does not rest at 0: KL + lambda_d (v - 1)^2 is
    minimal at Var(mean) = v = 1 - 1 / (4 lambda_d) for lambda_d > 1/4, half noise, and the decoder uses it because it
    varies. Under variant II, KL + lambda_d (v + s - 1)^2 is minimal at s = 1, v = 0.
    The covariance is over the batch, divided by its size.

    Args:
        variant: Whether the covariance of the mean ("I") or of the sample ("II") is pulled towards the identity.
        lambda_od: The weight of the elements off the diagonal.
        lambda_d: The weight of the diagonal; by default 10 lambda_od (I) or lambda_od (II), as in the studies
            [Locatello2019; Cheng2021].

    >>> DIPVAE(variant="II", lambda_od=5.0).lambda_d is None
    True
    """

    variant: Literal["I", "II"] = "II"
    lambda_od: float = 10.0
    lambda_d: float | None = None

    def __call__(self, step: Step) -> dict[str, Tensor]:
        covariance = posterior_covariance(step.posterior, of="mean" if self.variant == "I" else "sample")
        usual = self.lambda_od * (10.0 if self.variant == "I" else 1.0)
        lambda_d = usual if self.lambda_d is None else self.lambda_d
        return {
            "distortion": distortion(step),
            "rate": rate(step),
            "covariance": covariance_penalty(covariance, lambda_od=self.lambda_od, lambda_d=lambda_d),
        }

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        return _warn_no_effect("lambda_od", self.lambda_od, 0.0, "the covariance off the diagonal")


@register(
    "objective",
    title="RTC-VAE",
    summary="the total correlation and the noise penalised",
    symbol="β",
    strength=("beta",),
    references=("Cheng2021",),
    example=({"critic_width": 16},),
    neutral=({"beta": 0.0, "eta": 0.0, "critic_width": 8},),
)
@dataclass(frozen=True, kw_only=True)
class RTCVAE(Objective):
    """Penalise the total correlation of z, and the noise that could hide the total correlation of its mean.

    loss = distortion + rate + beta E[log D(z) / (1 - D(z))] + eta E[tr Cov[z|x]]  [Cheng2021, eq. 4]

    An unused variable rests at s = 1 / (1/s_p + 2 eta), s_p the prior's variance: the root of the derivative of
    (s/s_p - log s)/2 + eta s. The total correlation is flat in it.
    Equation 6 of the paper prints the ratio without its logarithm; here it has the logarithm. The critic is trained as
    in `FactorVAE`, but has 5 hidden layers of 1000 units and an output layer, which are the "6 layers" of the paper in
    its code; that of FactorVAE has 6 hidden layers.

    Args:
        beta: The weight of the total correlation.
        eta: The weight of the noise; max(10, beta) by default.
        critic_layers: The number of hidden layers of the critic.
        critic_width: The units in each of them.
        critic_learning_rate: The learning rate of the critic.
        critic_betas: The betas of Adam for the critic.

    >>> RTCVAE(beta=20.0).eta is None
    True
    """

    beta: float = 10.0
    eta: float | None = None
    critic_layers: int = 5
    critic_width: int = 1000
    critic_learning_rate: float = 1e-4
    critic_betas: tuple[float, float] = (0.5, 0.9)

    def __call__(self, step: Step) -> dict[str, Tensor]:
        correlation, loss = critic_terms(step)
        return {
            "distortion": distortion(step),
            "rate": rate(step),
            "total_correlation": self.beta * correlation,
            "noise": self._eta() * posterior_noise(step),
            "critic": loss,
        }

    def critic(self, latents: int) -> nn.Module:
        return critic_network(latents, layers=self.critic_layers, width=self.critic_width)

    def rest_variance(self, prior: Prior, count: int = 1) -> Tensor | None:
        return 1 / (1 / prior.rest_variance(count) + 2 * self._eta())

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        return _warn_no_effect("beta", self.beta, 0.0, "the total correlation")

    def _eta(self) -> float:
        return max(10.0, self.beta) if self.eta is None else self.eta


# The weight of the total correlation is the strength; the other weights distinguish a VAE from a beta-VAE.
@register(
    "objective",
    title="weighted VAE",
    title_given_u="iVAE",
    summary="the distortion and the three parts of the rate, each with its own weight",
    symbol="c",
    strength=("c", "a", "b", "d"),
    references=("Khemakhem2020",),
    example=({}, {"a": 100.0, "c": 0.0, "d": 10.0}, {"annealing": 10}),
    neutral=({},),
)
@dataclass(frozen=True, kw_only=True)
class IVAE(Objective):
    """Weight the distortion and the three parts of the rate, under the prior `Conditional`, which depends on u.

    loss = a distortion + b MI + c TC + d DW, all of q(z|x, u) against p(z|u)  [Khemakhem2020, released code]

    Weights of 1 give the ELBO of the paper. As in `BetaTCVAE`, the rate is in closed form. The released
    settings are a=100, b=1, c=0, d=10 for data and decoder of variance 0.1.

    An unused variable rests at the prior p(z|u) if the weights b, c, d are 1. If the other variables determine u, its
    loss is d KL - (d - c) I(z; u): for d > c nothing fixes the scale of the prior, though the posterior follows it.

    Args:
        a: The weight of the distortion.
        b: The weight of the mutual information of x and z.
        c: The weight of the total correlation.
        d: The weight of the dimension-wise KL.
        annealing: Steps T over which the weights change automatically, with w = 1 / (2 decoder_variance):
            a = w min(2, 1 + t/T), b = max(1, 0.3 w (1 - t/T)), c = min(1, t/T), d = max(1, 0.5 w (1 - t/T)); from T
            on the loss is the ELBO. 0 for no annealing.
        decoder_variance: The variance in w; used only by annealing.

    Raises:
        ConfigError: If `decoder_variance` is not positive.

    >>> IVAE(a=100.0, c=0.0, d=10.0).weights(0)
    (100.0, 1.0, 0.0, 10.0)
    >>> IVAE(annealing=100, decoder_variance=0.05).weights(50)
    (15.0, 1.5, 0.5, 2.5)
    """

    a: float = 1.0
    b: float = 1.0
    c: float = 1.0
    d: float = 1.0
    annealing: int = 0
    decoder_variance: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.decoder_variance > 0:
            raise ConfigError(
                f"IVAE.decoder_variance must be positive, got {self.decoder_variance}; the released code uses 0.1"
            )

    def __call__(self, step: Step) -> dict[str, Tensor]:
        a, b, c, d = self.weights(step.number)
        parts = rate_parts(step, weights=(b - 1, c - 1, d - 1))
        return {"distortion": a * distortion(step), "rate": rate(step), **parts._asdict()}

    def weights(self, number: int) -> tuple[float, float, float, float]:
        """Return the four weights at a step.

        Args:
            number: The number of the step, from 0.

        Returns:
            The weights a, b, c and d.
        """
        if not self.annealing:
            return self.a, self.b, self.c, self.d
        if number >= self.annealing:
            return 1.0, 1.0, 1.0, 1.0
        t, w = number / self.annealing, 0.5 / self.decoder_variance
        return w * (1 + t), max(1.0, 0.3 * w * (1 - t)), t, max(1.0, 0.5 * w * (1 - t))

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        given = [name for name in ("a", "b", "c", "d") if self.annealing and getattr(self, name) != 1.0]
        unused = [f"{', '.join(given)} are not used: annealing sets the four weights."] if given else []
        return unused + _warn_partial("the weight c", 1.0, self.annealing, steps)


@register(
    "objective",
    title="decomposition",
    summary="overlap and the match with the prior, each with its own weight",
    symbol="α",
    strength=("alpha", "beta"),
    references=("Mathieu2019",),
    example=({"divergence": "mmd"}, {"divergence": "inclusive_kl"}, {"compatibility": "released-code"}),
    neutral=({"alpha": 0.0}, {"alpha": 0.0, "beta": 1.0, "divergence": "inclusive_kl"}),
)
@dataclass(frozen=True, kw_only=True)
class Decomposition(Objective):
    """Control the overlap by beta and the match of the aggregate posterior with the prior by alpha.

    loss = distortion + beta rate + alpha D(q(z), p(z))  [Mathieu2019, eq. 7]

    An unused variable rests at the variance of a Gaussian prior: beta KL(q || p) and alpha KL(p || q) are both minimal
    there. Under another prior it rests between the Gaussian nearest to it (alpha = 0) and its own variance
    (alpha large): at the minimum of beta KL(N(0, s) || p) + alpha (v_p / s + log s) / 2. Under the MMD of the whole
    code an unused variable also compensates for used variables that are too narrow or too wide, so its rest is not
    fixed.

    Args:
        alpha: The weight of the divergence D.
        beta: The weight of the rate.
        divergence: D: the maximum mean discrepancy with the inverse multiquadratic kernel of the whole code ("mmd"),
            or KL(p(z) || q(z)) over the batch ("inclusive_kl").
        compatibility: "released-code" sums the kernel over variables, which measures only the marginals.
        distance: "printed" uses |a - b| in the kernel, as the paper prints, instead of the square used by its code.

    >>> Decomposition(alpha=1.0, divergence="inclusive_kl").beta
    1.0
    """

    alpha: float = 100.0
    beta: float = 1.0
    divergence: Literal["mmd", "inclusive_kl"] = "mmd"
    compatibility: Literal["none", "released-code"] = "none"
    distance: Distance = "squared"

    def __call__(self, step: Step) -> dict[str, Tensor]:
        terms = {"distortion": distortion(step), "rate": self.beta * rate(step)}
        if self.alpha == 0:
            return terms
        if self.divergence == "inclusive_kl":
            return terms | {"divergence": self.alpha * inclusive_kl(step)}
        per_variable = self.compatibility == "released-code"
        discrepancy = maximum_mean_discrepancy(step, per_variable=per_variable, distance=self.distance)
        return terms | {"divergence": self.alpha * discrepancy}

    def rest_variance(self, prior: Prior, count: int = 1) -> Tensor | None:
        nearest = prior.rest_variance(count)
        if self.alpha == 0 or self.divergence == "mmd" or prior.gaussian:
            return nearest
        own = prior.deviation(count) ** 2
        if not prior.factorised:
            # The inclusive divergence spreads it over all components: the moments of the mixture.
            return own
        settled = [
            nearest_gaussian_variance(prior.kept([j]).log_density, inclusive=(self.alpha / self.beta, variance))
            for j, variance in enumerate(own[0].tolist())
        ]
        return torch.tensor(settled).to(nearest).expand(count, -1)

    def warnings(self, *, steps: int, dataset_size: int) -> list[str]:
        return _warn_no_effect("alpha", self.alpha, 0.0, "the divergence of the aggregate posterior")


def _warn_partial(what: str, target: float, length: Length, steps: int, ramp: Ramp = None) -> list[str]:
    if ramp is not None:
        share = cut_short(lambda number: level(number, steps, ramp=ramp), steps)
        if share is None:
            return []
        return [f"{what} reaches {share * target:.3g} of {target:g} in this run: its ramp takes longer."]
    length = in_steps(length, steps)
    if steps >= length:
        return []
    reached = target * level(steps, steps, length=length)
    return [
        f"{what} reaches {reached:.3g} of {target:g} in this run: its schedule takes {length} steps, the run {steps}."
    ]


def _warn_no_effect(symbol: str, value: float, neutral: float, what: str) -> list[str]:
    return [f"{symbol} = {value:g} leaves {what} out of the loss: set another value or use ELBO."] * (value == neutral)
