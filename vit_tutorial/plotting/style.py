"""The look that all figures share, and the parts that many of them draw.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart. Each means the same in every lesson:

    ATTENTION    sky blue   attention, and what a token takes from the others
    MLP          orange     the MLP
    NORM         green      LayerNorm
    CLASS_TOKEN  pink       the class token
    STREAM       black      the residual stream, and a mean over runs
    TRAINED      blue       a trained model, and a measurement that nothing is compared with
    CONTROL      grey       an untrained model, a guess, zero
    MISTAKE      vermilion  a mistake, and what it costs
    HIGHLIGHT    yellow     "look here": a frame or an outline over a picture, edged in black

Lines that have no colour here take the next look of SERIES, where a marker and a dash go with each colour. Pale tints
and hatches only tell neighbours apart. MAGNITUDE is for amounts, DIVERGING for values around zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle

import matplotlib.figure
import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_rgb
from torch import Tensor

ATTENTION, MLP, NORM, CLASS_TOKEN, STREAM = "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#000000"
TRAINED, CONTROL, MISTAKE, HIGHLIGHT, BLACK = "#0072B2", "#6E6E6E", "#D55E00", "#F0E442", "#000000"
MAGNITUDE, DIVERGING = "viridis", "RdBu_r"

SERIES = (
    (TRAINED, "o", "-"), (MLP, "s", "--"), (NORM, "^", "-."),
    (CLASS_TOKEN, "D", ":"), (ATTENTION, "v", "-"), (MISTAKE, "P", "--"),
)  # fmt: skip
NAMED = {"trained": (TRAINED, "o", "-"), "untrained": (CONTROL, "X", "-")}
# So pale that black text reads well on them.
TINTS = [0.35 * np.array(to_rgb(c)) + 0.65 for c in (*(look[0] for look in SERIES), HIGHLIGHT, CONTROL)]

Number = int | float  # as a type checker that runs with the tests wants it spelled
Patch = tuple[int, int]  # its row and column
Names = Sequence[str]
Photo = Float[Tensor, "3 H W"]
Photos = Mapping[str, Float[Tensor, "3 _ _"]]
Maps = Float[Tensor, "n h w"]  # a value for each patch of a picture, n times
Similarity = Float[Tensor, "h w h w"]  # of every patch's position to every other's

FORMULA = {"parse_math": True}  # for a text whose dollars set a formula; in all others a dollar is a dollar

# Inches. At 100 dots per inch this fills the width of a notebook's page without being scaled down.
WIDTH = 9.0

STYLE = {
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "figure.titlesize": 13,
    "font.size": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "image.interpolation": "nearest",
    "text.parse_math": False,
}
styled = matplotlib.rc_context(STYLE)  # a decorator for every function that draws


class Figure(matplotlib.figure.Figure):
    """A matplotlib figure with `alt`: what a reader who cannot see it is told.

    pyplot does not know it, so a notebook shows it once, as the value of its cell, and never half drawn. With
    `moments` the figure moves: each is a function that changes what is drawn to the next picture.
    """

    alt = ""
    moments: Sequence[Callable[[], None]] = ()


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Return a tensor from any device, with or without gradients, as what matplotlib draws."""
    return tensor.detach().cpu().numpy()


def looks(names: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    """Return colour, marker and dash for each name: those of its meaning, or else the next free ones of SERIES."""
    names = list(names)
    taken = {NAMED[name][0] for name in names if name in NAMED}
    free = cycle([look for look in SERIES if look[0] not in taken])
    return {name: NAMED[name] if name in NAMED else next(free) for name in names}
