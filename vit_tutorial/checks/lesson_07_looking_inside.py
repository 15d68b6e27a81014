"""Lesson 07: which positions are alike, how far a head looks, and attention followed through all layers."""

from __future__ import annotations

import torch
from torch import Tensor

from .exercise import Exercise, all_for, noise
from .running import attempt


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


def my_mean_attention_distance(weights, grid, patch_size):
    h, w = grid
    n = torch.arange(h * w)
    centres = torch.stack([n // w, n % w], dim=1).float() * patch_size  # (N, 2), in pixels
    distances = torch.cdist(centres, centres)  # (N, N)
    patches = weights[:, :, 1:, 1:]  # without the class token
    shares = patches / patches.sum(dim=-1, keepdim=True)  # each row sums to 1 again
    far = (shares * distances).sum(dim=-1)  # (B, heads, N)
    return far.mean(dim=(0, 2))  # (heads,)


def random_weights(B: int, h: int, T: int, seed: int = 0) -> Tensor:
    return noise(B, h, T, T, seed=seed).softmax(dim=-1)  # each row sums to 1


def numbers_as_tensor(result, weights, *args):
    """Return a list of numbers as a tensor, and all else as it is."""
    made = attempt(weights.new_tensor, result) if isinstance(result, (list, tuple)) else result
    return result if isinstance(made, Exception) else made


CDIST = "torch.cdist(centres, centres)"
NO_CLASS = "weights[:, :, 1:, 1:]"
SHARES = "patches / patches.sum(dim=-1, keepdim=True)"
MEAN_DISTANCE = "far.mean(dim=(0, 2))"

mean_attention_distance = Exercise(
    my_mean_attention_distance,
    task="`fn(weights, grid, patch_size)`, (B, heads, T, T) → (heads,): how far each head of a layer looks, in pixels.",
    trials=[(random_weights(B, heads, 1 + h * w), (h, w), patch_size)
            for B, heads, h, w, patch_size in ((2, 3, 2, 4, 3), (1, 2, 3, 2, 5), (3, 4, 1, 3, 2))],
    slips={
        "You use only the class token's row. Each patch has a row of its own, and its own distances.":
            [(NO_CLASS, "weights[:, :, :1, 1:]"), (NO_CLASS, "weights[:, :, :1, 1:]", SHARES, "patches"),
             (NO_CLASS, "weights[:, :, 0, 1:]")],
        "The class token is still there: 1+N weights meet N patches' distances.":
            [(NO_CLASS, part) for part in ("weights", "weights[:, :, 1:]", "weights[..., 1:]")],
        "The class token is still there, at distance 0 from all patches.":
            (SHARES, "patches", MEAN_DISTANCE, "far.mean(dim=0).sum(dim=-1) / (1 + h * w)"),
        "The sums need `keepdim=True`: one for each query, (B, heads, N, 1).": (", keepdim=True", ""),
        "All queries of a head are divided together: one that gives much to the class token counts for less.":
            [(SHARES, f"patches / patches.sum(dim={dims}, keepdim=True)", MEAN_DISTANCE, mean) for dims, mean in (
                ((2, 3), MEAN_DISTANCE), ((2, 3), "far.sum(dim=2).mean(dim=0)"), ((0, 2, 3), "far.sum(dim=(0, 2))"))],
        "You measure in patches. The task asks for pixels: times the patch size.": (" * patch_size", ""),
        "Your distances are squared: each needs its own root, before the mean.":
            [(CDIST, f"{CDIST} ** 2"), (CDIST, f"{CDIST} ** 2 / patch_size"),
             (CDIST, f"{CDIST} ** 2", MEAN_DISTANCE, f"{MEAN_DISTANCE} ** 0.5")],
        "You take the steps down and across, their sum or the larger one. The distance is the straight line.":
            [(CDIST, f"torch.cdist(centres, centres, p={p})") for p in ("1", "torch.inf")],
        "Only the steps down count in your distances, or only those across. Both do.":
            [("n // w, n % w", "n // w, 0 * n"), ("n // w, n % w", "0 * n, n % w")],
        "You add up over the queries, or over queries and images. The task asks for the mean.":
            [(MEAN_DISTANCE, "far.mean(dim=0).sum(dim=-1)"), (MEAN_DISTANCE, "far.sum(dim=(0, 2))")],
        "You divide by too many: the class token is no query, and the sum over the keys is a mean already.":
            [(MEAN_DISTANCE, "far.sum(2).mean(0) / (1 + h * w)"), (MEAN_DISTANCE, f"{MEAN_DISTANCE} / (h * w)")],
    } | all_for("n // w, n % w", {
        "Rows and columns of the grid are exchanged: h for w, or patches counted down the columns.": "n // h, n % h",
        "Your rows are n // h. A row has w patches.": "n // h, n % w",
        "Your columns are n % h. A row has w patches.": "n // w, n % h",
    }) | all_for(NO_CLASS, {
        "You leave out the last token, not the class token: all has moved by one place.": "weights[:, :, :-1, :-1]",
        "The weight of a patch on itself is left out. It counts, with 0.": f"{NO_CLASS} * (1 - torch.eye(h * w))",
        "You average the weights over the images, and divide then. Divide in each image.":
            f"{NO_CLASS}.mean(dim=0, keepdim=True)",
    }) | all_for(SHARES, {
        "Without the class token, a patch's weights sum to less than 1: your results are too small.": "patches",
        "The weights of each key sum to 1, not those of each query.": "patches / patches.sum(dim=-2, keepdim=True)",
        "A second softmax makes the weights nearly equal. Divide by their sum.": "patches.softmax(dim=-1)",
        "You take the distance to the strongest patch alone. Each patch counts by its weight.":
            "patches == patches.amax(dim=-1, keepdim=True)",
    }),
    hint="Patch n is in row `n // w` and column `n % w`. As floats, `.float()`, and times the patch size these are "
    "pixels, (N, 2), and `torch.cdist` measures how far apart every two are. Leave out the class token, `weights[:, :, "
    "1:, 1:]`, and divide so that each row sums to 1 again. Multiply weights by distances, sum over the keys, and take "
    "the mean over queries and images.",
    shape="(heads,)",
    view=numbers_as_tensor,
    gradients=False,
)  # fmt: skip


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
