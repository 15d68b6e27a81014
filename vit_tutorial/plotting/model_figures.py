"""The model part by part: patches, heads, a query, Eq. 1, the block, norms, tokens, planted bugs; head by head."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from ..analysis.before_training import FirstTests
from ..config import Size, to_pair
from . import panels, style
from .alt_text import amounts, brief, listed, lowest_to_highest, with_alt
from .style import WIDTH, Figure, Names, Number, Photo, styled, to_numpy

Table = Float[Tensor, "T D"]
Answers = Sequence[tuple[str, Number]]  # a name and its share, from 0 to 1
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "++", "oo")  # for heads, so that a tint is never alone
ARROW = {"arrowstyle": "-|>", "color": style.BLACK, "lw": 1.5, "shrinkA": 0, "shrinkB": 0}


@styled
def show_cut(image: Shaped[Tensor, "H W"], patches: Shaped[Tensor, "N patch_dim"], patch_size: Size) -> Figure:
    """Draw an image of whole numbers, all different, and a sequence of them, tinted by their patches in the image."""
    (P, Q), (H, W), (N, patch_dim) = to_pair(patch_size), image.shape, patches.shape
    home = {int(number): (i // P) * (W // Q) + j // Q for (i, j), number in np.ndenumerate(to_numpy(image))}
    of_image, of_list = f"picture {H}×{W}", f"list {N}×{patch_dim}"
    figure, ((left, right),) = panels.many(1, 2, WIDTH, 2.9, "", width_ratios=(W, patch_dim + 1))
    tinted_numbers(left, image, home, of_image)
    tinted_numbers(right, patches, home, of_list)
    panels.grid(left, range(0, H + 1, P), range(0, W + 1, Q), color=style.BLACK, lw=2, clip_on=False)
    panels.grid(right, range(N + 1), (0, patch_dim), color=style.BLACK, lw=2, clip_on=False)
    panels.name_cells(right, [f"patch {n}" for n in range(N)])
    sources = [listed(sorted({home[number] for number in row})) for row in patches.tolist()]
    rows = [f"row {n} from patch {source}" for n, source in enumerate(sources)]
    return with_alt(figure, f"{of_image}. Beside it, {of_list}; its values come, {listed(rows)} of the image.")


@styled
def show_heads(tokens: Shaped[Tensor, "T D"], heads: Shaped[Tensor, "h T d"], title: str) -> Figure:
    """Draw a table of distinct numbers before and after a split into heads; tint and hatch show whose they are."""
    (T, D), d = tokens.shape, heads.shape[2]
    owner = {number: place % D // d for place, number in enumerate(tokens.flatten().tolist())}  # its head
    tables = {f"unsplit  {T, D}": tokens} | {f"head {i}  {T, d}": head for i, head in enumerate(heads)}
    cell, beside, above = 0.5, 1.1, 1.2  # inches: of a number, and around a table
    size = (cell * (D + d * len(heads)) + beside * len(tables), cell * T + above)
    figure, (row,) = panels.many(1, len(tables), *size, title, width_ratios=[D, *[d] * len(heads)])
    for axes, (name, table) in zip(row, tables.items(), strict=True):
        tinted_numbers(axes, table, owner, name, hatched=True)
    panels.name_cells(row[0], [f"token {token}" for token in range(T)])
    owned = [sum(owner[number] == i for number in head.flatten().tolist()) for i, head in enumerate(heads)]
    right = listed(f"head {i} gets {own} of its own {T * d} values" for i, own in enumerate(owned))
    return with_alt(figure, f"{T} tokens of {D} values are split: {right}.")


def tinted_numbers(axes: Axes, table: Tensor, owner: Mapping[int, int], title: str, hatched: bool = False) -> None:
    """Draw a table of numbers, each in the tint of its owner, and in its hatch; after the last they begin again."""
    for (y, x), number in np.ndenumerate(to_numpy(table)):
        tint = style.TINTS[owner[number] % len(style.TINTS)]
        hatch = HATCHES[owner[number] % len(HATCHES)] if hatched else ""
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=tint, hatch=hatch, edgecolor="white", lw=0))
    panels.numbers(axes, table, bbox={"boxstyle": "round,pad=0.15", "fc": "white", "lw": 0} if hatched else None)
    panels.bare(axes, title)
    axes.set(xlim=(0, table.shape[1]), ylim=(len(table), 0), aspect="equal")


@styled
def show_one_query(names: Names, q: Float[Tensor, " d"], K: Float[Tensor, "T d"], V: Float[Tensor, "T e"]) -> Figure:
    """Draw one query's way through Eqs. 6–7: keys → scores → weights → what each token adds, and their sum."""
    scores = K @ q / len(q) ** 0.5
    weights = scores.softmax(dim=0)
    added = weights[:, None] * V
    title = f"{weights.max():.0%} of the weight goes to the best match: {names[weights.argmax()]}"
    output = added.sum(dim=0)
    figure, ((left, second, third, right),) = panels.many(1, 4, WIDTH, 3.5, title, width_ratios=(1.2, 0.9, 0.9, 1.2))
    for axes, name, table in ((left, "1  keys", K), (right, "4  weight × value", added)):
        panels.cells(axes, table, name, vmin=0, aspect="auto")
        panels.numbers(axes, table, "{:.3g}", dark=table <= 0.6 * table.max())
    panels.name_cells(left, names, [f"×\n{brief(number)}" for number in q])
    left.set_xlabel("the query")
    panels.name_cells(right, columns=[f"Σ\n{brief(number)}" for number in output])
    right.set_xlabel("the output")
    scored = (second, r"2  scores  $q·k/\sqrt{d}$", scores, style.CONTROL)
    shared = (third, "3  softmax: weights", weights, style.ATTENTION)
    for axes, name, lengths, colour in (scored, shared):
        panels.bare(axes, name)
        axes.bar_label(axes.barh(range(len(names)), to_numpy(lengths), color=colour), fmt=brief, padding=3)
        axes.set_ylim(len(names) - 0.5, -0.5)  # as the tables' rows
        axes.margins(x=0.4)
        axes.spines["left"].set_visible(True)
    shares = listed(f"{name} {weight:.2g}" for name, weight in zip(names, weights.tolist(), strict=True))
    return with_alt(figure, f"The query gives the weights {shares}; the values add up to {listed(map(brief, output))}.")


