"""The checks of lesson 05 on right and wrong answers."""

import numpy as np
import pytest
import torch
from torch import nn

from vit_tutorial import VARIANTS, Shapes, VisionTransformer, ViTConfig, check, load_checkpoint, patchify
from vit_tutorial.analysis import first_tests
from vit_tutorial.checks.lesson_05_vision_transformer import CONFIGS, SHOWS, my_parameter_count
from vit_tutorial.experiments import BUGS, draw_bug, plant
from vit_tutorial.experiments.planted_bugs import SEEDS_THAT_SHOW

from .test_encoder import DOWN, GELU, SECOND, UP, sequential, torchs
from .variants import judged, solved, with_parts


class OwnEmbeddings(nn.Module):
    """A linear layer on flattened patches, in an order of one's own, and positions of (1, T, D)."""

    times = 1

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.token = nn.Parameter(torch.zeros(c.embed_dim))
        self.places = nn.Parameter(torch.randn(1, c.num_tokens, c.embed_dim))
        self.linear = nn.Linear(c.patch_dim, c.embed_dim)

    def forward(self, images):
        patches = patchify(images, self.c.patch_size).unflatten(2, (self.c.in_channels, -1)).transpose(2, 3).flatten(2)
        tokens = torch.cat([self.token.expand(len(images), 1, -1), self.linear(patches)], dim=1)
        return tokens + self.times * self.places


class Encoder(nn.Module):
    """Blocks as in lesson 04, of which `edits` change one place."""

    def __init__(self, c, *edits, depth=None):
        super().__init__()
        block = solved(check.encoder_block, *edits)
        self.blocks = nn.ModuleList(block(c.embed_dim, c.num_heads, c.mlp_dim) for _ in range(depth or c.depth))

    def forward(self, z):
        for block in self.blocks:
            z = block(z)
        return z


Model = check.vision_transformer.answer
RUN, POOL, TAKEN = "self.encoder(z)", "self.norm(z)[:, self.taken].mean(dim=1)", "[:, self.taken].mean(dim=1)"
HEAD, BLOCKS = "nn.Linear(config.embed_dim, config.num_classes)", "Encoder(config)"
PLAIN = "if self.taken.stop else "


def of_blocks(*edits, depth=None):
    """A model of blocks that are changed in one place."""
    return with_parts(Model, encoder=lambda c: Encoder(c, *edits, depth=depth))


def in_a_loop(step):
    """What is done with `block` in a loop over all blocks."""
    return f"z = {RUN}", f"for block in self.encoder:\n            {step}"


def off_by(*changes):
    """A count that is right but for these changes, `change(config)`."""
    return lambda c: my_parameter_count(c) + sum(change(c) for change in changes)


def built(config):
    with torch.device("meta"):
        return sum(p.numel() for p in VisionTransformer(config).parameters())


