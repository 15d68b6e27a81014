"""Lesson 02: a convolution as a linear layer, the class token, Eq. 1, and sin-cos positions."""

from __future__ import annotations

import inspect
from functools import partial
from itertools import product
from math import prod, sqrt

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from .exercise import Exercise
from .lesson_01_patchify import ORDERS
from .modules import ModuleExercise, images_apart
from .probes import few, noise, origin
from .running import Wrong, close, same


def my_linear_is_conv(conv):
    weight = conv.weight.flatten(1)  # (D, C, P, P) → (D, C·P·P)
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=conv.bias is not None)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if conv.bias is not None:
            linear.bias.copy_(conv.bias)
    return linear


def convolution(C, D, P, bias=True):
    conv = nn.Conv2d(C, D, kernel_size=P, stride=P, bias=bias)
    for parameter in conv.parameters():
        parameter.data = noise(*parameter.shape)
    return (conv,)


def weight_and_bias(linear, conv):
    """Return what the layer learned, zeros where it has no bias; raise Wrong if it is no such layer."""
    if not all(same(parameter, noise(*parameter.shape)) for parameter in conv.parameters()):
        raise Wrong("Your function changes the convolution's own weights: only the linear layer is yours to fill.")
    if not isinstance(linear, nn.Linear):
        raise Wrong(f"Return the `nn.Linear` itself; what came back is of type {type(linear).__name__}.")
    D, inputs = linear.weight.shape
    if (linear.in_features, linear.out_features) != (inputs, D):
        told = f"`nn.Linear({linear.in_features}, {linear.out_features})`, and its weight is ({D}, {inputs})"
        raise Wrong(f"Your layer is {told}: in_features comes first, then out_features, C·P·P and D.")
    if linear.bias is not None and conv.bias is None and linear.bias.any():
        raise Wrong("This convolution has no bias, and your layer has one of its own: `nn.Linear(…, bias=False)`.")
    bias = torch.zeros(conv.out_channels) if linear.bias is None else linear.bias
    for name, mine, theirs in (("weight", linear.weight, conv.weight), ("bias", bias, conv.bias)):
        if mine.any() and not torch.isin(mine, theirs).all():
            raise Wrong(f"Your layer's {name} is not the convolution's: is it still its own random one?")
    return linear.weight, bias


# fmt: off
def filled(got, expected, conv):
    (weight, bias), (right, _), found = got, expected, origin(got[0].detach(), conv.weight.detach())
    yield found is not None, "Your layer's weight is zero, or holds values that are not the convolution's."
    mixed = [d for d, kernels in enumerate(found[0]) if (kernels != d).any()]
    yield not mixed, (
        f"Row {mixed[:1]} of your weight holds values of kernels {few(found[0][mixed[:1]].flatten().tolist())}, and "
        f"must be kernel {mixed[:1]}, flattened.")
    sizes = {"c": conv.in_channels, "p": conv.kernel_size[0]}
    orders = {text: rearrange(right, f"d (c p q) -> d ({order})", **sizes) for order, text in ORDERS.items()}
    yours = next((f"run {text}" for text, other in orders.items() if close(weight, other)), "are in another order")
    yield close(weight, right), (
        f"Every kernel is in its row, and its values {yours}. A patch is flattened as (channel, row, column).")
    yield not close(bias, 0), "The weights are right, and the bias is missing."
    yield False, "The weights are right, and the bias has its values in another order."
# fmt: on


linear_is_conv = Exercise(
    my_linear_is_conv,
    task="`fn(conv) -> nn.Linear`: the layer that does to flattened patches what the convolution does to the image.",
    trials=[partial(convolution, *sizes) for sizes in ((3, 5, 2), (3, 6, 2, False), (2, 7, 3))],
    stages=("", "Right for a convolution with a bias. This one has none, `nn.Conv2d(..., bias=False)`:"),
    probes=filled,
    hint="A kernel of the convolution is (C, P, P): flattened it is one row of the linear layer's weight. "
    "`conv.weight.flatten(1)` has all of them, (D, C·P·P).",
    shape="weight (D, C·P·P); bias (D)",
    sizes=lambda conv: {"D": conv.out_channels, "C": conv.in_channels, "P": conv.kernel_size[0]},
    view=weight_and_bias,
)


def my_class_token(patches, class_token):
    tokens = class_token.expand(len(patches), -1, -1)  # (1, 1, D) → (B, 1, D)
    return torch.cat([tokens, patches], dim=1)


