"""The images of an epoch: in random order, cut into batches, moved, augmented and mixed."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor

from .recipe import Recipe


def batches(
    pixels: Shaped[Tensor, "N C H W"], labels: Int64[Tensor, " N"], recipe: Recipe, epoch: int
) -> Iterator[tuple[Shaped[Tensor, "B C H W"], Int64[Tensor, " B"]]]:
    """Yield the batches of an epoch, each as (pixels, labels): every image comes exactly once.

    The order, and what is changed in each image, depend on the recipe's seed and the number of the epoch alone.
    """
    generator = torch.Generator().manual_seed(recipe.epoch_seed(epoch))
    order = torch.randperm(len(labels), generator=generator)
    for batch in order.tensor_split(recipe.steps_per_epoch(len(labels))):
        picked = pixels[batch.to(pixels.device)]
        if recipe.crop or recipe.flip:
            picked = shift_and_flip(picked, recipe, generator)
        if recipe.randaugment:
            from .rand_augment import rand_augment  # here, because torchvision is slow to import

            picked = rand_augment(picked, torch.rand(len(batch), 2, generator=generator))
        yield picked, labels[batch.to(labels.device)]


def shift_and_flip(pixels: UInt8[Tensor, "B C H W"], recipe: Recipe, generator: torch.Generator) -> Tensor:
    """Shift each image by up to `recipe.crop` pixels each way, continued by its reflection, and mirror one in two."""
    (B, _, H, W), crop = pixels.shape, recipe.crop
    down, right = torch.randint(2 * crop + 1, (B, 2), generator=generator).to(pixels.device).T
    mirrored = torch.randint(2, (B, 1, 1, 1), generator=generator).to(pixels.device) == 1
    padded = F.pad(pixels.float(), [crop] * 4, mode="reflect").to(torch.uint8)  # for bytes it is not defined on a GPU
    windows = padded.unfold(2, H, 1).unfold(3, W, 1)  # (B, C, 1 + 2·crop, 1 + 2·crop, H, W)
    moved = windows[torch.arange(B, device=pixels.device), :, down, right]
    return torch.where(mirrored, moved.flip(3), moved) if recipe.flip else moved


def make_mix(recipe: Recipe, num_classes: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return a function of a batch of floats and its labels: mixup, cutmix, one of both at random, or no change."""
    if not (recipe.mixup or recipe.cutmix):
        return lambda inputs, labels: (inputs, labels)
    from torchvision.transforms import v2

    alphas = {v2.MixUp: recipe.mixup, v2.CutMix: recipe.cutmix}
    return v2.RandomChoice([mix(alpha=alpha, num_classes=num_classes) for mix, alpha in alphas.items() if alpha])
