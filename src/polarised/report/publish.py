"""A study's folder → a folder for the documentation: figures, table, verdict, and how all of it came about."""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars
import yaml

from polarised import catalogue
from polarised.files import replacing
from polarised.report.drawing import save
from polarised.report.gallery.material import Material
from polarised.study.verify import check_claims

if TYPE_CHECKING:
    from polarised.study.claims.verdict import Verdict

__all__ = ["publish"]

Format = Literal["svg", "pdf", "png"]
NOTES = "notes.md"
# What the table of a study shows where it was measured, in this order.
COLUMNS = (
    ("reconstruction", "mean"),
    ("rate", None),
    ("total_correlation", "mean"),
    ("total_correlation", "sampled"),
    ("pair_information", "mean"),
    ("sap", "mean"),
    ("mig", "mean"),
    ("factor_vae_score", "mean"),
    ("factor_vae_score_transported", "mean"),
    ("mcc", "mean"),
    ("mcc", "sampled"),
    ("hoyer", "mean"),
    ("encoder_entropy", None),
    ("overlap", None),
    ("mmd", None),
    ("inclusive_kl", None),
    ("exclusive_kl", None),
    ("miscalibration", None),
    ("prior_driven", None),
)


def publish(folder: str | Path, out: str | Path, *, formats: Sequence[Format] = ("png",)) -> Path:
    """Write the figures, ``results.parquet``, ``verdict.json`` and a README of a study's folder to `out`.

    A file ``notes.md`` in `out`, written by hand, is taken into the README. A study without figures of its own gets
    those of any study. Return the README.
    """
    material, out = Material(Path(folder)), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    entry = material.study.name if material.study.name in catalogue.names("polarised.report.gallery") else "any_study"
    stems = []
    for stem, figure in catalogue.build("polarised.report.gallery", entry, material):
        save(figure, out / stem, formats=formats)
        stems.append(stem)
    verdicts = check_claims(material.table, material.study.claims)
    with replacing(out / "results.parquet") as temporary:
        material.table.write_parquet(temporary)
    with replacing(out / "verdict.json") as temporary:
        words = [verdict.to_dict() for verdict in verdicts]
        temporary.write_text(json.dumps(words, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    with replacing(out / "README.md") as temporary:
        notes = (out / NOTES).read_text(encoding="utf-8").strip() if (out / NOTES).exists() else ""
        temporary.write_text(_page(material, verdicts, stems, notes), encoding="utf-8")
    return out / "README.md"


def _page(material: Material, verdicts: "Sequence[Verdict]", stems: Sequence[str], notes: str) -> str:
    study = material.study
    parts = [f"# {study.name}, scale {study.scale}", study.about, _provenance(material)]
    if notes:
        parts += ["## Notes", notes]
    if verdicts:
        head = "| verdict | claim | evidence |\n|---|---|---|"
        lines = [f"| **{v.verdict}** | {v.claim} | {v.evidence} |".replace("\n", " ") for v in verdicts]
        parts += ["## Claims", "\n".join([head, *lines])]
    parts += ["## Table", "Averages over seeds, ± their standard deviation.", _table(material.table)]
    parts += ["## Figures", *(f"![{stem.replace('_', ' ')}]({stem}.png)" for stem in stems)]
    return "\n\n".join(parts) + "\n"


def _provenance(material: Material) -> str:
    commands, seconds = dict.fromkeys([""]), 0.0
    for point in material.done:
        directory = material.root / point.run.name
        made = yaml.safe_load((directory / "config.yaml").read_text(encoding="utf-8")).get("made", {})
        # The folder's place on this machine is nobody's business.
        commands[str(made.get("command", "")).replace(f"{material.root.resolve().parent}/", "")] = None
        done = json.loads((directory / "done.json").read_text(encoding="utf-8"))
        seconds += max(done["time"] - (directory / "config.yaml").stat().st_mtime, 0.0)
    said = [f"`{command}`" for command in commands if command]
    steps = sum(point.run.training.steps for point in material.done)
    return (
        f"{len(material.done)} of {len(material.study.points)} runs, {steps:,} training steps, "
        f"{seconds / 60:.0f} minutes of run time in all (wall clock of every run, added up) on a machine with "
        f"{os.cpu_count()} cores ({_processor()}), {platform.system()}, Python {platform.python_version()}.\n\n"
        f"Command: {'; '.join(said) or 'unknown'}"
    )


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _table(table: polars.DataFrame) -> str:
    """Return the averages of what was measured on the whole code, a line for each method and strength, as Markdown."""
    rows, columns = [], []
    whole = table.filter(polars.col("variables") == "full")
    groups = whole.group_by(["method", "strength"], maintain_order=True)
    for metric, representation in COLUMNS:
        mine = polars.col("metric").eq(metric) & polars.col("representation").eq_missing(representation)
        if not whole.filter(mine).is_empty():
            columns.append((metric, representation, mine))
    names = [f"{metric.replace('_', ' ')}{f' ({of})' if of else ''}" for metric, of, _ in columns]
    rows.append("| method | strength | seeds | " + " | ".join(names) + " |")
    rows.append("|---|---|---|" + "---|" * len(columns))
    for (method, strength), own in groups:
        values = [own.filter(mine)["value"] for _, _, mine in columns]
        seeds = own["seed"].n_unique()
        shown = [_cell(value) for value in values]
        label = "–" if strength is None else f"{strength:g}"
        rows.append(f"| {method} | {label} | {seeds} | " + " | ".join(shown) + " |")
    return "\n".join(rows)


def _cell(values: polars.Series) -> str:
    if values.is_empty():
        return ""
    numbers = values.to_numpy()
    return f"{numbers.mean():.3g}" + (f" ± {numbers.std(ddof=1):.2g}" if len(numbers) > 1 else "")
