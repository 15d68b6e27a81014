"""The checks of notebook 06 on right and wrong answers."""

import copy

import pytest
import torch

from vit_tutorial import Shapes, VisionTransformer, ViTConfig, check
from vit_tutorial.checks import lesson_06_training
from vit_tutorial.experiments import short_run
from vit_tutorial.model_card import ModelCard
from vit_tutorial.training import Recipe, fit, parameter_groups

from .variants import assert_wrong, cell, judged, solved


def groups_by(decays, take=list):
    """Groups for AdamW, sorted by `decays(name, parameter)`."""

    def mine(model, weight_decay):
        named = list(model.named_parameters())
        return [
            {"params": take(p for n, p in named if decays(n, p)), "weight_decay": weight_decay},
            {"params": take(p for n, p in named if not decays(n, p)), "weight_decay": 0.0},
        ]

    return mine


def is_matrix(name, p):
    return name.endswith("weight") and "norm" not in name


def edited(change):
    """The package's groups with one thing changed: `change(groups, model)`."""
    return lambda model, weight_decay: change(parameter_groups(model, weight_decay), model)


STEPS = {
    "rate": "[group.update(lr=rate) for group in optimizer.param_groups]",
    "zero": "optimizer.zero_grad()",
    "backward": "loss.backward()",
    "clip": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "step": "optimizer.step()",
}


def loop(
    begin="model.train()",
    step="rate; zero; backward; clip; step",
    loss="F.cross_entropy(model(x), y)",
    end="losses",
    over="(x, y), rate in zip(batches, rates)",
    keep="loss.item()",
):
    """The loop as people write it: what stands before it, the steps in order, the loss, and what is returned."""
    body = "\n        ".join(STEPS.get(name, name) for name in step.split("; "))
    return cell(f"""
def mine(model, optimizer, batches, rates):
    {begin or "pass"}
    losses = []
    for {over}:
        loss = {loss}
        {body}
        losses.append({keep})
    return {end}
""")["mine"]


RIGHT = {
    check.parameter_groups: {
        "the package's": parameter_groups,
        "by name": groups_by(is_matrix),
        "generators": groups_by(is_matrix, take=lambda params: (p for p in list(params))),
        "by axes and name": groups_by(lambda n, p: p.ndim > 1 and "token" not in n and "position" not in n),
        "one each": lambda m, wd: [
            {"params": p, "weight_decay": wd * is_matrix(n, p)} for n, p in m.named_parameters()
        ],
        "by type, with more": edited(lambda g, m: [{**x, "lr": 1e-3} for x in g[::-1]]),
    },
    check.training: {
        "zero first": loop(step="zero; rate; backward; clip; step"),
        "zero at the end": loop("optimizer.zero_grad(); model.train()", "rate; backward; clip; step; zero"),
        "log-softmax": loop(loss="F.nll_loss(model(x).log_softmax(dim=1), y)"),
        "train in the loop": loop("", loss="F.cross_entropy(model.train()(x), y)"),
        "a tuple": loop(end="tuple(losses)"),
        "clipped by hand": loop(
            step="rate; zero; backward; size = sum(p.grad.square().sum() for p in model.parameters()) ** 0.5; "
            "[p.grad.div_(size) for p in model.parameters() if size > 1]; step"
        ),
        "detached": loop(keep="loss.detach()"),
    },
}
WRONG = {
    check.parameter_groups: [
        (groups_by(lambda n, p: is_matrix(n, p) or "norm" in n), "decay, and should not: `encoder.*.norm1.weight`"),
        (groups_by(lambda n, p: p.ndim > 1), "`embeddings.class_token`, `embeddings.position.table`. They are bare "
         "parameters with two axes or more: a rule by `ndim`"),
        (groups_by(lambda n, p: p.ndim > 1 and n not in ("embeddings.class_token", "embeddings.position.table")),
         "Right with learned positions, but not with factorized positions. These decay, and should not"),
        (groups_by(lambda n, p: is_matrix(n, p) and "head" not in n), "`weight_decay`, 0.3, and do not: `head.weight`"),
        (lambda m, wd: parameter_groups(m, wd)[:1], "In no group, and so never trained: `embeddings.class_token`"),
        (edited(lambda g, m: [{"params": [*x["params"], *x["params"]], "weight_decay": x["weight_decay"]} for x in g]),
         "in a group more than once"),
        (edited(lambda g, m: [{"params": g[0]["params"]}, g[1]]), 'with "params" and "weight_decay", a number'),
    ],
    check.training: [
        (loop("model.train(); optimizer = torch.optim.AdamW(model.parameters())"), "took no step. Use it"),
        (loop(step="rate; zero; backward; step; clip"), "clipped too late: `step` has used them already"),
        (loop(step="rate; zero; clip; backward; step"), "clipped too early: before `backward` there is nothing"),
        (loop("", step="rate; zero; backward; step"), "Call `model.train()`. The gradients are not clipped: call"),
        (loop(over="x, y, rate in zip(batches, rates)"), "`for (images, labels), rate in zip(batches, rates):`"),
        (loop(loss="F.cross_entropy(model(x), y) / 2"), "0 of 4 agree. The first that differs is at [0]"),
        (loop(end="torch.tensor(losses)"), "a list of 4 losses, plain numbers; got a tensor of shape (4,)"),
        (loop(end="batches.mean()"), "It was called as `mine(model=Sequential(…), optimizer=SGD(…), batches=["),
        (loop(keep="loss"), "memory grows with every step"),
    ],
}  # fmt: skip


