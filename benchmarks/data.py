"""Images per second of every dataset, compared with reading a memory-mapped array, and sprites with a full table.

A dataset whose files are missing is replaced by an array of the same shape, read in the same way. Rounds
are interleaved, so that other load slows all of them equally; medians are printed.

    python benchmarks/data.py [--batch 64] [--rounds 40] [--no-table]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from polarised.data import Dataset, Description, describe, dsprites, prepare, scream_dsprites, sprites
from polarised.data.cache import as_unit_interval

STAND_IN = 20_000
CHUNK = 8192

Reader = Callable[[int], object]


def medians(readers: dict[str, Reader], rounds: int) -> dict[str, float]:
    """Return the median seconds of each reader over interleaved rounds, after two warm-up rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for step in range(rounds + 2):
        for name, read in readers.items():
            began = time.perf_counter()
            read(step)
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken[2:]) for name, taken in seconds.items()}


def mapped(folder: Path, shape: tuple[int, ...], count: int) -> np.ndarray:
    """Return a memory-mapped array of bytes (of floats for vectors) in the page cache."""
    path = folder / f"{'x'.join(map(str, shape))}.npy"
    if not path.exists():
        kind = np.uint8 if len(shape) == 3 else np.float32
        array = np.lib.format.open_memmap(path, "w+", kind, (count, *shape))
        array[:] = np.random.default_rng(0).integers(0, 256, (1, *shape))
        array.flush()
    array = np.load(path, mmap_mode="r")
    array.sum()
    return array


def of(about: Description, folder: Path) -> tuple[Dataset, str]:
    if about.ready:
        return prepare(about.name), "drawn" if about.licence == "made here" or "sprites" in about.name else "file"
    if about.name == "scream_dsprites":
        Image.new("RGB", (790, 1000), "orange").save(folder / "scream.jpg")
        return scream_dsprites(path=str(folder / "scream.jpg")), "drawn"
    array = mapped(folder, about.shape, min(about.images, STAND_IN))
    return Dataset(about.name, about.shape, len(array), as_unit_interval(array)), "stand-in"


def every_dataset(batch: int, rounds: int, folder: Path) -> None:
    print(f"{'dataset':<18}{'source':<10}{'batch()':>12}{'bare mmap':>12}{'ratio':>7}{'ms / batch':>12}   (images/s)")
    for about in describe():
        if not about.images:
            continue
        dataset, source = of(about, folder)
        bare = mapped(folder, dataset.shape, min(len(dataset), STAND_IN))
        indices = np.random.default_rng(1).integers(len(bare), size=(rounds + 2, batch))
        readers: dict[str, Reader] = {
            "batch": lambda step, dataset=dataset: dataset.batch(step, batch, 0),
            "bare": lambda step, bare=bare, indices=indices: bare[indices[step]],
        }
        taken = medians(readers, rounds)
        rates = [batch / taken[name] for name in ("batch", "bare")]
        share, milliseconds = taken["bare"] / taken["batch"], taken["batch"] * 1e3
        print(f"{about.name:<18}{source:<10}{rates[0]:>12,.0f}{rates[1]:>12,.0f}{share:>7.2f}{milliseconds:>12.3f}")


def against_the_full_table(batch: int, rounds: int) -> None:
    table = np.empty((len(sprites.SPACE), 1, 64, 64), dtype=np.uint8)
    for start in range(0, len(table), CHUNK):
        table[start : start + CHUNK] = sprites.draw(np.arange(start, min(start + CHUNK, len(table))))
    indices = np.random.default_rng(2).integers(len(table), size=(rounds + 2, batch))
    drawn, packed = dsprites(), dsprites(source="packed")
    taken = medians(
        {
            "full table": lambda step: table[indices[step]].astype(np.float32),
            "drawn": lambda step: drawn.read(indices[step]),
            "packed": lambda step: packed.read(indices[step]),
        },
        rounds,
    )
    memory = {
        "full table": table.nbytes,
        "drawn": sum(array.nbytes for array in sprites._table()),
        "packed": sum(array.nbytes for array in sprites._packed_table()),
    }
    print(f"\n{'dSprites as float32':<20}{'images/s':>12}{'time':>8}{'memory':>12}{'share':>9}")
    for name, seconds in taken.items():
        ratio, share = seconds / taken["full table"], memory[name] / table.nbytes
        print(f"{name:<20}{batch / seconds:>12,.0f}{ratio:>7.2f}x{memory[name] / 1e6:>9,.0f} MB{share:>9.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--no-table", action="store_true", help="leave out the full table, which takes 3 GB of memory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        every_dataset(arguments.batch, arguments.rounds, Path(folder))
    if not arguments.no_table:
        against_the_full_table(arguments.batch, max(arguments.rounds, 200))


if __name__ == "__main__":
    main()
