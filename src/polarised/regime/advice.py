"""The meaning of types and scores in words: the reason for each type, a headline, what to use, drop and mistrust.

Also the notebook view: a headline, a table with all its rows, and bars.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from polarised.errors import printable
from polarised.regime._moments import ONE, TWO

if TYPE_CHECKING:
    import polars

    from polarised.regime.classify import Regime, Rule
    from polarised.regime.encodings import Encodings

__all__ = ["advice", "diagnosis_html", "encodings_html", "headline", "how_mixed", "listed", "reasons", "regime_html"]

Pair = tuple[float, float]
FEW = 100
# A KL this large, in nats per variable, is not negligible: the posterior is not the prior.
PAID = 0.1
# A mean this far from the prior mean for all inputs (in prior variances) costs rate and distinguishes no inputs.
PARKED = 1.0
# Relative variance of numbers that agree to six digits.
SAME = 1e-12
# Shares of inputs between which a state is called rare; above them, Otsu's split finds it.
RAREST, RARE = 0.01, 0.1
COLOURS = {"active": "#0b62a8", "mixed": "#b84f00", "passive": "#646d7a"}
MARKS = {"active": "●", "mixed": "◆", "passive": "○"}
# Further rows are counted but not shown.
MOST = 512


def reasons(regime: "Regime") -> tuple[str, ...]:
    """Return the type of each variable with its reason.

    >>> from polarised.regime import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> reasons(classify(encodings))
    ('active: 3 % noise', 'passive: posterior = prior')
    """
    sentences = []
    for j, kind in enumerate(regime.types):
        words = {"passive": _passive_reason, "active": _active_reason, "mixed": how_mixed}[kind](regime, j)
        sentences.append(f"{kind}: {words}{_decoder_loss(regime, j)}{_doubt(regime, j)}")
    return tuple(sentences)


def _passive_reason(regime: "Regime", j: int) -> str:
    statistics, alpha = regime.statistics, regime.alpha
    level, shift, noise = statistics.ratio_mean[j], statistics.shift[j], statistics.noise_share[j]
    if abs(level - 1) <= alpha and statistics.ratio_variance[j] <= alpha and shift <= alpha:
        return "posterior = prior"
    rest = 1.0 if regime.rest_ratio is None else float(regime.rest_ratio[j])
    if np.isfinite(rest) and abs(rest - 1) > alpha and 0.8 <= level / rest <= 1.6:
        return f"rests at this objective's own variance {_rounded(statistics.variance_mean[j])}"
    if _offset(regime, j) > PARKED and abs(level - 1) <= 0.25:
        return _spent_on_mean(shift)
    if noise >= 0.9:
        return f"{_percent(noise)} noise"
    if regime.decoder is not None and regime.rule == "used":
        return f"the decoder does not read it ({_percent(noise)} noise)"
    if abs(level - 1) <= alpha:
        return f"as wide as the prior, {_percent(noise)} noise"
    return f"as wide as an unused variable, {_percent(noise)} noise"


def _active_reason(regime: "Regime", j: int) -> str:
    return f"{_percent(regime.statistics.noise_share[j])} noise"


def how_mixed(regime: "Regime", j: int) -> str:
    """Return why a used variable is not active: on for some inputs, weak for all, or away from the prior mean."""
    statistics, states = regime.statistics, regime.two_states
    rest = 1.0 if regime.rest_ratio is None else float(np.nan_to_num(regime.rest_ratio[j], nan=1.0))
    if j in regime.prior_driven:
        return "follows the prior, which depends on the input"
    on = f"{100 * states.on[j]:.0f} ± {max(100 * states.on_error[j], 0.5):.0f} %"
    apart = states.ratio_off[j] >= 2 * states.ratio_on[j]
    if states.separation[j] >= TWO and apart and RAREST < states.on[j] < 1 - RAREST:
        if states.ratio_off[j] >= 0.75 * rest:
            return f"on for {on} of the inputs"
        return f"strong for {on} of the inputs, weak for the rest"
    rare = float(regime.rarely[j])
    level = statistics.ratio_mean[j]
    if RAREST <= rare <= RARE and level >= 0.8 * rest:
        return f"on for few inputs ({100 * rare:.0f} %)"
    if _offset(regime, j) > PARKED and abs(level - 1) <= 0.25:
        return f"weak for all; {_spent_on_mean(statistics.shift[j])}"
    if level >= 1 - regime.alpha:
        return f"no narrower than the prior, yet {_percent(1 - statistics.noise_share[j])} of it is not noise"
    if states.separation[j] >= ONE and apart:
        return f"weak for all, perhaps stronger for {on} of the inputs"
    return "weak for all"


def _offset(regime: "Regime", j: int) -> float:
    """How far the mean is from the prior mean equally for all inputs: E[s] minus its variation, in prior variances."""
    statistics = regime.statistics
    prior = statistics.variance_mean[j] / max(statistics.ratio_mean[j], 1e-30)
    return float(statistics.shift[j] - statistics.mean_variance[j] / max(prior, 1e-30))


def _spent_on_mean(shift: float) -> str:
    return f"capacity spent on its mean: σ² ≈ prior, E[μ²] = {_rounded(shift)}"


def _decoder_loss(regime: "Regime", j: int) -> str:
    if regime.decoder is None:
        return ""
    use = regime.decoder
    rise, error = float(use.permuted[j]), float(use.permuted_error[j])
    text = f", decoder loses {_nats(rise)} ± {max(error, 0.01):.{_places(rise)}f} nats"
    if regime.types[j] == "passive" and use.redrawn[j] - 2 * use.redrawn_error[j] > use.threshold >= rise:
        constant = regime.statistics.noise_share[j] >= 0.9
        text += " (constant, but not at the prior)" if constant else " (not at the prior)"
    return text


def _doubt(regime: "Regime", j: int) -> str:
    if j not in regime.doubtful:
        return ""
    if regime.decoder is not None and regime.decoder.doubtful[j]:
        return f"; doubtful, {regime.decoder.threshold:.2g} nats decide"
    if regime.decoder is not None:
        return f"; doubtful, less than the {_rounded(regime.statistics.information[j])} it carries, as wide as at rest"
    if regime.types[j] == "passive":
        return "; doubtful, its mean varies: the decoder would decide"
    return "; doubtful, unused variables can look like this: the decoder would decide"


def _places(rise: float) -> int:
    return 0 if abs(rise) >= 10 else 1 if abs(rise) >= 1 else 2


def _nats(rise: float) -> str:
    # Avoid a minus zero: a rise below its rounding is none.
    return f"{rise:.{_places(rise)}f}".replace("-0.00", "0.00")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if 0.005 <= share <= 0.995 or share in (0.0, 1.0) else f"{100 * share:.1f} %"


def _rounded(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"


def headline(regime: "Regime") -> str:
    """Return the number of variables of each type, in one sentence.

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
            return f"{every.capitalize()} passive, but the prior passes information about the input to the code."
        if regime.doubtful:
            return f"{every.capitalize()} passive{doubt}."
        return f"Collapsed: {every} passive, so a sampled code carries no information about the input."
    if regime.constant and regime.rule != "used":
        return f"Collapsed: {every} nothing but noise, whatever their types: all inputs have nearly the same posterior."
    if total == 1:
        return f"The only latent variable is {regime.types[0]}{doubt}."
    verb = "is" if active == 1 else "are"
    counts = f"{active} of {total} latent variables {verb} active, {mixed} mixed, {passive} passive"
    return f"{counts[0].upper()}{counts[1:]}{doubt}."


