"""The types of the latent variables of a VAE, active, mixed or passive, and the evidence for them.

There are three rules. *Used*, the default, tests whether a variable is used: by the decoder if there is one, and by
comparing its posterior with the rest of an *unused* variable of this model. *Relative* uses only the posterior variance
relative to the prior. *Standard* is the rule of [Bonheme2023BeMoreActive, section 4] as published; it uses the
posterior variance itself and therefore assumes the prior N(0, I). The first two are invariant if a variable, its prior
and the decoder are rescaled together, which leaves the model the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised.errors import ConfigError, DataError
from polarised.random import stream
from polarised.regime._moments import TwoStates
from polarised.regime._rules import Slacks, Use, follows_prior
from polarised.regime.advice import reasons, regime_html
from polarised.regime.decoder import DecoderUse
from polarised.regime.encodings import Encodings, checked_encodings, checked_rest
from polarised.regime.evidence import Evidence, Statistics

if TYPE_CHECKING:
    import polars

__all__ = [
    "ALPHAS",
    "Evidence",
    "Regime",
    "check_rule",
    "classify",
    "counts_by_rule",
    "decide",
    "other_rules",
    "sensitivity",
    "stable_range",
]

Rule = Literal["used", "relative", "standard"]
RULES: tuple[Rule, ...] = ("used", "relative", "standard")
TYPES = ("active", "mixed", "passive")
BOOTSTRAP_DRAWS = 1000
# The number of variables that are resampled in memory at a time.
AT_ONCE = 512
SURE = 0.95

Array = NDArray[np.float64]


def classify(
    encodings: Encodings,
    *,
    alpha: float = 0.1,
    rule: Rule = "used",
    use_shift: bool = True,
    decoder: DecoderUse | None = None,
    rest_ratio: ArrayLike | None = None,
    seed: int = 0,
) -> "Regime":
    """Decide the type of every latent variable.

    With r = variance / prior variance over inputs, r0 its value at rest for an unused variable of this model, o the
    share of inputs with r < r0 / 2 and nu = E[variance] / (E[variance] + Var(mean)) the noise share, ``rule="used"`` is

        passive   exchanging it between inputs costs the decoder at most max(0.1 nats, 0.5% of the distortion);
                  without a decoder: E[r] >= 0.8 r0 and o <= 2%, or nu >= 0.9 unless it is on for some inputs
        active    used, and E[r] <= alpha r0, Var[r] <= alpha r0^2, or nu <= alpha
        mixed     used otherwise: on for some inputs, or weak for all

    A variable is `doubtful` if it is within two standard errors of the threshold, or if its evidence is contradictory:
    without a decoder, if E[r] and nu disagree; with a decoder, if the variable is as wide as at rest and the decoder
    loses less without it than the information it carries, -1/2 log nu, which is impossible at an optimum.
    ``rule="relative"``, with s = (mean - prior mean)^2 / prior variance, is

        passive   |E[r] - 1| <= alpha,  Var[r] <= alpha,  E[s] <= alpha
        active     E[r] <= alpha,       Var[r] <= alpha
        mixed      everything else

    and a variable that is active by these conditions is passive if nu >= 1 - alpha. ``rule="standard"`` is the
    published
    rule: r is the variance itself, Var < alpha, and s and nu are not used. [Bonheme2023BeMoreActive, section 4;
    Bonheme2023iVAE, theorem 2]

    Args:
        encodings: Mean and variance of q(z|x) with the prior.
        alpha: The threshold; the papers use 0.1.
        rule: "used", "relative" or "standard".
        use_shift: Whether the relative rule uses s.
        decoder: The use of the variables by the decoder, see `measure_decoder_use`.
        rest_ratio: The value of r at rest of an unused variable (a number or one per variable; NaN: nowhere), defined
            by the objective; by default that of the encodings, or 1 if they have none.
        seed: Seed of the resampling that gives the certainty.

    Returns:
        The types with their evidence, certainty and reasons.

    Raises:
        ConfigError: If alpha is not between 0 and 0.5 or there is no such rule.
        DataError: If decoder or rest_ratio do not have the same variables.

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> classify(encodings).types
    ('active', 'passive')
    >>> classify(encodings).why[1]
    'passive: posterior = prior'
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
    rest = encodings.rest_ratio if rest_ratio is None else rest_ratio
    return decide(evidence, alpha=alpha, rule=rule, use_shift=use_shift, decoder=decoder, rest_ratio=rest, seed=seed)


