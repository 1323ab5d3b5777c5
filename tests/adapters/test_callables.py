import numpy as np
import pytest
import torch

from polarised.adapters import from_callable
from polarised.adapters.callables import as_variance
from polarised.errors import DataError

X = np.random.default_rng(0).normal(size=(40, 3))
VARIANCE = np.array([0.01, 0.5, 1.0]) * np.ones((40, 1))
FORMS = {
    "variance": VARIANCE,
    "log_variance": np.log(VARIANCE),
    "std": np.sqrt(VARIANCE),
    "log_std": 0.5 * np.log(VARIANCE),
}


def table(second):
    """An encoder that looks its answers up, so that every form of the second output can be given."""
    return lambda rows: (X[rows], FORMS[second][rows])


BATCHES = [np.arange(0, 15), np.arange(15, 40)]


@pytest.mark.parametrize("second", FORMS)
def test_every_form_of_the_spread_means_the_same(second):
    encodings = from_callable(table(second), BATCHES, second=second)
    np.testing.assert_allclose(encodings.mean, X)
    np.testing.assert_allclose(encodings.variance, VARIANCE)


def test_a_negative_variance_is_a_question():
    with pytest.raises(DataError, match="is it the log-variance"):
        from_callable(table("log_variance"), BATCHES, second="variance")
    with pytest.raises(DataError, match="never negative"):
        from_callable(table("log_std"), BATCHES, second="std")


@pytest.mark.parametrize(("said", "given"), [("log_variance", "variance"), ("log_std", "std")])
def test_a_logarithm_that_is_never_negative_is_a_question(said, given):
    with pytest.raises(DataError, match=f"is it the {given} itself"):
        from_callable(table(given), BATCHES, second=said)
    assert from_callable(table(given), BATCHES, second=said, certain=True).variance.min() > 1


def test_an_absurdly_wide_posterior_is_a_question():
    spread = np.concatenate([np.full((3, 1), -1.0), np.full((9, 1), 30.0)])
    with pytest.raises(DataError, match="swapped"):
        as_variance(spread, "log_variance")
    assert as_variance(spread, "log_variance", certain=True).max() == pytest.approx(np.exp(30.0))


def test_an_encoder_that_samples_is_a_question():
    generator = np.random.default_rng(0)

    def noisy(rows):
        return X[rows] + generator.normal(size=X[rows].shape), FORMS["log_variance"][rows]

    with pytest.raises(DataError, match="sample instead of the mean"):
        from_callable(noisy, BATCHES, second="log_variance")


def test_dropout_is_noticed():
    network = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(3, 4))
    batch = [torch.ones(64, 3)]

    def encode(x):
        return network(x).chunk(2, dim=1)

    with pytest.raises(DataError, match=r"model\.eval"):
        from_callable(encode, batch, second="log_variance", certain=False)
    network.eval()
    assert len(from_callable(encode, batch, second="log_variance", certain=True)) == 64


@pytest.mark.parametrize("output", [lambda x: x, lambda x: (x, x, x), lambda x: {"mean": x}])
def test_other_outputs_are_explained(output):
    with pytest.raises(DataError, match=r"\(mean, second\)"):
        from_callable(output, [X], second="variance")


def test_shapes_must_agree_and_batches_must_exist():
    with pytest.raises(DataError, match="one shape"):
        from_callable(lambda x: (x, x[:, :1]), [X], second="variance")
    with pytest.raises(DataError, match="at least one batch"):
        from_callable(table("variance"), [], second="variance")


def test_tensors_of_any_kind_are_taken_by_their_values():
    mean = torch.tensor(X, requires_grad=True)
    encodings = from_callable(
        lambda _: (mean, torch.zeros(40, 3, dtype=torch.bfloat16) - 1), [0], second="log_variance"
    )
    np.testing.assert_allclose(encodings.mean, X)
    np.testing.assert_allclose(encodings.variance, np.exp(-1), rtol=1e-6)


def test_broken_numbers_and_unknown_forms_are_refused():
    with pytest.raises(DataError, match="got none, NaN or infinity"):
        as_variance(np.array([[np.nan]]), "variance")
    with pytest.raises(DataError, match="one of variance"):
        as_variance(np.ones((1, 1)), "precision")
