"""What the papers' objectives are made of: plain functions of a step, in nats."""

from torch import Tensor

from polarised.objectives.step import Step

__all__ = ["distortion", "ramp", "rate"]


def distortion(step: Step) -> Tensor:
    """Return -E[log p(x|z)], the mean over images of the sum over pixels [Kingma2014, eq. 3]."""
    return -step.likelihood.log_prob(step.x, step.outputs).mean()


def rate(step: Step) -> Tensor:
    """Return E[KL(q(z|x) || p(z|u))], the mean over images of the sum over latents [Kingma2014, eq. 3]."""
    return step.prior.kl(step.posterior, step.z).sum(1).mean()


def ramp(number: int, length: int) -> float:
    """Return min(1, number / length), the linear schedule of a weight; 1 where there is none (length 0).

    >>> ramp(25, 100), ramp(150, 100), ramp(0, 0)
    (0.25, 1.0, 1.0)
    """
    return min(1.0, number / length) if length else 1.0
