"""A study's folder → a folder for the documentation: figures, table, verdict and provenance."""

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import polars

from polarised import registry
from polarised._io.files import contained, replacing
from polarised._io.text import read_small
from polarised.errors import DataError
from polarised.report.drawing import save
from polarised.report.material import RESULTS, Material, count_codes, is_published, published_study
from polarised.report.theme import SUBSETS, metric_name
from polarised.study.claims import Claim, chosen_claims
from polarised.study.claims.check import WORDS, check_claims, titled
from polarised.study.claims.verify import PUBLISHED, claims_of, published_verdicts, verify
from polarised.study.grid import load_study, study_claims, study_names
from polarised.study.planning import decidable
from polarised.study.runner import duration
from polarised.study.stages import read_done
from polarised.study.trained import archive_settings, shared_settings, stored_scores

if TYPE_CHECKING:
    from polarised.study.claims import Verification

__all__ = ["publish", "tables"]

Format = Literal["svg", "pdf", "png"]
NOTES, README = "notes.md", "README.md"
CELLS = "Averages over seeds ± standard deviation; in brackets, the number of seeds with a value, if not all have one."
FIGURES = (
    "Lines are averages over seeds, bands contain 95 % of the seeds, and small marks are single runs. A faint mark is "
    "the average of fewer than half of the seeds, because only these have such variables."
)
# Words of the names of figures, as captions print them; the longer of two that begin alike is first.
PRINTED = {
    "pinwheel paper": "(KL of the paper)",
    "pinwheel released code": "(KL of the released code)",
    "spearman": "(Spearman)",
    "u shape": ", u = shape",
    "learned mean": ", learned mean",
    "dip vae ii": ", DIP-VAE-II",
    "dip vae i": ", DIP-VAE-I",
    "rtc vae": ", RTC-VAE",
    "factorvae": ", FactorVAE",
    "ivae": ", iVAE",
    "vae": ", VAE",
    "alpha": ", α",
    "beta": ", β",
    "gamma": ", γ",
    "student t": "Student-t prior",
    "wasserstein": "Wasserstein",
    "kl": "KL",
    "mcc": "MCC",
    "mws": "MWS",
    "sap": "SAP",
}
BOTH = ("mean", "sampled")
REDUNDANCY = ("total_correlation", "mutual_information", "effective_rank", "wasserstein_correlation")
# The columns of the tables of a study, if measured, in this order: metric, representation, variables.
TABLES: dict[str, tuple[tuple[str, str | None, str], ...]] = {
    "When runs settled": (("settled", None, "full"), ("settled_step", None, "full")),
    "Types and fit": (
        ("count", None, "active"),
        ("count", None, "mixed"),
        ("count", None, "passive"),
        ("reconstruction", "mean", "full"),
        ("rate", None, "full"),
        ("retyped", None, "full"),
        ("prior_driven", None, "full"),
        ("miscalibration", None, "full"),
    ),
    "Redundancy of the whole code": tuple((metric, of, "full") for metric in REDUNDANCY for of in BOTH),
    "Redundancy without passive variables": tuple((metric, of, "alive") for metric in REDUNDANCY for of in BOTH),
    "Dependence of pairs": (
        ("pair_information", "mean", "full"),
        ("largest_pair_information", "mean", "full"),
        ("excess_information", "mean", "full"),
        ("largest_excess_information", "mean", "full"),
    ),
    "Factors": (
        ("accuracy", "mean", "full"),
        ("accuracy", "mean", "alive"),
        ("accuracy", "mean", "passive"),
        ("accuracy", "sampled", "passive"),
        ("accuracy", "mean", "random"),
        ("sap", "mean", "full"),
        ("mig", "mean", "full"),
        ("disintegrated_r2", "mean", "full"),
        ("disintegrated_nmi", "mean", "full"),
        ("factor_vae_score", "mean", "full"),
        ("factor_vae_score_transported", "mean", "full"),
        ("mcc", "mean", "full"),
        ("mcc", "sampled", "full"),
        ("random_rotation", None, "full"),
        ("linear_r2", "mean", "full"),
    ),
    "The aggregate posterior and its prior": (
        ("hoyer", "mean", "full"),
        ("encoder_entropy", None, "full"),
        ("overlap", None, "full"),
        ("mmd", None, "full"),
        ("inclusive_kl", None, "full"),
        ("exclusive_kl", None, "full"),
    ),
}


