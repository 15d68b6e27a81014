"""What is compared stands in named rows: bugs and tests, maps and their measures, models and their mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxtyping import Bool
from torch import Tensor

from ..training.evaluation import wilson_interval
from . import panels, style
from .alt_text import amounts, brief, listed, with_alt
from .style import WIDTH, Figure, styled


@styled
def show_bug_table(
    bugs: Sequence[str],
    tests: Sequence[str],
    values: Sequence[Sequence[str]],
    noticed: Bool[Tensor, "bugs tests"],
    title: str,
) -> Figure:
    """Draw which test notices which bug: a filled mark where it does, an empty one where not, and what it measured.

    The first row is the model without a bug: what the tests measure there is the reference.
    """
    figure, ((axes,),) = panels.panels(1, 1, WIDTH, 1.1 + 0.36 * len(bugs), title)
    for row, (cells, hits) in enumerate(zip(values, noticed.tolist(), strict=True)):
        if row % 2 == 0:
            axes.axhspan(row - 0.5, row + 0.5, color="#F4F4F4", zorder=0)
        for column, (value, hit) in enumerate(zip(cells, hits, strict=True)):
            look = {"color": style.MISTAKE, "ms": 12} if hit else {"color": "#9A9A9A", "ms": 9, "mfc": "none"}
            axes.plot(column - 0.28, row, "o", **look)
            text = {"weight": "bold"} if hit else {"color": style.CONTROL}
            axes.text(column - 0.16, row, value, va="center", fontsize=11, **text)
    panels.row_names(axes, bugs)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.5, len(tests) - 0.5))
    axes.set_xticks([column - 0.34 for column in range(len(tests))], tests, fontsize=11, ha="left")
    axes.tick_params(axis="x", top=False, bottom=False, labeltop=True, labelbottom=False)
    told = [
        f"{bug} by {listed(test for test, hit in zip(tests, hits, strict=True) if hit) if any(hits) else 'no test'}"
        for bug, hits in zip(bugs, noticed.tolist(), strict=True)
    ]
    return with_alt(figure, f"A table of bugs and the tests that notice them: {listed(told)}.")


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
        for row, (name, seeds) in enumerate(found.items()):
            colour, marker = (style.CONTROL, "X") if name == marked else (style.TRAINED, "o")
            for seed, (wrong, scenes) in enumerate(seeds):
                y = row + 0.22 * (seed - (len(seeds) - 1) / 2)
                ends = [100 * share for share in wilson_interval(wrong, scenes)]
                axes.plot(ends, [y, y], color=colour, lw=1.2)
                axes.plot(100 * wrong / scenes, y, marker, color=colour, ms=6, mec="none")
            means[name] = 100 * sum(wrong / scenes for wrong, scenes in seeds) / len(seeds)
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
