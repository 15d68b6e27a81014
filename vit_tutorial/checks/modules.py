"""Try a reader's module at a small size: find its weights by what they are, and see what it makes of one input.

Every parameter gets random values. Then the search tries one reading of the weights after another (which
matrix is the output projection, where in a fused matrix the keys are) until the reference, given the weights
so read, makes of the input what the reader's module makes of it. Names are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from threading import get_ident
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_parameter_registration_hook

from .comparing import Mistake, attempt, flow, form_difference, kind, random_tensor, recognise, same
from .references import Layer, Norm
from .running import NEW_TENSORS, Wrong, call, explained, prefixed, unreadable


class Inventory(NamedTuple):
    """The parameters of a module in the order in which they were registered: `loose` ones belong to no known layer."""

    layers: list[Layer]
    norms: list[Norm]
    loose: list[tuple[str, Tensor]]


def inventory(module: nn.Module) -> Inventory:
    """Sort the parameters of a module, which must have been given random values by `randomise`."""
    found = Inventory([], [], [])
    for name, part in module.named_modules():
        own = dict(part.named_parameters(name, recurse=False))
        if isinstance(part, nn.MultiheadAttention) and part.in_proj_weight is not None:
            found.layers.append(Layer(part.in_proj_weight, part.in_proj_bias, f"{name}.in_proj_weight".lstrip(".")))
        elif isinstance(part, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            found.layers.append(Layer(part.weight.flatten(1), part.bias, f"{name}.weight"))
        elif isinstance(part, nn.LayerNorm) or is_hand_written_norm(part, list(own.values())):
            weight, bias = (*sorted(own.values(), key=lambda p: -p.mean().item()), None, None)[:2]
            found.norms.append(Norm(weight, bias, getattr(part, "eps", None)))
        else:
            found.loose.extend(own.items())
    # Loose vectors are norms, too, first weight with first bias and so on, if there are as many of each.
    weights = [p for _, p in found.loose if is_norm_weight(p)]
    biases = [p for _, p in found.loose if p.ndim == 1 and not is_norm_weight(p)]
    if not weights or [p.shape for p in weights] != [p.shape for p in biases]:
        return found
    norms = [*found.norms, *map(Norm, weights, biases)]
    return found._replace(norms=norms, loose=[(name, p) for name, p in found.loose if p.ndim != 1])


def is_hand_written_norm(part: nn.Module, own: list[Tensor]) -> bool:
    vectors = len(own) == 2 and own[0].ndim == own[1].ndim == 1 and own[0].shape == own[1].shape
    return vectors and not isinstance(part, (nn.ParameterList, nn.ParameterDict))


def is_norm_weight(p: Tensor) -> bool:
    """Tell whether the values lie around 1, where `randomise` leaves those that started there."""
    return p.ndim == 1 and p.mean().item() > 0.5


def paired(loose: Sequence[tuple[str, Tensor]], largest_bias: int) -> list[Layer]:
    """Take bare parameters for layers: first matrix, first bias, and so on. Too few biases go to the last matrices."""
    matrices = [(name, p) for name, p in loose if p.numel() > largest_bias]
    biases = [p.flatten() for _, p in loose if p.numel() <= largest_bias]
    biases = [None] * (len(matrices) - len(biases)) + biases
    return [Layer(p, bias, name, raw=True) for (name, p), bias in zip(matrices, biases, strict=False)]


@torch.no_grad()
def randomise(module: nn.Module) -> None:
    """Give every parameter random values; those that start at one, as a norm's weight does, stay around one."""
    for seed, p in enumerate(module.parameters()):
        p.copy_(float((p == 1).all()) + 0.3 * random_tensor(*p.shape, dtype=p.dtype, seed=seed))


LISTS = "Layers in a plain Python list or dict are no parameters of the module: `nn.ModuleList` registers them."
PAIR = "`nn.MultiheadAttention` returns (output, weights): you need the first of the two."
FIRST_OF_PAIR = "`output, weights = self.attention(y, y, y)`, or `self.attention(y, y, y)[0]`."
DTYPE = "Look for `.half()`, `.double()`, `.float()` and NumPy: the result keeps the dtype of what comes in."
NUMBERS = "Look for numbers in `__init__` and `forward` that should come from the arguments or the input's shape."
METHODS = ("parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children")


