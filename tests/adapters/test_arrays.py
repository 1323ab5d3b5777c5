import contextlib
import io
import os
import zipfile

import numpy as np
import polars
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polarised.adapters import from_arrays
from polarised.adapters.arrays import chunks_of_file
from polarised.errors import DataError

GENERATOR = np.random.default_rng(0)
MEAN = GENERATOR.normal(size=(50, 3)).astype(np.float32)
VARIANCE = GENERATOR.uniform(0.01, 1, size=(50, 3)).astype(np.float32)
FACTORS = GENERATOR.integers(4, size=(50, 2))


def npz(tmp_path, **arrays):
    np.savez(tmp_path / "codes.npz", **arrays)
    return tmp_path / "codes.npz"


@pytest.mark.parametrize(
    ("mean", "spread", "values"),
    [
        ("mean", "variance", VARIANCE),
        ("mu", "logvar", np.log(VARIANCE)),
        ("loc", "scale", np.sqrt(VARIANCE)),
        ("z_mean", "log_std", 0.5 * np.log(VARIANCE)),
        ("Mean", "log_var", np.log(VARIANCE)),
    ],
)
def test_common_names_are_recognised(tmp_path, mean, spread, values):
    encodings = from_arrays(npz(tmp_path, **{mean: MEAN, spread: values}))
    np.testing.assert_array_equal(encodings.mean, MEAN)
    np.testing.assert_allclose(encodings.variance, VARIANCE, rtol=1e-5)


def test_sigma_is_ambiguous(tmp_path):
    path = npz(tmp_path, mu=MEAN, sigma=VARIANCE)
    with pytest.raises(DataError, match="a standard deviation in others; give scale_kind="):
        from_arrays(path)
    np.testing.assert_array_equal(from_arrays(path, scale_kind="variance").variance, VARIANCE)
    np.testing.assert_allclose(from_arrays(path, scale_kind="std").variance, VARIANCE**2)


def test_the_given_scale_kind_overrides_the_name(tmp_path):
    path = npz(tmp_path, mu=MEAN, logvar=VARIANCE)
    with pytest.raises(DataError, match=r"scale_kind=.variance"):
        from_arrays(path)
    np.testing.assert_allclose(from_arrays(path, scale_kind="log_variance").variance, np.exp(VARIANCE), rtol=1e-6)


def test_missing_arrays_are_named(tmp_path):
    with pytest.raises(DataError, match="called mean"):
        from_arrays(npz(tmp_path, z=MEAN))
    with pytest.raises(DataError, match="scale of q"):
        from_arrays(npz(tmp_path, mean=MEAN))


def test_priors_and_factors_are_read(tmp_path):
    prior = GENERATOR.uniform(1, 2, size=(50, 3))
    path = npz(
        tmp_path,
        mean=MEAN,
        variance=VARIANCE,
        prior_mean=np.zeros(3),
        prior_log_variance=np.log(prior),
        labels=FACTORS,
        factor_names=np.array(["shape", "scale"]),
    )
    encodings = from_arrays(path)
    np.testing.assert_allclose(encodings.prior_variance, prior)
    assert encodings.prior_mean.shape == (3,)
    np.testing.assert_array_equal(encodings.factors, FACTORS)
    assert encodings.factor_names == ("shape", "scale")


def test_saved_encodings_are_read_back(tmp_path):
    from polarised import Encodings

    saved = Encodings(MEAN, variance=VARIANCE, factors=FACTORS, factor_names=["a", "b"])
    found = from_arrays(saved.save(tmp_path / "encodings.npz"))
    np.testing.assert_array_equal(found.variance, saved.variance)
    assert found.factor_names == ("a", "b")
    assert found.has_standard_prior


