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
from torch.optim.optimizer import _global_optimizer_pre_hooks

from vit_tutorial import VisionTransformer, check, replace_head, resize_position_embedding
from vit_tutorial.data import ImageSet
from vit_tutorial.experiments.probe import fit_head
from vit_tutorial.training import Recipe, fit

from .variants import assert_passes, judged, module, solved

RIGHT, WRONG = {}, {}
BICUBIC = {"mode": "bicubic", "antialias": True}


def zoomed(size=lambda new: new, **options):
    """A step that zooms to `size(new)`, bicubic and with antialiasing if no options are given."""
    return lambda image, new: F.interpolate(image, size(new), **(options or BICUBIC))


def answer(
    zoom=lambda image, new: F.interpolate(image, new, **BICUBIC),
    there=lambda rows, h, w: rearrange(rows, "(h w) d -> 1 d h w", h=h, w=w),
    back=lambda image: rearrange(image, "1 d h w -> (h w) d"),
    split=lambda p, n: (p[:n], p[n:]),
    join=lambda prefix, rows: torch.cat([prefix, rows]),
):
    """Resizing as one writes it, with steps that may be replaced."""

    def mine(position, old_grid, new_grid, num_prefix_tokens):
        prefix, patches = split(position, num_prefix_tokens)
        return join(prefix, back(zoom(there(patches, *old_grid), new_grid)))

    return mine


def by_pillow(image, new):
    channels = [Image.fromarray(channel).resize(new[::-1], Image.Resampling.BICUBIC) for channel in image[0].numpy()]
    return torch.from_numpy(np.stack(channels))[None]


RIGHT[check.resize_positions] = {
    "the package's": resize_position_embedding,
    "einops": answer(),
    "view and transpose": answer(there=lambda p, h, w: p.T.reshape(1, -1, h, w), back=lambda x: x.flatten(2).mT[0]),
    "turned there and back": answer(
        zoomed(lambda new: new[::-1]),
        lambda p, h, w: p.T.unflatten(1, (h, w)).mT[None], lambda image: image.mT[0].flatten(1).T),
    "one axis after the other": answer(
        lambda image, new: F.interpolate(F.interpolate(image, (new[0], image.shape[3]), **BICUBIC), new, **BICUBIC)),
    "Pillow": answer(by_pillow),
    "timm": lambda p, old, new, n: resample_abs_pos_embed(p[None], list(new), list(old), num_prefix_tokens=n)[0],
    "no gradient": lambda p, *sizes: resize_position_embedding(p.detach(), *sizes),
    "nothing to do": lambda p, old, new, n: p if old == new else resize_position_embedding(p, old, new, n),
}  # fmt: skip


def scaled(factor, **options):
    options = {**BICUBIC, **options}
    return answer(lambda image, new: F.interpolate(image, scale_factor=factor(image.shape[2:], new), **options))


def by_axis(factor, **options):
    return scaled(lambda old, new: [factor(a, b) for a, b in zip(old, new, strict=True)], **options)


def from_a_root(rows, h, w):
    return rows.T.unflatten(1, (math.isqrt(len(rows)),) * 2)[None]


to_a_root = zoomed(lambda new: (math.isqrt(new[0] * new[1]),) * 2)


