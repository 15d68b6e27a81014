"""Lesson 02: a convolution as a linear layer, the class token, Eq. 1 and sin-cos positions, each with its mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import sincos_position_embedding
from .comparing import Mistake, compare, explain, mistakes_in, random_tensor, same
from .exercise import exercise
from .modules import Search, Trial, build, inventory
from .reading_weights import Reading, bare_parameters, embedding_readings, kind_of, read_embeddings
from .references import ORDERS, OURS, EmbeddingWeights, Sizes, eq1, in_front, regroup, sincos_positions
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
            if not explain(error, (conv,), LINEAR_ERRORS) and not bias:
                error.explain(NO_BIAS, BIAS_HINT)
            raise
        if not all(same(parameter, copy) for parameter, copy in zip(conv.parameters(), before, strict=True)):
            raise Wrong("Your function changes the convolution's own weights: only the linear layer is yours to fill.")
        if not isinstance(linear, nn.Linear):
            raise Wrong(f"Return the `nn.Linear` itself; what came back is of type {type(linear).__name__}.")
        check_linear(linear, conv)


NO_BIAS = (
    "Right for a convolution with a bias. This one has none: `nn.Conv2d(..., bias=False)`, and `conv.bias` is None."
)
BIAS_HINT = "`nn.Linear(..., bias=conv.bias is not None)`, and copy the bias only if there is one."


def check_linear(linear: nn.Linear, conv: nn.Conv2d) -> None:
    """Raise Wrong unless the linear layer holds the convolution's weights and bias, in the right places."""
    rows, weight, bias = conv.weight.detach().flatten(1), linear.weight.detach(), linear.bias
    (D, patch_dim), got = rows.shape, (linear.out_features, linear.in_features)
    raise_first([
        (got == (patch_dim, D), "In and out are exchanged: `nn.Linear(in_features, out_features)`, from C·P·P = "
         f"{patch_dim} to D = {D}.", None),
        (weight.shape == (patch_dim, D), f"The weight is transposed, {(patch_dim, D)}: `nn.Linear` keeps it as "
         f"(D, C·P·P) = {(D, patch_dim)}.", "`conv.weight.flatten(1)` has this shape already."),
        (weight.shape != rows.shape, f"The layer must go from C·P·P = {patch_dim} values to D = {D}; your layer goes "
         f"from {got[1]} to {got[0]}.", None),
    ])  # fmt: skip
    sizes = dict(zip("DCPQ", conv.weight.shape, strict=True))
    no_bias = bias is None or not bias.any()
    raise_first([
        *((order != OURS and same(weight, regroup(rows, "D C P Q", f"D ({order})", **sizes)), "Your rows are the "
           f"kernels flattened as {name}; a patch is flattened as {ORDERS[OURS]}.", None)
          for order, name in ORDERS.items()),
        (not same(weight.flatten().sort().values, rows.flatten().sort().values), "The weights of your linear layer are "
         "not the convolution's: are they still its own random ones?", None),
        (not same(weight, rows), "Your layer has the convolution's weights in other places: row d must be kernel d, "
         "flattened. `reshape` and `.T` mix up the kernels.", "`conv.weight.flatten(1)` leaves D alone."),
        (conv.bias is None and not no_bias, f"{NO_BIAS} Your layer adds one all the same: is it still its own?",
         BIAS_HINT),
        (conv.bias is not None and no_bias, "The weights are right, and the bias is missing: the convolution adds one "
         "value to each of the D outputs.", None),
        (conv.bias is not None and not no_bias and not same(bias, conv.bias), "The weights are right, and the bias is "
         "not the convolution's: is it still the layer's own?", None),
    ])  # fmt: skip


def one_channel(conv: nn.Conv2d) -> nn.Linear:
    return nn.Linear(conv.kernel_size[0] ** 2, conv.out_channels, bias=conv.bias is not None)


PER_CHANNEL = "Your linear layer takes in the P·P values of one channel. A patch has C·P·P: those of all channels."

