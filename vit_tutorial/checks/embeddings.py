"""Exercises of notebook 02 that are functions: the projection as a linear layer, the class token, sin-cos positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..positions import sincos_position_embedding
from .comparing import Mistake, compare, random_tensor
from .differences import same
from .exercise import exercise
from .running import call
from .sincos_mistakes import SINCOS_MISTAKES
from .verdict import ReaderError, Wrong

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
