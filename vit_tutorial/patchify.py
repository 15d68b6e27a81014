"""Turn an image into a sequence of patches, and back (section 3.1 of the paper)."""

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
    P, Q = to_pair(require_size("patch_size", patch_size))  # Q is the second P of P×P: patches need not be square
    require_images(images, (P, Q))
    B, C, H, W = images.shape
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
    if patches.ndim != 3 or patches.shape[1] != h * w or patches.shape[2] % (P * Q):
        fits = f"(B, {h}·{w} = {h * w}, C·{P}·{Q}) would fit"
        raise ValueError(f"patches of shape {tuple(patches.shape)} do not make a {H}×{W} image: {fits}")
    B, _, patch_dim = patches.shape
    C = patch_dim // (P * Q)
    blocks = patches.reshape(B, h, w, C, P, Q)
    return blocks.permute(0, 3, 1, 4, 2, 5).reshape(B, C, H, W)  # from (B, C, h, P, w, Q)


def require_images(
    images: Tensor, patch_size: tuple[int, int] = (1, 1), image_size: Size | None = None, floats: bool = False
) -> None:
    """Raise one ValueError unless these images can be cut into patches, and are what a model is built for."""
    if not isinstance(images, Tensor) or images.ndim != 4:
        given = tuple(images.shape) if isinstance(images, Tensor) else f"a {type(images).__name__}"
        ways = "an ImageSet has `images.pixels`, torch.as_tensor takes an array, images[None] is a batch of one image"
        raise ValueError(f"images are a tensor (B, C, H, W), got {given}: {ways}")
    if floats and not images.is_floating_point():
        raise ValueError(f"a model takes floats, got {images.dtype}: its card's `normalise` makes them of bytes")
    height, width = images.shape[2:]
    require_whole_patches((height, width), patch_size)
    if image_size is not None and (height, width) != to_pair(image_size):
        built = "×".join(map(str, to_pair(image_size)))
        raise ValueError(f"built for {built} images, got {height}×{width}")
