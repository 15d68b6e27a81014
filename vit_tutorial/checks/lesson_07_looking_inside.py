"""Lesson 07: which positions are alike, how far a head looks, and attention followed through all layers."""

from __future__ import annotations

from functools import partial

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


NO_KEEPDIM = (", keepdim=True", "")
COSINES = "unit @ unit.T"
GRIDS = ".reshape(h, w, h, w)"

position_similarity = Exercise(
    my_position_similarity,
    task="`fn(position, grid)`, (1+N, D) and (h, w) → (h, w, h, w): the cosine of every two patches' positions.",
    trials=[(noise(1 + h * w, D), (h, w)) for h, w, D in ((3, 5, 7), (4, 2, 6), (2, 2, 3))],
    slips={
        "The lengths are taken for one per column, not one per row: `keepdim=True` makes them (N, 1).":
            [NO_KEEPDIM, (*NO_KEEPDIM, "position[1:]", "position")],
        "The class token is still there, and nothing is reshaped: (1+N, 1+N).": ("position[1:]", "position", GRIDS, ""),
        "These are the class token's similarities. Compare the patches.":
            (COSINES, "unit @ position[0] / position[0].norm()", GRIDS, ".reshape(h, w)"),
    } | all_for("position[1:]", {
        "The class token is still there: 1+N rows do not fit into the grid, N = h·w do.": "position",
        "The last patch is left out, the class token is still there: all has moved by one place.": "position[:-1]",
        "You subtract the class token's position. For the cosine nothing is subtracted.": "position[1:] - position[0]",
        "You subtract the mean over the patches. For the cosine nothing is subtracted.":
            "position[1:] - position[1:].mean(dim=0)",
        "You subtract each vector's mean: that gives the correlation.":
            "position[1:] - position[1:].mean(dim=-1, keepdim=True)",
    }) | all_for("patches.norm(dim=-1, keepdim=True)", {
        "These are plain products: long vectors give large values. Divide by the lengths.": "1",
        "You divide by √D, as in attention, not by the lengths of the two vectors.": "patches.shape[1] ** 0.25",
        "You divide each column by its length, `dim=0`. A vector is a row.": "patches.norm(dim=0)",
        "You divide by one number, the length of the whole table. Each vector has its own.": "patches.norm()",
        "You divide by the squares of the two lengths: is the root missing?": "patches.square().sum(1, keepdim=True)",
    }) | all_for(COSINES, {
        "You divide by one length: the second vector keeps its own.": "unit @ patches.T",
        "You divide by one length: the first vector keeps its own.": "patches @ unit.T",
        "These are distances: a patch has 0 with itself, and should have 1.": "torch.cdist(patches, patches)",
        "These are distances with a minus: a patch has 0 with itself, not 1.": "-torch.cdist(patches, patches)",
        "This is a distance, 1 - cosine: a patch has 0 with itself, and should have 1.": f"1 - {COSINES}",
        "The cosines go through a softmax: a patch no longer has 1 with itself.": f"({COSINES}).softmax(dim=-1)",
    }) | all_for(GRIDS, {
        "The cosines are right, and still (N, N): nobody can see which patch is where.": "",
        "The first N is still in one piece, (N, h, w). It has rows and columns, too.": ".reshape(-1, h, w)",
        "The second N is still in one piece, (h, w, N).": ".reshape(h, w, -1)",
        "h and w are exchanged: the grid is (h, w), rows first.": ".reshape(w, h, w, h)",
        "The patches are counted down the columns, not row by row.": ".reshape(w, h, w, h).permute(1, 0, 3, 2)",
        "The shape is right, but the second patch has h and w exchanged.": ".reshape(h, w, w, h).mT",
    }) | {
        "You divide by the square of one length. Each product is divided by both lengths, one for each vector.":
            [(COSINES, f"patches @ patches.T / patches.square().sum({dim})") for dim in ("1", "1, keepdim=True")],
        "Each patch is compared with itself only. `F.cosine_similarity` needs `unit[:, None]` and `unit[None]`.":
            [(GRIDS, ".diagonal()"), (GRIDS, ".diagonal().reshape(h, w)")],
    },
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


def as_tensor(result, weights, *args):
    """Return a list of numbers as a tensor, and all else as it is."""
    made = attempt(weights.new_tensor, result) if isinstance(result, (list, tuple)) else result
    return result if isinstance(made, Exception) else made


CDIST = "torch.cdist(centres, centres)"
NO_CLASS = "weights[:, :, 1:, 1:]"
CLASS_ROW = (NO_CLASS, "weights[:, :, :1, 1:]")
SHARES = "patches / patches.sum(dim=-1, keepdim=True)"
MEAN = "far.mean(dim=(0, 2))"

mean_attention_distance = Exercise(
    my_mean_attention_distance,
    task="`fn(weights, grid, patch_size)`, (B, heads, T, T) → (heads,): how far each head of a layer looks, in pixels.",
    trials=[(random_weights(B, heads, 1 + h * w), (h, w), patch_size)
            for B, heads, h, w, patch_size in ((2, 3, 2, 4, 3), (1, 2, 3, 2, 5), (3, 4, 1, 3, 2))],
    slips={
        "You use only the class token's row. Each patch has a row of its own, and its own distances.":
            [CLASS_ROW, (*CLASS_ROW, SHARES, "patches"), (NO_CLASS, "weights[:, :, 0, 1:]")],
        "You take the mean of the squares, and the root at the end. Each distance needs its own root.":
            (CDIST, f"{CDIST} ** 2", MEAN, f"{MEAN} ** 0.5"),
        "The class token is still there: 1+N weights meet N patches' distances.":
            [(NO_CLASS, part) for part in ("weights", "weights[:, :, 1:]", "weights[..., 1:]")],
        "The class token is still there, at distance 0 from all patches.":
            (SHARES, "patches", MEAN, "far.mean(dim=0).sum(dim=-1) / (1 + h * w)"),
        "The sums need `keepdim=True`: one for each query, (B, heads, N, 1).": NO_KEEPDIM,
        "Your weights make no difference: every head gets the mean distance.": (MEAN, f"0 * {MEAN} + distances.mean()"),
        "All queries of a head are divided together: one that gives much to the class token counts for less.":
            [(SHARES, f"patches / patches.sum(dim={dims}, keepdim=True)", MEAN, mean) for dims, mean in (
                ((2, 3), MEAN), ((2, 3), "far.sum(dim=2).mean(dim=0)"), ((0, 2, 3), "far.sum(dim=(0, 2))"))],
        "You measure in patches. The task asks for pixels: times the patch size.": (" * patch_size", ""),
        "Your distances are squared: the root is missing.":
            [(CDIST, f"{CDIST} ** 2{over}") for over in ("", " / patch_size")],
    } | all_for(CDIST, {
        "You add the steps down and the steps across. The straight line is shorter.": f"{CDIST[:-1]}, p=1)",
        "You take the larger of the steps down and across. The straight line is longer.": f"{CDIST[:-1]}, p=torch.inf)",
        "You measure from the centre of the image. Measure from each query's own patch.":
            "(centres - centres.mean(dim=0)).norm(dim=1)",
    }) | all_for("n // w, n % w", {
        "Only the steps down count in your distances: the columns are missing.": "n // w, 0 * n",
        "Only the steps across count in your distances: the rows are missing.": "0 * n, n % w",
        "You count along the sequence, |i - j|: the end of a row seems near the next one.": "n, 0 * n",
        "Rows and columns of the grid are exchanged: h for w, or patches counted down the columns.": "n // h, n % h",
        "Your rows are n // h. A row has w patches.": "n // h, n % w",
        "Your columns are n % h. A row has w patches.": "n // w, n % h",
        "Your rows are n / w, with fractions. `n // w` counts whole rows.": "n / w, n % w",
        "Your patches count from 1, so the last of a row falls into the next.": "(n + 1) // w, (n + 1) % w",
    }) | all_for(NO_CLASS, {
        "You leave out the last token, not the class token: all has moved by one place.": "weights[:, :, :-1, :-1]",
        "The weight of a patch on itself is left out. It counts, with 0.": f"{NO_CLASS} * (1 - torch.eye(h * w))",
        "You average the weights over the images, and divide then. Divide in each image.":
            f"{NO_CLASS}.mean(dim=0, keepdim=True)",
    }) | all_for(SHARES, {
        "Without the class token, a patch's weights sum to less than 1: your results are too small.": "patches",
        "The weights of each key sum to 1, not those of each query.": SHARES.replace("-1", "-2"),
        "A second softmax makes the weights nearly equal. Divide by their sum.": "patches.softmax(dim=-1)",
        "You take the distance to the strongest patch alone. Each patch counts by its weight.":
            "patches == patches.amax(dim=-1, keepdim=True)",
    }) | all_for(MEAN, {
        "You divide by the number of all tokens. The class token is no query here.": "far.sum(2).mean(0) / (1 + h * w)",
        "You add up over the queries. The task asks for the mean.": "far.mean(dim=0).sum(dim=-1)",
        "You add up over queries and images. The task asks for the mean.": "far.sum(dim=(0, 2))",
        "You divide by the number of keys, too: their sum is a mean already.": f"{MEAN} / (h * w)",
        "The heads are averaged. Each needs a result of its own: (heads,).": "far.mean()",
        "You average over the heads and keep the images: (B,).": "far.mean(dim=(1, 2))",
        "The images are still there, (B, heads): take their mean.": "far.mean(dim=-1)",
        "The queries are still there, (heads, N): take their mean.": "far.mean(dim=0)",
        "Images and queries are still there, (B, heads, N): take the mean over both.": "far",
        "There is an axis for the layers in front, (1, heads). Here is one layer: (heads,).": f"{MEAN}[None]",
        "Only the first image counts.": "far[0].mean(dim=-1)",
    }),
    hint="Patch n is in row `n // w` and column `n % w`. As floats, `.float()`, and times the patch size these are "
    "pixels, (N, 2), and `torch.cdist` measures how far apart every two are. Leave out the class token, `weights[:, :, "
    "1:, 1:]`, and divide so that each row sums to 1 again. Multiply weights by distances, sum over the keys, and take "
    "the mean over queries and images.",
    shape="(heads,)",
    view=as_tensor,
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


START = "torch.eye(T).expand(B, T, T)"
HEADS = "weights.mean(dim=1)"
MIX = "(A + torch.eye(T)) / 2"
STEP = "A @ result"
RETURN = "    return result"
ADDED = "A + torch.eye(T)"
BACKWARDS = (STEP, "result @ A")
ADDED_UP = (START, "torch.zeros(T, T)", STEP, "A + result")


def each_mix(*ways):
    """Return these slips, each with the identity added in the right way and in the usual wrong ones."""
    mixes = MIX, "A", ADDED, f"({ADDED}) / ({ADDED}).sum(dim=-1, keepdim=True)"
    return [(MIX, mix, *way) for way in ways for mix in mixes]


rollout = Exercise(
    my_rollout,
    task="`fn(maps)`, L times (B, heads, T, T), the first layer first → (B, T, T): attention followed through layers.",
    trials=[([random_weights(B, h, T, seed) for seed in range(L)],)
            for L, B, h, T in ((4, 2, 3, 5), (2, 3, 2, 4), (3, 1, 4, 3))],
    slips={
        "The layers are multiplied in the opposite order: the first layer must act first, from the right.": BACKWARDS,
        "The identity is missing, and the layers are multiplied in the opposite order.": (*BACKWARDS, MIX, "A"),
        "Your rows sum to 2^L, and the layers are multiplied in the opposite order.": (*BACKWARDS, MIX, ADDED),
        "The heads are multiplied one by one, and averaged at the end. Average them in every layer.":
            (START, "torch.eye(T)", HEADS, "weights", RETURN, f"{RETURN}.mean(dim=1)"),
        "The identity is missing in the first layer. The residual stream goes around every layer.":
            (START, "maps[0].mean(dim=1)", "in maps", "in maps[1:]"),
        "The identity is added after the product. Add it to each layer's own matrix, and then multiply.":
            (MIX, "A", STEP, f"({STEP} + torch.eye(T)) / 2"),
        "The identity is added once, at the end. The residual stream goes around every layer.":
            (MIX, "A", RETURN, "    return (result + torch.eye(T)) / 2"),
        "Attention is added to what you have so far, not multiplied with it: `(A + I) / 2 @ rollout`, with brackets.":
            [(MIX, "A", STEP, step) for step in ("A + result", "A + result / 2", "(A + result) / 2")],
        "You take the largest weight of all heads, not their mean.": each_mix((HEADS, "weights.amax(dim=1)")),
        "You add up the heads, instead of taking their mean.": each_mix((HEADS, "weights.sum(dim=1)")),
        "Only the first head is used.": each_mix((HEADS, "weights[:, 0]")),
        "Only the last head is used.": each_mix((HEADS, "weights[:, -1]")),
        "Only the last layer is in your result.": each_mix((STEP, "A")),
        "Only the first layer is in your result: is `return` inside the loop?": each_mix((RETURN, f"    {RETURN}")),
        "The first layer is missing in your product.": ("in maps", "in maps[1:]"),
        "You multiply value by value, with `*`, where `@` is asked: paths through other tokens are lost.":
            each_mix((STEP, "A * result"), (STEP, "A * result", START, "torch.ones(T, T)")),
        "You average the layers. They follow one another: multiply their matrices.":
            each_mix((*ADDED_UP, RETURN, f"{RETURN} / len(maps)")),
        "You add up the layers. They follow one another: multiply their matrices.": each_mix(ADDED_UP),
        "There is a result for each layer. The last one is the rollout: it has all layers in it.":
            [lambda maps, put=put: put([my_rollout(maps[: i + 1]) for i in range(len(maps))])
             for put in (list, torch.stack, partial(torch.stack, dim=1))],
        **{message: [(HEADS, heads), (HEADS, heads, START, "torch.eye(T)")] for message, heads in {
            "The heads are still there, (B, heads, T, T): average each layer's before the product.": "weights",
            "You average over the images, `dim=0`, and the heads are still there.": "weights.mean(dim=0)",
            "You average over images and heads. Every image needs a matrix of its own.": "weights.mean(dim=(0, 1))",
        }.items()},
    } | all_for(MIX, {
        "The identity is missing, as if there were no residual stream.": "A",
        "The identity is added, and nothing divided: the rows sum to 2 after one layer, to 2^L after L.": ADDED,
        "The columns sum to 1 in each layer, not the rows.": f"({ADDED}) / ({ADDED}).sum(dim=-2, keepdim=True)",
        "The row sums need `keepdim=True`: (B, T, 1), one for each row.": f"({ADDED}) / ({ADDED}).sum(dim=-1)",
        "You halve the identity, not attention: the rows sum to 1.5 after one layer.": "A + torch.eye(T) / 2",
        "You halve attention, not the identity: the rows sum to 1.5 after one layer.": "A / 2 + torch.eye(T)",
        "Attention counts half as much as the identity, though the rows sum to 1. Give both the same weight.":
            "(A / 2 + torch.eye(T)) / 1.5",
        "You add ones everywhere. The identity has them on its diagonal only: `torch.eye(T)`.": "(A + 1) / 2",
        "Rows and columns are exchanged in each layer's matrix: is A transposed?": "(A.mT + torch.eye(T)) / 2",
        "You add what you have so far to the next layer. Add the identity: it stands for the residual stream.":
            "(A + result) / 2",
    }) | all_for(RETURN, {
        "Your result is transposed: its columns sum to 1, not its rows.": f"{RETURN}.mT",
        "The images are mixed: their mean is taken, and one matrix is left.": f"{RETURN}.mean(dim=0)",
        "Only the first image is left.": f"{RETURN}[0]",
        "This is the class token's row only. The task asks for the whole matrix.": f"{RETURN}[:, 0]",
        "The class token is left out. The task asks for all T tokens.": f"{RETURN}[:, 1:, 1:]",
    }),
    hint="In each layer, average the heads, `A = weights.mean(dim=1)`, add the residual stream, `(A + torch.eye(T)) / "
    "2`, and multiply, the later layer from the left: `rollout = A @ rollout`. Each row of the result sums to 1.",
    shape="(B, T, T)",
    gradients=False,
)  # fmt: skip
