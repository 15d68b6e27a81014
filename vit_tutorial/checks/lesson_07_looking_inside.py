"""Lesson 07: what each logit loses without a patch."""

import torch
import torch.nn.functional as F
from torch import nn

from .exercise import Exercise
from .probes import as_sum, few, noise


def my_occlusion(model, images, P):
    whole, falls = model(images), []  # (B, K)
    for row in range(0, images.shape[2], P):
        for column in range(0, images.shape[3], P):
            covered = images.clone()
            covered[:, :, row : row + P, column : column + P] = 0
            falls.append(whole - model(covered))
    return torch.stack(falls, dim=-1).unflatten(-1, (images.shape[2] // P, images.shape[3] // P))


class SmallModel(nn.Module):
    """Eleven logits of an image of any size, from weights that are always the same; it keeps what it was given."""

    given = ()

    def forward(self, images):
        self.given += (images,)
        x = images.flatten(1)
        return (x @ noise(x.shape[1], 8) / 4).tanh() @ noise(8, 11)


def probe_occlusion(got, expected, model, images, P):
    whole = model(images)[..., None, None].expand_as(expected)
    known = {"y(whole)": whole, "y(patch i covered)": whole - expected}
    known |= {f"{f.__name__}({name})": f(y, 1) for name, y in known.items() for f in (F.softmax, F.log_softmax)}
    mine = as_sum(got, known)
    yield mine != "something else", f"Your map is {mine}. It must be {as_sum(expected, known)}."
    sizes = [x.abs().flatten().sort().values for x in (got, expected)]
    yield torch.allclose(*sizes, atol=1e-6), "The sizes are right, and signs or places are not: `abs`? Or `reshape`?"
    if covered := [x[0] for x in model.given if x.shape == images.shape and not x[0].equal(images[0])]:
        values, places = covered[-1][covered[-1] != images[0]], (covered[-1] != images[0]).nonzero()
        where = ", ".join(map("{} {} to {}".format, ("channels", "rows", "columns"), *places.aminmax(dim=0)))
        told = f"In your last covered picture {len(places)} values are changed to {few(values)}: {where}."
        wrong = len(places) != images.shape[1] * P * P or (places.amin(0)[1:] % P).any() or values.any()
        yield wrong, f"{told} A patch has C·P·P values, which become 0, and starts at a multiple of P = {P}."


occlusion = Exercise(
    my_occlusion,
    task="`fn(model, images, P)`, (B, C, H, W) → (B, K, h, w): how far each logit falls when one patch is set to 0.",
    trials=[(SmallModel(), noise(B, 3, P * h, P * w), P) for B, h, w, P in [(2, 5, 6, 4), (1, 4, 4, 2), (5, 4, 2, 3)]],
    probes=probe_occlusion,
    clue="For each patch: `images.clone()`, its P×P pixels to 0, the model again, and the difference of the logits.",
    shape="(B, K, h, w)",
    sizes=lambda model, x, P: {"B": len(x), "K": 11, "h": x.shape[2] // P, "w": x.shape[3] // P},
    gradients=False,
)
