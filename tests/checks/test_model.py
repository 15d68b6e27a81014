"""The checks of lesson 05 on right and wrong answers."""

import copy
from functools import partial, reduce

import torch
from torch import nn

from vit_tutorial import Embeddings, Encoder, EncoderBlock, VisionTransformer, check

from .test_attention import Separate
from .test_embeddings import ClassApart, Right, flattened, parameter, variant
from .test_encoder import Block, attention_of, block, mlp_of, torchs
from .variants import changed, judged, module

RIGHT, WRONG = {}, {}

# A model of the package's parts, whose `forward` and parts the others replace


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.norm = nn.LayerNorm(config.embed_dim, eps=config.norm_eps)
        self.head = nn.Linear(config.embed_dim, config.num_classes)

    def embed(self, images):
        return self.embeddings(images)

    def encode(self, z):
        return self.encoder(z)

    def pool(self, z):
        return z[:, 0] if self.config.pool == "cls" else z[:, 1:].mean(dim=1)

    def forward(self, images):
        return self.head(self.pool(self.norm(self.encode(self.embed(images)))))


model = partial(changed, Model)


def embeddings_of(cls):
    """Embeddings from lesson 02, `cls(image_size, patch_size, in_channels, embed_dim)`."""
    return lambda c: cls(c.image_size, c.patch_size, c.in_channels, c.embed_dim)


def embedding(**changes):
    """A Model whose embeddings differ from `Right` in a step or a part."""
    return model(embeddings=embeddings_of(variant(**changes)))


def blocks_of(cls, depth=None):
    """An encoder of so many blocks from lesson 04, `cls(embed_dim, num_heads, mlp_dim)`."""
    return lambda c: nn.Sequential(*(cls(c.embed_dim, c.num_heads, c.mlp_dim) for _ in range(depth or c.depth)))


def torchs_encoder(c):
    """torch's own encoder; its blocks are copies of one, so each is drawn anew."""
    block = torchs()(c.embed_dim, c.num_heads, c.mlp_dim)
    encoder = nn.TransformerEncoder(block, c.depth, enable_nested_tensor=False)
    for matrix in (p for p in encoder.parameters() if p.ndim > 1):
        nn.init.xavier_uniform_(matrix)
    return encoder


def mean_only(function):
    """The class token where the config asks for it, and otherwise `function` of all tokens."""
    return model(pool=lambda self, z: z[:, 0, :] if self.config.pool == "cls" else function(z))


RIGHT[check.vision_transformer] = {
    "the package's": VisionTransformer,
    "own embeddings": model(embeddings=embeddings_of(flattened("p q c"))),
    "own embeddings, the class token's position apart": model(embeddings=embeddings_of(ClassApart)),
    "torch's attention": model(encoder=blocks_of(Block)),
    "torch's encoder": model(encoder=torchs_encoder),
    "separate q, k, v": model(encoder=blocks_of(attention_of(Separate))),
    "own embeddings, torch's attention": model(embeddings=embeddings_of(flattened("p q c")), encoder=blocks_of(Block)),
    "the sum by N": mean_only(lambda z: z[:, 1:, :].sum(1) / (z.shape[1] - 1)),
    "norm registered last": model(lambda self, c: self._modules.update(norm=self._modules.pop("norm"))),
    "a fixed eps": (
        model(norm=lambda c: nn.LayerNorm(c.embed_dim, eps=1e-6)),
        "the eps of your final LayerNorm is 1e-06",
    ),
}


TOKEN_LAST = {"prepend": lambda self, x: torch.cat([x, self.token(len(x))], dim=1)}


def before_head(function):
    return model(forward=lambda self, x: self.head(function(self.pool(self.norm(self.encode(self.embed(x)))))))


def pretraining_head(D, hidden, K):
    """The head of section 3.1."""
    return nn.Sequential(nn.Linear(D, hidden), nn.Tanh(), nn.Linear(hidden, K))