def advice(
    regime: "Regime", scores: "polars.DataFrame", standard: Pair | None = None, dependable: Pair | None = None
) -> list[str]:
    """Return the advice on a model, one sentence each: what to use, what to drop, what to mistrust and why.

    Args:
        regime: The types.
        scores: The scores of `compare`.
        standard: The total correlation of mean and sample without the variables passive by the standard rule, if these
            differ from those of `regime`.
        dependable: The total correlation of the variables that are used beyond doubt, if some are doubtful.

    Returns:
        The sentences.

    >>> from polarised.metrics.evaluation import compare
    >>> from polarised.regime import Encodings, classify
    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> regime = classify(encodings)
    >>> advice(regime, compare(encodings, regime))[0]
    'Use the mean of variable 0; 1 is passive, but read on before dropping it.'
    """
    sentences = _suspect_inputs(regime)
    kl = float(regime.statistics.kl.sum())
    constant = regime.constant and (regime.rule != "used" or not regime.alive)
    if constant and not regime.prior_driven and kl > PAID * len(regime.types):
        sentences.append(
            f"The KL of {kl:.3g} nats carries no information about the input: it moves the posteriors of all inputs "
            "away from the prior in the same way. Start from fresh weights, at a lower learning rate or with a weaker "
            "penalty."
        )
    elif regime.alive and not constant:
        sentences.append(_what_to_use(regime))
        sentences += _mean_or_sample(regime, scores, dependable) + _about_mixed(regime)
    elif not regime.prior_driven and not regime.doubtful:
        sentences.append(
            "As it is, the sample is noise and the means hardly move. Start from fresh weights with the decoder "
            "variance or beta that `forecast` suggests for your data, and raise beta slowly from 0; collapsed weights "
            "rarely recover. `cure` does this and tests the result on held-out data."
        )
    return sentences + _cautions(regime, scores, standard)


