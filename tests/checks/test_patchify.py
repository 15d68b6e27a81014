"""The checks of notebook 01 on right and wrong answers."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from einops import rearrange

import vit_tutorial
from vit_tutorial import check

from .variants import assert_not_attempted, assert_passes, assert_wrong, cell, solved, stubs


def by_loop(images, P):
    rows = []
    for y in range(0, images.shape[2], P):
        for x in range(0, images.shape[3], P):
            rows.append(images[:, :, y : y + P, x : x + P].flatten(1))
    return torch.stack(rows, dim=1)


def by_pixel_loop(images, P):
    B, C, H, W = images.shape
    out = torch.empty(B, (H // P) * (W // P), C * P * P, dtype=images.dtype)
    for y in range(H):
        for x in range(W):
            for c in range(C):
                out[:, (y // P) * (W // P) + x // P, c * P * P + (y % P) * P + x % P] = images[:, c, y, x]
    return out


def by_tensor_unfold(images, P):
    blocks = images.unfold(2, P, P).unfold(3, P, P)  # (B, C, h, w, P, P)
    return blocks.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def by_convolution(images, P):
    C = images.shape[1]
    kernel = torch.eye(C * P * P, dtype=images.dtype).reshape(-1, C, P, P)
    return F.conv2d(images, kernel, stride=P).flatten(2).mT


RIGHT_PATCHIFY = {
    "the package's": vit_tutorial.patchify,
    "solution": solved(check.patchify),
    "F.unfold": lambda x, P: F.unfold(x, P, stride=P).transpose(1, 2),
    "einops": lambda x, P: rearrange(x, "b c (h p) (w q) -> b (h w) (c p q)", p=P, q=P),
    "loop over patches": by_loop,
    "loop over pixels": by_pixel_loop,
    "Tensor.unfold": by_tensor_unfold,
    "convolution": by_convolution,
}


@pytest.mark.parametrize("answer", RIGHT_PATCHIFY.values(), ids=RIGHT_PATCHIFY)
def test_right_patchify_passes(answer):
    assert assert_passes(check.patchify, answer).message == ""


@pytest.mark.parametrize(
    ("order", "words"),
    [("p q c", "(row, column, channel)"), ("c q p", "(channel, column, row)"), ("q p c", "(column, row, channel)")],
)
def test_another_order_within_the_patch_passes_and_is_named(order, words):
    verdict = assert_passes(
        check.patchify, lambda x, P: rearrange(x, f"b c (h p) (w q) -> b (h w) ({order})", p=P, q=P)
    )
    assert words in verdict.message


def rows(x, P):
    """(B, N, C·P·P), as people get there with `reshape` alone."""
    return x.reshape(len(x), -1, x.shape[1] * P * P)


def split(x, P, *axes):
    B, C, H, W = x.shape
    return rows_of(x.reshape(B, C, H // P, P, W // P, P).permute(*axes), x, P)


def rows_of(blocks, x, P):
    B, C, H, W = x.shape
    return blocks.reshape(B, (H // P) * (W // P), C * P * P)


def exchanged(x, P):
    B, C, H, W = x.shape
    return rows_of(x.reshape(B, C, W // P, P, H // P, P).permute(0, 2, 4, 1, 3, 5), x, P)


def dilated(x, P):
    B, C, H, W = x.shape
    return rows_of(x.reshape(B, C, P, H // P, P, W // P).permute(0, 3, 5, 1, 2, 4), x, P)


def torn(x, P):
    B, C, H, W = x.shape
    return x.reshape(B, C, H // P, W // P, P, P)


def kept(x, P, store={}):  # noqa: B006
    """Right the first time at a size; then it returns what it had."""
    return store.setdefault(x.shape, vit_tutorial.patchify(x, P).detach())


def in_place(x, P):
    x *= 2
    return vit_tutorial.patchify(x, P) / 2


WRONG_PATCHIFY = {
    "reshape": (rows, "image rows, not patches"),
    "view": (lambda x, P: x.view(len(x), -1, x.shape[1] * P * P), "image rows, not patches"),
    "reshape, channels last": (lambda x, P: x.permute(0, 2, 3, 1).reshape(len(x), -1, x.shape[1] * P * P),
                               "image rows, not patches, with the channels last"),
    "grid by columns": (lambda x, P: split(x, P, 0, 4, 2, 1, 3, 5), "run down the columns of the grid"),
    "h and w exchanged": (exchanged, "Height and width are exchanged"),
    "dilated": (dilated, "every h-th row"),
    "split as h, w, P, P": (lambda x, P: rows_of(torn(x, P).permute(0, 2, 3, 1, 4, 5), x, P), "tears the rows"),
    "no permute of the channels": (lambda x, P: split(x, P, 0, 1, 2, 4, 3, 5), "your axes run (B, C, h, w, P, P)"),
    "P and w not exchanged": (lambda x, P: split(x, P, 0, 2, 3, 4, 5, 1), "image rows, not patches"),
    "P before w": (lambda x, P: split(x, P, 0, 2, 1, 3, 4, 5), "your axes run (B, h, C, P, w, P)"),
    "unfold without transpose": (lambda x, P: F.unfold(x, P, stride=P), "The last two axes are exchanged"),
    "unfold, then reshape": (lambda x, P: rows_of(F.unfold(x, P, stride=P), x, P), "your axes run (B, C, P, P, h, w)"),
    "unfold without stride": (lambda x, P: F.unfold(x, P).transpose(1, 2), "(B, N, C·P·P) = (5, 16, 36) expected"),
    "batch lost": (lambda x, P: vit_tutorial.patchify(x, P).flatten(0, 1), "The batch is gone"),
    "grid kept": (lambda x, P: vit_tutorial.patchify(x, P).unflatten(1, (-1, x.shape[3] // P)), "The grid is still"),
    "patches not flattened": (lambda x, P: rearrange(x, "b c (h p) (w q) -> b (h w) c p q", p=P, q=P),
                              "still little images"),
    "channels apart": (lambda x, P: rearrange(x, "b c (h p) (w q) -> b (c h w) (p q)", p=P, q=P),
                       "Each channel has patches of its own"),
    "first image only": (lambda x, P: vit_tutorial.patchify(x, P)[0], "Only the first image"),
    "squeezed": (lambda x, P: vit_tutorial.patchify(x, P).squeeze(0), "wrong at another"),
    "detached": (lambda x, P: vit_tutorial.patchify(x.detach(), P), "no gradient flows back"),
    "through numpy": (lambda x, P: torch.from_numpy(vit_tutorial.patchify(x, P).detach().numpy()), "no gradient"),
    "float32 always": (lambda x, P: vit_tutorial.patchify(x.float(), P), "of dtype torch.float64"),
    "numpy": (lambda x, P: vit_tutorial.patchify(x.detach(), P).numpy(), "must be a tensor, got a value of type nd"),
    "patch size written in": (lambda x, P: vit_tutorial.patchify(x, 3), "a size or a batch written into your code"),
    "channels written in": (lambda x, P: vit_tutorial.patchify(x, P).reshape(len(x), -1, 4 * P * P),
                            "a size or a batch written into your code"),
    "batch written in": (lambda x, P: vit_tutorial.patchify(x, P).reshape(5, -1, x.shape[1] * P * P),
                         "a size or a batch written into your code"),
    "keeps its result": (kept, "keeps something from call to call"),
    "changes its input": (in_place, "changes its input: after the call `x`"),
    "noise": (lambda x, P: vit_tutorial.patchify(x, P) + torch.rand(()), "something in your function is random"),
    "images mixed": (lambda x, P: (y := vit_tutorial.patchify(x, P)).transpose(0, 1).reshape(y.shape),
                     "mix patches of different images"),
    "scaled": (lambda x, P: vit_tutorial.patchify(x, P) / 255, "agree. The first that differs is at [0, 0, 1]"),
    "patches shuffled": (lambda x, P: vit_tutorial.patchify(x, P).flip(1), "right shape and wrong values"),
    "batch mixed": (lambda x, P: vit_tutorial.patchify(x - x.mean(0), P), "right shape and wrong values"),
    "a pair": (lambda x, P: (vit_tutorial.patchify(x, P), 1), "must be a tensor, got a value of type tuple"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "phrase"), WRONG_PATCHIFY.values(), ids=WRONG_PATCHIFY)
def test_wrong_patchify_is_named(answer, phrase):
    assert_wrong(check.patchify, answer, phrase)


def test_numbers_in_the_wrong_place_get_that_hint():
    verdict = check.patchify(lambda x, P: vit_tutorial.patchify(x, P).flip(1))
    assert "Every number is there, in the wrong place" in verdict.hint


def test_only_the_dtype_wrong_is_not_called_a_wrong_place_or_a_written_size():
    verdict = check.patchify(lambda x, P: vit_tutorial.patchify(x.float(), P))
    assert verdict.message.startswith("The values are right. The result must be of dtype torch.float64")
    assert "dtype=x.dtype" in verdict.hint


def test_square_images_assumed_shows_the_readers_line():
    mine = cell("""
        def mine(images, P):
            B, C, H, W = images.shape
            h = w = H // P
            blocks = images.reshape(B, C, h, P, w, P)
            return blocks.permute(0, 2, 4, 1, 3, 5).reshape(B, h * w, C * P * P)
    """)["mine"]
    verdict = assert_wrong(check.patchify, mine, "in line 4 of your cell, in mine")
    assert verdict.code == "blocks = images.reshape(B, C, h, P, w, P)"
    assert "tensor of (5, 4, 6, 24)" in verdict.message


def fold(patches, P, size):
    return F.fold(patches.transpose(1, 2), size, P, stride=P)


def place_by_place(patches, P, size):
    B, N, _ = patches.shape
    images = patches.new_zeros(B, patches.shape[2] // P**2, *size)
    for n in range(N):
        y, x = n // (size[1] // P) * P, n % (size[1] // P) * P
        images[:, :, y : y + P, x : x + P] = patches[:, n].reshape(B, -1, P, P)
    return images


def from_einops(patches, P, size):
    return rearrange(patches, "b (h w) (c p q) -> b c (h p) (w q)", p=P, q=P, h=size[0] // P)


RIGHT_UNPATCHIFY = {
    "the package's": vit_tutorial.unpatchify,
    "solution": solved(check.unpatchify),
    "F.fold": fold,
    "loop": place_by_place,
    "einops": from_einops,
}


@pytest.mark.parametrize("answer", RIGHT_UNPATCHIFY.values(), ids=RIGHT_UNPATCHIFY)
def test_right_unpatchify_passes(answer):
    assert_passes(check.unpatchify, answer)


def back(pattern):
    """Unpatchify by an einops pattern."""
    return lambda x, P, size: rearrange(x, pattern, p=P, q=P, h=size[0] // P).reshape(len(x), -1, *size)


def square(x, P, size):
    side = math.isqrt(x.shape[1])
    return rearrange(x, "b (h w) (c p q) -> b c (h p) (w q)", p=P, q=P, h=side)


WRONG_UNPATCHIFY = {
    "reshape": (lambda x, P, size: x.reshape(len(x), -1, *size), "patches laid end to end"),
    "grid by columns": (lambda x, P, size: rearrange(x, "b (w h) (c p q) -> b c (h p) (w q)", p=P, q=P, h=size[0] // P),
                        "running down the columns"),
    "channels last": (back("b (h w) (p q c) -> b c (h p) (w q)"), "you read it as (row, column, channel)"),
    "columns before rows": (back("b (h w) (c q p) -> b c (h p) (w q)"), "you read it as (channel, column, row)"),
    "no permute inside": (back("b (h w) (c p q) -> b c h w p q"), "your axes run (B, C, h, w, P, P)"),
    "pixels apart": (back("b (h w) (c p q) -> b c (p h) (q w)"), "your axes run (B, C, P, h, P, w)"),
    "width first": (lambda x, P, size: vit_tutorial.unpatchify(x, P, size[::-1]), "`image_size` is (height, width)"),
    "transposed": (lambda x, P, size: vit_tutorial.unpatchify(x, P, size).mT, "lying on its side"),
    "square grid": (square, "the grid to be square"),
    "channels written in": (lambda x, P, size: vit_tutorial.unpatchify(x, P, size).reshape(len(x), 4, *size),
                            "a size or a batch written into your code"),
    "fold without transpose": (lambda x, P, size: F.fold(x.reshape(len(x), -1, x.shape[1]), size, P, stride=P),
                               "`F.fold` wants each patch as a column"),
    "detached": (lambda x, P, size: vit_tutorial.unpatchify(x.detach(), P, size), "no gradient flows back"),
    "batch lost": (lambda x, P, size: vit_tutorial.unpatchify(x, P, size)[0], "(B, C, H, W) = (5, 4, 6, 24) expected"),
    "clamped": (lambda x, P, size: vit_tutorial.unpatchify(x, P, size).clamp(0, 1), "right shape and wrong values"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "phrase"), WRONG_UNPATCHIFY.values(), ids=WRONG_UNPATCHIFY)
def test_wrong_unpatchify_is_named(answer, phrase):
    assert_wrong(check.unpatchify, answer, phrase)


RIGHT_NUM_PATCHES = {
    "solution": solved(check.num_patches),
    "area": lambda H, W, P: H * W // P**2,
    "numpy": lambda H, W, P: np.prod([H // P, W // P]),
    "counted": lambda H, W, P: len([1 for y in range(0, H, P) for x in range(0, W, P)]),
    "int of a float": lambda H, W, P: int(H / P * W / P),
}


@pytest.mark.parametrize("answer", RIGHT_NUM_PATCHES.values(), ids=RIGHT_NUM_PATCHES)
def test_right_num_patches_passes(answer):
    assert_passes(check.num_patches, answer)


WRONG_NUM_PATCHES = {
    "pixels": (lambda H, W, P: H * W, "You count pixels"),
    "divided once": (lambda H, W, P: H * W // P, "You divide by P once"),
    "added": (lambda H, W, P: H // P + W // P, "You add rows and columns"),
    "height squared": (lambda H, W, P: (H // P) ** 2, "You square the rows"),
    "width squared": (lambda H, W, P: (W // P) ** 2, "You square the columns"),
    "rows only": (lambda H, W, P: H // P, "the rows of the grid only"),
    "a pair": (lambda H, W, P: (H // P, W // P), "That is the grid"),
    "16 written in": (lambda H, W, P: (H // 16) * (W // 16), "You divide by 16, whatever P is"),
    "class token": (lambda H, W, P: (H // P) * (W // P) + 1, "the class token is no patch"),
    "inside a patch": (lambda H, W, P: P * P, "how many pixels one patch covers"),
    "overlapping": (lambda H, W, P: (H - P + 1) * (W - P + 1), "Patches do not overlap"),
    "a float": (lambda H, W, P: H / P * W / P, "The number is right, its kind is not"),
    "a tensor": (lambda H, W, P: torch.tensor((H // P) * (W // P)), "got a tensor of shape ()"),
    "written in": (lambda H, W, P: 15, "wrong at another"),
    "unrecognised": (lambda H, W, P: 3 * H + W, "15 expected, got 98"),
    "a truth": (lambda H, W, P: True, "a whole number"),
}


@pytest.mark.parametrize(("answer", "phrase"), WRONG_NUM_PATCHES.values(), ids=WRONG_NUM_PATCHES)
def test_wrong_num_patches_is_named(answer, phrase):
    assert_wrong(check.num_patches, answer, phrase)


@pytest.mark.parametrize(
    ("exercise", "parameters"),
    [
        (check.num_patches, "height, width, patch_size"),
        (check.patchify, "images, patch_size"),
        (check.unpatchify, "patches, patch_size, image_size"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_untouched_stubs_are_not_attempted(exercise, parameters):
    for stub in stubs(parameters).values():
        assert_not_attempted(exercise, stub)
