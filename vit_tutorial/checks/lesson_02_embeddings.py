"""Lesson 02: hint, solution, judge and known mistakes of each exercise."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import sincos_position_embedding
from .comparing import Mistake, compare, random_tensor, same
from .exercise import exercise
from .modules import Inventory, Trial, build, find, recognise_module, same_gradients
from .reading_weights import EmbeddingReading, bare_parameters, embedding_readings, kind_of, read_embeddings
from .references import (
    COLUMN_COS,
    COLUMN_SIN,
    ROW_COS,
    ROW_SIN,
    EmbeddingWeights,
    Sizes,
    eq1,
    project,
    sincos_positions,
    tokens,
)
from .running import ReaderError, Wrong, call


def complain_about_embeddings(module: nn.Module, parts: Inventory, sizes: Sizes) -> None:
    """Raise Wrong with what is missing among a module's parameters, or is too much."""
    D, T = sizes.embed_dim, sizes.tokens
    kinds = [kind_of(parameter, sizes) for parameter in bare_parameters(parts)]
    vectors, layers = kinds.count("vector"), [f"`{layer.name.removesuffix('.weight')}`" for layer in parts.layers]
    listed = ", ".join(f"`{name}` {tuple(p.shape)}" for name, p in module.named_parameters()) or "none"
    have = f"\nIts parameters at {sizes} are: {listed}."
    if any(norm.eps is not None for norm in parts.norms):
        raise Wrong(
            "There is a normalisation in your embeddings. Eq. 1 has none: the first one is in the encoder." + have
        )
    if len(layers) > 1:
        raise Wrong(
            f"There are {len(layers)} layers, {', '.join(layers)}. Eq. 1 has one, E: from C·P·P = {sizes.patch_dim} "
            f"straight to D = {D}.",
            "A convolution with stride P is the projection already. A linear layer after it adds nothing but weights.",
        )
    if not layers and "matrix" not in kinds:
        raise Wrong(f"The projection E is missing: a layer from C·P·P = {sizes.patch_dim} to D = {D} numbers.{have}")
    if "table" not in kinds and "patch table" not in kinds:
        if vectors > 1 + ("matrix" in kinds):
            raise Wrong(
                "There is one position vector for all tokens: added to each of them, it tells no place from another."
                + have,
                f"A vector for every token: a parameter of (1, 1+N, D) = (1, {T}, {D}).",
            )
        if thin := [name for name, p in parts.loose if sorted(p.shape)[-1] == p.numel() == T]:
            raise Wrong(
                f"`{thin[0]}` holds one number for every token, and a position is a vector of D numbers: (1, 1+N, D) = "
                f"(1, {T}, {D}).{have}"
            )
        raise Wrong(
            missing("positions", "one vector for every token", f"(1, 1+N, D) = (1, {T}, {D})", module, T * D) + have
        )
    if vectors == 0:
        raise Wrong(missing("class token", "one vector", f"(1, 1, D) = (1, 1, {D})", module, D) + have)
    if "patch table" in kinds and vectors == 1 + ("matrix" in kinds and vectors > 2):
        raise Wrong(
            f"The class token gets no position: there are {sizes.patches} position vectors, for the patches only. "
            f"Eq. 1 adds one to each of the 1+N = {T} tokens.",
            "Put the class token in front first, then add the positions to all of them.",
        )
    raise Wrong(
        "Your module has other parameters than Eq. 1: a projection, one class token, one table of positions." + have,
        "Delete those that Eq. 1 does not have.",
    )


def missing(what: str, how: str, shape: str, module: nn.Module, numel: int) -> str:
    """A sentence on a parameter that is not there, and on a tensor that looks like it and is no parameter."""
    text = f"Your module has no parameter for the {what}: {how}, {shape}."
    for name, part in module.named_modules():
        for key, value in [*vars(part).items(), *part._buffers.items()]:
            if isinstance(value, Tensor) and value.numel() == numel:
                which = "buffer" if key in part._buffers else "plain tensor"
                place = f"{name}.{key}".lstrip(".")
                return f"{text} `{place}` is a {which}: no optimizer finds it. Wrap it in `nn.Parameter`."
    return f"{text} A tensor is a parameter if `__init__` stores it as `self.name = nn.Parameter(...)`."


