import json
import os
import shutil
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from polarised.cli import app
from polarised.cluster import Node, shipped
from polarised.errors import ConfigError, DataError
from polarised.study import executors, verify
from polarised.study.config import Run
from polarised.study.executors import Event, local, ray
from polarised.study.grid import Study, load_study
from polarised.study.leases import LEASE, Lease
from polarised.study.results import COLUMNS, collect, results_of
from polarised.study.runner import conduct, run_states
from polarised.study.stages import read_done
from study.workshop import notes, study_config, until, workers_of, write_study

ONE = {"name": "local", "jobs": 1}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """A study of two runs without interruptions."""
    folder = tmp_path_factory.mktemp("calm")
    study = load_study(write_study(folder / "tiny.yaml", study_config(runs=2, steps=30)))
    last = list(conduct(study, folder / "runs", executor=ONE))[-1]
    assert (last.done, last.failed, last.running) == (2, 0, {})
    assert last.steps_taken() == last.steps_wanted == 60
    return study, folder / "runs"


def test_table_is_tidy(calm: tuple[Study, Path]) -> None:
    table = polars.read_parquet(collect(calm[1]))
    assert tuple(table.columns) == COLUMNS
    assert table["strength"].unique().sort().to_list() == [0.0, 1.0]
    assert len(table.unique(["run", "representation", "variables", "metric"])) == len(table)
    counts = table.filter(polars.col("metric") == "count").group_by("run").agg(polars.col("value").sum())
    assert counts["value"].to_list() == [3.0, 3.0]
    assert {"reconstruction", "rate", "accuracy", "total_correlation"} <= set(table["metric"])


def test_kills_and_divergence_stop_nothing(tmp_path: Path, calm: tuple[Study, Path]) -> None:
    log, root = tmp_path / "notes", tmp_path / "runs"
    config = study_config(runs=2, steps=30, notes=str(log), sleep=0.02)
    config["axes"]["strength"]["objective.diverge_at"] = [1_000_000, 7]
    study = load_study(write_study(tmp_path / "tiny.yaml", config))
    events: list[Event] = []
    for progress in conduct(study, root, executor=ONE):
        if progress.latest is None:
            continue
        events.append(progress.latest)
        if len(events) == 1:
            until((root / study.runs[0].name / "checkpoint.safetensors").exists)
            for pid in workers_of(os.getpid()):
                os.kill(pid, signal.SIGKILL)
    states = [(event.run.objective["tag"], event.state) for event in events]
    assert states == [(0, "started"), (0, "lost"), (1, "started"), (1, "failed"), (0, "started"), (0, "done")]
    assert "broken became nan at step 8" in events[3].reason
    assert not workers_of(os.getpid())
    # Steps before a checkpoint were not repeated.
    steps = [step for tag, step in notes(log) if tag == 0]
    assert steps.count(0) == 1
    assert set(steps) == set(range(30))
    assert [state.state for state in run_states(study.points, root)] == ["done", "failed"]
    # The numbers are those of a run without interruptions.
    undisturbed = results_of(calm[0].points[:1], calm[1]).drop("run")
    assert_frame_equal(results_of(study.points, root).drop("run"), undisturbed, check_exact=True)
    # A failed run is repeated only on request.
    (again,) = conduct(study, root, executor=ONE)
    assert (again.earlier, again.failed) == (1, 1)
    retried = [p.latest.state for p in conduct(study, root, executor=ONE, retry=True) if p.latest]
    assert retried == ["started", "failed"]


def test_stopping_early_saves_what_is_running(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=3000, sleep=0.01)))
    root = tmp_path / "runs"
    stream = local(study.runs, str(root), jobs=1)
    next(stream)
    until((root / study.runs[0].name / "checkpoint.safetensors").exists)
    stream.close()  # type: ignore[attr-defined]
    assert not workers_of(os.getpid())
    (state,) = run_states(study.points, root)
    assert state.state == "waiting"
    assert state.step > 0


