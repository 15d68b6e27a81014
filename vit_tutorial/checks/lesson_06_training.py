"""Lesson 06: which parameters decay, the schedule of the learning rate, and the accuracy over batches."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial, reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import ViTConfig
from ..model import VisionTransformer
from ..training import parameter_groups as the_packages_groups
from .comparing import explain, judge_each, kind, known, listed, one_number, random_tensor, recognise, same
from .exercise import exercise
from .running import ReaderError, Wrong, call, raise_first


def my_parameter_groups(model, weight_decay):
    matrices = [layer.weight for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    decays = {id(matrix) for matrix in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in decays]
    return [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


@exercise(
    hint="Go through `model.modules()`, or through `model.named_parameters()`, and put every parameter into one of two "
    "lists. The weights of `nn.Linear` and of the patch projection, an `nn.Conv2d`, decay. Biases, norms, the class "
    "token and the positions do not, although some of these have two axes or more.",
    solution=my_parameter_groups,
)
def parameter_groups(function):
    """`fn(model, weight_decay) -> [{"params": …, "weight_decay": …}, …]`: groups for AdamW; only matrices decay."""
    judge_each(MODELS, partial(judge_groups, function))


SMALL = {"image_size": (6, 4), "patch_size": 2, "num_classes": 5, "embed_dim": 12, "num_heads": 3, "mlp_dim": 20}
MODELS = {
    "learned positions": (ViTConfig(**SMALL, depth=2), 0.3),
    "sin-cos positions": (ViTConfig(**SMALL, depth=1, position="sincos", pool="mean"), 0.05),
    "factorized positions": (ViTConfig(**SMALL, depth=3, position="factorized"), 0.1),
}
LOOKS_LIKE = 'Return `[{"params": [...], "weight_decay": weight_decay}, {"params": [...], "weight_decay": 0.0}]`.'
BY_NDIM = "These are bare parameters with two axes or more: a rule by `ndim` takes them for matrices."
# Each kind of parameter by a part of its names. What fits no other part is a matrix.
KINDS = {"norms": "norm", "positions": "position", "class token": "class_token", "biases": "bias", "matrices": ""}


def judge_groups(function: Callable, config: ViTConfig, weight_decay: float) -> None:
    model = VisionTransformer(config)
    names = {id(p): name for name, p in model.named_parameters()}
    # Before the reader's function, which may freeze what it is given.
    right = {names[id(p)]: g["weight_decay"] for g in the_packages_groups(model, weight_decay) for p in g["params"]}
    try:
        groups = read_groups(call(function, model, weight_decay))
    except ReaderError as error:
        code = re.sub(r"\bfor\b.+?\bin\b", "", error.code)
        by_value = "must match the size" in error.message or "Boolean value of Tensor" in error.message
        if by_value and re.search(r"\bin\b|==|\.remove\(|\.index\(", code):
            text = "`in`, `==`, `remove` and `index` compare tensors by value: are all their values equal?"
            error.explain(text, "To ask whether two are one object, compare their `id(p)`, or use names.")
        raise
    found = [(p[1] if isinstance(p, tuple) else p, g["weight_decay"]) for g in groups for p in g["params"]]
    check_members([id(p) for p, _ in found], names, {id(b): name for name, b in model.named_buffers()})
    check_decay({names[id(p)]: decay for p, decay in found}, right, weight_decay)
    try:
        torch.optim.AdamW(groups)
    except (TypeError, ValueError) as error:
        raise Wrong(f"AdamW does not take your groups: {error}.", LOOKS_LIKE) from None


def read_groups(result) -> list[dict]:
    """Return the groups that are not empty, as lists and numbers. Raises Wrong if they are no groups for AdamW."""
    if isinstance(result, (dict, Tensor, str)) or not hasattr(result, "__iter__"):
        got = "one dictionary" if isinstance(result, dict) else kind(result)
        raise Wrong(f"The task asks for a list of groups; got {got}.", LOOKS_LIKE)
    groups = []
    for number, group in enumerate(call(list, result)):  # the reader's generators run here
        if not isinstance(group, dict):
            raise Wrong(f"Every group is a dictionary; group {number} is {kind(group)}.", LOOKS_LIKE)
        if missing := {"params", "weight_decay"} - set(group):
            default = "" if "params" in missing else " AdamW then uses its own, 0.01."
            raise Wrong(f'Group {number} has no "{min(missing)}".{default}', LOOKS_LIKE)
        if isinstance(group["params"], set):
            raise Wrong(f'AdamW takes no set, which has no order, as "params" of group {number}. Make a list.')
        params = [group["params"]] if isinstance(group["params"], Tensor) else call(list, group["params"])
        decay = one_number(group["weight_decay"], f'The "weight_decay" of group {number}')
        for p in params:
            if not isinstance(p[-1] if isinstance(p, tuple) and p else p, Tensor):
                what = f"the name {p!r}" if isinstance(p, str) else kind(p)
                raise Wrong(f'Among the "params" of group {number} is {what}.', "Put in the parameters themselves.")
        groups += [{**group, "params": params, "weight_decay": decay}] if params else []
    return groups


def check_members(given: list[int], names: dict[int, str], buffers: dict[int, str]) -> None:
    """Raise Wrong unless every parameter of the model is there once, and nothing else."""
    found = listed([buffers[key] for key in given if key in buffers])
    missing = listed([name for key, name in names.items() if key not in given])
    twice = listed([name for key, name in names.items() if given.count(key) > 1])
    raise_first([
        (set(given).isdisjoint(names), "None of the model's parameters is in your groups. Did you copy them, or leave "
         "the groups empty?", None),
        (found, f"{found} in your groups is a buffer, not a parameter: nothing trains sin-cos positions.",
         "`model.named_parameters()` leaves buffers out."),
        (not set(given) <= set(names), "Some tensors in your groups are not parameters of the model. Are they copies?",
         None),
        (missing, f"In no group, and so never trained: {missing}.", "Let an `else` take what is left over."),
        (twice, f"More than once in your groups: {twice}. AdamW refuses that, or warns.", "Use `elif` and `else`."),
    ])  # fmt: skip


def check_decay(decay: dict[str, float], right: dict[str, float], weight_decay: float) -> None:
    """Raise Wrong unless every parameter's weight decay is the right one."""
    exchanged = decay == {name: weight_decay - value for name, value in right.items()}
    raise_first([
        (exchanged, "The groups are exchanged: what should decay does not, and what should not does.", None),
        (not any(decay.values()), "Nothing decays: the weight decay is 0 in every group.", None),
        (all(decay.values()), "Everything decays: all parameters are in groups with a weight decay.", None),
    ])  # fmt: skip
    kinds = {name: next(kind for kind, part in KINDS.items() if part in name) for name in right}
    lines = {}
    for kind_name in KINDS:
        names = [name for name in right if kinds[name] == kind_name]
        if wrong := [name for name in names if bool(decay[name]) != bool(right[name])]:
            which = f"The {kind_name}" if len(wrong) == len(names) else f"Some of the {kind_name}"
            verb = "decays" if kind_name == "class token" else "decay"
            verb = "do not decay, and should" if right[wrong[0]] else f"{verb}, and should not"
            lines[kind_name] = f"{which} {verb}: {listed(wrong)}."
    if {"positions", "class token"} <= set(lines):
        lines["both"] = BY_NDIM
    if lines:
        raise Wrong("\n".join(lines.values()))
    if other := [value for name, value in decay.items() if value != right[name]]:
        raise Wrong(f"The matrices decay by {other[0]:g}, not by the given `weight_decay`, {weight_decay:g}.")


