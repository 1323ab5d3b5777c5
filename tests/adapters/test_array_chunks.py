import numpy as np
import polars
import pytest

from polarised.adapters.array_chunks import chunks_of_file

GENERATOR = np.random.default_rng(0)
MEAN = GENERATOR.normal(size=(50, 3))
VARIANCE = GENERATOR.uniform(0.01, 1, size=(50, 3))
FACTORS = GENERATOR.integers(4, size=(50, 2))


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_chunks_are_consecutive_rows(tmp_path, write):
    write(tmp_path / "codes.npz", mean=MEAN, variance=VARIANCE, factors=FACTORS)
    chunks = list(chunks_of_file(tmp_path / "codes.npz", rows=7))
    assert [len(chunk.mean) for chunk in chunks] == [7] * 7 + [1]
    np.testing.assert_array_equal(np.concatenate([chunk.variance for chunk in chunks]), VARIANCE)
    np.testing.assert_array_equal(np.concatenate([chunk.factors for chunk in chunks]), FACTORS)


@pytest.mark.parametrize("name", ["codes.npz", "codes.parquet"])
def test_wide_rows_make_small_chunks(tmp_path, monkeypatch, name):
    monkeypatch.setattr("polarised.adapters.array_chunks.LARGEST_CHUNK", 10 * 8 * 3)
    if name == "codes.npz":
        np.savez(tmp_path / name, mean=MEAN, variance=VARIANCE)
    else:
        polars.DataFrame({"mean": MEAN.tolist(), "variance": VARIANCE.tolist()}).write_parquet(tmp_path / name)
    chunks = list(chunks_of_file(tmp_path / name))
    assert [len(chunk.mean) for chunk in chunks] == [10] * 5
    np.testing.assert_array_equal(np.concatenate([chunk.mean for chunk in chunks]), MEAN)
