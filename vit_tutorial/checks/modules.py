"""An exercise whose answer is a module: the solution, and each slip, runs with the reader's own weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.module import register_module_parameter_registration_hook

from .exercise import DETACHED, Exercise, NotJudged, collect, flow, noise
from .running import NotAttempted, Wrong, attempt, call, difference, is_stub, same

Weights = dict[str, Tensor]

# Which of three layers is for queries, keys and values: by these names, or else in the order in which they were made.
ROLES = {"q": 0, "query": 0, "queries": 0, "k": 1, "key": 1, "keys": 1, "v": 2, "value": 2, "values": 2}


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
    """Return 0, 1 or 2 for queries, keys and values, by a name such as `q`, `to_q`, `W_q`, `q_proj` or `query`; or 3."""
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
    found, weights, sure, own = list(theirs), {}, True, dict(ours.named_parameters())
    needed = layers(ours)
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
            weights[name] = torch.zeros_like(own[name]) if value is None else value.reshape(own[name].shape)
    if found:
        raise LookupError(found[0].name)
    return weights, sure


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

    def compare(self, cls: type) -> str | None:
        """Raise Wrong unless the reader's module does what the solution does with the same weights, in every trial."""
        trials = [build(cls, args, x) for args, x in self.trials]
        results = [self.result(collect, cls, trial) for trial in trials]
        reading = self.find_reading(trials[0], results[0])
        trials = [trial._replace(reading=reading) for trial in trials]
        wrong = [difference(r, self.result(attempt, self.answer, t), self.shape) for r, t in zip(results, trials)]
        if any(wrong):
            raise self.diagnosis(cls, trials, results, wrong)
        for trial, result in zip(trials, results, strict=True):
            self.look_closer(trial, result)
        bare = [f"`{layer.name}`" for layer in trials[0].layers if layer.kind[0] == "linear" and layer.bias is None]
        if bare and not self.biases:
            raise Wrong(f"The values are right, but there is no bias in {', '.join(bare)}: the paper's layers have one.")
        remark = f"Without a bias: {', '.join(bare)}. {self.biases}" if bare else ""
        return "\n".join(filter(None, [remark, self.more(cls)]))

    def result(self, run: Callable, answer: type, trial: Trial):
        """Return what the reader's module, or a class of ours with its weights, makes of the trial's input."""
        if run is collect:
            return collect(trial.module, trial.x)
        return attempt(self.run, answer, trial, trial.x)

    def find_reading(self, trial: Trial, out) -> int:
        """Return the number of the reading under which the solution gives this result; 0 if none does."""
        module = blank(self.answer, trial.args)
        matched = attempt(match, module, trial.layers)
        if isinstance(matched, LookupError):
            return 0
        ways = enumerate(self.readings(matched[0], *trial.args))
        return next((i for i, weights in ways if same(out, attempt(functional_call, module, weights, trial.x))), 0)

    def run(self, cls: type, trial: Trial, x: Tensor) -> Tensor:
        """Return what a class of ours makes of `x` with the reader's weights. Raises LookupError if it has others."""
        module = blank(cls, trial.args)
        weights, _ = match(module, trial.layers)
        if cls is self.answer:
            weights = next(islice(self.readings(weights, *trial.args), trial.reading, None))
        return functional_call(module, weights, x)

    def look_closer(self, trial: Trial, out: Tensor) -> None:
        """Raise Wrong if a module with right values is random, keeps something, or sends back other gradients."""
        module, x = trial.module, trial.x
        if any(not same(call(module, x), out) for _ in range(20)):
            raise Wrong(RANDOM)
        fewer = x[:1, :-1] if x.ndim == 3 else x[:1]
        if not same(call(module, fewer), self.run(self.answer, trial, fewer)):
            raise Wrong(f"Right for an input of {tuple(x.shape)}, wrong when the same object then gets {tuple(fewer.shape)}.")
        wanted = [x.clone().requires_grad_(), *module.parameters()]
        mine, theirs = flow(call(module, wanted[0]), wanted), flow(self.run(self.answer, trial, wanted[0]), wanted)
        size = max(gradient.abs().max() for gradient in theirs)  # the key bias has no gradient but rounding
        if not same([gradient / size for gradient in mine], [gradient / size for gradient in theirs]):
            raise Wrong(DETACHED)

    def unexplained(self, cls: type, trial: Trial, out, text: str, where: str) -> Exception:
        """Return what to say of a wrong result that no slip explains: one thing that is certainly so."""
        module, x = trial.module, trial.x
        right = self.result(attempt, self.answer, trial)
        if isinstance(out, (tuple, list)):
            return Wrong(f"Your module returns a {type(out).__name__} of {len(out)}, and one tensor is asked. {PAIR}")
        if isinstance(right, Tensor) and "wrong values" not in text:
            return Wrong(f"{text}\nThe input was {tuple(x.shape)}. {where}".rstrip())
        if any(not same(call(module, x), out) for _ in range(20)):
            return Wrong(RANDOM)
        if unused := idle(module, out):
            few = ", ".join(unused[:4]) + ", …" * (len(unused) > 4)
            return Wrong(f"The result does not depend on {few}: use it, or delete it.")
        ours = blank(self.answer, trial.args)
        if isinstance(right, LookupError) and (text := self.odd(trial.layers, *trial.args)):
            return Wrong(text)
        if isinstance(right, LookupError) or not match(ours, trial.layers)[1]:
            return NotJudged(f"The check runs its own solution with your weights, and cannot tell which is which. It "
                             f"looks for {described(layers(ours))}. Yours: {described(trial.layers)}.")
        unknown = f"The shape is right, the values are not, and no usual slip explains them. {where}".rstrip()
        return Wrong("\n".join([unknown, *facts(module, x, out)]))


