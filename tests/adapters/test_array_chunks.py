import numpy as np
import polars
import pytest

from polarised.adapters import from_arrays
from polarised.adapters.arrays import chunks_of_file
from polarised.errors import DataError
from polarised.regime import Encodings

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
    monkeypatch.setattr("polarised.adapters.arrays.LARGEST_CHUNK", 10 * 8 * 3)
    if name == "codes.npz":
        np.savez(tmp_path / name, mean=MEAN, variance=VARIANCE)
    else:
        polars.DataFrame({"mean": MEAN.tolist(), "variance": VARIANCE.tolist()}).write_parquet(tmp_path / name)
    chunks = list(chunks_of_file(tmp_path / name))
    assert [len(chunk.mean) for chunk in chunks] == [10] * 5
    np.testing.assert_array_equal(np.concatenate([chunk.mean for chunk in chunks]), MEAN)


def test_kl_and_repeats_are_read_back_from_the_file_of_encodings(tmp_path):
    generator = np.random.default_rng(0)
    mean = generator.normal(size=(6, 2, 3, 3))
    path = Encodings(mean, variance=np.ones_like(mean), kl=[1.0, 2.0], axis=1).save(tmp_path / "codes.npz")
    chunks = list(chunks_of_file(path, rows=20))
    assert [len(chunk.mean) for chunk in chunks] == [18, 18, 18]
    assert {chunk.repeats for chunk in chunks} == {9}
    assert chunks[1].kl.tolist() == [1.0, 2.0]
    assert [len(chunk.mean) for chunk in chunks_of_file(path, examples=30)] == [27]
    found = from_arrays(path)
    assert (found.repeats, found.kl.tolist()) == (9, [1.0, 2.0])


def test_arrays_of_these_names_with_other_shapes_are_ignored(tmp_path):
    plain = {"mean": np.zeros((8, 2)), "variance": np.ones((8, 2))}
    np.savez(tmp_path / "own.npz", **plain, kl=np.zeros((8, 2)), repeats=np.arange(8))
    (chunk,) = chunks_of_file(tmp_path / "own.npz")
    assert (chunk.kl, chunk.repeats) == (None, 1)
    np.savez(tmp_path / "wrong.npz", **plain, repeats=3)
    with pytest.raises(DataError, match="divides the 8 rows"):
        list(chunks_of_file(tmp_path / "wrong.npz"))
