"""Figures of notebook 03: scores, weights, heads, and where tokens look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
from jaxtyping import Float, Shaped
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from .style import BLUE, GREEN, GREY, MAGNITUDE, ORANGE, PINK, RED, SKY, WIDTH, YELLOW, styled, to_numpy

# One colour and one hatch for each head, so that the colour is never alone.
HEADS = ((SKY, ""), (ORANGE, "///"), (GREEN, "..."), (PINK, "\\\\\\"), (YELLOW, "xxx"), (BLUE, "++"), (RED, "oo"))


@styled
def show_patch_alone(photo: Float[Tensor, "3 H W"], patch_size: int, row: int, column: int) -> Figure:
    """One patch as the model gets it, then the photo it was cut from. Rows and columns count patches from 0.

    Raises ValueError if the photo has no such patch.
    """
    h, w = (side // patch_size for side in photo.shape[1:])
    if not (0 <= row < h and 0 <= column < w):
        raise ValueError(f"no patch in row {row}, column {column}: the photo has {h} rows and {w} columns of them")
    top, left = row * patch_size, column * patch_size
    figure, (alone, whole) = plt.subplots(1, 2, figsize=(WIDTH * 0.7, 3.2))
    pixels = to_numpy(photo.permute(1, 2, 0))
    alone.imshow(pixels[top : top + patch_size, left : left + patch_size])
    alone.set_title("What is this?")
    whole.imshow(pixels)
    whole.add_patch(Rectangle((left, top), patch_size, patch_size, fill=False, edgecolor="white", lw=3))
    whole.add_patch(Rectangle((left, top), patch_size, patch_size, fill=False, edgecolor=RED, lw=1.5))
    whole.set_title("The other patches know")
    for axes in (alone, whole):
        axes.axis("off")
    return figure


@styled
def show_one_query(
    names: Sequence[str], scores: Float[Tensor, " T"], weights: Float[Tensor, " T"], values: Float[Tensor, "T d"]
) -> Figure:
    """One query's way through Eqs. 6–7: scores → weights → what each token adds, and their sum."""
    figure, (first, second, third) = plt.subplots(1, 3, figsize=(WIDTH, 3.2), width_ratios=(1, 1, 1.25))
    ticks = range(len(names))
    for axes, numbers, colour, title in (
        (first, scores, GREY, "1  scores  $q·k/\\sqrt{d}$"),
        (second, weights, BLUE, "2  softmax: weights"),
    ):
        bars = axes.barh(ticks, to_numpy(numbers), color=colour)
        axes.bar_label(bars, labels=[f"{number:.3g}" for number in numbers.tolist()], padding=3)
        axes.set(title=title, ylim=(len(names) - 0.4, -0.6), xlim=(0, 1.3 * max(numbers.max().item(), 0.1)))
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
    first.set_yticks(ticks, names)
    second.set_yticks([])
    added = weights[:, None] * values
    draw_numbers(third, added, high=added.max().item())
    third.set_title("3  weight × value")
    third.set_xticks(range(values.shape[1]))
    third.set_yticks([])
    total = "   ".join(f"{number:.3g}" for number in added.sum(0).tolist())
    third.set_xlabel(f"place in the vector\nsum of each column:  {total}")
    return figure


@styled
def show_weights(weights: Float[Tensor, "T T"], names: Sequence[str]) -> Figure:
    """The whole matrix of weights, with its numbers: a row asks, a column answers."""
    figure, axes = plt.subplots(figsize=(WIDTH * 0.58, 3.6))
    draw_numbers(axes, weights, high=1.0)
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), [f"{name} ({row.sum():.0f})" for name, row in zip(names, weights, strict=True)])
    axes.set(xlabel="key: who is asked", ylabel="query: who asks (sum of row)", title="Every row sums to 1")
    return figure