def my_warmup_cosine(step, warmup_steps, all_steps):
    if step < warmup_steps:
        return (step + 1) / warmup_steps  # 1/warmup_steps, 2/warmup_steps, …, 1
    p = (step - warmup_steps) / (all_steps - warmup_steps)  # 0 → 1
    return (1 + math.cos(math.pi * p)) / 2  # 1 → 0


@exercise(
    hint="In the warm-up, `if step < warmup_steps`, return `(step + 1) / warmup_steps`. After it, let p be the part of "
    "the remaining steps that is over, `(step - warmup_steps) / (all_steps - warmup_steps)`, from 0 to 1, and return "
    "`(1 + math.cos(math.pi * p)) / 2`.",
    solution=my_warmup_cosine,
    imports="import math",
)
def warmup_cosine(function):
    """`fn(step, warmup_steps, all_steps) -> factor`: up to 1 on a straight line, down to 0 along half a cosine."""
    trials = {f"warmup_steps={w} and all_steps={T}": (w, T) for w, T in ((4, 12), (3, 10), (1, 7), (0, 6))}
    remarks: list[str] = []
    judge_each(trials, lambda w, T: remarks.append(judge_schedule(function, w, T)))
    return remarks[0]


def judge_schedule(function: Callable, w: int, T: int) -> str:
    """Return a remark if it is right in another way than the package's; raise Wrong unless it is right."""
    factors = torch.tensor([one_number(call(function, step, w, T), "The factor of a step") for step in range(T)])
    steps = torch.arange(T, dtype=torch.float64)
    parts = ("in", slice(0, w), WARM_UPS, WARM_UP_MISTAKES), ("after", slice(w, T), COSINES, COSINE_MISTAKES)

    def fitting(factors: Tensor) -> list[list[str]]:
        """Return for each part the remarks of the right curves that fit."""
        return [[m.message for m in r if same(factors[at], m.function(steps[at], w, T))] for _, at, r, _ in parts]

    peak = factors.max().item()
    if abs(peak - 1) > 1e-3 and all(fitting(factors / peak)):
        hint = "The optimizer multiplies the factor by the learning rate itself."
        raise Wrong(f"Your curve has the right form and is {peak:g} times as high: its peak must be 1.", hint)
    found = fitting(factors)
    for (when, at, right, mistakes), fits in zip(parts, found, strict=True):
        if not fits:
            recognise(factors[at], (steps[at], w, T), mistakes)
            expected = right[0].function(steps[at], w, T)
            first = (~torch.isclose(factors[at].double(), expected, 1e-4, 1e-5)).nonzero()[0]
            text = f"Step {at.start + first.item()}, {when} the warm-up, gives {factors[at][first].item():.4g}"
            call_text = f"This was with warmup_steps={w} and all_steps={T}."
            raise Wrong(f"{text}; {expected[first].item():.4g} is expected.\n{call_text}")
    return " ".join(fits[0] for fits in found if fits[0])