def counted(N):
    return {"N": N, "1+N": 1 + N}


def places_of(rows: Tensor, table: Tensor) -> list[int | None]:
    """Return for each row the first row of the table that it equals; None where it is none of them."""
    return [next((n for n, other in enumerate(table) if close(row, other)), None) for row in rows]


def in_front(got, expected, patches, class_token):
    for b in range(len(got)):
        found = places_of(got[b], expected[b])  # 0 for the class token, 1 to N for the patches
        names = ["the class token" if n == 0 else "neither" if n is None else f"patch {n - 1}" for n in found]
        told = f"The tokens of image {b} are {', '.join(names)}"
        yield found == sorted(found, key=str), f"{told}. The class token comes first, and the head reads token 0."
        yield (
            found == list(range(len(found))),
            (f"{told}: they must be the `class_token` that you are given, and the patches."),
        )


class_token = Exercise(
    my_class_token,
    task="`fn(patches, class_token)`, (B, N, D) and (1, 1, D) → (B, 1+N, D): the class token before the patches.",
    trials=[
        (noise(3, 4, 7), noise(1, 1, 7, seed=1)),
        (noise(2, 6, 11).double(), noise(1, 1, 11, seed=1).double()),
        (noise(1, 2, 5), noise(1, 1, 5, seed=1)),
    ],
    probes=in_front,
    hint="The one class token must become B of them, `class_token.expand(B, -1, -1)`; then `torch.cat` along the "
    "tokens' axis, the class token first.",
    shape="(B, 1+N, D)",
    sizes=lambda x, token: {"B": len(x), "D": x.shape[2]} | counted(x.shape[1]),
)


