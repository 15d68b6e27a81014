"""The same logits, gradients and tokens as the Vision Transformers of torchvision, timm and transformers.

Every weight is random and copied into the other library's model (`published.py`). Nothing here may be skipped:
without the three libraries this file does not import, and the run fails.
"""

from dataclasses import replace

import pytest
import torch
from published import BUILD, randomize, run, twin

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.config import to_pair
from vit_tutorial.pretrained.tensor_names import as_theirs

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


@pytest.mark.parametrize(("library", "config", "batch"), CASES)
def test_logits_tokens_and_gradients_agree(library, config, batch):
    model = randomize(VisionTransformer(config).double(), scale=0.2)
    assert all(parameter.all() for parameter in model.parameters()), "nothing is hidden by a zero"
    images = torch.randn(batch, config.in_channels, *to_pair(config.image_size)).double().requires_grad_()
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
    named = as_theirs(dict(zip(parameters, found, strict=True)), library)
    assert set(named) == set(their_parameters)

    pairs = [("logits", logits, their_logits), ("image", gradient, their_gradient)]
    pairs += zip(range(len(tokens)), tokens, their_tokens, strict=True)
    pairs += ((name, named[name], there) for name, there in zip(their_parameters, theirs, strict=True))
    for name, ours, there in pairs:
        torch.testing.assert_close(ours, there, atol=1e-9, rtol=0, msg=str(name))
