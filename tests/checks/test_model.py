"""The checks of notebook 05 on right and wrong answers."""

import copy

import pytest
import torch
from torch import nn

from vit_tutorial import Embeddings, Encoder, EncoderBlock, VisionTransformer, ViTConfig, check

from .variants import assert_not_attempted, assert_passes, assert_wrong, cell, solved, stubs

# A model of the package's parts, whose `forward` and parts the others replace


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.norm = nn.LayerNorm(config.embed_dim, eps=1e-6)
        self.head = nn.Linear(config.embed_dim, config.num_classes)

    def embed(self, images):
        return self.embeddings(images)

    def encode(self, z):
        return self.encoder(z)

    def pool(self, z):
        return z[:, 0] if self.config.pool == "cls" else z[:, 1:].mean(dim=1)

    def forward(self, images):
        return self.head(self.pool(self.norm(self.encode(self.embed(images)))))


def model(change=lambda self, c: None, **methods):
    """A Model with other methods, after `change` has replaced parts of it."""

    class Changed(Model):
        def __init__(self, config):
            super().__init__(config)
            change(self, config)

    for name, method in methods.items():
        setattr(Changed, name, method)
    return Changed


def replace(**parts):
    """A change that replaces parts by what `part(config)` makes."""
    return lambda self, c: [setattr(self, name, part(c)) for name, part in parts.items()]


class OwnEmbeddings(nn.Module):
    """A linear layer on patches flattened as (row, column, channel); class token repeated; positions from a table."""

    def __init__(self, c):
        super().__init__()
        self.P = c.patch_size
        self.positions = nn.Embedding(c.num_tokens, c.embed_dim)
        self.token = nn.Parameter(torch.zeros(1, 1, c.embed_dim))
        self.projection = nn.Linear(c.patch_dim, c.embed_dim)

    def patches(self, images):
        B, C, H, W = images.shape
        blocks = images.reshape(B, C, H // self.P, self.P, W // self.P, self.P).permute(0, 2, 4, 3, 5, 1)
        return self.projection(blocks.reshape(B, -1, self.P * self.P * C))

    def forward(self, images):
        x = torch.cat([self.token.repeat(len(images), 1, 1), self.patches(images)], dim=1)
        return x + self.positions(torch.arange(x.shape[1]))


class ClassApart(OwnEmbeddings):
    """The class token has a position parameter of its own."""

    def __init__(self, c):
        super().__init__(c)
        self.positions = nn.Parameter(torch.randn(1, c.num_patches, c.embed_dim))
        self.of_class = nn.Parameter(torch.randn(1, 1, c.embed_dim))

    def forward(self, images):
        first = (self.token + self.of_class).expand(len(images), -1, -1)
        return torch.cat([first, self.patches(images) + self.positions], dim=1)


class TorchBlock(nn.Module):
    def __init__(self, c, batch_first=True, activation=nn.GELU):
        super().__init__()
        D, M = c.embed_dim, c.mlp_dim
        self.norm1, self.norm2 = nn.LayerNorm(D, eps=1e-6), nn.LayerNorm(D, eps=1e-6)
        self.attention = nn.MultiheadAttention(D, c.num_heads, batch_first=batch_first)
        self.mlp = nn.Sequential(nn.Linear(D, M), activation(), nn.Linear(M, D))

    def forward(self, z):
        y = self.norm1(z)
        z = z + self.attention(y, y, y, need_weights=False)[0]
        return z + self.mlp(self.norm2(z))


def stack(block, **options):
    """A change: the encoder is `depth` of these blocks."""
    return replace(encoder=lambda c: nn.Sequential(*(block(c, **options) for _ in range(c.depth))))


def separate(c):
    """A block with q, k, v and the output in four layers."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.v, self.k, self.out, self.q = (nn.Linear(c.embed_dim, c.embed_dim) for _ in range(4))

        def forward(self, x):
            q, k, v = (p(x).unflatten(-1, (c.num_heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.out(mixed.transpose(1, 2).flatten(2))

    block = EncoderBlock(c.embed_dim, c.num_heads, c.mlp_dim)
    block.attention = Attention()
    return block


class TorchEncoder(nn.Module):
    """torch's own encoder; its blocks are copies of one, so each is drawn anew."""

    def __init__(self, c):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            c.embed_dim, c.num_heads, c.mlp_dim, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, c.depth, enable_nested_tensor=False)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, z):
        return self.encoder(z)