WRONG[check.resize_positions] = [
    (answer(zoomed(mode="bilinear")), "This is bilinear interpolation."),
    (answer(zoomed(mode="bilinear", align_corners=True)), "bilinear interpolation, and with `align_corn"),
    (answer(zoomed(mode="bicubic")), "bicubic interpolation without antialiasing"),
    (answer(zoomed(mode="nearest")), 'This is `mode="nearest"`'),
    (answer(zoomed(mode="area")), 'This is `mode="area"`'),
    (scaled(lambda old, new: math.sqrt(new[0] * new[1] / (old[0] * old[1]))), "for both axes, √(N'/N)"),
    (by_axis(lambda a, b: float(b // a)), "cut off to whole numbers by `//`"),
    (by_axis(lambda a, b: b / a, recompute_scale_factor=True), "`scale_factor` instead of `size`"),
    (by_axis(lambda a, b: (b + 0.1) / a), "with 0.1 added"),
    (answer(back=lambda image: image[0].movedim(0, -1)), "`flatten` the two axes of its grid"),
    (answer(there=from_a_root), "The old grid is taken to be square"),
    (answer(to_a_root), "The new grid is taken to be square, √N'"),
    (answer(to_a_root, from_a_root), "Both grids are taken to be square"),
    (answer(zoomed(lambda new: new[0])), "as many columns as rows: h'"),
    (answer(split=lambda p, n: (p[:0], p[: len(p) - n])), "The prefix is in the picture:"),
    (answer(split=lambda p, n: (p[len(p) - n :], p[: len(p) - n])), "looked for at the end:"),
    (answer(split=lambda p, n: (p[:1], p[1:])), "Right with one prefix token, but not with 2 prefix tokens"),
    (lambda p, old, new, n: answer(split=lambda p, n: (p[:1], p[-old[0] * old[1] :]))(p, old, new, n),
     "but not with 2 prefix tokens. One row is kept, the class"),
    (lambda p, old, new, n: answer()(p, old, new, n or 1), "Right with one prefix token, but not with 0"),
    (answer(there=lambda p, h, w: p.reshape(1, -1, h, w)), "`view` or `reshape` reads the rows as (D, h, w), without"),
    (answer(there=lambda p, h, w: p.reshape(1, -1, h, w), back=lambda x: x.reshape(-1, x.shape[1])),
     "as (D, h, w), and back"),
    (answer(back=lambda x: x.reshape(-1, x.shape[1])), "On the way back `view` or `reshape` reads"),
    (answer(there=lambda p, h, w: p.T.reshape(1, -1, w, h)), "The old grid is read as (w, h)"),
    (answer(zoomed(lambda new: new[::-1]), lambda p, h, w: p.T.reshape(1, -1, w, h)),
     "Both grids are turned"),
    (answer(there=lambda p, h, w: p.reshape(1, h, w, -1).permute(0, 3, 2, 1)), "The old picture is transp"),
    (answer(back=lambda x: rearrange(x, "1 d h w -> (w h) d")), "counted down the columns"),
    (lambda p, old, new, n: F.interpolate(p[n:].T.reshape(1, -1, *old), new, **BICUBIC), "still a picture"),
    (lambda p, old, new, n: p if len(p) - n == new[0] * new[1] else answer()(p, old, new, n), "same number of patches"),
    (answer(there=lambda p, h, w: p.reshape(1, h, w, -1)), "`F.interpolate` got (1, 2, 8, 5), and needs (1, D, h, w),"),
    (answer(there=lambda p, h, w: p.reshape(h, w, -1)), "`permute` brings the D axis forward"),
    (answer(there=lambda p, h, w: p.T.reshape(-1, h, w)), "`[None]` adds the 1"),
    (lambda p, *sizes: answer()(p.half(), *sizes).float(), "half precision"),
    (answer(back=lambda image: image[0].flatten(1)), "The new rows are still (D, h'·w')"),
    (answer(back=lambda image: image.flatten(2).mT), "take `picture[0]`"),
    (answer(join=lambda a, b: torch.cat([a, b], dim=1)), "belongs above the rows, `dim=0`"),
    (answer(split=lambda p, n: (p[0], p[n:])), "`position[0]` is one vector"),
    (answer(split=lambda p, n: (p[:, :n], p[:, n:]), there=lambda p, h, w: p.reshape(h, w, -1).permute(2, 0, 1)[None]),
     "leaves out columns"),
    (lambda p, *sizes: answer()(p.half().float(), *sizes), "to half precision for instance?"),
    (answer(join=lambda a, b: torch.cat([a.mean(0)[None].expand_as(a), b])), "prefix are averaged"),
    (lambda p, *sizes: p, "The old positions come back as they were"),
    (lambda p, old, new, n: F.interpolate(p.T[None], n + new[0] * new[1], mode="linear")[0].T,
     "All T rows are stretched as one long line"),
    (answer(lambda table, new: F.interpolate(table, (new[0] * new[1], table.shape[3]), mode="bilinear"),
            there=lambda rows, h, w: rows[None, None], back=lambda table: table[0, 0]),
     "The patches' rows are stretched as one long line"),
    (lambda p, old, new, n: torch.cat([p[:n], p[n:].repeat(9, 1)[: new[0] * new[1]]]), "list of patches is repeated"),
    (answer(lambda image, new: image.repeat(1, 1, 9, 9)[:, :, : new[0], : new[1]]), "laid side by side, like tiles"),
    (lambda p, old, new, n: p.reshape(*old, -1), "Your code stops with an error"),
    (lambda p, old, new, n: torch.cat([p, torch.randn(99, p.shape[1])])[: n + new[0] * new[1]],
     "Two calls with the same arguments give two results"),
    (lambda *args: resize_position_embedding(*args).double(), "The values are right. The result must be of"),
]  # fmt: skip


# A new task

PROBE = {"epochs": 10, "batch_size": 32, "learning_rate": 1e-2, "trained": "head"}
FULL = {"epochs": 8, "batch_size": 32, "learning_rate": 2e-3}
BRIEF = {"epochs": 1, "batch_size": 32, "learning_rate": 1e-3}


def taught(*stages, prepare=replace_head, change=lambda new: None, finish=lambda new: new, show=lambda images: images):
    """Fine-tuning as one writes it, with parts that may be replaced: one call of `fit` for each stage."""

    def mine(model, images, num_classes):
        new = prepare(model, num_classes)
        change(new)
        for stage in stages:
            fit(new, show(images), Recipe(**stage))
        return finish(new)

    return mine


def by_hand(head=nn.Linear, optimizer_first=False, scaled=None, step="zero backward step", epochs=8, rate=1e-3):
    """A training loop without `fit`, on a copy without `replace_head`."""

    def mine(model, images, num_classes):
        torch.manual_seed(0)
        new = copy.deepcopy(model).train()
        old = torch.optim.AdamW(new.parameters(), rate)
        new.head = head(64, num_classes) or new.head
        optimizer = old if optimizer_first else torch.optim.AdamW(new.parameters(), rate)
        pixels = (scaled or model.card.normalise)(images.pixels)
        for _ in range(epochs):
            for batch in torch.randperm(len(images)).split(20):
                loss = F.cross_entropy(new(pixels[batch]), images.labels[batch])
                do = {"zero": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}
                [do[name]() for name in step.split()]
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
    return new


OnTop = module(  # a head of one's own on the trained body, under other names
    lambda model, K: {"body": copy.deepcopy(model), "card": model.card, "top": nn.Linear(64, K)},
    lambda self, images: self.top(self.body.features(images)),
)


def from_scratch(model, num_classes):
    new = VisionTransformer(dataclasses.replace(model.config, num_classes=num_classes))
    new.card = model.card
    return new


def shuffled(images):
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(3))
    return ImageSet(images.pixels, images.labels[order], images.classes)


FROZEN, FINE_TUNED = "The weights of the body moved by 0%.", "unseen pictures are right. The weights of the body moved"
RIGHT[check.new_task] = {
    "solution": (solved(check.new_task), FROZEN),
    "probe by option": (taught(PROBE), FROZEN),
    "full fine-tune": (taught(FULL), FINE_TUNED),
    "layer decay": (taught({**FULL, "layer_decay": 0.75}), FINE_TUNED),
    "head first, then all": (taught(PROBE, {**FULL, "learning_rate": 3e-4}), FINE_TUNED),
    "by hand": (by_hand(), FINE_TUNED),
    "another module": (taught(FULL, prepare=OnTop), FINE_TUNED),
    "L-BFGS": (lambda model, images, K: [new := replace_head(model, K), fit_head(new, images)][0], FROZEN),
    "least squares": (head_by_least_squares, FROZEN),
    "doubles": (lambda *task: head_by_least_squares(*task).double(), FROZEN),
}
WRONG[check.new_task] = [
    (lambda model, images, K: model, "a tensor of shape (100, 8) for 100 pictures of 6 outlines: (B, 6) is expected. "
     "The old head is still there"),
    (by_hand(head=lambda D, K: None, epochs=1), "The old head is still there"),
    (taught(FULL, prepare=lambda model, K: model), "does not change `model`. It returns a copy with a new head"),
    (taught(FULL, prepare=lambda model, K: replace_head(model, 8)), "The head still has the 8 logits"),
    (taught(), "Nothing was trained: no optimizer took a step. Call `fit`"),
    (taught(BRIEF, change=lambda new: new.head.requires_grad_(False)), "has to learn: `new.head.requires_grad_(True)`. "
     "Its zeros let no gradient through"),
    (taught(FULL, change=lambda new: new.requires_grad_(False)), "num_classes=6)`. The new head is frozen, and it "
     "has to learn"),
    (by_hand(lambda D, K: nn.Linear(D, K).requires_grad_(False), epochs=1), "The new head is frozen"),
    (taught(BRIEF, finish=lambda new: replace_head(new, 6)), "What was trained is not in the model that you return"),
    (by_hand(optimizer_first=True, epochs=1), "No optimizer holds the new head"),
    (by_hand(step="zero step", epochs=1), "5 steps at rates of up to 0.001 did not move the head: is there a `backw"),
    (by_hand(step="backward zero step", epochs=1), "no `zero_grad` in between"),
    (taught(BRIEF, prepare=lambda model, K: setattr(model, "head", nn.Linear(64, K)) or model),
     "In the model that you were given these weights are others now"),
    (taught(BRIEF, prepare=lambda model, K: replace_head(model.requires_grad_(False), K)),
     "In the model that you were given you froze"),
    (taught(BRIEF, prepare=from_scratch), "The body did not begin with the weights that you were given"),
    (taught({**FULL, "learning_rate": 0.05}), "The body has lost what it knew: 32 steps at rates of up to 0.05 moved"),
    (taught({"epochs": 6, "batch_size": 16, "learning_rate": 0.01}), "The model knows its own pictures and few others"),
    (by_hand(rate=1e20, epochs=1), "The body has lost what it knew: 5 steps"),
    (by_hand(scaled=lambda pixels: pixels / 255), "from pixels that were not normalised"),
    (by_hand(scaled=torch.Tensor.float), "`model.card.normalise(images.pixels)`"),
    (taught({**PROBE, "learning_rate": 1e-5}), "The head has hardly begun to learn: after 40 steps"),
    (taught(BRIEF), "after 4 steps at rates of up to 0.001 the loss on its own pictures is"),
    (taught(FULL, show=shuffled), "Do the labels belong to the pictures?"),
    (taught(BRIEF, finish=lambda new: None), "returns nothing (None)"),
    (lambda model, images, K: fit(replace_head(model, K), images, Recipe(**BRIEF)), "returned a value of type list"),
    (lambda model, images, K: torch.zeros(6), "a tensor of shape (6,)"),
    (taught(finish=lambda new: new.head), "This was the model that you returned, with pictures"),
    (taught(finish=lambda new: nn.Sequential(new, nn.Flatten(0))), "a tensor of shape (600,)"),
]  # fmt: skip


test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)


def test_a_new_task_leaves_nothing_behind(recwarn):
    before = torch.get_rng_state()
    twice = taught(PROBE, {**BRIEF, "learning_rate": 1e-4})  # the second stage alarms `fit`
    assert_passes(check.new_task, twice, FINE_TUNED)
    assert torch.equal(torch.get_rng_state(), before)
    assert not recwarn.list
    assert not _global_optimizer_pre_hooks