def publish(
    folder: str | Path,
    out: str | Path,
    *,
    formats: Sequence[Format] = ("png",),
    keep: bool = False,
    mixed: bool = False,
) -> Path:
    """Write the figures, ``results.parquet``, ``verdict.json`` and a README of a study's folder to `out`.

    A file ``notes.md`` in `out`, written by hand, is included in the README, its first paragraph at the top. A study
    without its own figures gets those of any study. For a folder that was published before, without its runs, the
    figures that need nothing but the table are drawn again, and the README is written again with the present notes.

    With `keep`, a study may be run in parts on machines without a shared disk: runs in the table in `out` that
    belong to this study at this scale and are not finished in `folder` stay in the table with the new ones. So do runs
    that settled in fewer steps than the study allows now, as more would change nothing. For kept runs, only rows by the
    rule of the study are known, so claims about types are then decided by that rule alone.

    Args:
        folder: The folder of the study, or one that was published.
        out: The folder to write.
        formats: Formats of the figures.
        keep: Whether to keep runs published in `out` before.
        mixed: Whether runs made by different or unknown code may be in one table.

    Returns:
        The README.

    Raises:
        DataError: If the folder has no study, `out` has nothing to keep, or its runs were made by other code.
    """
    out = Path(out)
    material = Material(Path(folder), earlier=out if keep else None, mixed=mixed)
    known = material.root if is_published(material.root) else None
    if keep and (known is not None or not is_published(out)):
        place, words = (out, "a table that was published before") if known is None else (known, "the runs of a study")
        raise DataError(f"expected {words} in {place} to keep earlier runs with new ones, but there is none")
    name = material.study.name if known is None else published_study(known)
    if known is None and not material.kept.is_empty():
        found = check_claims(material.table, claims_of(material.study))
    elif known is None:
        found = verify(folder, mixed=mixed)
    out.mkdir(parents=True, exist_ok=True)
    entry = name if name in registry.names("gallery") else "any_study"
    drawn: list[str] = []
    for each, figure in registry.build("gallery", entry, material):
        # Some figures are named after methods, which come from the study's own file.
        save(figure, contained(out, each, source=folder), formats=formats, small=True)
        if each not in drawn:
            drawn.append(each)
    notes = read_small(out / NOTES).strip() if (out / NOTES).exists() else ""
    if known is not None:
        _write_again(known, out, material.table, drawn, notes)
        return out / README
    runs = set(material.table["run"].unique())
    made = {run: one for run, one in material.made.items() if run in runs}
    record = {**found.to_dict(), "study": name, "rule": material.study.rule, "made": made}
    with replacing(out / RESULTS) as temporary:
        material.table.write_parquet(temporary)
    with replacing(out / PUBLISHED) as temporary:
        temporary.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _write_page(out, _page(material, found, drawn, notes))
    return out / README


# A note on top of a page while some of its runs were classified before the decoder's use was measured.
EARLIER = (
    "> **Types by an earlier rule.** The types on this page only compare the posterior with the prior; by now, an "
    "unused variable is identified by the decoder and by its rest under the objective (docs/explanation/types.md). "
    'Counts of active, mixed and passive variables and scores "without passive variables" will change when the study '
    "is run again; scores of the whole code will not."
)


def _page(material: Material, found: "Verification", stems: Sequence[str], notes: str) -> str:
    study = material.study
    earlier = any(not (material.root / point.run.name / "decoder_use.parquet").exists() for point in material.done)
    return _written(
        f"# {study.title}",
        notes,
        [EARLIER] if earlier else [],
        study.about,
        _provenance(material),
        found,
        claims_of(study) if found.verdicts else (),
        material.table,
        _archives(material),
        stems,
    )


def _write_again(folder: Path, out: Path, table: polars.DataFrame, drawn: Sequence[str], notes: str) -> None:
    """Write the README of a published folder again; what only the runs knew is taken from the one that is there."""
    name, found = published_study(folder), published_verdicts(folder)
    if not (folder / README).is_file() or found is None or name not in study_names():
        return
    head, *sections = re.split(r"\n\n(?=## )", (folder / README).read_text(encoding="utf-8").strip())
    paragraphs = head.split("\n\n")
    banner = [text for text in paragraphs if text.startswith(EARLIER[:20])]
    provenance = [text for text in paragraphs if re.match(r"[\d,]+ (of [\d,]+ runs|models), |Command: ", text)]
    archives = [text for text in sections if text.startswith("## Archives")]
    listed = _figures_of("\n" + "\n\n".join(sections))
    page = _written(
        paragraphs[0],
        notes,
        banner,
        load_study(name).about,
        "\n\n".join(provenance),
        found,
        chosen_claims(study_claims(name)),
        table,
        archives,
        list(dict.fromkeys([*listed, *drawn])),
    )
    _write_page(out, page)