def _suspect_inputs(regime: "Regime") -> list[str]:
    """Say what looks like a mistake in what was passed in, before any advice about the model."""
    statistics, sentences = regime.statistics, []
    if regime.inputs > 1 and (
        np.all(statistics.mean_variance <= SAME * (statistics.mean_mean**2 + statistics.variance_mean))
        and np.all(statistics.variance_variance <= SAME * statistics.variance_mean**2)
    ):
        sentences.append(
            "All inputs have the same posterior to six digits: check that the inputs differ; if they do, the encoder "
            "ignores them."
        )
    wide = [int(j) for j in np.flatnonzero(statistics.ratio_mean > 1.5)]
    if wide and regime.decoder is None:
        are, _, _ = _verbs(wide)
        sentences.append(
            f"{_variables(wide).capitalize()} {are} wider than the prior, which is rare after training: check that "
            "mean and scale are not swapped, that the scale is of the kind you named (variance, log-variance or "
            "standard deviation) and that the prior is the model's own."
        )
    return sentences


def _what_to_use(regime: "Regime") -> str:
    used = regime.alive
    if len(used) == len(regime.types):
        return (
            "Use the mean: it is not noise." if len(used) == 1 else "Use the means of all variables: none is passive."
        )
    use = f"Use the {'mean' if len(used) == 1 else 'means'} of {_variables(used)}"
    if not regime.droppable:
        are, _, them = _verbs(regime.passive)
        return f"{use}; {listed(regime.passive)} {are} passive, but read on before dropping {them}."
    are, _, them = _verbs(regime.droppable)
    return f"{use}; {listed(regime.droppable)} {are} passive: drop {them}."


def _mean_or_sample(regime: "Regime", scores: "polars.DataFrame", dependable: Pair | None) -> list[str]:
    """Report how correlated mean and sample are, with and without passive variables, and why they differ."""
    pairs = _correlations(scores)
    total = len(regime.types)
    if "full" not in pairs:
        return []
    if regime.rows <= total:
        return [f"{regime.rows} inputs are too few to say how {total} variables are correlated: encode more."]
    alive = "_".join(kind for kind in ("active", "mixed") if kind in regime.types)
    whole, lasting = pairs["full"], pairs.get(alive) if regime.passive else pairs["full"]
    if max(*whole, *(lasting or whole)) < 0.005:
        subsets = ", with and without the passive variables" if regime.passive else ""
        return [f"Means and samples have a total correlation below 0.01 nats{subsets}."]
    text = f"The total correlation of the means is {_against(whole)}"
    if regime.passive and lasting is not None:
        text += f"; without the passive variables it is {_against(lasting)}"
    # The bias of the estimate for independent Gaussian variables.
    floor = total * (total - 1) / (4 * regime.rows)
    few = f" With so few inputs {total} independent variables would show about {floor:.2g}." if floor >= 0.1 else ""
    if lasting is None or _agree(lasting):
        return [f"{text}{'' if regime.passive else ': mean and sample agree'}.{few}"]
    if dependable is not None and _agree(dependable):
        doubtful = [j for j in regime.alive if j in regime.doubtful]
        return [f"{text}; without the doubtful {_variables(doubtful)} too it is {_against(dependable)}.{few}"]
    if not regime.mixed:
        reason = "the means are nearly dependent, which even the little noise of active variables hides"
    elif len(regime.active) < 2 or ("active" in pairs and _agree(pairs["active"])):
        named = "mixed variables" if len(regime.mixed) == len(regime.types) else f"mixed {_variables(regime.mixed)}"
        reason = f"the noise of the {named} hides how correlated the means are"
    else:
        reason = "the noise of the sample hides how correlated the means are"
    return [f"{text}: {reason}. Mean and sample are not interchangeable here, so say which one you use.{few}"]


def _correlations(scores: "polars.DataFrame") -> dict[str, Pair]:
    """The total correlation of mean and sample of each subset of variables."""
    found = {
        (row["representation"], row["variables"]): row["value"]
        for row in scores.filter(scores["metric"] == "total_correlation").iter_rows(named=True)
    }
    return {name: (found["mean", name], found["sampled", name]) for kind, name in found if kind == "mean"}


