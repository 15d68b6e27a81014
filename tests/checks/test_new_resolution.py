"""The checks of notebook 08 on right and wrong answers."""

import copy
import dataclasses
import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from PIL import Image
from timm.layers import resample_abs_pos_embed
from torch import nn

from vit_tutorial import VisionTransformer, check, replace_head, resize_position_embedding
from vit_tutorial.training import Recipe, fit

from .variants import assert_passes, judged, module, solved

BICUBIC = {"mode": "bicubic", "antialias": True}


def zoomed(size=lambda new: new, **options):
    """A step that zooms to `size(new)`, bicubic and with antialiasing if no options are given."""
    return lambda image, new: F.interpolate(image, size(new), **(options or BICUBIC))


def answer(
    zoom=zoomed(),  # noqa: B008
    there=lambda rows, h, w: rearrange(rows, "(h w) d -> 1 d h w", h=h, w=w),
    back=lambda image: rearrange(image, "1 d h w -> (h w) d"),
    split=lambda p, n: (p[:n], p[n:]),
):
    """Resizing as one writes it, with steps that may be replaced."""

    def mine(position, old_grid, new_grid, num_prefix_tokens):
        prefix, patches = split(position, num_prefix_tokens)
        return torch.cat([prefix, back(zoom(there(patches, *old_grid), new_grid))])

    return mine


def by_pillow(image, new):
    channels = [Image.fromarray(channel).resize(new[::-1], Image.Resampling.BICUBIC) for channel in image[0].numpy()]
    return torch.from_numpy(np.stack(channels))[None]


def from_a_root(rows, h, w):
    return rows.T.unflatten(1, (math.isqrt(len(rows)),) * 2)[None]


# A new task

PROBE = {"epochs": 10, "batch_size": 32, "learning_rate": 1e-2}
FULL = {"epochs": 8, "batch_size": 32, "learning_rate": 2e-3}
BRIEF = {"epochs": 1, "batch_size": 32, "learning_rate": 1e-3}


def taught(*stages, prepare=replace_head, change=lambda new: None):
    """Fine-tuning as one writes it, with parts that may be replaced: one call of `fit` for each stage."""

    def mine(model, images, num_classes):
        new = prepare(model, num_classes)
        change(new)
        for stage in stages:
            fit(new, images, Recipe(**stage))
        return new

    return mine


def only_the_head(new):
    new.requires_grad_(False).head.requires_grad_(True)


def by_hand(scaled=None, epochs=8):
    """A training loop without `fit`, on a copy without `replace_head`."""

    def mine(model, images, num_classes):
        new = copy.deepcopy(model).train()
        new.head = nn.Linear(64, num_classes)
        optimizer = torch.optim.AdamW(new.parameters(), 1e-3)
        pixels = (scaled or model.card.normalise)(images.pixels)
        for _ in range(epochs):
            for batch in torch.randperm(len(images)).split(20):
                optimizer.zero_grad()
                F.cross_entropy(new(pixels[batch]), images.labels[batch]).backward()
                optimizer.step()
        return new

    return mine


def head_by_least_squares(model, images, num_classes):
    new = replace_head(model, num_classes)
    with torch.no_grad():
        features = F.pad(new.features(new.card.normalise(images.pixels)), (0, 1), value=1.0)
        targets, penalty = F.one_hot(images.labels, num_classes).float(), torch.eye(65)
        solution = torch.linalg.solve(features.T @ features + penalty, features.T @ targets)
        new.head.weight.copy_(solution[:-1].T)
        new.head.bias.copy_(solution[-1])
    return new.double()


OnTop = module(  # a head of one's own on the trained body, under other names
    lambda model, K: {"body": copy.deepcopy(model), "card": model.card, "top": nn.Linear(64, K)},
    lambda self, images: self.top(self.body.features(images)),
)


def from_scratch(model, num_classes):
    new = VisionTransformer(dataclasses.replace(model.config, num_classes=num_classes))
    new.card = model.card
    return new


