"""The objectives of the papers, each about ten lines under its equation. A page: `__all__` is the catalogue."""

# ruff: noqa: D102 (the abstract class documents the call)

from dataclasses import dataclass

from torch import Tensor

from polarised.objectives.step import Objective, Step
from polarised.objectives.terms import distortion, rate

__all__ = ["ELBO", "BetaVAE"]


@dataclass(frozen=True, kw_only=True)
class ELBO(Objective):
    """Minimise the negative evidence lower bound: the plain VAE.

    loss = E[-log p(x|z)] + E[KL(q(z|x) || p(z))]  [Kingma2014, eq. 3]

    >>> ELBO()
    ELBO()
    """

    def __call__(self, step: Step) -> dict[str, Tensor]:
        return {"distortion": distortion(step), "rate": rate(step)}


@dataclass(frozen=True, kw_only=True)
class BetaVAE(Objective):
    """Weigh the rate by beta.

    loss = E[-log p(x|z)] + beta E[KL(q(z|x) || p(z))]  [Higgins2017, eq. 4]

    >>> BetaVAE(beta=8.0)
    BetaVAE(beta=8.0)
    """

    beta: float = 4.0

    def __call__(self, step: Step) -> dict[str, Tensor]:
        return {"distortion": distortion(step), "rate": self.beta * rate(step)}
