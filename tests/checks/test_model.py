"""The checks of lesson 05 on right and wrong answers."""

from functools import partial, reduce

import numpy as np
import pytest
import torch
from torch import nn

from vit_tutorial import (
    VARIANTS,
    Embeddings,
    Encoder,
    Shapes,
    VisionTransformer,
    ViTConfig,
    check,
    load_checkpoint,
    patchify,
)
from vit_tutorial.analysis import first_tests
from vit_tutorial.checks.lesson_05_vision_transformer import CONFIGS, SHOWS, my_parameter_count
from vit_tutorial.experiments import BUGS, draw_bug, plant
from vit_tutorial.experiments.planted_bugs import SEEDS_THAT_SHOW

from .test_encoder import Block, block, down, relu, sequential, up
from .variants import changed, judged


class Model(nn.Module):
    """A model of the package's parts, whose methods and parts the others replace."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.norm = nn.LayerNorm(config.embed_dim, eps=config.norm_eps)
        self.head = nn.Linear(config.embed_dim, config.num_classes)

    def encode(self, z):
        return self.encoder(z)

    def pool(self, z):
        return z[:, 0] if self.config.pool == "cls" else z[:, 1:].mean(dim=1)

    def forward(self, images):
        return self.head(self.pool(self.norm(self.encode(self.embeddings(images)))))


model = partial(changed, Model)


class OwnEmbeddings(nn.Module):
    """A linear layer on flattened patches, in an order of one's own, and positions of (1, T, D)."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.token = nn.Parameter(torch.zeros(c.embed_dim))
        self.places = nn.Parameter(torch.randn(1, c.num_tokens, c.embed_dim))
        self.linear = nn.Linear(c.patch_dim, c.embed_dim)

    def forward(self, images):
        patches = patchify(images, self.c.patch_size).unflatten(2, (self.c.in_channels, -1)).transpose(2, 3).flatten(2)
        return torch.cat([self.token.expand(len(images), 1, -1), self.linear(patches)], dim=1) + self.places


def blocks_of(cls, depth=None):
    """An encoder of so many blocks from lesson 04, `cls(embed_dim, num_heads, mlp_dim)`."""
    return lambda c: nn.Sequential(*(cls(c.embed_dim, c.num_heads, c.mlp_dim) for _ in range(depth or c.depth)))


def mean_only(function):
    return model(pool=lambda self, z: z[:, 0] if self.config.pool == "cls" else function(z))


def swapped(self, z):
    return z[:, 0] if self.config.pool == "mean" else z[:, 1:].mean(dim=1)


def off_by(*changes):
    """A count that is right but for these changes, `change(config)`."""
    return lambda c: my_parameter_count(c) + sum(change(c) for change in changes)


def built(config):
    return sum(p.numel() for p in VisionTransformer(config).parameters())


