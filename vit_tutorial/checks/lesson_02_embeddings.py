"""Lesson 02: a convolution as a linear layer, the class token, Eq. 1 and sin-cos positions, each with its mistakes."""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations, product

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from ..config import ViTConfig
from .comparing import Mistake, compare, explain, known, random_tensor, replacing, same
from .exercise import exercise
from .modules import Trial, inventory
from .reading_weights import Reading, bare_parameters, eq1_parts, kind_of, read_eq1
from .references import ORDERS, OTHER_ORDERS, OURS, EmbeddingWeights, eq1, in_front, regroup, sincos_positions
from .running import Problem, ReaderError, Wrong, call, raise_first


def my_linear_is_conv(conv):
    weight = conv.weight.flatten(1)  # (D, C, P, P) -> (D, C·P·P)
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=conv.bias is not None)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if conv.bias is not None:
            linear.bias.copy_(conv.bias)
    return linear


@exercise(
    hint="A kernel of the convolution is (C, P, P): flattened it is one row of the linear layer's weight. "
    "`conv.weight.flatten(1)` has all of them, (D, C·P·P).",
    solution=my_linear_is_conv,
)
def linear_is_conv(function):
    """`fn(conv) -> nn.Linear`: the layer that does to flattened patches what the convolution does to the image."""
    for C, D, P, bias in ((3, 5, 2, True), (2, 7, 3, True), (3, 4, 2, False)):
        conv = nn.Conv2d(C, D, kernel_size=P, stride=P, bias=bias)
        before = [parameter.detach().clone() for parameter in conv.parameters()]
        try:
            linear = call(function, conv)
        except ReaderError as error:
            explain(error, (conv,), LINEAR_ERRORS, "" if bias else NO_BIAS, None if bias else BIAS_HINT)
            raise
        if not all(same(parameter, copy) for parameter, copy in zip(conv.parameters(), before, strict=True)):
            raise Wrong("Your function changes the convolution's own weights: only the linear layer is yours to fill.")
        if not isinstance(linear, nn.Linear):
            raise Wrong(f"Return the `nn.Linear` itself; what came back is of type {type(linear).__name__}.")
        check_linear(linear, conv)


NO_BIAS = (
    "Right for a convolution with a bias. This one has none: `nn.Conv2d(..., bias=False)`, and `conv.bias` is None."
)
FLATTEN = "a kernel of (C, P, P) must be flattened into one row. `conv.weight.flatten(1)` is (D, C·P·P)."
BIAS_HINT = "`nn.Linear(..., bias=conv.bias is not None)`, and copy the bias only if there is one."


def check_linear(linear: nn.Linear, conv: nn.Conv2d) -> None:
    """Raise Wrong unless the linear layer holds the convolution's weights and bias, in the right places."""
    rows, weight, bias = conv.weight.detach().flatten(1), linear.weight.detach(), linear.bias
    (D, patch_dim), got = rows.shape, (linear.out_features, linear.in_features)
    sizes = dict(zip("DCPQ", conv.weight.shape, strict=True))
    others = {name: regroup(rows, "D C P Q", f"D ({order})", **sizes) for order, name in OTHER_ORDERS.items()}
    no_bias, layer = bias is None or not bias.any(), f"the layer goes from C·P·P = {patch_dim} values to D = {D}"
    raise_first([
        (got == (patch_dim, D), f"In and out are exchanged: {layer}, `nn.Linear(in_features, out_features)`."),
        (weight.shape == (patch_dim, D), f"The weight is transposed, {(patch_dim, D)}: {layer}."),
        (weight.ndim == 4, f"The weight is still {tuple(weight.shape)}: {FLATTEN}"),
        (weight.shape != rows.shape, f"Your layer goes from {got[1]} to {got[0]}: {layer}."),
        *((same(weight, other), f"Your kernels are flattened as {name}, patches as {ORDERS[OURS]}.")
          for name, other in others.items()),
        (not same(weight.flatten().sort().values, rows.flatten().sort().values), "Your layer's weights are not the "
         "convolution's: are they still its own random ones?"),
        (not same(weight, rows), "The convolution's weights are there, in other places: row d must be kernel d, "
         "flattened. `reshape` and `.T` mix up the kernels."),
        (conv.bias is None and not no_bias, f"{NO_BIAS} Your layer adds one all the same.", BIAS_HINT),
        (conv.bias is not None and no_bias, "The weights are right, and the bias is missing."),
        (conv.bias is not None and not same(bias, conv.bias), "The bias is wrong: is it still the layer's own?"),
    ])  # fmt: skip