RIGHT_MODEL = {
    "solution": cell(
        check.vision_transformer.solution().source,
        name="/tmp/ipykernel_4711/solution_of_the_model.py",
        Embeddings=Embeddings,
        Encoder=Encoder,
    )["MyVisionTransformer"],
    "the package's": VisionTransformer,
    "of the package's parts": Model,
    "own embeddings": model(replace(embeddings=OwnEmbeddings)),
    "own embeddings, the class token's position apart": model(replace(embeddings=ClassApart)),
    "torch's attention": model(stack(TorchBlock)),
    "torch's encoder": model(replace(encoder=TorchEncoder)),
    "separate q, k, v": model(stack(separate)),
    "own embeddings, torch's attention": model(
        lambda self, c: [replace(embeddings=OwnEmbeddings)(self, c), stack(TorchBlock)(self, c)]
    ),
    "x[:, 0, :]": model(
        pool=lambda self, z: z[:, 0, :] if self.config.pool == "cls" else z[:, 1:, :].sum(1) / (z.shape[1] - 1)
    ),
    "norm registered first": model(
        lambda self, c: (n := self.norm, delattr(self, "norm"), self._modules.update({"norm": n}))
    ),
}


@pytest.mark.parametrize("answer", RIGHT_MODEL.values(), ids=RIGHT_MODEL)
def test_right_model_passes(answer):
    assert_passes(check.vision_transformer, answer)


def normed_after(self, images):
    return self.head(self.norm(self.pool(self.encode(self.embed(images)))))


def blocks_in_a_list(self, c):
    self.blocks = list(self.encoder)
    del self.encoder


def through_list(self, z):
    for block in self.blocks:
        z = block(z)
    return z


class Unadded(OwnEmbeddings):
    def forward(self, images):
        return torch.cat([self.token.expand(len(images), -1, -1), self.patches(images)], dim=1)


class UnaddedToPatches(OwnEmbeddings):
    def forward(self, images):
        positions = self.positions.weight * (torch.arange(self.positions.num_embeddings) == 0)[:, None]
        return Unadded.forward(self, images) + positions


class UnaddedToToken(OwnEmbeddings):
    def patches(self, images):
        return super().patches(images) + self.positions.weight[-self.count(images) :]

    def count(self, images):
        return images.shape[2] * images.shape[3] // self.P**2

    forward = Unadded.forward


class OnePositionShort(UnaddedToToken):
    def __init__(self, c):
        super().__init__(c)
        self.positions = nn.Embedding(c.num_patches, c.embed_dim)


class MadeInForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c

    def forward(self, z):
        return Encoder(self.config)(z)


class TokenLast(OwnEmbeddings):
    def forward(self, images):
        x = torch.cat([self.patches(images), self.token.expand(len(images), -1, -1)], dim=1)
        return x + self.positions(torch.arange(x.shape[1]))


class ColumnByColumn(OwnEmbeddings):
    def patches(self, images):
        h = images.shape[2] // self.P
        return super().patches(images).unflatten(1, (h, -1)).transpose(1, 2).flatten(1, 2)


class NoPositions(OwnEmbeddings):
    def __init__(self, c):
        super().__init__(c)
        del self.positions

    def forward(self, images):
        return Unadded.forward(self, images)


def deepcopied(c):
    block = TorchBlock(c)
    return nn.Sequential(*(copy.deepcopy(block) for _ in range(c.depth)))


