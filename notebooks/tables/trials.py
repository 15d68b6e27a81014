"""Make trials.csv, for lesson 07: by how much a map's first patches lower the logit of its class.

Takes about 10 minutes on two cores.
"""

import torch
from common import SEEDS, trained_at_home, write_table
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate
from vit_tutorial import Shapes, VisionTransformer, analysis, check

COUNT = 500
own_effect = check.own_effect.answer  # the solution of the exercise


def maps_by_class(model: VisionTransformer, inputs: Tensor) -> dict[str, list[Tensor]]:
    """Return the map of each class, (B, h, w), drawn in two ways."""
    classes = range(model.config.num_classes)
    by_gradients = [analysis.class_attention(model, inputs, [c] * len(inputs)) for c in classes]
    by_covering = analysis.occlusion(model, inputs).unbind(dim=1)
    return {"class attention": by_gradients, "occlusion": by_covering}


def effects(model: VisionTransformer, pixels: Tensor):
    """Yield (map, about, cover, effect of each scene, in logits)."""
    inputs = model.card.normalise(pixels)
    with torch.no_grad():
        logits = model(inputs)
    answers = torch.nn.functional.one_hot(logits.argmax(dim=1), model.config.num_classes).bool()
    covers = {
        "mean of all scenes": torch.zeros(3, 1, 1),  # of normalised values
        "white": model.card.normalise(torch.ones(1, 3, 1, 1))[0],
        "mean of the patch": interpolate(avg_pool2d(inputs, 4), scale_factor=4.0),
    }
    for name, maps in maps_by_class(model, inputs).items():
        for cover, colour in covers.items():

            def fall(found: Tensor, colour: Tensor = colour) -> Tensor:
                order = found.flatten(1).argsort(dim=1, descending=True, stable=True)
                keep = torch.ones(len(found), 49).scatter(1, order[:, :4], 0.0)
                keep = interpolate(keep.reshape(-1, 1, 7, 7), scale_factor=4.0)
                with torch.no_grad():
                    return logits - model(inputs * keep + colour * (1 - keep))

            effect = own_effect(len(maps), lambda c, maps=maps: maps[c], fall)
            yield name, "the answer", cover, effect[answers]
            yield name, "other classes", cover, effect[~answers].view(len(pixels), -1).mean(dim=1)


def lines():
    pixels = Shapes(COUNT, 28, seed=1).pixels
    for seed in SEEDS:
        for name, about, cover, effect in effects(trained_at_home("learned", seed).eval(), pixels):
            yield name, about, cover, seed, round(effect.mean().item(), 3)


if __name__ == "__main__":
    write_table("trials", ["map", "about", "cover", "seed", "logits"], lines())
