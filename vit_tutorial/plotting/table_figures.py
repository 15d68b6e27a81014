"""Tables of numbers: where patches and heads put them, one query, Eq. 1, sin-cos positions, bugs and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from ..config import Size, to_pair
from . import panels, style
from .alt_text import listed, lowest_to_highest, with_alt
from .style import WIDTH, Figure, Names, styled, to_numpy

Table = Float[Tensor, "T D"]
# A hatch for each head, so that its tint is never alone.
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "++", "oo")


@styled
def show_cut(image: Shaped[Tensor, "H W"], patches: Shaped[Tensor, "N patch_dim"], patch_size: Size) -> Figure:
    """Draw a small image of whole numbers (left) and the sequence made of it (right), with a tint for each patch.

    In the sequence a number has the tint of the patch that it comes from in the image, so a wrong cut is seen.
    No two numbers are the same. After eight patches the tints begin again.
    """
    (P, Q), (H, W), (N, patch_dim) = to_pair(patch_size), image.shape, patches.shape
    home = {int(number): (i // P) * (W // Q) + j // Q for (i, j), number in np.ndenumerate(to_numpy(image))}
    figure, ((left, right),) = panels.panels(1, 2, WIDTH, 2.9, width_ratios=(W, patch_dim + 1))
    titles = f"picture {H}×{W}", f"list {N}×{patch_dim}"
    boxes = [(left, side, top, Q, P) for top in range(0, H, P) for side in range(0, W, Q)]
    boxes += [(right, 0, n, patch_dim, 1) for n in range(N)]
    for axes, table, title in zip((left, right), (image, patches), titles, strict=True):
        tinted_numbers(axes, table, home, title)
    for axes, x, y, width, height in boxes:
        axes.add_patch(Rectangle((x, y), width, height, fill=False, linewidth=2, clip_on=False))
    panels.name_cells(right, [f"patch {n}" for n in range(N)])
    sources = [listed(sorted({home[number] for number in row})) for row in patches.tolist()]
    rows = [f"row {n} from patch {source}" for n, source in enumerate(sources)]
    return with_alt(figure, f"{titles[0]}. Beside it, {titles[1]}; its values come, {listed(rows)} of the image.")


@styled
def show_heads(tokens: Shaped[Tensor, "T D"], heads: Shaped[Tensor, "h T d"], title: str) -> Figure:
    """Draw tokens with a number of its own in every place, and where a split puts these numbers.

    Tint and hatch of a number say which head ought to get it: the first d columns belong to head 0, and so on.
    """
    (T, D), width = tokens.shape, heads.shape[2]
    owner = {number: place % D // width for place, number in enumerate(tokens.flatten().tolist())}
    tables = {f"unsplit  {tuple(tokens.shape)}": tokens}
    tables |= {f"head {i}  {tuple(head.shape)}": head for i, head in enumerate(heads)}
    columns = [table.shape[1] for table in tables.values()]
    size = (0.5 * sum(columns) + 1.1 * len(tables), 0.5 * T + 1.2)
    figure, (row,) = panels.panels(1, len(tables), *size, title, width_ratios=columns)
    for axes, (name, table) in zip(row, tables.items(), strict=True):
        tinted_numbers(axes, table, owner, name, HATCHES, bbox={"boxstyle": "round,pad=0.15", "fc": "white", "lw": 0})
    panels.name_cells(row[0], [f"token {token}" for token in range(T)])
    right = []
    for i, head in enumerate(heads):
        own = [owner[number] for number in head.flatten().tolist()].count(i)
        right.append(f"head {i} gets {own} of its own {head.numel()} values")
    return with_alt(figure, f"{T} tokens of {D} values are split: {listed(right)}.")


def tinted_numbers(
    axes: Axes,
    table: Shaped[Tensor, "_ _"],
    owner: Mapping[int, int],
    title: str,
    hatches: Names = ("",),
    **options: Any,
) -> None:
    """Draw a table of numbers, each in the tint and hatch of its owner; after the last they begin again."""
    for (y, x), number in np.ndenumerate(to_numpy(table)):
        tint, hatch = style.TINTS[owner[number] % len(style.TINTS)], hatches[owner[number] % len(hatches)]
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=tint, hatch=hatch, edgecolor="white", lw=0))
    panels.texts(axes, to_numpy(table), **options)
    panels.bare(axes, title, fontsize=12)
    axes.set(xlim=(0, table.shape[1]), ylim=(len(table), 0), aspect="equal")


@styled
def show_one_query(
    names: Names, scores: Float[Tensor, " T"], weights: Float[Tensor, " T"], values: Float[Tensor, "T d"]
) -> Figure:
    """Draw one query's way through Eqs. 6–7: scores → weights → what each token adds, and their sum."""
    title = f"{weights.max():.0%} of the weight goes to the best match: {names[weights.argmax()]}"
    figure, ((first, second, third),) = panels.panels(1, 3, WIDTH, 3.5, title, width_ratios=(1, 1, 1.25))
    for axes, lengths, colour, name in (
        (first, scores, style.CONTROL, "1  scores  $q·k/\\sqrt{d}$"),
        (second, weights, style.ATTENTION, "2  softmax: weights"),
    ):
        bars = axes.barh(range(len(names)), to_numpy(lengths), color=colour)
        axes.bar_label(bars, fmt="{:.3g}", padding=3)
        axes.margins(x=0.3)
        panels.bare(axes, name, fontsize=12, **style.FORMULA)
        axes.spines["left"].set_visible(True)
    panels.row_names(first, names)
    second.sharey(first)
    added = weights[:, None] * values
    high, total = added.max().item(), [f"{number:.3g}" for number in added.sum(0).tolist()]
    panels.cells(third, added, vmin=0, vmax=high)
    words = np.vectorize("{:.3g}".format)(to_numpy(added))
    panels.texts(third, words, to_numpy(added) <= 0.6 * high, fontsize=11)
    panels.name_cells(third, columns=[f"{column}\nΣ {number}" for column, number in enumerate(total)])
    third.set(title="3  weight × value", xlabel="place in the vector\nΣ: sum of its column")
    shares = [f"{name} {weight:.2g}" for name, weight in zip(names, weights.tolist(), strict=True)]
    return with_alt(figure, f"The query gives the weights {listed(shares)}; the values add up to {listed(total)}.")


