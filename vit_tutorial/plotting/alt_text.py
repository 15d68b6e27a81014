"""What a figure says to a reader who cannot see it: sentences made from the values that it draws."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import SupportsFloat

from matplotlib.ticker import Formatter
from torch import Tensor

from .style import Figure, Number


def with_alt(figure: Figure, text: str) -> Figure:
    """Store the figure's title and `text` as its alternative text, and return the figure."""
    title = figure.get_suptitle()
    stop = "." if title and title[-1] not in ".!?" else ""
    plain = " ".join(f"{title}{stop} {text}".split())
    # A capital for every sentence, except one that begins with a symbol such as d.
    figure.alt = re.sub(r"(?:^|[.!?] )[a-z](?=[a-z])", lambda start: start[0].upper(), plain)
    return figure


def listed(items: Iterable[object]) -> str:
    """["a", "b", "c"] → "a, b and c"; with semicolons if there are commas in the items."""
    items = [str(item) for item in items]
    if any("," in item for item in items):
        return "; ".join(items)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def counted(pictures: Collection[object]) -> str:
    """Write "1 picture" or "2 pictures"."""
    return "1 picture" if len(pictures) == 1 else f"{len(pictures)} pictures"


def brief(value: SupportsFloat, unit: str = "") -> str:
    """Write whole numbers in full and others with three significant digits: 50176 → "50,176"; -0.01234 → "−0.0123"."""
    value = float(value) + 0.0  # −0 is 0
    text = f"{value:,.0f}" if value.is_integer() else f"{value:.3g}"
    return Formatter.fix_minus(text) + unit


def amounts(values: Mapping[str, SupportsFloat], between: str = " ", unit: str = "") -> str:
    """Write each name with its value: {"trained": 1, "untrained": 2} → "trained 1 and untrained 2"."""
    return listed(f"{name}{between}{brief(value, unit)}" for name, value in values.items())


def lowest_to_highest(values: Tensor) -> str:
    """Write the smallest and the largest value: "0.1 to 3.5"."""
    low, high = values.detach().aminmax()
    return f"{brief(low)} to {brief(high)}"


def first_to_last(lines: Mapping[str, Sequence[Number]], x: Sequence[Number]) -> str:
    """Write where each line starts and ends, and its top: "trained from 0.1 to 0, at most 31 at 15; untrained …"."""
    told = []
    for name, line in lines.items():
        top = max(range(len(line)), key=line.__getitem__)
        peak = f", at most {brief(line[top])} at {brief(x[top])}" if line[top] > max(line[0], line[-1]) else ""
        told.append(f"{name} from {brief(line[0])} to {brief(line[-1])}{peak}")
    return "; ".join(told)