def class_token_last(w: EmbeddingWeights, images: Tensor) -> Tensor:
    return tokens(w, images).roll(-1, dims=1)


def patches_only(w: EmbeddingWeights, images: Tensor, position: Tensor) -> Tensor:
    return tokens(w, images, project(w, images) + position)


def scrambled(w: EmbeddingWeights, images: Tensor) -> Tensor:
    """The convolution's (B, D, h, w) cut into N rows of D without bringing D to the end."""
    return project(w, images).transpose(1, 2).reshape(len(images), -1, w.sizes.embed_dim)


def columns_first(w: EmbeddingWeights, images: Tensor) -> Tensor:
    side = w.sizes.image_size // w.sizes.patch_size
    return project(w, images).unflatten(1, (side, side)).transpose(1, 2).flatten(1, 2)


def image_rows(w: EmbeddingWeights, images: Tensor) -> Tensor:
    return images.reshape(len(images), -1, w.sizes.patch_dim) @ w.matrix.T + w.bias


def activated(activation: Callable) -> Callable:
    return lambda w, images: tokens(w, images, activation(project(w, images))) + w.position


NO_CLASS_POSITION = "The class token gets no position: Eq. 1 adds one to every token, once the class token is in front."


ONE_POSITION = "All tokens get the same position vector: added to each of them, it tells no place from another."


LAST = "Your class token comes last. The paper puts it first, and the head reads token 0."


EMBEDDING_MISTAKES = [
    Mistake(tokens, "The positions are never added: there is a parameter for them, and `forward` does not use it."),
    Mistake(lambda w, x: patches_only(w, x, w.position[1:]), NO_CLASS_POSITION),
    Mistake(lambda w, x: patches_only(w, x, w.position[:-1]), NO_CLASS_POSITION),
    Mistake(lambda w, x: tokens(w, x) + w.position[:1], ONE_POSITION, "Do not index the positions: all 1+N are added."),
    Mistake(lambda w, x: class_token_last(w, x) + w.position, LAST, "`torch.cat` keeps the order of its list."),
    Mistake(lambda w, x: eq1(w, x).roll(-1, dims=1), LAST, "`torch.cat` keeps the order of its list."),
    Mistake(class_token_last, f"{LAST} And the positions are never added."),
    Mistake(
        lambda w, x: tokens(w._replace(class_token=0 * w.class_token), x) + w.position,
        "The class token is not used: token 0 is its position alone.",
    ),
    Mistake(
        lambda w, x: tokens(w, x, project(w, x) + w.class_token) + w.position,
        "The class token is added to every patch as well. It is a token of its own, in front.",
    ),
    Mistake(lambda w, x: tokens(w, x) * w.position, "The positions are multiplied with the tokens. Eq. 1 adds them."),
    Mistake(lambda w, x: tokens(w, x) - w.position, "The positions are subtracted. Eq. 1 adds them."),
    Mistake(lambda w, x: tokens(w, x) + 2 * w.position, "The positions are added twice."),
    Mistake(lambda w, x: tokens(w, x) + w.position.flip(0), "The positions are added back to front."),
    Mistake(
        lambda w, x: tokens(w, x, scrambled(w, x)) + w.position,
        "Your patch tokens mix numbers of different patches: the convolution gives (B, D, h, w), and `reshape` to "
        "(B, N, D) does not exchange axes.",
        "`.flatten(2).transpose(1, 2)`: first (B, D, N), then (B, N, D).",
    ),
    Mistake(
        lambda w, x: tokens(w, x, columns_first(w, x)) + w.position,
        "Your patches run down the columns of the grid. They run row by row.",
        "After the convolution `.flatten(2)` counts row by row; an exchange of h and w before it does not.",
    ),
    Mistake(
        lambda w, x: tokens(w, x, image_rows(w, x)) + w.position,
        "Your patches are image rows: `reshape` alone does not cut an image into patches.",
        "Use your `patchify` of notebook 01, or a convolution with stride P.",
    ),
    Mistake(activated(F.gelu), "There is a GELU after the projection. Eq. 1 is linear: it has no activation."),
    Mistake(activated(F.relu), "There is a ReLU after the projection. Eq. 1 is linear: it has no activation."),
    Mistake(
        lambda w, x: tokens(w, x) * w.sizes.embed_dim**0.5 + w.position,
        "The tokens are multiplied by √D, as in the transformer for text. Eq. 1 does not.",
    ),
    Mistake(
        lambda w, x: tokens(w, x, project(w, x) * w.sizes.embed_dim**0.5) + w.position,
        "The patch tokens are multiplied by √D, as in the transformer for text. Eq. 1 does not.",
    ),
    Mistake(
        lambda w, x: F.layer_norm(eq1(w, x), w.class_token.shape),
        "The tokens are normalised. Eq. 1 has no norm: the first one is in the encoder.",
    ),
]