def as_it_comes(c):
    return nn.TransformerEncoderLayer(c.embed_dim, c.num_heads, c.mlp_dim)


class Unscaled(nn.Module):
    def forward(self, q, k, v):
        return (q @ k.mT).softmax(-1) @ v, None


WRONG_MODEL = {
    "softmax inside": (model(forward=lambda self, x: Model.forward(self, x).softmax(-1)), "There is a softmax inside"),
    "log-softmax inside": (
        model(forward=lambda self, x: Model.forward(self, x).log_softmax(-1)),
        "a log-softmax inside",
    ),
    "final norm unused": (
        model(forward=lambda self, x: self.head(self.pool(self.encode(self.embed(x))))),
        "The final LayerNorm is there",
    ),
    "final norm missing": (model(replace(norm=lambda c: nn.Identity())), "Is the final one missing?"),
    "last token": (model(pool=lambda self, z: z[:, -1]), "The head reads the last token"),
    "token 1": (model(pool=lambda self, z: z[:, 1]), "The head reads token 1"),
    "mean of all": (model(pool=lambda self, z: z.mean(1)), "mean of all tokens, the class token among them"),
    "always the mean": (
        model(pool=lambda self, z: z[:, 1:].mean(1)),
        "The head reads the mean of the patches, whatever",
    ),
    "always the class token": (model(pool=lambda self, z: z[:, 0]), "The head reads the class token, whatever"),
    "the mean includes the class token": (
        model(pool=lambda self, z: z[:, 0] if self.config.pool == "cls" else z.mean(1)),
        "mean of all tokens, the class token among them",
    ),
    "largest number": (
        model(pool=lambda self, z: z[:, 0] if self.config.pool == "cls" else z[:, 1:].max(1).values),
        "The head reads the largest of the patches' numbers",
    ),
    "relu before the head": (
        model(forward=lambda self, x: self.head(self.pool(self.norm(self.encode(self.embed(x)))).relu())),
        "There is a ReLU between the final norm and the head",
    ),
    "norm before the blocks": (
        model(forward=lambda self, x: self.head(self.pool(self.encode(self.norm(self.embed(x)))))),
        "The final norm comes before the blocks",
    ),
    "norm before each block": (
        model(encode=lambda self, z: [z := block(self.norm(z)) for block in self.encoder][-1]),
        "The final norm is also before each block",
    ),
    "a residual around each block": (
        model(encode=lambda self, z: [z := z + block(z) for block in self.encoder][-1]),
        "A block's input is added to its result once more",
    ),
    "an encoder made in forward": (model(replace(encoder=MadeInForward)), "Layers or parameters are made in `forward`"),
    "dropout whatever the config says": (
        model(
            lambda self, c: setattr(self, "drop", nn.Dropout(0.1)), encode=lambda self, z: self.drop(self.encoder(z))
        ),
        "all dropout rates of its config are 0",
    ),
    "norm after the mean": (model(forward=normed_after), "The final norm comes after the mean"),
    "every token classified": (model(pool=lambda self, z: z), "wrong shape"),
    "positions never added": (model(replace(embeddings=Unadded)), "The positions are there, and never added"),
    "positions missing": (
        model(replace(embeddings=NoPositions)),
        "for the positions. Among its parameters there are 0",
    ),
    "positions for the patches only": (model(replace(embeddings=UnaddedToToken)), "The class token gets no position"),
    "a position too few": (model(replace(embeddings=OnePositionShort)), "The class token gets no position"),
    "positions for the class token only": (model(replace(embeddings=UnaddedToPatches)), "the patches none"),
    "class token last": (
        model(replace(embeddings=TokenLast)),
        "The class token stands last, and the head reads the first",
    ),
    "class token last, read there": (
        model(replace(embeddings=TokenLast), pool=lambda self, z: z[:, -1]),
        "The class token stands last, not first",
    ),
    "column by column": (model(replace(embeddings=ColumnByColumn)), "column by column"),
    "a second projection": (
        model(
            lambda self, c: setattr(self, "more", nn.Linear(c.embed_dim, c.embed_dim)),
            embed=lambda self, x: self.more(self.embeddings(x)),
        ),
        "Is there a second one after the patch projection?",
    ),
    "encoder forgotten": (model(encode=lambda self, z: z), "The encoder's result is not used"),
    "first block only": (model(encode=lambda self, z: self.encoder[0](z)), "Only the first block's result"),
    "each block on the embeddings": (
        model(encode=lambda self, z: [b(z) for b in self.encoder][-1]),
        "only the last one counts",
    ),
    "first block again": (
        model(encode=lambda self, z: self.encoder[0](self.encoder[0](z))),
        "The first block is applied again and again",
    ),
    "blocks backwards": (model(encode=lambda self, z: self.encoder[0](self.encoder[1](z))), "in the opposite order"),
    "one block for all": (
        model(replace(encoder=lambda c: nn.Sequential(*[TorchBlock(c)] * c.depth))),
        "All 2 places share one block's weights",
    ),
    "one block too few": (
        model(replace(encoder=lambda c: nn.Sequential(*(TorchBlock(c) for _ in range(1, c.depth))))),
        "yours has those of 1.",
    ),
    "torch's block, as it comes": (
        model(replace(encoder=lambda c: nn.Sequential(*(as_it_comes(c) for _ in range(c.depth))))),
        "Inside the blocks. Two things: the norm comes after the sum",
    ),
    "blocks copied": (model(replace(encoder=deepcopied)), "All blocks start with the same weights"),
    "blocks in a list": (model(blocks_in_a_list, encode=through_list), "in a plain Python list"),
    "relu": (model(stack(TorchBlock, activation=nn.ReLU)), "Inside the blocks. In the MLP: The activation is ReLU"),
    "batch_first forgotten": (model(stack(TorchBlock, batch_first=False)), "the class token never sees a patch"),
    "eps": (model(replace(norm=lambda c: nn.LayerNorm(c.embed_dim))), "eps of your LayerNorm is 1e-05"),
    "depth ignored": (
        model(replace(encoder=lambda c: nn.Sequential(*(TorchBlock(c) for _ in range(3))))),
        "yours has those of 3",
    ),
    "depth ignored, the first one": (
        model(replace(encoder=lambda c: nn.Sequential(*(TorchBlock(c) for _ in range(2))))),
        "not at another size. A model of depth 3 has the weights of 3 blocks; yours has those of 2",
    ),
    "mlp_dim ignored": (
        model(
            replace(
                encoder=lambda c: nn.Sequential(*(EncoderBlock(c.embed_dim, c.num_heads, 33) for _ in range(c.depth)))
            )
        ),
        "not at another size. The hidden layer of the MLP has 33 numbers; mlp_dim = 17",
    ),
    "num_classes ignored": (model(replace(head=lambda c: nn.Linear(c.embed_dim, 1000))), "wrong shape"),
    "a head without bias": (
        model(replace(head=lambda c: nn.Linear(c.embed_dim, c.num_classes, bias=False))),
        "7046 parameters",
    ),
    "square images only": (
        model(
            replace(embeddings=lambda c: OwnEmbeddings(c)),
            forward=lambda self, x: Model.forward(self, x[:, :, :, : x.shape[2]]),
        ),
        "not at another size",
    ),
    "detached": (model(encode=lambda self, z: self.encoder(z.detach())), "gradient"),
    "attention without scale": (
        model(lambda self, c: [setattr(block.attention, "strategy", Unscaled()) for block in self.encoder]),
        "Inside the blocks. In the attention: The scores are not divided by √d",
    ),
}


