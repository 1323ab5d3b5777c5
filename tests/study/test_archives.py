"""The protocol of the first paper: archives of a list are downloaded, measured and deleted, also after errors."""

import functools
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest

from polarised.adapters import decoder_use
from polarised.errors import DataError, DownloadError
from polarised.report.page import write
from polarised.study.config import Evaluation, read_evaluation
from polarised.study.grid import Study, load_study
from polarised.study.results import collect
from polarised.study.runner import read_models, read_study
from polarised.study.trained import (
    LARGEST_ARCHIVE,
    Archive,
    archive_settings,
    measure_archive,
    measure_models,
    read_archives,
    stored_scores,
)
from study.archives import serving, write_archive

EVALUATION = read_evaluation({"examples": 40, "downstream": False})


@pytest.fixture
def study() -> Study:
    found = load_study("be_more_active", scale="smoke", settings=["axes.seed=1"])
    points = tuple(replace(point, run=replace(point.run, evaluation=EVALUATION)) for point in found.points[:1])
    return replace(found, points=points)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate folder for downloads, which is checked afterwards."""
    folder = tmp_path / "desk"
    folder.mkdir()

    def own(name: str) -> Path:
        (folder / name).mkdir(exist_ok=True)
        return folder / name

    monkeypatch.setattr("polarised.study.trained.private_folder", own)
    # Measuring a convolutional decoder on thousands of inputs takes half a minute, and has its own tests.
    few = functools.partial(decoder_use, examples=20, most=20)
    monkeypatch.setattr("polarised.adapters.decoder_use", few)
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    write_archive(folder / "200.zip", seed=0, weights=0)
    write_archive(folder / "201.zip", seed=1, weights=1)
    return folder


def listing(path: Path, *lines: str) -> Path:
    path.write_text("# models\n\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_list_is_measured_and_its_downloads_deleted(
    tmp_path: Path, desk: Path, published: Path, study: Study
) -> None:
    with serving(published) as (address, asked):
        models = listing(tmp_path / "list.txt", f"{address}/200.zip", str(published / "201.zip"), "missing.zip")
        outcomes = dict(measure_models(study, models, tmp_path / "out"))
        assert [why == "" for why in outcomes.values()] == [True, True, False]
        assert "but it does not exist" in outcomes[str(tmp_path / "missing.zip")]
        assert asked == ["200.zip 0"]
        # A second call measures and downloads nothing.
        again = dict(measure_models(study, models, tmp_path / "out"))
        assert asked == ["200.zip 0"]
    assert [why == "" for why in again.values()] == [True, True, False]
    assert [path.name for path in desk.rglob("*") if path.is_file()] == []
    assert (published / "201.zip").exists()
    table = polars.read_parquet(collect(tmp_path / "out"))
    assert set(table.select("method", "strength", "seed").unique().iter_rows()) == {
        ("beta-VAE", 8.0, 0),
        ("beta-VAE", 8.0, 1),
    }
    assert read_study(tmp_path / "out").scale == "models"
    assert read_models(tmp_path / "out") == str(models)
    page = write(tmp_path / "out").read_text(encoding="utf-8")
    assert ">These models were measured, not trained here; their archives describe the training.<" in page
    said = archive_settings(tmp_path / "out")
    assert len(said) == 2
    digest = hashlib.sha256((published / "200.zip").read_bytes()).hexdigest()
    (first,) = [about for about in said.values() if about["address"].startswith("http")]
    assert (first["sha256"], first["settings"]["vae.beta"]) == (digest, "8.0")


def test_scores_of_the_archive_are_compared_with_ours(tmp_path: Path, published: Path, study: Study) -> None:
    list(measure_models(study, published / "200.zip", tmp_path / "out"))
    table = stored_scores(tmp_path / "out")
    rows = {(row["metric"], row["representation"]): row for row in table.iter_rows(named=True)}
    assert set(rows) == {
        ("mig", "mean"),
        ("total_correlation", "mean"),
        ("something_else", "mean"),
        ("rate", None),
    }
    assert rows["something_else", "mean"]["ours"] is None
    (directory,) = (tmp_path / "out").glob("*/scores.parquet")
    scores = polars.read_parquet(directory).filter(metric="total_correlation", representation="mean", variables="full")
    found = rows["total_correlation", "mean"]
    assert found["theirs"] == 2.5
    assert found["ours"] == scores["value"][0]
    assert found["difference"] == pytest.approx(found["ours"] - 2.5)
    assert 0 <= rows["mig", "mean"]["ours"] <= 1


def test_an_interrupted_download_is_resumed(tmp_path: Path, desk: Path, published: Path, study: Study) -> None:
    with serving(published, cut={"200.zip": 500_000}) as (address, asked):
        models = listing(tmp_path / "list.txt", f"{address}/200.zip", f"{address}/201.zip")
        first = dict(measure_models(study, models, tmp_path / "out"))
        assert "the connection ended after 500000 of" in first[f"{address}/200.zip"]
        assert first[f"{address}/201.zip"] == ""
        assert [path.stat().st_size for path in desk.rglob("*.part")] == [500_000]
        assert set(dict(measure_models(study, models, tmp_path / "out")).values()) == {""}
        assert asked == ["200.zip 0", "201.zip 0", "200.zip 500000"]
    assert [path for path in desk.rglob("*") if path.is_file()] == []


def test_a_corrupted_archive_fails_alone_and_is_downloaded_again(tmp_path: Path, desk: Path, study: Study) -> None:
    served = tmp_path / "served"
    served.mkdir()
    whole = write_archive(served / "200.zip").read_bytes()
    broken = bytearray(whole)
    broken[200_000:200_100] = bytes(100)
    (served / "200.zip").write_bytes(broken)
    (served / "words.zip").write_bytes(b"<html>not here any more</html>")
    write_archive(served / "201.zip", seed=1)
    with serving(served) as (address, asked):
        models = listing(tmp_path / "list.txt", *(f"{address}/{name}.zip" for name in ("200", "words", "201")))
        why = {Path(name).stem: reason for name, reason in measure_models(study, models, tmp_path / "out")}
        assert why["201"] == ""
        assert all(f"{address}/{name}.zip" in why[name] for name in ("200", "words"))
        assert not any(str(desk) in words for words in why.values())
        assert [path for path in desk.rglob("*") if path.is_file()] == []
        (served / "200.zip").write_bytes(whole)
        again = {Path(name).stem: reason for name, reason in measure_models(study, models, tmp_path / "out")}
        assert again["200"] == ""
        assert [line for line in asked if line.startswith("200")] == ["200.zip 0", "200.zip 0"]


def test_digests_are_checked(tmp_path: Path, published: Path, study: Study) -> None:
    right = hashlib.sha256((published / "200.zip").read_bytes()).hexdigest()
    with serving(published) as (address, _):
        models = listing(tmp_path / "list.txt", f"{address}/200.zip sha256:{right}", f"{address}/201.zip {'0' * 64}")
        outcomes = dict(measure_models(study, models, tmp_path / "out"))
    assert outcomes[f"{address}/200.zip"] == ""
    assert "to have the SHA-256" in outcomes[f"{address}/201.zip"]


def test_unsafe_addresses_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("ftp://example.org/1.zip", "file:///etc/passwd", "s3://bucket/1.zip", "a\0b", "https://[::1"):
        with pytest.raises(DataError, match="expected paths and https addresses"):
            read_archives(listing(tmp_path / "list.txt", line), EVALUATION)
    plain = Archive("http://example.org/1.zip", EVALUATION)
    with pytest.raises(DownloadError, match="expected an https address"):
        measure_archive(plain, str(tmp_path / "out"))
    assert LARGEST_ARCHIVE == 2**31
    monkeypatch.setattr("polarised.study.trained.LARGEST_ARCHIVE", 100)
    write_archive(tmp_path / "200.zip")
    with serving(tmp_path) as (address, _), pytest.raises(DownloadError, match="more than the 100 bytes"):
        measure_archive(Archive(f"{address}/200.zip", EVALUATION), str(tmp_path / "out"))


def test_a_second_model_of_the_same_settings_is_refused_and_a_copy_is_not(
    tmp_path: Path, published: Path, study: Study
) -> None:
    write_archive(tmp_path / "other.zip", seed=0, weights=5)
    (tmp_path / "copy.zip").write_bytes((published / "200.zip").read_bytes())
    models = listing(tmp_path / "list.txt", str(published / "200.zip"), "copy.zip", "other.zip")
    outcomes = dict(measure_models(study, models, tmp_path / "out"))
    assert outcomes[str(tmp_path / "copy.zip")] == ""
    assert "expected one model for each setting and seed" in outcomes[str(tmp_path / "other.zip")]
    assert len(read_study(tmp_path / "out").points) == 1


def test_results_at_an_address(tmp_path: Path, published: Path, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    root = f"local://{tmp_path}/bucket"
    models = listing(tmp_path / "list.txt", str(published / "200.zip"), "missing.zip")
    outcomes = dict(measure_models(study, models, root))
    assert outcomes[str(published / "200.zip")] == ""
    files = {path.name for path in (tmp_path / "bucket").rglob("*") if path.is_file()}
    assert {"archive.json", "done.json", "stored.parquet", "failed.txt", "study.json"} <= files
    before = [path.stat().st_mtime_ns for path in (tmp_path / "bucket").rglob("encodings.npz")]
    list(measure_models(study, models, root))
    assert [path.stat().st_mtime_ns for path in (tmp_path / "bucket").rglob("encodings.npz")] == before
    monkeypatch.chdir(tmp_path)
    assert len(polars.read_parquet(collect(root)))
    assert len(stored_scores(root)) == 4


def test_archives_survive_as_plain_settings() -> None:
    archive = Archive("https://example.org/a%20b/200.zip", Evaluation(), "0" * 64)
    assert Archive.from_config(archive.to_config()) == archive
    assert archive.name.startswith("archives/200.zip-")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["folder", "address"])
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_executors_accept_archives_like_runs(
    tmp_path: Path, published: Path, study: Study, executor: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (["ray"] if executor == "ray" else []) + (["fsspec"] if place == "address" else []):
        pytest.importorskip(name)
    root = f"local://{tmp_path}/out" if place == "address" else tmp_path / "out"
    broken = bytearray((published / "201.zip").read_bytes())
    broken[200_000:200_100] = bytes(100)
    (tmp_path / "broken.zip").write_bytes(broken)
    with serving(published, cut={"201.zip": 500_000}) as (address, asked):
        names = (f"{address}/200.zip", f"{address}/201.zip", f"{address}/none.zip", "broken.zip")
        models = listing(tmp_path / "list.txt", *names)
        spec: dict[str, Any] = {"name": executor, "jobs": 1}
        outcomes = dict(measure_models(study, models, root, executor=spec))
        why = {Path(name).stem: words for name, words in outcomes.items()}
        assert why["200"] == ""
        assert "the connection ended after 500000 of" in why["201"]
        assert "404" in why["none"]
        assert why["broken"]
        # The same call goes on: the download where it ended, nothing that is done again.
        again = dict(measure_models(study, models, root, executor=spec))
        assert [Path(name).stem for name, words in again.items() if words] == ["none", "broken"]
        assert [line for line in asked if line[0] == "2"] == ["200.zip 0", "201.zip 0", "201.zip 500000"]
    assert len(read_study(root).points) == 2


def test_a_published_page_says_that_models_were_measured_and_shows_their_own_settings(
    tmp_path: Path, published: Path, study: Study
) -> None:
    from polarised.report.publish import publish

    list(measure_models(replace(study, claims=()), published, tmp_path / "out"))
    page = publish(tmp_path / "out", tmp_path / "page").read_text(encoding="utf-8")
    assert "2 models, measured but not trained here" in page
    assert "training steps" not in page
    assert "| archive | model.random_seed |" in page
    assert "`vae.beta = 8.0`" in page
    assert "| mean | 2 | 2.5 |" in page
