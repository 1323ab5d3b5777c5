import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars
import pytest

from polarised.cluster import ray_cluster
from polarised.diagnosis import diagnose
from polarised.errors import ConfigError, DataError
from polarised.regime import Encodings, classify
from polarised.shards import Totals, _totals_of_file, totals_of

N = 3000
GENERATOR = np.random.default_rng(1)
ACTIVE = GENERATOR.normal(size=(N, 2))
SHADOW = 0.05 * ACTIVE.sum(axis=1) + 0.02 * GENERATOR.normal(size=N)
MEAN = np.column_stack([ACTIVE, SHADOW, 0.7 * GENERATOR.normal(size=N)])
VARIANCE = np.column_stack([np.full((N, 2), 0.02), np.full(N, 0.98), np.full(N, 0.5)])
FACTORS = GENERATOR.integers(3, size=(N, 1))


@pytest.fixture
def files(tmp_path):
    parts = np.split(np.arange(N), [100, 1700])
    np.savez(tmp_path / "0.npz", mean=MEAN[parts[0]], variance=VARIANCE[parts[0]], factors=FACTORS[parts[0]])
    np.savez_compressed(
        tmp_path / "1.npz", mu=MEAN[parts[1]], logvar=np.log(VARIANCE[parts[1]]), labels=FACTORS[parts[1]]
    )
    columns = {f"mean_{j}": MEAN[parts[2], j] for j in range(4)} | {
        f"std_{j}": VARIANCE[parts[2], j] ** 0.5 for j in range(4)
    }
    polars.DataFrame(columns | {"factor_a": FACTORS[parts[2], 0]}).write_parquet(tmp_path / "2.parquet")
    return [tmp_path / "0.npz", tmp_path / "1.npz", tmp_path / "2.parquet"]


