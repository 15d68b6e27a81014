"""The whole Vision Transformer in one picture, at any moment of its forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from torch import Tensor

from vit_tutorial.plotting import panels, style
from vit_tutorial.plotting.alt_text import with_alt
from vit_tutorial.plotting.style import WIDTH, Figure, styled, to_numpy

BEFORE = (
    "A picture …",
    "… is cut into patches.",
    "The patches become a sequence.",
    "Eq. 1   A linear layer makes a token of each patch; a class token goes first; positions are added.",
)
BLOCK = "Eqs. 2–3   Block {}: every token looks at all tokens, then each is worked on alone."
AFTER = ("Eq. 4   The class token is read out: one logit for each class.", "The largest logit is the answer: {}.")

# The drawing's own units: tenths of an inch.
HEIGHT, PHOTO_LEFT, PHOTO_BOTTOM, PHOTO_SIDE = 49.0, 1.5, 25.5, 17.5
FIRST_SLOT, LAST_SLOT, PATCH_ROW, TOKEN_ROW, ROW_STEP, TOKEN_HEIGHT = 27.0, 89.0, 41.5, 36.2, 8.4, 3.2
NAMES, ZERO, LONGEST, FIRST_BAR, BAR = 8.0, 14.0, 5.0, 18.5, 2.3


@styled
def show_overview(
    photo: Float[Tensor, "3 H W"],
    tokens: Float[Tensor, "M T D"],
    weights: Float[Tensor, "L T T"],
    logits: Float[Tensor, " K"],
    classes: Sequence[str],
    moment: float | None = None,
) -> Figure:
    """Draw photo → patches → tokens → blocks → logits, as far as `moment` says.

    `tokens` are those of Eq. 1 and those after each of L blocks, so M = L + 1, class token first, then a square number
    of patches; `weights` what each token takes from each in each block. `moment` runs from 0 (the photo alone) to the
    number of `captions` (all of it, as without a moment).
    """
    figure = panels.blank(WIDTH, HEIGHT / 10, layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    said = captions(len(weights), answer := classes[int(logits.argmax())])
    moment = float(len(said)) if moment is None else moment
    done = [min(max(moment - stage, 0.0), 1.0) for stage in range(len(said))]
    axes.text(1.5, HEIGHT - 2.5, caption := said[min(int(moment), len(said) - 1)], fontsize=12, va="center")
    side = round((tokens.shape[1] - 1) ** 0.5)
    draw_photo(axes, photo, side, grid=done[1])
    if done[2]:
        draw_patches(axes, photo, side, flight=done[2], pale=0.6 * (1 - done[3]))
    if done[3]:
        draw_tokens(axes, tokens[0], 0, done[3])
    for block, weight in enumerate(weights):
        if passed := done[4 + block]:
            draw_attention(axes, weight, block, min(1.0, 1.4 * passed))
            draw_tokens(axes, tokens[block + 1], block + 1, min(1.0, 1.4 * passed))
    if done[-2]:
        y = TOKEN_ROW - len(weights) * ROW_STEP + TOKEN_HEIGHT / 2
        draw_logits(axes, logits, classes, y, done[-2], answer if done[-1] else "")
    axes.set(xlim=(0, 90), ylim=(0, HEIGHT), aspect="equal")  # last: every imshow sets limits of its own
    told = f"{side * side} patches, {len(weights)} blocks, {len(logits)} logits; the largest is {answer}'s"
    return with_alt(figure, f"{caption} {told}.")


def captions(blocks: int, answer: str) -> list[str]:
    """Return what is said at each stage of the drawing."""
    return [*BEFORE, *(BLOCK.format(block) for block in range(blocks)), AFTER[0], AFTER[1].format(answer)]


def slot(position: int, count: int) -> float:
    """Return the left edge of one of `count` tokens; the class token's position is 0."""
    return FIRST_SLOT + position * (LAST_SLOT - FIRST_SLOT) / count


def draw_photo(axes: Axes, photo: Tensor, side: int, grid: float) -> None:
    right, top = PHOTO_LEFT + PHOTO_SIDE, PHOTO_BOTTOM + PHOTO_SIDE
    panels.picture(axes, photo, extent=(PHOTO_LEFT, right, PHOTO_BOTTOM, top), zorder=1)
    for line in range(1, side):
        reached = PHOTO_SIDE * min(max(grid * 2 - line / side, 0), 1)
        at = line * PHOTO_SIDE / side
        axes.plot([PHOTO_LEFT + at] * 2, [top, top - reached], color="white", lw=1.2, zorder=2)
        axes.plot([PHOTO_LEFT, PHOTO_LEFT + reached], [top - at] * 2, color="white", lw=1.2, zorder=2)