KERNEL_ORDERS = {
    (0, 2, 3, 1): "row, column, channel",
    (0, 1, 3, 2): "channel, column, row",
    (0, 3, 2, 1): "column, row, channel",
    (0, 2, 1, 3): "row, channel, column",
    (0, 3, 1, 2): "column, channel, row",
}


@exercise(
    hint="A kernel of the convolution is (C, P, P): flattened it is one row of the linear layer's weight. "
    "`conv.weight.flatten(1)` has all of them, (D, C·P·P).",
    solution="""
def linear_is_conv(conv):
    weight = conv.weight.flatten(1)  # (D, C, P, P) -> (D, C·P·P)
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=conv.bias is not None)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if conv.bias is not None:
            linear.bias.copy_(conv.bias)
    return linear
""",
)
def linear_is_conv(function):
    """`fn(conv) -> nn.Linear`: the layer that does to flattened patches what the convolution does to the image."""
    for C, D, P, bias in ((3, 5, 2, True), (2, 7, 3, True), (3, 4, 2, False)):
        conv = nn.Conv2d(C, D, kernel_size=P, stride=P, bias=bias)
        before = [parameter.detach().clone() for parameter in conv.parameters()]
        try:
            linear = call(function, conv)
        except ReaderError as error:
            if bias:
                raise
            raise ReaderError(f"{NO_BIAS}\n{error.message}", error.code, BIAS_HINT) from None
        if not all(same(parameter, copy) for parameter, copy in zip(conv.parameters(), before, strict=True)):
            raise Wrong("Your function changes the convolution's own weights: only the linear layer is yours to fill.")
        check_linear(linear, conv)


NO_BIAS = (
    "Right for a convolution with a bias. This one has none: `nn.Conv2d(..., bias=False)`, and `conv.bias` is None."
)


BIAS_HINT = "`nn.Linear(..., bias=conv.bias is not None)`, and copy the bias only if there is one."


def check_linear(linear, conv: nn.Conv2d) -> None:
    """Raise Wrong unless `linear` computes what `conv` computes."""
    if not isinstance(linear, nn.Linear):
        raise Wrong(f"Return the `nn.Linear` itself; what came back is of type {type(linear).__name__}.")
    rows = conv.weight.detach().flatten(1)
    (D, patch_dim), got = rows.shape, (linear.out_features, linear.in_features)
    if got == (patch_dim, D):
        raise Wrong(
            f"In and out are exchanged: `nn.Linear(in_features, out_features)`, from C·P·P = {patch_dim} to D = {D}."
        )
    if tuple(linear.weight.shape) == (patch_dim, D) != (D, patch_dim):
        raise Wrong(
            f"The weight is transposed, {(patch_dim, D)}: `nn.Linear` keeps it as (D, C·P·P) = {(D, patch_dim)}.",
            "`conv.weight.flatten(1)` has this shape already.",
        )
    if tuple(linear.weight.shape) != (D, patch_dim):
        raise Wrong(
            f"The layer goes from C·P·P = {patch_dim} to D = {D} numbers; your layer goes from {got[1]} to {got[0]}."
        )
    weight, bias = linear.weight.detach(), linear.bias
    for order, name in KERNEL_ORDERS.items():
        if not same(weight, rows) and same(weight, conv.weight.detach().permute(order).flatten(1)):
            raise Wrong(
                f"Your rows are the kernels flattened as ({name}); a patch is flattened as (channel, row, column)."
            )
    if same(weight, conv.weight.detach().flatten().reshape(patch_dim, D).T):
        raise Wrong("Your weights are the right numbers in the wrong places: `reshape` and `.T` mix up the kernels.")
    if not same(weight.flatten().sort().values, rows.flatten().sort().values):
        raise Wrong("The weights of your linear layer are not the convolution's: are they still its own random ones?")
    if not same(weight, rows):
        raise Wrong("The weights are the convolution's, in other places: row d must be kernel d, flattened.")
    if conv.bias is None:
        if bias is not None and bias.any():
            raise Wrong(f"{NO_BIAS} Your layer adds one all the same: is it still its own?", BIAS_HINT)
        return
    if bias is None or not bias.any():
        raise Wrong("The weights are right, and the bias is missing: the convolution adds one number to each of the D.")
    if not same(bias, conv.bias):
        raise Wrong("The weights are right, and the bias is not the convolution's: is it still the layer's own?")
    patches = random_tensor(2, 3, patch_dim)
    if not same(linear(patches), patches @ rows.T + conv.bias):
        raise Wrong("Weights and bias are right, and the layer computes something else with them.")