@pytest.mark.parametrize(("answer", "phrase"), WRONG_MODEL.values(), ids=WRONG_MODEL)
def test_wrong_model_is_told_what_is_wrong(answer, phrase):
    assert_wrong(check.vision_transformer, answer, phrase)


@pytest.mark.parametrize(
    ("method", "phrase"),
    [
        (lambda self, x: self.embeddings(x).tanh(), "Already with zeros in all weights of attention"),
        (lambda self, x: self.embeddings(x + x.roll(1, 0)), "somewhere images mix"),
    ],
)
def test_an_unknown_mistake_in_the_model_is_narrowed_down(method, phrase):
    verdict = assert_wrong(check.vision_transformer, model(embed=method), phrase)
    assert "7053 parameters, as many as it should" in verdict.message
    assert "Put the package's `Embeddings` or `Encoder` in place" in verdict.hint


def test_a_block_too_few_is_not_said_to_be_shared():
    short = model(replace(encoder=lambda c: nn.Sequential(*(TorchBlock(c) for _ in range(1, c.depth)))))
    assert "share" not in check.vision_transformer(short).message


def test_an_untouched_model_is_not_attempted():
    source = "class Mine(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
    answer = cell(source + "    def forward(self, images):\n        raise NotImplementedError")["Mine"]
    assert_not_attempted(check.vision_transformer, answer)


