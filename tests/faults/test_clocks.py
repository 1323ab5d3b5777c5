"""Clocks that jump, and machines whose clocks disagree: no run is done twice, and none waits forever."""

import json
import os
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from polarised.study import leases
from polarised.study.grid import load_study
from polarised.study.leases import LEASE, BusyError, Lease, leased, read_lease
from polarised.study.runner import enrol, pace, run_states
from study.workshop import study_config, write_study

AN_HOUR, A_YEAR = 3600.0, 3.2e7


def foreign(heartbeat: float, step: int = 7) -> Lease:
    return Lease("other", "node7", 1, "0", heartbeat - 10, heartbeat, 0, step)


def put(folder: Path, lease: Lease) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LEASE).write_text(json.dumps(asdict(lease)))


@pytest.mark.parametrize("ahead", [-A_YEAR, -AN_HOUR, AN_HOUR, A_YEAR])
def test_a_live_owner_keeps_its_run_whatever_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    monkeypatch.setattr(leases, "WATCH", 5.0)
    put(tmp_path / "run", foreign(time.time() + ahead))
    threading.Timer(0.3, put, (tmp_path / "run", foreign(time.time() + ahead + 10, step=9))).start()
    with pytest.raises(BusyError, match="process 1 of node7"), leased(tmp_path, "run", step=lambda: 0):
        pass


@pytest.mark.parametrize("ahead", [-A_YEAR, -AN_HOUR, AN_HOUR, A_YEAR])
def test_a_dead_owner_loses_its_run_whatever_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    monkeypatch.setattr(leases, "WATCH", 0.1)
    put(tmp_path / "run", foreign(time.time() + ahead))
    with leased(tmp_path, "run", step=lambda: 3):
        mine = read_lease(tmp_path, "run")
        assert mine is not None
        assert mine.owner != "other"
    assert read_lease(tmp_path, "run") is None


@pytest.mark.parametrize("jump", [-A_YEAR, -AN_HOUR, AN_HOUR, A_YEAR])
def test_the_clock_may_jump_while_a_run_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    monkeypatch.setattr(leases, "HEARTBEAT", 0.02)
    (tmp_path / "run").mkdir()
    before, real = time.time(), time.time
    with leased(tmp_path, "run", step=lambda: 11):
        monkeypatch.setattr(time, "time", lambda: real() + jump)
        deadline = time.monotonic() + 30
        while abs((held := read_lease(tmp_path, "run")).heartbeat - before - jump) > 60:
            assert time.monotonic() < deadline, held
            time.sleep(0.01)
        assert held.pace >= 0.0
        assert held.is_fresh()
    assert read_lease(tmp_path, "run") is None


@pytest.mark.parametrize("jump", [-A_YEAR, A_YEAR])
def test_the_status_of_a_study_works_after_a_jump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    config = study_config(runs=1, steps=4)
    config["base"]["objective"] = {"name": "BetaVAE"}
    config["axes"] = {"seed": 2}
    study = load_study(write_study(tmp_path / "s.yaml", config))
    root = tmp_path / "study"
    enrol(study, root)
    now, real = time.time(), time.time
    put(root / study.runs[0].name, foreign(now))
    for path in root.rglob("*"):
        os.utime(path, (now + jump, now + jump))
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    states = [state.state for state in run_states(study.points, root)]
    assert states == ["waiting", "waiting"]


def test_runs_finished_in_the_future_are_ignored_for_the_pace() -> None:
    assert pace([5000.0, 9000.0], 3, now=1000.0) == ""
    assert pace([400.0, 9000.0], 1, now=1000.0) == "1 in the last 10 min: about 10 min left"
