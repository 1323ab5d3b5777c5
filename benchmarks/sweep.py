"""A sweep of models in two ways: one single-threaded process per core, and one model after the other with all threads.

Both ways train the same models from the same seeds and are timed from the command to the last file, imports
included. The overhead is the core time of a run beyond its training and its evaluation (recorded in done.json)
and beyond the time of the same command when nothing is left to do: starting the processes, their imports, distributing
runs, waiting for the last one.

    python benchmarks/sweep.py [--runs 8] [--steps 400] [--architectures mlp locatello_conv]

With `--against`, the laptop study is compared with another version of the code instead, in alternating runs: the CPU
time of a whole run, from config to its last file, and the share of it that is not training.

    python benchmarks/sweep.py --against /path/to/other/src --runs 3 --steps 600 [--further variable_statements]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

LIMITS = {"mlp": 1.5, "locatello_conv": 1.0}
OVERHEAD = 2.0


def study(architecture: str, runs: int, steps: int) -> dict[str, object]:
    return {
        "name": "sweep",
        "base": {
            "dataset": {"name": "dsprites", "size": 32 if architecture == "mlp" else 64},
            "model": {"architecture": architecture, "latents": 10},
            "training": {"steps": steps, "checkpoint_every": 1000},
            "evaluation": {"examples": 1000},
        },
        "axes": {"seed": runs},
    }


def run(code: str, *arguments: str, threads: int) -> float:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def overhead(folder: Path, seconds: float, cores: int) -> float:
    """Return the core seconds of a run beyond its training and evaluation, of `seconds` on all cores."""
    finished = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*/done.json")]
    at_work = sum(done["training_seconds"] + done["evaluation_seconds"] for done in finished)
    return (min(cores, len(finished)) * seconds - at_work) / len(finished)


SWEEP = "from polarised.cli import main; main()"
ONE_BY_ONE = """
import sys, torch
from polarised.study.grid import load_study
from polarised.study.stages import execute
from polarised.training import keep_freed_memory
keep_freed_memory()
torch.set_num_threads(int(sys.argv[3]))
for run in load_study(sys.argv[1]).runs:
    execute(run, sys.argv[2])
"""


WHOLE = """
import json, sys, time, torch
from pathlib import Path
from polarised.study import execute
from polarised.study.grid import load_study
from polarised.training import keep_freed_memory
keep_freed_memory()
torch.set_num_threads(1)
# A run of two steps first, so that one-time imports are not counted for any run.
execute(load_study(sys.argv[2]).runs[0], sys.argv[3] + "-first")
times = []
for run in load_study(sys.argv[1]).runs:
    before = time.process_time()
    directory = Path(execute(run, sys.argv[3]))
    whole = time.process_time() - before
    # Everything written after the weights is computed again, to measure its share in CPU time.
    trained = (directory / "model.safetensors").stat().st_mtime_ns
    for file in directory.iterdir():
        if file.stat().st_mtime_ns > trained:
            file.unlink()
    before = time.process_time()
    execute(run, sys.argv[3])
    times.append((whole, (time.process_time() - before) / whole))
