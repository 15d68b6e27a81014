"""The whole Vision Transformer in one picture, at any moment of its forward pass."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from .style import BLUE, GREY, MAGNITUDE, ORANGE, WIDTH, styled, to_numpy

CAPTIONS = (
    "An image …",
    "… is cut into patches.",
    "The patches become a sequence.",
    "Eq. 1   A linear layer makes a token of each; a class token goes first; positions are added.",
    "Eqs. 2–3   In every block all tokens look at each other, then each is worked on alone.",
    "Eq. 4   What the class token has become is read out: one logit for each class.",
)
END = float(len(CAPTIONS))

# The drawing's own units: tenths of an inch.
PHOTO_LEFT, PHOTO_BOTTOM, PHOTO_SIDE = 1.5, 13.0, 21.0
FIRST_SLOT, SLOT, PATCH = 33.0, 3.4, 2.9
PATCH_ROW, TOKEN_ROW, TOKEN_HEIGHT, BOX_ROW, BOX_HEIGHT, OUT_ROW = 3.0, 9.5, 7.0, 19.0, 12.0, 33.0


@styled
def show_overview(
    photo: Float[Tensor, "3 H W"],
    tokens: Float[Tensor, "T D"],
    weights: Float[Tensor, "L T"],
    logits: Float[Tensor, " K"],
    moment: float = END,
) -> Figure:
    """Photo → patches → tokens → encoder → logits, as far as `moment` says.

    `tokens` are those of Eq. 1, class token first, so 1 + a square number of them; `weights` what the class
    token takes from every token in each layer; `moment` runs from 0 (the photo alone) to `END` (all of it).
    """
    figure = plt.figure(figsize=(WIDTH, 4.8), layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 90), ylim=(0, 48), aspect="equal")
    axes.axis("off")
    side = math.isqrt(len(tokens) - 1)
    done = [min(max(moment - stage, 0.0), 1.0) for stage in range(len(CAPTIONS))]
    caption = CAPTIONS[min(int(moment), len(CAPTIONS) - 1)]
    axes.text(1.5, 45.5, caption, fontsize=12, va="center")
    draw_photo(axes, photo, side, grid=done[1])
    draw_patches(axes, photo, side, flight=done[2])
    if done[3]:
        draw_tokens(axes, tokens, done[3])
    if done[4]:
        draw_encoder(axes, weights, done[4])
    if done[5]:
        draw_readout(axes, logits, done[5])
    return figure


def slot(position: int) -> float:
    """The left edge of token `position`; the class token's is 0."""
    return FIRST_SLOT + (position - 1) * SLOT


def draw_photo(axes, photo: Tensor, side: int, grid: float) -> None:
    right, top = PHOTO_LEFT + PHOTO_SIDE, PHOTO_BOTTOM + PHOTO_SIDE
    axes.imshow(to_numpy(photo.permute(1, 2, 0)), extent=(PHOTO_LEFT, right, PHOTO_BOTTOM, top), zorder=1)
    for line in range(1, side):
        reached = PHOTO_SIDE * min(max(grid * 2 - line / side, 0), 1)
        at = line * PHOTO_SIDE / side
        axes.plot([PHOTO_LEFT + at] * 2, [top, top - reached], color="white", lw=1.5, zorder=2)
        axes.plot([PHOTO_LEFT, PHOTO_LEFT + reached], [top - at] * 2, color="white", lw=1.5, zorder=2)
    height, width = photo.shape[1:]
    axes.text(PHOTO_LEFT, PHOTO_BOTTOM - 1.8, f"image  3×{height}×{width}", color=GREY, va="center")


def draw_patches(axes, photo: Tensor, side: int, flight: float) -> None:
    """Each patch on its way from its place in the photo to its place in the sequence, one after the other."""
    if not flight:
        return
    cell, step = PHOTO_SIDE / side, photo.shape[1] // side
    for i in range(side * side):
        way = min(max(flight * 2 - i / side**2, 0), 1)
        way = way * way * (3 - 2 * way)
        row, column = divmod(i, side)
        x = PHOTO_LEFT + column * cell + way * (slot(i + 1) - PHOTO_LEFT - column * cell)
        start = PHOTO_BOTTOM + PHOTO_SIDE - (row + 1) * cell
        y, size = start + way * (PATCH_ROW - start), cell + way * (PATCH - cell)
        pixels = photo[:, row * step : (row + 1) * step, column * step : (column + 1) * step].permute(1, 2, 0)
        axes.imshow(to_numpy(pixels), extent=(x, x + size, y, y + size), zorder=3)
        if way:
            home = (PHOTO_LEFT + column * cell, start)
            axes.add_patch(Rectangle(home, cell, cell, facecolor="white", alpha=0.55 * way, zorder=2))
    axes.set(xlim=(0, 90), ylim=(0, 48))


