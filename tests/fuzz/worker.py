"""Try inputs of one kind, one after another, within limits of memory and time; a line of JSON for each.

python -m fuzz.worker KIND SEED FIRST COUNT CORPUS
"""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
import zlib
from pathlib import Path
from typing import Any

MEMORY = 1 << 30
SECONDS = 30


class TooLong(BaseException):
    """The time limit of an input was exceeded."""


def main(kind: str, seed: int, first: int, count: int, corpus: Path) -> None:
    import numpy as np
    from typer.testing import CliRunner

    from fuzz.inputs import KINDS
    from polarised import cli
    from polarised.cli import failures
    from polarised.errors import PolarisedError

    make, unforeseen = KINDS[kind], []
    # If the command line would write a report, the error is unexpected: that is a failure here.
    failures._write_report = lambda error: unforeseen.append("".join(traceback.format_exception(error)))  # type: ignore
    import polarised.models
    import polarised.report.page  # noqa: F401

    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    signal.signal(signal.SIGALRM, _ring)
    signal.signal(signal.SIGPROF, _ring)
    runner = CliRunner()
    for number in range(first, first + count):
        home = Path(tempfile.mkdtemp())
        os.chdir(home)
        # The name, not its place in the list: a new kind must not change the inputs of the others.
        rng = np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
        told: dict[str, Any] = {"number": number, "outcome": "accepted", "words": ""}
        print(json.dumps({"number": number, "outcome": "begun"}), flush=True)
        try:
            more = (corpus,) if make.__code__.co_argcount == 3 else ()
            # Only reading an input is limited, not creating it.
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            actions = make(rng, home / "in", *more) if (home / "in").mkdir() is None else []
            resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, resource.RLIM_INFINITY))
            # CPU time, so that other load does not count; and a limit of wall-clock time.
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.alarm(20 * SECONDS)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for action in actions:
                    _attempt(action, runner, cli, PolarisedError, told)
        except TooLong:
            told |= {"outcome": "too long", "words": "".join(traceback.format_stack())[-1500:]}
        except BaseException as error:
            told |= {"outcome": "traceback", "words": "".join(traceback.format_exception(error))[-3000:]}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
        if unforeseen:
            told |= {"outcome": "traceback", "words": unforeseen.pop()[-3000:]}
            unforeseen.clear()
        told["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(json.dumps(told), flush=True)
        os.chdir("/")
        shutil.rmtree(home, ignore_errors=True)


def _ring(*_: Any) -> None:
    raise TooLong


def _attempt(action: Any, runner: Any, cli: Any, kind: type[Exception], told: dict[str, Any]) -> None:
    if callable(action):
        try:
            action()
        except kind as error:
            told |= {"outcome": "refused", "words": str(error)}
        return
    result = runner.invoke(cli.app, action)
    told["command"] = action[:2]
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        words = result.stderr.strip()
        lines = [line for line in words.splitlines() if line.startswith("error: ") or "Error" in line]
        told |= {"outcome": "refused", "words": lines[0] if lines else words}
        if "not enough memory" in words:
            told["outcome"] = "memory"
        elif action[:2] == ["study", "doctor"] and result.exit_code == 1 and not words:
            told["outcome"] = "refused"
        elif not lines or len([line for line in words.splitlines() if line.startswith("error: ")]) > 1:
            told["outcome"] = "no sentence"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
