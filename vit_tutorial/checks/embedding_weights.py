"""The parameters of a reader's embeddings, found by their shapes: the projection, the class token, the positions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .modules import Inventory
from .rearranging import ORDERS
from .verdict import Wrong


class Sizes(NamedTuple):
    """What the class is built with, and what follows from it."""

    image_size: int
    patch_size: int
    in_channels: int
    embed_dim: int

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2

    @property
    def tokens(self) -> int:
        return 1 + self.patches

    @property
    def patch_dim(self) -> int:
        return self.in_channels * self.patch_size**2

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._asdict().items())


class Weights(NamedTuple):
    """Eq. 1's parameters in the reference's layout."""

    sizes: Sizes
    order: str  # of the numbers in a patch
    matrix: Tensor  # (D, C·P·P)
    bias: Tensor  # (D,), or zero
    class_token: Tensor  # (D,)
    position: Tensor  # (1+N, D)


class Reading(NamedTuple):
    """Which bare parameter is what, in order of registration, and how a patch is flattened."""

    roles: tuple[str, ...]
    order: str


def bare_parameters(parts: Inventory) -> list[Tensor]:
    """The parameters of no layer. Two vectors side by side look like a hand-written norm's, see `modules.is_norm`."""
    vectors = [vector for norm in parts.norms if norm.eps is None for vector in (norm.weight, norm.bias)]
    return [parameter for _, parameter in parts.loose] + vectors


def kind_of(parameter: Tensor, sizes: Sizes) -> str:
    """What a bare parameter can be, from the sizes of its axes: "vector", "table", "patch table", "matrix" or ""."""
    D, sides = sizes.embed_dim, sorted(side for side in parameter.shape if side > 1)
    if sides == [D]:
        return "vector"
    if parameter.numel() == sizes.tokens * D and D in sides:
        return "table"
    if parameter.numel() == sizes.patches * D and D in sides:
        return "patch table"
    return "matrix" if parameter.numel() == sizes.patch_dim * D and D in sides else ""


def readings(parts: Inventory, sizes: Sizes) -> Iterator[Reading]:
    """Every way to take the bare parameters for the parts of Eq. 1; none if they do not suffice, or are too many."""
    kinds = [kind_of(parameter, sizes) for parameter in bare_parameters(parts)]
    vectors = ["class token"] + ["class position"] * kinds.count("patch table")
    if "matrix" in kinds and kinds.count("vector") > len(vectors):
        vectors.append("bias")
    others = sorted(kind for kind in kinds if kind != "vector")
    tables = sum("table" in kind for kind in others)
    if any(norm.eps is not None for norm in parts.norms):
        return
    if kinds.count("vector") != len(vectors) or tables != 1 or len(others) - 1 + len(parts.layers) != 1:
        return
    for roles in dict.fromkeys(permutations(vectors)):
        rest = iter(roles)
        filled = tuple(next(rest) if kind == "vector" else kind for kind in kinds)
        yield from (Reading(filled, order) for order in ORDERS)


def read(parts: Inventory, sizes: Sizes, reading: Reading) -> Weights | None:
    """The weights so read. Gradients pass through."""
    found = dict(zip(reading.roles, bare_parameters(parts), strict=True))
    D = sizes.embed_dim
    if parts.layers:
        matrix, bias = parts.layers[0].weight, parts.layers[0].bias
    else:
        matrix, bias = as_rows(found["matrix"], D).T, found.get("bias")
    if matrix.shape != (D, sizes.patch_dim):
        return None
    if "patch table" in found:
        position = torch.cat([found["class position"].reshape(1, D), as_rows(found["patch table"], D)])
    else:
        position = as_rows(found["table"], D)
    bias = matrix.new_zeros(D) if bias is None else bias.reshape(D)
    return Weights(sizes, reading.order, matrix, bias, found["class token"].reshape(D), position)


def as_rows(parameter: Tensor, D: int) -> Tensor:
    """A table with vectors of D numbers as rows, whichever axis they lie along."""
    axis = max(axis for axis, side in enumerate(parameter.shape) if side == D)
    return parameter.movedim(axis, -1).reshape(-1, D)


def complain(module: nn.Module, parts: Inventory, sizes: Sizes) -> None:
    """Raise Wrong with what is missing among a module's parameters, or is too much."""
    D, T = sizes.embed_dim, sizes.tokens
    kinds = [kind_of(parameter, sizes) for parameter in bare_parameters(parts)]
    vectors, layers = kinds.count("vector"), [f"`{layer.name.removesuffix('.weight')}`" for layer in parts.layers]
    listed = ", ".join(f"`{name}` {tuple(p.shape)}" for name, p in module.named_parameters()) or "none"
    have = f"\nIts parameters at {sizes} are: {listed}."
    if any(norm.eps is not None for norm in parts.norms):
        raise Wrong(
            "There is a normalisation in your embeddings. Eq. 1 has none: the first one is in the encoder." + have
        )
    if len(layers) > 1:
        raise Wrong(
            f"There are {len(layers)} layers, {', '.join(layers)}. Eq. 1 has one, E: from C·P·P = {sizes.patch_dim} "
            f"straight to D = {D}.",
            "A convolution with stride P is the projection already. A linear layer after it adds nothing but weights.",
        )
    if not layers and "matrix" not in kinds:
        raise Wrong(f"The projection E is missing: a layer from C·P·P = {sizes.patch_dim} to D = {D} numbers.{have}")
    if "table" not in kinds and "patch table" not in kinds:
        if vectors > 1 + ("matrix" in kinds):
            raise Wrong(
                "There is one position vector for all tokens: added to each of them, it tells no place from another."
                + have,
                f"A vector for every token: a parameter of (1, 1+N, D) = (1, {T}, {D}).",
            )
        if thin := [name for name, p in parts.loose if sorted(p.shape)[-1] == p.numel() == T]:
            raise Wrong(
                f"`{thin[0]}` holds one number for every token, and a position is a vector of D numbers: (1, 1+N, D) = "
                f"(1, {T}, {D}).{have}"
            )
        raise Wrong(
            missing("positions", "one vector for every token", f"(1, 1+N, D) = (1, {T}, {D})", module, T * D) + have
        )
    if vectors == 0:
        raise Wrong(missing("class token", "one vector", f"(1, 1, D) = (1, 1, {D})", module, D) + have)
    if "patch table" in kinds and vectors == 1 + ("matrix" in kinds and vectors > 2):
        raise Wrong(
            f"The class token gets no position: there are {sizes.patches} position vectors, for the patches only. "
            f"Eq. 1 adds one to each of the 1+N = {T} tokens.",
            "Put the class token in front first, then add the positions to all of them.",
        )
    raise Wrong(
        "Your module has other parameters than Eq. 1: a projection, one class token, one table of positions." + have,
        "Delete those that Eq. 1 does not have.",
    )


def missing(what: str, how: str, shape: str, module: nn.Module, numel: int) -> str:
    """A sentence on a parameter that is not there, and on a tensor that looks like it and is no parameter."""
    text = f"Your module has no parameter for the {what}: {how}, {shape}."
    for name, part in module.named_modules():
        for key, value in [*vars(part).items(), *part._buffers.items()]:
            if isinstance(value, Tensor) and value.numel() == numel:
                which = "buffer" if key in part._buffers else "plain tensor"
                place = f"{name}.{key}".lstrip(".")
                return f"{text} `{place}` is a {which}: no optimizer finds it. Wrap it in `nn.Parameter`."
    return f"{text} A tensor is a parameter if `__init__` stores it as `self.name = nn.Parameter(...)`."
