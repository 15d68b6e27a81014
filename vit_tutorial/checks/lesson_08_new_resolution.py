"""Lesson 08: positions resized to another grid, attention with weighted tokens, a trained model for new classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..adapting import replace_head
from ..data import ImageSet, Shapes
from ..data.outlines import MORE_OUTLINES
from ..inference import eval_mode
from ..pretrained import load_checkpoint
from ..training import Recipe, fit
from .exercise import Exercise, all_for, noise
from .lesson_03_attention import SCALES, SOFTMAX, WEIGHTS
from .running import Wrong, call, describe


def my_resize_positions(position, old_grid, new_grid, num_prefix_tokens):
    h, w = old_grid
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    picture = patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)  # (1, D, h, w)
    resized = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)  # (1, D, h', w')
    rows = resized[0].flatten(1).T  # (D, h'·w') -> (h'·w', D)
    return torch.cat([prefix, rows])


def table(D: int, old: tuple[int, int], new: tuple[int, int], prefix: int = 1) -> tuple:
    return noise(prefix + prod(old), D), old, new, prefix


ASIDE, REST = "position[:num_prefix_tokens]", "position[num_prefix_tokens:]"
PICTURE = "patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)"
AS_PICTURE = [  # other ways to write PICTURE: below, each pair (old, new) edits the solution above
    PICTURE,
    "patches.reshape(1, h, w, position.shape[1]).permute(0, 3, 1, 2)",
    "patches.reshape(h, w, -1).permute(2, 0, 1)[None]",
    "patches.T.reshape(1, -1, h, w)",
    "patches.unflatten(0, (h, w)).permute(2, 0, 1)[None]",
    'rearrange(patches, "(h w) d -> 1 d h w", h=h, w=w)',
]
SIZE, MODE = "size=new_grid", 'mode="bicubic", antialias=True'
BACK, TOGETHER = "resized[0].flatten(1).T", "torch.cat([prefix, rows])"
OLD_SQUARE = ("h, w = old_grid", "h = w = int(len(position[num_prefix_tokens:]) ** 0.5)")
NEW_SQUARE = (SIZE, "size=int((new_grid[0] * new_grid[1]) ** 0.5)")

# The first table has no prefix: who leaves it in the picture is right there. In the second N is a square both times and
# no grid is. The third is the smallest where 15 / 11 is rounded such that 11 · (15 / 11) is cut off at 14. In the fifth
# only the shape changes. No table fits into another picture.
resize_positions = Exercise(
    my_resize_positions,
    task="`fn(position, old_grid, new_grid, num_prefix_tokens)`, (T, D) → (S, D): bicubic with antialiasing.",
    trials=[table(5, (2, 3), (4, 3), prefix=0), table(5, (2, 8), (4, 9)), table(3, (11, 2), (15, 4)),
            table(5, (6, 4), (4, 3)), table(5, (2, 8), (4, 4)), table(5, (2, 3), (2, 3)),
            table(5, (3, 2), (2, 5), prefix=2)],
    slips={
        "One row is kept, the class token's, whatever `num_prefix_tokens` says.":
            [(ASIDE, "position[:1]", REST, "position[-h * w:]")]
            + [(ASIDE, "position[:1]", REST, "position[1:]", PICTURE, way) for way in AS_PICTURE]
            + [("num_prefix_tokens]", "num_prefix_tokens or 1]", "num_prefix_tokens:]", "num_prefix_tokens or 1:]",
                PICTURE, way) for way in AS_PICTURE],
        "The prefix is in the picture, and the class token has no place: leave it out, `position[num_prefix_tokens:]`.":
            [(REST, "position", PICTURE, way) for way in AS_PICTURE]
            + [(REST, "position[:h * w]"), (REST, "position[:h * w]", ASIDE, "position[:0]")],
        "The prefix is looked for at the end: the grid begins with row 0.":
            [(ASIDE, "position[h * w:]", REST, "position[:h * w]", TOGETHER, f"torch.cat([{parts}])")
             for parts in ("prefix, rows", "rows, prefix")],
        "`position[:, num_prefix_tokens:]` leaves out columns: the table is (T, D), and the prefix is rows.":
            [(ASIDE, "position[:, :num_prefix_tokens]", REST, "position[:, num_prefix_tokens:]", PICTURE, way)
             for way in AS_PICTURE],
        "A grid is taken to be square, √N × √N. Neither needs to be, and the new one has a size of its own.":
            [OLD_SQUARE, NEW_SQUARE, OLD_SQUARE + NEW_SQUARE, (*OLD_SQUARE, SIZE, "size=(h, w)")],
        "The old grid is read as (w, h): the picture is skewed.": ("h, w = old_grid", "w, h = old_grid"),
        "Both grids are turned, (w, h) and (w', h'), or counted down the columns.":
            ("h, w = old_grid", "w, h = old_grid", SIZE, "size=new_grid[::-1]"),
        "The new grid is turned, or has as many rows as columns. It is (h', w').":
            [(SIZE, f"size=new_grid[{part}]") for part in ("0", "1", "::-1")],
        "The patches are counted down the columns, or the picture is transposed. They come row by row.":
            [(PICTURE, f"{PICTURE}.mT"), (PICTURE, "patches.reshape(1, w, h, -1).permute(0, 3, 2, 1)"),
             (BACK, "resized[0].mT.flatten(1).T")],
        "`view` or `reshape` reads rows as (D, h, w), or a picture as rows, without a transpose. That mixes the values "
        "of several rows; `permute` or `movedim` moves an axis.":
            [(PICTURE, "patches.reshape(1, -1, h, w)"), (BACK, "resized.reshape(-1, position.shape[1])"),
             (PICTURE, "patches.reshape(1, -1, h, w)", BACK, "resized.reshape(-1, position.shape[1])")],
        "`F.interpolate` needs (1, D, h, w) and resizes the last two axes: `permute` brings D forward, and `[None]` "
        "adds the 1.": [(PICTURE, f"patches.reshape({axes}") for axes in
                        ("1, h, w, -1)", "h, w, -1)", "h, w, -1).permute(2, 0, 1)")],
        "A scale factor gives another grid, or displaces the positions: 15 / 11 is rounded in the computer, 11 · (15 / "
        "11) comes out below 15, and PyTorch cuts it off at 14. Give the target, `size=new_grid`.":
            [(SIZE, f"scale_factor={factor}") for factor in (
                "(new_grid[0] / h, new_grid[1] / w)", "(new_grid[0] / h, new_grid[1] / w), recompute_scale_factor=True",
                "(float(new_grid[0] // h), float(new_grid[1] // w))",
                "((new_grid[0] + 0.1) / h, (new_grid[1] + 0.1) / w)",
                "new_grid[0] / h", "new_grid[1] / w", "(new_grid[0] * new_grid[1] / h / w) ** 0.5")],
        "This is bilinear interpolation. The task asks for bicubic.":
            [(MODE, f'mode="bilinear"{more}') for more in ("", ", antialias=True", ", align_corners=True")],
        "This is bicubic interpolation with `align_corners=True`: old and new corner patches have the same centre. "
        "Their outer edges should meet, as two pictures' do.":
            [(MODE, f"{mode}, align_corners=True") for mode in (MODE, 'mode="bicubic"')],
        "The old positions come back as they were. But 16 patches in 2 rows of 8 are in other places than in 4 rows of "
        "4.": [lambda p, old, new, n: p,
               lambda p, old, new, n: p if prod(old) == prod(new) else my_resize_positions(p, old, new, n)],
        "The new rows do not fit below the prefix. They must be (h'·w', D): `picture[0].flatten(1).T`.":
            [(BACK, "resized[0].flatten(1)"), (BACK, "resized.flatten(2).mT")],
        "You stretch the rows as one long list. A patch has neighbours above and below it, too: read the table as a "
        "picture.": lambda p, old, new, n: torch.cat(
            [p[:n], F.interpolate(p[n:].T[None], size=prod(new), mode="linear")[0].T]),
        "The prefix is zeros in your result. It stays as it was.": (ASIDE, f"torch.zeros_like({ASIDE})"),
        "The prefix belongs in front, as it was. Yours is gone, averaged, or moved to the end.":
            [(TOGETHER, "rows"), (TOGETHER, "torch.cat([rows, prefix])"),
             (ASIDE, f"{ASIDE}.mean(dim=0, keepdim=True)"), (ASIDE, f"{ASIDE}.mean(dim=0).expand({ASIDE}.shape)")],
        "This is bicubic interpolation without antialiasing. When the grid grows it matters, too: PyTorch's bicubic "
        "then uses another curve (a = -0.5, not -0.75).": (MODE, 'mode="bicubic"'),
        'This is `mode="nearest"` or `mode="area"`. The task asks for bicubic.':
            [(MODE, 'mode="nearest"'), (MODE, 'mode="area"')],
    } | all_for(TOGETHER, {
        "The prefix belongs above the rows, `dim=0`, not beside them.": "torch.cat([prefix, rows], dim=1)",
        "`position[0]` is one vector, (D,). `position[:num_prefix_tokens]` is a table of rows, (1, D) for one.":
            "torch.cat([position[0], rows])",
    }),
    hint="Keep the first rows aside, `position[:num_prefix_tokens]`. Make a picture of the others, `reshape(1, h, w, "
    "D)`, and bring the D axis to the front, `permute(0, 3, 1, 2)`. Then `F.interpolate(picture, size=new_grid, "
    'mode="bicubic", antialias=True)`. Turn the picture back into rows, `picture[0].flatten(1).T`, and put the first '
    "rows in front, `torch.cat([prefix, rows])`.",
    shape="(S, D)",
    imports="import torch.nn.functional as F",
    gradients=False,
)  # fmt: skip


def my_weighted_attention(q, k, v, times):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, h, T, T)
    scores = scores + times.log()[:, None, None]  # (B, 1, 1, T): one for each key, in all heads and for all queries
    return scores.softmax(dim=-1) @ v  # (B, h, T, d)


LOG = " + times.log()[:, None, None]"

weighted_attention = Exercise(
    my_weighted_attention,
    task="`fn(q, k, v, times)`: q, k, v (B, h, T, d), times (B, T) → (B, h, T, d), token j counts as if it were there "
    "times[j] times.",
    trials=[(*(noise(B, h, T, d, seed=seed) for seed in range(3)), noise(B, T).exp())
            for B, h, T, d in ((2, 3, 6, 4), (3, 2, 5, 7), (1, 4, 7, 3))],
    slips=SCALES | WEIGHTS | {
        "`times` changes nothing: it is not used, or it is the same for all keys of a query, which softmax cancels.":
            [(LOG, ""), (LOG, " + times.log()[:, None, :, None]")],
        "w itself is added to the scores, so a token counts e^w times: add log w.": (LOG, " + times[:, None, None]"),
        "log w is subtracted from the scores, so a token with w = 2 counts half.": (LOG, LOG.replace("+", "-")),
        "The scores, or the keys, are multiplied by w: add log w to the scores instead.":
            (LOG, " * times[:, None, None]"),
        "The scores are multiplied by log w: add it to them.": (LOG, LOG.replace("+", "*")),
        "Row i of the scores, query i, is multiplied by w. It belongs to column j, the key.":
            (LOG, " * times[:, None, :, None]"),
        "The weights, or the values, are multiplied by w, and the rows of the weights no longer sum to 1.":
            (LOG, "", SOFTMAX, f"{SOFTMAX} * times[:, None, None]"),
        "The result of token i is multiplied by w. It belongs to the keys, the last axis of the scores.":
            (LOG, "", SOFTMAX, f"{SOFTMAX} * times[:, None, :, None]"),
        "log w is added after the softmax. It belongs to the scores, before it.": (LOG, "", SOFTMAX, SOFTMAX + LOG),
        "log w is divided by √d, too: add it when the scores are scaled.": (LOG, f"{LOG} / q.shape[-1] ** 0.5"),
        "log(1 + w) is added to the scores, not log w.": (LOG, LOG.replace("log()", "log1p()")),
        "`times` is (B, T), and the scores are (B, h, T, T): `times[:, None, None]` is (B, 1, 1, T), one for each key.":
            [(LOG, " + times.log()"), (LOG, " + times.log()[:, None]"), (LOG, " + times.log()[:, :, None]")],
        "Tokens are repeated, which w = 0.5 does not allow: add log w to the scores.":
            (LOG, "", "scores = q", "k, v = (x.repeat_interleave(times, dim=2) for x in (k, v))\n    scores = q"),
        "The weights are returned too, or alone: only the mixed values, please.":
            [("return ", "return 0, "), (f"{SOFTMAX} @ v", SOFTMAX)],
    },
    hint="Two equal terms e^s in a softmax are one term 2·e^s = e^(s + log 2). So compute the scores, divide by √d, "
    "add `times.log()[:, None, None]`, (B, 1, 1, T), and go on as in lesson 03: softmax, and mix the values.",
    shape="(B, h, T, d)",
)  # fmt: skip


def my_new_task(model, images, num_classes):
    new = replace_head(model, num_classes)  # a copy, with zeros in its head
    new.requires_grad_(False)  # a linear probe: the body stays as it is
    new.head.requires_grad_(True)  # and the head learns
    fit(new, images, Recipe(epochs=30, batch_size=16, learning_rate=1e-2))
    return new


@cache  # the reader's code never gets these, and cannot change them
def unseen_pictures() -> ImageSet:
    return Shapes(600, 28, 62, MORE_OUTLINES)


EIGHT = "Eight is what the old head has. `replace_head(model, num_classes)` returns a copy with a new one: train that."
ENOUGH = 0.66  # of the unseen pictures: sensible choices get 0.68 to 0.85, a head that has hardly moved 0.51 to 0.65


def judge_new_task(function: Callable) -> str:
    """Give the reader's function a trained model and 100 pictures; ask what it returns about 600 others."""
    given, images = load_checkpoint("shapes"), Shapes(100, 28, 40, MORE_OUTLINES)
    before = {name: p.detach().clone() for name, p in given.named_parameters()}
    normalise = given.card.normalise
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `fit` warns at a second stage, whose first loss is not ln K
            new = call(function, given, images, 6)
    except Wrong as wrong:
        if "8 logits for 6 classes" in wrong.message:
            wrong.message += f"\n{EIGHT}"
        raise
    if not isinstance(new, nn.Module):
        raise Wrong(
            f"Return the model: `fit` trains it in place, and returns its losses. You returned {describe(new)}."
        )
    now = {name: p for name, p in given.named_parameters() if p.requires_grad}
    if changed := [name for name, old in before.items() if name not in now or not now[name].equal(old)]:
        raise Wrong(f"In the model that you were given `{changed[0]}` is changed or frozen. `replace_head` returns a "
                    "copy: freeze and train the copy only.")  # fmt: skip
    own, loss = answers(new, images, normalise)
    raw = max(answers(new, images, scale)[0] for scale in (Tensor.float, lambda pixels: pixels / 255))
    if raw > max(own, 0.3):
        raise Wrong("The model learned from pixels that were not normalised: of its own 100 pictures it knows "
                    f"{raw:.0%} as they are, and {own:.0%} normalised. `fit` and this check normalise them: "
                    "`model.card.normalise(images.pixels)`.")  # fmt: skip
    right, _ = answers(new, unseen_pictures(), normalise)
    # The body is what has the names of the given model's, be it inside another module. The head is all else.
    parts = [(p, before[name]) for whole, p in new.named_parameters() for name in before
             if whole.endswith(name) and p.shape == before[name].shape and not name.startswith("head.")]  # fmt: skip
    length = nn.utils.get_total_norm  # of all as one vector
    moved = float(length([p.detach() - old for p, old in parts]) / (length([old for _, old in parts]) or 1))
    if right >= ENOUGH:
        more = "" if right >= 0.8 else " More than 80% are possible."
        return f"{right:.0%} of 600 unseen pictures are right. The weights of the body moved by {moved:.0%}.{more}"
    body = {id(p) for p, _ in parts}
    reason = why_too_few([p for p in new.parameters() if id(p) not in body], moved, loss)
    facts = f"{right:.0%} of 600 unseen pictures are right ({ENOUGH:.0%} are asked for, a guess is 17%)"
    raise Wrong(f"{reason}\n{facts}, and {own:.0%} of its own 100.")