def test_comparing_tensors_by_value_is_explained():
    mine = cell("""
        def mine(model, weight_decay):
            first = [p for n, p in model.named_parameters() if p.ndim > 1]
            rest = [p for p in model.parameters() if p not in first]
            return [{"params": first, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    """)["mine"]
    assert_wrong(check.parameter_groups, mine, "compare tensors by value")


@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")
def test_the_loop_that_is_asked_for_is_the_one_of_fit():
    """Same order of images, same rates: the same weights, bit by bit."""
    images = Shapes(40, image_size=28, seed=0)
    recipe = Recipe(epochs=2, batch_size=16, learning_rate=0.01, warmup_epochs=1.0)
    torch.manual_seed(0)
    config = ViTConfig(28, 4, num_classes=8, embed_dim=8, depth=1, num_heads=2, mlp_dim=16, dropout=0.1)
    mine = VisionTransformer(config)
    theirs = copy.deepcopy(mine)
    fit(theirs, images, recipe)
    steps = recipe.steps_per_epoch(len(images))
    optimizer = torch.optim.AdamW(parameter_groups(mine, recipe.weight_decay), fused=True)
    card = ModelCard(images.classes, *images.mean_std())
    for epoch in range(recipe.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(recipe.epoch_seed(epoch)))
        batches = [(card.normalise(images.pixels[part]), images.labels[part]) for part in order.tensor_split(steps)]
        torch.manual_seed(4096 * (1 + recipe.epoch_seed(epoch)))  # dropout's
        rates = [recipe.learning_rate_at(step, steps) for step in range(epoch * steps, (epoch + 1) * steps)]
        solved(check.training)(mine, optimizer, batches, rates)
    for name, weight in theirs.named_parameters():
        assert torch.equal(mine.get_parameter(name), weight), name


test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


def test_a_rate_passes_unless_half_of_it_or_twice_of_it_does_better(monkeypatch):
    monkeypatch.setattr(lesson_06_training, "FRESH_SEEDS", (13,))
    assert check.learning_rate(None).status == "not attempted"
    assert check.learning_rate(0.008)
    high = check.learning_rate(0.016)
    assert high.status == "wrong"
    assert "0.008 does better" in high.message
    assert high.message.count("rate 0.0") == 3, "the reader sees what was measured"


def test_another_rate_does_better_only_if_it_does_so_with_each_seed(monkeypatch):
    right = {0.1: [0.7, 0.8, 0.6], 0.2: [0.8, 0.7, 0.7], 0.4: [0.7, 0.6, 0.6]}
    monkeypatch.setattr(lesson_06_training, "short_run", lambda rate, seed: right[rate][seed - 11])
    assert check.learning_rate(0.2)
    right[0.1][0] = 0.9
    assert check.learning_rate(0.2), "with two of three"
    right[0.1] = [0.9, 0.9, 0.9]
    assert "0.1 does better" in check.learning_rate(0.2).message


@pytest.mark.parametrize("rate", ["0.008", -0.1, 3, True, short_run])
def test_what_is_no_rate_is_told_what_one_is(rate):
    assert "Give a rate between 0 and 1" in check.learning_rate(rate).message


def test_a_rate_that_learns_nothing_does_not_pass_because_its_neighbours_are_as_bad(monkeypatch):
    monkeypatch.setattr(lesson_06_training, "FRESH_SEEDS", (11,))
    assert "factors of ten" in check.learning_rate(1e-6).message
