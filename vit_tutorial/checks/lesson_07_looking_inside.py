"""Lesson 07: which positions are alike, attention followed through all layers, a control for maps of a class."""

from functools import partial

import torch
from einops import reduce

from .exercise import Exercise
from .probes import as_sum, noise
from .running import close


def my_position_similarity(position, grid):
    h, w = grid
    patches = position[1:]  # (N, D)
    unit = patches / patches.norm(dim=-1, keepdim=True)  # each row has length 1
    cosines = unit @ unit.T  # (N, N)
    return cosines.reshape(h, w, h, w)


def alike(got, expected, position, grid):
    mine, right = (each.flatten(2).flatten(0, 1) for each in (got, expected))  # (N, N)
    n = int((mine.diagonal() - 1).abs().argmax())
    own = f"Patch {n} has {mine[n, n]:.3g} with itself, and must have 1"
    yield close(mine.diagonal(), 1), f"{own}: divide each row by its length, `norm(dim=-1, keepdim=True)`."
    other = f"Patches 0 and 1 have {mine[0, 1]:.3g}, and the cosine of their positions is {right[0, 1]:.3g}"
    yield False, f"{other}. They are in rows 1 and 2, patch by patch, and nothing is subtracted."


position_similarity = Exercise(
    my_position_similarity,
    task="`fn(position, grid)`, (1+N, D) and (h, w) → (h, w, h, w): the cosine of every two patches' positions.",
    trials=[(noise(1 + h * w, D), (h, w)) for h, w, D in ((3, 5, 7), (4, 2, 6), (2, 2, 3))],
    probes=alike,
    clue="Leave out row 0, the class token. Divide each row by its own length, `norm(dim=-1, keepdim=True)`. Then "
    "`unit @ unit.T` has all cosines, (N, N), and `reshape(h, w, h, w)` gives each N its rows and columns.",
    shape="(h, w, h, w)",
    sizes=lambda p, grid: {"h": grid[0], "w": grid[1], "N": len(p) - 1, "1+N": len(p), "D": p.shape[1]},
    gradients=False,
)


def my_rollout(maps):
    B, _, T, _ = maps[0].shape
    result = torch.eye(T).expand(B, T, T)
    for weights in maps:
        A = weights.mean(dim=1)  # (B, T, T), the mean of the heads
        A = (A + torch.eye(T)) / 2  # the residual stream; rows sum to 1
        result = A @ result  # the later layer from the left
    return result


def followed(got, expected, maps):
    A = [weights.mean(1) for weights in maps]
    known = {"I": torch.eye(A[0].shape[-1]).expand_as(A[0])}
    if len(A) == 1:
        known |= {f"head {n}": head for n, head in enumerate(maps[0].unbind(1))} | {"(head 0)ᵀ": maps[0][:, 0].mT}
    if len(A) == 2:
        known |= {"A₁": A[0], "A₂": A[1], "A₂A₁": A[1] @ A[0], "A₁A₂": A[0] @ A[1]}
    mine = as_sum(got.to(A[0]), known)
    yield len(A) > 2 or mine == "something else", f"Your result is {mine}. It must be {as_sum(expected, known)}."
    total = got[0, 0].sum()
    yield close(total, 1), f"Row 0 of your result sums to {total:.3g}. After every layer it must sum to 1."


SIZES = [(1, 2, 1, 5), (1, 2, 3, 5), (2, 3, 2, 7), (4, 2, 3, 5), (3, 1, 4, 3)]  # layers, images, heads, tokens

rollout = Exercise(
    my_rollout,
    task="`fn(maps)`, L times (B, heads, T, T), the first layer first → (B, T, T): attention followed through layers.",
    trials=[([noise(B, h, T, T, seed=seed).softmax(-1) for seed in range(L)],) for L, B, h, T in SIZES],
    probes=followed,
    clue="In each layer, average the heads, `A = weights.mean(dim=1)`, add the residual stream, `(A + torch.eye(T)) / "
    "2`, and multiply, the later layer from the left: `rollout = A @ rollout`. Each row of the result sums to 1.",
    shape="(B, T, T)",
    sizes=lambda maps: {"L": len(maps), **dict(zip("BhT", maps[0].shape, strict=False))},
)


def my_wrong_classes(answers, num_classes, map_for, ruined):
    found = []
    for shift in range(1, num_classes):
        wrong = (answers + shift) % num_classes  # (B,), another class than the answer
        found.append(ruined(map_for(wrong)).float())  # (B,)
    return torch.stack(found).mean(dim=0)


def toy_maps(B, K):
    """Return answers of B scenes, K, a function with a map for every class, and a test that a map passes or not."""
    maps, asked = noise(K, B, 2, 3), []

    def map_for(classes):
        classes = torch.as_tensor(classes)
        asked.append(classes.tolist())
        return maps[classes, torch.arange(B)]

    map_for.asked = asked
    return torch.arange(B) % K, K, map_for, lambda maps: reduce(maps, "B h w -> B", "sum") > 0


def asked_about(got, expected, answers, K, map_for, ruined):
    for scene, answer in enumerate(answers.tolist()):
        asked = [classes[scene] for classes in map_for.asked]
        told = f"For scene {scene}, whose answer is {answer}, you ask about classes {asked}"
        yield {*asked} | {answer} == {*range(K)}, f"{told}. All others are wrong."
    own = ruined(map_for(answers)).float()
    mine = as_sum(got, {"1": torch.ones_like(got), "the share": expected, "what the right class ruins": own})
    yield mine == "something else", f"Your result is {mine}. It must be the share of the {K - 1} wrong classes alone."
    yield not set(got.tolist()) <= {0.0, 1.0}, "Your shares are 0 or 1: take the mean of what `ruined` says."


wrong_classes = Exercise(
    my_wrong_classes,
    task="`fn(answers, num_classes, map_for, ruined)` → (B,): the share of wrong classes whose map ruins the answer.",
    trials=[partial(toy_maps, B, K) for B, K in ((11, 4), (13, 5), (9, 3))],
    probes=asked_about,
    clue="A wrong class for each scene is `(answers + 1) % num_classes`; so is `+ 2`, and so on to `num_classes - 1`. "
    "For each of them, `ruined(map_for(wrong))` has a True or False for each scene. Make them floats, stack them, and "
    "take the mean over the wrong classes, `dim=0`.",
    shape="(B,)",
    sizes=lambda answers, K, *rest: {"B": len(answers), "K": K},
    imports="import torch",
)
