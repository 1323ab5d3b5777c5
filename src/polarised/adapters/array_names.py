"""Which array of a file is what: the names that people give to means, spreads, priors and factors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polarised.adapters.spread import Second
from polarised.errors import DataError

__all__ = ["Names"]

MEAN = ("mean", "means", "mu", "z_mean", "mean_representation", "loc", "qz_m", "embedding")
SECOND: dict[Second, tuple[str, ...]] = {
    "variance": ("variance", "variances", "var", "z_var", "qz_v", "qz_var", "sigma2", "sigma_squared"),
    "log_variance": ("log_variance", "log_variances", "logvar", "log_var", "z_log_var", "log_covariance", "log_sigma2"),
    "std": ("std", "stddev", "standard_deviation", "z_std", "scale"),
    "log_std": ("log_std", "log_sigma", "log_scale"),
}
FACTORS = ("factors", "labels", "latents_classes", "y")


@dataclass(frozen=True)
class Names:
    """Which array of a file is what."""

    mean: str
    spread: str
    second: Second
    prior_mean: str | None = None
    prior_spread: str | None = None
    prior_second: Second = "variance"
    factors: str | None = None

    @classmethod
    def among(
        cls, offered: Mapping[str, Any] | tuple[str, ...], where: str, *, second: Second | None = None
    ) -> "Names":
        """Recognise the arrays of a file by their names, or ask.

        >>> Names.among(("mu", "logvar"), "codes.npz").second
        'log_variance'
        """
        by_name = {name.lower(): name for name in offered}
        mean = next((by_name[name] for name in MEAN if name in by_name), None)
        found = [(kind, by_name[name]) for kind, names in SECOND.items() for name in names if name in by_name]
        listed = ", ".join(offered) or "nothing"
        if mean is None:
            beside = "; name the files x_mean.npy and x_variance.npy, side by side" if where.endswith(".npy") else ""
            raise DataError(
                f"expected an array called mean (or mu, loc, z_mean ...) in {where}, it has {listed}{beside}"
            )
        if not found and "sigma" in by_name:
            if second is None:
                raise DataError(
                    f"sigma in {where} is a variance in some papers and a standard deviation in others: which is it? "
                    "Say second='variance' or second='std' (on the command line --second std)"
                )
            found = [(second, by_name["sigma"])]
        if not found:
            raise DataError(
                f"expected the spread of q(z|x) beside {mean} in {where}: variance, log_variance, std or log_std; "
                f"it has {listed}"
            )
        priors = [
            (kind, by_name[f"prior_{name}"])
            for kind, names in SECOND.items()
            for name in names
            if f"prior_{name}" in by_name
        ]
        kind, spread = next((pair for pair in found if pair[0] == second), found[0])
        return cls(
            mean,
            spread,
            second or kind,
            prior_mean=next((by_name[f"prior_{name}"] for name in MEAN if f"prior_{name}" in by_name), None),
            prior_spread=priors[0][1] if priors else None,
            prior_second=priors[0][0] if priors else "variance",
            factors=next((by_name[name] for name in FACTORS if name in by_name), None),
        )