def build(cls: type, args: tuple) -> nn.Module:
    """Build an object of the reader's class, on the CPU and in eval mode; raise Wrong if it cannot be one."""
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


def require_registered(module: nn.Module) -> None:
    """Raise Wrong if layers lie in a plain list, tuple or dict, and their weights are not among the parameters."""
    known = {id(p) for p in module.parameters()}
    for name, part in module.named_modules():
        for key, value in vars(part).items():
            if isinstance(value, (list, tuple, dict)) and any(id(p) not in known for p in weights_in(value)):
                place, kind_of = f"{name}.{key}".lstrip("."), type(value).__name__
                raise Wrong(
                    f"The layers in `{place}` are in a plain Python {kind_of}: none of their weights is among the "
                    "module's parameters, so they would never learn, and `.to(device)` would leave them behind.",
                    LISTS,
                )


def weights_in(value, depth: int = 20) -> Iterator[Tensor]:
    """Yield the parameters of the modules in lists, tuples and dicts within one another."""
    if isinstance(value, nn.Module):
        yield from value.parameters()
    elif isinstance(value, (list, tuple, dict)) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from weights_in(item, depth - 1)


@contextmanager
def no_new_parameters() -> Iterator[None]:
    """Raise Wrong if a module gets new parameters inside the block."""
    made, thread = [], get_ident()
    handle = register_module_parameter_registration_hook(
        lambda module, name, parameter: made.append(name) if get_ident() == thread else None
    )
    try:
        yield
    finally:
        handle.remove()
    if made:
        raise Wrong(
            "Layers or parameters are made in `forward`: an optimizer, which is made before the first call, never sees "
            "them.",
            "Make them in `__init__`; `forward` only uses them.",
        )