class Cluster:
    """A stand-in for Ray that executes nothing and counts the tasks in flight."""

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.flying = self.most = 0

    def nodes(self) -> list[dict[str, object]]:
        return [{"Alive": True, "NodeID": "a", "Resources": {"CPU": 8.0, "GPU": 8.0, "memory": 2.0**31}}]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 8.0}

    def remote(self, **options: Any) -> Callable[[object], SimpleNamespace]:
        self.options = options
        return lambda _: SimpleNamespace(remote=self.start, options=self.chosen)

    def chosen(self, **more: Any) -> SimpleNamespace:
        self.options = {**self.options, **more}
        return SimpleNamespace(remote=self.start)

    def start(self, *_: object) -> object:
        self.flying += 1
        self.most = max(self.most, self.flying)
        return object()

    def wait(self, references: list[object], num_returns: int, timeout: float) -> tuple[list[object], list[object]]:
        return references[:num_returns], references[num_returns:]

    def cancel(self, _: object, force: bool) -> None:
        self.flying -= 1

    def get(self, _: object) -> tuple[str, str, float, str, str]:
        self.flying -= 1
        return "done", "", 1.0, "a", "here"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Cluster]:
    """Let the executor use a fake cluster with fake nodes."""

    def give(cluster: Cluster, *nodes: Node) -> Cluster:
        monkeypatch.setattr("polarised.study.executors.ray_cluster", lambda _: nullcontext(cluster))
        monkeypatch.setattr(
            "polarised.study.executors.check_nodes", lambda *_, **__: list(nodes or [Node("a", "here")])
        )
        return cluster

    return give


def test_the_reason_of_a_failure_in_ray_is_recorded(tmp_path: Path, given: Callable[..., Cluster]) -> None:
    exceptions = pytest.importorskip("ray.exceptions")
    errors = [exceptions.TaskUnschedulableError("no node has the label"), *[exceptions.WorkerCrashedError()] * 3]

    class Failing(Cluster):
        def get(self, _: object) -> tuple[str, str, float, str, str]:
            raise errors.pop()

    cluster = given(Failing())
    cluster.exceptions = exceptions
    runs = [Run.from_config({"seed": seed}) for seed in range(2)]
    (tmp_path / runs[0].name).mkdir()
    (tmp_path / runs[0].name / "log.txt").write_text("".join(f"line {number}\n" for number in range(50)))
    *lost, first = ray(runs[:1], str(tmp_path))
    assert [event.state for event in lost] == ["lost", "lost"]
    assert "continuing with attempt 2 of 3" in lost[0].reason
    assert first.reason == "its worker process was lost, 3 times; check that there is enough memory"
    kept = (tmp_path / runs[0].name / "failed.txt").read_text()
    assert (
        kept.splitlines()[0] == "TrainingError: its worker process was lost, 3 times; check that there is enough memory"
    )
    assert "line 30\n" in kept
    assert kept.endswith("line 49\n")
    assert "line 29\n" not in kept
    (second,) = ray(runs[1:], str(tmp_path))
    assert "no node has the label" in second.reason
    assert "no node has the label" in (tmp_path / runs[1].name / "failed.txt").read_text()


def test_running_out_of_memory_is_named_and_counted(tmp_path: Path, given: Callable[..., Cluster]) -> None:
    exceptions = pytest.importorskip("ray.exceptions")

    class Full(Cluster):
        def get(self, _: object) -> tuple[str, str, float, str, str]:
            raise exceptions.OutOfMemoryError("Task was killed due to the node running low on memory.")

    given(Full()).exceptions = exceptions
    lost, failed = ray([Run.from_config({})], str(tmp_path), attempts=2)
    assert lost.state == "lost"
    assert failed.reason.startswith("it exceeded the memory of its node and was killed by Ray, 2 times")


def test_an_environment_that_cannot_be_set_up_fails_no_run(tmp_path: Path, given: Callable[..., Cluster]) -> None:
    exceptions = pytest.importorskip("ray.exceptions")

    class Bare(Cluster):
        def get(self, _: object) -> tuple[str, str, float, str, str]:
            raise exceptions.RuntimeEnvSetupError("no such wheel")

    cluster = given(Bare())
    cluster.exceptions = exceptions
    with pytest.raises(ConfigError, match="no such wheel"):
        list(ray([Run.from_config({})], str(tmp_path), runtime_env={"pip": ["nothing"]}))
    assert cluster.options["runtime_env"] == {"pip": ["nothing"]}
    assert not list(tmp_path.glob("*/failed.txt"))


def test_a_node_that_joins_without_the_code_gets_no_more_runs(tmp_path: Path, given: Callable[..., Cluster]) -> None:
    answers = [("done", "", 1.0, "a", "here"), ("unfit", "it cannot load polarised", 0.0, "late", "bare")]

    class Late(Cluster):
        def get(self, _: object) -> tuple[str, str, float, str, str]:
            return answers.pop()

    cluster = given(Late())
    with pytest.warns(UserWarning, match="the node bare .late. gets no runs: it cannot load polarised"):
        events = list(ray([Run.from_config({})], str(tmp_path)))
    assert [event.state for event in events] == ["waiting", "done"]
    assert cluster.options["label_selector"] == {"ray.io/node-id": "!in(late)"}
    assert not list(tmp_path.glob("*/failed.txt"))