def one_channel(conv: nn.Conv2d) -> nn.Linear:
    return nn.Linear(conv.kernel_size[0] ** 2, conv.out_channels, bias=conv.bias is not None)


LINEAR_ERRORS = known(None, {
    "Your linear layer takes in the P·P values of one channel. A patch has C·P·P: those of all channels.": [
        lambda conv: one_channel(conv).weight.data.copy_(conv.weight.flatten(1)),
        lambda conv: one_channel(conv).load_state_dict(my_linear_is_conv(conv).state_dict())],
    f"The kernels are not flattened: {FLATTEN}": [
        lambda conv: my_linear_is_conv(conv).weight.data.copy_(conv.weight),
        lambda conv: my_linear_is_conv(conv).load_state_dict(conv.state_dict())]})  # fmt: skip


def my_class_token(patches, class_token):
    tokens = class_token.expand(len(patches), -1, -1)  # (1, 1, D) -> (B, 1, D)
    return torch.cat([tokens, patches], dim=1)


@exercise(
    hint="The one class token must become B of them, `class_token.expand(B, -1, -1)`; then `torch.cat` along the "
    "tokens' axis, the class token first.",
    solution=my_class_token,
)
def class_token(function):
    """`fn(patches, class_token)`, (B, N, D) and (1, 1, D) -> (B, 1+N, D): the class token before an image's patches."""
    sizes = [(3, 4, 5), (1, 2, 3), (2, 6, 7)]
    trials = [(random_tensor(B, N, D), random_tensor(1, 1, D, seed=1)) for B, N, D in sizes]
    trials[1] = tuple(tensor.double() for tensor in trials[1])
    try:
        compare(function, my_class_token, trials, "(B, 1+N, D)", CLASS_TOKEN_MISTAKES)
    except Wrong as wrong:
        if not isinstance(wrong, ReaderError):
            check_token_used(function, *trials[0])
        raise


def check_token_used(function, patches: Tensor, class_token: Tensor) -> None:
    """Raise Wrong if the patches are there, and before them stands a vector that comes from neither argument."""
    results = []
    for changed in (0, 1):  # the same random numbers, if the function draws any, and other arguments
        torch.default_generator.manual_seed(0)
        results.append(call(function, patches + changed, class_token + changed))
    expected, (first, second) = my_class_token(patches, class_token), results
    fits = isinstance(first, Tensor) and first.shape == expected.shape and same(first[:, 1:], patches)
    if fits and same(first[:, 0], second[:, 0]):
        raise Wrong(
            "Your first token is made inside the function: the `class_token` that it is given is not used.",
            "A parameter made in a function is a new one in every call and never learns. Use the one you are given.",
        )


def last(class_token: Tensor, patches: Tensor) -> Tensor:
    return torch.cat([patches, class_token.expand(len(patches), 1, -1)], dim=1)


