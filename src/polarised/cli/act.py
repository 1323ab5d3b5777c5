"""Commands that make models: `polarised train`, `cure` and `prune`; and `polarised demo`, which shows all steps."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from polarised.cli.screen import (
    Alpha,
    Json,
    PixelRange,
    Quiet,
    Seed,
    TypeRule,
    as_it_is,
    console,
    numbers,
    print_json,
    show_diagnosis,
    table,
)

if TYPE_CHECKING:
    from polarised.pruning import PrunedModel

__all__ = ["cure", "demo", "prune", "train"]


def train(
    config: Annotated[Path, typer.Argument(help="YAML file with the settings.")],
    settings: Annotated[list[str] | None, typer.Argument(help="Overrides such as training.steps=1000.")] = None,
    out: Annotated[Path, typer.Option(help="Folder that holds run directories.")] = Path("runs"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train and measure one model; the same command resumes an interrupted run.

    Example: [bold]polarised train beta.yaml objective.beta=8 seed=1[/bold]
    """
    from polarised.diagnosis import diagnose
    from polarised.study import train as train_run
    from polarised.training import keep_freed_memory

    keep_freed_memory()
    screen = console(quiet=quiet or json)
    directory = train_run(
        config,
        settings=settings or [],
        out=out,
        progress=not quiet,
        tell=None if quiet or json else lambda line: screen.print(f"[dim]{as_it_is(line)}[/dim]", soft_wrap=True),
    )
    diagnosis = diagnose(directory)
    if json:
        print_json({**diagnosis.to_dict(), "directory": str(directory)})
    else:
        show_diagnosis(diagnosis, screen)
        if settled := _settled(directory):
            screen.print(f"\n{settled}", soft_wrap=True)
        screen.print(f"\nRun: [bold]{as_it_is(directory)}[/bold]")


def _settled(directory: Path) -> str:
    """Return whether a run settled and when, or nothing if it has no `settling`."""
    from polarised._io.tables import read_table

    path = directory / "settling.parquet"
    if not path.exists():
        return ""
    found = dict(read_table(path, columns={"metric": "text", "value": "number"}).select("metric", "value").iter_rows())
    if found.get("settled"):
        return f"Settled at step {found['settled_step']:,.0f}; the learning rate then fell to 0."
    return "Not settled: the types or KLs still changed when the steps ran out. Raise training.steps to train longer."


