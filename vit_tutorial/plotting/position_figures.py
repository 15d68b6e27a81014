"""How similar learned position embeddings are to each other, and how that forms in training."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor
from torch.nn.functional import pad

from ..analysis.patch_tokens import likeness
from . import panels, style
from .alt_text import first_to_last, with_alt
from .style import WIDTH, Figure, Similarity, styled, to_numpy


def mosaic(maps: Float[Tensor, "rows columns h w"]) -> Float[Tensor, "_ _"]:
    """Lay small maps row by row on one canvas, each after an empty line (nan, which is not drawn) above and left."""
    return pad(maps, (1, 0, 1, 0), value=torch.nan).transpose(1, 2).flatten(2).flatten(0, 1)


@styled
def show_positions_forming(history: Mapping[int, Similarity], stops: Sequence[int], title: str) -> Figure:
    """Draw two mean curves over the epochs; animate the similarity maps of `stops`, which stand still on the left."""
    epochs, last = list(history), max(history)
    names = {epoch: f"epoch {epoch}" for epoch in history} | {0: "untrained"}
    figure = panels.blank(WIDTH, 5.6, title)
    grid = figure.add_gridspec(len(stops), 3, width_ratios=(0.42, 1.2, 0.78))
    moving, course = figure.add_subplot(grid[:, 1]), figure.add_subplot(grid[:, 2])
    for line, stop in enumerate(stops):
        panels.cells(figure.add_subplot(grid[line, 0]), mosaic(history[stop]), names[stop], limit=1)
    image = panels.cells(moving, mosaic(history[last]), limit=1)
    panels.colour_bar(image, [moving], "cosine similarity", location="bottom", aspect=40)
    alike = {epoch: likeness(similarity) for epoch, similarity in history.items()}
    near, mirror = zip(*alike.values(), strict=True)
    kinds = {"touching neighbours": near, "mirror image in the row": mirror}
    dots = draw_course(course, epochs, kinds)
    course.set(xticks=[*stops, last], xticklabels=[*stops, last])

    def move(epoch: int) -> None:
        moving.set_title(names[epoch], fontsize=20, loc="left")
        image.set_data(to_numpy(mosaic(history[epoch])))
        for dot, height in zip(dots, alike[epoch], strict=True):
            dot.set_data([epoch], [height])

    move(last)
    figure.moments = [partial(move, epoch) for epoch in (last, *stops)]
    rounded = {kind: [round(value, 2) for value in line] for kind, line in kinds.items()}
    told = f"Mean cosine similarity from epoch {epochs[0]} to epoch {last}"
    return with_alt(figure, f"{told}: {first_to_last(rounded, epochs)}.")


def draw_course(axes: Axes, epochs: Sequence[int], kinds: Mapping[str, Sequence[float]]) -> list[Line2D]:
    """Draw each curve over the epochs, and return a dot for each, which is nowhere yet."""
    dots = []
    for kind, (colour, marker, dash) in style.looks(kinds).items():
        axes.plot(epochs, kinds[kind], dash, color=colour, lw=2, label=kind)
        dots += axes.plot([], [], marker, color=colour, ms=11, mec=style.BLACK, clip_on=False)
    axes.set_xscale("symlog", linthresh=1, linscale=0.3)
    axes.set(xlim=(0, epochs[-1]), xlabel="epochs of training\n(logarithmic)", ylabel="mean cosine similarity")
    axes.set_box_aspect(1.25)
    axes.minorticks_off()
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.02))
    return dots
