"""Lesson 07: which positions are alike, attention followed through all layers, a control for maps of a class."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from .exercise import Exercise
from .probes import as_sum, noise
from .running import close


def my_position_similarity(position, grid):
    h, w = grid
    patches = position[1:]  # (N, D)
    unit = patches / patches.norm(dim=-1, keepdim=True)  # each row has length 1
    cosines = unit @ unit.T  # (N, N)
    return cosines.reshape(h, w, h, w)


def cosines(vectors: Tensor) -> Tensor:
    unit = F.normalize(vectors, dim=-1)
    return unit @ unit.T


# fmt: off
def alike(got, expected, position, grid):
    N, patches = grid[0] * grid[1], position[1:]
    mine, right, lengths = got.reshape(N, N), cosines(patches), patches.norm(dim=1).log()
    n, distance = int((mine.diagonal() - 1).abs().argmax()), torch.cdist(patches, patches)
    told = f"Patch {n} has {mine[n, n]:.3g} with itself, and should have 1"
    yield not any(close(mine, other) for other in (distance, -distance, 1 - right)), (
        f"{told}: these are distances, and a cosine is 1 for the same direction.")
    columns = torch.stack([lengths.repeat_interleave(N), lengths.repeat(N)], 1)
    ratio = (mine / right).abs().clamp_min(1e-9).log().flatten()
    powers = torch.linalg.lstsq(columns, ratio[:, None]).solution[:, 0]
    fits = close(columns @ powers, ratio, 1e-3) and powers.abs().max() > 1e-3
    a, b = (f"{round(power, 2):g}" for power in powers.tolist())
    lengthened = f"{told}: your values are the cosines times |p_i| to the power {a} and |p_j| to the power {b}"
    yield not fits, f"{lengthened}. Divide each vector by its own length, once."
    others = {"the class token's position": position[0], "the mean position": patches.mean(0)}
    others |= {"each vector's own mean": patches.mean(1, keepdim=True)}
    for what, other in others.items():
        yield not close(mine, cosines(patches - other)), f"You subtract {what}. For the cosine nothing is subtracted."
    yield not close(mine, cosines(position[:-1])), (
        "You leave out the last row. The class token's is the first: `position[1:]`.")
    yield close(mine.diagonal(), 1), (
        f"{told}: divide each vector, a row, by its own length. `norm(dim=-1, keepdim=True)` is (N, 1).")
    rows, given = right.sort(1).values, mine.sort(1).values
    order = [next((n for n, row in enumerate(rows) if close(row, each)), -1) for each in given]
    yield order == sorted(order), f"Your patches run {order[:6]} … They run row by row in the grid: [0, 1, 2, 3, …]."
    yield close(mine, mine.T), (
        f"Patch 0 has {mine[0, 1]:.3g} with patch 1, and patch 1 has {mine[1, 0]:.3g} with patch 0: a second patch is "
        "in another place.")
# fmt: on


position_similarity = Exercise(
    my_position_similarity,
    task="`fn(position, grid)`, (1+N, D) and (h, w) → (h, w, h, w): the cosine of every two patches' positions.",
    trials=[(noise(1 + h * w, D), (h, w)) for h, w, D in ((3, 5, 7), (4, 2, 6), (2, 2, 3))],
    probes=alike,
    hint="Leave out row 0, the class token. Divide each row by its own length, `norm(dim=-1, keepdim=True)`. Then "
    "`unit @ unit.T` has all cosines, (N, N), and `reshape(h, w, h, w)` gives each N its rows and columns.",
    shape="(h, w, h, w)",
    sizes=lambda p, grid: {"h": grid[0], "w": grid[1], "N": len(p) - 1, "1+N": len(p), "D": p.shape[1]},
    gradients=False,
)


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


# fmt: off
def followed(got, expected, maps):
    """Write the result as a sum of what it can be made of, for one layer and for two."""
    got, one = got.to(maps[0]), torch.eye(maps[0].shape[-1]).expand_as(got)
    (A, *rest), known = (weights.mean(1) for weights in maps), {"I": one}
    if rest:
        known |= {"A₁": A, "A₂": rest[0], "A₂A₁": rest[0] @ A, "A₁A₂": A @ rest[0], "A₁*A₂": A * rest[0]}
    else:
        known |= {f"head {n}": head for n, head in enumerate(maps[0].unbind(1))}
        known |= {"ones": torch.ones_like(got), "(head 0)ᵀ": maps[0][:, 0].mT}
    mine, rows, columns = as_sum(got, known), got.sum(-1)[0, 0].item(), got.sum(-2)[0, 0].item()
    yield len(maps) > 2 or mine == "something else", f"Your result is {mine}. It must be {as_sum(expected, known)}."
    yield abs(rows - 1) < 1e-4 or abs(columns - 1) > 1e-4, (
        f"The columns of your result sum to 1, and its rows do not (the first to {rows:.3g}): is it transposed?")
    yield abs(rows - 1) < 1e-4, (
        f"Row 0 of your result sums to {rows:.3g}. It must sum to 1 after every layer: (A + I) / 2.")
# fmt: on


rollout = Exercise(
    my_rollout,
    task="`fn(maps)`, L times (B, heads, T, T), the first layer first → (B, T, T): attention followed through layers.",
    trials=[([random_weights(B, h, T, seed) for seed in range(L)],)
            for L, B, h, T in ((1, 2, 1, 5), (1, 2, 3, 5), (2, 3, 2, 7), (4, 2, 3, 5), (3, 1, 4, 3))],
    stages=("With one layer and one head:", "Right with one head. With three heads in one layer:",
            "Right with one layer. With two, A₁ and then A₂:", "Right with two layers, wrong with four."),
    probes=followed,
    hint="In each layer, average the heads, `A = weights.mean(dim=1)`, add the residual stream, `(A + torch.eye(T)) / "
    "2`, and multiply, the later layer from the left: `rollout = A @ rollout`. Each row of the result sums to 1.",
    shape="(B, T, T)",
    sizes=lambda maps: {"L": len(maps), **dict(zip("BhT", maps[0].shape, strict=False))},
    gradients=False,
)  # fmt: skip


def my_wrong_classes(answers, num_classes, map_for, ruined):
    found = []
    for shift in range(1, num_classes):
        wrong = (answers + shift) % num_classes  # (B,), another class than the answer
        found.append(ruined(map_for(wrong)).float())  # (B,)
    return torch.stack(found).mean(dim=0)


class ToyMaps:
    """A map for every class and scene. It notes which classes it was asked about."""

    def __init__(self, B: int, K: int):
        self.maps, self.asked = noise(K, B, 2, 3), []

    def __call__(self, classes) -> Tensor:
        (K, B), classes = self.maps.shape[:2], torch.as_tensor(classes)
        if classes.shape != (B,) or classes.is_floating_point() or classes.min() < 0 or classes.max() >= K:
            raise ValueError(
                f"map_for needs one class from 0 to {K - 1} for each of the {B} scenes; got {classes.tolist()}"
            )
        self.asked.append(classes.tolist())
        return self.maps[classes, torch.arange(B)]


def ruined(maps):
    return maps.sum(dim=(-2, -1)) > 0


def toy_maps(B: int, K: int) -> tuple:
    """Return answers of B scenes among K classes, a map for every class, and a test that a map passes or not."""
    return torch.arange(B) % K, K, ToyMaps(B, K), ruined


# fmt: off
def asked_about(got, expected, answers, K, map_for, ruined):
    for scene, answer in enumerate(answers.tolist()):
        asked, others = [classes[scene] for classes in map_for.asked], [k for k in range(K) if k != answer]
        yield sorted(k for k in asked if k != answer) == others, (
            f"For scene {scene}, whose answer is {answer}, you ask about classes {asked}. The wrong ones are "
            f"{others}, each once.")
    hits = torch.stack([ruined(map_for.maps[k]) for k in range(K)]).float()  # (K, B)
    own, factor = hits[answers, torch.arange(len(answers))], (got.sum() / expected.sum()).item()
    yield not close(got, hits.mean(0)), "The right class is counted among the wrong ones."
    yield not close(got, 1 - expected), "You have the share that survives. The share that is ruined is asked."
    yield not close((got + expected * (1 if close(got + expected, own) else -1)).abs(), own), (
        "This is what right and wrong classes differ by. Return the share of the wrong ones alone.")
    yield not close(got, factor * expected), (
        f"Your shares are {factor:.3g} times the right ones: divide by the number of wrong classes, {K - 1}.")
    yield not set(got.tolist()) <= {0.0, 1.0}, (
        f"Your shares are 0 or 1. Take the mean over the {K - 1} wrong classes, of what became of the answers and not "
        "of the maps.")
# fmt: on


wrong_classes = Exercise(
    my_wrong_classes,
    task="`fn(answers, num_classes, map_for, ruined)` → (B,): the share of wrong classes whose map ruins the answer.",
    trials=[partial(toy_maps, B, K) for B, K in ((11, 4), (13, 5), (9, 3))],
    probes=asked_about,
    hint="A wrong class for each scene is `(answers + 1) % num_classes`; so is `+ 2`, and so on to `num_classes - 1`. "
    "For each of them, `ruined(map_for(wrong))` has a True or False for each scene. Make them floats, stack them, and "
    "take the mean over the wrong classes, `dim=0`.",
    shape="(B,)",
    sizes=lambda answers, K, *rest: {"B": len(answers), "K": K, "K-1": K - 1},
    imports="import torch",
)