@exercise(
    hint="The one class token must become B of them, `class_token.expand(B, -1, -1)`; then `torch.cat` along the "
    "tokens' axis, the class token first.",
    solution="""
def prepend_class_token(patches, class_token):
    B, N, D = patches.shape
    return torch.cat([class_token.expand(B, 1, D), patches], dim=1)
""",
)
def class_token(function):
    """`fn(patches, class_token)`, (B, N, D) and (1, 1, D) -> (B, 1+N, D): the class token before an image's patches."""
    sizes = [(3, 4, 5, torch.float32), (1, 2, 3, torch.float64), (2, 6, 7, torch.float32)]
    trials = [
        (random_tensor(B, N, D, dtype=dtype), random_tensor(1, 1, D, dtype=dtype, seed=1)) for B, N, D, dtype in sizes
    ]
    check_token_used(function, *trials[0])
    compare(function, prepend, trials, "(B, 1+N, D)", CLASS_TOKEN_MISTAKES)


def check_token_used(function, patches: Tensor, class_token: Tensor) -> None:
    """Raise Wrong if the patches are there, and before them stands a vector that comes from neither argument."""
    results = []
    for changed in (0, 1):  # the same random numbers, if the function draws any, and other arguments
        torch.default_generator.manual_seed(0)
        results.append(call(function, patches + changed, class_token + changed))
    expected, fits = prepend(patches, class_token), isinstance(results[0], Tensor)
    if not fits or results[0].shape != expected.shape or not same(results[0][:, 1:], patches):
        return
    if same(results[0][:, 0], results[1][:, 0]):
        raise Wrong(
            "Your first token is made inside the function: the `class_token` that it is given is not used.",
            "A parameter made in a function is a new one in every call, and never learns. Put the given one in front.",
        )


def prepend(patches: Tensor, class_token: Tensor) -> Tensor:
    return torch.cat([class_token.expand(len(patches), -1, -1), patches], dim=1)


def only_first_image(patches: Tensor, class_token: Tensor) -> Tensor:
    rest = torch.zeros_like(class_token).expand(len(patches) - 1, -1, -1)
    return torch.cat([torch.cat([class_token, rest]), patches], dim=1)