LAST = "Your class token comes last. The paper puts it first, and the head reads token 0."
ONE_EACH = "There is one class token and a batch of several images: each image needs its class token."
EXPAND = "`class_token.expand(len(patches), -1, -1)` is a class token for each image, without a copy."
TO_CONCATENATE = [
    lambda x, t: (t, x), lambda x, t: (t.expand(len(x), -1, -1), x), lambda x, t: (t.expand_as(x), x),
    lambda x, t: (t.expand(1, x.shape[1], -1), x), lambda x, t: (x, t.expand(1, x.shape[1], -1)),
]  # fmt: skip
CLASS_TOKEN_MISTAKES = [
    *known(EXPAND, {
        **{f"You put {n} class token{'s'[: n > 1]} in front. There must be one class token for each of the B images.":
               lambda x, t, n=n: torch.cat([t.expand(n, -1, -1), x], 1) for n in (1, 2, 3, 4, 5, 8, 16, 32, 64)},
        **{f"`dim={dim}` counts {what}; tokens are counted by `dim=1`, and each image needs a class token.":
               [lambda x, t, dim=dim, parts=parts: torch.cat(parts(x, t), dim) for parts in TO_CONCATENATE]
           for dim, what in ((0, "images"), (2, "the values in a token"))},
        "Only the first image has the class token; all need it.":
            lambda x, t: torch.cat([F.pad(t, (0, 0, 0, 0, 0, len(x) - 1)), x], dim=1)}),
    *known(None, {
        LAST: lambda x, t: last(t, x),
        "You add the class token to every patch. It is a token of its own, in front.": lambda x, t: x + t,
        "The class token takes the place of the first patch: that patch is lost.": lambda x, t: in_front(t, x[:, 1:]),
        "The last patch is lost: the sequence gets one longer, from N to 1+N.": lambda x, t: in_front(t, x[:, :-1]),
        "Your first token is the mean of the patches, and not the class token.":
            lambda x, t: torch.cat([x.mean(1, keepdim=True), x], dim=1),
        "The class token stands at both ends: once is enough, in front.": lambda x, t: last(t, in_front(t, x)),
        "Only the first image is left of the batch.": lambda x, t: in_front(t, x[:1]),
        "There are N class tokens for each image: one is enough.": lambda x, t: torch.cat([t.expand_as(x), x], dim=1)}),
    *known("Look for `.detach()`, `.data`, `no_grad` and `nn.Parameter(...)`.", {
        "The values are right, but no gradient reaches the class token.": lambda x, t: in_front(t.detach(), x),
        "The values are right, but no gradient reaches the patches.": lambda x, t: in_front(t, x.detach())}),
]  # fmt: skip


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
        return torch.cat([class_token, patches], dim=1) + self.position


@exercise(
    hint="Three parts: a convolution with kernel and stride P, followed by `.flatten(2).transpose(1, 2)`; "
    "`nn.Parameter(torch.zeros(1, 1, D))`, expanded to the batch; `nn.Parameter` of (1, 1+N, D), added last.",
    solution=MyEmbeddings,
)
def embeddings(cls):
    """`cls(image_size, patch_size, in_channels, embed_dim)`, a module (B, C, H, W) -> (B, 1+N, D): Eq. 1."""
    trial = EmbeddingsTrial(cls, FIRST, batch=2)
    ways = product(permutations(range(len(trial.parts.vectors))), ORDERS)
    readings = [Reading(order=order, vectors=vectors) for vectors, order in ways]
    reading = trial.find(readings, EMBEDDING_MISTAKES, "But", "Eq. 1")
    trial.confirm(reading, lambda: EmbeddingsTrial(cls, SECOND, batch=3))
    zeros = any(kind_of(p, FIRST).endswith("table") and not p.any() for p in trial.initial.values())
    return ALL_ZERO if zeros else None


ALL_ZERO = (
    "Your positions all start at zero: until training has moved them apart, the order of the patches makes no "
    "difference. The paper's code starts them with small random values, `0.02 * torch.randn(...)`."
)
FIRST = ViTConfig(6, 2, 3, embed_dim=5, num_heads=1)
SECOND = ViTConfig(12, 3, 2, embed_dim=7, num_heads=1)


