"""Diagnosis of encodings that do not fit in memory, in one pass over files, here or on a Ray cluster.

Each file is read in chunks into accumulators: the evidence of the types with the covariance of the means, their range,
and a uniform sample of inputs. The accumulators of many files, workers or machines are merged exactly.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from polarised._io.addresses import brought, is_address
from polarised.adapters.arrays import Chunk, ScaleKind, chunks_of_file, open_file
from polarised.cluster import avoiding, check_nodes, code_here, message_of, name_unfit, ray_cluster, shipped
from polarised.errors import ConfigError, DataError, PolarisedError
from polarised.metrics.streaming import Moments, Ranges
from polarised.random import stream
from polarised.regime import Encodings, Evidence, Regime
from polarised.regime.encodings import Axis

__all__ = ["Totals", "totals_of"]

Array = NDArray[Any]

# The largest number of rows of the sample, and of numbers in each of its arrays.
SAMPLE, SAMPLE_NUMBERS = 10_000, 1 << 26
# The largest number of variables that are all compared with each other; of more, a sample is compared.
WHOLE, COMPARED = 2_048, 512


@dataclass(eq=False)
class Totals:
    """Accumulators for any number of inputs: evidence, covariance, range of the means, and a sample of inputs.

    >>> totals = Totals()
    >>> totals.update(Chunk(np.eye(3), np.full((3, 3), 0.1), 0.0, 1.0, None), np.arange(3.0))
    >>> totals.evidence.rows, len(totals.sample())
    (3, 3)
    """

    evidence: Evidence = field(default_factory=lambda: Evidence(covariance=True))
    moments: Moments = field(default_factory=Moments)
    ranges: Ranges = field(default_factory=Ranges)
    factor_names: list[str] | None = None
    _order: Array = field(default_factory=lambda: np.zeros(0))
    _rows: dict[str, Array] = field(default_factory=dict)
    _prior: dict[str, Array] = field(default_factory=dict)
    _repeats: set[int] = field(default_factory=set)

    def update(self, chunk: Chunk, order: Array | None, *, places: int | None = None) -> None:
        """Add a chunk; the rows with the smallest `order` numbers are the sample.

        Args:
            chunk: Consecutive inputs.
            order: A number for each row (for each of `places` positions of an input); None: no sample.
            places: The number of positions of an input from which the sample is drawn; default: all.
        """
        if self.evidence.latents is None and chunk.mean.shape[1] > WHOLE:
            self.evidence = Evidence()
        self.evidence.update(
            chunk.mean,
            variance=chunk.variance,
            prior_mean=chunk.prior_mean,
            prior_variance=chunk.prior_variance,
            kl=chunk.kl,
            repeats=chunk.repeats,
        )
        self.ranges.update(chunk.mean)
        if chunk.mean.shape[1] > WHOLE:
            self.moments.update(chunk.mean[:, self.compared])
        if order is None:
            return
        self._repeats.add(chunk.repeats)
        rows: dict[str, Array] = {"mean": chunk.mean, "variance": chunk.variance}
        for name, prior in (("prior_mean", chunk.prior_mean), ("prior_variance", chunk.prior_variance)):
            if np.ndim(prior) == 2:
                rows[name] = np.asarray(prior)
            else:
                self._prior[name] = np.asarray(prior)
        if chunk.factors is not None:
            factors = chunk.factors.reshape(len(chunk.mean) // chunk.repeats, -1)
            rows["factors"] = np.repeat(factors, chunk.repeats, axis=0)
        self._keep(order, rows if places is None else {k: _thinned(v, chunk.repeats, places) for k, v in rows.items()})

    @property
    def compared(self) -> NDArray[np.int64]:
        """The variables whose redundancy is measured: all, or an evenly spaced sample if there are very many."""
        latents = self.evidence.latents or 0
        if latents <= WHOLE:
            return np.arange(latents)
        return np.unique(np.linspace(0, latents - 1, COMPARED).astype(np.int64))

    def merge(self, other: Self) -> Self:
        """Merge the accumulators of another process; return itself."""
        if self.evidence.latents is None and (other.evidence.latents or 0) > WHOLE:
            self.evidence = Evidence()
        self.evidence.merge(other.evidence)
        self.ranges.merge(other.ranges)
        self.moments.merge(other.moments)
        self.factor_names = self.factor_names or other.factor_names
        self._prior |= other._prior
        self._repeats |= other._repeats
        self._keep(other._order, other._rows)
        return self

    def sample(self) -> Encodings:
        """Return up to 10,000 inputs, drawn uniformly from all, independent of chunks and workers."""
        rows = {**self._prior, **self._rows}
        # If no row was left out, the positions of an input are still consecutive.
        whole = len(self._order) == self.evidence.rows and len(self._repeats) == 1
        return Encodings(
            rows["mean"],
            variance=rows["variance"],
            prior_mean=rows["prior_mean"],
            prior_variance=rows["prior_variance"],
            factors=rows.get("factors"),
            factor_names=self.factor_names if "factors" in rows else None,
            repeats=next(iter(self._repeats)) if whole else 1,
        )

    @property
    def cutoff(self) -> float:
        """The largest number in a full sample: rows with larger numbers can never be part of it."""
        full = bool(self._rows) and len(self._order) >= _room(self._rows["mean"].shape[1])
        return float(self._order.max()) if full else np.inf

    def drop(self, cutoff: float) -> None:
        """Remove rows from the sample that cannot be part of the merged sample.

        Args:
            cutoff: The cutoff of the merged sample, current or earlier.
        """
        kept = self._order <= cutoff
        self._order, self._rows = self._order[kept], {name: value[kept] for name, value in self._rows.items()}

    def largest_mean(self) -> Array:
        """Return the largest |mean| of each variable."""
        if self.ranges.lowest is None or self.ranges.highest is None:
            raise DataError("expected at least one chunk of encodings, got none")
        largest: Array = np.maximum(np.abs(self.ranges.lowest), np.abs(self.ranges.highest))
        return largest

    def covariances(self, regime: Regime) -> dict[str, Array]:
        """Return the covariance of mean and sampled codes over all inputs, for the compared variables.

        Cov(z) = Cov(mean) + diag(E[variance]), exactly, so no sampling is needed.
        """
        mean = self.moments.covariance if self.moments.rows else self.evidence.covariance
        return {"mean": mean, "sampled": mean + np.diag(regime.statistics.variance_mean[self.compared])}

    def _keep(self, order: Array, rows: dict[str, Array]) -> None:
        if not rows:
            return
        if self._rows and self._rows.keys() != rows.keys():
            raise DataError(
                "expected factors (or the prior of each input) in every part or in none, got them only in some"
            )
        together = np.concatenate([self._order, order])
        most = _room(rows["mean"].shape[1])
        kept = np.sort(np.argsort(together, kind="stable")[:most])
        first, second = kept[kept < len(self._order)], kept[kept >= len(self._order)] - len(self._order)
        before = self._rows or {name: value[:0] for name, value in rows.items()}
        # Until the sample is full, all rows are kept without selection.
        old, new = (
            slice(None) if len(part) == size else part
            for part, size in ((first, len(self._order)), (second, len(order)))
        )
        self._rows = {name: np.concatenate([before[name][old], value[new]]) for name, value in rows.items()}
        self._order = together[kept]


def totals_of(
    files: Sequence[str | Path],
    *,
    executor: Literal["local", "ray"] = "local",
    address: str | None = None,
    scale_kind: ScaleKind | None = None,
    trust_scale: bool = False,
    axis: Axis = None,
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
    reading = (scale_kind, trust_scale, axis, rows, seed)
    places = [str(file) if is_address(file) else str(Path(file).resolve()) for file in files]
    arguments = [(place, *reading, number) for number, place in enumerate(places)]
    parts: Iterator[Totals]
    totals = Totals()
    if executor == "ray":
        parts = _with_ray(arguments, address, lambda: totals.cutoff)
    elif executor == "local":
        parts = (_totals_of_file(*each) for each in arguments)
    else:
        raise ConfigError(f"expected executor 'local' or 'ray', got {executor!r}")
    for each, part in zip(arguments, parts, strict=True):
        with _naming(each[0]):
            totals.merge(part)
    return totals


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Add the name of the file to an error that does not contain it."""
    try:
        yield
    except DataError as error:
        if path in str(error):
            raise
        raise DataError(f"{path}: {error}") from error