CLASS_TOKEN_MISTAKES = [
    Mistake(
        lambda patches, token: torch.cat([patches, token.expand(len(patches), -1, -1)], dim=1),
        "Your class token comes last. The paper puts it first, and the head reads token 0.",
        "`torch.cat` keeps the order of its list.",
    ),
    Mistake(
        lambda patches, token: patches + token,
        "You add the class token to every patch. It is a token of its own: the sequence gets one longer.",
        "`torch.cat([...], dim=1)` puts tokens after one another.",
    ),
    Mistake(
        lambda patches, token: prepend(patches[:, 1:], token),
        "The class token takes the place of the first patch: that patch is lost.",
    ),
    Mistake(
        lambda patches, token: prepend(patches[:, :-1], token),
        "The last patch is lost: the sequence gets one longer, from N to 1+N.",
    ),
    Mistake(
        lambda patches, token: prepend(patches, patches.mean(1, keepdim=True) * torch.ones_like(token)),
        "Your first token is the mean of the patches. The class token is a parameter that knows nothing of the image.",
    ),
    Mistake(
        lambda patches, token: torch.cat([prepend(patches, token), token.expand(len(patches), -1, -1)], dim=1),
        "The class token stands at both ends: once is enough, in front.",
    ),
    Mistake(
        lambda patches, token: prepend(patches[:1], token),
        "Only the first image is left of the batch.",
    ),
    Mistake(
        lambda patches, token: torch.cat([patches, token.expand(-1, patches.shape[1], -1)], dim=0),
        "You append to the batch: `dim=0` counts images. Tokens are counted by `dim=1`.",
    ),
    Mistake(
        lambda patches, token: torch.cat([token.expand(-1, patches.shape[1], -1), patches], dim=0),
        "You put it in front of the batch: `dim=0` counts images. Tokens are counted by `dim=1`.",
    ),
    Mistake(
        lambda patches, token: torch.cat([token.expand_as(patches), patches], dim=2),
        "You make every token wider: `dim=2` counts the numbers in a token. Tokens are counted by `dim=1`.",
    ),
    Mistake(
        lambda patches, token: torch.cat([token.expand_as(patches), patches], dim=1),
        "There are N class tokens for each image, one for each patch. One is enough: expand B only.",
    ),
    Mistake(only_first_image, "Only the first image has the class token; all need it, the same one."),
    Mistake(
        lambda patches, token: prepend(patches, token.detach()),
        "The values are right, but no gradient reaches the class token: it could never learn.",
        "Look for `.detach()`, `.data` and `nn.Parameter(...)` around it: what goes in is the parameter itself.",
    ),
    Mistake(
        lambda patches, token: prepend(patches.detach(), token),
        "The values are right, but no gradient reaches the patches: the projection before them could never learn.",
        "Look for `.detach()`, `.data` and `no_grad` around the patches.",
    ),
]


@exercise(
    hint="`waves(h, dim // 2)` has a code for each row, `waves(w, dim // 2)` one for each column. Patch n is in row "
    "n // w and column n % w: give it its row's code, then its column's (`torch.cat` along dim=1).",
    solution="""
def sincos(grid, dim):
    h, w = grid
    frequencies = 10000 ** -(torch.arange(dim // 4) / (dim // 4))  # (D/4,)
    row, column = torch.arange(h * w) // w, torch.arange(h * w) % w
    rows = row[:, None] * frequencies  # (N, D/4)
    columns = column[:, None] * frequencies
    return torch.cat([rows.sin(), rows.cos(), columns.sin(), columns.cos()], dim=1)
""",
)
def sincos(function):
    """`fn(grid, dim)`, (h, w) and D -> (h·w, D): sin-cos positions, laid out as in `sincos_position_embedding`."""
    trials = [((3, 5), 12), ((4, 2), 8), ((1, 3), 4)]
    compare(function, sincos_position_embedding, trials, "(h·w, D)", SINCOS_MISTAKES, gradients=False)


FIRST, SECOND = Sizes(6, 2, 3, 5), Sizes(12, 3, 2, 7)


LETTERS = "(B, 1+N, D)"


@exercise(
    hint="Three parts: a convolution with kernel and stride P, `.flatten(2).transpose(1, 2)` behind it; "
    "`nn.Parameter(torch.zeros(1, 1, D))`, expanded to the batch; `nn.Parameter` of (1, 1+N, D), added last.",
    solution="""
class Embeddings(torch.nn.Module):
    def __init__(self, image_size, patch_size, in_channels, embed_dim):
        super().__init__()
        num_patches = (image_size // patch_size) ** 2
        self.projection = torch.nn.Conv2d(in_channels, embed_dim, kernel_size=patch_size, stride=patch_size)
        self.class_token = torch.nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.position = torch.nn.Parameter(0.02 * torch.randn(1, 1 + num_patches, embed_dim))

    def forward(self, images):
        patches = self.projection(images).flatten(2).transpose(1, 2)  # (B, N, D)
        class_token = self.class_token.expand(len(images), -1, -1)  # (B, 1, D)
        return torch.cat([class_token, patches], dim=1) + self.position
""",
    takes="class",
)
def embeddings(cls):
    """`cls(image_size, patch_size, in_channels, embed_dim)`, a module (B, C, H, W) -> (B, 1+N, D): Eq. 1."""
    first = new_trial(cls, FIRST, batch=2)
    reading = judge_embeddings(first, FIRST)
    check_batches(first, FIRST, reading)
    same_gradients(first, eq1, read_embeddings(first.parts, FIRST, reading))
    try:
        second = new_trial(cls, SECOND, batch=3)
        judge_embeddings(second, SECOND)
    except ReaderError as error:
        raise ReaderError(f"Right at {FIRST}, not at {SECOND}.\n{error.message}", error.code) from None
    except Wrong as wrong:
        raise Wrong(
            f"Right at {FIRST}, wrong at {SECOND}: is a size written into your code?\n{wrong.message}"
        ) from None
    tables = [FIRST.tokens * FIRST.embed_dim, FIRST.patches * FIRST.embed_dim]
    if any(p.numel() in tables and not p.any() for p in first.initial.values()):
        return (
            "Your positions all start at zero: until training has moved them apart, the order of the patches makes no "
            "difference. The paper's code starts them with small random numbers, `0.02 * torch.randn(...)`."
        )
    return None


