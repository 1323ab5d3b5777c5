"""What went wrong with a run, kept beside it: one sentence for the reader, the traceback for the unexpected."""

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polarised.errors import PolarisedError
from polarised.files import replacing

__all__ = ["DiskFullError", "naming_full_disk", "reason", "record_failure", "recording_failure"]

FILE = "failed.txt"


class DiskFullError(PolarisedError, OSError):
    """No room for results: not the fault of the run, and no use in trying the next one."""


@contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """Turn every library's way of saying that the disk is full into ours."""
    try:
        yield
    except DiskFullError:
        raise
    except Exception as error:
        # Not every library raises OSError; all repeat the system's words.
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise DiskFullError(
                f"the disk of {folder} is full; free some space and start the same command again"
            ) from error
        raise


@contextmanager
def recording_failure(directory: Path) -> Iterator[None]:
    """Forget the failure of an earlier attempt; write down that of this one."""
    (directory / FILE).unlink(missing_ok=True)
    try:
        with naming_full_disk(directory.parent):
            yield
    except DiskFullError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}\n"
        if not isinstance(error, PolarisedError):
            text += "\n" + traceback.format_exc()
        record_failure(directory, text)
        raise


def record_failure(directory: Path, text: str) -> None:
    """Write down why a run failed; the first line is what an overview shows."""
    with replacing(directory / FILE) as temporary:
        temporary.write_text(text, encoding="utf-8")


def reason(directory: Path) -> str | None:
    """Return the first line of why a run failed, or None where it did not.

    >>> reason(Path("nowhere")) is None
    True
    """
    try:
        return (directory / FILE).read_text(encoding="utf-8").partition("\n")[0]
    except (FileNotFoundError, NotADirectoryError):
        return None
