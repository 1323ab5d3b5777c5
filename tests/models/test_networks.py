import pytest
from torch import nn

from polarised.models.networks import evaluating


@pytest.fixture
def network():
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    network[1].eval()
    return network


def fail_in(network):
    with evaluating(network):
        assert not any(module.training for module in network.modules())
        raise KeyError


def test_the_mode_of_each_module_is_restored(network):
    with evaluating(network):
        assert not any(module.training for module in network.modules())
    assert [module.training for module in network] == [True, False, True]
    assert network.training


def test_the_modes_are_restored_after_an_error(network):
    with pytest.raises(KeyError):
        fail_in(network)
    assert [module.training for module in network] == [True, False, True]
