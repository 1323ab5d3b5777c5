"""A plain queue: the share of a study that one job does, and the script that submits them all."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from polarised.errors import ConfigError

__all__ = ["Shard", "slurm_script"]

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """One of `count` equal shares of the runs of a study, numbered from 1.

    >>> Shard.parse("2/3").of(["a", "b", "c", "d", "e"])
    ['b', 'e']
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ConfigError(f"expected a share from 1/{self.count} to {self.count}/{self.count}, got {self}")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read ``i/n``.

        Args:
            text: Two whole numbers with a slash between them.

        Returns:
            The share.

        Raises:
            ConfigError: It is something else.
        """
        number, slash, count = text.partition("/")
        if not slash or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in (number, count)):
            raise ConfigError(f"expected a share such as 2/8, the second of eight, got {text!r}")
        return cls(int(number), int(count))

    def of(self, runs: Sequence[T]) -> list[T]:
        """Return the runs of this share: every `count`-th, so that long and short ones are dealt out evenly.

        Args:
            runs: All runs.

        Returns:
            Those of the share; the shares of all numbers are all runs, each once.
        """
        return list(runs[self.number - 1 :: self.count])


def slurm_script(
    study: Sequence[str], *, jobs: int, name: str, cpus: int = 1, hours: float = 24.0, memory: int = 4, gpus: int = 0
) -> str:
    """Return a script for SLURM that does a study as an array of jobs; look at it, then ``sbatch`` it.

    Two minutes before its time is up a job gets SIGUSR1, saves what it trains and is put back into the queue, where
    the same command goes on.

    Args:
        study: The arguments of ``polarised study run``.
        jobs: How many jobs share the runs.
        name: The name of the job.
        cpus: Processors, and runs at a time, of each.
        hours: The longest time a job may take.
        memory: Gigabytes for each processor.
        gpus: GPUs of each job.

    Returns:
        The text of the script.

    Raises:
        ConfigError: A number is not sensible.

    >>> print(slurm_script(["be_more_active", "--out", "/shared/study"], jobs=8, name="study").splitlines()[0])
    #!/bin/bash
    """
    if jobs < 1 or cpus < 1 or hours <= 0 or memory < 1 or gpus < 0:
        raise ConfigError(
            f"expected at least one job, processor and gigabyte and a time above 0, got {jobs}, {cpus}, {memory} and "
            f"{hours:g} h"
        )
    minutes = max(5, round(60 * hours))
    command = shlex.join(["polarised", "study", "run", *study, "--jobs", str(cpus)])
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={shlex.quote(name)}",
        f"#SBATCH --array=1-{jobs}",
        f"#SBATCH --cpus-per-task={cpus}",
        f"#SBATCH --mem-per-cpu={memory}G",
        f"#SBATCH --time={minutes // 60:02d}:{minutes % 60:02d}:00",
        "#SBATCH --signal=USR1@120",
        "#SBATCH --requeue",
        f"#SBATCH --output={shlex.quote(name)}-%A-%a.log",
        *([f"#SBATCH --gpus={gpus}"] if gpus else []),
        "",
        "# Where the results go must be a folder that every node sees.",
        "export OMP_NUM_THREADS=1",
        f'srun {command} --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"',
        "code=$?",
        "# 138: stopped by SIGUSR1 with its checkpoint saved; 143: by SIGTERM.",
        'if [ "$code" -eq 138 ]; then scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"; fi',
        'exit "$code"',
    ]
    return "\n".join(lines) + "\n"
