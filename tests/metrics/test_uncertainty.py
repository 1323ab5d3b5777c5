import numpy as np
import pytest

from polarised import metrics
from polarised.errors import ConfigError


def test_bootstrap_reads_the_first_field_and_is_reproducible() -> None:
    generator = np.random.default_rng(0)
    factors = generator.integers(3, size=(200, 1))
    z = factors + generator.normal(size=(200, 2))
    first = metrics.bootstrap(metrics.irs, z, factors, repeats=10, seed=3)
    assert first == metrics.bootstrap(metrics.irs, z, factors, repeats=10, seed=3)
    assert first.value == metrics.irs(z, factors).score
    assert 0 < first.error < 0.2


def test_a_bootstrap_needs_two_repeats() -> None:
    with pytest.raises(ConfigError, match="repeats"):
        metrics.bootstrap(metrics.total_correlation, np.eye(3), repeats=1)
