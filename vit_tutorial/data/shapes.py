"""A built-in data set: one object on a textured ground, drawn by formula at any size, with its mask."""

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from ..config import Size, to_pair
from ..errors import require_size, require_whole
from .image_set import ImageSet
from .outlines import OUTLINES

CHUNK_PIXELS = 2**18  # drawn at a time: a megabyte for each float32 that a pixel needs

# The random choices in the order in which they are drawn: another order makes other scenes of the same seed.
DRAWN = ("class", "radius", "row", "column", "turn", "dark", "gap", "hue", "chroma", "ground hue", "ground chroma")
TINT, WAVES = 3, 3  # draws for the ground's tint (red, green, blue); waves in the ground, of three draws each


def Shapes(count: int, image_size: Size = 32, seed: int = 0, outlines: Mapping[str, Callable] = OUTLINES) -> ImageSet:
    """Draw `count` scenes of 32×32 pixels, or any other size, with `masks` (N, H, W): true where the object is.

    One object of eight classes at a random place, of a random size and colour, turned by up to 30° either way, on a
    ground with three waves in it. Only its outline tells the class. The object is never cut off, and always lighter:
    its grey value, the mean of red, green and blue in [0, 1], is at least 0.3 higher than the ground's, which the waves
    move by 0.12 at most. Other `outlines`, {name: signed distance}, are other classes in the same places.

    Lengths are shares of the shorter side, so a scene is the same at every size; a picture that is not square
    shows more ground, and the object anywhere on it. Scene i depends on the seed and on i alone.
    """
    count = require_whole("count", count)
    height, width = to_pair(require_size("image_size", image_size))
    # rand and not randn, whose stream depends on the build of PyTorch.
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(count, len(DRAWN) + TINT + 3 * WAVES, generator=generator)  # (N, K)
    labels = (draws[:, 0] * len(outlines)).long()
    pixels = torch.empty(count, 3, height, width, dtype=torch.uint8)
    masks = torch.empty(count, height, width, dtype=torch.bool)
    for part in torch.arange(count).split(max(1, CHUNK_PIXELS // (height * width))):
        pixels[part], masks[part] = draw_batch(draws[part], labels[part], height, width, outlines)
    return ImageSet(pixels, labels, tuple(outlines), masks)


def draw_batch(
    draws: Float[Tensor, "B K"], labels: Int64[Tensor, " B"], height: int, width: int, outlines: Mapping[str, Callable]
) -> tuple[UInt8[Tensor, "B 3 H W"], Bool[Tensor, "B H W"]]:
    """Draw scenes from random values in [0, 1), (B, K): pixels (B, 3, H, W) and masks (B, H, W)."""
    choices, tint, wave = draws.split([len(DRAWN), TINT, 3 * WAVES], dim=1)
    choice = dict(zip(DRAWN, choices[:, :, None, None].unbind(dim=1), strict=True))  # (B, 1, 1) each
    side = min(height, width)
    y, x = ((torch.arange(length, dtype=draws.dtype) + 0.5) / side for length in (height, width))  # pixel centres
    dark = 0.15 + 0.35 * choice["dark"]
    light = dark + 0.3 + choice["gap"] * (0.55 - dark)
    paper = coloured(dark, choice["ground hue"], choice["ground chroma"])
    paper = paper + 0.24 * (tint[:, :, None, None] - 0.5) * waves(wave, y, x)[:, None]  # (B, 3, H, W)

    # Seen from the object's centre: turned, and its radius becomes 1.
    radius = 0.3 + 0.12 * choice["radius"]
    margin = radius + 0.02
    y = y[:, None] - (margin + choice["row"] * (height / side - 2 * margin))  # (B, H, 1)
    x = x - (margin + choice["column"] * (width / side - 2 * margin))  # (B, 1, W)
    turn = math.pi / 3 * (choice["turn"] - 0.5)  # up to 30° either way
    cos, sin = turn.cos() / radius, turn.sin() / radius
    x, y = cos * x - sin * y, sin * x + cos * y  # (B, H, W)
    distance = torch.empty_like(x)  # from the outline, negative inside
    for label, outline in enumerate(outlines.values()):
        mine = labels == label
        distance[mine] = outline(x[mine], y[mine])
    distance = distance * radius

    cover = (0.5 - distance * side).clamp(0, 1)  # the share of the pixel that the object covers
    picture = torch.lerp(paper.clamp(0, 1), coloured(light, choice["hue"], choice["chroma"]), cover[:, None])
    return (picture * 255 + 0.5).to(torch.uint8), distance < 0


def coloured(grey: Tensor, hue: Tensor, chroma: Tensor) -> Float[Tensor, "B 3 1 1"]:
    """Return red, green and blue with the mean `grey`; a `chroma` of 1 is as far from grey as [0, 1] allows."""
    thirds = torch.arange(3, dtype=hue.dtype)[:, None, None] / 3
    direction = (2 * math.pi * (hue[:, None] + thirds)).cos()  # (B, 3, 1, 1), with the sum 0
    return grey[:, None] + (chroma * torch.minimum(grey, 1 - grey))[:, None] * direction


def waves(draws: Float[Tensor, "B K"], y: Float[Tensor, " H"], x: Float[Tensor, " W"]) -> Float[Tensor, "B H W"]:
    """Return the mean of three plane waves of one to six crests across the shorter side: (B, H, W), in [-1, 1]."""
    crests, direction, phase = draws[:, :, None].unflatten(1, (WAVES, 3)).unbind(dim=2)  # each (B, WAVES, 1)
    frequency = 2 * math.pi * (1 + 5 * crests)
    down = frequency * (2 * math.pi * direction).sin() * y  # (B, WAVES, H)
    across = frequency * (2 * math.pi * direction).cos() * x + 2 * math.pi * phase  # (B, WAVES, W)
    # sin(down + across) by the addition theorem: sines of rows and columns, not of pixels.
    rows = torch.cat([down.sin(), down.cos()], dim=1)  # (B, 2·WAVES, H)
    columns = torch.cat([across.cos(), across.sin()], dim=1)  # (B, 2·WAVES, W)
    return rows.transpose(1, 2) @ columns / WAVES
