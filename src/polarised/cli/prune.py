"""`polarised prune`: a smaller model without the passive variables, and the proof."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from polarised.cli.screen import Alpha, Json, Quiet, Seed, TypeRule, as_it_is, console, print_json, table

__all__ = ["prune"]


def prune(
    target: Annotated[Path, typer.Argument(help="A run directory, a model file, or a folder of a published model.")],
    out: Annotated[Path, typer.Option(help="Where to write the smaller model (.safetensors).")] = Path(
        "pruned.safetensors"
    ),
    keep: Annotated[
        str | None, typer.Option(help="Variables to keep, e.g. 0,3,5; default: all but the passive.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Images to prove it on; default: the model's own.")] = None,
    alpha: Alpha = None,
    rule: TypeRule = "used",
    examples: Annotated[int, typer.Option(help="Images to prove it on.", min=10)] = 3000,
    seed: Seed = 0,
    mean_head: Annotated[str | None, typer.Option(help="Foreign weights: the layer that gives the mean.")] = None,
    log_variance_head: Annotated[
        str | None, typer.Option(help="Foreign weights: the layer that gives the log-variance, if it is another.")
    ] = None,
    decoder_input: Annotated[str | None, typer.Option(help="Foreign weights: the layer that takes z.")] = None,
    layout: Annotated[
        Literal["separate", "interleaved", "stacked"], typer.Option(help="Foreign weights: how the heads are laid out.")
    ] = "separate",
    transposed: Annotated[
        bool, typer.Option("--transposed", help="Foreign weights: z enters a ConvTranspose2d.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a smaller model without the passive variables, and show what changed: size, reconstruction, codes.

    Types are those [bold]diagnose[/bold] gives; a variable whose type is in doubt is kept.

    Example: [bold]polarised prune runs/my-run --out small.safetensors[/bold]

    Weights of your own network (.safetensors, .pt): name the layers around the latents, and what to keep:
    [bold]polarised prune vae.pt --mean-head fc_mu --log-variance-head fc_var --decoder-input dec.0 --keep 0,3[/bold]
    """
    from polarised.errors import ConfigError

    screen = console(quiet=quiet or json)
    if out.suffix != ".safetensors":
        raise ConfigError(f"expected --out as a .safetensors file, got {out.name}; name it {out.stem}.safetensors")
    out.parent.mkdir(parents=True, exist_ok=True)
    if mean_head is not None or decoder_input is not None:
        report = _foreign(target, out, keep, mean_head, log_variance_head, decoder_input, layout, transposed)
    elif target.suffix in (".pt", ".pth"):
        raise ConfigError(
            f"expected the layers around the latents in {target}; name them with --mean-head, --log-variance-head and "
            "--decoder-input, and what to keep with --keep, or give the folder of a published model"
        )
    else:
        report = _own(target, out, keep, data, alpha, rule, examples, seed)
    if json:
        print_json({**report, "model": out})
        return
    screen.print(f"[bold]{_count(report['kept'], 'kept')}; {_count(report['dropped'], 'dropped')}[/bold]")
    if report.get("passive but kept"):
        doubted = ", ".join(map(str, report["passive but kept"]))
        screen.print(f"Passive, yet kept because that is in doubt: {doubted} (see polarised diagnose; --keep decides)")
    if not report["dropped"]:
        screen.print("Nothing was dropped: the model written is the same.")
    pairs = {name: pair for name, pair in report.items() if isinstance(pair, tuple)}
    rows = [(name, *(f"{value:,.6g}" for value in pair), f"{pair[1] - pair[0]:+,.4g}") for name, pair in pairs.items()]
    screen.print(table("Before and after", ("", "before", "after", "change"), rows))
    if "largest change of a kept encoding" in report:
        screen.print(f"Largest change of a kept encoding: {report['largest change of a kept encoding']:.2g}")
    screen.print(f"\nThe model: [bold]{as_it_is(out)}[/bold]")


