"""The checks of notebook 08 on right and wrong answers."""

import copy

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from timm.layers import resample_abs_pos_embed
from torch import nn

from vit_tutorial import check, replace_head, resize_position_embedding

from .variants import judged

# What is changed in the solutions

SPLIT, REST = "position[:num_prefix_tokens]", "position[num_prefix_tokens:]"
PICTURE, ROWS = "patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)", "resized[0].flatten(1).T"
MODE = 'mode="bicubic", antialias=True'
ZOOM = f"F.interpolate(picture, size=new_grid, {MODE})"


def with_pillow(position, old_grid, new_grid, n):
    channels = position[n:].T.reshape(-1, *old_grid).numpy()
    resized = [Image.fromarray(each).resize(new_grid[::-1], Image.Resampling.BICUBIC) for each in channels]
    return torch.cat([position[:n], torch.from_numpy(np.stack(resized)).flatten(1).T])


def by_hand(normalise=lambda model, pixels: model.card.normalise(pixels), epochs=8):
    """A training loop without `fit`, on a copy without `replace_head`."""

    def mine(model, images, num_classes):
        new = copy.deepcopy(model).train()
        new.head = nn.Linear(64, num_classes)
        optimizer = torch.optim.AdamW(new.parameters(), 1e-3)
        pixels = normalise(model, images.pixels)
        for batch in (batch for _ in range(epochs) for batch in torch.randperm(len(images)).split(20)):
            optimizer.zero_grad()
            F.cross_entropy(new(pixels[batch]), images.labels[batch]).backward()
            optimizer.step()
        return new

    return mine


def by_least_squares(model, images, num_classes):
    """No training at all: the head is solved for."""
    new = replace_head(model, num_classes)
    features = F.pad(model.features(model.card.normalise(images.pixels)), (0, 1), value=1.0).detach()
    targets, penalty = F.one_hot(images.labels, num_classes).float(), torch.eye(65)
    solution = torch.linalg.solve(features.T @ features + penalty, features.T @ targets)
    new.head.weight.data, new.head.bias.data = solution[:-1].T, solution[-1]
    return new.double()


FREEZE, THAW = "new.requires_grad_(False)", "new.head.requires_grad_(True)"
NEW = "new = replace_head(model, num_classes)"
RECIPE = "epochs=30, batch_size=16, learning_rate=1e-2"
FIT = f"fit(new, images, Recipe({RECIPE}))"
BRIEF = RECIPE, "epochs=1, batch_size=32, learning_rate=1e-3"
ALL_LEARN = FREEZE, "pass", THAW, "pass"
SCORES, SOFTMAX = "q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5", "scores.softmax(dim=-1)"
KEYS, ADDED = "times[:, None, None]", "scores + times.log()[:, None, None]"

SHARE = "of 600 unseen pictures are right."
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
        "doubles": (PICTURE, PICTURE + ".double()"),
    },
    check.weighted_attention: {
        "weights, then normalised": (ADDED, "scores", SOFTMAX, f"F.normalize({SOFTMAX} * {KEYS}, p=1, dim=-1)"),
        "torch's": lambda q, k, v, t: F.scaled_dot_product_attention(q, k, v, attn_mask=t[:, None, None].log()),
    },
    check.new_task: {
        "by hand": (by_hand(), SHARE),
        "the given one frozen first": (NEW, f"model.requires_grad_(False); {NEW}", SHARE),
        "in two stages": (FIT, f"{FIT}; {FIT.replace('30', '1').replace('1e-2', '1e-4')}", SHARE),
        "least squares, in doubles": (by_least_squares, SHARE),
    },
}  # fmt: skip
WRONG = {
    check.resize_positions: [
        ("[prefix, rows]", "[rows, prefix]", "In your row 0 the shares of old rows are {1: 1.17,"),
        ("[prefix, rows]", "[prefix, rows + position[:1]]", "old rows in new row 1 sum to 2, not to 1"),
        (MODE, 'mode="bicubic"', "This is bicubic, antialias=False"),
        (MODE, 'mode="bilinear", antialias=True', "This is bilinear, antialias=True"),
        (PICTURE, "patches.reshape(1, w, h, -1).permute(0, 3, 1, 2)", "You read the old grid as (columns, rows)"),
        ("size=new_grid", "size=new_grid[::-1]", "You read the new grid as (columns, rows)"),
        (MODE, 'mode="bicubic", align_corners=True', "New row 4 is made of old rows"),
        (ZOOM, f"F.interpolate(F.interpolate(picture, scale_factor=4, {MODE}), size=new_grid, {MODE})",
         "New row 18 is made of old rows"),
        ("reshape(1, h, w, -1)", "reshape(1, int(len(patches) ** 0.5), int(len(patches) ** 0.5), -1)", "[1, 2, 2, -1]"),
        (SPLIT, "position[:1]", REST, "position[1:]", "wrong at another. Your code stops"),
        (REST, "position", "shape '[1, 2, 3, -1]' is invalid for input of size 77"),
        ("[prefix, rows]", "[rows]", "(h'·w', D) = (20, 11), and (S, D)"),
    ],
    check.weighted_attention: [
        (ADDED, "scores", "the softmax of q kᵀ / √d. It must be"),
        (".log()", "", "You add w to the scores"),
        ("+ times", "- times", "q kᵀ / √d + -1·log w"),
        (ADDED, f"scores * {KEYS}", "the softmax of w · q kᵀ / √d"),
        (ADDED, "scores", SOFTMAX, f"({SOFTMAX} * {KEYS})", "The weights of query 0 sum to 2.35"),
        ("dim=-1", "dim=-2", "The weights of query 0 sum to 1.08"),
        (SCORES, SCORES.removesuffix(" / q.shape[-1] ** 0.5"), "the softmax of 2.646·q kᵀ / √d + log w"),
    ],
    check.new_task: [
        ("return new", "return model", FIT, "pass", "a tensor of shape (600, 8), not (600, 6)"),
        ("fit(new", "fit(model", "8 logits for 6 classes"),
        (FIT, "pass", "unseen pictures are right; 66% are asked"),
        (*ALL_LEARN, *BRIEF, NEW, "new = model; model.head = torch.nn.Linear(64, 6)",
         "The given `embeddings.class_token` is changed. Train the copy"),
        (by_hand(lambda model, pixels: pixels / 255, epochs=5), "unseen pictures are right; 66% are asked"),
        (*BRIEF, "return new", "return [0.5]", "Yours is a list of 1"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)
