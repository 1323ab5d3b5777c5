"""Where the runs of a study are done.

Every executor is a generator of events over runs that are idempotent by themselves: a run that is lost is simply
started again and continues from its checkpoint. There is no scheduler here, only "the next run to the next free core".
"""

import heapq
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

from polarised.cluster import Node, check_nodes, check_request, code_here, ray_cluster, shipped
from polarised.errors import ConfigError
from polarised.registry import register
from polarised.study.config import Run, check_devices
from polarised.study.leases import HEARTBEAT, Lease, read_lease, release
from polarised.study.storage import DiskFullError
from polarised.study.worker import Outcome, State, give_up, showing, work

__all__ = ["local", "ray"]

SECONDS_TO_SAVE = 15.0
# How long a run that somebody else works on is left alone before it is looked at again.
PAUSE = 3.0


@dataclass(frozen=True)
class Event:
    """Something that happened to a run.

    Args:
        state: What happened.
        run: The run.
        reason: Why it failed, where it did.
        seconds: How long it took, where it is done.
        host: The machine it happened on, where that is another one.
        attempt: Which of its attempts it is, from 1.
    """

    state: State
    run: Run
    reason: str = ""
    seconds: float = 0.0
    host: str = ""
    attempt: int = 1


class _Waiting:
    """Runs that are to be done: at once, or after a pause where somebody else works on them."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._now, self._later = deque(runs), list[tuple[float, int, Run]]()
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._now or self._later)

    def take(self) -> Run | None:
        """Return the next run whose time has come, or None."""
        if not self._now and self._later and self._later[0][0] <= time.monotonic():
            self._now.append(heapq.heappop(self._later)[2])
        return self._now.popleft() if self._now else None

    def add(self, run: Run, *, pause: float = 0.0) -> None:
        """Put a run back, for later."""
        if not pause:
            self._now.append(run)
            return
        self._count += 1
        heapq.heappush(self._later, (time.monotonic() + pause, self._count, run))


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
        patient: Whether to wait for a run that another command works on, in case that command ends; otherwise only
            until it is clear that the other one is alive.

    Yields:
        What happens to the runs, as it happens.

    Raises:
        ConfigError: If jobs is negative, or attempts is below 1.
        DiskFullError: If the disk is full.
    """
    if jobs < 0 or attempts < 1:
        raise ConfigError(f"expected jobs from 0 (every core) and attempts from 1, got {jobs} and {attempts}")
    check_devices(run.training.device for run in runs)
    waiting, losses, seen = _Waiting(runs), Counter[str](), dict[str, Lease | None]()
    free = deque(_Worker() for _ in range(min(jobs or os.cpu_count() or 1, len(runs))))
    at_work: dict[Future[Outcome], tuple[_Worker, Run]] = {}
    try:
        while waiting or at_work:
            while free and (run := waiting.take()) is not None:
                worker = free.popleft()
                at_work[worker.submit(run, root, command)] = worker, run
                yield Event("started", run, attempt=losses[run.name] + 1)
            if not at_work:
                time.sleep(0.2)
                continue
            # In short waits, so that a run whose pause is over is begun, and Ctrl-C is heard everywhere.
            for future in wait(at_work, timeout=1.0, return_when=FIRST_COMPLETED).done:
                worker, run = at_work.pop(future)
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    worker, outcome = _Worker(), _lost(run, root, losses, attempts, worker.death())
                free.append(worker)
                if outcome.state == "full":
                    raise DiskFullError(outcome.reason)
                if outcome.state == "lost":
                    waiting.add(run)
                if outcome.state == "busy" and (patient or not _is_renewed(run, root, seen)):
                    waiting.add(run, pause=PAUSE)
                yield Event(outcome.state, run, outcome.reason, outcome.seconds, attempt=max(1, losses[run.name]))
    finally:
        everybody = [*free, *(worker for worker, _ in at_work.values())]
        for worker in everybody:
            worker.interrupt()
        deadline = time.monotonic() + SECONDS_TO_SAVE
        for worker in everybody:
            worker.join(deadline)


