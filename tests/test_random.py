import numpy as np
import pytest

from polarised.random import seed_for, seeds_for, stream, streams


def test_a_stream_is_a_pure_function_of_its_arguments():
    np.testing.assert_array_equal(stream(3, "data", 5).random(8), stream(3, "data", 5).random(8))


def test_seed_purpose_and_step_each_change_the_stream():
    keys = [(0, "data", 0), (1, "data", 0), (0, "noise", 0), (0, "data", 1)]
    draws = {stream(*key).random() for key in keys}
    seeds = {seed_for(*key) for key in keys}
    assert len(draws) == len(seeds) == len(keys)


def test_streams_of_neighbouring_steps_are_uncorrelated():
    first = np.array([stream(0, "noise", step).standard_normal() for step in range(4000)])
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.05
    assert abs(first.mean()) < 0.06
    assert abs(first.std() - 1) < 0.04


def test_seeds_fit_a_signed_64_bit_integer():
    assert all(0 <= seed_for(0, "x", step) < 2**63 for step in range(100))


@pytest.mark.parametrize("seed", [0, 5, 2**31, 2**32, 2**40 + 7, 2**70])
@pytest.mark.parametrize("steps", [range(150), range(7, 8), range(2**32 - 3, 2**32 + 3), range(0)])
def test_streams_of_many_steps_equal_those_of_each_step(seed, steps):
    assert list(seeds_for(seed, "noise", steps)) == [seed_for(seed, "noise", step) for step in steps]
    together = [each.integers(10**9, size=4).tolist() for each in streams(seed, "data", steps)]
    assert together == [stream(seed, "data", step).integers(10**9, size=4).tolist() for step in steps]