def decide(
    evidence: Evidence,
    *,
    alpha: float,
    rule: Rule,
    use_shift: bool,
    seed: int,
    decoder: DecoderUse | None = None,
    rest_ratio: ArrayLike | None = None,
) -> "Regime":
    """Decide the types of the variables of an `Evidence`; shared by `classify` and `Evidence.classify`."""
    check_rule(alpha, rule)
    statistics = evidence.statistics()
    rest = checked_rest(rest_ratio, len(statistics.ratio_mean))
    if decoder is not None and len(decoder.permuted) != len(statistics.ratio_mean):
        raise DataError(
            f"expected the decoder's use of {len(statistics.ratio_mean)} variables, got {len(decoder.permuted)}; "
            "measure it on the encoded model"
        )
    use = Use.of(evidence, decoder, rest, alpha) if rule == "used" else None
    doubtful = np.zeros(len(statistics.ratio_mean), dtype=bool) if use is None else use.doubtful(statistics)
    parts = []
    # Resampling takes a thousand numbers per variable, so many variables are processed in parts.
    for number, start in enumerate(range(0, len(statistics.ratio_mean), AT_ONCE)):
        columns = slice(start, start + AT_ONCE)
        own = evidence if len(statistics.ratio_mean) <= AT_ONCE else evidence.columns(columns)
        draws = stream(seed, "bootstrap of types", number)
        resampled = own.resampled(BOOTSTRAP_DRAWS, draws)
        if use is not None:
            part = use.columns(columns)
            slacks, others = part.slacks(own.statistics()), part.slacks(resampled, draws)
        else:
            slacks, others = (
                Slacks.of(each, alpha=alpha, rule=rule, use_shift=use_shift) for each in (own.statistics(), resampled)
            )
        found = slacks.types()
        parts.append((found, *slacks.distance(found, others), (others.types() == found).mean(axis=0)))
    types, distance, distance_errors, survived = (np.concatenate(column) for column in zip(*parts, strict=True))
    # After n inputs of one kind the next one is of another with probability 1 / (n + 2): few inputs are never certain.
    confidence = np.minimum(survived, (evidence.inputs + 1) / (evidence.inputs + 2))
    if evidence.inputs < 2:
        # The positions of a single input do not show how another input would differ.
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
        decoder=decoder,
        rest_ratio=rest,
        doubtful=[int(j) for j in np.flatnonzero(doubtful)],
    )


def check_rule(alpha: float, rule: Rule) -> None:
    """Refuse a threshold or a rule that does not exist.

    Args:
        alpha: The threshold of the types.
        rule: The rule of the types.

    Raises:
        ConfigError: One of them is not valid.

    >>> check_rule(0.1, "standard")
    """
    if not 0 < alpha < 0.5:
        raise ConfigError(f"expected alpha between 0 and 0.5, got {alpha}; the papers use 0.1")
    if rule not in RULES:
        raise ConfigError(f"expected rule 'used', 'relative' or 'standard', got {rule!r}")