@styled
def show_equation_one(
    patches: Float[Tensor, "N C P Q"], tokens: Table, positions: Table, names: Sequence[object], title: str
) -> Figure:
    """Draw Eq. 1, a column for each token, in tables of one scale."""
    (T, D), total = tokens.shape, tokens + positions
    limit = max(table.abs().max().item() for table in (tokens, positions, total))
    figure, rows = panels.many(4, 1, WIDTH, 6.6, title, height_ratios=(1.2, 1.6, 1.6, 1.6), sharex=True)
    top, *below = rows[:, 0]
    half = 0.064 * T  # of a square patch's side, in columns: the panel is 7.8 times as wide as high
    for column, patch in enumerate(patches, start=1):
        panels.picture(top, patch, extent=(column + 0.5 - half, column + 0.5 + half, 0, 1), aspect="auto")
    top.text(0.5, 0.5, "no patch:\na vector of\nits own", ha="center", va="center")
    top.set_ylabel("patches")
    tables = {r"$[\,x_{class};\ x_p E\,]$": tokens, r"$+\ E_{pos}$": positions, r"$=\ z_0$": total}
    for axes, (label, table) in zip(below, tables.items(), strict=True):
        panels.cells(axes, table.T, limit=limit, aspect="auto")
        values = table.T.round(decimals=2) + 0.0  # −0 is 0
        panels.numbers(axes, values, "{:.2f}", dark=values.abs() > 0.6 * limit)
        axes.vlines(range(1, T), 0, D, color="white", lw=12)
        axes.add_patch(Rectangle((0.05, 0), 0.9, D, fill=False, edgecolor=style.CLASS_TOKEN, lw=3, clip_on=False))
        panels.name_cells(axes, range(D), names)
        axes.set_ylabel(label)
    below[-1].set(xlim=(0.04, T - 0.04), xlabel="token")
    text = f"{len(patches)} patches, and under them {T} tokens of {D} values, their positions, and the sum"
    return with_alt(figure, f"{text}, which reaches from {lowest_to_highest(total)}.")


