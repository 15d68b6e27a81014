"""Lesson 02: a convolution as a linear layer, the class token, Eq. 1, and sin-cos positions."""

from __future__ import annotations

import inspect

import torch
from einops import rearrange
from torch import nn

from .exercise import Exercise, edited, noise
from .lesson_01_patchify import OTHER_ORDERS, PATCH_ORDERS
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
    none = torch.zeros(conv.out_channels)
    mine = linear.weight, none if linear.bias is None else linear.bias
    theirs = conv.weight.flatten(1), none if conv.bias is None else conv.bias
    for name, values, asked in zip(("weight", "bias"), mine, theirs, strict=True):
        alike = values.shape != asked.shape or same(values.flatten().sort().values, asked.flatten().sort().values)
        if values.any() and not alike and not asked.any():
            raise Wrong("This convolution has no bias. Your layer has one of its own: `nn.Linear(…, bias=False)`.")
        if values.any() and not alike:
            raise Wrong(f"Your layer's {name} is not the convolution's: is it still its own random one?")
    return mine


FILL, SIZES_OF_LINEAR = "linear.weight.copy_(weight)", "weight.shape[1], weight.shape[0]"

linear_is_conv = Exercise(
    my_linear_is_conv,
    task="`fn(conv) -> nn.Linear`: the layer that does to flattened patches what the convolution does to the image.",
    trials=[lambda sizes=sizes: (convolution(*sizes),) for sizes in ((3, 5, 2), (3, 6, 2, False), (2, 7, 3))],
    slips={
        "The kernels are not flattened: a kernel of (C, P, P) must be flattened into one row. `conv.weight.flatten(1)` "
        "is (D, C·P·P).": [(FILL, "linear.weight.copy_(conv.weight)"), (FILL, "linear.weight = conv.weight")],
        **{f"Your kernels are flattened as {name}, patches as (channel, row, column).":
               ("conv.weight.flatten(1)", f"rearrange(conv.weight, 'D C P Q -> D ({' '.join(inside)})')")
           for inside, name in OTHER_ORDERS.items()},
        "Your linear layer takes in the P·P values of one channel. A patch has C·P·P: those of all channels.":
            [("conv.weight.flatten(1)", "conv.weight[:, 0].flatten(1)"),
             (SIZES_OF_LINEAR, "conv.kernel_size[0] ** 2, len(weight)")],
        "In and out are exchanged: `nn.Linear(in_features, out_features)` goes from C·P·P values to D, and its weight "
        "is (D, C·P·P).": [("conv.weight.flatten(1)", "conv.weight.flatten(1).T", "conv.bias is not None", "False"),
                           (SIZES_OF_LINEAR, "weight.shape[0], weight.shape[1]")],
        "The weights are right, and the bias is missing.": ("linear.bias.copy_(conv.bias)", "linear.bias.zero_()"),
        "Right for a convolution with a bias. This one has none, `nn.Conv2d(..., bias=False)`: `conv.bias` is None.":
            [("conv.bias is not None", "True", "linear.bias.copy_(conv.bias)", copied) for copied in (
                "linear.bias.copy_(conv.bias)", "linear.bias.data = conv.bias", "linear.bias.data = conv.bias.data",
                "linear.bias = nn.Parameter(conv.bias)", "linear.bias.data.copy_(conv.bias.data)")],
        "The convolution's weights are there, in other places: row d must be kernel d, flattened. `reshape` and `.T` "
        "mix up the kernels, and PyTorch's convolution does not flip them.":
            [("conv.weight.flatten(1)", f"conv.weight.{way}") for way in
             ("reshape(-1, len(conv.weight)).T", "flip(2, 3).flatten(1)")],
    },
    hint="A kernel of the convolution is (C, P, P): flattened it is one row of the linear layer's weight. "
    "`conv.weight.flatten(1)` has all of them, (D, C·P·P).",
    shape="weight (D, C·P·P); bias (D)",
    view=weight_and_bias,
)  # fmt: skip


def my_class_token(patches, class_token):
    tokens = class_token.expand(len(patches), -1, -1)  # (1, 1, D) → (B, 1, D)
    return torch.cat([tokens, patches], dim=1)


COMES_LAST = "Your class token comes last. The paper puts it first, and the head reads token 0."
EXPANDED, IN_FRONT = "class_token.expand(len(patches), -1, -1)", "[tokens, patches]"

