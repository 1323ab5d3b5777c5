"""A scikit-learn transformer that keeps the alive latent variables."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from polarised.errors import ConfigError, DataError
from polarised.regime.classify import TYPES, Regime, Rule, classify
from polarised.regime.encodings import Encodings

__all__ = ["ActiveVariables"]

Array = NDArray[Any]


Spread = Literal["estimated", "variance", "log_variance"]


class ActiveVariables(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Keep the columns of a mean representation whose variables have the given types.

    Fitted on `Encodings`, it uses their variance. In a Pipeline, where the input is an array, `spread` describes its
    columns: with "variance" or "log_variance" the second half is the scale, ``np.hstack([mean, variance])``; with
    "estimated" there are only means, and E[variance_j] is estimated as max(0, 1 - E[mean_j^2]), which holds if the
    aggregate posterior matches the prior N(0, I). Fitted on a `Regime`, it keeps its types, decided with all evidence
    (including the decoder). The output has only columns of means. [Bonheme2023BeMoreActive, section 4]

    Args:
        keep: The types of the columns to keep.
        alpha: The threshold of the types.
        rule: The rule of the types, see `classify`.
        spread: The columns of an array: "estimated", "variance" or "log_variance".

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> ActiveVariables().fit(encodings).transform(encodings.mean)
    array([[ 0.3],
           [-1.1]])
    """

    def __init__(
        self,
        *,
        keep: Sequence[str] = ("active", "mixed"),
        alpha: float = 0.1,
        rule: Rule = "used",
        spread: Spread = "estimated",
    ) -> None:
        self.keep = keep
        self.alpha = alpha
        self.rule = rule
        self.spread = spread

    def fit(self, X: "Encodings | Regime | Array", y: object = None) -> Self:
        """Use the types of a regime, or decide them from encodings, or from an array as described by `spread`.

        Args:
            X: A regime, encodings, or an array.
            y: Ignored; required by scikit-learn.

        Returns:
            The fitted transformer.
        """
        unknown = set(self.keep) - set(TYPES)
        if unknown or not self.keep or isinstance(self.keep, str):
            raise ConfigError(f"expected keep as a list of {', '.join(TYPES)}, got {self.keep!r}")
        if isinstance(X, Regime):
            regime = X
        else:
            encodings = X if isinstance(X, Encodings) else self._encodings(X)
            regime = classify(encodings, alpha=self.alpha, rule=self.rule)
        latents = len(regime.types)
        if isinstance(X, Encodings | Regime):
            self.n_features_in_ = latents
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        support = np.zeros(self.n_features_in_, dtype=bool)
        support[:latents] = np.isin(regime.types, list(self.keep))
        if not support.any():
            raise DataError(
                f"expected at least one {' or '.join(self.keep)} variable, all {latents} are of other types; "
                "lower beta, or keep another type"
            )
        self.regime_: Regime = regime
        self.support_: NDArray[np.bool_] = support
        return self

    def transform(self, X: "Encodings | Array") -> Any:
        """Return the kept columns; for encodings, those of the mean.

        Args:
            X: Rows with the columns used in `fit`.

        Returns:
            The kept columns of means.
        """
        return super().transform(X.mean if isinstance(X, Encodings) else X)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def _encodings(self, X: Array) -> Encodings:
        array = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        if self.spread == "estimated":
            second = np.mean(np.square(array, dtype=np.float64), axis=0)
            return Encodings(array, variance=np.broadcast_to(np.clip(1.0 - second, 0.0, None), array.shape))
        if self.spread not in ("variance", "log_variance"):
            raise ConfigError(f"expected spread 'estimated', 'variance' or 'log_variance', got {self.spread!r}")
        if array.shape[1] % 2:
            raise DataError(f"expected as many columns of {self.spread} as of means, got {array.shape[1]} in total")
        means, spreads = np.hsplit(array, 2)
        if self.spread == "variance":
            return Encodings(means, variance=spreads)
        return Encodings(means, log_variance=spreads)
