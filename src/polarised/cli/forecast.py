"""`polarised forecast`: what will collapse, before anything is trained; with --dimensions also how many latents."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polarised.cli.dimensions import dimensions as count_dimensions
from polarised.cli.dimensions import picture_kind
from polarised.cli.screen import Json, Quiet, Seed, as_it_is, bullets, console, print_json, table

if TYPE_CHECKING:
    from polarised.regime.forecast import Forecast

__all__ = ["forecast"]


def forecast(
    data: Annotated[str, typer.Argument(help="A dataset's name, an .npz of images, or the YAML of a run.")],
    beta: Annotated[float | None, typer.Option(help="Weight of the KL; default: 1, or the run's.")] = None,
    variance: Annotated[float | None, typer.Option(help="Variance of a Gaussian decoder; default: 1.")] = None,
    latents: Annotated[int | None, typer.Option(help="Latent variables; default: 10, or the run's.", min=1)] = None,
    likelihood: Annotated[
        Literal["gaussian", "bernoulli", "poisson"], typer.Option(help="Squared error, cross-entropy or counts.")
    ] = "gaussian",
    reduction: Annotated[
        Literal["likelihood", "sum", "mean", "mean_of_both"],
        typer.Option(help="How your loss adds up: the log-likelihood, the bare error, or its mean over values."),
    ] = "likelihood",
    alpha: Annotated[float, typer.Option(help="Threshold of the types.", min=0.001, max=0.499)] = 0.1,
    examples: Annotated[int, typer.Option(help="The most images to read.", min=2)] = 20_000,
    plot: Annotated[Path | None, typer.Option(help="Write the curve to this file (.png, .svg, .pdf).")] = None,
    dimensions: Annotated[
        bool, typer.Option("--dimensions", help="Train short runs and say how many latents the data need.")
    ] = False,
    steps: Annotated[int, typer.Option(help="With --dimensions: steps of each run.", min=1)] = 2000,
    architecture: Annotated[str, typer.Option(help="With --dimensions: network of the runs.")] = "locatello_conv",
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say before training which latent variables would be alive, from the spectrum of the data.

    Example: [bold]polarised forecast dsprites --likelihood bernoulli --beta 4 --plot curve.png[/bold]
    """
    if dimensions:
        count_dimensions(
            data,
            latents=latents,
            beta=1.0 if beta is None else beta,
            architecture=architecture,
            steps=steps,
            plot=plot,
            seed=seed,
            quiet=quiet,
            json=json,
        )
        return
    kind = None if plot is None else picture_kind(plot)
    screen = console(quiet=quiet or json)
    if Path(data).suffix in (".yaml", ".yml"):
        from polarised.study.config import Run, read_config
        from polarised.study.outlook import forecast_run

        found = forecast_run(Run.from_config(read_config(Path(data))), examples=examples)
        found = found.at(beta=beta, variance=variance, latents=latents)
    else:
        from polarised.adapters.targets import images_named
        from polarised.regime.forecast import forecast as forecast_data

        dataset = images_named(data)
        found = forecast_data(
            dataset.images if len(dataset) <= examples else dataset.sample(examples, seed).images,
            beta=1.0 if beta is None else beta,
            variance=variance,
            latents=10 if latents is None else latents,
            likelihood=likelihood,
            reduction=reduction,
            alpha=alpha,
            seed=seed,
        )
    _show(found, screen)
    if plot is not None and kind is not None:
        from polarised.report import save
        from polarised.report.figures import alive_curve

        save(alive_curve(found), plot.with_suffix(""), formats=[kind])
        screen.print(f"\nThe curve: [bold]{as_it_is(plot)}[/bold]", soft_wrap=True)
    if json:
        print_json({**found.to_dict(), "plot": None if plot is None else str(plot)})


def _show(found: "Forecast", screen: Any) -> None:
    rows = [
        (f"{beta:.4g}", f"{threshold:.4g}", str(active), str(mixed), str(passive), "◀ here" * (beta == found.beta))
        for beta, threshold, active, mixed, passive in found.table()
    ]
    note = "threshold: the eigenvalue of the data above which a variable pays for itself"
    columns = ("beta", "threshold", "active", "mixed", "passive", "")
    screen.print(table(f"A linear model with {found.latents} latents", columns, rows, note=note))
    screen.print(f"[bold]{as_it_is(found.sentence)}[/bold]")
    best = found.optimal_variance
    also = [] if best is None else [f"The best decoder variance at this beta is {best:.3g}."]
    if sentences := [*also, *found.notes]:
        screen.print(bullets(sentences))
