"""A progress bar with the loss terms, the rate and the time left; silent when not a terminal."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Reporter", "reporting"]


class Reporter(Protocol):
    """Takes the number of steps done and the latest mean of each term."""

    def __call__(self, done: int, terms: Mapping[str, float]) -> None:
        """Show where training stands."""


@contextmanager
def reporting(start: int, steps: int, *, visible: bool) -> Iterator[Reporter]:
    """Give a reporter that draws a bar on standard error while the block runs."""
    if not visible or not sys.stderr.isatty():
        yield lambda done, terms: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", style="cyan"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[terms]}", style="dim"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=steps, completed=start, rate="", terms="")
        began = shown = time.monotonic()

        def report(done: int, terms: Mapping[str, float]) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown < 0.1 and done < steps:
                return
            shown = now
            rate = (done - start) / max(now - began, 1e-9)
            text = "  ".join(f"{name} {value:.1f}" for name, value in terms.items())
            bar.update(task, completed=done, rate=f"{rate:.0f} steps/s", terms=text)

        yield report