def _write_page(out: Path, page: str) -> None:
    """Write the README, and remove the figures that only the earlier one showed."""
    earlier = read_small(out / README) if (out / README).is_file() else ""
    with replacing(out / README) as temporary:
        temporary.write_text(page, encoding="utf-8")
    # A README that `publish` did not write may show pictures of somebody else.
    gone = set(_figures_of(earlier)) - set(_figures_of(page)) if FIGURES in earlier else set()
    for path in out.iterdir():
        if path.is_file() and path.stem in gone and path.suffix.removeprefix(".") in get_args(Format):
            path.unlink()


def _figures_of(page: str) -> list[str]:
    """Return the names of the figures below a page, which `publish` drew; pictures in the notes are not ours."""
    _, heading, below = page.rpartition("\n## Figures\n")
    return re.findall(r"^!\[[^]]*\]\(([^)/]+)\.png\)$", below, flags=re.MULTILINE) if heading else []


def _written(
    title: str,
    notes: str,
    banner: Sequence[str],
    about: str,
    provenance: str,
    found: "Verification",
    claims: Iterable[Claim],
    table: polars.DataFrame,
    archives: Sequence[str],
    stems: Sequence[str],
) -> str:
    # The first paragraph says what reproduced, what did not and what did not settle; the rest comes further below.
    summary, _, remarks = notes.partition("\n\n")
    parts = [title, *([summary] if summary else []), *banner, about]
    if found.verdicts:
        parts.append(f"Verdicts: {found.headline}.")
    parts += [told for told in (provenance, _settled(table), _power(claims, table)) if told]
    if remarks:
        parts += ["## Notes", remarks]
    parts += _claims(found)
    parts += ["## Tables", CELLS, *tables(table), *archives]
    parts += ["## Figures", FIGURES]
    for name in stems:
        parts += [f"![{name.replace('_', ' ')}]({name}.png)", f"*{_caption(name)}*"]
    return "\n\n".join(parts) + "\n"


def _caption(name: str) -> str:
    """Return what stands below a figure: its numbers in the paper, if it has any, and what it shows.

    >>> _caption("figure_8_15_17_total_correlation"), _caption("magnitude_gamma_0.8"), _caption("figure_4")
    ('Figures 8, 15, 17: total correlation', 'Magnitude, γ 0.8', 'Figure 4')
    >>> _caption("figure_3_beta_pinwheel_paper"), _caption("figure_13_samples_dip_vae_i"), _caption("ivae_overview")
    ('Figure 3: β (KL of the paper)', 'Figure 13: samples, DIP-VAE-I', 'iVAE overview')
    """
    words = name.split("_")
    last = next((i for i, word in enumerate(words) if i and not word.isdigit()), len(words))
    numbers = words[1:last] if words[0] == "figure" else []
    shown = " ".join(words[last:] if numbers else words)
    for plain, printed in PRINTED.items():
        shown = re.sub(rf"(?<![^ ]){plain}(?![^ ])", printed, shown)
    shown = shown.replace(" ,", ",").removeprefix(", ")
    if not numbers:
        first = re.split("[ ,]", shown)[0]
        return shown[:1].upper() + shown[1:] if first.isascii() and first.islower() else shown
    return ": ".join(part for part in (f"Figure{'s'[: len(numbers) - 1]} {', '.join(numbers)}", shown) if part)


def _power(claims: Iterable[Claim], table: polars.DataFrame) -> str:
    """Return in a sentence which effects the seeds of a study can decide, whatever its results are."""
    labels = table.select("method", "dataset", "seed").drop_nulls().unique().iter_rows(named=True)
    powers = decidable(claims, labels)
    if not powers:
        return ""
    least = min(power.seeds for power in powers)
    effects = {power.kind: power.effect for power in powers if power.seeds == least and power.effect is not None}
    if not effects:
        return f"Power: {least} {'seed decides' if least == 1 else 'seeds decide'} no claim; at least 6 are needed."
    far = [f"a {kind} that lies {effects[kind]:.1f}" for kind in ("mean", "median") if kind in effects]
    words = [f"{' or '.join(far)} standard deviations between seeds from its margin"] if far else []
    shares = [effect for kind, effect in effects.items() if kind in ("sign", "share")]
    words += [f"a sign that {100 * max(shares):.0f} % of the seeds have"] if shares else []
    return (
        f"Power: {least} seeds decide, in four studies of five, {' and '.join(words)}. This follows from the number of "
        "seeds alone, and `polarised study plan` states it for every claim before a run."
    )


