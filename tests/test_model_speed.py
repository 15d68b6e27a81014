"""The benchmark still runs, and what it counts is right. No time is looked at."""

import pytest
import torch
from benchmarks import model_speed
from torch.utils.flop_counter import FlopCounterMode

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import record_attention


def test_a_short_run_prints_a_row_for_each_implementation(capsys):
    model_speed.main(["--variants", "Ti/16", "--image-size", "32", "--batch", "2", "--rounds", "1", "--seconds", "0"])
    printed = capsys.readouterr().out
    for title in ("Ti/16 forward, batch 1", "Ti/16 forward, batch 2", "Ti/16 forward+backward, batch 2"):
        assert title in printed
    for name in ("vit_tutorial", "torchvision", "timm", "transformers", "products alone"):
        assert printed.count(f"\n{name} ") == 3


@pytest.mark.parametrize("backward", [False, True])
def test_the_products_are_those_of_the_model(backward):
    """As PyTorch counts them on the meta device, attention written out so that it counts both of its products."""
    config = ViTConfig(image_size=32, embed_dim=24, depth=2, num_heads=3, mlp_dim=40, num_classes=5)
    with torch.device("meta"):
        model, images = VisionTransformer(config), torch.empty(2, 3, 32, 32)
    with record_attention(model), FlopCounterMode(display=False) as counter:
        logits = model(images)
        if backward:
            logits.sum().backward()
    assert model_speed.make_products(config, 2, backward)[1] == counter.get_total_flops()


def test_peak_memory_is_that_of_the_worst_moment():
    """Two tensors of a mebibyte live at once, though three are made."""

    def call():
        first = torch.ones(2**18)
        second = first + 1
        del first
        second + 1

    assert model_speed.peak_memory(call) == pytest.approx(2 * 2**20, abs=100)  # and a few bytes for the number 1
