import numpy as np
import pytest
import torch

from polarised.adapters.callables import call_encoder
from polarised.errors import DataError

X = np.random.default_rng(0).normal(size=(40, 3))


def test_an_encoder_that_samples_is_a_question():
    generator = np.random.default_rng(0)

    def noisy(rows):
        return X[rows] + generator.normal(size=X[rows].shape), -np.ones_like(X[rows])

    with pytest.raises(DataError, match="sample instead of the mean"):
        call_encoder(noisy, [np.arange(40)])


def test_another_rounding_of_the_same_mean_is_no_question():
    generator = np.random.default_rng(0)

    def rounded(rows):
        return X[rows] * (1 + 1e-6 * generator.normal(size=X[rows].shape)), -np.ones_like(X[rows])

    assert len(call_encoder(rounded, [np.arange(40)])[0]) == 40


def test_dropout_is_noticed():
    network = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(3, 4))
    batch = [torch.ones(64, 3)]

    def encode(x):
        return network(x).chunk(2, dim=1)

    with pytest.raises(DataError, match=r"model\.eval"):
        call_encoder(encode, batch)
    network.eval()
    assert len(call_encoder(encode, batch)[0]) == 64


@pytest.mark.parametrize("output", [lambda x: x, lambda x: (x, x, x), lambda x: {"mean": x}])
def test_other_outputs_are_explained(output):
    with pytest.raises(DataError, match=r"\(mean, second\)"):
        call_encoder(output, [X])


def test_shapes_must_agree_and_batches_must_exist():
    with pytest.raises(DataError, match="one shape"):
        call_encoder(lambda x: (x, x[:, :1]), [X])
    with pytest.raises(DataError, match="at least one batch"):
        call_encoder(lambda x: (x, x), [])


def test_tensors_of_any_kind_are_taken_by_their_values():
    mean = torch.tensor(X, requires_grad=True)
    found, spread = call_encoder(lambda _: (mean, torch.zeros(40, 3, dtype=torch.bfloat16) - 1), [0])
    np.testing.assert_allclose(found, X)
    np.testing.assert_array_equal(spread, -np.ones((40, 3)))
