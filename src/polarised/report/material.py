"""What a study's folder holds for its figures: the table, and of each run its encodings, types and pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from polarised.diagnosis import Pictures
from polarised.errors import DataError
from polarised.regime import Encodings, Regime
from polarised.regime.timeline import Timeline
from polarised.study.grid import Point, Study
from polarised.study.measures import images_of_prior, regime_of, timeline_of
from polarised.study.results import results_of
from polarised.study.runner import read_study
from polarised.study.stages import dataset_of, is_done

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

__all__ = ["Drawings", "Material", "stem"]

Drawings = Iterator[tuple[str, "Figure"]]


@dataclass(frozen=True)
class Material:
    """A study's folder, read when asked for.

    Args:
        root: The folder of the study.
    """

    root: Path

    @cached_property
    def study(self) -> Study:
        """The study with the runs of its folder."""
        return read_study(self.root)

    @cached_property
    def table(self) -> "polars.DataFrame":
        """The tidy table of the runs that are done, types by the rule of the study."""
        return results_of(self.study.points, self.root, rule=self.study.rule)

    @cached_property
    def done(self) -> list[Point]:
        """The runs that are done."""
        return [point for point in self.study.points if is_done(point.run, self.root)]

    @cached_property
    def datasets(self) -> dict[str, str]:
        """The datasets of the runs that are done, and what the names of their figures end in: nothing for one alone."""
        names = list(dict.fromkeys(str(point.labels["dataset"]) for point in self.done))
        return {name: f"_{stem(name)}" if len(names) > 1 else "" for name in names}

    def methods(self, dataset: str | None = None) -> list[str]:
        """Return the methods that have a finished run.

        Args:
            dataset: Of this dataset; of all if not given.

        Returns:
            The methods, in the order of the study.
        """
        return list(dict.fromkeys(str(point.labels["method"]) for point in self._of(None, dataset)))

    def point(self, method: str, strength: float | None = None, *, dataset: str | None = None) -> Point:
        """Return the first run of a method, at the strength nearest to the one wanted.

        Args:
            method: The method.
            strength: The strength wanted; any if not given.
            dataset: Of this dataset; of any if not given.

        Returns:
            The run.

        Raises:
            DataError: There is no finished run of the method.
        """
        own = self._of(method, dataset)
        if not own:
            raise DataError(f"expected a finished run of {method!r} in {self.root} to draw; there is none")
        if strength is None:
            return own[0]
        return min(own, key=lambda point: abs(float(point.labels["strength"]) - strength))

    def strengths(self, method: str, *, dataset: str | None = None) -> list[float]:
        """Return the strengths of a method that have a finished run.

        Args:
            method: The method.
            dataset: Of this dataset; of all if not given.

        Returns:
            The strengths, smallest first.
        """
        return sorted({float(point.labels["strength"]) for point in self._of(method, dataset)})

    def richest(
        self,
        method: str | None = None,
        *,
        dataset: str | None = None,
        kinds: Sequence[str] = ("active", "mixed", "passive"),
    ) -> Point:
        """Return the run in which the rarest of some types is the least rare, so that each can be shown.

        Args:
            method: Of this method; of any if not given.
            dataset: Of this dataset; of any if not given.
            kinds: The types that count.

        Returns:
            The run.

        Raises:
            DataError: There is no finished run.
        """
        import polars

        counts = self.table.filter((polars.col("metric") == "count") & polars.col("variables").is_in(kinds))
        rarest = dict(counts.group_by("run").agg(polars.col("value").min()).select("run", "value").iter_rows())
        own = self._of(method, dataset)
        if not own:
            raise DataError(
                f"expected a finished run of {method or 'any method'} in {self.root} to draw; there is none"
            )
        return max(own, key=lambda point: rarest.get(point.run.name, 0.0))

    def class_names(self, point: Point, factor: str) -> list[str] | None:
        """Return the names of a factor's values where the dataset has names for them.

        Args:
            point: The run.
            factor: The factor.

        Returns:
            The names, or None.
        """
        space = dataset_of(point.run).factor_space
        values = None if space is None or space.values is None else space.values[space.names.index(factor)]
        return None if values is None or values.dtype.kind != "U" else [str(value) for value in values]

    def encodings(self, point: Point) -> Encodings:
        """Return the encodings of a run.

        Args:
            point: The run.

        Returns:
            Its encodings.
        """
        return Encodings.load(self.root / point.run.name / "encodings.npz")

    def regime(self, point: Point) -> Regime:
        """Return the types of a run's variables by the rule of the study.

        Args:
            point: The run.

        Returns:
            Its types.
        """
        return regime_of(self.root / point.run.name, point.run, rule=self.study.rule)

    def timeline(self, point: Point) -> Timeline:
        """Return what was seen of a run's variables while it trained.

        Args:
            point: The run.

        Returns:
            The moments of its training.

        Raises:
            DataError: It was trained without snapshots.
        """
        timeline = timeline_of(self.root / point.run.name, rule=self.study.rule)
        if timeline is None:
            raise DataError(f"expected a run trained with snapshots, {point.run.name} has none; set snapshots.every")
        return timeline

    def pictures(self, point: Point) -> Pictures:
        """Return what the decoder of a run shows.

        Args:
            point: The run.

        Returns:
            Originals, reconstructions and walks.
        """
        from polarised.models.encoding import pictures

        return pictures(self._vae(point), dataset_of(point.run), seed=point.run.seed)

    def samples(self, point: Point, count: int = 16) -> NDArray[Any]:
        """Return images decoded from draws of a run's prior.

        Args:
            point: The run.
            count: How many images.

        Returns:
            Images (count, channels, height, width).
        """
        return images_of_prior(self._vae(point), count=count, seed=point.run.seed)

    def _of(self, method: str | None, dataset: str | None) -> list[Point]:
        wanted = {"method": method, "dataset": dataset}
        return [
            point for point in self.done if all(point.labels[key] == of for key, of in wanted.items() if of is not None)
        ]

    def _vae(self, point: Point) -> Any:
        from polarised.models import load_vae

        return load_vae(self.root / point.run.name / "model.safetensors")


def stem(name: str) -> str:
    """Return a name as part of a file's name.

    Args:
        name: The name of a method or dataset.

    Returns:
        Lower-case letters, digits, points and underscores.

    >>> stem("γ 0.8, β 1"), stem("DIP-VAE-I")
    ('gamma_0.8_beta_1', 'dip_vae_i')
    """
    words = "".join(c if c.isalnum() or c == "." else " " for c in name).split()
    plain = "_".join(words).lower()
    for letter, latin in (("γ", "gamma"), ("β", "beta"), ("α", "alpha"), ("ν", "nu")):
        plain = plain.replace(letter, latin)
    return plain
