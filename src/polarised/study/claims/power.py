"""What a study can decide before it runs: the effect that its planned seeds settle, claim by claim."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from polarised.study.claims.check import RESERVED_SEEDS
from polarised.study.claims.claim import Claim
from polarised.study.claims.decisions import Kind, decidable_effect
from polarised.study.grid import Point

__all__ = ["Power", "decidable"]


@dataclass(frozen=True)
class Power:
    """What the planned seeds can decide about one statistic of a claim, in four studies of five.

    `effect` is the distance from the margin in standard deviations between seeds for a mean or a median, and the share
    of seeds on one side for a sign or a share; `size` is the same in the statistic's unit where the spread is known.
    """

    claim: str
    statistic: str
    kind: Kind
    seeds: int
    effect: float | None
    size: float | None

    @property
    def words(self) -> str:
        """The effect in words.

        >>> Power("RTC-F3L", "gap", "mean", 3, None, None).words
        'nothing: 6 seeds are the fewest'
        >>> Power("DD-F2iso", "score", "mean", 34, 0.5, 0.05).words
        '0.5 standard deviations between seeds from the margin, 0.05'
        """
        if self.effect is None:
            return "nothing: 6 seeds are the fewest"
        if self.kind in ("sign", "share"):
            return f"{self.effect:.0%} of seeds on one side"
        size = "" if self.size is None else f", {self.size:.2g}"
        return f"{self.effect:.2g} standard deviations between seeds from the margin{size}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON types."""
        return asdict(self)


def decidable(claims: Iterable[Claim], points: Iterable[Point]) -> tuple[Power, ...]:
    """Return for each claim which effect the seeds of a planned study can decide.

    Args:
        claims: The claims of the study.
        points: Its runs, as they are planned.

    Returns:
        One entry for each statistic of a claim that some method of the study is about; of several methods and datasets
        the one with the fewest seeds counts.
    """
    seeds: dict[tuple[str, str], set[int]] = {}
    for point in points:
        seed = int(point.labels["seed"])
        if seed < RESERVED_SEEDS:
            seeds.setdefault((str(point.labels["method"]), str(point.labels["dataset"])), set()).add(seed)
    found = []
    for claim in claims:
        counts = [len(own) for (method, _), own in seeds.items() if claim.concerns(method)]
        for statistic in claim.statistics if counts else ():
            fewest = min(counts)
            effect = decidable_effect(fewest, kind=statistic.kind) if fewest >= claim.least_seeds else None
            spread = getattr(statistic, "spread", None)
            size = effect * spread if effect is not None and spread is not None else None
            found.append(Power(claim.id, statistic.words, statistic.kind, fewest, effect, size))
    return tuple(found)
