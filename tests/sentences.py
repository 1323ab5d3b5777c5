"""Whether the sentences of a diagnosis agree with its types and with each other."""

import re

from polarised.diagnosis import Diagnosis

NUMBERS = r"[0-9]+(?:, [0-9]+)*(?: and [0-9]+)?"


def variables(text: str) -> list[int]:
    """The variables named in a list in words."""
    return [int(number) for number in re.findall(r"[0-9]+", text)]


def contradictions(diagnosis: Diagnosis) -> list[str]:
    """Return the contradictions between the sentences of a diagnosis and its types; abbreviated lists are skipped."""
    regime, found = diagnosis.regime, []

    def hold(agrees: bool, what: str) -> None:
        if not agrees:
            found.append(what)

    for j, (kind, words) in enumerate(zip(regime.types, regime.why, strict=True)):
        hold(words.startswith(f"{kind}: "), f"variable {j} is {kind}, its reason is {words!r}")
        hold(("doubtful" in words) == (j in regime.doubtful), f"doubt about variable {j}: {words!r}")
        if regime.rule == "used":
            hold("does not read" not in words or kind == "passive", f"variable {j} is {kind} and not read")
    counted = re.match(
        r"([0-9]+|None) of [0-9]+ latent variables (?:is|are) active, (\w+) mixed, (\w+) passive", diagnosis.headline
    )
    if counted:
        numbers = [0 if word.lower() == "none" else int(word) for word in counted.groups()]
        kinds = [len(regime.active), len(regime.mixed), len(regime.passive)]
        hold(numbers == kinds, f"{diagnosis.headline!r} with {kinds}")
    used = [sentence for sentence in diagnosis.advice if sentence.startswith("Use the mean")]
    hold(not (diagnosis.headline.startswith("Collapsed") and used), f"{diagnosis.headline!r} and {used}")
    for sentence in diagnosis.advice:
        if "…" in sentence:
            continue
        if match := re.match(rf"Use the means? of variables? ({NUMBERS}); ({NUMBERS}) (?:is|are) passive", sentence):
            named, passive = map(variables, match.groups())
            hold(named == regime.alive, f"{sentence!r} with {regime.alive} alive")
            dropped = "drop it." in sentence or "drop them." in sentence
            hold(passive == (regime.droppable if dropped else regime.passive), f"{sentence!r} with {regime.passive}")
            hold(
                not set(passive) & set(regime.doubtful) or not dropped, f"{sentence!r} with {regime.doubtful} doubtful"
            )
        hold("none is passive" not in sentence or not regime.passive, f"{sentence!r} with {regime.passive}")
        if match := re.match(rf"Whether variables? ({NUMBERS}) (?:is|are) used is doubtful", sentence):
            hold(variables(match[1]) == regime.doubtful, f"{sentence!r} with {regime.doubtful}")
        if match := re.search(rf"without the doubtful variables? ({NUMBERS}) too", sentence):
            left = [j for j in regime.alive if j in regime.doubtful]
            hold(variables(match[1]) == left, f"{sentence!r} with {left} used and doubtful")
            hold("not interchangeable" not in sentence, f"{sentence!r} closes the gap and keeps it")
        if match := re.match(rf"Variables? ({NUMBERS}) (?:is|are) mixed", sentence):
            hold(variables(match[1]) == regime.mixed, f"{sentence!r} with {regime.mixed}")
        if match := re.match(rf"Variables? ({NUMBERS}) (?:is|are) close to the threshold for passive", sentence):
            hold(set(variables(match[1])) <= set(regime.passive), f"{sentence!r} with {regime.passive}")
            hold(not set(variables(match[1])) & set(regime.droppable), f"{sentence!r} with {regime.droppable}")
        if match := re.match(rf"Variables? ({NUMBERS}) would pass for active", sentence):
            hold(set(variables(match[1])) <= set(regime.passive), f"{sentence!r} with {regime.passive}")
    agree = any("mean and sample agree" in sentence for sentence in diagnosis.advice)
    apart = any("not interchangeable" in sentence for sentence in diagnosis.advice)
    hold(not (agree and apart), "mean and sample agree and are not interchangeable")
    return found
