"""Lesson 08: positions resized to another grid, attention with weighted tokens, a trained model for new classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from math import prod, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..adapting import replace_head
from ..data import ImageSet, Shapes
from ..data.outlines import MORE_OUTLINES
from ..inference import eval_mode
from ..pretrained import load_checkpoint
from ..training import Recipe, fit
from .exercise import Exercise
from .lesson_03_attention import weights_of
from .probes import noise
from .running import Wrong, call, close, describe


def my_resize_positions(position, old_grid, new_grid, num_prefix_tokens):
    h, w = old_grid
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    picture = patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)  # (1, D, h, w)
    resized = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)  # (1, D, h', w')
    rows = resized[0].flatten(1).T  # (D, h'·w') -> (h'·w', D)
    return torch.cat([prefix, rows])


def table(old: tuple[int, int], new: tuple[int, int], prefix: int = 1) -> tuple:
    """Return the arguments of a run. Each old row is 1 in a place of its own, so a new row tells what it is made of."""
    return torch.eye(prefix + prod(old)), old, new, prefix


OTHER_MODES = {
    "bilinear interpolation": {"mode": "bilinear", "antialias": True},
    "bilinear interpolation without antialiasing": {"mode": "bilinear"},
    "bicubic without antialiasing (when the grid grows it matters, too: another curve is used)": {"mode": "bicubic"},
    'mode="nearest"': {"mode": "nearest"},
    'mode="area"': {"mode": "area"},
}  # fmt: skip


# fmt: off
def made_of(got, expected, position, old_grid, new_grid, n):
    (h, w), N = old_grid, prod(old_grid)
    yield close(got[:n], expected[:n]), (
        f"The first rows must be the {n} prefix rows. Yours begin with old rows {largest(got[0])}.")
    shares, right, taken = got[n:, n:], expected[n:, n:], got[n:, :n].abs().sum(1)
    at = int(taken.argmax())
    yield not taken.any(), f"New patch {at} takes {taken[at]:.2g} from the prefix, which is no part of the picture."
    picture = torch.eye(N).reshape(1, h, w, N).permute(0, 3, 1, 2)
    for what, mode in OTHER_MODES.items():
        other = F.interpolate(picture, size=new_grid, **mode)[0].flatten(1).T
        yield not close(shares, other), f"This is {what}. The task asks for bicubic with antialiasing."
    places = torch.stack([torch.arange(N) // w, torch.arange(N) % w], 1).float()
    mine, asked = shares @ places, right @ places  # the centre of what each new patch takes
    at = int((mine - asked).abs().sum(1).argmax())
    where, there = ("row {:.2f}, column {:.2f}".format(*each[at]) for each in (mine, asked))
    yield close(mine, asked, 0.02), (
        f"New patch {at} lies in {where} of the old grid, and belongs in {there}. Patches go row by row in both grids, "
        "whose outer edges meet (with `align_corners=True` the centres of the corner patches do).")
    at = int((shares - right).abs().sum(1).argmax())
    yield False, (
        f"New patch {at} is made of old patches {largest(shares[at])}, and should be made of {largest(right[at])}.")
# fmt: on


def largest(row: Tensor) -> str:
    """Write of which old rows a new one is made, the largest shares first."""
    return ", ".join(f"{place} ({row[place]:.2f})" for place in row.abs().argsort(descending=True)[:4].tolist())


# The first table shows everything at once. In the third no picture has sides of the same length, and 15 / 11 is rounded
# such that 11 · (15 / 11) is cut off at 14. In the fourth only the shape changes. The last two have other prefixes.
resize_positions = Exercise(
    my_resize_positions,
    task="`fn(position, old_grid, new_grid, num_prefix_tokens)`, (T, D) → (S, D): bicubic with antialiasing.",
    trials=[table((2, 3), (4, 5)), table((6, 4), (4, 3)), table((11, 2), (15, 4)), table((2, 8), (4, 4)),
            table((2, 3), (2, 3)), table((2, 3), (4, 3), prefix=0), table((3, 2), (2, 5), prefix=2)],
    stages=("", "Right when the grid grows. When it shrinks:", "", "Right for two other grids. From 2×8 to 4×4:",
            "Right for another grid. When the grid stays the same:", "Right with one prefix row. With none:",
            "Right with one prefix row or none. With two:"),
    probes=made_of,
    hint="Keep the first rows aside, `position[:num_prefix_tokens]`. Make a picture of the others, `reshape(1, h, w, "
    "D)`, and bring the D axis to the front, `permute(0, 3, 1, 2)`. Then `F.interpolate(picture, size=new_grid, "
    'mode="bicubic", antialias=True)`. Turn the picture back into rows, `picture[0].flatten(1).T`, and put the first '
    "rows in front, `torch.cat([prefix, rows])`.",
    shape="(S, D)",
    sizes=lambda p, old, new, n: {"h": old[0], "w": old[1], "h·w": prod(old), "h'·w'": prod(new), "T": len(p)},
    imports="import torch.nn.functional as F",
    gradients=False,
)  # fmt: skip


def my_weighted_attention(q, k, v, times):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, h, T, T)
    scores = scores + times.log()[:, None, None]  # (B, 1, 1, T): one for each key, in all heads and for all queries
    return scores.softmax(dim=-1) @ v  # (B, h, T, d)


def to_weigh(B: int, h: int, T: int, d: int) -> tuple:
    return *(noise(B, h, T, d, seed=seed) for seed in range(3)), noise(B, T).exp()


def alone(B: int, h: int, T: int, d: int) -> tuple:
    """Return arguments whose values are each 1 in a place of their own, so the result is the weights."""
    q, k, _, times = to_weigh(B, h, T, d)
    return q, k, torch.eye(T, d).expand(B, h, T, d), times


# fmt: off
def weighed(got, expected, q, k, v, times):
    T, d = q.shape[2:]
    if not close(v, torch.eye(T, d).expand_as(v)):
        return
    got = got[..., :T]
    scores, keys, queries = q @ k.mT / sqrt(d), times[:, None, None], times[:, None, :, None]
    plain, log, rows = scores.softmax(-1), keys.log(), got.sum(-1)
    yield not close(got, plain), (
        "`times` changes nothing: it is unused, or the same for all keys of a query, which softmax cancels.")
    counts, asked = (got / plain)[0, 0, 0], times[0]
    told = f"Token 1 counts {counts[1] / counts[0]:.3g} times as much as without `times`, compared with token 0"
    told = f"{told}, and should count {asked[1] / asked[0]:.3g} times"
    terms = {"w itself": keys, "-log w": -log, "log(1 + w)": keys.log1p(), "log w / √d": log / sqrt(d)}
    terms |= {"another logarithm": keys.log2()}
    for what, term in terms.items():
        yield not close(got, (scores + term).softmax(-1)), f"{told}: {what} is added to the scores. Add log w."
    for what, factor in {"by w": keys, "by log w": log, "by the query's w": queries}.items():
        yield not close(got, (scores * factor).softmax(-1)), (
            f"{told}: scores are multiplied {what}. Add log w of the key.")
    late = {"the weights are multiplied by w": plain * keys, "log w is added": plain + log}
    for what, other in late.items():
        yield not close(got, other), (
            f"After the softmax {what}, and the first row sums to {rows[0, 0, 0]:.3g}: do so before.")
    yield not close(got, plain * queries), "The result of token i is multiplied by its own w. It belongs to the keys."
    without = F.normalize(got / keys, p=1, dim=-1) if close(rows, 1) else got
    yield from weights_of(without, scores, d, {"√T": sqrt(T), "T": float(T), "√h": sqrt(q.shape[1])})
    yield False, f"{told}."
# fmt: on


weighted_attention = Exercise(
    my_weighted_attention,
    task="`fn(q, k, v, times)`: q, k, v (B, h, T, d), times (B, T) → (B, h, T, d), token j counts as if it were there "
    "times[j] times.",
    trials=[alone(2, 3, 5, 7), to_weigh(2, 3, 7, 5), to_weigh(3, 2, 5, 7), to_weigh(1, 4, 7, 3)],
    probes=weighed,
    hint="Two equal terms e^s in a softmax are one term 2·e^s = e^(s + log 2). So compute the scores, divide by √d, "
    "add `times.log()[:, None, None]`, (B, 1, 1, T), and go on as in lesson 03: softmax, and mix the values.",
    shape="(B, h, T, d)",
    sizes=lambda q, k, v, times: dict(zip("BhTd", q.shape, strict=True)),
)


def my_new_task(model, images, num_classes):
    new = replace_head(model, num_classes)  # a copy, with zeros in its head
    new.requires_grad_(False)  # a linear probe: the body stays as it is
    new.head.requires_grad_(True)  # and the head learns
    fit(new, images, Recipe(epochs=30, batch_size=16, learning_rate=1e-2))
    return new


@cache  # the reader's code never gets these, and cannot change them
def unseen_pictures() -> ImageSet:
    return Shapes(600, 28, 62, MORE_OUTLINES)


ENOUGH = 0.66  # of the unseen pictures: sensible choices get 0.68 to 0.85, a head that has hardly moved 0.51 to 0.65


def judge_new_task(function: Callable) -> str:
    """Give the reader's function a trained model and 100 pictures; ask what it returns about 600 others."""
    given, images = load_checkpoint("shapes"), Shapes(100, 28, 40, MORE_OUTLINES)
    before, normalise = {name: p.detach().clone() for name, p in given.named_parameters()}, given.card.normalise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` warns at a second stage, whose first loss is not ln K
        new = call(function, given, images, 6)
    if not isinstance(new, nn.Module):
        told = "Return the model: `fit` trains it in place, and returns its losses."
        raise Wrong(f"{told} You returned {describe(new)}.")
    now = {name: p for name, p in given.named_parameters() if p.requires_grad}
    if changed := [name for name, old in before.items() if name not in now or not now[name].equal(old)]:
        told = f"In the model that you were given `{changed[0]}` is changed or frozen."
        raise Wrong(f"{told} `replace_head` returns a copy: freeze and train the copy only.")
    own, raw, right = (
        share_right(new, pictures, scale)
        for pictures, scale in (
            (images, normalise),
            (images, lambda pixels: pixels / 255),
            (unseen_pictures(), normalise),
        )
    )
    # The body is what has the names of the given model's, be it inside another module. The head is all else.
    body = {whole: before[name] for whole, p in new.named_parameters() for name in before
            if whole.endswith(name) and p.shape == before[name].shape and not name.startswith("head.")}  # fmt: skip
    length = nn.utils.get_total_norm  # of all as one vector
    difference = [new.get_parameter(name).detach() - old for name, old in body.items()]
    moved = float(length(difference) / (length(list(body.values())) or 1))
    facts = f"{right:.0%} of 600 unseen pictures are right, and {own:.0%} of its own 100"
    if right >= ENOUGH:
        more = "" if right >= 0.8 else " More than 80% are possible."
        return f"{facts}. The weights of the body moved by {moved:.0%}.{more}"
    head = [p for name, p in new.named_parameters() if name not in body]
    reasons = {
        f"It learned from pixels that were not normalised: of these it knows {raw:.0%}": raw > max(own, 0.3),
        "The new head is frozen: `new.head.requires_grad_(True)`": not all(p.requires_grad for p in head),
        "Its head holds zeros, as `replace_head` made it: train the new model": not any(p.any() for p in head),
        f"Its body is not the given one, or lost what it knew: its weights differ by {moved:.0%}": not moved < 0.2,
        "Take more steps, or a larger rate. Or does the optimizer not hold the new head": True,
    }
    raise Wrong(
        f"{facts}; {ENOUGH:.0%} of the unseen are asked for, and a guess is 17%.\n{next(filter(reasons.get, reasons))}."
    )


def share_right(model: nn.Module, images: ImageSet, scale: Callable) -> float:
    """Return the share of right answers. Raise Wrong unless there are six logits for each picture."""
    inputs = scale(images.pixels).to(next(model.parameters(), torch.zeros(())))
    with eval_mode(model), torch.no_grad():
        logits = call(model, inputs)
    if getattr(logits, "shape", ()) != (len(inputs), 6):
        new = "`replace_head(model, num_classes)` returns a copy with a new head: train that."
        raise Wrong(f"Your model returns {describe(logits)} for {len(inputs)} pictures, and (B, 6) is asked. {new}")
    return (logits.argmax(1) == images.labels).double().mean().item()


new_task = Exercise(
    my_new_task,
    task="`fn(model, images, num_classes) -> model`: teach a trained model six new outlines from 100 pictures.",
    hint="`new = replace_head(model, num_classes)` is a copy with a new head; train this copy. For a linear probe "
    "freeze all of it, `new.requires_grad_(False)`, and then unfreeze the head, `new.head.requires_grad_(True)`; a "
    "rate of 1e-2 suits it. To fine-tune all of it, freeze nothing, and take 1e-3 or less. In both cases "
    "`fit(new, images, Recipe(epochs=30, batch_size=16, learning_rate=…))`, and then `return new`.",
    imports="from vit_tutorial import replace_head\nfrom vit_tutorial.training import Recipe, fit",
    judge=judge_new_task,
)