# Parameters counted


def counted(c):
    with torch.device("meta"):
        return sum(p.numel() for p in VisionTransformer(c).parameters())


def counter(
    patch_bias=1, token=1, tokens=0, qkv=3, qkv_bias=3, out_bias=1, mlp_bias=1, norms=2, final=2, head_bias=1, norm=2
):
    """A count by arithmetic in which each piece can be got wrong."""

    def count(c):
        D, M = c.embed_dim, c.mlp_dim
        embeddings = c.patch_dim * D + patch_bias * D + token * D + (c.num_tokens + tokens) * D
        attention = qkv * D * D + qkv_bias * D + D * D + out_bias * D
        block = attention + 2 * D * M + mlp_bias * (M + D) + norms * norm * D
        return embeddings + c.depth * block + final * D + D * c.num_classes + head_bias * c.num_classes

    return count


WRONG_COUNT = {
    "no class token": (counter(token=0), "the class token or the bias of the patch projection"),
    "position without the class token": (counter(tokens=-1), "the position of the class token"),
    "qkv counted once": (counter(qkv=1), "two of the matrices of q, k and v in each block: missing"),
    "biases of qkv": (counter(qkv_bias=0), "the biases of q, k and v: missing"),
    "bias of the output": (counter(out_bias=0), "the bias of attention's output projection"),
    "bias of the keys": (counter(qkv_bias=2), "one of the biases of q, k and v in each block"),
    "one block too few": (lambda c: counted(c) - block_count(c), "exactly one block: missing"),
    "16·16 pixels": (lambda c: counted(c) + (256 * c.in_channels - c.patch_dim) * c.embed_dim, "with 16·16 pixels"),
    "197 tokens": (lambda c: counted(c) + (197 - c.num_tokens) * c.embed_dim, "always counted for 197 tokens"),
    "h·h": (lambda c: counted(c) + (c.grid[0] ** 2 - c.num_patches) * c.embed_dim, "as high as wide"),
    "w·w": (lambda c: counted(c) + (c.grid[1] ** 2 - c.num_patches) * c.embed_dim, "as wide as high"),
    "q, k, v for each head": (
        lambda c: counted(c) + c.depth * (c.num_heads - 1) * 3 * (c.embed_dim**2 + c.embed_dim),
        "all heads together have 3·D·D weights",
    ),
    "biases of the MLP": (counter(mlp_bias=0), "the MLP's biases: missing"),
    "one norm in a block": (counter(norms=1), "one LayerNorm in each block"),
    "norms without bias": (counter(norm=1), "the biases of the blocks' LayerNorms"),
    "no final norm": (counter(final=0), "the final LayerNorm"),
    "final norm twice": (counter(final=4), "the final LayerNorm"),
    "no bias of the head": (counter(head_bias=0), "the bias of the head: missing"),
    "all linear biases": (
        counter(patch_bias=0, qkv_bias=0, out_bias=0, mlp_bias=0, head_bias=0),
        "every bias of a linear layer: missing",
    ),
    "two things": (counter(final=0, head_bias=0), "Two things together would make this difference"),
    "D biases in the MLP's first layer": (
        lambda c: counted(c) - c.depth * (c.mlp_dim - c.embed_dim),
        "the MLP's first layer is counted with D numbers",
    ),
    "final norm in every block": (
        lambda c: counted(c) + 2 * c.embed_dim * (c.depth - 1),
        "The final LayerNorm is counted once for each block",
    ),
    "channels forgotten": (
        lambda c: counted(c) - c.patch_dim * c.embed_dim + c.patch_size**2 * c.embed_dim,
        "counted without their channels",
    ),
    "q, k, v for one head": (
        lambda c: counted(c) - c.depth * 3 * (c.embed_dim - c.head_dim) * (c.embed_dim + 1),
        "counted for one head only",
    ),
    "pairs": (lambda c: counted(c) + c.depth * c.num_heads * c.num_tokens**2, "weights of each head are counted"),
    "pairs, once for a block": (lambda c: counted(c) + c.depth * c.num_tokens**2, "weights are counted in each block"),
    "all biases": (
        counter(patch_bias=0, qkv_bias=0, out_bias=0, mlp_bias=0, norm=1, final=1, head_bias=0),
        "exactly all biases: missing",
    ),
    "matrices and tokens only": (
        counter(patch_bias=0, qkv_bias=0, out_bias=0, mlp_bias=0, norm=0, final=0, head_bias=0),
        "all biases and LayerNorms: missing",
    ),
    "1000 classes": (
        lambda c: counted(c) + (1000 - c.num_classes) * (c.embed_dim + 1),
        "always counted for 1000 classes",
    ),
    "4·D": (
        lambda c: counted(c) + c.depth * (4 * c.embed_dim - c.mlp_dim) * (2 * c.embed_dim + 1),
        "always counted with 4·D",
    ),
    "no class token for the mean": (
        lambda c: counted(c) - 2 * c.embed_dim * (c.pool == "mean"),
        'the class token and its position where pool="mean"',
    ),
    "a fraction": (lambda c: counted(c) / 1, "a whole number"),
    "one too many": (lambda c: counted(c) + 1, "your count is 1 too high: 86,567,656 expected, got 86,567,657"),
    "B/16 by heart": (lambda c: 86567656, "num_classes 10, pool cls your count is 862,242 too low"),
}


@pytest.mark.parametrize(
    "answer", [solved(check.parameter_count), counted, counter()], ids=["solution", "counted", "arithmetic"]
)
def test_right_count_passes(answer):
    assert_passes(check.parameter_count, answer)


@pytest.mark.parametrize(("answer", "phrase"), WRONG_COUNT.values(), ids=WRONG_COUNT)
def test_wrong_count_is_told_what_is_wrong(answer, phrase):
    assert_wrong(check.parameter_count, answer, phrase)


def test_untouched_counts_are_not_attempted():
    for answer in stubs("config").values():
        assert_not_attempted(check.parameter_count, answer)


def test_every_part_is_counted_at_a_size_of_its_own():
    """Parts that can be told apart are: no two have the same sizes at all configurations, but for the known twins."""
    from vit_tutorial.checks.lesson_05_vision_transformer import CONFIGS, PARTS, count

    assert count(CONFIGS[0]) == 86_567_656  # B/16, as published
    sizes = {}
    for name, size in PARTS.items():
        sizes.setdefault(tuple(size(c) for c in CONFIGS), []).append(name)
    assert max(len(names) for names in sizes.values()) == 4
    assert isinstance(CONFIGS[0], ViTConfig)