def test_a_task_asks_its_own_node_whether_it_sees_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_node_id=lambda: "late")
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get_runtime_context=lambda: context))
    run = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=2))).runs[0]
    task = shipped(executors._TASK, "task")
    state, reason, _, node, host = task(run.to_config(), str(tmp_path / "runs"), "", {}, ".seen-1", "cpu")
    assert (state, node, host) == ("unfit", "late", socket.gethostname())
    assert reason.startswith(f"it does not see {tmp_path / 'runs'}")
    assert not (tmp_path / "runs").exists()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".seen-1").touch()
    assert task(run.to_config(), str(tmp_path / "runs"), "", {}, ".seen-1", "cpu")[0] == "done"


def test_a_study_whose_last_node_is_gone_says_so_once(
    tmp_path: Path, given: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "SECONDS_BETWEEN_LOOKS", 0.0)

    class Leaving(Cluster):
        looks = 0

        def nodes(self) -> list[dict[str, object]]:
            return [{**super().nodes()[0], "Alive": self.looks < 1 or self.looks > 4}]

        def wait(self, references: list[object], num_returns: int, timeout: float) -> tuple[list[object], list[object]]:
            self.looks += 1
            return (references, []) if self.looks > 6 else ([], references)

    given(Leaving())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert [event.state for event in ray([Run.from_config({})], str(tmp_path))] == ["done"]
    (words,) = [str(one.message) for one in told]
    assert words.startswith("no run can start until a node joins: expected a node with 1 CPUs and 0 GPUs")


