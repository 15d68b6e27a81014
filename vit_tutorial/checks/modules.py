"""A reader's module at a small size: its weights, found by what they are, and what it makes of one input.

Every parameter gets random numbers. Then the search tries one reading of the weights after another (which
matrix is the output projection, where in a fused matrix the keys are) until the reference, given the weights
so read, makes of the input what the reader's module makes of it. Names are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .comparing import Mistake, random_tensor
from .differences import kind, same, shape_difference
from .registered import check_registered, none_made
from .running import NEW_TENSORS, call, unreadable
from .verdict import Wrong

BARE = (nn.ParameterList, nn.ParameterDict)
DTYPE = "Look for `.half()`, `.double()`, `.float()` and NumPy: the result keeps the dtype of what comes in."


class Layer(NamedTuple):
    """A matrix and its bias. `raw` ones are bare parameters: which axis goes in and which comes out is not known."""

    name: str
    weight: Tensor
    bias: Tensor | None
    raw: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """How many numbers come out and go in; a bare matrix without a bias is taken for the W of x @ W."""
        if not self.raw:
            return tuple(self.weight.shape)
        out = self.weight.shape[-1] if self.bias is None else self.bias.numel()
        return out, self.weight.numel() // out

    def rows(self, in_size: int, last: bool = False) -> Tensor | None:
        """The matrix with a row for each output, (out, in); None if it takes no input of that size."""
        axes = [axis for axis, size in enumerate(self.weight.shape) if size == in_size]
        if not self.raw:
            return self.weight if self.weight.shape[1] == in_size else None
        return self.weight.movedim(axes[-last], -1).reshape(-1, in_size) if axes else None


class Norm(NamedTuple):
    """What a LayerNorm learns, and its eps where it has one."""

    weight: Tensor | None
    bias: Tensor | None
    eps: float | None


class Inventory(NamedTuple):
    """The parameters of a module in the order in which they were registered: `loose` ones belong to no known layer."""

    layers: list[Layer]
    norms: list[Norm]
    loose: list[tuple[str, Tensor]]


def inventory(module: nn.Module) -> Inventory:
    found = Inventory([], [], [])
    for name, part in module.named_modules():
        own = dict(part.named_parameters(name, recurse=False))
        if isinstance(part, nn.MultiheadAttention) and part.in_proj_weight is not None:
            found.layers.append(Layer(f"{name}.in_proj_weight".lstrip("."), part.in_proj_weight, part.in_proj_bias))
        elif isinstance(part, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            found.layers.append(Layer(f"{name}.weight", part.weight.flatten(1), part.bias))
        elif isinstance(part, nn.LayerNorm) or (is_norm(own) and not isinstance(part, BARE)):
            # Written by hand, the weight is the one whose numbers lie around 1, see `randomise`.
            weight, bias = (*sorted(own.values(), key=lambda p: -p.mean().item()), None, None)[:2]
            found.norms.append(Norm(weight, bias, getattr(part, "eps", None)))
        else:
            found.loose.extend(own.items())
    return with_hand_norms(found)


def is_norm(own: dict[str, Tensor]) -> bool:
    return len(own) == 2 and all(p.ndim == 1 for p in own.values()) and len({p.shape for p in own.values()}) == 1


def around_one(p: Tensor) -> bool:
    """True for a norm's weight, see `randomise`."""
    return p.ndim == 1 and p.mean().item() > 0.5


def with_hand_norms(found: Inventory) -> Inventory:
    """Loose vectors as norms, first weight with first bias and so on, if there are as many of each."""
    weights = [p for _, p in found.loose if around_one(p)]
    biases = [p for _, p in found.loose if p.ndim == 1 and not around_one(p)]
    if not weights or [p.shape for p in weights] != [p.shape for p in biases]:
        return found
    norms = [Norm(weight, bias, None) for weight, bias in zip(weights, biases, strict=True)]
    return found._replace(norms=[*found.norms, *norms], loose=[(name, p) for name, p in found.loose if p.ndim != 1])


def paired(loose: Sequence[tuple[str, Tensor]], largest_bias: int) -> list[Layer]:
    """Bare parameters as layers: first matrix, first bias, and so on. Too few biases go to the last matrices."""
    matrices = [(name, p) for name, p in loose if p.numel() > largest_bias]
    biases = [p.flatten() for _, p in loose if p.numel() <= largest_bias]
    biases = [None] * (len(matrices) - len(biases)) + biases
    return [Layer(name, p, bias, raw=True) for (name, p), bias in zip(matrices, biases, strict=False)]


@torch.no_grad()
def randomise(module: nn.Module) -> None:
    """Random numbers in every parameter; the ones that start at one, as a norm's weight does, stay around one."""
    for seed, p in enumerate(module.parameters()):
        p.copy_(float((p == 1).all()) + 0.3 * random_tensor(*p.shape, dtype=p.dtype, seed=seed))


