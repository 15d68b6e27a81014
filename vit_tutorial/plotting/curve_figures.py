"""Numbers on axes: curves, the loss of a run while it goes on, a row made longer, differences, rankings, mistakes."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from matplotlib.ticker import FixedLocator, LogLocator
from torch import Tensor

from ..training.evaluation import wilson_interval
from . import panels, style
from .alt_text import amounts, brief, first_to_last, listed, with_alt
from .style import WIDTH, Figure, Names, Number, styled

Lines = Mapping[str, Sequence[float]]


@styled
def show_curves(
    x: Sequence[Number] | Tensor,
    measures: Mapping[str, Mapping[str, Sequence[Number] | Tensor]],
    xlabel: str,
    title: str,
    log: str = "",
    level: tuple[Number, str] | None = None,
) -> Figure:
    """Draw curves over `x`; `measures` has the label of the y axis, and under it the curves by their names.

    A curve has one value for each x, (X,), or those of S runs, (S, X): then the line is their mean, in a band from the
    lowest to the highest. `log` names the logarithmic axes ("x", "y" or "xy"). `level` is a height and its text, a
    dashed line. Raises ValueError if `log` names another axis.
    """
    if set(log) - {"x", "y"}:
        raise ValueError(f'log="{log}": the logarithmic axes are "x", "y" or "xy", and "" is none')
    x, ((ylabel, named),) = torch.as_tensor(x).tolist(), measures.items()
    curves = {name: torch.as_tensor(curve, dtype=torch.float32).detach().cpu() for name, curve in named.items()}
    curves = {name: torch.atleast_2d(runs) for name, runs in curves.items()}
    means = {name: runs.mean(dim=0).tolist() for name, runs in curves.items()}
    figure, axes = panels.panel(WIDTH, 3.6, title)
    dots = {"markevery": max(len(x) // 12, 1), "ms": 5 if len(x) <= 60 else 0}
    for name, (colour, marker, dash) in style.looks(curves).items():
        if len(curves[name]) > 1:
            low, high = curves[name].numpy().min(axis=0), curves[name].numpy().max(axis=0)
            axes.fill_between(x, low, high, color=colour, alpha=0.25, lw=0)
        axes.plot(x, means[name], dash, color=colour, marker=marker, lw=2, label=name, **dots)
    heights = torch.cat(list(curves.values()))  # (all runs, X)
    if level:  # its text stands at the end from which the curves are farther
        left, right = (heights[:, [0, -1]] - level[0]).abs().amin(dim=0)
        panels.level(axes, *level, *((x[0], "left") if left > right else (x[-1], "right")))
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_xscale("log" if "x" in log else "linear")
    axes.set_yscale("log" if "y" in log else "linear")
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # these times the powers of ten, written out
            axis.set_major_formatter("{x:g}")
    if "y" not in log and 0 <= heights.min() < heights.max() / 2:
        axes.set_ylim(bottom=0)
    if len(x) <= 20:
        axes.set_xticks(x, [f"{place:g}" for place in x])
    axes.minorticks_off()
    if len(curves) > 1:
        axes.legend(**panels.BESIDE if len(curves) > 2 else {})
    return with_alt(figure, f"{xlabel}: {brief(x[0])} to {brief(x[-1])}. {ylabel}: {first_to_last(means)}.")


class LiveLoss:
    """Draw the loss while a loop trains a model, in JupyterLab and in Colab.

    The picture is replaced in place about every two seconds, or so seldom that it takes a twentieth of the time, with
    the step in its title; the last one keeps `title`.
    """

    def __init__(self, num_classes: int, title: str):
        self.num_classes, self.title = num_classes, title
        self.steps, self.losses, self.next, self.handle = [], [], -math.inf, None

    def add(self, step: int, steps: int, losses: Sequence[float]) -> None:
        """Add the mean of the losses since the last call, after `step` of all `steps`, and draw if it is time."""
        self.steps.append(step)
        self.losses.append(sum(losses) / len(losses))
        start = time.perf_counter()
        if step == steps or start > self.next:
            self.show(self.draw(steps, self.title if step == steps else f"step {step:,} of {steps:,}"))
            end = time.perf_counter()
            self.next = end + max(2, 20 * (end - start))  # on a busy computer a drawing takes long

    @styled
    def draw(self, total: int, title: str) -> Figure:
        """Draw the loss by step, on axes for all `total` steps, with the loss of a guess, ln K, as a dashed line."""
        chance = math.log(self.num_classes)
        figure, axes = panels.panel(WIDTH, 3.4, title)
        axes.plot(self.steps, self.losses, color=style.TRAINED, linewidth=2)
        panels.level(axes, chance, f"ln {self.num_classes}: every class equally likely", total)
        axes.set(xlim=(0, total), ylim=(0, 1.15 * max([chance, *self.losses])), xlabel="step", ylabel="loss")
        ends = f"from {self.losses[0]:.1f} to {self.losses[-1]:.1f}"
        return with_alt(figure, f"The loss over {total} steps, {ends}; a guess has {chance:.2f}.")

    def show(self, figure: Figure) -> None:
        from IPython.display import display  # here, because the package draws without a notebook too

        if self.handle:
            self.handle.update(figure)
        else:
            self.handle = display(figure, display_id=True)


@styled
def show_by_images(results: Mapping[str, Mapping[int, Sequence[float]]], num_classes: int, title: str) -> Figure:
    """Draw the wrong answers by the number of training images: every seed, and a line through their means.

    `results[name][images]` are the accuracies of the seeds, from 0 to 1; a guess is a dashed line. The axis is
    logarithmic down to 0.01 %, so that 98 % and 100 % right lie far apart.
    """
    figure, axes = panels.panel(WIDTH, 3.8, title)
    counts, told, best = sorted({count for table in results.values() for count in table}), [], 100.0
    for name, (colour, marker, dash) in style.looks(results).items():
        wrong = {count: 100 * (1 - np.array(accuracies)) for count, accuracies in results[name].items()}
        for count, seeds in wrong.items():
            axes.plot([count] * len(seeds), seeds, marker, color=colour, alpha=0.5)
            best = min(best, *seeds)
        means = [seeds.mean() for seeds in wrong.values()]
        axes.plot(list(wrong), means, dash, color=colour, linewidth=2, marker=marker, markersize=4, label=name)
        first, last = (brief(round(mean, 1)) for mean in (means[0], means[-1]))
        told.append(f"{name} {first} % with {min(wrong):,} and {last} % with {max(wrong):,}")
    panels.level(axes, 100 * (1 - 1 / num_classes), "a guess", counts[-1])
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.set_yscale("symlog", linthresh=0.01, linscale=0.5)
    axes.yaxis.set_major_locator(FixedLocator((0, 0.01, 0.1, 1, 10, 100)))  # zero has a place of its own
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set(xlabel="training images (log scale)", ylabel="wrong answers, % (log scale)")
    axes.set_ylim(0.8 * best - 0.003, 200)
    axes.legend(**panels.BESIDE)
    return with_alt(figure, f"Mean wrong answers by the number of training images: {listed(told)}.")


@styled
def show_row(old: Sequence[float], new: Lines, title: str) -> Figure:
    """Draw a row of values at the centres of its cells, and what it becomes in rows of other lengths.

    All rows are as long as the picture. The axis counts old cells, with 0 at the centre of the first. Straight lines
    join the old values and go on level at both ends.
    """
    figure, axes = panels.panel(0.85 * WIDTH, 3.0, title)
    first, last, places = -0.5, len(old) - 0.5, range(len(old))
    axes.plot([first, *places, last], [old[0], *old, old[-1]], color=style.CONTROL, lw=1.5)
    axes.plot(places, old, "s", color=style.BLACK, ms=11, label=f"{len(old)} old values")
    for name, (colour, marker, _) in style.looks(new).items():
        centres = [(j + 0.5) * len(old) / len(new[name]) - 0.5 for j in range(len(new[name]))]
        axes.plot(centres, new[name], marker, color=colour, ms=8, label=name)
        for place, value in zip(centres, new[name], strict=True):
            look = {"textcoords": "offset points", "ha": "center", "color": colour}
            axes.annotate(f"{value:g}", (place, value), (0, 9), **look)
    axes.set(xlim=(first, last), xticks=places, ylabel="value")
    axes.set_xlabel("place $u$: 0 is the centre of the first old patch", **style.FORMULA)
    axes.margins(y=0.25)
    axes.legend(loc="upper left")
    rows = [f"{name}: {', '.join(f'{value:g}' for value in values)}" for name, values in {"old": old, **new}.items()]
    return with_alt(figure, f"A row of values before and after: {'; '.join(rows)}.")


@styled
def show_layer_differences(stages: Names, correct: Lines, mistakes: Lines, eps: float, title: str) -> Figure:
    """Draw the largest difference after each stage, as a share of the largest value there, on a logarithmic axis.

    Every line of `correct` models and of `mistakes` has one value for each stage; `eps` is the machine epsilon. Zero,
    which a logarithmic axis does not have, is the strip below it.
    """
    figure, ((upper,), (lower,)) = panels.panels(2, 1, WIDTH, 4.2, title, sharex=True, height_ratios=(6, 1))
    looks = style.looks(correct)
    looks |= {name: (style.MISTAKE, mark, ":") for name, mark in zip(mistakes, "XvP", strict=False)}
    lines, last = {**correct, **mistakes}, len(stages) - 1
    for name, (colour, marker, dash) in looks.items():
        for axes, line in (
            (upper, [value or math.nan for value in lines[name]]),
            (lower, [math.nan if value else 0 for value in lines[name]]),
        ):
            axes.plot(line, dash, color=colour, marker=marker, ms=6, label=name)
            if not math.isnan(line[-1]):
                place = {"textcoords": "offset points", "va": "center", "color": colour}
                axes.annotate(name, (last, line[-1]), (8, 0), **place)
    panels.level(upper, eps, "one rounding", last + 0.3 * len(stages))
    upper.set(yscale="log", ylabel="largest difference\n(1 = largest value there)", ylim=(None, 1))
    upper.yaxis.set_major_formatter("{x:.0e}")
    upper.minorticks_off()
    upper.tick_params(bottom=False)
    upper.spines["bottom"].set_visible(False)
    lower.set(xlim=(-0.5, last + 0.3 * len(stages)), ylim=(-0.5, 0.5), facecolor="#F2F2F2")
    lower.set_yticks([0], ["exactly 0"])
    lower.set_xticks(range(len(stages)), stages)
    largest = amounts({name: max(values) for name, values in lines.items()})
    return with_alt(figure, f"Largest difference at any stage, with an epsilon of {brief(eps)}: {largest}.")


@styled
def show_ranking(
    scores: Mapping[str, Mapping[str, tuple[float, float]]],
    chance: Mapping[str, float],
    title: str,
    controls: Collection[str] = (),
    informed: Collection[str] = (),
) -> Figure:
    """Draw a mean and half the width of its 95 % interval for each name, one panel per measure, in the order given.

    The dashed line is what chance reaches. `controls` are names that stand for no method, and `informed` those that
    know the right answer.
    """
    names = list(dict.fromkeys(name for found in scores.values() for name in found))
    kinds = dict.fromkeys(names, "a method") | dict.fromkeys(controls, "a control")
    kinds |= dict.fromkeys(informed, "knows the right answer")
    looks = {
        "a method": {"color": style.TRAINED, "marker": "o"},
        "a control": {"color": style.CONTROL, "marker": "X"},
        "knows the right answer": {"color": style.BLACK, "marker": "D"},
    }
    figure, (row,) = panels.panels(1, len(scores), WIDTH, 0.42 * len(names) + 1.5, title, sharey=True)
    panels.row_names(row[0], names)
    told, legend = [], {}
    for axes, (measure, found) in zip(row, scores.items(), strict=True):
        for name, (mean, half) in found.items():
            place, look = names.index(name), looks[kinds[name]]
            dot, *_ = axes.errorbar(mean, place, xerr=half, ms=6, capsize=4, lw=2, **look)
            legend[kinds[name]] = dot
            beside = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "color": look["color"]}
            axes.annotate(brief(mean), (mean + half, place), **beside)
        if measure in chance:
            legend["chance"] = axes.axvline(chance[measure], color=style.CONTROL, lw=1, ls="--", zorder=0)
        low, high = axes.get_xlim()
        axes.set(xlabel=measure, xlim=(low, high + 0.2 * (high - low)))  # room for the value beside the last dot
        told.append(f"{measure}: {listed(f'{n} {brief(mean)} ± {half:.2g}' for n, (mean, half) in found.items())}")
    heading = "95 % intervals of the mean"
    figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=4, title=heading)
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
                axes.hlines(y, *(100 * share for share in wilson_interval(wrong, scenes)), color=colour, lw=1.2)
                axes.plot(100 * wrong / scenes, y, marker, color=colour, ms=6, mec="none")
            means[name] = 100 * sum(wrong / scenes for wrong, scenes in seeds) / len(seeds)
            axes.vlines(means[name], row - 0.36, row + 0.36, color=style.STREAM, lw=2)
        panels.row_names(axes, found)
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_title(panel, fontsize=11)
        told.append(f"{panel}: {amounts(means, unit=' %')}.")
    axes.set(xlim=(0, None), xlabel="wrong answers, %")
    legend = "dots: one seed each, with its 95 % interval; black: mean of the seeds; grey: the control,"
    figure.supxlabel(f"{legend} {marked}", fontsize=10)
    return with_alt(figure, f"Mean share of wrong answers. {' '.join(told)}")
