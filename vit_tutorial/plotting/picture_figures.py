"""Pictures and their patches, and what is measured for each patch beside them or over them."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm, PowerNorm
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor
from torch.nn.functional import interpolate

from ..config import Size, to_pair
from ..errors import require_whole_patches
from . import panels, style
from .alt_text import amounts, brief, counted, listed, lowest_to_highest, with_alt
from .style import WIDTH, Figure, Maps, Names, Patch, Patches, Photo, Photos, Pictures, styled, to_numpy

KIND_COLOURS = ListedColormap(["none", style.MLP, style.ATTENTION])  # nothing over the ground


@styled
def show_grid(image: Float[Tensor, "C H W"], patch_size: Size, title: str) -> Figure:
    """Draw an image (values from 0 to 1) under the grid along which `patchify` cuts it, into whole patches."""
    (P, Q), (H, W) = to_pair(patch_size), image.shape[1:]
    require_whole_patches((H, W), (P, Q))
    h, w = H // P, W // Q
    figure, axes = panels.one(min(WIDTH, 3.3 * W / H + 1.0), 4.1, title)  # with room for the labels
    panels.patches(axes, image, h, w, aspect=P / Q)
    panels.patch_lines(axes, h, w)
    panels.name_cells(axes, range(h), range(w))
    axes.set(xlabel="column of the grid", ylabel="row of the grid")
    return with_alt(figure, f"An image of {H}×{W} pixels under a white grid of {h} rows and {w} columns.")


@styled
def show_pictures(
    images: Pictures, captions: Names, title: str = "", columns: int = 8, side: float = 0.2 * WIDTH
) -> Figure:
    """Draw images of one size, uint8 or floats from 0 to 1, under their captions, up to `side` inches wide each."""
    (H, W), count = images[0].shape[1:], len(images)
    columns = min(columns, count)
    rows, side = math.ceil(count / columns), min(WIDTH / columns, side)
    height = side * H / W + 0.22 * (1 + max(caption.count("\n") for caption in captions))  # 0.22 inches for a line
    figure, places = panels.many(rows, columns, columns * side, rows * height + (0.5 if title else 0.08), title)
    for axes, image, caption in zip(places.flat[:count], images, captions, strict=True):
        panels.picture(axes, image, caption)
    for axes in places.flat[count:]:
        axes.axis("off")
    return with_alt(figure, f"{counted(images)}: {listed(' '.join(caption.split()) for caption in captions)}.")


@styled
def show_filters(filters: Mapping[str, Float[Tensor, "n 3 P Q"]], title: str, columns: int = 8) -> Figure:
    """Draw the filters of each model as little pictures, in rows of `columns`: grey is zero, and each has its scale."""
    from torchvision.utils import make_grid

    n, _, P, Q = next(iter(filters.values())).shape
    side = min(0.42 * WIDTH, WIDTH / len(filters))
    figure, (row,) = panels.many(1, len(filters), len(filters) * side, side * n * P / (columns**2 * Q) + 0.7, title)
    plain = {}
    for axes, (name, weights) in zip(row, filters.items(), strict=True):
        shades = 0.5 + weights / (2 * weights.abs().amax(dim=(1, 2, 3), keepdim=True))
        panels.picture(axes, make_grid(shades, nrow=columns, padding=1, pad_value=1.0), name)
        plain[name] = 100 * (weights.mean(dim=(2, 3)).square().mean() / weights.square().mean()).round(decimals=2)
    told = amounts(plain, unit=" %")
    return with_alt(figure, f"{n} filters of {P}×{Q} pixels. One plain colour makes up, of their squares: {told}.")


@styled
def show_sizes(pictures: Photos, patch_size: int, title: str, kinds: Mapping[str, Tensor]) -> Figure:
    """Draw pictures, their pixels equally large, and tint each patch by its kind, (N,): 1 is outline, 2 is inside."""
    heights, widths = zip(*(picture.shape[1:] for picture in pictures.values()), strict=True)
    height = max(heights) * WIDTH / (sum(widths) + 6 * len(widths)) + 0.9
    figure, (row,) = panels.many(1, len(pictures), WIDTH, height, title, width_ratios=widths)
    told = []
    for axes, (name, picture) in zip(row, pictures.items(), strict=True):
        H, W = picture.shape[1:]
        h, w = H // patch_size, W // patch_size
        panels.patches(axes, picture, h, w, name)
        panels.cells(axes, kinds[name].reshape(h, w), name, cmap=KIND_COLOURS, vmin=0, vmax=2, alpha=0.6)
        panels.patch_lines(axes, h, w)
        axes.set(xlim=(0, w), ylim=(max(heights) / patch_size, 0))
        told.append(f"{name}, {H}×{W} pixels in {h}×{w} patches")
    handles = [Rectangle((0, 0), 1, 1, color=KIND_COLOURS(kind)) for kind in (1, 2)]
    figure.legend(handles, ["outline", "inside"], loc="outside lower left", ncols=2)
    return with_alt(figure, f"{counted(pictures)}: {listed(told)}.")


@styled
def show_maps(
    photo: Photo, maps: Mapping[str, Maps], names: Names, title: str, frames: Patches = (), one_scale: bool = False
) -> Figure:
    """Draw maps beside the photo: a row for each model, a column with its scale, or all with one, for each name."""
    every = torch.stack(list(maps.values()))  # (models, n, h, w)
    (models, n, h, w), over = every.shape, (0, 2, 3)
    limits, signs = every.abs().amax(over), every.amin(over) < 0
    if one_scale:
        limits[:] = limits.max()
    figure = panels.blank(min(WIDTH, 4.4 + 2 * n), 0.6 + max(1.9 * models, 3), title)
    whole, table = panels.beside_picture(figure, photo, every, 1.2)
    panels.patch_lines(whole, h, w)
    for line, values in zip(table, every, strict=True):
        for axes, value, limit, signed in zip(line, values, limits.tolist(), signs.tolist(), strict=True):
            draw_map(axes, value, limit, signed)
            if models == 1 and w < 8 and not (signed and n > 1):  # room for numbers
                write_numbers(axes, value, limit, signed)
    for axes, name in zip(table[0], names, strict=True):
        axes.set_title(name)
    for axes, model in zip(table[:, 0], maps, strict=True):
        axes.set_ylabel(model, fontsize=12)
    for line in table if frames else ():
        for axes, frame in zip(line, frames, strict=True):
            panels.highlight(axes, frame)
            panels.highlight(whole, frame)
    spans = {model: listed(map(lowest_to_highest, values)) for model, values in maps.items()}
    told = listed(f"{model}, {span}" if model else span for model, span in spans.items())
    return with_alt(figure, f"Maps of {h}×{w} patches for {listed(names)}, from lowest to highest: {told}.")


def draw_map(axes: Axes, values: Float[Tensor, "h w"], limit: float, signed: bool) -> None:
    """Draw a map in colours from 0 to `limit`, or on both sides of 0, and say so below."""
    panels.cells(axes, values, **({"limit": limit} if signed else {"vmin": 0, "vmax": limit}))
    axes.spines[:].set(visible=True, color=style.CONTROL)
    axes.set_xlabel(f"colours: {'±' if signed else '0 to '}{brief(limit)}", fontsize=10)


def write_numbers(axes: Axes, values: Float[Tensor, "h w"], limit: float, signed: bool) -> None:
    """Write its values into such a map, with signs only a tenth of `limit` and more, and number rows and columns."""
    panels.name_cells(axes, *map(range, values.shape))
    if signed:
        size = values.abs()
        panels.numbers(axes, values.where(size >= limit / 10, torch.nan), "{:+.1f}", dark=size > limit / 2)
    else:
        panels.numbers(axes, values, "{:.0f}" if limit >= 10 else "{:.1f}", dark=values <= limit / 2)


@styled
def show_attention_maps(
    photo: Photo, maps: Float[Tensor, "m n h w"], names: Names, title: str, frame: Patch | None = None
) -> Figure:
    """Draw where a token looks, the patch `frame`: a row for each name, a map for each head, numbers from 10 %."""
    rows, columns, h, w = maps.shape
    percent, highest = 100 * maps, 100 * maps.max().item()
    figure = panels.blank(WIDTH, 0.6 + 1.65 * rows, title)
    whole, table = panels.beside_picture(figure, photo, maps, 1.4)
    for line, name, heads in zip(table, names, percent, strict=True):
        line[0].set_ylabel(name)
        for axes, values in zip(line, heads, strict=True):
            image = panels.cells(axes, values, norm=PowerNorm(0.5, 0, highest))
            panels.numbers(axes, values.where(values >= 10, torch.nan), "{:.0f}", values < 0.4 * highest, fontsize=9)
    for head, axes in enumerate(table[0]):
        axes.set_title(f"head {head}")
    if frame:
        for place in maps.flatten().topk(2).indices.tolist():  # the two largest values of all these maps
            row, column = divmod(place % (h * w), w)
            whole.add_patch(Rectangle((column, row), 1, 1, fill=False, ec="white", lw=1.5))
        for axes in figure.axes:
            panels.highlight(axes, frame)
    panels.colour_bar(image, figure.axes, "attention, %")
    peaks = amounts({name: row.max() for name, row in zip(names, percent, strict=True)}, " up to ", " %")
    return with_alt(figure, f"Where {columns} heads look on a picture, from one patch: {peaks}.")


@styled
def show_attention_stops(pictures: Pictures, maps: Maps, queries: Mapping[str, int], title: str) -> Figure:
    """Draw maps on one scale, each under its picture, with the patch that asks, by its number, framed in both."""
    h, w = maps.shape[1:]
    side = WIDTH / max(len(queries), 4)
    width = min(WIDTH, side * len(queries) + 0.6)
    figure, grid = panels.many(2, len(queries), width, 0.7 + 1.85 * side, title)
    scale, told = PowerNorm(0.5, 0, maps.max().item()), []
    for column, picture, weights, (name, query) in zip(grid.T, pictures, maps, queries.items(), strict=True):
        panels.patches(column[0], picture, h, w, name)
        image = panels.cells(column[1], weights, norm=scale)
        for axes in column:
            panels.patch_lines(axes, h, w)
            panels.highlight(axes, divmod(query, w))
        told.append(f"{name}, {weights.max():.2f} from {place_of_largest(weights)}")
    panels.colour_bar(image, grid[1], "weight (square-root scale)", shrink=0.95)
    return with_alt(figure, f"What {len(queries)} queries take most: {listed(told)}.")


def place_of_largest(values: Float[Tensor, "h w"]) -> str:
    """Say in which row and column of a map its largest value is, or the first of them."""
    row, column = divmod(int(values.argmax()), values.shape[1])
    return f"row {row}, column {column}"


@styled
def show_found(pictures: Pictures, masks: Bool[Tensor, "n H W"], maps: Mapping[str, Maps], title: str) -> Figure:
    """Draw a row for each picture, with the object's outline: the picture, and maps as multiples of their own mean."""
    height = 0.6 + 0.85 * WIDTH / (2 + len(maps)) * len(pictures)
    figure, grid = panels.many(len(pictures), 1 + len(maps), 0.85 * WIDTH, height, title)
    relative = {name: found / found.mean(dim=(1, 2), keepdim=True) for name, found in maps.items()}
    h, w = next(iter(maps.values())).shape[1:]
    for row, (line, picture, mask) in enumerate(zip(grid, pictures, masks, strict=True)):
        panels.patches(line[0], picture, h, w, "picture" if row == 0 else "")
        for axes, (name, found) in zip(line[1:], relative.items(), strict=True):
            heading = name.replace(" ", "\n") if row == 0 else ""
            image = panels.cells(axes, found[row], heading, norm=LogNorm(1 / 4, 4))
        for axes in line:
            outline = axes.contour(to_numpy(mask.float()), [0.5], colors="white", linewidths=1.5, extent=(0, w, 0, h))
            outline.set_path_effects([withStroke(linewidth=3.5, foreground=style.BLACK)])
    panels.colour_bar(image, grid, "value (1 = the map's mean)", ticks=(0.25, 1, 4), extend="both", shrink=0.7)
    peaks = amounts({name: found.amax() for name, found in relative.items()})
    return with_alt(figure, f"{counted(pictures)} and their maps; the largest multiple of the mean: {peaks}.")


