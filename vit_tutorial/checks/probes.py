"""What probes ask with: random values, where values come from, what a tensor is a sum of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from .running import close

Probes = Iterator[tuple[bool, str]]  # whether a property holds, and what to say if it does not


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Return random values, the same for the same shape and seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def few(values: Iterable[int], most: int = 6) -> str:
    """Write a set of whole numbers, sorted, the first of them: "[0, 1, 2, …]"."""
    values = sorted(set(values))
    return f"[{', '.join(map(str, values[:most]))}{', …' if len(values) > most else ''}]"


def origin(result: Tensor, given: Tensor) -> list[Tensor] | None:
    """Return where each value of a result stands in what was given, axis by axis; None if one is not from there.

    Every value of `given` must be different.
    """
    place = {value: index for index, value in enumerate(given.flatten().tolist())}
    found = [place.get(value) for value in result.flatten().tolist()]
    if None in found:
        return None
    return [axis.reshape(result.shape) for axis in torch.unravel_index(torch.tensor(found), given.shape)]


def moved(got: Tensor, expected: Tensor, given: Tensor, axes: Sequence[str], given_axes: Sequence[str]) -> Probes:
    """Ask whether each value of a result is the one of those given that belongs there; the axes' names say which."""
    mine, right = origin(got, given), origin(expected, given)
    yield mine is not None, "Your result holds values that are not among those that were given."
    at = tuple(torch.stack([a != b for a, b in zip(mine, right, strict=True)]).any(0).nonzero()[0].tolist())
    place = ", ".join(map("{} {}".format, axes, at))
    yours, asked = (", ".join(map("{} {}".format, given_axes, [axis[at] for axis in found])) for found in (mine, right))
    yield False, f"At {place} of your result stands what was at {yours}. What was at {asked} belongs there."


def as_sum(value: Tensor, terms: Mapping[str, Tensor]) -> str:
    """Write a tensor as a sum of others of its shape, "z + 2·mlp"; "something else" if it is none."""
    terms = {name: term for name, term in terms.items() if term.shape == value.shape}
    if not terms:
        return "something else"
    columns = torch.stack(list(terms.values())).flatten(1).T.double()
    shares = torch.linalg.lstsq(columns, value.flatten().double()[:, None]).solution[:, 0]
    if not close(columns @ shares, value.flatten(), 1e-3):
        return "something else"
    found = [(round(share, 3), name) for share, name in zip(shares.tolist(), terms, strict=True) if abs(share) > 1e-3]
    return " + ".join(name if share == 1 else f"{share:g}·{name}" for share, name in found) or "nothing"