LINEAR_ERRORS = [
    Mistake(lambda conv: one_channel(conv).weight.data.copy_(conv.weight.flatten(1)), PER_CHANNEL),
    Mistake(lambda conv: one_channel(conv).load_state_dict(my_linear_is_conv(conv).state_dict()), PER_CHANNEL),
]


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
    sizes = [(3, 4, 5, torch.float32), (1, 2, 3, torch.float64), (2, 6, 7, torch.float32)]
    trials = [
        (random_tensor(B, N, D, dtype=dtype), random_tensor(1, 1, D, dtype=dtype, seed=1)) for B, N, D, dtype in sizes
    ]
    try:
        compare(function, my_class_token, trials, "(B, 1+N, D)", CLASS_TOKEN_MISTAKES)
    except ReaderError:
        raise
    except Wrong:
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


def only_first_image(patches: Tensor, class_token: Tensor) -> Tensor:
    rest = torch.zeros_like(class_token).expand(len(patches) - 1, -1, -1)
    return torch.cat([torch.cat([class_token, rest]), patches], dim=1)


def last(class_token: Tensor, patches: Tensor) -> Tensor:
    return torch.cat([patches, class_token.expand(len(patches), 1, -1)], dim=1)


LAST = "Your class token comes last. The paper puts it first, and the head reads token 0."
IN_ORDER = "`torch.cat` keeps the order of its list."
ONE_EACH = "There is one class token and a batch of several images: each image needs its class token."
EXPAND = "`class_token.expand(len(patches), -1, -1)` is a class token for each image, without a copy."

