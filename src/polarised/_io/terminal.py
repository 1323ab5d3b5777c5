"""The only place that creates consoles: untrusted text printed on them cannot move the cursor."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from polarised.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console"]


def console(*, stderr: bool = False, quiet: bool = False) -> "Console":
    """Return a console on which no text can move the cursor, whether printed in a line, a table or a progress bar.

    Args:
        stderr: Whether it prints to standard error.
        quiet: Whether it prints nothing.

    Returns:
        The console, which interprets markup: untrusted text must be escaped, or printed without markup.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Screen(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            # All output passes here in segments; those of rich itself are marked as control.
            for piece in super().render(renderable, options):
                yield piece if piece.control else Segment(printable(piece.text), piece.style)

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(printable(text), **options)

    return Screen(stderr=stderr, quiet=quiet, highlight=False, emoji=False)
