"""Lesson 02: a convolution as a linear layer, Eq. 1, and sin-cos positions."""

import inspect
from functools import partial
from itertools import permutations, product
from math import prod

import torch
from einops import rearrange
from torch import nn

from .exercise import Exercise
from .lesson_01_patchify import image_sizes, order_of
from .modules import ModuleExercise
from .probes import as_sum, noise, probe_mixing
from .running import Wrong, close


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
    if not isinstance(linear, nn.Linear):
        raise Wrong(f"Return the `nn.Linear` itself; what came back is of type {type(linear).__name__}.")
    if not conv.weight.equal(noise(*conv.weight.shape)):
        raise Wrong("Your function changes the convolution's own weights.")
    return linear.weight, torch.zeros(len(linear.weight)) if linear.bias is None else linear.bias


def places_of(rows, table):
    """Return for each row the first row of the table that it equals; None where it is none of them."""
    return [next((n for n, other in enumerate(table) if close(row, other)), None) for row in rows]


def probe_linear(got, expected, conv):
    weight, right = got[0], expected[0]
    kernels = places_of(weight.sort(1).values, right.sort(1).values)  # in whatever order the values are
    told = f"The rows of your weight hold kernels {kernels[:6]}, not 0, 1, 2, … (None is none of them: was it copied?)"
    yield kernels != list(range(len(right))), told
    order = order_of(weight, right, conv.kernel_size[0])
    yield not close(weight, right), f"The values of a kernel run {order}: they must run as (channel, row, column)."
    yield True, "The weights are right, and the bias is missing, or not the convolution's."


linear_is_conv = Exercise(
    my_linear_is_conv,
    task="`fn(conv) -> nn.Linear`: the layer that does to flattened patches what the convolution does to the image.",
    trials=[partial(convolution, *sizes) for sizes in ((3, 5, 2), (3, 6, 2, False), (2, 7, 3))],
    probes=probe_linear,
    clue="`conv.weight` is (D, C, P, P): a kernel, flattened, is a row of the layer. Copy it under `torch.no_grad()`.",
    shape="weight (D, C·P·P); bias (D)",
    sizes=lambda conv: {"D": conv.out_channels, "C·P·P": conv.weight[0].numel(), "P·P": conv.weight[0, 0].numel()},
    view=weight_and_bias,
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
    position, weight = found["position"], found["projection.weight"]
    columns = position.reshape(D, -1).T
    for table, axes in product((position, columns) if position.shape[-1] == D else (columns,), permutations("CPQ")):
        order = f"D ({' '.join(axes)}) -> D C P Q"
        kernels = rearrange(weight, order, P=P, Q=P) if weight.ndim == 2 else weight
        yield found | {"position": table, "projection.weight": kernels}


def with_one_table(found, image_size, P, C, D):
    """Put the class token's position, if it is stored by itself, before the others, and leave out spare rows."""
    table = found["position"].squeeze() if "position" in found else torch.empty(0)
    if table.shape[1:] == (D,):
        first = found.pop("class_position.bias", table[:0]).reshape(-1, D)
        found["position"] = torch.cat([first, table])[None, : 1 + (image_size // P) ** 2]
    return found


def probe_embeddings(pair):
    yield from probe_mixing(pair)
    if pair.indices is None:
        return
    ours, right, mine = pair.ours, pair.ours(pair.x), pair.mine(pair.x)  # (B, T, D)
    patches = {f"patch {n}": patch for n, patch in enumerate(ours.projection(pair.x).flatten(2).unbind(2))}
    added = mine - right + ours.position  # what it adds, if all else is right
    yield close(added, added[:1, :1].expand_as(added)), "Every token gets the same position."
    for t in range(right.shape[1]):
        own = {"class_token": ours.class_token[:, 0], "position": ours.position[:, t]}
        terms = {name: term.expand_as(right[:, t]) for name, term in own.items()} | patches
        found, asked = as_sum(mine[:, t], terms), as_sum(right[:, t], terms)
        told = "one patch in full (flatten, then transpose), its own position, no norm, no activation"
        yield found != asked, f"Token {t} is {found}. It must be {asked}: {told}."


embeddings = ModuleExercise(
    MyEmbeddings,
    task="`cls(image_size, patch_size, in_channels, embed_dim)`, an nn.Module (B, C, H, W) → (B, 1+N, D): Eq. 1.",
    trials=[((6, 2, 3, 5), noise(4, 3, 6, 6)), ((12, 3, 2, 7), noise(5, 2, 12, 12))],
    probes=probe_embeddings,
    names={
        "projection": "proj patch_embed patch_embedding patch_embeddings conv linear patches to_patch_embedding embed "
        "patch_projection patch_proj conv_proj patcher layer patch e linear_projection projector to_tokens",
        "class_token": "x_class cls cls_token token class_embedding cls_embedding cls_emb",
        "position": "e_pos pos pos_embed pos_embedding position_embedding position_embeddings positions pos_emb places "
        "positional_embedding position_table pos_table table pe patch_position pos_patch",
        "class_position": "cls_pos pos_cls class_pos cls_position position_cls",
    },
    called="`projection`, `class_token`, `position`",
    regroup=with_one_table,
    layouts=in_any_order,
    clue="Make (B, N, D) of what `projection` returns. `expand` gives every image the class token. Add positions last.",
    shape="(B, 1+N, D)",
    sizes=lambda S, P, C, D, x: image_sizes(*x.shape, P) | {"1+N": 1 + (S // P) ** 2, "D": D},
    biases=False,  # Eq. 1 has none either
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


def probe_sincos(got, expected, grid, dim):
    half, n = dim // 2, torch.arange(len(expected))
    halves = {"row": (slice(half), n // grid[1]), "column": (slice(half, dim), n % grid[1])}
    for what, (part, places) in halves.items():
        found, asked = places_of(got[:, part], waves(len(n), half)), places.tolist()
        told = f"The {what}s of patches 0, 1, 2, … are {asked[:8]}. Yours: {found[:8]}."
        yield found != asked and None not in found, told
        patch = asked.index(1)
        told = ", and must be ".join(str([round(v, 3) for v in each[patch, part].tolist()]) for each in (got, expected))
        yield not close(got[:, part], expected[:, part]), f"Sines and cosines of {what} 1 are {told}."


sincos = Exercise(
    my_sincos,
    task="`fn(grid, dim)`, (h, w) and D → (h·w, D): sin-cos positions, laid out as in `sincos_position_embedding`.",
    trials=[((3, 5), 28), ((4, 2), 8), ((2, 3), 4)],
    probes=probe_sincos,
    clue="Patch n is in row n // w and column n % w. Half of its vector is a row of `waves(h, dim // 2)`: which one?",
    shape="(h·w, D)",
    sizes=lambda grid, dim: {"h": grid[0], "w": grid[1], "h·w": prod(grid), "D": dim, "D/2": dim // 2},
    imports=inspect.getsource(waves).strip(),  # a cell of the notebook has it
)
