"""A study run in parts on machines without a shared disk is published as one."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from polarised.cli import app
from polarised.errors import DataError
from polarised.report.material import _shorter_names
from polarised.report.publish import publish
from polarised.study.config import Run
from polarised.study.grid import load_study
from polarised.study.runner import enrol
from polarised.study.stages import execute
from study.workshop import study_config, write_study

SETTLED = {"settled": 1.0, "settled_step": 500.0}
OF_SEED = "axes.seed={{seed: [{0}], dataset.seed: [{0}]}}"


def part(root: Path, *seeds: int, done: tuple[int, ...] = (), settings: tuple[str, ...] = ()) -> Path:
    """The runs of some seeds of the smallest study of the library, all or some of them done, in their own folder."""
    own = [OF_SEED.format(", ".join(map(str, seeds))), "axes.method.beta-VAE=null", "axes.method.beta-TCVAE=null"]
    study = load_study("nonlinear_ica", scale="smoke", settings=[*own, *settings])
    enrol(study, root)
    for run in study.runs:
        if run.seed in (done or seeds):
            execute(run, root, command=f"polarised study run nonlinear_ica --out {root}")
    return root


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Two parts, and a folder that has the runs of both."""
    folder = tmp_path_factory.mktemp("parts")
    first, second = part(folder / "first", 1), part(folder / "second", 2)
    for each in (first, second):
        shutil.copytree(each, folder / "both", dirs_exist_ok=True, ignore=shutil.ignore_patterns("study.json"))
    return first, second, part(folder / "both", 1, 2)


def table(folder: Path) -> polars.DataFrame:
    return polars.read_parquet(folder / "results.parquet")


