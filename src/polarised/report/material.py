"""What a study's folder has for its page and figures: the table of its runs, their provenance and their models."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars
from numpy.typing import NDArray

from polarised import registry
from polarised._io.tables import read_table
from polarised._io.text import parse_json, read_small
from polarised.diagnosis import Pictures
from polarised.errors import DataError
from polarised.regime import Encodings, Regime
from polarised.regime.timeline import Timeline
from polarised.study.claims.verify import LARGEST, PUBLISHED
from polarised.study.config import Run, read_config
from polarised.study.grid import Point, Study, load_study, study_names
from polarised.study.measures import images_of_prior, regime_of, timeline_of
from polarised.study.results import KINDS, results_of
from polarised.study.runner import read_study
from polarised.study.stages import dataset_of, is_done, read_done

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RESULTS", "Drawings", "Material", "count_codes", "is_published", "published_study", "stem"]

RESULTS = "results.parquet"
# No run takes a century.
MOST = 3.2e9

Drawings = Iterator[tuple[str, "Figure"]]


@dataclass(frozen=True)
class Material:
    """A study's folder, read on demand; a published folder has the table, but no runs.

    Args:
        root: The folder of the study, or one that `publish` wrote.
        earlier: A folder that `publish` wrote, whose runs are added if `root` does not have them.
        mixed: Whether runs made by different code may be in one table.
    """

    root: Path
    earlier: Path | None = None
    mixed: bool = False

    @cached_property
    def study(self) -> Study:
        """The study with the runs of its folder."""
        return read_study(self.root)

    @cached_property
    def table(self) -> polars.DataFrame:
        """The tidy table of the finished runs, with types by the rule of the study."""
        if is_published(self.root):
            return read_table(self.root / RESULTS)
        own = results_of(self.study.points, self.root, rule=self.study.rule, mixed=self.mixed)
        if self.kept.is_empty():
            return own
        both = polars.concat([own, self.kept], how="diagonal_relaxed")
        places = {name: place for place, name in enumerate(self.grid)}
        places |= {name: places[point.run.name] for name, point in self.shorter.items()}
        order = polars.DataFrame({"run": list(places), "place": list(places.values())})
        return (
            both.join(order, on="run", how="left", maintain_order="left")
            .sort("place", maintain_order=True)
            .drop("place")
        )

    @cached_property
    def grid(self) -> dict[str, Point]:
        """Every run of the study by its name: those of its folder and, if published runs are kept, of its scale."""
        own = {point.run.name: point for point in self.study.points}
        if self.earlier is None or self.study.name not in study_names():
            return own
        whole = load_study(self.study.name, scale=self.study.scale).points
        return {point.run.name: point for point in whole} | own

    @cached_property
    def shorter(self) -> dict[str, Point]:
        """Published runs that had fewer steps to settle in than the study has now, each with its run of the grid."""
        limits = {one["steps"] for one in self.made.values()}
        found = {name: point for point in self.grid.values() for name in _shorter_names(point.run, limits)}
        # The numbers of steps may be an axis of the study.
        return {name: point for name, point in found.items() if name not in self.grid}

    @cached_property
    def kept(self) -> polars.DataFrame:
        """The rows of runs of this study that were published in `earlier` and are not finished here."""
        if self.earlier is None:
            return polars.DataFrame(schema={"run": polars.String})
        rule = _published(self.earlier).get("rule", self.study.rule)
        if rule != self.study.rule:
            raise DataError(
                f"expected types by the rule {self.study.rule} in the table published in {self.earlier}, got {rule}; "
                "publish to another folder"
            )
        table = read_table(self.earlier / RESULTS, columns=KINDS)
        done = {point.run.name for point in self.done}
        # More steps would change a run that did not settle.
        settled = set(table.filter(polars.col("value") == 1, metric="settled")["run"])
        places = {name: name for name in self.grid}
        places |= {name: point.run.name for name, point in self.shorter.items() if name in settled}
        kept = table.filter(polars.col("run").is_in([name for name, place in places.items() if place not in done]))
        codes = Counter(made["code"] for name, made in self.made.items() if name in done and made["code"])
        before = Counter(self.made.get(name, {}).get("code", "") for name in kept["run"].unique())
        if not self.mixed and (len(codes | before) > 1 or "" in before):
            unknown = "; where it is unknown, the table was written before it was recorded" if before[""] else ""
            raise DataError(
                f"expected runs of one version of the code, got {count_codes(codes)} in {self.root} and "
                f"{count_codes(before)} in the table published in {self.earlier}{unknown}; repeat them with one "
                "version, or allow a mixed table with mixed=True"
            )
        return kept

    @cached_property
    def made(self) -> dict[str, dict[str, Any]]:
        """The code, the command, the seconds and the maximum steps of each run, as far as known."""
        known = {} if self.earlier is None else _published(self.earlier).get("made", {})
        found: dict[str, dict[str, Any]] = {
            str(name): {
                "code": code if isinstance(code := one.get("code"), str) else "",
                "command": command if isinstance(command := one.get("command"), str) else "",
                "seconds": seconds,
                "steps": steps if isinstance(steps := one.get("steps"), int) else None,
            }
            for name, one in (known.items() if isinstance(known, dict) else ())
            if isinstance(one, dict) and isinstance(seconds := one.get("seconds"), int | float) and 0 <= seconds < MOST
        }
        for point in self.done:
            directory = self.root / point.run.name
            command = read_config(directory / "config.yaml").get("made", {}).get("command", "")
            done = read_done(directory)
            found[point.run.name] = {
                "code": "" if done is None else done.code,
                # The path on this machine is omitted.
                "command": str(command).replace(f"{self.root.resolve().parent}/", ""),
                "seconds": 0.0 if done is None else done.seconds,
                "steps": point.run.training.steps,
            }
        return found

    @cached_property
    def done(self) -> list[Point]:
        """The finished runs; none for a published folder."""
        if is_published(self.root):
            return []
        return [point for point in self.study.points if is_done(point.run, self.root)]

    @cached_property
    def datasets(self) -> dict[str, str]:
        """The datasets of the finished runs, with the suffixes of their figures; empty if there is only one."""
        names = self.table["dataset"].unique(maintain_order=True).to_list()
        return {str(name): f"_{stem(str(name))}" if len(names) > 1 else "" for name in names}

    def methods(self, dataset: str | None = None) -> list[str]:
        """Return the methods that have a finished run.

        Args:
            dataset: The dataset; default: all.

        Returns:
            The methods, in the order of the study.
        """
        own = self.table if dataset is None else self.table.filter(polars.col("dataset") == dataset)
        return [str(name) for name in own["method"].unique(maintain_order=True)]

    def methods_at_hand(self, dataset: str | None = None) -> list[str]:
        """Return the methods with a finished run in the folder, whose models can be shown.

        Args:
            dataset: The dataset; default: all.

        Returns:
            The methods, in the order of the study; none for a published folder.
        """
        return list(dict.fromkeys(str(point.labels["method"]) for point in self._of(None, dataset)))

    def point(self, method: str, strength: float | None = None, *, dataset: str | None = None) -> Point:
        """Return the first run of a method at the strength nearest to the given one.

        Args:
            method: The method.
            strength: The strength; default: any.
            dataset: The dataset; default: any.

        Returns:
            The run.

        Raises:
            DataError: If there is no finished run of the method.
        """
        own = self._of(method, dataset)
        if not own:
            raise DataError(f"expected a finished run of {method!r} in {self.root} to draw, but there is none")
        if strength is None:
            return own[0]
        return min(own, key=lambda point: abs(float(point.labels["strength"]) - strength))

    def strengths(self, method: str, *, dataset: str | None = None) -> list[float]:
        """Return the strengths of a method that have a finished run.

        Args:
            method: The method.
            dataset: The dataset; default: all.

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
        """Return the run with the most variables of its rarest type, so that each type can be shown.

        Args:
            method: The method; default: any.
            dataset: The dataset; default: any.
            kinds: The types to consider.

        Returns:
            The run.

        Raises:
            DataError: If there is no finished run.
        """
        counts = self.table.filter((polars.col("metric") == "count") & polars.col("variables").is_in(kinds))
        rarest = dict(counts.group_by("run").agg(polars.col("value").min()).select("run", "value").iter_rows())
        own = self._of(method, dataset)
        if not own:
            raise DataError(
                f"expected a finished run of {method or 'any method'} in {self.root} to draw, but there is none"
            )
        return max(own, key=lambda point: rarest.get(point.run.name, 0.0))

    def class_names(self, point: Point, factor: str) -> list[str] | None:
        """Return the names of a factor's values, if the dataset has names for them.

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
        """Return the timeline of a run's training.

        Args:
            point: The run.

        Returns:
            The timeline.

        Raises:
            DataError: If it was trained without snapshots.
        """
        timeline = timeline_of(self.root / point.run.name, rule=self.study.rule)
        if timeline is None:
            raise DataError(
                f"expected a run trained with snapshots, but {point.run.name} has none; set snapshots.every"
            )
        return timeline

    def pictures(self, point: Point) -> Pictures:
        """Return images from the decoder of a run.

        Args:
            point: The run.

        Returns:
            Originals, reconstructions and traversals.
        """
        from polarised.models.encoding import pictures

        return pictures(self._vae(point), dataset_of(point.run), seed=point.run.seed)

    def samples(self, point: Point, count: int = 16) -> NDArray[Any]:
        """Return images decoded from samples of a run's prior.

        Args:
            point: The run.
            count: The number of images.

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
    """Return a name in a form suitable for file names.

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


def is_published(folder: Path) -> bool:
    """Return whether a folder contains a study's table without its runs.

    Args:
        folder: A folder.

    Returns:
        Whether there is a table, and no study.
    """
    return (folder / RESULTS).is_file() and not (folder / "study.json").is_file()


def _published(folder: Path) -> Mapping[str, Any]:
    """Return the data next to the table of a published folder: its verdicts and the provenance of its runs."""
    path = folder / PUBLISHED
    known = parse_json(read_small(path, largest=LARGEST), where=path) if path.is_file() else {}
    return known if isinstance(known, dict) else {}


def published_study(folder: Path) -> str:
    """Return the study of a published folder: by its verdicts, else by its own name or that of its parent folder.

    Args:
        folder: The published folder.

    Returns:
        The name of the study, or of the gallery for any study.
    """
    names = [_published(folder).get("study"), folder.resolve().name, folder.resolve().parent.name]
    return next((str(name) for name in names if name in registry.names("gallery")), "any_study")


def _shorter_names(run: Run, limits: Collection[int | None]) -> list[str]:
    """Return the names of a run with fewer steps to settle in; none if the number of steps also sets its pace."""
    training, objective = run.training, run.objective
    if training.settling is None or objective.get("ramp") is not None:
        return []
    # A share of the run has another length in a shorter one.
    lengths = [training.settling["least"], training.settling["every"], training.schedule["warm_up"]]
    lengths += [objective.get(name, 0) for name in ("warm_up", "iteration_threshold")]
    if any(isinstance(length, float) for length in lengths):
        return []
    fewer = [steps for steps in limits if steps is not None and steps < training.steps]
    return [replace(run, training=replace(training, steps=steps)).name for steps in fewer]


def count_codes(codes: Mapping[str, int]) -> str:
    """Return how many runs were made by which code, in words.

    Args:
        codes: The number of runs of each code; an empty name stands for unknown code.

    Returns:
        The words.

    >>> count_codes({"6f97c0": 2, "": 1}), count_codes({})
    ('2 by 6f97c0, 1 by unknown code', 'none')
    """
    return ", ".join(f"{count} by {code or 'unknown code'}" for code, count in codes.items()) or "none"
