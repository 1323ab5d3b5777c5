"""Data made by a formula, whose truth is therefore known: clusters, sources, populations, a linear model."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polarised.data import sprites
from polarised.data.dataset import Dataset, FactorSpace, check_choice, check_counts
from polarised.errors import ConfigError
from polarised.random import stream
from polarised.registry import register

__all__ = [
    "LinearOptimum",
    "linear_gaussian",
    "nonlinear_ica",
    "optimal_noise_variance",
    "pinwheel",
    "probabilistic_pca",
    "two_populations",
]

Floats = NDArray[np.float64]


SPRITES, HEIGHTS, BAR, SIDE = 6 * 32 * 32, 32, 3, 32


POPULATION_FACTORS = {"population": 2, "scale": 6, "posX": 32, "posY": 32, "height": HEIGHTS}


MADE_HERE = "made here"


@register(
    "dataset",
    summary="arms of a pinwheel",
    references=("Mathieu2019",),
    images=400,
    shape=(2,),
    factors={"arm": 4},
    licence=MADE_HERE,
)
def pinwheel(
    *,
    arms: int = 4,
    points: int = 100,
    radial: float = 0.1,
    tangential: float = 0.3,
    rate: float = 0.25,
    reading: Literal["code", "paper"] = "code",
    seed: int = 0,
) -> Dataset:
    """Return points of the plane on the arms of a pinwheel [Mathieu2019, section 6.2].

    f = (1 + a N, b N), point = f R(2 pi k / arms + rate exp(f_1)) for arm k, R a clockwise rotation. The paper's text
    says a = radial, b = tangential; its code has a = tangential, b = radial.

    Args:
        arms: The number of arms.
        points: The number of points on each.
        radial: The deviation a of the text, b of the code.
        tangential: The deviation b of the text, a of the code.
        rate: How fast the arms turn with the distance from the centre.
        reading: Whether the deviations are as in the paper's released code or as in its text.
        seed: The seed of the draws.

    Returns:
        The dataset.

    Raises:
        ConfigError: If a number is out of range.

    >>> dataset = pinwheel()
    >>> dataset.shape, len(dataset), dataset.factor_space.names
    ((2,), 400, ('arm',))
    """
    check_counts(arms=arms, points=points)
    check_choice("reading", reading, ("code", "paper"))
    generator = stream(seed, "pinwheel")
    along, across = (tangential, radial) if reading == "code" else (radial, tangential)
    arm = np.repeat(np.arange(arms), points)
    flat = generator.standard_normal((arms * points, 2)) * (along, across) + (1.0, 0.0)
    angle = 2.0 * np.pi * arm / arms + rate * np.exp(flat[:, 0])
    cosine, sine = np.cos(angle), np.sin(angle)
    turned = np.stack([flat[:, 0] * cosine + flat[:, 1] * sine, flat[:, 1] * cosine - flat[:, 0] * sine], axis=1)
    return _vectors("pinwheel", turned, factor_space=FactorSpace(("arm",), (arms,), table=arm[:, None]))


@register(
    "dataset",
    title="nonlinear ICA",
    summary="mixed sources",
    references=("Khemakhem2020",),
    images=40_000,
    shape=(5,),
    factors={"segment": 40},
    licence=MADE_HERE,
    example={"points": 20},
)
def nonlinear_ica(
    *,
    segments: int = 40,
    points: int = 1000,
    sources: int = 5,
    observed: int | None = None,
    layers: int = 3,
    distribution: Literal["gaussian", "laplace", "hyperbolic_secant"] = "gaussian",
    activation: Literal["xtanh", "leaky_relu"] = "xtanh",
    matrices: Literal["uniform", "orthogonal"] = "uniform",
    repeat_matrix: bool = True,
    centred: bool = True,
    staircase: bool = False,
    noise: float = 0.0,
    standardise: bool = False,
    seed: int = 1,
) -> Dataset:
    """Return mixed sources whose scale changes from segment to segment; u is the segment, one-hot [Khemakhem2020].

    s = m + L e with L ~ Uniform(0.5, 3) for each segment and source, m = 0, or Uniform(-5, 5) if not centred;
    x = act(.. act(s A) B ..) B.

    Args:
        segments: The number of segments.
        points: The number of points in each.
        sources: The number of sources.
        observed: The number of observed values; that of the sources if not given.
        layers: The number of mixing matrices.
        distribution: The distribution of the noise e.
        activation: What stands between two matrices: tanh(x) + 0.1 x ("xtanh"), or a leaky ReLU of slope 0.1.
        matrices: Whether the matrices are orthogonal, or uniform with unit columns and well conditioned.
        repeat_matrix: Whether all layers after the first share a matrix.
        centred: Whether the sources have mean 0 in every segment.
        staircase: Whether the mean of the first source is 3 times a permuted segment index.
        noise: The standard deviation of noise added to the observed values.
        standardise: Whether the observed values are brought to mean 0 and variance 1.
        seed: The seed of the draws.

    Returns:
        The dataset, with the true sources.

    Raises:
        ConfigError: If a number is out of range, or a setting none of its choices.

    >>> dataset = nonlinear_ica(points=10, sources=2, observed=4)
    >>> dataset.shape, dataset.auxiliary_size, dataset.sources.shape
    ((4,), 40, (400, 2))
    """
    outputs = sources if observed is None else observed
    check_counts(segments=segments, points=points, sources=sources, observed=outputs, layers=layers)
    check_choice("distribution", distribution, ("gaussian", "laplace", "hyperbolic_secant"))
    check_choice("activation", activation, ("xtanh", "leaky_relu"))
    check_choice("matrices", matrices, ("uniform", "orthogonal"))
    generator = stream(seed, "nonlinear_ica")
    segment = np.repeat(np.arange(segments), points)
    scale = generator.uniform(0.5, 3.0, (segments, sources))
    mean = np.zeros_like(scale) if centred else generator.uniform(-5.0, 5.0, scale.shape)
    if staircase:
        mean[:, 0] = 3.0 * generator.permutation(segments)
    true = mean[segment] + scale[segment] * _standard(distribution, (len(segment), sources), generator)
    mixed = true
    matrix = _matrix(sources, outputs, matrices, generator)
    for layer in range(layers):
        mixed = mixed @ matrix
        if layer < layers - 1:
            mixed = np.tanh(mixed) + 0.1 * mixed if activation == "xtanh" else np.maximum(mixed, 0.1 * mixed)
            if not repeat_matrix or matrix.shape != (outputs, outputs):
                matrix = _matrix(outputs, outputs, matrices, generator)
    mixed = mixed + noise * generator.standard_normal(mixed.shape)
    if standardise:
        mixed = (mixed - mixed.mean(axis=0)) / mixed.std(axis=0)
    return _vectors(
        "nonlinear_ica",
        mixed,
        factor_space=FactorSpace(("segment",), (segments,), table=segment[:, None]),
        auxiliary=lambda indices: np.eye(segments, dtype=np.float32)[segment[indices]],
        auxiliary_size=segments,
        sources=true,
    )


@register(
    "dataset",
    title="two populations",
    summary="squares or bars",
    references=("Bonheme2023BeMoreActive",),
    images=12_288,
    shape=(1, 32, 32),
    factors=POPULATION_FACTORS,
    licence=MADE_HERE,
)
def two_populations() -> Dataset:
    """Return 32x32 images of which half show a square and half a bar, so that a variable can be alive on one half only.

    The squares are those of dSprites, upright, of 6 scales in 32 x 32 places; the bar is as wide as the image, 3 pixels
    thick, at 32 heights. Both populations have 6,144 images; a factor that a population lacks is 0 there. A beta-VAE of
    beta 12, every pixel counted twice, keeps a variable for the squares that is off on the bars: a truly mixed one.

    Returns:
        The dataset.

    >>> two_populations().factor_space.sample(1, stream(0, "example"), fixed={"population": 1})[0, :4]
    array([1, 0, 0, 0])
    """
    index = np.arange(SPRITES)
    scale, x, y = np.unravel_index(index, (6, 32, 32))
    none = np.zeros(SPRITES, dtype=np.int64)
    squares = np.stack([none, scale, x, y, none], axis=1)
    table = np.concatenate([squares, np.stack([none + 1, none, none, none, index % HEIGHTS], axis=1)])
    space = FactorSpace(tuple(POPULATION_FACTORS), tuple(POPULATION_FACTORS.values()), table=table)
    bars = _bars()

    def read(indices: NDArray[np.int64]) -> NDArray[np.float32]:
        population, scale, x, y, height = table[indices].T
        images: NDArray[np.float32] = bars[height]
        square = population == 0
        upright = sprites.SPACE.index(np.stack([population, scale, population, x, y], axis=1)[square])
        images[square] = sprites.halved(sprites.rows(upright))
        return images

    return Dataset("two_populations", (1, SIDE, SIDE), 2 * SPRITES, read, factor_space=space)


@register(
    "dataset",
    title="linear Gaussian",
    summary="the best VAE is known",
    references=("Tipping1999",),
    images=4000,
    shape=(8,),
    factors={},
    licence=MADE_HERE,
)
def linear_gaussian(
    *,
    variances: tuple[float, ...] = (8.0, 4.0, 2.0, 0.5, 0.3, 0.1, 0.1, 0.1),
    points: int = 4000,
    seed: int = 0,
) -> Dataset:
    """Return Gaussian vectors whose covariance has exactly these eigenvalues, so that the best VAE is known.

    x = sqrt(variances) e Q, Q a random rotation and e whitened on the sample: the mean 0 and covariance
    Q' diag(variances) Q are exact, so that `probabilistic_pca(variances, ...)` is the optimum on this very sample
    [Tipping1999].

    Args:
        variances: The eigenvalues of the covariance.
        points: The number of vectors.
        seed: The seed of the draws.

    Returns:
        The dataset.

    Raises:
        ConfigError: If a variance is not positive, or there are too few points.

    >>> np.linalg.eigvalsh(np.cov(linear_gaussian(variances=(3.0, 1.0)).images[:].T, bias=True)).round(4)
    array([1., 3.])
    """
    size = len(variances)
    if not size or min(variances) <= 0.0 or points <= 2 * size:
        raise ConfigError(
            f"expected positive variances and more than twice as many points, got {variances} and {points} points"
        )
    generator = stream(seed, "linear_gaussian")
    rough = generator.standard_normal((points, size))
    rough -= rough.mean(axis=0)
    white = np.linalg.qr(rough)[0] * np.sqrt(points)
    return _vectors("linear_gaussian", white * np.sqrt(variances) @ _rotation(size, generator))


def _vectors(name: str, rows: Floats, **known: Any) -> Dataset:
    values = rows.astype(np.float32)
    return Dataset(name, (rows.shape[1],), len(rows), values.__getitem__, **known)


def _bars() -> NDArray[np.float32]:
    """Return a bar at each height; where it covers a part of a pixel the pixel is as bright as that part."""
    top = np.linspace(0.0, SIDE - BAR, HEIGHTS)[:, None]
    row = np.arange(SIDE)
    covered = np.clip(np.minimum(row + 1, top + BAR) - np.maximum(row, top), 0.0, 1.0)
    return np.broadcast_to(covered[:, None, :, None], (HEIGHTS, 1, SIDE, SIDE)).astype(np.float32)


def _standard(kind: str, shape: tuple[int, int], generator: np.random.Generator) -> Floats:
    if kind == "gaussian":
        return generator.standard_normal(shape)
    if kind == "laplace":
        return generator.laplace(0.0, 1.0 / np.sqrt(2.0), shape)
    # The inverse of the distribution function of sech(x) / pi.
    return np.log(np.tan(0.5 * np.pi * (1.0 - generator.random(shape))))


def _matrix(rows: int, columns: int, kind: str, generator: np.random.Generator) -> Floats:
    """Return a mixing matrix: orthogonal, or uniform with unit columns, well conditioned as a quarter of such are."""
    if kind == "orthogonal":
        square = _rotation(max(rows, columns), generator)
        return square[:rows, :columns]
    draws = max(100, min(10_000, 4_000_000 // (rows * columns)))
    tried = generator.uniform(-1.0, 1.0, (draws, rows, columns))
    tried /= np.linalg.norm(tried, axis=1, keepdims=True)
    condition = np.linalg.cond(tried)
    good: Floats = tried[np.argmax(condition < np.quantile(condition, 0.25))]
    return good


def _rotation(size: int, generator: np.random.Generator) -> Floats:
    return np.linalg.qr(generator.standard_normal((size, size)))[0]


class LinearOptimum(NamedTuple):
    """The optimum of a linear VAE: one number for each latent variable, the strongest first, and its ELBO.

    Args:
        variance: Variance of q(z|x), which is its ratio to the standard normal prior: 1 where the variable is passive.
        mean_variance: Variance of the mean of q(z|x) over the data: 1 - variance.
        kl: Mean KL(q(z|x) || p(z)) in nats.
        elbo: E log p(x|z) - beta KL, in nats, averaged over the data.
        decoder_scale: Length of the decoder's column of each variable.
    """

    variance: NDArray[np.float64]
    mean_variance: NDArray[np.float64]
    kl: NDArray[np.float64]
    elbo: float
    decoder_scale: NDArray[np.float64]


def probabilistic_pca(
    variances: Sequence[float] | NDArray[np.float64], *, latents: int, noise_variance: float, beta: float = 1.0
) -> LinearOptimum:
    """Return the optimum of a linear beta-VAE on data whose covariance has the eigenvalues `variances`.

    With p(x|z) = N(W z + m, s I) and b = beta s: variable j is alive iff lambda_j > b; then
    |w_j|^2 = lambda_j - b and Var q(z_j|x) = b / lambda_j; otherwise w_j = 0 and q(z_j|x) = N(0, 1)
    [Tipping1999, eq. 7], [Lucas2019, section 4]. Beta scales the noise: error / s + beta KL = beta (error / b + KL).

    Args:
        variances: The eigenvalues lambda of the data's covariance.
        latents: The number of latent variables.
        noise_variance: The variance s of the decoder.
        beta: The weight of the rate.

    Returns:
        The optimum, the strongest variable first.

    Raises:
        ConfigError: If a number is out of range.

    >>> probabilistic_pca([8.0, 2.0, 0.5], latents=3, noise_variance=1.0).variance
    array([0.125, 0.5  , 1.   ])
    """
    spectrum = np.sort(np.asarray(variances, dtype=np.float64))[::-1]
    if not spectrum.size or spectrum[-1] < 0 or latents < 1 or noise_variance <= 0 or beta <= 0:
        raise ConfigError(
            "expected variances of 0 or more, at least one latent, positive noise_variance and beta, "
            f"got {list(variances)}, {latents}, {noise_variance}, {beta}"
        )
    kept = np.zeros(latents)
    kept[: min(latents, spectrum.size)] = spectrum[:latents]
    noise = beta * noise_variance
    ratio = noise / np.maximum(kept, noise)
    kl = -0.5 * np.log(ratio)
    # An alive direction leaves squared error b: b (1 - ratio) by the noise of z, b ratio by the shrinkage of its mean.
    error = spectrum.sum() - np.maximum(kept - noise, 0.0).sum()
    fit = -0.5 * (spectrum.size * np.log(2.0 * np.pi * noise_variance) + error / noise_variance)
    return LinearOptimum(
        variance=ratio,
        mean_variance=1.0 - ratio,
        kl=kl,
        elbo=float(fit - beta * kl.sum()),
        decoder_scale=np.sqrt(np.maximum(kept - noise, 0.0)),
    )


def optimal_noise_variance(
    variances: Sequence[float] | NDArray[np.float64], *, latents: int, beta: float = 1.0, floor: float = 1e-3
) -> float:
    """Return the noise variance s at which a linear beta-VAE has the largest ELBO.

    s = sum_{j > k} lambda_j / (D - beta k), k = #{j <= latents: lambda_j > beta s}; at beta = 1 the mean of the
    discarded eigenvalues [Tipping1999, eq. 8]. Where nothing is discarded and beta is at most 1, less noise is never
    worse: then, and wherever s would be smaller, it is `floor` times the mean variance.

    Args:
        variances: The eigenvalues lambda of the data's covariance.
        latents: The number of latent variables.
        beta: The weight of the rate.
        floor: The smallest share of the mean variance that is returned.

    Returns:
        The noise variance s.

    Raises:
        ConfigError: If a number is out of range.

    >>> optimal_noise_variance([8.0, 2.0, 0.5, 0.3], latents=2)
    0.4
    """
    spectrum = np.sort(np.asarray(variances, dtype=np.float64))[::-1]
    if not spectrum.size or spectrum[-1] < 0 or not spectrum[0] > 0 or latents < 1 or not beta > 0 or not floor > 0:
        raise ConfigError(
            "expected variances of 0 or more, at least one latent, positive beta and floor, "
            f"got {list(variances)}, {latents}, {beta}, {floor}"
        )
    size, least = spectrum.size, floor * float(spectrum.mean())
    most = min(latents, size)
    discarded = np.append(np.cumsum(spectrum[::-1])[::-1], 0.0)
    rank = int((spectrum > 1e-12 * spectrum[0]).sum())
    if rank <= most and beta * rank <= size:
        return least
    for kept in range(most, -1, -1):
        if beta * kept >= size:
            continue
        noise = float(discarded[kept]) / (size - beta * kept)
        enough = kept == 0 or spectrum[kept - 1] > beta * noise
        if enough and (kept == most or spectrum[kept] <= beta * noise):
            return max(noise, least)
    return least
