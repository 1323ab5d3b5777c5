"""Diagnosis of encodings that do not fit in memory, in one pass over files, here or on a Ray cluster.

Each file is read in chunks into accumulators: the evidence for the types with the covariance of the means, their range,
and a uniform sample of inputs. Those of many files, workers or machines merge into the result of a single pass.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from polarised._io.arrays import open_arrays
from polarised.adapters.arrays import Chunk, Second, chunks_of_file
from polarised.cluster import ray_cluster
from polarised.errors import ConfigError, DataError, PolarisedError
from polarised.metrics.covariance import (
    effective_rank_from_covariance,
    total_correlation_from_covariance,
    wasserstein_correlation_from_covariance,
)
from polarised.metrics.evaluation import subsets
from polarised.metrics.streaming import Ranges
from polarised.random import stream
from polarised.regime import Encodings, Evidence, Regime
from polarised.regime.encodings import gaussians

if TYPE_CHECKING:
    import polars

__all__ = ["Totals", "totals_of"]

Array = NDArray[Any]

SAMPLE = 10_000
SCORES: dict[str, Callable[[Array], float]] = {
    "total_correlation": total_correlation_from_covariance,
    "effective_rank": effective_rank_from_covariance,
    "wasserstein_correlation": wasserstein_correlation_from_covariance,
}


@dataclass(eq=False)
class Totals:
    """What is kept of any number of inputs: evidence, covariance, range of the means, and a sample of inputs.

    >>> totals = Totals()
    >>> totals.update(Chunk(np.eye(3), np.full((3, 3), 0.1), 0.0, 1.0, None), np.arange(3.0))
    >>> totals.evidence.rows, len(totals.sample())
    (3, 3)
    """

    evidence: Evidence = field(default_factory=lambda: Evidence(covariance=True))
    ranges: Ranges = field(default_factory=Ranges)
    factor_names: list[str] | None = None
    _order: Array = field(default_factory=lambda: np.zeros(0))
    _rows: dict[str, Array] = field(default_factory=dict)

    def update(self, chunk: Chunk, order: Array) -> None:
        """Take in a chunk; the inputs with the smallest `order` numbers, one each, make up the sample."""
        # Convolutional latents become a row for each position here, as they do in Encodings.
        mean, variance, places = gaussians(chunk.mean, chunk.variance, None)
        self.evidence.update(
            mean,
            variance=variance,
            prior_mean=chunk.prior_mean,
            prior_variance=chunk.prior_variance,
            kl=chunk.kl,
            repeats=places * chunk.repeats,
        )
        self.ranges.update(mean)
        rows: dict[str, Array] = {"mean": mean, "variance": variance}
        rows["prior_mean"] = np.broadcast_to(chunk.prior_mean, mean.shape)
        rows["prior_variance"] = np.broadcast_to(chunk.prior_variance, mean.shape)
        if chunk.factors is not None:
            rows["factors"] = np.repeat(chunk.factors.reshape(len(chunk.mean), -1), places, axis=0)
        self._keep(order, rows)

    def merge(self, other: Self) -> Self:
        """Add what another process saw; returns itself."""
        self.evidence.merge(other.evidence)
        self.ranges.merge(other.ranges)
        self.factor_names = self.factor_names or other.factor_names
        self._keep(other._order, other._rows)
        return self

    def sample(self) -> Encodings:
        """Return up to 10,000 inputs, drawn uniformly from all, the same whatever the chunks and workers."""
        rows = dict(self._rows)
        for name in ("prior_mean", "prior_variance"):
            if (rows[name] == rows[name][0]).all():
                rows[name] = rows[name][0]
        return Encodings(
            rows["mean"],
            variance=rows["variance"],
            prior_mean=rows["prior_mean"],
            prior_variance=rows["prior_variance"],
            factors=rows.get("factors"),
            factor_names=self.factor_names if "factors" in rows else None,
        )

    def largest_mean(self) -> Array:
        """Return the largest |mean| of each variable."""
        if self.ranges.lowest is None or self.ranges.highest is None:
            raise DataError("expected at least one chunk of encodings, got none")
        largest: Array = np.maximum(np.abs(self.ranges.lowest), np.abs(self.ranges.highest))
        return largest

    def scores(self, regime: Regime) -> "polars.DataFrame":
        """Return redundancy of mean and sampled codes, whole and by type, from the covariance alone.

        Cov(z) = Cov(mean) + diag(E[variance]), exactly, so nothing needs to be drawn.
        """
        import polars

        mean = self.evidence.covariance
        sampled = mean + np.diag(regime.statistics.variance_mean)
        rows = [
            (metric, representation, variables, score(matrix[np.ix_(chosen, chosen)]))
            for representation, matrix in (("mean", mean), ("sampled", sampled))
            for variables, chosen in subsets(regime).items()
            if len(chosen) > 1
            for metric, score in SCORES.items()
        ]
        schema = {"metric": polars.String, "representation": polars.String, "variables": polars.String}
        return polars.DataFrame(rows, schema={**schema, "value": polars.Float64}, orient="row")

    def _keep(self, order: Array, rows: dict[str, Array]) -> None:
        if not len(order):
            return
        if self._rows and self._rows.keys() != rows.keys():
            raise DataError("expected factors in every file or in none, got them in some only")
        together = np.concatenate([self._order, order])
        kept = np.sort(np.argsort(together, kind="stable")[:SAMPLE])
        first, second = kept[kept < len(self._order)], kept[kept >= len(self._order)] - len(self._order)
        before = self._rows or {name: value[:0] for name, value in rows.items()}
        self._rows = {name: np.concatenate([before[name][first], value[second]]) for name, value in rows.items()}
        self._order = together[kept]


def totals_of(
    files: Sequence[str | Path],
    *,
    executor: Literal["local", "ray"] = "local",
    address: str | None = None,
    second: Second | None = None,
    rows: int = 1 << 16,
    seed: int = 0,
) -> Totals:
    """Read files of encodings (.npz, .npy, parquet) chunk by chunk into `Totals`; with Ray, each file is a task.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for i in range(2):
    ...     np.savez(folder / f"{i}.npz", mean=np.eye(4), variance=np.full((4, 4), 0.1))
    >>> totals_of(sorted(folder.glob("*.npz"))).evidence.rows
    8
    """
    if not files:
        raise DataError("expected at least one file of encodings, got none; check the pattern")
    arguments = [(str(Path(file).resolve()), second, rows, seed, number) for number, file in enumerate(files)]
    parts: Iterator[Totals]
    if executor == "ray":
        parts = _with_ray(arguments, address)
    elif executor == "local":
        parts = (_totals_of_file(*each) for each in arguments)
    else:
        raise ConfigError(f"expected executor 'local' or 'ray', got {executor!r}")
    totals = Totals()
    for each, part in zip(arguments, parts, strict=True):
        with _naming(each[0]):
            totals.merge(part)
    return totals


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Say of which of many files an error is, where it does not say so itself."""
    try:
        yield
    except DataError as error:
        if path in str(error):
            raise
        raise DataError(f"{path}: {error}") from error


def _totals_of_file(path: str, second: Second | None, rows: int, seed: int, number: int) -> Totals:
    totals = Totals(factor_names=open_arrays(path).factor_names)
    generator = stream(seed, "sample of a shard", number)
    with _naming(path):
        for chunk in chunks_of_file(path, rows=rows, second=second):
            totals.update(chunk, generator.random(chunk.mean.size // chunk.mean.shape[1]))
    return totals


def _with_ray(arguments: list[tuple[Any, ...]], address: str | None) -> Iterator[Totals]:
    with ray_cluster(address) as ray:
        task = ray.remote(_totals_of_file)
        # Results are taken in the order of the files, so that merging is the same whoever is first.
        for reference in [task.remote(*each) for each in arguments]:
            try:
                yield ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, PolarisedError) else error) from None