def _room(variables: int) -> int:
    """Return the largest number of rows of the sample."""
    return min(SAMPLE, max(64, SAMPLE_NUMBERS // max(variables, 1)))


def _totals_of_file(
    path: str,
    scale_kind: ScaleKind | None,
    trust_scale: bool,
    axis: Axis,
    rows: int,
    seed: int,
    number: int,
    cutoff: float = np.inf,
) -> Totals:
    generator = stream(seed, "sample of a shard", number)
    with _naming(path), brought(path) as file:
        totals = Totals(factor_names=open_file(file).factor_names)
        for chunk in chunks_of_file(file, rows=rows, scale_kind=scale_kind, trust_scale=trust_scale, axis=axis):
            totals.update(chunk, generator.random(len(chunk.mean)))
    totals.drop(cutoff)
    return totals


def _thinned(rows: Array, repeats: int, places: int) -> Array:
    """Return evenly spaced positions of every input."""
    if repeats == places:
        return rows
    chosen = np.linspace(0, repeats - 1, places).astype(np.int64)
    return rows.reshape(-1, repeats, rows.shape[1])[:, chosen].reshape(-1, rows.shape[1])


def _with_ray(arguments: list[tuple[Any, ...]], address: str | None, cutoff: Callable[[], float]) -> Iterator[Totals]:
    """Yield the accumulators of each file, in order.

    Ray frees memory a second later, or after a hundred results, so `cutoff` keeps the results small.
    """
    with ray_cluster(address) as ray:
        task = ray.remote(_totals_of_file)
        unfit = _unfit(ray, address)
        if unfit:
            task = task.options(**avoiding(unfit))
        # Enough tasks in flight that every CPU has work, and few results wait to be merged.
        most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting, left = deque[Any](), iter(arguments)
        waiting.extend(task.remote(*each) for each in islice(left, most))
        while waiting:
            # Merged in the order of the files, so that the result does not depend on timing.
            reference = waiting.popleft()
            try:
                yield ray.get(reference)
            except ray.exceptions.RayError as error:
                if isinstance(cause := getattr(error, "cause", None), PolarisedError):
                    raise cause from None
                raise ConfigError(f"expected Ray to read the files, but it could not: {message_of(error)}") from error
            del reference
            waiting.extend(task.remote(*each, cutoff()) for each in islice(left, 1))


_PROBE = """
def probe():
    try:
        from polarised.cluster import code_here
        import polarised.shards
        return code_here()
    except Exception as error:
        return {"problem": f"it cannot load polarised: {type(error).__name__}: {error}"}
"""


def _unfit(ray: Any, address: str | None) -> set[str]:
    """Return the nodes of a cluster that have other code than this machine, with a warning for each."""
    if address is None and len(ray.nodes()) == 1:
        return set()
    # The version of torch does not matter: it is not used.
    own = {name: value for name, value in code_here().items() if name != "torch"}
    nodes = check_nodes(ray, shipped(_PROBE, "probe"), own=own)
    unfit = name_unfit(nodes, work="files")
    if len(unfit) == len(nodes):
        first = nodes[0].problem if nodes else "nothing"
        raise ConfigError(
            f"expected at least one node that can read the files, none of {len(nodes)} can; the first says: {first}"
        )
    return unfit
