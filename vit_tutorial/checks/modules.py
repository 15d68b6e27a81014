"""An exercise whose answer is a module: the solution, and each slip, runs with the reader's own weights or parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .exercise import DETACHED, RANDOM, Exercise, flow, noise
from .running import NotJudged, Wrong, attempt, call, form, joined, kind, listed, same, tensors_in

# A leaf: a module with weights of its own -----------------------------------------------------------------------------


class Layer(NamedTuple):
    """What a part of a module learns. `kind` is ("linear", out, in), ("norm", D) or ("bare", count of values)."""

    name: str
    kind: tuple
    weight: Tensor
    bias: Tensor | None = None


def layers(module: nn.Module) -> list[Layer]:
    """Return the layers of a module in the order in which they were made; of `nn.MultiheadAttention` there are two."""
    found = []
    for name, part in unwrapped(module).named_modules():
        own = list(part.named_parameters(name, recurse=False))
        if isinstance(part, nn.MultiheadAttention):
            weight = part.in_proj_weight
            found.append(Layer(f"{name}.qkv".lstrip("."), ("linear", *weight.shape), weight, part.in_proj_bias))
        elif isinstance(part, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            weight = part.weight.flatten(1)
            found.append(Layer(name or type(part).__name__, ("linear", *weight.shape), weight, part.bias))
        elif len(own) == 2 and all(p.shape == own[0][1].shape and p.ndim == 1 for _, p in own):  # a norm, also by hand
            weight, bias = sorted((p for _, p in own), key=lambda p: -p.mean().item())  # the weight began at one
            found.append(Layer(name or type(part).__name__, ("norm", *weight.shape), weight, bias))
        else:
            found += [Layer(own_name, ("bare", p.numel()), p) for own_name, p in own]
    return found


def fused(found: list[Layer]) -> list[Layer]:
    """Put the layers called `query`, `key` and `value` into one."""
    by_role = {layer.name.rpartition(".")[2]: layer for layer in found if layer.kind[0] == "linear"}
    three = [by_role[role] for role in ("query", "key", "value") if role in by_role]
    if len(three) < 3:
        return found
    weight = torch.cat([layer.weight for layer in three])
    bias = torch.cat([layer.weight.new_zeros(layer.kind[1]) if layer.bias is None else layer.bias for layer in three])
    names = [layer.name for layer in three]
    rest = [layer for layer in found if layer.name not in names]
    return [Layer("qkv", ("linear", *weight.shape), weight, bias), *rest]


def match(ours: nn.Module, theirs: list[Layer]) -> tuple[dict[str, Tensor], bool]:
    """Return the reader's weights by the names of our module's parameters, and whether there was no other way.

    A layer is known by its kind and size; among equals by its name, or else by the order in which they were made.
    Raises LookupError if the reader's layers are of other kinds or sizes.
    """
    weights, sure = {}, True
    shapes = {name: p.shape for name, p in ours.named_parameters()}
    for layer in layers(ours):
        if layer.kind not in [other.kind for other in theirs]:
            theirs = fused(theirs)
        equals = [other for other in theirs if other.kind == layer.kind]
        if not equals:
            raise LookupError(layer.name)
        pick = next((other for other in equals if other.name == layer.name), equals[0])
        sure = sure and (len(equals) == 1 or pick.name == layer.name)
        theirs = [other for other in theirs if other is not pick]
        parts = [layer.name] if layer.kind[0] == "bare" else [f"{layer.name}.weight", f"{layer.name}.bias"]
        for name, value in zip(parts, pick[2:], strict=False):
            weights[name] = torch.zeros(shapes[name]) if value is None else value.reshape(shapes[name])
    if theirs:
        raise LookupError(theirs[0].name)
    return weights, sure


@cache
def blank(cls: type, args: tuple) -> nn.Module:
    """Return an object of a class of ours, to be run with a reader's weights or parts."""
    with torch.random.fork_rng(devices=[]):
        return cls(*args).eval()


class Trial(NamedTuple):
    """A reader's module, the arguments that it was built with, and an input."""

    module: nn.Module
    args: tuple
    x: Tensor