Unscaled = module(lambda: {}, lambda self, q, k, v: ((q @ k.mT).softmax(-1) @ v, None))


UNKNOWN = "none of the usual mistakes explains them. It has 7053 parameters, as many as it should."
PACKAGE = "Put the package's `Embeddings` or `Encoder` in place"
WRONG[check.vision_transformer] = [
    (model(forward=lambda self, x: Model.forward(self, x).softmax(-1)), "There is a softmax inside"),
    (model(forward=lambda self, x: Model.forward(self, x).log_softmax(-1)), "a log-softmax inside"),
    *((model(forward=lambda self, x, end=end: end(Model.forward(self, x))), f"There is a {end.__name__} after the head")
      for end in (torch.sigmoid, torch.relu, torch.tanh, nn.functional.gelu)),
    (model(forward=lambda self, x: self.head(self.pool(self.encode(self.embed(x))))), "The final LayerNorm is there"),
    (model(norm=lambda c: nn.Identity()), "Is the final one missing?"),
    (model(pool=lambda self, z: z[:, -1]), "The head reads the last token"),
    (model(pool=lambda self, z: z[:, 1]), "The head reads token 1"),
    (model(pool=lambda self, z: z.mean(1)), "mean of all tokens, the class token among them"),
    (model(pool=lambda self, z: z[:, 1:].mean(1)), "The head reads the mean of the patches, whatever"),
    (model(pool=lambda self, z: z[:, 0]), 'With pool="mean": The head reads the class token, whatever'),
    (mean_only(lambda z: z.mean(1)), "mean of all tokens, the class token among them"),
    (mean_only(lambda z: z[:, 1:].max(1).values), "The head reads the largest of the patches' values"),
    (mean_only(lambda z: z[:, 1:].sum(1)), "The head reads the sum of the patches"),
    (mean_only(lambda z: z[:, 2:].mean(1)),
     'With pool="mean": The shape is right. But the values are not those of Eq. 4'),
    (before_head(torch.relu), "There is a ReLU between the final norm and the head"),
    (before_head(torch.tanh), "There is a tanh between the final norm and the head"),
    (model(head=lambda c: pretraining_head(c.embed_dim, c.embed_dim, c.num_classes)),
     "The head has two linear layers, `head.0` and `head.2`"),
    (model(head=lambda c: pretraining_head(c.embed_dim, 2 * c.embed_dim, c.num_classes)),
     "The head has two linear layers, `head.0` and `head.2`"),
    (model(forward=lambda self, x: self.head(self.pool(self.encode(self.norm(self.embed(x)))))),
     "The final norm comes before the blocks"),
    (model(encode=lambda self, z: [z := block(self.norm(z)) for block in self.encoder][-1]),
     "The final norm is also before each block"),
    (model(encode=lambda self, z: [z := z + block(z) for block in self.encoder][-1]),
     "A block's input is added to its result once more"),
    (model(encode=lambda self, z: Encoder(self.config)(z)), "Layers or parameters are made in `forward`"),
    (model(drop=lambda c: nn.Dropout(0.1), encode=lambda self, z: self.drop(self.encoder(z))),
     "all rates in its config are 0"),
    (model(forward=lambda self, x: self.head(self.norm(self.pool(self.encode(self.embed(x)))))),
     "The final norm comes after the mean"),
    (model(pool=lambda self, z: z), "wrong shape"),
    (embedding(place=lambda self, x: x), "The positions are never added"),
    (embedding(place=lambda self, x: x, position=parameter("1 1")),
     "for the positions. Among its parameters there are 0"),
    (embedding(forward=lambda self, x: self.prepend(self.project(x) + self.position[:, 1:])),
     "The class token gets no position"),
    (embedding(position=parameter("1 N D"), forward=lambda self, x: self.prepend(self.place(self.project(x)))),
     "The class token gets no position"),
    (embedding(place=lambda self, x: torch.cat([x[:, :1] + self.position[:, :1], x[:, 1:]], 1)),
     "the patches get none"),
    (embedding(**TOKEN_LAST), "Your class token comes last"),
    (model(embeddings=embeddings_of(variant(**TOKEN_LAST)), pool=lambda self, z: z[:, -1]),
     "The class token comes last, not first, and the head reads it there"),
    (embedding(project=lambda self, x: self.projection(x).mT.flatten(2).mT), "down the columns"),
    (embedding(place=lambda self, x: x + self.position.flip(1)), "The positions are added back to front"),
    (model(lambda self, c: setattr(self.embeddings, "patches", nn.Sequential(self.embeddings.patches, nn.GELU()))),
     "There is a GELU after the projection"),
    (model(more=lambda c: nn.Linear(c.embed_dim, c.embed_dim),
           embed=lambda self, x: self.more(self.embeddings(x))),
     "Is there a second one after the patch projection?"),
    (model(encode=lambda self, z: z), "The encoder's result is not used"),
    (model(encode=lambda self, z: self.encoder[0](z)), "Only the first block's result"),
    (model(encode=lambda self, z: self.encoder(self.encoder(z))), "The encoder is applied more than once"),
    (model(encoder=lambda c: nn.Sequential(*(Encoder(c) for _ in range(c.depth)))),
     "Each `Encoder(config)` has all 2 blocks already"),
    (model(encode=lambda self, z: [b(z) for b in self.encoder][-1]), "only the last one counts"),
    (model(encode=lambda self, z: self.encoder[0](self.encoder[0](z))), "The first block is applied again and again"),
    (model(encode=lambda self, z: self.encoder[0](self.encoder[1](z))), "in the opposite order"),
    (model(lambda self, c: setattr(self, "encoder", nn.Sequential(*[self.encoder[0]] * c.depth))),
     "All 2 places share one block's weights"),
    (model(encoder=blocks_of(Block, depth=1)), "yours has those of 1."),
    (model(encoder=blocks_of(Block, depth=3)), "yours has those of 3"),
    (model(encoder=blocks_of(Block, depth=2)),
     "not at another size. A model of depth 3 has the weights of 3 blocks; yours has those of 2"),
    (model(encoder=blocks_of(nn.TransformerEncoderLayer)),
     "Inside the blocks. Two things: the norm comes after the sum"),
    (model(lambda self, c: setattr(self, "encoder", nn.Sequential(*map(copy.deepcopy, [self.encoder[0]] * c.depth)))),
     "All blocks start with the same weights"),
    (model(lambda self, c: setattr(self, "blocks", list(self._modules.pop("encoder"))),
           encode=lambda self, z: reduce(lambda z, block: block(z), self.blocks, z)),
     "in a plain Python list"),
    (model(encoder=blocks_of(block(mlp=mlp_of("up relu down")))),
     "Inside the blocks. In the MLP: The activation is ReLU"),
    (model(encoder=blocks_of(block(mix=lambda self, y: self.attention(y, y, y)))),
     "`nn.MultiheadAttention` returns (output, weights)"),
    (model(encoder=blocks_of(block(attention=lambda D, h, M: nn.MultiheadAttention(D, h)))),
     "the class token never sees a patch"),
    (model(norm=lambda c: nn.LayerNorm(c.embed_dim)), "eps of your LayerNorm is 1e-05"),
    (model(encoder=blocks_of(lambda D, h, M: EncoderBlock(D, h, 33))),
     "not at another size. The hidden layer of the MLP has 33 values; mlp_dim = 17"),
    (model(head=lambda c: nn.Linear(c.embed_dim, 1000)), "wrong shape"),
    (model(head=lambda c: nn.Linear(c.embed_dim, c.num_classes, bias=False)),
     "there is no bias in `head`: your module has 7046 parameters"),
    (model(embeddings=embeddings_of(Right), forward=lambda self, x: Model.forward(self, x[:, :, :, : x.shape[2]])),
     "not at another size"),
    (model(encode=lambda self, z: self.encoder(z.detach())), "gradient"),
    (model(lambda self, c: [setattr(block.attention, "strategy", Unscaled()) for block in self.encoder]),
     "Inside the blocks. In the attention: The scores are not divided by √d"),
    (model(embed=lambda self, x: self.embeddings(x).sinh()),
     f"Already with zeros in all weights of attention the values are not those of Eqs. 1-4, and {UNKNOWN}", PACKAGE),
    (model(embed=lambda self, x: self.embeddings(x + x.roll(1, 0))),
     f"{UNKNOWN} An image gets another result alone than in a batch: somewhere images mix.", PACKAGE),
]  # fmt: skip