def draw_patches(axes: Axes, photo: Tensor, side: int, flight: float, pale: float) -> None:
    """Draw each patch on its way from its place in the photo to its place in the sequence, one after the other."""
    cell, step, count = PHOTO_SIDE / side, photo.shape[1] // side, side * side + 1
    for i in range(side * side):
        way = min(max(flight * 2 - i / side**2, 0), 1)
        way = way * way * (3 - 2 * way)
        row, column = divmod(i, side)
        home = (PHOTO_LEFT + column * cell, PHOTO_BOTTOM + PHOTO_SIDE - (row + 1) * cell)
        x, y = home[0] + way * (slot(i + 1, count) - home[0]), home[1] + way * (PATCH_ROW - home[1])
        size = cell + way * (0.85 * (slot(1, count) - slot(0, count)) - cell)
        patch = photo[:, row * step : (row + 1) * step, column * step : (column + 1) * step]
        panels.picture(axes, patch, extent=(x, x + size, y, y + size), zorder=3)
        if way * pale:
            axes.add_patch(Rectangle(home, cell, cell, facecolor="white", alpha=pale * way, lw=0, zorder=2))


def draw_tokens(axes: Axes, tokens: Tensor, row: int, grown: float) -> None:
    """Draw a row of tokens, as far as it has grown: columns of their values, in colours around zero."""
    count, bottom, limit = len(tokens), TOKEN_ROW - row * ROW_STEP, tokens.abs().quantile(0.98).item()
    shown = tokens[: max(1, round(grown * count))]
    columns = np.full((tokens.shape[1], len(shown), 7), np.nan)  # of which the last is the gap
    columns[:, :, :6] = to_numpy(shown.T[:, :, None])
    extent = (slot(0, count), slot(len(shown), count), bottom, bottom + TOKEN_HEIGHT)
    look = {"cmap": style.DIVERGING, "vmin": -limit, "vmax": limit, "aspect": "auto", "zorder": 3}
    axes.imshow(columns.reshape(tokens.shape[1], -1), extent=extent, **look)
    width = 0.86 * (slot(1, count) - slot(0, count))
    frame = {"fill": False, "ec": style.CLASS_TOKEN, "lw": 2.5, "zorder": 4}
    axes.add_patch(Rectangle((slot(0, count), bottom), width, TOKEN_HEIGHT, **frame))
    if row == 0:
        axes.text(FIRST_SLOT + width / 2, bottom + TOKEN_HEIGHT + 1.3, "class", fontsize=10, ha="center", va="center")
        label(axes, bottom + TOKEN_HEIGHT / 2, "tokens")


def draw_attention(axes: Axes, weights: Tensor, block: int, grown: float) -> None:
    """Draw a line from each token below to the tokens above from which it takes more than its share."""
    count, top = len(weights), TOKEN_ROW - block * ROW_STEP
    bottom = top - ROW_STEP + TOKEN_HEIGHT
    strengths = (to_numpy(weights) * count - 1).clip(0, 12) / 12
    queries, keys = np.nonzero(strengths[: max(1, round(grown * count))])
    x = FIRST_SLOT + (np.arange(count) + 0.43) * (LAST_SLOT - FIRST_SLOT) / count
    lines = [((x[k], top - 0.2), (x[q], bottom + 0.2)) for q, k in zip(queries, keys, strict=True)]
    colours = np.array([to_rgba(style.ATTENTION if query else style.CLASS_TOKEN) for query in queries])
    colours[:, 3] = np.where(queries, 0.7, 1) * strengths[queries, keys]
    widths = np.where(queries, 0.8, 2.0)
    axes.add_collection(LineCollection(lines[::-1], colors=colours[::-1], linewidths=widths[::-1], zorder=1))
    label(axes, (top + bottom) / 2, f"block {block}")


def label(axes: Axes, y: float, text: str, right: float = FIRST_SLOT - 0.8) -> None:
    axes.text(right, y, text, color=style.CONTROL, fontsize=10, ha="right", va="center")


def draw_logits(axes: Axes, logits: Tensor, classes: Sequence[str], y: float, grown: float, answer: str) -> None:
    """Draw an arrow from the class token, at the height `y`, and one bar for each class, left or right of zero."""
    look = {"arrowstyle": "-|>", "color": style.CLASS_TOKEN, "lw": 2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (ZERO + LONGEST + 1, y), (FIRST_SLOT - 0.4, y), arrowprops=look)
    axes.text(23.6, y + 1.5, "head", fontsize=10, ha="center", va="center")
    label(axes, FIRST_BAR + 2.6, f"{len(logits)} logits", right=NAMES)
    for k, (name, share) in enumerate(zip(classes, (logits / logits.abs().max()).tolist(), strict=True)):
        middle, weight = FIRST_BAR - k * BAR, "bold" if name == answer else "normal"
        bar = {"facecolor": style.TRAINED if name == answer or not answer else style.CONTROL, "zorder": 3}
        axes.add_patch(Rectangle((ZERO, middle - 0.7), share * LONGEST * grown, 1.4, **bar))
        axes.text(NAMES, middle, name, ha="right", va="center", fontsize=10, weight=weight)
    axes.plot([ZERO, ZERO], [FIRST_BAR - len(classes) * BAR + 1, FIRST_BAR + 1.2], color=style.BLACK, lw=1, zorder=4)
