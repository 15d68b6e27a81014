"""Accuracy as people get it wrong, on batches of which the last is short."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake, random_tensor

Batch = tuple[Tensor, Tensor]


def batches_of(ranks: Sequence[Sequence[int]], K: int) -> list[Batch]:
    """Logits (B, K) and labels (B,), batch by batch: the place of each image's label when its logits are sorted."""
    batches = []
    for seed, places in enumerate(ranks):
        logits = random_tensor(len(places), K, seed=seed)
        order = logits.argsort(dim=1, descending=True)
        batches.append((logits, order.gather(1, torch.tensor(places)[:, None])[:, 0]))
    return batches


def with_labels_as_logits(batches: list[Batch]) -> list[Batch]:
    """The same answers; in each batch the first image's largest logit, as a number, is its label."""
    for logits, labels in batches:
        logits[0] = logits[0] - logits[0].max() + labels[0]
    return batches


# The first three tell every known mistake from the others; the right answers are those at place 0. In the third all are
# right: what is 0 there was not cut off.
TRIALS = [
    (
        batches_of([(0, 5, 4, 1, 2, 5), (0, 3, 0, 0, 0, 0), (0,)], K=6),
        batches_of([(2, 0, 0, 1, 0, 3), (0, 4, 5, 0, 5, 1), (1,)], K=6),
        with_labels_as_logits(batches_of([(0,) * 6, (0,) * 5, (0,) * 2], K=6)),
    ),
    (batches_of([(0, 1, 0, 2), (1, 0)], K=3),),
    (batches_of([(0, 1, 0, 0, 3)], K=4),),
]


def hits(logits: Tensor, labels: Tensor, top: int = 1) -> Tensor:
    return (logits.topk(top, dim=1).indices == labels[:, None]).any(dim=1)


def right_share(batches: list[Batch]) -> float:
    return torch.cat([hits(*batch) for batch in batches]).double().mean().item()


def joined(measure: Callable) -> Callable:
    """Measured over all images at once."""
    return lambda batches: measure(*(torch.cat(parts) for parts in zip(*batches, strict=True)))


def by_batch(measure: Callable = lambda x, y: hits(x, y).double().mean()) -> Callable:
    """Measured batch by batch: one number for each."""
    return lambda batches: torch.stack([torch.as_tensor(measure(x, y)).double() for x, y in batches])


def count_of(batches: list[Batch]) -> Tensor:
    return by_batch(lambda x, y: hits(x, y).sum())(batches).sum()


def running(batches: list[Batch]) -> Tensor:
    first, *rest = by_batch()(batches)
    for share in rest:
        first = (first + share) / 2
    return first


def per_class(logits: Tensor, labels: Tensor) -> Tensor:
    right = hits(logits, labels).double()
    return torch.stack([right[labels == label].mean() for label in labels.unique()]).mean()


def by_trial(function: Callable) -> Callable:
    """One number for each list of batches that it is given."""
    return lambda *trials: torch.stack([torch.as_tensor(function(batches)).double().cpu() for batches in trials])


def wrong(function: Callable, message: str, hint: str | None = None) -> Mistake:
    return Mistake(by_trial(function), message, hint)


COUNT = "Count first, divide last: all right answers over all images."
CLASSES = "`logits.argmax(dim=1)`: for each image, a row, the class with the largest logit."

