"""Types, total correlation and effective rank of codes larger than memory, against a plain np.sum over the same files.

Writes two memory-mapped float32 files (mean and variance), reads them in chunks, reports seconds, the ratio to np.sum,
the rate of two-pass binned mutual information, and the peak memory; removes the files.

    python benchmarks/streaming.py                     # 10 million rows, about a minute
    python benchmarks/streaming.py --rows 100000000    # the documented run: 8 GB of files
"""

import argparse
import json
import os
import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# Threads are ours to place: one each for the matrix products.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from polarised import Evidence, metrics
from polarised.metrics.streaming import BinnedCounts, Moments, Ranges, chunks_of

VARIABLES = 10
CHUNK = 65_536


def write(folder: Path, rows: int) -> tuple[Path, Path]:
    generator = np.random.default_rng(0)
    mean_path, variance_path = folder / "mean.f32", folder / "variance.f32"
    scale = np.array([1.0] * 5 + [0.5] * 2 + [0.03] * 3, dtype=np.float32)
    level = np.array([0.02] * 5 + [0.4] * 2 + [0.98] * 3, dtype=np.float32)
    with mean_path.open("wb") as means, variance_path.open("wb") as variances:
        for start in range(0, rows, CHUNK):
            count = min(CHUNK, rows - start)
            mean = generator.standard_normal((count, VARIABLES), dtype=np.float32) * scale
            mean[:, 1] += 0.5 * mean[:, 0]
            (mean + 0.1).tofile(means)
            wobble = generator.random((count, VARIABLES), dtype=np.float32)
            (level * (0.9 + 0.2 * wobble)).tofile(variances)
    return mean_path, variance_path


def opened(path: Path, rows: int) -> np.ndarray:
    return np.memmap(path, dtype=np.float32, mode="r", shape=(rows, VARIABLES))


def drop(array: np.ndarray) -> None:
    """Give the pages of a mapping back, so that peak memory counts our own and not the system's cache."""
    import mmap

    mapping = array._mmap  # type: ignore[attr-defined]
    mapping.madvise(mmap.MADV_DONTNEED)


def plain_sum(paths: tuple[Path, Path], rows: int) -> float:
    total = 0.0
    for path in paths:
        array = opened(path, rows)
        for step, chunk in enumerate(chunks_of(array, rows=CHUNK)):
            total += float(np.sum(chunk))
            if step % 16 == 15:
                drop(array)
    return total


def streamed(paths: tuple[Path, Path], rows: int, threads: int) -> dict[str, Any]:
    """Read both files once; evidence and moments merge, so each thread takes its own stretch of rows."""

    def stretch(start: int, stop: int) -> tuple[Evidence, Moments]:
        means, variances = (opened(path, rows) for path in paths)
        evidence, moments = Evidence(), Moments()
        pairs = zip(chunks_of(means[start:stop], rows=CHUNK), chunks_of(variances[start:stop], rows=CHUNK), strict=True)
        for step, (mean, variance) in enumerate(pairs):
            evidence.update(mean, variance=variance)
            moments.update(mean)
            if step % 16 == 15:
                drop(means)
                drop(variances)
        return evidence, moments

    bounds = np.linspace(0, rows, threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(stretch, bounds[:-1], bounds[1:]))
    evidence, moments = Evidence(), Moments()
    for one, other in parts:
        evidence.merge(one)
        moments.merge(other)
    return {
        "types": evidence.classify().types,
        "total_correlation": metrics.total_correlation_of(moments.covariance),
        "effective_rank": metrics.effective_rank_of(moments.covariance),
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
    return metrics.mutual_information_of(counts.information())


def timed(function: Any, *arguments: Any) -> tuple[float, float, Any]:
    """Return seconds on the clock, seconds of all processors, and the value."""
    start, used = time.perf_counter(), time.process_time()
    value = function(*arguments)
    return time.perf_counter() - start, time.process_time() - used, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=2, help="interleaved repeats; the best of each counts")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of ours; np.sum has one")
    parser.add_argument("--skip-information", action="store_true", help="without the two passes of mutual information")
    parser.add_argument("--folder", type=Path, help="where to put the temporary files")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = write(Path(folder), options.rows)
        sums, ours, sums_cpu, ours_cpu = [], [], [], []
        found: dict[str, Any] = {}
        for _ in range(options.repeats):
            spent, used, _ = timed(plain_sum, paths, options.rows)
            sums.append(spent)
            sums_cpu.append(used)
            spent, used, found = timed(streamed, paths, options.rows, options.threads)
            ours.append(spent)
            ours_cpu.append(used)
        result: dict[str, Any] = {
            "rows": options.rows,
            "threads": options.threads,
            "np_sum_s": min(sums),
            "ours_s": min(ours),
            "ratio": min(sums) / min(ours),
            "np_sum_cpu_s": min(sums_cpu),
            "ours_cpu_s": min(ours_cpu),
            **found,
        }
        if not options.skip_information:
            spent, _, score = timed(binned, paths[0], options.rows)
            result |= {"mutual_information_s": spent, "mutual_information_rows_per_s": options.rows / spent}
            result["mutual_information"] = score
    result["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result, indent=2))
    print(
        f"{result['ratio']:.2f} of the speed of np.sum (goal 0.33), peak {result['peak_memory_mb']:.0f} MB (goal 500)"
    )
    if options.json:
        options.json.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