RANDOM = (
    "In eval mode your module does not give the same result each time it is called. `F.dropout` drops in eval mode too, "
    "unless told `training=self.training`; `nn.Dropout`, made in `__init__`, knows by itself."
)
PAIR = "`nn.MultiheadAttention` returns the tokens and the weights: `out, _ = self.attention(x, x, x)`."


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
        raise Wrong("Layers or parameters are made in `forward`: an optimizer never sees them. Make them in `__init__`.")
    known = set(module.parameters())
    for part in module.modules():
        for name, value in vars(part).items():
            inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
            if any(p not in known for layer in inside if isinstance(layer, nn.Module) for p in layer.parameters()):
                raise Wrong(f"The layers in `{name}` are in a plain Python {type(value).__name__}, and an optimizer does "
                            "not find them there: use `nn.ModuleList`.")
    for seed, (name, p) in enumerate(module.named_parameters()):
        if not p.requires_grad:
            raise Wrong(f"The parameter `{name}` has `requires_grad=False`: it can never learn.")
        p.data = (p.data == 1).all() + 0.3 * noise(*p.shape, seed=seed)  # a norm's weight stays around one
    return Trial(module, layers(module), args, x)


def idle(module: nn.Module, out: Tensor) -> list[str]:
    """Return the names of the parameters that the result does not depend on."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad(out.sum(), parameters, allow_unused=True)
    return [f"`{name}`" for name, gradient in zip(names, found, strict=True) if gradient is None]


def described(found: list[Layer]) -> str:
    """List layers by name, kind and size: "`qkv` (linear, 20 → 60), `norm` (norm of 20)"."""
    sizes = {"linear": "linear, {1} → {0}", "norm": "norm of {0}", "bare": "{0} values"}
    return ", ".join(f"`{layer.name}` ({sizes[layer.kind[0]].format(*layer.kind[1:])})" for layer in found) or "none"


def facts(module: nn.Module, x: Tensor, out: Tensor) -> list[str]:
    """Return what is true of a module that no slip explains: of images, and of tokens."""
    alone = same(torch.cat([call(module, image[None]) for image in x]), out)
    told = ["An image gets the same result alone and in a batch, as it must." if alone else
            "An image gets another result alone than in a batch: somewhere images mix."]
    if x.ndim == 3:
        told += ["Tokens in another order give the same results in that order, as they must."
                 if same(call(module, x.flip(1)).flip(1), out) else
                 "Tokens in another order give other results: somewhere values of different tokens get mixed up."]
    return told