class EmbeddingsTrial(Trial):
    function = staticmethod(eq1)
    hint = "Build Eq. 1 in three lines (project, prepend, add the positions) and compare your tokens after each."

    def __init__(self, cls: type, config: ViTConfig, batch: int):
        self.config = config
        sizes = {name: getattr(config, name) for name in ("image_size", "patch_size", "in_channels", "embed_dim")}
        words = ", ".join(f"{name}={size}" for name, size in sizes.items())
        images = random_tensor(batch, config.in_channels, config.image_size, config.image_size)
        shape = batch, config.num_tokens, config.embed_dim
        super().__init__(cls, tuple(sizes.values()), images, shape, "(B, 1+N, D)", f"{words} and {batch} images")
        self.parts, self.count = eq1_parts(self.inventory, config), self.total
        if self.parts is None:
            raise_first(embedding_problems(self.module, config))
            listed = ", ".join(f"`{name}` {tuple(p.shape)}" for name, p in self.initial.items()) or "none"
            raise Wrong(
                "Your module has other parameters than Eq. 1: a projection, one class token, one table of positions.\n"
                f"Its parameters with {self.sizes} are: {listed}.",
                "Delete those that Eq. 1 does not have.",
            )

    def run(self, x: Tensor | None = None):
        B, _, D = shape = len(self.x if x is None else x), self.config.num_tokens, self.config.embed_dim
        try:
            out = super().run(x)
        except ReaderError as error:
            if "must match" in error.message and not any(map(nn.parameter.is_lazy, self.module.parameters())):
                one_token = f"except in dimension 1. Expected size 1 but got size {B}" in error.message
                causes = [*embedding_problems(self.module, self.config, ran=False), (one_token, ONE_EACH, EXPAND)]
                error.explain(*next((cause for there, *cause in causes if there), [""]))
            raise
        if isinstance(out, Tensor) and out.shape == (B, self.config.num_patches, D):
            raise Wrong(f"The class token is missing: (B, 1+N, D) = {shape} expected, got {tuple(out.shape)}.")
        return out

    def read(self, reading: Reading) -> EmbeddingWeights | None:
        fits = len(self.parts.vectors) == len(reading.vectors)
        return read_eq1(self.parts, reading, self.config) if fits else None

    def doubts(self, readings: list[Reading]) -> str:
        """Say which tokens are right under the reading that makes most of them right."""
        expected = [eq1(self.read(reading), self.x) for reading in readings]
        right = max(((self.out - tokens).abs().amax(2) < 1e-4 for tokens in expected), key=torch.sum)  # (B, 1+N)
        first, patches = "right" if right[:, 0].all() else "wrong", right[:, 1:]
        return f"The class token is {first}, and {patches.sum()} of {patches.numel()} patch tokens are right."


def embedding_problems(module: nn.Module, c: ViTConfig, ran: bool = True) -> list[Problem]:
    """Return what can be missing among the parameters of a module, once it `ran`, or too much."""
    (D, T, P), parts = (c.embed_dim, c.num_tokens, c.patch_size), inventory(module)
    kinds = [kind_of(parameter, c) for parameter in bare_parameters(parts)]
    vectors, matrix, table = kinds.count("vector"), "matrix" in kinds, "table" in kinds or "patch table" in kinds
    layers = ", ".join(f"`{layer.name.removesuffix('.weight')}`" for layer in parts.layers)
    batches = [f"`{name}` is sized by the batch, {tuple(p.shape)}." for name, p in parts.loose
               if p.ndim == 3 and p.shape[0] not in (1, T - 1, T) and p.shape[1] in (1, T - 1, T)]  # fmt: skip
    windows = [m for m in module.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (P, P) != m.stride]
    thin = [f"`{name}`" for name, p in parts.loose if sorted(p.shape)[-1] == p.numel() == T]
    a_table, projection = f"(1, 1+N, D) = (1, {T}, {D})", f"from C·P·P = {c.patch_dim} to D = {D} values"
    return [
        (batches, f"{' '.join(batches)} One parameter serves any number of images: its first size is 1.", EXPAND),
        (windows, f"Your convolution has a kernel of {P}×{P} and moves by {windows[0].stride[0] if windows else P}: "
         "its windows overlap, and there are more of them than patches."),
        (any(norm.eps is not None for norm in parts.norms), "There is a normalisation in your embeddings. Eq. 1 has "
         "none: the first one is in the encoder."),
        (len(parts.layers) > 1, f"There are {len(parts.layers)} layers, {layers}. Eq. 1 has one, {projection}."),
        (not parts.layers and not matrix, f"The projection E is missing: a layer {projection}."),
        (parts.layers and parts.layers[0].sizes[0] != D, f"{layers} must return D = {D} values for a patch."),
        (not table and vectors > 1 + matrix, "There is one position vector for all tokens: added to each of them, it "
         f"tells no place from another. Every token needs its own: {a_table}."),
        (not table and thin, f"{' and '.join(thin)} holds one number for every token, not a vector: {a_table}."),
        (not table and ran, missing("positions", f"one vector for every token, {a_table}", module, T * D)),
        (vectors == 0 and ran, missing("class token", f"one vector, (1, 1, D) = (1, 1, {D})", module, D)),
        ("patch table" in kinds and vectors == 1, f"There are {T - 1} position vectors, for the patches only. The "
         f"class token needs a row too: {a_table}."),
    ]  # fmt: skip