RIGHT = {
    check.vision_transformer: {
        "the package's": VisionTransformer,
        "own embeddings, torch's attention": model(embeddings=OwnEmbeddings, encoder=blocks_of(Block)),
        "the sum by N": mean_only(lambda z: z[:, 1:, :].sum(1) / (z.shape[1] - 1)),
        "a fixed eps": (model(norm=lambda c: nn.LayerNorm(c.embed_dim, 1e-6)), "eps of your final LayerNorm is 1e-06"),
    },
    check.parameter_count: {"term by term": off_by()},
}  # fmt: skip
WRONG = {
    check.vision_transformer: [
        (model(forward=lambda self, x: Model.forward(self, x).softmax(-1)), "There is a softmax inside"),
        (model(pool=swapped), "The two values of `config.pool` are swapped"),
        (mean_only(lambda z: z.mean(1)), "mean of all tokens, the class token among them"),
        (model(encode=lambda self, z: reduce(lambda z, part: self.norm(part(z)), self.encoder, z)), "inside the loop"),
        (model(lambda self, c: setattr(self, "encoder", nn.Sequential(*[self.encoder[0]] * c.depth))),
         "All places share one block's weights"),
        (model(lambda self, c: setattr(self, "blocks", list(self._modules.pop("encoder"))),
               encode=lambda self, z: reduce(lambda z, part: part(z), self.blocks, z)), "in a plain Python list"),
        (model(lambda self, c: setattr(self, "parts", {"head": self._modules.pop("head")}),
               forward=lambda self, x: self.parts["head"](self.norm(self.encoder(self.embeddings(x)))[:, 0])),
         "in a plain Python dict"),
        (model(encoder=blocks_of(Block, depth=1)), "has 2 blocks; yours has 1."),
        (model(encoder=blocks_of(block(mlp=lambda D, h, M: sequential(up, relu, down)(D, M)))),
         "In `encoder`: In `mlp`: The activation is ReLU"),
        (model(encoder=blocks_of(block(lambda self, *sizes: setattr(self, "norm2", self.norm1)))),
         "In `encoder`: `norm1` and `norm2` are one and the same module"),
        (model(head=lambda c: nn.Linear(20, 7)), "is a size or a batch written into your code?"),
        (model(encode=lambda self, z: self.encoder(z.sinh())), "no usual slip explains them"),
    ],
    check.parameter_count: [
        (off_by(lambda c: -c.embed_dim), "without the class token"),
        (off_by(lambda c: -3 * c.embed_dim * c.depth), "without the biases of q, k and v."),
        (off_by(lambda c: (1000 - c.num_classes) * (c.embed_dim + 1)), "always counted for 1000 classes"),
        (off_by(lambda c: 1), "86,567,656 expected, got 86,567,657: 1 too high"),
        (off_by(lambda c: 0.0), "whole number"),
        (built, "your function builds a model to get it"),
    ],
}  # fmt: skip


test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


def test_the_count_is_that_of_the_model():
    with torch.device("meta"):
        assert all(my_parameter_count(config) == built(config) for config in [*CONFIGS, *VARIANTS.values()])


def test_other_parts_are_not_called_wrong():
    verdict = check.vision_transformer(model(encoder=blocks_of(nn.TransformerEncoderLayer)))
    assert verdict.status == "not judged"
    assert "`encoder` (blocks of `norm1`, `attention`, `norm2`, `mlp`)" in verdict.message


# A bug in a model that is new each time


def test_every_bug_is_accepted_by_its_name_and_another_is_refused_by_its_test():
    labels = torch.arange(8)
    for seed in range(12):
        broken = draw_bug(ViTConfig(8, 4, num_classes=8, embed_dim=8, depth=1, num_heads=2, mlp_dim=8), labels, seed)
        assert check.find_bug(broken, broken.bug).status == "passed"
        other = next(bug for bug in BUGS[1:] if bug != broken.bug)
        assert f"It is not “{other}”. With that bug " in check.find_bug(broken, other).message
    assert set(SHOWS) == set(BUGS[1:])
    assert "is none of these: “head drawn" in check.find_bug(broken, "a bug").message
    assert check.find_bug(broken, None).status == "not attempted"
    assert "is none of these" in check.find_bug(broken, np.zeros(3)).message
    assert "what `draw_bug` returned" in check.find_bug(broken.model, "no residual").message


def test_a_drawn_bug_has_weights_of_its_own():
    """With those of the lesson's table, its numbers would be a row of it."""
    config, labels = ViTConfig(8, 4, num_classes=8, embed_dim=8, depth=1, num_heads=2, mlp_dim=8), torch.arange(8)
    drawn = (draw_bug(config, labels, seed).model for seed in (0, 0, 1))
    first, again, other = (next(p for p in model.parameters() if p.dim() == 2) for model in drawn)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("seed", SEEDS_THAT_SHOW)
def test_without_residuals_a_drawn_model_memorises_its_batch_as_in_the_lessons_table(seed):
    """With some other weights it does not, and a reader would look for another bug."""
    shipped, scenes = load_checkpoint("shapes"), Shapes(1000, image_size=28, seed=7)
    torch.manual_seed(seed)
    model, labels = plant("no residual", VisionTransformer(shipped.config), scenes.labels[:8])
    found = first_tests(model, shipped.card.normalise(scenes.pixels[:8]), labels, 4)
    assert (found.right, found.last_loss < 0.2) == (8, True)