class ModuleExercise(Exercise):
    """Judge the reader's module class. `trials` are (arguments of the class, an input).

    The solution, and each slip, runs with the reader's weights. `readings(weights, *args)` returns the ways in which a
    right module may hold its weights, the usual one first. `biases` is the remark on a right module without biases;
    where there is none, it is wrong.
    """

    takes = "class"

    def __init__(
        self, solution: type, *, biases: str = "", readings: Callable = lambda weights, *args: [weights], **rest
    ):
        super().__init__(solution, **rest)
        self.biases, self.readings = biases, readings

    def require(self, answer) -> None:
        super().require(answer)
        if not issubclass(answer, nn.Module):
            raise Wrong(f"Your class is no module of PyTorch: begin with `class {answer.__name__}(nn.Module):`.")

    def arrange(self, cls: Callable) -> list[Trial]:
        """Build the reader's module for every trial. In the last one the first module gets fewer tokens, or images."""
        trials = [Trial(build(cls, args, x), args, x) for args, x in self.trials]
        module, args, x = trials[0]
        return [*trials, Trial(module, args, x[:1, :-1] if x.ndim == 3 else x[:1])]

    def readers(self, cls: Callable, trial: Trial):
        return attempt(call, trial.module, trial.x)

    def ours(self, cls: type, trial: Trial):
        """Return what a class of ours makes of the trial's input; an error if the reader's layers do not fit it."""
        return attempt(lambda: self.lend(cls, trial)(trial.x))

    def lend(self, cls: type, trial: Trial) -> Callable:
        """Return a class of ours as a function of the input, with the reader's weights. LookupError: they do not fit.

        The solution holds them in the way that gives the reader's result, if one does.
        """
        module = blank(cls, trial.args)
        weights, _ = match(module, layers(trial.module))
        usual = partial(functional_call, module, weights)
        if cls is not self.answer:
            return usual
        ways = (partial(functional_call, module, reading) for reading in self.readings(weights, *trial.args))
        out = self.readers(cls, trial)
        return next((way for way in ways if same(out, attempt(way, trial.x), self.tolerance)), usual)

    def look_closer(self, cls: Callable, trial: Trial) -> str:
        """Return a remark on missing biases; raise Wrong for random values, unused parameters or other gradients."""
        module, _, x = trial
        out = call(module, x)
        if any(not same(call(module, x), out) for _ in range(20)):
            raise Wrong(RANDOM)
        wanted = [x.clone().requires_grad_(), *module.parameters()]
        mine = flow(call(module, wanted[0]), wanted)
        theirs = flow(self.lend(self.answer, trial)(wanted[0]), wanted)
        size = max(gradient.abs().max() for gradient in theirs)  # the key bias has no gradient but rounding
        if not same([gradient / size for gradient in mine], [gradient / size for gradient in theirs]):
            raise Wrong(DETACHED)
        if unused := idle(module, out):
            raise Wrong(unused)
        return self.remark(module)

    def remark(self, module: nn.Module) -> str:
        found = [layer for layer in layers(module) if layer.kind[0] == "linear" and layer.bias is None]
        bare = ", ".join(f"`{layer.name}`" for layer in found)
        if bare and not self.biases:
            raise Wrong(f"The values are right, but there is no bias in {bare}: the paper's layers have one.")
        return f"Without a bias: {bare}. {self.biases}" if bare else ""

    def unexplained(self, cls: Callable, trial: Trial, out, text: str, where: str) -> Exception:
        """Return what to say of a wrong result that no slip explains: what is certainly so, the first thing first."""
        module, args, x = trial
        if not isinstance(out, Tensor):
            return Wrong(f"Your module must return one tensor, and returns {kind(out)}.")
        if unused := idle(module, out):
            return Wrong(unused)
        if wrong_form := form(out, blank(self.answer, args)(x), self.shape):
            return Wrong(joined(wrong_form, f"The input was {tuple(x.shape)}.", where))
        if unclear := self.unclear(trial):
            return Wrong(joined(where, unclear)) if where else NotJudged(unclear)
        told = where or "The shape is right, the values are not, and no usual slip explains them."
        if not same(torch.cat([call(module, image[None]) for image in x]), out):
            told += "\nAn image gets another result alone than in a batch: somewhere images mix."
        if x.ndim == 3 and not same(call(module, x.flip(1)).flip(1), out):
            told += "\nTokens in another order give other results: somewhere values of different tokens get mixed up."
        return Wrong(told)

    def unclear(self, trial: Trial) -> str:
        """Say what the check looks for, if it cannot tell which of the reader's layers is which."""
        ours = blank(self.answer, trial.args)
        matched = attempt(match, ours, layers(trial.module))
        if not isinstance(matched, LookupError) and matched[1]:
            return ""
        return (
            "The check runs its own solution with your weights, and cannot tell which is which. It looks for "
            f"{shapes_in(ours)}. Yours: {shapes_in(trial.module)}. (Layers and `nn.Parameter`s count that `__init__` "
            "stores as `self.name = …`. An optimizer does not find plain tensors and buffers.)"
        )

    def inside(self, part: nn.Module | None) -> list[nn.Module]:
        """Return what this exercise judges in a part of a larger module: the part itself."""
        return [] if part is None else [Called(part)]


def shapes_in(module: nn.Module) -> str:
    return ", ".join(f"`{name}` {tuple(p.shape)}" for name, p in unwrapped(module).named_parameters()) or "none"


def build(cls: type, args: tuple, x: Tensor) -> nn.Module:
    """Build the reader's module in eval mode, with random weights; raise Wrong for parameters that cannot learn."""
    module = call(cls, *args).eval()
    known = set(module.parameters())
    attempt(call, module, x)
    if set(module.parameters()) != known:
        raise Wrong(
            "Layers or parameters are made in `forward`: an optimizer never sees them. Make them in `__init__`."
        )
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
    return module