def _own(
    path: Path, out: Path, keep: str | None, data: str | None, alpha: float | None, rule: Any, examples: int, seed: int
) -> dict[str, Any]:
    from polarised.adapters.targets import images_named, open_target
    from polarised.errors import DataError
    from polarised.models.vae import save_vae
    from polarised.pruning import prune, pruned_config, pruning_report

    target = open_target(path)
    vae, (config, auxiliary_size) = target.vae(), target.config()
    images = target.data() if data is None else images_named(data)
    encodings, regime = _typed(target, vae, images, alpha, rule, examples, seed, own=data is None)
    kept = [j for j in range(vae.latents) if j not in regime.droppable] if keep is None else _numbers(keep)
    if not kept:
        raise DataError("expected a variable that is alive, all are passive; name what to keep with --keep")
    batch = images.sample(min(examples, len(images)), seed)
    # What is noise about a value of its own must leave that value behind, not the prior mean.
    smaller = prune(vae, kept, constants=encodings.mean.mean(axis=0, dtype="float64"))
    proof = pruning_report(vae, smaller, batch.images, keep=kept, u=batch.u, seed=seed)
    save_vae(smaller, out, config=pruned_config(config, kept), auxiliary_size=auxiliary_size)
    report: dict[str, Any] = {
        "kept": list(proof.keep),
        "dropped": list(proof.dropped),
        "passive but kept": [j for j in regime.passive if keep is None and j not in regime.droppable],
        "parameters": proof.parameters,
        "reconstruction from means (nats)": proof.distortion,
        "reconstruction from samples (nats)": proof.sampled_distortion,
        "KL (nats)": proof.rate,
        "largest change of a kept encoding": proof.encodings,
    }
    if encodings.factors is not None:
        report["accuracy of predicting factors"] = _accuracies(encodings, kept, examples)
    return report


def _foreign(
    path: Path,
    out: Path,
    keep: str | None,
    mean_head: str | None,
    log_variance_head: str | None,
    decoder_input: str | None,
    layout: Literal["separate", "interleaved", "stacked"],
    transposed: bool,
) -> dict[str, Any]:
    from polarised.adapters._state import prune_state, read_state, write_state
    from polarised.errors import ConfigError

    if mean_head is None or decoder_input is None or keep is None:
        raise ConfigError("expected --mean-head, --decoder-input and --keep together, to prune foreign weights")
    weights, kept = read_state(path), _numbers(keep)
    smaller = prune_state(
        weights,
        kept,
        mean_head=mean_head,
        log_variance_head=log_variance_head,
        decoder_input=decoder_input,
        layout=layout,
        transposed=transposed,
    )
    write_state(smaller, out)
    before, after = (sum(value.numel() for value in state.values()) for state in (weights, smaller))
    heads = weights[f"{mean_head}.weight"].shape[0] // (1 if layout == "separate" else 2)
    return {"kept": kept, "dropped": [j for j in range(heads) if j not in kept], "parameters": (before, after)}


def _typed(
    target: Any, vae: Any, images: Any, alpha: float | None, rule: Any, examples: int, seed: int, *, own: bool
) -> tuple[Any, Any]:
    """Return the encodings and types that `diagnose` speaks of: a run's own where it has them."""
    from polarised.adapters.native import decoder_use, from_vae
    from polarised.regime import classify

    if own and target.kind == "run" and (target.path / "encodings.npz").exists():
        from polarised.diagnosis import diagnose

        diagnosis = diagnose(target.path, alpha=alpha, rule=rule)
        return diagnosis.encodings, diagnosis.regime
    encodings, decoder = from_vae(vae, images, examples=examples, seed=seed), decoder_use(vae, images, seed=seed)
    return encodings, classify(encodings, alpha=alpha or 0.1, rule=rule, decoder=decoder, seed=seed)


def _accuracies(encodings: Any, kept: list[int], examples: int) -> tuple[float, float]:
    """Return the mean accuracy of predicting every factor from the means of all and of the kept variables."""
    from polarised.metrics.downstream import logistic_regression

    rows = slice(0, examples)
    before, after = (
        logistic_regression(encodings.mean[rows, variables], encodings.factors[rows], strengths=(1.0,)).accuracy
        for variables in (slice(None), kept)
    )
    return before, after


def _count(variables: list[int], verb: str) -> str:
    """Say how many variables were kept or dropped, and which."""
    if not variables:
        return f"none {verb}"
    noun = "variable" if len(variables) == 1 else "variables"
    return f"{len(variables)} {noun} {verb} ({', '.join(map(str, variables))})"


def _numbers(text: str) -> list[int]:
    from polarised.errors import ConfigError

    try:
        # An empty text has no numbers either: its one part is none.
        return [int(part) for part in text.strip(" ,").split(",")]
    except ValueError:
        raise ConfigError(f"expected --keep as numbers with commas, such as 0,3,5, got {text!r}") from None
