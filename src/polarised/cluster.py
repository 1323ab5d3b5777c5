"""Connections to a Ray cluster: the one that is connected already, one at an address, or one started here."""

import atexit
import functools
import hashlib
import logging
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from polarised.errors import ConfigError

__all__ = [
    "Node",
    "avoiding",
    "check_nodes",
    "check_request",
    "code_here",
    "difference",
    "is_answering",
    "message_of",
    "name_unfit",
    "ray_cluster",
    "shipped",
]

SECONDS_TO_ANSWER = 5.0
SECONDS_TO_PROBE = 120.0
# Seconds to wait for a connection that was interrupted.
SECONDS_TO_CONNECT = 15.0


@contextmanager
def ray_cluster(address: str | None = None) -> Iterator[Any]:
    """Yield the connected module `ray`; afterwards a cluster started here is stopped, any other keeps running.

    Args:
        address: ``host:port``, ``ray://host:port`` or ``auto``; default: start a cluster on this machine.

    Yields:
        The module `ray`, connected.

    Raises:
        ConfigError: If Ray is not installed, the address is invalid, or there is no answer.

    >>> with ray_cluster("nobody") as ray:
    ...     pass
    Traceback (most recent call last):
    ...
    polarised.errors.ConfigError: expected the address of a Ray cluster as host:port, got 'nobody'
    """
    with _on_loopback(address):
        known = sys.modules.get("ray")
        if known is not None and known.is_initialized():
            yield known
            return
        handlers = _handlers()
        with _running(address, handlers) as ray, _keeping_signals(handlers):
            yield ray


@contextmanager
def _running(address: str | None, handlers: Mapping[int, Any]) -> Iterator[Any]:
    """Start Ray and shut it down in a thread of its own, while this one listens to Ctrl-C.

    An interrupt in the middle of either would leave half of Ray behind, which crashes when the process ends. The thread
    stays for as long as Ray does, since the system ends the processes of a cluster with the thread that started them.
    """
    started: Future[Any] = Future()
    over = threading.Event()

    def run() -> None:
        try:
            ray = _connected(address)
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(ray)
        over.wait()
        ray.shutdown()

    thread = threading.Thread(target=run, name="ray", daemon=True)
    thread.start()
    try:
        while not wait([started], timeout=0.1).done:
            _handle(handlers)
        yield started.result()
    except KeyboardInterrupt:
        if not started.done():
            warnings.warn("stopping; Ray is still starting and is shut down first", stacklevel=2)
        raise
    finally:
        over.set()
        given_up = time.monotonic() + SECONDS_TO_CONNECT
        while thread.is_alive():
            thread.join(timeout=0.1)
            _handle(handlers)
            if address is not None and not started.done() and time.monotonic() > given_up:
                # Nothing runs here, and Ray would wait at the end of the process for a cluster that never answers.
                known: Any = sys.modules.get("ray")
                if hasattr(known, "shutdown"):
                    atexit.unregister(known.shutdown)
                break


def _handle(handlers: Mapping[int, Any]) -> None:
    """Take back the signals that Ray takes for itself while it starts."""
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _connected(address: str | None) -> Any:
    try:
        import ray
    except ImportError as error:
        raise ConfigError("the ray executor needs Ray: pip install ray, or use local") from error
    if address is not None:
        _check_answers(address)
    # Ray warns about a change in how it hides GPUs from tasks that request none; this selects the new behaviour.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    _route_messages()
    own: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        # Without an address Ray would join a cluster that it finds on this machine or in its environment.
        ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"expected a Ray cluster at {address or 'this machine'}, but could not connect: {reason}; check that "
            f"it runs the same Ray ({ray.__version__}), and if it requires a token, set RAY_AUTH_MODE=token and "
            "the token here"
        ) from error
    return ray


def _route_messages() -> None:
    """Send what a cluster reports of its nodes to Ray's logger: Ray prints it between the lines of our output."""
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda data, *_, **__: logging.getLogger("ray").warning("\n".join(data["lines"]))


# With this variable, Ray serves only this machine instead of all its networks, on any system.
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextmanager
def _on_loopback(address: str | None) -> Iterator[None]:
    """Restrict a cluster started here to this machine, since anyone who reaches it can run code; also find such one.

    Ray would look for it at this machine's network address, and wait there silently.
    """
    alone = address is None or _serves_loopback_alone(address)
    if not alone or _LOOPBACK in os.environ:
        yield
        return
    os.environ[_LOOPBACK] = "0"
    _serve_networks(False)
    try:
        yield
    finally:
        os.environ.pop(_LOOPBACK, None)
        _serve_networks(sys.platform not in ("darwin", "win32"))