def _claims(found: "Verification") -> list[str]:
    """Return the verdicts by method, and one line for each decided verdict."""
    if not found.verdicts:
        return []
    papers = len({row["paper"] for row in found.summary}) > 1
    of = ["paper", "method"] if papers else ["method"]
    counts = [
        _line([*([titled(row["paper"])] if papers else []), row["method"] or "–", *(str(row[word]) for word in WORDS)])
        for row in found.summary
    ]
    head = [_line([*of, *WORDS]), "|---" * (len(of) + len(WORDS)) + "|"]
    tested = [v for v in found.verdicts if v.verdict != "not testable"]
    lines = [_line([f"**{v.verdict}**", _in_cell(v.statement), _in_cell(v.evidence)]) for v in tested]
    by_claim = ["| verdict | claim | evidence |", "|---|---|---|", *lines]
    return ["## Claims", "\n".join([*head, *counts]), "\n".join(by_claim)]


def _settled(table: polars.DataFrame) -> str:
    """Return how many runs settled and when, as a sentence; empty if no run uses settling."""
    settled = table.filter(metric="settled")["value"]
    if settled.is_empty():
        return ""
    steps = table.filter(metric="settled_step")["value"].to_list()
    when = _when(steps) if steps else ""
    rest = len(settled) - len(steps)
    unsettled = f"; {rest} did not and ran to their last step" if rest else ""
    return f"{len(steps)} of {len(settled)} runs settled{when}, before their rate fell{unsettled}."


def _when(steps: list[float]) -> str:
    """Return after how many steps runs settled; many at once did so as soon as they were allowed to.

    >>> _when([500.0, 500.0, 900.0]), _when([500.0])
    (' after 500 to 900 steps (2 of them after 500)', ' after 500 steps')
    """
    first, last = min(steps), max(steps)
    if first == last:
        return f" after {first:,.0f} steps"
    together = steps.count(first)
    return f" after {first:,.0f} to {last:,.0f} steps" + (f" ({together} of them after {first:,.0f})" * (together > 1))


def _archives(material: Material) -> list[str]:
    """Return the settings in measured archives, and their scores compared with ours; empty if there are none."""
    known = archive_settings(material.root)
    if not known:
        return []
    shared, own = shared_settings([about["settings"] for about in known.values()])
    head = ["archive", *own]
    rows = [
        _line(
            [
                _in_cell(Path(str(about["address"])).name),
                *(_in_cell(str(about["settings"].get(key, ""))) for key in own),
            ]
        )
        for about in known.values()
    ]
    parts = ["## Archives", "\n".join([_line(head), "|" + "---|" * len(head), *rows])]
    if shared:
        parts.append("Common settings: " + ", ".join(f"`{key} = {value}`" for key, value in shared.items()) + ".")
    stored = stored_scores(material.root)
    if stored.is_empty():
        return parts
    compared = stored.group_by("metric", "representation", maintain_order=True).agg(
        polars.len(), polars.col("theirs").mean(), polars.col("ours").mean(), polars.col("difference").abs().max()
    )
    lines = [
        _line([metric_name(metric), str(of or ""), str(count), *("" if v is None else f"{v:.3g}" for v in numbers)])
        for metric, of, count, *numbers in compared.iter_rows()
    ]
    head = ["score", "representation", "archives", "theirs", "ours", "largest difference"]
    words = "Scores in the archives compared with ours, averaged over archives; ours are from another sample."
    return [*parts, words, "\n".join([_line(head), "|" + "---|" * len(head), *lines])]


def _provenance(material: Material) -> str:
    if known := archive_settings(material.root):
        seconds = sum(about.seconds for point in material.done if (about := read_done(material.root / point.run.name)))
        return (
            f"{len(known)} models, measured but not trained here; their archives describe the training. "
            f"{duration(seconds)} of measuring in total (sum of wall-clock times)."
        )
    own = {point.run.name for point in material.done}
    kept = material.kept["run"].unique().to_list()
    made = [one for run, one in material.made.items() if run in own or run in kept]
    training = {run: point.run.training for run, point in (material.grid | material.shorter).items()}
    # A run that settles ends before its last step.
    most = "at most " if any(training[run].settling is not None for run in (*own, *kept)) else ""
    steps = sum(material.made.get(run, {}).get("steps") or training[run].steps for run in (*own, *kept))
    seconds = sum(one["seconds"] for one in made)
    commands = _commands(one["command"] for one in made)
    return (
        f"{len(own) + len(kept)} of {len(material.grid)} runs, {most}{steps:,} training steps, "
        f"{duration(seconds)} of total run time (sum of the wall-clock times of all runs{_if_known(made, own, kept)}) "
        f"on a machine with {os.cpu_count()} cores ({_processor()}), {platform.system()}, Python "
        f"{platform.python_version()}.{_about_kept(material, kept)}\n\nCommand: {commands}"
    )


