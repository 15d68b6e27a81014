"""An exercise whose answer is a module: it runs beside the solution, with the same weights in layers of one name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from .exercise import DETACHED, RANDOM, Exercise, gradients
from .probes import Probes, as_sum, noise
from .running import NotJudged, Wrong, attempt, call, close, joined, listed, misfit, spell, tensors_in

EVAL = "In eval mode `nn.Dropout`, made in `__init__`, is off; `F.dropout` needs `training=self.training`."
DROPS = "One thing for later: in training it drops values at random, and lesson 05 asks for a model without dropout."
KEPT = (
    "Right at first, and wrong when it is called again with one image and fewer tokens: it keeps something from call "
    "to call, or an axis of length 1 is lost (`squeeze()` drops every one of them)."
)


class Pair:
    """The reader's module and the solution, and an input `x`. A probe may choose the weights of the reader's.

    `views` says for each parameter of ours where its values stand among all of the reader's weights, in one row. It is
    None where the check does not know which is which.
    """

    def __init__(self, mine: nn.Module, ours: nn.Module, args: tuple, x: Tensor):
        self.mine, self.ours, self.args, self.x = mine, ours, args, x
        self.views: Mapping[str, Tensor] | None = None

    def share(self, views: Mapping[str, Tensor]) -> Tensor:
        """Give the solution the reader's weights, and return what it makes of `x`."""
        self.views, weights = views, parameters_to_vector(self.mine.parameters()).detach()
        for name, places in views.items():
            own = self.ours.get_parameter(name)
            own.data = weights[places].reshape(own.shape)
        return self.ours(self.x)

    def given(self, x: Tensor, **chosen: Tensor | float) -> Tensor:
        """Return what the reader's module makes of `x` with other weights, and no biases, in the layers that are named.

        A number stands for so many times the identity, or for a vector of this number.
        """
        weights = parameters_to_vector(self.mine.parameters()).detach()
        others = weights.clone()
        for name, places in self.views.items():
            layer, _, kind = name.rpartition(".")
            if (layer or kind) in chosen:
                own = self.ours.get_parameter(name).detach()
                value = torch.as_tensor(0.0 if layer and kind == "bias" else chosen[layer or kind])
                unit = torch.eye(*own.shape) if own.ndim == 2 else torch.ones_like(own)
                others[places] = (value if value.ndim else value * unit).flatten()
        vector_to_parameters(others, self.mine.parameters())
        try:
            with torch.no_grad():
                return self.mine(x)
        finally:
            vector_to_parameters(weights, self.mine.parameters())


def images_apart(pair: Pair) -> Probes:
    """Ask whether an image gets the same result alone and in its batch."""
    with torch.no_grad():
        together, alone = pair.mine(pair.x), attempt(lambda: torch.cat([pair.mine(image[None]) for image in pair.x]))
    holds = isinstance(alone, Exception) or close(alone, together)
    yield holds, "An image gets another result alone than in a batch: somewhere images mix."