def _is_renewed(run: Run, root: str, seen: dict[str, Lease | None]) -> bool:
    """Return whether the owner of a run is alive: its lease has changed since it was first looked at, or is gone."""
    lease = read_lease(root, run.name)
    before = seen.setdefault(run.name, lease)
    return lease is not None and before is not None and lease.heartbeat != before.heartbeat


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
    runtime_env: Mapping[str, Any] | None = None,
) -> Iterator[Event]:
    """Do the runs as plain Ray tasks, on the cluster at `address` or on one started here.

    Ray does as many at a time as it has room for; a task whose worker or node was lost is handed to it again. Before
    the first run every node is asked for its versions and its code, whether it sees the results, and its devices. A
    node that cannot do the runs gets none, also one that joins later, and its runs stay waiting.

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
        mixed: Whether nodes with other code get runs too; otherwise they are named and get none.
        runtime_env: What Ray sets up for every task (``pip``, ``env_vars``, ...), as its documentation has it.

    Yields:
        What happens to the runs, as it happens.

    Raises:
        ConfigError: If a number is out of range, no node can do a run, or the cluster does not answer.
        DiskFullError: If the disk is full.
    """
    if jobs < 0 or attempts < 1 or num_cpus < 0 or num_gpus < 0 or memory < 0:
        raise ConfigError(
            "expected jobs, num_cpus, num_gpus and memory from 0 and attempts from 1, got "
            f"{jobs}, {num_cpus:g}, {num_gpus:g}, {memory:g} and {attempts}"
        )
    device = _check_devices(runs, num_gpus)
    # Losses are counted here, so that each is told: Ray itself would try again without a word.
    options: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": 0}
    if memory:
        options["memory"] = int(memory * (1 << 30))
    if runtime_env:
        options["runtime_env"] = dict(runtime_env)
    with ray_cluster(address) as cluster:
        check_request(cluster, num_cpus=num_cpus, num_gpus=num_gpus, memory=memory)
        nodes = _asked(cluster, root, device, runtime_env, None if mixed else code_here())
        unfit = _named_unfit(nodes)
        if len(unfit) == len(nodes):
            first = nodes[0].problem if nodes else "nothing"
            raise ConfigError(
                f"expected at least one node that can do the runs, none of {len(nodes)} can; the first says: {first}"
            )
        flight = _Flight(cluster, options, unfit, root, command, None if mixed else code_here())
        waiting, losses = _Waiting(runs), Counter[str]()
        try:
            while waiting or flight:
                while (not jobs or len(flight) < jobs) and (run := waiting.take()) is not None:
                    flight.start(run)
                for run, owner in flight.begun():
                    yield Event("started", run, host=owner.host, attempt=losses[run.name] + 1)
                for run, answer in flight.landed():
                    lease = flight.owner_of(run)
                    host = "" if lease is None else lease.host
                    if isinstance(answer, Exception):
                        outcome = _fallen(cluster, run, root, losses, attempts, answer, lease)
                    else:
                        *told, node, host = answer
                        outcome = Outcome(*told)
                        if outcome.state == "unfit":
                            flight.exclude(Node(node, host, outcome.reason))
                            outcome = Outcome("waiting", outcome.reason)
                    if outcome.state == "full":
                        raise DiskFullError(outcome.reason)
                    if outcome.state in ("busy", "lost", "waiting"):
                        waiting.add(run, pause=0.0 if outcome.state == "lost" else PAUSE)
                    yield Event(outcome.state, run, outcome.reason, outcome.seconds, host, max(1, losses[run.name]))
        finally:
            flight.stop()


