"""A model at another size, its positions resized, and how many answers are wrong there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxtyping import Int64, UInt8
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from torch import Tensor

from ..training.evaluation import wilson_interval
from . import panels, style
from .alt_text import amounts, listed, with_alt
from .style import WIDTH, Figure, styled

KIND_COLOURS = ListedColormap(["none", style.MLP, style.ATTENTION])  # nothing over the ground


@styled
def show_sizes(
    pictures: Mapping[str, UInt8[Tensor, "3 H W"]],
    patch_size: int,
    title: str,
    kinds: Mapping[str, Int64[Tensor, " N"]] | None = None,
) -> Figure:
    """Draw pictures of several sizes side by side, all pixels equally large, with the grid of their patches.

    With `kinds`, patches of kind 1 (the outline) and 2 (the inside) of a picture's object are tinted.
    """
    heights, widths = zip(*(picture.shape[1:] for picture in pictures.values()), strict=True)
    height = max(heights) * WIDTH / (sum(widths) + 6 * len(widths)) + 0.9
    figure, (row,) = panels.panels(1, len(pictures), WIDTH, height, title, width_ratios=widths)
    told = []
    for axes, (name, picture) in zip(row, pictures.items(), strict=True):
        H, W = picture.shape[1:]
        h, w = H // patch_size, W // patch_size
        panels.patches(axes, picture, h, w, name)
        panels.patch_lines(axes, h, w)
        told.append(f"{name}, {H}×{W} pixels in {h}×{w} patches")
        if kinds:
            panels.patch_values(axes, kinds[name].reshape(h, w), cmap=KIND_COLOURS, vmin=0, vmax=2, alpha=0.6)
        axes.set(xlim=(0, w), ylim=(max(heights) / patch_size, 0))
    if kinds:
        handles = [Patch(color=KIND_COLOURS(1), label="outline"), Patch(color=KIND_COLOURS(2), label="inside")]
        figure.legend(handles=handles, loc="outside lower left", ncols=2)
    return with_alt(figure, f"{len(pictures)} pictures: {listed(told)}.")


@styled
def show_row(old: Sequence[float], new: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Draw a row of values at the centres of its cells, and what it becomes in rows of other lengths.

    All rows are as long as the picture. The axis counts old cells, with 0 at the centre of the first. Straight lines
    join the old values and go on level at both ends.
    """
    figure, axes = panels.panel(0.85 * WIDTH, 3.0, title)
    edges = (-0.5, len(old) - 0.5)
    places = range(len(old))
    axes.plot([edges[0], *places, edges[1]], [old[0], *old, old[-1]], color=style.CONTROL, lw=1.5, zorder=1)
    axes.plot(places, old, "s", color=style.BLACK, ms=11, label=f"{len(old)} old values", zorder=2)
    for name, (colour, marker, _) in style.looks(new).items():
        centres = [(j + 0.5) * len(old) / len(new[name]) - 0.5 for j in range(len(new[name]))]
        axes.plot(centres, new[name], marker, color=colour, ms=8, label=name, zorder=3)
        for point in zip(centres, new[name], strict=True):
            axes.annotate(f"{point[1]:g}", point, (0, 9), textcoords="offset points", ha="center", color=colour)
    axes.set(xlim=edges, xticks=places, ylabel="value")
    axes.set_xlabel("place $u$: 0 is the centre of the first old patch", **style.FORMULA)
    axes.margins(y=0.25)
    axes.legend(loc="upper left")
    rows = [f"{name}: {', '.join(f'{value:g}' for value in values)}" for name, values in {"old": old, **new}.items()]
    return with_alt(figure, f"A row of values before and after: {'; '.join(rows)}.")


@styled
def show_wrong(results: Mapping[str, Mapping[str, Sequence[tuple[int, int]]]], title: str, marked: str) -> Figure:
    """Draw the share of wrong answers: one panel below the other, one row per name.

    `results[panel][row]` holds (wrong answers, scenes) for each seed: a dot with its 95 % interval, and a black line at
    the mean of the seeds. The row named `marked`, the control, is grey.
    """
    rows = [len(panel) for panel in results.values()]
    height, ratios = 1.3 + sum(0.36 * count + 0.35 for count in rows), [count + 0.5 for count in rows]
    figure, column = panels.panels(len(results), 1, WIDTH, height, title, sharex=True, height_ratios=ratios)
    told = []
    for axes, (panel, found) in zip(column[:, 0], results.items(), strict=True):
        means = {}
        for row, name in enumerate(found):
            colour, marker = (style.CONTROL, "X") if name == marked else (style.TRAINED, "o")
            places = [row + 0.22 * (seed - (len(found[name]) - 1) / 2) for seed in range(len(found[name]))]
            for y, (wrong, scenes) in zip(places, found[name], strict=True):
                ends = [100 * share for share in wilson_interval(wrong, scenes)]
                axes.plot(ends, [y, y], color=colour, lw=1.2)
                axes.plot(100 * wrong / scenes, y, marker, color=colour, ms=6, mec="none")
            means[name] = 100 * sum(wrong / scenes for wrong, scenes in found[name]) / len(found[name])
            axes.plot(2 * [means[name]], [row - 0.36, row + 0.36], color=style.STREAM, lw=2)
        panels.row_names(axes, found)
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_title(panel, fontsize=11)
        told.append(f"{panel}: {amounts(means, unit=' %')}.")
    axes.set_xlim(left=0)
    axes.set_xlabel("wrong answers, %")
    legend = "dots: one seed each, with its 95 % interval; black: mean of the seeds; grey: the control,"
    figure.supxlabel(f"{legend} {marked}", fontsize=10)
    return with_alt(figure, f"Mean share of wrong answers. {' '.join(told)}")
