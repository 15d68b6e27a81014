"""What all figures share: one look, safe for colour-blind readers, opaque on a light and on a dark page."""

from __future__ import annotations

import functools
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

# Okabe and Ito's palette: categories. For magnitudes, MAGNITUDE; around zero, DIVERGING.
BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000",
)  # fmt: skip
GREY = "#6E6E6E"
MAGNITUDE = "viridis"
DIVERGING = "RdBu_r"

# Inches. At 100 dots an inch this fills the width of a notebook's page without being scaled down.
WIDTH = 9.0

STYLE = {
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, PINK, SKY, RED]),
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
    "text.color": "black",
    "axes.labelcolor": "black",
}


def styled(show: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw in the series' style, and close the figure so that a notebook shows it once, as the cell's value.

    A figure that was begun when its function refused is closed too: a notebook would show it half drawn.
    """

    @functools.wraps(show)
    def wrapper(*args, **kwargs) -> Figure:
        already_open = plt.get_fignums()
        with plt.rc_context(STYLE):
            try:
                return show(*args, **kwargs)
            finally:
                for number in set(plt.get_fignums()) - set(already_open):
                    plt.close(number)

    return wrapper


def to_numpy(tensor: Tensor) -> np.ndarray:
    """A tensor from any device, with or without gradients, as what matplotlib draws."""
    return tensor.detach().cpu().numpy()