def test_npy_files_of_a_folder_and_neighbours(tmp_path):
    for name, array in {"a_mean": MEAN, "a_logvar": np.log(VARIANCE), "b_mean": -MEAN, "b_logvar": MEAN}.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.testing.assert_array_equal(from_arrays(tmp_path / "a_mean.npy").mean, MEAN)
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "mean.npy", MEAN)
    np.save(folder / "std.npy", np.sqrt(VARIANCE))
    np.testing.assert_allclose(from_arrays(folder).variance, VARIANCE, rtol=1e-6)


@pytest.mark.parametrize("nested", [False, True])
def test_parquet_of_columns_or_lists(tmp_path, nested):
    if nested:
        frame = polars.DataFrame({"mean": MEAN.tolist(), "log_variance": np.log(VARIANCE).tolist()})
    else:
        # Twelve columns, so that a sort by text would put mean_10 before mean_2.
        wide = np.tile(MEAN, (1, 4)) + np.arange(12)
        columns = {f"mean_{j}": wide[:, j] for j in range(12)}
        frame = polars.DataFrame(columns | {f"variance_{j}": np.full(50, j + 1.0) for j in range(12)})
        frame = frame.with_columns(polars.Series("factor_shape", FACTORS[:, 0]))
    frame.write_parquet(tmp_path / "codes.parquet")
    encodings = from_arrays(tmp_path / "codes.parquet")
    if nested:
        np.testing.assert_allclose(encodings.variance, VARIANCE, rtol=1e-6)
    else:
        np.testing.assert_allclose(encodings.mean, wide)
        np.testing.assert_array_equal(encodings.variance[0], np.arange(12) + 1)
        assert encodings.factor_names == ("shape",)


def test_convolutional_latents_have_channels_as_variables(tmp_path):
    latents = GENERATOR.normal(size=(6, 4, 2, 2))
    path = npz(tmp_path, mean=latents, variance=np.ones_like(latents))
    with pytest.raises(DataError, match="set the axis of the variables"):
        from_arrays(path)
    encodings = from_arrays(path, axis=1)
    assert encodings.mean.shape == (24, 4)
    np.testing.assert_array_equal(encodings.mean[:4], latents[0].reshape(4, 4).T)


def test_arrays_in_fortran_order_are_read(tmp_path):
    path = npz(tmp_path, mean=np.asfortranarray(MEAN), variance=VARIANCE, factors=np.asfortranarray(FACTORS))
    chunks = list(chunks_of_file(path, rows=7))
    np.testing.assert_array_equal(np.concatenate([chunk.mean for chunk in chunks]), MEAN)
    np.testing.assert_array_equal(from_arrays(path).factors, FACTORS)


@pytest.mark.parametrize("shape", [(0, 3), (50,), ()])
def test_no_inputs_or_no_variables_are_refused(tmp_path, shape):
    with pytest.raises(DataError, match=r"\(inputs, variables\)"):
        from_arrays(npz(tmp_path, mean=np.zeros(shape), variance=np.ones(shape)))


def test_rows_must_agree(tmp_path):
    with pytest.raises(DataError, match="a row of variance for each of the 50"):
        from_arrays(npz(tmp_path, mean=MEAN, variance=VARIANCE[:-1]))


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def test_a_pickle_is_never_run(tmp_path):
    path = npz(tmp_path, mean=np.array([Bomb(), Bomb()], dtype=object), variance=VARIANCE)
    with pytest.raises(DataError, match="unpickled"):
        from_arrays(path)
    np.save(tmp_path / "mean.npy", np.array([Bomb()], dtype=object))
    np.save(tmp_path / "variance.npy", VARIANCE)
    with pytest.raises(DataError, match="plain array"):
        from_arrays(tmp_path / "mean.npy")


def header(shape, dtype="<f8"):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype, "fortran_order": False, "shape": shape})
    return out.getvalue()