class MyEmbeddings(nn.Module):
    def __init__(self, image_size, patch_size, in_channels, embed_dim):
        super().__init__()
        num_patches = (image_size // patch_size) ** 2
        self.projection = nn.Conv2d(in_channels, embed_dim, kernel_size=patch_size, stride=patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.position = nn.Parameter(0.02 * torch.randn(1, 1 + num_patches, embed_dim))

    def forward(self, images):
        patches = self.projection(images).flatten(2).transpose(1, 2)  # (B, N, D)
        class_token = self.class_token.expand(len(images), -1, -1)  # (B, 1, D)
        tokens = torch.cat([class_token, patches], dim=1)
        return tokens + self.position  # (B, 1+N, D)


def in_any_order(found, image_size, P, C, D):
    """Yield the reader's weights as ours: a linear layer's for patches flattened in any order, positions as columns."""
    T, weight, position = 1 + (image_size // P) ** 2, found["projection.weight"][0], found["position"]
    if len(position) == 1 and position[0].numel() > T * D:  # a table with spare rows
        position = [position[0].flatten(0, -2)[:T]]
    for order, columns in product(("c p q", *ORDERS), (False, True)):
        axes = order.split()
        views = found | {"position": position}
        if weight.ndim == 2:
            cut = weight.unflatten(1, [C if axis == "c" else P for axis in axes])
            views["projection.weight"] = [cut.permute(0, *(1 + axes.index(axis) for axis in "cpq"))]
        if len(position) == 1 and (columns or position[0].shape[-1] != D):
            views["position"] = [position[0].reshape(D, T).T]
        yield views


# fmt: off
def equation_1(pair):
    x, (size, P, C, D) = pair.x, pair.args
    w, T = size // P, 1 + (size // P) ** 2
    yield from images_apart(pair)
    pixels = x[:1].clone().requires_grad_()
    for t in range(T):
        (flow,) = torch.autograd.grad(pair.mine(pixels)[0, t] @ noise(D) + 0 * pixels.sum(), pixels)
        c, y, z = (few(axis.tolist()) for axis in (flow[0].abs() > 1e-9).nonzero().T)
        told, (i, j) = f"Token {t} depends on pixels in rows {y}, columns {z}, channels {c}", divmod(t - 1, w)
        yield t > 0 or c == "[]", f"{told}. The class token comes first, as token 0, and sees no pixel."
        asked = [few(range(i * P, i * P + P)), few(range(j * P, j * P + P)), few(range(C))]
        yield t == 0 or [y, z, c] == asked, (
            f"{told}. Its patch, number {t - 1}, has rows {asked[0]}, columns {asked[1]}, channels {asked[2]}.")
    if pair.views is None:
        return
    row, table, weight = noise(1, 1, D, seed=3), noise(1, T, D, seed=4), noise(D, C, P, P, seed=5)

    def run(images, token=2 * row, position=2 * table, weight=weight):
        return pair.given(images, class_token=token, position=position, projection=weight)

    changed = run(x)[0] - run(x, token=row)[0]
    tokens = [t for t in range(T) if not close(changed[t], 0)]
    yield tokens == [0], (
        f"When the class token changes, tokens {few(tokens)} of your result change. It belongs in token 0 alone.")
    yield from times(changed[0], row[0, 0], "The class token comes back", D)
    alone = "must change by as much, and yours does not: is it multiplied, or normed?"
    yield close(changed[0], row[0, 0]), f"When the class token changes, token 0 {alone}"
    places = run(x)[0] - run(x, position=table)[0]
    empty, rows = [t for t in range(T) if close(places[t], 0)], places_of(places, table[0])
    yield not empty, (
        f"Tokens {few(empty)} get no position: Eq. 1 adds one to every token, once the class token is in front.")
    yield from times(places, table[0], "The positions are added", D)
    yield None in rows or rows == list(range(T)), f"Tokens 0, 1, 2, … get rows {rows[:8]} of the position table."
    yield None not in rows, f"When the positions change, each token {alone}"
    none = {"token": 0 * row, "position": 0 * table}
    patches, right = run(x, **none), F.pad(F.conv2d(x, weight, stride=P).flatten(2).mT, (0, 0, 1, 0))
    yield from times(patches, right, "Your patch tokens are the projected patches,", D)
    straight = close(run(x, weight=-0.5 * weight, **none), -0.5 * patches)
    told = "With -0.5 times the projection's weights your patch tokens are not -0.5 times what they were"
    yield straight, f"{told}: there is an activation or a norm. Eq. 1 is linear."
    yield close(patches, right), (
        "Your patch tokens are not the projected patches: values are in other places, or something is added.")


def times(got, right, what, D):
    """Ask whether `got` is some multiple of what it should be."""
    factor = ((got * right).sum() / right.square().sum()).item()
    named = ", that is √D" if abs(factor - sqrt(D)) < 1e-3 else ""
    yield not close(got, factor * right) or close(factor, 1), (
        f"{what} {factor:.3g} times as large{named}. Eq. 1 has no factor.")
# fmt: on


def small_and_different(cls):
    """Say that the positions start alike, at zero for example, or larger than the tokens."""
    args, images = embeddings.trials[0]
    module = cls(*args)
    module(images)
    table = torch.cat([each.flatten() for each in embeddings.find(module)[0]["position"]])
    told = (
        "Your positions all start with the same value: until training has moved them apart, order makes no difference."
    )
    usual = "The paper's code starts with small random values, `0.02 * torch.randn(...)`."
    if table.unique().numel() > 1:
        told = (
            f"One thing for later: your positions start with a spread of {table.std():.2g}." if table.std() > 2 else ""
        )
    return f"{told} {usual}" if told else ""


class EmbeddingsExercise(ModuleExercise):
    def find(self, module):
        """The class token's position may be a parameter of its own."""
        found, left = super().find(module)
        own = next((found.pop(name) for name in ("class_position.bare", "class_position.bias") if name in found), [])
        found = found | ({"position": [*own, *found["position"]]} if own and "position" in found else {})
        return found, left

    def require_sizes(self, found, ours, sizes, unclear):
        """The table may have spare rows."""
        longer = [p for p in found.get("position", []) if p.squeeze().ndim == 2 and p.numel() > ours.position.numel()]
        judged = {name: pieces for name, pieces in found.items() if name != "position" or not longer}
        super().require_sizes(judged, ours, sizes, unclear)


embeddings = EmbeddingsExercise(
    MyEmbeddings,
    task="`cls(image_size, patch_size, in_channels, embed_dim)`, an nn.Module (B, C, H, W) → (B, 1+N, D): Eq. 1.",
    trials=[((6, 2, 3, 5), noise(4, 3, 6, 6)), ((12, 3, 2, 7), noise(5, 2, 12, 12))],
    probes=equation_1,
    names={
        "projection": "proj patch_embed patch_embedding patch_embeddings conv linear patches to_patch_embedding embed "
        "patch_projection patch_proj conv_proj patcher layer patch e linear_projection projector to_tokens",
        "class_token": "cls cls_token token class_embedding cls_embedding cls_emb",
        "position": "pos pos_embed pos_embedding position_embedding position_embeddings positions pos_emb places "
        "positional_embedding position_table pos_table table pe patch_position pos_patch",
        "class_position": "cls_pos pos_cls class_pos cls_position position_cls",
    },
    layouts=in_any_order,
    about={
        "position": "Every token needs a row of its own, the class token too, and all images share the table.",
        "class_token": "All images share one class token: no parameter is sized by the batch.",
    },
    hint="Three parts: a convolution with kernel and stride P, followed by `.flatten(2).transpose(1, 2)`; "
    "`nn.Parameter(torch.zeros(1, 1, D))`, expanded to the batch; `nn.Parameter` of (1, 1+N, D), added last.",
    shape="(B, 1+N, D)",
    sizes=lambda size, P, C, D, x: {"B": len(x), "C": C, "P": P, "D": D} | counted((size // P) ** 2),
    biases="Eq. 1 has none either. The authors' code has one, and so do published weights.",
    more=small_and_different,
)


def waves(count, dim):
    speeds = 10000 ** -(torch.arange(dim // 2) / (dim // 2))  # m = dim / 2 hands
    angles = torch.arange(count)[:, None] * speeds
    return torch.cat([angles.sin(), angles.cos()], dim=1)  # (count, dim)


def my_sincos(grid, dim):
    h, w = grid
    rows = waves(h, dim // 2).repeat_interleave(w, dim=0)  # each row's code w times: (h·w, D/2)
    columns = waves(w, dim // 2).repeat(h, 1)  # all columns' codes, h times over: (h·w, D/2)
    return torch.cat([rows, columns], dim=1)


# fmt: off
def positions(got, expected, grid, dim):
    (h, w), half = grid, dim // 2
    rows, columns = [n // w for n in range(h * w)], [n % w for n in range(h * w)]
    yield not close(got, waves(h, dim)[rows] + waves(w, dim)[columns]), (
        "You add the row's code and the column's. They stand side by side, D/2 values each.")
    mine, line = (table.sort(1).values for table in (got, waves(h * w, dim)))
    yield not close(mine, line), (
        "Your positions are along one line, as for text: the patch below is as far away as the grid is wide.")
    blocks = expected.unflatten(1, (2, 2, -1))  # row or column, sine or cosine, frequency
    orders = {"the column before the row": blocks.flip(1), "cosines before sines": blocks.flip(2)}
    orders |= {"each sine beside its cosine": blocks.mT, "the sines of both before the cosines": blocks.transpose(1, 2)}
    how = next((f": {text}" for text, other in orders.items() if close(got, other.flatten(1))), "")
    yield not close(mine, expected.sort(1).values), (
        f"Your values are right and in another order{how}. They come in blocks: D/4 sines of the row, its D/4 "
        "cosines, and then those of the column.")
    for what, part, places in (("row", slice(0, half), rows), ("column", slice(half, dim), columns)):
        found = places_of(got[:, part], waves(h * w + 1, half))
        yield None in found or found == places, (
            f"The half for the {what} has, for patches 0, 1, 2, …, the codes of {found[:8]}. It must have those of "
            f"their {what}s, {places[:8]}: n // w is the row, n % w the column, counted from 0.")
        n = places.index(1)
        sines = (table[n, part][: dim // 4].clamp(-1, 1).asin() for table in (got, expected))
        mine, right = ([float(f"{angle:.3g}") for angle in each] for each in sines)
        yield close(got[:, part], expected[:, part]), (
            f"In {what} 1 the sines are those of {mine}, and should be those of {right}: the frequencies fall from 1 "
            "towards 1/10000, with the exponent i / (D/4).")
# fmt: on


sincos = Exercise(
    my_sincos,
    task="`fn(grid, dim)`, (h, w) and D → (h·w, D): sin-cos positions, laid out as in `sincos_position_embedding`.",
    trials=[((3, 5), 28), ((4, 2), 8), ((2, 3), 4)],
    probes=positions,
    hint="`waves(h, dim // 2)` has a code for each row, `waves(w, dim // 2)` one for each column. Patch n is in row "
    "n // w and column n % w: give it its row's code, then its column's (`torch.cat` along dim=1).",
    shape="(h·w, D)",
    sizes=lambda grid, dim: {"h": grid[0], "w": grid[1], "h·w": prod(grid), "D": dim, "D/2": dim // 2},
    imports=inspect.getsource(waves).strip(),  # a cell of the notebook has it
)
