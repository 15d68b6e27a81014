"""Lesson 08: position embeddings resized to another grid, and a trained model for new classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial, wraps
from math import isqrt, log, prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from ..adapting import replace_head
from ..data import ImageSet, Shapes
from ..data.outlines import MORE_OUTLINES
from ..inference import BATCH, eval_mode
from ..pretrained import load_checkpoint
from ..training import Recipe, TrainingAlarm, fit
from .comparing import compare, kind, known, listed, random_tensor, replacing
from .exercise import exercise
from .references import Grid, resize, to_picture, to_rows, zoom
from .running import ReaderError, Wrong, call, explained, judge_each, prefixed, raise_first


def my_resize_positions(position, old_grid, new_grid, num_prefix_tokens):
    h, w = old_grid
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    picture = patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)  # (1, D, h, w)
    picture = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)  # (1, D, h', w')
    return torch.cat([prefix, picture[0].flatten(1).T])  # (D, h'·w') -> (h'·w', D)


@exercise(
    hint="Keep the first rows aside, `position[:num_prefix_tokens]`. Make a picture of the others, `reshape(1, h, w, "
    "D)`, and bring the D axis to the front, `permute(0, 3, 1, 2)`. Then `F.interpolate(picture, size=new_grid, "
    'mode="bicubic", antialias=True)`. Turn the picture back into rows, `picture[0].flatten(1).T`, and put the first '
    "rows in front, `torch.cat([prefix, rows])`.",
    solution=my_resize_positions,
    imports="import torch.nn.functional as F",
)
def resize_positions(function):
    """`fn(position, old_grid, new_grid, num_prefix_tokens)`, (T, D) → (S, D): bicubic, antialiased, prefix as it is."""
    judge_each(SIZES, partial(judge_sizes, function))


# For a number of prefix tokens D, the old grid and the new one. In the first, N is a square both times and no grid is.
# The second is the smallest where 15 / 11 is rounded such that 11 · (15 / 11) is cut off at 14. In the fourth only the
# shape changes.
MORE_SIZES = [(5, (2, 8), (4, 9)), (3, (11, 2), (15, 4)), (4, (6, 4), (4, 3)), (5, (2, 8), (4, 4)), (6, (2, 3), (2, 3))]
SIZES = {
    "one prefix token": (1, MORE_SIZES),
    "2 prefix tokens": (2, [(3, (3, 2), (2, 5))]),
    "0 prefix tokens": (0, [(6, (2, 3), (4, 3))]),
}


def judge_sizes(function: Callable, prefix: int, sizes: list[tuple[int, Grid, Grid]]) -> None:
    seen = Interpolated()

    @wraps(function)
    def watched(position, old, *more):
        seen.shape, seen.asked = (), (1, position.shape[1], *old)
        with seen:
            return function(position, old, *more)

    trials = [(random_tensor(prefix + prod(old), D), old, new, prefix) for D, old, new in sizes]
    try:
        compare(watched, resize, trials, "(S, D)", RESIZE_MISTAKES, gradients=False)
    except ReaderError as error:
        if seen.shape and (len(seen.shape) != 4 or seen.shape[-2:] != seen.asked[-2:]):
            missing = "`[None]` adds the 1" if seen.shape == seen.asked[1:] else "`permute` brings the D axis forward"
            text = f"`F.interpolate` got {seen.shape}, and needs (1, D, h, w), here {seen.asked}: {missing}."
            raise Wrong(text, code=error.code) from None
        raise


class Interpolated(TorchFunctionMode):
    """Inside the block `shape` becomes that of the first picture that `F.interpolate` gets."""

    shape: tuple[int, ...] = ()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.interpolate and args:
            self.shape = self.shape or tuple(args[0].shape)
        return function(*args, **(kwargs or {}))


def swap(grid: Grid) -> Grid:
    return grid[::-1]


def square(grid: Grid) -> Grid:
    return (isqrt(prod(grid)),) * 2


def by_factor(factors: Callable, **options) -> Callable:
    """Interpolate by `scale_factor=factors(old, new)`, one for both axes or one for each."""
    return lambda picture, new: zoom(picture, None, scale_factor=factors(tuple(picture.shape[2:]), new), **options)


def each_axis(factor: Callable, **options) -> Callable:
    return by_factor(lambda old, new: tuple(float(factor(*sides)) for sides in zip(old, new, strict=True)), **options)


def line(rows: Tensor, count: int, mode: str) -> Tensor:
    return to_rows(zoom(to_picture(rows, 1, len(rows)), (1, count), mode, antialias=mode == "bicubic"))


def repeated(rows: Tensor, count: int) -> Tensor:
    return rows[torch.arange(count) % len(rows)]


ALIGN = "the old and the new corner patches have the same centre. Their outer edges should meet, as two pictures' do."
MIXED = "without a transpose. That mixes the values of several rows; `permute` or `movedim` moves an axis."
MODES = {"nearest": "copies positions", "nearest-exact": "copies positions", "area": "averages over windows"}

RESIZE_MISTAKES = replacing(resize, "zoom", None, {
    "This is bilinear interpolation. The task asks for bicubic.": partial(zoom, mode="bilinear"),
    "This is bilinear interpolation, and with `align_corners=True`. The task asks for bicubic, without it.":
        partial(zoom, mode="bilinear", antialias=False, align_corners=True),
    "This is bicubic interpolation without antialiasing. When the grid grows it matters, too: PyTorch's bicubic then "
    "uses another curve (a = -0.5, not -0.75).": partial(zoom, antialias=False),
    "This is bicubic interpolation with `align_corners=True`, and without antialiasing: " + ALIGN:
        partial(zoom, antialias=False, align_corners=True),
    "This is bicubic interpolation with `align_corners=True`: " + ALIGN: partial(zoom, align_corners=True),
    **{f'This is `mode="{mode}"`, which {does}. The task asks for bicubic.': partial(zoom, mode=mode, antialias=False)
       for mode, does in MODES.items()},
    "One scale factor, the rows', for both axes: they need one each.": by_factor(lambda old, new: new[0] / old[0]),
    "One scale factor, the columns', for both axes: they need one each.": by_factor(lambda old, new: new[1] / old[1]),
    "One scale factor for both axes, √(N'/N): they need one each.":
        by_factor(lambda old, new: (prod(new) / prod(old)) ** 0.5),
    "The scale factors are cut off to whole numbers by `//`: give the target, `size=new_grid`.":
        each_axis(lambda a, b: b // a),
    "`scale_factor` instead of `size`: 15 / 11 is rounded in the computer, 11 · (15 / 11) comes out below 15, and "
    "PyTorch cuts it off at 14. So the grid lacks a row.":
        [each_axis(lambda a, b: b / a), each_axis(lambda a, b: b / a, recompute_scale_factor=True)],
    "A scale factor with 0.1 added displaces everything a bit: use `size`.": each_axis(lambda a, b: (b + 0.1) / a),
}) + replacing(resize, "join", None, {
    "The prefix is gone: only the patches' rows come back.": lambda first, rows: rows,
    "The prefix is moved to the end. It belongs in front.": lambda first, rows: torch.cat([rows, first]),
    "The prefix is there twice, in front and at the end.": lambda first, rows: torch.cat([first, rows, first]),
    "The prefix is replaced by zeros.": lambda first, rows: torch.cat([0 * first, rows]),
    "The prefix is replaced by the mean of the patches.":
        lambda first, rows: torch.cat([rows.mean(0).expand_as(first), rows]),
    "The prefix belongs above the rows, `dim=0`, not beside them.":
        lambda first, rows: torch.cat([first, rows], dim=1),
    "The rows of the prefix are averaged.":
        [lambda first, rows, n=n: torch.cat([first.mean(0).expand_as(first[:n]), rows]) for n in (None, 1)],
}) + replacing(resize, "split", None, {
    "One row is kept, the class token's, whatever `num_prefix_tokens` says.": lambda p, prefix, N: (p[:1], p[-N:]),
    "One row is kept, the last of the prefix.": lambda p, prefix, N: (p[prefix - 1 : prefix], p[-N:]),
    "One row is kept, and the grid begins with the next prefix row.": lambda p, prefix, N: (p[:1], p[1 : 1 + N]),
    "The prefix is in the picture, too: the grid is filled from row 0 on.": lambda p, prefix, N: (p[:prefix], p[:N]),
    "`position[0]` is one vector, (D,). `position[:num_prefix_tokens]` is a table of rows, (1, D) for one.":
        lambda p, prefix, N: (p[0], p[-N:]),
    "`position[:, num_prefix_tokens:]` leaves out columns: the table is (T, D), and the prefix is rows.":
        lambda p, prefix, N: (p[:, :prefix], p[:, prefix:]),
    "The prefix is in the picture: the grid is filled from row 0 on.": lambda p, prefix, N: (p[:0], p[:N]),
    "The prefix is looked for at the end: the grid begins with row 0.": lambda p, prefix, N: (p[N:], p[:N]),
}) + replacing(resize, "picture", None, {
    "`view` or `reshape` reads the rows as (D, h, w), " + MIXED: lambda rows, h, w: rows.reshape(1, -1, h, w),
    "The old picture is transposed: rows lie where columns should.": lambda rows, h, w: to_picture(rows, h, w).mT,
    "The patches are counted down the columns. They come row by row.": lambda rows, h, w: to_picture(rows, w, h).mT,
}) + replacing(resize, "rows", None, {
    "The picture is right. On the way back `view` or `reshape` reads (D, h', w') as rows, " + MIXED:
        lambda picture: picture.reshape(-1, picture.shape[1]),
    "The new rows are counted down the columns. They come row by row.": lambda picture: to_rows(picture.mT),
    "The D values of a row are in the opposite order.": lambda picture: to_rows(picture).flip(1),
    "The new rows are still (D, h'·w'): `.T` makes (h'·w', D) of them, which fit below the prefix.":
        lambda picture: picture[0].flatten(1),
    "The new rows have three axes, and the prefix has two: take `picture[0]`, and `flatten` the two axes of its grid.":
        lambda picture: picture.flatten(2).mT,
}) + known(None, {
    "The old grid is taken to be square, √N × √N.": partial(resize, old_grid=square),
    "The new grid is taken to be square, √N' × √N'.": partial(resize, new_grid=square),
    "Both grids are taken to be square, √N × √N and √N' × √N'.": partial(resize, old_grid=square, new_grid=square),
    "The new grid has as many columns as rows: h' × h'.": partial(resize, new_grid=lambda grid: (grid[0],) * 2),
    "The new grid has as many rows as columns: w' × w'.": partial(resize, new_grid=lambda grid: (grid[1],) * 2),
    "The old grid is read as (w, h): the picture is skewed.": partial(resize, old_grid=swap),
    "The new grid is turned, (w', h').": partial(resize, new_grid=swap),
    "Both grids are turned, (w, h) and (w', h'), or counted down the columns.":
        partial(resize, old_grid=swap, new_grid=swap),
    "The prefix is looked for at the end, and put back there: the grid begins with row 0.":
        partial(resize, split=lambda p, prefix, N: (p[N:], p[:N]), join=lambda first, rows: torch.cat([rows, first])),
    "`view` or `reshape` reads the rows as (D, h, w), and back, " + MIXED:
        lambda p, old, new, n: torch.cat([p[:n], zoom(p[n:].reshape(1, -1, *old), new).reshape(-1, p.shape[1])]),
    "The rows are still a picture, (1, D, h', w'), and the prefix is not there.":
        partial(resize, rows=lambda picture: picture, join=lambda first, rows: rows),
    "Your result is transposed, (D, S).": lambda *args: resize(*args).T,
    "There is still a leading axis of one, (1, S, D): `[0]` takes it off.": lambda *args: resize(*args)[None],
    "The old positions come back as they were.": lambda p, old, new, prefix: p,
    "The old positions come back as they were if both grids have the same number of patches. But 16 patches in 2 rows "
    "of 8 are in other places than in 4 rows of 4.":
        lambda p, old, new, prefix: p if prod(old) == prod(new) else resize(p, old, new, prefix),
    "The list of rows, prefix and all, is repeated until it is long enough. Nothing is interpolated.":
        lambda p, old, new, prefix: repeated(p, prefix + prod(new)),
    "All T rows are stretched as one long line, the prefix among them, and a row of patches runs on into the next.":
        [lambda p, old, new, prefix, mode=mode: line(p, prefix + prod(new), mode) for mode in ("bilinear", "bicubic")],
}) + known(None, {
    "The patches' rows are stretched as one long line: a row of patches runs on into the next.":
        [lambda rows, old, new, mode=mode: line(rows, prod(new), mode) for mode in ("bilinear", "bicubic")],
    "The list of patches is repeated. Nothing is interpolated.": lambda rows, old, new: repeated(rows, prod(new)),
    "Every row is repeated. Nothing is interpolated.":
        lambda rows, old, new: rows.repeat_interleave(-(-prod(new) // len(rows)), 0)[: prod(new)],
    "The old grid is laid side by side, like tiles. Nothing is interpolated.":
        lambda rows, old, new: to_rows(to_picture(rows, *old).repeat(1, 1, *new)[..., : new[0], : new[1]]),
    "The old grid lies in a corner of the new one, and the rest is zero.":
        lambda rows, old, new: to_rows(F.pad(to_picture(rows, *old), (0, new[1] - old[1], 0, new[0] - old[0]))),
    "The old rows are followed by rows of zeros.": lambda rows, old, new: F.pad(rows, (0, 0, 0, prod(new) - len(rows))),
}, lambda choose: lambda p, old, new, n: torch.cat([p[:n], choose(p[n:], old, new)]))  # fmt: skip


def my_new_task(model, images, num_classes):
    new = replace_head(model, num_classes)  # a copy, with zeros in its head
    new.requires_grad_(False)  # a linear probe: the body stays as it is
    new.head.requires_grad_(True)  # and the head learns
    fit(new, images, Recipe(epochs=30, batch_size=16, learning_rate=1e-2))
    return new


@exercise(
    hint="`new = replace_head(model, num_classes)` is a copy with a new head; train this copy. For a linear probe "
    "freeze all of it, `new.requires_grad_(False)`, and then unfreeze the head, `new.head.requires_grad_(True)`; a "
    "rate of 1e-2 suits it. To fine-tune all of it, freeze nothing, and take 1e-3 or less. In both cases "
    "`fit(new, images, Recipe(epochs=30, batch_size=16, learning_rate=…))`, and then `return new`.",
    solution=my_new_task,
    imports="from vit_tutorial import replace_head\nfrom vit_tutorial.training import Recipe, fit",
)
def new_task(function):
    """`fn(model, images, num_classes) -> model`: teach a trained model six new outlines from 100 pictures."""
    given, steps = load_checkpoint("shapes"), Steps()
    images, unseen = Shapes(100, 28, 40, MORE_OUTLINES), draw_unseen()
    card, before = given.card, {name: (p, p.detach().clone()) for name, p in given.named_parameters()}
    hook = register_optimizer_step_pre_hook(steps.note)
    try:
        with explained(FIT_SAYS), warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingAlarm)  # raised by a second stage, whose first loss is not ln K
            new = call(function, given, images, 6, seconds=120)
    finally:
        hook.remove()
    if not isinstance(new, nn.Module):
        raise Wrong(f"Return the model: `fit` trains it in place, and returns its losses. You returned {kind(new)}.")
    card, now = getattr(new, "card", None) or card, dict(given.named_parameters())
    other = listed([name for name, (p, old) in before.items() if now.get(name) is not p or not p.equal(old)])
    frozen = listed([name for name, p in now.items() if not p.requires_grad])
    changed = [
        (other, f"In the model that you were given these weights are others now: {other}. {COPY}"),
        (frozen, f"In the model that you were given you froze {frozen}. {COPY}"),
    ]
    right, _ = answers(new, unseen, card.normalise)
    # The body is what began with the given model's values, whatever it is called now. The head is all else.
    starts = {p: steps.starts.get(p, p.detach()) for p in new.parameters()}
    trunk = {name: old for name, (_, old) in before.items() if not name.startswith("head.")}
    body = {name: p for name, old in trunk.items() for p, start in starts.items() if start.to(old).equal(old)}
    length = nn.utils.get_total_norm  # of all as one vector
    moved = length([p.double() - starts[p] for p in body.values()]) / (length([starts[p] for p in body.values()]) or 1)
    if right >= ENOUGH:
        raise_first(changed)
        return f"{right:.0%} of 600 unseen pictures are right. The weights of the body moved by {moved:.0%}."
    own, loss = answers(new, images, card.normalise)
    raw = max(answers(new, images, scale)[0] for scale in (torch.Tensor.float, lambda pixels: pixels / 255))
    lost, head = listed([name for name in trunk if name not in body]), set(starts) - set(body.values())
    idle, held = all(p.equal(starts[p]) for p in head), any(p in steps.starts for p in head)
    away = any(not p.equal(start) for p, start in steps.starts.items() if p not in starts)
    zeros = "" if any(p.any() for p in head) else " Its zeros let no gradient through to the body, so nothing learns."
    took = f"{steps.count} steps at rates of up to {steps.rate:g}"
    guess = f"the loss on its own pictures is {loss:.2f}, and a guess costs ln 6 = 1.79"
    problems = [
        (not steps.count, "Nothing was trained: no optimizer took a step. Call `fit`, or write a loop."),
        (idle and away, f"What was trained is not in the model that you return: its head is new. {ORDER}"),
        (idle and not all(p.requires_grad for p in head), FROZEN + zeros),
        (idle and not held, f"No optimizer holds the new head: was it built before the head was replaced? {ORDER}"),
        (idle, f"{took} did not move the head: is there a `backward` before `step`, and no `zero_grad` in between?"),
        *changed,
        (lost, f"The body did not begin with the weights that you were given (others were in {lost}). "
         "`replace_head(model, num_classes)` keeps them; a new `VisionTransformer` begins at random."),
        (not moved < 0.4, f"The body has lost what it knew: {took} moved its weights by {moved:.0%}. Take "
         "1e-3 or less to train all of it."),
        (raw >= ENOUGH, "The model learned from pixels that were not normalised. `fit` and this check normalise them: "
         "`model.card.normalise(images.pixels)`."),
        (right > 0.3 and own > right + 0.2 and moved > 0.05, "The model knows its own pictures and few others: the "
         f"body has lost part of what it knew. {took} moved its weights by {moved:.0%}. Take 1e-3 or less."),
        (0.5 < loss < log(6) + 0.01, f"The head has hardly begun to learn: after {took} {guess}. Take more steps, or a "
         "larger rate."),
        (True, f"After {took}, which moved the body by {moved:.0%}, {guess}. Do the labels belong to the pictures?"),
    ]  # fmt: skip
    facts = f"{right:.0%} of 600 unseen pictures are right ({ENOUGH:.0%} are asked for, a guess is 17%)"
    raise Wrong(f"{next(text for there, text in problems if there)}\n{facts}, and {own:.0%} of its own 100.")


@cache  # the reader's code never gets these, and cannot change them
def draw_unseen() -> Shapes:
    return Shapes(600, 28, 62, MORE_OUTLINES)


ENOUGH = 0.66  # of the unseen pictures: sensible choices get 0.68 to 0.85, a head that has hardly moved 0.51 to 0.65
ORDER = "First `replace_head`, then train the new model, and return that one."
COPY = "`replace_head` returns a copy: freeze and train the copy only."
FROZEN = "The new head is frozen, and it has to learn: `new.head.requires_grad_(True)`."
FIT_SAYS = {
    "8 logits for 6 classes": "The head still has the 8 logits of the old outlines. `new = replace_head(model, "
    "num_classes)` does not change `model`. It returns a copy with a new head: train the copy.",
    "nothing to train|does not require grad": FROZEN,
}


class Steps:
    """What all optimizers did: how many steps, the largest rate, and their tensors as they were before the first."""

    def __init__(self):
        self.count, self.rate, self.starts = 0, 0.0, {}

    def note(self, optimizer: Optimizer, *args) -> None:
        self.count += 1
        for group in optimizer.param_groups:
            self.rate = max(self.rate, group["lr"])
            self.starts |= {p: p.detach().clone() for p in group["params"] if p not in self.starts}


def answers(model: nn.Module, images: ImageSet, scale: Callable) -> tuple[float, float]:
    """Return the share of right answers and the loss. Raise Wrong unless there are six logits for each picture."""
    inputs, parts = scale(images.pixels).to(next(model.parameters(), torch.zeros(()))), []
    for batch in inputs.split(BATCH):
        with eval_mode(model), torch.no_grad(), prefixed("This was the model that you returned, with pictures."):
            parts.append(call(model, batch))
        if getattr(parts[-1], "shape", None) != (len(batch), 6):
            old = " The old head is still there: `replace_head` returns a copy with a new one."
            raise Wrong(
                f"Your model returns {kind(parts[-1])} for {len(batch)} pictures of 6 outlines: (B, 6) is expected."
                + old * (getattr(parts[-1], "shape", ())[-1:] == (8,))
            )
    logits = torch.cat(parts)
    return (logits.argmax(1) == images.labels).double().mean().item(), F.cross_entropy(logits, images.labels).item()