def test_a_block_too_few_is_not_said_to_be_shared():
    assert "share" not in check.vision_transformer(model(encoder=blocks_of(Block, depth=1))).message


# Parameters counted


def counter(more=lambda c: 0, **wrong):
    """A count by arithmetic, in which each piece can be got wrong, or `more(config)` be added."""
    n = {"patch_bias": 1, "token": 1, "tokens": 0, "qkv": 3, "qkv_bias": 3, "out_bias": 1, "mlp_bias": 1, "norms": 2,
         "norm": 2, "final": 2, "head_bias": 1, "rest": 1, **wrong}  # fmt: skip

    def count(c):
        D, M = c.embed_dim, c.mlp_dim
        embeddings = c.patch_dim * D + n["patch_bias"] * D + n["token"] * D + (c.num_tokens + n["tokens"]) * D
        attention = n["qkv"] * D * D + n["qkv_bias"] * D + D * D + n["out_bias"] * D
        rest = 2 * D * M + n["mlp_bias"] * (M + D) + n["norms"] * n["norm"] * D
        blocks = attention * c.depth + rest * (c.depth if n["rest"] else 1)
        return embeddings + blocks + n["final"] * D + (D + n["head_bias"]) * c.num_classes + more(c)

    return count


def of_embeddings(c):
    return (c.patch_dim + 2 + c.num_tokens) * c.embed_dim


