"""Names from untrusted files, archives, addresses and tables never lead out of their folder."""

import io
import json
import tarfile
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from polarised._io.addresses import brought, files_at
from polarised._io.files import Folder, contained
from polarised._io.readers import tar_members, zip_members
from polarised.cli import app
from polarised.errors import DataError
from polarised.report import write
from polarised.study.grid import load_study
from polarised.study.runner import enrol
from polarised.study.storage import at_hand, fetch

HOSTILE = [
    "../evil.json",
    "run/../../evil.json",
    "/evil.json",
    "..",
    "",
    ".",
    "..\\evil.json",
    "C:evil.json",
    "a\x1b[2Jb",
    "a\nb",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leads_out_is_refused_with_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="expected names of files inside the folder in the list") as caught:
        contained(tmp_path, name, source="the list")
    assert str(caught.value).isprintable()


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "out").symlink_to(tmp_path)
    (tmp_path / "folder" / "within").symlink_to(tmp_path / "folder")
    with pytest.raises(DataError, match="inside the folder"):
        contained(tmp_path / "folder", "out/evil.json", source="the list")
    assert contained(tmp_path / "folder", "within/a", source="the list") == tmp_path / "folder" / "within" / "a"


def test_a_very_long_name_is_shortened_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        contained(tmp_path, "../" * 100_000, source="the list")
    assert len(str(caught.value)) < 400


def archive(path: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(path, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            file.writestr(name, "{}")
    return path


@pytest.mark.parametrize("name", ["../../evil/done.json", "run/../../../evil/done.json"])
def test_the_list_of_an_address_writes_nothing_outside(tmp_path: Path, name: str) -> None:
    pytest.importorskip("fsspec")
    path = archive(tmp_path / "results.zip", ["run/done.json", name])
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    with pytest.raises(DataError, match=r"results\.zip, got"):
        fetch(f"zip://::file://{path}", folder)
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == ["results.zip"]


def test_collecting_a_hostile_archive_fails_with_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    study = load_study("be_more_active", scale="smoke", settings=["axes.seed=1"])
    enrol(study, tmp_path / "study")
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.write(tmp_path / "study" / "study.json", "study.json")
        file.writestr("../planted.txt", "planted")
    said = CliRunner().invoke(app, ["study", "collect", f"zip://::file://{path}"])
    assert said.exit_code == 1
    assert "got '../planted.txt'" in str(said.exception) + said.output
    assert not list(tmp_path.rglob("planted.txt"))


def test_a_valid_address_is_copied_completely(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    path = archive(tmp_path / "results.zip", ["study.json", "run/done.json"])
    with at_hand(f"zip://::file://{path}") as folder:
        assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*.json")) == [
            "run/done.json",
            "study.json",
        ]


def test_archives_with_such_names_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "model.zip", ["model/specs.json", "../model.pt"])
    with pytest.raises(DataError, match=r"got '\.\./model\.pt'"):
        _ = Folder(path).files
    pictures = archive(tmp_path / "faces.zip", ["../000001.jpg"])
    with pytest.raises(DataError, match="inside the folder"):
        list(zip_members(pictures, ".jpg"))
    with tarfile.open(tmp_path / "cars.tar", "w") as file:
        file.addfile(tarfile.TarInfo("../cars/car_1.mat"), io.BytesIO())
    with pytest.raises(DataError, match="inside the folder"):
        list(tar_members(tmp_path / "cars.tar", ".mat"))


def test_a_table_of_results_cannot_point_outside_its_study(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "report.html").write_text("secret")
    (tmp_path / "study").mkdir()
    row = {"run": "../elsewhere", "seed": 0, "method": "VAE", "strength": 1.0, "dataset": "dsprites"}
    row |= {"representation": "mean", "variables": "full", "metric": "sap", "value": 0.5}
    polars.DataFrame([row]).write_parquet(tmp_path / "study" / "results.parquet")
    with pytest.raises(DataError, match=r"results\.parquet, got '\.\./elsewhere'"):
        write([tmp_path / "study"], tmp_path / "page.html")


def test_the_name_in_a_study_file_cannot_choose_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"name": "../../planted", "base": {"training": {"steps": 1}}, "axes": {"seed": 1}}
    (tmp_path / "mine.yaml").write_text(json.dumps(config))
    monkeypatch.setattr("polarised.study.runner.conduct", lambda *_, **__: iter(()))
    said = CliRunner().invoke(app, ["study", "run", str(tmp_path / "mine.yaml"), "--quiet"])
    assert said.exit_code == 1
    assert "got '../../planted'" in str(said.exception) + said.output