class_token = Exercise(
    my_class_token,
    task="`fn(patches, class_token)`, (B, N, D) and (1, 1, D) → (B, 1+N, D): the class token before the patches.",
    trials=[(noise(3, 4, 5), noise(1, 1, 5, seed=1)), (noise(2, 6, 7).double(), noise(1, 1, 7, seed=1).double()),
            (noise(1, 2, 3), noise(1, 1, 3, seed=1))],
    slips={
        "The class tokens in front are not as many as the images: there must be one class token for each of the B "
        "images. `class_token.expand(len(patches), -1, -1)` makes them, without a copy.":
            [("len(patches)", f"{n}") for n in (1, 2, 3, 4, 8, 16, 32, 64)],
        "Tokens are counted by `dim=1`, and each image needs a class token: `dim=0` counts images, `dim=2` the values "
        "in a token.":
            [(EXPANDED, tokens, "dim=1", f"dim={dim}") for dim in (0, 2) for tokens in (
                EXPANDED, "class_token", "class_token.expand_as(patches)", "class_token.expand(1, patches.shape[1], -1)"
            )],
        "There are N class tokens for each image: one is enough.": (EXPANDED, "class_token.expand_as(patches)"),
        "You add the class token to every patch. It is a token of its own, in front.":
            ("torch.cat([tokens, patches], dim=1)", "tokens + patches"),
        COMES_LAST: (IN_FRONT, "[patches, tokens]"),
        "A patch is lost: the sequence gets one longer, from N to 1+N.":
            [(IN_FRONT, "[tokens, patches[:, 1:]]"), (IN_FRONT, "[tokens, patches[:, :-1]]")],
        "Your first token is not the `class_token` that your function is given.":
            [(IN_FRONT, f"[{other}, patches]") for other in
             ("torch.zeros_like(tokens)", "torch.ones_like(tokens)", "patches.mean(1, keepdim=True)")],
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
    COMES_LAST: [(CAT, "torch.cat([patches, class_token], dim=1)"), (PLACE, f"({PLACE}).roll(-1, dims=1)")],
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
        (*NO_ONE, ONE, "torch.ones(len(images), 1, self.width)"),
    "The class token is not used, or is no parameter: token 0 is its position alone.":
        [(ONE, f"0 * {ONE}"), (*NO_ONE, ONE, "torch.zeros(len(images), 1, self.width)")],
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


# Right too: a linear layer on patches that are flattened in any order, and positions as columns, (D, 1+N).
OTHER_WAYS = [
    (f"{CONV}patch_size, stride=patch_size)",
     "nn.Linear(in_channels * patch_size**2, embed_dim); self.P = patch_size",
     "self.projection(images).flatten(2).transpose(1, 2)",
     f"self.projection(rearrange(images, 'B C (h P) (w Q) -> B (h w) ({' '.join(order)})', P=self.P, Q=self.P))",
     PLACE, f"tokens + self.position{positions}")
    for positions in ("", ".reshape(1, tokens.shape[2], -1).mT") for order in PATCH_ORDERS
]  # fmt: skip


def starting_at_zero(cls):
    """Say that the positions all start alike, at zero for example, if they do."""
    args, images = embeddings.trials[0]
    module = cls(*args)
    module(images)
    if all(p.unique().numel() > 1 for p in module.parameters() if p.numel() > args[-1] and p.numel() % args[-1] == 0):
        return ""
    return (
        "Your positions all start with the same value: until training has moved them apart, the order of the patches "
        "makes no difference. The paper's code starts them with small random values, `0.02 * torch.randn(...)`."
    )


embeddings = ModuleExercise(
    MyEmbeddings,
    task="`cls(image_size, patch_size, in_channels, embed_dim)`, an nn.Module (B, C, H, W) → (B, 1+N, D): Eq. 1.",
    trials=[((6, 2, 3, 5), noise(2, 3, 6, 6)), ((12, 3, 2, 7), noise(3, 2, 12, 12))],
    slips=EMBEDDING_SLIPS,
    also=OTHER_WAYS,
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


HALVES = "torch.cat([rows, columns], dim=1)"
EACH_ROW, ALL_COLUMNS = "waves(h, dim // 2).repeat_interleave(w, dim=0)", "waves(w, dim // 2).repeat(h, 1)"
UNREPEATED = EACH_ROW, "waves(h, dim // 2)", ALL_COLUMNS, "waves(w, dim // 2)"
SIDE_BY_SIDE = "They stand side by side, D/2 values each: `torch.cat([rows, columns], dim=1)`."


def with_waves(*changes: str):
    """Return the solution with changes in the source of `waves`."""
    return edited(my_sincos, waves=edited(waves, *changes))


def with_places(row: str, column: str, h: str = "h * w", w: str = "h * w") -> tuple[str, ...]:
    """Return the edit that takes patch n to be in this row and column, of `h` and `w` that have a code."""
    rows, columns = f"waves({h}, dim // 2)[{row}]", f"waves({w}, dim // 2)[{column}]"
    return "h, w = grid", "h, w = grid; n = torch.arange(h * w)", EACH_ROW, rows, ALL_COLUMNS, columns


def in_parts(pattern: str):
    """Return the solution with its values in another order: half (row, column), wave (sine, cosine), i."""
    return lambda grid, dim: rearrange(my_sincos(grid, dim), f"n (half wave i) -> {pattern}", half=2, wave=2)


SINCOS_SLIPS = {
    "Sines and cosines are in another order. They come in blocks: D/4 sines of the row, its D/4 cosines, and then "
    "those of the column.":
        [with_waves("angles.sin(), angles.cos()", "angles.cos(), angles.sin()"),
         in_parts("n (wave half i)"), in_parts("n (half i wave)")],
    "Your rows and columns are counted from 1. Count from 0.": with_waves("arange(count)", "arange(1, 1 + count)"),
    "Your frequencies end at exactly 1/10000: divide the exponent by D/4, not by D/4 - 1.":
        with_waves("/ (dim // 2)", "/ (dim // 2 - 1)"),
    "Your frequencies do not fall from 1 towards 1/10000: they rise, stay the same, or fall twice or half as fast.":
        [with_waves("10000 ** -", power) for power in ("10000 ** ", "1 ** -", "(10000**2) ** -", "100 ** -")],
    "Your patches run down the columns of the grid. They run row by row: patch n is in row n // w, column n % w. "
    "(`meshgrid` needs `indexing='ij'`.)": with_places("n % h", "n // h"),
    "Your patch n is in row n // h, column n % h. A row has w patches, so it is in row n // w, column n % w.":
        [with_places("n // h", "n % h"), with_places("n // h", "n % h", "h", "w")],
    "Your rows run 0, 1, 2, 0, 1, 2, …, as the columns do: each row must stay for w patches.":
        with_places("n % h", "n % w"),
    "Your columns stay the same for h patches, as rows do: they must run 0, 1, 2, 0, 1, 2, …":
        with_places("n // w", "n // h"),
    "h codes of rows do not fit beside w codes of columns: repeat them first, so that each patch has one of both.":
        UNREPEATED,
    "There are only h codes of rows for h·w patches. Each is needed w times, one below the other: "
    "`repeat_interleave(w, dim=0)`. (`repeat(1, w)` makes a code longer.)":
        ("repeat_interleave(w, dim=0)", "repeat(1, w)"),
    "There are only w codes of columns for h·w patches. The list of them is needed h times: `repeat(h, 1)`. "
    "(`repeat(1, h)` makes a code longer.)": ("repeat(h, 1)", "repeat(1, h)"),
    f"You add the row's code and the column's. {SIDE_BY_SIDE}":
        [(*size, HALVES, "rows + columns") for size in ((), ("dim // 2", "dim"))],
    "Your parts stand below one another, as further rows. Join them along the values: `torch.cat([…], dim=1)`.":
        [(*more, HALVES, "torch.cat([rows, columns])") for more in ((), ("dim // 2", "dim"), UNREPEATED)]
        + [(HALVES, "torch.cat([*rows.chunk(2, 1), *columns.chunk(2, 1)])")],
    "Your positions are along one line, as for text: the patch below is as far away as the grid is wide.":
        [(HALVES, "waves(h * w, dim)"), (HALVES, "rearrange(waves(h * w, dim), 'n (wave i) -> n (i wave)', wave=2)")],
    "Both halves hold the same: the first must hold the row, the second the column.":
        [(HALVES, "torch.cat([rows, rows], dim=1)"), (HALVES, "torch.cat([columns, columns], dim=1)")],
    "The halves are exchanged: the row comes first, then the column.": (HALVES, "torch.cat([columns, rows], dim=1)"),
}  # fmt: skip

sincos = Exercise(
    my_sincos,
    task="`fn(grid, dim)`, (h, w) and D → (h·w, D): sin-cos positions, laid out as in `sincos_position_embedding`.",
    trials=[((3, 5), 12), ((4, 2), 8), ((2, 3), 4)],
    slips=SINCOS_SLIPS,
    hint="`waves(h, dim // 2)` has a code for each row, `waves(w, dim // 2)` one for each column. Patch n is in row "
    "n // w and column n % w: give it its row's code, then its column's (`torch.cat` along dim=1).",
    shape="(h·w, D)",
    imports=inspect.getsource(waves).strip(),  # a cell of the notebook has it
)
