"""The whole answer about one VAE: types, mean against sampled, what to do, in numbers and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from polarised.errors import DataError
from polarised.metrics.comparison import compare, without_passive_by_standard
from polarised.regime.advice import advice, headline
from polarised.regime.classify import Regime, Rule, classify, other_rules, sensitivity
from polarised.regime.decoder import DecoderUse, Pictures
from polarised.regime.encodings import Encodings

if TYPE_CHECKING:
    import polars

    from polarised.adapters.arrays import Second
    from polarised.objectives import Objective

__all__ = ["Diagnosis", "Pictures", "concluded", "diagnose", "diagnose_files"]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Everything known about one VAE's variables; what it has no data for is None."""

    name: str
    encodings: Encodings
    regime: Regime
    scores: "polars.DataFrame"
    headline: str
    advice: tuple[str, ...]
    pictures: Pictures | None = None
    decoder_use: "polars.DataFrame | None" = None
    history: "polars.DataFrame | None" = None
    snapshots: "polars.DataFrame | None" = None
    downstream: "polars.DataFrame | None" = None
    other_rules: "polars.DataFrame | None" = None
    sensitivity: "polars.DataFrame | None" = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        import polars

        shown = self.regime.table().select("variable", "why", "ratio_mean", "kl", "noise_share", "confidence")
        with polars.Config(
            tbl_rows=60,
            fmt_str_lengths=100,
            tbl_width_chars=160,
            tbl_hide_dataframe_shape=True,
            tbl_hide_column_data_types=True,
        ):
            return "\n".join([self.headline, str(shown), *self.advice])

    def statements(self) -> "polars.DataFrame":
        """Return a row for each variable with what the papers' propositions say of it, see `theory.statements`."""
        from polarised.theory import statements

        return statements(self.encodings, alpha=self.regime.alpha).insert_column(
            1, self.regime.table().get_column("why")
        )

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page."""
        from importlib import import_module

        # The page lies above the diagnosis in the layers; this is the one step up, taken only on request.
        written: Path = import_module("polarised.report").write_report(self, path)
        return written

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers and sentences as plain JSON types, with "inf", "-inf" and "nan" for what JSON lacks."""
        return {
            "name": self.name,
            "headline": self.headline,
            "advice": list(self.advice),
            "inputs": self.regime.inputs,
            "rule": self.regime.rule,
            "alpha": self.regime.alpha,
            "active": self.regime.active,
            "mixed": self.regime.mixed,
            "passive": self.regime.passive,
            "doubtful": self.regime.doubtful,
            "why": list(self.regime.why),
            "variables": _records(self.regime.table()),
            "scores": _records(self.scores),
            "decoder_use": None if self.decoder_use is None else _records(self.decoder_use),
            "downstream": None if self.downstream is None else _records(self.downstream),
            "other_rules": None if self.other_rules is None else _records(self.other_rules),
            "sensitivity": None if self.sensitivity is None else _records(self.sensitivity),
            "provenance": dict(self.provenance),
        }


def diagnose(
    target: Any,
    data: Any = None,
    *,
    alpha: float = 0.1,
    rule: Rule = "used",
    examples: int = 10_000,
    objective: "Objective | None" = None,
    decoder: DecoderUse | None = None,
    rest_ratio: ArrayLike | None = None,
    seed: int = 0,
    name: str = "model",
    **more: Any,
) -> Diagnosis:
    """Classify the variables of `target`, compare its representations, and say in words what follows.

    `target` is an `Encodings`, or a VAE of ours together with the `data` (a Dataset, of which at most `examples` images
    are drawn, or images) to encode. `objective` is what it was trained with, where that is known; `decoder` and
    `rest_ratio` are evidence on the use of variables, see `classify`, which a VAE gives itself.

    >>> encodings = Encodings([[0.3, 0.0], [-1.1, 0.01]], variance=[[0.02, 1.0], [0.01, 0.98]])
    >>> diagnose(encodings).headline
    '1 of 2 latent variables is active, none mixed, 1 passive.'
    """
    if not isinstance(target, Encodings):
        if data is None:
            raise DataError(
                f"expected Encodings, or a VAE with data= to encode, got {type(target).__name__} alone; "
                "see polarised.adapters for models of other libraries"
            )
        from polarised.adapters import native

        more.setdefault("pictures", native.pictures(target, data, seed=seed))
        decoder = native.decoder_use(target, data, seed=seed) if decoder is None else decoder
        target = native.from_vae(target, data, examples=examples, objective=objective, seed=seed)
    regime = classify(target, alpha=alpha, rule=rule, decoder=decoder, rest_ratio=rest_ratio, seed=seed)
    more.setdefault("other_rules", other_rules(regime, largest_mean=np.abs(target.mean).max(axis=0)))
    return concluded(name, target, regime, compare(target, regime, seed=seed), **more)


def diagnose_files(
    files: Sequence[str | Path],
    *,
    alpha: float = 0.1,
    rule: Rule = "used",
    executor: Literal["local", "ray"] = "local",
    address: str | None = None,
    second: "Second | None" = None,
    seed: int = 0,
    name: str = "model",
    **more: Any,
) -> Diagnosis:
    """Diagnose encodings in files (.npz, .npy, parquet) that together may be larger than memory, in one pass.

    Types and scores are those of every input; `encodings` is a uniform sample of 10,000. ``executor="ray"`` makes each
    file a task on the cluster at `address`, or on one started here.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "codes.npz"
    >>> np.savez(file, mean=np.random.default_rng(0).normal(size=(50, 2)), variance=np.full((50, 2), 0.01))
    >>> diagnose_files([file]).headline
    '2 of 2 latent variables are active, none mixed, none passive.'
    """
    from polarised.shards import totals_of

    totals = totals_of(files, executor=executor, address=address, second=second, seed=seed)
    regime = totals.evidence.classify(alpha=alpha, rule=rule, seed=seed)
    rules = other_rules(regime, largest_mean=totals.largest_mean())
    sample = totals.sample()
    scores = compare(sample, regime, seed=seed)
    if regime.rows > len(sample):
        # Bins need a second pass: mutual information is that of the sample, the rest that of every input.
        scores = totals.scores(regime).extend(scores.filter(scores["metric"] == "mutual_information"))
    return concluded(name, sample, regime, scores, other_rules=rules, **more)


def concluded(name: str, encodings: Encodings, regime: Regime, scores: "polars.DataFrame", **more: Any) -> Diagnosis:
    """Put types and scores into words: the last step of every diagnosis."""
    more.setdefault("sensitivity", sensitivity(regime))
    if regime.decoder is not None:
        more.setdefault("decoder_use", regime.decoder.table())
    return Diagnosis(
        name=name,
        encodings=encodings,
        regime=regime,
        scores=scores,
        headline=headline(regime),
        advice=tuple(advice(regime, scores, without_passive_by_standard(encodings, regime))),
        **more,
    )


def _records(table: "polars.DataFrame") -> list[dict[str, Any]]:
    return [
        {
            key: str(value) if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in row.items()
        }
        for row in table.iter_rows(named=True)
    ]