def missing(what: str, how: str, module: nn.Module, numel: int) -> str:
    """Return a sentence on a parameter that is not there, and on a tensor that looks like it and is no parameter."""
    text = f"Your module has no parameter for the {what}: {how}."
    for name, part in module.named_modules():
        for key, value in [*vars(part).items(), *part._buffers.items()]:
            if isinstance(value, Tensor) and value.numel() == numel:
                place, is_a = f"{name}.{key}".lstrip("."), "buffer" if key in part._buffers else "plain tensor"
                return f"{text} `{place}` is a {is_a}: no optimizer finds it. Wrap it in `nn.Parameter`."
    return f"{text} A tensor is a parameter if `__init__` stores it as `self.name = nn.Parameter(...)`."


NO_CLASS_POSITION = "The class token gets no position: Eq. 1 adds one to every token, once the class token is in front."
TEXT = "are multiplied by √D, as in the transformer for text. Eq. 1 does not."
LINEAR = "after the projection. Eq. 1 is linear: it has no activation."

EMBEDDING_MISTAKES = [
    *replacing(eq1, "place", None, {
        # First, because in a model whose attention is silenced some others look like it.
        NO_CLASS_POSITION: [lambda z, p: z + F.pad(p[1:], (0, 0, 1, 0)), lambda z, p: z + F.pad(p[:-1], (0, 0, 1, 0))],
        "Only the class token gets its position, the patches get none.":
            lambda z, p: z + F.pad(p[:1], (0, 0, 0, len(p) - 1)),
        "The positions are never added: `forward` does not use their parameter.": lambda z, p: z,
        "The positions are added back to front.": lambda z, p: z + p.flip(0),
        "All tokens get the same position vector: it tells no place from another.":
            [lambda z, p: z + p[0], lambda z, p: z + p[-1], lambda z, p: z + p[len(z)]],
        LAST: lambda z, p: (z + p).roll(-1, dims=1),
        "The positions are multiplied with the tokens. Eq. 1 adds them.": torch.mul,
        "The positions are subtracted. Eq. 1 adds them.": torch.sub,
        "The positions are added twice.": lambda z, p: z + 2 * p,
        f"The tokens {TEXT}": lambda z, p: z * z.shape[-1] ** 0.5 + p,
        "The tokens are normalised. Eq. 1 has no norm.": lambda z, p: F.layer_norm(z + p, z.shape[-1:])}),
    *replacing(eq1, "prepend", None, {
        LAST: last,
        "The class token is not used: token 0 is its position alone.": lambda t, x: in_front(0 * t, x),
        "The class token is added to every patch as well, not only in front.": lambda t, x: in_front(t, x + t)}),
    Mistake(partial(eq1, prepend=last, place=lambda z, p: z), f"{LAST} And the positions are never added."),
    *known(None, {
        "Your patch tokens mix values of different patches: the convolution gives (B, D, h, w), and `reshape` to "
        "(B, N, D) does not exchange axes.": lambda x: x.mT.reshape(x.shape),
        "Your patches run down the columns of the grid. They run row by row.":
            lambda x: rearrange(x, "B (h w) D -> B (w h) D", h=math.isqrt(x.shape[1])),
        f"There is a GELU {LINEAR}": F.gelu,
        f"There is a ReLU {LINEAR}": F.relu,
        f"The patch tokens {TEXT}": lambda x: x * x.shape[-1] ** 0.5,
    }, lambda change: partial(eq1, prepend=lambda t, x: in_front(t, change(x)))),
    *replacing(eq1, "project", "Use your `patchify` of notebook 01, or a convolution with stride P.", {
        "Your patches are image rows: `reshape` alone does not cut an image into patches.":
            lambda w, images: w.patch(images.reshape(len(images), -1, w.config.patch_dim))}),
]  # fmt: skip