def same(first, second):
    assert first.types == second.types
    for name in ("ratio_mean", "ratio_variance", "shift", "kl", "noise_share"):
        np.testing.assert_allclose(
            getattr(first.statistics, name), getattr(second.statistics, name), rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("rows", [64, 1000, 1 << 16])
def test_many_files_in_chunks_equal_one_array(files, rows):
    totals = totals_of(files, rows=rows)
    whole = Encodings(MEAN, variance=VARIANCE, factors=FACTORS)
    same(totals.evidence.classify(), classify(whole))
    np.testing.assert_allclose(totals.evidence.covariance, np.cov(MEAN.T), rtol=1e-9)
    np.testing.assert_allclose(totals.largest_mean(), np.abs(MEAN).max(axis=0))
    assert len(totals.sample()) == N


def test_the_sample_does_not_depend_on_the_chunks(files, monkeypatch):
    monkeypatch.setattr("polarised.shards.SAMPLE", 200)
    first, second = (totals_of(files, rows=rows).sample() for rows in (50, 4000))
    assert len(first) == 200
    np.testing.assert_array_equal(first.mean, second.mean)
    np.testing.assert_array_equal(first.factors, second.factors)
    rows = [int(np.flatnonzero(MEAN[:, 0] == value)[0]) for value in first.mean[:, 0]]
    np.testing.assert_array_equal(first.mean, MEAN[rows])
    np.testing.assert_array_equal(first.factors, FACTORS[rows])
    # Uniform over files of very different sizes: the first holds 100 of 3000 inputs, the last 1300.
    assert sum(row < 100 for row in rows) < 20 < 60 < sum(row >= 1700 for row in rows) < 115


@pytest.mark.parametrize("sample", [500, 10_000])
def test_the_diagnosis_of_files_equals_that_of_the_arrays(files, monkeypatch, sample):
    monkeypatch.setattr("polarised.shards.SAMPLE", sample)
    streamed, whole = diagnose(files, name="x"), diagnose(Encodings(MEAN, variance=VARIANCE), name="x")
    assert streamed.headline == whole.headline
    assert streamed.to_dict()["inputs"] == N
    assert streamed.other_rules.equals(whole.other_rules)
    key = ["metric", "representation", "variables"]
    both = streamed.scores.join(whole.scores, on=key, suffix="_whole")
    assert len(both) == len(whole.scores)
    of_covariance = polars.col("metric") != "mutual_information"
    means = both.filter((polars.col("representation") == "mean") & of_covariance)
    np.testing.assert_allclose(means["value"], means["value_whole"], rtol=1e-9)
    # The sampled code of the arrays is one draw; the streamed covariance is its expectation.
    drawn = both.filter((polars.col("representation") == "sampled") & (polars.col("metric") == "effective_rank"))
    np.testing.assert_allclose(drawn["value"], drawn["value_whole"], rtol=0.02)


def test_inputs_that_cannot_be_sampled_are_not_returned(files, monkeypatch):
    monkeypatch.setattr("polarised.shards.SAMPLE", 200)
    expected, found, sizes = totals_of(files, rows=500).sample(), Totals(), []
    for number, file in enumerate(files):
        part = _totals_of_file(str(file), None, False, None, 500, 0, number, found.cutoff)
        sizes.append(len(part._order))
        found.merge(part)
    # The first has 100 inputs, so the second is still complete; of 1300 in the last some 150 can be sampled.
    assert sizes[:2] == [100, 200]
    assert 50 < sizes[2] < 190
    np.testing.assert_array_equal(found.sample().mean, expected.mean)
    np.testing.assert_array_equal(found.sample().factors, expected.factors)


def test_parts_without_sampled_inputs_must_still_be_consistent(files, tmp_path):
    np.savez(tmp_path / "3.npz", mean=MEAN, variance=VARIANCE)
    none = _totals_of_file(str(tmp_path / "3.npz"), None, False, None, 500, 0, 1, 0.0)
    assert len(none._order) == 0
    with pytest.raises(DataError, match=r"factors .* in every part"):
        totals_of(files).merge(none)


def test_invalid_requests_are_refused(files, tmp_path):
    with pytest.raises(DataError, match="at least one file"):
        totals_of([])
    with pytest.raises(ConfigError, match="executor"):
        totals_of(files, executor="cloud")
    np.savez(tmp_path / "3.npz", mean=MEAN, variance=VARIANCE)
    with pytest.raises(DataError, match=r"factors .* in every part"):
        totals_of([files[0], tmp_path / "3.npz"])
    np.savez(tmp_path / "4.npz", mean=MEAN[:, :2], variance=VARIANCE[:, :2], factors=FACTORS)
    with pytest.raises(DataError, match="4 latent variables"):
        totals_of([files[0], tmp_path / "4.npz"])


def compare_on_ray(noise, *files):
    """Compare the results of cluster workers on files with the single pass; Ray must not be imported before."""
    with ray_cluster() as ray:
        alone, together = (totals_of(files, executor=executor, rows=500) for executor in ("local", "ray"))
        same(alone.evidence.classify(), together.evidence.classify())
        np.testing.assert_array_equal(alone.evidence.classify().confidence, together.evidence.classify().confidence)
        np.testing.assert_array_equal(alone.evidence.covariance, together.evidence.covariance)
        np.testing.assert_array_equal(alone.sample().mean, together.sample().mean)
        with pytest.raises(DataError, match="plain arrays"):
            totals_of([noise], executor="ray")
        assert ray.is_initialized()
        print("the same")


@pytest.mark.slow
def test_ray_workers_give_the_result_of_a_single_pass(files, tmp_path):
    pytest.importorskip("ray")
    (tmp_path / "bad.npz").write_bytes(b"noise")
    # In a separate process: if Ray is already imported, a cluster would listen on every network of this machine.
    code = "import sys; from test_shards import compare_on_ray; compare_on_ray(*sys.argv[1:])"
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    settings = {**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", code, str(tmp_path / "bad.npz"), *map(str, files)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr


def test_files_are_diagnosed_where_torch_is_not_installed(files, tmp_path):
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from polarised.cli import app\n"
        f"app(['diagnose', {str(files[1])!r}, '--details'])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "latent variables" in done.stdout


@pytest.mark.parametrize(
    "bad", [{"variance": -np.ones((5, 4))}, {"variance": np.ones((5, 3)), "mean": np.ones((5, 3))}]
)
def test_an_error_names_the_file(files, tmp_path, bad):
    np.savez(tmp_path / "bad.npz", **{"mean": np.ones((5, 4)), "factors": FACTORS[:5], **bad})
    with pytest.raises(DataError, match=r"bad\.npz") as refused:
        totals_of([*files, tmp_path / "bad.npz"])
    assert str(refused.value).count("bad.npz") == 1


@pytest.mark.parametrize("stored", ["as pictures", "as a table"])
def test_positions_of_an_image_stay_together_in_files(tmp_path, stored):
    generator = np.random.default_rng(3)
    own = generator.uniform(0.5, 1.4, size=(90, 2, 1, 1))
    mean, variance = np.zeros((90, 2, 4, 4)), own * np.ones((90, 2, 4, 4))
    whole, files = Encodings(mean, variance=variance, axis=1), []
    for number, part in enumerate(np.split(np.arange(90), [7, 50])):
        if stored == "as pictures":
            np.savez(tmp_path / f"{number}.npz", mean=mean[part], variance=variance[part])
        else:
            Encodings(mean[part], variance=variance[part], axis=1).save(tmp_path / f"{number}.npz")
        files.append(tmp_path / f"{number}.npz")
    axis = 1 if stored == "as pictures" else None
    found, regime = totals_of(files, rows=40, axis=axis).evidence.classify(), classify(whole)
    assert (found.inputs, found.rows) == (90, 90 * 16)
    same(found, regime)
    np.testing.assert_allclose(found.distance_errors, regime.distance_errors, rtol=1e-6)
    np.testing.assert_array_equal(found.confidence, regime.confidence)


PEAK = """
import re, sys
from pathlib import Path
import polarised as po
diagnosis = po.diagnose(sys.argv[1], executor=(sys.argv[2:] or ["local"])[0])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(diagnosis.regime.inputs, int(peak[1]) / 2**10)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("form", ["{}/*.npz", "file://{}/*.npz"])
def test_memory_does_not_grow_with_the_number_of_shards(tmp_path, form):
    """Both have more inputs than the sample; the others together are 130 MB, and 5 MB of each are kept."""
    rows, latents = 5_000, 32
    peaks = {}
    for count in (3, 50):
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            mean = GENERATOR.normal(size=(rows, latents))
            np.savez(folder / f"{number:02}.npz", mean=mean, variance=np.full((rows, latents), 0.01))
        done = subprocess.run(
            [sys.executable, "-c", PEAK, form.format(folder)], capture_output=True, text=True, check=True
        )
        inputs, peak = done.stdout.split()
        assert int(inputs) == rows * count
        peaks[count] = float(peak)
    assert peaks[50] - peaks[3] < 30, peaks


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_memory_of_the_driver_on_ray_does_not_grow_with_the_number_of_shards(tmp_path):
    """A file returns 2.6 MB at first, and Ray frees the memory of a hundred results at a time."""
    pytest.importorskip("ray")
    rows, latents = 5_000, 32
    path, peaks = tmp_path / "codes.npz", {}
    np.savez(path, mean=GENERATOR.normal(size=(rows, latents)), variance=np.full((rows, latents), 0.01))
    for count in (50, 200):
        (tmp_path / str(count)).mkdir()
        for number in range(count):
            (tmp_path / str(count) / f"{number:03}.npz").hardlink_to(path)
        command = [sys.executable, "-c", PEAK, f"{tmp_path}/{count}/*.npz", "ray"]
        settings = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
        done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
        inputs, peak = done.stdout.split()
        assert int(inputs) == rows * count
        peaks[count] = float(peak)
    assert peaks[200] - peaks[50] < 30, peaks
