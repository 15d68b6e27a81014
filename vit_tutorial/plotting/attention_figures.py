"""Scores, weights, heads, where tokens look, and what maps of attention find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Shaped
from matplotlib.colors import LogNorm, PowerNorm
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from . import panels, style
from .alt_text import amounts, listed, with_alt
from .style import WIDTH, Figure, styled, to_numpy

# A hatch for each head, so that its tint is never alone.
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "++", "oo")


@styled
def show_one_query(
    names: Sequence[str], scores: Float[Tensor, " T"], weights: Float[Tensor, " T"], values: Float[Tensor, "T d"]
) -> Figure:
    """Draw one query's way through Eqs. 6–7: scores → weights → what each token adds, and their sum."""
    title = f"{weights.max():.0%} of the weight goes to the best match: {names[weights.argmax()]}"
    figure, ((first, second, third),) = panels.panels(1, 3, WIDTH, 3.5, title, width_ratios=(1, 1, 1.25))
    for axes, lengths, colour, title in (
        (first, scores, style.CONTROL, "1  scores  $q·k/\\sqrt{d}$"),
        (second, weights, style.ATTENTION, "2  softmax: weights"),
    ):
        bars = axes.barh(range(len(names)), to_numpy(lengths), color=colour)
        axes.bar_label(bars, fmt="{:.3g}", padding=3)
        axes.set_title(title, **style.FORMULA)
        axes.set(xticks=[], xlim=(0, 1.3 * max(lengths.max().item(), 0.1)))
        axes.spines["bottom"].set_visible(False)
        panels.row_names(axes, names)
    second.set_yticks([])
    added = weights[:, None] * values
    numbers, high = to_numpy(added), added.max().item()
    third.imshow(numbers, cmap=style.MAGNITUDE, vmin=0, vmax=high)
    panels.texts(third, np.vectorize("{:.3g}".format)(numbers), dark=numbers <= 0.6 * high, fontsize=11)
    third.set_title("3  weight × value")
    total = [f"{number:.3g}" for number in added.sum(0).tolist()]
    labels = [f"{column}\nΣ {number}" for column, number in enumerate(total)]
    third.set(xlabel="place in the vector\nΣ: sum of its column", yticks=[])
    third.set_xticks(range(values.shape[1]), labels)
    shares = [f"{name} {weight:.2g}" for name, weight in zip(names, weights.tolist(), strict=True)]
    return with_alt(figure, f"The query gives the weights {listed(shares)}; the values add up to {listed(total)}.")