Curve = Callable[[Tensor, int, int], Tensor]  # the factors of the steps s, for w of T steps of warm-up


def cos(p: Tensor) -> Tensor:
    return torch.cos(torch.pi * p)


def half(p: Tensor) -> Tensor:
    return (1 + cos(p)) / 2


def shaped(shape: Callable[[Tensor], Tensor], phase: Curve) -> Curve:
    """Return a curve over the part p of the way, from 0 to 1."""
    return lambda s, w, T: shape(phase(s, w, T))


def falls(shapes: dict[str, Callable | list]) -> list:
    """Return wrong shapes after the warm-up, each with every right way of counting the steps."""
    return [wrong for phase in PHASES for wrong in known(None, shapes, partial(shaped, phase=phase.function))]


# Right: the package's way first. The texts are remarks.
STARTS_AT_0 = "Your warm-up starts at 0: the first step changes nothing. The package's starts at 1 / warmup_steps."
ENDS_AT_0 = "Your cosine is 0 at the last step: that step changes nothing. The package's would be 0 one step later."
WARM_UPS = known(None, {
    "": lambda s, w, T: (s + 1) / w,
    STARTS_AT_0: [lambda s, w, T: s / w, lambda s, w, T: s / max(w - 1, 1)],
    "Your warm-up reaches 1 one step later than the package's.": lambda s, w, T: (s + 1) / (w + 1),
})  # fmt: skip
PHASES = known(None, {
    "": lambda s, w, T: (s - w) / (T - w),
    ENDS_AT_0: [lambda s, w, T: (s - w) / (T - w - 1), lambda s, w, T: (s + 1 - w) / (T - w)],
    "Your cosine is up to one step ahead of the package's.": lambda s, w, T: (s + 1 - w) / (T - w + 1),
})  # fmt: skip
COSINES = [phase._replace(function=shaped(half, phase.function)) for phase in PHASES]
FROM_0 = [lambda s, w, T: half(s / T), lambda s, w, T: half(s / (T - 1)), lambda s, w, T: half((s + 1) / T)]
FALLS = [*FROM_0, *(cosine.function for cosine in COSINES)]
BENT = [lambda p: 1 - half(p), lambda p: 1 - half(p + 1), lambda p: 1 - cos(p / 2), torch.square, torch.sqrt]
STAYS_AT_1 = (
    "After the warm-up your factor stays at 1, or very near it. Is there no cosine? Does `//` cut off the fraction? "
    "Do you turn degrees into radians where there are none?"
)