ACCURACY_MISTAKES = [
    wrong(lambda b: by_batch()(b).mean(), "You take the mean of the batches' accuracies. The last batch is short, and "
          "an image in it counts more than the others.", COUNT),
    wrong(lambda b: by_batch()(b)[-1], "This is the accuracy of the last batch alone.", COUNT),
    wrong(lambda b: by_batch()(b)[0], "This is the accuracy of the first batch alone: does `return` stand in the loop?",
          COUNT),
    wrong(lambda b: by_batch()(b[:-1]).mean(), "The last, short batch is left out.", COUNT),
    wrong(count_of, "You get how many answers are right: it is still to be divided by how many images all batches "
          "have together.", COUNT),
    wrong(lambda b: count_of(b) / len(b[-1][1]), "You divide by how many images the last batch has, not all batches.",
          COUNT),
    wrong(lambda b: by_batch(lambda x, y: hits(x, y).sum())(b)[-1], "You get how many answers are right in the "
          "last batch alone.", COUNT),
    wrong(lambda b: by_batch()(b).sum(), "You add up the batches' accuracies: with many batches that is more than 1.",
          COUNT),
    wrong(lambda b: 100 * right_share(b), "That is in percent. A share is asked for, between 0 and 1."),
    wrong(lambda b: 100 * by_batch()(b).mean(), "You take the mean of the batches' accuracies, and in percent. A share "
          "of all images is asked for.", COUNT),
    wrong(lambda b: 1 - right_share(b), "That is the share of wrong answers: the right ones are asked for."),
    wrong(lambda b: count_of(b) / len(b), "You divide by how many batches there are, not by how many images.", COUNT),
    wrong(lambda b: count_of(b) / (len(b) * len(b[0][1])), "You divide as if every batch were as large as the first. "
          "The last one is short.", COUNT),
    wrong(lambda b: count_of(b) / len(b[0][1]), "You divide by how many images the first batch has, not all batches.",
          COUNT),
    wrong(lambda b: by_batch(lambda x, y: hits(x, y).sum())(b)[-1] / sum(len(y) for _, y in b), "Only the last "
          "batch's right answers are counted, over all images: does your count begin anew in each batch?", COUNT),
    wrong(lambda b: count_of(b) / sum(x.numel() for x, _ in b), "You divide by how many logits there are, B·K in each "
          "batch. Each image counts once.", "`len(labels)`, not `logits.numel()`."),
    wrong(running, "You average each batch with what came before: later batches count more.", COUNT),
    wrong(lambda b: by_batch(lambda x, y: hits(x, y).all())(b).mean(), "That is the share of batches in which all "
          "answers are right.", COUNT),
    wrong(joined(per_class), "You average over the classes. Every image counts the same, whatever its class.", COUNT),
    *(wrong(joined(lambda x, y, top=top: hits(x, y, top).double().mean()), f"An answer counts as right if it is among "
            f"the {top} largest logits. Only the largest counts.", CLASSES) for top in (2, 3, 4, 5)),
    wrong(joined(lambda x, y: hits(-x, y).double().mean()), "You take the class with the smallest logit.", CLASSES),
    wrong(lambda b: sum((x.argmax(0) == y).sum() for x, y in b) / sum(len(y) for _, y in b), "`argmax` runs over the "
          "images, not over the classes: for each class it gives an image.", CLASSES),
    wrong(lambda b: sum((x.argmax() == y).sum() for x, y in b) / sum(len(y) for _, y in b), "`argmax` without `dim` "
          "finds one place in the whole batch, not a class for each image.", CLASSES),
    wrong(joined(lambda x, y: x.softmax(1).gather(1, y[:, None]).mean()), "That is the mean probability of the right "
          "class. An answer is right or wrong: it counts 1 or 0.", CLASSES),
    wrong(joined(lambda x, y: x.softmax(1).amax(1).mean()), "That is how sure the model is, on average: the labels are "
          "not looked at.", CLASSES),
    wrong(joined(F.cross_entropy), "That is the cross-entropy, the loss.", CLASSES),
    *(wrong(measure(lambda x, y: (x.amax(1) == y).double().mean()), "You compare the largest logit itself with the "
            "label: its place is the class. `argmax` gives the place.", CLASSES)
      for measure in (joined, lambda f: lambda b: by_batch(f)(b).mean())),
    wrong(lambda b: right_share(b) // 1, "You get 0: does `//` or `int` cut off the fraction?", "`/` keeps it."),
    *(wrong(lambda b, n=n: round(right_share(b), n), f"Right, but rounded to {n} digits. Round only what you print.")
      for n in (2, 3, 4)),
]  # fmt: skip
