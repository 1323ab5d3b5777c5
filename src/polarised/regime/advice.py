"""What types and scores mean, in words: a headline, what to use and what to drop, and what to mistrust."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polarised.regime.classify import Regime, Rule

if TYPE_CHECKING:
    import polars

__all__ = ["advice", "headline", "listed"]

Pair = tuple[float, float]


# Nats of reconstruction: below the first a decoder does not read a variable, above the second it surely does.
UNREAD, READ = 0.1, 5.0


FEW = 100


def headline(regime: Regime) -> str:
    """Return how many variables are of each type, in one sentence.

    >>> from polarised.regime import Encodings, classify
    >>> headline(classify(Encodings([[0.3], [-1.1]], variance=[[0.02], [0.01]])))
    'The only latent variable is active.'
    """
    active, mixed, passive = (len(part) or "none" for part in (regime.active, regime.mixed, regime.passive))
    total = len(regime.types)
    every = "the only latent variable is" if total == 1 else f"all {total} latent variables are"
    if not regime.alive:
        if regime.prior_driven:
            return f"{every.capitalize()} passive, yet the prior carries what it knows of the input into the code."
        return f"Collapsed: {every} passive, a sampled code says nothing about the input."
    if regime.constant:
        return f"Collapsed: {every} nothing but noise, whatever the type: every input gets nearly the same posterior."
    if total == 1:
        return f"The only latent variable is {regime.types[0]}."
    verb = "is" if active == 1 else "are"
    return f"{str(active).capitalize()} of {total} latent variables {verb} active, {mixed} mixed, {passive} passive."


def advice(regime: Regime, scores: "polars.DataFrame", decoder_use: "polars.DataFrame | None" = None) -> list[str]:
    """Return what to do about a model, a sentence each: what to use, what to drop, what to mistrust and why.

    `scores` are those of `compare`, `decoder_use` what the decoder loses when a variable is replaced.

    >>> from polarised.metrics.evaluation import compare
    >>> from polarised.regime import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> regime = classify(encodings)
    >>> advice(regime, compare(encodings, regime))[0]
    'Use the mean of variable 0; 1 is passive: drop it.'
    """
    rise = None if decoder_use is None else decoder_use["permuted"].to_numpy()
    read = [] if rise is None else [j for j in regime.passive if rise[j] > READ and j not in regime.prior_driven]
    unread = [] if rise is None else [j for j in regime.alive if rise[j] < UNREAD]
    said = []
    if regime.alive and regime.constant:
        said.append(
            f"The KL of {regime.statistics.kl.sum():.3g} nats says nothing about the input: it sets the posterior of "
            "all inputs alike apart from the prior. Train longer, at a lower learning rate or with a weaker penalty."
        )
    elif regime.alive:
        said.append(_what_to_use(regime, [j for j in regime.droppable if j not in read], unread))
        said += _mean_or_sample(regime, scores) + _about_mixed(regime)
    elif not regime.prior_driven:
        said.append("Lower beta, warm it up, or train longer: as it is, the sample is noise and the means hardly move.")
    return said + _cautions(regime) + _from_the_decoder(read, unread)


def _what_to_use(regime: Regime, dropped: list[int], unread: list[int]) -> str:
    used = [j for j in regime.alive if j not in unread]
    if not used:
        return "Mistrust the whole code: the decoder reads none of the variables that are alive."
    if len(used) == len(regime.types):
        return (
            "Use the mean, it is not noise." if len(used) == 1 else "Use the means of all variables: none is passive."
        )
    use = f"Use the {'mean' if len(used) == 1 else 'means'} of {_variables(used)}"
    if not regime.passive:
        return f"{use}; the decoder does not read {listed(unread)}."
    if not dropped:
        are, _, them = _verbs(regime.passive)
        return f"{use}; {listed(regime.passive)} {are} passive, but read on before dropping {them}."
    are, _, them = _verbs(dropped)
    return f"{use}; {listed(dropped)} {are} passive: drop {them}."


def _mean_or_sample(regime: Regime, scores: "polars.DataFrame") -> list[str]:
    """Say how correlated mean and sample are, with and without passive variables, and why they part if they do."""
    found = {
        (row["representation"], row["variables"]): row["value"]
        for row in scores.filter(scores["metric"] == "total_correlation").iter_rows(named=True)
    }
    pairs = {name: (found["mean", name], found["sampled", name]) for kind, name in found if kind == "mean"}
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


def _about_mixed(regime: Regime) -> list[str]:
    """Say how each mixed variable is so: on for some inputs, weak for all, or as wide as the prior and elsewhere."""
    kinds: dict[str, list[int]] = {}
    for j in regime.mixed:
        polarity = regime.statistics.polarity[j]
        if regime.statistics.ratio_mean[j] >= 1 - regime.alpha:
            words = "no less noisy than the prior, yet different from it"
        elif polarity >= 0.5:
            words = "on for some inputs, noise for others"
        else:
            words = "weak for all inputs" if polarity < 0.2 else "weaker for some inputs than for others"
        kinds.setdefault(words, []).append(j)
    if len(kinds) > 1:
        each = "; ".join(f"{listed(variables)} ({words})" for words, variables in kinds.items())
        return [f"Keep mixed variables for reconstruction, mistrust their single values: {each}."]
    are, _, them = _verbs(regime.mixed)
    every = len(regime.mixed) == len(regime.types) > 1
    who = "All variables" if every else _variables(regime.mixed).capitalize()
    return [f"{who} {are} mixed ({words}): keep {them} for reconstruction, mistrust single values." for words in kinds]


def _cautions(regime: Regime) -> list[str]:
    statistics, cautions = regime.statistics, []
    if regime.inputs < FEW:
        looked = "1 input was" if regime.inputs == 1 else f"{regime.inputs} inputs were"
        cautions.append(f"Only {looked} looked at: encode some thousand before trusting this.")
    doubtful = [j for j in regime.fragile if j in regime.passive]
    if doubtful and regime.alive:
        are, _, them = _verbs(doubtful)
        cautions.append(
            f"{_variables(doubtful).capitalize()} {are} passive only just: other inputs could change that, "
            f"so keep {them} or look at more inputs."
        )
    fragile = [j for j in regime.fragile if j not in doubtful]
    if fragile:
        one = len(fragile) == 1
        cautions.append(
            f"The type{'' if one else 's'} of {_variables(fragile)} {'is' if one else 'are'} fragile: "
            f"{'it changes' if one else 'they change'} when other inputs are drawn."
        )
    other: Rule = "standard" if regime.rule == "relative" else "relative"
    types = regime.at(regime.alpha, rule=other).types
    apart: dict[tuple[str, str], list[int]] = {}
    for j, pair in enumerate(zip(regime.types, types, strict=True)):
        apart.setdefault(pair, []).append(j)
    words = [f"{listed(of)} ({here} here, {there} there)" for (here, there), of in apart.items() if here != there]
    if words:
        cautions.append(f"The {regime.rule} and the {other} rule part on {'; on '.join(words)}.")
    hidden = [j for j in regime.uninformative if statistics.ratio_mean[j] <= regime.alpha]
    if hidden:
        are, _, _ = _verbs(hidden)
        cautions.append(
            f"{_variables(hidden).capitalize()} would pass for active by variance alone, yet {are} nothing but noise: "
            "a penalty on the posterior variance moves unused variables there."
        )
    if regime.prior_driven:
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
    if wide:
        are, _, _ = _verbs(wide)
        cautions.append(
            f"{_variables(wide).capitalize()} {are} wider than the prior, which training rarely leaves so: is the "
            "spread you gave a variance (not a log-variance or a standard deviation), and the prior the model's own?"
        )
    return cautions


def _from_the_decoder(read: list[int], unread: list[int]) -> list[str]:
    """Say where the decoder contradicts the types: it reads a passive variable, or never reads another."""
    said = []
    if unread:
        _, _, them = _verbs(unread)
        said.append(
            f"The decoder does not read {_variables(unread)}: giving {them} the value of another image costs less "
            f"than {UNREAD:g} nats, whatever the posterior says. Treat {them} as passive."
        )
    if read:
        _, _, them = _verbs(read)
        said.append(
            f"The decoder reads {_variables(read)} although passive by the posterior: do not drop {them} unseen."
        )
    return said


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
