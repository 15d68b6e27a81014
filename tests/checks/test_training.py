"""The checks of notebook 06 on right and wrong answers."""

import copy

import pytest
import torch

from vit_tutorial import Shapes, VisionTransformer, ViTConfig, check
from vit_tutorial.checks import lesson_06_training
from vit_tutorial.model_card import ModelCard
from vit_tutorial.training import Recipe, fit, parameter_groups

from .variants import judged, solved


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


# What is changed in the solution of `training`

LOSS, ZERO, BACK = "F.cross_entropy(model(images), labels)", "optimizer.zero_grad()", "loss.backward()"
RATE, STEP, KEEP = 'group["lr"] = rate', "optimizer.step()", "loss.item()"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
BY_HAND = """size = sum(p.grad.square().sum() for p in model.parameters()) ** 0.5
        for p in model.parameters():
            p.grad /= max(size, 1)"""

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
        "zero at the end": (ZERO, "pass", STEP, f"{STEP}; {ZERO}", "losses = []", f"losses = []; {ZERO}"),
        "log-softmax": (LOSS, "F.nll_loss(model(images).log_softmax(dim=1), labels)"),
        "train in the loop": ("model.train()", "pass", "model(images)", "model.train()(images)"),
        "a tuple": ("return losses", "return tuple(losses)"),
        "clipped by hand": (CLIP, BY_HAND),
        "detached": (KEEP, "loss.detach()"),
    },
}  # fmt: skip
WRONG = {
    check.parameter_groups: [
        (groups_by(lambda n, p: is_matrix(n, p) or "norm" in n), "decay, and should not: `encoder.0.norm1.weight`"),
        (groups_by(lambda n, p: p.ndim > 1), "should not: `embeddings.class_token`, `embeddings"),
        (groups_by(lambda n, p: p.ndim > 1 and n not in ("embeddings.class_token", "embeddings.position.table")),
         "wrong at another. These decay"),
        (groups_by(lambda n, p: is_matrix(n, p) and "head" not in n), "`weight_decay`, 0.3, and do not: `head.weight`"),
        (lambda m, wd: parameter_groups(m, wd)[:1], "In no group, and so never trained: `embeddings.class_token`"),
        (edited(lambda g, m: [{**x, "params": 2 * list(x["params"])} for x in g]), "in your groups more than once"),
        (edited(lambda g, m: [x["params"] for x in g]), "AdamW does not take your groups"),
        ("id(parameter) not in decays", "parameter not in matrices", "`in` compares tensors by value"),
    ],
    check.training: [
        ("model.train()", "pass", "Your model is in evaluation mode"),
        ("losses = []", "losses = []; optimizer = torch.optim.AdamW(model.parameters())",
         "takes 0 steps for 4 batches"),
        (LOSS, f"6 * {LOSS}", ", 6 times 1."),
        (LOSS, "F.nll_loss(model(images), labels)", "Your first loss is 0.0"),
        ("model(images)", "model(images).softmax(1)", "Your first loss is 1."),
        (RATE, "pass", "have the rates [0.2, 0.2]. It must be 0.1"),
        (BACK, "(-loss).backward()", "In step 0 the cosine of your gradients with the right ones is -1.00"),
        (ZERO, "pass", "In step 1 the cosine of your gradients"),
        (CLIP, "[p.grad.clamp_(-0.1, 0.1) for p in model.parameters()]",
         "In step 0 the cosine of your gradients with the right ones is 0.9"),
        (CLIP, "pass", STEP, f"{STEP}; {CLIP}", "your gradients, as one vector, are 1.2"),
        ("1.0", "0.5", "are 0.5 long, and must be 1"),
        ("return losses", "return [losses[0], *losses[:0:-1]]", "not those of the batches, each before its step"),
        ("(images, labels), rate in zip", "images, labels, rate in zip", "A pair in a pair: `for (images, labels)"),
        ("return losses", "return torch.tensor(losses)", "for each batch (`loss.item()`, with brackets); got a tensor"),
        (KEEP, "loss", "memory grows with every step"),
        (KEEP, "loss.item", "got a list of 4"),
    ],
}  # fmt: skip


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


test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


RIGHT_AT = {0.1: [0.7, 0.8, 0.6], 0.2: [0.8, 0.7, 0.7], 0.4: [0.7, 0.6, 0.6], 1e-6: [0.3, 0.2, 0.2]}


@pytest.fixture
def runs(monkeypatch):
    """What `short_run` gets right at each rate, with each of the three new seeds."""
    right = {rate: list(found) for rate, found in RIGHT_AT.items()}
    monkeypatch.setattr(lesson_06_training, "short_run", lambda rate, seed: right[rate][seed - 11])
    return right


def test_a_rate_passes_unless_half_of_it_or_twice_of_it_does_better_with_each_seed(runs):
    assert check.learning_rate(None).status == "not attempted"
    assert check.learning_rate(0.2)
    runs[0.1][0] = 0.9
    assert check.learning_rate(0.2), "with two of three"
    runs[0.1] = [0.9, 0.9, 0.9]
    wrong = check.learning_rate(0.2)
    assert wrong.status == "wrong"
    assert "0.1 does better" in wrong.message
    assert "rate 0.1: 90.0%, 90.0%, 90.0%" in wrong.message, "the reader sees what was measured"


@pytest.mark.parametrize("rate", ["0.008", -0.1, 3, True, print])
def test_what_is_no_rate_is_told_what_one_is(rate):
    assert "Give a rate between 0 and 1" in check.learning_rate(rate).message


def test_a_rate_that_learns_nothing_does_not_pass_because_its_neighbours_are_as_bad(runs):
    assert "factors of ten" in check.learning_rate(1e-6).message