class Trial:
    """The reader's class built with `args`, with random weights, in eval mode, and its `out` for `x`.

    Raises Wrong if that already shows a mistake: no tensor of `shape` (its axes named by `letters`), or another
    one the second time. `sizes` says in words what was tried.

    A subclass says what the module should be: `function(weights, x)` with `count` parameters, where `read(reading)`
    returns the weights under one reading, through which gradients pass, or None. `hint` is for a module that nothing
    explains.
    """

    function: Callable
    read: Callable
    hint: str
    count: int

    def __init__(self, cls: type, args: tuple, x: Tensor, shape: tuple, letters: str, sizes: str):
        self.args, self.x, self.sizes = args, x, sizes
        self.module = build(cls, args)
        require_registered(self.module)
        with no_new_parameters():
            self.run()  # a lazy layer has its weights only after its first call
        for name, p in self.module.named_parameters():
            if nn.parameter.is_lazy(p):
                raise Wrong(f"`{name}` never gets a size: `forward` does not use its lazy layer.")
            if text := unreadable(p):
                raise Wrong(f"`{name}` {text}.", NEW_TENSORS)
            if not p.is_floating_point():
                raise Wrong(f"`{name}` is a parameter of {p.dtype}. Parameters are floats: they change by small steps.")
        self.initial = {name: p.detach().clone() for name, p in self.module.named_parameters()}
        self.total = sum(p.numel() for p in self.module.parameters())
        randomise(self.module)
        self.inventory = inventory(self.module)
        self.out = self.run()
        if isinstance(self.out, (tuple, list)):
            raise Wrong(
                f"Your module returns a {type(self.out).__name__} of {len(self.out)}, and one tensor is asked.",
                "`nn.MultiheadAttention` returns the tokens and the weights: `out, _ = self.attention(x, x, x)`.",
            )
        if found := form_difference(self.out, x.new_empty(shape), letters):
            hint = DTYPE if isinstance(self.out, Tensor) and self.out.shape == shape else None
            raise Wrong(f"{found}\nThe input was {tuple(x.shape)}.", hint)
        self.out = self.out.detach()
        state = torch.get_rng_state()
        again = self.run()
        draws = 0 if torch.equal(torch.get_rng_state(), state) else 20  # a module that draws random numbers
        if not self.agrees(again) or not all(self.agrees(self.run()) for _ in range(draws)):
            raise Wrong(
                "In eval mode your module does not give the same result each time it is called with the same input.",
                "`F.dropout` drops in eval mode too, unless told `training=self.training`; `nn.Dropout` knows by "
                "itself, if it is made in `__init__`.",
            )

    def doubts(self, readings: list) -> str:
        """Say what else is odd about a module that nothing explains."""
        return ""

    def run(self, x: Tensor | None = None):
        """Return what the module makes of `x`, or of the trial's own input."""
        uses_torchs = any(isinstance(part, nn.MultiheadAttention) for part in self.module.modules())
        with explained({"tuple|NoneType|size of tensor": PAIR} if uses_torchs else {}, FIRST_OF_PAIR):
            return call(self.module, self.x if x is None else x)

    def calls(self) -> list[tuple[nn.Module, Tensor | None, object]]:
        """Return each module that `run` calls, as often as it does, with its first input and its output."""
        found = []
        with register_module_forward_hook(lambda module, x, y: found.append((module, x[0] if x else None, y))):
            self.run()
        return found

    def agrees(self, expected) -> bool:
        return same(self.out, expected)

    @contextmanager
    def silenced(self, layers: Iterable[Layer]) -> Iterator[None]:
        """Inside the block these layers are zero, and `out` is what the module makes of `x` then."""
        parameters = [p for layer in layers for p in layer[:2] if p is not None]
        kept, out = [p.detach().clone() for p in parameters], self.out
        try:
            for p in parameters:
                p.data.zero_()
            self.out = self.run().detach()
            yield
        finally:
            for p, value in zip(parameters, kept, strict=True):
                p.data.copy_(value)
            self.out = out

    @torch.no_grad()
    def first(self, readings: Iterable, read: Callable | None = None):
        """Return the first reading of the weights with which the reference gives the reader's result, or None."""
        for reading in readings:
            weights = (read or self.read)(reading)
            if weights is not None and self.agrees(attempt(self.function, (weights, self.x))):
                return reading
        return None

    @torch.no_grad()
    def recognise(self, readings: Iterable, mistakes: Iterable[Mistake]) -> None:
        """Raise Wrong with the message of the mistake that, under one of the readings, gives the reader's result."""
        found = [weights for reading in readings if (weights := self.read(reading)) is not None]
        for mistake, weights in product(mistakes, found):
            recognise(self.out, (weights, self.x), [mistake])

    def find(self, readings: Iterable, mistakes: list[Mistake], when: str, equations: str, among=None):
        """Return the first reading under which the reference gives the reader's result.

        If none does, raise Wrong: with the mistake that gives this result under one of the readings `among` (all
        unless given), or with what is true of the module.
        """
        readings = list(readings)
        if (found := self.first(readings)) is not None:
            return found
        self.recognise(among or readings, mistakes)
        raise Wrong(
            f"The shape is right. {when} the values are not those of {equations}, and none of the usual mistakes "
            f"explains them.\n{' '.join(filter(None, [*self.facts(), self.doubts(readings)]))}",
            self.hint,
        )

    def confirm(self, reading, other: Callable[[], Trial], mistakes: Iterable[Mistake] = ()) -> None:
        """Verify further a module that is right in its trial; raise Wrong for what else it gets wrong.

        It must have `count` parameters, be right for a smaller input and, under the same reading, in the trial
        `other()` (where one of the `mistakes` may show first), and send back the right gradients.
        """
        self.require_count()
        weights = self.read(reading)
        fewer = self.x[:1, :-1] if self.x.ndim == 3 else self.x[:1]
        if not same(self.run(fewer), self.function(weights, fewer)):
            raise Wrong(
                f"Right for an input of {tuple(self.x.shape)}, wrong when the same object then gets "
                f"{tuple(fewer.shape)}.",
                "The result may depend on the weights and this input only: what does `forward` keep from call to call?",
            )
        with prefixed(f"Right with {self.sizes}, but not at another size."):
            again = other()
            again.hint = NUMBERS
            again.find([reading], mistakes, f"With {again.sizes}", "the paper's equations")
        self.require_gradients(weights)

    def require_gradients(self, weights) -> None:
        """Raise Wrong unless input and parameters get the gradients that they get through `function(weights, x)`."""
        names, parameters = zip(*self.module.named_parameters(), strict=True)
        if frozen := [name for name, p in zip(names, parameters, strict=True) if not p.requires_grad]:
            raise Wrong(f"The parameter `{frozen[0]}` has `requires_grad=False`: it can never learn.")
        x = self.x.clone().requires_grad_()
        out, expected = self.run(x), self.function(weights, x)
        if not out.requires_grad:
            raise Wrong("The values are right, but no gradient flows back through them.", DETACHED)
        mine, theirs = (flow([y], [x, *parameters]) for y in (out, expected))
        size = max(grad.abs().max().item() for grad in theirs)  # the key bias has no gradient but rounding
        for name, got, wanted in zip(["the input", *(f"`{name}`" for name in names)], mine, theirs, strict=True):
            if not same(got / size, wanted / size):
                found = f"the gradient of {name} is not" if got.any() else f"no gradient reaches {name}"
                raise Wrong(f"The values are right, but {found}.", DETACHED)

    def require_count(self) -> None:
        """Raise Wrong unless the module has `count` parameters; say which of its own go unused."""
        if self.total != self.count:
            layers = [(name, m) for name, m in self.module.named_modules() if isinstance(m, (nn.Linear, nn.LayerNorm))]
            bare = [f"`{name}`" for name, layer in layers if layer.bias is None]
            unbiased = f"there is no bias in {', '.join(bare)}: " if bare else ""
            raise Wrong(
                f"The values are right, but {unbiased}your module has {self.total} parameters with {self.sizes}, and "
                f"the authors' code has {self.count}.{self.unused()}",
                "Every linear layer and every LayerNorm of the paper has a bias. Delete what `forward` does not use.",
            )

    def unused(self) -> str:
        """Name the parameters that the result does not depend on, in a sentence; empty if there are none."""
        own = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        out = self.run()
        grads = flow([out], list(own.values()), lambda p: None) if out.requires_grad and own else ()
        idle = [f"`{name}`" for name, grad in zip(own, grads, strict=False) if grad is None]
        return f" Never used: {', '.join(idle)}." if idle else ""

    def facts(self) -> Iterator[str]:
        """Yield what is true of a module that no reading explains, in sentences: parameters, images and tokens."""
        number = "as many as it should" if self.total == self.count else f"and should have {self.count}"
        yield f"It has {self.total} parameters, {number}.{self.unused()}"
        if self.out.min() >= 0:
            yield "No result is below 0: is there a ReLU at the end?"
        if self.agrees(torch.cat([self.run(image[None]) for image in self.x])):
            yield "An image gets the same result alone and in a batch, as it must."
        else:
            yield "An image gets another result alone than in a batch: somewhere images mix."
        if self.x.ndim == 3 and self.agrees(self.run(self.x.flip(1)).flip(1)):
            yield "Tokens in another order give the same results in that order, as they must."
        elif self.x.ndim == 3:
            yield "Tokens in another order give other results: somewhere numbers of different tokens get mixed up."


class TokenTrial(Trial):
    """A trial of a class built with `sizes`, which keeps the shape of its tokens, and all its `layers`."""

    def __init__(self, cls: type, tokens: Tensor, **sizes: int):
        words = ", ".join(f"{name} {size}" for name, size in sizes.items())
        words += f", for {tokens.shape[0]} images of {tokens.shape[1]} tokens"
        super().__init__(cls, tuple(sizes.values()), tokens, tuple(tokens.shape), "(B, T, D)", words)
        largest_bias = max(3 * sizes["embed_dim"], sizes.get("mlp_dim", 0))
        self.layers = [*self.inventory.layers, *paired(self.inventory.loose, largest_bias)]


DETACHED = "Something cuts the way back: look for `.detach()`, `.data`, `no_grad`, `.item()` and `torch.tensor(...)`."
