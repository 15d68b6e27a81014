"""An exercise whose answer is a module: it runs beside the solution, with the same weights in layers of one name.

The reader's module gets random weights (`build`). Names say which of them belongs to which parameter of the solution
(`indices_by_name`). Right code may still store it in several ways: turned, with heads in another order, in one layer
or in three. Each of these layouts is tried (`layouts_of`, `Pair.share`): one of them gives the solution weights with
which both compute the same, if the reader's code is right. If none does, the probes look for what it does instead,
with the layout that comes nearest.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import tee

import torch
from torch import Tensor, nn

from .exercise import DETACHED, RANDOM, VALUES, Exercise, same_gradients
from .probes import Pair, noise
from .running import Wrong, attempt, call, close, listed, misfit, spell, tensors_in, told_first

UNSEEN = "An optimizer does not find all layers: make them in `__init__`, and a list of them as an `nn.ModuleList`."
CUT = "or no gradient flows back: use it, or look for `.detach()`, `.data`, `requires_grad` and `no_grad`."
KEPT = "Right at first, wrong with one image and fewer tokens: it keeps something from call to call, or squeezes axes."


def plain(name: str) -> str:
    """Write a layer's name as it is compared: "Lin_1" is "lin1"."""
    return name.lower().replace("_", "")


@dataclass(kw_only=True, eq=False, repr=False)
class ModuleExercise(Exercise):
    """Judge the reader's module class. `trials` are (arguments of the class, an input); `probes` get a Pair."""

    names: Mapping[str, str]  # the solution's layers, and what people also call each of them
    called: str = ""  # how to call them
    regroup: Callable = lambda found, *args: found  # what was found by name, put together as our layers have it
    layouts: Callable = lambda found, *args: [found]  # how right code may store its weights: see `layouts_of`
    biases: bool = True  # are they asked?

    takes = "class"

    def __post_init__(self):
        self.called = self.called or ", ".join(f"`{name}`" for name in self.names)
        self.words = {plain(word): name for name, words in self.names.items() for word in (name, *words.split())}

    def judge_trial(self, cls: Callable, trial: tuple) -> None:
        """Raise Wrong unless the reader's module does what the solution does with the same weights."""
        args, x = trial
        sizes = self.sizes(*args, x)
        pair = Pair(build(cls, args, x, sizes), self.answer(*args).eval(), args, x)
        layouts, doubt = self.match(pair, sizes)
        result, expected = call(pair.mine, x, sizes=sizes), attempt(pair.ours, x)
        if isinstance(expected, Exception):
            raise Wrong(f"The check calls each part with one tensor, and one stops: {expected}", status="not judged")
        if wrong_form := misfit(result, expected, self.shape, sizes):
            raise Wrong(wrong_form)
        right = close(pair.share(layouts, result), result, 2e-5)
        if any(not close(call(pair.mine, x), result) for _ in range(20)):
            raise Wrong(RANDOM)
        attempt(result.sum().backward)
        if unused := [name for name, parameter in pair.mine.named_parameters() if parameter.grad is None]:
            raise Wrong(f"The result does not depend on {listed(unused)}, {CUT}")
        if right:
            self.look_closer(pair)
        elif symptom := next((told for seen, told in self.probes(pair) if seen), ""):
            raise Wrong(symptom)
        else:
            raise Wrong(doubt or VALUES, status="not judged" if doubt else "wrong")

    def look_closer(self, pair: Pair) -> None:
        """Raise Wrong for what equal values do not show."""
        less = pair.x[:1, :-1] if pair.x.ndim == 3 else pair.x[:1]
        again = attempt(pair.mine, less)
        if isinstance(again, Exception) or not close(again, pair.ours(less)):
            raise Wrong(KEPT)
        if not same_gradients(pair.mine, pair.ours, lambda: (pair.x,)):
            raise Wrong(DETACHED)
        missing = [name for name, _ in pair.ours.named_parameters() if pair.indices and name not in pair.indices]
        if missing and self.biases:
            raise Wrong(f"The values are right, but there is no {listed(missing)}: the paper's layers have a bias.")

    # Which of the reader's weights is which ---------------------------------------------------------------------------

    def match(self, pair: Pair, sizes: Mapping[str, int]) -> tuple[Iterable[dict[str, Tensor]], str]:
        """Return the layouts that right code may have, the plain ones first; where it cannot be sure, say why."""
        for parameter in pair.ours.parameters():
            parameter.data.zero_()  # as a bias that is missing stays
        found = self.indices_by_name(pair)
        known = sum(indices.numel() for indices in found.values()) == sum(p.numel() for p in pair.mine.parameters())
        if known:
            self.require_layers(found, pair, sizes)
        # For `x @ W` a matrix that is stored by itself is (in, out), a layer's is (out, in).
        both = (self.indices_by_name(pair, turned) for turned in (True, False))
        layouts, peek = tee(layout for each in both for layout in self.layouts_of(each, pair))
        yours = listed([f"{name} {tuple(p.shape)}" for name, p in pair.mine.named_parameters()], 12)
        doubt = "Nothing wrong is seen, but the check knows layers by their names."
        return layouts, "" if known and any(peek) else f"{doubt} Call them {self.called}. Yours: {yours}."

    def indices_by_name(self, pair: Pair, turned: bool = False) -> dict[str, Tensor]:
        """Return where our parameters stand among all of the reader's weights, as far as names say; of a list, all."""
        found, start = {}, 0
        for name, parameter in pair.mine.named_parameters():
            indices = torch.arange(start, start + parameter.numel()).reshape(parameter.shape or 1)
            start += parameter.numel()
            if turned and indices.ndim == 2 and not name.endswith("weight"):
                indices = indices.mT
            found.setdefault(self.our_name(name, parameter, pair), []).append(indices)
        alike = {name: parts for name, parts in found.items() if name and len({part.shape for part in parts}) == 1}
        return self.regroup({name: torch.cat(parts) for name, parts in alike.items()}, *pair.args)

    def our_name(self, name: str, parameter: Tensor, pair: Pair) -> str:
        """Return our name for a reader's parameter: "position", "expand.weight"; "" where no word of ours fits."""
        *path, kind = re.sub("_(weight|bias)$", r".\1", name.lower()).split(".")
        layer = next((self.words[word] for word in map(plain, (*path, kind)) if word in self.words), "")
        if not layer or layer in dict(pair.ours.named_parameters()):
            return layer
        if kind not in ("weight", "bias"):  # stored by itself, where ours is in a layer
            kind = {1: "bias", 2: "weight"}.get(parameter.squeeze().ndim, "")
        return f"{layer}.{kind}" if kind else ""

    def require_layers(self, found: Mapping[str, Tensor], pair: Pair, sizes: Mapping[str, int]) -> None:
        """Raise Wrong for a parameter that is not there, or has another size."""
        mine, ours = (sum(p.numel() for p in each.parameters() if p.ndim > 1) for each in (pair.mine, pair.ours))
        other_sizes = mine != ours or not ours  # if not, perhaps other names
        for name, parameter in pair.ours.named_parameters():
            there, asked = found.get(name), f"{spell(parameter.shape, sizes)} is asked."
            if there is None and not name.endswith("bias"):
                lost = "not among your parameters (a plain tensor is none: nothing trains it)"
                raise Wrong(f"`{name}` is {lost}, and {asked}")
            if there is not None and there.numel() != parameter.numel() and other_sizes:
                raise Wrong(f"`{name}` is {spell(there.shape, sizes)}, and {asked}")

    def layouts_of(self, found: Mapping[str, Tensor], pair: Pair) -> Iterator[dict[str, Tensor]]:
        """Yield each layout of the weights found by name in which our parameters have their sizes, or lack a bias."""
        sizes = {name: parameter.numel() for name, parameter in pair.ours.named_parameters()}
        with suppress(KeyError, IndexError, RuntimeError):  # sizes that cannot be cut, layers that are not there
            for arranged in self.layouts(found, *pair.args):
                layout = {name: arranged[name].flatten() for name in sizes if name in arranged}
                asked = {name: size for name, size in sizes.items() if name in layout or not name.endswith("bias")}
                if asked == {name: len(indices) for name, indices in layout.items()}:
                    yield layout


