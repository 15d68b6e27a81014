"""An exercise whose answer is a module: the solution, and each slip, runs with the reader's own weights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.module import register_module_parameter_registration_hook

from .exercise import DETACHED, RANDOM, Exercise, NotJudged, collect, flow, noise
from .running import NotAttempted, Wrong, attempt, call, form, is_stub, kind, listed, same

Weights = dict[str, Tensor]

# Three layers are known as those of queries, keys and values by these names, or else by the order of their making.
ROLES = {"q": 0, "query": 0, "k": 1, "key": 1, "v": 2, "value": 2}


class Layer(NamedTuple):
    """What a part of a module learns. `kind` is ("linear", out, in), ("norm", D) or ("bare", count of values)."""

    name: str
    kind: tuple
    weight: Tensor
    bias: Tensor | None = None


def layers(module: nn.Module) -> list[Layer]:
    """Return the layers of a module in the order in which they were made; of `nn.MultiheadAttention` there are two."""
    found = []
    for name, part in module.named_modules():
        own = list(part.named_parameters(name, recurse=False))
        if isinstance(part, nn.MultiheadAttention):
            weight = part.in_proj_weight
            found.append(Layer(f"{name}.qkv", ("linear", *weight.shape), weight, part.in_proj_bias))
        elif isinstance(part, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            weight = part.weight.flatten(1)
            found.append(Layer(name, ("linear", *weight.shape), weight, part.bias))
        elif len(own) == 2 and all(p.shape == own[0][1].shape and p.ndim == 1 for _, p in own):  # a norm, also by hand
            weight, bias = sorted((p for _, p in own), key=lambda p: -p.mean().item())  # the weight began at one
            found.append(Layer(name, ("norm", *weight.shape), weight, bias))
        else:
            found += [Layer(own_name, ("bare", p.numel()), p) for own_name, p in own]
    return found


def role(layer: Layer) -> int:
    """Return 0, 1 or 2 for queries, keys and values, called `q`, `to_q`, `W_q`, `q_proj` or `query`; 3 for others."""
    word = layer.name.rpartition(".")[2].lower().removeprefix("to").removeprefix("w").removesuffix("proj").strip("_")
    return ROLES.get(word, 3)


def fuse(found: list[Layer], kind: tuple) -> tuple[list[Layer], bool]:
    """Put the next three layers for queries, keys and values together, into one of this kind, if there are three.

    Tells, too, whether their names say which is which.
    """
    _, out, size = kind
    thirds = [layer for layer in found if layer.kind == ("linear", out // 3, size)]
    place = thirds[0].name.rpartition(".")[0] if thirds else ""
    three = sorted((layer for layer in thirds if layer.name.rpartition(".")[0] == place), key=role)[:3]
    if len(three) < 3:
        return found, True
    bias = torch.cat([layer.weight.new_zeros(out // 3) if layer.bias is None else layer.bias for layer in three])
    one = Layer(f"{place}.qkv".lstrip("."), kind, torch.cat([layer.weight for layer in three]), bias)
    rest = [layer for layer in found if not any(layer is part for part in three)]
    return [one, *rest], [role(layer) for layer in three] == [0, 1, 2]


def match(ours: nn.Module, theirs: list[Layer]) -> tuple[Weights, bool]:
    """Return the reader's weights by the names of our module's parameters, and whether there was no other way.

    A layer is known by its kind and size; among equals by its name, or else by the order in which they were made.
    Raises LookupError if the reader's layers are of other kinds or sizes.
    """
    found, weights, sure = list(theirs), {}, True
    needed, shapes = needs(ours)
    names = {layer.name for layer in needed}
    for layer in needed:
        if layer.kind[0] == "linear" and not any(other.kind == layer.kind for other in found):
            found, named = fuse(found, layer.kind)
            sure = sure and named
        equals = [other for other in found if other.kind == layer.kind]
        if not equals:
            raise LookupError(layer.name)
        pick = min(equals, key=lambda other: (other.name != layer.name, other.name in names))
        sure = sure and (len(equals) == 1 or pick.name == layer.name)
        found = [other for other in found if other is not pick]
        parts = [layer.name] if layer.kind[0] == "bare" else [f"{layer.name}.weight", f"{layer.name}.bias"]
        for name, value in zip(parts, pick[2:], strict=False):
            weights[name] = torch.zeros(shapes[name]) if value is None else value.reshape(shapes[name])
    if found:
        raise LookupError(found[0].name)
    return weights, sure


@cache
def needs(ours: nn.Module) -> tuple[list[Layer], dict[str, torch.Size]]:
    """Return the layers of a module of ours, and the shapes of its parameters by their names."""
    return layers(ours), {name: p.shape for name, p in ours.named_parameters()}


@cache
def blank(cls: type, args: tuple) -> nn.Module:
    """Return an object of a class of ours, to be run with a reader's weights."""
    with torch.random.fork_rng(devices=[]):
        return cls(*args).eval()