def _asked(
    cluster: Any, root: str, device: str, runtime_env: Mapping[str, Any] | None, own: dict[str, str] | None
) -> list[Node]:
    """Ask every node for its code, its view of the results and, where it has GPUs, whether they can be used."""
    with showing(root) as token:
        return check_nodes(
            cluster,
            shipped(_PROBE, "probe"),
            arguments=lambda node: (root, token, device if node["Resources"].get("GPU") else "cpu"),
            own=own,
            runtime_env=runtime_env,
        )


class _Flight:
    """The tasks that a cluster has been given: who they are, which have begun, which have ended."""

    def __init__(
        self,
        cluster: Any,
        options: dict[str, Any],
        unfit: set[str],
        root: str,
        command: str,
        code: dict[str, str] | None,
    ) -> None:
        self._leases: dict[str, Lease] = {}
        self._cluster, self._unfit, self._options = cluster, unfit, options
        self._arguments = root, command, code
        self._task = cluster.remote(**options)(shipped(_TASK, "task"))
        self._runs: dict[Any, Run] = {}
        self._since: dict[str, float] = {}
        self._looked = 0.0

    def __len__(self) -> int:
        return len(self._runs)

    def start(self, run: Run) -> None:
        """Hand a run to the cluster, which decides where and when."""
        # Nodes that join later are not on the list: a task looks at its own node first.
        places = {"label_selector": {"ray.io/node-id": f"!in({','.join(sorted(self._unfit))})"}} if self._unfit else {}
        root, command, code = self._arguments
        task = self._task.options(**places) if places else self._task
        self._runs[task.remote(run.to_config(), root, command, code)] = run
        self._since[run.name] = time.time()

    def begun(self) -> Iterator[tuple[Run, Lease]]:
        """Yield the runs whose owner has shown up since the last look; only Ray knows when it starts a task."""
        if time.monotonic() - self._looked < 2.0:
            return
        self._looked = time.monotonic()
        # Ray takes them in their order, so only the first can have begun: an address is dear to ask.
        silent = [run for run in self._runs.values() if run.name not in self._leases]
        slots = int(self._cluster.cluster_resources().get("CPU", 1) / max(self._options["num_cpus"], 0.1)) + 1
        for run in silent[:slots]:
            lease = read_lease(self._arguments[0], run.name)
            if lease is not None and lease.started >= self._since[run.name] - HEARTBEAT:
                self._leases[run.name] = lease
                yield run, lease

    def owner_of(self, run: Run) -> Lease | None:
        """Return who worked on a run that has ended, where that is known."""
        known = self._leases.pop(run.name, None)
        if known is None and (found := read_lease(self._arguments[0], run.name)) is not None:
            return found if found.started >= self._since[run.name] else None
        return known

    def landed(self) -> Iterator[tuple[Run, Any]]:
        """Yield what ended within a second, with its answer or what Ray raised."""
        if not self._runs:
            time.sleep(0.2)
            return
        # In short waits, between which Ctrl-C is heard.
        finished, _ = self._cluster.wait(list(self._runs), num_returns=1, timeout=1.0)
        for reference in finished:
            run = self._runs.pop(reference)
            try:
                yield run, self._cluster.get(reference)
            except self._cluster.exceptions.RayError as error:
                yield run, error

    def exclude(self, node: Node) -> None:
        """Give a node no more runs, and say so once."""
        if node.id not in self._unfit:
            self._unfit |= _named_unfit([node])

    def stop(self) -> None:
        """Ask tasks to save and end, as Ctrl-C does; those that have not after a while are ended."""
        references = list(self._runs)
        for reference in references:
            self._cluster.cancel(reference, force=False)
        if references:
            _, left = self._cluster.wait(references, num_returns=len(references), timeout=SECONDS_TO_SAVE)
            for reference in left:
                self._cluster.cancel(reference, force=True)


