"""A Ray cluster to work on: the one that is connected, the one at an address, or one started here for a while."""

import functools
import hashlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from polarised.errors import ConfigError

__all__ = ["Node", "check_nodes", "check_request", "code_here", "difference", "ray_cluster", "shipped"]

SECONDS_TO_ANSWER = 5.0
SECONDS_TO_PROBE = 120.0


@contextmanager
def ray_cluster(address: str | None = None) -> Iterator[Any]:
    """Give the module `ray`, connected; afterwards a cluster started here is ended, any other is left running.

    Args:
        address: ``host:port``, ``ray://host:port`` or ``auto``; without one a cluster is started on this machine.

    Yields:
        The module `ray`, connected.

    Raises:
        ConfigError: If Ray is not installed, the address is none, or nobody answers there.

    >>> with ray_cluster("nobody") as ray:
    ...     pass
    Traceback (most recent call last):
    ...
    polarised.errors.ConfigError: expected the address of a Ray cluster as host:port, got 'nobody'
    """
    with _on_loopback(address):
        try:
            import ray
        except ImportError as error:
            raise ConfigError("the ray executor needs Ray: pip install ray, or use local") from error
        if ray.is_initialized():
            yield ray
            return
        if address is not None:
            _check_answers(address)
        # Ray warns of a change in how it hides GPUs from tasks that ask for none; this takes the new way.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        own: dict[str, Any] = {} if address else {"include_dashboard": False}
        before = _handlers()
        try:
            # Without an address Ray would join a cluster it finds on this machine or in its environment.
            ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
        except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"expected a Ray cluster at {address or 'this machine'}, could not connect: {reason}; does it run the "
                f"same Ray ({ray.__version__}), and if it asks for a token, are RAY_AUTH_MODE=token and the token set "
                "here?"
            ) from error
        try:
            with _keeping_signals(before):
                yield ray
        finally:
            ray.shutdown()


# What Ray reads, on any system, to serve this machine alone instead of every network it is on.
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextmanager
def _on_loopback(address: str | None) -> Iterator[None]:
    """Keep a cluster that is started here off the network, since whoever reaches it may run anything; find one that is.

    Ray would look for it at this machine's address on its network, and wait there without a word.
    """
    alone = address is None or _serves_loopback_alone(address)
    if not alone or _LOOPBACK in os.environ or "ray" in sys.modules:
        yield
        return
    os.environ[_LOOPBACK] = "0"
    try:
        yield
    finally:
        os.environ.pop(_LOOPBACK, None)


def _handlers() -> dict[int, Any]:
    """Return what this process does when it is asked to end; nothing where another thread would be asked."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]
    return {number: handler for number in numbers if callable(handler := signal.getsignal(number))}


@contextmanager
def _keeping_signals(handlers: Mapping[int, Any]) -> Iterator[None]:
    """Keep our own ways of ending: Ray takes SIGTERM for itself and prints a stack of C++ when it comes.

    Ray also forgets which interrupt it was that came while it waited; the one that was heard is raised again.
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
        for number, handler in handlers.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Node:
    """A machine of a cluster as it answered: who it is, what it has, and why it cannot be used, if so.

    Args:
        id: What Ray calls it.
        host: The name of the machine.
        problem: Why it cannot be used; empty if it can.
    """

    id: str
    host: str
    problem: str = ""


def check_request(ray: Any, *, num_cpus: float, num_gpus: float, memory: float = 0.0) -> None:
    """Refuse at once what no node of a cluster could ever do.

    Args:
        ray: The connected module.
        num_cpus: Processors a task takes.
        num_gpus: GPUs a task takes.
        memory: Gigabytes a task takes; 0 where that is not said.

    Raises:
        ConfigError: Every node is smaller; Ray would wait for a larger one without end.
    """
    sizes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    asked = {"CPU": num_cpus, "GPU": num_gpus, "memory": memory * (1 << 30)}
    if any(all(size.get(kind, 0) >= amount for kind, amount in asked.items()) for size in sizes):
        return
    most = {kind: max((size.get(kind, 0) for size in sizes), default=0) for kind in asked}
    room = (f", {memory:g} GB of memory", f" and {most['memory'] / (1 << 30):.1f} GB") if memory else ("", "")
    raise ConfigError(
        f"expected a node with {num_cpus:g} processors and {num_gpus:g} GPUs{room[0]}, the largest of {len(sizes)} has "
        f"{most['CPU']:g} and {most['GPU']:g}{room[1]}; ask for less (num_cpus, num_gpus, memory) or add a node"
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
    """Ask every node what it has, and say why it cannot be used, if so.

    Args:
        ray: The connected module.
        probe: A function made by `shipped` that returns what `code_here` does, and ``problem`` where there is one.
        arguments: Gives what the probe is called with on a node, as Ray describes it.
        own: What a node must have; nothing where it may have other code.
        runtime_env: What Ray sets up for a task.
        seconds: How long a node may take to answer.

    Returns:
        Every living node.
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
            told = ray.get(reference)
        except Exception as error:
            told = {"problem": " ".join(str(error).split())[:300]}
        found.append(Node(name, host, told.get("problem") or difference(own or {}, told)))
    return found


def shipped(source: str, name: str) -> Callable[..., Any]:
    """Return a function that travels by value, so that a node without the package can still answer.

    Args:
        source: The definition; it imports what it needs itself.
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
    """Return in words what another machine has otherwise than this one.

    Args:
        own: What is here, as `code_here` says.
        told: What is there.

    Returns:
        The differences; nothing where there are none.

    >>> difference({"torch": "2.13.0"}, {"torch": "2.12.0"})
    'its torch is 2.12.0, here it is 2.13.0'
    """
    differing = [name for name in own if told.get(name) != own[name]]
    return "; ".join(f"its {name} is {told.get(name, 'none')}, here it is {own[name]}" for name in differing)


# What neither trains nor measures.
_BESIDE = ("cli", "report", "cluster.py")


@functools.cache
def code_here() -> dict[str, str]:
    """Return what decides the results of a run on this machine: versions, and a digest of the code that trains.

    Returns:
        The versions of polarised and torch, and 12 letters of a SHA-256 over the package.
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
    """Return whether a cluster of this machine answers on loopback, and not on the network the machine is on."""
    host, port = _place(address)
    if host not in ("localhost", "127.0.0.1", "::1") or port is None:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            # Nothing is sent: the system only says from where it would be.
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


def _check_answers(address: str) -> None:
    """Ask once whether anybody is there: Ray itself would try for minutes."""
    if address == "auto":
        return
    host, port = _place(address)
    if host is None or port is None:
        raise ConfigError(f"expected the address of a Ray cluster as host:port, got {address!r}")
    try:
        socket.create_connection((host, port), timeout=SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise ConfigError(
            f"expected a Ray cluster at {address}, nobody answers there ({error}); check the address "
            "(ray start --head prints it), or leave it out to start one on this machine"
        ) from error
