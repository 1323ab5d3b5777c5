"""A study before the reader's eyes: done, running, failed, how fast, how long still; silent when not a terminal."""

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from polarised.study.conduct import Progress

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["duration", "follow", "pace"]


def follow(progress: Iterable[Progress], *, quiet: bool = False) -> Progress | None:
    """Go through a study to its end, showing how it stands; return how it ended (None: there was nothing)."""
    from rich.console import Console

    screen = Console(stderr=True, quiet=quiet, highlight=False, emoji=False)
    if quiet or not sys.stderr.isatty():
        return _plainly(progress, screen)
    from rich.live import Live

    began, last = time.monotonic(), None

    def line() -> str:
        return _line(last, time.monotonic() - began, screen.width)

    with Live(console=screen, refresh_per_second=4, get_renderable=line):
        for last in progress:
            _tell_failure(last, screen)
    return last


def duration(seconds: float) -> str:
    """Return a length of time in words.

    >>> duration(42), duration(4000), duration(200_000)
    ('42 s', '1 h 06 min', '2.3 days')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 86_400:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"
    return f"{seconds / 86_400:.1f} days"


def pace(finished: Sequence[float], left: int, now: float) -> str:
    """Return how fast runs were finished in the last hour, and what that means for those left.

    >>> pace([0.0, 600.0, 1200.0], left=6, now=1800.0)
    '3 in the last 30 min: about 1 h 00 min left'
    """
    recent = [moment for moment in finished if now - moment < 3600]
    if not recent or not left:
        return ""
    span = now - min(recent)
    return f"{len(recent)} in the last {duration(span)}: about {duration(left * span / len(recent))} left"


def _plainly(progress: Iterable[Progress], screen: "Console") -> Progress | None:
    last = None
    for last in progress:
        _tell_failure(last, screen)
    return last


def _tell_failure(progress: Progress, screen: "Console") -> None:
    from rich.markup import escape

    event = progress.latest
    if event is not None and event.state in ("failed", "lost"):
        # A reason is whatever some library said, brackets included.
        screen.print(f"[red]{event.state}[/] {event.run.name}: {escape(event.reason)}", soft_wrap=True)


def _line(progress: Progress | None, elapsed: float, width: int) -> str:
    """Return how a study stands in a line of `width` characters; where room is short, the least of it is left out."""
    from rich.text import Text

    if progress is None:
        return "looking at what is done …"
    # (how much it matters, what is said), in the order it is read.
    parts = [(9, f"[bold]{progress.done + progress.earlier}[/] of {progress.total} done")]
    if progress.running:
        parts.append((5, f"{len(progress.running)} running"))
    parts.append((8, f"[red]{progress.failed} failed[/]") if progress.failed else (4, "none failed"))
    if progress.done:
        parts.append((2, f"{progress.seconds / progress.done:.0f} s a run"))
        parts.append((1, f"{3600 * progress.done / elapsed:.0f} runs an hour"))
    steps = progress.steps_taken()
    if steps:
        parts.append((3, f"{steps / elapsed:.0f} steps/s"))
    left = progress.steps_wanted - steps
    if steps and left > 0:
        parts.append((7, f"{duration(left * elapsed / steps)} left"))
    parts.append((6, f"{duration(elapsed)} so far"))
    while len(parts) > 1 and Text.from_markup(" · ".join(words for _, words in parts)).cell_len > width:
        parts.remove(min(parts))
    return " · ".join(words for _, words in parts)