def _about_mixed(regime: "Regime") -> list[str]:
    """Report how each mixed variable is used: on for some inputs, weak for all, or away from the prior mean."""
    kinds: dict[str, list[int]] = {}
    for j in regime.mixed:
        kinds.setdefault(how_mixed(regime, j), []).append(j)
    if len(kinds) > 1:
        each = "; ".join(f"{listed(variables)} ({words})" for words, variables in kinds.items())
        return [f"Keep mixed variables for reconstruction, but do not trust their single values: {each}."]
    are, _, them = _verbs(regime.mixed)
    every = len(regime.mixed) == len(regime.types) > 1
    who = "All variables" if every else _variables(regime.mixed).capitalize()
    return [
        f"{who} {are} mixed ({words}): keep {them} for reconstruction, but do not trust single values."
        for words in kinds
    ]


def _cautions(regime: "Regime", scores: "polars.DataFrame", standard: Pair | None) -> list[str]:
    statistics, cautions = regime.statistics, []
    if regime.inputs < FEW:
        looked = "1 input was" if regime.inputs == 1 else f"{regime.inputs} inputs were"
        cautions.append(f"Only {looked} used: encode a few thousand before trusting this result.")
    cautions += _doubts(regime)
    just = [j for j in regime.fragile if j in regime.passive and j not in regime.doubtful]
    if just and regime.alive:
        are, _, them = _verbs(just)
        cautions.append(
            f"{_variables(just).capitalize()} {are} close to the threshold for passive: other inputs could change the "
            f"type, so keep {them} or use more inputs."
        )
    fragile = [j for j in regime.fragile if j not in just and j not in regime.doubtful]
    if fragile:
        one = len(fragile) == 1
        cautions.append(
            f"The type{'' if one else 's'} of {_variables(fragile)} {'is' if one else 'are'} fragile: "
            f"{'it changes' if one else 'they change'} when other inputs are drawn."
        )
    cautions += _rule_differences(regime, scores, standard)
    hidden = [j for j in regime.passive if statistics.ratio_mean[j] <= regime.alpha]
    if hidden:
        are, _, _ = _verbs(hidden)
        cautions.append(
            f"{_variables(hidden).capitalize()} would pass for active by variance alone, but {are} nothing but noise: "
            "a penalty on the posterior variance moves unused variables there."
        )
    if regime.prior_driven and not (regime.rule == "used" and regime.decoder is not None):
        are, s, them = _verbs(regime.prior_driven)
        cautions.append(
            f"{_variables(regime.prior_driven).capitalize()} follow{s} the prior, but {are} not noise: the prior "
            f"itself depends on the input. Test the decoder (permute or redraw {them}) before dropping {them}."
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
    return cautions


def _doubts(regime: "Regime") -> list[str]:
    """Report which variables the evidence does not decide, and what would decide them."""
    if not regime.doubtful:
        return []
    _, _, them = _verbs(regime.doubtful)
    are = "is" if len(regime.doubtful) == 1 else "are"
    if regime.decoder is None:
        return [
            f"Whether {_variables(regime.doubtful)} {are} used is doubtful: the posterior alone does not decide it. "
            f"Keep {them}, or provide the decoder."
        ]
    use = regime.decoder
    losses = ", ".join(f"{use.permuted[j]:.2f} ± {use.permuted_error[j]:.2f}" for j in regime.doubtful[:8])
    near = [j for j in regime.doubtful if use.doubtful[j]]
    reasons = [f"too close to the threshold of {use.threshold:.2g}"] if near else []
    if len(near) < len(regime.doubtful):
        one = len(regime.doubtful) == 1
        reasons.append(f"less than {'it carries' if one else 'they carry'}, as wide as an unused variable")
    more = "use more inputs" if near else "train longer at a falling learning rate"
    return [
        f"Whether {_variables(regime.doubtful)} {are} used is doubtful: exchanging {them} costs the decoder {losses} "
        f"nats, {' or '.join(reasons)}. Keep {them}, or {more}."
    ]


def _rule_differences(regime: "Regime", scores: "polars.DataFrame", standard: Pair | None) -> list[str]:
    """Report where another rule gives other types, and its effect on the total correlation."""
    other: Rule = "standard" if regime.rule == "used" else "used"
    types = regime.types_at(regime.alpha, rule=other)
    apart: dict[tuple[str, str], list[int]] = {}
    for j, pair in enumerate(zip(regime.types, types, strict=True)):
        apart.setdefault(pair, []).append(j)
    words = [f"{listed(of)} ({here} here, {there} there)" for (here, there), of in apart.items() if here != there]
    if not words:
        return []
    named = {
        "standard": "The published (standard) rule differs",
        "used": f"The default rule and the {regime.rule} rule differ",
    }
    text = f"{named[other]} on {'; on '.join(words)}"
    own = _correlations(scores)
    alive = own.get("_".join(kind for kind in ("active", "mixed") if kind in regime.types))
    if regime.rule != "used" or standard is None or alive is None:
        return [f"{text}."]
    dropped = f"without the variables it calls passive the total correlation is {_against(standard)}"
    return [f"{text}: {dropped}, without the unused ones {_against(alive)}."]


def _agree(pair: Pair) -> bool:
    """Within a tenth of a nat, or of the larger value: a negligible difference."""
    return pair[0] == pair[1] or bool(np.isfinite(pair).all() and abs(pair[0] - pair[1]) <= 0.1 * max(1.0, pair[0]))


def _against(pair: Pair) -> str:
    exact = "infinite (some follow exactly from others)"
    mean, sampled = (f"{value:.2f}" if np.isfinite(value) else exact for value in pair)
    return f"{mean}{' nats' if np.isfinite(pair[0]) else ''} against {sampled} sampled"


def _verbs(variables: Sequence[int]) -> tuple[str, str, str]:
    """The verb, its ending and the pronoun for this number of variables."""
    return ("is", "s", "it") if len(variables) == 1 else ("are", "", "them")


def _variables(variables: Sequence[int]) -> str:
    return f"{'variable' if len(variables) == 1 else 'variables'} {listed(variables)}"


def listed(variables: Sequence[int]) -> str:
    """Return the variables as a list in words, abbreviated if long.

    >>> listed([3]), listed([0, 3, 5])
    ('3', '0, 3 and 5')
    >>> listed(range(100))
    '0, 1, 2, 3, 4, 5, 6, 7, … and 99 (100 of them)'
    """
    words = [str(j) for j in variables]
    if len(words) > 16:
        return f"{', '.join(words[:8])}, … and {words[-1]} ({len(words)} of them)"
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} and {words[-1]}"


