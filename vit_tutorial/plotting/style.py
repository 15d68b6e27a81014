"""The look that all figures share: colours, width and fonts; and the types of what they draw.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart. Each means the same in every lesson;
other lines take the next look of SERIES, with a marker and a dash. MAGNITUDE is for amounts, DIVERGING around zero.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle

import matplotlib.figure
import numpy as np
from jaxtyping import Float, Num
from matplotlib.colors import to_rgb
from torch import Tensor

ATTENTION = "#56B4E9"  # sky blue: attention, and what a token takes from the others
MLP = "#E69F00"  # orange
NORM = "#009E73"  # green: LayerNorm
CLASS_TOKEN = "#CC79A7"  # pink
BLACK = "#000000"  # the residual stream, and a mean over runs
TRAINED = "#0072B2"  # blue: a trained model, and a measurement that nothing is compared with
CONTROL = "#6E6E6E"  # grey: an untrained model, a guess, zero
MISTAKE = "#D55E00"  # vermilion: a mistake, and what it costs
HIGHLIGHT = "#F0E442"  # yellow: "look here", a frame or an outline over a picture, edged in black
MAGNITUDE, DIVERGING = "viridis", "RdBu_r"

SERIES = (
    (TRAINED, "o", "-"), (MLP, "s", "--"), (NORM, "^", "-."),
    (CLASS_TOKEN, "D", ":"), (ATTENTION, "v", "-"), (MISTAKE, "P", "--"),
)  # fmt: skip
NAMED = {"trained": SERIES[0], "untrained": (CONTROL, "X", "-")}
# So pale that black text reads well on them.
TINTS = [0.35 * np.array(to_rgb(c)) + 0.65 for c in (*(look[0] for look in SERIES), HIGHLIGHT, CONTROL)]

Number = int | float  # spelled out for the type checker of the tests, to which an int is no float
Pair = tuple[Number, Number]
Patch = tuple[int, int]  # its row and column
Patches = Sequence[Patch]
Names = Sequence[str]
Photo = Float[Tensor, "3 H W"]
Photos = Mapping[str, Num[Tensor, "3 _ _"]]
Pictures = Sequence[Num[Tensor, "_ _ _"]] | Num[Tensor, "n _ _ _"]
Maps = Float[Tensor, "n h w"]  # a value for each patch of a picture, n times
Panels = np.ndarray  # of matplotlib's Axes, (rows, columns)
Similarity = Float[Tensor, "h w h w"]  # of every patch's position to every other's

# Inches. At 100 dots per inch this fills the width of a notebook's page without being scaled down.
WIDTH = 9.0

GROUND = "#EFEFEA"  # nearly white, so that a figure does not glare on a dark page

STYLE = {
    "figure.facecolor": GROUND,
    "axes.facecolor": GROUND,
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.labelsize": 11,
    "figure.titlesize": 13,
    "font.size": 10,
    "legend.frameon": False,
    "image.interpolation": "nearest",
}
styled = matplotlib.rc_context(STYLE)  # a decorator for every function that draws


class Figure(matplotlib.figure.Figure):
    """A figure with `alt`, the words for a reader who cannot see it. With `moments`, each a change to it, it moves.

    pyplot does not know it, so a notebook shows it once, as the value of its cell, and never half drawn.
    """

    alt = ""
    moments: Sequence[Callable[[], None]] = (lambda: None,)


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Return a tensor from any device, with or without gradients, as what matplotlib draws."""
    return tensor.detach().cpu().numpy()


def looks(names: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    """Return colour, marker and dash for each name: those of its meaning, or else the next free ones of SERIES."""
    names = list(names)
    free = cycle(SERIES[1:] if "trained" in names else SERIES)
    return {name: NAMED[name] if name in NAMED else next(free) for name in names}
