import doctest
import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import polarised.data.published
from data import published
from polarised import registry
from polarised.cli.datasets import app
from polarised.data import Dataset, contact_sheet, dataset_from_arrays, describe, prepare
from polarised.errors import ConfigError, DataError, DownloadError

run = CliRunner()


def ready() -> set[str]:
    return {about.name for about in describe() if about.ready}


MADE = {
    "dsprites", "color_dsprites", "noisy_dsprites", "pinwheel", "nonlinear_ica", "two_populations",
    "linear_gaussian", "from_folder", "from_npz",
}  # fmt: skip


def test_readiness_without_and_with_files(folder: Path) -> None:
    assert ready() == MADE
    published.write_digits(folder, "mnist")
    published.write_celeba(folder, zipped=False)
    (folder / "cars").mkdir()
    assert ready() == {*MADE, "mnist", "celeba"}
    (folder / "cars" / "car_001_mesh.mat").touch()
    (folder / "scream").mkdir()
    (folder / "scream" / "scream.jpg").touch()
    assert ready() == {*MADE, "mnist", "celeba", "cars3d", "scream_dsprites"}


def test_decoded_is_ready_without_its_files(folder: Path) -> None:
    published.write_digits(folder, "mnist")
    prepare({"name": "mnist", "partial": True})
    for file in (folder / "mnist").iterdir():
        file.unlink()
    assert "mnist" in ready()
    assert len(prepare({"name": "mnist", "partial": True})) == 5


def test_files_are_named_with_their_folder_and_page(folder: Path) -> None:
    about = {about.name: about for about in describe()}
    assert about["shapes3d"].files == ("3dshapes.h5",)
    assert about["shapes3d"].folder == str(folder / "3dshapes")
    assert about["shapes3d"].pages[0].startswith("https://")
    assert len(about["smallnorb"].files) == 6


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of small files in the published format, whose digests replace the published ones."""
    published.write_digits(tmp_path / "mirror", "fashion_mnist")
    place = tmp_path / "mirror" / "fashion_mnist"
    own = []
    record = registry.record("dataset", "fashion_mnist")
    for source in record.facts["sources"]:
        file = place / Path(source.file).name
        digest = hashlib.md5(file.read_bytes()).hexdigest() if file.exists() else source.md5
        own.append(replace(source, md5=digest))
    monkeypatch.setattr(polarised.data.published, "FASHION_FILES", tuple(own))
    facts = {**record.facts, "sources": tuple(own)}
    monkeypatch.setitem(registry._records["dataset"], "fashion_mnist", replace(record, facts=facts))
    return place


def test_prepare_downloads_from_a_mirror_and_reports(folder: Path, mirror: Path) -> None:
    told: list[str] = []
    spec = {"name": "fashion_mnist", "partial": True}
    dataset = prepare(spec, mirror=mirror.as_uri(), progress=lambda doing, done, total: told.append(doing))
    assert isinstance(dataset, Dataset)
    assert "downloading train-images-idx3-ubyte.gz" in told
    assert told[-1] == "decoding fashion_mnist-train-32"
    assert "fashion_mnist" in ready()


def test_wrong_content_from_a_mirror_is_refused(folder: Path, tmp_path: Path) -> None:
    published.write_digits(tmp_path / "mirror", "mnist")
    with pytest.raises(DownloadError, match="does not match the pinned digest sha256:440fcabf"):
        prepare("mnist", mirror=(tmp_path / "mirror" / "mnist").as_uri())
    assert "mnist" not in ready()


def test_prepare_reports_errors(folder: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'shapes3d'"):
        prepare("shape3d")
    with pytest.raises(ConfigError, match="needs the setting 'path'"):
        prepare("from_npz")
    with pytest.raises(DownloadError, match="put it into"):
        prepare("celeba")


def test_contact_sheet_without_factors_and_with_missing_values(tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).random((7, 1, 8, 8))
    assert contact_sheet(dataset_from_arrays(pictures), tmp_path / "new folder" / "a.png").exists()
    labels = np.array([0, 0, 2, 2, 4, 4, 4])
    assert contact_sheet(dataset_from_arrays(pictures, factors=labels), tmp_path / "b.png").exists()
    two = np.stack([labels, labels[::-1]], axis=1)
    assert contact_sheet(dataset_from_arrays(pictures, factors=two), tmp_path / "c.png").exists()
    assert contact_sheet(dataset_from_arrays(np.random.default_rng(0).random((30, 1))), tmp_path / "d.png").exists()
    with pytest.raises(DataError, match="1 column"):
        contact_sheet(dataset_from_arrays(pictures), tmp_path / "e.png", columns=0)


def test_command_lists(folder: Path) -> None:
    listed = run.invoke(app, [], env={"COLUMNS": "200"})
    assert listed.exit_code == 0
    assert "noisy_dsprites" in listed.output
    assert str(folder) in listed.output.replace("\n", "")
    records = json.loads(run.invoke(app, ["list", "--json"]).output)["datasets"]
    assert [record["name"] for record in records] == [about.name for about in describe()]
    assert records[0]["factors"]["orientation"] == 40


def test_command_is_mounted_and_errors_are_one_sentence(folder: Path) -> None:
    from polarised.cli import app as polarised

    assert run.invoke(polarised, ["datasets", "list", "--json"]).exit_code == 0
    failed = run.invoke(polarised, ["datasets", "prepare", "celeba"])
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: expected the file img_align_celeba.zip")


def test_command_prepares(folder: Path, mirror: Path) -> None:
    arguments = ["prepare", "fashion_mnist", "partial=true", "size=28"]
    prepared = run.invoke(app, [*arguments, "--mirror", str(mirror)])
    assert prepared.exit_code == 0, prepared.output
    assert "fashion_mnist is ready: 5 of shape 1 × 28 × 28" in prepared.output
    assert json.loads(run.invoke(app, [*arguments, "--json"]).output)["images"] == 5
    assert run.invoke(app, [*arguments, "--quiet"]).output == ""
    for wrong in ("partial", "=1", "size=[1"):
        assert isinstance(run.invoke(app, ["prepare", "mnist", wrong]).exception, ConfigError)


def test_command_shows(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "sheet.png"
    shown = run.invoke(app, ["show", "dsprites", "size=32", "-o", str(path), "--columns", "3"])
    assert shown.exit_code == 0, shown.output
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path) in shown.output.replace("\n", "")
    answer = run.invoke(app, ["show", "pinwheel", "-o", str(path), "--json"])
    assert json.loads(answer.output).items() >= {"name": "pinwheel", "path": str(path)}.items()


def test_a_damaged_local_file_is_named(folder: Path) -> None:
    published.write_digits(folder, "mnist")
    (folder / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"junk"))
    result = run.invoke(app, ["prepare", "mnist", "partial=true"])
    assert isinstance(result.exception, DataError)
    assert "train-images-idx3-ubyte.gz" in str(result.exception)


def test_examples_of_the_howto_run() -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "datasets.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 10
    assert results.failed == 0