class ModuleExercise(Exercise):
    """Judge the reader's module class. `trials` are (arguments of the class, an input); `probes` get a Pair.

    `names` has the solution's layers, and what people also call each of them; `called` says how to call them.
    `layouts(found, *args)` yields the ways in which right code may hold the same weights, the plain one first. `biases`
    is the remark on a right module without them; where there is none, it is wrong. `about` says what a wrong size of a
    layer means.
    """

    takes = "class"

    def __init__(self, solution, *, names, called="", layouts=None, biases="", about=None, **rest):
        super().__init__(solution, **rest)
        self.layouts = layouts or (lambda found, *args: [found])
        self.names, self.biases, self.about = names, biases, about or {}
        self.words = {word.lower(): layer for layer, words in names.items() for word in (layer, *words.split())}
        self.called = called or ", ".join(f"`{name}`" for name in names)

    @cached_property
    def own(self) -> list[str]:
        """The names of the solution's parameters."""
        with torch.random.fork_rng(devices=[]):  # the reader's numbers stay the same, first time or not
            return [name for name, _ in self.answer(*self.trials[0][0]).named_parameters()]

    def require(self, answer) -> None:
        super().require(answer)
        if not issubclass(answer, nn.Module):
            raise Wrong(f"Your class is no module of PyTorch: begin with `class {answer.__name__}(nn.Module):`.")

    def judge_trial(self, cls: Callable, trial: tuple) -> str:
        args, x = trial
        sizes = self.sizes(*args, x)
        pair = Pair(build(cls, args, x, sizes), self.answer(*args).eval(), args, x)
        ways, doubt = self.match(pair, sizes)
        result, expected = call(pair.mine, x, sizes=sizes), attempt(pair.ours, x)
        if isinstance(expected, Exception):
            raise NotJudged(f"The check calls each part with one tensor, and one of yours stops there: {expected}")
        if wrong_form := misfit(result, expected, self.shape, sizes):
            raise Wrong(wrong_form)
        if ways:
            off = [(pair.share(views) - result).norm().item() for views in ways]
            likely = off.index(min(off)) if min(off) < 0.5 * off[0] else 0  # wrong code has the plain layout, in doubt
            if close(pair.share(ways[likely]), result, 2e-5):
                return self.look_closer(pair, result)
        require_steady(pair, result)
        if told := next((text for holds, text in self.probes(pair) if not holds), ""):
            raise Wrong(told)
        raise NotJudged(doubt) if doubt else Wrong("The shape is right, the values are not.")

    def look_closer(self, pair: Pair, result: Tensor) -> str:
        """Raise Wrong for what equal values do not show; return a remark on missing biases, and on dropout."""
        require_steady(pair, result, times=20)
        less = pair.x[:1, :-1] if pair.x.ndim == 3 else pair.x[:1]
        again = attempt(pair.mine, less)
        if isinstance(again, Exception) or not close(again, pair.ours(less)):
            raise Wrong(KEPT)
        mine, ours = (gradients(module, (pair.x,))[0] for module in (pair.mine, pair.ours))
        if not close(mine / ours.abs().max(), ours / ours.abs().max()):
            raise Wrong(DETACHED)
        missing = [name for name in self.own if pair.views and name not in pair.views]
        if missing and not self.biases:
            raise Wrong(f"The values are right, but there is no {listed(missing)}: the paper's layers have a bias.")
        pair.mine.train()
        drops = not all(close(pair.mine(pair.x), result) for _ in range(5))
        pair.mine.eval()
        return joined(f"There is no {listed(missing)}. {self.biases}" if missing else "", DROPS if drops else "")

    # Which of the reader's weights is which ---------------------------------------------------------------------------

    def match(self, pair: Pair, sizes: Mapping[str, int]) -> tuple[list[dict[str, Tensor]], str]:
        """Return the views that right code may have, and what to say where the check cannot go by them.

        Raises Wrong for a layer that is missing or has another size.
        """
        for parameter in pair.ours.parameters():
            parameter.data.zero_()  # as a bias that is missing stays
        weights = parameters_to_vector(pair.mine.parameters()).detach()
        vector_to_parameters(torch.arange(float(len(weights))), pair.mine.parameters())
        found, left = self.find(pair.mine)  # while each value says where it stands
        vector_to_parameters(weights, pair.mine.parameters())
        mine, ours = (sum(p.numel() for p in each.parameters() if p.ndim > 1) for each in (pair.mine, pair.ours))
        self.require_sizes(found, pair.ours, sizes, unclear=bool(left) or mine == ours)  # perhaps only other names
        layers = [name.split(".")[0] for name in self.asked(found, pair.ours) if not name.endswith("bias")]
        absent = [layer for layer in layers if layer not in {role.split(".")[0] for role in found}]
        if absent and not left:
            plain = isinstance(getattr(pair.mine, absent[0], None), Tensor)
            untrained = f"`{absent[0]}` is a plain tensor or a buffer: nothing trains it. Make it an `nn.Parameter`."
            raise Wrong(untrained if plain else f"There is no `{absent[0]}` among your layers. Asked: {self.called}.")
        ways = list(self.candidates(found, pair))
        yours = listed([f"{name} {tuple(p.shape)}" for name, p in pair.mine.named_parameters()], 12)
        doubt = f"Nothing wrong is seen, but the check knows layers by their names. Call them {self.called}. Yours: "
        return ways, "" if ways and not left else f"{doubt}{yours}."

    def find(self, module: nn.Module) -> tuple[dict[str, list[Tensor]], list[str]]:
        """Return the reader's parameters by our names, and the names of those that are not known.

        Several for one of ours are a list of heads if their names differ by a number alone.
        """
        found = {}
        for name, parameter in module.named_parameters():
            found.setdefault(self.role(name, parameter), {})[name] = parameter.data
        left = list(found.pop("", {}))
        for role, pieces in list(found.items()):
            if len({(re.sub(r"\d+", "#", name), piece.shape) for name, piece in pieces.items()}) > 1:
                left += found.pop(role)
        return {role: list(pieces.values()) for role, pieces in found.items()}, left

    def role(self, name: str, parameter: Tensor) -> str:
        """Return our name for a parameter of the reader's: "position", "expand.weight"; "" where no word of ours fits.

        A matrix that is stored by itself, where ours is in a layer, is "expand.bare".
        """
        *path, kind = re.sub("_(weight|bias)$", r".\1", name.lower()).split(".")
        layer = next((self.words[word] for word in (*path, kind) if word in self.words), "")
        if not layer or layer in self.own:
            return layer
        if kind not in ("weight", "bias"):
            kind = "bare" if parameter.squeeze().ndim > 1 and not kind.startswith("b") else "bias"  # b_q is (h, 1, d)
        return f"{layer}.{kind}"

    def candidates(self, found: Mapping[str, list[Tensor]], pair: Pair) -> Iterator[dict[str, Tensor]]:
        """Yield for each layout the places of our parameters. Only a bias may be missing."""
        sizes = {name: parameter.numel() for name, parameter in pair.ours.named_parameters()}
        bare = {role for role in found if role.endswith(".bare")}
        for turned in (bare, set()) if bare else (bare,):  # for `x @ W` a matrix is (in, out), a layer's is (out, in)
            pieces = {role: [p.mT for p in each] if role in turned else each for role, each in found.items()}
            pieces = {role.replace(".bare", ".weight"): each for role, each in pieces.items()}
            layouts = attempt(lambda pieces=pieces: list(self.layouts(pieces, *pair.args)))  # or sizes cannot be cut
            for layout in [] if isinstance(layouts, Exception) else layouts:
                there = [name for name in sizes if name in layout]
                views = {name: torch.cat([p.flatten() for p in layout[name]]).long() for name in there}
                asked = {name: size for name, size in sizes.items() if name in views or not name.endswith("bias")}
                if {name: len(places) for name, places in views.items()} == asked:
                    yield views

    def asked(self, found: Mapping[str, list[Tensor]], ours: nn.Module) -> dict[str, tuple[int, ...]]:
        """Return the parameters that the reader's module is to have, with their shapes."""
        return {name: tuple(parameter.shape) for name, parameter in ours.named_parameters()}

    def require_sizes(self, found: Mapping, ours: nn.Module, sizes: Mapping[str, int], unclear: bool) -> None:
        """Raise Wrong where a parameter that is known by its name has another size, unless that is `unclear`."""
        letters = {name: size for name, size in sizes.items() if name not in ("B", "T")}  # of what a parameter is made
        for name, asked in {} if unclear else self.asked(found, ours).items():
            pieces = found.get(name, found.get(name.replace(".weight", ".bare"), []))
            if pieces and sum(piece.numel() for piece in pieces) != prod(asked):
                yours, times = tuple(pieces[0].shape), f"{len(pieces)} times " if len(pieces) > 1 else ""
                told = f"{times}{spell(yours, letters, 1)} = {yours}, and {spell(asked, letters)} = {asked} is asked."
                raise Wrong(joined(f"`{name}` is {told}", self.about.get(name.split(".")[0], "")))


