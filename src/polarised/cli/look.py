"""Commands that analyse models: `polarised diagnose`, `evaluate`, `report` and `explore`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    Seed,
    TrustScale,
    TypeRule,
    as_it_is,
    console,
    floor_note,
    known,
    numbers,
    print_json,
    show_diagnosis,
    table,
)
from polarised.errors import printable
from polarised.schemas import stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from polarised.adapters.targets import Target
    from polarised.diagnosis import Diagnosis
    from polarised.regime import Encodings

__all__ = ["diagnose", "evaluate", "explore", "report"]

COSTS = ("permuted", "redrawn")


def diagnose(
    targets: Annotated[
        list[str],
        typer.Argument(
            help="A run directory; files of arrays (.npz, .npy, .parquet, .csv, .pt, .safetensors, .h5ad), taken as "
            "one model; the folder of a model of diffusers, pythae, scvi-tools or disentangling-vae; a run of "
            "disentanglement_lib or its zip; addresses of files (s3://bucket/*.npz).",
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
    executor: Annotated[Literal["local", "ray"], typer.Option(help="Where files of arrays are read.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a running Ray cluster.")] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="File of the report page; default: report.html in the run's folder, or NAME.html here."),
    ] = None,
    page: Annotated[
        bool, typer.Option(help="Write the report page (with --quiet or --json only if --html is given).")
    ] = True,
    details: Annotated[
        bool, typer.Option("--details", help="Also show the rules of other papers and other thresholds.")
    ] = False,
    seed: RunSeed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show which latent variables are active, mixed or passive, the evidence, and what to do.

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

        html = page_of([Path(target) for target in targets], diagnosis.name)
    written = None if html is None else diagnosis.report(html)
    if json:
        print_json({**diagnosis.to_dict(), "page": written})
        return
    screen = console(quiet=quiet)
    regime = diagnosis.regime
    inputs = diagnosis.reading
    settings = f"{inputs}, {regime.rule} rule, alpha {regime.alpha:g}"
    screen.print(f"[dim]{as_it_is(diagnosis.name)}, {as_it_is(settings)}[/dim]")
    show_diagnosis(diagnosis, screen)
    if diagnosis.decoder_use is not None:
        _show_decoder_use(diagnosis, screen)
    if details:
        _show_details(diagnosis, screen)
    if written is not None:
        screen.print(f"\nPage: [bold]{as_it_is(written)}[/bold]", soft_wrap=True)


def _show_decoder_use(diagnosis: "Diagnosis", screen: "Console") -> None:
    if diagnosis.decoder_use is None:
        return
    rows = [
        (str(row["variable"]), MARKS[diagnosis.regime.types[row["variable"]]], *(f"{row[k]:,.2f}" for k in COSTS))
        for row in diagnosis.decoder_use.sort("permuted", descending=True).iter_rows(named=True)
    ]
    title = "What the decoder loses when a variable is replaced (nats per image)"
    note = "permuted: by its value for another image; redrawn: by a sample from its prior"
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
        screen.print(
            table("Active variables by the rules of other papers", ("rule", "variables", "count"), counted, left=2)
        )
    if diagnosis.sensitivity is not None:
        letters = {"active": "A", "mixed": "M", "passive": "P"}
        # Variables whose type changes come first, because long tables are cut off.
        rows = sorted(diagnosis.sensitivity.iter_rows(), key=lambda row: len(set(row[1:])), reverse=True)
        changing = [(str(variable), *(letters[kind] for kind in kinds)) for variable, *kinds in rows]
        title = "Type at other values of alpha (A active, M mixed, P passive)"
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
    columns = ("variable", "type", "distance", "in errors", "sure")
    note = "distance: to the nearest threshold, also in standard errors; sure: how often the type survives resampling"
    screen.print(table("Certainty of the types, least certain first", columns, certain, left=2, note=note))


def evaluate(
    target: Annotated[
        Path,
        typer.Argument(
            help="As for diagnose: a run directory, arrays (.npz, .npy, .parquet), a published model.",
            show_default=False,
        ),
    ],
    metrics: Annotated[str, typer.Option(help="Names separated by commas, or all.")] = "all",
    representation: Annotated[Literal["both", "mean", "sampled"], typer.Option(help="Which code to score.")] = "both",
    data: Data = None,
    scale_kind: ScaleKind = None,
    examples: Annotated[int, typer.Option(help="Inputs to score.", min=2)] = 10_000,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Score the mean and the sampled code with the metrics of the literature.

    If factors are known (an array of that name, or a model with its data), also score how the variables represent
    them. For a model, factor_vae_score and beta_vae_score run only if named: each encodes about a million images.

    Example: [bold]polarised evaluate runs/my-run --metrics total_correlation,mig,dci[/bold]
    """
    from polarised.adapters.targets import open_target
    from polarised.metrics.evaluation import evaluate as score
    from polarised.registry import names as known_names
    from polarised.registry import record

    opened = open_target(target)
    encodings = _encoded(opened, data, scale_kind, examples, seed)
    kinds: tuple[Literal["mean", "sampled"], ...] = (
        ("mean", "sampled") if representation == "both" else (representation,)
    )
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    everything = names == ["all"]
    # Arrays contain the codes of a fixed set of images; a model with its data can encode others.
    drawn = opened.kind != "arrays" and not everything and any("drawing" in record("metric", n).needs for n in names)
    draw = _drawing(opened, data, seed) if drawn else None
    scores = score(encodings, metrics="all" if everything else names, representation=kinds, draw=draw, seed=seed)
    if json:
        print_json(stamp("evaluation", {"target": str(target), "seed": seed, "scores": scores.to_dicts()}))
        return
    screen = console(quiet=quiet)
    _show_scores(scores.to_dicts(), len(encodings), screen)
    if everything and encodings.factors is None:
        without = [name for name in known_names("metric") if "factors" in record("metric", name).needs]
        screen.print(f"\nNot computed, because these encodings have no factors: {', '.join(without)}.")


