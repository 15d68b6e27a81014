"""Lesson 02: a convolution as a linear layer, the class token, Eq. 1, and sin-cos positions."""

from __future__ import annotations

import inspect

import torch
import torch.nn.functional as F  # noqa: F401 (the slips use it)
from einops import rearrange
from torch import nn

from .exercise import Exercise, edited, noise
from .lesson_01_patchify import INSIDE
from .modules import ModuleExercise
from .running import Wrong, same


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
    return conv


def weight_and_bias(linear, conv):
    """Return what the layer learned, zeros where it has no bias; raise Wrong for values that no slip can know."""
    if not all(same(parameter, noise(*parameter.shape)) for parameter in conv.parameters()):
        raise Wrong("Your function changes the convolution's own weights: only the linear layer is yours to fill.")
    if not isinstance(linear, nn.Linear):
        raise Wrong(f"Return the `nn.Linear` itself; what came back is of type {type(linear).__name__}.")
    weight, bias, rows = linear.weight, linear.bias, conv.weight.flatten(1)
    fits = weight.shape == rows.shape
    if fits and not same(weight.flatten().sort().values, rows.flatten().sort().values):
        raise Wrong("Your layer's weights are not the convolution's: are they still its own random ones?")
    if bias is None or not bias.any() or not fits:
        return weight, torch.zeros(len(rows))
    if conv.bias is None:
        raise Wrong("Your layer adds a bias all the same.")
    if not same(bias, conv.bias):
        raise Wrong("The bias is wrong: is it still the layer's own?")
    return weight, bias


FLAT, SIZES, COPY = "conv.weight.flatten(1)", "weight.shape[1], weight.shape[0]", "linear.weight.copy_(weight)"
LOAD = "linear.load_state_dict({'weight': weight}, strict=False)"
HAS_NONE = "Right for a convolution with a bias. This one has none, `nn.Conv2d(..., bias=False)`: `conv.bias` is None."

linear_is_conv = Exercise(
    my_linear_is_conv,
    task="`fn(conv) -> nn.Linear`: the layer that does to flattened patches what the convolution does to the image.",
    trials=[lambda sizes=sizes: (convolution(*sizes),) for sizes in ((3, 6, 2, False), (3, 5, 2), (2, 7, 3))],
    slips={
        "The kernels are not flattened: a kernel of (C, P, P) must be flattened into one row. `conv.weight.flatten(1)` "
        "is (D, C·P·P).": [(COPY, way) for way in (
            "linear.weight.copy_(conv.weight)", "linear.weight = conv.weight", LOAD.replace("weight}", "conv.weight}")
        )],
        **{f"Your kernels are flattened as {name}, patches as (channel, row, column).":
               (FLAT, f"rearrange(conv.weight, 'D C P Q -> D ({' '.join(inside)})')")
           for inside, name in INSIDE.items() if name},
        "The convolution's weights are there, in other places: row d must be kernel d, flattened. `reshape` and `.T` "
        "mix up the kernels.": [(FLAT, f"conv.weight.{way}") for way in (
            "reshape(-1, len(conv.weight)).T", "flatten(1).T.reshape(len(conv.weight), -1)")],
        "Your kernels are turned by 180°. PyTorch's convolution does not flip them: flatten them as they are.":
            (FLAT, "conv.weight.flip(2, 3).flatten(1)"),
        "Your linear layer takes in the P·P values of one channel. A patch has C·P·P: those of all channels.":
            [(FLAT, "conv.weight[:, 0].flatten(1)"),
             *((SIZES, "conv.kernel_size[0] ** 2, len(weight)", COPY, way) for way in (COPY, LOAD))],
        "In and out are exchanged: `nn.Linear(in_features, out_features)` goes from C·P·P values to D, and its weight "
        "is (D, C·P·P).": [(FLAT, "conv.weight.flatten(1).T", "conv.bias is not None", "False"),
                           *((SIZES, "weight.shape[0], weight.shape[1]", COPY, way) for way in (COPY, LOAD))],
        "The weights are right, and the bias is missing.": ("linear.bias.copy_(conv.bias)", "linear.bias.zero_()"),
    },
    hint="A kernel of the convolution is (C, P, P): flattened it is one row of the linear layer's weight. "
    "`conv.weight.flatten(1)` has all of them, (D, C·P·P).",
    shape="weight (D, C·P·P); bias (D)",
    easier=[((convolution(3, 5, 2),), HAS_NONE)],
    view=weight_and_bias,
    gradients=False,
)  # fmt: skip