def idle(module: nn.Module, out: Tensor) -> str:
    """Name the parameters that the result does not depend on; empty if there is none."""
    learned = dict(module.named_parameters())
    if not learned or not out.requires_grad:
        return ""
    found = torch.autograd.grad(out.sum(), list(learned.values()), retain_graph=True, allow_unused=True)
    unused = [name for name, gradient in zip(learned, found, strict=True) if gradient is None]
    return f"The result does not depend on {listed(unused)}: use it, or delete it." if unused else ""


# A composite: a module made of parts ----------------------------------------------------------------------------------


class Called(nn.Module):
    """A reader's part as our code calls it, one tensor in and one out. Of a pair, (tokens, weights), it is the first.

    `nn.MultiheadAttention` takes its tokens three times, for queries, keys and values.
    """

    def __init__(self, part: nn.Module):
        super().__init__()
        self.part, self.times = part, 3 if isinstance(part, nn.MultiheadAttention) else 1

    def forward(self, x: Tensor) -> Tensor:
        result = self.part(*[x] * self.times)
        return next(iter(tensors_in([result])))


def unwrapped(module: nn.Module) -> nn.Module:
    return module.part if isinstance(module, Called) else module


class CompositeExercise(ModuleExercise):
    """Judge a module by its parts, which the task names: the solution's `forward` runs with the reader's own parts.

    `parts` says which exercise judges each part for itself, and how to get the arguments of the whole from those of
    the part: `{"mlp": (mlp, lambda D, M: (D, 1, M))}`. `look(module, *args)` looks at what is made in `__init__`, and
    may raise Wrong.
    """

    def __init__(self, solution: type, *, parts: Mapping, look: Callable = lambda module, *args: None, **rest):
        super().__init__(solution, **rest)
        self.parts, self.look = parts, look

    def inside(self, part: nn.Module | None) -> list[nn.Module]:
        """Return the modules within a part that have this exercise's parts, such as the blocks of an encoder."""
        found = [] if part is None else [module for _, module in part.named_modules(remove_duplicate=False)]
        return [module for module in found if self.parts.keys() <= module._modules.keys()]

    def find_parts(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return the reader's parts, each as a sequence of what is to be judged in it. NotJudged: there are others."""
        found = {name: exercise.inside(module._modules.get(name)) for name, (exercise, _) in self.parts.items()}
        if not all(found.values()):
            theirs = ", ".join(f"`{name}`" for name in module._modules) or "none"
            raise NotJudged(f"The check finds parts by their names. It looks for {self.names()}. Yours: {theirs}.")
        return {name: nn.Sequential(*inside) for name, inside in found.items()}

    def names(self) -> str:
        """Name the parts, and those of a part that is a stack of blocks."""
        stacks = {name: each.names() for name, (each, _) in self.parts.items() if isinstance(each, CompositeExercise)}
        return ", ".join(f"`{name}`" + f" (blocks of {stacks.get(name)})" * (name in stacks) for name in self.parts)

    def judge_trials(self, cls: Callable, trials: list[Trial]) -> str:
        for trial in trials:
            if isinstance(self.readers(cls, trial), Wrong):
                continue
            self.find_parts(trial.module)
            self.look(trial.module, *trial.args)
            if isinstance(stopped := self.ours(self.answer, trial), Exception):
                raise NotJudged(f"The check calls each part with one tensor, and one of yours stops there: {stopped}")
        return joined(super().judge_trials(cls, trials), self.judge_parts(cls))

    def lend(self, cls: type, trial: Trial) -> Callable:
        """Return an object of a class of ours with the reader's parts in the places of its own."""
        ours = copy(blank(cls, trial.args))
        ours._modules = {**ours._modules, **self.find_parts(trial.module)}
        return ours

    def judge_parts(self, cls: Callable) -> str:
        """Judge every part by its own exercise, as if it were the answer: raise what is found, or return remarks."""
        remarks = []
        for name, (exercise, whole) in self.parts.items():
            answer = lambda *args, name=name, whole=whole: self.find_parts(cls(*whole(*args)))[name][0]  # noqa: E731
            try:
                remark = exercise.judge_trials(answer, exercise.arrange(answer))
            except Wrong as wrong:
                raise Wrong(f"In `{name}`: {wrong}", wrong.code, wrong.error) from None
            except NotJudged as unclear:
                raise NotJudged(f"In `{name}`: {unclear}") from None
            remarks.append(f"In `{name}`: {remark}" if remark else "")
        return joined(*remarks)

    def remark(self, module: nn.Module) -> str:
        return ""  # the parts have their own

    def unexplained(self, cls: Callable, trial: Trial, out, text: str, where: str) -> Exception:
        """Return what is wrong with a part, if anything is, or else what is certainly so of the whole."""
        finding = attempt(self.judge_parts, cls)
        return finding if isinstance(finding, Exception) else super().unexplained(cls, trial, out, text, where)

    def unclear(self, trial: Trial) -> str:
        return ""  # the parts are known by their names