def _serve_networks(served: bool) -> None:
    """Change what Ray took from the variable when it was imported, if it was: that may have been long ago."""
    constants: Any = sys.modules.get("ray._private.ray_constants")
    if constants is not None:
        constants.ENABLE_RAY_CLUSTER = served


def _handlers() -> dict[int, Any]:
    """Return the signal handlers of this process for termination; none outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]
    return {number: handler for number in numbers if callable(handler := signal.getsignal(number))}


@contextmanager
def _keeping_signals(handlers: Mapping[int, Any]) -> Iterator[None]:
    """Keep our own signal handlers: Ray replaces that of SIGTERM and prints a C++ stack trace.

    Ray also loses the type of an interrupt that comes while it waits; the original one is raised again.
    """
    heard: list[KeyboardInterrupt] = []

    def hearing(handler: Callable[..., Any]) -> Callable[..., None]:
        def hear(number: int, frame: Any) -> None:
            try:
                handler(number, frame)
            except KeyboardInterrupt as interrupt:
                heard.append(interrupt)
                raise

        return hear

    for number, handler in handlers.items():
        signal.signal(number, hearing(handler))
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if heard and interrupt is not heard[-1]:
            raise heard[-1] from None
        raise
    finally:
        _handle(handlers)


@dataclass(frozen=True)
class Node:
    """A node of a cluster: its identity, and why it cannot be used, if so.

    Args:
        id: Its identifier in Ray.
        host: The name of the machine.
        problem: Why it cannot be used; empty if it can.
    """

    id: str
    host: str
    problem: str = ""


def check_request(
    ray: Any, *, num_cpus: float, num_gpus: float, memory: float = 0.0, unfit: Collection[str] = ()
) -> None:
    """Refuse tasks that are too large for every node of a cluster.

    Args:
        ray: The connected module.
        num_cpus: CPUs per task.
        num_gpus: GPUs per task.
        memory: Gigabytes per task; 0: no request.
        unfit: Ray's names of the nodes that get no tasks.

    Raises:
        ConfigError: If every node is smaller; Ray would wait forever for a larger one.
    """
    sizes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["NodeID"] not in unfit]
    asked = {"CPU": num_cpus, "GPU": num_gpus, "memory": memory * (1 << 30)}
    if any(all(size.get(kind, 0) >= amount for kind, amount in asked.items()) for size in sizes):
        return
    most = {kind: max((size.get(kind, 0) for size in sizes), default=0) for kind in asked}
    room = (f", {memory:g} GB of memory", f" and {most['memory'] / (1 << 30):.1f} GB") if memory else ("", "")
    raise ConfigError(
        f"expected a node with {num_cpus:g} CPUs and {num_gpus:g} GPUs{room[0]}, but the largest of {len(sizes)} "
        f"{'that can execute the runs ' if unfit else ''}has {most['CPU']:g} and {most['GPU']:g}{room[1]}; "
        "request less (num_cpus, num_gpus, memory) or add a node"
    )


def check_nodes(
    ray: Any,
    probe: Callable[..., Mapping[str, str]],
    *,
    arguments: Callable[[Mapping[str, Any]], tuple[Any, ...]] = lambda _: (),
    own: Mapping[str, str] | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    seconds: float = SECONDS_TO_PROBE,
) -> list[Node]:
    """Probe every node, and return why it cannot be used, if so.

    Args:
        ray: The connected module.
        probe: A function made by `shipped` that returns the result of `code_here`, and ``problem`` if there is one.
        arguments: Returns the arguments of the probe on a node, given Ray's description of it.
        own: The required code of a node; empty if it may have other code.
        runtime_env: Ray's runtime environment of a task.
        seconds: The time limit for an answer.

    Returns:
        Every live node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    options: dict[str, Any] = {"num_cpus": 0, "max_retries": 0}
    if runtime_env:
        options["runtime_env"] = dict(runtime_env)
    task = ray.remote(**options)(probe)
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    asked = {
        name: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False)).remote(
            *arguments(nodes[name])
        )
        for name in nodes
    }
    answered, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds)
    found = []
    for name, reference in asked.items():
        host = str(nodes[name].get("NodeManagerHostname", name))
        if reference not in answered:
            ray.cancel(reference, force=True)
            found.append(Node(name, host, f"it did not answer within {seconds:.0f} s"))
            continue
        try:
            answer = ray.get(reference)
        except Exception as error:
            answer = {"problem": " ".join(str(error).split())[:300]}
        found.append(Node(name, host, answer.get("problem") or difference(own or {}, answer)))
    return found


