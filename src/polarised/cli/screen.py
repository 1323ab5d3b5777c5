"""The output of the commands: small tables with a plain sentence, or one JSON object for programs."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polarised._io import plain
from polarised._io.terminal import console
from polarised.errors import ConfigError, printable

if TYPE_CHECKING:
    import polars
    from rich.console import Console, RenderableType
    from rich.table import Table

    from polarised.diagnosis import Diagnosis
    from polarised.regime import Regime

__all__ = [
    "Alpha",
    "Data",
    "Examples",
    "Json",
    "LatentAxis",
    "PixelRange",
    "Quiet",
    "RunSeed",
    "ScaleKind",
    "Seed",
    "TrustScale",
    "TypeRule",
    "as_flags",
    "as_it_is",
    "bullets",
    "console",
    "floor_note",
    "known",
    "numbers",
    "print_json",
    "regime_table",
    "scores_table",
    "show_diagnosis",
    "table",
]

# A symbol next to the colour, so that the type never depends on colour alone.
MARKS = {"active": "[green]● active[/]", "mixed": "[yellow]◆ mixed[/]", "passive": "[dim]○ passive[/]"}


# The columns of the table of variables, in order.
EVIDENCE = ("variable", "type", "why", "ratio_mean", "kl", "noise_share", "confidence")


def as_it_is(text: object) -> str:
    """Escape a text for the screen, so that it is printed verbatim: without markup or control characters.

    >>> as_it_is("|E[r] + E[s] - 1|")
    '|E\\\\[r] + E\\\\[s] - 1|'
    """
    from rich.markup import escape

    return escape(printable(str(text)))


def known(value: float, form: str) -> str:
    """Format a number, or return a dash if it is unknown (nan).

    >>> known(0.5, ".0%"), known(float("nan"), ".0%")
    ('50%', '–')
    """
    return "–" if math.isnan(value) else format(value, form)


def numbers(text: str | None, what: str) -> tuple[int, ...] | None:
    """Parse whole numbers separated by commas, such as the axes of --axis.

    >>> numbers("1,2,3", "--axis"), numbers(None, "--axis")
    ((1, 2, 3), None)
    """
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"expected whole numbers separated by commas for {what}, got {text!r}") from None


def as_flags(sentence: str) -> str:
    """Rewrite the Python arguments in a message of the library as command-line options.

    >>> as_flags("give scale_kind='std', or axis=(1, 2)")
    'give --scale-kind std, or --axis 1,2'
    >>> as_flags("allow a mixed table with mixed=True")
    'allow a mixed table with --mixed'
    """

    def flag(found: "re.Match[str]") -> str:
        value = found[2].strip("'()").replace(", ", ",")
        return f"--{found[1].replace('_', '-')}{'' if value in ('True', '') else f' {value}'}"

    values = r"('[\w./*]+'|\([-\d, ]+\)|-?\d+|True|)"
    return re.sub(
        rf"\b(scale_kind|trust_scale|axis|pixel_range|data|executor|models|reduction|mixed)={values}", flag, sentence
    )


def print_json(values: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output, with "inf", "-inf" and "nan" as strings, since JSON lacks them."""
    typer.echo(json.dumps(plain(values), indent=2, allow_nan=False))


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, note: str = ""
) -> "RenderableType":
    """Return a small table with a title; the first `left` columns are words, the others numbers.

    Of more than 60 rows, only the first 40 are shown, followed by the number of rows left out.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table

    shown = rows[:40] if len(rows) > 60 else rows
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        # In a narrow terminal words may wrap, but numbers may not.
        drawn.add_column(column, justify="left" if i < left else "right", no_wrap=i >= left)
    for row in shown:
        drawn.add_row(*row)
    hidden = f"… and {len(rows) - len(shown)} more; --json lists all" if len(shown) < len(rows) else ""
    notes = [f"[dim]{line}[/dim]\n" for line in (hidden, note) if line]
    return Group(f"[bold]{title}[/bold]", drawn, *notes)


def bullets(sentences: Sequence[str]) -> "Table":
    """Return sentences as a bulleted list with aligned lines."""
    from rich.table import Table

    drawn = Table.grid(padding=(0, 1))
    for sentence in sentences:
        drawn.add_row("•", as_it_is(sentence))
    return drawn


def regime_table(regime: "Regime") -> "RenderableType":
    """Return the table of variables, alive ones first, each with the evidence for its type."""
    order = ["active", "mixed", "passive"]
    records = sorted(regime.table().iter_rows(named=True), key=lambda row: (order.index(row["type"]), -row["kl"]))
    rows = [
        (
            str(row["variable"]),
            MARKS[row["type"]] + (" ?" if row["doubtful"] else ""),
            as_it_is(row["why"].removeprefix(f"{row['type']}: ")) + (", prior-driven" if row["prior_driven"] else ""),
            f"{row['ratio_mean']:.3f}",
            f"{row['kl']:.2f}",
            f"{row['noise_share']:.2f}",
            known(row["confidence"], ".0%"),
        )
        for row in records
    ]
    from polarised.regime.classify import COLUMNS

    columns = [COLUMNS[name] for name in EVIDENCE]
    meanings = [f"{label}: {meaning}" for label, meaning in columns[3:]]
    if any(row["doubtful"] for row in records):
        meanings.append("?: doubtful")
    note = as_it_is("; ".join(meanings))
    return table("Latent variables", [label for label, _ in columns], rows, left=3, note=note)


def floor_note(inputs: int) -> str:
    """Return the value of mutual information to expect for independent variables, in the words of the page.

    >>> floor_note(10_000), floor_note(100)
    ('mutual information: independent variables show about 0.018 here', \
'mutual information: with so few inputs it is far above 0 even for independent variables')
    """
    from polarised.metrics.redundancy import information_floor

    floor = information_floor(inputs)
    expected = f"independent variables show about {floor:.2g} here"
    few = "with so few inputs it is far above 0 even for independent variables"
    return f"mutual information: {expected if floor < 0.5 else few}"


def scores_table(scores: "polars.DataFrame", *, inputs: int, passive: bool = True) -> "RenderableType | None":
    """Return each metric for mean and sample, for all variables and, if some are passive, without these.

    Returns None if there is nothing to compare, because there is only one variable.
    """
    from polarised.registry import names, output
    from polarised.report.theme import SUBSETS

    values = {(r["metric"], r["representation"], r["variables"]): r["value"] for r in scores.iter_rows(named=True)}
    alive = next((name for name in ("active_mixed", "active", "mixed") if any(k[2] == name for k in values)), None)

    subsets = ["full"] if alive is None or not passive else ["full", alive]
    keys = [(representation, variables) for variables in subsets for representation in ("mean", "sampled")]
    rows = [
        (output(metric).label, *(f"{values[metric, *key]:.3f}" if (metric, *key) in values else "–" for key in keys))
        for metric in names("metric")
        if (metric, "mean", "full") in values
    ]
    columns = ("", "mean", "sampled", f"mean,\n{SUBSETS['alive']}", f"sampled,\n{SUBSETS['alive']}")
    notes = [
        "sampled: z drawn from q(z|x), as the decoder sees it in training; mean: the mean of q(z|x), as most use it"
    ]
    if ("mutual_information", "mean", "full") in values:
        notes.append(floor_note(inputs))
    return table("Mean or sample?", columns[: 1 + len(keys)], rows, note="; ".join(notes)) if rows else None


def show_diagnosis(diagnosis: "Diagnosis", screen: "Console") -> None:
    """Print the headline, the two tables and the advice."""
    screen.print(f"\n[bold]{as_it_is(diagnosis.headline)}[/bold]\n")
    screen.print(regime_table(diagnosis.regime))
    compared = scores_table(diagnosis.scores, inputs=diagnosis.regime.rows, passive=bool(diagnosis.regime.passive))
    if compared is not None:
        screen.print(compared)
    screen.print(bullets(diagnosis.advice))


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


Seed = Annotated[int, typer.Option(help="Random seed.", min=0)]


RunSeed = Annotated[int | None, typer.Option(help="Random seed; default: 0, or the run's.", min=0)]


Data = Annotated[
    str | None,
    typer.Option(
        help="Data to encode: a dataset's name, an .npz, a folder of images, an .h5ad; default: the model's own."
    ),
]


Examples = Annotated[int | None, typer.Option(help="Images to encode; default: 10,000.", min=2)]


Alpha = Annotated[
    float | None, typer.Option(help="Threshold for the types; default: 0.1, or the run's own.", min=0.001, max=0.499)
]


ScaleKind = Annotated[
    Literal["variance", "log_variance", "std", "log_std"] | None,
    typer.Option(help="What the scale given with the mean is; default: from its name."),
]


LatentAxis = Annotated[
    str | None,
    typer.Option(help="Axis of the latent variables: 1 (channels first), -1 (last), or several: 1,2,3."),
]


PixelRange = Annotated[
    str | None, typer.Option(help="Pixel range the model was trained on: 0,1 or -1,1; images are rescaled to it.")
]


TrustScale = Annotated[
    bool, typer.Option("--trust-scale", help="Do not check whether the values are plausible for the scale kind.")
]


TypeRule = Annotated[Literal["used", "relative", "standard"], typer.Option(help="Rule that decides the types.")]