@styled
def show_equation_one(
    patches: Float[Tensor, "N C P Q"], tokens: Table, positions: Table, names: Sequence[object], title: str
) -> Figure:
    """Draw Eq. 1 with real values: patches, the tokens made of them with the class token first, positions, the sum.

    Each column is one token under its name, each cell one of its D values. The tables share one scale:
    anything larger than the largest position is as dark.
    """
    (T, D), total, limit = tokens.shape, tokens + positions, positions.abs().max().item()
    figure, rows = panels.panels(4, 1, WIDTH, 6.6, title, height_ratios=(1.2, 1.6, 1.6, 1.6), sharex=True)
    top, *below = rows[:, 0]
    side = 0.128 * T  # of a square: the panel is about this many times as wide as it is high
    for column, patch in enumerate(patches, start=1):
        panels.picture(top, patch, extent=(column + 0.5 - side / 2, column + 0.5 + side / 2, 0, 1), aspect="auto")
    top.text(0.5, 0.5, "no patch:\na vector of\nits own", ha="center", va="center", fontsize=10)
    top.set_ylabel("patches")
    tables = {r"$[\,x_{class};\ x_p E\,]$": tokens, r"$+\ E_{pos}$": positions, r"$=\ z_0$": total}
    for axes, (label, table) in zip(below, tables.items(), strict=True):
        panels.cells(axes, table.T, limit=limit, aspect="auto")
        values = to_numpy(table.T).round(2) + 0.0  # −0 is 0
        panels.texts(axes, np.char.replace(np.char.mod("%.2f", values), "-", "−"), abs(values) > 0.6 * limit)
        axes.vlines(range(1, T), 0, D, color="white", lw=12)
        axes.add_patch(Rectangle((0.05, 0), 0.9, D, fill=False, edgecolor=style.CLASS_TOKEN, lw=3, clip_on=False))
        panels.name_cells(axes, range(D), names)
        axes.set_ylabel(label, **style.FORMULA)
    below[-1].set(xlim=(0.04, T - 0.04), xlabel="token")
    text = f"{len(patches)} patches, and under them {T} tokens of {D} values, their positions, and the sum"
    return with_alt(figure, f"{text}, which reaches from {lowest_to_highest(total)}.")


@styled
def show_sincos_table(table: Float[Tensor, "N D"], grid: tuple[int, int], title: str) -> Figure:
    """Draw the sin-cos positions of a grid as a table: one row per patch in reading order, one column per value.

    Grey lines mark where a row of the grid ends, black ones the four quarters of the vector.
    """
    (h, w), (N, D) = grid, table.shape
    figure, axes = panels.panel(WIDTH, 4.8, title)
    image = axes.imshow(to_numpy(table), style.DIVERGING, extent=(0, D, N, 0), vmin=-1, vmax=1, aspect="auto")
    axes.hlines([row * w for row in range(1, h)], 0, D, color=style.CONTROL, lw=0.5)
    axes.vlines([D / 4, D / 2, 3 * D / 4], 0, N, color=style.BLACK, lw=(1, 2.5, 1))
    for quarter, name in enumerate(("sines of the row", "cosines", "sines of the column", "cosines")):
        axes.text((quarter + 0.5) * D / 4, -0.01 * N, name, ha="center", va="bottom", fontsize=10)
    axes.set_yticks([(row + 0.5) * w for row in range(h)], range(h))
    axes.set(xlabel=f"value in the vector (D = {D})", ylabel=f"row of the grid, {w} patches each")
    panels.colour_bar(figure, image, axes, "value")
    left, right = (int((half.diff(dim=0).abs() > 1e-6).any(dim=1).sum()) for half in table.chunk(2, dim=1))
    text = f"A table of {N} patches by {D} values. From patch to patch the left half changes"
    return with_alt(figure, f"{text} {left} times, the right half {right} times.")


@styled
def show_bug_table(
    bugs: Names, tests: Names, values: Sequence[Names], noticed: Bool[Tensor, "bugs tests"], title: str
) -> Figure:
    """Draw which test notices which bug: a filled mark where it does, an empty one where not, and what it measured.

    The first row is the model without a bug: what the tests measure there is the reference.
    """
    figure, axes = panels.panel(WIDTH, 1.1 + 0.36 * len(bugs), title)
    told = []
    for row, (bug, cells, hits) in enumerate(zip(bugs, values, noticed.tolist(), strict=True)):
        for column, (value, hit) in enumerate(zip(cells, hits, strict=True)):
            mark = {"color": style.MISTAKE} if hit else {"color": style.CONTROL, "mfc": "none"}
            axes.plot(column, row, "o", ms=10, **mark)
            axes.text(column + 0.12, row, value, va="center", weight="bold" if hit else "normal")
        found = [test for test, hit in zip(tests, hits, strict=True) if hit]
        told.append(f"{bug} by {listed(found or ['no test'])}")
    panels.row_names(axes, bugs)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.2, len(tests) - 0.2)
    axes.set_xticks(range(len(tests)), tests, fontsize=11, ha="left")
    axes.tick_params(top=False, bottom=False, labeltop=True, labelbottom=False)
    return with_alt(figure, f"A table of bugs and the tests that notice them: {listed(told)}.")