@styled
def show_heads(tokens: Shaped[Tensor, "T D"], heads: Shaped[Tensor, "h T d"], title: str) -> Figure:
    """Draw tokens with a number of its own in every place, and where a split puts these numbers.

    Tint and hatch of a number say which head, of seven at most, ought to get it: the first d columns belong to head 0,
    and so on.
    """
    count, _, width = heads.shape
    owner = {number: place % tokens.shape[1] // width for place, number in enumerate(tokens.flatten().tolist())}
    tables = [tokens, *heads]
    titles = [f"unsplit  {tuple(tokens.shape)}", *(f"head {i}  {tuple(heads.shape[1:])}" for i in range(count))]
    columns = [table.shape[1] for table in tables]
    size = (0.5 * sum(columns) + 1.1 * len(tables), 0.5 * len(tokens) + 1.2)
    figure, (row,) = panels.panels(1, len(tables), *size, title, width_ratios=columns)
    box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"}
    for axes, table, name in zip(row, tables, titles, strict=True):
        for (y, x), number in np.ndenumerate(to_numpy(table)):
            look = {"facecolor": style.TINTS[owner[number]], "hatch": HATCHES[owner[number]], "edgecolor": "white"}
            axes.add_patch(Rectangle((x, y), 1, 1, lw=1, **look))
            axes.text(x + 0.5, y + 0.5, str(number), ha="center", va="center", bbox=box)
        panels.bare(axes)
        axes.set(xlim=(0, table.shape[1]), ylim=(len(table), 0), aspect="equal", title=name)
        axes.set_yticks([y + 0.5 for y in range(len(table))], [f"token {y}" for y in range(len(table))])
        axes.tick_params(length=0, labelleft=axes is row[0])
    right = []
    for i, head in enumerate(heads):
        own = [owner[number] for number in head.flatten().tolist()].count(i)
        right.append(f"head {i} gets {own} of its own {head.numel()} values")
    return with_alt(figure, f"{len(tokens)} tokens of {tokens.shape[1]} values are split: {listed(right)}.")


@styled
def show_attention_maps(
    photo: Float[Tensor, "3 H W"],
    maps: Float[Tensor, "rows columns h w"],
    names: Sequence[str],
    title: str,
    frame: tuple[int, int],
    most: int,
    large: int,
) -> Figure:
    """Draw the weights of one query over the patches beside the photo, as multiples of an equal share, 1 / (1 + h·w).

    `names` has one entry for each row of maps. All maps share one logarithmic scale, from 1/8 to `most`. `frame` marks
    the patch that asks, by its row and column. The head `large` of the first row is also drawn large, with the weights
    of its two favourites, which are framed in white in the photo.
    """
    rows, columns, h, w = maps.shape
    figure = panels.blank(WIDTH, 0.5 + max(rows, 3.4) * (0.05 + 0.86 * WIDTH / (5.4 + columns)), title)
    grid = figure.add_gridspec(rows, 2 + columns, width_ratios=[2, 3.4, *[1] * columns])
    whole, favourite = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[:, 1])
    panels.patches(whole, photo, h, w)
    shares, look = maps * (1 + h * w), {"norm": LogNorm(1 / 8, most)}
    panels.patch_values(favourite, shares[0, large], **look)
    panels.bare(favourite, f"{names[0]}, head {large}")
    weights, places = maps[0, large].flatten().topk(2)
    for weight, place in zip(weights.tolist(), places.tolist(), strict=True):
        row, column = divmod(place, w)
        favourite.text(column + 0.5, row + 0.5, f"{weight:.0%}", ha="center", va="center")
        whole.add_patch(Rectangle((column, row), 1, 1, fill=False, ec="white", lw=1.5))
    for row, (name, heads) in enumerate(zip(names, shares, strict=True)):
        for head, weights in enumerate(heads):
            axes = figure.add_subplot(grid[row, 2 + head])
            image = panels.patch_values(axes, weights, **look)
            panels.bare(axes, f"head {head}" if row == 0 else "")
            axes.set_ylabel(name if head == 0 else "", fontsize=11)
    for axes in figure.axes:
        panels.highlight(axes, frame)
    ticks = {1 / 8: "1/8", 1 / 2: "1/2", 1: "1", 2: "2", most: str(most)}
    panels.colour_bar(figure, image, figure.axes, "weight (1 = equal share)", ticks, extend="both", shrink=0.8)
    peaks = amounts({name: row.max() for name, row in zip(names, shares, strict=True)}, " up to ")
    return with_alt(figure, f"Where {columns} heads look on a photo, in multiples of an equal share: {peaks}.")


@styled
def show_attention_stops(
    pictures: Float[Tensor, "n 3 H W"], maps: Float[Tensor, "n h w"], queries: Mapping[str, int], title: str
) -> Figure:
    """Draw n maps on one scale, each under its picture, with the patch that asks framed in both.

    `queries` are the n numbers of these patches, each under a name that stands over the picture.
    """
    h, w = maps.shape[1:]
    side = WIDTH / max(len(queries), 4)
    width = min(WIDTH, side * len(queries) + 0.6)
    figure, (above, below) = panels.panels(2, len(queries), width, 0.7 + 1.85 * side, title)
    scale = PowerNorm(0.5, 0, maps.max().item())
    told = []
    for i, (upper, lower, (name, query)) in enumerate(zip(above, below, queries.items(), strict=True)):
        panels.patches(upper, pictures[i], h, w, name)
        image = panels.patch_values(lower, maps[i], norm=scale)
        panels.bare(lower)
        for axes in (upper, lower):
            panels.patch_lines(axes, h, w)
            panels.highlight(axes, divmod(query, w))
        row, column = divmod(maps[i].argmax().item(), w)
        told.append(f"{name}, {maps[i].max():.2f} from row {row}, column {column}")
    panels.colour_bar(figure, image, below, "weight (square-root scale)", shrink=0.95)
    return with_alt(figure, f"What {len(queries)} queries take most: {listed(told)}.")


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