def test_a_cluster_that_is_gone_is_named(
    tmp_path: Path, given: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "SECONDS_BETWEEN_LOOKS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        given(Cluster())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(list(ray([Run.from_config({})], str(tmp_path), address=address))) == 1
    with pytest.warns(UserWarning, match=f"the Ray cluster at {address} no longer answers"):
        list(ray([Run.from_config({})], str(tmp_path), address=address))


def test_what_only_an_excluded_node_could_do_is_refused(tmp_path: Path, given: Callable[..., Cluster]) -> None:
    class Two(Cluster):
        def nodes(self) -> list[dict[str, object]]:
            small = {"Alive": True, "NodeID": "b", "Resources": {"CPU": 1.0}}
            return [*super().nodes(), small]

    given(Two(), Node("a", "large", "its torch is 2.0, here it is 2.1"), Node("b", "small"))
    with (
        pytest.warns(UserWarning, match="the node large"),
        pytest.raises(ConfigError, match=r"with 4 CPUs .* the largest of 1 that can execute the runs has 1"),
    ):
        list(ray([Run.from_config({})], str(tmp_path), num_cpus=4))
    assert not list(tmp_path.glob(".seen-*"))


def test_an_interrupt_is_acknowledged_before_workers_end(tmp_path: Path, given: Callable[..., Cluster]) -> None:
    class Interrupted(Cluster):
        def wait(self, references: list[object], num_returns: int, timeout: float) -> tuple[list[object], list[object]]:
            if timeout > 1:
                return references, []
            raise KeyboardInterrupt

        def cancel(self, reference: object, force: bool) -> None:
            assert told, "the user waits for a word"
            super().cancel(reference, force)

    cluster = given(Interrupted())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            list(ray([Run.from_config({})], str(tmp_path)))
    assert cluster.flying == 0
    assert [str(one.message) for one in told] == ["stopping; runs in training save a checkpoint first"]


@pytest.mark.parametrize(("jobs", "most"), [(0, 5), (2, 2)])
def test_the_requested_resources_are_passed_to_ray(
    tmp_path: Path, given: Callable[..., Cluster], jobs: int, most: int
) -> None:
    cluster = given(Cluster())
    runs = [Run.from_config({"seed": seed, "training": {"device": "cuda"}}) for seed in range(5)]
    events = list(ray(runs, str(tmp_path), jobs=jobs, num_cpus=2, num_gpus=0.25, memory=1.5))
    assert [event.state for event in events] == ["done"] * 5
    assert cluster.most == most
    # Losses are counted by us: Ray's own retries would be silent.
    assert cluster.options == {"num_cpus": 2, "num_gpus": 0.25, "max_retries": 0, "memory": 3 << 29}
    with pytest.raises(ConfigError, match="num_gpus and memory of at least 0"):
        list(ray(runs, str(tmp_path), num_gpus=-1))


def test_nodes_with_other_code_get_no_runs_and_are_named(tmp_path: Path, given: Callable[..., Cluster]) -> None:
    unfit = Node("b", "old", "its polarised is 0.0, here it is 0.1")
    cluster = given(Cluster(), Node("a", "good"), unfit, Node("c", "other"))
    runs = [Run.from_config({})]
    with pytest.warns(UserWarning, match="the node old .b. gets no runs: its polarised is 0.0"):
        assert len(list(ray(runs, str(tmp_path)))) == 1
    assert cluster.options["label_selector"] == {"ray.io/node-id": "!in(b)"}
    given(Cluster(), unfit)
    with pytest.warns(UserWarning, match="gets no runs"), pytest.raises(ConfigError, match="none of 1 can"):
        list(ray(runs, str(tmp_path)))


@pytest.mark.parametrize(
    ("asked", "device", "words"),
    [
        ({"num_cpus": 9}, "cpu", "9 CPUs and 0 GPUs, but the largest of 1 has 8 and 8"),
        ({"num_gpus": 9}, "cuda", "1 CPUs and 9 GPUs"),
        ({"memory": 9}, "cpu", "9 GB of memory, but the largest of 1 has 8 and 8 and 2.0 GB"),
        ({"num_gpus": 1}, "cpu", "set training.device to cuda"),
        ({}, "cuda", "expected GPUs for runs that train on cuda"),
    ],
)
def test_tasks_too_large_for_every_node_are_refused_at_once(
    given: Callable[..., Cluster], asked: dict[str, float], device: str, words: str
) -> None:
    given(Cluster())
    with pytest.raises(ConfigError, match=words):
        list(ray([Run.from_config({"training": {"device": device}})], "nowhere", **asked))


def test_runs_made_by_different_code_are_not_tabulated_unless_allowed(tmp_path: Path, calm: tuple[Study, Path]) -> None:
    root = shutil.copytree(calm[1], tmp_path / "runs")
    path = root / calm[0].runs[0].name / "done.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "code": "0123456789ab"}))
    with pytest.raises(DataError, match=r"one version of the code in .*, got .*1 by 0123456789ab"):
        collect(root)
    assert polars.read_parquet(collect(root, mixed=True))["run"].n_unique() == 2
    with pytest.raises(DataError, match="one version of the code"):
        verify(root, study="learning_dynamics")
    assert verify(root, study="learning_dynamics", mixed=True).to_dict()
    words = CliRunner().invoke(app, ["study", "verify", str(root), "--study", "learning_dynamics", "--mixed"])
    assert words.exit_code == 0


def test_a_share_takes_a_run_only_from_a_dead_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polarised.study.executors.PAUSE", 0.2)
    study = load_study(write_study(tmp_path / "tiny.yaml", study_config(runs=1, steps=6)))
    (run,) = study.runs
    (tmp_path / run.name).mkdir()
    now = time.time()
    lease = Lease("x", "node7", 1, "0", now - 5, now - 5, 0, 0)

    def write(lease: Lease) -> None:
        (tmp_path / run.name / LEASE).write_text(json.dumps(lease.__dict__))

    write(lease)
    states = []
    for event in local(study.runs, str(tmp_path), jobs=1, patient=False):
        states.append(event.state)
        if states.count("busy") == 2:
            # The owner renews its lease.
            write(replace(lease, heartbeat=time.time()))
    assert states.count("busy") >= 3
    assert "done" not in states
    # The lease expires soon.
    write(replace(lease, heartbeat=time.time() - 115))
    assert [event.state for event in local(study.runs, str(tmp_path), jobs=1, patient=False)][-1] == "done"


def test_a_run_that_settles_counts_the_steps_it_took(tmp_path: Path) -> None:
    config = study_config(runs=1, steps=100)
    # Everything counts as settled.
    config["base"]["training"]["settling"] = {"least": 12, "every": 1, "decay": 0.5, "nats": 1e6}
    study = load_study(write_study(tmp_path / "tiny.yaml", config))
    last = list(conduct(study, tmp_path / "runs", executor=ONE))[-1]
    assert (last.done, last.steps, last.steps_spared, last.steps_wanted) == (1, 18, 82, 100)
    done = read_done(tmp_path / "runs" / study.runs[0].name)
    assert done is not None
    assert done.steps == 18
