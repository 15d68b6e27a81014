"""Published weights: where two models differ, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from . import panels, style
from .alt_text import amounts, brief, with_alt
from .style import WIDTH, Figure, styled

MISTAKE_MARKS = ("X", ":"), ("v", "--")  # markers and dashes; the colour of all mistakes is one


@styled
def show_layer_differences(
    stages: Sequence[str],
    correct: Mapping[str, Sequence[float]],
    mistakes: Mapping[str, Sequence[float]],
    eps: float,
    title: str,
) -> Figure:
    """Draw the largest difference after each stage, as a share of the largest value there, on a logarithmic axis.

    Every line of `correct` models and of `mistakes` has one value for each stage; `eps` is the machine epsilon. Zero,
    which a logarithmic axis does not have, is the strip below it.
    """
    figure, ((upper,), (lower,)) = panels.panels(2, 1, WIDTH, 4.2, title, sharex=True, height_ratios=(6, 1))
    looks = style.looks(correct)
    looks |= {name: (style.MISTAKE, *look) for name, look in zip(mistakes, MISTAKE_MARKS, strict=False)}
    lines, last = {**correct, **mistakes}, len(stages) - 1
    for name, (colour, marker, dash) in looks.items():
        look = {"color": colour, "marker": marker, "markersize": 6, "label": name}
        upper.plot([value or math.nan for value in lines[name]], dash, **look)
        lower.plot([math.nan if value else 0 for value in lines[name]], dash, **look)
        place = {"textcoords": "offset points", "va": "center", "color": colour}
        (upper if lines[name][-1] else lower).annotate(name, (last, lines[name][-1]), (8, 0), **place)
    panels.level(upper, eps, "one rounding", -0.45, "left")
    upper.set(yscale="log", ylabel="largest difference\n(1 = largest value there)")
    upper.set_ylim(top=1)
    upper.tick_params(bottom=False)
    upper.spines["bottom"].set_visible(False)
    lower.set(xlim=(-0.5, last + 0.3 * len(stages)), ylim=(-0.5, 0.5), facecolor="#F2F2F2")
    lower.set_yticks([0], ["exactly 0"])
    lower.set_xticks(range(len(stages)), stages)
    for axes, height in ((upper, 0), (lower, 1)):  # the two strokes of a broken axis
        stroke = {"marker": [(-1, -0.6), (1, 0.6)], "markersize": 9, "color": style.BLACK, "clip_on": False}
        axes.plot(0, height, transform=axes.transAxes, **stroke)
    largest = amounts({name: max(values) for name, values in lines.items()})
    return with_alt(figure, f"Largest difference at any stage, with an epsilon of {brief(eps)}: {largest}.")
