"""Real Ray on several nodes: without the package, with other code, lost or too small; and drivers that get signals."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polarised.study.grid import load_study
from polarised.study.stages import checkpoint_step, execute, read_done
from study.raylets import LOOPBACK, NODE, SOURCE, STORE, TESTS, Node, Raylets, listening, raylets
from study.workshop import finish, notes, pondered, start, study_config, until, write_study

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


def weights(root: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(root.glob("*/model.safetensors"))}


def alone(file: Path, root: Path) -> dict[str, bytes]:
    """Return the weights of the same runs done one after the other in this process."""
    for run in load_study(file).runs:
        execute(run, root)
    return weights(root)


def diagnosed(folder: Path, *more: str, **settings: str) -> tuple[dict[str, Any], str]:
    """Return what the command says of some files of encodings, and its warnings."""
    for number in range(6):
        mean = np.random.default_rng(number).normal(size=(300, 3)) * [1.0, 0.02, 0.7]
        np.savez(folder / f"{number}.npz", mean=mean, variance=np.tile([0.01, 1.0, 0.5], (300, 1)))
    command = [sys.executable, "-c", "from polarised.cli import main; main()", "diagnose", "*.npz", "--json", *more]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", **settings, "MARK": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    found.pop("provenance")
    return found, " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Raylets]:
    """A cluster of one fit node with one CPU."""
    with raylets() as found:
        found.add(head=True)
        yield found


def on(cluster: Raylets, file: Path, root: Path, *more: str, **settings: str) -> "subprocess.Popen[bytes]":
    options = ("--executor", "ray", "--address", cluster.address, *more)
    return start(file, root, *options, **{**cluster.environment, "MARK": "", **settings})


def test_unfit_nodes_get_no_runs_and_are_named(tmp_path: Path, cluster: Raylets) -> None:
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
        alone_told, _ = diagnosed(tmp_path)
        told, warned = diagnosed(tmp_path, "--executor", "ray", "--address", cluster.address, **cluster.environment)
    finally:
        for node in added:
            node.kill()
    assert told == alone_told
    assert "gets no files: it cannot load polarised" in warned
    assert "gets no files: its code is" in warned
    words = " ".join(said.split())
    assert "gets no runs: it cannot load polarised: ModuleNotFoundError: No module named 'polarised'" in words
    assert "gets no runs: its code is" in words
    assert "4 of 4 runs done, 0 failed" in words
    assert not list(root.glob("*/failed.txt"))
    assert Counter(notes(log)) == Counter((tag, step) for tag in range(4) for step in range(12))
    assert len({done.code for path in root.glob("*/done.json") if (done := read_done(path.parent))}) == 1
    assert weights(root) == alone(file, tmp_path / "alone")


def test_a_lost_node_costs_only_the_steps_since_a_checkpoint(tmp_path: Path, cluster: Raylets) -> None:
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
    assert "was lost; continuing with attempt 2 of 3" in " ".join(said.split())
    assert ", attempt 2" in said
    assert not list(root.glob("*/failed.txt"))
    taken = Counter(notes(log))
    assert set(taken) == {(tag, step) for tag in range(4) for step in range(40)}
    # Checkpoints are five steps apart: at most these steps were repeated, for one run only.
    again = [key for key, count in taken.items() if count > 1]
    assert len(again) <= 6
    assert len({tag for tag, _ in again}) <= 1
    assert weights(root) == alone(file, tmp_path / "alone")


def test_a_node_that_joins_later_and_does_not_see_the_results_gets_no_runs(tmp_path: Path, cluster: Raylets) -> None:
    log, root = tmp_path / "notes", tmp_path / "runs"
    root.mkdir()
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=4, steps=40, notes=str(log), sleep=0.1))
    process = on(cluster, file, root)
    until(lambda: log.exists() or process.poll() is not None, seconds=300)
    # Another file system lies over the folder of the results, as on a machine that has not mounted it.
    node = cluster.add(below=["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {root} && exec "$@"', "sh"])
    try:
        said = finish(process, file)
    finally:
        node.kill()
    words = " ".join(said.split())
    assert f"gets no runs: it does not see {root} as this machine does" in words
    assert "4 of 4 runs done, 0 failed" in words
    assert Counter(notes(log)) == Counter((tag, step) for tag in range(4) for step in range(40))
    assert weights(root) == alone(file, tmp_path / "alone")
    assert not list(root.glob(".seen-*"))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--cpus", "8"), "expected a node with 8 CPUs and 0 GPUs, but the largest of 1 has 1 and 0"),
        (("--gpus", "1", "training.device=cuda"), "expected a node with 1 CPUs and 1 GPUs"),
        (("--gpus", "1"), "set training.device to cuda"),
        (("--memory", "5000"), "5000 GB of memory"),
    ],
)
def test_tasks_too_large_for_every_node_are_an_error_at_once(
    tmp_path: Path, cluster: Raylets, asked: tuple[str, ...], words: str
) -> None:
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=2, steps=4))
    said = finish(on(cluster, file, tmp_path / "runs", *asked), file, code=2)
    assert words in " ".join(said.split())
    assert "Traceback" not in said
    assert not list((tmp_path / "runs").glob("*/failed.txt"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_driver_that_gets_a_signal_saves_and_exits_without_a_traceback(
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


def test_an_interrupt_while_a_run_is_measured_is_heard_within_two_seconds(tmp_path: Path, cluster: Raylets) -> None:
    log, ticks, root = tmp_path / "notes", tmp_path / "ticks", tmp_path / "runs"
    file = pondered(tmp_path / "tiny.yaml", ticks=ticks, steps=6, notes=log, seconds=120)
    process = on(cluster, file, root)
    until(lambda: ticks.exists() and len(notes(ticks)) > 5, seconds=300)
    before = len(notes(ticks))
    process.send_signal(signal.SIGINT)
    said = finish(process, file, code=130)
    assert len(notes(ticks)) - before <= 40
    assert "stopping; runs in training save a checkpoint first" in said
    assert not list(root.glob("*/failed.txt"))
    for noise in ("Traceback", "***", "PC: @", "std::", "SystemExit"):
        assert noise not in said


def test_running_out_of_memory_is_named_counted_and_isolated(tmp_path: Path) -> None:
    from ray._common.utils import get_system_memory
    from ray._private.utils import get_used_memory

    threshold = (get_used_memory() + (4 << 30)) / get_system_memory()
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=8, grow_at=3))
    with raylets() as small:
        small.add(head=True, RAY_memory_usage_threshold=f"{threshold:.4f}", RAY_memory_monitor_refresh_ms="100")
        said = finish(on(small, file, tmp_path / "runs", "--attempts", "2"), file, code=1)
    words = " ".join(said.split())
    assert "0 of 1 run done, 1 failed" in words
    assert "it exceeded the memory of its node and was killed by Ray; continuing with attempt 2 of 2" in words
    failed = load_study(file).runs[0].name
    kept = (tmp_path / "runs" / failed / "failed.txt").read_text()
    assert kept.startswith("TrainingError: it exceeded the memory of its node and was killed by Ray, 2 times")
    # An attempt may be killed before it prints anything; the output of the other one is kept.
    assert "begun at step 0 of 8 by process" in kept
    assert len(said) < 4000


def test_a_runtime_environment_reaches_the_workers(tmp_path: Path, cluster: Raylets) -> None:
    (tmp_path / "there").mkdir()
    shutil.copytree(TESTS / "study", tmp_path / "there" / "elsewhere")
    config = study_config(runs=1, steps=4)
    config["base"]["objective"]["name"] = "elsewhere.workshop:Watched"
    file = write_study(tmp_path / "tiny.yaml", config)
    environment = tmp_path / "environment.yaml"
    # A worker finds the objective only with these variables.
    places = os.pathsep.join(map(str, (SOURCE, TESTS, tmp_path / "there")))
    environment.write_text(f"env_vars: {{PYTHONPATH: '{places}'}}\n")
    process = on(cluster, file, tmp_path / "runs", "--runtime-env", str(environment), PYTHONPATH=places)
    said = finish(process, file)
    assert "1 of 1 run done, 0 failed" in " ".join(said.split())
    assert "runtime_env" not in (tmp_path / "runs" / "study.json").read_text()


# What a SLURM allocation has, as programs of this machine: a node is a process, what is put back is written down.
PROGRAMS = {
    "hostname": "echo 127.0.0.1",
    "scontrol": 'echo "$@" >> "$REQUEUED"',
    "srun": """