@styled
def show_entropy(
    dims: Sequence[int], unscaled: Float[Tensor, "S n"], scaled: Float[Tensor, "S n"], limit: float
) -> Figure:
    """Entropy of the attention weights by head dimension: the mean over S draws, in a band of all of them.

    In bits H on the left, and on the right as the number of tokens 2^H over which even weights have as much.
    """
    figure, axes = plt.subplots(figsize=(WIDTH * 0.8, 3.7))
    for entropy, colour, marker, label in (
        (scaled, BLUE, "o", "softmax of $q·k/\\sqrt{d}$"),
        (unscaled, RED, "s", "softmax of $q·k$"),
    ):
        low, high = entropy.amin(0), entropy.amax(0)
        axes.fill_between(dims, to_numpy(low), to_numpy(high), color=colour, alpha=0.25, lw=0)
        axes.plot(dims, to_numpy(entropy.mean(0)), color=colour, marker=marker, label=label)
    axes.axhline(limit, color=GREY, ls="--", lw=1)
    axes.text(dims[-1], limit, "all tokens equally", color=GREY, ha="right", va="bottom", fontsize=10)
    axes.set_xscale("log", base=2)
    axes.set_xticks(dims, [str(dim) for dim in dims])
    axes.set(xlabel="head dimension d", ylabel="entropy $H$ of the weights (bits)", ylim=(0, limit * 1.15))
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(int(limit) + 1), [str(2**bits) for bits in range(int(limit) + 1)])
    right.set_ylabel("tokens that a query looks at, $2^H$")
    without, scale = (2 ** entropy[:, -1].mean() for entropy in (unscaled, scaled))
    axes.set_title(f"d = {dims[-1]}: a query looks at {without:.1f} tokens without the scale, {scale:.0f} with it")
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.6))
    return figure


@styled
def show_attention_cost(
    tokens: Sequence[int], seconds: Mapping[str, Sequence[float]], megabytes: Mapping[str, Sequence[float]]
) -> Figure:
    """What attention costs as the number of tokens grows, on logarithmic axes: time, and memory kept for the gradient.

    Both mappings go from the name of an implementation to one number for each entry of `tokens`; the
    titles compare the first name with the second at the last entry.
    """
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.8))
    labels = ("time of one forward pass (ms)", "kept for the gradient (MB)")
    tables = ({name: [1000 * time for time in times] for name, times in seconds.items()}, megabytes)
    for axes, table, label, kind in zip(panels, tables, labels, ("time", "memory"), strict=True):
        for (name, numbers), colour, marker in zip(
            table.items(), cycle((RED, BLUE, GREEN)), cycle("so^"), strict=False
        ):
            axes.plot(tokens, numbers, color=colour, marker=marker, label=name)
        first, second = (numbers[-1] for numbers in list(table.values())[:2])
        axes.set_title(f"{next(iter(table))} at {tokens[-1]} tokens: {first / second:.1f}× the {kind}")
        axes.set(xscale="log", yscale="log", xlabel="tokens T", ylabel=label)
        axes.set_xticks(tokens, [str(count) for count in tokens])
        axes.minorticks_off()
        axes.legend()
    return figure


