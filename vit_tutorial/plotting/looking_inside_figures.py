"""Draw what maps of attention find, and how they rank."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Bool, Float
from matplotlib.colors import LogNorm
from matplotlib.patheffects import withStroke
from torch import Tensor

from . import panels, style
from .alt_text import amounts, brief, listed, with_alt
from .style import WIDTH, Figure, styled, to_numpy


@styled
def show_found(
    pictures: Float[Tensor, "B 3 H W"],
    masks: Bool[Tensor, "B H W"],
    maps: Mapping[str, Float[Tensor, "B h w"]],
    title: str,
) -> Figure:
    """Draw pictures and maps over their patches, with the object's outline: one row per picture, one column per map.

    Maps are multiples of their own mean, on one logarithmic scale from 1/4 to 4.
    """
    rows, columns = len(pictures), 1 + len(maps)
    figure, grid = panels.panels(rows, columns, 0.85 * WIDTH, 0.6 + 0.85 * WIDTH / (columns + 1) * rows, title)
    H, W = pictures.shape[2:]
    relative = {name: found / found.mean(dim=(1, 2), keepdim=True) for name, found in maps.items()}
    outline = {"colors": "white", "linewidths": 1.5, "extent": (0, W, 0, H)}
    look = {"cmap": style.MAGNITUDE, "norm": LogNorm(1 / 4, 4), "extent": (0, W, H, 0)}
    for row, (line, picture, mask) in enumerate(zip(grid, pictures, masks, strict=True)):
        panels.picture(line[0], picture, extent=(0, W, H, 0))
        for axes, found in zip(line[1:], relative.values(), strict=True):
            image = axes.imshow(to_numpy(found[row]), **look)
        for axes, name in zip(line, ["picture", *maps], strict=True):
            panels.bare(axes, name.replace(" ", "\n") if row == 0 else "", loc="center")
            drawn = axes.contour(to_numpy(mask.float()), [0.5], **outline)
            drawn.set_path_effects([withStroke(linewidth=3.5, foreground=style.BLACK)])
    ticks = {1 / 4: "1/4", 1 / 2: "1/2", 1: "1", 2: "2", 4: "4"}
    panels.colour_bar(figure, image, grid, "weight (1 = the map's mean)", ticks, extend="both", shrink=0.7)
    peaks = amounts({name: found.amax() for name, found in relative.items()})
    return with_alt(figure, f"{rows} pictures and their maps; the largest multiple of the mean: {peaks}.")


@styled
def show_ranking(
    scores: Mapping[str, Mapping[str, tuple[float, float]]], chance: Mapping[str, float], title: str
) -> Figure:
    """Draw a mean and half the width of its 95 % interval for each name, one panel per measure, in the order given.

    The dashed line is what chance reaches. A name that begins with "untrained" or ends in "(blind)" is a control,
    and one that ends in "(mask)" knows the right answer.
    """
    names = list(dict.fromkeys(name for found in scores.values() for name in found))
    figure, (row,) = panels.panels(1, len(scores), WIDTH, 0.42 * len(names) + 1.5, title, sharey=True)
    told = []
    for axes, (measure, found) in zip(row, scores.items(), strict=True):
        panels.row_names(axes, names)
        for name, (mean, half) in found.items():
            look = {"color": style.TRAINED, "marker": "o"}
            if name.startswith("untrained") or name.endswith("(blind)"):
                look = {"color": style.CONTROL, "marker": "X"}
            elif name.endswith("(mask)"):
                look = {"color": style.BLACK, "marker": "D"}
            place = names.index(name)
            axes.errorbar(mean, place, xerr=half, ms=6, capsize=4, lw=2, zorder=3, **look)
            beside = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "color": look["color"]}
            axes.annotate(brief(mean), (mean + half, place), **beside)
        if measure in chance:
            axes.axvline(chance[measure], color=style.CONTROL, lw=1, ls="--", zorder=0)
        low, high = axes.get_xlim()
        axes.set_xlim(low, high + 0.2 * (high - low))  # room for the value at the right of the last dot
        axes.set_xlabel(measure)
        told.append(f"{measure}: {listed(f'{n} {brief(mean)} ± {half:.2g}' for n, (mean, half) in found.items())}")
    text = "bars: 95 % interval of the mean; grey: controls; black: knows the mask; dashed line: chance"
    figure.supxlabel(text, fontsize=10)
    return with_alt(figure, f"Means and 95 % intervals. {'; '.join(told)}.")
