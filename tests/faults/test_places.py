"""Places where writing fails: a full disk, a read-only mount, another user's folder; and two writers of one file."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from polarised._io.files import replacing

TESTS = Path(__file__).parents[1]


def tried(kind: str, home: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    # A folder of pytest is closed to other users.
    for folder in (home, *home.parents):
        if folder.stat().st_uid == os.getuid() and folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "POLARISED_DATA": str(home / "data"), "COLUMNS": "200"}
    command = [sys.executable, "-m", "faults.hardship", kind, str(home)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    *told, last = map(json.loads, ended.stdout.splitlines())
    return told, last


def check(told: list[dict[str, Any]], last: dict[str, Any], words: str, *, named: bool = True) -> None:
    assert sum(one["looks"] for one in told) == 6
    for one in told:
        assert not one["unforeseen"], one
        if one["looks"]:
            assert (one["code"], one["said"]) == (0, ""), one
            continue
        errors = [line for line in one["said"].splitlines() if line.startswith("error: ")]
        assert one["code"] == 1, one
        assert len(errors) == 1, one
        assert words in errors[0], one
        assert ".tmp" not in errors[0], one
        assert not named or any(part in errors[0] for part in ("/out", "/study", "/data")), one
    # Existing files are unchanged, and no partial file is left.
    assert last["changed"] == []
    assert [name for name in last["new"] if ".tmp" in name] == []


def test_a_full_disk_is_one_sentence_and_spoils_nothing(tmp_path: Path) -> None:
    told, last = tried("full", tmp_path)
    check(told, last, "is full")


@pytest.mark.skipif(os.getuid() != 0, reason="mounts and other users need root")
@pytest.mark.slow
def test_a_study_on_a_read_only_mount_can_be_read(tmp_path: Path) -> None:
    if subprocess.run(["mount", "--bind", str(tmp_path), str(tmp_path)], capture_output=True, check=False).returncode:
        pytest.skip("this container may not mount")
    subprocess.run(["umount", str(tmp_path)], check=True)
    told, last = tried("readonly", tmp_path)
    check(told, last, "read-only")


@pytest.mark.skipif(os.getuid() != 0, reason="mounts and other users need root")
@pytest.mark.slow
def test_the_folder_of_another_user_can_be_read(tmp_path: Path) -> None:
    told, last = tried("stranger", tmp_path)
    check(told, last, "Permission denied")


def test_two_writers_of_one_file_leave_a_whole_one(tmp_path: Path) -> None:
    target, seen, ended = tmp_path / "page.html", set[bytes](), threading.Event()

    def write(letter: str) -> None:
        for _ in range(60):
            with replacing(target) as temporary:
                temporary.write_text(letter * 50_000)

    def watch() -> None:
        while not ended.is_set():
            if target.exists():
                seen.add(target.read_bytes())

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "ab"]
    watcher = threading.Thread(target=watch)
    for thread in (watcher, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    watcher.join()
    assert seen <= {b"a" * 50_000, b"b" * 50_000}
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("words", ["I/O error: No space left on device (os error 28)", "x (os error 30)"])
def test_a_system_error_reported_by_a_library_is_an_os_error(tmp_path: Path, words: str) -> None:
    with pytest.raises(OSError, match=r"device|Read-only") as refused, replacing(tmp_path / "a.parquet"):
        raise RuntimeError(words)
    assert refused.value.filename == str(tmp_path / "a.parquet")
    with pytest.raises(RuntimeError, match="of its own"), replacing(tmp_path / "a.parquet"):
        raise RuntimeError("a fault of its own")
