"""Make trials.csv, for lesson 07: what is lost without the patches that a map ranks first.

Takes about 10 minutes on two cores.
"""

from functools import partial

import torch
from common import CONFIG, SEEDS, trained_at_home, write_table
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate
from vit_tutorial import Shapes, VisionTransformer, analysis

COUNT, FIRST, DOSES = 500, 4, (1, 2, 4, 8)  # scenes, and patches


def rollout(model: VisionTransformer, inputs: Tensor) -> Tensor:
    with torch.no_grad(), analysis.record_attention(model) as maps:
        model(inputs)
    return analysis.attention_rollout(maps)[:, 0, 1:].unflatten(1, (7, 7))


def untrained(seed: int) -> VisionTransformer:
    torch.manual_seed(seed)
    return VisionTransformer(CONFIG).eval()


def ranked(found: Tensor) -> Tensor:
    """Return the numbers of the patches, the first one first: (B, N)."""
    return found.flatten(1).argsort(dim=1, descending=True, stable=True)


@torch.no_grad()
def left_out(model: VisionTransformer, inputs: Tensor, found: Tensor, count: int = FIRST) -> Tensor:
    """Return the logits without the tokens of the first patches of each map."""
    z = model.embeddings(inputs)  # (B, 1+N, D)
    stay = ranked(found)[:, count:, None].expand(-1, -1, z.shape[2])
    z = torch.cat([z[:, :1], z[:, 1:].gather(1, stay)], dim=1)
    return model.forward_head(model.norm(model.encoder(z)))


@torch.no_grad()
def covered(model: VisionTransformer, inputs: Tensor, found: Tensor, colour: Tensor) -> Tensor:
    """Return the logits with the first patches of each map painted."""
    keep = torch.ones(len(found), 49).scatter(1, ranked(found)[:, :FIRST], 0.0)
    keep = interpolate(keep.reshape(-1, 1, 7, 7), scale_factor=4.0)
    return model(inputs * keep + colour * (1 - keep))


def effects(model: VisionTransformer, pixels: Tensor, seed: int):
    """Yield (map, about, cover, number of patches, logits of each scene)."""
    inputs, scene = model.card.normalise(pixels), torch.arange(len(pixels))
    with torch.no_grad():
        logits = model(inputs)
    answers, K = logits.argmax(dim=1), logits.shape[1]
    by_class = {
        "class attention": [
            analysis.class_attention(model, inputs, [c] * len(inputs)) for c in range(K)
        ],
        "occlusion": analysis.occlusion(model, inputs).unbind(dim=1),
    }
    with torch.no_grad(), analysis.record_attention(model) as weights:
        model(inputs)
    maps = {
        "last layer": weights[-1].mean(dim=1)[:, 0, 1:],
        "rollout": rollout(model, inputs),
        "untrained": rollout(untrained(seed), inputs),
        **{name: torch.stack(list(found))[answers, scene] for name, found in by_class.items()},
        "brightest patches": avg_pool2d(pixels.float().mean(dim=1, keepdim=True), 4),
        "random": torch.rand(len(inputs), 49, generator=torch.Generator().manual_seed(seed)),
    }
    for name, found in maps.items():
        for count in DOSES:
            fall = logits - left_out(model, inputs, found, count)
            yield name, "the answer falls", "left out", count, fall[scene, answers]
    white = model.card.normalise(torch.ones(1, 3, 1, 1))
    ways = {
        "left out": left_out,
        "mean colour": partial(covered, colour=torch.zeros(1)),  # of normalised values
        "white": partial(covered, colour=white),
        "mean of the patch": partial(
            covered, colour=interpolate(avg_pool2d(inputs, 4), scale_factor=4.0)
        ),
    }
    for name, found in by_class.items():
        for way, without in ways.items():
            left = torch.stack([without(model, inputs, one) for one in found])  # (K maps, B, K)
            falls = (logits - left)[:, scene, answers]  # of the answer's logit, by maps: (K, B)
            own = falls[answers, scene]
            others = (falls.sum(dim=0) - own) / (K - 1)
            yield name, "its own map", way, FIRST, own - others


def lines():
    pixels = Shapes(COUNT, 28, seed=1).pixels
    for seed in SEEDS:
        model = trained_at_home("learned", seed).eval()
        for name, about, cover, count, found in effects(model, pixels, seed):
            yield name, about, cover, count, seed, round(found.mean().item(), 3)


if __name__ == "__main__":
    write_table("trials", ["map", "about", "cover", "patches", "seed", "logits"], lines())
