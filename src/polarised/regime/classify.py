"""Which latent variables of a VAE are active, mixed or passive, and on what evidence.

Three rules. *Used*, the default, asks whether a variable is used: by the decoder where there is one, and by comparing
its posterior with where an *unused* variable of this model rests. *Relative* looks at the posterior variance relative
to the prior alone. *Standard* is the rule of [Bonheme2023BeMoreActive, section 4] to the letter; it looks at the
posterior variance itself and so presumes the prior N(0, I). The first two do not change when a variable, its prior and
the decoder are rescaled together, which leaves the model the same.
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
# Variables whose resampling is held in memory at a time.
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

    With r = variance / prior variance over inputs, r0 where it rests for an unused variable of this model, o the share
    of inputs with r < r0 / 2 and nu = E[variance] / (E[variance] + Var(mean)) the share of noise, ``rule="used"`` says

        passive   exchanging it between inputs costs the decoder at most max(0.1 nats, 0.5% of the distortion);
                  without a decoder: E[r] >= 0.8 r0 and o <= 2%, or nu >= 0.9 unless it is on for some inputs
        active    used, and E[r] <= alpha r0, Var[r] <= alpha r0^2, or nu <= alpha
        mixed     used otherwise: on for some inputs, or weak for all

    A variable within two standard errors of the threshold is `doubtful`, and one on which the evidence parts: without a
    decoder where E[r] and nu do not agree, with one where the variable is as wide as at rest and the decoder loses
    less without it than the information it carries, -1/2 log nu, which no optimum has.
    ``rule="relative"``, with s = (mean - prior mean)^2 / prior variance, is

        passive   |E[r] - 1| <= alpha,  Var[r] <= alpha,  E[s] <= alpha
        active     E[r] <= alpha,       Var[r] <= alpha
        mixed      everything else

    and what this calls active is passive after all where nu >= 1 - alpha. ``rule="standard"`` is the published one: r
    is the variance itself, Var < alpha, and neither s nor nu is looked at. [Bonheme2023BeMoreActive, section 4;
    Bonheme2023iVAE, theorem 2]

    Args:
        encodings: Mean and variance of q(z|x) with the prior.
        alpha: How small is small; the papers use 0.1.
        rule: "used", "relative" or "standard".
        use_shift: Whether the relative rule looks at s.
        decoder: What the decoder makes of the variables, see `measure_decoder_use`.
        rest_ratio: Where r rests for an unused variable (a number or one a variable; NaN: nowhere), as the objective
            says; that of the encodings unless given, and 1 where neither knows.
        seed: Of the resampling that gives the certainty.

    Returns:
        The types with their evidence, certainty and reasons.

    Raises:
        ConfigError: If alpha is not between 0 and 0.5 or there is no such rule.
        DataError: If decoder or rest_ratio are not of the same variables.

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
    """Type the variables of an `Evidence`; what `classify` and `Evidence.classify` share."""
    _check_rule(alpha, rule)
    statistics = evidence.statistics()
    rest = checked_rest(rest_ratio, len(statistics.ratio_mean))
    if decoder is not None and len(decoder.permuted) != len(statistics.ratio_mean):
        raise DataError(
            f"expected the decoder's use of {len(statistics.ratio_mean)} variables, got {len(decoder.permuted)}; "
            "measure it on the model that was encoded"
        )
    use = Use.of(evidence, decoder, rest, alpha) if rule == "used" else None
    doubtful = np.zeros(len(statistics.ratio_mean), dtype=bool) if use is None else use.doubtful(statistics)
    parts = []
    # Resampling makes a thousand numbers of each: of very many variables some at a time.
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
    # So many inputs of one kind leave 1 in n + 2 for the next to be of another: few inputs are never sure.
    confidence = np.minimum(survived, (evidence.inputs + 1) / (evidence.inputs + 2))
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
        decoder=decoder,
        rest_ratio=rest,
        doubtful=[int(j) for j in np.flatnonzero(doubtful)],
    )


def _check_rule(alpha: float, rule: Rule) -> None:
    if not 0 < alpha < 0.5:
        raise ConfigError(f"expected alpha between 0 and 0.5, got {alpha}; the papers use 0.1")
    if rule not in RULES:
        raise ConfigError(f"expected rule 'used', 'relative' or 'standard', got {rule!r}")


@dataclass(frozen=True, eq=False)
class Regime:
    """The types of a VAE's latent variables with the evidence for each.

    `distance` is how far a variable is from the nearest threshold that would change its type (in the threshold's own
    units, `distance_errors` in standard errors), `confidence` how often its type survives resampling the inputs, the
    decoder's evidence included; both are unknown (NaN) of a single convolutional input. `rows` counts its positions,
    `inputs` the input. `doubtful` are the variables of which the evidence does not say whether they are used,
    `rest_ratio` is where the variance ratio of an unused one rests (None: the objective is not known, NaN: nowhere),
    `decoder` what the decoder makes of them, where there is one.

    Args:
        types: The type of each variable.
        rule: The rule that decided them.
        alpha: Its threshold.
        use_shift: Whether a mean away from the prior's counted against passive.
        rows: The rows that were seen.
        statistics: The statistics of each variable.
        distance: How far each is from the nearest threshold, in its units.
        distance_errors: The same in standard errors.
        confidence: How often the type survives resampling the inputs.
        learned_prior_mean: Whether the prior's mean differs from 0.
        learned_prior_variance: Whether its variance differs from 1.
        evidence: What the types rest on.
        decoder: What the decoder loses without each variable, where there is one.
        rest_ratio: Where the variance ratio of an unused variable rests; None: not known, NaN: nowhere.
        doubtful: Variables of which the evidence does not say whether they are used.
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
        """Variables that are not used: the prior's noise, noise elsewhere, or what no decoder reads."""
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
        return [int(j) for j in np.flatnonzero(follows_prior(self.statistics, self.alpha))]

    @property
    def fragile(self) -> list[int]:
        """Variables whose type changes in more than 5% of the resampled inputs, or may do so for all that is known."""
        return [int(j) for j in np.flatnonzero(~(self.confidence >= SURE))]

    @property
    def alive(self) -> list[int]:
        """Variables that are not passive, in their order, whichever of active and mixed there are."""
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
        """One reason for each variable: its type, what makes it so, and what is doubtful about it."""
        return reasons(self)

    def at(self, alpha: float, *, rule: Rule | None = None) -> "Regime":
        """Return the regime on the same evidence at another alpha, or under another rule.

        Args:
            alpha: The other threshold.
            rule: The other rule; the same if None.

        Returns:
            The types on the same evidence.
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
        """The two states of each variable, on for some inputs and off for the others; read from the evidence once."""
        return self.evidence.two_states()

    @cached_property
    def rarely(self) -> NDArray[np.float64]:
        """The share of inputs for which a variable is far narrower than at rest, a fifth of it; read once."""
        rest = np.ones(len(self.types)) if self.rest_ratio is None else np.nan_to_num(self.rest_ratio, nan=1.0)
        return self.evidence.share_below(0.2 * rest)

    def types_at(self, alpha: float, *, rule: Rule | None = None) -> tuple[str, ...]:
        """Return the types on the same evidence at another alpha, or under another rule, without their certainty.

        Args:
            alpha: The threshold.
            rule: The rule; that of this regime if not given.

        Returns:
            The types that `at` gives too, many times as quickly.

        Raises:
            ConfigError: If alpha is not between 0 and 0.5 or there is no such rule.

        >>> regime = classify(Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]]))
        >>> regime.types_at(0.2, rule="standard")
        ('active', 'passive')
        """
        (types,) = self.types_along([alpha], rule=rule)
        return tuple(str(TYPES[t]) for t in types)

    def types_along(self, alphas: Sequence[float], *, rule: Rule | None = None) -> Iterator[NDArray[np.int64]]:
        """Yield the types at one alpha after another, as places in active, mixed, passive; see `types_at`.

        Args:
            alphas: The thresholds.
            rule: The rule; that of this regime if not given.

        Yields:
            The types (d,), 0 active, 1 mixed, 2 passive.

        Raises:
            ConfigError: If an alpha is not between 0 and 0.5 or there is no such rule.
        """
        rule = rule or self.rule
        use = Use.of(self.evidence, self.decoder, self.rest_ratio, self.alpha) if rule == "used" else None
        for alpha in alphas:
            _check_rule(alpha, rule)
            if use is not None:
                yield replace(use, alpha=alpha).slacks(self.statistics).types()
            else:
                yield Slacks.of(self.statistics, alpha=alpha, rule=rule, use_shift=self.use_shift).types()

    def table(self) -> "polars.DataFrame":
        """Return a row for each variable: type and every piece of evidence."""
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

    def _of(self, kind: str) -> list[int]:
        return [j for j, own in enumerate(self.types) if own == kind]


# How each rule decides that a variable is used, on the screen and on pages.
OTHER_RULES = {
    "used": "used by the decoder, or not at rest (default)",
    "relative": "relative rule (posterior variance over the prior's)",
    "standard": "standard rule (posterior variance)",
    "active_unit": "active units: Var(mean) > 0.01",
    "kl": "KL > 0.01 nats",
    "factor_vae": "FactorVAE: std(mean) >= 0.05",
    "not_vanished": "DRVI: max |mean| >= 0.1",
}


# What columns of `Regime.table` are called on the screen and on pages, and what they mean.
COLUMNS = {
    "variable": ("variable", "index of the latent variable"),
    "type": ("type", "active: used for every input; passive: not used; mixed: used for some inputs, or weakly for all"),
    "confidence": ("sure", "how often the type survives other draws of the inputs"),
    "kl": ("KL, nats", "KL(q(z|x) ‖ p(z)), averaged over inputs"),
    "ratio_mean": (
        "ratio",
        "r, posterior variance / prior variance, mean over inputs (1: the prior's own noise, 0: none)",
    ),
    "ratio_variance": ("spread", "variance of the ratio over inputs"),
    "shift": ("shift", "E[(mean - prior mean)² / prior variance]"),
    "noise_share": ("noise", "share of the code's variance that is noise, E[variance] / (E[variance] + Var(mean))"),
    "polarity": ("polarity", "0: alike for every input; 1: each input on or off; of no meaning where passive"),
    "distance_errors": ("margin", "distance to the nearest change of type, in standard errors"),
    "decoder_use": ("use", "what the decoder loses, in nats, when the variable is shuffled over inputs"),
    "why": ("why", "what makes it of this type"),
}


def other_rules(regime: Regime, *, largest_mean: NDArray[Any] | None = None) -> "polars.DataFrame":
    """Return a row for each variable and a column for each rule: True where the rule counts the variable as used.

        used, relative         active or mixed by ours
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
    # Published code of the FactorVAE score divides by n - 1.
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
    """Return how many variables each rule counts as used.

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
    """Return, for each variable, the smallest and largest alpha of the grid around the regime's own with the same type.

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
