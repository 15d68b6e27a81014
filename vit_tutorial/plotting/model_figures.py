"""The whole model: what flows through it, where its parameters and its work are, what its loss does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from torch import Tensor

from ..patchify import patchify
from . import panels, style
from .alt_text import amounts, describe, listed
from .patch_figures import to_pictures
from .style import WIDTH, Figure, styled, to_numpy

# Fill and hatch for the parts of a model; others take the tints in order.
PARTS = {
    "q, k, v, out": (style.ATTENTION, ""), "pairs": (style.ATTENTION, "//"), "MLP": (style.MLP, ""),
    "norms": (style.NORM, ".."), "embeddings": (style.TINTS[0], ""), "head": (style.TINTS[3], ""),
}  # fmt: skip


@styled
def show_trace(
    image: Float[Tensor, "C H W"], shapes: Sequence[tuple[str, tuple[int, ...]]], num_patches: int, title: str
) -> Figure:
    """Draw the image and what becomes of it, all at one scale, so that equal areas hold equally many values.

    The channels of the image stand one above the other. `shapes` are names and shapes without the batch:
    (T, D) is drawn as T columns of D values, those beyond `num_patches` in the class token's colour;
    (D,) is drawn as one column. Raises ValueError for any other shape.
    """
    channels, gap = to_numpy(image), 190
    C, H, W = channels.shape
    figure, axes = panels.panel(WIDTH, 4.9, title)
    for channel, pixels in enumerate(channels):
        bottom = (C - 1 - channel) * H
        axes.imshow(pixels, extent=(0, W, bottom, bottom + H), cmap="gray", vmin=0, vmax=1)
    label = {"ha": "center", "va": "top", "fontsize": 10}
    axes.text(W / 2, -30, f"image\n{by(channels.shape)}", **label)
    x, centre, tallest = W, C * H / 2, C * H
    for name, shape in shapes:
        if len(shape) not in (1, 2):
            raise ValueError(f"{name!r} of shape {shape} is neither a sequence (T, D) nor a vector (D,)")
        columns, height = shape if len(shape) == 2 else (1, *shape)
        arrow = {"arrowstyle": "-|>", "color": style.CONTROL}
        axes.annotate("", xy=(x + gap - 25, centre), xytext=(x + 25, centre), arrowprops=arrow)
        x += gap
        axes.add_patch(Rectangle((x, 0), columns, height, facecolor=style.TINTS[0], edgecolor="none"))
        if columns == 1 or columns > num_patches:
            # One column is thinner than a pixel of the screen: drawn as a line, it stays visible.
            axes.plot([x, x], [0, height], color=style.CLASS_TOKEN, linewidth=3, solid_capstyle="butt")
        axes.text(x + columns / 2, -30, f"{name}\n{by(shape)}", **label)
        x, tallest = x + columns, max(tallest, height)
    axes.set(xlim=(-40, x + 90), ylim=(-150, tallest + 20), aspect="equal")
    axes.axis("off")
    stages = ", ".join(f"{name} {by(shape)}" for name, shape in (("image", (C, H, W)), *shapes))
    return describe(figure, f"At one scale, from left to right: {stages}.")


def by(shape: Sequence[int]) -> str:
    """Write a shape: (3, 8, 8) → "3×8×8"."""
    return "×".join(map(str, shape))


@styled
def show_cuts(photo: Float[Tensor, "3 H W"], patch_sizes: Sequence[int], titles: Sequence[str]) -> Figure:
    """Draw one photo cut into patches of several sizes, side by side, the patches a little apart.

    Raises ValueError if the photo is not a whole number of patches.
    """
    H, W = photo.shape[1:]
    figure, (row,) = panels.panels(1, len(patch_sizes) + 1, WIDTH, 3.3)
    panels.picture(row[0], photo, f"the photo, {H}×{W}")
    for axes, side, title in zip(row[1:], patch_sizes, titles, strict=True):
        pictures = to_pictures(patchify(photo[None], side)[0], side)
        enlarged = pictures.repeat(8, axis=1).repeat(8, axis=2)  # a gap is narrower than a pixel
        axes.imshow(panels.tile(enlarged, W // side, gap=max(2, round(8 * H / 32 / (H // side) ** 0.5))))
        axes.axis("off")
        axes.set_title(title, fontsize=11)
    cuts = [f"{(H // side) * (W // side)} patches of {side}×{side} pixels" for side in patch_sizes]
    return describe(figure, f"A photo of {H}×{W} pixels, whole, and cut into {listed(cuts)}.")


@styled
def show_shares(
    rows: Sequence[str], parts: Mapping[str, Sequence[int | float]], totals: Sequence[str], title: str, unit: str
) -> Figure:
    """Draw stacked bars, one for each row: what share each part has of the row's sum, and the total beside it.

    `parts[name][i]` is the part's amount in row i. Shares of 4 % and more are written into the bar; a part
    that is zero everywhere is left out, and one that is nowhere wide enough to see is named so in the legend.
    """
    sizes = np.array(list(parts.values()), dtype=float)
    percent = 100 * sizes / sizes.sum(axis=0)
    figure, axes = panels.panel(WIDTH, 1.5 + 0.36 * len(rows), title)
    left, places = np.zeros(len(rows)), range(len(rows))
    for index, (name, widths) in enumerate(zip(parts, percent, strict=True)):
        if not widths.any():
            continue
        label = name if widths.max() >= 0.3 else f"{name} (below 0.3 %)"
        colour, hatch = PARTS.get(name, (style.TINTS[index % len(style.TINTS)], ""))
        axes.barh(places, widths, left=left, height=0.74, color=colour, hatch=hatch, edgecolor="white", label=label)
        for i, width in enumerate(widths):
            if width >= 4:
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
                axes.text(left[i] + width / 2, i, f"{width:.0f}", ha="center", va="center", fontsize=10, bbox=box)
        left += widths
    for i, total in zip(places, totals, strict=True):
        axes.text(101, i, total, va="center", fontsize=10)
    panels.row_names(axes, rows)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=(0, 114), xlabel=unit)
    axes.set_xticks(range(0, 101, 20))
    figure.legend(loc="outside lower center", ncols=len(parts), handlelength=1.4, columnspacing=1.4)
    largest = [list(parts)[n] for n in percent.argmax(axis=0)]
    told = [f"{row}, {part} {most:.0f} %" for row, part, most in zip(rows, largest, percent.max(axis=0), strict=True)]
    return describe(figure, f"The largest part of each bar: {'; '.join(told)}.")


@styled
def show_token_gradients(gradients: Mapping[str, Float[Tensor, "M T"]], title: str) -> Figure:
    """Draw how strongly the logits depend on each token, before each block and after the last: one table a model.

    Row m is the tokens after m blocks, column t the token (0 is the class token). Each row is drawn as a
    share of its own largest value, on a logarithmic scale; an exact zero is an empty cell with a cross.
    """
    figure, (row,) = panels.panels(1, len(gradients), WIDTH, 3.6, title, sharey=True)
    for axes, (name, gradient) in zip(row, gradients.items(), strict=True):
        shares = to_numpy(gradient / gradient.amax(dim=1, keepdim=True))
        image = axes.imshow(np.ma.masked_equal(shares, 0), cmap=style.MAGNITUDE, norm=LogNorm(1e-3, 1), aspect="auto")
        zeros = np.argwhere(shares == 0)
        axes.plot(zeros[:, 1], zeros[:, 0], "x", color=style.CONTROL, markersize=6)
        axes.set_xticks([0, *range(4, shares.shape[1], 4)], ["class", *range(4, shares.shape[1], 4)])
        axes.set(xlabel="token", title=name, yticks=range(len(shares)))
    row[0].set_ylabel("blocks passed")
    panels.colour_bar(figure, image, row, "gradient, share of the row's largest", pad=0.02)
    last = amounts({name: (gradient[-1] > 0).sum() for name, gradient in gradients.items()}, ", ")
    return describe(figure, f"Tokens after the last block on which the logits depend: {last}.")


@styled
def show_bug_table(
    bugs: Sequence[str],
    tests: Sequence[str],
    values: Sequence[Sequence[str]],
    noticed: Bool[Tensor, "bugs tests"],
    title: str,
) -> Figure:
    """Draw which test notices which bug: a filled mark where it does, an empty one where not, with what it measured."""
    figure, axes = panels.panel(WIDTH, 0.9 + 0.36 * len(bugs), title)
    for row, (cells, hits) in enumerate(zip(values, noticed.tolist(), strict=True)):
        if row % 2 == 0:
            axes.axhspan(row - 0.5, row + 0.5, color="#F4F4F4", zorder=0)
        for column, (value, hit) in enumerate(zip(cells, hits, strict=True)):
            look = {"color": style.MISTAKE, "ms": 12} if hit else {"color": "#9A9A9A", "ms": 9, "mfc": "none"}
            axes.plot(column - 0.28, row, "o", **look)
            axes.text(column - 0.16, row, value, va="center", fontsize=11, weight="bold" if hit else "normal")
    panels.row_names(axes, bugs)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.5, len(tests) - 0.5))
    axes.set_xticks(range(len(tests)), tests, fontsize=11)
    axes.tick_params(axis="x", top=False, bottom=False, labeltop=True, labelbottom=False)
    told = [
        f"{bug} by {listed(test for test, hit in zip(tests, hits, strict=True) if hit) if any(hits) else 'no test'}"
        for bug, hits in zip(bugs, noticed.tolist(), strict=True)
    ]
    return describe(figure, f"A table of bugs and the tests that notice them: {listed(told)}.")
