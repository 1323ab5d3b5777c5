"""A VAE of the library → Encodings, and the use of the variables by its decoder: torch in, NumPy out."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polarised.data import Batch, Dataset
from polarised.errors import DataError
from polarised.models.distributions import DiagonalGaussian, Prior
from polarised.models.networks import evaluating
from polarised.models.priors import StandardNormal
from polarised.models.vae import VAE
from polarised.random import seed_for, stream
from polarised.regime import Encodings
from polarised.regime.decoder import FEW, USUAL, CodedBatch, DecoderUse, Pictures, measure_decoder_use

__all__ = ["Live", "decoder_use", "from_vae", "pictures", "represent_by_drawing", "rest_ratio_of"]

Floats = NDArray[Any]


# The number of images in one forward pass.
_AT_ONCE = 512


class Resting(Protocol):
    """The part of an objective that describes unused variables."""

    def rest_variance(self, prior: Prior, count: int = 1) -> Tensor | None:
        """Return the variance at which an unused variable rests.

        Args:
            prior: p(z|u) of the inputs.
            count: The number of inputs.

        Returns:
            The variances, (count, d), or None if the loss does not determine them.
        """


def from_vae(
    vae: VAE,
    data: Dataset | Batch | ArrayLike,
    *,
    examples: int = 10_000,
    u: ArrayLike | None = None,
    batch_size: int = 256,
    device: str | None = None,
    seed: int = 0,
    objective: Resting | None = None,
    progress: Callable[[int], None] | None = None,
) -> Encodings:
    """Encode a sample of a dataset, or all images of an array, with the prior of each input.

    At most `examples` different images of a dataset are drawn, with their factors. `objective` is the training
    objective, which defines where an unused variable rests; `progress` is called with the number of completed images.

    Args:
        vae: The model.
        data: A dataset, a batch, or images.
        examples: The maximum number of images to draw from a dataset.
        u: Auxiliary variables of the images, if the model uses them.
        batch_size: Number of images encoded at a time.
        device: Device on which to encode; that of the model if None.
        seed: Seed of the draw.
        objective: The training objective of the model.
        progress: Called with the number of completed images.

    Returns:
        The encodings.

    >>> from polarised.data import dsprites
    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}, shape=(1, 64, 64))
    >>> from_vae(vae, dsprites(), examples=20)
    Encodings(20 inputs × 3 variables, N(0, I), factors shape, scale, orientation, posX, posY)
    """
    names = data.factor_space.names if isinstance(data, Dataset) and data.factor_space is not None else None
    batch = _batch(data, examples, u, seed)
    parts: list[tuple[Tensor, ...]] = []
    divergences: list[Tensor] = []
    rests: list[Tensor | None] = []
    with evaluating(vae), _on_device(vae, device), torch.inference_mode():
        for start in range(0, len(batch), batch_size):
            x, auxiliary = _tensors(vae, batch, slice(start, start + batch_size))
            posterior = vae.posterior(x, auxiliary)
            # An unconditional prior is the same for every input and is evaluated once.
            count = len(x) if vae.prior.conditional else 1
            given = vae.prior.given(auxiliary)
            prior_mean, prior_variance = given.moments(count)
            if objective is not None:
                rest = objective.rest_variance(given, count)
                rests.append(None if rest is None else (rest / prior_variance).sum(0).cpu().double() / count)
            parts.append(tuple(t.cpu() for t in (posterior.mean, posterior.variance, prior_mean, prior_variance)))
            if not (vae.prior.gaussian or vae.prior.conditional):
                divergences.append(vae.prior.marginal_kl(posterior).cpu().double())
            if progress is not None:
                progress(start + len(x))
    columns = [torch.cat(column).numpy() for column in zip(*parts, strict=True)]
    return Encodings(
        columns[0],
        variance=columns[1],
        prior_mean=_constant(columns[2]),
        prior_variance=_constant(columns[3]),
        factors=batch.factors,
        factor_names=names if batch.factors is not None else None,
        kl=torch.cat(divergences).mean(0).numpy() if divergences else None,
        rest_ratio=_rest_ratio(rests, vae.latents),
    )


def rest_ratio_of(objective: Resting, vae: VAE) -> Floats | None:
    """Return the rest of an unused variable of a VAE under an objective, as variance divided by prior variance.

    Args:
        objective: The training objective of the model.
        vae: The model.

    Returns:
        The ratios (d,), NaN where there is no rest; None if it depends on u: encode with the objective in that case.

    >>> from polarised.models import build_vae
    >>> from polarised.objectives import RTCVAE
    >>> vae = build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 2}, shape=(1, 64, 64))
    >>> rest_ratio_of(RTCVAE(eta=2.0), vae)
    array([0.2, 0.2])
    """
    if vae.prior.conditional:
        return None
    with torch.inference_mode():
        rest = objective.rest_variance(vae.prior)
        prior = vae.prior.moments(1)[1]
        return _rest_ratio([None if rest is None else (rest / prior)[0].cpu().double()], vae.latents)


def _rest_ratio(rests: list[Tensor | None], latents: int) -> Floats | None:
    """Average over batches; NaN if the objective defines no rest, None if there is no objective."""
    if not rests:
        return None
    known = [rest for rest in rests if rest is not None]
    return torch.stack(known).mean(0).numpy() if known else np.full(latents, np.nan)


def decoder_use(
    vae: VAE,
    data: Dataset | Batch | ArrayLike,
    *,
    examples: int = 2_000,
    most: int = 10_000,
    redraw: bool = True,
    u: ArrayLike | None = None,
    seed: int = 0,
) -> DecoderUse:
    """Return how much the decoder relies on each variable, as the rise of -log p(x|z) in nats per image.

    z_j of one input is replaced by that of another input (permuted) or by a draw from p(z_j|u) (redrawn). If both rises
    are near 0, the decoder ignores it. If only permuting raises it, the prior already determines it. [Bonheme2023iVAE]

    Args:
        vae: The model.
        data: A dataset, from which images are drawn, or images.
        examples: Number of images; a variable that is decided after a few hundred is not measured on all of them.
        most: Maximum number of images while some variable is doubtful.
        redraw: Whether to redraw too, which decides nothing and takes half of the time.
        u: Auxiliary variables of the images, if `data` is an array of images.
        seed: Seed of the images and of the permutations.

    Returns:
        The rises with their standard errors.

    >>> from polarised.data import dsprites
    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}, shape=(1, 64, 64))
    >>> decoder_use(vae, dsprites(), examples=20, most=20).table().columns[:3]
    ['variable', 'permuted', 'permuted_error']
    """
    with evaluating(vae), torch.inference_mode():
        coded = _coded(vae, data, examples, max(most, examples), u, seed)
        return measure_decoder_use(coded, redraw=redraw, seed=seed)


def _coded(
    vae: VAE, data: Dataset | Batch | ArrayLike, examples: int, most: int, u: ArrayLike | None, seed: int
) -> Iterator[CodedBatch]:
    """Yield a few hundred images with their codes, then more up to `examples`, then as many again up to `most`."""
    generator = torch.Generator().manual_seed(seed_for(seed, "decoder use"))
    done = 0
    for total, sizes in ((examples, (FEW, examples)), (most, range(examples + USUAL, most + USUAL, USUAL))):
        # Further images are a new draw: repeats are rare in a large dataset.
        batch = _drawn(data, total, u, seed if not done else seed_for(seed, "more images"))
        # Images may be sorted by content, and the first few hundred should be representative.
        order = stream(seed, "order of images", done).permutation(len(batch))
        for end in (min(size, len(batch)) for size in sizes):
            if end - done >= 2:
                yield _coded_batch(vae, _rows(batch, order[done:end]), generator)
                done = end
        if len(batch) < total:
            return


def _coded_batch(vae: VAE, batch: Batch, generator: torch.Generator) -> CodedBatch:
    x, auxiliary = _tensors(vae, batch, slice(None))
    posterior = _posterior(vae, x, auxiliary)
    z = posterior.sample(noise=torch.randn(posterior.mean.shape, generator=generator).to(posterior.mean))
    redrawn = vae.prior.given(auxiliary).sample(len(z), generator).to(z)

    def distortion(codes: Floats) -> Floats:
        return _distortions(vae, x, torch.as_tensor(codes, device=z.device))

    outputs = torch.cat([vae.decode(part) for part in torch.split(z, _AT_ONCE)])
    floor = vae.likelihood.floor(x, outputs).double().cpu().numpy()
    return CodedBatch(distortion, z.cpu().numpy(), redrawn.cpu().numpy(), floor)


def pictures(
    vae: VAE,
    data: Dataset | Batch | ArrayLike,
    *,
    originals: int = 8,
    steps: int = 9,
    reach: float = 2.0,
    u: ArrayLike | None = None,
    seed: int = 0,
) -> Pictures:
    """Return reconstructions, and traversals of each variable from -`reach` to `reach` prior standard deviations.

    The other variables stay at the mean of the first original; at most `originals` images of the data are drawn.

    Args:
        vae: The model.
        data: A dataset, a batch, or images.
        originals: The number of images.
        steps: The number of values of each traversal.
        reach: The range, in prior standard deviations.
        u: Auxiliary variables of the images, if the model uses them.
        seed: Seed of the draw.

    Returns:
        Originals, reconstructions and traversals.

    >>> from polarised.data import dsprites
    >>> from polarised.models import build_vae
    >>> vae = build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}, shape=(1, 64, 64))
    >>> pictures(vae, dsprites(), steps=5).traversals.shape
    (3, 5, 1, 64, 64)
    """
    batch = _drawn(data, originals, u, seed)
    values = torch.linspace(-reach, reach, steps)
    with evaluating(vae), torch.inference_mode():
        x, auxiliary = _tensors(vae, batch, slice(None))
        mean = _posterior(vae, x, auxiliary).mean
        prior = vae.prior.given(auxiliary)
        centre, deviation = (t[0].to(mean) for t in (prior.moments(len(x))[0], prior.deviation(len(x))))
        moved = mean[0].repeat(vae.latents, steps, 1)
        for j in range(vae.latents):
            moved[j, :, j] = centre[j] + deviation[j] * values.to(mean)
        shown, drawn = (
            torch.cat([vae.generate(part) for part in torch.split(codes, _AT_ONCE)])
            for codes in (mean, moved.flatten(0, 1))
        )
        drawn = drawn.reshape(vae.latents, steps, *vae.shape)
    reconstructions, traversals = (t.clamp(0, 1).cpu().numpy() for t in (shown, drawn))
    return Pictures(batch.images, reconstructions, traversals, values.numpy())


def represent_by_drawing(
    vae: VAE, dataset: Dataset, kind: Literal["mean", "sampled"], *, seed: int = 0
) -> tuple[Callable[[Any], Floats], tuple[int, ...]]:
    """Return a function from factors (n, F) to the codes of newly drawn images, and the number of values per factor.

    Scores that hold a factor fixed need it; for existing encodings, use `represent_by_lookup`.

    Args:
        vae: The model.
        dataset: The dataset that draws images with given factors.
        kind: Whether the code is the mean or a sample.
        seed: Seed of the images and the samples.

    Returns:
        The function, and the number of values of each factor.

    Raises:
        DataError: If the factors of the dataset are unknown.
    """
    space, draws = dataset.factor_space, stream(seed, "images of factors")
    if space is None:
        raise DataError(f"expected a dataset with known factors to draw images by, {dataset.name} has none")

    def codes(indices: Any) -> Floats:
        u = None if dataset.auxiliary is None else dataset.auxiliary(indices)
        encodings = from_vae(vae, dataset.draw(indices, draws), u=u)
        return encodings.mean if kind == "mean" else encodings.sample(seed=int(draws.integers(2**31)))

    def represent(factors: Any) -> Floats:
        indices = space.index(factors, draws)
        # Images are much larger than their codes, so only a few are in memory at a time.
        return np.concatenate([codes(indices[start : start + 4096]) for start in range(0, len(indices), 4096)])

    return represent, space.sizes


@contextmanager
def _on_device(vae: VAE, device: str | None) -> Iterator[None]:
    """Move the VAE to a device inside the block."""
    home = _device_of(vae)
    vae.to(device or home)
    try:
        yield
    finally:
        vae.to(home)


def _device_of(vae: VAE) -> torch.device:
    return next((p.device for p in vae.parameters()), torch.device("cpu"))


def _batch(data: Dataset | Batch | ArrayLike, examples: int, u: ArrayLike | None, seed: int) -> Batch:
    if isinstance(data, Dataset):
        return data.sample(min(examples, len(data)), seed)
    if isinstance(data, Batch):
        return data
    images = np.asarray(data.detach().cpu() if hasattr(data, "detach") else data, dtype=np.float32)
    auxiliary = None if u is None else np.asarray(u, dtype=np.float32)
    if images.ndim < 2 or not len(images) or (auxiliary is not None and len(auxiliary) != len(images)):
        received = "" if auxiliary is None else f" with {len(auxiliary)} rows of u"
        raise DataError(f"expected images (n, *shape), and as many rows of u, got {images.shape}{received}")
    return Batch(images, None, auxiliary, np.arange(len(images)))


def _drawn(data: Dataset | Batch | ArrayLike, count: int, u: ArrayLike | None, seed: int) -> Batch:
    """Return at most `count` images, also of an array or a batch."""
    batch = _batch(data, count, u, seed)
    if len(batch) <= count:
        return batch
    return _rows(batch, np.sort(stream(seed, "images of an array").choice(len(batch), count, replace=False)))


def _rows(batch: Batch, rows: NDArray[np.int64]) -> Batch:
    return Batch(
        batch.images[rows],
        None if batch.factors is None else batch.factors[rows],
        None if batch.u is None else batch.u[rows],
        batch.indices[rows],
    )


def _posterior(vae: VAE, x: Tensor, u: Tensor | None) -> DiagonalGaussian:
    parts = [slice(start, start + _AT_ONCE) for start in range(0, len(x), _AT_ONCE)]
    found = [vae.posterior(x[rows], None if u is None else u[rows]) for rows in parts]
    return DiagonalGaussian(torch.cat([q.mean for q in found]), torch.cat([q.log_variance for q in found]))


def _tensors(vae: VAE, batch: Batch, rows: slice) -> tuple[Tensor, Tensor | None]:
    if batch.images.shape[1:] != vae.shape:
        raise DataError(
            f"expected images of shape {vae.shape}, got {batch.images.shape[1:]}; "
            "if the channel is last, transpose them: images are (n, channels, height, width) in [0, 1]"
        )
    home = _device_of(vae)
    x = torch.as_tensor(np.ascontiguousarray(batch.images[rows]), device=home)
    return x, None if batch.u is None else torch.as_tensor(np.ascontiguousarray(batch.u[rows]), device=home)


def _distortions(vae: VAE, x: Tensor, z: Tensor, *, rows: int = 256) -> Floats:
    pairs = zip(torch.split(x, rows), torch.split(z, rows), strict=True)
    parts = [vae.likelihood.log_prob(images, vae.decode(codes)) for images, codes in pairs]
    return -torch.cat(parts).double().cpu().numpy()


def _constant(prior: Floats) -> Floats:
    """Return one row if all are equal: the shape (d,) marks a prior that does not depend on its input."""
    return prior[0] if bool((prior == prior[0]).all()) else prior


class Live:
    """A VAE with an array interface, which handles one call at a time from any number of threads.

    Args:
        vae: The model; it is set to evaluation mode.

    >>> from polarised.models import build_vae
    >>> live = Live(build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 3}, shape=(1, 16, 16)))
    >>> live.decode([0.0, 1.0, 2.0]).shape
    (1, 16, 16)
    """

    def __init__(self, vae: VAE) -> None:
        self.vae = vae.eval()
        self.home = next((p.device for p in vae.parameters()), torch.device("cpu"))
        self._turn = threading.Lock()
        self._draws = 0

    @property
    def latents(self) -> int:
        """The number of latent variables."""
        return self.vae.latents

    @property
    def prior(self) -> str:
        """The prior as a formula."""
        if self.vae.prior.conditional:
            return "p(z|u)"
        return "N(0, I)" if isinstance(self.vae.prior, StandardNormal) else "p(z)"

    def draw(self, u: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return a code drawn from the prior, another one at every call.

        Args:
            u: The auxiliary variables of one input, if the prior depends on them.

        Returns:
            The code, (d,).
        """
        with self._turn, torch.inference_mode():
            self._draws += 1
            generator = torch.Generator().manual_seed(seed_for(0, "code of the prior", self._draws))
            prior = self.vae.prior.given(None if u is None else self._row(u))
            drawn: NDArray[np.float32] = prior.sample(1, generator)[0].cpu().numpy()
        return drawn

    def decode(self, code: ArrayLike) -> NDArray[np.float32]:
        """Return the image E[x|z] in [0, 1].

        Args:
            code: The values of one code, (d,).

        Returns:
            The image.

        Raises:
            DataError: If it is not a code of this model.
        """
        z = np.asarray(code, dtype=np.float32)
        if z.shape != (self.latents,) or not np.isfinite(z).all():
            raise DataError(f"expected {self.latents} finite numbers, got shape {z.shape}")
        with self._turn, torch.inference_mode():
            image = self.vae.generate(torch.from_numpy(z)[None].to(self.home))[0]
        drawn: NDArray[np.float32] = image.clamp(0, 1).cpu().numpy()
        return drawn

    def encode(
        self, image: NDArray[np.float32], u: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return mean and variance of q(z|x, u).

        Args:
            image: One image.
            u: Its auxiliary variables, if the model uses them.

        Returns:
            Mean and variance, each (d,).
        """
        with self._turn, torch.inference_mode():
            posterior = self.vae.posterior(self._row(image), None if u is None else self._row(u))
            return posterior.mean[0].cpu().numpy(), posterior.variance[0].cpu().numpy()

    def _row(self, values: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values))[None].to(self.home)