def regime_html(regime: "Regime", groups: Mapping[str, Sequence[int]] | None = None) -> str:
    """Return a row for each variable with its type and reason, its KL as a bar, and the evidence."""
    table = regime.table()
    names = {j: name for name, of in (groups or {}).items() for j in of}
    finite = np.nan_to_num(regime.statistics.kl, posinf=0.0)
    widest = max(float(finite.max(initial=0.0)), 1e-9)
    head = ["variable", *(["group"] if names else []), "type", "KL, nats", "", "ratio", "noise", "sure"]
    rows = []
    for row in table.head(MOST).iter_rows(named=True):
        kind, j = row["type"], row["variable"]
        bar = f'<div style="background:{COLOURS[kind]};height:.7em;width:{100 * finite[j] / widest:.1f}%"></div>'
        why = _escaped(str(row.get("why", kind)))
        cells = [
            str(j),
            *([_escaped(names[j])] if names else []),
            f'<span style="color:{COLOURS[kind]}" title="{why}">{MARKS[kind]} {kind}</span>',
            f"{row['kl']:.2f}",
            f'<div style="width:8em">{bar}</div>',
            f"{row['ratio_mean']:.3f}",
            f"{row['noise_share']:.2f}",
            "–" if np.isnan(row["confidence"]) else f"{row['confidence']:.0%}",
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    more = f"<p>… and {len(table) - MOST:,} more.</p>" if len(table) > MOST else ""
    heads = "".join(f"<th>{name}</th>" for name in head)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"


def encodings_html(encodings: "Encodings") -> str:
    """Return how the arrays were interpreted, with the range of each variable's mean and its average variance."""
    mean, variance = encodings.mean[:, :MOST], encodings.variance[:, :MOST]
    rows = "".join(
        f"<tr><td>{j}</td><td>{low:.3g} … {high:.3g}</td><td>{width:.3g}</td></tr>"
        for j, (low, high, width) in enumerate(zip(mean.min(0), mean.max(0), variance.mean(0), strict=True))
    )
    heads = "<th>variable</th><th>means</th><th>average variance</th>"
    return f"<p>{_escaped(repr(encodings))}</p><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def diagnosis_html(
    headline: str, reading: str, regime: "Regime", advice: Sequence[str], groups: Mapping[str, Sequence[int]]
) -> str:
    """Return the headline, how the input was interpreted, the table and the advice."""
    items = "".join(f"<li>{_escaped(sentence)}</li>" for sentence in advice)
    read = f"<p><small>{_escaped(reading)}</small></p>" if reading else ""
    return f"<div><p><b>{_escaped(headline)}</b></p>{read}{regime_html(regime, groups)}<ul>{items}</ul></div>"


def _escaped(text: str) -> str:
    """Return untrusted text as HTML that contains only that text, in logical order."""
    return escape(printable(text))