CLASS_TOKEN_MISTAKES = [
    Mistake(lambda x, t: last(t, x), LAST, IN_ORDER),
    *(Mistake(lambda x, t, n=n: torch.cat([t.expand(n, -1, -1), x], 1), f"You put {n} class token{'s'[: n > 1]} in "
              "front, whatever the batch. There must be one class token for each of the B images.", EXPAND)
      for n in (1, 2, 3, 4, 5, 8, 16, 32, 64)),
    Mistake(lambda x, t: x + t, "You add the class token to every patch. It is a token of its own: the sequence gets "
            "one longer.", "`torch.cat([...], dim=1)` puts tokens after one another."),
    Mistake(lambda x, t: in_front(t, x[:, 1:]), "The class token takes the place of the first patch: that patch is "
            "lost."),
    Mistake(lambda x, t: in_front(t, x[:, :-1]), "The last patch is lost: the sequence gets one longer, from N to "
            "1+N."),
    Mistake(lambda x, t: in_front(torch.zeros_like(t), x) + F.pad(x.mean(1, keepdim=True), (0, 0, 0, x.shape[1])),
            "Your first token is the mean of the patches. The class token is a parameter that knows nothing of the "
            "image."),
    Mistake(lambda x, t: last(t, in_front(t, x)), "The class token stands at both ends: once is enough, in front."),
    Mistake(lambda x, t: in_front(t, x[:1]), "Only the first image is left of the batch."),
    *(Mistake(lambda x, t, dim=dim, parts=parts: torch.cat(parts(x, t), dim), f"`dim={dim}` counts {what}. Tokens are "
              "counted by `dim=1`, and each of the B images needs a class token.", EXPAND)
      for dim, what in ((0, "images"), (2, "the values in a token"))
      for parts in (lambda x, t: (t, x), lambda x, t: (t.expand(len(x), -1, -1), x), lambda x, t: (t.expand_as(x), x),
                    lambda x, t: (t.expand(1, x.shape[1], -1), x), lambda x, t: (x, t.expand(1, x.shape[1], -1)))),
    Mistake(lambda x, t: torch.cat([t.expand_as(x), x], dim=1), "There are N class tokens for each image, one for each "
            "patch. One is enough: expand B only."),
    Mistake(only_first_image, "Only the first image has the class token; all need it, the same one."),
    Mistake(lambda x, t: in_front(t.detach(), x), "The values are right, but no gradient reaches the class token: it "
            "could never learn.", "Look for `.detach()`, `.data` and `nn.Parameter(...)` around it: what goes in is "
            "the parameter itself."),
    Mistake(lambda x, t: in_front(t, x.detach()), "The values are right, but no gradient reaches the patches: the "
            "projection before them could never learn.", "Look for `.detach()`, `.data` and `no_grad` around the "
            "patches."),
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
    trial = embeddings_trial(cls, Sizes(6, 2, 3, 5), batch=2)
    sizes, count = Sizes(*trial.args), sum(p.numel() for p in trial.module.parameters())
    readings = list(embedding_readings(trial.parts, sizes))
    choices = [w for reading in readings if (w := read_trial(trial, reading)) is not None]
    if not choices:
        raise_first(embedding_problems(trial.module, sizes))
        listed = ", ".join(f"`{name}` {tuple(p.shape)}" for name, p in trial.module.named_parameters()) or "none"
        raise Wrong(
            "Your module has other parameters than Eq. 1: a projection, one class token, one table of positions.\n"
            f"Its parameters with {trial.sizes} are: {listed}.",
            "Delete those that Eq. 1 does not have.",
        )
    search = Search(trial, eq1, read_trial, count)
    reading = search.first(readings)
    if reading is None:
        search.recognise(readings, EMBEDDING_MISTAKES)
        right = max(((trial.out - eq1(w, trial.x)).abs().amax(2) < 1e-4 for w in choices), key=torch.sum)  # (B, T)
        raise Wrong(
            "The shape is right and the values are not: the class token is "
            f"{'right' if right[:, 0].all() else 'wrong'}, and {right[:, 1:].sum()} of {right[:, 1:].numel()} patch "
            f"tokens are right.\nThis was with {trial.sizes}.",
            "Build Eq. 1 in three lines (project, prepend, add the positions) and compare your tokens after each.",
        )
    search.confirm(reading, lambda: embeddings_trial(cls, Sizes(12, 3, 2, 7), batch=3))
    if any(kind_of(p, sizes).endswith("table") and not p.any() for p in trial.initial.values()):
        return (
            "Your positions all start at zero: until training has moved them apart, the order of the patches makes no "
            "difference. The paper's code starts them with small random values, `0.02 * torch.randn(...)`."
        )
    return None


def read_trial(trial: Trial, reading: Reading) -> EmbeddingWeights | None:
    return read_embeddings(trial.parts, Sizes(*trial.args), reading)


def embeddings_trial(cls: type, sizes: Sizes, batch: int) -> Trial:
    """Return a trial of the reader's class. An error in its first call gets the likely cause."""
    images = random_tensor(batch, sizes.in_channels, sizes.image_size, sizes.image_size)
    shape, letters = (batch, sizes.tokens, sizes.embed_dim), "(B, 1+N, D)"
    module = build(cls, sizes)
    try:
        out = call(module, images)
    except ReaderError as error:
        if "must match" in error.message and not any(map(nn.parameter.is_lazy, module.parameters())):
            one_token = f"except in dimension 1. Expected size 1 but got size {batch}" in error.message
            causes = [*embedding_problems(module, sizes, ran=False), (one_token, ONE_EACH, EXPAND)]
            error.explain(*next((cause for there, *cause in causes if there), ("", None)))
        raise
    if isinstance(out, Tensor) and out.shape == (batch, sizes.patches, sizes.embed_dim):
        raise Wrong(f"The class token is missing: {letters} = {shape} expected, got {tuple(out.shape)}.")
    return Trial(cls, tuple(sizes), images, shape, letters, f"{sizes} and {batch} images")


def embedding_problems(module: nn.Module, sizes: Sizes, ran: bool = True) -> list[Problem]:
    """Return what can be missing among the parameters of a module, once it `ran`, or too much."""
    (D, T, P), parts = (sizes.embed_dim, sizes.tokens, sizes.patch_size), inventory(module)
    kinds = [kind_of(parameter, sizes) for parameter in bare_parameters(parts)]
    vectors, matrix, table = kinds.count("vector"), "matrix" in kinds, "table" in kinds or "patch table" in kinds
    layers = [f"`{layer.name.removesuffix('.weight')}`" for layer in parts.layers]
    batches = [f"`{name}` is sized by the batch, {tuple(p.shape)}." for name, p in parts.loose
               if p.ndim == 3 and p.shape[0] not in (1, T - 1, T) and p.shape[1] in (1, T - 1, T)]  # fmt: skip
    strides = [
        m.stride[0] for m in module.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (P, P) != m.stride
    ]
    thin = [f"`{name}`" for name, p in parts.loose if sorted(p.shape)[-1] == p.numel() == T]
    a_table = f"(1, 1+N, D) = (1, {T}, {D})"
    return [
        (bool(batches), f"{' '.join(batches)} A parameter is one for all images, with 1 as its first size; `expand` or "
         "broadcasting gives it to each.", "A batch may have any number of images: often an epoch's last has fewer."),
        (bool(strides), f"Your convolution has a kernel of {P}×{P} and moves by {strides[0] if strides else P}: its "
         "windows overlap, and there are more of them than patches.", "`nn.Conv2d(in_channels, embed_dim, "
         "kernel_size=patch_size, stride=patch_size)`"),
        (any(norm.eps is not None for norm in parts.norms), "There is a normalisation in your embeddings. Eq. 1 has "
         "none: the first one is in the encoder.", None),
        (len(layers) > 1, f"There are {len(layers)} layers, {', '.join(layers)}. Eq. 1 has one, E: from C·P·P = "
         f"{sizes.patch_dim} straight to D = {D}.", "A convolution with stride P is the projection already. A linear "
         "layer after it adds nothing but weights."),
        (not layers and not matrix, f"The projection E is missing: a layer from C·P·P = {sizes.patch_dim} to D = {D} "
         "values.", None),
        (bool(layers) and parts.layers[0].sizes[0] != D, f"{', '.join(layers)} must return D = {D} values for a patch.",
         None),
        (not table and vectors > 1 + matrix, "There is one position vector for all tokens: added to each of them, it "
         "tells no place from another.", f"A vector for every token: a parameter of {a_table}."),
        (not table and bool(thin), f"{' and '.join(thin)} holds one number for every token, and a position is a vector "
         f"of D values: {a_table}.", None),
        (not table and ran, missing("positions", f"one vector for every token, {a_table}", module, T * D), None),
        (vectors == 0 and ran, missing("class token", f"one vector, (1, 1, D) = (1, 1, {D})", module, D), None),
        ("patch table" in kinds and vectors == 1, f"There are {T - 1} position vectors, for the patches only. The "
         f"class token needs a row too: Eq. 1 adds one to each of the 1+N = {T} tokens.", "Put the class token in "
         "front first, then add the positions, (1, 1+N, D), to all of the tokens."),
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


def on_patches(change: Callable) -> Callable:
    """Return the step `prepend` for patch tokens that something is done to first."""
    return lambda class_token, patches: in_front(class_token, change(patches))


def columns_first(patches: Tensor) -> Tensor:
    side = math.isqrt(patches.shape[1])
    return patches.unflatten(1, (side, side)).transpose(1, 2).flatten(1, 2)


def image_rows(w: EmbeddingWeights, images: Tensor) -> Tensor:
    return images.reshape(len(images), -1, w.sizes.patch_dim) @ w.matrix.T + w.bias


NO_CLASS_POSITION = "The class token gets no position: Eq. 1 adds one to every token, once the class token is in front."
TEXT = "are multiplied by √D, as in the transformer for text. Eq. 1 does not."

wrong = mistakes_in(eq1)

EMBEDDING_MISTAKES = [
    wrong("The positions are never added: there is a parameter for them, and `forward` does not use it.",
          place=lambda z, p: z),
    wrong(NO_CLASS_POSITION, place=lambda z, p: z + F.pad(p[1:], (0, 0, 1, 0))),
    wrong(NO_CLASS_POSITION, place=lambda z, p: z + F.pad(p[:-1], (0, 0, 1, 0))),
    wrong("All tokens get the same position vector: added to each of them, it tells no place from another.",
          "Do not index the positions: all 1+N are added.", place=lambda z, p: z + p[:1]),
    wrong(LAST, IN_ORDER, prepend=last),
    wrong(LAST, IN_ORDER, place=lambda z, p: (z + p).roll(-1, dims=1)),
    wrong(f"{LAST} And the positions are never added.", prepend=last, place=lambda z, p: z),
    wrong("The class token is not used: token 0 is its position alone.", prepend=lambda t, x: in_front(0 * t, x)),
    wrong("The class token is added to every patch as well. It is a token of its own, in front.",
          prepend=lambda t, x: in_front(t, x + t)),
    wrong("The positions are multiplied with the tokens. Eq. 1 adds them.", place=torch.mul),
    wrong("The positions are subtracted. Eq. 1 adds them.", place=torch.sub),
    wrong("The positions are added twice.", place=lambda z, p: z + 2 * p),
    wrong("The positions are added back to front.", place=lambda z, p: z + p.flip(0)),
    wrong("Your patch tokens mix values of different patches: the convolution gives (B, D, h, w), and `reshape` to "
          "(B, N, D) does not exchange axes.", "`.flatten(2).transpose(1, 2)`: first (B, D, N), then (B, N, D).",
          prepend=on_patches(lambda x: x.mT.reshape(x.shape))),
    wrong("Your patches run down the columns of the grid. They run row by row.", "After the convolution `.flatten(2)` "
          "counts row by row. Do not exchange h and w before it.", prepend=on_patches(columns_first)),
    wrong("Your patches are image rows: `reshape` alone does not cut an image into patches.",
          "Use your `patchify` of notebook 01, or a convolution with stride P.", project=image_rows),
    wrong("There is a GELU after the projection. Eq. 1 is linear: it has no activation.", prepend=on_patches(F.gelu)),
    wrong("There is a ReLU after the projection. Eq. 1 is linear: it has no activation.", prepend=on_patches(F.relu)),
    wrong(f"The tokens {TEXT}", place=lambda z, p: z * z.shape[-1] ** 0.5 + p),
    wrong(f"The patch tokens {TEXT}", prepend=on_patches(lambda x: x * x.shape[-1] ** 0.5)),
    wrong("The tokens are normalised. Eq. 1 has no norm: the first one is in the encoder.",
          place=lambda z, p: F.layer_norm(z + p, z.shape[-1:])),
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
    compare(function, sincos_position_embedding, trials, "(h·w, D)", SINCOS_MISTAKES, gradients=False)


def in_one_line(grid: tuple[int, int], dim: int, **steps) -> Tensor:
    """Return one-dimensional positions along the sequence, as for text."""
    return sincos_positions((grid[0] * grid[1], 1), 2 * dim, **steps)[:, :dim]


def summed(grid: tuple[int, int], dim: int) -> Tensor:
    """Return the row's code plus the column's, each `dim` long."""
    rows, columns = (in_one_line((side, 1), dim) for side in grid)
    return (rows[:, None] + columns).flatten(0, 1)


COLUMN_THEN_ROW = "column.sin column.cos row.sin row.cos"
FREQUENCY = "frequency i is 10000 ** -(i / (D/4))."
DOWN = {"row": lambda n, h, w: n % h, "column": lambda n, h, w: n // h}  # patches that run down the columns
DOWN_HINT = "`indexing='ij'` in `meshgrid`; patch n is in row n // w, column n % w."
REPEAT = (
    "`repeat` puts the whole list again, `repeat_interleave` each of its entries: one is for the columns, the other "
    "for the rows."
)
ONE_LINE = (
    "These are positions along one line, as for text: patches one below the other are as far apart as the grid is wide."
)
BESIDE = "`torch.cat([rows, columns], dim=1)`, each made with `dim // 2`."

wrong = mistakes_in(sincos_positions)

SINCOS_MISTAKES = [
    wrong("The halves are exchanged: the first half of a vector must hold the row, the second the column.",
          layout=COLUMN_THEN_ROW),
    wrong("The cosines come before the sines: sines first.", layout="row.cos row.sin column.cos column.sin"),
    wrong("The cosines come before the sines, and the column before the row.",
          layout="column.cos column.sin row.cos row.sin"),
    wrong("All sines come first, then all cosines. The row comes first, its sines and its cosines; then the column.",
          layout="row.sin column.sin row.cos column.cos"),
    wrong("Sines and cosines alternate. They come in blocks: D/4 sines, then D/4 cosines.", "`torch.cat([sin, cos], "
          "dim=1)` makes blocks; `stack` and `[:, 0::2]` make them alternate.", interleaved=True),
    wrong("Your frequencies end at exactly 1/10000: you divide the exponent by D/4 - 1. Divide it by D/4.",
          "`torch.arange(dim // 4) / (dim // 4)`; `linspace` includes its end.",
          frequency=lambda i, quarter: 10000 ** -(i / (quarter - 1))),
    *(wrong(f"{what}: {FREQUENCY}", frequency=lambda i, quarter, power=power: 10000 ** (power * i / quarter))
      for power, what in ((-2, "Your frequencies fall twice as fast"), (-0.5, "Your frequencies fall half as fast"),
                          (-0.25, "Your frequencies fall a quarter as fast"), (0, "All your frequencies are 1"))),
    wrong("Your frequencies rise. They fall, from 1 towards 1/10000: the exponent is negative.",
          frequency=lambda i, quarter: 10000 ** (i / quarter)),
    wrong("Your rows and columns are counted from 1. Count from 0.", row=lambda n, h, w: n // w + 1,
          column=lambda n, h, w: n % w + 1),
    wrong("Your indices are parts of the side, between 0 and 1. Take the index itself: 0, 1, 2, …",
          row=lambda n, h, w: n // w / h, column=lambda n, h, w: n % w / w),
    wrong("There is a 2π too many: the angle is the index times the frequency.",
          row=lambda n, h, w: n // w * 2 * torch.pi, column=lambda n, h, w: n % w * 2 * torch.pi),
    wrong("Your patches run down the columns of the grid. They run row by row: patch 1 is in row 0, column 1.",
          DOWN_HINT, **DOWN),
    wrong("Your patches run down the columns of the grid, and the halves of a vector are exchanged.", DOWN_HINT,
          layout=COLUMN_THEN_ROW, **DOWN),
    wrong("Both halves hold the row: the second must hold the column.", layout="row.sin row.cos row.sin row.cos"),
    wrong("Both halves hold the column: the first must hold the row.",
          layout="column.sin column.cos column.sin column.cos"),
    wrong("Your rows run 0, 1, 2, 0, 1, 2, …, as the columns do. In reading order each row stays for w patches: "
          "0, 0, 0, 1, 1, 1, …", REPEAT, row=DOWN["row"]),
    wrong("Your columns stay the same for h patches, as if they were rows. In reading order they run 0, 1, 2, 0, 1, "
          "2, …", REPEAT, column=DOWN["column"]),
    Mistake(summed, "You add the row's code and the column's. They stand side by side, D/2 values each.", BESIDE),
    Mistake(lambda grid, dim: sum(sincos_positions(grid, dim).chunk(2, dim=1)), "You add the row's code and the "
            "column's, and so a vector has D/2 values. They stand side by side: D/2 and D/2 make D.", BESIDE),
    Mistake(lambda grid, dim: sincos_positions(grid, 2 * dim), "Your vectors have 2·D values: D for the row and D for "
            "the column. Each gets half of them, D/2.", BESIDE),
    Mistake(in_one_line, ONE_LINE),
    Mistake(lambda grid, dim: in_one_line(grid, dim, interleaved=True), ONE_LINE),
    Mistake(lambda grid, dim: F.pad(sincos_positions(grid, dim), (0, 0, 1, 0)), "One row too many: the class token's. "
            "Here are the patches' only, h·w of them."),
    Mistake(lambda grid, dim: sincos_positions(grid, dim).unflatten(0, grid), "The grid is still there, (h, w, D). The "
            "sequence needs (h·w, D): flatten the first two axes."),
    Mistake(lambda grid, dim: sincos_positions(grid, dim)[None], "There is a batch axis in front, (1, h·w, D). Leave "
            "it out: (h·w, D) fits every batch."),
    Mistake(lambda grid, dim: sincos_positions(grid, dim).T, "The axes are exchanged, (D, h·w): a position is a row."),
]  # fmt: skip
