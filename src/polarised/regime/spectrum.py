"""The eigenvalues of the covariance of a dataset, in one pass over it, or in a few if it is wide."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised.data.dataset import Images
from polarised.errors import DataError
from polarised.random import seed_for, stream

__all__ = ["Clusters", "Likelihood", "Spectrum", "measure_spectrum"]

Array = NDArray[np.float64]
Likelihood = Literal["gaussian", "bernoulli", "poisson"]

# Up to this number of values the whole covariance is computed; beyond, subspace iteration finds its leading part.
DENSE = 2048
# The number of values read at once.
BLOCK = 1 << 23
# A value of a Bernoulli or Poisson model is excluded if the best constant decoder has less than this variance for it.
FAINT = 1e-3
PASSES, SETTLED = 40, 1e-5


class Clusters(NamedTuple):
    """k-means on one half of a sample, evaluated on the other: variance between clusters, entropy of labels in nats."""

    number: int
    between: float
    entropy: float


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvalues of the covariance that a decoder has to explain, largest first, one for each value of x.

    Only the first `leading` are measured; the others share the remaining trace equally, which is sufficient for a model
    with at most `leading` latents. `sample` has rows in the same units, for the search for clusters.
    """

    eigenvalues: Array
    leading: int
    rows: int
    left_out: int
    smallest: float
    largest: float
    whole: bool
    sample: Array = field(repr=False)
    seed: int = 0

    @property
    def total(self) -> float:
        """The trace of the covariance: the squared error of the best constant."""
        return float(self.eigenvalues.sum())

    @cached_property
    def clusters(self) -> tuple[Clusters, ...]:
        """Clusters of the sample, 2 to 64 of them, computed on first use."""
        return _clusters(self.sample, self.seed)


def measure_spectrum(
    data: Any, *, leading: int, likelihood: Likelihood = "gaussian", bias: bool = True, rows: int = 2000, seed: int = 0
) -> Spectrum:
    """Return the eigenvalues of V^-1/2 S V^-1/2, with S the covariance of the data divided by n.

    V is the curvature of the negative log-likelihood at the best constant decoder: 1 for a Gaussian (whose variance
    is accounted for elsewhere), p(1 - p) for a Bernoulli, the mean for a Poisson. Up to 2,048 values, the covariance is
    accumulated block by block, for any number of rows; for wider data, the spectrum is that of the Gram matrix if there
    are few rows, and its leading part by randomised subspace iteration otherwise [Halko2011, algorithm 4.4].

    Args:
        data: An array (n, ...), a `Dataset`, or an iterable of batches; bytes are divided by 255.
        leading: The number of eigenvalues needed.
        likelihood: The likelihood of the decoder.
        bias: Whether the decoder can add a constant; if not, moments around 0 replace the covariance.
        rows: The number of rows to keep as a sample.
        seed: Seed of the sample and of the initial subspace.

    Returns:
        The spectrum, with as many eigenvalues as values in a row.

    Raises:
        DataError: If the data are not finite numbers of one shape, do not vary, or are outside the likelihood's range.

    >>> measure_spectrum(np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 3.0], [2.0, 3.0]]), leading=2).eigenvalues
    array([1., 1.])
    """
    blocks = _reader(data)
    sums = _Sums(rows, stream(seed, "rows of the spectrum"))
    for block in blocks():
        sums.add(block)
    scale = sums.scale(likelihood, bias)
    if sums.outer is not None:
        moments = sums.second_moments(bias) * scale * scale[:, None]
        found = np.linalg.eigvalsh(moments)[::-1]
        measured = len(found)
    else:
        centre = sums.mean if bias else np.zeros_like(sums.mean)
        measured = min(leading, sums.count, len(centre))
        if sums.count <= DENSE:
            whole = np.concatenate([(block - centre) * scale for block in blocks()])
            found = np.linalg.eigvalsh(whole @ whole.T / len(whole))[::-1]
            measured = len(found)
        else:
            found = _leading(blocks, centre, scale, measured, sums.count, stream(seed, "subspace of the spectrum"))
    total = float((sums.variances(bias) * scale**2).sum())
    kept = int((scale > 0).sum())
    eigenvalues = np.zeros(kept)
    measured = min(measured, kept)
    eigenvalues[:measured] = np.maximum(found[:measured], 0.0)
    if measured < kept:
        eigenvalues[measured:] = max(total - eigenvalues.sum(), 0.0) / (kept - measured)
    sample = (sums.sample - (sums.mean if bias else 0.0)) * scale
    return Spectrum(
        eigenvalues=eigenvalues,
        leading=measured,
        rows=sums.count,
        left_out=len(scale) - kept,
        smallest=sums.smallest,
        largest=sums.largest,
        whole=sums.whole,
        sample=sample[:, scale > 0],
        seed=seed,
    )


