"""What one input may cost: bytes held, bytes read and seconds, told by its size on disk and the memory of the machine.

| budget | limit |
|---|---|
| bytes held in memory | 64 MiB + `MULTIPLE` times the size on disk, at most half of the memory that is free |
| bytes read as a stream | 1 GiB + 200 times the size on disk |
| seconds | 60 + 1 for every MiB on disk |

The limits are over everything that one file, archive or folder unpacks to, so many parts count together.
"""

import os
import time
from pathlib import Path
from typing import Self

from polarised.errors import DataError

__all__ = ["Budget", "available_memory", "size_on_disk"]

FLOOR = 64 << 20
STREAM_FLOOR = 1 << 30
SECONDS = 60.0
# Pictures of few colours shrink a hundredfold in a zip; weights hardly at all.
MULTIPLE = 200
OF_WEIGHTS = 20


class Budget:
    """What is left for one input; whoever unpacks some of it says so first.

    >>> budget = Budget("codes.npz", held=10, read=10, seconds=60.0)
    >>> budget.hold(8)
    >>> budget.hold(8)
    Traceback (most recent call last):
    ...
    polarised.errors.DataError: expected codes.npz to unpack to at most 10 bytes, it asks for 16 bytes; refused
    """

    def __init__(self, where: str | Path, *, held: int, read: int, seconds: float) -> None:
        self.where = where
        self.held, self.read, self.seconds = held, read, seconds
        self._began = time.monotonic()
        self._held = self._read = 0

    @classmethod
    def of(cls, path: str | Path, *, multiple: int = MULTIPLE) -> Self:
        """Return the budget of a file or folder.

        Args:
            path: The input on disk.
            multiple: How many times its size it may unpack to.

        Returns:
            A fresh budget, whose time begins now.
        """
        size = size_on_disk(path)
        return cls(
            path,
            held=min(FLOOR + multiple * size, available_memory() // 2),
            read=STREAM_FLOOR + MULTIPLE * size,
            seconds=SECONDS + size / (1 << 20),
        )

    def hold(self, count: int) -> None:
        """Take bytes that stay in memory out of the budget.

        Args:
            count: How many bytes are about to be unpacked.

        Raises:
            DataError: There are not so many left, or the time is up.
        """
        self._held += count
        if self._held > self.held:
            raise DataError(
                f"expected {self.where} to unpack to at most {_amount(self.held)}, it asks for {_amount(self._held)}; "
                "refused"
            )
        self.stream(0)

    def stream(self, count: int) -> None:
        """Take bytes that are read and forgotten again out of the budget.

        Args:
            count: How many bytes are about to be read.

        Raises:
            DataError: There are not so many left, or the time is up.
        """
        self._read += count
        if self._read > self.read:
            raise DataError(
                f"expected at most {_amount(self.read)} in {self.where}, it unpacks to more: far more than a file of "
                "its size holds; refused"
            )
        if time.monotonic() - self._began > self.seconds:
            raise DataError(
                f"expected to read {self.where} within {self.seconds:.0f} s, it takes longer; is it damaged, or the "
                "disk very slow?"
            )


def size_on_disk(path: str | Path) -> int:
    """Return the bytes of a file, or of all files directly in a folder; nothing there counts as none.

    >>> size_on_disk("nowhere")
    0
    """
    try:
        if not Path(path).is_dir():
            return Path(path).stat().st_size
        with os.scandir(path) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    except OSError:
        return 0


def available_memory() -> int:
    """Return the bytes of memory that can be had without harm: of the machine, and of the container it may be.

    >>> available_memory() > 0
    True
    """
    return max(min(_of_machine(), _of_container()), 256 << 20)


def _of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // 2
    except (AttributeError, ValueError, OSError):
        return 4 << 30


def _of_container() -> int:
    """Return what the control group of this process leaves, without end where there is none."""
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            return int(Path(limit).read_text()) - int(Path(usage).read_text())
        except (OSError, ValueError):
            continue
    return 1 << 62


def _amount(count: int) -> str:
    """Return a number of bytes in words.

    >>> _amount(10), _amount(3 << 20)
    ('10 bytes', '3 MiB')
    """
    return f"{count} bytes" if count < 1 << 20 else f"{count >> 20:,} MiB"