def build(cls: Callable, args: tuple, x: Tensor, sizes: Mapping[str, int]) -> nn.Module:
    """Build the reader's module in eval mode, with random weights; raise Wrong for parameters that cannot learn."""
    module = call(cls, *args, sizes=sizes).eval()
    known = set(module.parameters())
    attempt(call, module, x)  # lazy layers get their sizes
    if set(module.parameters()) != known:
        raise Wrong("Layers or parameters are made in `forward`: an optimizer sees none. Make them in `__init__`.")
    for name, value in (item for part in module.modules() for item in vars(part).items()):
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
        if any(p not in known for layer in inside if isinstance(layer, nn.Module) for p in layer.parameters()):
            plain = f"The layers in `{name}` are in a plain Python {type(value).__name__}"
            raise Wrong(f"{plain}, where an optimizer does not find them: use `nn.ModuleList` or `nn.ModuleDict`.")
    if not known:
        raise Wrong("Your module has no parameters: make layers in `__init__`, as `self.name = …`, not in `forward`.")
    for seed, (name, p) in enumerate(module.named_parameters()):
        if not p.requires_grad:
            raise Wrong(f"The parameter `{name}` has `requires_grad=False`: it can never learn.")
        size = min(0.3, p.shape[-1] ** -0.5) if p.ndim else 0.3  # what comes out stays near one
        values = noise(*p.shape, seed=seed)
        p.data = (p.data == 1).all() * values.sign() + size * values  # a norm's weight stays around one, and minus one
    return module