class _Sums:
    """The sums of one pass: moments around the mean of the first block, the range, and a random sample of rows."""

    def __init__(self, rows: int, generator: np.random.Generator) -> None:
        self.rows, self.generator, self.count = rows, generator, 0
        self.smallest, self.largest, self.whole = np.inf, -np.inf, True
        self.outer: Array | None = None
        self.keys, self.sample = np.empty(0), np.empty((0, 0))

    def add(self, block: Array) -> None:
        if not self.count:
            self.shift = block.mean(axis=0)
            self.first, self.second = np.zeros_like(self.shift), np.zeros_like(self.shift)
            if len(self.shift) <= DENSE:
                self.outer = np.zeros((len(self.shift),) * 2)
        if block.shape[1] != len(self.shift):
            raise DataError(
                f"expected rows of one shape, got batches of {len(self.shift)} and of {block.shape[1]} values"
            )
        if not np.isfinite(block).all():
            raise DataError("expected finite numbers in the data, got NaN or infinite values; clean them first")
        self.count += len(block)
        self.smallest, self.largest = min(self.smallest, float(block.min())), max(self.largest, float(block.max()))
        self.whole = self.whole and bool((block == np.floor(block)).all())
        shifted = block - self.shift
        self.first += shifted.sum(axis=0)
        self.second += np.einsum("ij,ij->j", shifted, shifted)
        if self.outer is not None:
            self.outer += shifted.T @ shifted
        # The rows with the smallest random keys are a uniform sample, whatever the length of the data.
        keys = self.generator.random(len(block))
        lowest = np.argsort(keys)[: self.rows]
        keys, drawn = np.append(self.keys, keys[lowest]), block[lowest]
        chosen = np.argsort(keys)[: self.rows]
        self.sample = np.concatenate([self.sample, drawn])[chosen] if len(self.keys) else drawn
        self.keys = keys[chosen] if len(self.keys) else keys

    @property
    def mean(self) -> Array:
        mean: Array = self.shift + self.first / self.count
        return mean

    def variances(self, bias: bool) -> Array:
        own: Array = np.maximum(self.second / self.count - (self.first / self.count) ** 2, 0.0)
        return own if bias else own + self.mean**2

    def second_moments(self, bias: bool) -> Array:
        assert self.outer is not None
        drift = self.first / self.count
        covariance: Array = self.outer / self.count - np.outer(drift, drift)
        return covariance if bias else covariance + np.outer(self.mean, self.mean)

    def scale(self, likelihood: Likelihood, bias: bool) -> Array:
        """Return V^-1/2 of every value, 0 where it is excluded; refuse constant data."""
        if self.count < 2:
            raise DataError(f"expected at least 2 rows of data, got {self.count}")
        if not self.variances(bias).sum() > 0:
            raise DataError("expected data that vary, every row is the same; there is nothing to encode")
        if likelihood == "gaussian":
            return np.ones_like(self.shift)
        top = 1.0 if likelihood == "bernoulli" else np.inf
        if self.smallest < 0 or self.largest > top:
            wanted = "values in [0, 1]" if likelihood == "bernoulli" else "counts of 0 or more"
            raise DataError(
                f"expected {wanted} under a {likelihood.capitalize()} likelihood, got values in "
                f"[{self.smallest:.3g}, {self.largest:.3g}]; rescale them or use the Gaussian likelihood"
            )
        curvature = self.mean * (1.0 - self.mean) if likelihood == "bernoulli" else self.mean
        seen = curvature >= FAINT
        if not seen.any():
            raise DataError("expected values that vary, all are constant to within 0.001; there is nothing to encode")
        return np.where(seen, 1.0 / np.sqrt(np.maximum(curvature, FAINT)), 0.0)


