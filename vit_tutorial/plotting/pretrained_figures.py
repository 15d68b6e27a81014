"""Figures of notebook 09: what differs between libraries, layer by layer, and what a mistake costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .style import BLACK, BLUE, GREEN, GREY, ORANGE, RED, WIDTH, styled

MARKS = ((BLUE, "o", 9), (ORANGE, "s", 7), (GREEN, "^", 5))  # the later the smaller: equal lines show both
NOTHING = 1e-18  # where a difference of exactly 0 is drawn on a logarithmic axis


@styled
def show_tensor_shapes(
    rows: Sequence[str], shapes: Mapping[str, Sequence[str]], differs: Mapping[str, Sequence[bool]], title: str
) -> Figure:
    """A table of shapes: a row a tensor, a column a library. Framed and filled where more than the name differs."""
    figure, axes = plt.subplots(figsize=(WIDTH, 0.33 * len(rows) + 1.1))
    for column, (library, texts) in enumerate(shapes.items()):
        axes.text(column + 0.5, -0.5, library, ha="center", va="center", weight="bold")
        for row, (text, is_other) in enumerate(zip(texts, differs[library], strict=True)):
            if is_other:
                axes.add_patch(
                    Rectangle((column + 0.03, row + 0.06), 0.94, 0.88, facecolor="#FBE3B5", edgecolor=BLACK, lw=1)
                )
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=10)
    axes.set_yticks([row + 0.5 for row in range(len(rows))], rows)
    axes.set(xlim=(0, len(shapes)), ylim=(len(rows), -1), xticks=[])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_layer_differences(
    stages: Sequence[str],
    differences: Mapping[str, Mapping[str, Sequence[float]]],
    controls: Mapping[str, Mapping[str, Sequence[float]]],
    eps: Mapping[str, float],
    title: str,
) -> Figure:
    """Largest difference after each stage, as a share of the largest number there. A panel a precision.

    `differences[precision][library]` and `controls[precision][name]` have one number for each stage. The first control
    is drawn dashed, the others dotted. `eps[precision]`, the machine epsilon, is the thin line; exact zeros lie on the
    axis.
    """
    figure, panels = plt.subplots(1, len(differences), figsize=(WIDTH, 4.2), sharey=True, squeeze=False)
    places = range(len(stages))
    for axes, (precision, lines) in zip(panels[0], differences.items(), strict=True):
        for (name, values), (colour, marker, size) in zip(lines.items(), cycle(MARKS), strict=False):
            drawn = [max(v, NOTHING) for v in values]
            axes.plot(places, drawn, color=colour, marker=marker, markersize=size, label=name)
        for index, (name, values) in enumerate(controls[precision].items()):
            colour, marker, dashes = (RED, "x", ":") if index else (GREY, "D", "--")
            drawn = [max(v, NOTHING) for v in values]
            axes.plot(places, drawn, color=colour, marker=marker, ls=dashes, label=name)
        axes.axhline(eps[precision], color=GREY, lw=1)
        axes.text(len(stages) - 1, eps[precision] / 2, f"epsilon of {precision}", color=GREY, ha="right", va="top")
        axes.set_xticks(places, stages, rotation=40, ha="right")
        axes.set(yscale="log", ylim=(NOTHING, 1))
        axes.set_title(precision, fontsize=11)
        axes.set_yticks([NOTHING, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1])
        axes.set_yticklabels(["exactly 0", *(rf"$10^{{-{n}}}$" for n in (15, 12, 9, 6, 3)), "1"])
        axes.minorticks_off()
    panels[0, 0].set_ylabel("largest difference\n(1 = largest number there)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_mistake_costs(
    names: Sequence[str], moved: Sequence[float], costs: Sequence[float], spreads: Sequence[float], title: str
) -> Figure:
    """Two panels, one line a mistake: how far it moves the logits, and the points of accuracy that it costs.

    `costs` and `spreads` are in points. A filled mark where the cost is beyond its spread, a hollow one where it is
    not. Raises ValueError if the lists do not have one entry for each name.
    """
    for values in (moved, costs, spreads):
        if len(values) != len(names):
            raise ValueError(f"{len(names)} mistakes need as many numbers, got {len(values)}")
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 0.36 * len(names) + 1.3), sharey=True)
    for row, (amount, cost, spread) in enumerate(zip(moved, costs, spreads, strict=True)):
        colour, face = (RED, RED) if abs(cost) > spread else (GREY, "white")
        left.plot(amount, row, "s", color=BLUE)
        right.errorbar(cost, row, xerr=spread, fmt="o", color=colour, mfc=face, capsize=3)
    right.axvline(0, color=GREY, lw=1, ls="--")
    left.set_yticks(range(len(names)), names)
    left.set(xscale="log", xlabel="largest change of a logit", ylim=(len(names) - 0.5, -0.5))
    right.set(xlabel="points of accuracy lost\n(hollow: none measured)")
    for axes in (left, right):
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", color=GREY, alpha=0.2)
    figure.suptitle(title, x=0.01, ha="left")
    return figure
