"""The whole model: what flows through it, where its parameters and its work are, what its loss does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from ..config import require_size, require_whole_patches, to_pair
from .style import BLUE, GREEN, GREY, MAGNITUDE, ORANGE, PINK, RED, SKY, WIDTH, YELLOW, styled, to_numpy


@styled
def show_trace(
    image: Float[Tensor, "C H W"], shapes: Sequence[tuple[str, tuple[int, ...]]], num_patches: int, title: str
) -> Figure:
    """The image and what becomes of it, all at one scale, so that equal areas hold equally many numbers.

    The channels of the image stand one above the other. `shapes` are names and shapes without the batch:
    (T, D) is drawn as T columns of D numbers, those beyond `num_patches` in the class token's colour;
    (D,) is drawn as one column. Raises ValueError for any other shape.
    """
    channels, gap, x = to_numpy(image), 190, 0
    C, H, W = channels.shape
    figure, axes = plt.subplots(figsize=(WIDTH, 4.9))
    for channel, pixels in enumerate(channels):
        bottom = (C - 1 - channel) * H
        axes.imshow(pixels, extent=(x, x + W, bottom, bottom + H), cmap="gray", vmin=0, vmax=1)
    label_column(axes, x + W / 2, "image", (C, H, W))
    x, middle, tallest = W, C * H / 2, C * H
    for name, shape in shapes:
        if len(shape) not in (1, 2):
            raise ValueError(f"{name!r} of shape {shape} is neither a sequence (T, D) nor a vector (D,)")
        columns, height = shape if len(shape) == 2 else (1, *shape)
        arrow = {"arrowstyle": "-|>", "color": GREY}
        axes.annotate("", xy=(x + gap - 25, middle), xytext=(x + 25, middle), arrowprops=arrow)
        x += gap
        axes.add_patch(Rectangle((x, 0), columns, height, facecolor=SKY, edgecolor="none"))
        if columns == 1 or columns > num_patches:
            # One column is thinner than a pixel of the screen: drawn as a line, it stays visible.
            axes.plot([x, x], [0, height], color=ORANGE, linewidth=3, solid_capstyle="butt")
        label_column(axes, x + columns / 2, name, shape)
        x, tallest = x + columns, max(tallest, height)
    axes.set(xlim=(-40, x + 90), ylim=(-150, tallest + 20), aspect="equal")
    axes.axis("off")
    axes.set_title(title)
    return figure


def label_column(axes, x: float, name: str, shape: tuple[int, ...]) -> None:
    text = f"{name}\n{'×'.join(map(str, shape))}"
    axes.text(x, -30, text, ha="center", va="top", fontsize=10)


@styled
def show_cuts(photo: Float[Tensor, "3 H W"], patch_sizes: Sequence[int], titles: Sequence[str]) -> Figure:
    """One photo cut into patches of several sizes, side by side, the patches a little apart.

    Raises ValueError if there is not one title for each size, or the photo is not a whole number of patches.
    """
    if len(patch_sizes) != len(titles):
        raise ValueError(f"one title for each patch size: {len(patch_sizes)} sizes, {len(titles)} titles")
    picture = to_numpy(photo).transpose(1, 2, 0)
    size = picture.shape[:2]
    figure, row = plt.subplots(1, len(patch_sizes) + 1, figsize=(WIDTH, 3.3))
    row[0].imshow(picture)
    row[0].set_title(f"the photo, {size[0]}×{size[1]}")
    for axes, side, title in zip(row[1:], patch_sizes, titles, strict=True):
        require_size("patch_size", side)
        require_whole_patches(size, to_pair(side))
        gap = 1 / 32 * size[0] / max(1, (size[0] // side) ** 0.5)
        for top in range(0, size[0], side):
            for left in range(0, size[1], side):
                x, y = left + left // side * gap, top + top // side * gap
                axes.imshow(picture[top : top + side, left : left + side], extent=(x, x + side, y + side, y))
        axes.set(xlim=(0, x + side), ylim=(y + side, 0))
        axes.set_title(title)
    for axes in row:
        axes.axis("off")
    return figure


# Fill and hatching for the parts, in the order in which they come.
FILLS = ((SKY, ""), (BLUE, ""), (RED, "//"), (ORANGE, ""), (GREY, ""), (GREEN, ".."), (PINK, "xx"), (YELLOW, "++"))


@styled
def show_shares(
    rows: Sequence[str], parts: Mapping[str, Sequence[int | float]], totals: Sequence[str], title: str, unit: str
) -> Figure:
    """Stacked bars, one for each row: what share each part has of the row's sum, and the total beside it.

    `parts[name][i]` is the part's amount in row i. Shares of 4 % and more are written into the bar; a part
    that is zero everywhere is left out, and one that is nowhere wide enough to see is named so in the legend.
    Raises ValueError if a part or the totals do not have one entry for each row.
    """
    for name, entries in (*parts.items(), ("totals", totals)):
        if len(entries) != len(rows):
            raise ValueError(f"{name!r} has {len(entries)} entries for {len(rows)} rows")
    amounts = np.array(list(parts.values()), dtype=float)
    percent = 100 * amounts / amounts.sum(axis=0)
    figure, axes = plt.subplots(figsize=(WIDTH, 1.5 + 0.36 * len(rows)))
    left, places = np.zeros(len(rows)), range(len(rows))
    for name, widths, (colour, hatch) in zip(parts, percent, cycle(FILLS), strict=False):
        if not widths.any():
            continue
        label = name if widths.max() >= 0.3 else f"{name} (below 0.3 %)"
        axes.barh(places, widths, left=left, height=0.74, color=colour, hatch=hatch, edgecolor="white", label=label)
        for i, width in enumerate(widths):
            if width >= 4:
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
                axes.text(left[i] + width / 2, i, f"{width:.0f}", ha="center", va="center", fontsize=10, bbox=box)
        left += widths
    for i, total in enumerate(totals):
        axes.text(101, i, total, va="center", fontsize=10)
    axes.set_yticks(places, rows)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=(0, 114), ylim=(len(rows) - 0.5, -0.5), xlabel=unit)
    axes.set_xticks(range(0, 101, 20))
    axes.set_title(title)
    figure.legend(loc="outside lower center", ncols=len(parts), handlelength=1.4, columnspacing=1.4)
    return figure


@styled
def show_token_gradients(gradients: Mapping[str, Float[Tensor, "M T"]], title: str) -> Figure:
    """How strongly the logits depend on each token, before each block and after the last: one table a model.

    Row m is the tokens after m blocks, column t the token (0 is the class token). Each row is drawn as a
    share of its own largest value, on a logarithmic scale; an exact zero is an empty cell with a cross.
    """
    figure, tables = plt.subplots(1, len(gradients), figsize=(WIDTH, 3.6), squeeze=False, sharey=True)
    for axes, (name, gradient) in zip(tables[0], gradients.items(), strict=True):
        shares = to_numpy(gradient / gradient.amax(dim=1, keepdim=True))
        drawn = axes.imshow(np.ma.masked_equal(shares, 0), cmap=MAGNITUDE, norm=LogNorm(1e-3, 1), aspect="auto")
        zeros = np.argwhere(shares == 0)
        axes.plot(zeros[:, 1], zeros[:, 0], "x", color=GREY, markersize=6)
        axes.set_xticks([0, *range(4, shares.shape[1], 4)], ["class", *range(4, shares.shape[1], 4)])
        axes.set_yticks(range(len(shares)))
        axes.set(xlabel="token")
        axes.set_title(name)
    tables[0, 0].set_ylabel("blocks passed")
    figure.colorbar(drawn, ax=tables[0].tolist(), label="gradient, share of the row's largest", pad=0.02)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_softmax_twice(
    margins: Float[Tensor, " M"], losses: Mapping[str, Float[Tensor, " M"]], slopes: Mapping[str, Float[Tensor, " M"]]
) -> Figure:
    """The loss (left) and the size of its gradient (right) against the right logit's lead over all others.

    The first entry of each is drawn solid, the second dashed.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.7))
    for axes, curves in ((left, losses), (right, slopes)):
        for (name, values), colour, dash in zip(curves.items(), (BLUE, RED), ("-", "--"), strict=True):
            axes.plot(to_numpy(margins), to_numpy(values), dash, color=colour, linewidth=2, label=name)
        axes.axvline(0, color=GREY, linewidth=1, linestyle=":")
        axes.set(xlabel="lead of the right logit", ylim=(0, None))
    floor = min(to_numpy(list(losses.values())[1]))
    left.set_title(f"Softmax twice: the loss stops at {floor:.2f}")
    left.set_ylabel("loss")
    right.set_title("… and a sure mistake is not corrected")
    right.set_ylabel("size of the gradient at the logits")
    left.legend()
    right.legend()
    return figure


@styled
def show_overfit(losses: Sequence[float], steps: int, chance: float, title: str | None = None) -> Figure:
    """The loss so far, on axes for all `steps`, with the loss of a guess as a dashed line. Title: how far it is."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.2))
    axes.plot(range(len(losses)), losses, color=BLUE, linewidth=2)
    axes.axhline(chance, color=GREY, linestyle="--", linewidth=1)
    axes.text(steps, chance, "ln K: every class equally likely", color=GREY, ha="right", va="bottom")
    axes.set(xlim=(0, steps), ylim=(0, 1.15 * max([chance, *losses])), xlabel="step", ylabel="loss on the batch")
    axes.set_title(title or f"step {len(losses)} of {steps}")
    return figure
