"""A run has one owner at a time: many processes compete for it, some are killed, some are suspended beyond their lease.

Every process writes down when it had the run, by the one clock of this machine; two at the same moment are a failure.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from polarised.study import leases

CONTENDER = Path(__file__).with_name("contender.py")
# To disable locks of one machine, every process claims to be on another machine.
PLACES = {
    "a folder": ("{}", {}),
    "an address": ("file://{}", {}),
    "a store that overwrites": ("file://{}", {"creates_exclusively": False, "SETTLING": 0.3}),
}


class Hold(NamedTuple):
    """An interval in which a process believed to be the owner: until it left, or was last checked."""

    begun: float
    ended: float
    process: int


def holds(log: Path, *, certain: bool) -> list[Hold]:
    """Return who had the run when; `certain` is only from where its owner first looked and was the owner to the last.

    Whoever is put to sleep between taking the run and writing that down writes it down when it is another's.
    """
    ends: dict[tuple[int, int], list[float]] = {}
    for line in log.read_text().splitlines():
        process, turn, kind, moment = line.split()
        if kind == "owner" or not certain:
            ends.setdefault((int(process), int(turn)), []).append(float(moment))
    return sorted(Hold(min(moments), max(moments), process) for (process, _), moments in ends.items())


def overlaps(found: list[Hold]) -> list[tuple[Hold, Hold]]:
    """Return the pairs of owners at one moment; of sorted stretches it is enough to look at the latest end so far."""
    pairs, latest = [], found[0]
    for hold in found[1:]:
        if hold.begun < latest.ended:
            pairs.append((latest, hold))
        latest = max(latest, hold, key=lambda each: each.ended)
    return pairs


def contend(place: str, log: Path, seed: int, **settings: Any) -> "subprocess.Popen[bytes]":
    asked = json.dumps({"_machine": f"machine {seed}", **settings})
    return subprocess.Popen([sys.executable, str(CONTENDER), place, str(log), str(seed), asked])


def ended(processes: "list[subprocess.Popen[bytes]]") -> list[int]:
    try:
        return [process.wait(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_an_overlap_would_be_detected(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("1 1 begun 0.0\n1 1 owner 2.0\n2 1 begun 3.0\n1 1 left 4.0\n2 1 left 5.0\n1 2 begun 5.0\n")
    assert len(overlaps(holds(log, certain=False))) == 1
    assert overlaps(holds(log, certain=True)) == []
    log.write_text("1 1 owner 0.0\n2 1 begun 0.5\n2 1 owner 1.0\n2 1 left 1.5\n3 1 owner 2.0\n1 1 owner 3.0\n")
    assert [(a.process, b.process) for a, b in overlaps(holds(log, certain=True))] == [(1, 2), (1, 3)]


def fight(tmp_path: Path, place: str, *, seconds: float, processes: int, seed: int, turns: int, **more: Any) -> None:
    """Let processes that are neither killed nor stopped compete for one run; no two may own it at once.

    They go on, however slow the machine is, until there were so many turns and not all of one process.
    """
    log = tmp_path / "log"
    settings = {"seconds": seconds, "turns": turns, "hold": 0.03, "HEARTBEAT": 0.05, "WINDOW": 3600.0, **more}
    everybody = [contend(place, log, seed * 100 + number, **settings) for number in range(processes)]
    assert ended(everybody) == [0] * processes
    found = holds(log, certain=False)
    assert overlaps(found) == []
    assert len(found) >= turns
    assert len({hold.process for hold in found}) >= 2


@pytest.mark.parametrize("name", PLACES)
def test_nobody_has_a_run_beside_another(tmp_path: Path, name: str) -> None:
    form, more = PLACES[name]
    fight(tmp_path, form.format(tmp_path / "store"), seconds=4.0, processes=3, seed=0, turns=3, **more)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("seed", range(1, 4))
def test_nobody_has_a_run_beside_another_for_long(tmp_path: Path, name: str, seed: int) -> None:
    form, more = PLACES[name]
    fight(tmp_path, form.format(tmp_path / "store"), seconds=25.0, processes=8, seed=seed, turns=20, **more)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_or_suspended_owner_has_one_successor(tmp_path: Path, name: str, seed: int) -> None:
    form, more = PLACES[name]
    place, log = form.format(tmp_path / "store"), tmp_path / "log"
    chance = random.Random(seed)
    # Leases expire within a second, so that there are many to take over, several at once.
    settings = {"seconds": 40.0, "hold": 0.5, "HEARTBEAT": 0.1, "WINDOW": 0.6, "WATCH": 0.5, **more}
    everybody = [contend(place, log, seed * 100 + number, **settings) for number in range(6)]
    began, asleep, killed, slept = time.monotonic(), dict[int, float](), 0, 0
    try:
        while any(each.poll() is None for each in everybody):
            time.sleep(chance.uniform(0.1, 0.6))
            now = time.monotonic()
            for process in [pid for pid, until in asleep.items() if until < now]:
                os.kill(process, signal.SIGCONT)
                del asleep[process]
            living = [each for each in everybody if each.poll() is None and each.pid not in asleep]
            if now - began > 36 or len(living) < 3:
                continue
            victim = chance.choice(living)
            if killed < 8 and chance.random() < 0.3:
                victim.kill()
                killed += 1
                everybody.append(contend(place, log, seed * 100 + len(everybody), **{**settings, "seconds": 20.0}))
            else:
                victim.send_signal(signal.SIGSTOP)
                asleep[victim.pid] = now + chance.uniform(0.5, 4.0)
                slept += 1
    finally:
        for each in everybody:
            with suppress(ProcessLookupError):
                each.send_signal(signal.SIGCONT)
            each.kill()
            each.wait()
    found = holds(log, certain=True)
    assert overlaps(found) == []
    assert killed >= 3
    assert slept >= 10
    assert len(found) >= 10


def test_only_one_of_two_processes_takes_over_from_a_dead_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen the same last term; actions of one in between must not help the other."""
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(leases, "WATCH", 0.05)
    monkeypatch.setattr(leases, "_machine", lambda: "here")
    dead = leases._take(tmp_path, "run", leases._own(0))
    assert dead is not None
    old = leases.replace(leases.read_lease(tmp_path, "run"), heartbeat=0.0, machine="gone", host="gone")
    (tmp_path / "run" / leases.LEASE).write_text(json.dumps(leases.asdict(old)))
    whole = leases._create
    second: list[Any] = []

    def create(root: Any, name: str, mine: leases.Lease) -> str | None:
        # Another process finishes while this one is just before its last step.
        if not second:
            second.append(None)
            second[0] = leases._take(root, name, leases._own(0))
        return whole(root, name, mine)

    monkeypatch.setattr(leases, "_create", create)
    with pytest.raises(leases.BusyError):
        leases._take(tmp_path, "run", leases._own(0))
    second[0].check()
    with pytest.raises(leases.BusyError):
        dead.check()


@pytest.mark.parametrize("ends", ["leave", "forget"])
def test_a_process_suspended_before_taking_a_term_does_not_get_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """The term it wants was taken, released and deleted while it was suspended."""
    (tmp_path / "run").mkdir()
    whole, slept = leases._create, []

    def create(root: Any, name: str, mine: leases.Lease) -> str | None:
        if not slept:
            slept.append(mine.term)
            for _ in range(3):
                leases._take(root, name, leases._own(0)).leave()
            slept.append(leases._take(root, name, leases._own(0)))
        return whole(root, name, mine)

    monkeypatch.setattr(leases, "_create", create)
    with pytest.raises(leases.BusyError):
        leases._take(tmp_path, "run", leases._own(0))
    tenure = slept[1]
    tenure.check()
    getattr(tenure, ends)()
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == (set() if ends == "forget" else {".term-4", ".free-4"})


def test_a_lease_that_is_no_json_is_watched_before_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a partial write of a live owner."""
    monkeypatch.setattr(leases, "WATCH", 0.3)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / leases.LEASE).write_text("")
    began = time.monotonic()
    with leases.leased(tmp_path, "run", step=lambda: 0):
        assert time.monotonic() - began >= 0.3
