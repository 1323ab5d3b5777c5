"""A Ray cluster to work on: the one that is connected, the one at an address, or one started here for a while."""

import functools
import hashlib
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from polarised.errors import ConfigError

__all__ = ["Node", "check_nodes", "check_request", "code_here", "ray_cluster"]

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
    try:
        import ray
    except ImportError as error:
        raise ConfigError("the ray executor needs Ray: pip install 'polarised[ray]', or use local") from error
    if ray.is_initialized():
        yield ray
        return
    if address is not None:
        _check_answers(address)
    # Ray warns of a change in how it hides GPUs from tasks that ask for none; this takes the new way.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A task that needs more memory than a node has would be tried again without end.
    os.environ.setdefault("RAY_task_oom_retries", "2")
    own: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        # Without an address Ray would join a cluster it finds on this machine or in its environment.
        ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"expected a Ray cluster at {address or 'this machine'}, could not connect: {reason}; does it run the same "
            f"Ray ({ray.__version__}), and if it asks for a token, are RAY_AUTH_MODE=token and the token set here?"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


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


def check_request(ray: Any, *, num_cpus: float, num_gpus: float) -> None:
    """Refuse at once what no node of a cluster could ever do.

    Args:
        ray: The connected module.
        num_cpus: Processors a task takes.
        num_gpus: GPUs a task takes.

    Raises:
        ConfigError: Every node is smaller; Ray would wait for a larger one without end.
    """
    sizes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(size.get("CPU", 0) >= num_cpus and size.get("GPU", 0) >= num_gpus for size in sizes):
        return
    most = {kind: max((size.get(kind, 0) for size in sizes), default=0) for kind in ("CPU", "GPU")}
    raise ConfigError(
        f"expected a node with {num_cpus:g} processors and {num_gpus:g} GPUs, the largest of {len(sizes)} has "
        f"{most['CPU']:g} and {most['GPU']:g}; ask for less (num_cpus, num_gpus) or add a node"
    )


def check_nodes(ray: Any, *, seconds: float = SECONDS_TO_PROBE) -> list[Node]:
    """Ask every node which code it would run, and say of each why it cannot be used, if so.

    Args:
        ray: The connected module.
        seconds: How long a node may take to answer.

    Returns:
        Every living node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # The function travels by value, so that a node without the package can say so.
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(_PROBE, namespace)
    probe = ray.remote(num_cpus=0, max_retries=0)(namespace["probe"])
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    asked = {
        name: probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False)).remote()
        for name in nodes
    }
    answered, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds)
    own = code_here()
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
            told = {"problem": " ".join(str(error).split())[:200]}
        found.append(Node(name, host, told.get("problem") or _difference(own, told)))
    return found


_PROBE = """
def probe():
    try:
        from polarised.cluster import code_here
        return code_here()
    except Exception as error:
        return {"problem": f"it cannot load polarised: {type(error).__name__}: {error}"}
"""


def _difference(own: dict[str, str], told: dict[str, str]) -> str:
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


def _check_answers(address: str) -> None:
    """Ask once whether anybody is there: Ray itself would try for minutes."""
    if address == "auto":
        return
    try:
        place = urlsplit(address if "://" in address else f"//{address}")
        host, port = place.hostname, place.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise ConfigError(f"expected the address of a Ray cluster as host:port, got {address!r}")
    try:
        socket.create_connection((host, port), timeout=SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise ConfigError(
            f"expected a Ray cluster at {address}, nobody answers there ({error}); check the address "
            "(ray start --head prints it), or leave it out to start one on this machine"
        ) from error
