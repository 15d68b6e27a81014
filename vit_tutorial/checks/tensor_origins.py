"""Which tensor of a state dict another one was made of, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Origin(NamedTuple):
    """The tensor's name, and what was done to it: one of the `WAYS`."""

    name: str
    how: str


WAYS: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "as it is": lambda source: [source],
    "transposed": lambda source: [source.mT] if source.ndim == 2 else [],
    "a third": lambda source: source.chunk(3) if len(source) % 3 == 0 else [],
    "reordered": lambda source: [source.flatten().sort().values],
}


def origin(tensor: Tensor, tensors: Mapping[str, Tensor]) -> Origin | None:
    """Where these numbers come from; None if they are in none of the `tensors`."""
    for how, made_of in WAYS.items():
        numbers = tensor.detach().flatten()
        numbers = numbers.sort().values if how == "reordered" else numbers
        for name, source in tensors.items():
            if any(equal(numbers, candidate.flatten()) for candidate in made_of(source)):
                return Origin(name, how)
    return None


def equal(numbers: Tensor, others: Tensor) -> bool:
    return numbers.shape == others.shape and numbers.to(others).equal(others)


def told(name: str, tensor: Tensor, expected: Tensor, right: str, found: Origin | None) -> str:
    """What one wrong tensor of the reader's is. `right` is torchvision's name for what belongs there."""
    if found is None:
        if tensor.numel() < expected.numel() and torch.isin(tensor.to(expected), expected).all():
            count = f"{tensor.numel()} of the {expected.numel()}"
            shape = f"{tuple(tensor.shape)} in place of {tuple(expected.shape)}"
            return f"`{name}` holds {count} numbers of `{right}`, {shape}."
        rounded = not tensor.is_floating_point() or tensor.dtype.itemsize < expected.dtype.itemsize
        why = f": its dtype is {tensor.dtype}, torchvision's is {expected.dtype}" if rounded else ""
        return f"`{name}` holds numbers that are nowhere in torchvision's{why}."
    if found.name != right:
        part = "" if found.how == "as it is" else f" ({found.how})"
        return f"`{name}` holds `{found.name}`{part}, and `{right}` belongs there."
    shapes = f"{tuple(tensor.shape)} in place of {tuple(expected.shape)}"
    return {
        "as it is": f"`{name}` has the right numbers and the wrong shape, {shapes}.",
        "transposed": f"`{name}` is transposed, {shapes}.",
        "a third": f"`{name}` holds only a third of `{right}`, {shapes}.",
        "reordered": f"`{name}` holds the numbers of `{right}` in another order.",
    }[found.how]