_PROBE = """
def probe(root, token, device):
    try:
        from polarised.study.worker import look_around
        return look_around(root, token, device)
    except Exception as error:
        return {"problem": f"it cannot load polarised: {type(error).__name__}: {error}"}
"""
# By value, so that a node without the package can say so; on one with other code nothing of it is run.
_TASK = """
def task(config, root, command, code):
    import socket
    import ray
    here = ray.get_runtime_context().get_node_id(), socket.gethostname()
    try:
        from polarised.cluster import code_here, difference
        from polarised.study.worker import work
        problem = "" if code is None else difference(code, code_here())
    except Exception as error:
        problem = f"it cannot load polarised: {type(error).__name__}: {error}"
    if problem:
        return ("unfit", problem, 0.0, *here)
    return (*work(config, root, command), *here)
"""


def _fallen(
    cluster: Any, run: Run, root: str, losses: Counter[str], attempts: int, error: Exception, lease: Lease | None
) -> Outcome:
    """Return what becomes of a run whose task Ray could not bring to its end."""
    raised = cluster.exceptions
    if isinstance(error, raised.RuntimeEnvSetupError):
        raise ConfigError(f"expected a runtime_env that Ray can set up, it could not: {_told(error)}") from error
    if isinstance(error, raised.OutOfMemoryError):
        how = "it ran over the memory of its node and was killed by Ray"
    elif isinstance(error, raised.NodeDiedError):
        return _lost(run, root, losses, attempts, "its node was lost")
    elif isinstance(error, raised.WorkerCrashedError):
        how = "its worker process was lost"
    else:
        return give_up(run, root, f"Ray could not do it: {_told(error)}")
    # Of a process that is certainly gone nobody needs to wait for the lease to run out.
    if lease is not None:
        release(root, run.name, lease)
    return _lost(run, root, losses, attempts, how)


def _check_devices(runs: Sequence[Run], num_gpus: float) -> str:
    """Refuse GPUs that nobody would use, and devices that nobody would get; return the device of the runs."""
    devices = {run.training.device.partition(":")[0] for run in runs}
    if "cuda" in devices and not num_gpus:
        raise ConfigError("expected GPUs for runs that train on cuda, got num_gpus 0; ask for one, or train on cpu")
    if num_gpus and "cuda" not in devices:
        raise ConfigError(
            f"expected runs that train on cuda with {num_gpus:g} GPUs each, got {', '.join(sorted(devices))}; set "
            "training.device to cuda, or ask for none"
        )
    return "cuda" if "cuda" in devices else "cpu"


def _named_unfit(nodes: Sequence[Node]) -> set[str]:
    """Return the nodes that get no runs, each named with its reason."""
    unfit = [node for node in nodes if node.problem]
    for node in unfit:
        warnings.warn(f"the node {node.host} ({node.id[:8]}) gets no runs: {node.problem}", stacklevel=2)
    return {node.id for node in unfit}


class _Worker:
    """One process that does run after run, so that torch is imported once."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        _start_tracker()
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

    def join(self, deadline: float) -> None:
        """Wait until the worker has ended; one that has not by then, deep in a library, is ended: nothing is lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            self._process.join(timeout=max(0.1, deadline - time.monotonic()))
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
        self._pool.shutdown(wait=True)


def _start_tracker() -> None:
    """Start Python's own helper of worker processes deaf to SIGUSR1, which a queue sends to every process of a job."""
    if hasattr(signal, "pthread_sigmask"):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        try:
            resource_tracker.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare() -> None:
    # Between two runs there is nothing to save; training itself listens while it trains.
    for number in (getattr(signal, name) for name in ("SIGINT", "SIGUSR1") if hasattr(signal, name)):
        signal.signal(number, signal.SIG_IGN)
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
        return Outcome("lost", f"{how}; attempt {losses[run.name] + 1} of {attempts} goes on")
    return give_up(run, root, f"{how}, {attempts} times; is there enough memory?")


def _told(error: Exception) -> str:
    """Return what an error of Ray says in a line: all of it, or what stands below a traceback of the worker."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = lines[-1:] if hasattr(error, "cause") else lines
    return " ".join(words)[:500] or type(error).__name__
