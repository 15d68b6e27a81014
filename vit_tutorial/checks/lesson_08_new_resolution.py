"""Lesson 08: position embeddings resized to another grid, and a trained model for new classes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache
from math import log, prod

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..adapting import replace_head
from ..data import ImageSet, Shapes
from ..data.outlines import MORE_OUTLINES
from ..inference import eval_mode
from ..pretrained import load_checkpoint
from ..training import Recipe, fit
from .exercise import Exercise, all_for, noise
from .running import Wrong, call, kind


def my_resize_positions(position, old_grid, new_grid, num_prefix_tokens):
    h, w = old_grid
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    picture = patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)  # (1, D, h, w)
    resized = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)  # (1, D, h', w')
    rows = resized[0].flatten(1).T  # (D, h'·w') -> (h'·w', D)
    return torch.cat([prefix, rows])


def sizes(D: int, old: tuple[int, int], new: tuple[int, int], prefix: int = 1) -> tuple:
    return noise(prefix + prod(old), D), old, new, prefix


def only_rows(choose: Callable) -> Callable:
    """Return an answer that makes the new rows of the old ones in this way, and keeps the prefix."""
    return lambda p, old, new, n: torch.cat([p[:n], choose(p[n:], old, new)])


def stretched(rows: Tensor, count: int, mode: str) -> Tensor:
    line = F.interpolate(rearrange(rows, "n d -> 1 d 1 n"), (1, count), mode=mode, antialias=mode == "bicubic")
    return rearrange(line, "1 d 1 n -> n d")


PREFIX, PATCHES = "position[:num_prefix_tokens]", "position[num_prefix_tokens:]"
PICTURE = "patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)"
SIZE, MODE = "size=new_grid", 'mode="bicubic", antialias=True'
ROWS = "resized[0].flatten(1).T"
JOINED = "torch.cat([prefix, rows])"
SQUARE = ("h, w = old_grid", "h = w = int(len(position[num_prefix_tokens:]) ** 0.5)")
AS_PICTURE = [PICTURE, "patches.reshape(h, w, -1).permute(2, 0, 1)[None]", "patches.T.reshape(1, -1, h, w)",
              "patches.reshape(1, h, w, position.shape[1]).permute(0, 3, 1, 2)",
              'rearrange(patches, "(h w) d -> 1 d h w", h=h, w=w)']  # fmt: skip
MIXED = "without a transpose. That mixes the values of several rows; `permute` or `movedim` moves an axis."
AXES = "`F.interpolate` needs (1, D, h, w) and resizes the last two axes."

# In the first trial N is a square both times and no grid is. The second is the smallest where 15 / 11 is rounded such
# that 11 · (15 / 11) is cut off at 14. In the fourth only the shape changes. No table fits into another picture.
resize_positions = Exercise(
    my_resize_positions,
    task="`fn(position, old_grid, new_grid, num_prefix_tokens)`, (T, D) → (S, D): bicubic with antialiasing.",
    trials=[sizes(5, (2, 8), (4, 9)), sizes(3, (11, 2), (15, 4)), sizes(5, (6, 4), (4, 3)), sizes(5, (2, 8), (4, 4)),
            sizes(5, (2, 3), (2, 3)), sizes(5, (3, 2), (2, 5), prefix=2), sizes(5, (2, 3), (4, 3), prefix=0)],
    slips={
        "One row is kept, the class token's, whatever `num_prefix_tokens` says.":
            [(PREFIX, "position[:1]", PATCHES, "position[-h * w:]")]
            + [(PREFIX, "position[:1]", PATCHES, "position[1:]", PICTURE, way) for way in AS_PICTURE],
        "One row is kept even where `num_prefix_tokens` is 0.":
            [("num_prefix_tokens]", "num_prefix_tokens or 1]", "num_prefix_tokens:]", "num_prefix_tokens or 1:]",
              PICTURE, way) for way in AS_PICTURE],
        "The prefix is in the picture, and the class token has no place: leave it out, `position[num_prefix_tokens:]`.":
            [(PATCHES, "position", PICTURE, way) for way in AS_PICTURE]
            + [(PATCHES, "position[:h * w]"), (PATCHES, "position[:h * w]", PREFIX, "position[:0]")],
        "The prefix is looked for at the end: the grid begins with row 0.":
            [(PREFIX, "position[h * w:]", PATCHES, "position[:h * w]", JOINED, f"torch.cat([{parts}])")
             for parts in ("prefix, rows", "rows, prefix")],
        "`position[:, num_prefix_tokens:]` leaves out columns: the table is (T, D), and the prefix is rows.":
            [(PREFIX, "position[:, :num_prefix_tokens]", PATCHES, "position[:, num_prefix_tokens:]", PICTURE, way)
             for way in AS_PICTURE],
        "`view` or `reshape` reads the rows as (D, h, w), and back, " + MIXED:
            (PICTURE, "patches.reshape(1, -1, h, w)", ROWS, "resized.reshape(-1, position.shape[1])"),
        "The old grid is taken to be square, √N × √N.": SQUARE,
        "The new grid is taken to be square, √N' × √N'.": (SIZE, "size=int((new_grid[0] * new_grid[1]) ** 0.5)"),
        "Both grids are taken to be square, √N × √N and √N' × √N'.":
            (*SQUARE, SIZE, "size=int((new_grid[0] * new_grid[1]) ** 0.5)"),
        "Both grids are taken to be √N × √N. Neither needs to be square, and the new one has a size of its own.":
            (*SQUARE, SIZE, "size=(h, w)"),
        "The old grid is read as (w, h): the picture is skewed.": ("h, w = old_grid", "w, h = old_grid"),
        "Both grids are turned, (w, h) and (w', h'), or counted down the columns.":
            ("h, w = old_grid", "w, h = old_grid", SIZE, "size=new_grid[::-1]"),
        "`scale_factor` instead of `size`: 15 / 11 is rounded in the computer, 11 · (15 / 11) comes out below 15, and "
        "PyTorch cuts it off at 14. So the grid lacks a row.":
            [(SIZE, f"scale_factor=(new_grid[0] / h, new_grid[1] / w){more}")
             for more in ("", ", recompute_scale_factor=True")],
        "This is bilinear interpolation. The task asks for bicubic.":
            [(MODE, 'mode="bilinear", antialias=True'), (MODE, 'mode="bilinear"')],
        "This is bicubic interpolation with `align_corners=True`: old and new corner patches have the same centre. "
        "Their outer edges should meet, as two pictures' do.":
            [(MODE, f"{mode}, align_corners=True") for mode in (MODE, 'mode="bicubic"')],
        "The rows of the prefix are averaged.":
            [(PREFIX, f"{PREFIX}.mean(dim=0, keepdim=True){more}") for more in ("", f".expand_as({PREFIX})")],
        "One scale factor for both axes, the rows', the columns' or √(N'/N): they need one each.":
            [(SIZE, f"scale_factor={one}") for one in
             ("new_grid[0] / h", "new_grid[1] / w", "(new_grid[0] * new_grid[1] / h / w) ** 0.5")],
        "Your result is transposed, (D, S).": ("cat([prefix, rows])", "cat([prefix, rows]).T"),
        "There is still a leading axis of one, (1, S, D): `[0]` takes it off.": (JOINED, f"{JOINED}[None]"),
        "The rows are still a picture, (1, D, h', w'), and the prefix is not there.": (JOINED, "resized"),
        "The old positions come back as they were.": lambda p, old, new, n: p,
        "The old positions come back as they were if both grids have the same number of patches. But 16 patches in 2 "
        "rows of 8 are in other places than in 4 rows of 4.":
            lambda p, old, new, n: p if prod(old) == prod(new) else my_resize_positions(p, old, new, n),
        "All T rows are stretched as one long line, the prefix among them, and a row of patches runs on into the next.":
            [lambda p, old, new, n, mode=mode: stretched(p, n + prod(new), mode) for mode in ("bilinear", "bicubic")],
        "The patches' rows are stretched as one long line: a row of patches runs on into the next.":
            [only_rows(lambda rows, old, new, mode=mode: stretched(rows, prod(new), mode))
             for mode in ("bilinear", "bicubic")],
        "The old grid is laid side by side, like tiles. Nothing is interpolated.":
            (f"F.interpolate(picture, {SIZE}, {MODE})", "picture.repeat(1, 1, 9, 9)[..., :new_grid[0], :new_grid[1]]"),
        "The list of patches is repeated. Nothing is interpolated.":
            only_rows(lambda rows, old, new: rows.repeat(prod(new), 1)[: prod(new)]),
    } | all_for(PICTURE, {
        f"{AXES} Here D is last: `permute(0, 3, 1, 2)` brings it forward.": "patches.reshape(1, h, w, -1)",
        f"{AXES} Here it gets (h, w, D): `permute(2, 0, 1)` brings D forward, `[None]` adds the 1.":
            "patches.reshape(h, w, -1)",
        f"{AXES} Here it gets (D, h, w): `[None]` adds the 1.": "patches.reshape(h, w, -1).permute(2, 0, 1)",
        "`view` or `reshape` reads the rows as (D, h, w), " + MIXED: "patches.reshape(1, -1, h, w)",
        "The old picture is transposed: rows lie where columns should.": f"{PICTURE}.mT",
        "The patches are counted down the columns. They come row by row.":
            "patches.reshape(1, w, h, -1).permute(0, 3, 2, 1)",
    }) | all_for(MODE, {
        "This is bilinear interpolation, and with `align_corners=True`. The task asks for bicubic, without it.":
            'mode="bilinear", align_corners=True',
        "This is bicubic interpolation without antialiasing. When the grid grows it matters, too: PyTorch's bicubic "
        "then uses another curve (a = -0.5, not -0.75).": 'mode="bicubic"',
        'This is `mode="nearest"`, which copies positions. The task asks for bicubic.': 'mode="nearest"',
        'This is `mode="area"`, which averages over windows. The task asks for bicubic.': 'mode="area"',
    }) | all_for(SIZE, {
        "The scale factors are cut off to whole numbers by `//`: give the target, `size=new_grid`.":
            "scale_factor=(float(new_grid[0] // h), float(new_grid[1] // w))",
        "A scale factor with 0.1 added displaces everything a bit: use `size`.":
            "scale_factor=((new_grid[0] + 0.1) / h, (new_grid[1] + 0.1) / w)",
        "The new grid has as many columns as rows: h' × h'.": "size=new_grid[0]",
        "The new grid has as many rows as columns: w' × w'.": "size=new_grid[1]",
        "The new grid is turned, (w', h').": "size=new_grid[::-1]",
    }) | all_for(ROWS, {
        "The picture is right. On the way back `view` or `reshape` reads (D, h', w') as rows, " + MIXED:
            "resized.reshape(-1, position.shape[1])",
        "The new rows are counted down the columns. They come row by row.": "resized[0].mT.flatten(1).T",
        "The new rows are still (D, h'·w'): `.T` makes (h'·w', D) of them, which fit below the prefix.":
            "resized[0].flatten(1)",
        "The new rows have three axes, and the prefix has two: take `picture[0]`, and `flatten` its grid's two axes.":
            "resized.flatten(2).mT",
    }) | all_for(JOINED, {
        "`position[0]` is one vector, (D,). `position[:num_prefix_tokens]` is a table of rows, (1, D) for one.":
            "torch.cat([position[0], rows])",
        "The prefix is gone: only the patches' rows come back.": "rows",
        "The prefix is moved to the end. It belongs in front.": "torch.cat([rows, prefix])",
        "The prefix belongs above the rows, `dim=0`, not beside them.": "torch.cat([prefix, rows], dim=1)",
    }),
    easier=[(sizes(5, (2, 8), (4, 9), prefix=0), "Without a prefix, `num_prefix_tokens=0`, yours is right.")],
    hint="Keep the first rows aside, `position[:num_prefix_tokens]`. Make a picture of the others, `reshape(1, h, w, "
    "D)`, and bring the D axis to the front, `permute(0, 3, 1, 2)`. Then `F.interpolate(picture, size=new_grid, "
    'mode="bicubic", antialias=True)`. Turn the picture back into rows, `picture[0].flatten(1).T`, and put the first '
    "rows in front, `torch.cat([prefix, rows])`.",
    shape="(S, D)",
    imports="import torch.nn.functional as F",
    gradients=False,
)  # fmt: skip


def my_new_task(model, images, num_classes):
    new = replace_head(model, num_classes)  # a copy, with zeros in its head
    new.requires_grad_(False)  # a linear probe: the body stays as it is
    new.head.requires_grad_(True)  # and the head learns
    fit(new, images, Recipe(epochs=30, batch_size=16, learning_rate=1e-2))
    return new


@cache  # the reader's code never gets these, and cannot change them
def unseen() -> ImageSet:
    return Shapes(600, 28, 62, MORE_OUTLINES)


ENOUGH = 0.66  # of the unseen pictures: sensible choices get 0.68 to 0.85, a head that has hardly moved 0.51 to 0.65
COPY = "`replace_head` returns a copy: freeze and train the copy only."
FROZEN = "The new head is frozen, and it has to learn: `new.head.requires_grad_(True)`."
FIT_SAYS = {
    "8 logits for 6 classes": "The head still has the 8 logits of the old outlines. `new = replace_head(model, "
    "num_classes)` does not change `model`. It returns a copy with a new head: train the copy.",
    "nothing to train|does not require grad": FROZEN,
}


def judge_new_task(function: Callable) -> str:
    """Give the reader's function a trained model and 100 pictures; ask what it returns about 600 others."""
    given, images = load_checkpoint("shapes"), Shapes(100, 28, 40, MORE_OUTLINES)
    before, normalise = {name: p.detach().clone() for name, p in given.named_parameters()}, given.card.normalise
    new, rates, held = teach(function, given, images)
    now = dict(given.named_parameters())
    if changed := [name for name, old in before.items() if name not in now or not now[name].equal(old)]:
        raise Wrong(f"In the model that you were given other weights are found now, as in `{changed[0]}`. {COPY}")
    if frozen := [name for name, p in now.items() if not p.requires_grad]:
        raise Wrong(f"In the model that you were given you froze `{frozen[0]}`. {COPY}")
    own, loss = answers(new, images, normalise)
    raw = max(answers(new, images, scale)[0] for scale in (Tensor.float, lambda pixels: pixels / 255))
    if raw > max(own, 0.3):
        raise Wrong("The model learned from pixels that were not normalised: of its own 100 pictures it knows "
                    f"{raw:.0%} as they are, and {own:.0%} normalised. `fit` and this check normalise them: "
                    "`model.card.normalise(images.pixels)`.")  # fmt: skip
    right, _ = answers(new, unseen(), normalise)
    # The body is what began with the given model's values, whatever it is called now. The head is all else.
    starts = {p: held.get(p, p.detach()) for p in new.parameters()}
    trunk = {name: old for name, old in before.items() if not name.startswith("head.")}
    body = {name: p for name, old in trunk.items() for p, start in starts.items() if start.to(old).equal(old)}
    length = nn.utils.get_total_norm  # of all as one vector
    moved = length([p.double() - starts[p] for p in body.values()]) / (length([starts[p] for p in body.values()]) or 1)
    if right >= ENOUGH:
        return f"{right:.0%} of 600 unseen pictures are right. The weights of the body moved by {moved:.0%}."
    head, lost = set(starts) - set(body.values()), ", ".join([f"`{name}`" for name in trunk if name not in body][:2])
    still = all(p.equal(starts[p]) for p in head)
    forgot = not moved < 0.4 or (right > 0.3 and own > right + 0.2 and moved > 0.05)
    took = f"{len(rates)} steps at rates of up to {max(rates, default=0):g}"
    guess = f"the loss on its own pictures is {loss:.2f}, and a guess costs ln 6 = 1.79"
    problems = {
        "Nothing was trained: no optimizer took a step. Call `fit`, or write a loop.": not rates,
        FROZEN: still and not all(p.requires_grad for p in head),
        "No optimizer holds the head of the model that you return: it is newer than the optimizer or the training. "
        "First `replace_head`, then train the new model, and return that one.": still and not head & set(held),
        f"{took} did not move the head: is there a `backward` before `step`, and no `zero_grad` in between?": still,
        f"The body did not begin with the weights that you were given (others were in {lost}, for instance). "
        "`replace_head(model, num_classes)` keeps them; a new `VisionTransformer` begins at random.": lost,
        f"The body has lost what it knew: {took} moved its weights by {moved:.0%}. Take 1e-3 or less to train all of "
        "it.": forgot,
        f"The head has hardly begun to learn: after {took} {guess}. Take more steps, or a larger rate.":
            0.5 < loss < log(6) + 0.01,
        f"After {took}, which moved the body by {moved:.0%}, {guess}. Do the labels belong to the pictures?": True,
    }  # fmt: skip
    facts = f"{right:.0%} of 600 unseen pictures are right ({ENOUGH:.0%} are asked for, a guess is 17%)"
    raise Wrong(f"{next(text for text, there in problems.items() if there)}\n{facts}, and {own:.0%} of its own 100.")