WARM_UP_MISTAKES = known(None, {
    "There is no warm-up: the factor is 1 from the first step on.": lambda s, w, T: torch.ones_like(s),
    "There is no warm-up: the cosine runs from the first step on.": FALLS,
    "Your warm-up stays at 0: does `//` cut off the fraction?": [lambda s, w, T: 0 * s, lambda s, w, T: (s + 1) // w],
    "Your warm-up falls. It should start small and rise to 1.":
        [lambda s, w, T: (w - s) / w, lambda s, w, T: (w - s - 1) / w, lambda s, w, T: (w - s) / (w + 1)],
    "Your warm-up is divided by all_steps: it ends far below 1.": [lambda s, w, T: (s + 1) / T, lambda s, w, T: s / T],
    "Your warm-up counts the steps. Divide by `warmup_steps`.": [lambda s, w, T: s + 1, lambda s, w, T: s],
    "Your warm-up ends where it should, but it is bent. The task asks for a straight line.":
        [shaped(bend, warm.function) for warm in WARM_UPS for bend in BENT],
    "Warm-up and cosine are multiplied. If `step < warmup_steps`, return the warm-up's factor alone.":
        [lambda s, w, T, warm=warm, fall=fall: warm.function(s, w, T) * fall(s, w, T)
         for warm in WARM_UPS for fall in FALLS],
})  # fmt: skip

COSINE_MISTAKES = known(None, {
    "After the warm-up your curve jumps down: the cosine is counted from step 0, and has gone part of its way already.":
        [*FROM_0, lambda s, w, T: half(s / (T - w))],
    "Your cosine does not reach 0 at the end: it is stretched over all steps, and the warm-up has used up some.":
        [lambda s, w, T: half((s - w) / T), lambda s, w, T: half((s - w + 1) / T)],
}) + falls({
    "Your cosine reaches 0 halfway and rises again: half a turn is π, and yours is 2π.": lambda p: half(2 * p),
    "Your cosine goes only half of its way down, to 0.5: half a turn is π, and yours is π/2.": lambda p: half(p / 2),
    "Your factor falls below 0, towards -1: a cosine runs from 1 to -1.": cos,
    "Your factor is 0 for the whole second half: you cut off the negative half.": lambda p: cos(p).clamp(min=0),
    "You take a quarter of a cosine, steepest at the end. Half a cosine ends flat.": lambda p: cos(p / 2),
    "At the end of the warm-up your factor jumps to 2: 1 + cos runs from 2 to 0.": lambda p: 2 * half(p),
    "Your factor runs from 1.5 to 0.5: only the cosine is halved, not the sum.": lambda p: 1 + cos(p) / 2,
    "Your factor runs from 0.5 to -0.5: the cosine is halved, and 0.5 is not added.": lambda p: cos(p) / 2,
    "Your factor runs from 1.5 to -0.5: the cosine is not halved.": lambda p: 0.5 + cos(p),
    "Your cosine rises from 0 to 1: it is upside down.": lambda p: 1 - half(p),
    "The cosine gets 180 for half a turn, and reads it as radians.": lambda p: half(180 / torch.pi * p),
    "Your factor falls only to about 0.8: the angle runs to 1, not to π.": lambda p: half(p / torch.pi),
    "Your factor goes from 0.5 up to 1 and back: this is a sine, not a cosine.": lambda p: half(p - 0.5),
    "Your factor falls on a straight line. The task asks for half a cosine.": lambda p: 1 - p,
    "Your factor rises from 0 to 1: that is p, the part of the way, without the cosine.": lambda p: p,
    **{f"Your cosine falls only to {floor:g}, where it should fall to 0.":
        lambda p, floor=floor: floor + (1 - floor) * half(p) for floor in (0.2, 0.1, 0.05, 0.02, 0.01, 0.001)},
    STAYS_AT_1: [lambda p, turn=turn: half(turn * p / 180) for turn in (1, torch.pi)],
}) + known(None, {
    "Your factor falls on a straight line, and is counted from step 0. The task asks for half a cosine.":
        [lambda s, w, T: (T - s) / T, lambda s, w, T: (T - s - 1) / T],
    STAYS_AT_1: [lambda s, w, T: torch.ones_like(s), lambda s, w, T: ((s - w) // (T - w - 1) == 0).to(s)],
    "After the warm-up your factor is 0: nothing is learned any more.": lambda s, w, T: 0 * s,
    "Your warm-up never ends: the factor rises above 1.":
        [lambda s, w, T: (s + 1) / max(w, 1), lambda s, w, T: s / max(w, 1)],
    "At step `warmup_steps` your factor is above 1: the warm-up lasts one step too long.":
        [lambda s, w, T, do=do: torch.where(s == w, (w + 1) / max(w, 1), do(s, w, T)) for do in FALLS[3:]],
})  # fmt: skip


def my_accuracy(batches):
    right = images = 0
    for logits, labels in batches:
        right += (logits.argmax(dim=1) == labels).sum().item()
        images += len(labels)
    return right / images


@exercise(
    hint="Count: add up the right answers of all batches, `(logits.argmax(dim=1) == labels).sum()`, and the images, "
    "`len(labels)`. Divide once, at the end.",
    solution=my_accuracy,
)
def accuracy(function):
    """`fn(batches) -> share`: for batches of (logits (B, K), labels (B,)), the right answers over all images."""
    # The first three tell every known mistake from the others. In the third all answers are right, so what is 0 there
    # was not cut off; the first image's largest logit, as a number, is its label.
    ranks = ("054125", "030000", "0"), ("200103", "045051", "1"), ("000000", "00000", "00")
    three = [batches_of(*places) for places in ranks]
    for logits, labels in three[2]:
        logits[0] += labels[0] - logits[0].max()
    two, one = [batches_of("0102", "10", K=3)], [batches_of("01003", K=4)]
    trials = {"batches of 6, 6 and 1 images": three, "batches of 4 and 2": two, "one batch": one}
    judge_each(trials, lambda *lists: judge_accuracy(function, lists))


def batches_of(*ranks: str, K: int = 6) -> list[tuple[Tensor, Tensor]]:
    """Return logits (B, K) and labels (B,), by batch: a digit is the place of an image's label among its logits."""
    batches = []
    for seed, places in enumerate(ranks):
        logits = random_tensor(len(places), K, seed=seed)
        order = logits.argsort(dim=1, descending=True)
        batches.append((logits, order[range(len(places)), list(map(int, places))]))
    return batches


def judge_accuracy(function: Callable, lists: tuple) -> None:
    try:
        shares = [one_number(call(function, batches), "The accuracy of all batches together") for batches in lists]
    except ReaderError as error:
        explain(error, lists, ACCURACY_MISTAKES)
        raise
    expected = over_lists(lambda x, y, n, B: n.sum() / B.sum())(*lists)
    found = torch.tensor(shares, dtype=torch.float64)
    recognise(found, lists, [] if same(found, expected, 1e-7) else ACCURACY_MISTAKES, 1e-7)
    for got, right, batches in zip(shares, expected.tolist(), lists, strict=True):
        if not math.isclose(got, right, rel_tol=1e-6):
            sizes = [len(labels) for _, labels in batches]
            text = f"The batches have {', '.join(map(str, sizes))} images: {right * sum(sizes):.0f} of {sum(sizes)}"
            raise Wrong(f"{right:.4f} expected, got {got:.4f}. {text} answers are right.")


def hits(logits: Tensor, labels: Tensor, top: int = 1) -> Tensor:
    return (logits.topk(top, dim=1).indices == labels[:, None]).any(dim=1).double()


def over_lists(measure: Callable) -> Callable[..., Tensor]:
    """Apply `measure(x, y, n, B)` to each list: all its logits and labels, each batch's right answers and images."""

    def of_list(batches: list[tuple[Tensor, Tensor]]) -> float:
        x, y = map(torch.cat, zip(*batches, strict=True))
        n, B = torch.stack([hits(*batch).sum() for batch in batches]), torch.tensor([len(y) for _, y in batches])
        return float(measure(x, y, n, B))

    return lambda *lists: torch.tensor([of_list(batches) for batches in lists], dtype=torch.float64)


def summed(measure: Callable, x: Tensor, y: Tensor, B: Tensor) -> Tensor:
    """Return the sum of `measure(logits, labels)` over the batches."""
    return sum(measure(*batch) for batch in zip(x.split(B.tolist()), y.split(B.tolist()), strict=True))


ACCURACY_MISTAKES = known(None, {
    "You take the mean of the batches' accuracies. An image of the short, last batch counts for more.":
        lambda x, y, n, B: (n / B).mean(),
    "You take the mean of the batches' accuracies, and in percent. The task asks for a share of all images.":
        lambda x, y, n, B: 100 * (n / B).mean(),
    "You add up the batches' accuracies: with many batches that is more than 1.": lambda x, y, n, B: (n / B).sum(),
    "This is the accuracy of the last batch alone.": lambda x, y, n, B: n[-1] / B[-1],
    "This is the accuracy of the first batch alone: is `return` inside the loop?": lambda x, y, n, B: n[0] / B[0],
    "The last, short batch is left out.": lambda x, y, n, B: (n / B)[:-1].mean(),
    "This is how many answers are right. Divide by how many images all batches have.": lambda x, y, n, B: n.sum(),
    "This is how many answers are right in the last batch alone.": lambda x, y, n, B: n[-1],
    "You divide by how many images the last batch has, not all batches.": lambda x, y, n, B: n.sum() / B[-1],
    "You divide by how many images the first batch has, not all batches.": lambda x, y, n, B: n.sum() / B[0],
    "You divide by how many batches there are, not by how many images.": lambda x, y, n, B: n.sum() / len(B),
    "You divide as if every batch were as large as the first.": lambda x, y, n, B: n.sum() / (len(B) * B[0]),
    "Only the last batch counts: does your count begin anew in each batch?": lambda x, y, n, B: n[-1] / B.sum(),
    "You divide by how many logits there are, `logits.numel()`: use `len(labels)`.":
        lambda x, y, n, B: n.sum() / x.numel(),
    "You average each batch with what came before it, so later batches count for more.":
        lambda x, y, n, B: reduce(lambda before, share: (before + share) / 2, n / B),
    "This is the share of batches in which all answers are right.": lambda x, y, n, B: (n == B).double().mean(),
    "This is in percent. The task asks for a share, between 0 and 1.": lambda x, y, n, B: 100 * n.sum() / B.sum(),
    "This is the share of wrong answers. The task asks for the right ones.": lambda x, y, n, B: 1 - n.sum() / B.sum(),
    "You get 0: does `//` or `int` cut off the fraction?": lambda x, y, n, B: n.sum() // B.sum(),
    **{f"This is right, but rounded to {digits} digits. Round only what you print.":
        lambda x, y, n, B, digits=digits: round((n.sum() / B.sum()).item(), digits) for digits in (2, 3, 4)},
    "You average over the classes. Every image counts the same, whatever its class.":
        lambda x, y, n, B: torch.stack([hits(x, y)[y == k].mean() for k in y.unique()]).mean(),
    **{f"An answer counts as right if it is among the {top} largest logits. Only the largest counts.":
        lambda x, y, n, B, top=top: hits(x, y, top).mean() for top in (2, 3, 4, 5)},
    "You take the class with the smallest logit.": lambda x, y, n, B: hits(-x, y).mean(),
    "`argmax(dim=0)` runs over the batch: for each class it gives an image. The classes are `dim=1`.":
        lambda x, y, n, B: summed(lambda x, y: (x.argmax(0) == y).sum(), x, y, B) / B.sum(),
    "`argmax` without `dim` finds one place in the whole batch, not a class for each image.":
        lambda x, y, n, B: summed(lambda x, y: (x.argmax() == y).sum(), x, y, B) / B.sum(),
    "This is the mean probability of the right class. An answer is right or wrong: count 1 or 0.":
        lambda x, y, n, B: x.softmax(1).gather(1, y[:, None]).mean(),
    "This is how sure the model is: the labels are not used.": lambda x, y, n, B: x.softmax(1).amax(1).mean(),
    "This is the cross-entropy, the loss.": lambda x, y, n, B: F.cross_entropy(x, y),
    "You compare the largest logit itself with the label. The class is its place, and `argmax` gives the place.":
        [lambda x, y, n, B: (x.amax(1) == y).double().mean(),
         lambda x, y, n, B: summed(lambda x, y: (x.amax(1) == y).double().mean(), x, y, B) / len(B)],
}, over_lists)  # fmt: skip