def require_steady(pair: Pair, result: Tensor, times: int = 1) -> None:
    """Raise Wrong where a result is random, or does not send a gradient to every parameter."""
    if any(not close(call(pair.mine, pair.x), result) for _ in range(times)):
        raise Wrong(f"{RANDOM} {EVAL}")
    names, learned = zip(*pair.mine.named_parameters(), strict=True)
    flow = attempt(lambda: torch.autograd.grad(result.sum(), learned, allow_unused=True))
    unused = [name for n, name in enumerate(names) if isinstance(flow, Exception) or flow[n] is None]
    if unused:
        cut = "or no gradient flows back: use it, or look for `.detach()`, `.data` and `no_grad`"
        raise Wrong(f"The result does not depend on {listed(unused)}, {cut}.")


# A module made of parts -----------------------------------------------------------------------------------------------


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

    `names` has the parts. `parts` says which exercise judges each for itself, and how to get the arguments of the whole
    from those of the part. Where the results differ, `probes(pair)` say what flows between the parts: see `flow`.
    """

    def __init__(self, solution, *, parts: Mapping[str, tuple[ModuleExercise, Callable]], **rest):
        super().__init__(solution, **rest)
        self.parts = parts

    def match(self, pair: Pair, sizes: Mapping[str, int]) -> tuple[list[dict[str, Tensor]], str]:
        """Put the reader's parts into the solution, so that there is nothing left to share."""
        parts = self.find_parts(pair.mine)
        for name, inside in parts.items():
            setattr(pair.ours, name, nn.Sequential(*inside))
        theirs = ", ".join(f"`{name}`" for name, _ in pair.mine.named_children())
        doubt = f"The check finds parts by their names. It looks for {self.called}. Yours: {theirs}."
        return ([{}], "") if all(parts.values()) else ([], doubt)

    def find_parts(self, module: nn.Module) -> dict[str, list[nn.Module]]:
        """Return what is judged of the reader's parts, by our names: one module, or the blocks of an encoder."""
        found = {name: [] for name in self.names}
        for name, part in module._modules.items():
            if name.lower() in self.words:
                found[self.words[name.lower()]].append(part)
        if len(set().union(*found.values())) < sum(map(len, found.values())):
            raise Wrong("Two of your parts are one and the same module. Each of them needs its own.")
        one = {name: list(map(Called, parts)) if len(parts) == 1 else [] for name, parts in found.items()}
        blocks = {name: each for name, (each, _) in self.parts.items() if isinstance(each, CompositeExercise)}
        return one | {name: exercise.blocks_in(found[name]) for name, exercise in blocks.items()}

    def blocks_in(self, parts: list[nn.Module]) -> list[nn.Module]:
        """Return the modules within a part that have this exercise's parts."""
        inside = [module for part in parts for _, module in part.named_modules(remove_duplicate=False)]
        return [module for module in inside if all(self.find_parts(module).values())]

    def judge_trials(self, cls: Callable) -> str:
        return joined(super().judge_trials(cls), *(self.judge_part(cls, name) for name in self.parts))

    def judge_part(self, cls: Callable, name: str) -> str:
        """Judge a part by its own exercise, as if it were the answer: raise what is found, or return a remark."""
        exercise, whole = self.parts[name]
        try:
            remark = exercise.judge_trials(lambda *args: self.find_parts(cls(*whole(*args)))[name][0])
        except Wrong as found:
            found.message = f"In `{name}`: {found.message}"
            raise
        return f"In `{name}`: {remark}" if remark else ""


def flow(pair: Pair, parts: Mapping, asked: Mapping, result: str, kind: str, by: str, told=as_sum, **known) -> Probes:
    """Ask what each part is given, {"norm2": "z + attention"} for example, and what is returned, "z + attention + mlp".

    Each part is made to return random values of its own, so that `told(value, known)` can tell what a value is made of.
    """
    given = []

    def hook(name: str, part: nn.Module, args: tuple, output):
        given.append((name, ", ".join(dict.fromkeys(told(value, known) for value in tensors_in(args)))))
        again = [called for called, _ in given].count(name)
        mark = noise(*tensors_in([output])[0].shape, seed=17 * len(known) + 5)
        known[name if again == 1 else f"{name} ({again})"] = mark
        return (mark, *output[1:]) if isinstance(output, tuple) else mark

    own = {name: part.part if isinstance(part, Called) else part for name, part in parts.items()}
    handles = [part.register_forward_hook(partial(hook, name)) for name, part in own.items()]
    try:
        with torch.no_grad():
            returned = told(pair.mine(pair.x), known)
    finally:
        for handle in handles:
            handle.remove()
    yours = f"Your {kind} computes {', '.join(f'{name}({what})' for name, what in given)}, and returns {returned}."
    for name, right in asked.items():
        inputs = " and then ".join(what for called, what in given if called == name) or "nothing"
        yield inputs == right, f"`{name}` is given {inputs}. By {by} it is given {right}, once. {yours}"
    yield returned == result, f"{yours} By {by} it returns {result}."
