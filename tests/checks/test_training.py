"""The checks of notebook 06 on right and wrong answers."""

import copy

import pytest
import torch

from vit_tutorial import Shapes, VisionTransformer, ViTConfig, check
from vit_tutorial.model_card import ModelCard
from vit_tutorial.training import Recipe, fit, parameter_groups

from .variants import assert_wrong, cell, judged, solved

RIGHT, WRONG = {}, {}

# Groups for AdamW: functions of (model, weight_decay) that sort parameters by a rule


def groups_by(decays, take=list):
    """Two groups, sorted by `decays(name, parameter)`."""

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

    def mine(model, weight_decay):
        groups = parameter_groups(model, weight_decay)
        return change(groups, model) or groups

    return mine


RIGHT[check.parameter_groups] = {
    "the package's": parameter_groups,
    "by name": groups_by(is_matrix),
    "generators": groups_by(is_matrix, take=lambda params: (p for p in list(params))),
    "tuples": groups_by(is_matrix, take=tuple),
    "by axes and name": groups_by(lambda n, p: p.ndim > 1 and "token" not in n and "position" not in n),
    "one each": lambda m, wd: [{"params": p, "weight_decay": wd * is_matrix(n, p)} for n, p in m.named_parameters()],
    "by type, with more": edited(lambda g, m: [{**x, "lr": 1e-3} for x in g[::-1]]),
    "names too": lambda model, wd: [
        {"params": [(n, p) for n, p in model.named_parameters() if is_matrix(n, p) is want], "weight_decay": wd * want}
        for want in (True, False)
    ],
}


def matrices_and(rest):
    """By axes, and the other group is `rest`, Python in which `matrices` is the first."""
    return cell(f"""
        def mine(model, weight_decay):
            matrices = [p for n, p in model.named_parameters() if p.ndim > 1]
            rest = {rest}
            return [{{"params": matrices, "weight_decay": weight_decay}}, {{"params": rest, "weight_decay": 0.0}}]
    """)["mine"]


def only(decays):
    return lambda model, wd: [{"params": [p for n, p in model.named_parameters() if decays(n, p)], "weight_decay": wd}]


WRONG[check.parameter_groups] = [
    (only(lambda n, p: True), "Everything decays: all parameters are in groups"),
    (groups_by(lambda n, p: is_matrix(n, p) or "norm" in n), "The norms decay, and should not"),
    (groups_by(lambda n, p: n.endswith("weight")), "Some of the norms decay, and should not"),
    (groups_by(lambda n, p: isinstance(n, str) and "norm" not in n and "token" not in n and "pos" not in n),
     "The biases decay, and should not"),
    (groups_by(lambda n, p: is_matrix(n, p) or n == "embeddings.class_token"),
     "The class token decays, and should not: `embeddings.class_token`."),
    (groups_by(lambda n, p: is_matrix(n, p) or "position" in n), "The positions decay, and should not"),
    (groups_by(lambda n, p: p.ndim > 1),
     "The positions decay, and should not: `embeddings.position.table`. The class token decays, and should not: "
     "`embeddings.class_token`. These are bare parameters with two axes or more: a rule by `ndim`"),
    (groups_by(lambda n, p: p.ndim == 2 and "position" not in n), "and should: `embeddings.patches.projection.weight`"),
    (groups_by(lambda n, p: p.ndim > 1 and n not in ("embeddings.class_token", "embeddings.position.table")),
     "Right with learned positions, but not with factorized positions. The positions decay"),
    (groups_by(lambda n, p: p.ndim > 1 and "class_token" not in n and "table" not in n), "Some of the positions decay"),
    (groups_by(lambda n, p: is_matrix(n, p) and "head" not in n), "matrices do not decay, and should: `head.weight`"),
    (only(is_matrix), "In no group, and so never trained"),
    (edited(lambda g, m: g[1]["params"].append(m.head.weight)), "More than once in your groups: `head.weig"),
    (lambda m, wd: groups_by(lambda n, p: not is_matrix(n, p))(m, wd), "The groups are exchanged"),
    (groups_by(lambda n, p: False), "Nothing decays"),
    (lambda m, wd: parameter_groups(m, 0.1), "The matrices decay by 0.1, not by the given"),
    (edited(lambda g, m: [{"params": g[0]["params"]}, g[1]]), 'Group 0 has no "weight_decay"'),
    (edited(lambda g, m: [{"parameters": g[0]["params"]}, g[1]]), 'Group 0 has no "params"'),
    (edited(lambda g, m: [{**x, "params": [p.clone().detach() for p in x["params"]]} for x in g]), "of the model's"),
    (lambda m, wd: [*parameter_groups(m, wd), {"params": m.buffers(), "weight_decay": 0}], "a buffer, not a parameter"),
    (edited(lambda g, m: [{**x, "weight_decay": "0"} for x in g]), 'The "weight_decay" of group 0'),
    (edited(lambda g, m: [{**g[0], "params": [("a", p) for p in g[0]["params"]]}, g[1]]), "AdamW does not take your"),
    (edited(lambda g, m: g[1]["params"].append(torch.zeros(3))), "not parameters of the model"),
    (edited(lambda g, m: [{**g[0], "params": [n for n, _ in m.named_parameters()]}, g[1]]), "is the name"),
    (edited(lambda g, m: [{**g[0], "params": set(g[0]["params"])}, g[1]]), "AdamW takes no set"),
    (edited(lambda g, m: ([1], [2])), "group 0 is a value of type list"),
    (edited(lambda g, m: g[0]), "got one dictionary"),
    (edited(lambda g, m: torch.optim.AdamW(g)), "The task asks for a list of groups"),
    (edited(lambda g, m: [{**g[0], "params": [m.head]}, g[1]]), "is a value of type Linear"),
    (lambda m, wd: m.blocks, "VisionTransformer(…)"),
    (lambda m, wd: [{"params": (p for n, p in m.named_parameters() if n.is_norm), "weight_decay": wd}],
     "'str' object has no attribute 'is_norm'"),
]  # fmt: skip