def my_class_token(patches, class_token):
    tokens = class_token.expand(len(patches), -1, -1)  # (1, 1, D) → (B, 1, D)
    return torch.cat([tokens, patches], dim=1)


LAST = "Your class token comes last. The paper puts it first, and the head reads token 0."
EACH = "`class_token.expand(len(patches), -1, -1)` makes one for each image, without a copy."
TOKENS, BOTH = "class_token.expand(len(patches), -1, -1)", "[tokens, patches]"
OTHER_TOKENS = [TOKENS, "class_token", "class_token.expand_as(patches)", "class_token.expand(1, patches.shape[1], -1)"]

class_token = Exercise(
    my_class_token,
    task="`fn(patches, class_token)`, (B, N, D) and (1, 1, D) → (B, 1+N, D): the class token before the patches.",
    trials=[(noise(3, 4, 5), noise(1, 1, 5, seed=1)), (noise(2, 6, 7).double(), noise(1, 1, 7, seed=1).double()),
            (noise(1, 2, 3), noise(1, 1, 3, seed=1))],
    slips={
        **{f"You put {n} class token{'s'[: n > 1]} in front. There must be one for each of the B images. {EACH}":
               ("len(patches)", f"{n}") for n in (1, 2, 3, 4, 8, 16, 32, 64)},
        **{f"`dim={dim}` counts {what}; tokens are counted by `dim=1`, and each image needs a class token. {EACH}":
               [(TOKENS, way, BOTH, both, "dim=1", f"dim={dim}") for way in OTHER_TOKENS
                for both in ("[tokens, patches]", "[patches, tokens]")]
           for dim, what in ((0, "images"), (2, "the values in a token"))},
        LAST: (BOTH, "[patches, tokens]"),
        "You add the class token to every patch. It is a token of its own, in front.":
            (f"torch.cat({BOTH}, dim=1)", "tokens + patches"),
        "The class token takes the place of the first patch: that patch is lost.": (BOTH, "[tokens, patches[:, 1:]]"),
        "The last patch is lost: the sequence gets one longer, from N to 1+N.": (BOTH, "[tokens, patches[:, :-1]]"),
        "Your first token is the mean of the patches, and not the class token.":
            (BOTH, "[patches.mean(1, keepdim=True), patches]"),
        "Your first token is made inside the function: the `class_token` that it is given is not used.":
            [(BOTH, f"[torch.{made}_like(tokens), patches]") for made in ("zeros", "ones")],
        "The class token stands at both ends: once is enough, in front.": (BOTH, "[tokens, patches, tokens]"),
        "Only the first image is left of the batch.": (BOTH, "[tokens[:1], patches[:1]]"),
        "There are N class tokens for each image: one is enough.": (TOKENS, "class_token.expand_as(patches)"),
    },
    hint="The one class token must become B of them, `class_token.expand(B, -1, -1)`; then `torch.cat` along the "
    "tokens' axis, the class token first.",
    shape="(B, 1+N, D)",
)  # fmt: skip


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


PROJECT, CONV = "self.projection(images).flatten(2).transpose(1, 2)", "nn.Conv2d(in_channels, embed_dim, kernel_size="
ONE, TABLE = "self.class_token.expand(len(images), -1, -1)", "torch.randn(1, 1 + num_patches, embed_dim)"
CAT, PLACE = "torch.cat([class_token, patches], dim=1)", "tokens + self.position"
NO_ONE = ("self.class_token = nn.Parameter(torch.zeros(1, 1, embed_dim))", "self.width = embed_dim")
ONLY_PATCHES = ("1 + num_patches", "num_patches")  # in the table of positions
TEXT = "are multiplied by √D, as in the transformer for text. Eq. 1 does not."
NO_NORM = "There is a normalisation in your embeddings. Eq. 1 has none: the first one is in the encoder."
A_PARAMETER = (
    "A tensor is a parameter if `__init__` stores it as `self.name = nn.Parameter(...)`: a plain tensor or a buffer is "
    "not found by an optimizer."
)
NO_CLASS_TOKEN = f"Your module has no parameter for the class token: one vector, (1, 1, D). {A_PARAMETER}"
ONE_FOR_ALL = (
    "There is one position vector for all tokens: added to each of them, it tells no place from another. Every token "
    "needs its own: (1, 1+N, D)."
)
CLASS_ROW = "The position table has N rows, for the patches only. The class token needs a row too: (1, 1+N, D)."