def name_unfit(nodes: Sequence[Node], *, work: str = "runs") -> set[str]:
    """Warn about every node that cannot be used, with the reason.

    Args:
        nodes: The result of `check_nodes`.
        work: What such a node does not get.

    Returns:
        Ray's names of these nodes.
    """
    unfit = [node for node in nodes if node.problem]
    for node in unfit:
        warnings.warn(f"the node {node.host} ({node.id[:8]}) gets no {work}: {node.problem}", stacklevel=2)
    return {node.id for node in unfit}


def avoiding(unfit: Collection[str]) -> dict[str, Any]:
    """Return the options of a Ray task that keep it off some nodes.

    Args:
        unfit: Ray's names of the nodes.

    Returns:
        The options; empty without such nodes.

    >>> avoiding({"b", "a"})
    {'label_selector': {'ray.io/node-id': '!in(a,b)'}}
    """
    return {"label_selector": {"ray.io/node-id": f"!in({','.join(sorted(unfit))})"}} if unfit else {}


def message_of(error: Exception) -> str:
    """Return the message of a Ray error in one line: all of it, or the part after the traceback of the worker.

    Args:
        error: The error.

    Returns:
        At most 500 characters.

    >>> message_of(RuntimeError("no such"))
    'no such'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = lines[-1:] if hasattr(error, "cause") else lines
    return " ".join(words)[:500] or type(error).__name__


def shipped(source: str, name: str) -> Callable[..., Any]:
    """Return a function that is pickled by value, so that a node without the package can still answer.

    Args:
        source: The definition, with its own imports.
        name: Its name.

    Returns:
        The function.

    >>> shipped("def double(x): return 2 * x", "double")(4)
    8
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source, namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def difference(own: Mapping[str, str], told: Mapping[str, str]) -> str:
    """Describe how the code of another machine differs from that of this one.

    Args:
        own: The result of `code_here` on this machine.
        told: The result on the other machine.

    Returns:
        The differences; empty if there are none.

    >>> difference({"torch": "2.13.0"}, {"torch": "2.12.0"})
    'its torch is 2.12.0, here it is 2.13.0'
    """
    differing = [name for name in own if told.get(name) != own[name]]
    return "; ".join(f"its {name} is {told.get(name, 'none')}, here it is {own[name]}" for name in differing)


# Parts of the package that neither train nor measure.
_BESIDE = ("cli", "report", "cluster.py")


@functools.cache
def code_here() -> dict[str, str]:
    """Return what determines the results of a run on this machine: versions, and a digest of the code.

    Returns:
        The versions of polarised and torch, and 12 digits of a SHA-256 over the package.
    """
    from importlib import metadata

    home, digest = Path(__file__).parent, hashlib.sha256()
    for file in sorted(home.rglob("*.py")):
        name = file.relative_to(home)
        if name.parts[0] not in _BESIDE:
            digest.update(name.as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    versions = {}
    for package in ("polarised", "torch"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "none"
    return {**versions, "code": digest.hexdigest()[:12]}


def _serves_loopback_alone(address: str) -> bool:
    """Return whether a cluster on this machine answers on the loopback address but not on the network address."""
    host, port = _place(address)
    if host not in ("localhost", "127.0.0.1", "::1") or port is None:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            # Nothing is sent: the system only returns the source address.
            one.connect(("192.0.2.1", 80))
            socket.create_connection((one.getsockname()[0], port), timeout=SECONDS_TO_ANSWER).close()
        except OSError:
            return True
    return False


def _place(address: str) -> tuple[str | None, int | None]:
    try:
        place = urlsplit(address if "://" in address else f"//{address}")
        return place.hostname, place.port
    except ValueError:
        return None, None


def is_answering(address: str) -> bool:
    """Return whether a cluster accepts connections, tried once.

    Args:
        address: ``host:port`` or ``ray://host:port``; ``auto`` has no place that could be tried.

    Returns:
        False only if the connection was tried and failed.

    >>> is_answering("auto")
    True
    """
    host, port = _place(address)
    if host is None or port is None:
        return True
    try:
        socket.create_connection((host, port), timeout=SECONDS_TO_ANSWER).close()
    except OSError:
        return False
    return True


def _check_answers(address: str) -> None:
    """Test the connection once: Ray itself would retry for minutes."""
    if address == "auto":
        return
    host, port = _place(address)
    if host is None or port is None:
        raise ConfigError(f"expected the address of a Ray cluster as host:port, got {address!r}")
    try:
        socket.create_connection((host, port), timeout=SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise ConfigError(
            f"expected a Ray cluster at {address}, but there is no answer ({error}); check the address "
            "(ray start --head prints it), or leave it out to start one on this machine"
        ) from error
