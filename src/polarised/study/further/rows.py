"""The rows a further measure returns, and how they join the tables of a run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars
from numpy.typing import NDArray

from polarised import catalogue
from polarised.data.dataset import Dataset
from polarised.representations import Encodings
from polarised.study.config import Run
from polarised.study.measures import SCORES

if TYPE_CHECKING:
    from polarised.models import VAE

__all__ = ["Rows", "further_scores", "representations"]

Rows = list[tuple[str, str | None, str, float]]


def further_scores(run: Run, vae: "VAE", dataset: Dataset, encodings: Encodings) -> polars.DataFrame:
    """Return what the run asks for in `evaluation.further`, one row a number, in the columns of every other table."""
    rows: list[tuple[str | None, str, str | None, str, float]] = []
    for spec in run.evaluation.further:
        found = catalogue.build("polarised.study.further", spec, vae, dataset, encodings, run.seed)
        rows += [(None, *row) for row in found]
    return polars.DataFrame(rows, schema=SCORES, orient="row")


def representations(encodings: Encodings, seed: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the mean and the sampled codes under their names."""
    yield "mean", encodings.mean
    yield "sampled", encodings.sample(seed=seed)
