"""Lesson 06: which parameters decay, the loop, a learning rate."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import ViTConfig
from ..experiments import short_run
from ..model import VisionTransformer
from .exercise import Exercise
from .running import Wrong, attempt, call, close, describe, is_number, joined, listed, stopped_by
from .task import Hunt


def my_parameter_groups(model, weight_decay):
    matrices = [layer.weight for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    decays = {id(matrix) for matrix in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in decays]
    return [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


MODELS = {"learned": (2, 0.3), "sincos": (1, 0.05), "factorized": (3, 0.1)}  # positions: depth, weight decay
BY_VALUE = (
    "If your line compares parameters: `in`, `==`, `remove` and `index` compare tensors by value. To ask whether two "
    "are one object, compare their `id(p)`, or use names."
)


def judge_groups(function: Callable) -> str:
    """Raise Wrong unless every parameter of each model is in one group, and the matrices alone decay."""
    for position, (depth, weight_decay) in MODELS.items():
        sizes = {"patch_size": 2, "num_classes": 5, "embed_dim": 12, "num_heads": 3, "mlp_dim": 20, "depth": depth}
        model = VisionTransformer(ViTConfig((6, 4), position=position, **sizes))
        try:
            check_decay(read_groups(call(function, model, weight_decay), model), model, weight_decay)
        except Wrong as wrong:
            by_value = re.search("must match the size|Boolean value of Tensor", str(wrong.error))
            before = (
                "" if position == "learned" else f"Right with learned positions, but not with {position} positions."
            )
            wrong.message = joined(before, wrong.message, BY_VALUE if by_value else "")
            raise
    return ""


def read_groups(groups, model: nn.Module) -> dict[str, float]:
    """Return the weight decay of every parameter by its name. Raises Wrong unless each is in one group for AdamW."""
    whole = [
        {"params", "weight_decay"} <= group.keys() if isinstance(group, dict) else False for group in groups or [0]
    ]
    if not all(whole) or not all(is_number(group["weight_decay"]) for group in groups):
        shape = '`[{"params": [...], "weight_decay": weight_decay}, {"params": [...], "weight_decay": 0.0}]`'
        raise Wrong(f'Return a list of dictionaries with "params" and "weight_decay", a number: {shape}.')
    optimizer = attempt(torch.optim.AdamW, groups)  # the reader's generators run here
    if isinstance(optimizer, Exception):
        raise stopped_by(optimizer, {}, "AdamW does not take your groups")
    names = {id(p): name for name, p in model.named_parameters()}
    given = [(names.get(id(p)), group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]]
    found = dict(given)
    if None in found:
        raise Wrong("Your groups hold tensors that are no parameters of the model: copies, or buffers, perhaps?")
    if missing := [name for name in names.values() if name not in found]:
        raise Wrong(f"In no group, and so never trained: {listed(missing)}. Let an `else` take what is left over.")
    if len(given) > len(found):
        raise Wrong("A parameter is in a group more than once.")
    return found


def check_decay(found: dict[str, float], model: nn.Module, weight_decay: float) -> None:
    """Raise Wrong, with the names of parameters, unless the matrices decay by the given number and nothing else."""
    right = read_groups(my_parameter_groups(model, weight_decay), model)
    many = [name for name in right if found[name] and not right[name]]
    few = [name for name in right if right[name] and found[name] != right[name]]
    if len(many) + len(few) == len(right):
        raise Wrong("The two groups are exchanged: the matrices do not decay, and all else does.")
    bare = many and all(model.get_parameter(name).ndim > 1 for name in many)
    if many or few:
        rule = "They are bare parameters with two axes or more: a rule by `ndim` takes them for matrices."
        decay = f"These should decay by `weight_decay`, {weight_decay:g}, and do not: {listed(few)}." if few else ""
        raise Wrong(
            joined(f"These decay, and should not: {listed(many)}." if many else "", rule if bare else "", decay)
        )


parameter_groups = Exercise(
    my_parameter_groups,
    task='`fn(model, weight_decay) -> [{"params": …, "weight_decay": …}, …]`: groups for AdamW; only matrices decay.',
    judge=judge_groups,
    hint="Go through `model.modules()`, or through `model.named_parameters()`, and put every parameter into one of two "
    "lists. The weights of `nn.Linear` and of the patch projection, an `nn.Conv2d`, decay. Biases, norms, the class "
    "token and the positions do not, although some of these have two axes or more.",
    imports="from torch import nn",
)


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


class Recorded(torch.optim.SGD):
    """An optimizer that notes what a loop does: how often it asks the model, in which mode, and each step."""

    def __init__(self, model: nn.Module, groups: list[dict]):
        super().__init__(groups, lr=0.2, momentum=0.5)
        self.model, self.modes, self.steps = model, [], []
        model.register_forward_hook(lambda model, args, result: self.modes.append(model.training))

    def step(self):
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.model.parameters()]
        rates = [group["lr"] for group in self.param_groups]
        self.steps.append((rates, torch.cat([each.detach().flatten() for each in gradients])))
        super().step()


def to_train() -> tuple:
    """Return a small model in evaluation mode, its optimizer, batches and rates: the same each time."""
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Dropout(0.2), nn.Linear(8, 5)).double().eval()
    nn.init.normal_(model[3].weight, std=0.7)
    kinds = ((1, 5), (0.1, 5), (5, 2), (12, 1))  # sizes and classes: gradients longer and shorter than 1
    batches = [(size * torch.randn(6, 3, 2, 2).double(), torch.arange(6) % classes) for size, classes in kinds]
    return model, Recorded(model, my_parameter_groups(model, 0.1)), batches, [0.1, 0.3, 0.15, 0.05]


def outcome(losses, model, optimizer, batches, rates) -> tuple[Tensor, Tensor]:
    """Return the losses and all weights. Raises Wrong for losses that are no list of numbers."""
    kept = losses if isinstance(losses, (list, tuple)) else [None]
    if any(isinstance(loss, Tensor) and loss.requires_grad for loss in kept):
        raise Wrong("Your losses keep what their gradients need: memory grows with every step. Store `loss.item()`.")
    numbers = attempt(lambda: torch.tensor([float(loss) for loss in kept]).double())
    if isinstance(numbers, Exception):
        got = "a method, `loss.item` without brackets" if any(map(inspect.isbuiltin, kept)) else describe(losses)
        raise Wrong(f"The task asks for a list of {len(batches)} losses, plain numbers; got {got}.")
    if len(numbers) != len(batches):
        took = f"you took {len(optimizer.steps)} steps"
        raise Wrong(f"Your list has {len(numbers)} losses for {len(batches)} batches, and {took}.")
    return numbers, torch.cat([p.detach().flatten() for p in model.parameters()])


def plain_numbers(function):
    tensors = any(isinstance(loss, Tensor) for loss in function(*to_train()))
    return "One thing: your losses are tensors, and plain numbers are asked, `loss.item()`." if tensors else ""


# fmt: off
def as_asked(got, expected, model, optimizer, batches, rates):
    first, right, steps, asked = got[0][0].item(), expected[0][0].item(), optimizer.steps, len(batches)
    ours = to_train()
    my_training(*ours)
    yield all(optimizer.modes), "Your model is in evaluation mode, so dropout is off. Call `model.train()`."
    yield len(steps) == asked, (
        f"The optimizer that you were given took {len(steps)} steps for {asked} batches: one for each, and none with "
        "another optimizer.")
    named = {6: "the sum over its images", -1: "the sign is wrong"}.get(round(first / right), "")
    yield not named or abs(first / right - round(first / right)) > 1e-4, (
        f"The loss of the first batch is {first / right:.0f} times the right one: {named}.")
    yield close(first, right), (
        f"The loss of the first batch is {first:.4f}, and should be {right:.4f}: the mean cross-entropy of the "
        "logits, before the step. (`F.cross_entropy` takes logits: it applies the softmax itself.)")
    yield len(optimizer.modes) == asked, (
        f"You ask the model {len(optimizer.modes)} times for {asked} batches. Keep the loss that you have: it is the "
        "one before the step.")
    for n, ((given, mine), (_, theirs), rate) in enumerate(zip(steps, ours[1].steps, rates, strict=True)):
        yield given == [rate] * len(given), (
            f"In step {n} the optimizer's groups have the rates {given}. It must be {rate} in each, before the step.")
        long, length = mine.norm().item(), theirs.norm().item()
        along = (mine @ theirs).item() / (long * length) if long else 0.0
        yield long > 0, (
            f"In step {n} all gradients are zero: call `backward` and then `step`, without `zero_grad` between them.")
        yield along > -0.999, f"In step {n} your gradients point the other way: you make the loss larger."
        yield along > 0.999 or n == 0, (
            f"In step {n} your gradients are not those of this batch alone: `optimizer.zero_grad()` clears the others.")
        yield along > 0.999, (
            f"In step {n} your gradients have another direction than those of the loss. Shorten all of them together, "
            "by one factor: `clip_grad_norm_`.")
        yield abs(long - length) < 1e-4, (
            f"In step {n} your gradients, as one vector, are {long:.3g} long, and must be {length:.3g}: between "
            "`backward` and `step` all of the model's are shortened to 1 together, if they are longer.")
    yield False, "Your steps are the right ones, and your losses are not those of the batches before each step."
# fmt: on


training = Exercise(
    my_training,
    task="`fn(model, optimizer, batches, rates) -> losses`: train on each batch once, gradients clipped to 1.",
    trials=[to_train],
    view=outcome,
    probes=as_asked,
    more=plain_numbers,
    shape="losses (batches,); weights (all,)",
    gradients=False,
    hint="Before the loop, `model.train()`. For each batch: write its rate into every group of "
    "`optimizer.param_groups`, work out the loss, clear the old gradients, call `loss.backward()`, clip with "
    "`nn.utils.clip_grad_norm_`, and only then `optimizer.step()`. If the first loss is right and the second is not, "
    "look at the first step.",
    imports="import torch.nn.functional as F\nfrom torch import nn",
)


def my_learning_rate():
    rate, best = 0.0005, 0.0
    while (right := short_run(2 * rate)) > best:
        rate, best = 2 * rate, right
    return rate


FRESH_SEEDS, LEAST = (11, 12, 13), 0.5


def judge_rate(rate: object) -> str:
    """Train with three seeds at the reader's rate, at half and at twice of it. Raises Wrong if another is better."""
    if not is_number(rate) or not 0 < rate < 1:
        raise Wrong(f"Give a rate between 0 and 1, such as 0.0005; got {describe(rate)}.")
    runs = {rate: [short_run(rate, seed=seed) for seed in FRESH_SEEDS]}
    if max(runs[rate]) < LEAST:
        best = f"At most {max(runs[rate]):.0%} are right, with three new seeds."
        raise Wrong(f"{best} Try rates that differ by factors of ten.")
    runs |= {each: [short_run(each, seed=seed) for seed in FRESH_SEEDS] for each in (rate / 2, 2 * rate)}
    table = "\n".join(f"rate {each:g}: " + ", ".join(f"{right:.0%}" for right in runs[each]) for each in sorted(runs))
    for other in (rate / 2, 2 * rate):
        if all(theirs > mine for theirs, mine in zip(runs[other], runs[rate], strict=True)):
            raise Wrong(f"With each of three new seeds, {other:g} does better.\n{table}")
    return f"Neither half of it nor twice of it does better with each of three new seeds.\n{table}"


learning_rate = Hunt(
    my_learning_rate,
    task="`check.learning_rate(rate)`: a rate that neither its half nor its double beats, in `short_run`.",
    judge=judge_rate,
    hint="Multiply the rate by two, or by five, as long as that helps. Then try a rate between the last two. If two "
    "rates are close, ask again with another `seed`.",
    imports="from vit_tutorial.experiments import short_run",
)
