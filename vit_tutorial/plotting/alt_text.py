"""What a figure says to a reader who cannot see it: sentences made from the values that it draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from .style import Figure


def describe(figure: Figure, text: str) -> Figure:
    """Store the figure's title and `text` as its alternative text, and return the figure."""
    title = figure.get_suptitle() or figure.axes[0].get_title(loc="left")
    figure.alt = " ".join(f"{title.rstrip('.')}. {text}".split()).removeprefix(". ")
    return figure


def listed(items: Iterable[object]) -> str:
    """["a", "b", "c"] → "a, b and c"."""
    *most, last = map(str, items)
    return f"{', '.join(most)} and {last}" if most else last


def brief(value: float, unit: str = "") -> str:
    """Write a value with three significant digits: 1234.5 → "1,230"; -0.0123 → "−0.0123"."""
    value = float(f"{value:.3g}")
    return (f"{value:,.0f}" if abs(value) >= 100 else f"{value:g}").replace("-", "−") + unit


def span(values: Tensor | Iterable[float], unit: str = "") -> str:
    """Write the smallest and the largest value: "0.1 to 3.5"."""
    values = values.flatten().tolist() if isinstance(values, Tensor) else list(values)
    return f"{brief(min(values))} to {brief(max(values))}{unit}"


def courses(lines: Mapping[str, Iterable[float]], unit: str = "") -> str:
    """Write where each line starts and ends: "trained from 1 to 0.2; untrained from 1 to 0"."""
    values = {name: list(line) for name, line in lines.items()}
    return "; ".join(f"{name} from {brief(line[0])} to {brief(line[-1])}{unit}" for name, line in values.items())
