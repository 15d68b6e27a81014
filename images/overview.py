"""The whole Vision Transformer in one picture, at any moment of its forward pass."""

from __future__ import annotations

import math

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from vit_tutorial.plotting import panels, style
from vit_tutorial.plotting.alt_text import describe
from vit_tutorial.plotting.style import MAGNITUDE, WIDTH, Figure, styled, to_numpy

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
    """Draw photo → patches → tokens → encoder → logits, as far as `moment` says.

    `tokens` are those of Eq. 1, class token first, so 1 + a square number of them; `weights` what the class
    token takes from every token in each layer; `moment` runs from 0 (the photo alone) to `END` (all of it).
    """
    figure = panels.blank(WIDTH, 4.8, layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    side = math.isqrt(len(tokens) - 1)
    done = [min(max(moment - stage, 0.0), 1.0) for stage in range(len(CAPTIONS))]
    caption = CAPTIONS[min(int(moment), len(CAPTIONS) - 1)]
    axes.text(1.5, 45.5, caption, fontsize=12, va="center")
    draw_photo(axes, photo, side, grid=done[1])
    if done[2]:
        draw_patches(axes, photo, side, flight=done[2])
    if done[3]:
        draw_tokens(axes, tokens, done[3])
    if done[4]:
        draw_encoder(axes, weights, done[4])
    if done[5]:
        draw_readout(axes, logits, done[5])
    axes.set(xlim=(0, 90), ylim=(0, 48), aspect="equal")  # last: every imshow sets limits of its own
    return describe(figure, f"{caption} {side * side} patches, {len(weights)} blocks, {len(logits)} logits.")


def slot(position: int) -> float:
    """Return the left edge of token `position`; the class token's is 0."""
    return FIRST_SLOT + (position - 1) * SLOT


def draw_photo(axes: Axes, photo: Tensor, side: int, grid: float) -> None:
    right, top = PHOTO_LEFT + PHOTO_SIDE, PHOTO_BOTTOM + PHOTO_SIDE
    panels.picture(axes, photo, extent=(PHOTO_LEFT, right, PHOTO_BOTTOM, top), zorder=1)
    for line in range(1, side):
        reached = PHOTO_SIDE * min(max(grid * 2 - line / side, 0), 1)
        at = line * PHOTO_SIDE / side
        axes.plot([PHOTO_LEFT + at] * 2, [top, top - reached], color="white", lw=1.5, zorder=2)
        axes.plot([PHOTO_LEFT, PHOTO_LEFT + reached], [top - at] * 2, color="white", lw=1.5, zorder=2)
    height, width = photo.shape[1:]
    axes.text(PHOTO_LEFT, PHOTO_BOTTOM - 1.8, f"image  3×{height}×{width}", color=style.CONTROL, va="center")


def draw_patches(axes: Axes, photo: Tensor, side: int, flight: float) -> None:
    """Draw each patch on its way from its place in the photo to its place in the sequence, one after the other."""
    cell, step = PHOTO_SIDE / side, photo.shape[1] // side
    for i in range(side * side):
        way = min(max(flight * 2 - i / side**2, 0), 1)
        way = way * way * (3 - 2 * way)
        row, column = divmod(i, side)
        home = (PHOTO_LEFT + column * cell, PHOTO_BOTTOM + PHOTO_SIDE - (row + 1) * cell)
        x, y = home[0] + way * (slot(i + 1) - home[0]), home[1] + way * (PATCH_ROW - home[1])
        size = cell + way * (PATCH - cell)
        patch = photo[:, row * step : (row + 1) * step, column * step : (column + 1) * step]
        panels.picture(axes, patch, extent=(x, x + size, y, y + size), zorder=3)
        if way:
            axes.add_patch(Rectangle(home, cell, cell, facecolor="white", alpha=0.55 * way, zorder=2))


def draw_tokens(axes: Axes, tokens: Tensor, grown: float) -> None:
    """Draw each token as a column of its values, rising from its patch; the class token has none below it."""
    scale = {"cmap": MAGNITUDE, "vmin": tokens.min().item(), "vmax": tokens.max().item(), "aspect": "auto"}
    height = TOKEN_HEIGHT * grown
    for i, token in enumerate(tokens):
        left, colour, width = slot(i) + 0.55, style.CONTROL if i else style.CLASS_TOKEN, 1 if i else 2.5
        extent = (left, left + 1.8, TOKEN_ROW, TOKEN_ROW + height)
        axes.imshow(to_numpy(token[:, None]), extent=extent, zorder=3, **scale)
        axes.add_patch(Rectangle((left, TOKEN_ROW), 1.8, height, fill=False, edgecolor=colour, lw=width, zorder=4))
        if i:
            arrow(axes, left + 0.9, PATCH_ROW + PATCH + 0.3, TOKEN_ROW - 0.4)
        axes.text(left + 0.9, 1.3, str(i), fontsize=10, color=style.CONTROL, ha="center", va="center")
    axes.text(slot(0) + 1.45, TOKEN_ROW - 1.6, "class", fontsize=10, ha="center", va="center")
    axes.text(slot(0) - 1.0, 1.3, "position", fontsize=10, color=style.CONTROL, ha="right", va="center")


def draw_encoder(axes: Axes, weights: Tensor, passed: float) -> None:
    """Draw the encoder as a box, and in it what the class token takes from each token in the layer that is at work."""
    left, right = slot(0) - 0.8, slot(weights.shape[1] - 1) + 3.7
    look = {"boxstyle": "round,pad=0,rounding_size=1.2", "facecolor": "#EAF2F8", "edgecolor": style.ATTENTION}
    axes.add_patch(FancyBboxPatch((left, BOX_ROW), right - left, BOX_HEIGHT, lw=1.5, zorder=1, **look))
    layer = min(int(passed * len(weights)), len(weights) - 1)
    strongest = weights[layer].max()
    bottom, top, reader = BOX_ROW + 1.0, BOX_ROW + BOX_HEIGHT - 3.6, slot(0) + 1.45
    for i, weight in enumerate(weights[layer]):
        x, share = slot(i) + 1.45, float(weight / strongest)
        look = {"color": style.ATTENTION, "lw": 0.4 + 3 * share, "alpha": 0.25 + 0.6 * share}
        axes.plot([x, reader], [bottom, top], zorder=2, **look)
        axes.plot(x, bottom, "o", color=style.CONTROL if i else style.CLASS_TOKEN, ms=5, zorder=3)
        axes.plot(x, top, "o", color="#C8C8C8" if i else style.CLASS_TOKEN, ms=4 if i else 7, zorder=3)
        arrow(axes, x, TOKEN_ROW + TOKEN_HEIGHT + 0.2, BOX_ROW - 0.2)
    text = f"encoder, block {layer + 1} of {len(weights)}: what the class token takes from each token"
    axes.text(left + 1.5, BOX_ROW + BOX_HEIGHT - 1.6, text, fontsize=10, va="center", zorder=4)


def draw_readout(axes: Axes, logits: Tensor, grown: float) -> None:
    """Draw the class token as it leaves the encoder, and one bar for each class, up or down from zero."""
    x, base, width, zero = slot(0) + 1.45, slot(0) + 8.95, 3.0, OUT_ROW + 3.5
    arrow(axes, x, BOX_ROW + BOX_HEIGHT + 0.2, OUT_ROW + 2.1, style.CLASS_TOKEN)
    box = {"boxstyle": "round", "fc": "white", "ec": style.CLASS_TOKEN}
    axes.text(x, zero, "head", ha="center", va="center", bbox=box)
    arrow(axes, x + 2.6, zero, zero, style.CLASS_TOKEN, to_x=x + 6.0)
    for k, height in enumerate((logits / logits.abs().max() * 4.0 * grown).tolist()):
        axes.add_patch(Rectangle((base + k * width, zero), width * 0.7, height, facecolor=style.TRAINED, zorder=3))
    end = base + len(logits) * width
    axes.plot([base - 0.6, end], [zero, zero], color=style.BLACK, lw=1)
    axes.text(end + 1.0, zero, f"{len(logits)} logits", va="center", color=style.CONTROL)


def arrow(axes: Axes, x: float, y: float, to_y: float, colour: str = style.CONTROL, to_x: float | None = None) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=(x if to_x is None else to_x, to_y), xytext=(x, y), arrowprops=look)