print(json.dumps(times))
"""
METHODS = {
    "beta-VAE": {"name": "BetaVAE", "beta": 4.0},
    "annealed VAE": {"name": "AnnealedVAE", "gamma": 1000, "iteration_threshold": 1000, "c_max": 25},
    "FactorVAE": {"name": "FactorVAE", "gamma": 30, "critic_layers": 3, "critic_width": 128},
    "beta-TCVAE": {"name": "BetaTCVAE", "beta": 4.0},
    "DIP-VAE-II": {"name": "DIPVAE", "variant": "II", "lambda_od": 5.0, "lambda_d": 5.0},
}


def laptop(steps: int, seed: int, further: list[str]) -> dict[str, object]:
    """Return the laptop study of the first paper at one strength per method, readable by any version of the code."""
    return {
        "name": "laptop",
        "base": {
            "dataset": {"name": "dsprites", "size": 32},
            "model": {
                "architecture": {"name": "mlp", "widths": [128, 128]},
                "latents": 10,
                "likelihood": {"name": "Bernoulli", "weight": 2.0},
            },
            "training": {"steps": steps, "learning_rate": 0.0015, "checkpoint_every": steps},
            "evaluation": {"examples": 5000, "downstream": True, "downstream_strengths": [10000.0], "further": further},
        },
        "axes": {"seed": [seed], "method": {name: {"objective": objective} for name, objective in METHODS.items()}},
    }


def compare(other: Path, rounds: int, steps: int, further: list[str]) -> None:
    """Run both versions alternately and print the CPU seconds of each method's runs, the minimum over all rounds."""
    versions = {"other": str(other), "this": str(Path(__file__).parents[1] / "src")}
    found: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in versions}
    for seed in range(rounds):
        for name, source in versions.items():
            with tempfile.TemporaryDirectory() as folder:
                files = [Path(folder) / "laptop.yaml", Path(folder) / "first.yaml"]
                for file, length in zip(files, (steps, 2), strict=True):
                    # In the order of METHODS, which names the rows of the table.
                    file.write_text(yaml.safe_dump(laptop(length, seed, further), sort_keys=False))
                environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": source}
                command = [sys.executable, "-W", "ignore", "-c", WHOLE, *map(str, files), f"{folder}/runs"]
                answer = subprocess.check_output(command, env=environment, text=True)
            found[name].append(json.loads(answer.splitlines()[-1]))
    print(f"{steps} steps, CPU seconds of a run      other    this   ratio   not training")
    whole = dict.fromkeys(versions, 0.0)
    for place, method in enumerate(METHODS):
        least = {name: min(times[place][0] for times in found[name]) for name in versions}
        share = sorted(times[place][1] for times in found["this"])[rounds // 2]
        ratio = least["other"] / least["this"]
        print(f"{method:36s} {least['other']:7.2f} {least['this']:7.2f} {ratio:7.2f} {share:9.0%}")
        whole = {name: whole[name] + least[name] for name in versions}
    print(f"{'all five':36s} {whole['other']:7.2f} {whole['this']:7.2f} {whole['other'] / whole['this']:7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--architectures", nargs="+", default=list(LIMITS))
    parser.add_argument("--against", type=Path, help="the src folder of another version of the code")
    parser.add_argument(
        "--further", nargs="+", default=[], help="additional measures of the laptop study, if both versions have them"
    )
    arguments = parser.parse_args()
    if arguments.against:
        compare(arguments.against, arguments.runs, 5 * arguments.steps, arguments.further)
        return
    cores = os.cpu_count() or 1
    failed = False
    for architecture in arguments.architectures:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "sweep.yaml"
            steps = arguments.steps * (5 if architecture == "mlp" else 1)
            file.write_text(yaml.safe_dump(study(architecture, arguments.runs, steps)))
            serial = run(ONE_BY_ONE, str(file), f"{folder}/serial", str(cores), threads=cores)
            parallel = run(SWEEP, "study", str(file), "--out", f"{folder}/sweep", "--quiet", threads=1)
            # The same models again: only starting, checking and collecting is left.
            idle = run(SWEEP, "study", str(file), "--out", f"{folder}/sweep", "--quiet", threads=1)
            beyond = overhead(Path(folder) / "sweep", parallel - idle, cores)
        ratio, limit = serial / parallel, LIMITS.get(architecture, 1.0)
        verdict = "ok" if ratio >= limit else "TOO SLOW"
        light = "ok" if beyond < OVERHEAD else "TOO MUCH"
        failed |= ratio < limit or beyond >= OVERHEAD
        print(
            f"{architecture}: {arguments.runs} models of {steps} steps; one by one, {cores} threads: {serial:.1f} s, "
            f"{cores} processes of one thread: {parallel:.1f} s, {ratio:.2f}x (at least {limit}x wanted: {verdict}); "
            f"overhead {beyond:.2f} s per run (under {OVERHEAD:g} s wanted: {light}); "
            f"{idle:.1f} s when nothing is left to do"
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
