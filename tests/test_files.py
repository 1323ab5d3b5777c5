import pytest

from polarised.files import replacing


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path):
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
