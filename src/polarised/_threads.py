"""Small matrix products on one thread, and two large tables in two threads.

OpenBLAS divides a product of a millisecond among all cores and waits for them at every call, which takes several times
as long as the product on one core. Two threads of ours, each with a whole table, wait for one another only at the end.
"""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import RLock
from typing import TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["in_two_threads", "one_blas_thread"]

First = TypeVar("First")
Second = TypeVar("Second")


# If two limits overlapped, the later one would restore what the earlier one had set.
_one_at_a_time = RLock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Restrict the matrix libraries of NumPy and SciPy to one thread; afterwards they have as many as before.

    Only around code of our own: another thread of ours waits until this one is done.
    """
    with _one_at_a_time, _libraries().limit(limits=1, user_api="blas"):
        yield


def in_two_threads(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Do both at once, or one after the other if there is one core or `OMP_NUM_THREADS` is 1.

    Args:
        first: What this thread does.
        second: What another thread does meanwhile.

    Returns:
        Both results.

    >>> in_two_threads(lambda: 1, lambda: "two")
    (1, 'two')
    """
    with one_blas_thread():
        if os.cpu_count() == 1 or os.environ.get("OMP_NUM_THREADS") == "1":
            return first(), second()
        with ThreadPoolExecutor(1) as thread:
            other = thread.submit(second)
            return first(), other.result()


@lru_cache(2)
def _libraries_with(_scipy: bool) -> ThreadpoolController:
    # Looking for the libraries takes a millisecond; SciPy brings its own.
    return ThreadpoolController()


def _libraries() -> ThreadpoolController:
    return _libraries_with("scipy.linalg" in sys.modules)
