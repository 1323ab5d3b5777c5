"""A Ray cluster to work on: the one that is connected, the one at an address, or one started here for a while."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from polarised.errors import ConfigError

__all__ = ["ray_cluster"]

SECONDS_TO_ANSWER = 5.0


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
