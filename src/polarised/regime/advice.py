"""What types and scores mean, in words: a headline, what to use and what to drop, and what to mistrust."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polarised.regime.classify import Regime, Rule
from polarised.regime.reasons import how_mixed

if TYPE_CHECKING:
    import polars

__all__ = ["advice", "headline", "listed"]

Pair = tuple[float, float]


FEW = 100
# A KL this large, in nats a variable, was paid for: the posterior is not the prior.
PAID = 0.1


def headline(regime: Regime) -> str:
    """Return how many variables are of each type, in one sentence.

    >>> from polarised.regime import Encodings, classify
    >>> headline(classify(Encodings([[0.3], [-1.1]], variance=[[0.02], [0.01]])))
    'The only latent variable is active.'
    """
    active, mixed, passive = (len(part) or "none" for part in (regime.active, regime.mixed, regime.passive))
    total = len(regime.types)
    every = "the only latent variable is" if total == 1 else f"all {total} latent variables are"
    number = len(regime.doubtful)
    doubt = f" ({number} of these types {'is' if number == 1 else 'are'} doubtful)" if number else ""
    if not regime.alive:
        if regime.prior_driven:
            return f"{every.capitalize()} passive, yet the prior carries what it knows of the input into the code."
        if regime.doubtful:
            return f"{every.capitalize()} passive{doubt}."
        return f"Collapsed: {every} passive, a sampled code says nothing about the input."
    if regime.constant and regime.rule != "used":
        return f"Collapsed: {every} nothing but noise, whatever the type: every input gets nearly the same posterior."
    if total == 1:
        return f"The only latent variable is {regime.types[0]}{doubt}."
    verb = "is" if active == 1 else "are"
    counts = f"{active} of {total} latent variables {verb} active, {mixed} mixed, {passive} passive"
    return f"{counts[0].upper()}{counts[1:]}{doubt}."


def advice(regime: Regime, scores: "polars.DataFrame", standard: Pair | None = None) -> list[str]:
    """Return what to do about a model, a sentence each: what to use, what to drop, what to mistrust and why.

    `scores` are those of `compare`, `standard` the total correlation of mean and sample without what the standard rule
    calls passive, where that is another set of variables.

    >>> from polarised.metrics.evaluation import compare
    >>> from polarised.regime import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> regime = classify(encodings)
    >>> advice(regime, compare(encodings, regime))[0]
    'Use the mean of variable 0; 1 is passive, but read on before dropping it.'
    """
    said = []
    kl = float(regime.statistics.kl.sum())
    constant = regime.constant and (regime.rule != "used" or not regime.alive)
    if constant and not regime.prior_driven and kl > PAID * len(regime.types):
        said.append(
            f"The KL of {kl:.3g} nats says nothing about the input: it sets the posterior of "
            "all inputs alike apart from the prior. Start from fresh weights, at a lower learning rate or with a "
            "weaker penalty."
        )
    elif regime.alive and not constant:
        said.append(_what_to_use(regime))
        said += _mean_or_sample(regime, scores) + _about_mixed(regime)
    elif not regime.prior_driven and not regime.doubtful:
        said.append(
            "As it is, the sample is noise and the means hardly move. Start from fresh weights with the decoder "
            "variance or beta that the forecast of your data names, and let beta rise slowly from 0: training on from "
            "collapsed weights hardly ever brings them back. The cure does this and proves it on unseen data."
        )
    return said + _cautions(regime, scores, standard)


def _what_to_use(regime: Regime) -> str:
    used = regime.alive
    if len(used) == len(regime.types):
        return (
            "Use the mean, it is not noise." if len(used) == 1 else "Use the means of all variables: none is passive."
        )
    use = f"Use the {'mean' if len(used) == 1 else 'means'} of {_variables(used)}"
    if not regime.droppable:
        are, _, them = _verbs(regime.passive)
        return f"{use}; {listed(regime.passive)} {are} passive, but read on before dropping {them}."
    are, _, them = _verbs(regime.droppable)
    return f"{use}; {listed(regime.droppable)} {are} passive: drop {them}."


def _mean_or_sample(regime: Regime, scores: "polars.DataFrame") -> list[str]:
    """Say how correlated mean and sample are, with and without passive variables, and why they part if they do."""
    pairs = _correlations(scores)
    total = len(regime.types)
    if "full" not in pairs:
        return []
    if regime.rows <= total:
        return [f"{regime.rows} inputs are too few to say how {total} variables are correlated: encode more."]
    alive = "_".join(kind for kind in ("active", "mixed") if kind in regime.types)
    whole, lasting = pairs["full"], pairs.get(alive) if regime.passive else pairs["full"]
    said = f"The total correlation of the means is {_against(whole)}"
    if regime.passive and lasting is not None:
        said += f"; without the passive variables it is {_against(lasting)}"
    # Of independent Gaussian variables the estimate is about this much too large.
    floor = total * (total - 1) / (4 * regime.rows)
    few = f" With so few inputs {total} independent variables would show about {floor:.2g}." if floor >= 0.1 else ""
    if lasting is None or _agree(lasting):
        return [f"{said}{'' if regime.passive else ': mean and sample agree'}.{few}"]
    if not regime.mixed:
        reason = "the means are nearly dependent, which even the little noise of active variables hides"
    elif len(regime.active) < 2 or ("active" in pairs and _agree(pairs["active"])):
        named = "mixed variables" if len(regime.mixed) == len(regime.types) else f"mixed {_variables(regime.mixed)}"
        reason = f"the noise of the {named} hides how correlated the means are"
    else:
        reason = "the noise of the sample hides how correlated the means are"
    return [f"{said}: {reason}. Mean and sample are not interchangeable here, so say which one you use.{few}"]


def _correlations(scores: "polars.DataFrame") -> dict[str, Pair]:
    """The total correlation of mean and sample of each subset of variables."""
    found = {
        (row["representation"], row["variables"]): row["value"]
        for row in scores.filter(scores["metric"] == "total_correlation").iter_rows(named=True)
    }
    return {name: (found["mean", name], found["sampled", name]) for kind, name in found if kind == "mean"}


def _about_mixed(regime: Regime) -> list[str]:
    """Say how each mixed variable is so: on for some inputs, weak for all, or as wide as the prior and elsewhere."""
    kinds: dict[str, list[int]] = {}
    for j in regime.mixed:
        kinds.setdefault(how_mixed(regime, j), []).append(j)
    if len(kinds) > 1:
        each = "; ".join(f"{listed(variables)} ({words})" for words, variables in kinds.items())
        return [f"Keep mixed variables for reconstruction, mistrust their single values: {each}."]
    are, _, them = _verbs(regime.mixed)
    every = len(regime.mixed) == len(regime.types) > 1
    who = "All variables" if every else _variables(regime.mixed).capitalize()
    return [f"{who} {are} mixed ({words}): keep {them} for reconstruction, mistrust single values." for words in kinds]


def _cautions(regime: Regime, scores: "polars.DataFrame", standard: Pair | None) -> list[str]:
    statistics, cautions = regime.statistics, []
    if regime.inputs < FEW:
        looked = "1 input was" if regime.inputs == 1 else f"{regime.inputs} inputs were"
        cautions.append(f"Only {looked} looked at: encode some thousand before trusting this.")
    cautions += _doubts(regime)
    just = [j for j in regime.fragile if j in regime.passive and j not in regime.doubtful]
    if just and regime.alive:
        are, _, them = _verbs(just)
        cautions.append(
            f"{_variables(just).capitalize()} {are} passive only just: other inputs could change that, "
            f"so keep {them} or look at more inputs."
        )
    fragile = [j for j in regime.fragile if j not in just and j not in regime.doubtful]
    if fragile:
        one = len(fragile) == 1
        cautions.append(
            f"The type{'' if one else 's'} of {_variables(fragile)} {'is' if one else 'are'} fragile: "
            f"{'it changes' if one else 'they change'} when other inputs are drawn."
        )
    cautions += _parting(regime, scores, standard)
    hidden = [j for j in regime.passive if statistics.ratio_mean[j] <= regime.alpha]
    if hidden:
        are, _, _ = _verbs(hidden)
        cautions.append(
            f"{_variables(hidden).capitalize()} would pass for active by variance alone, yet {are} nothing but noise: "
            "a penalty on the posterior variance moves unused variables there."
        )
    if regime.prior_driven and not (regime.rule == "used" and regime.decoder is not None):
        are, s, them = _verbs(regime.prior_driven)
        cautions.append(
            f"{_variables(regime.prior_driven).capitalize()} follow{s} the prior, yet {are} not noise: the prior "
            f"itself knows the input. Ask the decoder (permute or redraw {them}) before dropping {them}."
        )
    if regime.learned_prior_mean and regime.passive:
        cautions.append(
            "The prior mean is learned, so passive variables may be correlated through it: dropping them can change "
            "the total correlation of the sample too."
        )
    off = [int(j) for j in np.flatnonzero(np.abs(statistics.calibration - 1) > 0.1)]
    if regime.learned_prior_variance and off:
        cautions.append(
            f"The prior does not fit {_variables(off)} (variance ratio plus shift is not within 0.1 of 1): if it is "
            "learned, it has not settled, so train longer before trusting the types."
        )
    wide = [int(j) for j in np.flatnonzero(statistics.ratio_mean > 1.5)]
    if wide and regime.decoder is None:
        are, _, _ = _verbs(wide)
        cautions.append(
            f"{_variables(wide).capitalize()} {are} wider than the prior, which training rarely leaves so: is the "
            "spread you gave a variance (not a log-variance or a standard deviation), and the prior the model's own?"
        )
    return cautions


def _doubts(regime: Regime) -> list[str]:
    """Say which variables the evidence does not settle, and what would."""
    if not regime.doubtful:
        return []
    _, _, them = _verbs(regime.doubtful)
    are = "is" if len(regime.doubtful) == 1 else "are"
    if regime.decoder is None:
        return [
            f"Whether {_variables(regime.doubtful)} {are} used is doubtful: the posterior alone does not tell. "
            f"Keep {them}, or give the decoder too."
        ]
    use = regime.decoder
    losses = ", ".join(f"{use.permuted[j]:.2f} ± {use.permuted_error[j]:.2f}" for j in regime.doubtful[:8])
    return [
        f"Whether {_variables(regime.doubtful)} {are} used is doubtful: exchanging {them} costs the decoder {losses} "
        f"nats, too near the {use.threshold:.2g} that decide. Keep {them}, or look at more inputs."
    ]


def _parting(regime: Regime, scores: "polars.DataFrame", standard: Pair | None) -> list[str]:
    """Say where another rule types otherwise, and what that does to the total correlation."""
    other: Rule = "standard" if regime.rule == "used" else "used"
    types = regime.types_at(regime.alpha, rule=other)
    apart: dict[tuple[str, str], list[int]] = {}
    for j, pair in enumerate(zip(regime.types, types, strict=True)):
        apart.setdefault(pair, []).append(j)
    words = [f"{listed(of)} ({here} here, {there} there)" for (here, there), of in apart.items() if here != there]
    if not words:
        return []
    named = {
        "standard": "The published (standard) rule parts",
        "used": f"The default rule and the {regime.rule} rule part",
    }
    said = f"{named[other]} on {'; on '.join(words)}"
    own = _correlations(scores)
    alive = own.get("_".join(kind for kind in ("active", "mixed") if kind in regime.types))
    if regime.rule != "used" or standard is None or alive is None:
        return [f"{said}."]
    dropped = f"without what it calls passive the total correlation is {_against(standard)}"
    return [f"{said}: {dropped}, without what is unused {_against(alive)}."]


def _agree(pair: Pair) -> bool:
    """Within a tenth of a nat, or of the larger: a difference nobody would act on."""
    return pair[0] == pair[1] or bool(np.isfinite(pair).all() and abs(pair[0] - pair[1]) <= 0.1 * max(1.0, pair[0]))


def _against(pair: Pair) -> str:
    exact = "infinite (some follow exactly from others)"
    mean, sampled = (f"{value:.2f}" if np.isfinite(value) else exact for value in pair)
    return f"{mean}{' nats' if np.isfinite(pair[0]) else ''} against {sampled} sampled"


def _verbs(variables: Sequence[int]) -> tuple[str, str, str]:
    """The verb, its ending and the pronoun for so many variables."""
    return ("is", "s", "it") if len(variables) == 1 else ("are", "", "them")


def _variables(variables: Sequence[int]) -> str:
    return f"{'variable' if len(variables) == 1 else 'variables'} {listed(variables)}"


def listed(variables: Sequence[int]) -> str:
    """Return the variables as a list in words; of many only the first.

    >>> listed([3]), listed([0, 3, 5])
    ('3', '0, 3 and 5')
    >>> listed(range(100))
    '0, 1, 2, 3, 4, 5, 6, 7, … and 99 (100 of them)'
    """
    words = [str(j) for j in variables]
    if len(words) > 16:
        return f"{', '.join(words[:8])}, … and {words[-1]} ({len(words)} of them)"
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} and {words[-1]}"
