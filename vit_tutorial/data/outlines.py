"""Outlines as signed distances: each function returns how far (x, y) is from the outline, negative inside.

Each outline fits a circle of radius 1 around (0, 0). Signs are exact everywhere, distances near the outline, except
at its corners. Source: the constructions of Inigo Quilez, "2D distance functions", iquilezles.org.
"""

import math

from torch import Tensor, atan2, hypot, maximum, minimum


def star_distance(x: Tensor, y: Tensor) -> Tensor:
    """Five points. Ten mirrors fold the plane until one edge is left, from the tip to the notch."""
    tenth = math.pi / 5
    angle = (atan2(y, x).remainder(2 * tenth) - tenth).abs()  # 0 at a notch, `tenth` at a tip
    tip = (math.cos(tenth), math.sin(tenth))
    notch = 0.45
    length = math.hypot(tip[0] - notch, tip[1])
    radius = hypot(x, y)
    x, y = radius * angle.cos(), radius * angle.sin()
    return (tip[1] * (x - notch) - (tip[0] - notch) * y) / length


def heart_distance(x: Tensor, y: Tensor) -> Tensor:
    """A square on its corner and two discs on its upper sides."""
    size = 1.58
    x, y = x.abs() / size, 0.63 - y / size  # the tip at (0, 0), the corners of the square at (±1/2, 1/2) and (0, 1)
    diamond = (x + (y - 0.5).abs() - 0.5) * math.sqrt(0.5)
    disc = hypot(x - 0.25, y - 0.75) - math.sqrt(0.125)
    return minimum(diamond, disc) * size


def arrow_distance(x: Tensor, y: Tensor) -> Tensor:
    """A triangle for the head and a bar for the shaft, which ends inside it."""
    edge = (0.7 * (x - 0.95) + 0.85 * y.abs()) / math.hypot(0.7, 0.85)  # from the tip to (0.1, 0.7)
    head = maximum(edge, 0.1 - x)
    shaft = maximum((x + 0.3).abs() - 0.6, y.abs() - 0.2)
    return minimum(head, shaft)


OUTLINES = {
    "circle": lambda x, y: hypot(x, y) - 0.85,
    "ring": lambda x, y: (hypot(x, y) - 0.7).abs() - 0.25,
    "square": lambda x, y: maximum(x.abs(), y.abs()) - 0.7,
    "triangle": lambda x, y: maximum(-x, 0.5 * x + math.sqrt(0.75) * y.abs()) - 0.5,  # where three half-planes meet
    "star": star_distance,
    "cross": lambda x, y: maximum(maximum(x.abs(), y.abs()) - 0.95, minimum(x.abs(), y.abs()) - 0.3),  # two bars
    "heart": heart_distance,
    "crescent": lambda x, y: maximum(hypot(x, y) - 0.95, 0.72 - hypot(x - 0.45, y)),  # a disc minus a smaller one
}
MORE_OUTLINES = {  # classes that no shipped model has seen
    "half disc": lambda x, y: maximum(hypot(x, y) - 0.95, -x),
    "lens": lambda x, y: hypot(x, y.abs() + 0.56) - 1.1,  # where two discs overlap
    "bar": lambda x, y: maximum(x.abs() - 0.92, y.abs() - 0.26),
    "arrow": arrow_distance,
    "hourglass": lambda x, y: maximum((x.abs() - 0.8 * y.abs() - 0.1) / math.hypot(1, 0.8), y.abs() - 0.7),
    "corner": lambda x, y: maximum(maximum(x.abs(), y.abs()) - 0.67, minimum(x + 0.2, 0.2 - y)),  # an L
}