def _leading(
    blocks: Callable[[], Iterator[Array]],
    centre: Array,
    scale: Array,
    needed: int,
    rows: int,
    generator: np.random.Generator,
) -> Array:
    """Return the leading eigenvalues; the subspace is 1.5 times as large as needed, so that the iteration converges."""
    values = len(centre)
    basis = np.linalg.qr(generator.standard_normal((values, min(values, needed + max(10, needed // 2)))))[0]
    before: Array = np.zeros(needed)
    for _ in range(PASSES):
        # Centring and scaling the basis instead of the data saves two copies of the data per pass.
        scaled = basis * scale[:, None]
        offset = centre @ scaled
        image, sums, count = np.zeros_like(basis), np.zeros_like(offset), 0
        for block in blocks():
            codes = block @ scaled - offset
            image += block.T @ codes
            sums += codes.sum(axis=0)
            count += len(block)
        if count != rows:
            raise DataError(
                f"expected data of {values} values per row that can be read several times, got {rows} rows first and "
                f"{count} then; pass an array or a dataset instead of an iterator"
            )
        image = (image - np.outer(centre, sums)) * scale[:, None]
        found = np.asarray(np.linalg.eigvalsh(basis.T @ image / rows)[::-1][:needed], dtype=np.float64)
        if np.all(np.abs(found - before) <= SETTLED * found[0]):
            break
        before, basis = found, np.linalg.qr(image)[0]
    return found


def _reader(data: Any) -> Callable[[], Iterator[Array]]:
    """Return a function that reads the data from the start, in blocks of rows (n, values)."""
    images = getattr(data, "images", data)
    if isinstance(images, list | tuple):
        images = np.asarray(images)
    if hasattr(images, "shape") and hasattr(images, "__len__"):
        return lambda: _slices(images)
    if isinstance(images, Iterable):
        return lambda: (_flat(batch[0] if isinstance(batch, list | tuple) else batch) for batch in images)
    raise DataError(
        f"expected an array (n, ...), a dataset or an iterable of batches, got {type(data).__name__}; "
        "pass the images that your model is trained on"
    )


def _slices(images: Any) -> Iterator[Array]:
    shape = images.shape if isinstance(images, Images) else images.shape[1:]
    step = max(1, BLOCK // max(1, int(np.prod(shape))))
    return (_flat(images[start : start + step]) for start in range(0, len(images), step))


def _flat(batch: Any) -> Array:
    values = np.asarray(batch)
    if values.dtype.kind not in "fiub" or values.ndim < 2 or not values.size:
        raise DataError(
            f"expected numbers of shape (n, ...) with a row for each input, got {values.dtype} of shape {values.shape}"
        )
    rows = values.reshape(len(values), -1).astype(np.float64)
    return rows / 255.0 if values.dtype == np.uint8 else rows


def _clusters(sample: Array, seed: int) -> tuple[Clusters, ...]:
    """Measure clusters on rows they were not fitted to, so that overfitting gains nothing."""
    from sklearn.cluster import KMeans

    half = len(sample) // 2
    fitted, seen = sample[:half], sample[half:]
    different = len(np.unique(fitted, axis=0))
    total, found = float(((seen - fitted.mean(axis=0)) ** 2).sum(axis=1).mean()), []
    count = 2
    while count <= min(64, half // 8, different):
        means = KMeans(count, n_init=1, max_iter=20, random_state=seed_for(seed, "clusters") % 2**32).fit(fitted)
        labels = means.predict(seen)
        within = float(((seen - means.cluster_centers_[labels]) ** 2).sum(axis=1).mean())
        shares = np.bincount(labels, minlength=count) / len(labels)
        shares = shares[shares > 0]
        found.append(Clusters(count, max(total - within, 0.0), float(-(shares * np.log(shares)).sum())))
        count *= 2
    return tuple(found)
