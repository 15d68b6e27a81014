"""Make trials.csv, for lesson 07: maps and notes on trial, for models of three seeds.

Takes about 10 minutes on two cores.
"""

import torch
from common import SEEDS, trained_at_home, write_table
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad
from vit_tutorial import ImageSet, Shapes, VisionTransformer, analysis
from vit_tutorial.analysis.forward_pass import stages
from vit_tutorial.inference import logits_of

COUNT = 2000
CLASSES = 8


def scenes() -> tuple[ImageSet, ImageSet]:
    """Return the scenes on trial, and others, from which the mean tokens come."""
    return Shapes(COUNT, 28, seed=1), Shapes(1000, 28, seed=4)


def in_parts(function, *tensors: Tensor) -> Tensor:
    """Return what a function makes of 250 scenes at a time."""
    return torch.cat(
        [function(*part) for part in zip(*(t.split(250) for t in tensors), strict=True)]
    )


def points(values: Tensor) -> tuple[float, float]:
    """Return the mean and half of its 95 % interval, in points."""
    half = 196 * values.std().item() / len(values) ** 0.5
    return round(100 * values.mean().item(), 2), round(half, 2)


def maps_on_trial(model: VisionTransformer):
    """Yield (what, cover, wrong answers or a difference of them, by scene)."""
    images, _ = scenes()
    inputs, pixels = model.card.normalise(images.pixels), images.pixels / 255
    with torch.no_grad():
        answers = logits_of(model, images.pixels).argmax(dim=1)

    def map_for(x: Tensor, classes: Tensor) -> Tensor:
        return analysis.class_attention(model, x, classes)

    by_class = [in_parts(map_for, inputs, (answers + shift) % CLASSES) for shift in range(CLASSES)]

    @torch.no_grad()
    def rolled(x: Tensor) -> Tensor:
        with analysis.record_attention(model) as maps:
            model(x)
        return analysis.attention_rollout(maps)[:, 0, 1:].unflatten(1, (7, 7))

    rollout = in_parts(rolled, inputs)
    random = torch.rand(len(pixels), 7, 7, generator=torch.Generator().manual_seed(0))
    covers = {
        "mean of all scenes": torch.tensor(model.card.mean).view(3, 1, 1),
        "white": torch.ones(3, 1, 1),
        "mean of the patch": interpolate(avg_pool2d(pixels, 4), scale_factor=4.0),
    }
    for cover, colour in covers.items():

        def ruined(found: Tensor, colour: Tensor = colour) -> Tensor:
            order = found.flatten(1).argsort(dim=1, descending=True, stable=True)
            keep = torch.ones(len(pixels), 49).scatter(1, order[:, :4], 0.0).reshape(-1, 1, 7, 7)
            keep = interpolate(keep, scale_factor=4.0)
            with torch.no_grad():
                said = logits_of(model, pixels * keep + colour * (1 - keep)).argmax(dim=1)
            return (said != images.labels).float()

        right, *wrong = (ruined(found) for found in by_class)
        yield "class attention", cover, right
        yield "rollout", cover, ruined(rollout)
        yield "random", cover, ruined(random)
        yield "right class − wrong classes", cover, right - torch.stack(wrong).mean(dim=0)


@torch.no_grad()
def notes_on_trial(model: VisionTransformer):
    """Yield (what, "", answers lost minus won, by scene) when the background forgets."""
    images, others = scenes()
    first = stages(model, model.card.normalise(images.pixels))[0]
    z_others = torch.stack(stages(model, model.card.normalise(others.pixels)))
    here, there = ((avg_pool2d(part.masks.float(), 4) == 0).flatten(1) for part in (images, others))
    weight = pad(there, (1, 0)).float()[:, :, None]
    usual = [(z * weight).sum(dim=0) / weight.sum(dim=0).clamp(min=1) for z in z_others[1:]]

    def wrong(forget: Tensor, instead: list[Tensor]) -> Tensor:
        forget, tokens = pad(forget, (1, 0))[:, :, None], first
        for block, token in zip(model.encoder, instead, strict=True):
            tokens = torch.where(forget, token, block(tokens))
        return (model.forward_head(model.norm(tokens)).argmax(dim=1) != images.labels).float()

    start = [first] * len(model.encoder)
    usually = wrong(torch.zeros_like(here), start)
    yield "the background forgets", "", wrong(here, start) - usually
    yield "the background gets its mean", "", wrong(here, usual) - usually


def lines():
    for seed in SEEDS:
        model = trained_at_home("learned", seed)
        for trial in (maps_on_trial, notes_on_trial):
            for what, cover, values in trial(model):
                yield what, cover, seed, COUNT, *points(values)


if __name__ == "__main__":
    write_table("trials", ["what", "cover", "seed", "scenes", "points", "half"], lines())