def build(cls: Callable, args: tuple, x: Tensor, sizes: Mapping[str, int]) -> nn.Module:
    """Build the reader's module in eval mode, with random weights; raise Wrong for layers that cannot learn."""
    module = call(cls, *args, sizes=sizes).eval()
    known = set(module.parameters())
    attempt(call, module, x)  # lazy layers get their sizes
    held = [value for part in module.modules() for name, value in vars(part).items() if not name.startswith("_")]
    held += [list(value.values()) for value in held if isinstance(value, dict)]
    layers = [each for row in held if isinstance(row, (list, tuple)) for each in row if isinstance(each, nn.Module)]
    if not known.issuperset(parameter for layer in (module, *layers) for parameter in layer.parameters()):
        raise Wrong(UNSEEN)
    for seed, p in enumerate(module.parameters()):
        size = min(0.3, p.shape[-1] ** -0.5) if p.ndim else 0.3  # what comes out stays near one
        values = noise(*p.shape, seed=seed)
        p.data = (p.data == 1).all() * values.sign() + size * values  # a norm's weight stays around one, and minus one
    return module


class Called(nn.Module):
    """A reader's part as our code calls it: one tensor in, and one out, the first if there are several."""

    def __init__(self, part: nn.Module):
        super().__init__()
        self.part = part
        self.inputs = 3 if isinstance(part, nn.MultiheadAttention) else 1  # queries, keys and values

    def forward(self, x: Tensor) -> Tensor:
        return tensors_in([self.part(*[x] * self.inputs)])[0]


