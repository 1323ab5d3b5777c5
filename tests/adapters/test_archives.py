import os
import zipfile

import numpy as np
import pytest

from polarised._io.files import Folder
from polarised.errors import DataError


def archive_of(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_zip_with_false_member_sizes_is_refused(tmp_path):
    path = archive_of(tmp_path / "1.zip", **{"model.pt": b"x" * 100})
    data = bytearray(path.read_bytes())
    place = data.find(b"model.pt") + len("model.pt")
    data[place : place + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(bytes(data))
    with pytest.raises(DataError):
        Folder(path).read("model.pt")


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9])
def test_a_zip_whose_middle_is_missing_is_refused(tmp_path, cut):
    path = archive_of(tmp_path / "1.zip", **{f"{i}/model.pt": np.random.default_rng(i).bytes(300) for i in range(5)})
    data = path.read_bytes()
    path.write_bytes(data[: int(cut * len(data)) - 50] + data[int(cut * len(data)) :])
    with pytest.raises(DataError):
        _ = [Folder(path).read(name) for name in Folder(path).files]


def test_a_zip_that_is_cut_off_is_not_another_kind_of_file(tmp_path):
    path = archive_of(tmp_path / "1.zip", **{"model.pt": b"x" * 1000})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"a whole zip archive, but .*1\.zip has no end; get it again"):
        Folder(path)


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("polarised._io.files.MOST_MEMBERS", 3)
    path = archive_of(tmp_path / "1.zip", **{f"{i}.txt": "x" for i in range(5)})
    with pytest.raises(DataError, match="at most 3 files"):
        Folder(path).ending("model.pt")


def test_a_folder_reads_only_its_own_files(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "secret").write_text("x")
    with pytest.raises(DataError, match="is missing"):
        Folder(tmp_path / "folder").read("../secret")
    (tmp_path / "folder" / "no.zip").write_text("not a zip")
    with pytest.raises(DataError, match="another kind"):
        Folder(tmp_path / "folder" / "no.zip")


def test_links_are_not_followed_out_of_a_folder(tmp_path):
    """A folder that links to itself or to the whole disk is listed once, and links in a zip are plain files."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "model.pt").write_bytes(b"secret")
    (folder / "again").symlink_to(folder)
    (folder / "outside").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "gone").symlink_to(tmp_path / "gone")
    (folder / "device").symlink_to("/dev/zero")
    (folder / "specs.json").write_text("{}")
    assert Folder(folder).files == ("specs.json",)
    link = zipfile.ZipInfo("model.pt")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "1.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    assert Folder(tmp_path / "1.zip").read("model.pt") == b"/etc/passwd"


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="another kind"):
        Folder(tmp_path / "pipe")
    assert Folder(tmp_path).files == ()


def test_an_encrypted_zip_is_refused(tmp_path):
    path = archive_of(tmp_path / "1.zip", **{"model.pt": b"x" * 100})
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.find(mark) + place] |= 1
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"encrypted|password"):
        Folder(path).read("model.pt")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "folder/../../secret", "C:\\secret"])
def test_a_zip_with_names_outside_its_folder_is_refused(tmp_path, name):
    (tmp_path / "secret").write_text("mine")
    archive_of(tmp_path / "1.zip", **{name: b"theirs"})
    with pytest.raises(DataError, match="names of files inside the folder"):
        _ = Folder(tmp_path / "1.zip").files
    assert (tmp_path / "secret").read_text() == "mine"


def test_a_missing_file_is_named_and_a_small_one_may_not_be_large(tmp_path):
    (tmp_path / "specs.json").write_bytes(bytes(2 << 20))
    with pytest.raises(DataError, match=r"expected model\.pt in .*folder \(or zip\) of one model"):
        Folder(tmp_path).expect("model.pt", "weights.pt")
    assert Folder(tmp_path).expect("model.pt", "specs.json") == "specs.json"
    with pytest.raises(DataError, match="at most 1 MiB"):
        Folder(tmp_path).read("specs.json", largest=1 << 20)