class Trial(NamedTuple):
    """A reader's module, built with `args` and given random weights, and an input for it."""

    module: nn.Module
    layers: list[Layer]
    args: tuple
    x: Tensor
    reading: int = 0


def no_word(layers: list[Layer], *args) -> str:
    return ""


def as_they_are(weights: Weights, *args) -> Iterator[Weights]:
    yield weights


class ModuleExercise(Exercise):
    """Judge the reader's module class. `trials` are (arguments of the class, an input).

    `odd(layers, *args)` says what is wrong with layers that are not the solution's, if it can tell.
    `readings(weights, *args)` yields the ways in which a right module may hold its weights, the usual one first.
    `biases` is the remark on a right module without biases; where there is none, it is wrong.
    """

    takes = "class"

    def __init__(self, solution: type, *, biases: str = "", odd=no_word, readings=as_they_are, **rest):
        super().__init__(solution, **rest)
        self.biases, self.odd, self.readings = biases, odd, readings

    def require(self, answer) -> None:
        super().require(answer)
        if not issubclass(answer, nn.Module):
            raise Wrong(f"Your class is no module of PyTorch: begin with `class {answer.__name__}(nn.Module):`.")
        empty = [method for method in ("__init__", "forward") if is_stub(getattr(answer, method))]
        if len(empty) == 2:
            raise NotAttempted
        if empty:
            raise Wrong(f"`{empty[0]}` is empty.")

    def arrange(self, cls: type) -> list[Trial]:
        """Build the reader's module for every trial. In the last one the first module gets fewer tokens, or images."""
        trials = [build(cls, args, x) for args, x in self.trials]
        first, x = trials[0], trials[0].x
        reading = self.find_reading(first, self.readers(cls, first))
        trials.append(first._replace(x=x[:1, :-1] if x.ndim == 3 else x[:1]))
        return [trial._replace(reading=reading) for trial in trials]

    def find_reading(self, trial: Trial, out) -> int:
        """Return the number of the reading under which the solution gives this result; 0 if none does."""
        module = blank(self.answer, trial.args)
        matched = attempt(match, module, trial.layers)
        if isinstance(matched, LookupError):
            return 0
        ways = enumerate(self.readings(matched[0], *trial.args))
        return next((i for i, weights in ways if same(out, attempt(functional_call, module, weights, trial.x))), 0)

    def readers(self, cls: type, trial: Trial):
        return collect(trial.module, trial.x)

    def ours(self, cls: type, trial: Trial):
        """Return what a class of ours makes of the trial's input with the reader's weights; LookupError for others."""
        return attempt(self.run, cls, trial, trial.x)

    def run(self, cls: type, trial: Trial, x: Tensor) -> Tensor:
        module = blank(cls, trial.args)
        weights, _ = match(module, trial.layers)
        if cls is self.answer:
            weights = next(islice(self.readings(weights, *trial.args), trial.reading, None))
        return functional_call(module, weights, x)

    def look_closer(self, cls: type, trial: Trial) -> str:
        """Return a remark on missing biases; raise Wrong if the values are random, or if other gradients flow back."""
        module, layers, _, x, _ = trial
        out = call(module, x)
        if any(not same(call(module, x), out) for _ in range(20)):
            raise Wrong(RANDOM)
        wanted = [x.clone().requires_grad_(), *module.parameters()]
        mine = flow(call(module, wanted[0]), wanted)
        theirs = flow(self.run(self.answer, trial, wanted[0]), wanted)
        size = max(gradient.abs().max() for gradient in theirs)  # the key bias has no gradient but rounding
        if not same([gradient / size for gradient in mine], [gradient / size for gradient in theirs]):
            raise Wrong(DETACHED)
        bare = ", ".join(f"`{layer.name}`" for layer in layers if layer.kind[0] == "linear" and layer.bias is None)
        if bare and not self.biases:
            raise Wrong(f"The values are right, but there is no bias in {bare}: the paper's layers have one.")
        return f"Without a bias: {bare}. {self.biases}" if bare else ""

    def where_right(self, cls: type, number: int) -> str:
        """Say what is odd about the layers, also of a module that stops with an error; or where it is right."""
        args, x = self.trials[0]
        return self.odd(build(cls, args, x).layers, *args) or super().where_right(cls, number)

    def unexplained(self, cls: type, trial: Trial, out, text: str, where: str) -> Exception:
        """Return what to say of a wrong result that no slip explains: what is certainly so, the first thing first."""
        module, x, right = trial.module, trial.x, self.ours(self.answer, trial)
        other_layers = isinstance(right, LookupError)
        if not isinstance(out, Tensor):
            return Wrong(f"Your module must return one tensor, and returns {kind(out)}.")
        if other_layers and where:
            return Wrong(where)
        if unused := idle(module, out):
            return Wrong(f"The result does not depend on {listed(unused)}: use it, or delete it.")
        if not other_layers and (formal := form(out, right, self.shape)):
            return Wrong(f"{formal}\nThe input was {tuple(x.shape)}. {where}".rstrip())
        ours = blank(self.answer, trial.args)
        if other_layers or not match(ours, trial.layers)[1]:
            return NotJudged(
                "The check runs its own solution with your weights, and cannot tell which is which. It looks for "
                f"{described(layers(ours))}. Yours: {described(trial.layers)}."
            )
        told = where or "The shape is right, the values are not, and no usual slip explains them."
        if not same(torch.cat([call(module, image[None]) for image in x]), out):
            told += "\nAn image gets another result alone than in a batch: somewhere images mix."
        if x.ndim == 3 and not same(call(module, x.flip(1)).flip(1), out):
            told += "\nTokens in another order give other results: somewhere values of different tokens get mixed up."
        return Wrong(told)


