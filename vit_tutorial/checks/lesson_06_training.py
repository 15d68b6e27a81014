"""Lesson 06: which parameters decay, the loop, a learning rate."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..config import ViTConfig
from ..errors import is_number
from ..experiments import short_run
from ..model import VisionTransformer
from .exercise import Exercise
from .running import Wrong, attempt, close, describe, listed, stopped_by, tensors_in
from .task import Hunt


def my_parameter_groups(model, weight_decay):
    matrices = [layer.weight for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    decays = {id(matrix) for matrix in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in decays]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def a_model(position, depth, weight_decay):
    sizes = {"patch_size": 2, "num_classes": 5, "embed_dim": 12, "num_heads": 3, "mlp_dim": 20}
    return VisionTransformer(ViTConfig((6, 4), position=position, depth=depth, **sizes)), weight_decay


def decays(groups, model, weight_decay):
    """Return the weight decay of each parameter. Raises Wrong unless each is in one group for AdamW."""
    optimizer = attempt(torch.optim.AdamW, groups)  # the reader's generators run here
    if isinstance(optimizer, Exception):
        raise stopped_by(optimizer, told="AdamW does not take your groups")
    given = [(id(p), group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]]
    found, named = dict(given), dict(model.named_parameters())
    if missing := [name for name, p in named.items() if id(p) not in found]:
        raise Wrong(f"In no group, and so never trained: {listed(missing)}. Let an `else` take what is left over.")
    if len(given) > len(named):
        raise Wrong("A parameter is in your groups more than once, or is none of the model's.")
    return torch.tensor([found[id(p)] for p in named.values()], dtype=torch.float32)


def probe_groups(got, expected, model, weight_decay):
    names = [name for name, _ in model.named_parameters()]
    many = [name for name, more in zip(names, got > expected, strict=True) if more]
    few = [name for name, less in zip(names, got < expected, strict=True) if less]
    yield many, f"These decay, and should not: {listed(many)}."
    yield True, f"These should decay by `weight_decay`, {weight_decay:g}, and do not: {listed(few)}."


parameter_groups = Exercise(
    my_parameter_groups,
    task='`fn(model, weight_decay) -> [{"params": …, "weight_decay": …}, …]`: groups for AdamW; only matrices decay.',
    trials=[partial(a_model, *each) for each in (("learned", 2, 0.3), ("sincos", 1, 0.05), ("factorized", 3, 0.1))],
    view=decays,
    probes=probe_groups,
    shape="(parameters,)",
    clue="What decays are the weights of `nn.Linear` and `nn.Conv2d`: ask for a layer's type, or look at the names.",
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


def to_train():
    """Return the same each time: a small model, an optimizer that notes what is done, batches and rates."""
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Dropout(0.2), nn.Linear(8, 5)).double().eval()
    optimizer = torch.optim.SGD(my_parameter_groups(model, 0.1), lr=0.2, momentum=0.5)
    optimizer.modes, optimizer.steps = [], []

    def note(optimizer, *rest):
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        rates = [group["lr"] for group in optimizer.param_groups]
        optimizer.steps.append((rates, torch.cat([each.detach().flatten() for each in gradients])))

    model.register_forward_hook(lambda model, *rest: optimizer.modes.append(model.training))
    optimizer.register_step_pre_hook(note)
    kinds = ((1, 5), (0.1, 5), (5, 2), (12, 1))  # sizes and classes: gradients longer and shorter than 1
    batches = [(size * torch.randn(6, 3, 2, 2).double(), torch.arange(6) % classes) for size, classes in kinds]
    return model, optimizer, batches, [0.1, 0.3, 0.15, 0.05]


def outcome(losses, model, optimizer, batches, rates):
    """Return the losses and all weights. Raises Wrong for losses that are no list of numbers."""
    if any(loss.requires_grad for loss in tensors_in([losses])):
        raise Wrong("Your losses keep what their gradients need: memory grows with every step. Store `loss.item()`.")
    numbers = attempt(lambda: torch.tensor([float(loss) for loss in losses]).double())
    if not isinstance(losses, (list, tuple)) or isinstance(numbers, Exception) or len(numbers) != len(batches):
        raise Wrong(f"Return a list: a number for each batch (`loss.item()`, with brackets); got {describe(losses)}.")
    return numbers, torch.cat([p.detach().flatten() for p in model.parameters()])


def probe_steps(got, expected, model, optimizer, batches, rates):
    ours = to_train()
    my_training(*ours)
    yield not all(optimizer.modes), "Your model is in evaluation mode, so dropout is off. Call `model.train()`."
    steps = len(optimizer.steps)
    yield steps != 4, f"The optimizer that you are given takes {steps} steps for 4 batches. Take one for each, with it."
    first, right = got[0][0].item(), expected[0][0].item()
    told = f"Your first loss is {first:.4f}, {first / right:.3g} times {right:.4f}: `F.cross_entropy` of the logits"
    yield not close(first, right), f"{told} is asked, the mean over the batch, before the step."
    for n, rate in enumerate(rates):
        (given, mine), (_, right) = optimizer.steps[n], ours[1].steps[n]
        yield set(given) != {rate}, f"In step {n} the groups have the rates {given}. It must be {rate} in each."
        yield not mine.any(), f"In step {n} there are no gradients: `zero_grad`, then `backward`, and only then `step`."
        cosine = F.cosine_similarity(mine, right, dim=0)
        told = f"In step {n} the cosine of your gradients with the right ones is {cosine:.2f}"
        yield cosine < 0.999, f"{told}: clear the old ones, and shorten all together, by one factor."
        length, asked = mine.norm(), right.norm()
        told = f"In step {n} your gradients, as one vector, are {length:.3g} long, and must be {asked:.3g}"
        yield not close(length, asked), f"{told}: between `backward` and `step`, shorten to 1 what is longer."
    yield True, "Your steps are right, and your losses are not those of the batches, each before its step."


training = Exercise(
    my_training,
    task="`fn(model, optimizer, batches, rates) -> losses`: train on each batch once, gradients clipped to 1.",
    trials=[to_train],
    view=outcome,
    probes=probe_steps,
    shape="losses (batches,); weights (all,)",
    clue="If the first loss is right and the second is not, look at step 0: which calls come before `step`, in order?",
    imports="import torch.nn.functional as F\nfrom torch import nn",
)


def my_learning_rate():
    rate, best = 0.0005, 0.0
    while (right := short_run(2 * rate)) > best:
        rate, best = 2 * rate, right
    return rate


def judge_rate(rate):
    """Train with three seeds at the reader's rate, at half and at twice of it. Raises Wrong if another is better."""
    if not is_number(rate) or not 0 < rate < 1:
        raise Wrong(f"Give a rate between 0 and 1, such as 0.0005; got {describe(rate)}.")
    found = {}
    for each in (rate, rate / 2, 2 * rate):
        found[each] = [short_run(each, seed=seed) for seed in (11, 12, 13)]
        table = "".join(f"\nrate {each:g}: " + ", ".join(f"{right:.1%}" for right in found[each]) for each in found)
        if max(found[rate]) < 0.5:
            raise Wrong(f"Too few are right. Try rates that differ by factors of ten.{table}")
        if all(theirs > mine for theirs, mine in zip(found[each], found[rate], strict=True)):
            raise Wrong(f"With each of three new seeds, {each:g} does better (one time in eight by luck).{table}")
    return f"Neither half of it nor twice of it does better with each of three new seeds.{table}"


learning_rate = Hunt(
    my_learning_rate,
    task="`check.learning_rate(rate)`: a rate that neither its half nor its double beats, in `short_run`.",
    judge=judge_rate,
    clue="Double the rate as long as that helps. If two rates are close, ask again with another `seed`.",
    imports="from vit_tutorial.experiments import short_run",
)
