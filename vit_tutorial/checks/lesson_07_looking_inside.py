"""Lesson 07: which positions are alike, attention followed through all layers, a control for maps of a class."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from .exercise import Exercise, all_for, noise


def my_position_similarity(position, grid):
    h, w = grid
    patches = position[1:]  # (N, D)
    unit = patches / patches.norm(dim=-1, keepdim=True)  # each row has length 1
    cosines = unit @ unit.T  # (N, N)
    return cosines.reshape(h, w, h, w)


COSINES = "unit @ unit.T"

position_similarity = Exercise(
    my_position_similarity,
    task="`fn(position, grid)`, (1+N, D) and (h, w) → (h, w, h, w): the cosine of every two patches' positions.",
    trials=[(noise(1 + h * w, D), (h, w)) for h, w, D in ((3, 5, 7), (4, 2, 6), (2, 2, 3))],
    slips={
        "The lengths are taken for one per column, not one per row: `keepdim=True` makes them (N, 1).":
            [(", keepdim=True", ""), (", keepdim=True", "", "position[1:]", "position")],
        "You leave out the last row. The class token's is the first: `position[1:]`.":
            [("position[1:]", "position[:-1]")],
        "You subtract the mean position. For the cosine nothing is subtracted.":
            ("position[1:]", "position[1:] - position[1:].mean(dim=0)"),
        "The class token is still there: there are 1+N rows for a grid of N = h·w patches.":
            [("position[1:]", "position"), ("position[1:]", "position", ".reshape(h, w, h, w)", "")],
        "You divide by the square of one length. Each product is divided by both lengths, one for each vector.":
            [(COSINES, f"patches @ patches.T / patches.square().sum({dim})") for dim in ("1", "1, keepdim=True")],
        "You divide by one length only: the other vector keeps its own.":
            [(COSINES, "unit @ patches.T"), (COSINES, "patches @ unit.T")],
        "These are distances: a patch has 0 with itself, and should have 1.":
            [(COSINES, f"{sign}torch.cdist(patches, patches)") for sign in ("", "-")] + [(COSINES, f"1 - {COSINES}")],
        "Each patch is compared with itself only. `F.cosine_similarity` needs `unit[:, None]` and `unit[None]`.":
            [(".reshape(h, w, h, w)", f".diagonal(){more}") for more in ("", ".reshape(h, w)")],
    } | all_for("position[1:]", {
        "You subtract the class token's position. For the cosine nothing is subtracted.": "position[1:] - position[0]",
        "You subtract each vector's mean: that gives the correlation.":
            "position[1:] - position[1:].mean(dim=-1, keepdim=True)",
    }) | all_for("patches.norm(dim=-1, keepdim=True)", {
        "These are plain products: long vectors give large values. Divide by the lengths.": "1",
        "You divide each column by its length, `dim=0`. A vector is a row.": "patches.norm(dim=0)",
        "You divide by one number, the length of the whole table. Each vector has its own.": "patches.norm()",
        "You divide by the squares of the two lengths: is the root missing?": "patches.square().sum(1, keepdim=True)",
    }) | all_for(".reshape(h, w, h, w)", {
        "The patches are counted down the columns, not row by row.": ".reshape(w, h, w, h).permute(1, 0, 3, 2)",
        "The shape is right, but the second patch has h and w exchanged.": ".reshape(h, w, w, h).mT",
    }),
    hint="Leave out row 0, the class token. Divide each row by its own length, `norm(dim=-1, keepdim=True)`. Then "
    "`unit @ unit.T` has all cosines, (N, N), and `reshape(h, w, h, w)` gives each N its rows and columns.",
    shape="(h, w, h, w)",
    gradients=False,
)  # fmt: skip


def random_weights(B: int, h: int, T: int, seed: int = 0) -> Tensor:
    return noise(B, h, T, T, seed=seed).softmax(dim=-1)  # each row sums to 1


def my_rollout(maps):
    B, _, T, _ = maps[0].shape
    result = torch.eye(T).expand(B, T, T)
    for weights in maps:
        A = weights.mean(dim=1)  # (B, T, T), the mean of the heads
        A = (A + torch.eye(T)) / 2  # the residual stream; rows sum to 1
        result = A @ result  # the later layer from the left
    return result


BEGIN, MEAN_HEAD = "torch.eye(T).expand(B, T, T)", "weights.mean(dim=1)"
MIX, PRODUCT = "(A + torch.eye(T)) / 2", "A @ result"
ADDED = "A + torch.eye(T)"
RETURNED = "    return result"
ADDED_UP = (BEGIN, "torch.zeros(T, T)", PRODUCT, "A + result")

rollout = Exercise(
    my_rollout,
    task="`fn(maps)`, L times (B, heads, T, T), the first layer first → (B, T, T): attention followed through layers.",
    trials=[([random_weights(B, h, T, seed) for seed in range(L)],)
            for L, B, h, T in ((4, 2, 3, 5), (2, 3, 2, 4), (3, 1, 4, 3))],
    slips={
        "The layers are multiplied in the opposite order: the first layer must act first, from the right.":
            (PRODUCT, "result @ A"),
        "The identity is missing or not halved, and the layers are multiplied in the opposite order.":
            [(PRODUCT, "result @ A", MIX, "A"), (PRODUCT, "result @ A", MIX, ADDED)],
        "The heads are multiplied one by one, and averaged at the end. Average them in every layer.":
            (BEGIN, "torch.eye(T)", MEAN_HEAD, "weights", RETURNED, f"{RETURNED}.mean(dim=1)"),
        "The identity is missing in the first layer. The residual stream goes around every layer.":
            (BEGIN, "maps[0].mean(dim=1)", "in maps", "in maps[1:]"),
        "The identity is added to a product, after it or once at the end. Add it to each layer's own matrix, and then "
        "multiply.": [(MIX, "A", PRODUCT, f"({PRODUCT} + torch.eye(T)) / 2"),
                      (MIX, "A", RETURNED, "    return (result + torch.eye(T)) / 2")],
        "Attention is added to what you have so far, not multiplied with it: `(A + I) / 2 @ rollout`, with brackets.":
            [(MIX, "A", PRODUCT, step) for step in ("A + result", "A + result / 2", "(A + result) / 2")],
        "You use one head of each layer, or all heads but not their mean.":
            [(MEAN_HEAD, f"weights{heads}") for heads in (".amax(dim=1)", ".sum(dim=1)", "[:, 0]", "[:, -1]")],
        "Only the last layer is in your result.": (PRODUCT, "A"),
        "Only the first layer is in your result: is `return` inside the loop?": (RETURNED, f"    {RETURNED}"),
        "The first layer is missing in your product.": ("in maps", "in maps[1:]"),
        "The last layer is missing in your product.": ("in maps", "in maps[:-1]"),
        "You multiply value by value, with `*`, where `@` is asked: paths through other tokens are lost.":
            [(PRODUCT, "A * result"), (PRODUCT, "A * result", BEGIN, "torch.ones(T, T)")],
        "You add up the layers, or average them. They follow one another: multiply their matrices.":
            [ADDED_UP, (*ADDED_UP, RETURNED, f"{RETURNED} / len(maps)")],
        "The heads are still there, or the images are gone: average each layer's heads, `dim=1`, before the product.":
            [(MEAN_HEAD, heads, *start) for start in ((), (BEGIN, "torch.eye(T)"))
             for heads in ("weights", "weights.mean(dim=0)", "weights.mean(dim=(0, 1))")],
        "Your result is transposed: its columns sum to 1, not its rows.": (RETURNED, f"{RETURNED}.mT"),
        "Attention and the identity have other weights. Give both the same, so that the rows sum to 1: (A + I) / 2.":
            [(MIX, other) for other in
             ("A + torch.eye(T) / 2", "A / 2 + torch.eye(T)", "(A / 2 + torch.eye(T)) / 1.5")],
    } | all_for(MIX, {
        "The identity is missing, as if there were no residual stream.": "A",
        "The identity is added, and nothing divided: the rows sum to 2 after one layer, to 2^L after L.": ADDED,
        "The columns sum to 1 in each layer, not the rows.": f"({ADDED}) / ({ADDED}).sum(dim=-2, keepdim=True)",
        "The row sums need `keepdim=True`: (B, T, 1), one for each row.": f"({ADDED}) / ({ADDED}).sum(dim=-1)",
        "You add ones everywhere. The identity has them on its diagonal only: `torch.eye(T)`.": "(A + 1) / 2",
        "Rows and columns are exchanged in each layer's matrix: is A transposed?": "(A.mT + torch.eye(T)) / 2",
        "You add what you have so far to the next layer. Add the identity: it stands for the residual stream.":
            "(A + result) / 2",
    }),
    hint="In each layer, average the heads, `A = weights.mean(dim=1)`, add the residual stream, `(A + torch.eye(T)) / "
    "2`, and multiply, the later layer from the left: `rollout = A @ rollout`. Each row of the result sums to 1.",
    shape="(B, T, T)",
    gradients=False,
)  # fmt: skip


def my_wrong_classes(answers, num_classes, map_for, ruined):
    found = []
    for shift in range(1, num_classes):
        wrong = (answers + shift) % num_classes  # (B,), another class than the answer
        found.append(ruined(map_for(wrong)).float())  # (B,)
    return torch.stack(found).mean(dim=0)


def toy_maps(B: int, K: int) -> tuple:
    """Return answers of B scenes among K classes, a map for every class, and a test that a map passes or not."""
    maps = noise(K, B, 2, 3)

    def map_for(classes):
        classes = torch.as_tensor(classes)
        if classes.shape != (B,) or classes.min() < 0 or classes.max() >= K:
            raise ValueError(f"map_for needs one class for each of the {B} scenes, from 0 to {K - 1}; got {classes}")
        return maps[classes, torch.arange(B)]

    return torch.arange(B) % K, K, map_for, lambda found: found.sum(dim=(1, 2)) > 0


CLASSES, WRONG = "range(1, num_classes)", "(answers + shift) % num_classes"
ONE_FOR_ALL = "torch.full_like(answers, shift)"
TOGETHER = "torch.stack(found).mean(dim=0)"

wrong_classes = Exercise(
    my_wrong_classes,
    task="`fn(answers, num_classes, map_for, ruined)` → (B,): the share of wrong classes whose map ruins the answer.",
    trials=[partial(toy_maps, B, K) for B, K in ((11, 4), (13, 5), (9, 3))],
    slips={
        "The right class is among yours: its map is not the control.": [
            (CLASSES, "range(num_classes)"), (WRONG, ONE_FOR_ALL, CLASSES, "range(num_classes)")],
        "You ask about one and the same class in all scenes, and for some of them it is the right one.":
            (WRONG, ONE_FOR_ALL),
        "These are the maps of the right class. Ask about the wrong ones.": (WRONG, "answers"),
        "This is what right and wrong classes differ by. Return the share of the wrong ones alone.": [
            lambda answers, K, map_for, ruined, sign=sign:
                sign * (ruined(map_for(answers)).float() - my_wrong_classes(answers, K, map_for, ruined))
            for sign in (1, -1)],
        "One wrong class is missing: the shifts go from 1 to `num_classes - 1`.":
            (CLASSES, "range(1, num_classes - 1)"),
        "The shifts go from 0, which is the right class, and the last wrong class is missing.":
            (CLASSES, "range(num_classes - 1)"),
        "Only the last wrong class is in your result.": (TOGETHER, "found[-1]"),
        "You divide by the number of scenes. Divide by that of the wrong classes.":
            (TOGETHER, "torch.stack(found).sum(dim=0) / len(answers)"),
        "Your loop has the number of classes written into it. It is `num_classes`.": (CLASSES, "range(1, 8)"),
        "You ask about one wrong class only. Another one could tell another story: take the mean over all.":
            [(CLASSES, f"range({first}, {first + 1})") for first in (1, 2)],
        "After the last class comes the first again: `(answers + shift) % num_classes`, with the brackets, and with "
        "`num_classes`.": [(WRONG, way) for way in (
            "answers + shift", "answers + shift % num_classes", "(answers + shift) % 8",
            "(answers + shift).clamp(max=num_classes - 1)")],
        "The mean over the scenes is taken, too. One share for each scene is asked, so that they can be compared in "
        "pairs.": (TOGETHER, "torch.stack(found).mean()"),
        "You have one share for each wrong class, and the task asks for one for each scene: the mean over `dim=0`.":
            (TOGETHER, "torch.stack(found).mean(dim=1)"),
        "You count the wrong classes that ruin the answer. Divide by how many there are.":
            (TOGETHER, "torch.stack(found).sum(dim=0)"),
        "You divide by the number of all classes. One of them is the right one.":
            (TOGETHER, "torch.stack(found).sum(dim=0) / num_classes"),
        "Every scene counts as ruined if any wrong class ruins it. Take the mean over the wrong classes.":
            [(TOGETHER, "torch.stack(found).amax(dim=0)"), (TOGETHER, "torch.stack(found).bool().any(dim=0)")],
        "You average the maps, and cover once. Cover with each map, and average what became of the answers.":
            ("ruined(map_for(wrong)).float()", "map_for(wrong)", TOGETHER, f"ruined({TOGETHER}).float()"),
        "You have the share that survives. The share that is ruined is asked.": (TOGETHER, f"1 - {TOGETHER}"),
    },
    hint="A wrong class for each scene is `(answers + 1) % num_classes`; so is `+ 2`, and so on to `num_classes - 1`. "
    "For each of them, `ruined(map_for(wrong))` has a True or False for each scene. Make them floats, stack them, and "
    "take the mean over the wrong classes, `dim=0`.",
    shape="(B,)",
    imports="import torch",
)  # fmt: skip
