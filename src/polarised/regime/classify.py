"""Which latent variables of a VAE are active, mixed or passive, and on what evidence.

Two rules. *Standard* is that of [Bonheme2023BeMoreActive, section 4] to the letter; it looks at the posterior
variance itself and so presumes the prior N(0, I). *Relative*, the default, looks at it relative to the prior, which
is the only choice that survives a learned prior: rescaling a variable, its prior and the decoder leaves the model
the same, and must leave its type the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from polarised.errors import ConfigError
from polarised.random import stream
from polarised.regime.encodings import Encodings, checked_encodings
from polarised.regime.evidence import Evidence, Statistics

if TYPE_CHECKING:
    import polars

__all__ = [
    "ALPHAS",
    "Evidence",
    "Regime",
    "classify",
    "counts_by_rule",
    "decide",
    "other_rules",
    "sensitivity",
    "stable_range",
]

Rule = Literal["relative", "standard"]


TYPES = ("active", "mixed", "passive")


BOOTSTRAP_DRAWS = 1000


SURE = 0.95


Array = NDArray[np.float64]


def classify(
    encodings: Encodings,
    *,
    alpha: float = 0.1,
    rule: Rule = "relative",
    use_shift: bool = True,
    seed: int = 0,
) -> "Regime":
    """Decide the type of every latent variable.

    With r = variance / prior variance and s = (mean - prior mean)^2 / prior variance, over inputs:

        passive   |E[r] - 1| <= alpha,  Var[r] <= alpha,  E[s] <= alpha
        active     E[r] <= alpha,       Var[r] <= alpha
        mixed      everything else

    and what this calls active is passive after all where it is nothing but noise: E[variance] / (E[variance] +
    Var(mean)) >= 1 - alpha. ``rule="standard"`` is the published one: r is the variance itself, Var < alpha, and
    neither the shift s nor the noise share is looked at. [Bonheme2023BeMoreActive, section 4; Bonheme2023iVAE,
    theorem 2]

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> classify(encodings).types
    ('active', 'passive')
    """
    evidence = Evidence()
    for mean, variance, prior_mean, prior_variance in checked_encodings(encodings).chunks(rows=1 << 18):
        evidence.update(
            mean,
            variance=variance,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            kl=encodings.kl,
            repeats=encodings.repeats,
        )
    return evidence.classify(alpha=alpha, rule=rule, use_shift=use_shift, seed=seed)


def decide(evidence: Evidence, *, alpha: float, rule: Rule, use_shift: bool, seed: int) -> "Regime":
    """Type the variables of an `Evidence`; what `classify` and `Evidence.classify` share."""
    if not 0 < alpha < 0.5:
        raise ConfigError(f"expected alpha between 0 and 0.5, got {alpha}; the papers use 0.1")
    if rule not in ("relative", "standard"):
        raise ConfigError(f"expected rule 'relative' or 'standard', got {rule!r}")
    statistics = evidence.statistics()
    slacks = _Slacks.of(statistics, alpha=alpha, rule=rule, use_shift=use_shift)
    types = slacks.types()
    resampled = _Slacks.of(
        evidence.resampled(BOOTSTRAP_DRAWS, stream(seed, "bootstrap of types")),
        alpha=alpha,
        rule=rule,
        use_shift=use_shift,
    )
    distance, distance_errors = slacks.distance(types, resampled)
    confidence = (resampled.types() == types).mean(axis=0)
    if evidence.inputs < 2:
        # The positions of a single input do not tell how another one would differ.
        distance_errors, confidence = np.full_like(distance, np.nan), np.full_like(distance, np.nan)
    return Regime(
        types=tuple(str(TYPES[t]) for t in types),
        rule=rule,
        alpha=alpha,
        use_shift=use_shift,
        rows=evidence.rows,
        statistics=statistics,
        distance=distance,
        distance_errors=distance_errors,
        confidence=confidence,
        learned_prior_mean=evidence.learned_prior_mean,
        learned_prior_variance=evidence.learned_prior_variance,
        evidence=evidence,
    )


@dataclass(frozen=True, eq=False)
class Regime:
    """The types of a VAE's latent variables with the evidence for each.

    `distance` is how far a variable is from the nearest threshold that would change its type (in the threshold's own
    units, `distance_errors` in standard errors), `confidence` how often its type survives resampling the inputs; both
    are unknown (NaN) of a single convolutional input. `rows` counts its positions, `inputs` the input.
    """

    types: tuple[str, ...]
    rule: Rule
    alpha: float
    use_shift: bool
    rows: int
    statistics: Statistics
    distance: Array
    distance_errors: Array
    confidence: Array
    learned_prior_mean: bool
    learned_prior_variance: bool
    evidence: Evidence = field(repr=False)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.types.count(kind)} {kind}" for kind in TYPES)
        how = f"{self.rule} rule, alpha {self.alpha:g}, {self.inputs} inputs"
        return f"{len(self.types)} latent variables: {counts} ({how})"

    @property
    def inputs(self) -> int:
        """The number of inputs the types rest on; of convolutional latents each has many rows."""
        return self.evidence.inputs

    @property
    def active(self) -> list[int]:
        """Variables the decoder relies on for every input."""
        return self._of("active")

    @property
    def mixed(self) -> list[int]:
        """Variables in between: on for some inputs, or weak for all."""
        return self._of("mixed")

    @property
    def passive(self) -> list[int]:
        """Variables that are nothing but the prior's noise."""
        return self._of("passive")

    @property
    def uninformative(self) -> list[int]:
        """Variables whose code is noise, whatever their variance: noise share >= 1 - alpha."""
        return [int(j) for j in np.flatnonzero(self.statistics.noise_share >= 1 - self.alpha)]

    @property
    def constant(self) -> bool:
        """Whether no variable tells one input from another, however far the posterior is from the prior."""
        return len(self.uninformative) == len(self.types)

    @property
    def prior_driven(self) -> list[int]:
        """Variables that follow the prior, yet are not noise: the prior knows the input (a learned prior mean)."""
        statistics = self.statistics
        # A mean that roams without being noise, yet stays within a prior's width of the prior mean: both move.
        quiet = (np.abs(statistics.ratio_mean - 1) <= self.alpha) & (statistics.shift <= 1)
        return [int(j) for j in np.flatnonzero(quiet & (statistics.noise_share <= self.alpha))]

    @property
    def fragile(self) -> list[int]:
        """Variables whose type changes in more than 5% of the resampled inputs, or may do so for all that is known."""
        return [int(j) for j in np.flatnonzero(~(self.confidence >= SURE))]

    @property
    def alive(self) -> list[int]:
        """Variables that are not passive, in their order, whichever of active and mixed there are."""
        return sorted(self.active + self.mixed)

    @property
    def droppable(self) -> list[int]:
        """Variables that are passive beyond doubt: neither fragile nor driven by the prior."""
        doubtful = {*self.fragile, *self.prior_driven}
        return [j for j in self.passive if j not in doubtful]

    def at(self, alpha: float, *, rule: Rule | None = None) -> "Regime":
        """Return the regime on the same evidence at another alpha, or under the other rule."""
        return self.evidence.classify(alpha=alpha, rule=rule or self.rule, use_shift=self.use_shift)

    def table(self) -> "polars.DataFrame":
        """Return a row for each variable: type and every piece of evidence."""
        import polars

        statistics = self.statistics
        flags = {
            name: np.isin(np.arange(len(self.types)), getattr(self, name)) for name in ("uninformative", "prior_driven")
        }
        columns: dict[str, Any] = {
            "variable": np.arange(len(self.types)),
            "type": self.types,
            "ratio_mean": statistics.ratio_mean,
            "ratio_variance": statistics.ratio_variance,
            "shift": statistics.shift,
            "kl": statistics.kl,
            "noise_share": statistics.noise_share,
            "polarity": statistics.polarity,
            "calibration": statistics.calibration,
            "posterior_variance": statistics.variance_mean,
            "variance_of_mean": statistics.mean_variance,
            "distance": self.distance,
            "distance_errors": self.distance_errors,
            "confidence": self.confidence,
            **flags,
        }
        return polars.DataFrame(columns)

    def _of(self, kind: str) -> list[int]:
        return [j for j, own in enumerate(self.types) if own == kind]


