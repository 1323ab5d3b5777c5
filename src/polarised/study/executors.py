"""Where the runs of a study are done.

Every executor is a generator of events over runs that are idempotent by themselves: a run that is lost is simply
started again and continues from its checkpoint. There is no scheduler here, only "the next run to the next free core".
"""

import multiprocessing
import os
import signal
import threading
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from polarised.cluster import check_nodes, check_request, ray_cluster
from polarised.errors import ConfigError
from polarised.registry import register
from polarised.study.config import Run, check_devices
from polarised.study.storage import DiskFullError
from polarised.study.worker import Outcome, State, give_up, work

__all__ = ["local", "ray"]

SECONDS_TO_SAVE = 15.0


@dataclass(frozen=True)
class Event:
    """Something that happened to a run.

    Args:
        state: What happened.
        run: The run.
        reason: Why it failed, where it did.
        seconds: How long it took, where it is done.
    """

    state: State
    run: Run
    reason: str = ""
    seconds: float = 0.0


@register("executor", title="this machine", summary="one process for each core", example={"jobs": 1})
def local(
    runs: Sequence[Run], root: str, command: str = "", *, jobs: int = 0, attempts: int = 3, patient: bool = True
) -> Iterator[Event]:
    """Do the runs on this machine, in single-threaded processes.

    A worker that is killed is replaced and its run continued; workers end with their parent.

    Args:
        runs: The runs to do.
        root: The folder of the study, in which every run has its own.
        command: The command that asked for them, written down with every run.
        jobs: How many run at a time; 0 for as many as there are cores.
        attempts: How often a run is started before it counts as failed.
        patient: Whether to wait for a run that another command works on, in case that command ends.

    Yields:
        What happens to the runs, as it happens.

    Raises:
        ConfigError: If jobs is negative, or attempts is below 1.
        DiskFullError: If the disk is full.
    """
    if jobs < 0 or attempts < 1:
        raise ConfigError(f"expected jobs from 0 (every core) and attempts from 1, got {jobs} and {attempts}")
    check_devices(run.training.device for run in runs)
    waiting, losses = deque(runs), Counter[str]()
    free = deque(_Worker() for _ in range(min(jobs or os.cpu_count() or 1, len(runs))))
    at_work: dict[Future[Outcome], tuple[_Worker, Run]] = {}
    try:
        while waiting or at_work:
            while waiting and free:
                worker, run = free.popleft(), waiting.popleft()
                at_work[worker.submit(run, root, command)] = worker, run
                yield Event("started", run)
            for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                worker, run = at_work.pop(future)
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    worker, outcome = _Worker(), _lost(run, root, losses, attempts, worker.death())
                free.append(worker)
                if outcome.state == "full":
                    raise DiskFullError(outcome.reason)
                if outcome.state == "lost" or (outcome.state == "busy" and patient):
                    waiting.append(run)
                yield Event(outcome.state, run, outcome.reason, outcome.seconds)
    finally:
        everybody = [*free, *(worker for worker, _ in at_work.values())]
        for worker in everybody:
            worker.interrupt()
        for worker in everybody:
            worker.join()


@register("executor", title="Ray", summary="plain tasks of a Ray cluster", needs=("ray",), example={"jobs": 1})
def ray(
    runs: Sequence[Run],
    root: str,
    command: str = "",
    *,
    address: str | None = None,
    jobs: int = 0,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    memory: float = 0.0,
    attempts: int = 3,
    mixed: bool = False,
) -> Iterator[Event]:
    """Do the runs as plain Ray tasks, on the cluster at `address` or on one started here.

    Ray does as many at a time as it has room for, and itself starts a task again whose worker or node was lost. Before
    the first run every node is asked for its versions and its code.

    Args:
        runs: The runs to do.
        root: A folder every node sees, or an fsspec address such as ``s3://bucket/study``.
        command: The command that asked for them, written down with every run.
        address: The cluster's address; without one a cluster is started on this machine.
        jobs: How many run at a time at most; 0 for no limit.
        num_cpus: Cores that a run takes.
        num_gpus: Graphics cards that a run takes.
        memory: Gigabytes that a run takes; 0 where that is not said.
        attempts: How often a run is started before it counts as failed.
        mixed: Whether nodes with other code, or without polarised, get runs too; otherwise they are named.

    Yields:
        What happens to the runs, as it happens.

    Raises:
        ConfigError: If a number is out of range, no node can do a run, or the cluster does not answer.
        DiskFullError: If the disk is full.
    """
    if jobs < 0 or attempts < 1 or num_cpus < 0 or num_gpus < 0:
        raise ConfigError(
            "expected jobs, num_cpus and num_gpus from 0 and attempts from 1, got "
            f"{jobs}, {num_cpus:g}, {num_gpus:g} and {attempts}"
        )
    _check_devices(runs, num_gpus)
    with ray_cluster(address) as cluster:
        check_request(cluster, num_cpus=num_cpus, num_gpus=num_gpus)
        # The package travels by import, not by value: every node needs polarised installed.
        options: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": attempts - 1}
        if memory:
            options["memory"] = int(memory * (1 << 30))
        if not mixed and (places := _fit_nodes(cluster)):
            options["label_selector"] = places
        task = cluster.remote(**options)(work)
        waiting, losses = deque(runs), Counter[str]()
        at_work: dict[Any, Run] = {}
        try:
            while waiting or at_work:
                while waiting and (not jobs or len(at_work) < jobs):
                    run = waiting.popleft()
                    # Only Ray knows when it starts, so nothing is said before it is done.
                    at_work[task.remote(run.to_config(), root, command)] = run
                # In short waits, between which Ctrl-C is heard.
                finished, _ = cluster.wait(list(at_work), num_returns=1, timeout=1.0)
                for reference in finished:
                    run = at_work.pop(reference)
                    try:
                        outcome = Outcome(*cluster.get(reference))
                    except (cluster.exceptions.WorkerCrashedError, cluster.exceptions.NodeDiedError):
                        losses[run.name] = attempts
                        outcome = _lost(run, root, losses, attempts, "its worker process or node was lost")
                    except cluster.exceptions.OutOfMemoryError:
                        losses[run.name] = attempts
                        outcome = _lost(run, root, losses, attempts, "it ran over the memory of its node")
                    except cluster.exceptions.RayError as error:
                        outcome = give_up(run, root, f"Ray could not do it: {_told(error)}")
                    if outcome.state == "full":
                        raise DiskFullError(outcome.reason)
                    if outcome.state in ("busy", "lost"):
                        waiting.append(run)
                    yield Event(outcome.state, run, outcome.reason, outcome.seconds)
        finally:
            _stop(cluster, list(at_work))