@styled
def show_heads(tokens: Shaped[Tensor, "T D"], heads: Shaped[Tensor, "h T d"], title: str = "") -> Figure:
    """Tokens with a number of its own in every place, and where a split puts these numbers.

    Colour and hatch of a number say which head ought to get it: the first d columns belong to head 0, and so on.
    Raises ValueError if the heads do not hold exactly the numbers of the tokens, each once.
    """
    count, _, width = heads.shape
    place = {number: index for index, number in enumerate(tokens.flatten().tolist())}
    if len(place) < tokens.numel() or sorted(place) != sorted(heads.flatten().tolist()):
        raise ValueError("the heads must hold the numbers of the tokens, each once, and no number may repeat")
    if count > len(HEADS):
        raise ValueError(f"at most {len(HEADS)} heads can be told apart, got {count}")
    panels = [tokens, *heads]
    titles = [f"unsplit  {tuple(tokens.shape)}", *(f"head {i}  {tuple(heads.shape[1:])}" for i in range(count))]
    columns = [panel.shape[1] for panel in panels]
    figure, grid = plt.subplots(
        1, len(panels), figsize=(0.5 * sum(columns) + 1.1 * len(panels), 0.5 * len(tokens) + 1.2), width_ratios=columns
    )
    for axes, panel, name in zip(grid, panels, titles, strict=True):
        for (row, column), number in zip(pairs(panel), panel.flatten().tolist(), strict=True):
            colour, hatch = HEADS[place[number] % tokens.shape[1] // width]
            box = Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", hatch=hatch, lw=1)
            axes.add_patch(box)
            axes.text(
                column + 0.5, row + 0.5, str(number), ha="center", va="center",
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"},
            )  # fmt: skip
        axes.set(xlim=(0, panel.shape[1]), ylim=(len(panel), 0), aspect="equal", title=name, xticks=[])
        axes.set_yticks([row + 0.5 for row in range(len(panel))], [f"token {row}" for row in range(len(panel))])
        axes.tick_params(length=0, labelleft=axes is grid[0])
        axes.spines[:].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_influence(influence: Mapping[str, Float[Tensor, "T T"]]) -> Figure:
    """How strongly output token i (row) depends on input token j (column), one matrix for each layer."""
    figure, panels = plt.subplots(1, len(influence), figsize=(WIDTH, 3.3), squeeze=False)
    for axes, (name, matrix) in zip(panels[0], influence.items(), strict=True):
        axes.imshow(to_numpy(matrix / matrix.max()), cmap=MAGNITUDE, vmin=0, vmax=1)
        talks = int(((matrix > 0).sum(1) > 1).sum())
        axes.set_title(f"{name}\n{talks} of {len(matrix)} tokens see others", fontsize=11)
        axes.set(xlabel="input token", xticks=range(len(matrix)), yticks=range(len(matrix)))
        for (i, j), number in zip(pairs(matrix), matrix.flatten().tolist(), strict=True):
            if number == 0:
                axes.text(j, i, "0", ha="center", va="center", color="white")
    panels[0][0].set_ylabel("output token")
    figure.colorbar(panels[0][-1].images[0], ax=panels[0], label="gradient (largest = 1)", shrink=0.75)
    return figure


@styled
def show_attention_maps(
    photo: Float[Tensor, "3 H W"], maps: Float[Tensor, "rows columns h w"], names: Sequence[str], title: str = ""
) -> Figure:
    """Weights of one query over the patches beside the photo, as multiples of an equal share, 1 / (1 + h·w).

    `names` has one entry for each row of maps. All maps share one logarithmic scale, from 1/8 to 8.
    Raises ValueError if the names do not fit the rows.
    """
    if len(names) != len(maps):
        raise ValueError(f"{len(maps)} rows of maps need as many names, got {len(names)}")
    rows, columns, h, w = maps.shape
    figure = plt.figure(figsize=(WIDTH, 0.4 + 1.95 * rows))
    grid = figure.add_gridspec(rows, columns + 1, width_ratios=[1.2, *[1] * columns])
    whole = figure.add_subplot(grid[:, 0])
    whole.imshow(to_numpy(photo.permute(1, 2, 0)))
    panels = [[figure.add_subplot(grid[row, 1 + head]) for head in range(columns)] for row in range(rows)]
    for axes_row, map_row, name in zip(panels, maps, names, strict=True):
        axes_row[0].set_ylabel(name, fontsize=11)
        for axes, weights in zip(axes_row, map_row, strict=True):
            drawn = axes.imshow(to_numpy(weights * (1 + h * w)), cmap=MAGNITUDE, norm=LogNorm(1 / 8, 8))
    for head, axes in enumerate(panels[0]):
        axes.set_title(f"head {head}", fontsize=11)
    for axes in figure.axes:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    bar = figure.colorbar(drawn, ax=figure.axes, extend="both", shrink=0.8)
    bar.set_label("weight (1 = equal share)")
    bar.set_ticks([1 / 8, 1 / 2, 1, 2, 8], labels=["1/8", "1/2", "1", "2", "8"])
    bar.minorticks_off()
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_change(change: Float[Tensor, "L T"], layer: int) -> Figure:
    """How far masking a head of block `layer` moves each token after each block, relative to the token's length."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.7))
    drawn = axes.imshow(to_numpy(change), cmap=MAGNITUDE, aspect="auto", vmin=0)
    count = change.shape[1]
    before, after = int((change[:layer] > 0).any(0).sum()), int((change[layer:] > 0).all(0).sum())
    axes.set_title(f"Tokens that change: {before} of {count} before block {layer}, {after} of {count} from there on")
    axes.axhline(layer - 0.5, color="white", lw=1.5, ls="--")
    axes.text(count / 2, layer - 0.75, "head masked here ↓", color="white", ha="center", va="bottom")
    axes.set(xlabel="token (0 is the class token)", ylabel="after block", yticks=range(0, len(change), 2))
    figure.colorbar(drawn, ax=axes, label="change / length of the token")
    return figure


def pairs(matrix: Tensor) -> list[tuple[int, int]]:
    """(row, column) of every entry, in the order of `flatten`."""
    rows, columns = matrix.shape
    return [(row, column) for row in range(rows) for column in range(columns)]


def draw_numbers(axes, matrix: Tensor, high: float) -> None:
    """A small matrix as colours, with each number written in its place."""
    axes.imshow(to_numpy(matrix), cmap=MAGNITUDE, vmin=0, vmax=high)
    for (row, column), number in zip(pairs(matrix), matrix.flatten().tolist(), strict=True):
        colour = "black" if number > 0.6 * high else "white"
        axes.text(column, row, f"{number:.3g}", ha="center", va="center", color=colour)