def build(cls: type, args: tuple, x: Tensor) -> Trial:
    """Build the reader's module in eval mode, with random weights; raise Wrong for parameters that cannot learn."""
    module, made = call(cls, *args), []
    module.eval()
    hook = register_module_parameter_registration_hook(lambda module, name, parameter: made.append(name))
    try:
        collect(module, x)  # a lazy layer has its weights only after its first call
    finally:
        hook.remove()
    if made:
        raise Wrong(
            "Layers or parameters are made in `forward`: an optimizer never sees them. Make them in `__init__`."
        )
    known = set(module.parameters())
    for part in module.modules():
        for name, value in vars(part).items():
            inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
            if any(p not in known for layer in inside if isinstance(layer, nn.Module) for p in layer.parameters()):
                raise Wrong(
                    f"The layers in `{name}` are in a plain Python {type(value).__name__}, and an optimizer does "
                    "not find them there: use `nn.ModuleList`."
                )
    for seed, (name, p) in enumerate(module.named_parameters()):
        if not p.requires_grad:
            raise Wrong(f"The parameter `{name}` has `requires_grad=False`: it can never learn.")
        p.data = (p.data == 1).all() + 0.3 * noise(*p.shape, seed=seed)  # a norm's weight stays around one
    return Trial(module, layers(module), args, x)


def idle(module: nn.Module, out: Tensor) -> list[str]:
    """Return the names of the parameters that the result does not depend on."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad(out.sum(), parameters, allow_unused=True)
    return [name for name, gradient in zip(names, found, strict=True) if gradient is None]


def described(found: list[Layer]) -> str:
    """List layers by name, kind and size: "`qkv` (linear, 20 → 60), `norm` (norm of 20)"."""
    sizes = {"linear": "linear, {1} → {0}", "norm": "norm of {0}", "bare": "{0} values"}
    return ", ".join(f"`{layer.name}` ({sizes[layer.kind[0]].format(*layer.kind[1:])})" for layer in found) or "none"
