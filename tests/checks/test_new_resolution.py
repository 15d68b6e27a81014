"""The checks of notebook 08 on right and wrong answers."""

import copy

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from timm.layers import resample_abs_pos_embed
from torch import nn

from vit_tutorial import check, replace_head, resize_position_embedding

from .variants import assert_passes, judged, module, solved

# What is changed in the solutions

SPLIT, REST = "position[:num_prefix_tokens]", "position[num_prefix_tokens:]"
PICTURE, ROWS, MODE = (
    "patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)",
    "resized[0].flatten(1).T",
    'mode="bicubic", antialias=True',
)
ZOOM = f"F.interpolate(picture, size=new_grid, {MODE})"


def zoom(mode):
    return MODE, mode


def by_pillow(picture, size):
    channels = [Image.fromarray(each).resize(size[::-1], Image.Resampling.BICUBIC) for each in picture[0].numpy()]
    return torch.from_numpy(np.stack(channels))[None]


def with_pillow(position, old_grid, new_grid, n):
    picture = position[n:].T.reshape(1, -1, *old_grid)
    return torch.cat([position[:n], by_pillow(picture, new_grid)[0].flatten(1).T])


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


def by_least_squares(prepare=replace_head, head=lambda new: new.head):
    """No training at all: the head is solved for, on a body that `prepare(model, num_classes)` makes."""

    def mine(model, images, num_classes):
        new, card = prepare(model, num_classes), model.card
        with torch.no_grad():
            features = F.pad(model.features(card.normalise(images.pixels)), (0, 1), value=1.0)
            targets, penalty = F.one_hot(images.labels, num_classes).float(), torch.eye(65)
            solution = torch.linalg.solve(features.T @ features + penalty, features.T @ targets)
            head(new).weight.copy_(solution[:-1].T)
            head(new).bias.copy_(solution[-1])
        return new.double()

    return mine


OnTop = module(  # a head of one's own on the trained body, under other names
    lambda model, K: {"body": copy.deepcopy(model), "card": model.card, "top": nn.Linear(64, K)},
    lambda self, images: self.top(self.body.features(images)),
)
FREEZE, THAW, NEW = (
    "new.requires_grad_(False)",
    "new.head.requires_grad_(True)",
    "new = replace_head(model, num_classes)",
)
RECIPE = "epochs=30, batch_size=16, learning_rate=1e-2"
FIT = f"fit(new, images, Recipe({RECIPE}))"
BRIEF = RECIPE, "epochs=1, batch_size=32, learning_rate=1e-3"
ALL_LEARN = FREEZE, "pass", THAW, "pass"
SCORES, LOG, SOFTMAX = (
    "q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5",
    "times.log()[:, None, None]",
    "scores.softmax(dim=-1)",
)
KEYS, QUERIES, ADDED = "times[:, None, None]", "times[:, None, :, None]", "scores + times.log()[:, None, None]"