def test_an_address_that_would_fill_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run/done.json", bytes(3 << 20))
    address = f"zip://::{tmp_path / 'bomb.zip'}"
    with at_hand(address, only=("done.json",)) as folder:
        assert (folder / "run" / "done.json").stat().st_size == 3 << 20
    monkeypatch.setattr("polarised.study.storage.LARGEST_COPY", 1 << 21)
    with pytest.raises(DataError, match=r"done.json has 3"), at_hand(address, only=("done.json",)):
        pass
    monkeypatch.setattr("polarised.study.storage.LARGEST_COPY", 1 << 32)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=4 << 20))
    with pytest.raises(DataError, match="of 2 MiB together"), at_hand(address, only=("done.json",)):
        pass


def test_a_file_in_an_archive_is_read_by_its_address(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    np.savez(tmp_path / "codes.npz", mean=np.eye(4), variance=np.full((4, 4), 0.1))
    with zipfile.ZipFile(tmp_path / "codes.zip", "w") as archive:
        archive.write(tmp_path / "codes.npz", "deep/codes.npz")
    (found,) = files_at(f"zip://deep/*.npz::{tmp_path / 'codes.zip'}", endings=(".npz",))
    with brought(found) as copy:
        assert copy.read_bytes() == (tmp_path / "codes.npz").read_bytes()


def spoil(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    listed = data.rfind(b"PK\x01\x02")
    if how == "bytes":
        data[60:80] = b"\xff" * 20
    elif how == "method":
        data[8], data[listed + 10] = 99, 99
    elif how == "password":
        data[6] |= 1
        data[listed + 8] |= 1
    else:
        data[listed:] = b"nothing"
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["bytes", "method", "password", "list"])
def test_a_damaged_archive_at_an_address_is_refused_with_one_sentence(tmp_path: Path, how: str) -> None:
    pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "study.zip", "w") as archive:
        archive.writestr("study.json", bytes(range(256)))
    spoil(tmp_path / "study.zip", how)
    for command in (["study", "status", "zip://::{}"], ["diagnose", "zip://study.json::{}"]):
        said = CliRunner().invoke(app, [part.format(tmp_path / "study.zip") for part in command])
        assert said.exit_code in (1, 2), said.output
        assert said.stderr.count("error: ") == 1
        assert "could not" in said.stderr or "fsspec can open" in said.stderr, said.stderr


def test_the_bytes_of_a_store_without_sizes_are_counted_while_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/silent/run/done.json", bytes(3 << 20))
    try:
        found = {path: {**about, "size": None} for path, about in memory.find("/silent", detail=True).items()}
        monkeypatch.setattr(type(memory), "find", lambda *_, **__: found)
        with at_hand("memory://silent") as folder:
            assert (folder / "run" / "done.json").stat().st_size == 3 << 20
        monkeypatch.setattr("polarised.study.storage.LARGEST_COPY", 1 << 20)
        monkeypatch.setattr(type(memory), "blocksize", 1 << 16)
        with pytest.raises(DataError, match="at most 1 MiB at memory://silent"), at_hand("memory://silent"):
            pass
    finally:
        memory.rm("/silent", recursive=True)


def test_a_file_at_an_address_takes_at_most_half_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("codes.npz", bytes(3 << 20))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2 << 20))
    with pytest.raises(DataError, match="at most 1 MiB"), brought(f"zip://codes.npz::{tmp_path / 'bomb.zip'}"):
        pass
