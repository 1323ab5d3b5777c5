"""Intermediate files are in a private folder of the user; files of other users are never mistaken for ours."""

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from polarised._io.files import private_folder
from polarised.errors import DataError
from polarised.study.grid import load_study
from polarised.study.runner import conduct
from study.workshop import study_config, write_study

HERE = "study.test_runner:here"

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no owners and links of this kind")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder that all users of a machine share."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def own(shared: Path) -> Path:
    return shared / f"polarised-{os.getuid()}"


def test_a_private_folder_is_closed_to_others_and_reused(shared: Path) -> None:
    before = os.umask(0)
    try:
        made = private_folder("work")
    finally:
        os.umask(before)
    assert made == own(shared) / "work"
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (made, made.parent)] == [0o700, 0o700]
    (made / "kept").touch()
    assert (private_folder("work") / "kept").exists()


def link(place: Path) -> None:
    (place.parent / "theirs").mkdir(mode=0o700)
    place.symlink_to(place.parent / "theirs")


def open_to_all(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize(
    ("planted", "says"), [(link, "is a link"), (Path.touch, "is a link or another"), (open_to_all, "it has 777")]
)
def test_a_planted_folder_or_link_is_refused(
    shared: Path, planted: Callable[[Path], None], says: str, below: bool
) -> None:
    if below:
        own(shared).mkdir(mode=0o700)
    planted(own(shared) / "work" if below else own(shared))
    with pytest.raises(DataError, match=says) as caught:
        private_folder("work")
    assert "TMPDIR" in str(caught.value)


def test_the_folder_of_another_user_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_folder("work")
    someone = os.getuid() + 1
    own(shared).rename(shared / f"polarised-{someone}")
    monkeypatch.setattr("os.getuid", lambda: someone)
    with pytest.raises(DataError, match="belongs to another user"):
        private_folder("work")


def test_planted_files_are_not_uploaded_with_a_run(tmp_path: Path, shared: Path) -> None:
    """An attacker who guesses the folder of an address cannot replace the model of a run."""
    pytest.importorskip("fsspec")
    study = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=3)))
    address = f"file://{tmp_path}/bucket"
    digest = hashlib.sha256(address.encode()).hexdigest()[:12]
    for guess in (shared / f"polarised-{digest}", own(shared) / digest):
        planted = guess / study.runs[0].name
        planted.mkdir(parents=True)
        (planted / "planted.txt").write_text("theirs")
    own(shared).chmod(0o777)
    last = list(conduct(study, address, executor=HERE))[-1]
    assert last.failed == 1
    assert not list((tmp_path / "bucket").rglob("planted.txt"))
    # In a clean folder the same run is executed, and only its own files are uploaded.
    shutil.rmtree(own(shared))
    last = list(conduct(study, address, executor=HERE, retry=True))[-1]
    assert last.done == 1
    assert not list((tmp_path / "bucket").rglob("planted.txt"))