def cure(
    target: Annotated[Path, typer.Argument(help="The directory of a trained run.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for trials, model and page; default: <run>-cured next to the run.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of each trial; default: the run's.", min=20)] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find out why a model collapsed, try cures in order, and evaluate the best one on held-out data.

    The run itself is not changed. The same command resumes an interrupted cure.

    Example: [bold]polarised cure runs/beta-vae-1a2b3c --steps 5000[/bold]
    """
    from polarised._patient import CAUSES
    from polarised.curing import cure_run
    from polarised.report import write_report

    screen = console(quiet=quiet or json)
    folder = out or target.resolve().parent / f"{target.resolve().name}-cured"
    found = cure_run(target, steps=steps, directory=folder, seed=seed, progress=not (quiet or json))
    screen.print(f"\n[bold]{as_it_is(CAUSES[found.cause].capitalize())}.[/bold]\n")
    rows = [
        (
            as_it_is(name),
            f"{outcome.active}/{outcome.mixed}/{outcome.passive}",
            f"{outcome.explained:.2f}",
            "–" if outcome.score is None else f"{outcome.score:.2f}",
            f"{outcome.rate:.1f}",
            f"{outcome.bound:.1f}",
        )
        for name, outcome in (
            ("before", found.before),
            *((trial.name, trial.outcome) for trial in found.trials),
            (f"after: {found.winner}", found.after),
        )
        if outcome is not None
    ]
    columns = ("", "active/mixed/passive", "explained", "factors", "rate", "negative bound")
    note = "explained: share of the variance reconstructed through a sample; before and after on test data, trials on "
    screen.print(table("Before, trials, after", columns, rows, note=note + "validation data"))
    for trial in found.trials:
        if trial.failure:
            screen.print(f"{as_it_is(trial.name)}: {as_it_is(trial.failure)}")
    page = None
    if found.diagnoses:
        page = write_report(list(found.diagnoses), folder / "page.html", title="Before and after")
        screen.print(f"Change in your code: [bold]{as_it_is(found.change)}[/bold]")
        screen.print(
            f"Model: [bold]{as_it_is(folder / 'model.safetensors')}[/bold], before and after: {as_it_is(page)}"
        )
    else:
        screen.print(f"[bold]Left unchanged:[/bold] {as_it_is(found.refusal)}")
    if json:
        print_json({**found.to_dict(), "directory": str(folder), "page": None if page is None else str(page)})


def prune(
    target: Annotated[
        Path,
        typer.Argument(
            help="A run directory, a model file, a published model, or the folder of a model of pythae, diffusers or "
            "scvi-tools."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the smaller model: a .safetensors file (default: pruned.safetensors), or for "
            "a model of another library a new folder (default: pruned)."
        ),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="Variables to keep, e.g. 0,3,5; default: all except the passive ones.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Data for the comparison: a dataset's name, an .npz, a folder of images, an .h5ad; default: the "
            "model's own."
        ),
    ] = None,
    pixel_range: PixelRange = None,
    alpha: Alpha = None,
    rule: TypeRule = "used",
    examples: Annotated[int, typer.Option(help="Inputs for the comparison.", min=10)] = 3000,
    seed: Seed = 0,
    mean_head: Annotated[
        str | None, typer.Option(help="Weights of your own network: the layer that outputs the mean.")
    ] = None,
    log_variance_head: Annotated[
        str | None, typer.Option(help="Weights of your own network: the layer for the log-variance, if separate.")
    ] = None,
    decoder_input: Annotated[
        str | None, typer.Option(help="Weights of your own network: the layer that takes z.")
    ] = None,
    layout: Annotated[
        Literal["separate", "interleaved", "stacked"],
        typer.Option(help="Weights of your own network: layout of the heads."),
    ] = "separate",
    transposed: Annotated[
        bool, typer.Option("--transposed", help="Weights of your own network: z enters a ConvTranspose2d.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a smaller model without the passive variables, and show what changed: size, reconstruction, codes.

    The types are those of [bold]diagnose[/bold]; a variable with a doubtful type is kept.

    Example: [bold]polarised prune runs/my-run --out small.safetensors[/bold]  or
    [bold]polarised prune sd/vae --data pictures --out smaller[/bold], a folder that its own library loads

    Weights of your own network (.safetensors, .pt): name the layers around the latents, and what to keep:
    [bold]polarised prune vae.pt --mean-head fc_mu --log-variance-head fc_var --decoder-input dec.0 --keep 0,3[/bold]
    """
    from polarised.errors import ConfigError
    from polarised.pruning import PrunedModel, prune_model, prune_weights

    screen = console(quiet=quiet or json)
    out = _output_path(target, out)
    chosen = None if keep is None else _numbers(keep)
    if mean_head is not None or decoder_input is not None:
        if mean_head is None or decoder_input is None or chosen is None:
            raise ConfigError(
                "expected --mean-head, --decoder-input and --keep together, to prune the weights of your own network"
            )
        cut = prune_weights(
            target,
            keep=chosen,
            mean_head=mean_head,
            decoder_input=decoder_input,
            log_variance_head=log_variance_head,
            layout=layout,
            transposed=transposed,
        )
        found: PrunedModel | None = None
        kept, dropped = cut.keep, cut.dropped
        pairs: dict[str, tuple[float, float]] = {"parameters": cut.parameters}
        cut.save(out)
    elif target.suffix in (".pt", ".pth"):
        raise ConfigError(
            f"expected the names of the layers around the latents of {target}; give them with --mean-head, "
            "--log-variance-head and --decoder-input, and the variables to keep with --keep, or give the folder of a "
            "published model"
        )
    else:
        pixels = numbers(pixel_range, "--pixel-range")
        found = prune_model(
            target,
            data,
            keep=chosen,
            alpha=alpha,
            rule=rule,
            pixel_range=None if pixels is None else (pixels[0], pixels[-1]),
            examples=examples,
            seed=seed,
        )
        proof = found.report
        kept, dropped, pairs = proof.keep, proof.dropped, _pairs(found)
        found.save(out)
    if json:
        print_json({**(cut if found is None else found).to_dict(), "model": str(out)})
        return
    screen.print(f"[bold]{_count(kept, 'kept')}; {_count(dropped, 'dropped')}[/bold]")
    if found is not None and found.doubtful:
        doubtful = ", ".join(map(str, found.doubtful))
        screen.print(f"Passive, but kept because doubtful: {doubtful} (see polarised diagnose; override with --keep)")
    if not dropped:
        screen.print("Nothing was dropped: the written model is unchanged.")
    rows = [(name, *(f"{value:,.6g}" for value in pair), f"{pair[1] - pair[0]:+,.4g}") for name, pair in pairs.items()]
    screen.print(table("Before and after", ("", "before", "after", "change"), rows))
    if found is not None:
        screen.print(
            f"Largest change of a kept encoding: {found.report.encodings:.2g}; of an output, with the dropped "
            f"variables at their constants: {found.report.outputs:.2g}"
        )
        for remark in found.to_dict()["remarks"]:
            screen.print(as_it_is(remark))
    screen.print(f"\nModel: [bold]{as_it_is(out)}[/bold]")


def _output_path(target: Path, out: Path | None) -> Path:
    """Return the path of the smaller model: a file, or a new folder if another library must be able to load it."""
    from polarised.adapters.targets import saved_by
    from polarised.errors import ConfigError

    if target.is_dir() and saved_by(target) is not None:
        place = Path("pruned") if out is None else out
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise ConfigError(f"expected a new folder for --out, but {place} exists; choose another one")
        return place
    place = Path("pruned.safetensors") if out is None else out
    if place.suffix != ".safetensors":
        raise ConfigError(f"expected a .safetensors file for --out, got {place.name}; use {place.stem}.safetensors")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _pairs(found: "PrunedModel") -> dict[str, tuple[float, float]]:
    proof = found.report
    pairs: dict[str, tuple[float, float]] = {
        "parameters": proof.parameters,
        "reconstruction from means (nats)": proof.distortion,
        "reconstruction from samples (nats)": proof.sampled_distortion,
        "KL (nats)": proof.rate,
    }
    if found.accuracy is not None:
        pairs["accuracy of predicting factors"] = found.accuracy
    return pairs


def _count(variables: Sequence[int], verb: str) -> str:
    """Return how many variables were kept or dropped, and which."""
    if not variables:
        return f"none {verb}"
    noun = "variable" if len(variables) == 1 else "variables"
    return f"{len(variables)} {noun} {verb} ({', '.join(map(str, variables))})"


def _numbers(text: str) -> list[int]:
    from polarised.errors import ConfigError

    try:
        # An empty text is refused as well, because int("") fails.
        return [int(part) for part in text.strip(" ,").split(",")]
    except ValueError:
        raise ConfigError(
            f"expected whole numbers separated by commas for --keep, such as 0,3,5, got {text!r}"
        ) from None


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run and its report page.")] = Path("runs"),
    steps: Annotated[int, typer.Option(help="Training steps.", min=1)] = 1600,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train a VAE on sprites, show which variables are passive, prune them, and write a report page.

    Takes less than two minutes on two CPU cores; nothing is downloaded.

    Example: [bold]polarised demo[/bold]
    """
    from polarised.demonstration import demo as show

    screen = console(quiet=quiet or json)
    shown = show(out, steps=steps, seed=seed, progress=not quiet, tell=screen.print)
    show_diagnosis(shown.diagnosis, screen)
    if (proof := shown.pruning) is not None:
        screen.print(
            f"\n[bold]Pruned to {len(proof.keep)} variables:[/bold] {proof.parameters[0] - proof.parameters[1]:,} "
            f"fewer parameters, reconstruction from the means {proof.distortion[0]:.2f} → {proof.distortion[1]:.2f} "
            f"nats ({proof.distortion_change:+.3f})."
        )
    screen.print(f"\nPage: [bold]{as_it_is(shown.page)}[/bold]")
    if json:
        print_json(shown.to_dict())
