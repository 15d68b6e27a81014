"""The checks of notebook 06 on right and wrong answers."""

import math
from functools import reduce

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vit_tutorial import check
from vit_tutorial.training import parameter_groups, warmup_cosine

from .variants import assert_passes, assert_wrong, cell, judged, solved


def schedule(warm, fall):
    """A schedule of two parts, as people write it; `fall` gets the step, not the part of the way."""
    return lambda step, warmup_steps, all_steps: (
        warm(step, warmup_steps, all_steps) if step < warmup_steps else fall(step, warmup_steps, all_steps)
    )


def line(s, w, T):
    return (s + 1) / w


def after(shape):
    """A schedule with a right warm-up, and this shape over the part of the way from 0 to 1."""
    return schedule(line, lambda s, w, T: shape((s - w) / (T - w)))


def half(p):
    return 0.5 * (1 + math.cos(math.pi * p))


def cosine(s, w, T):
    return half((s - w) / (T - w))


RIGHT_SCHEDULE = {
    "solution": solved(check.warmup_cosine),
    "the package's": warmup_cosine,
    "torch": schedule(line, lambda s, w, T: 0.5 + torch.cos(torch.tensor((s - w) / (T - w)) * torch.pi) / 2),
    "numpy": schedule(line, lambda s, w, T: np.cos(np.pi * (s - w) / (T - w)) / 2 + 0.5),
    "squared": after(lambda p: math.cos(math.pi * p / 2) ** 2),
    "min": lambda s, w, T: min((s + 1) / max(w, 1), half(max(0, s - w) / (T - w))) if s < w else cosine(s, w, T),
    "interp": lambda s, w, T: np.interp(s + 1, [0, w], [0, 1]) if s < w else cosine(s, w, T),
}
RIGHT_WITH_A_REMARK = {
    "from 0": (schedule(lambda s, w, T: s / w, cosine), "Your warm-up starts at 0"),
    "from 0 by linspace": (schedule(lambda s, w, T: torch.linspace(0, 1, w)[s], cosine), "Your warm-up starts at 0"),
    "1 at the step after": (schedule(lambda s, w, T: (s + 1) / (w + 1), cosine), "reaches 1 one step later"),
    "0 at the last": (schedule(line, lambda s, w, T: half((s - w) / (T - w - 1))), "Your cosine is 0 at the last step"),
    "one ahead": (schedule(line, lambda s, w, T: half((s - w + 1) / (T - w))), "Your cosine is 0 at the last step"),
    "both": (schedule(lambda s, w, T: s / w, lambda s, w, T: half((s - w) / max(1, T - 1 - w))), "starts at 0"),
}


@pytest.mark.parametrize(("answer", "words"), RIGHT_WITH_A_REMARK.values(), ids=RIGHT_WITH_A_REMARK)
def test_another_right_schedule_passes_and_is_named(answer, words):
    assert words in assert_passes(check.warmup_cosine, answer).message


