"""Files that are either there whole or not there at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["replacing"]


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; rename it to `path` when the block succeeds.

    A reader sees the old file or the new one, never a part; a failed block leaves the old one. Errors name `path`.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.tmp{path.suffix}")
    try:
        # An empty file tells early whether one can be written there, and with which permissions: some libraries write
        # files that nobody else may read.
        temporary.touch()
        permissions = temporary.stat().st_mode
        yield temporary
        temporary.chmod(permissions)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.filename == str(temporary):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            temporary.unlink()
