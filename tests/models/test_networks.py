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


def test_each_module_goes_back_to_its_own_mode(network):
    with evaluating(network):
        assert not any(module.training for module in network.modules())
    assert [module.training for module in network] == [True, False, True]
    assert network.training


def test_a_failure_leaves_the_modes_as_they_were(network):
    with pytest.raises(KeyError):
        fail_in(network)
    assert [module.training for module in network] == [True, False, True]
