"""Inputs that were once misread silently are now read correctly or refused."""

import numpy as np
import pytest
import torch

import polarised as po
from polarised.errors import DataError

from .models import DEAD, IMAGES, INPUTS, LIVE, Flat, Grid, same_state, state


@pytest.mark.parametrize("form", ["model", "method", "function", "method of a plain object"])
def test_a_network_in_training_mode_is_read_in_evaluation_mode_and_left_alone(form):
    network = Flat().train()
    network.drop.eval()

    class Wrapper:
        def __init__(self):
            self.network = network

        def code(self, x):
            mu, logvar = self.network.encode(x)
            return mu, logvar

    targets = {
        "model": network,
        "method": network.encode,
        "function": lambda x: network.encode(torch.as_tensor(x)),
        "method of a plain object": Wrapper().code,
    }
    before = state(network)
    diagnosis = po.diagnose(targets[form], INPUTS, scale_kind="log_variance" if form == "function" else None)
    assert same_state(before, state(network))
    assert (diagnosis.regime.alive, diagnosis.regime.passive) == (LIVE, DEAD)
    with torch.no_grad():
        mean = network.eval().encode(torch.from_numpy(INPUTS))[0]
    np.testing.assert_allclose(diagnosis.encodings.mean, mean, atol=1e-5)


@pytest.mark.parametrize("fails_at", [0, 3])
def test_a_model_is_unchanged_even_if_encoding_fails(fails_at):
    network, calls = Flat().train(), []

    def encode(x):
        network.norm.running_mean += 1.0
        network.register_buffer("counter", torch.zeros(1), persistent=False)
        calls.append(len(x))
        if len(calls) > fails_at:
            raise RuntimeError("no memory left")
        return network.encode(torch.as_tensor(x))

    before = state(network)
    with pytest.raises(DataError, match="no memory left"):
        po.diagnose(encode, INPUTS, scale_kind="log_variance")
    del network._buffers["counter"]
    network._non_persistent_buffers_set.clear()
    assert same_state(before, state(network))


def test_channels_last_latents_and_sequences_are_ambiguous():
    mean = np.random.default_rng(0).normal(size=(200, 8, 8, 4)) * [1, 1, 0, 0]
    variance = np.broadcast_to([0.01, 0.01, 1.0, 1.0], mean.shape)
    encode = lambda i: (mean[i], variance[i])  # noqa: E731
    for ask in (
        lambda **more: po.classify(po.Encodings(mean, variance=variance, **more)),
        lambda **more: po.diagnose({"mean": mean, "variance": variance}, **more).regime,
        lambda **more: po.diagnose(encode, np.arange(200), scale_kind="variance", **more).regime,
    ):
        with pytest.raises(DataError, match=r"axis=-1 \(4 variables"):
            ask()
        regime = ask(axis=-1)
        assert (regime.alive, regime.passive, regime.inputs) == (LIVE, DEAD, 200)
    assert "× 4 variables (64 positions each)" in repr(po.Encodings(mean, variance=variance, axis=-1))


def test_torch_convolutions_determine_the_axis():
    diagnosis = po.diagnose(Grid(), IMAGES)
    assert (diagnosis.regime.alive, diagnosis.regime.passive) == (LIVE, DEAD)
    assert "96 inputs × 4 variables (64 positions each), axis 1" in diagnosis.reading


def test_groups_of_latents_are_one_diagnosis_with_a_section_each():
    generator = np.random.default_rng(0)
    means = generator.normal(size=(64, 8)) * np.repeat([1.0, 0.0], 4), generator.normal(size=(64, 3, 5, 5))
    scales = np.repeat([[0.01, 1.0]], 4, axis=1).ravel() * np.ones((64, 8)), np.full((64, 3, 5, 5), 0.02)
    encode = lambda i: [(means[0][i], scales[0][i]), (means[1][i], scales[1][i])]  # noqa: E731
    scales = (np.concatenate([np.full(4, 0.01), np.ones(4)]) * np.ones((64, 8)), scales[1])
    diagnosis = po.diagnose(encode, np.arange(64), scale_kind="variance", axis=1)
    assert (diagnosis.regime.inputs, len(diagnosis.regime.types)) == (64, 11)
    assert diagnosis.groups == {"group 0": tuple(range(8)), "group 1": (8, 9, 10)}
    assert diagnosis.regime.passive == [4, 5, 6, 7]
    assert "In group 0: 4 active, 0 mixed, 4 passive. In group 1: 3 active" in diagnosis.headline
    assert [part["name"] for part in diagnosis.to_dict()["groups"]] == ["group 0", "group 1"]
    assert diagnosis.table()["group"].to_list() == ["group 0"] * 8 + ["group 1"] * 3
    alone = po.classify(po.Encodings(means[1], variance=scales[1], axis=1))
    np.testing.assert_allclose(diagnosis.regime.statistics.kl[8:], alone.statistics.kl, rtol=1e-9)


def test_ambiguous_groups_are_refused():
    twice = lambda x: [(x, x), (x, x)]  # noqa: E731
    with pytest.raises(DataError, match="two groups or"):
        po.diagnose(twice, INPUTS, scale_kind="std")
    named = lambda x: {"first": (x, x * 0 + 1), "second": (x, x * 0 + 1)}  # noqa: E731
    assert list(po.diagnose(named, INPUTS, scale_kind="std").groups) == ["first", "second"]


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_one_array_is_split_into_batches_here(kind):
    network = Flat()
    assert po.diagnose(network, kind(INPUTS)).regime.inputs == len(INPUTS)
    with pytest.raises(DataError, match="single images or batches"):
        po.diagnose(Grid(), [kind(image) for image in IMAGES])