def draw_tokens(axes, tokens: Tensor, grown: float) -> None:
    """Each token as a column of its numbers, rising from its patch; the class token has none below it."""
    low, high = tokens.min().item(), tokens.max().item()
    height = TOKEN_HEIGHT * grown
    for i, token in enumerate(tokens):
        left, colour = slot(i) + 0.55, ORANGE if i == 0 else GREY
        extent = (left, left + 1.8, TOKEN_ROW, TOKEN_ROW + height)
        axes.imshow(
            to_numpy(token[:, None]), extent=extent, cmap=MAGNITUDE, vmin=low, vmax=high, aspect="auto", zorder=3
        )
        axes.add_patch(
            Rectangle((left, TOKEN_ROW), 1.8, height, fill=False, edgecolor=colour, lw=2 if i == 0 else 1, zorder=4)
        )
        if i:
            arrow(axes, left + 0.9, PATCH_ROW + PATCH + 0.3, TOKEN_ROW - 0.4, GREY)
        axes.text(left + 0.9, 1.3, str(i), fontsize=10, color=GREY, ha="center", va="center")
    axes.text(slot(0) + 1.45, TOKEN_ROW - 1.6, "class", fontsize=10, color="black", ha="center", va="center")
    axes.text(slot(0) - 1.0, 1.3, "position", fontsize=10, color=GREY, ha="right", va="center")
    axes.set(xlim=(0, 90), ylim=(0, 48))


def draw_encoder(axes, weights: Tensor, passed: float) -> None:
    """The encoder as a box; inside it, what the class token takes from each token in the layer that is at work."""
    left, right = slot(0) - 0.8, slot(weights.shape[1] - 1) + 3.7
    axes.add_patch(
        FancyBboxPatch(
            (left, BOX_ROW), right - left, BOX_HEIGHT, boxstyle="round,pad=0,rounding_size=1.2",
            facecolor="#EAF2F8", edgecolor=BLUE, lw=1.5, zorder=1,
        )
    )  # fmt: skip
    layer = min(int(passed * len(weights)), len(weights) - 1)
    strongest = weights[layer].max()
    bottom, top = BOX_ROW + 1.0, BOX_ROW + BOX_HEIGHT - 3.6
    for i, weight in enumerate(weights[layer]):
        share = float(weight / strongest)
        axes.plot(
            [slot(i) + 1.45, slot(0) + 1.45],
            [bottom, top],
            color=BLUE,
            lw=0.4 + 3 * share,
            alpha=0.25 + 0.6 * share,
            zorder=2,
        )
        axes.plot(slot(i) + 1.45, bottom, "o", color=ORANGE if i == 0 else GREY, ms=5, zorder=3)
        axes.plot(slot(i) + 1.45, top, "o", color=ORANGE if i == 0 else "#C8C8C8", ms=7 if i == 0 else 4, zorder=3)
        arrow(axes, slot(i) + 1.45, TOKEN_ROW + TOKEN_HEIGHT + 0.2, BOX_ROW - 0.2, GREY)
    text = f"encoder, block {layer + 1} of {len(weights)}: what the class token takes from each token"
    axes.text(left + 1.5, BOX_ROW + BOX_HEIGHT - 1.6, text, fontsize=10, va="center", zorder=4)


def draw_readout(axes, logits: Tensor, grown: float) -> None:
    """The class token leaves the encoder; the head turns it into one bar for each class."""
    x = slot(0) + 1.45
    arrow(axes, x, BOX_ROW + BOX_HEIGHT + 0.2, OUT_ROW + 0.6, ORANGE)
    axes.text(
        x, OUT_ROW + 2.0, "head", ha="center", va="center", bbox={"boxstyle": "round", "fc": "white", "ec": ORANGE}
    )
    arrow(axes, x + 2.6, OUT_ROW + 2.0, OUT_ROW + 2.0, ORANGE, to_x=x + 6.0)
    base, width = x + 7.5, 3.0
    heights = (logits - logits.min()) / (logits.max() - logits.min()) * 6.0 + 1.0
    for k, height in enumerate(heights):
        axes.add_patch(
            Rectangle((base + k * width, OUT_ROW), width * 0.7, float(height) * grown, facecolor=BLUE, zorder=3)
        )
    axes.plot([base - 0.6, base + len(logits) * width], [OUT_ROW, OUT_ROW], color="black", lw=1)
    axes.text(base + len(logits) * width + 1.0, OUT_ROW + 2.0, f"{len(logits)} logits", va="center", color=GREY)


def arrow(axes, x: float, y: float, to_y: float, colour: str, to_x: float | None = None) -> None:
    axes.annotate(
        "", xy=(x if to_x is None else to_x, to_y), xytext=(x, y),
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 0, "shrinkB": 0},
    )  # fmt: skip
