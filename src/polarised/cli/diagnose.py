"""`polarised diagnose`: which variables of a model, anybody's, are alive."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from polarised.cli.screen import (
    MARKS,
    Alpha,
    Data,
    Examples,
    Json,
    LatentAxis,
    PixelRange,
    Quiet,
    RunSeed,
    ScaleKind,
    TrustScale,
    TypeRule,
    as_it_is,
    console,
    known,
    numbers,
    print_json,
    show_diagnosis,
    table,
)

if TYPE_CHECKING:
    from rich.console import Console

    from polarised.diagnosis import Diagnosis

__all__ = ["diagnose"]

COSTS = ("permuted", "redrawn")


def diagnose(
    targets: Annotated[
        list[Path],
        typer.Argument(
            help="A run directory; files of arrays (.npz, .npy, .parquet, .csv, .pt, .safetensors, .h5ad; many are one "
            "model); the folder of a model of diffusers, pythae, scvi-tools or disentangling-vae; a run of "
            "disentanglement_lib or its zip.",
            show_default=False,
        ),
    ],
    data: Data = None,
    alpha: Alpha = None,
    rule: TypeRule = "used",
    scale_kind: ScaleKind = None,
    trust_scale: TrustScale = False,
    axis: LatentAxis = None,
    pixel_range: PixelRange = None,
    examples: Examples = None,
    executor: Annotated[Literal["local", "ray"], typer.Option(help="Where to read files of arrays.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a running Ray cluster.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="File of the page; default: report.html in a run's folder, else NAME.html here.")
    ] = None,
    page: Annotated[
        bool, typer.Option(help="Write the page (with --quiet and --json only where --html names it).")
    ] = True,
    details: Annotated[bool, typer.Option("--details", help="Also other papers' rules and other thresholds.")] = False,
    seed: RunSeed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say which latent variables are active, mixed or passive, on what evidence, and what to do about it.

    Example: [bold]polarised diagnose runs/my-run[/bold]  or  [bold]polarised diagnose codes.npz --details[/bold]
    """
    from polarised.diagnosis import diagnose as diagnosed

    axes, pixels = numbers(axis, "--axis"), numbers(pixel_range, "--pixel-range")
    diagnosis = diagnosed(
        targets,
        data,
        examples=examples,
        alpha=alpha,
        rule=rule,
        seed=seed,
        scale_kind=scale_kind,
        trust_scale=trust_scale,
        axis=axes[0] if axes is not None and len(axes) == 1 else axes,
        pixel_range=None if pixels is None else (pixels[0], pixels[-1]),
        executor=executor,
        address=address,
        progress=None if not (quiet or json) else False,
    )
    if html is None and page and not (json or quiet):
        from polarised.report.page import page_of

        html = page_of(targets, diagnosis.name)
    written = None if html is None else diagnosis.report(html)
    if json:
        print_json({**diagnosis.to_dict(), "page": written})
        return
    screen = console(quiet=quiet)
    regime = diagnosis.regime
    inputs = diagnosis.reading
    settings = f"{inputs}, {regime.rule} rule, alpha {regime.alpha:g}"
    screen.print(f"[dim]{as_it_is(diagnosis.name)}, {settings}[/dim]")
    show_diagnosis(diagnosis, screen)
    if diagnosis.decoder_use is not None:
        _show_decoder_use(diagnosis, screen)
    if details:
        _show_details(diagnosis, screen)
    if written is not None:
        screen.print(f"\nThe page: [bold]{as_it_is(written)}[/bold]", soft_wrap=True)


def _show_decoder_use(diagnosis: "Diagnosis", screen: "Console") -> None:
    if diagnosis.decoder_use is None:
        return
    rows = [
        (str(row["variable"]), MARKS[diagnosis.regime.types[row["variable"]]], *(f"{row[k]:,.2f}" for k in COSTS))
        for row in diagnosis.decoder_use.sort("permuted", descending=True).iter_rows(named=True)
    ]
    title = "What the decoder loses when a variable is replaced (nats an image)"
    note = "permuted: by its value for another image; redrawn: by a draw from its prior"
    screen.print("", table(title, ("variable", "type", *COSTS), rows, left=2, note=note))


def _show_details(diagnosis: "Diagnosis", screen: "Console") -> None:
    from polarised.regime.advice import listed
    from polarised.regime.classify import OTHER_RULES

    if diagnosis.other_rules is not None:
        frame = diagnosis.other_rules
        found = {rule: frame.filter(frame[rule])["variable"].to_list() for rule in OTHER_RULES if rule in frame.columns}
        counted = [
            (OTHER_RULES[rule], "all" if len(of) == len(frame) else listed(of) or "none", str(len(of)))
            for rule, of in found.items()
        ]
        screen.print(table("Which variables count, by whose rule", ("rule", "variables", "count"), counted, left=2))
    if diagnosis.sensitivity is not None:
        letters = {"active": "A", "mixed": "M", "passive": "p"}
        # Those that change come first: of many variables only some are shown.
        rows = sorted(diagnosis.sensitivity.iter_rows(), key=lambda row: len(set(row[1:])), reverse=True)
        changing = [(str(variable), *(letters[kind] for kind in kinds)) for variable, *kinds in rows]
        title = "Type at other values of alpha (A active, M mixed, p passive)"
        columns = tuple(column.removeprefix("alpha ") for column in diagnosis.sensitivity.columns)
        screen.print(table(title, columns, changing))
    certain = [
        (
            str(row["variable"]),
            MARKS[row["type"]],
            f"{row['distance']:.3f}",
            "> 999" if row["distance_errors"] >= 1000 else known(row["distance_errors"], ".0f"),
            known(row["confidence"], ".1%"),
        )
        for row in diagnosis.regime.table().sort("distance_errors", maintain_order=True).iter_rows(named=True)
    ]
    columns = ("variable", "type", "distance to a threshold", "in standard errors", "survives resampling")
    screen.print(table("How certain, the least first", columns, certain, left=2))
