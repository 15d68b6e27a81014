"""Lesson 06: which parameters decay, and the training loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import combinations
from math import isclose

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import ViTConfig
from ..model import VisionTransformer
from ..training import parameter_groups as the_packages_groups
from .comparing import kind, listed, one_number, same
from .exercise import exercise
from .running import ReaderError, Wrong, call, explained, judge_each, raise_first


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
         "the groups empty?"),
        (found, f"{found} in your groups is a buffer, not a parameter: nothing trains sin-cos positions.",
         "`model.named_parameters()` leaves buffers out."),
        (not set(given) <= set(names), "Some tensors in your groups are not parameters of the model. Are they copies?"),
        (missing, f"In no group, and so never trained: {missing}.", "Let an `else` take what is left over."),
        (twice, f"More than once in your groups: {twice}. AdamW refuses that, or warns.", "Use `elif` and `else`."),
    ])  # fmt: skip


def check_decay(decay: dict[str, float], right: dict[str, float], weight_decay: float) -> None:
    exchanged = decay == {name: weight_decay - value for name, value in right.items()}
    raise_first([
        (exchanged, "The groups are exchanged: what should decay does not, and what should not does."),
        (not any(decay.values()), "Nothing decays: the weight decay is 0 in every group."),
        (all(decay.values()), "Everything decays: all parameters are in groups with a weight decay."),
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


BATCHES = 4  # that the check gives to the reader's loop


def my_training(model, optimizer, batches, rates):
    model.train()
    losses = []
    for (images, labels), rate in zip(batches, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@exercise(
    hint="Before the loop, `model.train()`. For each batch: write its rate into every group of "
    "`optimizer.param_groups`, work out the loss, clear the old gradients, call `loss.backward()`, clip with "
    "`nn.utils.clip_grad_norm_`, and only then `optimizer.step()`.",
    solution=my_training,
    imports="import torch.nn.functional as F\nfrom torch import nn",
)
def training(function):
    """`fn(model, optimizer, batches, rates) -> losses`: train on each batch once, gradients clipped to a norm of 1."""
    expected, right, _ = trained_by(my_training)
    too_early = "`step` has changed the weights before `backward` could use them. Call `backward` first."
    with explained({"modified by an inplace operation": too_early}):
        losses, weights, state = trained_by(partial(call, function))
    if not same(weights, right, 1e-8):
        forgotten = [(text, slip) for text, slip in SLIPS.items() if set(slip.values()) <= {"", False}]
        pairs = combinations(forgotten, 2)
        two = {f"Two things. {one} {other}": slip | more for (one, slip), (other, more) in pairs}
        ways = (SLIPS | two).items()
        slips = (text for text, slip in ways if same(weights, trained_by(partial(train, **slip))[1], 1e-8))
        raise Wrong(next(slips, None) or (first_difference(function) if state else UNUSED))
    if isinstance(losses, list) and any(isinstance(loss, Tensor) and loss.requires_grad for loss in losses):
        raise Wrong(
            "Your losses are tensors that keep everything their gradients would need: memory grows with every "
            "step. Store `loss.item()`."
        )
    numbers = losses if isinstance(losses, (list, tuple)) else [losses]
    found = torch.tensor([one_number(loss, "A loss") for loss in numbers], dtype=torch.float64)
    if not same(found, torch.tensor(expected, dtype=torch.float64), 1e-8):
        raise Wrong(
            f"The weights are right. The task asks for a list of {len(expected)} losses, one for each batch as "
            f"the model found it; got {[round(loss, 4) for loss in found.tolist()]}."
        )


UNUSED = "The optimizer that you were given took no step. Use it, and build none of your own."


def first_difference(function: Callable) -> str:
    """Say after how many batches the weights are others than they should be, and whether the first loss is."""
    for count in range(1, BATCHES + 1):
        losses, weights, _ = trained_by(partial(call, function), count)
        expected, right, _ = trained_by(my_training, count)
        if not same(weights, right, 1e-8):
            break
    text = f"With {count} of {BATCHES} batches the weights are not those of the loop that the task describes."
    with suppress(TypeError, ValueError, IndexError):  # what is returned need not be a list of numbers
        found, loss = float(losses[0]), expected[0]
        text += f" The first loss is {'right' if isclose(found, loss) else f'{found:.4f}, and should be {loss:.4f}'}."
    return text


def trained_by(function: Callable, count: int = BATCHES) -> tuple[list, Tensor, dict]:
    """Return what `function(model, optimizer, batches, rates)` returns, all weights, and the optimizer's state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = VisionTransformer(ViTConfig(**SMALL, depth=1, dropout=0.2)).double().eval()
        nn.init.normal_(model.head.weight, std=0.1)
        nn.init.constant_(model.norm.weight, 0.5)  # gradients of norms above and below 1
        batches = [(torch.randn(6, 3, 6, 4).double(), torch.arange(6) % 5) for _ in range(BATCHES)]
        optimizer = torch.optim.SGD(the_packages_groups(model, 0.1), lr=0.2, momentum=0.5)
        losses = function(model, optimizer, batches[:count], [0.1, 0.3, 0.15, 0.05][:count])
    return losses, torch.cat([parameter.detach().flatten() for parameter in model.parameters()]), optimizer.state