def new_trial(cls: type, sizes: Sizes, batch: int) -> Trial:
    images = random_tensor(batch, sizes.in_channels, sizes.image_size, sizes.image_size)
    module = build(cls, sizes)
    try:
        check_parameters(module, images, sizes)
    except ReaderError as error:
        check_stride(module, sizes.patch_size, error)
        raise
    return Trial(cls, tuple(sizes), images, (batch, sizes.tokens, sizes.embed_dim), LETTERS)


def check_stride(module: nn.Module, P: int, error: ReaderError) -> None:
    """Raise the reader's error with its likely cause if a convolution cuts overlapping patches."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d) and part.kernel_size == (P, P) != part.stride:
            raise ReaderError(
                f"{error.message}\nYour convolution has a kernel of {P}×{P} and moves by {part.stride[0]}: its windows "
                "overlap, and there are more of them than patches.",
                error.code,
                "`nn.Conv2d(in_channels, embed_dim, kernel_size=patch_size, stride=patch_size)`",
            ) from None


def check_parameters(module: nn.Module, images: Tensor, sizes: Sizes) -> None:
    """Raise Wrong if the parameters depend on the batch, or are made anew in every call."""
    D, T = sizes.embed_dim, sizes.tokens
    before = dict(module.named_parameters())
    for name, parameter in before.items():
        shape = () if nn.parameter.is_lazy(parameter) else tuple(parameter.shape)
        if len(shape) == 3 and shape[0] not in (1, T, T - 1) and shape[1:] in ((1, D), (T, D), (T - 1, D)):
            raise Wrong(
                f"`{name}` is sized by the batch: {shape}. A parameter is one for all images, {(1, *shape[1:])}; "
                "`expand` or broadcasting gives it to each.",
                "A batch may have any number of images, the last one of an epoch has fewer.",
            )
    first, second = call(module, images), call(module, images)
    after = dict(module.named_parameters())
    if new := [name for name in after if after[name] is not before.get(name)]:
        raise Wrong(
            f"`{new[0]}` is made in `forward`: an optimizer, which is made before the first call, never sees it.",
            "Make parameters in `__init__`; `forward` only uses them.",
        )
    if isinstance(first, Tensor) and not same(first, second):
        raise Wrong(
            "Two calls with the same images give two results: something random is made in `forward`.",
            "Make parameters in `__init__`: a new one in every call is never trained.",
        )
    if isinstance(first, Tensor) and first.shape == (len(images), T - 1, D):
        raise Wrong(
            f"The class token is missing: {LETTERS} = {(len(images), T, D)} expected, got {tuple(first.shape)}."
        )


def judge_embeddings(trial: Trial, sizes: Sizes) -> EmbeddingReading:
    """The reading of the parameters with which the module does what Eq. 1 says; raises Wrong if there is none."""
    choices = list(embedding_readings(trial.parts, sizes))
    if not choices:
        complain_about_embeddings(trial.module, trial.parts, sizes)

    def weights(trial: Trial, reading: EmbeddingReading) -> EmbeddingWeights | None:
        return read_embeddings(trial.parts, sizes, reading)

    found = find(trial, eq1, choices, weights)
    if found is None:
        recognise_module(trial, EMBEDDING_MISTAKES, choices, weights)
        explain(trial, sizes, [w for reading in choices if (w := weights(trial, reading)) is not None])
    return found


def explain(trial: Trial, sizes: Sizes, choices: list[EmbeddingWeights]) -> None:
    """Raise Wrong with what holds of a result that no known mistake explains: which tokens are right."""
    if not choices:
        complain_about_embeddings(trial.module, trial.parts, sizes)
    rights = [torch.isclose(trial.out, eq1(w, trial.x), rtol=1e-4, atol=1e-5).all(dim=2) for w in choices]  # (B, T)
    right = max(rights, key=lambda right: int(right.sum()))
    class_token, patches = right[:, 0].all(), right[:, 1:]
    raise Wrong(
        f"The shape is right and the values are not: the class token is {'right' if class_token else 'wrong'}, and "
        f"{int(patches.sum())} of {patches.numel()} patch tokens are right.\n"
        f"This was at {sizes}, with {len(trial.x)} images.",
        "Build Eq. 1 in three lines (project, prepend, add the positions) and compare your tokens after each.",
    )


def check_batches(trial: Trial, sizes: Sizes, reading: EmbeddingReading) -> None:
    """Raise Wrong unless every call gives the same image the same tokens, whatever the batch."""
    w = read_embeddings(trial.parts, sizes, reading)
    if not same(trial.run(), trial.out):
        raise Wrong(
            "Right at the first calls, wrong at a later one: your module keeps something from call to call.",
            "`forward` reads `self`, and writes nothing into it.",
        )
    for batch in (1, 5):
        images = random_tensor(batch, *trial.x.shape[1:])
        out = trial.run(images)
        if not isinstance(out, Tensor) or not same(out, eq1(w, images)):
            raise Wrong(
                f"Right for a batch of {len(trial.x)} images, wrong for a batch of {batch}: the result depends on the "
                "batch.",
                "Take it from the input, `len(images)`, each time.",
            )


def changed(message: str, hint: str | None = None, **change) -> Mistake:
    return Mistake(lambda grid, dim: sincos_positions(grid, dim, **change), message, hint)


def in_one_line(grid: tuple[int, int], dim: int, interleaved: bool = False) -> Tensor:
    """One-dimensional positions along the sequence, as for text."""
    frequencies = 10000 ** -(torch.arange(dim // 2) / (dim // 2))
    angles = torch.arange(grid[0] * grid[1])[:, None] * frequencies
    parts = [angles.sin(), angles.cos()]
    return torch.stack(parts, dim=2).flatten(1) if interleaved else torch.cat(parts, dim=1)


def gathered(row: Callable, column: Callable) -> Callable:
    """Right codes, put together in the order in which `row(n, h, w)` and `column(n, h, w)` count them."""

    def wrong(grid: tuple[int, int], dim: int) -> Tensor:
        (h, w), n = grid, torch.arange(grid[0] * grid[1])
        code = sincos_positions(grid, dim).unflatten(0, grid)
        return torch.cat([code[row(n, h, w), 0, : dim // 2], code[0, column(n, h, w), dim // 2 :]], dim=1)

    return wrong


def summed(grid: tuple[int, int], dim: int) -> Tensor:
    """The row's code and the column's, each as long as the whole vector, added."""
    h, w = grid
    rows, columns = in_one_line((h, 1), dim), in_one_line((w, 1), dim)
    return (rows[:, None] + columns).flatten(0, 1)


def with_class_row(grid: tuple[int, int], dim: int) -> Tensor:
    return torch.cat([torch.zeros(1, dim), sincos_positions(grid, dim)])


ONE_LINE = (
    "These are positions along one line, as for text: patches one below the other are as far apart as the grid is wide."
)


SINCOS_MISTAKES = [
    changed(
        "The halves are exchanged: the first half of a vector must hold the row, the second the column.",
        layout=(COLUMN_SIN, COLUMN_COS, ROW_SIN, ROW_COS),
    ),
    changed("The cosines come before the sines: sines first.", layout=(ROW_COS, ROW_SIN, COLUMN_COS, COLUMN_SIN)),
    changed(
        "The cosines come before the sines, and the column before the row.",
        layout=(COLUMN_COS, COLUMN_SIN, ROW_COS, ROW_SIN),
    ),
    changed(
        "All sines come first, then all cosines. The row comes first, its sines and its cosines; then the column.",
        layout=(ROW_SIN, COLUMN_SIN, ROW_COS, COLUMN_COS),
    ),
    changed(
        "Sines and cosines alternate. They come in blocks: D/4 sines, then D/4 cosines.",
        "`torch.cat([sin, cos], dim=1)` makes blocks; `stack` and `[:, 0::2]` make them alternate.",
        interleaved=True,
    ),
    changed(
        "Your frequencies end at exactly 1/10000: you divide the exponent by D/4 - 1. Divide it by D/4.",
        "`torch.arange(dim // 4) / (dim // 4)`; `linspace` includes its end.",
        steps=-1.0,
    ),
    changed("Your frequencies fall twice as fast: frequency i is 10000 ** -(i / (D/4)).", exponent=-2.0),
    changed("Your frequencies fall half as fast: frequency i is 10000 ** -(i / (D/4)).", exponent=-0.5),
    changed("Your frequencies fall a quarter as fast: frequency i is 10000 ** -(i / (D/4)).", exponent=-0.25),
    changed("Your frequencies rise. They fall, from 1 towards 1/10000: the exponent is negative.", exponent=1.0),
    changed("All your frequencies are 1: frequency i is 10000 ** -(i / (D/4)).", exponent=0.0),
    changed("Your rows and columns are counted from 1. Count from 0.", start=1),
    changed("Your indices are parts of the side, between 0 and 1. Take the index itself: 0, 1, 2, …", per_side=True),
    changed("There is a 2π too many: the angle is the index times the frequency.", unit=2 * torch.pi),
    changed(
        "Your patches run down the columns of the grid. They run row by row: patch 1 is in row 0, column 1.",
        "`indexing='ij'` in `meshgrid`; patch n is in row n // w, column n % w.",
        by_columns=True,
    ),
    changed(
        "Your patches run down the columns of the grid, and the halves of a vector are exchanged.",
        "`indexing='ij'` in `meshgrid`; patch n is in row n // w, column n % w.",
        by_columns=True,
        layout=(COLUMN_SIN, COLUMN_COS, ROW_SIN, ROW_COS),
    ),
    changed("Both halves hold the row: the second must hold the column.", layout=(ROW_SIN, ROW_COS, ROW_SIN, ROW_COS)),
    changed(
        "Both halves hold the column: the first must hold the row.",
        layout=(COLUMN_SIN, COLUMN_COS, COLUMN_SIN, COLUMN_COS),
    ),
    Mistake(
        gathered(lambda n, h, w: n % h, lambda n, h, w: n % w),
        "Your rows run 0, 1, 2, 0, 1, 2, …, as the columns do. In reading order each row stays for w patches: "
        "0, 0, 0, 1, 1, 1, …",
        "`repeat` puts the whole list again, `repeat_interleave` each of its entries: one is for the columns, the "
        "other for the rows.",
    ),
    Mistake(
        gathered(lambda n, h, w: n // w, lambda n, h, w: n // h),
        "Your columns stay the same for h patches, as if they were rows. In reading order they run 0, 1, 2, 0, 1, 2, …",
        "`repeat` puts the whole list again, `repeat_interleave` each of its entries: one is for the columns, the "
        "other for the rows.",
    ),
    Mistake(
        summed,
        "You add the row's code and the column's. They stand side by side, D/2 numbers each.",
        "`torch.cat([rows, columns], dim=1)`, each made with `dim // 2`.",
    ),
    Mistake(in_one_line, ONE_LINE),
    Mistake(lambda grid, dim: in_one_line(grid, dim, interleaved=True), ONE_LINE),
    Mistake(with_class_row, "One row too many: the class token's. Here are the patches' only, h·w of them."),
    Mistake(
        lambda grid, dim: sincos_positions(grid, dim).unflatten(0, grid),
        "The grid is still there, (h, w, D). The sequence wants (h·w, D): flatten the first two axes.",
    ),
    Mistake(
        lambda grid, dim: sincos_positions(grid, dim)[None],
        "There is a batch axis in front, (1, h·w, D). Leave it out: (h·w, D) fits every batch.",
    ),
    Mistake(
        lambda grid, dim: sincos_positions(grid, dim).T,
        "The axes are exchanged, (D, h·w): a position is a row.",
    ),
]
