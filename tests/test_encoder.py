"""Eqs. 2 and 3: the MLP, the block, and the stack of blocks."""

from dataclasses import replace

import pytest
import torch
from published import randomize
from torch import nn

from vit_tutorial import Encoder, EncoderBlock, Mlp, ViTConfig
from vit_tutorial.encoder import DropPath


def random_weights(module: nn.Module) -> nn.Module:
    return randomize(module.double(), scale=0.4)


def test_the_hidden_values_are_dropped_after_the_gelu():
    """Half of them become 0, the others twice as large; before the GELU, a value twice as large gives another."""
    mlp = random_weights(Mlp(6, 6, dropout=0.5))
    mlp.dropout2.p = 0.0
    mlp.contract.weight.data, mlp.contract.bias.data = torch.eye(6).double(), torch.zeros(6).double()
    z = torch.randn(4, 50, 6, dtype=torch.float64)
    dropped, kept = mlp(z), 2 * nn.functional.gelu(mlp.expand(z))
    stays = dropped != 0
    assert 0.4 < stays.double().mean() < 0.6
    torch.testing.assert_close(dropped[stays], kept[stays], atol=1e-12, rtol=0)


def test_dropout_stands_where_the_paper_puts_it():
    """After each linear layer but those of q, k and v (appendix B.1), and nowhere twice."""
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "drop_path": 0.3}
    block = Encoder(ViTConfig(embed_dim=12, num_heads=3, mlp_dim=20, depth=2, **rates))[1]
    dropouts = {name: module.p for name, module in block.named_modules() if isinstance(module, nn.Dropout)}
    paths = {"drop_path1": 0.3, "drop_path2": 0.3}
    assert dropouts == {"attention.dropout": 0.1, "mlp.dropout1": 0.1, "mlp.dropout2": 0.1, **paths}
    assert block.attention.attention_dropout == 0.2


def test_drop_path_skips_a_branch_for_whole_images_and_keeps_the_mean():
    """A branch is left out with probability 0.25, for all tokens of an image at once; what stays grows by 4/3."""
    block = random_weights(EncoderBlock(4, 2, 8, drop_path=0.25))
    nn.init.zeros_(block.mlp.contract.weight)
    nn.init.zeros_(block.mlp.contract.bias)  # only the attention branch is left
    z = torch.randn(1, 3, 4, dtype=torch.float64).expand(20_000, -1, -1)
    branch = block.eval()(z[:1]) - z[:1]
    added = block.train()(z) - z
    skipped = added.flatten(1).abs().amax(1) < 1e-12
    assert abs(skipped.double().mean() - 0.25) < 0.01  # three standard deviations
    torch.testing.assert_close(added[~skipped], (branch / 0.75).expand_as(added[~skipped]), atol=1e-12, rtol=0)


def test_drop_path_rises_linearly_to_the_last_block():
    """From 0 in the first block, which therefore has none."""
    config = ViTConfig(embed_dim=12, num_heads=3, mlp_dim=8, depth=4, drop_path=0.3)
    paths = {name: module.p for name, module in Encoder(config).named_modules() if isinstance(module, DropPath)}
    assert paths == pytest.approx({f"{i}.drop_path{k}": i / 10 for i in (1, 2, 3) for k in (1, 2)})
    assert Encoder(config)[1:3][0].drop_path1.p == pytest.approx(0.1), "a slice has the blocks as they are"
    alone = Encoder(replace(config, depth=1))
    assert not any(isinstance(module, DropPath) for module in alone.modules())