@pytest.mark.parametrize(
    "rest",
    [
        "[p for p in model.parameters() if p not in matrices]",
        "list(filter(lambda p: p not in matrices, model.parameters()))",
        "[*matrices].remove(model.head.bias)",
    ],
)
def test_comparing_tensors_by_value_is_explained(rest):
    verdict = assert_wrong(check.parameter_groups, matrices_and(rest), "compare tensors by value")
    assert verdict.code == f"rest = {rest}"
    assert "RuntimeError" in verdict.message


@pytest.mark.parametrize("rest", ["'norm' in torch.cat([p, model.head.bias])", "matrices[0] @ p", "p + matrices[-1]"])
def test_comparing_by_value_is_not_blamed_for_another_error(rest):
    verdict = assert_wrong(check.parameter_groups, matrices_and(f"[{rest} for p in matrices]"), "Error")
    assert "compare tensors by value" not in verdict.message


# The training loop


def loop(begin="model.train()", step="rate; zero; backward; clip; step", loss="F.cross_entropy(model(x), y)", end=""):
    """The loop as people write it: what stands before it, the steps in order, the loss, and what is returned."""
    lines = {
        "rate": "[group.update(lr=rate) for group in optimizer.param_groups]",
        "rate of one group": "optimizer.param_groups[0]['lr'] = rate",
        "zero": "optimizer.zero_grad()",
        "backward": "loss.backward()",
        "clip": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "clip values": "torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)",
        "clip each": "[torch.nn.utils.clip_grad_norm_(p, 1.0) for p in model.parameters()]",
        "clip groups": "[torch.nn.utils.clip_grad_norm_(group['params'], 1.0) for group in optimizer.param_groups]",
        "clip first": "torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]['params'], 1.0)",
        "divide": "[p.grad.div_(norm) for norm in [nn.utils.get_total_norm([p.grad for p in model.parameters()])] "
        "for p in model.parameters()]",
        "times the rate": "[group.update(lr=group['lr'] * rate) for group in optimizer.param_groups]",
        "step": "optimizer.step()",
    }
    body = "\n        ".join(lines.get(name, name) for name in step.split("; "))
    return cell(f"""
def mine(model, optimizer, batches, rates):
    {begin or "pass"}
    losses = []
    for (x, y), rate in zip(batches, rates):
        loss = {loss}
        {body}
        losses.append(loss.item())
    return {end or "losses"}
""")["mine"]


