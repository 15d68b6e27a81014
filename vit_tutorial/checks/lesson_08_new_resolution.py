"""Lesson 08: positions resized to another grid, attention with weighted tokens, a trained model for new classes."""

from math import prod, sqrt

import torch
import torch.nn.functional as F
from torch import nn

from ..adapting import replace_head
from ..data import Shapes
from ..data.outlines import MORE_OUTLINES
from ..inference import eval_mode
from ..pretrained import load_checkpoint
from ..training import Recipe, fit
from .exercise import Exercise
from .probes import as_sum, noise
from .running import Wrong, call, close, describe


def my_resize_positions(position, old_grid, new_grid, num_prefix_tokens):
    h, w = old_grid
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    picture = patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)  # (1, D, h, w)
    resized = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)  # (1, D, h', w')
    rows = resized[0].flatten(1).T  # (D, h'·w') -> (h'·w', D)
    return torch.cat([prefix, rows])


def made_of(row):
    """Return the largest shares of old rows in a new one, {old row: share}."""
    return {k: round(row[k].item(), 2) for k in row.abs().topk(3).indices.tolist() if row[k].abs() > 5e-3}


def probe_resized(got, right, position, old_grid, new_grid, n):
    told = f"The prefix comes first, as it was. In your row 0 the shares of old rows are {made_of(got[0])}."
    yield not close(got[:n], right[:n]), told
    sums = got.sum(1)
    at = int((sums - 1).abs().argmax())
    mixed = f"The shares of old rows in new row {at} sum to {sums[at]:.3g}, not to 1."
    yield not close(sums, 1, 1e-3), f"{mixed} (`permute` moves an axis; a `reshape` tears rows apart.)"
    picture = position[n:].reshape(1, *old_grid, -1).permute(0, 3, 1, 2)
    for mode, antialias in (("bicubic", False), ("bilinear", True), ("bilinear", False)):
        other = F.interpolate(picture, size=new_grid, mode=mode, antialias=antialias)[0].flatten(1).T
        yield close(got[n:], other), f"This is {mode}, antialias={antialias}. Bicubic, antialias=True is asked."
    for name, grids in {"old": (old_grid[::-1], new_grid), "new": (old_grid, new_grid[::-1])}.items():
        swapped = close(got, my_resize_positions(position, *grids, n))
        yield swapped, f"You read the {name} grid as (columns, rows). It is (rows, columns)."
    at = int((got - right).abs().sum(1).argmax())
    told = f"New row {at} is made of old rows {made_of(got[at])}, and must be of {made_of(right[at])}"
    yield True, f"{told}, their largest shares."


# In the third no two sides are equal, and 11 · (15 / 11) is cut off at 14. In the fourth only the shape changes.
GRIDS = [((2, 3), (4, 5), 1), ((6, 4), (4, 3), 1), ((11, 2), (15, 4), 1), ((2, 8), (4, 4), 1), ((2, 3), (2, 3), 1)]
GRIDS += [((2, 3), (4, 3), 0), ((3, 2), (2, 5), 2)]

resize_positions = Exercise(
    my_resize_positions,
    task="`fn(position, old_grid, new_grid, num_prefix_tokens)`, (T, D) → (S, D): bicubic with antialiasing.",
    # each row has a 1 in a place of its own, and D is T + 4
    trials=[(torch.eye(n + prod(old), n + prod(old) + 4), old, new, n) for old, new, n in GRIDS],
    probes=probe_resized,
    clue="`F.interpolate` wants (1, D, h, w): `reshape` makes the picture, `permute` moves D, and both are undone.",
    shape="(S, D)",
    sizes=lambda p, old, new, n: dict(
        zip(("h", "w", "h·w", "h'·w'", "T", "D"), (*old, prod(old), prod(new), *p.shape), strict=True)
    ),
    imports="import torch.nn.functional as F",
    gradients=False,
)


def my_weighted_attention(q, k, v, times):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, h, T, T)
    scores = scores + times.log()[:, None, None]  # (B, 1, 1, T): one for each key, in all heads and for all queries
    return scores.softmax(dim=-1) @ v  # (B, h, T, d)


