"""The terms of the objectives: functions of a step, in nats, averaged over the batch."""

import functools
import math
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, nll_loss

from polarised.errors import ConfigError, DataError
from polarised.models._fused import Dense, fuses, graph_wanted, judge
from polarised.models.distributions import LOG_TWO_PI, DiagonalGaussian
from polarised.models.networks import glorot
from polarised.objectives.step import Step
from polarised.regime.encodings import Estimator, importance_weights

__all__ = [
    "RateParts",
    "covariance_penalty",
    "critic_network",
    "critic_terms",
    "distortion",
    "inclusive_kl",
    "maximum_mean_discrepancy",
    "mmd",
    "posterior_covariance",
    "posterior_noise",
    "rate",
    "rate_parts",
    "shuffled",
]

Distance = Literal["squared", "printed"]
SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


# The number of squared distances whose six kernels are in memory at once.
_AT_ONCE = 2**20


def distortion(step: Step) -> Tensor:
    """Return -E[log p(x|z)], summed over pixels [Kingma2014, eq. 3].

    Args:
        step: The step.

    Returns:
        The mean over the batch in nats.
    """
    return step.likelihood.log_prob(step.x, step.outputs).sum() / -len(step.x)


def rate(step: Step) -> Tensor:
    """Return E[KL(q(z|x) || p(z|u))], summed over latents [Kingma2014, eq. 3].

    Args:
        step: The step.

    Returns:
        The mean over the batch in nats.
    """
    return step.prior.kl(step.posterior, step.z).sum() / len(step.z)


class RateParts(NamedTuple):
    """The rate in three parts: information of z about x, dependence of the variables, distance of each from its prior.

    Args:
        mutual_information: The information of z about x, in nats.
        total_correlation: The dependence of the variables of z, in nats.
        dimension_wise: The distance of each variable from its prior, summed, in nats.
    """

    mutual_information: Tensor
    total_correlation: Tensor
    dimension_wise: Tensor


def rate_parts(
    step: Step, *, estimator: Estimator = "mws", weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
) -> RateParts:
    """Split the sampled rate with a minibatch estimate of the aggregate posterior q(z) [Chen2018, eq. 2].

    E[log q(z|x) - log p(z)]
        = E[log q(z|x) - log q(z)] + E[log q(z) - sum_j log q(z_j)] + E[sum_j log q(z_j) - log p(z)],
    log q(z_i) = logsumexp_k(log W_ik + sum_j log q(z_ij|x_k)) and likewise for each log q(z_ij).
    The three parts sum to the sampled rate for any weights W; `importance_weights` lists them.

    Args:
        step: The step.
        estimator: The weights W.
        weights: What each part is multiplied by; a part of weight 0 is not computed.

    Returns:
        The three parts.
    """
    codes = step.z, step.posterior.mean, step.posterior.log_variance
    shares = _log_weights(len(step.z), step.dataset_size, estimator, step.z.dtype, step.z.device)
    densities: Callable[..., tuple[Tensor, Tensor, Tensor]] = _Densities.apply if fuses(*codes) else _densities
    log_posterior, log_joint, log_product = densities(*codes, shares)
    of_information, of_correlation, of_dimensions = weights
    nothing = step.z.new_zeros(())
    return RateParts(
        of_information * (log_posterior - log_joint).mean() if of_information else nothing,
        of_correlation * (log_joint - log_product).mean() if of_correlation else nothing,
        of_dimensions * (log_product - step.prior.log_prob(step.z)).mean() if of_dimensions else nothing,
    )