def _encoded(opened: "Target", data: str | None, scale_kind: Any, examples: int, seed: int) -> "Encodings":
    if opened.kind == "arrays":
        from polarised.adapters.arrays import from_arrays

        return from_arrays(opened.path, scale_kind=scale_kind, examples=examples)
    if opened.kind == "run" and data is None:
        from polarised.adapters.arrays import from_arrays

        return from_arrays(opened.path / "encodings.npz", examples=examples)
    from polarised.models.encoding import from_vae

    return from_vae(opened.vae(), _images(opened, data), examples=examples, seed=seed)


def _images(opened: "Target", data: str | None) -> Any:
    from polarised.adapters.targets import images_named

    return opened.data() if data is None else images_named(data)


def _drawing(opened: "Target", data: str | None, seed: int) -> "Callable[[Any], Any]":
    """Return a function that encodes images with any combination of factors, for scores that hold a factor fixed."""
    from polarised.models.encoding import represent_by_drawing

    vae, images = opened.vae(), _images(opened, data)
    return lambda kind: represent_by_drawing(vae, images, kind, seed=seed)


def _show_scores(scores: list[dict[str, object]], inputs: int, screen: "Console") -> None:
    from rich.table import Table

    values = {(str(row["metric"]), str(row["representation"])): row["value"] for row in scores}
    readings = {str(row["metric"]): str(row["reading"]) for row in scores}
    kinds = list(dict.fromkeys(str(row["representation"]) for row in scores))
    rows = [
        (as_it_is(name), *(f"{values[name, kind]:.3f}" if (name, kind) in values else "–" for kind in kinds))
        for name in readings
    ]
    note = floor_note(inputs) if "mutual_information" in readings else ""
    screen.print(table("Scores", ("metric", *kinds), rows, note=note))
    drawn = Table.grid(padding=(0, 2))
    for name, sentence in readings.items():
        drawn.add_row(as_it_is(name), as_it_is(sentence))
    screen.print("[bold]How to read them[/bold]\n", drawn, sep="")


def report(
    targets: Annotated[
        list[Path],
        typer.Argument(
            help="A run directory, a study's folder, a file of arrays or a published model; several are compared.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; default: report.html in the run's or study's folder, or NAME.html here."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    data: Data = None,
    alpha: Alpha = None,
    rule: Annotated[
        Literal["used", "relative", "standard"] | None, typer.Option(help="Rule that decides the types; default: used.")
    ] = None,
    scale_kind: ScaleKind = None,
    examples: Examples = None,
    seed: RunSeed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write one self-contained HTML page about a model, several side by side, or a study.

    Example: [bold]polarised report runs/my-run[/bold]  or  [bold]polarised report runs/a runs/b codes.npz[/bold]
    """
    from polarised.report import write

    page = write(
        targets,
        out,
        title=title,
        data=data,
        alpha=alpha,
        rule=rule,
        scale_kind=scale_kind,
        examples=examples,
        seed=seed,
    )
    if json:
        print_json(stamp("report", {"page": str(page), "bytes": page.stat().st_size}))
    else:
        console(quiet=quiet).print(f"Page: [bold]{as_it_is(page)}[/bold]", soft_wrap=True)


def explore(
    target: Annotated[
        Path,
        typer.Argument(
            help="A run directory, a published model, or the folder of a model of pythae, diffusers or scvi-tools.",
            show_default=False,
        ),
    ],
    data: Annotated[
        str | None, typer.Option(help="Inputs to show: a dataset's name, an .npz, a folder of images or an .h5ad.")
    ] = None,
    pixel_range: PixelRange = None,
    port: Annotated[int, typer.Option(help="Port on this machine; 0: any free port.", min=0, max=65535)] = 0,
    browse: Annotated[bool, typer.Option(help="Open the page in the browser (not with --json).")] = True,
    json: Json = False,
) -> None:
    """Open a page with sliders that decode live; it is local to this machine, and Ctrl-C ends it.

    Example: [bold]polarised explore runs/my-run[/bold]  or  [bold]polarised explore sd/vae --data pictures[/bold]
    """
    import webbrowser

    from polarised.report.explore import ExploreServer, open_exploration

    pixels = numbers(pixel_range, "--pixel-range")
    shown = open_exploration(target, data=data, pixel_range=None if pixels is None else (pixels[0], pixels[-1]))
    with ExploreServer(shown, port=port) as server:
        try:
            if json:
                print_json({"target": str(target), "address": server.address})
            else:
                typer.echo(f"Exploring {printable(str(target))} at {server.address} (press Ctrl-C to stop)")
            if browse and not json:
                webbrowser.open(server.address)
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            typer.echo("Stopped.", err=json)
