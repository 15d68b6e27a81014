"""Published weights: what differs between libraries, layer by layer, and what a mistake costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.patches import Rectangle

from . import panels, style
from .alt_text import amounts, brief, describe
from .style import WIDTH, Figure, styled

NOTHING = 1e-18  # where a difference of exactly 0 is drawn on a logarithmic axis
Lines = Mapping[str, Mapping[str, Sequence[float]]]


@styled
def show_tensor_shapes(
    rows: Sequence[str], shapes: Mapping[str, Sequence[str]], differs: Mapping[str, Sequence[bool]], title: str
) -> Figure:
    """Draw a table of shapes: one row per tensor, one column per library; framed where more than the name differs."""
    figure, ((axes,),) = panels.panels(1, 1, WIDTH, 0.33 * len(rows) + 1.1, title)
    panels.bare(axes)
    for column, (library, texts) in enumerate(shapes.items()):
        axes.text(column + 0.5, -0.5, library, ha="center", va="center", weight="bold")
        for row, (text, is_other) in enumerate(zip(texts, differs[library], strict=True)):
            if is_other:
                corner = (column + 0.03, row + 0.06)
                axes.add_patch(Rectangle(corner, 0.94, 0.88, facecolor=style.TINTS[1], edgecolor=style.BLACK, lw=1))
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=10)
    axes.set_yticks([row + 0.5 for row in range(len(rows))], rows)
    axes.set(xlim=(0, len(shapes)), ylim=(len(rows), -1))
    axes.tick_params(length=0)
    others = amounts({library: sum(differs[library]) for library in shapes})
    return describe(figure, f"A table of {len(rows)} tensors. More than the name differs in: {others}.")


@styled
def show_layer_differences(
    stages: Sequence[str], differences: Lines, controls: Lines, eps: Mapping[str, float], title: str
) -> Figure:
    """Draw the largest difference after each stage, as a share of the largest value there, one panel per precision.

    `differences[precision][library]` and `controls[precision][name]` have one value for each stage. The first control
    is drawn dashed, the others, mistakes, dotted. `eps[precision]`, the machine epsilon, is the thin line.
    """
    figure, (row,) = panels.panels(1, len(differences), WIDTH, 4.2, title, sharey=True)
    places, told = range(len(stages)), []
    ticks = {NOTHING: "exactly 0", **{10.0**-n: rf"$10^{{-{n}}}$" for n in (15, 12, 9, 6, 3)}, 1: "1"}
    for axes, (precision, lines) in zip(row, differences.items(), strict=True):
        # The later the smaller, so that of equal lines each is seen.
        drawn = {name: (*look[:2], "-", 9 - 2 * n) for n, (name, look) in enumerate(style.looks(lines).items())}
        for index, name in enumerate(controls[precision]):
            drawn[name] = *((style.MISTAKE, "x", ":") if index else (style.CONTROL, "D", "--")), 6
        lines = {**lines, **controls[precision]}
        for name, (colour, marker, dash, size) in drawn.items():
            heights = [max(value, NOTHING) for value in lines[name]]
            axes.plot(places, heights, dash, color=colour, marker=marker, markersize=size, label=name)
        axes.axhline(eps[precision], color=style.CONTROL, lw=1)
        place = {"color": style.CONTROL, "ha": "right", "va": "top"}
        axes.text(len(stages) - 1, eps[precision] / 2, f"epsilon of {precision}", **place)
        axes.set_xticks(places, stages, rotation=40, ha="right")
        axes.set(yscale="log", ylim=(NOTHING, 1))
        axes.set_title(precision, fontsize=11)
        axes.set_yticks(list(ticks), list(ticks.values()))
        axes.minorticks_off()
        largest = amounts({name: max(values) for name, values in lines.items()})
        told.append(f"{precision}, with an epsilon of {brief(eps[precision])}: {largest}")
    row[0].set_ylabel("largest difference\n(1 = largest value there)")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(drawn))
    return describe(figure, f"Largest difference at any stage in {'; in '.join(told)}.")


@styled
def show_mistake_costs(
    names: Sequence[str], moved: Sequence[float], costs: Sequence[float], spreads: Sequence[float], title: str
) -> Figure:
    """Draw, one line per mistake, how far it moves the logits (left), and the points of accuracy that it costs (right).

    `costs` and `spreads` are in points. A mark is filled where the cost is beyond its spread, and hollow where not.
    """
    figure, ((left, right),) = panels.panels(1, 2, WIDTH, 0.36 * len(names) + 1.3, title, sharey=True)
    measured = {}
    for row, (name, amount, cost, spread) in enumerate(zip(names, moved, costs, spreads, strict=True)):
        look = {"color": style.CONTROL, "mfc": "white"}
        if abs(cost) > spread:
            look, measured[name] = {"color": style.MISTAKE}, cost
        left.plot(amount, row, "s", color=style.TRAINED)
        right.errorbar(cost, row, xerr=spread, fmt="o", capsize=3, **look)
    panels.zero(right, vertical=True)
    left.set(xscale="log", xlabel="largest change of a logit")
    right.set(xlabel="points of accuracy lost\n(hollow: none measured)")
    for axes in (left, right):
        panels.row_names(axes, names)
        axes.grid(axis="y", color=style.CONTROL, alpha=0.2)
    right.tick_params(labelleft=False)
    lost = amounts(measured) if measured else "none"
    return describe(figure, f"{len(names)} mistakes. Points of accuracy lost, where more than the spread: {lost}.")