@dataclass(frozen=True, eq=False)
class Regime:
    """The types of the latent variables of a VAE with their evidence.

    `distance` is the distance of a variable from the nearest threshold that would change its type (in the units of the
    threshold; `distance_errors` in standard errors), `confidence` the share of resampled inputs in which its type stays
    the same, including the evidence of the decoder; both are NaN for a single convolutional input. `rows` counts its
    positions, `inputs` the input. `doubtful` lists the variables for which the evidence does not decide whether they
    are used. `rest_ratio` is the variance ratio of an unused variable at rest (None: the objective is unknown, NaN:
    nowhere), `decoder` the use of the variables by the decoder, if there is one.

    Args:
        types: The type of each variable.
        rule: The rule that decided them.
        alpha: Its threshold.
        use_shift: Whether a mean away from the prior mean counted against passive.
        rows: The number of rows.
        statistics: The statistics of each variable.
        distance: The distance of each variable from the nearest threshold, in its units.
        distance_errors: The same in standard errors.
        confidence: The share of resampled inputs in which the type stays the same.
        learned_prior_mean: Whether the prior's mean differs from 0.
        learned_prior_variance: Whether its variance differs from 1.
        evidence: The evidence for the types.
        decoder: The use of each variable by the decoder, if there is one.
        rest_ratio: The variance ratio of an unused variable at rest; None: unknown, NaN: nowhere.
        doubtful: Variables for which the evidence does not decide whether they are used.
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
    decoder: DecoderUse | None = field(default=None, repr=False)
    rest_ratio: Array | None = None
    doubtful: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.types.count(kind)} {kind}" for kind in TYPES)
        how = f"{self.rule} rule, alpha {self.alpha:g}, {self.inputs} inputs"
        return f"{len(self.types)} latent variables: {counts} ({how})"

    def __repr__(self) -> str:
        return f"Regime({self})"

    def _repr_html_(self) -> str:
        return f"<div><p><b>{self}</b></p>{regime_html(self)}</div>"

    @property
    def inputs(self) -> int:
        """The number of inputs behind the types; convolutional latents have many rows per input."""
        return self.evidence.inputs

    @property
    def active(self) -> list[int]:
        """Variables that the decoder relies on for every input."""
        return self._of_type("active")

    @property
    def mixed(self) -> list[int]:
        """Variables in between: on for some inputs, or weak for all."""
        return self._of_type("mixed")

    @property
    def passive(self) -> list[int]:
        """Variables that are not used: at the prior, constant elsewhere, noise, or not read by the decoder."""
        return self._of_type("passive")

    @property
    def uninformative(self) -> list[int]:
        """Variables whose code is noise, for any variance: noise share >= 1 - alpha."""
        return [int(j) for j in np.flatnonzero(self.statistics.noise_share >= 1 - self.alpha)]

    @property
    def constant(self) -> bool:
        """Whether no variable distinguishes inputs, however far the posterior is from the prior."""
        return len(self.uninformative) == len(self.types)

    @property
    def prior_driven(self) -> list[int]:
        """Variables that follow the prior but are not noise: the prior depends on the input (a learned prior mean)."""
        return [int(j) for j in np.flatnonzero(follows_prior(self.statistics, self.alpha))]

    @property
    def fragile(self) -> list[int]:
        """Variables whose type changes in more than 5% of the resampled inputs, or whose certainty is unknown."""
        return [int(j) for j in np.flatnonzero(~(self.confidence >= SURE))]

    @property
    def alive(self) -> list[int]:
        """Variables that are not passive (active or mixed), in their order."""
        return sorted(self.active + self.mixed)

    @property
    def dependable(self) -> list[int]:
        """Variables that are used beyond doubt: neither passive nor doubtful."""
        return [j for j in self.alive if j not in self.doubtful]

    @property
    def droppable(self) -> list[int]:
        """Variables that are passive beyond doubt: neither doubtful nor fragile nor driven by the prior."""
        kept = {*self.doubtful, *self.fragile, *self.prior_driven}
        return [j for j in self.passive if j not in kept]

    @cached_property
    def why(self) -> tuple[str, ...]:
        """The reason for each variable: its type, the evidence for it, and any doubt about it."""
        return reasons(self)

    def at(self, alpha: float, *, rule: Rule | None = None) -> "Regime":
        """Return the regime from the same evidence at another alpha, or by another rule.

        Args:
            alpha: The new threshold.
            rule: The new rule; the same if None.

        Returns:
            The types from the same evidence.
        """
        return self.evidence.classify(
            alpha=alpha,
            rule=rule or self.rule,
            use_shift=self.use_shift,
            decoder=self.decoder,
            rest_ratio=self.rest_ratio,
        )

    @cached_property
    def two_states(self) -> TwoStates:
        """The two states of each variable, on for some inputs and off for the others; computed once."""
        return self.evidence.two_states()

    @cached_property
    def rarely(self) -> NDArray[np.float64]:
        """The share of inputs for which r is less than a fifth of its value at rest; computed once."""
        rest = np.ones(len(self.types)) if self.rest_ratio is None else np.nan_to_num(self.rest_ratio, nan=1.0)
        return self.evidence.share_below(0.2 * rest)

    def types_at(self, alpha: float, *, rule: Rule | None = None) -> tuple[str, ...]:
        """Return the types from the same evidence at another alpha, or by another rule, without their certainty.

        Args:
            alpha: The threshold.
            rule: The rule; by default that of this regime.

        Returns:
            The same types as `at`, computed many times faster.

        Raises:
            ConfigError: If alpha is not between 0 and 0.5 or there is no such rule.

        >>> regime = classify(Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]]))
        >>> regime.types_at(0.2, rule="standard")
        ('active', 'passive')
        """
        (types,) = self.types_along([alpha], rule=rule)
        return tuple(str(TYPES[t]) for t in types)

    def types_along(self, alphas: Sequence[float], *, rule: Rule | None = None) -> Iterator[NDArray[np.int64]]:
        """Yield the types at one alpha after another, as indices into active, mixed, passive; see `types_at`.

        Args:
            alphas: The thresholds.
            rule: The rule; by default that of this regime.

        Yields:
            The types (d,), 0 active, 1 mixed, 2 passive.

        Raises:
            ConfigError: If an alpha is not between 0 and 0.5 or there is no such rule.
        """
        rule = rule or self.rule
        use = Use.of(self.evidence, self.decoder, self.rest_ratio, self.alpha) if rule == "used" else None
        for alpha in alphas:
            check_rule(alpha, rule)
            if use is not None:
                yield replace(use, alpha=alpha).slacks(self.statistics).types()
            else:
                yield Slacks.of(self.statistics, alpha=alpha, rule=rule, use_shift=self.use_shift).types()

    def table(self) -> "polars.DataFrame":
        """Return a row for each variable: type and all evidence."""
        import polars

        statistics = self.statistics
        flags = {
            name: np.isin(np.arange(len(self.types)), getattr(self, name))
            for name in ("uninformative", "prior_driven", "doubtful")
        }
        columns: dict[str, Any] = {
            "variable": np.arange(len(self.types)),
            "type": self.types,
            "why": self.why,
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
        if self.decoder is not None:
            columns |= {"decoder_use": self.decoder.permuted, "decoder_use_error": self.decoder.permuted_error}
        return polars.DataFrame(columns)

    def _of_type(self, kind: str) -> list[int]:
        return [j for j, own in enumerate(self.types) if own == kind]


# How each rule decides that a variable is used, as shown on screens and pages.
OTHER_RULES = {
    "used": "used by the decoder, or not at rest (default)",
    "relative": "relative rule (posterior variance over the prior's)",
    "standard": "standard rule (posterior variance)",
    "active_unit": "active units: Var(mean) > 0.01",
    "kl": "KL > 0.01 nats",
    "factor_vae": "FactorVAE: std(mean) >= 0.05",
    "not_vanished": "DRVI: max |mean| >= 0.1",
}


# Titles of the columns of `Regime.table` on screens and pages, and their meaning.
COLUMNS = {
    "variable": ("variable", "index of the latent variable"),
    "type": ("type", "active: used for every input; passive: not used; mixed: used for some inputs, or weakly for all"),
    "confidence": ("sure", "how often the type stays the same for other draws of the inputs"),
    "kl": ("KL, nats", "KL(q(z|x) ‖ p(z)), averaged over inputs"),
    "ratio_mean": (
        "ratio",
        "r, posterior variance / prior variance, mean over inputs (1: all noise of the prior, 0: none)",
    ),
    "ratio_variance": ("spread", "variance of the ratio over inputs"),
    "shift": ("shift", "E[(mean - prior mean)² / prior variance]"),
    "noise_share": ("noise", "share of the code's variance that is noise, E[variance] / (E[variance] + Var(mean))"),
    "polarity": ("polarity", "0: the same for every input; 1: each input on or off; meaningless if passive"),
    "distance_errors": ("margin", "distance to the nearest change of type, in standard errors"),
    "decoder_use": ("use", "what the decoder loses, in nats, when the variable is shuffled over inputs"),
    "why": ("why", "the reason for its type"),
}


def other_rules(regime: Regime, *, largest_mean: NDArray[Any] | None = None) -> "polars.DataFrame":
    """Return a row for each variable and a column for each rule: True if the rule counts the variable as used.

        used, relative         active or mixed by our rules
        standard               active or mixed by [Bonheme2023BeMoreActive, section 4]
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
    # The published code of the FactorVAE score divides by n - 1.
    deviation = np.sqrt(statistics.mean_variance * regime.rows / (regime.rows - 1))
    columns: dict[str, Any] = {"variable": np.arange(len(regime.types))}
    for rule in RULES:
        types = regime.types_at(regime.alpha, rule=rule)
        columns[rule] = [kind != "passive" for kind in types]
    columns["active_unit"] = statistics.mean_variance > 0.01
    columns["kl"] = statistics.kl > 0.01
    columns["factor_vae"] = deviation >= 0.05
    if largest_mean is not None:
        columns["not_vanished"] = np.asarray(largest_mean) >= 0.1
    return polars.DataFrame(columns)