RIGHT[check.training] = {
    "zero first": loop(step="zero; rate; backward; clip; step"),
    "zero at the end": loop("optimizer.zero_grad(); model.train()", "rate; backward; clip; step; zero"),
    "log-softmax": loop(loss="F.nll_loss(model(x).log_softmax(dim=1), y)"),
    "train in the loop": loop("", loss="F.cross_entropy(model.train()(x), y)"),
    "a tuple": loop(end="tuple(losses)"),
}
WRONG[check.training] = [
    (loop("model.train(); optimizer = torch.optim.AdamW(model.parameters())"), "took no step. Use it"),
    (loop(step="rate; backward; clip; step"), "`optimizer.zero_grad()` is missing"),
    (loop(step="rate; backward; zero; clip; step"), "The weights are as they were"),
    (loop(step="rate; zero; backward; clip"), "The weights are as they were"),
    (loop(step="rate; zero; step; clip"), "The weights are as they were"),
    (loop(begin=""), "in evaluation mode, so dropout is off"),
    (loop(begin="model.eval()"), "in evaluation mode, so dropout is off"),
    (loop(step="zero; backward; clip; step"), "The rate is never set"),
    (loop(step="zero; backward; clip; step; rate"), "The rate comes one step late"),
    (loop(step="rate of one group; zero; backward; clip; step"), "for the first group only"),
    (loop(step="rate; zero; backward; step"), "The gradients are not clipped"),
    (loop(step="rate; zero; backward; step; clip"), "or at the wrong time"),
    (loop(step="rate; zero; clip; backward; step"), "or at the wrong time"),
    (loop("", step="rate; zero; backward; step"), "Two things. Your model is in evaluation mode, so dropout is off. "
     "Call `model.train()`. The gradients are not clipped"),
    (loop(step="rate; zero; backward; clip values; step"), "You clip each value of a gradient"),
    (loop(step="rate; zero; backward; clip each; step"), "each parameter for itself"),
    (loop(step="rate; zero; backward; clip groups; step"), "You clip each group for itself"),
    (loop(step="rate; zero; backward; clip first; step"), "not all of them"),
    (loop(step="rate; zero; backward; divide; step"), "Or you divide the gradients by their length"),
    (loop(step="times the rate; zero; backward; clip; step"), "You multiply the rate that is there"),
    (loop(step="rate; zero; backward; clip; step; loss = F.cross_entropy(model(x), y)"), "once more after the step"),
    (loop(begin="model.train(); batches = batches[:-1]"), "The last batch is left out"),
    (loop(step="rate; zero; backward; clip; step; return [loss.item()]"), "is `return` inside the loop"),
    (loop(step="rate; zero; backward; clip; step; step"), "two steps for each batch"),
    (loop(step="rate; step; zero; backward; clip"), "before `backward` could use them"),
    (loop(loss="F.cross_entropy(model(x), y, reduction='sum')"), "the sum over the images"),
    (loop(loss="F.cross_entropy(model(x).softmax(dim=1), y)"), "it applies the softmax itself"),
    (loop(loss="-F.cross_entropy(model(x), y)"), "The sign is wrong"),
    (loop(loss="F.cross_entropy(model(x), y) / 2"), "With 2 of 4 batches the weights are not those of the loop that "
     "the task describes. The first loss is 0.8"),
    (loop(loss="F.mse_loss(model(x), F.one_hot(y, 5).double())"), "not those of the loop that the task describes"),
    (loop(begin="model.train(); rates = [0.9 * rate for rate in rates]"), "With 1 of 4 batches the weights are not "
     "those of the loop that the task describes. The first loss is right."),
    (loop(end="losses[-1]"), "a list of 4 losses"),
    (loop(end="sum(losses) / len(losses)"), "a list of 4 losses"),
    (loop(end="losses[1:]"), "a list of 4 losses"),
    (loop(end="[loss]"), "memory grows with every step"),
    (loop(begin="model.train(); batches[0][0].mul_(2)"), "changes its input: after the call `batches`"),
    (loop(end="None"), "returns nothing"),
    (loop(end="batches.mean()"), "'list' object has no attribute 'mean'"),
]  # fmt: skip


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


test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)