@styled
def show_block(title: str) -> Figure:
    """Draw the block of Eqs. 2–3 with its shapes. The thick line is the residual stream."""
    figure = panels.blank(WIDTH, 2.6, title, layout="none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(-0.8, 1.8))  # in inches: the stream has the height 0
    axes.axis("off")
    up, to_norm, to_layer, to_sum, radius = 0.9, 0.8, 2.2, 3.2, 0.15  # inches, from where a branch leaves
    look = {"ha": "center", "va": "center"}
    axes.annotate("", (8.35, 0), (0.8, 0), arrowprops={**ARROW, "lw": 4}, zorder=1)
    for x, y, name in ((0.4, 0, r"$z_{\ell-1}$"), (4.55, 0.26, r"$z'_\ell$"), (8.6, 0, r"$z_\ell$")):
        axes.text(x, y, name, fontsize=15, **look)
    for leaves, name, colour in (
        (1.0, "attention\nbetween tokens\n(B, T, D)", style.ATTENTION),
        (4.85, "MLP\neach token alone\n(B, T, D)", style.MLP),
    ):
        back = leaves + to_sum
        axes.plot([leaves, leaves, back], [0, up, up], color=style.BLACK, lw=1.5, zorder=0)
        axes.annotate("", (back, radius), (back, up), arrowprops=ARROW)
        for x, text, edge in ((to_norm, "LayerNorm\n(B, T, D)", style.NORM), (to_layer, name, colour)):
            box = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": edge, "lw": 2.5}
            axes.text(leaves + x, up, text, bbox=box, **look)
        circle = {"boxstyle": "circle,pad=0.1", "fc": "white", "lw": 1.5}
        axes.text(back, 0, "+", fontsize=15, bbox=circle, **look)
    axes.text(4.5, -0.5, "the residual stream, (B, T, D) all the way", color=style.CONTROL, **look)
    order = "pre-norm, LayerNorm, then attention or MLP, then the sum"
    return with_alt(figure, f"Two branches leave the residual stream and are added to it: {order}.")


@styled
def show_norms(title: str, pictures: int = 3, tokens: int = 4, dim: int = 6) -> Figure:
    """Draw a batch as a table, a row for each token, and which of its values share a mean in two norms."""
    figure, (row,) = panels.many(1, 2, 0.75 * WIDTH, 3.6, title)
    shared = {"LayerNorm: one token": (1, 0, 1, dim), "BatchNorm: one feature": (0, 2, pictures * tokens, 1)}
    for axes, (name, (top, left, height, width)) in zip(row, shared.items(), strict=True):
        axes.add_patch(Rectangle((left, top), width, height, fc=style.NORM))
        panels.grid(axes, range(pictures * tokens + 1), range(dim + 1), color=style.CONTROL, lw=0.6)
        axes.hlines(range(0, pictures * tokens + 1, tokens), 0, dim, color=style.BLACK, lw=2.5)
        panels.bare(axes, name)
        axes.set(xlim=(-0.1, dim + 0.1), ylim=(pictures * tokens + 0.1, -0.1), xlabel=f"features, D = {dim}")
        axes.set_yticks([(n + 0.5) * tokens for n in range(pictures)], [f"picture {n}" for n in range(pictures)])
    told = listed(f"{name} of {height}×{width} values" for name, (_, _, height, width) in shared.items())
    return with_alt(figure, f"A batch of {pictures} pictures with {tokens} tokens each. What shares a mean: {told}.")


@styled
def show_tokens(
    photo: Photo, stream: Float[Tensor, "stages T D"], answers: Answers, title: str, marked: Sequence[int] = ()
) -> Figure:
    """Draw the tokens before and after each block as tables of colours, the class token wide and on top, and answers.

    A table has a row for each token, and a column for each of its values; red is above zero and blue below, and each
    table has a scale of its own. The rows of `marked` patches have a black mark at the left.
    """
    stages, T, D = stream.shape
    ratios = [2.2, *[max(5 / stages, 0.4)] * stages, 1.6]
    figure, ((left, *tables, right),) = panels.many(1, stages + 2, WIDTH, 2.9, title, width_ratios=ratios)
    panels.picture(left, photo, "the picture")
    top, mark, gap = max(1, T // 20), 0.05 * D, 0.02 * D  # the class token's rows; columns, beside the table
    for stage, (axes, tokens) in enumerate(zip(tables, stream, strict=True)):
        table = tokens[[0] * top + list(range(1, T))]
        limit = tokens.abs().quantile(0.98).item()  # so that a few large values do not make the others pale
        panels.cells(axes, table, f"block {stage - 1}" if stage else "Eq. 1", limit, aspect="auto")
        axes.add_patch(Rectangle((0, 0), D, top, fill=False, ec=style.CLASS_TOKEN, lw=2, clip_on=False))
        for patch in marked:
            axes.add_patch(Rectangle((-gap - mark, top + patch), mark, 1, fc=style.BLACK, clip_on=False))
    panels.bare(right, "its answer")
    right.set(xlim=(0, 1), ylim=(3, -1))  # there is room for three
    for place, (name, share) in enumerate(answers):
        right.barh(place, share, height=0.25, color=style.TRAINED)
        right.text(0, place - 0.22, f"{name} {100 * share:.0f} %")  # right above its bar
    sizes = amounts({"Eq. 1": stream[0].square().mean().sqrt(), "the last block": stream[-1].square().mean().sqrt()})
    said = listed(f"{name} {100 * share:.0f} %" for name, share in answers)
    return with_alt(figure, f"{T} tokens of {D} values, {stages} times. Their size after {sizes}. The answer: {said}.")


@styled
def show_bug_table(results: Mapping[str, FirstTests], num_classes: int, title: str) -> Figure:
    """Draw which test notices which bug, by a filled mark, and what it measured. Bugs that the same test finds adjoin.

    `results` begins with a model that has no bug.
    """
    noticed = {bug: found.noticed(num_classes) for bug, found in results.items()}
    right, *others = results
    tests = list(noticed[right])
    bugs = [right, *sorted(others, key=lambda bug: [*noticed[bug].values(), True].index(True))]
    figure, axes = panels.one(WIDTH, 1.1 + 0.36 * len(bugs), title)  # 0.36 inches for a row
    for row, bug in enumerate(bugs):
        found = results[bug]
        memorised = f"{found.right} right, loss {found.last_loss:.1f}"
        measured = (f"{found.first_loss:.2f}", memorised, f"{found.image_leak:.3f}", f"{found.shuffle_change:.1%}")
        for column, (value, hit) in enumerate(zip(measured, noticed[bug].values(), strict=True)):
            mark = {"color": style.MISTAKE} if hit else {"color": style.CONTROL, "mfc": "none"}
            axes.plot(column, row, "o", ms=10, **mark)
            axes.text(column + 0.12, row, value, va="center", weight="bold" if hit else "normal")  # right of it
    panels.row_names(axes, bugs)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.2, len(tests) - 0.2)
    axes.set_xticks(range(len(tests)), tests, fontsize=11, ha="left")
    axes.tick_params(top=False, bottom=False, labeltop=True, labelbottom=False)
    told = [f"{bug} by {listed([test for test, hit in noticed[bug].items() if hit] or ['no test'])}" for bug in bugs]
    return with_alt(figure, f"A table of bugs and the tests that notice them: {listed(told)}.")


@styled
def show_by_head(trials: Mapping[str, Float[Tensor, "L h"]], label: str, title: str) -> Figure:
    """Draw a value from 0 to 100 for each head of each block, in a panel for each trial."""
    figure, (row,) = panels.many(1, len(trials), WIDTH, 3.5, title)
    told = []
    for axes, (name, values) in zip(row, trials.items(), strict=True):
        L, h = values.shape
        image = panels.cells(axes, values, name, vmin=0, vmax=100)
        panels.numbers(axes, values, "{:.0f}", dark=values < 50)
        panels.name_cells(axes, [f"block {n}" for n in range(L)] if axes is row[0] else (), range(h))
        axes.set_xlabel("head")
        block, head = divmod(int(values.argmin()), h)
        told.append(f"{name}, {brief(round(values.min().item()))} % for head {head} of block {block}")
    panels.colour_bar(image, row, label, shrink=0.8)
    return with_alt(figure, f"{label}, the lowest: {'; '.join(told)}.")
