import io
import zipfile

import numpy as np
import pytest
import torch

from polarised import Encodings
from polarised.errors import DataError

MEAN = np.random.default_rng(0).standard_normal((20, 3))
VARIANCE = np.random.default_rng(1).uniform(0.01, 1.0, (20, 3))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"mean": MEAN, "variance": VARIANCE, "repeats": 3}, "divides the 20 rows, got 3"),
        ({"mean": MEAN, "variance": VARIANCE, "kl": VARIANCE}, r"kl as \(3,\)"),
        ({"mean": MEAN}, "either variance= or log_variance=, got neither"),
        ({"mean": MEAN, "variance": VARIANCE, "log_variance": VARIANCE}, "got both"),
        ({"mean": MEAN, "variance": VARIANCE[:10]}, r"the same shape, got \(20, 3\) and \(10, 3\)"),
        ({"mean": MEAN, "variance": np.log(VARIANCE)}, "negative entries .* pass it as log_variance="),
        ({"mean": np.where(MEAN > 1, np.nan, MEAN), "variance": VARIANCE}, "NaN or infinite"),
        ({"mean": MEAN, "log_variance": np.full((20, 3), 1e4)}, "its variance is infinite"),
        ({"mean": MEAN[:1], "variance": VARIANCE[:1]}, "at least two inputs"),
        ({"mean": MEAN[:, 0], "variance": VARIANCE[:, 0]}, r"a single variable is \(n, 1\)"),
        ({"mean": MEAN[:, :0], "variance": VARIANCE[:, :0]}, "at least one input and one latent variable"),
        ({"mean": MEAN + 1j, "variance": VARIANCE}, "real numbers in mean, got complex128"),
        ({"mean": [["a"], ["b"]], "variance": [[1], [1]]}, "expected numbers in mean"),
        (
            {"mean": MEAN, "variance": VARIANCE, "prior_mean": np.zeros(4)},
            r"prior_mean as a number, \(3,\) or \(20, 3\)",
        ),
        ({"mean": MEAN, "variance": VARIANCE, "prior_variance": 0.0}, "prior_variance above zero"),
        ({"mean": MEAN, "variance": VARIANCE, "factors": np.zeros((5, 2))}, "for each of the 20 inputs, got 5"),
        ({"mean": MEAN, "variance": VARIANCE, "factors": MEAN}, "whole-number classes .* bin continuous factors"),
        ({"mean": MEAN, "variance": VARIANCE, "factors": ["cat", "dog"] * 10}, "number the classes first"),
        ({"mean": MEAN, "variance": VARIANCE, "factors": np.zeros(20), "factor_names": ["a", "b"]}, "1 factor_names"),
        ({"mean": MEAN, "variance": VARIANCE, "factor_names": ["a"]}, "factors with factor_names"),
        ({"mean": MEAN, "variance": VARIANCE, "axis": 2}, "axis as that of the variables"),
        ({"mean": MEAN[:, :, None], "variance": VARIANCE[:, :, None]}, "set the axis of the variables"),
    ],
)
def test_invalid_arguments_are_refused_with_a_message(arguments, says):
    mean = arguments.pop("mean")
    with pytest.raises(DataError, match=says):
        Encodings(mean, **arguments)


def test_variance_and_log_variance_are_the_same_encodings():
    np.testing.assert_allclose(Encodings(MEAN, log_variance=np.log(VARIANCE)).variance, VARIANCE, rtol=1e-12)