def build(cls: type, args: tuple) -> nn.Module:
    """An object of the reader's class, on the CPU and in eval mode. Raises Wrong if it cannot be one."""
    module = call(cls, *args)
    if not isinstance(module, nn.Module):
        raise Wrong(f"`{cls.__name__}(…)` makes no module, but {kind(module)}: what does your `__new__` return?")
    if "_parameters" not in vars(module):
        raise Wrong("Your `__init__` does not begin with `super().__init__()`, which makes a module of the object.")
    bases = [base for base in type(module).__mro__ if not base.__module__.startswith("torch.")]
    if taken := [name for name in METHODS if any(name in vars(place) for place in (module, *bases))]:
        raise Wrong(f"Every module of PyTorch has a method `{taken[0]}`, and yours covers it: choose another name.")
    if hollow := [name for name, tensor in (*module.named_parameters(), *module.named_buffers()) if tensor.is_meta]:
        raise Wrong(f"`{hollow[0]}` is on the meta device: it has a shape and no numbers.", NEW_TENSORS)
    module.to("cpu")
    module.eval()
    return module


METHODS = ("parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children")


def check_parameters(module: nn.Module) -> None:
    """Raise Wrong for parameters that nothing can be computed with."""
    for name, p in module.named_parameters():
        if nn.parameter.is_lazy(p):
            raise Wrong(f"`{name}` never gets a size: `forward` does not use its lazy layer.")
        if text := unreadable(p):
            raise Wrong(f"`{name}` {text}.", NEW_TENSORS)
        if not p.is_floating_point():
            raise Wrong(f"`{name}` is a parameter of {p.dtype}. Parameters are floats: they change by small steps.")


class Trial:
    """The reader's class built with `args`, with random weights, in eval mode, and its `out` for `x`.

    Raises Wrong if that already shows a mistake: no tensor of `shape` (its axes named by `letters`), or another
    one the second time. `sizes` says in words what was tried.
    """

    def __init__(self, cls: type, args: tuple, x: Tensor, shape: tuple, letters: str, sizes: str = ""):
        self.args, self.x, self.sizes = args, x, sizes
        self.module = build(cls, args)
        check_registered(self.module)
        with none_made():
            self.run()  # a lazy layer has its weights only after its first call
        check_parameters(self.module)
        self.initial = {name: p.detach().clone() for name, p in self.module.named_parameters()}
        randomise(self.module)
        self.parts = inventory(self.module)
        self.out = self.run()
        if isinstance(self.out, (tuple, list)):
            raise Wrong(
                f"Your module returns a {type(self.out).__name__} of {len(self.out)}, and one tensor is asked.",
                "`nn.MultiheadAttention` returns the tokens and the weights: `out, _ = self.attention(x, x, x)`.",
            )
        if not isinstance(self.out, Tensor):
            raise Wrong(f"Your module must return a tensor, got {kind(self.out)}.")
        if self.out.shape != shape:
            found = shape_difference("The result", tuple(self.out.shape), shape, letters)
            raise Wrong(f"{found}\nThe input was {tuple(x.shape)}.")
        if self.out.dtype != x.dtype:
            raise Wrong(f"The result must be of dtype {x.dtype}, as the input is; got {self.out.dtype}.", DTYPE)
        self.out = self.out.detach()
        if not self.repeats():
            raise Wrong(
                "In eval mode your module does not give the same result each time it is called with the same input.",
                "`F.dropout` drops in eval mode too, unless told `training=self.training`; `nn.Dropout` knows by "
                "itself, if it is made in `__init__`.",
            )

    def repeats(self) -> bool:
        """True if the module gives `out` again: once, or twenty times if it draws random numbers."""
        state = torch.get_rng_state()
        return same(self.run(), self.out) and (
            torch.equal(torch.get_rng_state(), state) or all(same(self.run(), self.out) for _ in range(20))
        )

    def run(self, x: Tensor | None = None):
        """What the module makes of `x`, or of the trial's own input."""
        return call(self.module, self.x if x is None else x)

    def agrees(self, expected: Tensor | None) -> bool:
        return expected is not None and same(self.out, expected)

    @contextmanager
    def silenced(self, parameters: Iterable[Tensor]) -> Iterator[None]:
        """Inside the block these parameters are zero, and `out` is what the module makes of `x` then."""
        kept, out = [(p, p.detach().clone()) for p in parameters], self.out
        try:
            with torch.no_grad():
                for p, _ in kept:
                    p.zero_()
            self.out = self.run().detach()
            yield
        finally:
            with torch.no_grad():
                for p, value in kept:
                    p.copy_(value)
            self.out = out


@torch.no_grad()
def find(trial: Trial, function: Callable, readings: Iterable, read: Callable):
    """The first reading of the weights with which `function(weights, x)` is the reader's result; None if none is."""
    for reading in readings:
        weights = read(trial, reading)
        if weights is not None and trial.agrees(attempt(function, weights, trial.x)):
            return reading
    return None


@torch.no_grad()
def recognise(trial: Trial, mistakes: Iterable[Mistake], readings: Iterable, read: Callable) -> None:
    """Raise Wrong with the message of the mistake that, under one of the readings, gives the reader's result."""
    found = [weights for reading in readings if (weights := read(trial, reading)) is not None]
    for mistake in mistakes:
        if any(trial.agrees(attempt(mistake.function, weights, trial.x)) for weights in found):
            raise Wrong(mistake.message, mistake.hint)


def attempt(function: Callable, weights, x: Tensor) -> Tensor | None:
    try:
        return function(weights, x)
    except RuntimeError:  # a mistake may not fit every size
        return None
