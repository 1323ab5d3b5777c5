import os
import stat

import pytest

from polarised._io.files import replacing


def test_a_failed_write_keeps_the_old_file_and_no_temporary_one(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_half():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_half()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_the_new_file_appears_only_at_the_end(tmp_path):
    path = tmp_path / "a.npz"
    with replacing(path) as temporary:
        temporary.write_bytes(b"whole")
        assert not path.exists()
        assert temporary.suffix == ".npz"
    assert path.read_bytes() == b"whole"


def test_written_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    with replacing(tmp_path / "model.safetensors") as temporary:
        os.close(os.open(temporary.with_name("private"), os.O_CREAT, 0o600))
        temporary.with_name("private").replace(temporary)
    usual, written = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "model.safetensors"))
    assert written == usual


def test_an_error_names_the_given_path(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "absent" / "a.txt", tmp_path / "folder" / "a.txt" / "b.txt"):
        (tmp_path / "folder" / "a.txt").touch()
        with pytest.raises(OSError, match="directory") as refused, replacing(path) as temporary:
            temporary.write_text("whole")
        assert refused.value.filename == str(path)
