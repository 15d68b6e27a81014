"""Turn an image into a sequence of patches, and back (section 3.1 of the paper)."""

from __future__ import annotations

import torch
from jaxtyping import Shaped
from torch import Tensor

from .config import Size, to_pair
from .errors import require_size, require_whole_patches


def patchify(images: Shaped[Tensor, "B C H W"], patch_size: Size) -> Shaped[Tensor, "B N patch_dim"]:
    """Cut images into patches, row by row, and flatten each patch as (channel, row, column).

    (B, C, H, W) → (B, N, C·P·P), for any dtype. In this order, `conv.weight.flatten(1)` of a convolution
    with stride P is the weight of the linear layer that does the same to the patches.

    Raises ValueError if the image is not a whole number of patches, or not of rank 4.
    Source: section 3.1, x_p ∈ R^(N × P²·C).
    """
    require_images(images, patch_size)
    (P, Q), (B, C, H, W) = to_pair(patch_size), images.shape  # Q is the second P of P×P: patches need not be square
    h, w = H // P, W // Q
    blocks = images.reshape(B, C, h, P, w, Q)
    return blocks.permute(0, 2, 4, 1, 3, 5).reshape(B, h * w, C * P * Q)  # from (B, h, w, C, P, Q)


def unpatchify(
    patches: Shaped[Tensor, "B N patch_dim"], patch_size: Size, image_size: Size
) -> Shaped[Tensor, "B C H W"]:
    """Put the patches of `patchify` back into images of `image_size`: (B, N, C·P·P) → (B, C, H, W).

    Raises ValueError if that many patches of that length do not make such an image.
    """
    P, Q = to_pair(require_size("patch_size", patch_size))
    H, W = to_pair(require_size("image_size", image_size))
    require_whole_patches((H, W), (P, Q))
    h, w = H // P, W // Q
    if not isinstance(patches, Tensor):
        raise ValueError(f"patches are a tensor (B, N, C·P·P), got {type(patches).__name__}: torch.as_tensor makes one")
    if patches.ndim != 3 or patches.shape[1] != h * w or patches.shape[2] % (P * Q):
        raise ValueError(
            f"patches of shape {tuple(patches.shape)} do not make a {H}×{W} image: "
            f"(B, {h}·{w} = {h * w}, C·{P}·{Q}) would fit"
        )
    B, _, patch_dim = patches.shape
    C = patch_dim // (P * Q)
    blocks = patches.reshape(B, h, w, C, P, Q)
    return blocks.permute(0, 3, 1, 4, 2, 5).reshape(B, C, H, W)  # from (B, C, h, P, w, Q)


def require_images(
    images: Tensor,
    patch_size: Size,
    in_channels: int | None = None,
    image_size: Size | None = None,
    dtype: torch.dtype | None = None,
) -> None:
    """Raise one ValueError that shows the facts if these images cannot be cut into patches.

    A layer with weights also passes the number of channels it was built for, and the dtype of its weights.
    A model with one position per patch also passes the one image size it was built for.
    """
    require_size("patch_size", patch_size)
    if not isinstance(images, Tensor):
        raise ValueError(f"images are a tensor (B, C, H, W), got {type(images).__name__}: torch.as_tensor makes one")
    if images.ndim != 4:
        hint = "; for one image, images[None] adds the batch dimension" if images.ndim == 3 else ""
        raise ValueError(f"images have shape (B, C, H, W), got {tuple(images.shape)}{hint}")
    _, channels, height, width = images.shape
    if in_channels is not None and channels != in_channels:
        raise ValueError(f"built for {in_channels} channels, got {channels}: images of shape {tuple(images.shape)}")
    if dtype is not None and not images.is_floating_point():
        raise ValueError(f"images must hold floats, got {images.dtype}: for bytes, images.float() / 255")
    if dtype not in (None, images.dtype) and not torch.is_autocast_enabled(images.device.type):
        raise ValueError(f"the weights are {dtype}, the images {images.dtype}: images.to({dtype}) would fit")
    require_whole_patches((height, width), to_pair(patch_size))
    if image_size is not None and (height, width) != to_pair(image_size):
        built = "×".join(map(str, to_pair(image_size)))
        raise ValueError(f"built for {built} images, got {height}×{width}")
