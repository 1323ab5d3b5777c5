"""`polarised forecast` predicts collapse before training; with --dimensions it also estimates the number of latents."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polarised.cli.screen import Json, Quiet, Seed, as_flags, as_it_is, bullets, console, print_json, table
from polarised.errors import ConfigError
from polarised.schemas import stamp

if TYPE_CHECKING:
    from rich.console import Console

    from polarised.regime.dimensions import Fondue, OneShot
    from polarised.regime.forecast import Forecast

__all__ = ["dimensions", "forecast"]


def forecast(
    data: Annotated[str, typer.Argument(help="A dataset's name, an .npz or a folder of images, or the YAML of a run.")],
    beta: Annotated[float | None, typer.Option(help="Weight of the KL; default: 1, or the run's.")] = None,
    variance: Annotated[float | None, typer.Option(help="Variance of a Gaussian decoder; default: 1.")] = None,
    latents: Annotated[int | None, typer.Option(help="Latent variables; default: 10, or the run's.", min=1)] = None,
    likelihood: Annotated[
        Literal["gaussian", "bernoulli", "poisson"] | None,
        typer.Option(help="Squared error, cross-entropy or counts; default: gaussian, or the run's."),
    ] = None,
    reduction: Annotated[
        Literal["likelihood", "sum", "mean", "mean_of_both"] | None,
        typer.Option(help="How your loss is reduced: log-likelihood (default), summed error, or mean error."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Threshold of the types.", min=0.001, max=0.499)] = 0.1,
    examples: Annotated[
        int | None,
        typer.Option(help="Maximum number of images; default: 20,000, or 5,000 with --dimensions.", min=2),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the curve to this file (.png, .svg, .pdf).")] = None,
    dimensions: Annotated[
        bool, typer.Option("--dimensions", help="Train short runs to estimate how many latents the data need.")
    ] = False,
    steps: Annotated[int, typer.Option(help="With --dimensions: steps of each run.", min=1)] = 2000,
    architecture: Annotated[str, typer.Option(help="With --dimensions: network of the runs.")] = "locatello_conv",
    seeds: Annotated[int, typer.Option(help="With --dimensions: over-sized runs, one per seed.", min=1)] = 2,
    fondue: Annotated[bool, typer.Option("--fondue/--no-fondue", help="With --dimensions: also search.")] = True,
    estimator: Annotated[
        Literal["mle", "twonn", "trace"], typer.Option(help="With --dimensions: estimator of the search.")
    ] = "mle",
    threshold: Annotated[
        float, typer.Option(help="With --dimensions: largest difference that the search allows.", min=0.0)
    ] = 1.0,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict before training which latent variables will be alive, from the spectrum of the data.

    Example: [bold]polarised forecast dsprites --likelihood bernoulli --beta 4 --plot curve.png[/bold]
    """
    if dimensions:
        _count_dimensions(
            data,
            latents=latents,
            seeds=seeds,
            fondue=fondue,
            estimator=estimator,
            threshold=threshold,
            beta=1.0 if beta is None else beta,
            architecture=architecture,
            steps=steps,
            examples=5000 if examples is None else examples,
            plot=plot,
            seed=seed,
            quiet=quiet,
            json=json,
        )
        return
    read = 20_000 if examples is None else examples
    kind = None if plot is None else _picture_kind(plot)
    screen = console(quiet=quiet or json)
    if Path(data).suffix in (".yaml", ".yml"):
        from polarised.study.config import Run, read_config
        from polarised.study.outlook import forecast_run

        given = {"--likelihood": likelihood, "--reduction": reduction}
        if known := [option for option, value in given.items() if value is not None]:
            raise ConfigError(f"expected no {known[0]} with {data}, which states the loss; change it in the file")
        found = forecast_run(Run.from_config(read_config(Path(data))), examples=read)
        found = replace(found.at(beta=beta, variance=variance, latents=latents), alpha=alpha)
    else:
        from polarised.adapters.targets import images_named
        from polarised.regime.forecast import forecast as forecast_data

        dataset = images_named(data)
        shape = " × ".join(map(str, dataset.shape))
        screen.print(f"{as_it_is(dataset.name)}, {len(dataset):,} inputs of {shape}\n")
        found = forecast_data(
            dataset.images if len(dataset) <= read else dataset.sample(read, seed).images,
            beta=1.0 if beta is None else beta,
            variance=variance,
            latents=10 if latents is None else latents,
            likelihood=likelihood or "gaussian",
            reduction=reduction or "likelihood",
            alpha=alpha,
            seed=seed,
        )
    _show(found, screen)
    if plot is not None and kind is not None:
        from polarised.report import save
        from polarised.report.figures import alive_curve

        save(alive_curve(found), plot.with_suffix(""), formats=[kind])
        screen.print(f"\nCurve: [bold]{as_it_is(plot)}[/bold]", soft_wrap=True)
    if json:
        print_json({**found.to_dict(), "plot": None if plot is None else str(plot)})


def _show(found: "Forecast", screen: Any) -> None:
    rows = [
        (f"{beta:.4g}", f"{threshold:.4g}", str(active), str(mixed), str(passive), "◀ here" * (beta == found.beta))
        for beta, threshold, active, mixed, passive in found.table()
    ]
    note = "threshold: the eigenvalue of the data above which a variable reduces the loss"
    columns = ("beta", "threshold", "active", "mixed", "passive", "")
    screen.print(table(f"A linear model with {found.latents} latents", columns, rows, note=note))
    screen.print(f"[bold]{as_it_is(found.sentence)}[/bold]")
    best = found.optimal_variance
    also = [] if best is None else [f"The best decoder variance at this beta is {best:.3g}."]
    if sentences := [*also, *found.notes]:
        screen.print(bullets([as_flags(sentence) for sentence in sentences]))