@styled
def show_seen(photo: Photo, maps: Maps, names: Names, title: str, columns: int = 4) -> Figure:
    """Draw the picture, and what each head sees of it: the photo `in_fog`."""
    (h, w), (H, W), rows = maps.shape[1:], photo.shape[1:], math.ceil((1 + len(maps)) / columns)
    figure = show_pictures([photo, *in_fog(photo, maps)], ["picture", *names], title, columns, side=WIDTH)
    figure.set_figheight(rows * (WIDTH / columns * H / W + 0.25) + 0.35)  # with less room for the title
    told = listed(f"{name} in {place_of_largest(weights)}" for name, weights in zip(names, maps, strict=True))
    return with_alt(figure, f"A picture of {h}×{w} patches, clear where each head looks. The largest weights: {told}.")


def in_fog(photo: Photo, maps: Maps) -> Float[Tensor, "n 3 H W"]:
    """Return the photo as each head sees it: clear at its 5 % largest weights, in thicker fog the smaller they are."""
    light = maps / maps.flatten(1).quantile(0.95, dim=1)[:, None, None].clamp(min=1e-12)  # most may be 0
    light = interpolate(light.clamp(max=1)[:, None], photo.shape[1:], mode="bilinear")  # (n, 1, H, W)
    fog = 0.7 + 0.15 * photo.mean(dim=0)
    return light * photo + (1 - light) * fog
