"""Lesson 06: which parameters decay, the training loop, and a learning rate."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import ViTConfig
from ..experiments import short_run
from ..model import VisionTransformer
from .exercise import Exercise
from .running import Wrong, attempt, body_of, call, describe, first_three, is_number, same, stopped_by
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


def judge_groups(function: Callable) -> None:
    """Raise Wrong unless every parameter of each model is in one group, and the matrices alone decay."""
    for position, (depth, weight_decay) in MODELS.items():
        sizes = {"patch_size": 2, "num_classes": 5, "embed_dim": 12, "num_heads": 3, "mlp_dim": 20, "depth": depth}
        model = VisionTransformer(ViTConfig((6, 4), position=position, **sizes))
        try:
            check_decay(read_groups(call(function, model, weight_decay), model), model, weight_decay)
        except Wrong as wrong:
            if re.search("must match the size|Boolean value of Tensor", str(wrong.error)):
                wrong.message += f"\n{BY_VALUE}"
            if position != "learned":
                wrong.message = f"Right with learned positions, but not with {position} positions. {wrong.message}"
            raise


def read_groups(groups, model: nn.Module) -> dict[str, float]:
    """Return the weight decay of every parameter by its name. Raises Wrong unless each is in one group for AdamW."""
    shape = 'Return `[{"params": [...], "weight_decay": weight_decay}, {"params": [...], "weight_decay": 0.0}]`.'
    if not isinstance(groups, (list, tuple)):
        raise Wrong(f"The task asks for a list of groups; got {describe(groups)}. {shape}")
    for number, group in enumerate(groups):
        if not isinstance(group, dict) or "params" not in group or not is_number(group.get("weight_decay")):
            raise Wrong(f'Group {number} must be a dictionary with "params" and "weight_decay", a number. {shape}')
    optimizer = attempt(torch.optim.AdamW, groups)  # the reader's generators run here
    if isinstance(optimizer, Exception):
        stopped = stopped_by(optimizer)
        raise stopped if stopped.code else Wrong(f"AdamW does not take your groups: {optimizer}".rstrip("."))
    names = {id(p): name for name, p in model.named_parameters()}
    given = [(id(p), group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]]
    found = {names.get(key): decay for key, decay in given}
    if None in found:
        raise Wrong("Your groups hold tensors that are no parameters of the model: copies, or buffers, perhaps?")
    if missing := [name for name in names.values() if name not in found]:
        raise Wrong(f"In no group, and so never trained: {first_three(missing)}. Let an `else` take what is left over.")
    if len(given) > len(found):
        raise Wrong("A parameter is in a group more than once.")
    return found


def check_decay(found: dict[str, float], model: nn.Module, weight_decay: float) -> None:
    """Raise Wrong, with the names of parameters, unless the matrices decay by the given number and nothing else."""
    right = read_groups(my_parameter_groups(model, weight_decay), model)
    many = [name for name in right if found[name] and not right[name]]
    few = [name for name in right if right[name] and found[name] != right[name]]
    lines = [f"These decay, and should not: {first_three(many)}."] if many else []
    if many and all(model.get_parameter(name).ndim > 1 for name in many):
        lines.append("They are bare parameters with two axes or more: a rule by `ndim` takes them for matrices.")
    if few:
        lines.append(
            f"These should decay by the given `weight_decay`, {weight_decay:g}, and do not: {first_three(few)}."
        )
    if lines:
        raise Wrong("\n".join(lines))


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


def to_train() -> tuple:
    """Return a small model in evaluation mode, its optimizer, batches and rates: the same each time."""
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Dropout(0.2), nn.Linear(8, 5)).double().eval()
    nn.init.normal_(model[3].weight, std=0.7)
    kinds = ((0.1, 5), (1, 5), (5, 2), (12, 1))  # sizes and classes: gradients shorter and longer than 1
    batches = [(size * torch.randn(6, 3, 2, 2).double(), torch.arange(6) % classes) for size, classes in kinds]
    optimizer = torch.optim.SGD(my_parameter_groups(model, 0.1), lr=0.2, momentum=0.5)
    return model, optimizer, batches, [0.1, 0.3, 0.15, 0.05]


def all_weights(model: nn.Module) -> Tensor:
    return torch.cat([torch.zeros(0), *(p.detach().flatten() for p in model.parameters())])


def outcome(losses, model, optimizer, batches, rates) -> tuple[Tensor, Tensor]:
    """Return the losses and all weights. Raises Wrong for another optimizer, or losses that are no list of numbers."""
    if not optimizer.state and not same(all_weights(model), all_weights(to_train()[0])):
        raise Wrong("The optimizer that you were given took no step. Use it, and build none of your own.")
    kept = losses if isinstance(losses, (list, tuple)) else [None]
    if any(callable(loss) and not isinstance(loss, Tensor) for loss in kept):
        raise Wrong("`loss.item` is the method itself. Call it: `loss.item()`.")
    if any(isinstance(loss, Tensor) and loss.requires_grad for loss in kept):
        raise Wrong("Your losses keep what their gradients need: memory grows with every step. Store `loss.item()`.")
    numbers = attempt(lambda: torch.tensor([float(loss) for loss in kept]).double())
    if isinstance(numbers, Exception):
        raise Wrong(f"The task asks for a list of {len(batches)} losses, plain numbers; got {describe(losses)}.")
    return numbers, all_weights(model)


RATE, LOSS, UPDATE = 'group["lr"] = rate', "F.cross_entropy(model(images), labels)", "optimizer.step()"
PAIRS, CLIP = "zip(batches, rates, strict=True)", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
NOT_CLIPPED = "The gradients are not clipped: call `clip_grad_norm_` between `backward` and `step`."
OTHERS_CLIPPED = "You clip, and not the model's gradients: `clip_grad_norm_(model.parameters(), 1.0)`."
TOO_EARLY = "The gradients are clipped too early: before `backward` there is nothing to clip yet."
TOO_LATE = "The gradients are clipped too late: `step` has used them already."
FORGOTTEN = {
    "Your model is in evaluation mode, so dropout is off. Call `model.train()`.": ("model.train()", ""),
    "The gradients of the batches add up: `optimizer.zero_grad()` is missing.": ("optimizer.zero_grad()", ""),
    "The rate is never set: the optimizer keeps the one it started with.": (RATE, "pass"),
    NOT_CLIPPED: (CLIP, ""),
}
TRAINING_SLIPS = FORGOTTEN | {
    **{f"Two things. {one} {other}": FORGOTTEN[one] + FORGOTTEN[other] for one, other in combinations(FORGOTTEN, 2)},
    "All steps have the rate of the first batch. Each batch has its own.": (RATE, 'group["lr"] = rates[0]'),
    "The rate is multiplied into what the group has. Write it there instead.": (RATE, 'group["lr"] *= rate'),
    "The rate comes one step late: set it before `optimizer.step()`.":
        (RATE, "pass", UPDATE, f"{UPDATE}; [group.update(lr=rate) for group in optimizer.param_groups]"),
    "The rate is set for the first group only, and the optimizer has two.": ("param_groups:", "param_groups[:1]:"),
    "A loop inside a loop takes every batch at every rate, or at the last. `zip(batches, rates)` goes through both "
    "together.": [("= rate\n", "= rates[-1]\n"),
                  (PAIRS, "[(batch, rate) for batch in batches for rate in rates]"),
                  (PAIRS, "[(batch, rate) for rate in rates for batch in batches]")],
    "`zip` gives (batch, rate), and a batch is a pair itself: `for (images, labels), rate in zip(batches, rates):`.":
        ("(images, labels), rate in", "images, labels, rate in"),
    "Only the first batch is trained on: is `return` inside the loop?":
        ("losses.append(loss.item())", "return [loss.item()]"),
    "Your loss is the sum over the images, not their mean.": ("labels)\n", "labels, reduction='sum')\n"),
    "`F.cross_entropy` takes logits: it applies the softmax itself.": ("model(images)", "model(images).softmax(dim=1)"),
    "`F.cross_entropy` takes the logits first, then the labels.": ("model(images), labels", "labels, model(images)"),
    "The sign is wrong: you make the loss larger.": [("loss.b", "(-loss).b"), ("loss = F", "loss = -F")],
    "You clip each value of a gradient. The task asks for the norm of all gradients together.":
        (CLIP, CLIP.replace("norm", "value")),
    "You clip the gradients, but not all of them together: give `clip_grad_norm_` all parameters of the model at once.":
        [(CLIP, "nn.utils.clip_grad_norm_(optimizer.param_groups[0]['params'], 1.0)"),
         (CLIP, "[nn.utils.clip_grad_norm_(p, 1.0) for p in model.parameters()]"),
         (CLIP, "[nn.utils.clip_grad_norm_(group['params'], 1.0) for group in optimizer.param_groups]")],
    "You scale the gradients to length 1 even if they are shorter.":
        (CLIP, f"size = {CLIP.replace('1.0', '1e9')}; [p.grad.div_(size) for p in model.parameters()]"),
    "You clip the gradients to another length than 1.":
        [(CLIP, CLIP.replace("1.0", size)) for size in ("0.01", "0.1", "0.5", "2", "5", "10")],
    "The weights are as they were. Call `backward` and then `step`, without `zero_grad` between them.": (UPDATE, ""),
    "You take two steps for each batch.": (UPDATE, f"{UPDATE}; {UPDATE}"),
    "You ask the model once more, and dropout then draws other numbers. Keep the first loss.":
        [(UPDATE, f"{UPDATE}; loss = {LOSS}"), (UPDATE, f"{UPDATE}; model(images)")],
    "Here `optimizer.step()` writes, into the weights, before `backward` could use them. Call `backward` first.":
        (UPDATE, "", "optimizer.zero_grad()", f"{UPDATE}; optimizer.zero_grad()"),
}  # fmt: skip


def judge_training(function: Callable) -> str | None:
    """Compare with the solution; of gradients that are not clipped say, by the reader's source, when they should be."""
    try:
        return training.compare(function)
    except Wrong as wrong:
        source = ast.unparse(ast.Module(body_of(function), []))
        clip, backward, step = (source.find(word) for word in ("clip_grad", "backward", ".step("))
        if 0 <= clip < backward:
            wrong.message = wrong.message.replace(NOT_CLIPPED, TOO_EARLY)
        elif 0 <= step < clip:
            wrong.message = wrong.message.replace(NOT_CLIPPED, TOO_LATE)
        elif clip >= 0:
            wrong.message = wrong.message.replace(NOT_CLIPPED, OTHERS_CLIPPED)
        raise


training = Exercise(
    my_training,
    task="`fn(model, optimizer, batches, rates) -> losses`: train on each batch once, gradients clipped to 1.",
    trials=[to_train],
    view=outcome,
    slips=TRAINING_SLIPS,
    judge=judge_training,
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