count=1
while [ "${1#--}" != "$1" ]; do case "$1" in --ntasks=*) count=${1#--ntasks=};; esac; shift; done
for _ in $(seq "$count"); do "$@" & done
wait""",
    # `ray start` of a node that serves this machine alone refuses to join others; ours is the same without.
    "ray": """
if [ "$1" = status ]; then exec {python} -c 'from ray.scripts.scripts import main; main()' "$@"; fi
kind='{{"head": false}}' cpus=1
for word in "$@"; do case "$word" in
  --head) kind='{{"head": true, "include_dashboard": false}}';;
  --num-cpus=*) cpus=${{word#--num-cpus=}};;
esac; done
exec {python} -c {node} "$kind" {address} {port} "$cpus" {store} {folder}""",
    "polarised": "exec {python} -c 'from polarised.cli import main; main()' \"$@\"",
}


def test_the_script_for_ray_on_slurm_runs_a_study_and_requeues_itself(tmp_path: Path) -> None:
    page = (TESTS.parent / "docs" / "howto" / "queues.md").read_text()
    (script,) = (block for block in page.split("```") if block.startswith("bash\n#!/bin/bash\n#SBATCH --nodes"))
    log, root = tmp_path / "notes", tmp_path / "study"
    file = write_study(tmp_path / "tiny.yaml", study_config(runs=4, steps=60, notes=str(log), sleep=0.1))
    script = script.removeprefix("bash\n").replace("be_more_active", str(file)).replace("/shared/study", str(root))
    (tmp_path / "bin").mkdir()

    def submit(cluster: Raylets) -> Node:
        """Give the job two nodes of one processor on a cluster of its own."""
        _, _, port = cluster.address.partition(":")
        words = {"python": sys.executable, "node": NODE, "folder": str(cluster.folder / "r"), "store": str(STORE)}
        words |= {"address": cluster.address, "port": port}
        given = {key: shlex.quote(value) for key, value in words.items()}
        for name, text in PROGRAMS.items():
            whole = text.format(**given) if "{python}" in text else text
            (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{whole}\n")
            (tmp_path / "bin" / name).chmod(0o755)
        (tmp_path / "job.sh").write_text(script.replace("6379", port))
        slurm = {"SLURM_NNODES": "2", "SLURM_CPUS_PER_TASK": "1", "SLURMD_NODENAME": "n1", "SLURM_JOB_ID": "9"}
        environment = {
            **os.environ,
            **{key: value for key, value in cluster.environment.items() if not key.startswith("RAY_AUTH")},
            **slurm,
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, (SOURCE, TESTS))),
            "REQUEUED": str(tmp_path / "requeued"),
        }
        with (tmp_path / "said.txt").open("a") as said:
            process = subprocess.Popen(
                ["bash", tmp_path / "job.sh"],
                env=environment,
                stdout=said,
                stderr=said,
                cwd=tmp_path,
                start_new_session=True,
            )
        return cluster.adopt(process)

    said = (tmp_path / "said.txt").read_text
    with raylets() as cluster:
        job = submit(cluster)
        # Both nodes are working, each on its own run.
        until(lambda: len(at_work(log)) == 2 or not job.is_alive(), seconds=400)
        assert listening(cluster.processes()) <= LOOPBACK
        job.send_signal(signal.SIGUSR1)
        assert job.wait() == 138, said()
    assert (tmp_path / "requeued").read_text() == "requeue 9\n"
    assert not list(root.glob("*/failed.txt"))
    with raylets() as cluster:
        assert submit(cluster).wait() == 0, said()
    # It saved at the signal and resumed there: no step was done twice.
    assert Counter(notes(log)) == Counter((tag, step) for tag in range(4) for step in range(60))
    assert weights(root) == alone(file, tmp_path / "alone")


def at_work(log: Path) -> set[str]:
    """Return the processes that have trained for some steps."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {line.split()[2] for line in lines if int(line.split()[1]) > 7}


@pytest.mark.parametrize("before", ["", "import ray\n"])
def test_clusters_listen_only_on_loopback(tmp_path: Path, cluster: Raylets, before: str) -> None:
    assert listening(cluster.processes())
    assert listening(cluster.processes()) <= LOOPBACK
    # This also holds for a cluster started by the library: anyone who reaches it could run code.
    code = before + (
        "from polarised.cluster import ray_cluster\n"
        "import time\n"
        "with ray_cluster() as ray:\n"
        "    ray.get(ray.remote(lambda: 1).remote())\n"
        "    print('up', flush=True)\n"
        "    time.sleep(60)\n"
    )
    mark = cluster.mark[::-1]
    environment = {**os.environ, "MARK": mark, "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, cwd=tmp_path, start_new_session=True
    )
    own = Node(process, mark)
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
