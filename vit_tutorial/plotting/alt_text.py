"""What a figure says to a reader who cannot see it: sentences made from the values that it draws."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import SupportsFloat

from matplotlib.text import Text
from torch import Tensor

from .style import FORMULA, Figure, Number


def with_alt(figure: Figure, text: str) -> Figure:
    """Store the figure's title and `text` as its alternative text, and return the figure, which is drawn by now.

    A `$` in the name of a class is a `$`: only what is marked as a FORMULA is set as one.
    """
    for drawn in figure.findobj(Text):
        if "$" in drawn.get_text() and drawn.get_gid() != FORMULA["gid"]:
            drawn.set_parse_math(False)
    title = figure.get_suptitle() or figure.axes[0].get_title(loc="left")
    stop = "." if title and title[-1] not in ".!?" else ""
    plain = " ".join(f"{title}{stop} {text}".split())
    # A capital for every sentence, except one that begins with a symbol such as d.
    figure.alt = re.sub(r"(?:^|[.!?] )[a-z](?=[a-z])", lambda start: start[0].upper(), plain)
    return figure


def listed(items: Iterable[object]) -> str:
    """["a", "b", "c"] → "a, b and c"; with semicolons if there are commas in the items."""
    *most, last = map(str, items)
    comma, last_comma = ("; ", "; ") if "," in "".join([*most, last]) else (", ", " and ")
    return last_comma.join([comma.join(most), last]) if most else last


def brief(value: SupportsFloat, unit: str = "") -> str:
    """Write whole numbers in full and others with three significant digits: 50176 → "50,176"; -0.01234 → "−0.0123"."""
    value = float(value) + 0.0  # −0 is 0
    text = f"{value:,.0f}" if value.is_integer() else f"{value:.3g}"
    return text.replace("-", "−") + unit


def amounts(values: Mapping[str, SupportsFloat], between: str = " ", unit: str = "") -> str:
    """Write each name with its value: {"trained": 1, "untrained": 2} → "trained 1 and untrained 2"."""
    return listed(f"{name}{between}{brief(value, unit)}" for name, value in values.items())


def span(values: Tensor) -> str:
    """Write the smallest and the largest value: "0.1 to 3.5"."""
    low, high = values.detach().aminmax()
    return f"{brief(low)} to {brief(high)}"


def courses(lines: Mapping[str, Sequence[Number]]) -> str:
    """Write where each line starts and ends: "trained from 1 to 0.2; untrained from 1 to 0"."""
    return "; ".join(f"{name} from {brief(line[0])} to {brief(line[-1])}" for name, line in lines.items())