def counts_by_rule(regime: Regime, encodings: Encodings | None = None) -> dict[str, int]:
    """Return the number of variables that each rule counts as used.

    >>> from polarised.regime import classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> counts_by_rule(classify(encodings), encodings)
    {'used': 1, 'relative': 1, 'standard': 1, 'active_unit': 1, 'kl': 1, 'factor_vae': 1, 'not_vanished': 1}
    """
    largest = None if encodings is None else np.abs(encodings.mean).max(axis=0)
    table = other_rules(regime, largest_mean=largest).drop("variable")
    return {rule: int(table[rule].sum()) for rule in table.columns}


ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


def sensitivity(regime: Regime, *, alphas: Sequence[float] = ALPHAS) -> "polars.DataFrame":
    """Return a row for each variable with its type at each alpha: columns variable, and ``alpha 0.05`` and so on.

    >>> from polarised.regime import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 0.8], [0.01, 0.8]])
    >>> sensitivity(classify(encodings, rule="relative"), alphas=(0.1, 0.3)).rows()
    [(0, 'active', 'active'), (1, 'mixed', 'passive')]
    """
    import polars

    if not alphas:
        raise ConfigError("expected at least one alpha, got none; the papers use 0.1")
    columns = {f"alpha {alpha:g}": list(regime.types_at(alpha)) for alpha in alphas}
    return polars.DataFrame({"variable": np.arange(len(regime.types)), **columns})


def stable_range(regime: Regime, *, alphas: Sequence[float] = ALPHAS) -> list[tuple[float, float]]:
    """Return, for each variable, the range of alphas on the grid around that of the regime with the same type.

    >>> from polarised.regime import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 0.8], [0.01, 0.8]])
    >>> stable_range(classify(encodings, rule="relative"), alphas=(0.05, 0.1, 0.3))
    [(0.05, 0.3), (0.05, 0.1)]
    """
    own = regime.alpha
    below = sorted((a for a in alphas if a < own), reverse=True)
    above = sorted(a for a in alphas if a > own)
    types = {alpha: regime.types_at(alpha) for alpha in (*below, *above)}

    def reach(grid: Sequence[float], variable: int) -> float:
        last = own
        for alpha in grid:
            if types[alpha][variable] != regime.types[variable]:
                break
            last = alpha
        return last

    return [(reach(below, j), reach(above, j)) for j in range(len(regime.types))]