def _commands(given: Iterable[str], most: int = 3) -> str:
    """Return the commands that made most of the runs; all others are only counted.

    >>> _commands(["b", "a", "a", "", "c", "d"], most=2)
    '`a`; `b`; and 2 others for parts of the runs (`made` in verdict.json)'
    """
    counts = Counter(command for command in given if command).most_common()
    words = [f"`{command}`" for command, _ in counts[:most]]
    if len(counts) > most:
        words.append(f"and {len(counts) - most} others for parts of the runs (`made` in verdict.json)")
    return "; ".join(words) or "unknown"


def _if_known(made: Sequence[Any], own: Collection[str], kept: Collection[str]) -> str:
    return "" if len(made) == len(own) + len(kept) else " for which it is known"


def _about_kept(material: Material, kept: Sequence[str]) -> str:
    """Return how many runs came from the table published before, and by which code; empty if none did."""
    if not kept:
        return ""
    codes = Counter(material.made.get(run, {}).get("code", "") for run in kept)
    here = {material.made[point.run.name]["code"] for point in material.done}
    same = (
        " the same code as the others" if set(codes) == here else f" other code than the others: {count_codes(codes)}"
    )
    by = " unknown code" if set(codes) == {""} else same
    return (
        f" {len(kept)} of these runs came from the table published here before, made by{by}; figures of single models "
        f"show the other {len(material.done)}, and claims about types are decided by the rule of the study alone."
    )


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def tables(table: polars.DataFrame) -> list[str]:
    """Return headings and Markdown tables of the measurements, one row per method and strength.

    Args:
        table: The tidy table of a study: run, seed, method, strength, dataset, metric, representation, variables,
            value.

    Returns:
        Headings and tables, alternating.

    >>> row = {"method": "VAE", "strength": 1.0, "dataset": "dsprites", "seed": 0, "metric": "sap", "value": 0.5}
    >>> print(tables(polars.DataFrame([row | {"representation": "mean", "variables": "full"}]))[1])
    | method | strength | seeds | SAP (mean) |
    |---|---|---|---|
    | VAE | 1 | 1 | 0.5 |

    If not all seeds have a value, their number is given in brackets.
    """
    labels = ["dataset", "method", "strength"] if table["dataset"].n_unique() > 1 else ["method", "strength"]
    wanted = ("metric", "representation", "variables")
    # Grouped once, because a filter for each cell would take minutes on the published study.
    cells = {tuple(key): own["value"] for key, own in table.group_by(*labels, *wanted, maintain_order=True)}
    measured = set(table.select(wanted).unique().iter_rows())
    seeds = table.group_by(labels, maintain_order=True).agg(polars.col("seed").n_unique())
    parts = []
    for heading, columns in TABLES.items():
        shown = [column for column in columns if column in measured]
        if shown:
            lines = [_line([*labels, "seeds", *map(_column, shown)])]
            lines.append("|" + "---|" * (len(labels) + 1 + len(shown)))
            for *key, count in seeds.iter_rows():
                names = ["–" if part is None else f"{part:g}" if isinstance(part, float) else str(part) for part in key]
                own = (_cell(cells.get((*key, *column)), count) for column in shown)
                lines.append(_line([*names, str(count), *own]))
            parts += [f"### {heading}", "\n".join(lines)]
    return parts


def _in_cell(text: str) -> str:
    """Escape text for a cell: a bare | would end the cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _column(column: tuple[str, str | None, str]) -> str:
    metric, representation, variables = column
    if metric == "count":
        return variables
    labels = [representation, SUBSETS[variables] if metric == "accuracy" else None]
    words = ", ".join(word for word in labels if word)
    return metric_name(metric) + (f" ({words})" if words else "")


def _cell(values: polars.Series | None, seeds: int) -> str:
    if values is None or values.is_empty():
        return ""
    numbers = values.to_numpy()
    deviation = f" ± {numbers.std(ddof=1):.2g}" if len(numbers) > 1 else ""
    return f"{numbers.mean():.3g}{deviation}" + (f" ({len(numbers)})" if len(numbers) < seeds else "")
