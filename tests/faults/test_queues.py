"""Jobs of a queue: shares of a study, signals, lost owners: nothing is lost or done twice."""

import errno
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest
import yaml
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from polarised.cli import app
from polarised.errors import ConfigError
from polarised.study import leases
from polarised.study.grid import load_study
from polarised.study.leases import LEASE, BusyError, Lease, leased, locked, read_lease
from polarised.study.results import results_of
from polarised.study.runner import Shard, enrol, read_study, run_states
from polarised.study.stages import checkpoint_step, execute, is_done
from polarised.study.worker import work_at
from polarised.study.workflow import slurm_script
from study.workshop import notes, pondered, start, study_config, until, workers_of, write_study


def weights(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(root.glob("*/model.safetensors"))}


def made(tmp_path: Path, **settings: Any) -> Path:
    return write_study(tmp_path / "tiny.yaml", study_config(notes=str(tmp_path / "notes.txt"), **settings))


def test_shares_contain_every_run_once() -> None:
    runs = list(range(23))
    shares = [Shard(number, 5).of(runs) for number in range(1, 6)]
    assert sorted(run for share in shares for run in share) == runs
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("text", ["", "3", "0/3", "4/3", "a/b", "1/", "-1/2", "1/2/3", "1/" + "9" * 20])
def test_an_invalid_share_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a share"):
        Shard.parse(text)


def test_two_jobs_with_one_killed_give_the_same_study_as_one_job(tmp_path: Path) -> None:
    file = made(tmp_path, runs=4, steps=30, sleep=0.05)
    jobs = [start(file, tmp_path / "study", "--shard", f"{i}/2", "--jobs", "1") for i in (1, 2)]
    until(lambda: (tmp_path / "notes.txt").exists() and any(step > 12 for _, step in notes(tmp_path / "notes.txt")))
    jobs[0].kill()
    jobs[0].wait()
    again = start(file, tmp_path / "study", "--shard", "1/2", "--jobs", "1")
    said = (tmp_path / "said.txt").read_text
    assert [jobs[1].wait(timeout=300), again.wait(timeout=300)] == [0, 0], said()
    assert all(is_done(run, tmp_path / "study") for run in load_study(file).runs), said()
    assert not list((tmp_path / "study").glob(f"*/{LEASE}"))
    # Every step of every run was done; only those since the last checkpoint of the killed job were done twice.
    taken = notes(tmp_path / "notes.txt")
    assert {tag for tag, _ in taken} == {0, 1, 2, 3}
    assert len(taken) - 4 * 30 <= 2 * 30
    for run in load_study(file).runs:
        execute(run, tmp_path / "calm")
    assert weights(tmp_path / "study") == weights(tmp_path / "calm")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 138)])
def test_a_job_that_gets_a_signal_saves_and_exits_with_its_code(tmp_path: Path, number: int, code: int) -> None:
    file = made(tmp_path, runs=1, steps=400, sleep=0.02)
    job = start(file, tmp_path / "study", "--jobs", "1")
    until(lambda: (tmp_path / "notes.txt").exists() and any(step > 20 for _, step in notes(tmp_path / "notes.txt")))
    job.send_signal(number)
    assert job.wait(timeout=60) == code
    (directory,) = (path for path in (tmp_path / "study").iterdir() if path.is_dir())
    last = max(step for _, step in notes(tmp_path / "notes.txt"))
    assert checkpoint_step(directory) == last + 1
    assert not (directory / "failed.txt").exists()
    assert not (directory / LEASE).exists()
    assert "Traceback" not in (tmp_path / "said.txt").read_text()


def children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"PPid:\t{parent}\n" in (entry / "status").read_text():
                found.append(int(entry.name))
    return found


