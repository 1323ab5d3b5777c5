"""Executors: where the runs of a study are executed.

Every executor is a generator of events over runs, which are idempotent: a lost run is simply
started again and resumes from its checkpoint. There is no scheduler: the next run goes to the next free core.
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, NoReturn

from polarised.cluster import (
    Node,
    avoiding,
    check_nodes,
    check_request,
    code_here,
    is_answering,
    message_of,
    name_unfit,
    ray_cluster,
    shipped,
)
from polarised.errors import ConfigError
from polarised.registry import register
from polarised.study.config import Run, check_devices
from polarised.study.leases import HEARTBEAT, Lease, read_lease, release
from polarised.study.storage import DiskFullError
from polarised.study.worker import Outcome, State, give_up, showing, work

__all__ = ["local", "ray"]

SECONDS_TO_SAVE = 15.0
# Seconds before a run that another process works on is checked again.
PAUSE = 3.0
SECONDS_BETWEEN_LOOKS = 10.0


@dataclass(frozen=True)
class Event:
    """An event of a run.

    Args:
        state: The new state.
        run: The run.
        reason: Why it failed, if it did.
        seconds: The duration, if it is done.
        host: The machine, if it is another one.
        attempt: The number of the attempt, from 1.
        steps: The number of training steps, if it is done and they are known, otherwise 0.
    """

    state: State
    run: Run
    reason: str = ""
    seconds: float = 0.0
    host: str = ""
    attempt: int = 1
    steps: int = 0


class _Waiting:
    """Runs to do: at once, or after a pause if another process works on them."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._now, self._later = deque(runs), list[tuple[float, int, Run]]()
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._now or self._later)

    def take(self) -> Run | None:
        """Return the next run that is due, or None."""
        if not self._now and self._later and self._later[0][0] <= time.monotonic():
            self._now.append(heapq.heappop(self._later)[2])
        return self._now.popleft() if self._now else None

    def add(self, run: Run, *, pause: float = 0.0) -> None:
        """Put a run back for later."""
        if not pause:
            self._now.append(run)
            return
        self._count += 1
        heapq.heappush(self._later, (time.monotonic() + pause, self._count, run))


@register("executor", title="this machine", summary="one process per core", example={"jobs": 1})
def local(
    runs: Sequence[Run], root: str, command: str = "", *, jobs: int = 0, attempts: int = 3, patient: bool = True
) -> Iterator[Event]:
    """Execute the runs on this machine, in single-threaded processes.

    A killed worker is replaced and its run resumed; workers end with their parent.

    Args:
        runs: The runs to do.
        root: The folder of the study, in which every run has its own.
        command: The command, recorded with every run.
        jobs: The number of parallel runs; 0: one per core.
        attempts: How often a run is started before it is marked as failed.
        patient: Whether to wait for a run that another command works on, in case that command ends; otherwise wait only
            until it is clear that the other command is alive.

    Yields:
        The events of the runs, as they happen.

    Raises:
        ConfigError: If jobs is negative, or attempts is below 1.
        DiskFullError: If the disk is full.
    """
    if jobs < 0 or attempts < 1:
        raise ConfigError(
            f"expected jobs of at least 0 (0: one per core) and attempts of at least 1, got {jobs} and {attempts}"
        )
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
            # Wait in short intervals, to start runs whose pause is over and to react to Ctrl-C on every system.
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
                attempt = max(1, losses[run.name])
                yield Event(outcome.state, run, outcome.reason, outcome.seconds, attempt=attempt, steps=outcome.steps)
    except KeyboardInterrupt:
        _acknowledge()
        raise
    finally:
        everybody = [*free, *(worker for worker, _ in at_work.values())]
        for worker in everybody:
            worker.interrupt()
        deadline = time.monotonic() + SECONDS_TO_SAVE
        for worker in everybody:
            worker.join(deadline)


def _acknowledge() -> None:
    """Confirm an interrupt at once: workers may take seconds to end."""
    warnings.warn("stopping; runs in training save a checkpoint first", stacklevel=2)


