import functools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# One thread a test process: several run side by side, and results must not depend on the machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

# Started in the background of a script, where Ctrl-C is ignored, every process of a test would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of other people's models and real frames, kept outside the repository."""
    folder = Path(os.environ.get("POLARISED_REFERENCE", REPOSITORY.parent / "shared"))
    if not (folder / "oracles").is_dir():
        pytest.skip(f"no reference material in {folder}: set POLARISED_REFERENCE to its folder")
    return folder


@pytest.fixture(scope="session")
def oracles() -> Path:
    """Inputs and outputs of the reference implementations, kept in the repository."""
    return REPOSITORY / "tests" / "oracles"


@pytest.fixture(scope="session", autouse=True)
def sentences_agree() -> Iterator[None]:
    """Hold every diagnosis that any test makes to this: none of its sentences contradicts another, or its types."""
    from polarised.diagnosis import Diagnosis
    from sentences import contradictions

    plain = Diagnosis.__init__

    @functools.wraps(plain)
    def checked(self: Diagnosis, *arguments: Any, **settings: Any) -> None:
        plain(self, *arguments, **settings)
        assert contradictions(self) == []

    Diagnosis.__init__ = checked  # type: ignore[method-assign]
    yield
    Diagnosis.__init__ = plain  # type: ignore[method-assign]
