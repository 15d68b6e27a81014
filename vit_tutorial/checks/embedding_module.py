"""The exercise of notebook 02 that is a class: Eq. 1 as a module of the reader's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .comparing import random_tensor
from .confirming import same_gradients
from .differences import same
from .embedding_mistakes import MISTAKES, eq1
from .embedding_weights import Reading, Sizes, Weights, complain, read, readings
from .exercise import exercise
from .modules import Trial, build, find, recognise
from .running import call
from .verdict import ReaderError, Wrong

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
    reading = judge(first, FIRST)
    check_batches(first, FIRST, reading)
    same_gradients(first, eq1, read(first.parts, FIRST, reading))
    try:
        second = new_trial(cls, SECOND, batch=3)
        judge(second, SECOND)
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
        require_stride(module, sizes.patch_size, error)
        raise
    return Trial(cls, tuple(sizes), images, (batch, sizes.tokens, sizes.embed_dim), LETTERS)


def require_stride(module: nn.Module, P: int, error: ReaderError) -> None:
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


def judge(trial: Trial, sizes: Sizes) -> Reading:
    """The reading of the parameters with which the module does what Eq. 1 says; raises Wrong if there is none."""
    choices = list(readings(trial.parts, sizes))
    if not choices:
        complain(trial.module, trial.parts, sizes)

    def weights(trial: Trial, reading: Reading) -> Weights | None:
        return read(trial.parts, sizes, reading)

    found = find(trial, eq1, choices, weights)
    if found is None:
        recognise(trial, MISTAKES, choices, weights)
        explain(trial, sizes, [w for reading in choices if (w := weights(trial, reading)) is not None])
    return found


def explain(trial: Trial, sizes: Sizes, choices: list[Weights]) -> None:
    """Raise Wrong with what holds of a result that no known mistake explains: which tokens are right."""
    if not choices:
        complain(trial.module, trial.parts, sizes)
    rights = [torch.isclose(trial.out, eq1(w, trial.x), rtol=1e-4, atol=1e-5).all(dim=2) for w in choices]  # (B, T)
    right = max(rights, key=lambda right: int(right.sum()))
    class_token, patches = right[:, 0].all(), right[:, 1:]
    raise Wrong(
        f"The shape is right and the values are not: the class token is {'right' if class_token else 'wrong'}, and "
        f"{int(patches.sum())} of {patches.numel()} patch tokens are right.\n"
        f"This was at {sizes}, with {len(trial.x)} images.",
        "Build Eq. 1 in three lines (project, prepend, add the positions) and compare your tokens after each.",
    )


def check_batches(trial: Trial, sizes: Sizes, reading: Reading) -> None:
    """Raise Wrong unless every call gives the same image the same tokens, whatever the batch."""
    w = read(trial.parts, sizes, reading)
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