def _is_renewed(run: Run, root: str, seen: dict[str, Lease | None]) -> bool:
    """Return whether the owner of a run is alive: its lease has changed since it was first read, or is gone."""
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
    """Execute the runs as plain Ray tasks, on the cluster at `address` or on one started here.

    Ray executes as many at a time as fit; a task whose worker or node is lost is submitted again. Before
    the first run, every node is checked for its versions, its code, its devices and its access to the results. A
    node that cannot execute the runs gets none, even if it joins later, and its runs keep waiting.

    Args:
        runs: The runs to do.
        root: A folder shared by all nodes, or an fsspec address such as ``s3://bucket/study``.
        command: The command, recorded with every run.
        address: The address of the cluster; default: start a cluster on this machine.
        jobs: The largest number of parallel runs; 0: no limit.
        num_cpus: CPUs per run.
        num_gpus: GPUs per run.
        memory: Gigabytes per run; 0: no request.
        attempts: How often a run is started before it is marked as failed.
        mixed: Whether to use nodes with different code; otherwise a warning names them and they get no runs.
        runtime_env: Ray's runtime environment of every task (``pip``, ``env_vars``, ...), see its documentation.

    Yields:
        The events of the runs, as they happen.

    Raises:
        ConfigError: If a number is out of range, no node can do a run, or the cluster does not answer.
        DiskFullError: If the disk is full.
    """
    if jobs < 0 or attempts < 1 or num_cpus < 0 or num_gpus < 0 or memory < 0:
        raise ConfigError(
            "expected jobs, num_cpus, num_gpus and memory of at least 0 and attempts of at least 1, got "
            f"{jobs}, {num_cpus:g}, {num_gpus:g}, {memory:g} and {attempts}"
        )
    device = _check_devices(runs, num_gpus)
    # Losses are counted here, so that each is reported: Ray itself would retry silently.
    options: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": 0}
    if memory:
        options["memory"] = int(memory * (1 << 30))
    if runtime_env:
        options["runtime_env"] = dict(runtime_env)
    request: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": num_gpus, "memory": memory}
    own = {} if mixed else code_here()
    with ExitStack() as stack:
        cluster = stack.enter_context(ray_cluster(address))
        check_request(cluster, **request)
        # It stays until the end: a task looks for it on its own node, which may have joined later.
        token = stack.enter_context(showing(root))
        nodes = check_nodes(
            cluster,
            shipped(_PROBE, "probe"),
            arguments=lambda node: (root, token, device if node["Resources"].get("GPU") else "cpu"),
            own=own,
            runtime_env=runtime_env,
        )
        unfit = name_unfit(nodes)
        if len(unfit) == len(nodes):
            first = nodes[0].problem if nodes else "nothing"
            raise ConfigError(
                f"expected at least one node that can execute the runs, but none of {len(nodes)} can; the first "
                f"reports: {first}"
            )
        check_request(cluster, **request, unfit=unfit)
        flight = _Tasks(cluster, options, request, unfit, address, (root, command, own, token, device))
        waiting, losses = _Waiting(runs), Counter[str]()
        try:
            while waiting or flight:
                while (not jobs or len(flight) < jobs) and (run := waiting.take()) is not None:
                    flight.start(run)
                flight.look_for_room()
                for run, owner in flight.begun():
                    yield Event("started", run, host=owner.host, attempt=losses[run.name] + 1)
                for run, answer in flight.landed():
                    lease = flight.owner_of(run)
                    host = "" if lease is None else lease.host
                    if isinstance(answer, Exception):
                        outcome = _outcome_of_error(cluster, run, root, losses, attempts, answer, lease)
                    else:
                        *answered, node, host = answer
                        outcome = Outcome(*answered)
                        if outcome.state == "unfit":
                            flight.exclude(Node(node, host, outcome.reason))
                            outcome = Outcome("waiting", outcome.reason)
                    if outcome.state == "full":
                        raise DiskFullError(outcome.reason)
                    if outcome.state in ("busy", "lost", "waiting"):
                        waiting.add(run, pause=0.0 if outcome.state == "lost" else PAUSE)
                    attempt = max(1, losses[run.name])
                    yield Event(
                        outcome.state, run, outcome.reason, outcome.seconds, host, attempt=attempt, steps=outcome.steps
                    )
        except KeyboardInterrupt:
            _acknowledge()
            raise
        finally:
            flight.stop()