def _check_devices(runs: Sequence[Run], num_gpus: float) -> None:
    """Refuse GPUs that nobody would use, and devices that nobody would get."""
    devices = {run.training.device.partition(":")[0] for run in runs}
    if "cuda" in devices and not num_gpus:
        raise ConfigError("expected GPUs for runs that train on cuda, got num_gpus 0; ask for one, or train on cpu")
    if num_gpus and "cuda" not in devices:
        raise ConfigError(
            f"expected runs that train on cuda with {num_gpus:g} GPUs each, got {', '.join(sorted(devices))}; set "
            "training.device to cuda, or ask for none"
        )


def _fit_nodes(cluster: Any) -> dict[str, str]:
    """Return the label that keeps tasks on nodes with our code: nothing where all have it; the others are named."""
    nodes = check_nodes(cluster)
    unfit = [node for node in nodes if node.problem]
    for node in unfit:
        warnings.warn(f"the node {node.host} gets no runs: {node.problem}", stacklevel=2)
    if len(unfit) == len(nodes):
        raise ConfigError(
            f"expected at least one node that can do the runs, none of {len(nodes)} can; the first says: "
            f"{unfit[0].problem if unfit else 'nothing'}"
        )
    fit = ",".join(node.id for node in nodes if not node.problem)
    return {"ray.io/node-id": f"in({fit})"} if unfit else {}


def _stop(cluster: Any, references: list[Any]) -> None:
    """Ask tasks to save and end, as Ctrl-C does; those that have not after a while are ended."""
    for reference in references:
        cluster.cancel(reference, force=False)
    if references:
        _, left = cluster.wait(references, num_returns=len(references), timeout=SECONDS_TO_SAVE)
        for reference in left:
            cluster.cancel(reference, force=True)


class _Worker:
    """One process that does run after run, so that torch is imported once."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_prepare)
        self._process: Any = None

    def submit(self, run: Run, root: str, command: str) -> Future[Outcome]:
        """Hand a run to the process, starting it where there is none or it died between two runs."""
        before = set(multiprocessing.active_children())
        with _single_threaded():
            try:
                future = self._pool.submit(work, run.to_config(), root, command)
            except BrokenProcessPool:
                self._start()
                future = self._pool.submit(work, run.to_config(), root, command)
        if self._process is None:
            self._process = next(iter(set(multiprocessing.active_children()) - before), None)
        return future

    def interrupt(self) -> None:
        """Ask the worker to save a checkpoint and end: an interrupt is what training listens to."""
        if self._process is not None and self._process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGINT)

    def death(self) -> str:
        """Return in words how the process ended."""
        process = self._process
        if process is None:
            return "its worker process ended"
        process.join(timeout=5)
        if process.exitcode == -signal.SIGKILL:
            return "its worker process was killed, as the system does when memory runs out"
        if process.exitcode is not None and process.exitcode < 0:
            return f"its worker process was ended by {signal.Signals(-process.exitcode).name}"
        return f"its worker process ended with code {process.exitcode}"

    def join(self) -> None:
        """Wait until the worker has ended."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _prepare() -> None:
    # Between two runs there is nothing to save; training itself listens while it trains.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        # A thread of its own, so that a worker deep in a matrix product ends with its parent all the same; before
        # torch is loaded, which takes seconds in which the parent may go.
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    from polarised.training import keep_freed_memory

    keep_freed_memory()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Hand one thread each to processes started here: libraries read it when they are loaded, not later."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _lost(run: Run, root: str, losses: Counter[str], attempts: int, how: str) -> Outcome:
    losses[run.name] += 1
    if losses[run.name] < attempts:
        return Outcome("lost", f"{how}; the run is continued by another")
    return give_up(run, root, f"{how}, {attempts} times; is there enough memory?")


def _told(error: Exception) -> str:
    """Return what an error of Ray says in a line: all of it, or what stands below a traceback of the worker."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = lines[-1:] if hasattr(error, "cause") else lines
    return " ".join(words)[:500] or type(error).__name__
