"""Bad input gets one ValueError that shows the facts: what was given, what was asked, what would fit.

The shape checker of the tests is off here, since it would answer first.
"""

import re

import numpy as np
import pytest
import torch

from vit_tutorial import (
    Mlp,
    SelfAttention,
    Shapes,
    VisionTransformer,
    ViTConfig,
    load_photo,
    patchify,
    sincos_position_embedding,
    unpatchify,
)
from vit_tutorial.analysis import mask_heads
from vit_tutorial.data import load_outline
from vit_tutorial.experiments import answers, model_with_positions

pytestmark = pytest.mark.usefixtures("unchecked")

SMALL = ViTConfig(image_size=(8, 12), patch_size=4, num_classes=5, embed_dim=12, depth=2, num_heads=3, mlp_dim=20)


def model() -> VisionTransformer:
    return VisionTransformer(SMALL)


# What is done, and every fact that the message must show.
WRONG = {
    # An image that is not a whole number of patches.
    "config: width": (lambda: ViTConfig(image_size=(224, 225)), ["image 224×225", "16×16 patches", "225 = 14·16 + 1"]),
    "patchify: height": (lambda: patchify(torch.zeros(1, 3, 225, 224), 16), ["225×224", "16×16", "225 = 14·16 + 1"]),
    # Rank, size, type of the images.
    "model: one image": (lambda: model()(torch.zeros(3, 8, 12)), ["(B, C, H, W)", "(3, 8, 12)", "images[None]"]),
    "model: another size": (lambda: model()(torch.zeros(2, 3, 12, 8)), ["built for 8×12", "got 12×8"]),
    "model: NumPy": (lambda: model()(np.zeros((2, 3, 8, 12))), ["(B, C, H, W)", "ndarray", "torch.as_tensor"]),
    "patchify: a list": (lambda: patchify([[0.5]], 1), ["(B, C, H, W)", "list", "torch.as_tensor"]),
    # Patches that make no such image.
    "unpatchify: count": (lambda: unpatchify(torch.zeros(2, 5, 48), 4, (8, 12)), ["(2, 5, 48)", "8×12", "2·3 = 6"]),
    "unpatchify: rank": (lambda: unpatchify(torch.zeros(6, 48), 4, (8, 12)), ["(6, 48)", "8×12"]),
    "unpatchify: image": (lambda: unpatchify(torch.zeros(2, 6, 48), 4, (8, 13)), ["8×13", "4×4", "13 = 3·4 + 1"]),
    # Heads.
    "config: heads": (lambda: ViTConfig(embed_dim=100, num_heads=12), ["embed_dim 100", "12 heads", "100 = 8·12 + 4"]),
    "attention: heads": (lambda: SelfAttention(10, 3), ["embed_dim 10", "3 heads", "10 = 3·3 + 1"]),
    "attention: no head": (lambda: SelfAttention(64, 0), ["num_heads", "at least 1", "got 0"]),
    # Sizes that are no sizes.
    **{
        f"config: {name}={value!r}": (lambda n=name, v=value: ViTConfig(**{n: v}), [name, repr(value), "at least 1"])
        for name in ("in_channels", "embed_dim", "depth", "num_heads", "mlp_dim", "representation_size")
        for value in (0, 1.5, "12", True)
    },
    "config: num_classes": (lambda: ViTConfig(num_classes=-2), ["num_classes", "-2", "at least 0"]),
    **{
        f"config: {name}={value!r}": (lambda n=name, v=value: ViTConfig(**{n: v}), [name, repr(value), "positive"])
        for name in ("image_size", "patch_size")
        for value in (0, 16.0, None, (16,), (16, 0))
    },
    "patchify: size": (lambda: patchify(torch.zeros(1, 3, 8, 8), 0), ["patch_size", "positive", "0"]),
    "photo: size": (lambda: load_photo(size=0), ["size", "positive", "0"]),
    "scenes: count": (lambda: Shapes(2.5), ["count", "at least 1", "2.5"]),
    "scenes: size": (lambda: Shapes(1, (32, 0)), ["image_size", "positive", "(32, 0)"]),
    # Rates.
    **{
        f"config: {name}={value!r}": (lambda n=name, v=value: ViTConfig(**{n: v}), [name, "[0, 1)", repr(value)])
        for name in ("dropout", "attention_dropout", "drop_path", "norm_eps")
        for value in (-0.1, 1.0, float("nan"), "0.1", False)
    },
    # Names that do not exist, with what is near.
    "model: a name": (lambda: VisionTransformer("B/16"), ["a ViTConfig, such as ViTConfig.named('B/16')"]),
    "variant: B16": (lambda: ViTConfig.named("B16"), ["variant", "'B16'", "did you mean 'B/16'"]),
    "position": (lambda: ViTConfig(position="sin-cos"), ["position", "'sin-cos'", "did you mean 'sincos'"]),
    "gelu": (lambda: ViTConfig(gelu="quick"), ["gelu", "'quick'", "'exact'", "'tanh'"]),
    "MLP: gelu": (lambda: Mlp(8, 8, gelu="Tanh"), ["gelu", "'Tanh'", "did you mean 'tanh'"]),
    "outline": (lambda: load_outline(224, "chelsea"), ["outline", "'chelsea'", "'grace_hopper', 'eileen_collins'"]),
    "positions: kind": (lambda: model_with_positions("randon", 1.0), ["kind 'randon'", "'shuffled'"]),
    "pool": (lambda: ViTConfig(pool="average"), ["pool", "'average'", "'cls'", "'mean'"]),
    # Sin-cos positions need quarters.
    "config: sincos": (lambda: ViTConfig(embed_dim=18, num_heads=3, position="sincos"), ["divisible by 4", "18"]),
    "sincos: dimension": (lambda: sincos_position_embedding((2, 3), 6), ["sin-cos", "divisible by 4", "6"]),
    # Heads and layers to measure.
    "mask: layer": (lambda: mask_heads(model(), {2: 0}).__enter__(), ["no layer 2", "layers 0 to 1"]),
    "answers": (lambda: answers(model(), torch.zeros(2, 3, 8, 12), torch.ones(2, 7)), ["(2, 6)", "got (2, 7)"]),
    # A network whose stride is not known.
    "backbone": (lambda: VisionTransformer(SMALL, torch.nn.ReLU()), ["Backbone(network, channels, stride)", "ReLU"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_error_that_shows_the_facts(case):
    act, facts = WRONG[case]
    with pytest.raises(ValueError, match=re.escape(facts[0])) as caught:
        act()
    message = str(caught.value)
    assert not [fact for fact in facts if fact not in message], message
    assert "\n" not in message
    assert len(message) < 200
    assert caught.value.__cause__ is None, "one error, not two"
    assert caught.value.__context__ is None
    assert "vit_tutorial" in caught.traceback[-1].path.parts, "raised here, and not in torch: a reader can follow it"


def test_a_photo_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        load_photo("grace_hoper.jpg")
    for fact in ("'grace_hoper.jpg'", "'grace_hopper'", str(tmp_path)):
        assert fact in str(caught.value)
