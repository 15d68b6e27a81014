"""The same logits, gradients and tokens as the Vision Transformers of torchvision, timm and transformers.

Every weight is random and copied into the other library's model (`published.py`). Nothing here may be skipped:
without the three libraries this file does not import, and the run fails.
"""

from dataclasses import replace

import pytest
import torch
from published import BUILD, logits_of, randomize, run, twin

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.config import to_pair
from vit_tutorial.pretrained.tensor_names import as_theirs

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}

TINY = ViTConfig(image_size=16, patch_size=8, num_classes=7, embed_dim=12, depth=1, num_heads=3, mlp_dim=24)
SQUARE = [
    (TINY, 2),
    (replace(TINY, image_size=24, depth=3, embed_dim=35, num_heads=5, mlp_dim=70), 3),  # odd heads, odd head_dim
    (replace(TINY, image_size=15, patch_size=3, depth=2, embed_dim=14, num_heads=7, mlp_dim=42), 1),  # 26 tokens
    (replace(TINY, embed_dim=32, num_heads=1, mlp_dim=64, depth=2), 5),
    (replace(TINY, norm_eps=1e-12), 2),  # transformers' default
    (replace(TINY, gelu="tanh", depth=2), 2),
]
NOT_SQUARE = [
    (replace(TINY, image_size=(16, 40), depth=2), 2),
    (replace(TINY, image_size=(12, 20), patch_size=(4, 10), in_channels=5, depth=2), 3),
]
CASES = [(library, *case) for library in BUILD for case in SQUARE]
CASES += [(library, *case) for library in ("timm", "transformers") for case in NOT_SQUARE]  # torchvision is square only
CASES += [("torchvision", replace(TINY, representation_size=9, depth=2), 3), ("timm", replace(TINY, pool="mean"), 3)]


def draw(config: ViTConfig, batch: int, dtype: torch.dtype) -> tuple[VisionTransformer, torch.Tensor]:
    """A model without a zero in it, and images."""
    model = randomize(VisionTransformer(config).to(dtype), scale=0.2)
    assert all(parameter.all() for parameter in model.parameters())
    size = to_pair(config.image_size)
    return model, torch.randn(batch, config.in_channels, *size, dtype=dtype, requires_grad=True)


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert ours.shape == theirs.shape
    assert ours.isfinite().all()
    return (ours - theirs).abs().max().item()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("library", "config", "batch"), CASES)
def test_logits_tokens_and_gradients_agree(library, config, batch, dtype):
    model, images = draw(config, batch, dtype)
    peer = twin(model, library)
    logits, tokens = run(model, "ours", images, config.depth)
    their_logits, their_tokens = run(peer, library, images, config.depth)
    assert logits.std(1).min() > 0.1, "logits that do not vary over the classes prove nothing"
    assert batch == 1 or logits.std(0).mean() > 0.02, "nor do logits that do not vary over the images"
    assert len(tokens) == 1 + config.depth + 1

    # A mean over the logits, weighted at random, so that gradients are about as large as what they belong to.
    direction = torch.randn_like(logits) / logits.numel()
    parameters, their_parameters = dict(model.named_parameters()), dict(peer.named_parameters())
    gradient, *found = torch.autograd.grad((logits * direction).sum(), (images, *parameters.values()))
    their_gradient, *theirs = torch.autograd.grad(
        (their_logits * direction).sum(), (images, *their_parameters.values())
    )
    assert gradient.abs().max() > 1e-4
    named = as_theirs(dict(zip(parameters, found, strict=True)), library, config.num_heads)
    assert set(named) == set(their_parameters)

    pairs = [("logits", logits, their_logits), ("image", gradient, their_gradient)]
    pairs += zip(range(len(tokens)), tokens, their_tokens, strict=True)
    pairs += ((name, named[name], there) for name, there in zip(their_parameters, theirs, strict=True))
    for name, ours, there in pairs:
        assert difference(ours, there) <= TOLERANCE[dtype], name


@pytest.mark.parametrize("library", BUILD)
def test_a_weight_left_out_is_noticed(library):
    """The comparison can fail: one changed number in any tensor of the other model changes its logits."""
    model, images = draw(replace(TINY, image_size=24), 2, torch.float64)
    peer = twin(model, library)
    logits = model(images)
    for name, parameter in peer.named_parameters():
        is_key_bias = "k_proj.bias" in name
        with torch.no_grad():
            parameter.view(-1)[0] += 0.1
            changed = logits_of(peer(images))
            parameter.view(-1)[0] -= 0.1
        assert is_key_bias or difference(logits, changed) > TOLERANCE[torch.float64], name


@pytest.mark.parametrize("library", BUILD)
@pytest.mark.parametrize("change", [{"norm_eps": 1e-5}, {"gelu": "tanh"}], ids=str)
def test_another_eps_or_gelu_is_noticed(change, library):
    """The same weights; in float64 neither can hide in the rounding."""
    model, images = draw(replace(TINY, image_size=24), 2, torch.float64)
    other, _ = draw(replace(model.config, **change), 2, torch.float64)
    theirs = logits_of(twin(other, library)(images))
    assert difference(other(images), theirs) <= TOLERANCE[torch.float64]
    assert difference(model(images), theirs) > 100 * TOLERANCE[torch.float64]


def test_timm_pools_before_its_norm_unless_told():
    """Why the twin is built with `fc_norm=False`: timm's default for mean pooling is another function than ours."""
    assert isinstance(BUILD["timm"](replace(TINY, pool="mean"), fc_norm=None).norm, torch.nn.Identity)
    assert isinstance(BUILD["timm"](replace(TINY, pool="mean")).fc_norm, torch.nn.Identity)
