"""Every input of every kind is accepted, or refused with one sentence, within 1 GiB and 30 seconds."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fuzz.inputs import KINDS, make_corpus

SEED = 20230914
FEW, MANY = 60, 2000
# Each of these builds and runs a network.
FEWER = dict.fromkeys(("json", "pt", "tensor_bundle", "zip"), 16)
# A worker is replaced after this many inputs, so that leaks of one input do not affect thousands of others.
BATCH = 250
TESTS = Path(__file__).parents[1]
FINE = {"accepted", "refused"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("corpus")
    make_corpus(home)
    return home


def tried(kind: str, count: int, corpus: Path, *, seed: int = SEED) -> list[dict[str, Any]]:
    """Try inputs in worker processes; one that dies is an outcome of the input it worked on."""
    found: list[dict[str, Any]] = []
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    while len(found) < count:
        command = [
            sys.executable,
            "-m",
            "fuzz.worker",
            kind,
            str(seed),
            str(len(found)),
            str(min(BATCH, count - len(found))),
            str(corpus),
        ]
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in process.stdout.splitlines() if line.startswith('{"number"')]
        ended = [line for line in lines if line["outcome"] != "begun"]
        found += ended
        if process.returncode:
            assert len(lines) > len(ended), process.stderr[-2000:]
            found.append({"number": len(found), "outcome": "crash", "words": process.stderr[-2000:]})
    return found


def check(kind: str, found: list[dict[str, Any]]) -> None:
    wrong = [one for one in found if one["outcome"] not in FINE]
    words = [f"{kind} {one['number']} {one['outcome']} {one.get('command', '')}: {one['words']}" for one in wrong]
    assert not wrong, f"{len(wrong)} of {len(found)}\n" + "\n\n".join(words[:5])
    long = [one for one in found if len(one["words"]) > 2200]
    assert not long, long[0]
    # If every input is refused at the first check, the fuzzer tests nothing else.
    counts = Counter(one["outcome"] for one in found)
    assert counts["refused"], counts
    assert counts["accepted"], counts


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_few_inputs_of_every_kind(kind: str, corpus: Path) -> None:
    check(kind, tried(kind, FEWER.get(kind, FEW), corpus))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_two_thousand_inputs_of_every_kind(kind: str, corpus: Path) -> None:
    check(kind, tried(kind, MANY, corpus))


if __name__ == "__main__":
    # A night's work: python tests/fuzz/test_fuzz.py [inputs a kind] [kind ...] prints a table of tries and failures.
    import tempfile

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as home:
        make_corpus(Path(home))
        print("| kind | inputs | accepted | refused | other | most memory (MiB) |\n|---|---|---|---|---|---|")
        failed = 0
        for kind in sys.argv[2:] or sorted(KINDS):
            found = tried(kind, count, Path(home))
            counts = Counter(one["outcome"] for one in found)
            other = len(found) - counts["accepted"] - counts["refused"]
            failed += other
            most = max(one.get("memory", 0) for one in found)
            print(
                f"| {kind} | {count:,} | {counts['accepted']:,} | {counts['refused']:,} | {other:,} | {most:,} |",
                flush=True,
            )
            places, first = Counter(), {}
            for one in found:
                if one["outcome"] not in FINE:
                    lines = [line for line in one["words"].splitlines() if line.strip()]
                    where = [line.strip() for line in lines if "polarised" in line and line.strip().startswith("File")]
                    place = one["outcome"], (where or [""])[-1], lines[-1] if lines else ""
                    places[place] += 1
                    first.setdefault(place, one["number"])
            for place, times in places.most_common():
                outcome, where, last = place
                words = f"{times} × {outcome}, first number {first[place]}: {last[:200]} {where}"
                print(f"    {words}", file=sys.stderr, flush=True)
    # A night with failures must not end as a success.
    sys.exit(1 if failed else 0)