def train(model, optimizer, batches, rates, loss=F.cross_entropy, groups=2, training=True, last=None, **replaced):
    """Train with a slip: steps `replaced` by others, another loss, not all groups or batches, not in train mode."""
    order = " ".join(replaced.get(step, step) for step in ("rate", "zero", "backward", "clip", "step"))
    model.train(training)
    for (images, labels), rate in list(zip(batches, rates, strict=False))[:last]:
        found = loss(model(images), labels)
        do = {
            "rate": lambda rate=rate: [group.update(lr=rate) for group in optimizer.param_groups[:groups]],
            "times": lambda rate=rate: [group.update(lr=rate * group["lr"]) for group in optimizer.param_groups],
            "zero": optimizer.zero_grad,
            "backward": found.backward,
            "clip": lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
            "clip_values": lambda: nn.utils.clip_grad_value_(model.parameters(), 1.0),
            "clip_each": lambda: [nn.utils.clip_grad_norm_(weight, 1.0) for weight in model.parameters()],
            "clip_first": lambda: nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0),
            "clip_groups": lambda: [nn.utils.clip_grad_norm_(g["params"], 1.0) for g in optimizer.param_groups],
            "step": optimizer.step,
            "ask": lambda images=images: model(images),
        }
        for name in order.split():
            do[name]()


SLIPS = {
    "The weights are as they were. Call `backward` and then `step`, without `zero_grad` between them.": {"step": ""},
    "The gradients of the batches add up: `optimizer.zero_grad()` is missing.": {"zero": ""},
    "Your model is in evaluation mode, so dropout is off. Call `model.train()`.": {"training": False},
    "The rate is never set: the optimizer keeps the one it started with.": {"rate": ""},
    "The rate comes one step late: set it before `optimizer.step()`.": {"rate": "", "step": "step rate"},
    "The rate is set for the first group only, and the optimizer has two.": {"groups": 1},
    "The gradients are not clipped, not all of them, or at the wrong time: clip them between `backward` and `step`.":
        {"clip": ""},
    "The gradients are clipped, but not all of them: give `clip_grad_norm_` all parameters of the model.":
        {"clip": "clip_first"},
    "You clip each value of a gradient. The task asks for the norm of all gradients together.": {"clip": "clip_values"},
    "You clip the gradient of each parameter for itself. Give `clip_grad_norm_` all parameters at once.":
        {"clip": "clip_each"},
    "You clip each group for itself. Give `clip_grad_norm_` all parameters of the model at once.":
        {"clip": "clip_groups"},
    "You multiply the rate that is there by the new one. The new one takes its place.": {"rate": "times"},
    "You ask the model once more after the step, and dropout then draws other numbers. Keep the first loss.":
        {"step": "step ask"},
    "The last batch is left out.": {"last": -1},
    "Only the first batch is trained on: is `return` inside the loop?": {"last": 1},
    "You take two steps for each batch.": {"step": "step step"},
    "Your loss is the sum over the images, not their mean. Or you divide the gradients by their length even if it is "
    "below 1.": {"loss": partial(F.cross_entropy, reduction="sum")},
    "`F.cross_entropy` takes logits: it applies the softmax itself.":
        {"loss": lambda logits, labels: F.cross_entropy(logits.softmax(dim=1), labels)},
    "The sign is wrong: you make the loss larger.": {"loss": lambda *given: -F.cross_entropy(*given)},
}  # fmt: skip