def why_too_few(head: list[Tensor], moved: float, loss: float) -> str:
    """Say why a model knows too little, from its head's weights, how far the body moved, and the loss that is left."""
    if not all(p.requires_grad for p in head):
        return "The new head is frozen, and it has to learn: `new.head.requires_grad_(True)`."
    if not any(p.any() for p in head):
        return ("Nothing was trained in the head that you return: it holds zeros, as `replace_head` made it. First "
                "`replace_head`, then train the new model with `fit` or in a loop, and return that one.")  # fmt: skip
    if not moved < 0.2:  # or it is nan
        return (f"The body has lost what it knew: its weights moved by {moved:.0%}. Begin with those that you were "
                "given, as `replace_head` does, and take a rate of 1e-3 or less to train all of it.")  # fmt: skip
    return (f"The head has learned too little: the loss on its own pictures is {loss:.2f}, and a guess costs ln 6 = "
            "1.79. Take more steps, or a larger rate. Or does the optimizer not hold the new head, or are the labels "
            "others?")  # fmt: skip


def answers(model: nn.Module, images: ImageSet, scale: Callable) -> tuple[float, float]:
    """Return the share of right answers and the loss. Raise Wrong unless there are six logits for each picture."""
    inputs = scale(images.pixels).to(next(model.parameters(), torch.zeros(())))
    with eval_mode(model), torch.no_grad():
        logits = call(model, inputs)
    shape = getattr(logits, "shape", ())
    if shape != (len(inputs), 6):
        old = f"\n{EIGHT}" if shape[-1:] == (8,) else ""
        raise Wrong(f"Your model returns {describe(logits)} for {len(inputs)} pictures: (B, 6) is expected.{old}")
    return (logits.argmax(1) == images.labels).double().mean().item(), F.cross_entropy(logits, images.labels).item()


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
