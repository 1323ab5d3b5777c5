"""Real Ray on several nodes: bare, skewed, lost and too small ones, and drivers that are asked to end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from polarised.study.grid import load_study
from polarised.study.stages import checkpoint_step, execute, read_done
from study.raylets import LOOPBACK, SOURCE, TESTS, Raylets, listening, raylets
from study.workshop import finish, notes, start, study_config, until, write_study

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


def weights(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(root.glob("*/model.safetensors"))}


def alone(file: Path, root: Path) -> dict[str, bytes]:
    """Return the weights of the same runs done one after the other in this process."""
    for run in load_study(file).runs:
        execute(run, root)
    return weights(root)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Raylets]:
    """A cluster of one good node of one processor."""
    with raylets() as found:
        found.add(head=True)
        yield found


def on(cluster: Raylets, file: Path, root: Path, *more: str, **settings: str) -> "subprocess.Popen[bytes]":
    options = ("--executor", "ray", "--address", cluster.address, *more)
    return start(file, root, *options, **{**cluster.environment, "MARK": "", **settings})


def test_nodes_that_cannot_do_the_runs_get_none_and_are_named(tmp_path: Path, cluster: Raylets) -> None:
    bare, skewed = tmp_path / "bare", tmp_path / "skewed"
    (bare / "polarised").mkdir(parents=True)
    (bare / "polarised" / "__init__.py").write_text(
        'raise ModuleNotFoundError("No module named \'polarised\'", name="polarised")\n'
    )
    shutil.copytree(SOURCE / "polarised", skewed / "polarised")
    terms = skewed / "polarised" / "objectives" / "terms.py"
    terms.write_text(terms.read_text() + "\n# another day's work\n")
    added = [cluster.add(path=[bare, TESTS]), cluster.add(path=[skewed, TESTS])]
    try:
        log, root = tmp_path / "notes", tmp_path / "runs"
        file = write_study(tmp_path / "tiny.yaml", study_config(runs=4, steps=12, notes=str(log)))
        said = finish(on(cluster, file, root), file)
    finally:
        for node in added:
            node.kill()
    words = " ".join(said.split())
    assert "gets no runs: it cannot load polarised: ModuleNotFoundError: No module named 'polarised'" in words
    assert "gets no runs: its code is" in words
    assert "4 of 4 runs done, 0 failed" in words
    assert not list(root.glob("*/failed.txt"))
    assert Counter(notes(log)) == Counter((tag, step) for tag in range(4) for step in range(12))
    assert len({done.code for path in root.glob("*/done.json") if (done := read_done(path.parent))}) == 1
    assert weights(root) == alone(file, tmp_path / "alone")


def test_a_node_lost_at_work_costs_only_steps_since_a_checkpoint(tmp_path: Path, cluster: Raylets) -> None:
    log, root = tmp_path / "notes", tmp_path / "runs"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=4, steps=40, notes=str(log), sleep=0.1))
    node = cluster.add()
    process = on(cluster, file, root)

    def its_runs() -> set[int]:
        own = node.processes()
        lines = log.read_text().splitlines() if log.exists() else []
        return {int(line.split()[0]) for line in lines if int(line.split()[2]) in own and int(line.split()[1]) > 12}

    try:
        until(its_runs, seconds=300)
    finally:
        node.kill()
    said = finish(process, file)
    assert "4 of 4 runs done, 0 failed" in said
    assert "was lost; attempt 2 of 3 goes on" in " ".join(said.split())
    assert ", attempt 2" in said
    assert not list(root.glob("*/failed.txt"))
    taken = Counter(notes(log))
    assert set(taken) == {(tag, step) for tag in range(4) for step in range(40)}
    # Checkpoints are five steps apart: that much was done again, and of one run only.
    again = [key for key, count in taken.items() if count > 1]
    assert len(again) <= 6
    assert len({tag for tag, _ in again}) <= 1
    assert weights(root) == alone(file, tmp_path / "alone")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--cpus", "8"), "expected a node with 8 processors and 0 GPUs, the largest of 1 has 1 and 0"),
        (("--gpus", "1", "training.device=cuda"), "expected a node with 1 processors and 1 GPUs"),
        (("--gpus", "1"), "set training.device to cuda"),
        (("--memory", "5000"), "5000 GB of memory"),
    ],
)
def test_what_no_node_can_do_is_said_at_once(
    tmp_path: Path, cluster: Raylets, asked: tuple[str, ...], words: str
) -> None:
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=2, steps=4))
    said = finish(on(cluster, file, tmp_path / "runs", *asked), file, code=2)
    assert words in " ".join(said.split())
    assert "Traceback" not in said
    assert not list((tmp_path / "runs").glob("*/failed.txt"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_driver_that_is_asked_to_end_saves_and_leaves_quietly(
    tmp_path: Path, cluster: Raylets, number: int, code: int
) -> None:
    log, root = tmp_path / "notes", tmp_path / "runs"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=2000, notes=str(log), sleep=0.05))
    process = on(cluster, file, root)
    until(lambda: log.exists() and any(step > 12 for _, step in notes(log)), seconds=300)
    before = len(notes(log))
    process.send_signal(number)
    said = finish(process, file, code=code)
    # Two seconds are forty steps of a twentieth of a second.
    assert len(notes(log)) - before <= 40
    (directory,) = (path for path in root.iterdir() if path.is_dir())
    assert checkpoint_step(directory) == max(step for _, step in notes(log)) + 1
    assert not (directory / "failed.txt").exists()
    for noise in ("Traceback", "***", "PC: @", "std::", "SystemExit"):
        assert noise not in said


def test_memory_that_runs_out_is_named_counted_and_kept_apart(tmp_path: Path) -> None:
    from ray._common.utils import get_system_memory
    from ray._private.utils import get_used_memory

    threshold = (get_used_memory() + (2 << 30)) / get_system_memory()
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=8, grow_at=3))
    with raylets() as small:
        small.add(head=True, RAY_memory_usage_threshold=f"{threshold:.4f}", RAY_memory_monitor_refresh_ms="100")
        said = finish(on(small, file, tmp_path / "runs", "--attempts", "2"), file, code=1)
    words = " ".join(said.split())
    assert "0 of 1 run done, 1 failed" in words
    assert "it ran over the memory of its node and was killed by Ray; attempt 2 of 2 goes on" in words
    failed = load_study(file).runs[0].name
    kept = (tmp_path / "runs" / failed / "failed.txt").read_text()
    assert kept.startswith("TrainingError: it ran over the memory of its node and was killed by Ray, 2 times")
    # An attempt may be killed before it says a word; the one that was not is kept.
    assert "begun at step 0 of 8 by process" in kept
    assert len(said) < 4000


def test_a_runtime_environment_reaches_the_workers(tmp_path: Path, cluster: Raylets) -> None:
    (tmp_path / "there").mkdir()
    shutil.copytree(TESTS / "study", tmp_path / "there" / "elsewhere")
    config = study_config(runs=1, steps=4)
    config["base"]["objective"]["name"] = "elsewhere.workshop:Watched"
    file = write_study(tmp_path / "tiny.yaml", config)
    environment = tmp_path / "environment.yaml"
    # Only with these variables does a worker find the objective.
    places = os.pathsep.join(map(str, (SOURCE, TESTS, tmp_path / "there")))
    environment.write_text(f"env_vars: {{PYTHONPATH: '{places}'}}\n")
    process = on(cluster, file, tmp_path / "runs", "--runtime-env", str(environment), PYTHONPATH=places)
    said = finish(process, file)
    assert "1 of 1 run done, 0 failed" in " ".join(said.split())
    assert "runtime_env" not in (tmp_path / "runs" / "study.json").read_text()


def test_clusters_listen_on_loopback_alone(tmp_path: Path, cluster: Raylets) -> None:
    assert listening(cluster.processes())
    assert listening(cluster.processes()) <= LOOPBACK
    # One that the library starts itself, too: whoever reached it could run anything.
    code = (
        "from polarised.cluster import ray_cluster\n"
        "import time\n"
        "with ray_cluster() as ray:\n"
        "    ray.get(ray.remote(lambda: 1).remote())\n"
        "    print('up', flush=True)\n"
        "    time.sleep(60)\n"
    )
    mark = cluster.mark[::-1]
    environment = {**os.environ, "MARK": mark, "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, cwd=tmp_path)
    own = Raylets(tmp_path)
    own.mark = mark
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert listening(own.processes())
        assert listening(own.processes()) <= LOOPBACK
    finally:
        process.terminate()
        process.wait(timeout=60)
        if process.stdout is not None:
            process.stdout.close()
        time.sleep(1)
        for pid in own.processes():
            os.kill(pid, signal.SIGKILL)