EMBEDDING_SLIPS = {
    "The class token gets no position: Eq. 1 adds one to every token, once the class token is in front.": [
        *((CAT, f"torch.cat([class_token, patches + self.position{rows}], dim=1)", PLACE, "tokens")
          for rows in ("[:, 1:]", "[:, :-1]")),
        (*ONLY_PATCHES, CAT, "torch.cat([class_token, patches + self.position], dim=1)", PLACE, "tokens")],
    CLASS_ROW: ONLY_PATCHES,
    "The positions are never added: `forward` does not use their parameter.": (PLACE, "tokens"),
    "All tokens get the same position vector: it tells no place from another.":
        [(PLACE, f"{PLACE}{row}") for row in ("[:, :1]", "[:, -1:]")],
    ONE_FOR_ALL: (TABLE, "torch.randn(1, 1, embed_dim)"),
    LAST: [(CAT, "torch.cat([patches, class_token], dim=1)"), (PLACE, f"({PLACE}).roll(-1, dims=1)")],
    "The positions are multiplied with the tokens. Eq. 1 adds them.": (PLACE, "tokens * self.position"),
    "The positions are added back to front.": (PLACE, "tokens + self.position.flip(1)"),
    "The positions are added twice.": (PLACE, "tokens + 2 * self.position"),
    "Only the class token gets its position, the patches get none.":
        (PLACE, "torch.cat([tokens[:, :1] + self.position[:, :1], tokens[:, 1:]], dim=1)"),
    f"The tokens {TEXT}": (PLACE, "tokens * tokens.shape[-1] ** 0.5 + self.position"),
    f"The patch tokens {TEXT}": (PROJECT, f"{PROJECT} * self.position.shape[-1] ** 0.5"),
    NO_NORM: [(PLACE, f"F.layer_norm({PLACE}, self.position.shape[-1:])"),
              ("class_token, patches]", "class_token, F.layer_norm(patches, patches.shape[-1:])]")],
    **{f"There is a {name} after the projection. Eq. 1 is linear: it has no activation.":
           (PROJECT, f"F.{name.lower()}({PROJECT})") for name in ("GELU", "ReLU")},
    "The class token is missing: (B, 1+N, D) is asked, and you return the N patches.":
        [(*more, PLACE, "patches + self.position") for more in ((), ONLY_PATCHES)]
        + [(*more, *NO_ONE, ONE, "None", CAT, "patches") for more in ((PLACE, f"{PLACE}[:, 1:]"), ONLY_PATCHES)],
    NO_CLASS_TOKEN:
        [(*NO_ONE, ONE, f"torch.{made}(len(images), 1, self.width)") for made in ("zeros", "ones")],
    "The class token is not used: token 0 is its position alone.": (ONE, f"0 * {ONE}"),
    "The class token is added to every patch as well, not only in front.": (PROJECT, f"{PROJECT} + self.class_token"),
    "There is one class token and a batch of several images: each image needs its class token. "
    "`self.class_token.expand(len(images), -1, -1)` is one for each, without a copy.": (ONE, "self.class_token"),
    "Your patch tokens mix values of different patches: the convolution gives (B, D, h, w), and `reshape` to (B, N, D) "
    "does not exchange axes.": (PROJECT, "self.projection(images).reshape(len(images), -1, self.position.shape[-1])"),
    "Your tokens are columns, (B, D, N): `.transpose(1, 2)` makes them rows.": (".transpose(1, 2)", ""),
    "The convolution gives a grid, (B, D, h, w). `.flatten(2).transpose(1, 2)` makes tokens of it.":
        (PROJECT, "self.projection(images)"),
    "Your patches run down the columns of the grid. They run row by row.":
        (PROJECT, "self.projection(images).mT.flatten(2).mT"),
    "Your patches are image rows: `reshape` alone does not cut an image into patches. Use your `patchify` of notebook "
    "01, or a convolution with stride P.":
        (f"{CONV}patch_size, stride=patch_size)", "nn.Linear(in_channels * patch_size**2, embed_dim)",
         PROJECT, "self.projection(images.reshape(len(images), -1, self.projection.in_features))"),
    "Your convolution has a kernel of P×P and moves by one pixel: its windows overlap, and there are more of them than "
    "patches. `stride=patch_size` moves it by P.": (", stride=patch_size", ""),
}  # fmt: skip


