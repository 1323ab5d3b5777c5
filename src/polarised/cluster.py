"""Connections to a Ray cluster: the one that is connected already, one at an address, or one started here."""

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
        try:
            import ray
        except ImportError as error:
            raise ConfigError("the ray executor needs Ray: pip install ray, or use local") from error
        if ray.is_initialized():
            yield ray
            return
        if address is not None:
            _check_answers(address)
        # Ray warns about a change in how it hides GPUs from tasks that request none; this selects the new behaviour.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        own: dict[str, Any] = {} if address else {"include_dashboard": False}
        before = _handlers()
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
        try:
            with _keeping_signals(before):
                yield ray
        finally:
            ray.shutdown()


# With this variable, Ray serves only this machine instead of all its networks, on any system.
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextmanager
def _on_loopback(address: str | None) -> Iterator[None]:
    """Restrict a cluster started here to this machine, since anyone who reaches it can run code; also find such one.

    Ray would look for it at this machine's network address, and wait there silently.
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
        for number, handler in handlers.items():
            signal.signal(number, handler)


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


def check_request(ray: Any, *, num_cpus: float, num_gpus: float, memory: float = 0.0) -> None:
    """Refuse tasks that are too large for every node of a cluster.

    Args:
        ray: The connected module.
        num_cpus: CPUs per task.
        num_gpus: GPUs per task.
        memory: Gigabytes per task; 0: no request.

    Raises:
        ConfigError: If every node is smaller; Ray would wait forever for a larger one.
    """
    sizes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    asked = {"CPU": num_cpus, "GPU": num_gpus, "memory": memory * (1 << 30)}
    if any(all(size.get(kind, 0) >= amount for kind, amount in asked.items()) for size in sizes):
        return
    most = {kind: max((size.get(kind, 0) for size in sizes), default=0) for kind in asked}
    room = (f", {memory:g} GB of memory", f" and {most['memory'] / (1 << 30):.1f} GB") if memory else ("", "")
    raise ConfigError(
        f"expected a node with {num_cpus:g} CPUs and {num_gpus:g} GPUs{room[0]}, but the largest of {len(sizes)} has "
        f"{most['CPU']:g} and {most['GPU']:g}{room[1]}; request less (num_cpus, num_gpus, memory) or add a node"
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
            told = ray.get(reference)
        except Exception as error:
            told = {"problem": " ".join(str(error).split())[:300]}
        found.append(Node(name, host, told.get("problem") or difference(own or {}, told)))
    return found


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
