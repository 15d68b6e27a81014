"""An exercise whose answer is a module: the solution, and each slip, runs with the reader's own weights or parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .exercise import DETACHED, RANDOM, Exercise, gradients_of, noise
from .running import NotAttempted, NotJudged, Wrong, attempt, call, first_three, joined, misfit, same, tensors_in

# A leaf: a module with weights of its own -----------------------------------------------------------------------------

KEPT = (
    "Right at first, and wrong when it is called again with one image and fewer tokens: it keeps something from call "
    "to call, or an axis of length 1 is lost (`squeeze()` drops every one of them)."
)
DROPOUT = "In eval mode `nn.Dropout`, made in `__init__`, is off; `F.dropout` needs `training=self.training`."


# What people call the three: query, queries, q, W_q, wq, to_q, q_proj, q_linear.
ROLE = r"(?:to_?|w_?)?([qkv])(?:uery|ueries|ey|eys|alue|alues)?(?:_?(?:proj|projection|linear|layer))?\."


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters of a module by their names."""
    return {name.removeprefix("part."): parameter for name, parameter in module.named_parameters()}


def fused(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Put the weights of three layers for query, key and value (`W_q`, `to_k`, `v_proj`) together as those of `qkv`."""
    for suffix in ("weight", "bias"):
        found = {
            re.sub(ROLE, r"\1", name.lower()): name for name in weights if re.fullmatch(ROLE + suffix, name.lower())
        }
        three = [found.get(role + suffix) for role in "qkv"]
        if None not in three:
            rest = {name: parameter for name, parameter in weights.items() if name not in three}
            weights = {f"qkv.{suffix}": torch.cat([weights[name] for name in three]), **rest}
    return weights


def rename_weights(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the reader's weights by our names: those of the same name, or else the first of the same shape or size.

    Axes of length 1 do not count in a shape. Of a table with spare rows it is the first ones. Raises LookupError if one
    of ours that is no bias is missing, or if one of theirs is left over.
    """
    left = fused(theirs) if "qkv.weight" in ours else dict(theirs)
    found = {}
    for feature in (
        lambda name, weight: (name, weight.numel()),
        lambda name, weight: weight.squeeze().shape,
        lambda name, weight: weight.numel(),
    ):
        for name, own in ours.items():
            alike = [other for other, weight in left.items() if feature(other, weight) == feature(name, own)]
            if alike and name not in found:
                found[name] = laid_out(left.pop(alike[0]), own)
    for name, own in ours.items():
        longer = [other for other, w in left.items() if w.shape[-1] == own.shape[-1] and w.numel() > own.numel()]
        if longer and name not in found:
            found[name] = left.pop(longer[0]).flatten(0, -2)[: own.numel() // own.shape[-1]].reshape(own.shape)
    missing = [name for name in ours if name not in found and not name.endswith("bias")]
    if missing or left:
        raise LookupError(", ".join([*missing, *left]))
    return found


def laid_out(weight: Tensor, own: Tensor) -> Tensor:
    """Return a weight in the shape of ours. A matrix that is written for `x @ E` is turned: a layer's is (out, in)."""
    if weight.ndim == 2 < own.ndim and weight.shape == own.flatten(1).T.shape != own.flatten(1).shape:
        weight = weight.T
    return weight.reshape(own.shape)


@cache
def without_weights(cls: Callable, args: tuple) -> nn.Module:
    """Return an object of a class of ours, with zeros for weights, to be run with a reader's weights or parts."""
    with torch.random.fork_rng(devices=[]):
        module = cls(*args).eval()
    for parameter in module.parameters():
        parameter.data.zero_()
    return module


class Trial(NamedTuple):
    """A reader's module, the arguments that it was built with, and an input."""

    module: nn.Module
    args: tuple
    x: Tensor


class ModuleExercise(Exercise):
    """Judge the reader's module class. `trials` are (arguments of the class, an input).

    The solution, and each slip, runs with the reader's weights. `biases` is the remark on a right module without
    biases; where there is none, it is wrong.
    """

    takes = "class"

    def __init__(self, solution: type, *, biases: str = "", **rest):
        super().__init__(solution, **rest)
        self.biases = biases

    def require(self, answer) -> None:
        super().require(answer)
        if not issubclass(answer, nn.Module):
            raise Wrong(f"Your class is no module of PyTorch: begin with `class {answer.__name__}(nn.Module):`.")

    def arrange(self, cls: Callable) -> list[Trial]:
        """Build the reader's module for every trial. In the last one the first module gets fewer tokens, or images."""
        trials = [Trial(build(cls, args, x), args, x) for args, x in self.trials]
        module, args, x = trials[0]
        return [*trials, Trial(module, args, x[:1, :-1] if x.ndim == 3 else x[:1])]

    def where_right(self, trials: list[Trial], number: int) -> str:
        return KEPT if number == len(trials) - 1 else super().where_right(trials, number)

    def their_result(self, cls: Callable, trial: Trial):
        return attempt(call, trial.module, trial.x)

    def our_result(self, cls: Callable, trial: Trial):
        """Return what a class of ours makes of the trial's input; an error if the reader's weights do not fit it."""
        return attempt(lambda: self.with_their_weights(cls, trial)(trial.x))

    def with_their_weights(self, cls: Callable, trial: Trial) -> Callable:
        """Return a class of ours as a function of the input, with the reader's weights."""
        ours = without_weights(cls, trial.args)
        return partial(functional_call, ours, rename_weights(weights_of(ours), weights_of(trial.module)))

    def look_closer(self, cls: Callable, right: Callable, trial: Trial) -> str:
        """Return a remark on missing biases; raise Wrong for random values, unused parameters or other gradients."""
        module, _, x = trial
        out = call(module, x)
        if any(not same(call(module, x), out) for _ in range(20)):
            raise Wrong(f"{RANDOM} {DROPOUT}")
        wanted = [x.clone().requires_grad_(), *module.parameters()]
        mine = gradients_of(call(module, wanted[0]), wanted)
        theirs = gradients_of(self.with_their_weights(right, trial)(wanted[0]), wanted)
        size = max(gradient.abs().max() for gradient in theirs)  # the key bias has no gradient but rounding
        if not same([gradient / size for gradient in mine], [gradient / size for gradient in theirs]):
            raise Wrong(DETACHED)
        if unused := unused_parameters(module, out):
            raise Wrong(unused)
        return self.remark(trial)

    def remark(self, trial: Trial) -> str:
        ours = weights_of(without_weights(self.answer, trial.args))
        found = rename_weights(ours, weights_of(trial.module))
        missing = ", ".join(f"`{name}`" for name in ours if name not in found)
        if missing and not self.biases:
            raise Wrong(f"The values are right, but there is no {missing}: the paper's layers have a bias.")
        return f"There is no {missing}. {self.biases}" if missing else ""

    def unexplained(self, cls: Callable, trial: Trial, out, text: str, where: str) -> Exception:
        """Return what to say of a wrong result that no slip explains: what is certainly so, the first thing first."""
        module, args, x = trial
        if wrong_form := misfit(out, without_weights(self.answer, args)(x), self.shape):
            return Wrong(joined(wrong_form, f"The input was {tuple(x.shape)}.", where))
        if unused := unused_parameters(module, out):
            return Wrong(unused)
        kept = {**vars(module), **module._buffers}  # and no parameter
        if plain := [name for name, value in kept.items() if isinstance(value, Tensor) and value.ndim]:
            return Wrong(f"`{plain[0]}` is a plain tensor or a buffer: nothing trains it. Make it an `nn.Parameter`.")
        if not weights_of(module):
            return Wrong(
                "Your module has no parameters. A layer that is made in `forward` is new, and random, at every "
                "call: make it in `__init__`, as `self.name = …`."
            )
        ours = weights_of(without_weights(self.answer, args))
        for name, weight in fused(weights_of(module)).items():
            if name in ours and name.endswith("weight") and weight.numel() < ours[name].numel():
                asked = f"`{name}` is {tuple(weight.shape)}, and {tuple(ours[name].shape)} is asked"
                return Wrong(f"{asked}: a layer sees all values of a token. (A cut into heads comes after it.)")
        if not where and (unclear := self.unclear(trial)):
            return NotJudged(unclear)
        told = where or "The shape is right, the values are not, and no usual slip explains them."
        if not same(torch.cat([call(module, image[None]) for image in x]), out):
            told += "\nAn image gets another result alone than in a batch: somewhere images mix."
        if x.ndim == 3 and out.shape[:2] == x.shape[:2] and not same(call(module, x.flip(1)).flip(1), out):
            told += "\nTokens in another order give other results: somewhere values of different tokens get mixed up."
        return Wrong(told)

    def unclear(self, trial: Trial) -> str:
        """Say what the weights must be called, if the check cannot tell which of the reader's weights is which."""
        ours, theirs = weights_of(without_weights(self.answer, trial.args)), weights_of(trial.module)
        matrices = [name for name, weight in theirs.items() if weight.ndim == 2]
        layers = matrices and all(name.endswith("weight") for name in matrices)
        shapes_differ = layers and len({weight.shape for weight in theirs.values()}) == len(ours)
        if (shapes_differ or fused(theirs).keys() <= ours.keys()) and not isinstance(
            attempt(rename_weights, ours, theirs), LookupError
        ):
            return ""
        apart = " (or three layers `query`, `key` and `value` for `qkv`)" if "qkv.weight" in ours else ""
        return (
            "No usual slip explains these values, and the check cannot tell which of your weights is which. Name them "
            f"so: {shapes_of(ours)}{apart}. Yours: {shapes_of(theirs)}. (Layers and `nn.Parameter`s count that "
            "`__init__` stores as `self.name = …`. An optimizer does not find plain tensors and buffers.)"
        )

    def judged_in(self, part: nn.Module | None) -> list[nn.Module]:
        """Return what this exercise judges in a part of a larger module: the part itself."""
        return [] if part is None else [Called(part)]


def shapes_of(weights: dict[str, Tensor]) -> str:
    return ", ".join(f"`{name}` {tuple(weight.shape)}" for name, weight in weights.items()) or "none"


def build(cls: Callable, args: tuple, x: Tensor) -> nn.Module:
    """Build the reader's module in eval mode, with random weights; raise Wrong for parameters that cannot learn."""
    try:
        module = call(cls, *args).eval()
    except NotAttempted:
        if "NotImplementedError" in cls.forward.__code__.co_names:
            raise
        raise Wrong("`__init__` is empty.") from None
    known = set(module.parameters())
    attempt(call, module, x)
    if set(module.parameters()) != known:
        raise Wrong(
            "Layers or parameters are made in `forward`: an optimizer never sees them. Make them in `__init__`."
        )
    for part in module.modules():
        for name, value in vars(part).items():
            inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
            if any(p not in known for layer in inside if isinstance(layer, nn.Module) for p in layer.parameters()):
                raise Wrong(
                    f"The layers in `{name}` are in a plain Python {type(value).__name__}, and an optimizer does not "
                    "find them there: use `nn.ModuleList` or `nn.ModuleDict`."
                )
    for seed, (name, p) in enumerate(module.named_parameters()):
        if not p.requires_grad:
            raise Wrong(f"The parameter `{name}` has `requires_grad=False`: it can never learn.")
        p.data = (p.data == 1).all() + 0.3 * noise(*p.shape, seed=seed)  # a norm's weight stays around one
    return module


def unused_parameters(module: nn.Module, out: Tensor) -> str:
    """Name the parameters that the result does not depend on; empty if there is none."""
    learned = dict(module.named_parameters())
    if not learned or not out.requires_grad:
        return ""
    found = torch.autograd.grad(out.sum(), list(learned.values()), retain_graph=True, allow_unused=True)
    unused = [name for name, gradient in zip(learned, found, strict=True) if gradient is None]
    return f"The result does not depend on {first_three(unused)}: use it, or delete it." if unused else ""


# A composite: a module made of parts ----------------------------------------------------------------------------------


class Called(nn.Module):
    """A reader's part as our code calls it, one tensor in and one out. Of a pair, (tokens, weights), it is the first.

    `nn.MultiheadAttention` takes its tokens three times, for queries, keys and values.
    """

    def __init__(self, part: nn.Module):
        super().__init__()
        self.part = part
        self.inputs = 3 if isinstance(part, nn.MultiheadAttention) else 1

    def forward(self, x: Tensor) -> Tensor:
        return tensors_in([self.part(*[x] * self.inputs)])[0]


class CompositeExercise(ModuleExercise):
    """Judge a module by its parts, which the task names: the solution's `forward` runs with the reader's own parts.

    `parts` says which exercise judges each part for itself, and how to get the arguments of the whole from those of
    the part: `{"mlp": (mlp, lambda D, M: (D, 1, M))}`.
    """

    def __init__(self, solution: type, *, parts: Mapping, **rest):
        super().__init__(solution, **rest)
        self.parts = parts

    def judged_in(self, part: nn.Module | None) -> list[nn.Module]:
        """Return the modules within a part that have this exercise's parts, such as the blocks of an encoder."""
        found = [] if part is None else [module for _, module in part.named_modules(remove_duplicate=False)]
        return [module for module in found if self.parts.keys() <= module._modules.keys()]

    def find_parts(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return the reader's parts, each as a sequence of what is to be judged in it. NotJudged: there are others."""
        found = {name: exercise.judged_in(module._modules.get(name)) for name, (exercise, _) in self.parts.items()}
        if not all(found.values()):
            theirs = ", ".join(f"`{name}`" for name in module._modules) or "none"
            raise NotJudged(f"The check finds parts by their names. It looks for {self.names()}. Yours: {theirs}.")
        return {name: nn.Sequential(*inside) for name, inside in found.items()}

    def names(self) -> str:
        """Name the parts, and those of a part that is a stack of blocks."""
        stacks = {name: each.names() for name, (each, _) in self.parts.items() if isinstance(each, CompositeExercise)}
        return ", ".join(f"`{name}`" + f" (blocks of {stacks.get(name)})" * (name in stacks) for name in self.parts)

    def judge_trials(self, cls: Callable, trials: list[Trial]) -> str:
        """Judge the parts first, unless the reader's module stops with an error; then the whole."""
        for number, trial in enumerate(trials):
            if isinstance(stopped := self.their_result(cls, trial), Wrong):
                super().judge_trials(cls, trials)  # raises what is wrong, unless a part of theirs stops ours as well
                raise Wrong(joined(stopped.message, self.where_right(trials, number)), stopped.code, stopped.error)
        for trial in trials:
            with_their_parts = self.with_their_weights(self.answer, trial)
            if isinstance(stopped := attempt(with_their_parts, trial.x), Exception):
                raise NotJudged(f"The check calls each part with one tensor, and one of yours stops there: {stopped}")
        self.require_own_parts(trials[0].module)
        return joined(self.judge_parts(cls), super().judge_trials(cls, trials))

    def with_their_weights(self, cls: Callable, trial: Trial) -> Callable:
        """Return an object of a class of ours with the reader's parts in the places of its own."""
        ours = copy(without_weights(cls, trial.args))
        ours._modules = {**ours._modules, **self.find_parts(trial.module)}
        return ours

    def require_own_parts(self, module: nn.Module) -> None:
        """Raise Wrong if one module stands in two places."""
        first_names = {}
        for name in self.parts:
            if (first := first_names.setdefault(module._modules[name], name)) != name:
                raise Wrong(f"`{first}` and `{name}` are one and the same module. Each of them needs its own.")

    def judge_parts(self, cls: Callable) -> str:
        """Judge every part by its own exercise, as if it were the answer: raise what is found, or return remarks."""
        remarks = []
        for name, (exercise, whole) in self.parts.items():

            def answer(*args, name=name, whole=whole):
                return self.find_parts(cls(*whole(*args)))[name][0]

            for args, _ in exercise.trials:
                call(cls, *whole(*args))  # what stops here is not the part's fault
            try:
                remark = exercise.judge_trials(answer, exercise.arrange(answer))
            except Wrong as wrong:
                raise Wrong(f"In `{name}`: {wrong}", wrong.code, wrong.error) from None
            except NotJudged as unclear:
                raise NotJudged(f"In `{name}`: {unclear}") from None
            remarks.append(f"In `{name}`: {remark}" if remark else "")
        return joined(*remarks)

    def remark(self, trial: Trial) -> str:
        return ""  # the parts have their own

    def unclear(self, trial: Trial) -> str:
        return ""  # the parts are known by their names