def patch_orders(weights, image_size, patch_size, in_channels, embed_dim):
    """Yield the weights for every order in which a patch may be flattened; the table as it is, and as (D, 1+N)."""
    kernels, table = weights["projection.weight"], weights["position"]
    for rows in (table, table.reshape(1, embed_dim, -1).mT):
        for order in map(" ".join, INSIDE):
            way = rearrange(kernels.flatten(1), f"D ({order}) -> D C P Q", C=in_channels, P=patch_size, Q=patch_size)
            yield {**weights, "projection.weight": way, "position": rows}


def starting_at_zero(cls):
    """Say that the positions start at zero, if they do."""
    args, images = embeddings.trials[0]
    module = cls(*args)
    module(images)
    if all(p.any() for p in module.parameters() if p.numel() > args[-1] and p.numel() % args[-1] == 0):
        return ""
    return (
        "Your positions all start at zero: until training has moved them apart, the order of the patches makes no "
        "difference. The paper's code starts them with small random values, `0.02 * torch.randn(...)`."
    )


embeddings = ModuleExercise(
    MyEmbeddings,
    task="`cls(image_size, patch_size, in_channels, embed_dim)`, an nn.Module (B, C, H, W) → (B, 1+N, D): Eq. 1.",
    trials=[((6, 2, 3, 5), noise(2, 3, 6, 6)), ((12, 3, 2, 7), noise(3, 2, 12, 12))],
    slips=EMBEDDING_SLIPS,
    readings=patch_orders,
    hint="Three parts: a convolution with kernel and stride P, followed by `.flatten(2).transpose(1, 2)`; "
    "`nn.Parameter(torch.zeros(1, 1, D))`, expanded to the batch; `nn.Parameter` of (1, 1+N, D), added last.",
    shape="(B, 1+N, D)",
    biases="Eq. 1 has none either. The authors' code has one, and so do published weights.",
    more=starting_at_zero,
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


ROWS, COLUMNS = "waves(h, dim // 2).repeat_interleave(w, dim=0)", "waves(w, dim // 2).repeat(h, 1)"
JOIN = "torch.cat([rows, columns], dim=1)"


def with_waves(*changes: str):
    """Return the solution with changes in the source of `waves`."""
    return edited(my_sincos, waves=edited(waves, *changes))


def with_places(row: str, column: str, h: str = "h * w", w: str = "h * w") -> tuple[str, ...]:
    """Return the edit that takes patch n to be in this row and column, of `h` and `w` that have a code."""
    rows, columns = f"waves({h}, dim // 2)[{row}]", f"waves({w}, dim // 2)[{column}]"
    return "h, w = grid", "h, w = grid; n = torch.arange(h * w)", ROWS, rows, COLUMNS, columns


def in_parts(pattern: str):
    """Return the solution with its values in another order: half (row, column), wave (sine, cosine), i."""
    return lambda grid, dim: rearrange(my_sincos(grid, dim), f"n (half wave i) -> {pattern}", half=2, wave=2)


BELOW = (JOIN, "torch.cat([rows, columns])")
UNREPEATED = (ROWS, "waves(h, dim // 2)", COLUMNS, "waves(w, dim // 2)")
SIDE_BY_SIDE = "They stand side by side, D/2 values each: `torch.cat([rows, columns], dim=1)`."

SINCOS_SLIPS = {
    "The halves are exchanged: the row comes first, then the column.": (JOIN, "torch.cat([columns, rows], dim=1)"),
    "The cosines come before the sines.": with_waves("angles.sin(), angles.cos()", "angles.cos(), angles.sin()"),
    "All sines come first. They come in turn: the row's sines and cosines, then the column's.":
        in_parts("n (wave half i)"),
    "Sines and cosines alternate. They come in blocks: D/4 sines, then D/4 cosines.": in_parts("n (half i wave)"),
    "Both halves hold the row: the second must hold the column.": (JOIN, "torch.cat([rows, rows], dim=1)"),
    "Both halves hold the column: the first must hold the row.": (JOIN, "torch.cat([columns, columns], dim=1)"),
    "Your rows and columns are counted from 1. Count from 0.": with_waves("arange(count)", "arange(1, 1 + count)"),
    "Your indices are parts of the side, between 0 and 1. Take the index itself: 0, 1, 2, …":
        with_waves("[:, None]", "[:, None] / count"),
    "Every second row of yours runs from right to left. Each row begins again with column 0.":
        with_places("n // w", "torch.where(n // w % 2 == 0, n % w, w - 1 - n % w)"),
    "There is a 2π too many: the angle is the index times the frequency.":
        with_waves("* speeds", "* speeds * 2 * torch.pi"),
    "Your patches run down the columns of the grid. They run row by row: patch n is in row n // w, column n % w. "
    "(`meshgrid` needs `indexing='ij'`.)": with_places("n % h", "n // h"),
    "Your patch n is in row n // h, column n % h. A row has w patches, so it is in row n // w, column n % w.":
        [with_places("n // h", "n % h"), with_places("n // h", "n % h", "h", "w")],
    "Your rows run 0, 1, 2, 0, 1, 2, …, as the columns do: each row must stay for w patches.":
        with_places("n % h", "n % w"),
    "Your columns stay the same for h patches, as rows do: they must run 0, 1, 2, 0, 1, 2, …":
        with_places("n // w", "n // h"),
    "Your frequencies end at exactly 1/10000: divide the exponent by D/4, not by D/4 - 1.":
        with_waves("/ (dim // 2)", "/ (dim // 2 - 1)"),
    "Your frequencies rise. They fall, from 1 towards 1/10000.": with_waves("10000 ** -", "10000 ** "),
    "Your frequencies fall twice as fast.": with_waves("10000 ** -", "(10000**2) ** -"),
    "Your frequencies fall half as fast.": with_waves("10000 ** -", "100 ** -"),
    "All your frequencies are 1.": with_waves("10000 ** -", "1 ** -"),
    f"You add the row's code and the column's. {SIDE_BY_SIDE}": ("dim // 2", "dim", JOIN, "rows + columns"),
    f"You add the row's code and the column's, and so a vector has D/2 values. {SIDE_BY_SIDE}":
        (JOIN, "rows + columns"),
    "Your vectors have 2·D values: D for the row and D for the column. Take D/2 for each.": ("dim // 2", "dim"),
    "h codes of rows do not fit beside w codes of columns: repeat them first, so that each patch has one of both.":
        UNREPEATED,
    "There are only h codes of rows for h·w patches. Each is needed w times, one below the other: "
    "`repeat_interleave(w, dim=0)`. (`repeat(1, w)` makes a code longer.)":
        ("repeat_interleave(w, dim=0)", "repeat(1, w)"),
    "There are only w codes of columns for h·w patches. The list of them is needed h times: `repeat(h, 1)`. "
    "(`repeat(1, h)` makes a code longer.)": ("repeat(h, 1)", "repeat(1, h)"),
    "Your parts stand below one another, as further rows. Join them along the values: `torch.cat([…], dim=1)`.":
        [BELOW, ("dim // 2", "dim", *BELOW), (*UNREPEATED, *BELOW),
         (JOIN, "torch.cat([*rows.chunk(2, 1), *columns.chunk(2, 1)])")],
    "Your positions are along one line, as for text: the patch below is as far away as the grid is wide.":
        [(JOIN, "waves(h * w, dim)"), (JOIN, "rearrange(waves(h * w, dim), 'n (wave i) -> n (i wave)', wave=2)")],
    "One row too many: here are the patches only, no class token.": (JOIN, f"F.pad({JOIN}, (0, 0, 1, 0))"),
    "The grid is still there, (h, w, D): flatten the first two axes.": (JOIN, f"{JOIN}.unflatten(0, grid)"),
    "There is a batch axis in front, (1, h·w, D). Leave it out.": (JOIN, f"{JOIN}[None]"),
    "The axes are exchanged, (D, h·w): a position is a row.": (JOIN, f"{JOIN}.T"),
}  # fmt: skip

sincos = Exercise(
    my_sincos,
    task="`fn(grid, dim)`, (h, w) and D → (h·w, D): sin-cos positions, laid out as in `sincos_position_embedding`.",
    trials=[((3, 5), 12), ((4, 2), 8), ((2, 3), 4)],
    slips=SINCOS_SLIPS,
    hint="`waves(h, dim // 2)` has a code for each row, `waves(w, dim // 2)` one for each column. Patch n is in row "
    "n // w and column n % w: give it its row's code, then its column's (`torch.cat` along dim=1).",
    shape="(h·w, D)",
    gradients=False,
    imports=inspect.getsource(waves).strip(),  # a cell of the notebook has it
)