@contextmanager
def in_the_background() -> Iterator[None]:
    """Let this process, and those it starts, ignore Ctrl-C, like background processes of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_only_to_the_driver_stops_it_within_two_seconds(tmp_path: Path, number: int, code: int) -> None:
    """Each of the two runs would take another minute; a terminal also signals the workers, a queue does not."""
    log, root = tmp_path / "notes.txt", tmp_path / "study"
    job = start(made(tmp_path, runs=2, steps=1200, sleep=0.05), root, "--jobs", "2")
    until(lambda: log.exists() and all(any(tag == run and step > 12 for tag, step in notes(log)) for run in (0, 1)))
    before = Counter(tag for tag, _ in notes(log))
    job.send_signal(number)
    assert job.wait(timeout=60) == code, (tmp_path / "said.txt").read_text()
    after = Counter(tag for tag, _ in notes(log))
    # Two seconds are forty steps of a twentieth of a second, however slow the machine is.
    assert all(after[run] - before[run] <= 40 for run in (0, 1)), (before, after)
    saved = sorted(checkpoint_step(path) for path in root.iterdir() if path.is_dir())
    assert saved == sorted(after.values())
    assert not list(root.glob("*/failed.txt"))
    assert "Traceback" not in (tmp_path / "said.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_a_run_is_measured_is_heard_within_two_seconds(tmp_path: Path, number: int, code: int) -> None:
    log, ticks, root = tmp_path / "notes.txt", tmp_path / "ticks.txt", tmp_path / "study"
    job = start(pondered(tmp_path / "tiny.yaml", ticks=ticks, steps=6, notes=log, seconds=120), root, "--jobs", "1")
    until(lambda: ticks.exists() and len(notes(ticks)) > 5)
    before = len(notes(ticks))
    job.send_signal(number)
    said = (tmp_path / "said.txt").read_text
    assert job.wait(timeout=60) == code, said()
    assert len(notes(ticks)) - before <= 40
    assert "stopping; runs in training save a checkpoint first" in said()
    assert "Traceback" not in said()
    assert not list(root.glob("*/failed.txt"))
    # The model was trained once, and only what was not measured is measured now.
    again = pondered(tmp_path / "tiny.yaml", ticks=ticks, steps=6, notes=log, seconds=0)
    assert start(again, root, "--jobs", "1").wait(timeout=300) == 0, said()
    assert notes(log) == [(0, step) for step in range(6)]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGUSR1, 138)])
@pytest.mark.parametrize("pause", [0.0, 1.0])
def test_a_signal_while_workers_start_ends_them_quietly(tmp_path: Path, number: int, code: int, pause: float) -> None:
    """A terminal sends Ctrl-C to workers too, also while they load their libraries."""
    job = start(made(tmp_path, runs=2, steps=1200, sleep=0.05), tmp_path / "study", "--jobs", "2")
    until(lambda: len(workers_of(job.pid)) == 2)
    time.sleep(pause)
    for process in (*children_of(job.pid), job.pid):
        os.kill(process, number)
    said = (tmp_path / "said.txt").read_text
    assert job.wait(timeout=10) == code, said()
    assert said().splitlines()[-2:] == ["warning: stopping; runs in training save a checkpoint first", "stopped"]
    assert "Traceback" not in said()


@pytest.mark.slow
def test_a_signal_to_every_process_of_a_job_counts_once(tmp_path: Path) -> None:
    """SLURM sends it to all processes of a job, including helper processes of Python."""
    log, root = tmp_path / "notes.txt", tmp_path / "study"
    job = start(made(tmp_path, runs=2, steps=1200, sleep=0.05), root, "--jobs", "2")
    until(lambda: log.exists() and all(any(tag == run and step > 12 for tag, step in notes(log)) for run in (0, 1)))
    children = children_of(job.pid)
    assert len(children) == 3
    for process in (*children, job.pid):
        os.kill(process, signal.SIGUSR1)
    assert job.wait(timeout=60) == 138
    said = (tmp_path / "said.txt").read_text()
    assert "Traceback" not in said
    assert "resource_tracker" not in said
    taken = Counter(tag for tag, _ in notes(log))
    assert sorted(checkpoint_step(path) for path in root.iterdir() if path.is_dir()) == sorted(taken.values())
    assert not list(root.glob("*/failed.txt"))


@pytest.mark.slow
def test_in_the_background_of_a_script_only_sigterm_stops_a_study(tmp_path: Path) -> None:
    """A shell lets such a command ignore Ctrl-C, which the terminal sends to every process of the script."""
    log, root = tmp_path / "notes.txt", tmp_path / "study"
    with in_the_background():
        job = start(made(tmp_path, runs=2, steps=1200, sleep=0.05), root, "--jobs", "2")
    until(lambda: log.exists() and all(any(tag == run and step > 12 for tag, step in notes(log)) for run in (0, 1)))
    for process in (*children_of(job.pid), job.pid):
        os.kill(process, signal.SIGINT)
    before = Counter(tag for tag, _ in notes(log))
    until(lambda: all(Counter(tag for tag, _ in notes(log))[run] > before[run] + 10 for run in (0, 1)))
    assert job.poll() is None
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=60) == 143, (tmp_path / "said.txt").read_text()
    # Workers saved at the first signal and resumed from there: no step was done twice.
    taken = Counter(notes(log))
    assert set(taken.values()) == {1}
    saved = sorted(checkpoint_step(path) for path in root.iterdir() if path.is_dir())
    assert saved == sorted(Counter(tag for tag, _ in taken).values())
    assert not list(root.glob("*/failed.txt"))


def test_the_status_of_a_study_writes_nothing(tmp_path: Path) -> None:
    config = study_config(runs=1, steps=4)
    config["base"]["objective"] = {"name": "BetaVAE"}
    config["axes"] = {"seed": 2}
    study = load_study(write_study(tmp_path / "s.yaml", config))
    root = tmp_path / "study"
    enrol(study, root)
    execute(study.runs[0], root)
    (root / study.runs[1].name).mkdir()
    (root / study.runs[1].name / ".lock").touch()
    opened: list[Any] = []
    watching = True

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and str(root) in str(arguments[0]):
            opened.append((arguments[0], arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)))

    sys.addaudithook(audit)
    states = [state.state for state in run_states(read_study(root).points, root)]
    watching = False
    assert states == ["done", "waiting"]
    assert opened
    assert not [path for path, writes in opened if writes]


def test_the_owner_of_a_run_is_shown_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "WATCH", 0.05)
    config = study_config(runs=1, steps=4)
    config["base"]["objective"] = {"name": "BetaVAE"}
    config["axes"] = {"seed": 1}
    study = load_study(write_study(tmp_path / "s.yaml", config))
    root = tmp_path / "study"
    enrol(study, root)
    (root / study.runs[0].name).mkdir()
    now = time.time()
    lease = Lease("x", "node7", 1, "0", now - 10, now, 0, 40)
    (root / study.runs[0].name / LEASE).write_text(json.dumps(lease.__dict__))
    (state,) = run_states(study.points, root)
    assert (state.state, state.host, state.step, round(state.pace)) == ("running", "node7", 40, 4)
    words = CliRunner().invoke(app, ["study", "status", str(root)]).stdout
    assert "on node7, 4.0 steps/s" in words
    told = json.loads(CliRunner().invoke(app, ["study", "status", str(root), "--json"]).stdout)
    (at_work,) = told["at_work"]
    assert at_work == {
        "run": study.runs[0].name,
        "step": 40,
        "steps": 4,
        "host": "node7",
        "steps_per_second": pytest.approx(4.0),
    }
    # Its speed is not known before it has said a second time how far it is.
    (root / study.runs[0].name / LEASE).write_text(json.dumps(replace(lease, started=now).__dict__))
    words = CliRunner().invoke(app, ["study", "status", str(root)]).stdout
    assert "on node7" in words
    assert "steps/s" not in words
    # Of another machine whose lock is not seen here, a fresh lease keeps us off, a stale one does not.
    with pytest.raises(BusyError, match="process 1 of node7"):
        execute(study.runs[0], root)
    old = Lease("x", "node7", 1, "0", now - 500, now - 400)
    (root / study.runs[0].name / LEASE).write_text(json.dumps(old.__dict__))
    execute(study.runs[0], root)
    assert is_done(study.runs[0], root)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"owner": 1}', '{"owner": "a", "host": NaN}', "9" * 5000])
def test_an_unreadable_lease_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LEASE).write_text(text)
    assert read_lease(tmp_path, "run") is None


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(ConfigError, match=r"the file system of .* has no locks, .* an address such as s3://"),
        locked(tmp_path),
    ):
        pass


def test_at_an_address_a_run_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setattr(leases, "SETTLING", 0.01)
    address = f"file://{tmp_path / 'store'}"
    with leased(address, "run", step=lambda: 0), pytest.raises(BusyError), leased(address, "run", step=lambda: 0):
        pass
    assert read_lease(address, "run") is None
    owners: list[int] = []
    refused = threading.Semaphore(0)

    def claim(number: int) -> None:
        try:
            with leased(address, "race", step=lambda: 0):
                owners.append(number)
                # Held until all others were refused, however slow the machine is.
                for _ in range(7):
                    refused.acquire(timeout=20)
        except BusyError:
            refused.release()

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(owners) == 1


def test_another_node_resumes_where_one_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    file = made(tmp_path, runs=1, steps=60, sleep=0.02)
    run = load_study(file).runs[0]
    address = f"file://{tmp_path / 'store'}"
    for node in ("one", "two"):
        (tmp_path / node).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "one"))
    threading.Timer(0.0, _interrupt_after, args=(tmp_path / "notes.txt", 20)).start()
    with pytest.raises(KeyboardInterrupt):
        work_at(run, address, "")
    stopped = max(step for _, step in notes(tmp_path / "notes.txt"))
    assert (tmp_path / "store" / run.name / "checkpoint.safetensors").exists()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "two"))
    work_at(run, address, "")
    steps = [step for _, step in notes(tmp_path / "notes.txt")]
    assert steps == list(range(60)), (stopped, steps)
    monkeypatch.setattr(tempfile, "tempdir", None)
    execute(run, tmp_path / "calm")
    assert weights(tmp_path / "store") == weights(tmp_path / "calm")
    left = {path.name for path in (tmp_path / "store" / run.name).iterdir()}
    assert "done.json" in left
    assert not left & {"checkpoint.safetensors", LEASE}


@pytest.mark.parametrize("place", [nullcontext, in_the_background])
def test_a_process_that_lost_its_run_uploads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Callable[[], AbstractContextManager[None]]
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setattr(leases, "HEARTBEAT", 0.1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    log, store = tmp_path / "notes.txt", tmp_path / "store"
    run = load_study(made(tmp_path, runs=1, steps=1000, sleep=0.02)).runs[0]

    def take_over() -> None:
        until(lambda: log.exists() and any(step > 20 for _, step in notes(log)))
        (store / run.name / ".term-2").write_text("another")

    threading.Thread(target=take_over).start()
    with place(), pytest.raises(BusyError):
        work_at(run, f"file://{store}", "")
    assert max(step for _, step in notes(log)) < 900
    left = store / run.name
    assert not (left / "done.json").exists()
    assert not (left / "failed.txt").exists()
    assert (left / ".term-2").read_text() == "another"
    assert not (left / ".free-2").exists()
    # Its uploads are older; in its private folder it saved where it stopped.
    assert checkpoint_step(left) < max(step for _, step in notes(log)) + 1


def _interrupt_after(path: Path, step: int) -> None:
    until(lambda: path.exists() and any(number > step for _, number in notes(path)))
    os.kill(os.getpid(), signal.SIGINT)


def test_the_script_for_slurm_names_the_command_and_its_share(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["study", "script", "be_more_active", "--scale", "smoke", "--shards", "3", "--hours", "1.5"]
    )
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert "#SBATCH --array=1-3" in lines
    assert "#SBATCH --time=01:30:00" in lines
    (command,) = (line for line in lines if line.startswith("srun "))
    assert command.startswith(
        "srun polarised study run be_more_active --scale smoke --out runs/study --jobs 1 --shard "
    )
    hostile = slurm_script(["a; rm -rf ~", "--out", "x y"], jobs=1, name="n")
    assert "'a; rm -rf ~'" in hostile
    with pytest.raises(ConfigError, match="at least one job"):
        slurm_script(["a"], jobs=0, name="n")


@pytest.mark.slow
def test_shares_killed_at_random_give_the_result_of_one_machine(tmp_path: Path) -> None:
    chance, runs, steps = random.Random(0), 6, 30
    file = made(tmp_path, runs=runs, steps=steps, sleep=0.05)
    root, log = tmp_path / "study", tmp_path / "notes.txt"

    def submit(number: int) -> "subprocess.Popen[bytes]":
        return start(file, root, "--shard", f"{number}/3", "--jobs", "1")

    jobs = {number: submit(number) for number in (1, 2, 3)}
    kills = 0
    while kills < 6:
        wanted = (len(notes(log)) if log.exists() else 0) + chance.randint(5, 25)
        # So that every kill hits a working job, however slow the machine is.
        if not any(job.poll() is None for job in jobs.values()):
            break
        until(lambda: _has_taken(log, wanted) or all(job.poll() is not None for job in jobs.values()), seconds=300)  # noqa: B023
        number = chance.choice([number for number, job in jobs.items() if job.poll() is None] or [0])
        if number == 0:
            break
        jobs[number].send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1]))
        jobs[number].wait(timeout=120)
        jobs[number] = submit(number)
        kills += 1
    said = (tmp_path / "said.txt").read_text
    assert [job.wait(timeout=400) for job in jobs.values()] == [0, 0, 0], said()
    assert kills >= 3
    assert not list(root.glob("*/failed.txt")), said()
    assert not list(root.glob(f"*/{LEASE}"))
    study = load_study(file)
    assert all(is_done(run, root) for run in study.runs)
    # Every step of every run was done; only steps since the last checkpoint of a killed job were repeated.
    taken = Counter(notes(log))
    assert set(taken) == {(tag, step) for tag in range(runs) for step in range(steps)}
    assert sum(taken.values()) - runs * steps <= 6 * kills
    for run in study.runs:
        execute(run, tmp_path / "calm")
    assert weights(root) == weights(tmp_path / "calm")
    tables = [results_of(study.points, place).sort(polars.all()) for place in (root, tmp_path / "calm")]
    assert_frame_equal(*tables, check_exact=True)


def _has_taken(log: Path, steps: int) -> bool:
    return log.exists() and len(notes(log)) >= steps


@pytest.fixture
def queue(tmp_path: Path) -> dict[str, str]:
    """Local programs with the commands of a queue: a job is a process, requeued jobs are logged."""
    programs = {
        "srun": 'echo $$ > "$JOB_PID"; while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
        "scontrol": 'echo "$@" >> "$REQUEUED"',
        "polarised": f"exec {shlex.quote(sys.executable)} -c 'from polarised.cli import main; main()' \"$@\"",
    }
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": path,
        "JOB_PID": str(tmp_path / "pid"),
        "REQUEUED": str(tmp_path / "requeued"),
    }


@pytest.mark.slow
def test_the_script_for_slurm_runs_a_study_and_requeues_itself(tmp_path: Path, queue: dict[str, str]) -> None:
    file = made(tmp_path, runs=2, steps=60, sleep=0.05)
    arguments = ["study", "script", str(file), "--slurm", "--shards", "2", "--out", str(tmp_path / "study")]
    text = subprocess.run(
        [tmp_path / "bin" / "polarised", *arguments], env=queue, capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "study.sh").write_text(text)

    def submit(number: int) -> "subprocess.Popen[bytes]":
        array = {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_JOB_ID": "7"}
        return subprocess.Popen(["bash", tmp_path / "study.sh"], env={**queue, **array}, cwd=tmp_path)

    log = tmp_path / "notes.txt"
    job = submit(1)
    until(lambda: log.exists() and any(step > 12 for _, step in notes(log)), seconds=300)
    # As in SLURM two minutes before the end: the signal goes to the step, the script checks its exit code.
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGUSR1)
    assert job.wait(timeout=120) == 138
    assert (tmp_path / "requeued").read_text() == "requeue 7_1\n"
    for number in (1, 2):
        assert submit(number).wait(timeout=300) == 0
    assert Counter(notes(log)) == Counter((tag, step) for tag in range(2) for step in range(60))
    assert all(is_done(run, tmp_path / "study") for run in load_study(file).runs)


@pytest.mark.slow
def test_the_job_for_kubernetes_runs_its_share_and_resumes_elsewhere(tmp_path: Path, queue: dict[str, str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "queues.md").read_text()
    (text,) = (block for block in page.split("```") if block.startswith("yaml\napiVersion"))
    job = yaml.safe_load(text.removeprefix("yaml\n"))
    count = job["spec"]["completions"]
    assert job["spec"]["completionMode"] == "Indexed"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    file = made(tmp_path, runs=2, steps=60, sleep=0.05)
    command = [
        part.replace("be_more_active", shlex.quote(str(file))).replace("/shared/study", str(tmp_path / "study"))
        for part in container["command"]
    ]
    assert f"/{count}" in command[-1]

    def pod(index: int) -> "subprocess.Popen[bytes]":
        here = {**queue, "JOB_COMPLETION_INDEX": str(index)}
        return subprocess.Popen([*command[:-1], command[-1].replace(f"/{count}", "/2")], env=here, cwd=tmp_path)

    log, first = tmp_path / "notes.txt", pod(0)
    until(lambda: log.exists() and any(step > 12 for _, step in notes(log)), seconds=300)
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=120) == 143
    assert [pod(index).wait(timeout=300) for index in (0, 1)] == [0, 0]
    assert Counter(notes(log)) == Counter((tag, step) for tag in range(2) for step in range(60))
