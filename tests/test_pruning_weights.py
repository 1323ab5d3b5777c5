import pytest
import torch
from torch import nn

from polarised.errors import DataError
from polarised.pruning import prune_state


class Foreign(nn.Module):
    """A foreign VAE: one linear head, means before log-variances; the decoder begins with a transposed convolution."""

    def __init__(self, latents=4):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Linear(8, 2 * latents)
        self.up = nn.ConvTranspose2d(latents, 5, 4)

    def decode(self, z):
        return self.up(z[:, :, None, None])


def test_a_pruned_foreign_network_is_unchanged_on_the_kept_variables():
    torch.manual_seed(0)
    model, keep = Foreign(), [3, 1]
    names = {"mean_head": "head", "decoder_input": "up", "layout": "stacked", "transposed": True}
    smaller = Foreign(latents=2)
    smaller.load_state_dict(prune_state(model.state_dict(), keep, **names))
    h = torch.randn(3, 8)
    whole, cut = model.head(h), smaller.head(h)
    torch.testing.assert_close(cut, whole[:, [3, 1, 7, 5]])
    z = torch.zeros(3, 4)
    z[:, keep] = torch.randn(3, 2)
    torch.testing.assert_close(smaller.decode(z[:, keep]), model.decode(z))
    assert model.head.out_features == 8


def test_a_wrong_name_suggests_the_right_one():
    state = Foreign().state_dict()
    with pytest.raises(DataError, match="did you mean 'head'"):
        prune_state(state, [0], mean_head="heads", decoder_input="up", layout="stacked", transposed=True)
    with pytest.raises(DataError, match="if it is a ConvTranspose2d"):
        prune_state(state, [0], mean_head="head", decoder_input="up", layout="stacked")


def test_double_precision_is_kept():
    torch.manual_seed(0)
    state = {name: value.double() / 3 for name, value in Foreign().state_dict().items()}
    cut = prune_state(state, [3, 1], mean_head="head", decoder_input="up", layout="stacked", transposed=True)
    assert torch.equal(cut["head.weight"], state["head.weight"][[3, 1, 7, 5]])
    assert torch.equal(cut["up.weight"], state["up.weight"][[3, 1]])