def teach(function: Callable, given: nn.Module, images: ImageSet) -> tuple[nn.Module, list[float], dict]:
    """Return the reader's model, the rate of each step, and what the optimizers held as it was before the first."""
    rates, held = [], {}

    def note(optimizer, *args):
        rates.append(max(group["lr"] for group in optimizer.param_groups))
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        held.update({p: p.detach().clone() for p in parameters if p not in held})

    hook = register_optimizer_step_pre_hook(note)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `fit` warns at a second stage, whose first loss is not ln K
            new = call(function, given, images, 6)
    except Wrong as wrong:
        meaning = next((FIT_SAYS[text] for text in FIT_SAYS if re.search(text, str(wrong.error))), "")
        raise Wrong(f"{wrong.message}\n{meaning}".rstrip(), code=wrong.code, error=wrong.error) from None
    finally:
        hook.remove()
    if not isinstance(new, nn.Module):
        raise Wrong(f"Return the model: `fit` trains it in place, and returns its losses. You returned {kind(new)}.")
    return new, rates, held


def answers(model: nn.Module, images: ImageSet, scale: Callable) -> tuple[float, float]:
    """Return the share of right answers and the loss. Raise Wrong unless there are six logits for each picture."""
    inputs = scale(images.pixels).to(next(model.parameters(), torch.zeros(())))
    with eval_mode(model), torch.no_grad():
        logits = call(model, inputs)
    if getattr(logits, "shape", None) != (len(inputs), 6):
        old = " The old head is still there: `replace_head` returns a copy with a new one."
        raise Wrong(f"Your model returns {kind(logits)} for {len(inputs)} pictures of 6 outlines: (B, 6) is expected."
                    + old * (getattr(logits, "shape", ())[-1:] == (8,)))  # fmt: skip
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