class _Tasks:
    """The tasks submitted to a cluster: which have started, and which have ended."""

    def __init__(
        self,
        cluster: Any,
        options: dict[str, Any],
        request: dict[str, Any],
        unfit: set[str],
        address: str | None,
        arguments: tuple[Any, ...],
    ) -> None:
        self._leases: dict[str, Lease] = {}
        self._cluster, self._unfit, self._options, self._request = cluster, unfit, options, request
        self._arguments, self._root, self._address = arguments, str(arguments[0]), address
        self._task = cluster.remote(**options)(shipped(_TASK, "task"))
        self._runs: dict[Any, Run] = {}
        self._since: dict[str, float] = {}
        self._looked, self._looked_for_room, self._stranded = 0.0, time.monotonic(), False

    def __len__(self) -> int:
        return len(self._runs)

    def start(self, run: Run) -> None:
        """Submit a run to the cluster, which decides where and when to execute it."""
        # Nodes that join later are not in the list, so a task checks its own node first.
        task = self._task.options(**avoiding(self._unfit)) if self._unfit else self._task
        self._runs[task.remote(run.to_config(), *self._arguments)] = run
        self._since[run.name] = time.time()

    def look_for_room(self) -> None:
        """Warn once if no node is left that could execute a run, or the cluster is gone: Ray waits silently."""
        if time.monotonic() - self._looked_for_room < SECONDS_BETWEEN_LOOKS:
            return
        words = ""
        if self._address is not None and not is_answering(self._address):
            words = (
                f"the Ray cluster at {self._address} no longer answers; unless it does within a minute, Ray ends this "
                "command, and the same command resumes the runs"
            )
        else:
            try:
                check_request(self._cluster, **self._request, unfit=self._unfit)
            except ConfigError as error:
                words = f"no run can start until a node joins: {error}"
        if words and not self._stranded:
            warnings.warn(words, stacklevel=2)
        self._looked_for_room, self._stranded = time.monotonic(), bool(words)

    def begun(self) -> Iterator[tuple[Run, Lease]]:
        """Yield the runs whose lease has appeared since the last call; Ray does not report when it starts a task."""
        if time.monotonic() - self._looked < 2.0:
            return
        self._looked = time.monotonic()
        # Ray starts tasks in order, so only the first can have started: requests to an address are expensive.
        silent = [run for run in self._runs.values() if run.name not in self._leases]
        slots = int(self._cluster.cluster_resources().get("CPU", 1) / max(self._options["num_cpus"], 0.1)) + 1
        for run in silent[:slots]:
            lease = read_lease(self._root, run.name)
            if lease is not None and lease.started >= self._since[run.name] - HEARTBEAT:
                self._leases[run.name] = lease
                yield run, lease

    def owner_of(self, run: Run) -> Lease | None:
        """Return the last owner of a run that has ended, if known."""
        known = self._leases.pop(run.name, None)
        if known is None and (found := read_lease(self._root, run.name)) is not None:
            return found if found.started >= self._since[run.name] else None
        return known

    def landed(self) -> Iterator[tuple[Run, Any]]:
        """Yield the tasks that end within a second, with the result or the error of Ray."""
        if not self._runs:
            time.sleep(0.2)
            return
        # Wait in short intervals, to react to Ctrl-C.
        finished, _ = self._cluster.wait(list(self._runs), num_returns=1, timeout=1.0)
        for reference in finished:
            run = self._runs.pop(reference)
            try:
                yield run, self._cluster.get(reference)
            except self._cluster.exceptions.RayError as error:
                yield run, error

    def exclude(self, node: Node) -> None:
        """Exclude a node from further runs, with one warning."""
        if node.id not in self._unfit:
            self._unfit |= name_unfit([node])

    def stop(self) -> None:
        """Ask tasks to save and stop, like Ctrl-C; those that do not stop in time are killed."""
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
# Sent as source, so that a node without the package can report that; on a node with other code, that code is not run.
_TASK = """
def task(config, root, command, own, token, device):
    import socket
    import ray
    here = ray.get_runtime_context().get_node_id(), socket.gethostname()
    try:
        from polarised.cluster import difference
        from polarised.study.worker import look_around, work
        found = look_around(root, token, device)
        problem = found.get("problem") or difference(own, found)
    except Exception as error:
        problem = f"it cannot load polarised: {type(error).__name__}: {error}"
    if problem:
        return ("unfit", problem, 0.0, *here)
    return (*work(config, root, command), *here)
"""


