"""Copies of DINOv2 with one secret mistake each. Painted, their patch tokens still look right."""

import random
from dataclasses import dataclass, field

import torch
from torch import nn

from ..data import load_photo
from ..errors import require_choice
from ..model import VisionTransformer
from ..pretrained import dinov2_tensors
from ..saving import build_model

BLOCKS = range(4, 11)  # of 12: in earlier ones, and in the last, some mistakes show in the principal components
IN_A_BLOCK = (
    "norms exchanged", "q and k exchanged", "12 heads instead of 6", "γ of the attention forgotten",
    "ReLU instead of GELU",
)  # fmt: skip
IN_EMBEDDINGS = ("red and blue exchanged", "positions moved by one")
MISTAKES = IN_A_BLOCK + IN_EMBEDDINGS


@torch.no_grad()
def sabotage(model: VisionTransformer, mistake: str, where: str) -> VisionTransformer:
    """Return a copy of DINOv2 with one of MISTAKES in a part: "encoder.6", or "embeddings"."""
    require_choice("mistake", mistake, MISTAKES)
    copy = build_model(model.config, model.state_dict(), model.card).train(model.training)  # of our parts alone
    part = copy.get_submodule(where)
    match mistake:
        case "norms exchanged":
            part.norm1, part.norm2 = part.norm2, part.norm1
        case "q and k exchanged":
            for parameter in part.attention.qkv.parameters():
                q, k, v = parameter.chunk(3)
                parameter.copy_(torch.cat([k, q, v]))
        case "12 heads instead of 6":
            part.attention.num_heads *= 2
            part.attention.head_dim //= 2
        case "γ of the attention forgotten":
            gamma = dinov2_tensors()[where.replace("encoder", "blocks") + ".ls1.gamma"]
            part.attention.projection.weight /= gamma[:, None]
            part.attention.projection.bias /= gamma
        case "ReLU instead of GELU":
            part.mlp.activation = nn.ReLU()
        case "red and blue exchanged":
            kernel = part.patches.projection.weight  # (D, 3, P, P)
            kernel.copy_(kernel.flip(1))
        case "positions moved by one":
            table = part.position.table  # (1+N, D), the class token's first
            table.copy_(torch.cat([table[:1], table[1:].roll(1, 0)]))
    return copy


@dataclass
class Suspect:
    """A copy of a model with one mistake. Printing it does not tell which, or where; `reveal` does."""

    model: VisionTransformer = field(repr=False)
    original: VisionTransformer = field(repr=False)
    mistake: str = field(repr=False)
    where: str = field(repr=False)

    def reveal(self) -> str:
        return f"{self.mistake}, in {self.where}"

    @torch.no_grad()
    def likeness(self, mistake: str, where: str) -> float:
        """Return the cosine of a patch's tokens here and in a copy with this mistake: the median over one photo."""
        photo = self.original.card.normalise(load_photo(size=self.original.config.image_size)[None])
        copies = self.model, sabotage(self.original, mistake, where)
        return torch.cosine_similarity(*(copy.forward_features(photo)[0, 1:] for copy in copies), dim=1).median().item()


def sabotaged(model: VisionTransformer, count: int = 3, seed: int | None = None) -> list[Suspect]:
    """Return copies of DINOv2, each with another random mistake. The same `seed` gives the same."""
    draw = random.Random(seed)
    suspects = []
    for mistake in draw.sample(MISTAKES, count):
        where = "embeddings" if mistake in IN_EMBEDDINGS else f"encoder.{draw.choice(BLOCKS)}"
        suspects.append(Suspect(sabotage(model, mistake, where), model, mistake, where))
    return suspects