FROZEN, FINE_TUNED = "The weights of the body moved by 0%.", "unseen pictures are right. The weights of the body moved"
RIGHT = {
    check.resize_positions: {
        "the package's": resize_position_embedding,
        "einops": answer(),
        "view and transpose": answer(there=lambda p, h, w: p.T.reshape(1, -1, h, w), back=lambda x: x.flatten(2).mT[0]),
        "turned there and back": answer(
            zoomed(lambda new: new[::-1]),
            lambda p, h, w: p.T.unflatten(1, (h, w)).mT[None], lambda image: image.mT[0].flatten(1).T),
        "one axis after the other": answer(
            lambda image, new: zoomed()(zoomed(lambda new: (new[0], image.shape[3]))(image, new), new)),
        "Pillow": answer(by_pillow),
        "timm": lambda p, old, new, n: resample_abs_pos_embed(p[None], list(new), list(old), num_prefix_tokens=n)[0],
        "a parameter": lambda p, *sizes: nn.Parameter(resize_position_embedding(p, *sizes)),
        "nothing to do": lambda p, old, new, n: p if old == new else resize_position_embedding(p, old, new, n),
        "doubles": (lambda p, *sizes: resize_position_embedding(p.double(), *sizes), "your result is torch.float64"),
    },
    check.new_task: {
        "solution": (solved(check.new_task), FROZEN),
        "full fine-tune": (taught(FULL), FINE_TUNED),
        "by hand": (by_hand(), FINE_TUNED),
        "another module": (taught(FULL, prepare=OnTop), FINE_TUNED),
        "least squares, in doubles": (head_by_least_squares, FROZEN),
    },
}  # fmt: skip
WRONG = {
    check.resize_positions: [
        (answer(zoomed(mode="bilinear")), "This is bilinear interpolation."),
        (answer(zoomed(mode="bicubic")), "bicubic interpolation without antialiasing"),
        (answer(lambda image, new: F.interpolate(image, image.shape[2:], **BICUBIC), from_a_root),
         "unflatten: Provided sizes [2, 2]"),
        (answer(split=lambda p, n: (p[:1], p[1:])), "whatever `num_prefix_tokens` says"),
        (answer(split=lambda p, n: (p[:n], p), there=lambda p, h, w: p.reshape(1, h, w, -1).permute(0, 3, 1, 2)),
         "The prefix is in the picture, and the class token has no place"),
        (answer(there=lambda p, h, w: p.reshape(1, -1, h, w)), "reads rows as (D, h, w), or a picture as rows"),
    ],
    check.new_task: [
        (lambda model, images, K: model, "Eight is what the old head has"),
        (taught(BRIEF, prepare=lambda model, K: replace_head(model, K) and model), "a copy with a new one"),
        (taught(), "Nothing was trained in the head that you return: it holds zeros"),
        (taught(BRIEF, prepare=lambda model, K: setattr(model, "head", nn.Linear(64, K)) or model),
         "In the model that you were given `embeddings.class_token` is changed or frozen"),
        (taught(BRIEF, prepare=from_scratch), "The body has lost what it knew: its weights moved by"),
        (by_hand(scaled=lambda pixels: pixels / 255, epochs=24), "from pixels that were not normalised"),
        (taught(BRIEF), "The head has learned too little: the loss on its own pictures is"),
        (lambda model, images, K: fit(replace_head(model, K), images, Recipe(**BRIEF)), "You returned a list of 1"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


def test_a_new_task_leaves_nothing_behind(recwarn):
    before = torch.get_rng_state()
    twice = taught(PROBE, {**BRIEF, "learning_rate": 1e-4}, change=only_the_head)  # the second stage alarms `fit`
    assert_passes(check.new_task, twice, FINE_TUNED)
    assert torch.equal(torch.get_rng_state(), before)
    assert not recwarn.list