def dimensions(
    data: Annotated[str, typer.Argument(help="The name of a dataset, or an .npz of images.")],
    latents: Annotated[
        int | None, typer.Option(help="Latents of the over-sized runs; default: twice the data's.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Over-sized runs, one per seed.", min=1)] = 2,
    fondue: Annotated[bool, typer.Option("--fondue/--no-fondue", help="Also run the FONDUE search.")] = True,
    estimator: Annotated[Literal["mle", "twonn", "trace"], typer.Option(help="Estimator used by FONDUE.")] = "mle",
    threshold: Annotated[float, typer.Option(help="Largest difference that FONDUE allows.", min=0.0)] = 1.0,
    beta: Annotated[float, typer.Option(help="Weight of the rate.", min=0.0)] = 1.0,
    architecture: Annotated[str, typer.Option(help="Network of the short runs.")] = "locatello_conv",
    steps: Annotated[int, typer.Option(help="Training steps of each run.", min=1)] = 2000,
    examples: Annotated[int, typer.Option(help="Images to encode.", min=50)] = 5000,
    plot: Annotated[Path | None, typer.Option(help="Write the curves to this file (.png, .svg, .pdf).")] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Estimate how many latent variables a dataset needs, from over-sized runs and with the FONDUE search.

    Example: [bold]polarised dimensions dsprites --steps 2000 --plot sizes.png[/bold]
    """
    from polarised.adapters.targets import images_named
    from polarised.regime.dimensions import fondue as search_of
    from polarised.regime.dimensions import one_shot_count
    from polarised.study.outlook import Trainer, data_dimension

    screen = console(quiet=quiet or json)
    kind = None if plot is None else _picture_kind(plot)
    dataset = images_named(data)
    measured = data_dimension(dataset, estimator="twonn" if estimator == "twonn" else "mle", seed=seed)
    screen.print(f"Intrinsic dimension of {as_it_is(dataset.name)}: {measured:.1f}")
    trainer = Trainer(
        dataset,
        model={"architecture": architecture},
        objective={"name": "BetaVAE", "beta": beta},
        steps=steps,
        examples=examples,
        seed=seed,
        told=lambda sentence: screen.print(f"[dim]{as_it_is(sentence)}[/dim]"),
    )
    size = latents or max(2, round(2 * measured))
    regimes = [trainer.regime(size, seed=seed + i) for i in range(seeds)]
    count = one_shot_count(regimes)
    _show_count(screen, size, count, seed)
    search = None
    if fondue:
        search = search_of(trainer.encodings, start=max(1, round(measured)), threshold=threshold, estimator=estimator)
        visits = [(str(v.latents), f"{v.sampled:.2f}", f"{v.mean:.2f}", f"{v.difference:.2f}") for v in search.visits]
        title, columns = "FONDUE, models in the order trained", ("latents", "sampled", "mean", "difference")
        note = (
            f"sampled, mean: the estimate ({estimator}) on each code; FONDUE keeps the largest size tried with a "
            f"difference of at most {threshold:g}"
        )
        screen.print(table(title, columns, visits, note=note))
        screen.print(f"[bold]FONDUE keeps {search.latents}.[/bold]")
    if plot is not None and kind is not None:
        from polarised.report import save
        from polarised.report.figures import sizes

        save(sizes(regimes, count, search, seed=seed), plot.with_suffix(""), formats=[kind])
        screen.print(f"\nCurves: [bold]{as_it_is(plot)}[/bold]", soft_wrap=True)
    if json:
        print_json(stamp("dimensions", _plain(measured, size, count, search, plot)))


def _picture_kind(path: Path) -> Literal["png", "svg", "pdf"]:
    """Return the format of a plot; an unsupported one is refused before the training, not after it."""
    kinds: dict[str, Literal["png", "svg", "pdf"]] = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
    if path.suffix not in kinds:
        raise ConfigError(f"expected a .png, .svg or .pdf file for --plot, got {path.name}; use {path.stem}.png")
    return kinds[path.suffix]


def _show_count(screen: "Console", size: int, count: "OneShot", seed: int) -> None:
    rows = [
        (f"seed {seed + i}", str(kept), str(passive), f"{soft:.2f}")
        for i, (kept, passive, soft) in enumerate(zip(count.each, count.passive, count.soft, strict=True))
    ]
    note = "soft count: the variables, each weighted by how much narrower than the prior it is"
    screen.print(table(f"One shot, {size} latents", ("run", "alive", "passive", "soft count"), rows, note=note))
    if not count.large_enough:
        screen.print(
            f"In at least one run no variable is passive: the run was too short to settle (increase --steps) or {size} "
            f"latents are too few (try --latents {2 * size}); do not rely on the estimate {count.latents} yet."
        )
    elif count.stable:
        screen.print(f"[bold]Every seed keeps {count.latents}.[/bold]")
    else:
        screen.print(f"[bold]Seeds keep {min(count.each)} to {max(count.each)}, median {count.latents}.[/bold]")


def _plain(measured: float, size: int, count: "OneShot", search: "Fondue | None", drawn: Path | None) -> dict[str, Any]:
    return {
        "intrinsic_dimension": measured,
        "one_shot": {
            "latents": count.latents,
            "trained_with": size,
            "each": list(count.each),
            "passive": list(count.passive),
            "soft": list(count.soft),
            "stable": count.stable,
            "large_enough": count.large_enough,
        },
        "fondue": None
        if search is None
        else {
            "latents": search.latents,
            "visits": [{**visit._asdict(), "difference": visit.difference} for visit in search.visits],
        },
        "plot": None if drawn is None else str(drawn),
    }


# Inside `forecast`, `dimensions` is the name of an option.
_count_dimensions = dimensions