MOVED = "of its own 100. The weights of the body moved by"
RIGHT = {
    check.resize_positions: {
        "the package's": resize_position_embedding,
        "view and transpose": (PICTURE, "patches.T.reshape(1, -1, h, w)", ROWS, "resized.flatten(2).mT[0]"),
        "turned there and back": (PICTURE, "patches.T.reshape(1, -1, h, w).mT", "size=new_grid", "size=new_grid[::-1]",
         "resized[0]", "resized[0].mT"),
        "one axis after the other": (ZOOM,
         f"F.interpolate(F.interpolate(picture, size=(new_grid[0], w), {MODE}), size=new_grid, {MODE})"),
        "Pillow": with_pillow,
        "timm": lambda p, old, new, n: resample_abs_pos_embed(p[None], list(new), list(old), num_prefix_tokens=n)[0],
        "a parameter": ("return torch.cat([prefix, rows])", "return torch.nn.Parameter(torch.cat([prefix, rows]))"),
        "doubles": (PICTURE, PICTURE + ".double()", "your result is torch.float64"),
    },
    check.weighted_attention: {
        "weights, then normalised": (ADDED, "scores", SOFTMAX, f"F.normalize({SOFTMAX} * {KEYS}, p=1, dim=-1)"),
        "torch's": lambda q, k, v, t: F.scaled_dot_product_attention(q, k, v, attn_mask=t[:, None, None].log()),
    },
    check.new_task: {
        "by hand": (by_hand(), MOVED),
        "another module": (by_least_squares(OnTop, lambda new: new.top), "The weights of the body moved by 0%."),
        "least squares, in doubles": (by_least_squares(), "The weights of the body moved by 0%."),
    },
}  # fmt: skip
WRONG = {
    check.resize_positions: [
        ("[prefix, rows]", "[rows, prefix]", "The first rows must be the 1 prefix rows"),
        ("[prefix, rows]", "[prefix, rows + position[:1]]", "New patch 0 takes 1 from the prefix"),
        (*zoom('mode="bilinear", antialias=True'), "This is bilinear interpolation. The"),
        (*zoom('mode="bicubic"'), "This is bicubic without antialiasing"),
        (*zoom('mode="nearest"'), 'This is mode="nearest"'),
        (*zoom('mode="bicubic", align_corners=True'), "New patch 8 lies in row 0.31, column 1.59"),
        ("resized[0]", "resized[0].mT", "New patch 3 lies in row 1.09, column -0.08"),
        (ZOOM, f"F.interpolate(F.interpolate(picture, scale_factor=4, {MODE}), size=new_grid, {MODE})",
         "is made of old patches"),
        ("reshape(1, h, w, -1)", "reshape(1, int(len(patches) ** 0.5), int(len(patches) ** 0.5), -1)", "[1, 2, 2, -1]"),
        (SPLIT, "position[:1]", REST, "position[1:]", "Right with one prefix row. With none"),
        (REST, "position", "shape '[1, 2, 3, -1]' is invalid for input of size 49"),
        ("[prefix, rows]", "[rows]", "(h'·w', T) = (20, 7), and (S, D)"),
    ],
    check.weighted_attention: [
        (ADDED, "scores", "`times` changes nothing"),
        (LOG, f"{QUERIES}.log()", "`times` changes nothing"),
        (LOG, KEYS, "w itself is added to the scores"),
        ("+ times", "- times", "-log w is added to the scores"),
        ("log()", "log2()", "another logarithm is added"),
        (LOG, LOG + " / q.shape[-1] ** 0.5", "log w / √d is added"),
        (ADDED, f"scores * {KEYS}", "scores are multiplied by w."),
        (ADDED, f"scores * {LOG}", "scores are multiplied by log w"),
        (ADDED, "scores", SOFTMAX, f"({SOFTMAX} * {KEYS})", "After the softmax the weights are multiplied by w"),
        (ADDED, "scores", SOFTMAX, f"({SOFTMAX} * {QUERIES})", "The result of token i is multiplied by its own w"),
        (SCORES, SCORES.removesuffix(" / q.shape[-1] ** 0.5"), "q kᵀ is not divided at all"),
        (SCORES, SCORES.replace("[-1] **", "[1] **"), "q kᵀ is divided by √h"),
        ("dim=-1", "dim=-2", "Your columns sum to 1"),
        (LOG, "2 * " + LOG, "token 1 counts 6.46 times as much"),
    ],
    check.new_task: [
        ("return new", "return model", FIT, "pass", "a tensor of shape (100, 8) for 100 pictures"),
        ("fit(new", "fit(model", "8 logits for 6 classes"),
        (FIT, "pass", "Its head holds zeros"),
        (THAW, "pass", FIT, "pass", "The new head is frozen"),
        (*ALL_LEARN, *BRIEF, NEW, "new = model; model.head = torch.nn.Linear(64, 6)",
         "given `embeddings.class_token` is changed or frozen"),
        (*ALL_LEARN, FIT, f"[torch.nn.init.normal_(p, std=0.1) for p in new.parameters()]; {FIT}", *BRIEF,
         "Its body is not the given one, or lost what it knew"),
        (by_hand(scaled=lambda pixels: pixels / 255, epochs=5), "from pixels that were not normalised"),
        (*ALL_LEARN, *BRIEF, "Take more steps, or a larger rate"),
        (*BRIEF, "return new", "return [0.5]", "You returned a list of 1"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


def test_a_new_task_leaves_nothing_behind(recwarn):
    before = torch.get_rng_state()
    again = f"{FIT}; {FIT.replace('30', '1').replace('1e-2', '1e-4')}"  # the second stage alarms `fit`
    assert_passes(check.new_task, solved(check.new_task, FIT, again), MOVED)
    assert torch.equal(torch.get_rng_state(), before)
    assert not recwarn.list