WRONG_SCHEDULE = [
    (schedule(line, lambda s, w, T: half(s / T)), "the cosine is counted from step 0"),
    (schedule(line, lambda s, w, T: half((s - w) / T)), "stretched over all steps"),
    (after(lambda p: half(2 * p)), "rises again"),
    (after(lambda p: half(p / 2)), "half of its way down, to 0.5"),
    (after(lambda p: math.cos(math.pi * p)), "falls below 0"),
    (after(lambda p: max(0.0, math.cos(math.pi * p))), "0 for the whole second half"),
    (after(lambda p: math.cos(math.pi * p / 2)), "a quarter of a cosine"),
    (after(lambda p: 1 + math.cos(math.pi * p)), "jumps to 2"),
    (after(lambda p: 1 + math.cos(math.pi * p) / 2), "from 1.5 to 0.5"),
    (after(lambda p: math.cos(math.pi * p) / 2), "from 0.5 to -0.5"),
    (after(lambda p: (1 - math.cos(math.pi * p)) / 2), "upside down"),
    (after(lambda p: (1 + math.cos(180 * p)) / 2), "reads it as radians"),
    (after(lambda p: (1 + math.cos(math.radians(p))) / 2), "stays at 1, or very near"),
    (after(lambda p: (1 + math.cos(p)) / 2), "runs to 1, not to π"),
    (after(lambda p: (1 + math.sin(math.pi * p)) / 2), "a sine, not a cosine"),
    (after(lambda p: 1 - p), "on a straight line"),
    (schedule(line, lambda s, w, T: (T - s) / T), "on a straight line, and is counted from step 0"),
    (after(lambda p: 1.0), "your factor stays at 1"),
    (schedule(line, lambda s, w, T: half((s - w) // (T - w))), "does `//` cut off"),
    (schedule(lambda s, w, T: (s + 1) // w, cosine), "does `//` cut off"),
    (lambda s, w, T: half(s / T), "There is no warm-up: the cosine runs"),
    (schedule(lambda s, w, T: 1.0, cosine), "There is no warm-up"),
    (schedule(lambda s, w, T: 0.0, cosine), "stays at 0"),
    (schedule(lambda s, w, T: 1 - s / w, cosine), "Your warm-up falls"),
    (schedule(lambda s, w, T: (s + 1) / T, cosine), "divided by all_steps"),
    (schedule(lambda s, w, T: s + 1, cosine), "counts the steps"),
    (schedule(lambda s, w, T: (1 - math.cos(math.pi * s / w)) / 2, cosine), "is bent"),
    (lambda s, w, T: min(1, (s + 1) / max(w, 1)) * half(s / T), "are multiplied"),
    (lambda s, w, T: (s + 1) / w if s <= w and w else cosine(s, w, T), "one step too long"),
    (lambda s, w, T: (s + 1) / max(w, 1), "Your warm-up never ends"),
    (lambda s, w, T: 100 * warmup_cosine(s, w, T), "100 times as high"),
    (lambda s, w, T: min((s + 1) / w, 1) if s < w or w == 0 else cosine(s, w, T), "warmup_steps=0"),
    (lambda s, w, T: warmup_cosine(s, 4, T), "Right with warmup_steps=4 and all_steps=12, but not"),
    (after(lambda p: 0.1 + 0.9 * half(p)), "Your cosine falls only to 0.1, where"),
    (schedule(line, lambda s, w, T: 0.2 + 0.8 * half((s - w) / (T - w - 1))), "only to 0.2, w"),
    (after(lambda p: max(0.1, half(p))), "Step 11, after the warm-up, gives 0.1;"),
    (after(lambda p: half(p) ** 2), "Step 5, after the warm-up, gives"),
    (schedule(lambda s, w, T: 0.1 + 0.9 * (s + 1) / w, cosine), "Step 0, in the warm-up, gives"),
    (lambda s, w, T: (1.0, s), "one number; got a value of type tuple"),
    (after(lambda p: float("nan")), "gives nan"),
]  # fmt: skip


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


RIGHT_GROUPS = {
    "solution": solved(check.parameter_groups),
    "the package's": parameter_groups,
    "by name": groups_by(is_matrix),
    "generators": groups_by(is_matrix, take=lambda params: (p for p in list(params))),
    "tuples": groups_by(is_matrix, take=tuple),
    "by axes and name": groups_by(lambda n, p: p.ndim > 1 and "token" not in n and "position" not in n),
    "one group each": lambda model, wd: [
        {"params": p, "weight_decay": wd * is_matrix(n, p)} for n, p in model.named_parameters()
    ],
    "by type, with more": edited(lambda g, m: [{**x, "lr": 1e-3} for x in g[::-1]]),
    "names too": lambda model, wd: [
        {"params": [(n, p) for n, p in model.named_parameters() if is_matrix(n, p) is want], "weight_decay": wd * want}
        for want in (True, False)
    ],
}


def only(decays):
    return lambda model, wd: [{"params": [p for n, p in model.named_parameters() if decays(n, p)], "weight_decay": wd}]


WRONG_GROUPS = [
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


MATRICES = """
def mine(model, weight_decay):
    matrices = [p for n, p in model.named_parameters() if p.ndim > 1]
    {0}
    return [{{"params": matrices, "weight_decay": weight_decay}}, {{"params": rest, "weight_decay": 0.0}}]
"""
BY_VALUE = "compare tensors by value"


@pytest.mark.parametrize(
    "rest",
    [
        "rest = [p for p in model.parameters() if p not in matrices]",
        "rest = list(filter(lambda p: p not in matrices, model.parameters()))",
        "rest = [*matrices].remove(model.head.bias)",
    ],
)
def test_comparing_tensors_by_value_is_explained(rest):
    verdict = assert_wrong(check.parameter_groups, cell(MATRICES.format(rest))["mine"], BY_VALUE)
    assert verdict.code == rest
    assert "RuntimeError" in verdict.message


@pytest.mark.parametrize("rest", ["'norm' in torch.cat([p, model.head.bias])", "matrices[0] @ p", "p + matrices[-1]"])
def test_comparing_by_value_is_not_blamed_for_another_error(rest):
    mine = cell(MATRICES.format(f"rest = [{rest} for p in matrices]"))["mine"]
    assert BY_VALUE not in assert_wrong(check.parameter_groups, mine, "Error").message


# The accuracy over all batches


def count(batches):
    return sum(right_in(*batch).item() for batch in batches)


def images(batches):
    return sum(len(labels) for _, labels in batches)


def shares(batches):
    return [(right_in(*batch) / len(batch[1])).item() for batch in batches]


def right_in(logits, labels):
    return (logits.argmax(dim=1) == labels).sum()


def per_class(batches):
    logits, labels = map(torch.cat, zip(*batches, strict=True))
    return np.mean([right_in(logits[labels == k], k).item() / (labels == k).sum().item() for k in labels.unique()])


RIGHT_ACCURACY = {
    "solution": solved(check.accuracy),
    "loop": lambda b: sum(int(row.argmax() == k) for x, y in b for row, k in zip(x, y, strict=True)) / images(b),
    "a tensor": lambda b: sum(right_in(*batch) for batch in b) / sum(len(y) for _, y in b),
    "all at once": lambda b: torch.cat([x.argmax(-1) == y for x, y in b]).float().mean(),
    "numpy": lambda b: np.concatenate([x.numpy().argmax(1) == y.numpy() for x, y in b]).mean(),
    "weighted": lambda b: sum(share * len(y) for share, (_, y) in zip(shares(b), b, strict=True)) / images(b),
    "one-element tensor": lambda b: torch.cat([x.argmax(-1) == y for x, y in b]).float().mean(0, keepdim=True),
}


WRONG_ACCURACY = [
    (lambda b: sum(shares(b)) / len(b), "the mean of the batches' accuracies"),
    (lambda b: 100 * np.mean(shares(b)), "the mean of the batches' accuracies, and in per"),
    (lambda b: [(x.argmax(1) == y).float().mean() for x, y in b][-1], "of the last batch alone"),
    (lambda b: shares(b)[0], "the accuracy of the first batch alone"),
    (lambda b: np.mean(shares(b)[:-1]), "The last, short batch is left out"),
    (count, "Divide by how many images all batches have"),
    (lambda b: count(b) / len(b[-1][1]), "how many images the last batch has, not all batches"),
    (lambda b: right_in(*b[-1]), "how many answers are right in the last batch alone"),
    (lambda b: sum(shares(b)), "add up the batches' accuracies"),
    (lambda b: 100 * count(b) / images(b), "in percent"),
    (lambda b: 1 - count(b) / images(b), "the share of wrong answers"),
    (lambda b: count(b) / len(b), "how many batches there are"),
    (lambda b: count(b) / (len(b) * len(b[0][1])), "as if every batch were as large as the first"),
    (lambda b: count(b) / len(b[0][1]), "how many images the first batch has"),
    (lambda b: right_in(*b[-1]).item() / images(b), "does your count begin anew"),
    (lambda b: count(b) / sum(x.numel() for x, _ in b), "how many logits there are"),
    (lambda b: reduce(lambda mean, share: (mean + share) / 2, shares(b)), "later batches count for more"),
    (lambda b: np.mean([bool((x.argmax(1) == y).all()) for x, y in b]), "in which all answers are"),
    (per_class, "average over the classes"),
    (lambda b: sum((x.topk(5).indices == y[:, None]).sum().item() for x, y in b) / images(b), "the 5 largest"),
    (lambda b: sum((x.argmin(1) == y).sum().item() for x, y in b) / images(b), "the smallest logit"),
    (lambda b: sum((x.argmax(0) == y).sum().item() for x, y in b) / images(b), "(dim=0)` runs over the batch"),
    (lambda b: sum((x.argmax() == y).sum().item() for x, y in b) / images(b), "`argmax` without `dim`"),
    (lambda b: torch.cat([x.softmax(1)[range(len(y)), y] for x, y in b]).mean(), "the mean probability of the right"),
    (lambda b: torch.cat([x.softmax(1).max(1).values for x, y in b]).mean(), "how sure the model is"),
    (lambda b: F.cross_entropy(torch.cat([x for x, _ in b]), torch.cat([y for _, y in b])), "cross-entropy"),
    (lambda b: count(b) // images(b), "does `//` or `int` cut off"),
    (lambda b: round(count(b) / images(b), 2), "rounded to 2 digits"),
    (shares, "of all batches together is one number; got a value of type list"),
    (lambda b: count(b) / 13, "batches of 6, 6 and 1 images, but not with batches of 4 and 2"),
    (lambda b: (count(b) + 1) / images(b), "0.5385 expected, got 0.6154"),
    (lambda b: 0.0, "got 0.0000. The batches have 6, 6, 1 images: 7 of 13 answers are right."),
    (lambda b: count(b) / images(b) % 1, "1.0000 expected, got 0.0000. The batches have 6, 5"),
    (lambda b: np.mean([(x.amax(1) == y).float().mean().item() for x, y in b]), "`argmax` gives the place"),
    (lambda b: [y.zero_() for _, y in b] and 0.5, "changes its input: after the call `b`"),
]  # fmt: skip

RIGHT = {check.warmup_cosine: RIGHT_SCHEDULE, check.parameter_groups: RIGHT_GROUPS, check.accuracy: RIGHT_ACCURACY}
WRONG = {check.warmup_cosine: WRONG_SCHEDULE, check.parameter_groups: WRONG_GROUPS, check.accuracy: WRONG_ACCURACY}
test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)


def test_an_error_shows_the_readers_line():
    mine = cell("def mine(batches):\n    return batches.mean()")["mine"]
    verdict = assert_wrong(check.accuracy, mine, "mine(batches=[(tensor of (6, 6), tensor of (6,)), (tensor of (6, 6)")
    assert verdict.code == "return batches.mean()"
