"""The folder of a run of ours, read without torch: its settings, its stored encodings, and what was recorded."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarised import registry
from polarised._io.tables import read_table
from polarised._io.text import parse_yaml, read_small
from polarised.bibliography import cite_specs, specs_of_config
from polarised.data.dataset import Dataset
from polarised.errors import ConfigError, DataError
from polarised.regime import Encodings

if TYPE_CHECKING:
    import polars

    from polarised.regime.decoder import DecoderUse

__all__ = ["StoredRun", "made_here", "open_run"]

_PACKAGES = ("polarised", "torch", "numpy", "scipy", "polars")


LARGEST_CONFIG = 1 << 20


@dataclass(frozen=True)
class StoredRun:
    """A run's folder and the settings in its ``config.yaml``."""

    directory: Path
    config: Mapping[str, Any]
    made: Mapping[str, Any]

    @property
    def alpha(self) -> float:
        """The threshold the run was measured with."""
        return float(_section(self.config, "evaluation").get("alpha", 0.1))

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.config.get("seed", 0))

    @property
    def model(self) -> Path:
        """Where its weights are."""
        return self.directory / "model.safetensors"

    def encodings(self) -> Encodings:
        """Return the encodings it was measured on.

        Raises:
            DataError: If the run is not finished.
        """
        file = self.directory / "encodings.npz"
        if not file.exists():
            raise DataError(
                f"expected a finished run, {self.directory} has no encodings.npz; start the command that made it again"
            )
        return Encodings.load(file)

    def dataset(self) -> Dataset:
        """Return the dataset it was trained on, with its auxiliary variables where it has some."""
        dataset: Dataset = registry.build("dataset", self.config.get("dataset", "dsprites"))
        auxiliary = self.config.get("auxiliary")
        return dataset if auxiliary is None else dataset.with_auxiliary(factors=list(auxiliary) or None)

    def objective(self) -> Any:
        """Return the objective it was trained with; needs torch."""
        return registry.build("objective", self.config.get("objective", "BetaVAE"))

    def history(self) -> "polars.DataFrame | None":
        """Return the record of its training, where there is one."""
        return self._table("history.parquet", {"step": "number", "loss": "number"})

    def forecast(self) -> "polars.DataFrame | None":
        """Return the forecast's variables alive over beta, where one was made before training."""
        return self._table("forecast.parquet", {})

    def snapshots(self) -> "polars.DataFrame | None":
        """Return the types while it trained, where they were looked at."""
        from polarised.regime.timeline import load_timeline

        file = self.directory / "snapshots.npz"
        return load_timeline(file).table() if file.exists() else None

    def decoder_use(self) -> "DecoderUse | None":
        """Return what was measured of the decoder, where it was."""
        from polarised.regime.decoder import DecoderUse

        table = self._table("decoder_use.parquet", {})
        return None if table is None else DecoderUse.of_table(table)

    def downstream(self, rule: str) -> "polars.DataFrame | None":
        """Return factor, variables, representation and accuracy of the subsets by one rule, where they were measured."""
        import polars

        scores = dict.fromkeys(("rule", "metric", "representation", "variables"), "text") | {"value": "number"}
        table = self._table("downstream.parquet", scores)
        own = None if table is None else table.filter((table["rule"] == rule) | table["rule"].is_null())
        if own is None or not len(own):
            return None
        factor = polars.col("metric").str.strip_prefix("accuracy_").replace("accuracy", "all factors")
        return own.select(factor.alias("factor"), "variables", "representation", polars.col("value").alias("accuracy"))

    def citation(self) -> str:
        """Return the works it rests on as BibTeX."""
        return "\n".join(cite_specs(specs_of_config(self.config)).values())

    def _table(self, name: str, columns: Mapping[str, str]) -> "polars.DataFrame | None":
        file = self.directory / name
        return read_table(file, columns=columns) if file.exists() else None


def open_run(directory: str | Path) -> StoredRun:
    """Read what made a run's folder; code it names is refused (`registry.refuse_code`).

    Raises:
        ConfigError: If the settings cannot be read.
    """
    file = Path(directory) / "config.yaml"
    try:
        config = parse_yaml(read_small(file, largest=LARGEST_CONFIG), where=file) if file.exists() else {}
    except (OSError, DataError) as error:
        raise ConfigError(f"expected the settings of a run, could not read {file}: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"expected a mapping of settings in {file}, got {type(config).__name__}")
    made = config.pop("made", {})
    seed, alpha = config.get("seed", 0), _section(config, "evaluation").get("alpha", 0.1)
    if type(seed) is not int or seed < 0 or type(alpha) not in (int, float):
        raise ConfigError(f"expected a seed from 0 and a number as alpha in {file}, got {seed!r} and {alpha!r}")
    registry.refuse_code(config, file)
    return StoredRun(Path(directory), config, made if isinstance(made, dict) else {})


def made_here(command: str | None = None) -> dict[str, Any]:
    """Return the command, this process's own unless given, and the versions that what is made now is made with."""
    own = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return {"command": command or own, "versions": {name: _version(name) for name in _PACKAGES}}


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name) or {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"expected {name} as a mapping of settings, got {section!r}")
    return section


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
