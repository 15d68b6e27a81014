"""Tests of a new model, and the bugs that they notice."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool
from torch import Tensor

from . import panels, style
from .alt_text import listed, with_alt
from .style import WIDTH, Figure, styled


@styled
def show_bug_table(
    bugs: Sequence[str],
    tests: Sequence[str],
    values: Sequence[Sequence[str]],
    noticed: Bool[Tensor, "bugs tests"],
    title: str,
) -> Figure:
    """Draw which test notices which bug: a filled mark with what it measured where it does, an empty one where not.

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
            axes.text(column - 0.16, row, value if hit or row == 0 else "", va="center", fontsize=11, **text)
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