def probe_weighted_attention(got, expected, q, k, v, times):
    weights = got @ torch.linalg.pinv(v)  # there are no more tokens than values
    scores = q @ k.mT / sqrt(q.shape[-1])
    told = f"The weights of query 0 sum to {weights[0, 0, 0].sum():.3g}, and must sum to 1"
    yield not close(weights.sum(-1), 1), f"{told}: `times` acts before the softmax, which runs over the keys."
    w = times[:, None, None].expand_as(scores)
    yield close(got, (scores + w).softmax(-1) @ v), "You add w to the scores. It must be log w."
    terms = {"q kᵀ / √d": scores, "log w": w.log(), "w": w, "w · q kᵀ / √d": w * scores}
    terms = {name: term - term.mean(-1, keepdim=True) for name, term in terms.items()}  # a constant in a row cancels
    mine = weights.clamp_min(1e-30).log()
    told = f"Your weights are the softmax of {as_sum(mine - mine.mean(-1, keepdim=True), terms)}"
    yield True, f"{told}. It must be that of q kᵀ / √d + log w, with the w of the key."


weighted_attention = Exercise(
    my_weighted_attention,
    task="`fn(q, k, v, times)`: three times (B, h, T, d), and (B, T) → (B, h, T, d); token j counts times[j] times.",
    trials=[
        (*(noise(B, h, T, d, seed=seed) / 2 for seed in range(3)), noise(B, T).exp())
        for B, h, T, d in ((2, 3, 5, 7), (3, 2, 4, 6), (1, 4, 3, 5))
    ],
    probes=probe_weighted_attention,
    clue="Twice e^s is e^(s + log 2): add log w to the scores, (B, h, T, T), along the axis of the keys.",
    shape="(B, h, T, d)",
    sizes=lambda q, k, v, times: dict(zip("BhTd", q.shape, strict=True)),
)


def my_new_task(model, images, num_classes):
    new = replace_head(model, num_classes)  # a copy, with zeros in its head
    new.requires_grad_(False)  # a linear probe: the body stays as it is
    new.head.requires_grad_(True)  # and the head learns
    fit(new, images, Recipe(epochs=30, batch_size=16, learning_rate=1e-2))
    return new


def judge_new_task(function):
    """Give the reader's function a trained model and 100 pictures; ask what it returns about 600 others."""
    given, images = load_checkpoint("shapes"), Shapes(100, 28, 40, MORE_OUTLINES)
    new = call(function, given, images, 6)
    if not isinstance(new, nn.Module):
        raise Wrong(f"Return the model: `fit` trains it in place, and returns its losses. Yours is {describe(new)}.")
    for (name, p), old in zip(given.named_parameters(), load_checkpoint("shapes").parameters(), strict=False):
        if not p.equal(old):
            raise Wrong(f"The given `{name}` is changed. Train the copy that `replace_head` returns.")
    unseen = Shapes(600, 28, 62, MORE_OUTLINES)
    with eval_mode(new), torch.no_grad():
        logits = call(new, given.card.normalise(unseen.pixels).to(next(new.parameters())))
    if getattr(logits, "shape", ()) != (600, 6):
        raise Wrong(f"Your model returns {describe(logits)}, not (600, 6): train what `replace_head` returns.")
    right = (logits.argmax(1) == unseen.labels).double().mean().item()
    told = f"{right:.0%} of 600 unseen pictures are right"
    if right < 0.66:  # sensible choices get 0.68 to 0.85, a head that has hardly moved 0.51 to 0.65
        raise Wrong(f"{told}; 66% are asked. Does the head learn at 1e-2, or all at 1e-3, on normalised pixels?")
    return f"{told}."


new_task = Exercise(
    my_new_task,
    task="`fn(model, images, num_classes) -> model`: teach a trained model six new outlines from 100 pictures.",
    clue="Train what `replace_head` returns: its head alone, the rest frozen, at 1e-2, or all of it at 1e-3 or less.",
    imports="from vit_tutorial import replace_head\nfrom vit_tutorial.training import Recipe, fit",
    judge=judge_new_task,
)
