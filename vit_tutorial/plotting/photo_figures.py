"""A photo and its patches: principal components as colours, what heads see of it, what resembles a patch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import interpolate

from . import panels
from .alt_text import amounts, brief, listed, with_alt
from .style import WIDTH, Figure, styled

CLEAR = 0.95  # a head sees the patches with weights above this quantile through no fog
FOG, HIDDEN = 0.82, 0.85  # how light the fog is, and how much of the photo it hides where it is thickest


# Red, green and blue, a little paler, so that blue shows on black.
PRIMARIES = {"red": (1, 0.3, 0.3), "green": (0.3, 1, 0.3), "blue": (0.4, 0.5, 1)}


@styled
def show_components(
    photos: Mapping[str, Float[Tensor, "3 _ _"]],
    colours: Sequence[Float[Tensor, "_ _ 3"]],
    title: str,
) -> Figure:
    """Draw photos, and beside each three components of its patches: as red, green and blue, and one by one."""
    ratios = [H / W for H, W in (photo.shape[1:] for photo in photos.values())]
    width = 0.9 * WIDTH / 2.4  # of a photo
    figure = panels.blank(0.9 * WIDTH, sum(ratios) * width + 0.3 * len(ratios) + 0.4, title)
    grid, told = figure.add_gridspec(len(photos), 3, width_ratios=(1, 1, 0.32), height_ratios=ratios), []
    for row, (name, photo) in enumerate(photos.items()):
        panels.picture(figure.add_subplot(grid[row, 0]), photo, name)
        panels.picture(figure.add_subplot(grid[row, 1]), colours[row].movedim(2, 0), "three components")
        small, where = grid[row, 2].subgridspec(3, 1), []
        for n, (component, (colour, tint)) in enumerate(zip(colours[row].unbind(2), PRIMARIES.items(), strict=True)):
            lit = component * component.new_tensor(tint)[:, None, None]
            panels.picture(figure.add_subplot(small[n]), lit, f"{n + 1}: {colour}")
            where.append(f"{colour} in {largest(component)}")
        told.append(f"{name}: {listed(where)}")
    return with_alt(figure, f"Three components of each patch, and where each is strongest. {'. '.join(told)}.")


def largest(values: Float[Tensor, "h w"]) -> str:
    """Say in which row and column of a map its largest value is, or the first of them."""
    row, column = divmod(int(values.argmax()), values.shape[1])
    return f"row {row}, column {column}"


@styled
def show_seen(
    photo: Float[Tensor, "3 H W"],
    maps: Float[Tensor, "n h w"],
    names: Sequence[str],
    title: str,
    frame: tuple[int, int] | None = None,
    columns: int = 4,
) -> Figure:
    """Draw the photo, and what each head sees of it (`in_fog`). `frame` marks the patch that asks: (row, column)."""
    (h, w), (H, W) = maps.shape[1:], photo.shape[1:]
    pictures = [photo, *in_fog(photo, maps)]
    rows, side = math.ceil(len(pictures) / columns), WIDTH / columns
    figure, grid = panels.panels(rows, columns, WIDTH, rows * (side * H / W + 0.25) + 0.35, title)
    for axes, picture, name in zip(grid.flat, pictures, ["photo", *names], strict=False):
        panels.patches(axes, picture, h, w, name)
        if frame:
            panels.highlight(axes, frame)
    for axes in grid.flat[len(pictures) :]:
        axes.axis("off")
    told = listed(f"{name} in {largest(weights)}" for name, weights in zip(names, maps, strict=True))
    return with_alt(figure, f"A photo of {h}×{w} patches, clear where each head looks. The largest weights: {told}.")


def in_fog(photo: Float[Tensor, "3 H W"], maps: Float[Tensor, "n h w"]) -> Float[Tensor, "n 3 H W"]:
    """Return the photo as each head sees it: clear where its weights are large, in fog where they are small.

    A map's 5 % largest weights are clear, and the fog thickens in proportion.
    """
    light = maps / maps.flatten(1).quantile(CLEAR, dim=1)[:, None, None]
    light = interpolate(light.clamp(max=1)[:, None], photo.shape[1:], mode="bilinear")  # (n, 1, H, W)
    fog = HIDDEN * FOG + (1 - HIDDEN) * photo.mean(dim=0)
    return light * photo + (1 - light) * fog


@styled
def show_similar(
    photos: Mapping[str, Float[Tensor, "3 _ _"]],
    maps: Sequence[Float[Tensor, "_ _"]],
    patch: tuple[int, int],
    title: str,
) -> Figure:
    """Draw photos, and under each how similar its patches are to the framed one of the first photo: cosines, 0 to 1."""
    width = min(WIDTH / len(photos), 1.35)
    figure, grid = panels.panels(2, len(photos), width * len(photos) + 0.8, 2 * width + 0.5, title)
    for upper, lower, (name, photo), similarity in zip(*grid, photos.items(), maps, strict=True):
        panels.patches(upper, photo, *similarity.shape, name)
        image = panels.patch_values(lower, similarity, vmin=0, vmax=1)
        panels.bare(lower)
    for axes in grid[:, 0]:
        panels.highlight(axes, patch)
    panels.colour_bar(figure, image, grid, "cosine similarity", extend="min", shrink=0.6)
    found = {name: (similarity > 0.5).float().mean() * 100 for name, similarity in zip(photos, maps, strict=True)}
    alike = amounts({name: share.round(decimals=1) for name, share in found.items()}, ", ", " %")
    start = f"How similar each patch is to the one in row {patch[0]}, column {patch[1]} of the first photo."
    return with_alt(figure, f"{start} Patches with a cosine above 0.5: {alike}.")


@styled
def show_values(
    photo: Float[Tensor, "3 H W"],
    maps: Mapping[str, Float[Tensor, "h w"]],
    title: str,
    label: str,
    marks: Mapping[str, tuple[int, int]],
) -> Figure:
    """Draw a value up to 1 over each patch of the photo, a panel for each map; a patch of value 0 stays clear.

    `marks` has the row and column of a patch to be framed in each panel.
    """
    width = min(WIDTH / len(maps), 2.1)
    figure, (row,) = panels.panels(1, len(maps), width * len(maps) + 1.2, width + 0.5, title)
    low, told = min(values[values > 0].min().item() for values in maps.values()), []
    for axes, (name, values) in zip(row, maps.items(), strict=True):
        panels.patches(axes, 0.75 + 0.25 * photo, *values.shape, name)
        image = panels.patch_values(axes, values.where(values > 0, float("nan")), vmin=low, vmax=1)
        panels.highlight(axes, marks[name])
        median = values[values > 0].median().item()
        told.append(f"{name}, median {brief(round(median, 2))}")
    panels.colour_bar(figure, image, row, label, shrink=0.9)
    return with_alt(figure, f"{label.capitalize()} for each patch: {'; '.join(told)}.")
