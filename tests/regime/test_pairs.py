import numpy as np
import pytest

from polarised.regime.timeline import correlated_shares, pairs_by_type


def test_every_pair_is_of_one_kind() -> None:
    types = ("active", "mixed", "passive", "active", "passive", "mixed")
    found = pairs_by_type(types)
    pairs = [pair for own in found.values() for pair in zip(*own, strict=True)]
    assert len(pairs) == len(set(pairs)) == 15
    assert {kind: len(own) for kind, (own, _) in found.items()} == {
        "active–active": 1,
        "active–passive": 4,
        "passive–passive": 1,
        "mixed–any": 9,
    }


def test_shares_are_of_pairs_and_moments_and_leave_the_diagonal_out() -> None:
    correlations = np.tile(np.eye(4), (10, 1, 1))
    correlations[:3, 0, 2] = correlations[:3, 2, 0] = -0.5
    correlations[:, 1, 0] = correlations[:, 0, 1] = 0.2
    shares = correlated_shares(correlations, ["active", "active", "passive", "passive"])
    assert shares == {"active–active": 0.0, "active–passive": pytest.approx(3 / 40), "passive–passive": 0.0}
    assert correlated_shares(correlations, ["active"] * 4, threshold=0.1) == {"active–active": pytest.approx(13 / 60)}
