"""The checks of lesson 05 on right and wrong answers."""

import torch
from torch import nn

from vit_tutorial import VARIANTS, Shapes, VisionTransformer, ViTConfig, check, load_checkpoint, patchify
from vit_tutorial.analysis import first_tests
from vit_tutorial.checks.lesson_05_vision_transformer import CONFIGS, SHOWS, my_parameter_count
from vit_tutorial.experiments import BUGS, draw_bug

from .test_encoder import DOWN, GELU, SECOND, UP, sequential, torchs
from .variants import judged, solved, with_parts


class OwnEmbeddings(nn.Module):
    """A linear layer on flattened patches, in an order of one's own, and positions of (1, T, D)."""

    times = 1

    def __init__(self, size, P, C, K, D, *rest):
        super().__init__()
        self.P, self.C = P, C
        self.token = nn.Parameter(torch.zeros(D))
        self.places = nn.Parameter(torch.randn(1, 1 + (size // P) ** 2, D))
        self.linear = nn.Linear(C * P * P, D)

    def forward(self, images):
        patches = patchify(images, self.P).unflatten(2, (self.C, -1)).transpose(2, 3).flatten(2)
        tokens = torch.cat([self.token.expand(len(images), 1, -1), self.linear(patches)], dim=1)
        return tokens + self.times * self.places


class Encoder(nn.Module):
    """Blocks as in lesson 04, of which `edits` change one place."""

    def __init__(self, D, L, h, M, *edits):
        super().__init__()
        block = solved(check.encoder_block, *edits)
        self.blocks = nn.ModuleList(block(D, h, M) for _ in range(L))

    def forward(self, z):
        for block in self.blocks:
            z = block(z)
        return z


Model = check.vision_transformer.answer
RUN, NORM, HEAD = "self.encoder(z)", "self.norm(z)[:, 0]", "nn.Linear(embed_dim, num_classes)"
BLOCKS, MADE = "nn.Sequential(*blocks)", "MyEncoderBlock(embed_dim, num_heads, mlp_dim)"


def of_blocks(*edits, depth=None):
    """A model of blocks that are changed in one place."""
    return with_parts(Model, encoder=lambda size, P, C, K, D, L, h, M: Encoder(D, depth or L, h, M, *edits))


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
        "own embeddings, torch's attention": with_parts(
            Model, embeddings=OwnEmbeddings, encoder=lambda size, P, C, K, D, L, h, M: Encoder(D, L, h, M, *torchs())),
        "a list of modules": (BLOCKS, "nn.ModuleList(blocks)", *in_a_loop("z = block(z)")),
    },
    check.parameter_count: {"term by term": off_by()},
}  # fmt: skip
WRONG = {
    check.vision_transformer: [
        (of_blocks(depth=1), "has 2 blocks; yours has 1."),
        ("blocks = [", "blocks = depth * [", "range(depth)", "range(1)", "All blocks have the same weights"),
        (BLOCKS, "nn.Sequential(*map(__import__('copy').deepcopy, [blocks[0]] * depth))",
         "All blocks have the same weights"),
        ("self.embeddings(images)", "self.embeddings(images / 250)", "`embeddings` is given 0.004·images"),
        (RUN, "self.encoder(2 * z)", "`block 0` is given 2·embeddings. By Eqs."),
        (*in_a_loop("z = self.norm(block(z))"), "`block 1` is given norm. By Eqs."),
        (RUN, "z + self.encoder(z)", "`norm` is given embeddings + block 1. By Eqs. 1 to 4 it is given block 1"),
        (NORM, "z[:, 0] + 0 * self.norm(0 * z[:, 0])", "`norm` is given nothing. By Eqs."),
        (NORM, "self.norm(z)[:, 1:].mean(1)", "`head` is given the mean of 9 tokens, from token 1 of norm to token 9"),
        (NORM, "self.norm(z).mean(1)", "`head` is given the mean of 10 tokens, from token 0"),
        ("self.head(y)", "self.head(y).softmax(-1)", "A softmax is inside the model"),
        ("self.head(y)", "self.head(y).log_softmax(-1)", "A log-softmax is inside the model"),
        ("self.head(y)", "self.head(y).tanh()", "and returns something else. By Eqs."),
        ("self.encoder = " + BLOCKS, "self.blocks = blocks", "z = " + RUN, "z = self.blocks[0](z)",
         "An optimizer does not find all layers"),
        (of_blocks(*sequential(UP, "nn.ReLU()", DOWN)), "In `encoder`: In `mlp`: With layers that"),
        (of_blocks(SECOND, "self.norm2 = self.norm1"), "Two of your parts are one and the same module"),
        (of_blocks(*sequential(UP, GELU, "nn.Dropout(0.1)", DOWN)), "than in eval mode: leave out dropout"),
        (", eps=1e-6", "", "In `norm`: Small tokens come out differently"),
        (HEAD, f"nn.Sequential(nn.Linear(embed_dim, embed_dim), nn.Tanh(), {HEAD})",
         "The head is one linear layer, D to K, with D·K + K parameters. Yours has"),
        (with_parts(Model, embeddings=type("Twice", (OwnEmbeddings,), {"times": 2})),
         "In `embeddings`: Token 0 is class_token + 2·position"),
        (MADE, "MyEncoderBlock(embed_dim, mlp_dim, num_heads)", "Is one of another axis or argument?"),
    ],
    check.parameter_count: [
        (off_by(lambda c: -c.embed_dim), "without the class token"),
        (off_by(lambda c: -c.depth * c.mlp_dim), "without the first bias of the MLP."),
        (off_by(lambda c: -3 * c.embed_dim * c.depth), "count without the biases of q, k and v."),
        (off_by(lambda c: -3 * c.embed_dim * c.depth - c.num_classes), "of q, k and v, and the bias of the head"),
        (off_by(lambda c: c.num_tokens * c.embed_dim), "with the positions counted twice"),
        ("config.depth * block", "block", "exactly this count for a single block."),
        ("D, M = config.embed_dim, config.mlp_dim", "D = config.embed_dim; M = 4 * D", "that is 4·D wide"),
        ("D * config.num_classes + config.num_classes", "D * config.num_classes", "D * M + M + M * D + D", "2 * D * M",
         "D * 3 * D + 3 * D + D * D + D", "4 * D * D", "* D + D + D + config", "* D + D + config", "without any bias"),
        (off_by(lambda c: (c.num_heads - 1) * c.depth * 3 * c.embed_dim * (c.embed_dim + 1)), "once for each head"),
        (off_by(lambda c: -2 * c.embed_dim), "(or two of class token, its position and"),
        (off_by(lambda c: 1), "K 1000: 86,567,657 is 1 too many"),
        (off_by(lambda c: 0.0), "whole number"),
        (built, "your function builds a model to get it"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


def test_the_count_is_that_of_the_model():
    assert all(my_parameter_count(config) == built(config) for config in [*CONFIGS, *VARIANTS.values()])


def test_other_parts_are_not_called_wrong():
    other = with_parts(
        Model, encoder=lambda size, P, C, K, D, L, h, M: nn.TransformerEncoderLayer(D, h, batch_first=True)
    )
    verdict = check.vision_transformer(other)
    assert verdict.status == "not judged"
    assert "`encoder` (of `norm1`, `attention`, `norm2`, `mlp`)" in verdict.message


# A bug in a model that is new each time


def test_every_bug_is_accepted_by_its_name_and_another_is_refused_by_what_this_model_shows():
    labels = torch.arange(8)
    for seed in range(12):
        broken = draw_bug(ViTConfig(28, 4, num_classes=8, embed_dim=8, depth=1, num_heads=2, mlp_dim=8), labels, seed)
        assert check.find_bug(broken, broken.bug).status == "passed"
        other = next(bug for bug in BUGS[1:] if bug != broken.bug)
        told = check.find_bug(broken, other).message
        images = load_checkpoint("shapes").card.normalise(Shapes(8, 28, seed=7).pixels)
        found = first_tests(broken.model, images, broken.labels, 4)
        assert f"It is not “{other}”. With that, {SHOWS[other]}." in told
        assert f"first loss {found.first_loss:.2f}; {found.right} of 8 memorised" in told
    assert set(SHOWS) == set(BUGS[1:])
    assert "there are 'head drawn" in check.find_bug(broken, "a bug").message
    assert check.find_bug(broken, None).status == "not attempted"
    assert "what `draw_bug` returned" in check.find_bug(broken.model, "no residual").message