def my_sincos(grid, dim):
    h, w = grid
    frequencies = 10000 ** -(torch.arange(dim // 4) / (dim // 4))  # (D/4,)
    row, column = torch.arange(h * w) // w, torch.arange(h * w) % w
    rows = row[:, None] * frequencies  # (N, D/4)
    columns = column[:, None] * frequencies
    return torch.cat([rows.sin(), rows.cos(), columns.sin(), columns.cos()], dim=1)


@exercise(
    hint="`waves(h, dim // 2)` has a code for each row, `waves(w, dim // 2)` one for each column. Patch n is in row "
    "n // w and column n % w: give it its row's code, then its column's (`torch.cat` along dim=1).",
    solution=my_sincos,
)
def sincos(function):
    """`fn(grid, dim)`, (h, w) and D -> (h·w, D): sin-cos positions, laid out as in `sincos_position_embedding`."""
    trials = [((3, 5), 12), ((4, 2), 8), ((1, 3), 4)]
    compare(function, sincos_positions, trials, "(h·w, D)", SINCOS_MISTAKES, gradients=False)


def in_one_line(grid: tuple[int, int], dim: int, **steps) -> Tensor:
    """Return one-dimensional positions along the sequence, as for text."""
    return sincos_positions((grid[0] * grid[1], 1), 2 * dim, **steps)[:, :dim]


def summed(grid: tuple[int, int], dim: int) -> Tensor:
    """Return the row's code plus the column's, each `dim` long."""
    rows, columns = (in_one_line((side, 1), dim) for side in grid)
    return (rows[:, None] + columns).flatten(0, 1)


DOWN = {"row": lambda n, h, w: n % h, "column": lambda n, h, w: n // h}  # patches that run down the columns
EXCHANGED = {"layout": "column.sin column.cos row.sin row.cos"}
SIDE_BY_SIDE = "They stand side by side, D/2 values each: `torch.cat([rows, columns], dim=1)`."
ALONG_A_LINE = "Your positions are along one line, as for text: the patch below is as far away as the grid is wide."

SINCOS_MISTAKES = [
    *known(None, {
        "The halves are exchanged: the row comes first, then the column.": EXCHANGED,
        "The cosines come before the sines.": {"layout": "row.cos row.sin column.cos column.sin"},
        "The cosines come before the sines, the column before the row.":
            {"layout": "column.cos column.sin row.cos row.sin"},
        "All sines come first. They come in turn: the row's sines and cosines, then the column's.":
            {"layout": "row.sin column.sin row.cos column.cos"},
        "Both halves hold the row: the second must hold the column.": {"layout": "row.sin row.cos row.sin row.cos"},
        "Both halves hold the column: the first must hold the row.":
            {"layout": "column.sin column.cos column.sin column.cos"},
        "Sines and cosines alternate. They come in blocks: D/4 sines, then D/4 cosines.": {"interleaved": True},
        "Your rows and columns are counted from 1. Count from 0.":
            {"row": lambda n, h, w: n // w + 1, "column": lambda n, h, w: n % w + 1},
        "Your indices are parts of the side, between 0 and 1. Take the index itself: 0, 1, 2, …":
            {"row": lambda n, h, w: n // w / h, "column": lambda n, h, w: n % w / w},
        "Every second row of yours runs from right to left. Each row begins again with column 0.":
            {"column": lambda n, h, w: torch.where(n // w % 2 == 0, n % w, w - 1 - n % w)},
        "There is a 2π too many: the angle is the index times the frequency.":
            {"row": lambda n, h, w: n // w * 2 * torch.pi, "column": lambda n, h, w: n % w * 2 * torch.pi},
    }, lambda steps: partial(sincos_positions, **steps)),
    *known("`indexing='ij'` in `meshgrid`; patch n is in row n // w, column n % w.", {
        "Your patches run down the columns of the grid. They run row by row.": DOWN,
        "Your patches run down the columns of the grid, and the halves are exchanged.": {**DOWN, **EXCHANGED},
        "Your rows run 0, 1, 2, 0, 1, 2, …, as the columns do: each row must stay for w patches.": {"row": DOWN["row"]},
        "Your columns stay the same for h patches, as rows do: they must run 0, 1, 2, 0, 1, 2, …":
            {"column": DOWN["column"]},
    }, lambda steps: partial(sincos_positions, **steps)),
    *replacing(sincos_positions, "frequency", "Frequency i is 10000 ** -(i / (D/4)).", {
        "Your frequencies end at exactly 1/10000: divide the exponent by D/4, not by D/4 - 1.":
            lambda i, q: 10000 ** -(i / (q - 1)),
        "Your frequencies rise. They fall, from 1 towards 1/10000.": lambda i, q: 10000 ** (i / q),
        "Your frequencies fall twice as fast.": lambda i, q: 10000 ** (-2 * i / q),
        "Your frequencies fall half as fast.": lambda i, q: 10000 ** (-0.5 * i / q),
        "Your frequencies fall a quarter as fast.": lambda i, q: 10000 ** (-0.25 * i / q),
        "All your frequencies are 1.": lambda i, q: 1.0 + 0 * i}),
    *known(SIDE_BY_SIDE, {
        "You add the row's code and the column's.": summed,
        "You add the row's code and the column's, and so a vector has D/2 values.":
            lambda grid, dim: sum(sincos_positions(grid, dim).chunk(2, dim=1)),
        "Your vectors have 2·D values: D for the row and D for the column.":
            lambda grid, dim: sincos_positions(grid, 2 * dim),
        "h codes of rows do not fit beside w codes of columns: repeat them first, so that each patch has one of both.":
            lambda grid, dim: torch.cat([in_one_line((side, 1), dim // 2) for side in grid], dim=1),
        "Your parts stand below one another, as further rows. Join them along the values: `torch.cat([…], dim=1)`.": [
            *(lambda grid, dim, n=n, k=k: torch.cat(sincos_positions(grid, k * dim).chunk(n, dim=1))
              for n, k in ((2, 1), (4, 1), (2, 2))),
            lambda grid, dim: torch.cat([in_one_line((side, 1), dim // 2) for side in grid])]}),
    *known(None, {ALONG_A_LINE: [in_one_line, partial(in_one_line, interleaved=True)]}),
    *known(None, {
        "One row too many: here are the patches only, no class token.": lambda codes, grid: F.pad(codes, (0, 0, 1, 0)),
        "The grid is still there, (h, w, D): flatten the first two axes.": lambda codes, grid: codes.unflatten(0, grid),
        "There is a batch axis in front, (1, h·w, D). Leave it out.": lambda codes, grid: codes[None],
        "The axes are exchanged, (D, h·w): a position is a row.": lambda codes, grid: codes.T,
    }, lambda change: lambda grid, dim: change(sincos_positions(grid, dim), grid)),
]  # fmt: skip