@dataclass(kw_only=True, eq=False, repr=False)
class CompositeExercise(ModuleExercise):
    """Judge a module by its parts, which the task names: the solution's `forward` runs with the reader's own parts.

    `names` has the parts. Where the results differ, `probes(pair)` say what flows between them: see `probe_flow`.
    """

    # for each part what judges it, given how to build it; and the arguments of the whole for those of the part
    parts: Mapping[str, tuple[Callable, Callable[..., tuple]]]
    stacks: Mapping[str, "CompositeExercise"] = field(default_factory=dict)  # parts of many blocks: a block's exercise

    def match(self, pair: Pair, sizes: Mapping[str, int]) -> tuple[list[dict[str, Tensor]], str]:
        """Put the reader's parts into the solution, so that there is nothing left to share."""
        parts = self.find_parts(pair.mine)
        if lost := [name for name, found in parts.items() if not found]:
            theirs = ", ".join(f"`{name}`" for name, _ in pair.mine.named_children())
            return [], f"There is no {listed(lost)}. The check looks for {self.called}. Yours: {theirs}."
        for name, inside in parts.items():
            setattr(pair.ours, name, nn.Sequential(*map(Called, inside)))
        return [{}], ""  # one layout, in which no weight goes anywhere

    def find_parts(self, module: nn.Module) -> dict[str, list[nn.Module]]:
        """Return what is judged of the reader's parts, by our names: one module, or the blocks of an encoder."""
        named = [(self.words.get(plain(name)), part) for name, part in module.named_modules(remove_duplicate=False)]
        found = {name: [part for ours, part in named if ours == name] for name in self.names}
        if len(set().union(*found.values())) < sum(map(len, found.values())):
            raise Wrong("Two of your parts are one and the same module. Each of them needs its own.")
        one = {name: parts if len(parts) == 1 else [] for name, parts in found.items()}
        return one | {name: block.blocks_in(found[name]) for name, block in self.stacks.items()}

    def blocks_in(self, parts: list[nn.Module]) -> list[nn.Module]:
        """Return the modules within a part that have this exercise's parts."""
        inside = [module for part in parts for _, module in part.named_modules(remove_duplicate=False)]
        return [module for module in inside if all(self.find_parts(module).values())]

    def judge_trials(self, cls: Callable) -> None:
        """Judge the whole, and then each part by its own exercise, as if it were the answer."""
        super().judge_trials(cls)
        for name, (judge, args_of_whole) in self.parts.items():
            with told_first(f"In `{name}`: "):
                judge(partial(self.build_part, cls, args_of_whole, name))

    def build_part(self, cls: Callable, args_of_whole: Callable[..., tuple], name: str, *args) -> nn.Module:
        """Build the whole for these arguments of a part, and take the part out of it, of a stack its first block."""
        part = self.find_parts(cls(*args_of_whole(*args)))[name][0]
        return part if name in self.stacks else Called(part)