def _outcome_of_error(
    cluster: Any, run: Run, root: str, losses: Counter[str], attempts: int, error: Exception, lease: Lease | None
) -> Outcome:
    """Return the outcome of a run whose task Ray could not finish."""
    raised = cluster.exceptions
    if isinstance(error, raised.RuntimeEnvSetupError):
        raise ConfigError(
            f"expected a runtime_env that Ray can set up, but it could not: {message_of(error)}"
        ) from error
    if isinstance(error, raised.OutOfMemoryError):
        how = "it exceeded the memory of its node and was killed by Ray"
    elif isinstance(error, raised.NodeDiedError):
        return _lost(run, root, losses, attempts, "its node was lost")
    elif isinstance(error, raised.WorkerCrashedError):
        how = "its worker process was lost"
    else:
        return give_up(run, root, f"Ray could not execute it: {message_of(error)}")
    # The process is gone for certain, so nobody needs to wait until its lease expires.
    if lease is not None:
        release(root, run.name, lease)
    return _lost(run, root, losses, attempts, how)


def _check_devices(runs: Sequence[Run], num_gpus: float) -> str:
    """Refuse GPUs that no run uses and devices that no run gets; return the device of the runs."""
    devices = {run.training.device.partition(":")[0] for run in runs}
    if "cuda" in devices and not num_gpus:
        raise ConfigError("expected GPUs for runs that train on cuda, got num_gpus 0; request one, or train on cpu")
    if num_gpus and "cuda" not in devices:
        raise ConfigError(
            f"expected runs that train on cuda with {num_gpus:g} GPUs each, got {', '.join(sorted(devices))}; set "
            "training.device to cuda, or request no GPU"
        )
    return "cuda" if "cuda" in devices else "cpu"


class _Worker:
    """A process that executes one run after another, so that torch is imported once."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        _start_tracker()
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_prepare)
        self._process: Any = None

    def submit(self, run: Run, root: str, command: str) -> Future[Outcome]:
        """Send a run to the process; start it if there is none or it died between two runs."""
        before = set(multiprocessing.active_children())
        with _single_threaded(), _blocking("SIGINT", "SIGUSR1"):
            try:
                future = self._pool.submit(work, run.to_config(), root, command)
            except BrokenProcessPool:
                self._start()
                future = self._pool.submit(work, run.to_config(), root, command)
        if self._process is None:
            self._process = next(iter(set(multiprocessing.active_children()) - before), None)
        return future

    def interrupt(self) -> None:
        """Interrupt the worker, so that training saves a checkpoint and stops."""
        if self._process is not None and self._process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGINT)

    def death(self) -> str:
        """Return a description of how the process ended."""
        process = self._process
        if process is None:
            return "its worker process ended"
        process.join(timeout=5)
        if process.exitcode == -signal.SIGKILL:
            return "its worker process was killed, as happens when memory runs out"
        if process.exitcode is not None and process.exitcode < 0:
            return f"its worker process was ended by {signal.Signals(-process.exitcode).name}"
        return f"its worker process ended with code {process.exitcode}"

    def join(self, deadline: float) -> None:
        """Wait until the worker has ended; one that is stuck in a library is killed, without loss of results."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            self._process.join(timeout=max(0.1, deadline - time.monotonic()))
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
        self._pool.shutdown(wait=True)


def _start_tracker() -> None:
    """Start Python's resource tracker with SIGUSR1 ignored, which a queue sends to every process of a job."""
    with _blocking("SIGUSR1"):
        resource_tracker.ensure_running()


@contextmanager
def _blocking(*names: str) -> Iterator[None]:
    """Block signals in the block, and in the processes started in it until they unblock them; none is lost."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in names])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare() -> None:
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGUSR1") if hasattr(signal, name)]
    # Signals are blocked until here: Python would end with a traceback.
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    parent = multiprocessing.parent_process()
    if parent is not None:
        # A separate thread, so that a worker inside a matrix product also ends with its parent; started before
        # torch is loaded, which takes seconds in which the parent may end.
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    from polarised.training import keep_freed_memory

    keep_freed_memory()
    # Between two runs there is nothing to save; training has its own handler.
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """End a worker that is still loading its libraries."""
    os._exit(128 + number)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Limit processes started in the block to one thread; libraries read the limit only when they are loaded."""
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
        return Outcome("lost", f"{how}; continuing with attempt {losses[run.name] + 1} of {attempts}")
    return give_up(run, root, f"{how}, {attempts} times; check that there is enough memory")