def with_code(folder: Path, to: Path, code: str) -> Path:
    """The runs of a folder as if other code had made them."""
    shutil.copytree(folder, to)
    for path in to.glob("*/done.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "code": code}))
    return to


def test_parts_published_one_after_the_other_equal_the_whole_study(
    parts: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    first, second, both = parts
    out = tmp_path / "out"
    publish(first, out)
    page = publish(second, out, keep=True).read_text()
    publish(both, tmp_path / "whole")
    assert_frame_equal(table(out), table(tmp_path / "whole"), check_exact=True)
    found, whole = (json.loads((folder / "verdict.json").read_text()) for folder in (out, tmp_path / "whole"))
    assert found["made"] == whole["made"]
    # Claims about types are decided by one rule if runs are kept, and by two if the runs themselves are available.
    decided = [[one for one in each["verdicts"] if one["name"] == "OWN-sources"] for each in (found, whole)]
    assert decided[0] == decided[1] != []
    assert "4 of 12 runs, 800 training steps" in page
    assert "2 of these runs came from the table published here before, made by the same code as the others" in page
    # Again, with nothing new: the runs of the first part are still there.
    assert "2 of these runs" in publish(second, out, keep=True).read_text()
    assert_frame_equal(table(out), table(tmp_path / "whole"), check_exact=True)


@pytest.mark.parametrize(
    "damage",
    [{"seconds": 10**400}, {"seconds": -1}, {"seconds": "2"}, {"code": None}, {"command": ["a"]}, {"steps": "many"}],
)
def test_a_damaged_record_of_kept_runs_is_read_as_unknown(
    parts: tuple[Path, Path, Path], tmp_path: Path, damage: dict[str, Any]
) -> None:
    first, second, _ = parts
    publish(first, tmp_path)
    record = json.loads((tmp_path / "verdict.json").read_text())
    for one in record["made"].values():
        one.update(damage)
    (tmp_path / "verdict.json").write_text(json.dumps(record))
    page = publish(second, tmp_path, keep=True, mixed=True).read_text()
    assert "2 of these runs came from" in page
    assert ("for which it is known" in page) == ("seconds" in damage)
    assert ("by unknown code" in page) == bool({"seconds", "code"} & set(damage))
    assert "None" not in page.split("## Claims")[0]


def test_the_first_paragraph_of_the_notes_opens_the_page(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, _, _ = parts
    (tmp_path / "notes.md").write_text("What reproduced: a sentence\non two lines.\n\n- A remark.\n- Another.\n")
    page = publish(first, tmp_path).read_text()
    paragraphs = page.split("\n\n")
    assert paragraphs[0].startswith("# nonlinear_ica")
    assert paragraphs[1] == "What reproduced: a sentence\non two lines."
    assert page.index("## Notes\n\n- A remark.\n- Another.") > page.index("Command: ")


def test_a_published_folder_is_written_again_from_its_table_and_notes(
    parts: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "notes.md").write_text("What reproduced: one.\n\n- A remark.")
    page = publish(parts[2], tmp_path).read_text()
    assert publish(tmp_path, tmp_path).read_text() == page
    # New notes and a new table are shown; how the runs came about, which only their folder knew, stays.
    (tmp_path / "notes.md").write_text("What reproduced: another.\n\n- A second remark.")
    table(tmp_path).with_columns(
        value=polars.when(polars.col("metric") == "mcc").then(0.25).otherwise("value")
    ).write_parquet(tmp_path / "results.parquet")
    again = publish(tmp_path, tmp_path).read_text()
    assert again.split("\n\n")[1] == "What reproduced: another."
    assert "A second remark" in again
    assert "A remark" not in again
    assert "| 0.25 ± 0 | 0.25 ± 0 |" in again
    kept = [text for text in page.split("\n\n") if text.startswith(("4 of 12 runs", "Command: ", "!["))]
    assert len(kept) > 3
    assert all(text in again.split("\n\n") for text in kept)


def test_figures_that_are_no_longer_drawn_are_removed(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("What reproduced: one.\n\n![by hand](by_hand.png)")
    page = publish(parts[2], tmp_path)
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn
    page.write_text(page.read_text() + "\n![an earlier one](earlier.png)\n\n*Earlier*\n")
    for name in ("earlier.png", "earlier.svg", "by_hand.png", "another.png"):
        (tmp_path / name).write_bytes(b"picture")
    assert "(earlier.png)" not in publish(parts[2], tmp_path).read_text()
    assert {path.name for path in tmp_path.glob("*.[ps][nv]g")} == {*drawn, "by_hand.png", "another.png"}


def test_pictures_of_a_page_written_by_hand_are_not_removed(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Mine\n\n## Figures\n\n![mine](mine.png)\n")
    (tmp_path / "mine.png").write_bytes(b"picture")
    publish(parts[2], tmp_path)
    assert (tmp_path / "mine.png").exists()


def test_the_page_says_what_its_seeds_can_decide(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    assert "Power: 2 seeds decide no claim; at least 6 are needed." in publish(parts[2], tmp_path).read_text()
    few = table(tmp_path)
    more = [few.with_columns(seed=polars.lit(100 + number, dtype=few.schema["seed"])) for number in range(4)]
    polars.concat([few, *more]).write_parquet(tmp_path / "results.parquet")
    words = "Power: 6 seeds decide, in four studies of five, a mean that lies 1.4 standard deviations between seeds"
    assert words in publish(tmp_path, tmp_path).read_text()


def test_how_many_runs_settled_is_said_once_however_often_a_page_is_written(
    parts: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    publish(parts[2], tmp_path)
    one = table(tmp_path).filter(metric="rate", variables="full")
    settled = [one.with_columns(metric=polars.lit(name), value=polars.lit(value)) for name, value in SETTLED.items()]
    polars.concat([table(tmp_path), *settled]).write_parquet(tmp_path / "results.parquet")
    page = publish(tmp_path, tmp_path).read_text()
    assert page.count("4 of 4 runs settled after 500 steps, before their rate fell.") == 1
    assert publish(tmp_path, tmp_path).read_text() == page


def test_a_run_that_was_done_again_replaces_the_published_one(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, _, both = parts
    publish(both, tmp_path)
    doubled = table(tmp_path).with_columns(polars.col("value") * 2)
    doubled.write_parquet(tmp_path / "results.parquet")
    assert "2 of these runs came from" in publish(first, tmp_path, keep=True).read_text()
    of_first = polars.col("seed") == 1
    publish(both, tmp_path / "whole")
    assert_frame_equal(table(tmp_path).filter(of_first), table(tmp_path / "whole").filter(of_first))
    assert_frame_equal(table(tmp_path).filter(~of_first), doubled.filter(~of_first))


def test_settled_runs_are_kept_when_others_get_more_steps(tmp_path: Path) -> None:
    settling = "training.settling={{least: {0}, every: 5, nats: {1}, decay: 0.25}}"
    easy, out = settling.format(20, 1000.0), tmp_path / "out"
    publish(part(tmp_path / "few", 1, 2, settings=("training.steps=100", easy)), out)
    few = table(out)
    more = part(tmp_path / "more", 1, 2, done=(1,), settings=("training.steps=200", easy))
    page = publish(more, out, keep=True).read_text()
    # Seed 1 is the run with more steps, seed 2 the published one; as both settled early, only its name differs.
    assert table(out)["seed"].unique(maintain_order=True).to_list() == [1, 2]
    assert_frame_equal(table(out).filter(seed=2), few.filter(seed=2))
    assert table(out)["run"].n_unique() == few["run"].n_unique() == 4
    assert set(table(out).filter(seed=1)["run"]).isdisjoint(few["run"])
    assert_frame_equal(table(out).filter(seed=1).drop("run"), few.filter(seed=1).drop("run"), check_exact=True)
    assert "at most 600 training steps" in page
    # The second time, what is kept is still recognised by its number of steps.
    assert publish(more, out, keep=True).read_text() == page
    # With another tolerance they would be other runs.
    other = settling.format(20, 999.0)
    again = part(tmp_path / "other", 1, 2, done=(2,), settings=("training.steps=300", other))
    publish(again, out, keep=True)
    assert set(table(out)["seed"]) == {2}


def test_runs_that_did_not_settle_are_not_kept_when_others_get_more_steps(tmp_path: Path) -> None:
    never, out = "training.settling={least: 20, every: 5, nats: 0, share: 0}", tmp_path / "out"
    publish(part(tmp_path / "few", 1, 2, settings=("training.steps=100", never)), out)
    assert set(table(out).filter(metric="settled")["value"]) == {0.0}
    publish(part(tmp_path / "more", 1, 2, done=(2,), settings=("training.steps=200", never)), out, keep=True)
    assert set(table(out)["seed"]) == {2}


def settling_run(steps: int, *, objective: Mapping[str, Any], warm_up: float = 0, **settling: float) -> Run:
    training = {"steps": steps, "settling": {"least": 20, "every": 5, **settling}}
    schedule = {"name": "constant", "warm_up": warm_up}
    return Run.from_config({"objective": objective, "training": {**training, "schedule": schedule}})


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({"objective": {"name": "BetaVAE"}}, True),
        ({"objective": {"name": "BetaVAE"}, "least": 0.1}, False),
        ({"objective": {"name": "BetaVAE"}, "every": 0.1}, False),
        ({"objective": {"name": "BetaVAE"}, "warm_up": 10}, True),
        ({"objective": {"name": "BetaVAE"}, "warm_up": 0.1}, False),
        ({"objective": {"name": "BetaVAE", "warm_up": 10}}, True),
        ({"objective": {"name": "BetaVAE", "warm_up": 0.1}}, False),
        ({"objective": {"name": "BetaVAE", "ramp": "cyclical"}}, False),
        ({"objective": {"name": "AnnealedVAE", "iteration_threshold": 10}}, True),
        ({"objective": {"name": "AnnealedVAE", "iteration_threshold": 0.1}}, False),
    ],
)
def test_a_run_with_fewer_steps_is_another_if_the_number_of_steps_sets_its_pace(
    settings: dict[str, Any], same: bool
) -> None:
    shorter, longer = settling_run(100, **settings), settling_run(200, **settings)
    assert _shorter_names(longer, {None, 100, 200, 300}) == ([shorter.name] if same else [])


def test_runs_of_a_study_over_the_number_of_steps_are_all_kept(tmp_path: Path) -> None:
    config = study_config(steps=200)
    config["base"]["training"]["settling"] = {"least": 20, "every": 5, "nats": 1000.0}
    config["axes"] = {"length": {"short": {"training": {"steps": 100}}, "long": {"training": {"steps": 200}}}}
    study, out = load_study(write_study(tmp_path / "tiny.yaml", config)), tmp_path / "out"
    for folder, runs in (("both", study.runs), ("one", study.runs[1:])):
        enrol(study, tmp_path / folder)
        for run in runs:
            execute(run, tmp_path / folder)
        publish(tmp_path / folder, out, keep=folder == "one")
        assert table(out)["run"].unique(maintain_order=True).to_list() == [run.name for run in study.runs]


def test_runs_of_another_study_are_not_kept(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, second, _ = parts
    publish(first, tmp_path)
    stranger = table(tmp_path).with_columns(polars.lit("VAE-mine-seed1-0123456789").alias("run"))
    polars.concat([table(tmp_path), stranger]).write_parquet(tmp_path / "results.parquet")
    assert "4 of 12 runs" in publish(second, tmp_path, keep=True).read_text()
    assert "VAE-mine-seed1-0123456789" not in table(tmp_path)["run"]


def test_other_code_is_refused_unless_allowed(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, second, _ = parts
    out = tmp_path / "out"
    publish(with_code(first, tmp_path / "old", "0123456789ab"), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(
        DataError, match=r"one version of the code, got 2 by .* in .* and 2 by 0123456789ab in the table"
    ):
        publish(second, out, keep=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    command = ["study", "publish", str(second), "--out", str(out), "--keep"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert not any((out / name).read_bytes() != text for name, text in before.items())
    assert CliRunner().invoke(app, [*command, "--mixed"]).exit_code == 0
    assert "other code than the others: 2 by 0123456789ab" in (out / "README.md").read_text()
    assert table(out)["run"].n_unique() == 4


def test_a_table_of_unknown_code_is_refused_unless_allowed(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, second, _ = parts
    publish(first, tmp_path)
    known = json.loads((tmp_path / "verdict.json").read_text())
    (tmp_path / "verdict.json").write_text(json.dumps({key: known[key] for key in ("schema", "verdicts", "study")}))
    with pytest.raises(DataError, match=r"2 by unknown code .* written before it was recorded; repeat them"):
        publish(second, tmp_path, keep=True)
    page = publish(second, tmp_path, keep=True, mixed=True).read_text()
    assert "2 of these runs came from the table published here before, made by unknown code" in page
    assert "(sum of the wall-clock times of all runs for which it is known)" in page


def test_nothing_to_keep_is_an_error(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a table that was published before in .*, but there is none"):
        publish(parts[0], tmp_path / "out", keep=True)
    assert not (tmp_path / "out").exists()
