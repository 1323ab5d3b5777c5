"""When variables become passive: a few kilobytes of evidence at each of many steps of training.

For any training loop: encode the same inputs every few hundred steps and pass them to `Timeline.update`.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised._io.files import replacing
from polarised._io.readers import read_npz
from polarised.errors import DataError, MissingFileError
from polarised.regime._moments import scaled_to_correlation
from polarised.regime.classify import TYPES, Regime, Rule, classify
from polarised.regime.decoder import DecoderUse
from polarised.regime.encodings import Encodings

if TYPE_CHECKING:
    import polars

__all__ = ["PER_VARIABLE", "THRESHOLD", "Timeline", "correlated_shares", "load_timeline", "pairs_by_type"]

Array = NDArray[Any]


# A KL this large, in nats per variable, is not negligible: the posterior is not the prior.
PAID = 0.1

PER_VARIABLE = ("kl", "ratio_mean", "ratio_variance", "noise_share")


class Timeline:
    """Types, KL and correlations of the variables over training steps [Bonheme2023BeMoreActive, section 5].

    Each snapshot has the type, E[KL_j], E[r_j], Var[r_j] and noise share of every variable and the d x d Pearson
    correlation of the means (0 for a constant variable); with ``keep="encodings"`` also mean and variance themselves.
    A single warning is given when all variables have become passive or nothing but noise, or still are after
    `patience` steps: at the start of training a network looks passive too.

    Args:
        alpha: The threshold of the types.
        rule: The rule of the types.
        keep: Whether to store statistics or the encodings themselves.
        patience: Steps after which a code without a used variable causes a warning.
        warn: Whether to warn at all.

    >>> timeline = Timeline()
    >>> timeline.update(100, [[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> timeline.table()["type"].to_list()
    ['active', 'passive']
    """

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        rule: Rule = "used",
        keep: Literal["statistics", "encodings"] = "statistics",
        patience: int = 1000,
        warn: bool = True,
    ) -> None:
        self.alpha, self.rule, self.keep, self.patience, self.warn = alpha, rule, keep, patience, warn
        self.latest: Regime | None = None
        self._final: tuple[str, ...] | None = None
        self._moments: list[dict[str, Array]] = []
        self._collapsed = False

    def __len__(self) -> int:
        return len(self._moments)

    @property
    def steps(self) -> list[int]:
        """The steps of the snapshots."""
        return [int(moment["step"]) for moment in self._moments]

    @property
    def types(self) -> list[tuple[str, ...]]:
        """The types of the variables at each step."""
        return [tuple(TYPES[t] for t in moment["types"]) for moment in self._moments]

    @property
    def final_types(self) -> tuple[str, ...]:
        """The types of the trained model: those of the last step, or those passed to `load_timeline`."""
        return self._final or self.types[-1]

    @property
    def correlations(self) -> Array:
        """The correlation matrices of the means, (snapshots, d, d)."""
        return np.stack([moment["correlations"] for moment in self._moments])

    def update(
        self,
        step: int,
        mean: ArrayLike,
        *,
        variance: ArrayLike | None = None,
        log_variance: ArrayLike | None = None,
        prior_mean: ArrayLike = 0.0,
        prior_variance: ArrayLike = 1.0,
        rest_ratio: ArrayLike | None = None,
        decoder: DecoderUse | None = None,
    ) -> None:
        """Add a snapshot: the posteriors of the evaluation inputs after `step` updates.

        Args:
            step: The training step.
            mean: Posterior means, one row for each input.
            variance: Posterior variances of the same shape; either this or `log_variance`.
            log_variance: Their logarithms.
            prior_mean: Means of the prior: a number, (d,) or one row for each input.
            prior_variance: Variances of the prior, in the same format.
            rest_ratio: The variance ratio of an unused variable at rest, as defined by the objective.
            decoder: The use of the variables by the decoder, see `measure_decoder_use`.
        """
        self.take(
            step,
            Encodings(
                mean,
                variance=variance,
                log_variance=log_variance,
                prior_mean=prior_mean,
                prior_variance=prior_variance,
                rest_ratio=rest_ratio,
            ),
            decoder=decoder,
        )

    def take(self, step: int, encodings: Encodings, *, decoder: DecoderUse | None = None) -> None:
        """Add the encodings after `step` updates; an earlier snapshot of the same step is replaced.

        Args:
            step: The training step.
            encodings: The encodings of a fixed set of inputs.
            decoder: The use of the variables by the decoder at this step, if measured.
        """
        if self._moments and encodings.latents != len(self._moments[0]["types"]):
            raise DataError(f"expected {len(self._moments[0]['types'])} variables as before, got {encodings.latents}")
        regime = classify(encodings, alpha=self.alpha, rule=self.rule, decoder=decoder)
        moment: dict[str, Array] = {
            "step": np.array(step),
            "types": np.array([TYPES.index(kind) for kind in regime.types]),
            "correlations": _correlations(encodings.mean),
            **{name: np.asarray(getattr(regime.statistics, name)) for name in PER_VARIABLE},
        }
        if self.keep == "encodings":
            moment |= {"mean": encodings.mean.astype(np.float32), "variance": encodings.variance.astype(np.float32)}
        self._moments = [m for m in self._moments if m["step"] != step] + [moment]
        self.latest = regime
        sentence = self.collapse()
        if sentence is not None and not self._collapsed and self.warn:
            warnings.warn(sentence, stacklevel=3)
        self._collapsed = sentence is not None

    def collapse(self) -> str | None:
        """Return a sentence if the latest snapshot is a total collapse, not just the start of training."""
        if not self._moments or not self._is_noise(self._moments[-1]):
            return None
        latest = self._moments[-1]
        step, latents = int(latest["step"]), len(latest["types"])
        if step < self.patience and all(self._is_noise(moment) for moment in self._moments):
            return None
        kl = float(latest["kl"].sum())
        if _all_passive(latest) and kl < PAID * latents:
            return f"at step {step:,} all {latents} variables are passive: lower beta or warm it up"
        return (
            f"at step {step:,} all {latents} variables are nothing but noise, for a KL of {kl:.3g} nats: "
            "lower the learning rate or the penalty"
        )

    def _is_noise(self, moment: dict[str, Array]) -> bool:
        return _all_passive(moment) or bool((moment["noise_share"] >= 1 - self.alpha).all())

    def table(self) -> "polars.DataFrame":
        """Return a row for each step and variable: step, variable, type, and the `PER_VARIABLE` numbers."""
        import polars

        rows = [
            {"step": int(m["step"]), "variable": j, "type": TYPES[kind], **{n: float(m[n][j]) for n in PER_VARIABLE}}
            for m in self._moments
            for j, kind in enumerate(m["types"])
        ]
        return polars.DataFrame(rows)

    def counts(self) -> "polars.DataFrame":
        """Return a row for each step: step, active, mixed, passive, and the total KL in nats."""
        import polars

        rows = [
            {
                "step": int(m["step"]),
                **{kind: int((m["types"] == i).sum()) for i, kind in enumerate(TYPES)},
                "kl": float(m["kl"].sum()),
            }
            for m in self._moments
        ]
        return polars.DataFrame(rows)

    def correlated_pairs(self, *, threshold: float = 0.2) -> Array:
        """Return, for each variable, the number of pairs and snapshots in which |correlation| exceeds the threshold.

        count_j = #{(t, k), k != j: |C_t[j, k]| > threshold}  [Bonheme2023BeMoreActive, figure 12]

        Args:
            threshold: The smallest |correlation| that counts.
        """
        exceeding = np.abs(self.correlations) > threshold
        exceeding[:, np.arange(exceeding.shape[1]), np.arange(exceeding.shape[1])] = False
        counts: Array = exceeding.sum(axis=(0, 2))
        return counts

    def save(self, path: str | Path) -> Path:
        """Write everything to an .npz that `load_timeline` reads.

        Args:
            path: The .npz file to write.
        """
        path = Path(path)
        with replacing(path) as temporary:
            np.savez(temporary, allow_pickle=False, **self.state())
        return path

    def state(self) -> dict[str, Array]:
        """Return everything as arrays, for a checkpoint or an .npz."""
        if not self._moments:
            return {}
        # Sorted, as a checkpoint returns them: a resumed run writes the same bytes as an uninterrupted one.
        return {name: np.stack([moment[name] for moment in self._moments]) for name in sorted(self._moments[0])}

    def restore(self, state: dict[str, Array], *, where: str | Path = "the saved state") -> None:
        """Restore a saved state.

        Args:
            state: The arrays that `state` returned.
            where: The name of the source in an error.

        Raises:
            DataError: If the arrays are inconsistent.
        """
        _check_state(state, where)
        count = len(state["step"]) if state else 0
        self._moments = [{name: np.asarray(values[i]) for name, values in state.items()} for i in range(count)]
        self._collapsed = self.collapse() is not None


def load_timeline(path: str | Path, *, final_types: Sequence[str] | None = None) -> Timeline:
    """Read a file written by `Timeline.save` (arrays only; pickled objects are refused).

    `final_types` are those of the trained model, if they are known from more inputs than those of the snapshots.
    """
    try:
        state = read_npz(Path(path))
    except FileNotFoundError:
        raise MissingFileError(
            f"expected snapshots of a run, but {path} does not exist; train with snapshots first"
        ) from None
    timeline = Timeline(warn=False)
    timeline.restore(state, where=path)
    if final_types is not None and len(timeline):
        if len(final_types) != len(timeline.types[-1]):
            raise DataError(
                f"expected types of {len(timeline.types[-1])} variables as in {path}, got {len(final_types)}"
            )
        timeline._final = tuple(final_types)
    return timeline


def _check_state(state: dict[str, Array], path: str | Path) -> None:
    """Refuse inconsistent arrays before anything is computed from them."""
    if not state:
        return
    needed = ("step", "types", "correlations", *PER_VARIABLE)
    if not state.keys() >= set(needed):
        raise DataError(f"expected snapshots with {', '.join(needed)}, {path} has {', '.join(state)}")
    moments, types = state["step"], state["types"]
    count, d = len(np.atleast_1d(moments)), types.shape[-1] if types.ndim == 2 else -1
    shapes = {"types": (count, d), "correlations": (count, d, d)} | dict.fromkeys(PER_VARIABLE, (count, d))
    wrong = [
        name for name, shape in shapes.items() if state[name].shape != shape or state[name].dtype.kind not in "fiub"
    ]
    codes = types.dtype.kind in "iu" and types.size > 0 and types.min() >= 0 and types.max() < len(TYPES)
    if wrong or moments.shape != (count,) or moments.dtype.kind not in "iu" or not codes:
        raise DataError(
            f"expected snapshots of {count} moments and as many variables in every array of {path}, "
            f"{', '.join(wrong) or 'its steps or types'} do not fit; the file is damaged, train the run again"
        )
    for name, values in state.items():
        if len(np.atleast_1d(values)) != count:
            raise DataError(f"expected {count} moments of {name} in {path}, got {len(np.atleast_1d(values))}")


def _all_passive(moment: dict[str, Array]) -> bool:
    return bool((moment["types"] == TYPES.index("passive")).all())


def _correlations(mean: Array) -> Array:
    centred = mean.astype(np.float64) - mean.mean(axis=0, dtype=np.float64)
    return scaled_to_correlation(centred.T @ centred)


# The threshold of [Bonheme2023BeMoreActive, figure 12] for correlated.
THRESHOLD = 0.2


KINDS = (("active", "active"), ("active", "passive"), ("passive", "passive"), ("mixed", None))


def pairs_by_type(types: Sequence[str]) -> dict[str, tuple[list[int], list[int]]]:
    """Return, for each kind of pair that occurs, the variables on either side; with a mixed variable, a pair is mixed.

    >>> pairs_by_type(["active", "passive", "active"])
    {'active–active': ([2], [0]), 'active–passive': ([1, 2], [0, 1])}
    """
    found: dict[str, tuple[list[int], list[int]]] = {}
    for first, second in KINDS:
        cells = [
            (j, k)
            for j in range(len(types))
            for k in range(j)
            if ({types[j], types[k]} == {first, second} if second else first in (types[j], types[k]))
        ]
        if cells:
            found[f"{first}–{second or 'any'}"] = ([j for j, _ in cells], [k for _, k in cells])
    return found


def correlated_shares(
    correlations: NDArray[Any], types: Sequence[str], *, threshold: float = THRESHOLD
) -> dict[str, float]:
    """Return the share of pairs and snapshots with |correlation| > threshold, by the types of both variables.

    `correlations` are (snapshots, d, d). The count of a single variable also depends on its partners, because
    correlation is symmetric; this split does not. [Bonheme2023BeMoreActive, figure 12]

    >>> correlated_shares(np.array([[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.1], [0.1, 1.0]]]), ["active", "passive"])
    {'active–passive': 0.5}
    """
    return {
        kind: float((np.abs(correlations[:, rows, columns]) > threshold).mean())
        for kind, (rows, columns) in pairs_by_type(types).items()
    }
