"""Outlines as signed distances: each function returns how far (x, y) is from the outline, negative inside.

Each outline fits a circle of radius 1 around (0, 0). Signs are exact everywhere, distances near the outline, except
at its corners. Source: the constructions of Inigo Quilez, "2D distance functions", iquilezles.org.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def circle(x: Tensor, y: Tensor) -> Tensor:
    return torch.hypot(x, y) - 0.85


def ring(x: Tensor, y: Tensor) -> Tensor:
    return (torch.hypot(x, y) - 0.7).abs() - 0.25


def square(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x.abs(), y.abs()) - 0.7


def triangle(x: Tensor, y: Tensor) -> Tensor:
    """Equilateral: the intersection of three half-planes."""
    return torch.maximum(-x, 0.5 * x + math.sqrt(0.75) * y.abs()) - 0.5


def star(x: Tensor, y: Tensor) -> Tensor:
    """Five points. Ten mirrors fold the plane until one edge is left, from the tip to the notch."""
    tenth = math.pi / 5
    angle = (torch.atan2(y, x).remainder(2 * tenth) - tenth).abs()  # 0 at a notch, `tenth` at a tip
    tip = (math.cos(tenth), math.sin(tenth))
    notch = 0.45
    length = math.hypot(tip[0] - notch, tip[1])
    radius = torch.hypot(x, y)
    x, y = radius * angle.cos(), radius * angle.sin()
    return (tip[1] * (x - notch) - (tip[0] - notch) * y) / length


def cross(x: Tensor, y: Tensor) -> Tensor:
    """Two bars, the long side of each three times the short one."""
    x, y = x.abs(), y.abs()
    long, short = torch.maximum(x, y) - 0.95, torch.minimum(x, y) - 0.3
    return torch.maximum(long, short)


def heart(x: Tensor, y: Tensor) -> Tensor:
    """A square on its corner and two discs on its upper sides."""
    size = 1.58
    x, y = x.abs() / size, 0.63 - y / size  # the tip at (0, 0), the corners of the square at (±1/2, 1/2) and (0, 1)
    diamond = (x + (y - 0.5).abs() - 0.5) * math.sqrt(0.5)
    disc = torch.hypot(x - 0.25, y - 0.75) - math.sqrt(0.125)
    return torch.minimum(diamond, disc) * size


def crescent(x: Tensor, y: Tensor) -> Tensor:
    """A disc minus a smaller one at its right."""
    return torch.maximum(torch.hypot(x, y) - 0.95, 0.72 - torch.hypot(x - 0.45, y))


def half_disc(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(torch.hypot(x, y) - 0.95, -x)


def lens(x: Tensor, y: Tensor) -> Tensor:
    """Intersection of two discs."""
    return torch.hypot(x, y.abs() + 0.56) - 1.1


def bar(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x.abs() - 0.92, y.abs() - 0.26)


def arrow(x: Tensor, y: Tensor) -> Tensor:
    """A triangle for the head and a bar for the shaft, which ends inside it."""
    edge = (0.7 * (x - 0.95) + 0.85 * y.abs()) / math.hypot(0.7, 0.85)  # from the tip to (0.1, 0.7)
    head = torch.maximum(edge, 0.1 - x)
    shaft = torch.maximum((x + 0.3).abs() - 0.6, y.abs() - 0.2)
    return torch.minimum(head, shaft)


def hourglass(x: Tensor, y: Tensor) -> Tensor:
    """Two triangles that touch with blunt tips."""
    x, y = x.abs(), y.abs()
    return torch.maximum((x - 0.8 * y - 0.1) / math.hypot(1, 0.8), y - 0.7)


def corner(x: Tensor, y: Tensor) -> Tensor:
    """A square minus the square at its upper right: an L."""
    whole = torch.maximum(x.abs(), y.abs()) - 0.67
    return torch.maximum(whole, torch.minimum(x + 0.2, 0.2 - y))


def by_name(*outlines: Callable[[Tensor, Tensor], Tensor]) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    return {outline.__name__.replace("_", " "): outline for outline in outlines}


OUTLINES = by_name(circle, ring, square, triangle, star, cross, heart, crescent)
MORE_OUTLINES = by_name(half_disc, lens, bar, arrow, hourglass, corner)  # classes that no shipped model has seen