def test_mean_log_variance_and_sample_are_distinguished():
    network = Flat()

    def encoder(x):
        first, second = network.encode(torch.as_tensor(x))
        return first, second, first + torch.exp(second / 2) * torch.randn_like(second)

    with pytest.raises(DataError, match="scale_kind='log_variance' or 'log_std'"):
        po.diagnose(encoder, INPUTS)
    assert po.diagnose(encoder, INPUTS, scale_kind="log_variance").regime.passive == DEAD

    def named(x):
        z_mean, z_log_var = network.encode(torch.as_tensor(x))
        z = z_mean
        return z_mean, z_log_var, z

    assert po.diagnose(named, INPUTS).regime.passive == DEAD
    still = lambda x: (x, x - 9, x)  # noqa: E731
    with pytest.raises(DataError, match="which are mean and scale"):
        po.diagnose(still, INPUTS, scale_kind="log_variance")


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_pixels_up_to_255_are_ambiguous(dtype):
    pixels = np.random.default_rng(0).integers(0, 256, size=(96, 3, 16, 16)).astype(dtype)
    if dtype == np.int64:
        pixels = torch.as_tensor(pixels).to(torch.uint8)
    with pytest.raises(DataError, match="pixels from 0 to 255"):
        po.diagnose(Grid(), pixels)
    diagnosis = po.diagnose(Grid(), pixels, pixel_range=(0, 1))
    expected = po.diagnose(Grid(), np.asarray(pixels, dtype=np.float32) / 255)
    np.testing.assert_allclose(diagnosis.encodings.mean, expected.encodings.mean, rtol=1e-4, atol=1e-5)


def test_counts_in_a_table_are_not_pixels():
    counts = np.random.default_rng(0).poisson(20, size=(200, 6)).astype(np.float32)
    assert po.diagnose(Flat(), counts).regime.inputs == 200


def test_a_transposed_table_is_refused():
    codes, noise = np.random.default_rng(0).normal(size=(7, 3000)), np.full((7, 3000), 0.01)
    for target in (po.Encodings(codes, variance=noise), {"mean": codes, "variance": noise}):
        with pytest.raises(DataError, match="look like a transposed table"):
            po.diagnose(target)
    assert po.diagnose({"mean": codes, "variance": noise}, axis=0).regime.inputs == 3000


@pytest.mark.parametrize("form", ["statistics of the batch", "functional dropout", "sample"])
def test_codes_that_depend_on_the_batch_or_are_random_are_refused(form):
    weights = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))

    def encode(x):
        x = torch.as_tensor(x)
        if form == "statistics of the batch":
            x = (x - x.mean(0)) / x.std(0)
        elif form == "functional dropout":
            x = torch.nn.functional.dropout(x)
        mean = x @ weights
        return (mean + torch.randn_like(mean) if form == "sample" else mean), mean * 0 - 4

    asked = "others in its batch" if form == "statistics of the batch" else "sample instead of the mean"
    with pytest.raises(DataError, match=asked):
        po.diagnose(encode, INPUTS, scale_kind="log_variance")
    assert po.diagnose(encode, INPUTS, scale_kind="log_variance", trust_scale=True).regime.inputs == 600


def test_the_error_for_a_misspelt_keyword_suggests_the_right_one():
    with pytest.raises(po.ConfigError, match=r"aplha \(did you mean alpha\?\)"):
        po.diagnose(po.Encodings(INPUTS, variance=np.ones_like(INPUTS)), aplha=0.2)


def test_rows_that_are_not_the_inputs_are_refused():
    with pytest.raises(DataError, match="a row for each"):
        po.diagnose(lambda x: (x.T, x.T * 0 - 1), INPUTS, scale_kind="log_variance")


def test_an_axis_that_codes_do_not_have_is_refused():
    with pytest.raises(DataError, match="axis"):
        po.diagnose(Flat(), INPUTS, axis=5)
    for axis in (1, -1):
        assert po.diagnose(Flat(), INPUTS, axis=axis).regime.passive == DEAD


def test_a_network_without_its_weights_is_refused():
    with pytest.raises(DataError, match="are not loaded yet"):
        po.diagnose(Flat().to("meta"), INPUTS)


@pytest.mark.parametrize("target", [np.zeros((9, 2)), (np.zeros((9, 2)), np.ones((9, 2))), torch.zeros(9, 2)])
def test_arrays_without_names_are_not_taken_for_a_model(target):
    with pytest.raises(DataError, match=r"name the arrays: Encodings\(mean, variance=...\)"):
        po.diagnose(target)


def test_a_class_is_not_taken_for_a_model():
    with pytest.raises(DataError, match="got the class Flat; create the model"):
        po.diagnose(Flat, INPUTS)


def test_nan_in_the_inputs_is_suspected_with_the_model():
    broken = INPUTS.copy()
    broken[3] = np.nan
    with pytest.raises(DataError, match="check the inputs for NaN"):
        po.diagnose(Flat(), broken, scale_kind="log_variance")