def of_block(c):
    D, M = c.embed_dim, c.mlp_dim
    return 4 * (D * D + D) + 2 * D * M + M + 5 * D


NO_BIASES = {"patch_bias": 0, "qkv_bias": 0, "out_bias": 0, "mlp_bias": 0, "head_bias": 0}
RIGHT[check.parameter_count] = {"arithmetic": counter()}
WRONG[check.parameter_count] = [
    (counter(token=0), "without the class token, the position of the class token, the bias of the patch projection, or "
     "half of the final LayerNorm."),
    (counter(tokens=-1), "the position of the class token"),
    (counter(token=0, tokens=-1), "without the class token and its position, or the final LayerNorm."),
    (counter(final=0), "without the class token and its position, or the final LayerNorm."),
    (counter(final=0, patch_bias=0),
     "without the class token, the position of the class token, the bias of the patch projection, or half of the final "
     "LayerNorm, and without the class token and its position, or the final LayerNorm."),
    (counter(qkv=1), "without two of the matrices of q, k and v"),
    (counter(qkv=2), "without one of the matrices of q, k and v"),
    (counter(qkv_bias=0), "without the biases of q, k and v"),
    (counter(out_bias=0), "the bias of attention's output projection"),
    (counter(qkv_bias=2), "one of the biases of q, k and v"),
    (counter(mlp_bias=0), "without the MLP's biases"),
    (counter(qkv_bias=0, out_bias=0, mlp_bias=0), "the biases of attention and MLP"),
    (counter(norms=1), "one of the two LayerNorms of a block"),
    (counter(norm=1), "the biases of the blocks' LayerNorms"),
    (counter(final=4), "with the class token and its position, or the final LayerNorm counted twice"),
    (counter(head_bias=0), "without the bias of the head"),
    (counter(**NO_BIASES), "without the biases of all linear layers"),
    (counter(**NO_BIASES, norm=1, final=1), "without all biases."),
    (counter(**NO_BIASES, norm=0, final=0), "without all biases and LayerNorms"),
    (counter(final=0, head_bias=0), "Two mistakes together give exactly this count: without the class token and its "
     "position, or the final LayerNorm, and without the bias of the head."),
    (counter(rest=0), "with the MLP and the blocks' LayerNorms counted for one block only"),
    (counter(lambda c: (c.depth - 1) * of_embeddings(c)), "with the embeddings counted for every block"),
    (counter(lambda c: (c.depth - 1) * (of_embeddings(c) + 2 * c.embed_dim + (c.embed_dim + 1) * c.num_classes)),
     "if everything is counted for every block"),
    (counter(lambda c: c.embed_dim - c.num_classes), "if the head has D biases"),
    (counter(lambda c: -of_block(c)), "if one block is missing"),
    (counter(lambda c: (1 - c.depth) * of_block(c)), "if only one block is counted"),
    (counter(lambda c: (12 - c.depth) * of_block(c)), "if the depth is always 12"),
    (counter(lambda c: c.depth * (c.num_heads - 1) * of_block(c)), "multiplied by the number of heads too"),
    (counter(lambda c: (256 * c.in_channels - c.patch_dim) * c.embed_dim), "with 16·16 pixels"),
    (counter(lambda c: (c.patch_size**2 - c.patch_dim) * c.embed_dim), "without its channels"),
    (counter(lambda c: (3 - c.in_channels) * c.patch_size**2 * c.embed_dim), "with 3 channels"),
    (counter(lambda c: (197 - c.num_tokens) * c.embed_dim), "always counted for 197 tokens"),
    (counter(lambda c: (c.grid[0] ** 2 - c.num_patches) * c.embed_dim), "as high as wide"),
    (counter(lambda c: (c.grid[1] ** 2 - c.num_patches) * c.embed_dim), "as wide as high"),
    (counter(lambda c: c.depth * (c.num_heads - 1) * 3 * (c.embed_dim**2 + c.embed_dim)),
     "multiplied by the number of heads: all heads together have 3·D·D weights"),
    (counter(lambda c: -c.depth * 3 * (c.embed_dim - c.head_dim) * (c.embed_dim + 1)), "counted for one head only"),
    (counter(lambda c: c.depth * (c.embed_dim - c.mlp_dim)), "both biases of the MLP have D values"),
    (counter(lambda c: c.depth * (c.mlp_dim - c.embed_dim)), "both biases of the MLP have mlp_dim values"),
    (counter(lambda c: 2 * c.embed_dim * (c.depth - 1)), "or the final LayerNorm counted for every block"),
    (counter(lambda c: c.depth * c.num_heads * c.num_tokens**2), "weights of each head are counted"),
    (counter(lambda c: c.depth * c.num_tokens**2), "weights are counted for each block"),
    (counter(lambda c: (1000 - c.num_classes) * (c.embed_dim + 1)), "always counted for 1000 classes"),
    (counter(lambda c: c.depth * (4 * c.embed_dim - c.mlp_dim) * (2 * c.embed_dim + 1)), "always counted with 4·D"),
    (counter(lambda c: -2 * c.embed_dim * (c.pool == "mean")), 'a model with pool="mean" has no class token'),
    (counter(lambda c: 0.0), "a whole number"),
    (counter(lambda c: 1), "your count is 1 too high: 86,567,656 expected, got 86,567,657"),
    (lambda c: 86567656, "num_classes 10, pool cls your count is 862,242 too low"),
    (counter(token=0, qkv_bias=0, head_bias=0), "attention: 28,348,416 the MLP: 56,669,184"),
    (lambda c: sum(p.numel() for p in VisionTransformer(c).parameters()),
     "Every count is right, but your function builds a model to get it"),
]  # fmt: skip


test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)
