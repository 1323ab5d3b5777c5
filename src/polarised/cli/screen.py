"""What the commands print: small tables with a plain sentence, or one JSON object for machines."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import polars
    from rich.console import Console
    from rich.table import Table

    from polarised.diagnosis import Diagnosis
    from polarised.representations import Regime

__all__ = [
    "Json",
    "Quiet",
    "as_it_is",
    "console",
    "print_json",
    "regime_table",
    "scores_table",
    "show_diagnosis",
    "table",
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]

# A mark beside the colour, so that the type is never told by colour alone.
MARKS = {"active": "[green]● active[/]", "mixed": "[yellow]◐ mixed[/]", "passive": "[dim]○ passive[/]"}
METRICS = {
    "total_correlation": "total correlation",
    "mutual_information": "mutual information",
    "effective_rank": "effective rank",
    "wasserstein_correlation": "Wasserstein correlation",
}


def console(*, quiet: bool = False) -> "Console":
    """Return the console the commands print to; a quiet one prints nothing."""
    from rich.console import Console

    return Console(quiet=quiet, highlight=False, emoji=False)


def as_it_is(text: object) -> str:
    """Return a text not written for the screen so that it is shown as it is: a bracket in it is no markup.

    >>> as_it_is("|E[r] + E[s] - 1|")
    '|E\\\\[r] + E\\\\[s] - 1|'
    """
    from rich.markup import escape

    return escape(str(text))


def print_json(values: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output."""
    typer.echo(json.dumps(values, indent=2, default=str))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> "Table":
    """Return a small table; the first `left` columns are words, the rest numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    drawn = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for i, column in enumerate(columns):
        drawn.add_column(column, justify="left" if i < left else "right")
    for row in rows:
        drawn.add_row(*row)
    return drawn


def regime_table(regime: "Regime") -> "Table":
    """Return the variables, alive ones first, each with the evidence for its type."""
    order = ["active", "mixed", "passive"]
    records = sorted(regime.table().iter_rows(named=True), key=lambda row: (order.index(row["type"]), -row["kl"]))
    rows = [
        (
            str(row["variable"]),
            MARKS[row["type"]],
            f"{row['ratio_mean']:.3f}",
            f"{row['ratio_variance']:.3f}",
            f"{row['kl']:.2f}",
            f"{row['noise_share']:.2f}",
            f"{row['confidence']:.0%}",
            " ".join(flag.replace("_", "-") for flag in ("prior_driven",) if row[flag]),
        )
        for row in records
    ]
    columns = ("variable", "type", "ratio", "spread", "KL, nats", "noise share", "sure", "")
    return table("Latent variables", columns, rows, left=2)


def scores_table(scores: "polars.DataFrame") -> "Table":
    """Return each metric for mean and sample: all variables, and without the passive ones."""
    values = {(r["metric"], r["representation"], r["variables"]): r["value"] for r in scores.iter_rows(named=True)}
    alive = next((name for name in ("active_mixed", "active", "mixed") if any(k[2] == name for k in values)), None)

    def cell(metric: str, representation: str, variables: str | None) -> str:
        value = values.get((metric, representation, variables or ""))
        return "–" if value is None else f"{value:.3f}"

    rows = [
        (
            words,
            cell(metric, "mean", "full"),
            cell(metric, "sampled", "full"),
            cell(metric, "mean", alive),
            cell(metric, "sampled", alive),
        )
        for metric, words in METRICS.items()
        if (metric, "mean", "full") in values
    ]
    columns = ("", "mean", "sampled", "mean, alive", "sampled, alive")
    return table("Mean or sample?", columns, rows)


def show_diagnosis(diagnosis: "Diagnosis", screen: "Console") -> None:
    """Print the headline, both tables and the advice."""
    screen.print(f"\n[bold]{as_it_is(diagnosis.headline)}[/bold]\n")
    screen.print(regime_table(diagnosis.regime))
    screen.print(scores_table(diagnosis.scores))
    for sentence in diagnosis.advice:
        screen.print(f"• {as_it_is(sentence)}", soft_wrap=False)