@dataclass(frozen=True)
class _Slacks:
    """How far each clause of the rule is from failing (negative: it fails), each (clauses, ..., d)."""

    passive: Array
    active: Array
    strict: bool

    @classmethod
    def of(cls, statistics: Statistics, *, alpha: float, rule: Rule, use_shift: bool) -> "_Slacks":
        if rule == "standard":
            level, spread = statistics.variance_mean, statistics.variance_variance
            # The bounds are formed as 1 - alpha and 1 + alpha, as in the published code.
            passive = [alpha - spread, level - (1 - alpha), (1 + alpha) - level]
            return cls(np.stack(passive), np.stack([alpha - spread, alpha - level]), strict=True)
        level, spread = statistics.ratio_mean, statistics.ratio_variance
        noisy = statistics.noise_share - (1 - alpha)
        still = [alpha - spread, alpha - np.abs(level - 1)]
        if use_shift:
            still.append(alpha - statistics.shift)
        # Passive by the ratio, or a would-be active variable that is all noise.
        dead = np.minimum(np.minimum(alpha - spread, alpha - level), noisy)
        passive_slack = np.maximum(np.min(np.stack(still), axis=0), dead)
        return cls(passive_slack[None], np.stack([alpha - spread, alpha - level, -noisy]), strict=False)

    def types(self) -> NDArray[np.int64]:
        """Indices into TYPES."""
        if self.strict:
            # Published: the spread must be strictly below alpha, the level may sit on its bound.
            passive = (self.passive[0] > 0) & (self.passive[1:] >= 0).all(axis=0)
            active = (self.active[0] > 0) & (self.active[1:] >= 0).all(axis=0)
        else:
            passive = (self.passive >= 0).all(axis=0)
            active = (self.active >= 0).all(axis=0) & ~passive
        return np.where(active, 0, np.where(passive, 2, 1))

    def distance(self, types: NDArray[np.int64], resampled: "_Slacks") -> tuple[Array, Array]:
        """Distance of each variable to the nearest change of its type: raw, and in standard errors."""
        raw, scaled = [], []
        for slack, draws in ((self.passive, resampled.passive), (self.active, resampled.active)):
            errors = draws.std(axis=1)
            raw.append(slack.min(axis=0))
            certain = np.copysign(np.inf, slack)
            scaled.append(np.min(np.divide(slack, errors, out=certain, where=errors > 0), axis=0))
        return _to_change(raw[0], raw[1], types), _to_change(scaled[0], scaled[1], types)


