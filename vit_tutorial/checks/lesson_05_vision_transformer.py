"""Lesson 05: the whole Vision Transformer, and how many parameters it has."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from ..analysis.before_training import first_tests
from ..config import ViTConfig
from ..embeddings import Embeddings
from ..encoder import Encoder
from ..experiments.planted_bugs import BrokenModel
from .exercise import Exercise, noise
from .lesson_02_embeddings import embeddings
from .lesson_04_encoder_block import NORM, encoder_block, in_training
from .modules import CompositeExercise, ModuleExercise
from .running import Wrong
from .task import Hunt, require_one_of


class MyVisionTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.taken = slice(0, 1) if config.pool == "cls" else slice(1, None)  # the class token, or the patches
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.norm = nn.LayerNorm(config.embed_dim, eps=config.norm_eps)
        self.head = nn.Linear(config.embed_dim, config.num_classes)

    def forward(self, images):
        z = self.embeddings(images)  # Eq. 1: (B, 1+N, D)
        z = self.encoder(z)  # Eqs. 2-3: (B, 1+N, D)
        y = self.norm(z)[:, self.taken].mean(dim=1)  # Eq. 4: (B, D)
        return self.head(y)  # (B, K)


HEAD = ModuleExercise(
    nn.Linear,
    task="a linear layer",
    hint="",
    trials=[((20, 7), noise(3, 20)), ((10, 4), noise(2, 10))],
    slips={
        "This is the paper's head for pre-training, with a tanh between (section 3.1). Here it is one layer, D to K.":
            lambda D, K: nn.Sequential(nn.Linear(D, D), nn.Tanh(), nn.Linear(D, K)),
    },
    shape="(B, K)",
)  # fmt: skip

ACTIVATIONS = {"ReLU": "F.relu", "GELU": "F.gelu", "tanh": "torch.tanh", "sigmoid": "torch.sigmoid"}
ENCODED, TWICE = "z = self.encoder(z)", "for _ in self.encoder:\n            z = self.encoder(z)"
LOOP = "for block in self.encoder:\n            z = "
POOLED = "self.norm(z)[:, self.taken].mean(dim=1)"
FIRST = ViTConfig(9, 3, 2, num_classes=7, embed_dim=20, depth=2, num_heads=5, mlp_dim=33)
SECOND = ViTConfig((4, 8), 2, 3, num_classes=5, embed_dim=14, depth=3, num_heads=2, mlp_dim=17)
MEAN = ViTConfig((6, 4), 2, 1, num_classes=4, embed_dim=15, depth=2, num_heads=3, mlp_dim=22, pool="mean")


def images_for(c):
    return noise(3, c.in_channels, *(side * c.patch_size for side in c.grid))


def sized(**sizes):
    return (replace(FIRST, **sizes),)


def blocks_of(model):
    return encoder_block.judged_in(model.encoder)


def one_block_each(model, config):
    """Raise Wrong unless the model has a block of its own for each layer."""
    L, found = config.depth, blocks_of(model)
    if len(found) != L:
        more = " One `Encoder(config)` has all the blocks already." if len(found) == L * L else ""
        raise Wrong(f"A model of depth {L} has {L} blocks; yours has {len(found)}.{more}")
    if len(set(found)) < L:
        raise Wrong(
            "All places share one block's weights, as `[block] * depth` makes it. Build a new block for each layer: "
            "`nn.ModuleList(EncoderBlock(...) for _ in range(config.depth))`."
        )


def in_training_and_at_start(cls):
    """Raise Wrong for dropout or equal blocks; return a remark on an eps that is written into the code."""
    for config in (FIRST, SECOND):
        one_block_each(cls(config), config)
    model = cls(FIRST).eval()
    if in_training(model, images_for(FIRST)):
        raise Wrong(
            "In training your model gives other results than in eval mode, although all rates in its config are 0. Use "
            "`nn.Dropout(config.dropout)`, or none."
        )
    starts = [[p for p in block.parameters() if p.ndim > 1 and p.std() > 0] for block in blocks_of(model)]
    if any(a.equal(b) for a, b in zip(*starts, strict=True)):
        raise Wrong(
            "All blocks start with the same weights: copies of one block, or the same seed for each. Make a new block "
            "for each layer: `copy.deepcopy` copies the weights too."
        )
    eps = getattr(cls(replace(FIRST, norm_eps=1e-3)).norm, "eps", 1e-3)
    fixed = f"One thing for later: the eps of your final LayerNorm is {eps:g}, whatever `config.norm_eps` says. "
    return fixed + "`nn.LayerNorm(config.embed_dim, eps=config.norm_eps)` reads it." if eps != 1e-3 else ""


class ModelExercise(CompositeExercise):
    def where_right(self, trials, number):
        return POOL if trials[number].args == (MEAN,) else super().where_right(trials, number)


POOL = 'Right with pool="cls". This is pool="mean": the mean of tokens 1 to N, the patches, after the norm.'

vision_transformer = ModelExercise(
    MyVisionTransformer,
    task="`cls(config)`, an nn.Module: images to logits, (B, C, H, W) → (B, K).",
    trials=[((c,), images_for(c)) for c in (FIRST, SECOND, MEAN)],
    parts={
        "embeddings": (embeddings, lambda size, P, C, D: sized(
            image_size=size, patch_size=P, in_channels=C, embed_dim=D, num_heads=1)),
        "encoder": (encoder_block, lambda D, h, M: sized(embed_dim=D, num_heads=h, mlp_dim=M)),
        "norm": (NORM, lambda D: sized(embed_dim=D)),
        "head": (HEAD, lambda D, K: sized(embed_dim=D, num_classes=K)),
    },
    slips={
        "There is a softmax inside the model: return logits, values of any size. `F.cross_entropy` takes the softmax.":
            [("self.head(y)", f"self.head(y).{softmax}(-1)") for softmax in ("softmax", "log_softmax")],
        **{f"There is a {name} after the head: return logits, values of any size.":
               ("self.head(y)", f"{code}(self.head(y))") for name, code in ACTIVATIONS.items()},
        **{f"There is a {name} between the final norm and the head: the head is one linear layer.":
               ("self.head(y)", f"self.head({code}(y))") for name, code in ACTIVATIONS.items()},
        'The two values of `config.pool` are swapped: "cls" takes the class token, "mean" the mean of the patches.':
            ('"cls"', '"mean"'),
        "The head reads the class token, whatever `config.pool` says.": ("slice(1, None)", "slice(0, 1)"),
        "The head reads the mean of the patches, whatever `config.pool` says.": ("slice(0, 1)", "slice(1, None)"),
        "The head reads the mean of all tokens, the class token among them.":
            [("slice(1, None)", "slice(None)"), (POOLED, "self.norm(z).mean(dim=1)")],
        "The head reads the last token, a patch, not the class token.":
            [("slice(0, 1)", "slice(-1, None)"), (POOLED, "self.norm(z)[:, -1]")],
        "The head reads token 1, the first patch, not the class token.":
            [("slice(0, 1)", "slice(1, 2)"), (POOLED, "self.norm(z)[:, 1]")],
        "The head reads the sum of the patches, not their mean.": (".mean(dim=1)", ".sum(dim=1)"),
        "The head reads the largest of the patches' values, not their mean.": (".mean(dim=1)", ".amax(dim=1)"),
        "The final LayerNorm is there, and `forward` does not use it.": (POOLED, POOLED.replace("self.norm(z)", "z")),
        "The final norm comes after the mean: norm first, then the mean of the patches.":
            (POOLED, "self.norm(z[:, self.taken].mean(dim=1))"),
        "The encoder's result is not used: the head sees the embeddings.": (ENCODED, "self.encoder(z)"),
        "Only the first block's result reaches the head: is there a `return` inside the loop?":
            (ENCODED, "z = self.encoder[0](z)"),
        "Each block gets the embeddings again: only the last one counts. `for block in self.encoder: z = block(z)`.":
            (ENCODED, "z = self.encoder[-1](z)"),
        "The first block is applied again and again, the others never.":
            [(ENCODED, f"{LOOP}self.encoder[0](z)"), (ENCODED, "z = self.encoder[0](self.encoder[0](z))")],
        "The blocks come in the opposite order.":
            (ENCODED, "for block in reversed(self.encoder):\n            z = block(z)"),
        "The encoder is applied more than once: `Encoder(config)` has all the blocks, call it once.":
            [(ENCODED, "z = self.encoder(self.encoder(z))"), (ENCODED, TWICE)],
        "The final norm comes before the blocks. It belongs after the last one.":
            (ENCODED, "z = self.encoder(self.norm(z))", "y = self.norm(z)", "y = z"),
        "The final norm is also before each block: a block has its own norms.":
            (ENCODED, f"{LOOP}block(self.norm(z))"),
        "The final norm is inside the loop: it comes once, after the last block.":
            [(ENCODED, f"{LOOP}self.norm(block(z))"),
             (ENCODED, f"{LOOP}self.norm(block(z))", "y = self.norm(z)", "y = z")],
        "A block's input is added to its result once more: the block adds it already, in Eqs. 2 and 3.":
            (ENCODED, f"{LOOP}z + block(z)"),
    },
    hint="Four lines: `z = embeddings(images)`, `z = encoder(z)`, `y = norm(z)[:, 0]` (or the mean of the patches, as "
    "`config.pool` says), `return head(y)`.",
    shape="(B, K)",
    more=in_training_and_at_start,
    imports="from vit_tutorial import Embeddings, Encoder",
)  # fmt: skip


def my_parameter_count(config):
    D, M = config.embed_dim, config.mlp_dim
    embeddings = config.patch_dim * D + D + D + config.num_tokens * D  # projection, class token, positions
    attention = D * 3 * D + 3 * D + D * D + D  # q, k, v, output
    mlp = D * M + M + M * D + D
    block = 2 * D + attention + 2 * D + mlp
    head = D * config.num_classes + config.num_classes
    return embeddings + config.depth * block + 2 * D + head  # 2·D: the final norm


CONFIGS = [
    ViTConfig.named("B/16"),
    ViTConfig.named("B/32", image_size=(64, 96), num_classes=10),
    ViTConfig((8, 12), 2, 1, num_classes=7, embed_dim=20, depth=3, num_heads=5, mlp_dim=33, pool="mean"),
    ViTConfig(9, 3, 2, num_classes=11, embed_dim=14, depth=2, num_heads=2, mlp_dim=15),
]

# What can be left out or counted too often, in the words of the solution. Parts of one size share a line.
PIECES = {
    "the class token (or its position, the bias of the patch projection, half of the final LayerNorm)": "D",
    "the final LayerNorm (or the class token and its position)": "2 * D",
    "the bias of the head": "config.num_classes",
    "the head": "head",
    "the positions": "config.num_tokens * D",
    "the patch projection": "(config.patch_dim * D + D)",
    "the MLPs": "config.depth * mlp",
    "the MLP's second layer": "config.depth * (M * D + D)",
    "attention": "config.depth * attention",
    "attention's output projection": "config.depth * (D * D + D)",
    "half of every LayerNorm: each has a weight and a bias of D values": "(config.depth * 2 * D + D)",
    "the embeddings": "embeddings",
    "the biases of q, k and v": "config.depth * 3 * D",
    "the bias of attention's output projection (or of the MLP's second layer)": "config.depth * D",
    "one of the two LayerNorms of a block (or the biases of both)": "config.depth * 2 * D",
    "the blocks' LayerNorms (or attention's four biases)": "config.depth * 4 * D",
    "the MLP's biases": "config.depth * (M + D)",
    "the biases of attention and MLP": "config.depth * (M + 5 * D)",
    "one of the matrices of q, k and v (or the weights of attention's output projection)": "config.depth * D * D",
    "two of the matrices of q, k and v": "config.depth * 2 * D * D",
    "one of the two matrices of the MLP": "config.depth * D * M",
    "the biases of all linear layers": "(config.depth * (M + 5 * D) + D + config.num_classes)",
    "all biases": "(config.depth * (M + 7 * D) + 2 * D + config.num_classes)",
    "all biases and LayerNorms": "(config.depth * (M + 9 * D) + 3 * D + config.num_classes)",
}
END, QKV = "+ head  #", "D * 3 * D + 3 * D"
FORGOTTEN = {  # often two of these at once
    "the class token": "D",
    "the final LayerNorm": "2 * D",
    "the bias of the head": "config.num_classes",
    "the positions": "config.num_tokens * D",
    "the biases of q, k and v": "config.depth * 3 * D",
    "the blocks' LayerNorms": "config.depth * 4 * D",
}
MISCOUNTS = {  # each pair (old, new) edits the solution above
    **{f"without {piece}": (END, f"+ head - {size}  #") for piece, size in PIECES.items()},
    **{
        f"without {one}, and without {other}": (END, f"+ head - {FORGOTTEN[one]} - {FORGOTTEN[other]}  #")
        for one, other in combinations(FORGOTTEN, 2)
    },
    **{f"with {piece} counted twice": (END, f"+ head + {size}  #") for piece, size in PIECES.items()},
    'if a model with pool="mean" has no class token': (END, "+ head - 2 * D * (config.pool == 'mean')  #"),
    "if the head is always counted for 1000 classes": ("config.num_classes", "1000"),
    "if the head has D biases: it has one for each of the K classes": ("config.num_classes\n", "D\n"),
    "if the MLP is always counted with 4·D instead of mlp_dim": ("config.mlp_dim", "4 * config.embed_dim"),
    "if both biases of the MLP have mlp_dim values: the second one has D": ("M * D + D", "M * D + M"),
    "if both biases of the MLP have D values: the first one has mlp_dim": ("D * M + M", "D * M + D"),
    "if the embeddings are counted for every block":
        ("embeddings + config.depth * block", "config.depth * (embeddings + block)"),
    "if everything is counted for every block":
        ("embeddings + config.depth * block + 2 * D + head", "config.depth * (embeddings + block + 2 * D + head)"),
    "if images are always counted with 3 channels": ("config.patch_dim", "3 * config.patch_size**2"),
    "if a patch is counted without its channels: it has C·P·P values": ("config.patch_dim", "config.patch_size**2"),
    "if positions are always counted for 197 tokens": ("config.num_tokens", "197"),
    "if the grid is taken to be square, as high as wide: N = h·h": ("config.num_tokens", "(1 + config.grid[0] ** 2)"),
    "if the depth is always 12": ("config.depth", "12"),
    "if only one block is counted": ("config.depth", "1"),
    "if one block is missing": ("config.depth", "(config.depth - 1)"),
    "if the blocks are multiplied by the number of heads too": ("config.depth", "config.num_heads * config.depth"),
    "if q, k and v are multiplied by the number of heads: all heads together have 3·D·D weights":
        (QKV, f"config.num_heads * ({QKV})"),
    "if q, k and v are counted for one head only: all heads together have 3·D·D weights":
        (QKV, f"({QKV}) // config.num_heads"),
}  # fmt: skip


def by_arithmetic(function):
    """Raise Wrong for a function that builds a model to count."""
    built = []
    with register_module_parameter_registration_hook(lambda *parameter: built.append(parameter)):
        function(CONFIGS[-1])
    if built:
        raise Wrong(
            "Every count is right, but your function builds a model to get it. Can you do it by arithmetic? Write down "
            "how many parameters each part has, from the fields of the config, and add them up."
        )


parameter_count = Exercise(
    my_parameter_count,
    task="`fn(config) -> int`: how many parameters the model of a ViTConfig has, by arithmetic.",
    trials=[(config,) for config in CONFIGS],
    slips={f"You get exactly this count {text}.": change for text, change in MISCOUNTS.items()},
    more=by_arithmetic,
    hint="Go through the model part by part. A linear layer from a to b values has a·b + b, a LayerNorm 2·D. Do not "
    "forget the biases, the class token, its position, and the final norm.",
)


def my_find_bug(broken, images, parameters):
    measured = first_tests(broken.model, images, broken.labels, patch_size=4)
    missing = parameters - sum(p.numel() for p in broken.model.parameters())
    return measured, missing  # if neither tells: silence the branches, then the blocks, and look at the labels


SHOWS = {
    "head drawn with std 1": "the first loss is far from ln 8",
    "softmax inside the model": "the eight pictures are memorised, and the loss stays above 1.2",
    "attention across the batch": "eight pictures cannot be memorised",
    "across, mean of patches": "one picture's logits depend on another picture's pixels",
    "positions never added": "a shuffle of the patches changes no logit",
    "blocks in a plain list": "the parameters of all blocks are missing from the count",
    "no final norm": "2·D parameters are missing from the count",
    "no residual": "a block with silent branches returns zeros, and not what it was given",
    "head reads the last token": "with silent blocks and a random head the answer still depends on the picture",
    "labels shifted by one": "the labels do not fit the pictures",
}


def judge_bug(broken: BrokenModel, bug: str) -> str:
    """Raise Wrong with the test that speaks against this bug."""
    if not isinstance(broken, BrokenModel):
        raise Wrong("The check needs what `draw_bug` returned, and then the name of the bug.")
    require_one_of(bug, SHOWS)
    if bug != broken.bug:
        raise Wrong(
            f"It is not “{bug}”. With that bug {SHOWS[bug]}. Some bugs show in several tests: look at all of them."
        )
    return f"{bug}. The shortest way to it: {SHOWS[bug]}."


find_bug = Hunt(
    my_find_bug,
    task="`check.find_bug(broken, bug)`: the bug in a model that `draw_bug` has made.",
    judge=judge_bug,
    hint="Run the four tests on `broken.model` with `broken.labels`, and compare each measurement with the first row "
    "of the table. If all four pass, count the parameters, silence the branches, silence the blocks, and look at the "
    "pictures with their labels.",
)