def _densities(z: Tensor, mean: Tensor, log_variance: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log q(z|x), log q(z) and sum_j log q(z_j) of every code, from the posteriors of the batch."""
    across = DiagonalGaussian(mean[None], log_variance[None]).log_prob(z[:, None])
    together = across.sum(2)
    log_product = torch.logsumexp(across + weights[:, :, None], dim=1).sum(1)
    return torch.diagonal(together), torch.logsumexp(together + weights, dim=1), log_product


class _Densities(torch.autograd.Function):
    """`_densities` with the variables as the first axis, which makes sums fast, and an explicit gradient."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, mean: Tensor, log_variance: Tensor, weights: Tensor) -> Any:
        # The axes are (variable, code, posterior), in memory as well.
        codes, means, logs = (values.t().contiguous() for values in (z, mean, log_variance))
        gap = codes[:, :, None] - means[:, None]
        scaled = gap * logs.neg().exp_()[:, None]
        each = torch.addcmul((logs + LOG_TWO_PI).mul_(-0.5)[:, None], gap, scaled, value=-0.5)
        together = each.sum(0)
        log_posterior = together.diagonal().clone()
        together += weights
        log_joint = together.logsumexp(1)
        each += weights
        largest = each.amax(2, keepdim=True)
        total = each.sub_(largest).exp_().sum(2, keepdim=True)
        shares, joint = each.div_(total), together.sub_(log_joint[:, None]).exp_()
        ctx.save_for_backward(z, mean, log_variance, weights, gap, scaled, shares, joint)
        return log_posterior, log_joint, total.log_().add_(largest).sum((0, 2))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        *inputs, gap, scaled, shares, joint = ctx.saved_tensors
        if graph_wanted(slopes[0]):
            with torch.enable_grad():
                again = _densities(*inputs)
            found = iter(torch.autograd.grad(again, [i for i in inputs if i.requires_grad], slopes, create_graph=True))
            return tuple(next(found) if i.requires_grad else None for i in inputs)
        of_posterior, of_joint, of_product = slopes
        together = joint * of_joint[:, None]
        together.diagonal().add_(of_posterior)
        slope = (shares * of_product[:, None]).add_(together)
        pull = slope * scaled
        of_mean = pull.sum(1)
        of_code = pull.sum(2).neg_()
        of_log_variance = pull.mul_(gap).sum(1).sub_(slope.sum(1)).mul_(0.5)
        return of_code.t(), of_mean.t(), of_log_variance.t(), None


@functools.lru_cache(maxsize=16)
def _log_weights(
    batch: int, dataset_size: int, estimator: Estimator, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return the logarithm of `importance_weights` on the device, computed once per run instead of at every step."""
    # Created outside inference mode even if the first call is inside it: training cannot use an inference tensor.
    with torch.inference_mode(False):
        weights = torch.from_numpy(importance_weights(batch, dataset_size, estimator=estimator))
        return weights.log().to(device, dtype)


def posterior_covariance(posterior: DiagonalGaussian, *, of: Literal["mean", "sample"]) -> Tensor:
    """Return Cov[E[z|x]] over the batch (divided by its size), plus E[Cov[z|x]] for the sample [Kumar2018, eq. 5].

    Args:
        posterior: q(z|x) of a batch.
        of: Whether to return the covariance of the means or of the samples.

    Returns:
        The covariance, (d, d).
    """
    centred = posterior.mean - posterior.mean.mean(0)
    variance = posterior.variance.mean(0) if of == "sample" else centred.new_zeros(centred.shape[1])
    return torch.addmm(torch.diag(variance), centred.T, centred, alpha=1 / len(centred))


def covariance_penalty(covariance: Tensor, *, lambda_od: float, lambda_d: float) -> Tensor:
    """Return lambda_od sum_{i != j} C_ij^2 + lambda_d sum_i (C_ii - 1)^2 [Kumar2018, eq. 6].

    Args:
        covariance: The covariance C, (d, d).
        lambda_od: The weight of the elements off the diagonal.
        lambda_d: The weight of the diagonal.

    Returns:
        The penalty.

    >>> covariance_penalty(torch.tensor([[2.0, 3.0], [3.0, 1.0]]), lambda_od=1.0, lambda_d=10.0).item()
    28.0
    """
    identity, weights = _identity_and_weights(len(covariance), lambda_od, lambda_d, covariance.dtype, covariance.device)
    return ((covariance - identity).square() * weights).sum()


@functools.lru_cache(maxsize=16)
def _identity_and_weights(
    size: int, off_diagonal: float, diagonal: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False):
        weights = torch.full((size, size), off_diagonal, dtype=dtype, device=device)
        return torch.eye(size, dtype=dtype, device=device), weights.fill_diagonal_(diagonal)


def posterior_noise(step: Step) -> Tensor:
    """Return E[tr Cov[z|x]], the part of the variance of z that is independent of x [Cheng2021, eq. 4].

    Args:
        step: The step.

    Returns:
        The mean over the batch.
    """
    return step.posterior.variance.sum(1).mean()


def inclusive_kl(step: Step) -> Tensor:
    """Return KL(p(z) || mean_i q(z|x_i)), with as many draws from the prior as images [Mathieu2019, appendix B].

    Args:
        step: The step.

    Returns:
        The estimate in nats.
    """
    draws = step.prior.sample(len(step.z), step.generator).to(step.z)
    posterior = DiagonalGaussian(step.posterior.mean[None], step.posterior.log_variance[None])
    log_each = posterior.log_prob(draws[:, None]).sum(2)
    log_aggregate = torch.logsumexp(log_each, dim=1) - math.log(len(step.z))
    return (step.prior.log_prob(draws) - log_aggregate).mean()


def maximum_mean_discrepancy(step: Step, *, per_variable: bool = False, distance: Distance = "squared") -> Tensor:
    """Return the MMD between draws from the prior and the codes of the step, see `mmd`.

    Args:
        step: The step.
        per_variable: Whether the kernel is summed over variables, see `mmd`.
        distance: The distance in the kernel, see `mmd`.

    Returns:
        The estimate.
    """
    draws = step.prior.sample(len(step.z), step.generator).to(step.z)
    return mmd(draws, step.z, per_variable=per_variable, distance=distance)


def mmd(first: Tensor, second: Tensor, *, per_variable: bool = False, distance: Distance = "squared") -> Tensor:
    """Return the unbiased squared maximum mean discrepancy of two samples (n, d) and (m, d), summed over six kernels.

    E k(a, a') + E k(b, b') - 2 E k(a, b), k(a, b) = C / (C + |a - b|^2), C = 2 d s, s in 0.1 ... 5; it may be
    negative. `per_variable` applies a kernel with C = 2 s to every variable and sums them, which measures only the
    marginals [Mathieu2019, appendix B]. The paper prints the kernel with |a - b|; its code, like every inverse
    multiquadratic kernel, uses the square. ``distance="printed"`` selects the printed form.

    Args:
        first: One sample, (n, d).
        second: The other, (m, d).
        per_variable: Apply a kernel with C = 2 s to every variable and sum them, which measures only the marginals.
        distance: "squared" for |a - b|^2, as in the released code and every inverse multiquadratic kernel; "printed"
            for |a - b|, as the paper prints.

    Returns:
        The estimate, which may be negative.

    Raises:
        DataError: If the samples have different numbers of variables, or fewer than two rows.

    >>> far, near = torch.tensor([[9.0], [9.1]]), torch.tensor([[0.0], [0.1]])
    >>> bool(mmd(far, near) > mmd(near, near))
    True
    """
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1] or min(len(first), len(second)) < 2:
        raise DataError(
            "expected two samples (n, d) of the same variables with at least two rows each, got shapes "
            f"{tuple(first.shape)} and {tuple(second.shape)}; use larger batches: an unbiased estimate needs pairs"
        )
    (n, d), m = first.shape, len(second)
    both = torch.cat([first, second])
    joint = _SquaredDistances.apply
    squared = (both[:, None] - both[None]) ** 2 if per_variable else joint(both)  # type: ignore[no-untyped-call]
    if distance == "printed":
        # The root has no gradient at zero, on the diagonal: a value bounded away from zero passes none on.
        squared = squared.clamp_min(torch.finfo(squared.dtype).tiny).sqrt()
    widths = _scales(first.dtype, first.device) * (2 if per_variable else 2 * d)
    # Some rows at a time; the sums are the same to the last bit.
    parts = torch.split(squared, max(1, _AT_ONCE // squared[0].numel()))
    if per_variable:
        kernels = [(widths / (widths + part[..., None])).sum((2, 3)) for part in parts]
    else:
        kernels = [_SummedKernels.apply(part, widths) for part in parts]  # type: ignore[no-untyped-call]
    kernel = kernels[0] if len(kernels) == 1 else torch.cat(kernels)
    return (kernel * _pairs(n, m, first.dtype, first.device)).sum()


class _SquaredDistances(torch.autograd.Function):
    """|a_i - a_j|^2 of all rows, (n, n), from differences: exact for close rows, with one pass for the gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        gaps = rows[:, None] - rows[None]
        ctx.save_for_backward(gaps)
        return (gaps**2).sum(2)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        (gaps,) = ctx.saved_tensors
        pulls: Tensor = (gaps * 2).mul_(slopes[0][:, :, None])
        return pulls.sum(1) - pulls.sum(0)


# The order in which torch adds six contiguous numbers; it keeps the results of old runs unchanged.
_ADDED = (4, 5, 1, 2, 3)


class _SummedKernels(torch.autograd.Function):
    """sum_w w / (w + s) for every s of a matrix, one width at a time, as sums over a short axis are slow."""

    @staticmethod
    def forward(ctx: Any, squared: Tensor, widths: Tensor) -> Tensor:
        each = widths.unbind()
        below = [squared + width for width in each]
        kernels = [width / part for width, part in zip(each, below, strict=True)]
        ctx.save_for_backward(*kernels, *below)
        return _sum_in_order(kernels)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        kernels, below = ctx.saved_tensors[: len(SCALES)], ctx.saved_tensors[len(SCALES) :]
        down = -slopes[0]
        return _sum_in_order([(kernel / part).mul_(down) for kernel, part in zip(kernels, below, strict=True)]), None


def _sum_in_order(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0] + parts[_ADDED[0]]
    for place in _ADDED[1:]:
        total += parts[place]
    return total


@functools.lru_cache(maxsize=16)
def _pairs(n: int, m: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the weight of every pair of rows of two samples in the unbiased estimate, (n + m, n + m)."""
    with torch.inference_mode(False):
        pairs = torch.full((n + m, n + m), 1 / (n * (n - 1)), dtype=dtype, device=device)
        pairs[n:, n:] = 1 / (m * (m - 1))
        pairs[:n, n:] = pairs[n:, :n] = -1 / (n * m)
        return pairs.fill_diagonal_(0)


@functools.lru_cache(maxsize=16)
def _scales(dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor(SCALES, dtype=dtype, device=device)


def critic_network(latents: int, *, layers: int, width: int) -> nn.Module:
    """Return the classifier of codes (logit 0) and shuffled codes (logit 1), with leaky ReLU of slope 0.2 [Kim2018].

    Args:
        latents: The number of latent variables.
        layers: The number of hidden layers.
        width: The units in each of them.

    Returns:
        The network, with two outputs.

    >>> sum(p.numel() for p in critic_network(10, layers=6, width=1000).parameters())
    5018002
    """
    widths = [latents, *[width] * layers]
    hidden = chain.from_iterable((nn.Linear(a, b), nn.LeakyReLU(0.2, inplace=True)) for a, b in pairwise(widths))
    critic = Dense(*hidden, nn.Linear(widths[-1], 2))
    glorot(critic)
    return critic


def shuffled(z: Tensor, generator: torch.Generator | None) -> Tensor:
    """Permute every variable over the batch independently: a sample from prod_j q(z_j) [Kim2018, algorithm 1].

    Args:
        z: Codes, (B, d).
        generator: The source of the permutations; the default one of torch if None.

    Returns:
        The codes, with each column in its own order.

    >>> z = torch.arange(6.0).reshape(3, 2)
    >>> shuffled(z, torch.Generator().manual_seed(0)).sort(0).values.equal(z)
    True
    """
    order = torch.rand(z.shape, generator=generator, device=z.device).argsort(0)
    return z.gather(0, order)


def critic_terms(step: Step, *, clip: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return the critic's estimate of the total correlation and its own loss, evaluating the critic on z only once.

    E[log D(z) / (1 - D(z))] [Kim2018, eq. 3], in which the weights of the critic are constants, so that only the
    encoder receives a gradient; and the cross-entropy between codes (class 0) and shuffled codes (class 1)
    [Kim2018, algorithm 2], in which the codes are constants, so that only the critic receives a gradient.

    Args:
        step: The step, with a critic.
        clip: Clip the critic's probabilities to [clip, 1 - clip], outside of which they have no gradient; 0 for none.

    Returns:
        The total correlation in nats, and the loss of the critic.

    Raises:
        ConfigError: If the step has no critic.
    """
    if step.critic is None:
        raise ConfigError(
            "expected a critic in the step, got none; create it with objective.critic(latents) and pass it to take_step"
        )
    z = step.z.detach()
    own, both = judge(step.critic, step.z, shuffled(z, step.generator))
    log_p: Tensor = log_softmax(both, dim=1)
    if clip:
        log_p = log_p.exp().clamp(clip, 1 - clip).log()
    contrast, classes = _contrast_and_classes(len(z), z.dtype, z.device)
    return (own @ contrast).sum() / len(z), nll_loss(log_p, classes)


@functools.lru_cache(maxsize=16)
def _contrast_and_classes(size: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return what makes the difference of two logits a product, and the classes of codes and of shuffled codes."""
    with torch.inference_mode(False):
        contrast = torch.tensor([1.0, -1.0], dtype=dtype, device=device)
        return contrast, torch.arange(2, device=device).repeat_interleave(size)