@pytest.mark.parametrize("shape", [(10**12, 10), (2, 10**12), (-1, 3), (10**30, 1)])
def test_a_header_that_claims_too_much_allocates_nothing(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "codes.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("mean", "variance"):
            archive.writestr(f"{name}.npy", header(shape) + bytes(1000))
    with pytest.raises(DataError):
        from_arrays(tmp_path / "codes.npz")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "codes.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in ("mean", "variance"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(header((10**9, 8), "<f8"))
                member.write(bytes(1 << 20))
    with pytest.raises(DataError, match="although its header requires 64000000128"):
        from_arrays(tmp_path / "codes.npz")


def test_a_valid_but_huge_file_is_not_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("polarised.adapters.arrays.LARGEST_WHOLE", 1000)
    path = npz(tmp_path, mean=MEAN, variance=VARIANCE)
    with pytest.raises(DataError, match="fit in memory"):
        from_arrays(path)
    assert len(from_arrays(path, examples=10)) == 10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_any_changed_byte_of_an_npz_is_refused_or_harmless(tmp_path, position, change):
    data = bytearray(npz(tmp_path, mean=MEAN[:4], variance=VARIANCE[:4]).read_bytes())
    data[position % len(data)] ^= change
    (tmp_path / "changed.npz").write_bytes(bytes(data))
    with contextlib.suppress(DataError):
        assert len(from_arrays(tmp_path / "changed.npz")) <= 4


@pytest.mark.parametrize("name", ["codes.npz", "codes.npy", "codes.parquet", "codes.txt"])
def test_a_file_of_random_bytes_is_refused_with_a_message(tmp_path, name):
    (tmp_path / name).write_bytes(GENERATOR.bytes(500))
    with pytest.raises(DataError, match="expected"):
        from_arrays(tmp_path / name)
    with pytest.raises(DataError, match="does not exist"):
        from_arrays(tmp_path / f"no-{name}")


@pytest.mark.parametrize("values", [VARIANCE.astype(str), VARIANCE.astype("M8[s]"), VARIANCE + 1j])
def test_arrays_that_are_not_numbers_are_refused(tmp_path, values):
    with pytest.raises(DataError, match="numbers"):
        from_arrays(npz(tmp_path, mean=MEAN, variance=values))


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_broken_means_are_refused(tmp_path, broken):
    mean = MEAN.copy()
    mean[3, 1] = broken
    with pytest.raises(DataError, match=r"first at \(3, 1\)"):
        from_arrays(npz(tmp_path, mean=mean, variance=VARIANCE))


def test_a_pipe_among_the_arrays_does_not_block(tmp_path):
    np.save(tmp_path / "mean.npy", MEAN)
    os.mkfifo(tmp_path / "variance.npy")
    with pytest.raises(DataError, match="scale of q"):
        from_arrays(tmp_path)


@pytest.mark.parametrize(
    ("separator", "decimal"), [(",", "."), (";", ","), (";", "."), ("\t", ".")], ids=["csv", "csv2", "semicolon", "tab"]
)
def test_the_dialects_of_csv_are_read_alike(tmp_path, separator, decimal):
    header = [f"mean.{j}" for j in range(3)] + [f"variance.{j}" for j in range(3)]
    rows = [[f"{number:.6f}".replace(".", decimal) for number in row] for row in np.hstack([MEAN, VARIANCE])]
    lines = [["", *(f'"{name}"' for name in header)], *([f'"{i}"', *row] for i, row in enumerate(rows))]
    path = tmp_path / "codes.csv"
    path.write_text("\n".join(separator.join(line) for line in lines) + "\n")
    read = from_arrays(path)
    np.testing.assert_allclose(read.mean, MEAN, atol=1e-6)
    np.testing.assert_allclose(read.variance, VARIANCE, atol=1e-6)


def test_a_missing_number_of_a_csv_file_is_refused_by_its_column(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("mean_0,mean_1,variance_0,variance_1\n0.1,0.2,0.5,0.5\n0.3,NA,0.5,0.5\n")
    with pytest.raises(DataError, match="mean"):
        from_arrays(path)
