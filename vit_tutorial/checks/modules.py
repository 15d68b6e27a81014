"""An exercise whose answer is a module: it runs beside the solution, with the same weights in layers of one name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import prod

import torch
from torch import Tensor, nn

from .exercise import DETACHED, RANDOM, Exercise, gradients
from .probes import Probes, as_sum, noise
from .running import NotAttempted, NotJudged, Wrong, attempt, call, close, joined, listed, misfit, spell, tensors_in

KEPT = (
    "Right at first, and wrong when it is called again with one image and fewer tokens: it keeps something from call "
    "to call, or an axis of length 1 is lost (`squeeze()` drops every one of them)."
)
DROPOUT = "In eval mode `nn.Dropout`, made in `__init__`, is off; `F.dropout` needs `training=self.training`."
NO_PARAMETERS = "Your module has no parameters: make layers in `__init__`, as `self.name = …`, and not in `forward`."

Views = Mapping[str, list[Tensor]]  # for each parameter of ours the pieces of the reader's that it is made of


class Pair:
    """The reader's module and the solution, with the same weights, and an input `x`. A probe may choose the weights.

    `views` is None where the check does not know which of the reader's weights is which.
    """

    def __init__(self, mine: nn.Module, ours: nn.Module, args: tuple, x: Tensor, views: Views | None):
        self.mine, self.ours, self.args, self.x, self.views = mine, ours, args, x, views
        for name, own in ours.named_parameters() if views is not None else ():
            pieces = [piece.reshape(-1) for piece in views.get(name, [])] or [torch.zeros(own.numel())]
            own.data = torch.cat(pieces).reshape(own.shape)

    def given(self, x: Tensor, **chosen: Tensor | float) -> Tensor:
        """Return what the reader's module makes of `x` with other weights, and no biases, in the layers that are named.

        A number stands for so many times the identity, or for a vector of this number.
        """
        before = [(parameter, parameter.detach().clone()) for parameter in self.mine.parameters()]
        for name, own in self.ours.named_parameters():
            layer, _, kind = name.rpartition(".")
            if (layer or kind) in chosen:
                value = torch.as_tensor(0.0 if layer and kind == "bias" else chosen[layer or kind])
                unit = torch.eye(*own.shape) if own.ndim == 2 else torch.ones_like(own)
                left = (value if value.ndim else value * unit).flatten()
                for piece in self.views.get(name, []):
                    piece.copy_(left[: piece.numel()].reshape(piece.shape))
                    left = left[piece.numel() :]
        try:
            with torch.no_grad():
                return self.mine(x)
        finally:
            for parameter, old in before:
                parameter.data.copy_(old)


def images_apart(pair: Pair) -> Probes:
    """Ask whether an image gets the same result alone and in its batch."""
    with torch.no_grad():
        together, alone = pair.mine(pair.x), attempt(lambda: torch.cat([pair.mine(image[None]) for image in pair.x]))
    holds = isinstance(alone, Exception) or close(alone, together)
    yield holds, "An image gets another result alone than in a batch: somewhere images mix."


class ModuleExercise(Exercise):
    """Judge the reader's module class. `trials` are (arguments of the class, an input); `probes` get a Pair.

    `names` has the solution's layers, and what people also call each of them; `instead` the layers that may stand for
    one of these. `layouts(found, *args)` yields the ways in which right code may hold the same weights, the plain one
    first. `biases` is the remark on a right module without biases; where there is none, it is wrong. `about` says what
    a wrong size of a layer means.
    """

    takes = "class"

    def __init__(
        self,
        solution: type,
        *,
        names: Mapping[str, str],
        instead: Mapping[str, tuple[str, ...]] = {},
        layouts: Callable[..., Iterator[Views]] = lambda found, *args: iter([found]),
        biases: str = "",
        about: Mapping[str, str] = {},
        **rest,
    ):
        super().__init__(solution, **rest)
        self.names, self.instead, self.layouts, self.biases, self.about = names, instead, layouts, biases, about
        self.words = {word.lower(): layer for layer, words in names.items() for word in (layer, *words.split())}

    def require(self, answer) -> None:
        super().require(answer)
        if not issubclass(answer, nn.Module):
            raise Wrong(f"Your class is no module of PyTorch: begin with `class {answer.__name__}(nn.Module):`.")

    def judge_trial(self, cls: Callable, trial: tuple) -> str:
        args, x = trial
        sizes = self.sizes(*args, x)
        mine, ours = build(cls, args, x, sizes), self.answer(*args).eval()
        found, left = self.find(mine)
        result = attempt(lambda: call(mine, x, sizes=sizes))
        weights = [sum(p.numel() for p in module.parameters() if p.ndim > 1) for module in (mine, ours)]
        stopped = isinstance(result, Exception)  # who has as many weights as ours may only name them otherwise
        self.require_sizes(found, ours, sizes, unclear=bool(left) or (not stopped and 0 < weights[0] == weights[1]))
        if stopped:
            raise result
        if wrong_form := misfit(result, ours(x), self.shape, sizes):
            raise Wrong(wrong_form)
        layouts = [views for views in self.candidates(found, args) if complete(views, ours)]
        for views in layouts:
            pair = Pair(mine, ours, args, x, views)
            if close(result, ours(x), 2e-5):
                return self.look_closer(pair, result)
        require_steady(mine, x, result)
        likely = (views for views in layouts[:6] if self.fits(Pair(mine, ours, args, x, views)))
        pair = Pair(mine, ours, args, x, next(likely, layouts[0] if layouts else None))
        self.require_probes(pair, missing=[] if left or layouts else self.missing(found, ours))
        if layouts and not left:
            raise Wrong("The shape is right, the values are not.")
        yours = listed([f"{name} {tuple(p.shape)}" for name, p in mine.named_parameters()], 12)
        raise NotJudged(
            f"Nothing wrong is seen, but the check knows layers by their names. Call them {self.called}. Yours: "
            f"{yours}."
        )

    def require_probes(self, pair: Pair, missing: list[str] = ()) -> None:
        """Raise Wrong with the first property that does not hold."""
        if told := next((text for holds, text in self.probes(pair) if not holds), ""):
            raise Wrong(told)
        kept = {**vars(pair.mine), **pair.mine._buffers}
        plain = [name for name, value in kept.items() if isinstance(value, Tensor) and value.ndim]
        if missing and plain:
            raise Wrong(f"`{plain[0]}` is a plain tensor or a buffer: nothing trains it. Make it an `nn.Parameter`.")
        if missing:
            raise Wrong(f"There is no `{missing[0]}` among your layers: {self.called} are asked for.")

    def look_closer(self, pair: Pair, result: Tensor) -> str:
        """Raise Wrong for what equal values do not show; return a remark on missing biases."""
        require_right(pair.mine, pair.ours, pair.x, result)
        missing = [name for name, _ in pair.ours.named_parameters() if name not in pair.views]
        if missing and not self.biases:
            raise Wrong(f"The values are right, but there is no {listed(missing)}: the paper's layers have a bias.")
        return f"There is no {listed(missing)}. {self.biases}" if missing else ""

    # Which of the reader's weights is which ---------------------------------------------------------------------------

    @property
    def called(self) -> str:
        """How the layers are to be called."""
        own = {name.split(".")[0] for name in self.own}
        return ", ".join(f"`{name}`" for name in self.names if name in own)

    @cached_property
    def own(self) -> dict[str, torch.Size]:
        with torch.random.fork_rng(devices=[]):
            return {name: parameter.shape for name, parameter in self.answer(*self.trials[0][0]).named_parameters()}

    def find(self, module: nn.Module) -> tuple[dict[str, list[Tensor]], list[str]]:
        """Return the reader's parameters by our names, and the names of those that no word of ours fits.

        A matrix that is stored by itself, where ours is in a layer, is found as "expand.bare". Several for one of ours
        are a list of heads if their names differ by a number alone; two layers for one role are not known.
        """
        found, left, first = {}, [], {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            *path, kind = re.sub("_(weight|bias)$", r".\1", name.lower()).split(".")
            layer = next((self.words[word] for word in (*path, kind) if word in self.words), "")
            matrix = parameter.squeeze().ndim > 1 and not kind.startswith("b")  # b_q may be (h, 1, d)
            bare = kind if kind in ("weight", "bias") else "bare" if matrix else "bias"
            key = layer if layer in self.own else f"{layer}.{bare}"
            other, role = first.setdefault(id(parameter), (name, key))
            if other != name and (role != key or unnumbered(name) == unnumbered(other)):
                one, two = (each.rpartition(".")[0] or each for each in (other, name))
                raise Wrong(f"`{one}` and `{two}` are one and the same. Each of them needs weights of its own.")
            if not layer or (bare == "weight" and parameter.ndim == 1 and len(self.own.get(key, " ")) > 1):  # a norm's
                left.append(name)
            elif other == name:
                found.setdefault(key, {})[name] = parameter.data
        for key, pieces in list(found.items()):
            if len(set(map(unnumbered, pieces))) > 1 or len({piece.shape for piece in pieces.values()}) > 1:
                left += found.pop(key)
        return {key: list(pieces.values()) for key, pieces in found.items()}, left

    def missing(self, found: Views, ours: nn.Module) -> list[str]:
        """Return the layers of ours that are not among the reader's."""
        there = {key.split(".")[0] for key in found}
        own = dict.fromkeys(name.split(".")[0] for name, _ in ours.named_parameters())
        asked = [self.instead[name] if there & {*self.instead.get(name, ())} else (name,) for name in own]
        return [name for each in asked for name in each if name not in there]

    def candidates(self, found: Views, args: tuple) -> Iterator[Views]:
        """Yield what our parameters may be made of. A matrix for `x @ W` is (in, out), a layer's weight (out, in)."""
        for turned in (True, False) if any(key.endswith(".bare") for key in found) else (False,):
            views = {
                re.sub("bare$", "weight", key): [p.mT if turned and key.endswith(".bare") else p for p in pieces]
                for key, pieces in found.items()
            }
            layouts = attempt(lambda views=views: list(self.layouts(views, *args)))  # stops where sizes cannot be cut
            yield from () if isinstance(layouts, Exception) else layouts

    def fits(self, pair: Pair) -> bool:
        """Tell whether wrong code, too, is likely to hold its weights in this way."""
        return True

    def require_sizes(self, found: Views, ours: nn.Module, sizes: Mapping[str, int], unclear: bool) -> None:
        """Raise Wrong where a parameter that is known by its name has another size; NotJudged if `unclear`."""
        own = {name: tuple(parameter.shape) for name, parameter in ours.named_parameters()}
        for name, others in self.instead.items():
            rows, *rest = own[f"{name}.weight"]
            own |= {f"{other}.weight": (rows // len(others), *rest) for other in others}
        letters = {name: size for name, size in sizes.items() if name not in ("B", "T")}  # of what a parameter is made
        for name, pieces in found.items():
            asked, yours = own.get(name.replace(".bare", ".weight")), tuple(pieces[0].shape)
            if asked and sum(p.numel() for p in pieces) != prod(asked):
                each = f"{len(pieces)} times " if len(pieces) > 1 else ""
                told = f"{each}{spell(yours, letters, 1)} = {yours}, and {spell(asked, letters)} = {asked} is asked."
                raise (NotJudged if unclear else Wrong)(
                    joined(f"`{name}` is {told}", self.about.get(name.split(".")[0]))
                )

    # In a larger module -----------------------------------------------------------------------------------------------

    def judged_in(self, parts: list[nn.Module]) -> list[nn.Module]:
        """Return what is judged of a larger module's parts of one name: the part, if it is one."""
        return list(map(Called, parts)) if len(parts) == 1 else []


def unnumbered(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def complete(views: Views, ours: nn.Module) -> bool:
    """Tell whether every parameter of ours is there, in its size. Only a bias may be missing."""
    counts = {name: sum(piece.numel() for piece in pieces) for name, pieces in views.items()}
    own = ((name, parameter.numel()) for name, parameter in ours.named_parameters())
    return all(counts.get(name, size if name.endswith("bias") else 0) == size for name, size in own)


def build(cls: Callable, args: tuple, x: Tensor, sizes: Mapping[str, int]) -> nn.Module:
    """Build the reader's module in eval mode, with random weights; raise Wrong for parameters that cannot learn."""
    try:
        module = call(cls, *args, sizes=sizes).eval()
    except NotAttempted:
        if "NotImplementedError" in cls.forward.__code__.co_names:
            raise
        raise Wrong("`__init__` is empty.") from None
    known = set(module.parameters())
    try:
        attempt(lambda: call(module, x, sizes=sizes))
    except NotAttempted:
        raise Wrong("`forward` is empty.") from None
    if set(module.parameters()) != known:
        raise Wrong(
            "Layers or parameters are made in `forward`: an optimizer never sees them. Make them in `__init__`."
        )
    for name, value in (item for part in module.modules() for item in vars(part).items()):
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
        if any(p not in known for layer in inside if isinstance(layer, nn.Module) for p in layer.parameters()):
            raise Wrong(
                f"The layers in `{name}` are in a plain Python {type(value).__name__}, and an optimizer does not find "
                "them there: use `nn.ModuleList` or `nn.ModuleDict`."
            )
    for seed, (name, p) in enumerate(module.named_parameters()):
        if not p.requires_grad:
            raise Wrong(f"The parameter `{name}` has `requires_grad=False`: it can never learn.")
        size = min(0.3, p.shape[-1] ** -0.5) if p.ndim else 0.3  # what comes out stays near one
        values = noise(*p.shape, seed=seed)
        p.data = (p.data == 1).all() * values.sign() + size * values  # a norm's weight stays around one, and minus one
    return module


def require_steady(module: nn.Module, x: Tensor, result: Tensor, times: int = 1) -> None:
    """Raise Wrong where a result is random, not finite, or does not depend on a parameter, and if no gradient flows."""
    if not result.isfinite().all():
        raise Wrong(f"Your result holds {int((~result.isfinite()).sum())} values that are inf or nan.")
    if any(not close(call(module, x), result) for _ in range(times)):
        raise Wrong(f"{RANDOM} {DROPOUT if list(module.parameters()) else NO_PARAMETERS}")
    learned = dict(module.named_parameters())
    flow = attempt(lambda: torch.autograd.grad(result.sum(), list(learned.values()), allow_unused=True))
    unused = [name for n, name in enumerate(learned) if isinstance(flow, Exception) or flow[n] is None]
    for name in unused:
        learned[name].data += 1
        moves = not close(call(module, x), result)
        learned[name].data -= 1
        if moves:
            raise Wrong(
                f"No gradient reaches `{name}`, on which the result depends: look for `.detach()`, `.data`, `no_grad`."
            )
    if unused:
        raise Wrong(f"The result does not depend on {listed(unused)}: use it, or delete it.")


def require_right(mine: nn.Module, ours: nn.Module, x: Tensor, result: Tensor) -> None:
    """Raise Wrong where a right result changes with what came before, or sends other gradients back."""
    require_steady(mine, x, result, times=20)
    less = x[:1, :-1] if x.ndim == 3 else x[:1]
    again = attempt(mine, less)
    if isinstance(again, Exception) or not close(again, ours(less)):
        raise Wrong(KEPT)
    flows = [gradients(module, (x,))[0] for module in (mine, ours)]
    if not close(*(flow / flows[1].abs().max() for flow in flows)):
        raise Wrong(DETACHED)


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
    from those of the part. Where the results differ, `probes(pair)` say what flows between the parts: see `trace`.
    """

    def __init__(self, solution: type, *, parts: Mapping[str, tuple[ModuleExercise, Callable]], **rest):
        super().__init__(solution, **rest)
        self.parts = parts

    @property
    def called(self) -> str:
        inside = {name: each.called for name, (each, _) in self.parts.items() if isinstance(each, CompositeExercise)}
        return ", ".join(f"`{name}`" + (f" (of {inside[name]})" if name in inside else "") for name in self.parts)

    def judge_trials(self, cls: Callable) -> str:
        return joined(super().judge_trials(cls), *(self.judge_part(cls, name) for name in self.parts))

    def judge_trial(self, cls: Callable, trial: tuple) -> str:
        args, x = trial
        sizes = self.sizes(*args, x)
        mine, ours = build(cls, args, x, sizes), self.answer(*args).eval()
        result = call(mine, x, sizes=sizes)
        ours._modules |= {name: nn.Sequential(*inside) for name, inside in self.find_parts(mine).items()}
        expected = attempt(ours, x)
        if isinstance(expected, Exception):
            raise NotJudged(f"The check calls each part with one tensor, and one of yours stops there: {expected}")
        if wrong_form := misfit(result, expected, self.shape, sizes):
            raise Wrong(wrong_form)
        if close(result, expected, 2e-5):
            require_right(mine, ours, x, result)
            return ""
        require_steady(mine, x, result)
        self.require_probes(Pair(mine, ours, args, x, None))
        raise Wrong("The shape is right, the values are not.")

    def find_parts(self, module: nn.Module) -> dict[str, list[nn.Module]]:
        """Return what is judged of the reader's parts, by our names. NotJudged for others, Wrong for a shared one."""
        found, first = {}, {}
        for name, part in module._modules.items():
            found.setdefault(self.words.get(name.lower()), []).append(part)
            other = first.setdefault(part, name)
            if other != name:
                raise Wrong(f"`{other}` and `{name}` are one and the same module. Each of them needs its own.")
        inside = {name: exercise.judged_in(found.get(name, [])) for name, (exercise, _) in self.parts.items()}
        if not all(inside.values()):
            theirs = ", ".join(f"`{name}`" for name in module._modules) or "none"
            raise NotJudged(f"The check finds parts by their names. It looks for {self.called}. Yours: {theirs}.")
        return inside

    def judged_in(self, parts: list[nn.Module]) -> list[nn.Module]:
        """Return the modules within a part that have this exercise's parts, such as the blocks of an encoder."""
        inside = [module for part in parts for _, module in part.named_modules(remove_duplicate=False)]
        words = [{self.words.get(name.lower()) for name in module._modules} for module in inside]
        return [module for module, names in zip(inside, words, strict=True) if self.parts.keys() <= names]

    def judge_part(self, cls: Callable, name: str) -> str:
        """Judge a part by its own exercise, as if it were the answer: raise what is found, or return a remark."""
        exercise, whole = self.parts[name]

        def answer(*args):
            return self.find_parts(cls(*whole(*args)))[name][0]

        try:
            remark = exercise.judge_trials(answer)
        except (Wrong, NotJudged) as found:
            found.args = (f"In `{name}`: {found.args[0]}",)
            found.message = f"In `{name}`: {getattr(found, 'message', '')}"
            raise
        return f"In `{name}`: {remark}" if remark else ""


def trace(
    module: nn.Module, parts: Mapping[str, nn.Module], x: Tensor, told: Callable, **known: Tensor
) -> tuple[list, str]:
    """Return what each part is given, in order, and what the module returns: [("mlp", "norm2")], "z + mlp".

    Each part is made to return random values of its own, so that `told(value, known)` can tell what a value is made of.
    """
    calls = []

    def stand_in(name: str) -> Callable:
        def hook(part: nn.Module, args: tuple, result):
            calls.append((name, ", ".join(dict.fromkeys(told(value, known) for value in tensors_in(args)))))
            mark = noise(*tensors_in([result])[0].shape, seed=17 * len(known) + 5)
            again = [called for called, _ in calls].count(name)
            known[name if again == 1 else f"{name} ({again})"] = mark
            return (mark, *result[1:]) if isinstance(result, tuple) else mark

        return hook

    own = {name: part.part if isinstance(part, Called) else part for name, part in parts.items()}
    handles = [part.register_forward_hook(stand_in(name)) for name, part in own.items()]
    try:
        with torch.no_grad():
            return calls, told(module(x), known)
    finally:
        for handle in handles:
            handle.remove()


def sums(value: Tensor, known: Mapping[str, Tensor]) -> str:
    """Write a value as a sum of the known ones of its shape."""
    alike = {name: each for name, each in known.items() if each.shape == value.shape}
    return as_sum(value, alike) if alike else "something else"