def test_a_tiny_float32_log_variance_does_not_underflow():
    encodings = Encodings(MEAN.astype(np.float32), log_variance=np.full((20, 3), -200, dtype=np.float32))
    np.testing.assert_allclose(encodings.variance, np.exp(-200.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_tensors_are_converted_to_their_values(dtype):
    mean = torch.tensor(MEAN, dtype=dtype, requires_grad=True)
    encodings = Encodings(mean, variance=torch.tensor(VARIANCE, dtype=dtype))
    assert encodings.mean.dtype == np.float32
    np.testing.assert_allclose(encodings.mean, MEAN, atol=0.02)


def test_integers_become_floats_and_one_variable_is_enough():
    encodings = Encodings([[0], [1]], variance=[[1], [1]])
    assert encodings.mean.dtype == np.float64
    assert encodings.latents == 1


def test_positions_of_a_convolutional_latent_are_observations_or_variables():
    mean = np.arange(2 * 3 * 4 * 5, dtype=float).reshape(2, 3, 4, 5)
    factors = np.array([[7], [8]])
    observations = Encodings(mean, variance=np.ones_like(mean), factors=factors, axis=1)
    assert observations.mean.shape == (40, 3)
    np.testing.assert_array_equal(observations.mean[:20, 1], mean[0, 1].ravel())
    np.testing.assert_array_equal(observations.factors[:, 0], np.repeat([7, 8], 20))
    variables = Encodings(mean, variance=np.ones_like(mean), factors=factors, axis=(1, 2, 3))
    assert variables.mean.shape == (2, 60)
    assert (observations.repeats, variables.repeats) == (20, 1)
    assert [len(part[0]) for part in observations.chunks(rows=7)] == [20, 20]


def test_a_sample_has_the_posterior_s_moments_and_is_repeatable():
    encodings = Encodings(np.full((20000, 2), 3.0), variance=np.full((20000, 2), [0.25, 4.0]))
    z = encodings.sample(seed=5)
    np.testing.assert_array_equal(z, encodings.sample(seed=5))
    assert not np.array_equal(z, encodings.sample(seed=6))
    np.testing.assert_allclose(z.mean(0), 3.0, atol=0.06)
    np.testing.assert_allclose(z.var(0), [0.25, 4.0], rtol=0.05)


def test_keep_takes_indices_or_a_mask_and_slices_the_prior():
    encodings = Encodings(MEAN, variance=VARIANCE, prior_variance=[1.0, 2.0, 3.0], factors=np.arange(20))
    kept = encodings.keep([2, 0])
    np.testing.assert_array_equal(kept.mean, MEAN[:, [2, 0]])
    np.testing.assert_array_equal(kept.prior_variance, [3.0, 1.0])
    np.testing.assert_array_equal(encodings.keep(np.array([True, False, False])).mean, MEAN[:, :1])


@pytest.mark.parametrize("variables", [[], [3], [-1], [0, 0], [0.5], np.array([True, False])])
def test_keep_refuses_variables_that_do_not_exist(variables):
    with pytest.raises(DataError, match="distinct variables from 0 to 2"):
        Encodings(MEAN, variance=VARIANCE).keep(variables)


def test_saved_encodings_can_be_loaded(tmp_path):
    encodings = Encodings(
        MEAN,
        variance=VARIANCE,
        prior_mean=MEAN / 2,
        prior_variance=VARIANCE * 2,
        factors=np.arange(20),
        factor_names=["x"],
    )
    loaded = Encodings.load(encodings.save(tmp_path / "e.npz"))
    for name in ("mean", "variance", "prior_mean", "prior_variance", "factors"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(encodings, name))
    assert loaded.factor_names == ("x",)
    assert (loaded.kl, loaded.repeats) == (None, 1)
    assert not {"kl", "repeats"} & set(np.load(tmp_path / "e.npz").files)


def test_kl_and_rest_are_saved_and_loaded(tmp_path):
    encodings = Encodings(MEAN, variance=VARIANCE, kl=[1.0, 2.0, 3.0], repeats=5)
    for found in (encodings, Encodings.load(encodings.save(tmp_path / "e.npz"))):
        kept = found.keep([2, 0])
        assert (kept.kl.tolist(), kept.repeats) == ([3.0, 1.0], 5)


def test_load_refuses_other_files(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        Encodings.load(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DataError, match="not a zip file"):
        Encodings.load(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", latent=MEAN)
    with pytest.raises(DataError, match="got no mean and variance"):
        Encodings.load(tmp_path / "other.npz")
    with pytest.raises(DataError, match=r"ends in \.npz"):
        Encodings(MEAN, variance=VARIANCE).save(tmp_path / "e.npy")


def test_a_pickle_in_the_file_is_never_run(tmp_path):
    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    buffer = io.BytesIO()
    np.save(buffer, np.array([Hostile()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "hostile.npz", "w") as archive:
        archive.writestr("mean.npy", buffer.getvalue())
        archive.writestr("variance.npy", buffer.getvalue())
    with pytest.raises(DataError, match="would have to be unpickled"):
        Encodings.load(tmp_path / "hostile.npz")
    assert not (tmp_path / "ran").exists()