def _to_change(passive: Array, active: Array, types: NDArray[np.int64]) -> Array:
    return np.select([types == 0, types == 2], [active, passive], np.minimum(-passive, -active))


def other_rules(regime: Regime, *, largest_mean: NDArray[Any] | None = None) -> "polars.DataFrame":
    """Return a row for each variable and a column for each rule: True where the rule counts the variable as used.

        relative, standard     active or mixed by ours and by [Bonheme2023BeMoreActive, section 4]
        active_unit            Var(E[z_j|x]) > 0.01  [Burda2016, section 4.3]
        kl                     E[KL_j] > 0.01 nats, the usual threshold on the rate of a variable
        factor_vae             standard deviation of the mean >= 0.05  [Kim2018, section 4]
        not_vanished           max |mean_j| >= 0.1, the default of DRVI's code (0.5 in its tutorials)  [Moinfar2024];
                               only with `largest_mean`, the largest |mean| of each variable

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> other_rules(classify(encodings))["active_unit"].to_list()
    [True, False]
    """
    import polars

    statistics = regime.statistics
    # Published code of the FactorVAE score divides by n - 1.
    deviation = np.sqrt(statistics.mean_variance * regime.rows / (regime.rows - 1))
    columns: dict[str, Any] = {"variable": np.arange(len(regime.types))}
    for rule in ("relative", "standard"):
        types = regime.types if regime.rule == rule else regime.at(regime.alpha, rule=rule).types
        columns[rule] = [kind != "passive" for kind in types]
    columns["active_unit"] = statistics.mean_variance > 0.01
    columns["kl"] = statistics.kl > 0.01
    columns["factor_vae"] = deviation >= 0.05
    if largest_mean is not None:
        columns["not_vanished"] = np.asarray(largest_mean) >= 0.1
    return polars.DataFrame(columns)


def counts_by_rule(regime: Regime, encodings: Encodings | None = None) -> dict[str, int]:
    """Return how many variables each rule counts as used.

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> counts_by_rule(classify(encodings), encodings)
    {'relative': 1, 'standard': 1, 'active_unit': 1, 'kl': 1, 'factor_vae': 1, 'not_vanished': 1}
    """
    largest = None if encodings is None else np.abs(encodings.mean).max(axis=0)
    table = other_rules(regime, largest_mean=largest).drop("variable")
    return {rule: int(table[rule].sum()) for rule in table.columns}


ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


def sensitivity(regime: Regime, *, alphas: Sequence[float] = ALPHAS) -> "polars.DataFrame":
    """Return a row for each variable with its type at each alpha: columns variable, and ``alpha 0.05`` and so on.

    >>> from polarised.regime import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 0.8], [0.01, 0.8]])
    >>> sensitivity(classify(encodings), alphas=(0.1, 0.3)).rows()
    [(0, 'active', 'active'), (1, 'mixed', 'passive')]
    """
    import polars

    if not alphas:
        raise ConfigError("expected at least one alpha, got none; the papers use 0.1")
    columns = {f"alpha {alpha:g}": list(regime.at(alpha).types) for alpha in alphas}
    return polars.DataFrame({"variable": np.arange(len(regime.types)), **columns})


def stable_range(regime: Regime, *, alphas: Sequence[float] = ALPHAS) -> list[tuple[float, float]]:
    """Return, for each variable, the smallest and largest alpha of the grid around the regime's own with the same type.

    >>> from polarised.regime import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 0.8], [0.01, 0.8]])
    >>> stable_range(classify(encodings), alphas=(0.05, 0.1, 0.3))
    [(0.05, 0.3), (0.05, 0.1)]
    """
    own = regime.alpha
    below = sorted((a for a in alphas if a < own), reverse=True)
    above = sorted(a for a in alphas if a > own)
    types = {alpha: regime.at(alpha).types for alpha in (*below, *above)}

    def reach(grid: Sequence[float], variable: int) -> float:
        last = own
        for alpha in grid:
            if types[alpha][variable] != regime.types[variable]:
                break
            last = alpha
        return last

    return [(reach(below, j), reach(above, j)) for j in range(len(regime.types))]