RIGHT = {
    check.vision_transformer: {
        "the package's": VisionTransformer,
        "own embeddings, torch's attention": with_parts(
            Model, embeddings=OwnEmbeddings, encoder=lambda c: Encoder(c, *torchs())),
        "the sum by N": (TAKEN, f"[:, 0] {PLAIN}self.norm(z)[:, 1:].sum(1) / (z.shape[1] - 1)"),
        "a fixed eps": ("config.norm_eps", "1e-6", "eps of your final LayerNorm is 1e-06"),
    },
    check.parameter_count: {"term by term": off_by()},
}  # fmt: skip
WRONG = {
    check.vision_transformer: [
        (of_blocks(depth=1), "has 2 blocks; yours has 1."),
        (BLOCKS, "nn.Sequential(Encoder(config)[0])", "self.head(y)", "self.head(2 * y)", "has 2 blocks; yours has 1."),
        (BLOCKS, "nn.Sequential(*(Encoder(config) for _ in range(config.depth)))",
         "yours has 4. One `Encoder(config)` has all the blocks already"),
        (BLOCKS, "nn.Sequential(*[Encoder(config)[0]] * config.depth)", "All places share one block's weights"),
        (BLOCKS, "nn.Sequential(*map(__import__('copy').deepcopy, [Encoder(config)[0]] * config.depth))",
         "All blocks start with the same weights"),
        (RUN, "self.encoder(2 * z)", "`block 0` is given 2·embeddings. It must"),
        (RUN, "self.encoder(z.sinh())", "`block 0` is given something else. It must"),
        (*in_a_loop("z = self.norm(block(z))"), "`block 1` is given norm. It must"),
        (RUN, "z + self.encoder(z)", "`norm` is given embeddings + block 1. It must be given block 1"),
        (POOL, "z[:, 0] + 0 * self.norm(0 * z[:, 0])", "`norm` is given something else. It must be given block 1"),
        ('== "cls"', '== "mean"', "`head` is given the mean of the patches of norm. It must"),
        (TAKEN, f"[:, 0] {PLAIN}self.norm(z).mean(1)",
         'With pool="mean", the mean of the patches after the norm: `head` is given the mean of all tokens'),
        (TAKEN, "[:, 0]", "`head` is given token 0 of norm. It must be given the mean of the patches"),
        ("self.head(y)", "self.head(y).softmax(-1)", "There is a softmax inside the model"),
        ("self.head(y)", "self.head(y).log_softmax(-1)", "There is a log-softmax inside the model"),
        ("self.head(y)", "self.head(y).tanh()", "something other than the head's result"),
        ("self.encoder = " + BLOCKS, "self.blocks = list(Encoder(config))", "z = " + RUN, "z = self.blocks[0](z)",
         "in a plain Python list"),
        ("self.head = " + HEAD, 'self.parts = {"head": ' + HEAD + "}", "self.head(", 'self.parts["head"](',
         "in a plain Python dict"),
        (of_blocks(*sequential(UP, "nn.ReLU()", DOWN)), "In `encoder`: In `mlp`: There is ReLU"),
        (of_blocks(SECOND, "self.norm2 = self.norm1"), "`norm1` and `norm2` are one and the same module"),
        (of_blocks(*sequential(UP, GELU, "nn.Dropout(0.1)", DOWN)), "although all rates in its config are 0"),
        (", eps=config.norm_eps", "", "In `norm`: Large tokens are normed as they should be"),
        (HEAD, f"nn.Sequential(nn.Linear(config.embed_dim, config.embed_dim), nn.Tanh(), {HEAD})",
         "In `head`: The head is one linear layer here, D to K, and yours is not linear"),
        (with_parts(Model, embeddings=type("Twice", (OwnEmbeddings,), {"times": 2})),
         "In `embeddings`: The positions are added 2 times"),
        (HEAD, "nn.Linear(20, 7)", "wrong at another. Your code stops"),
    ],
    check.parameter_count: [
        (off_by(lambda c: -c.embed_dim), "without the class token"),
        (off_by(lambda c: -c.depth * c.mlp_dim), "without the first bias of the MLP."),
        (off_by(lambda c: -3 * c.embed_dim * c.depth), "count without the biases of q, k and v."),
        (off_by(lambda c: -3 * c.embed_dim * c.depth - c.num_classes), "of q, k and v, and the bias of the head"),
        (off_by(lambda c: c.num_tokens * c.embed_dim), "with the positions counted twice"),
        (off_by(lambda c: (1000 - c.num_classes) * (c.embed_dim + 1)), "always counted for 1000 classes"),
        (off_by(lambda c: 1), "K 1000: 86,567,656 expected, got 86,567,657: 1 too high"),
        (off_by(lambda c: 0.0), "whole number"),
        (built, "your function builds a model to get it"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


def test_the_count_is_that_of_the_model():
    assert all(my_parameter_count(config) == built(config) for config in [*CONFIGS, *VARIANTS.values()])


def test_other_parts_are_not_called_wrong():
    other = with_parts(Model, encoder=lambda c: nn.TransformerEncoderLayer(c.embed_dim, c.num_heads, batch_first=True))
    verdict = check.vision_transformer(other)
    assert verdict.status == "not judged"
    assert "`encoder` (of `norm1`, `attention`, `norm2`, `mlp`)" in verdict.message


# A bug in a model that is new each time


def test_every_bug_is_accepted_by_its_name_and_another_is_refused_by_its_test():
    labels = torch.arange(8)
    for seed in range(12):
        broken = draw_bug(ViTConfig(8, 4, num_classes=8, embed_dim=8, depth=1, num_heads=2, mlp_dim=8), labels, seed)
        assert check.find_bug(broken, broken.bug).status == "passed"
        other = next(bug for bug in BUGS[1:] if bug != broken.bug)
        assert f"It is not “{other}”, which shows so: " in check.find_bug(broken, other).message
    assert set(SHOWS) == set(BUGS[1:])
    assert "is none of these: “head drawn" in check.find_bug(broken, "a bug").message
    assert "Did you mean “blocks in a plain list”?" in check.find_bug(broken, "block in plain list").message
    assert "none of these" not in check.find_bug(broken, "No residuals ").message
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
