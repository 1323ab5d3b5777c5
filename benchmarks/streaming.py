"""Types, total correlation and effective rank of codes larger than memory, compared with np.sum over the same files.

Writes two memory-mapped float32 files (mean and variance), reads them in chunks, reports seconds, the ratio to np.sum,
the rate of two-pass binned mutual information, and the peak memory, and removes the files. Both sides read both files,
from the system's cache. np.sum is one process; ours is one per core, each with its own range of rows, since
evidence merges; both its CPU and wall-clock time are reported. `--processes 1` uses one process, in which `Evidence`
reads means and variances in two threads; with OMP_NUM_THREADS=1 in the environment it has one thread, like np.sum.
`--types-only` leaves out the covariance, which the types do not need.

    python benchmarks/streaming.py                     # 10 million rows, about a minute
    python benchmarks/streaming.py --rows 100000000    # the documented run: 8 GB of files
"""

import argparse
import json
import mmap
import multiprocessing
import os
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from polarised import Evidence, metrics
from polarised.metrics.streaming import BinnedCounts, Ranges, chunks_of

VARIABLES = 10
CHUNK = 1_048_576
WRITTEN_AT_ONCE = 65_536
# Of the speed of np.sum, and megabytes.
GOAL, MEMORY = 1 / 3, 500


def write(folder: Path, rows: int) -> tuple[Path, Path]:
    generator = np.random.default_rng(0)
    mean_path, variance_path = folder / "mean.f32", folder / "variance.f32"
    scale = np.array([1.0] * 5 + [0.5] * 2 + [0.03] * 3, dtype=np.float32)
    level = np.array([0.02] * 5 + [0.4] * 2 + [0.98] * 3, dtype=np.float32)
    with mean_path.open("wb") as means, variance_path.open("wb") as variances:
        for start in range(0, rows, WRITTEN_AT_ONCE):
            count = min(WRITTEN_AT_ONCE, rows - start)
            mean = generator.standard_normal((count, VARIABLES), dtype=np.float32) * scale
            mean[:, 1] += 0.5 * mean[:, 0]
            (mean + 0.1).tofile(means)
            wobble = generator.random((count, VARIABLES), dtype=np.float32)
            (level * (0.9 + 0.2 * wobble)).tofile(variances)
    return mean_path, variance_path


def opened(path: Path, rows: int) -> np.ndarray:
    return np.memmap(path, dtype=np.float32, mode="r", shape=(rows, VARIABLES))


def drop(array: np.ndarray) -> None:
    """Release the pages of a mapping, so that the peak memory does not include the system's cache."""
    array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def plain_sum(paths: tuple[Path, Path], rows: int) -> float:
    total = 0.0
    for path in paths:
        array = opened(path, rows)
        for chunk in chunks_of(array, rows=CHUNK):
            total += float(np.sum(chunk))
            drop(array)
    return total


def stretch(paths: tuple[Path, Path], rows: int, start: int, stop: int, covers: bool) -> tuple[Evidence, float, float]:
    """Return the evidence of some rows, its CPU seconds and the peak memory in MB."""
    used = time.process_time()
    means, variances = (opened(path, rows) for path in paths)
    evidence = Evidence(covariance=covers)
    pairs = zip(chunks_of(means[start:stop], rows=CHUNK), chunks_of(variances[start:stop], rows=CHUNK), strict=True)
    for mean, variance in pairs:
        evidence.update(mean, variance=variance)
        drop(means)
        drop(variances)
    return evidence, time.process_time() - used, peak_memory()


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def streamed(paths: tuple[Path, Path], rows: int, processes: int, covers: bool) -> dict[str, Any]:
    """Read both files once, each process its own range of rows; the time includes the start of the processes."""
    bounds = np.linspace(0, rows, processes + 1).astype(int).tolist()
    stretches = [(paths, rows, start, stop, covers) for start, stop in pairwise(bounds)]
    if processes == 1:
        parts = [stretch(*stretches[0])]
    else:
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
            parts = list(pool.map(stretch, *zip(*stretches, strict=True)))
    evidence = Evidence(covariance=covers)
    for part, _, _ in parts:
        evidence.merge(part)
    scores = {}
    if covers:
        scores["total_correlation"] = metrics.total_correlation_from_covariance(evidence.covariance)
        scores["effective_rank"] = metrics.effective_rank_from_covariance(evidence.covariance)
    return {
        "types": evidence.classify().types,
        **scores,
        "cpu": sum(used for _, used, _ in parts),
        "peaks": [peak for _, _, peak in parts],
    }


def binned(path: Path, rows: int) -> float:
    codes = opened(path, rows)
    ranges = Ranges()
    for chunk in chunks_of(codes, rows=CHUNK):
        ranges.update(chunk)
        drop(codes)
    counts = BinnedCounts(ranges.edges())
    for chunk in chunks_of(codes, rows=CHUNK):
        counts.update(chunk)
        drop(codes)
    return metrics.mutual_information_from_matrix(counts.information())


def timed(function: Any, *arguments: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    value = function(*arguments)
    return time.perf_counter() - start, value


def compared(paths: tuple[Path, Path], rows: int, processes: int, repeats: int, covers: bool) -> dict[str, Any]:
    """Run both alternately and return the best of each."""
    sums, sums_cpu, ours, cpu, found = [], [], [], [], {}
    for _ in range(repeats):
        used = time.process_time()
        sums.append(timed(plain_sum, paths, rows)[0])
        sums_cpu.append(time.process_time() - used)
        spent, found = timed(streamed, paths, rows, processes, covers)
        ours.append(spent)
        cpu.append(found.pop("cpu"))
    return {
        "processes": processes,
        "np_sum_s": min(sums),
        "ours_s": min(ours),
        "ratio": min(sums) / min(ours),
        "cpu_ratio": min(sums_cpu) / min(cpu),
        "np_sum_ns_per_row": min(sums) / rows * 1e9,
        "ours_ns_per_row": min(ours) / rows * 1e9,
        "ours_cpu_ns_per_row": min(cpu) / rows * 1e9,
        **found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats; the best of each counts")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="our processes; np.sum has one")
    parser.add_argument("--types-only", action="store_true", help="only the types, without covariance")
    parser.add_argument("--skip-information", action="store_true", help="without the two passes of mutual information")
    parser.add_argument("--folder", type=Path, help="where to put the temporary files")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    if options.processes > 1:
        # One thread for each process.
        os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = write(Path(folder), options.rows)
        result: dict[str, Any] = {"rows": options.rows}
        result |= compared(paths, options.rows, options.processes, options.repeats, not options.types_only)
        # Pages that the parent shares with its children are counted several times, so this is an upper bound.
        result["peak_memory_mb"] = peak_memory() + (sum(result["peaks"]) if options.processes > 1 else 0.0)
        if not options.skip_information:
            spent, score = timed(binned, paths[0], options.rows)
            result |= {"mutual_information_s": spent, "mutual_information_rows_per_s": options.rows / spent}
            result["mutual_information"] = score
            result["mutual_information_peak_memory_mb"] = peak_memory()
    print(json.dumps(result, indent=2))
    speed = f"{result['ratio']:.2f} of the speed of np.sum (goal {GOAL:.2f}), {result['cpu_ratio']:.2f} in CPU time"
    print(f"{speed}, peak {result['peak_memory_mb']:.0f} MB (goal {MEMORY})")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2))
    if result["ratio"] < GOAL or result["peak_memory_mb"] > MEMORY:
        raise SystemExit("short of a goal")


if __name__ == "__main__":
    main()
