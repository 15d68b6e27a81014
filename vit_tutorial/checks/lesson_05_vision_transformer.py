"""Lesson 05: the whole Vision Transformer, and how many parameters it has."""

from __future__ import annotations

import re
from collections import ChainMap
from dataclasses import replace
from functools import cache
from itertools import combinations, islice, permutations

import torch  # noqa: F401 - the slips use it
import torch.nn.functional as F  # noqa: F401 - the slips use it
from einops import rearrange
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from ..config import ViTConfig
from ..embeddings import Embeddings
from ..encoder import Encoder
from .exercise import Exercise, edited, noise
from .lesson_04_encoder_block import block_readings, encoder_block, odd_mlp, unseen
from .modules import ModuleExercise, layers
from .running import Wrong, call, difference


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


POOLED = "self.norm(z)[:, self.taken].mean(dim=1)"
NORM = "self.norm = nn.LayerNorm(config.embed_dim, eps=config.norm_eps)"
ACTIVATIONS = {"ReLU": "F.relu", "GELU": "F.gelu", "tanh": "torch.tanh"}
SQUASHED = ACTIVATIONS | {"sigmoid": "torch.sigmoid"}
HEAD_SLIPS = {
    "There is a softmax inside the model: return logits, values of any size. `F.cross_entropy` takes the softmax.":
        ("self.head(y)", "self.head(y).softmax(-1)"),
    "There is a log-softmax inside the model: return logits, values of any size. `F.cross_entropy` takes it.":
        ("self.head(y)", "self.head(y).log_softmax(-1)"),
    **{f"There is a {name} between the final norm and the head: the head is one linear layer.":
           ("self.head(y)", f"self.head({code}(y))") for name, code in ACTIVATIONS.items()},
    **{f"There is a {name} after the head: return logits, values of any size.":
           ("self.head(y)", f"{code}(self.head(y))") for name, code in SQUASHED.items()},
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
    "There is no final LayerNorm: Eq. 4 norms what the last block returns.": (NORM, "self.norm = nn.Identity()"),
    "The final norm comes after the mean: norm first, then the mean of the patches.":
        (POOLED, "self.norm(z[:, self.taken].mean(dim=1))"),
}  # fmt: skip

ENCODED, TWICE = "z = self.encoder(z)", "for _ in self.encoder:\n            z = self.encoder(z)"
LOOP = "for block in self.encoder:\n            z = "
DEPTH_SLIPS = {
    "The encoder's result is not used: the head sees the embeddings.": (ENCODED, "self.encoder(z)"),
    "Only the first block's result reaches the head: is there a `return` inside the loop?":
        (ENCODED, "z = self.encoder[0](z)"),
    "Each block gets the embeddings again: only the last one counts. `for block in self.blocks: z = block(z)`.":
        (ENCODED, "z = self.encoder[-1](z)"),
    "The first block is applied again and again, the others never.":
        [(ENCODED, f"{LOOP}self.encoder[0](z)"), (ENCODED, "z = self.encoder[0](self.encoder[0](z))")],
    "The blocks come in the opposite order.":
        (ENCODED, "for block in reversed(self.encoder):\n            z = block(z)"),
    "The encoder is applied more than once: `Encoder(config)` has all the blocks, call it once.":
        [(ENCODED, "z = self.encoder(self.encoder(z))"), (ENCODED, TWICE)],
    "The final norm comes before the blocks. It belongs after the last one.":
        (ENCODED, "z = self.encoder(self.norm(z))", "y = self.norm(z)", "y = z"),
    "The final norm is also before each block: a block has its own norms.": (ENCODED, f"{LOOP}block(self.norm(z))"),
    "The final norm is inside the loop: it comes once, after the last block.":
        [(ENCODED, f"{LOOP}self.norm(block(z))"), (ENCODED, f"{LOOP}self.norm(block(z))", "y = self.norm(z)", "y = z")],
    "A block's input is added to its result once more: the block adds it already, in Eqs. 2 and 3.":
        (ENCODED, f"{LOOP}z + block(z)"),
    "All places share one block's weights, as `[block] * depth` makes it. Build a new block for each layer: "
    "`nn.ModuleList(EncoderBlock(...) for _ in range(config.depth))`.":
        ("Encoder(config)", "nn.Sequential(*[*Encoder(replace(config, depth=1))] * config.depth)"),
}  # fmt: skip

# Changes in the package's `Embeddings`.
PLACED, PATCHES, TOKENS = "tokens + self.position()", "self.patches(images)", "[class_token, patches]"
LAST = "Your class token comes last. The paper puts it first, and the head reads token 0."
EMBEDDING_SLIPS = {
    "The class token gets no position: Eq. 1 adds one to every token, once the class token is in front.":
        [(PLACED, f"tokens + nn.functional.pad(self.position()[{rows}], (0, 0, 1, 0))") for rows in ("1:", ":-1")],
    "Only the class token gets its position, the patches get none.":
        (PLACED, "torch.cat([tokens[:, :1] + self.position()[:1], tokens[:, 1:]], dim=1)"),
    "The positions are never added: `forward` does not use their parameter.": (PLACED, "tokens"),
    "The positions are added back to front.": (PLACED, "tokens + self.position().flip(0)"),
    "All tokens get the same position vector: it tells no place from another.": (PLACED, "tokens + self.position()[0]"),
    "The positions are multiplied with the tokens. Eq. 1 adds them.": (PLACED, "tokens * self.position()"),
    "The positions are added twice.": (PLACED, "tokens + 2 * self.position()"),
    LAST: [(TOKENS, "[patches, class_token]"), (PLACED, "(tokens + self.position()).roll(-1, 1)")],
    "The class token is not used: token 0 is its position alone.": (TOKENS, "[0 * class_token, patches]"),
    "Your patch tokens mix values of different patches: the convolution gives (B, D, h, w), and `reshape` to (B, N, D) "
    "does not exchange axes.": (PATCHES, f"{PATCHES}.mT.reshape(len(images), -1, self.class_token.shape[-1])"),
    "Your patches run down the columns of the grid. They run row by row.":
        (PATCHES, "self.patches.projection(images).mT.flatten(2).mT"),
    "There is a GELU after the projection. Eq. 1 is linear: it has no activation.":
        (PATCHES, f"nn.functional.gelu({PATCHES})"),
    "There is a ReLU after the projection. Eq. 1 is linear: it has no activation.": (PATCHES, f"{PATCHES}.relu()"),
}  # fmt: skip


def model_slips():
    last = [
        edited(MyVisionTransformer, *change, Embeddings=edited(Embeddings, TOKENS, "[patches, class_token]"))
        for change in (
            (POOLED, "self.norm(z)[:, -1]"),
            ("slice(0, 1)", "slice(-1, None)", "slice(1, None)", "slice(None, -1)"),
        )
    ]
    slips = HEAD_SLIPS | DEPTH_SLIPS
    slips["The class token comes last, not first, and the head reads it there."] = last
    for message, do in EMBEDDING_SLIPS.items():
        ways = do if isinstance(do, list) else [do]
        slips[message] = [edited(MyVisionTransformer, Embeddings=edited(Embeddings, *way)) for way in ways]
    for slip in encoder_block.slips:
        slips.setdefault(f"Inside the blocks. {slip.message}", []).append(built_of(slip.answer))
    return slips  # fmt: skip


def built_of(block):
    """Return the model with other blocks, `block(embed_dim, num_heads, mlp_dim)`."""
    encoder = edited(Encoder, EncoderBlock=lambda D, h, M, **more: block(D, h, M))
    return edited(MyVisionTransformer, Encoder=encoder)


FIRST = ViTConfig(9, 3, 2, num_classes=7, embed_dim=20, depth=2, num_heads=5, mlp_dim=33)
SECOND = ViTConfig((4, 8), 2, 3, num_classes=5, embed_dim=14, depth=3, num_heads=2, mlp_dim=17)
MEAN = ViTConfig((6, 4), 2, 1, num_classes=4, embed_dim=15, depth=2, num_heads=3, mlp_dim=22, pool="mean")


def images_for(c):
    return 3 * noise(3, c.in_channels, *(side * c.patch_size for side in c.grid))


def odd_model(found, c):
    """Say what the sizes of a reader's layers betray; nothing if they could be the model's."""
    D, T, L, K = c.embed_dim, c.num_tokens, c.depth, c.num_classes
    bare = [layer.kind[1] for layer in found if layer.kind[0] == "bare"]
    linear = [layer for layer in found if layer.kind[0] == "linear"]
    ends, squares = {(D, c.patch_dim), (K, D)}, {(D, D), (3 * D, D)}
    blocks = [layer for layer in linear if layer.kind[1:] not in ends | squares]
    matrices = sum(layer.weight.numel() // D**2 for layer in linear if layer.kind[1:] in squares)
    norms = sum(layer.kind[0] == "norm" for layer in found)
    if bare.count(D) > 1 or not set(bare) <= {D, T * D, (T - 1) * D}:
        return ""
    if heads := [layer for layer in blocks if layer.kind[1] == K]:
        return f"The head has two linear layers, `{heads[0].name}` is the second: {HEAD}"
    for what, sizes in {"patches, from C·P·P": (D, c.patch_dim), "head, from D": (K, D)}.items():
        if (count := sum(layer.kind[1:] == sizes for layer in linear)) != 1:
            return f"The model needs one linear layer for the {what} = {sizes[1]} to {sizes[0]} values; found: {count}."
    if len(blocks) != 2 * L:
        more = " One `Encoder(config)` has all the blocks already." if len(blocks) == 2 * L * L else ""
        return f"A model of depth {L} has the weights of {L} blocks; yours has those of {len(blocks) / 2:g}.{more}"
    if text := odd_mlp(blocks[:2], D, c.mlp_dim):
        return f"Inside the blocks. {text}"
    if (T - 1) * D in bare and bare.count(D) == 1:
        return f"There are {T - 1} position vectors, for the patches only: the class token needs one too."
    for what, size in {f"class token, (1, 1, D) = (1, 1, {D})": D, f"positions, (1+N, D) = ({T}, {D})": T * D}.items():
        if (count := bare.count(size)) != 1:
            return f"The model needs one parameter for the {what}. Among its parameters there are {count}."
    if norms != 2 * L + 1:
        return f"There are {norms} LayerNorms: two in each of {L} blocks and one after the last block make {2 * L + 1}."
    if matrices > 4 * L:
        return (
            f"There is a linear layer from D to D values too many: q, k, v and the output are {4 * L} matrices of D×D, "
            f"yours {matrices}. Is there a second one after the patch projection, or in the head?"
        )
    return ""


HEAD = (
    "this is the paper's head for pre-training, with a tanh between (section 3.1). Here it is one layer, from D to K."
)


def model_readings(weights, c):
    """Yield the weights in every order in which a linear layer may take in a patch, and attention hold its own."""
    patch, names = "embeddings.patches.projection.weight", [f"encoder.{number}." for number in range(c.depth)]
    D, C, P, _ = weights[patch].shape
    for order in permutations("CPQ"):
        kernels = rearrange(weights[patch].reshape(D, -1), f"D ({' '.join(order)}) -> D C P Q", C=C, P=P, Q=P)
        parts = [{key.removeprefix(name): weights[key] for key in weights if key.startswith(name)} for name in names]
        blocks_in_each = zip(*(block_readings(part, D, c.num_heads, c.mlp_dim) for part in parts), strict=True)
        for blocks in islice(blocks_in_each, None if order == ("C", "P", "Q") else 12):
            named = [{name + key: block[key] for key in block} for name, block in zip(names, blocks, strict=True)]
            yield dict(ChainMap({patch: kernels}, *named, weights))


def unseen_in_model(cls):
    """Raise Wrong for what the values hide; return a remark on an eps that is written into the code."""
    D, M, (args, images) = FIRST.embed_dim, FIRST.mlp_dim, vision_transformer.trials[0]
    if unseen(cls, args, images, (3 * D, D), (D, D), (D, FIRST.patch_dim)):
        raise Wrong(
            "In training your model gives other results than in eval mode, although all rates in its config are 0. Use "
            "`nn.Dropout(config.dropout)`, and 0 in `nn.TransformerEncoderLayer`."
        )
    starts = [layer.weight for layer in layers(cls(FIRST)) if layer.kind == ("linear", D, M)]
    if starts[0].std() > 0 and all(start.equal(starts[0]) for start in starts):
        raise Wrong(
            "All blocks start with the same weights: copies of one block, or the same seed for each. Make a new block "
            "for each layer: `copy.deepcopy` and `nn.TransformerEncoder` copy the weights too."
        )
    model, used = cls(replace(FIRST, norm_eps=1e-3)).eval(), []
    for part in model.modules():
        if isinstance(part, nn.LayerNorm):
            part.register_forward_hook(lambda norm, *rest: used.append(norm.eps))
    model(images)
    fixed = f"One thing for later: the eps of your final LayerNorm is {used[-1]:g}, whatever `config.norm_eps` says. "
    return fixed + "`nn.LayerNorm(config.embed_dim, eps=config.norm_eps)` reads it." if used[-1] != 1e-3 else ""


class ModelExercise(ModuleExercise):
    def where_right(self, cls, number):
        return POOL if self.trials[number][0] == (MEAN,) else super().where_right(cls, number)


POOL = 'Right with pool="cls". This is pool="mean": the mean of tokens 1 to N, the patches, after the norm.'

vision_transformer = ModelExercise(
    MyVisionTransformer,
    task="`cls(config)`, an nn.Module: images to logits, (B, C, H, W) → (B, K).",
    trials=[((c,), images_for(c)) for c in (FIRST, SECOND, MEAN)],
    slips=model_slips,
    odd=odd_model,
    readings=model_readings,
    hint="Four lines: `z = embeddings(images)`, `z = encoder(z)`, `y = norm(z)[:, 0]` (or the mean of the patches, as "
    "`config.pool` says), `return head(y)`.",
    shape="(B, K)",
    more=unseen_in_model,
    biases="Eqs. 1 and 5 to 8 have none either. The authors' code has them, and so do published weights: to load "
    "those, leave `bias=False` out.",
    imports="from vit_tutorial import Embeddings, Encoder",
)


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
OUTSIDE = {
    "the class token (or its position, the bias of the patch projection, half of the final LayerNorm)": "D",
    "the final LayerNorm (or the class token and its position)": "2 * D",
    "the bias of the head": "config.num_classes",
    "the weights of the head": "D * config.num_classes",
    "the head": "head",
    "the weights of the patch projection": "config.patch_dim * D",
    "the patch projection": "config.patch_dim * D + D",
    "the positions": "config.num_tokens * D",
    "the embeddings": "embeddings",
}
INSIDE = {
    "the biases of q, k and v": "3 * D",
    "the bias of attention's output projection (or of the MLP's second layer, or of q, k or v)": "D",
    "one of the two LayerNorms of a block (or the biases of the blocks' LayerNorms, or of two of q, k and v)": "2 * D",
    "the blocks' LayerNorms (or attention's four biases)": "4 * D",
    "the MLP's biases": "M + D",
    "the bias of the MLP's first layer": "M",
    "the biases of attention and MLP": "M + 5 * D",
    "one of the matrices of q, k and v (or the weights of attention's output projection)": "D * D",
    "two of the matrices of q, k and v": "2 * D * D",
    "the matrices of q, k and v": "3 * D * D",
    "attention's output projection": "D * D + D",
    "attention": "attention",
    "the weights of the MLP's first layer (or of its second layer)": "D * M",
    "the MLP's first layer": "D * M + M",
    "the MLP's second layer": "M * D + D",
    "the MLP": "mlp",
    "the MLP and the blocks' LayerNorms": "mlp + 4 * D",
}
EVERYWHERE = {
    "the biases of all linear layers": "config.depth * (M + 5 * D) + D + config.num_classes",
    "the biases of all LayerNorms": "config.depth * 2 * D + D",
    "all LayerNorms": "config.depth * 4 * D + 2 * D",
    "all biases": "config.depth * (M + 7 * D) + 2 * D + config.num_classes",
    "all biases and LayerNorms": "config.depth * (M + 9 * D) + 3 * D + config.num_classes",
}
WHOLE = {
    **OUTSIDE, **EVERYWHERE, **{part: f"config.depth * ({size})" for part, size in INSIDE.items()}}  # fmt: skip
TERMS = {
    **{f"without {part}": f"- ({size})" for part, size in WHOLE.items()},
    **{f"with {part} counted twice": f"+ {size}" for part, size in WHOLE.items()},
    **{f"with {part} counted for one block only": f"- (config.depth - 1) * ({size})" for part, size in INSIDE.items()},
    **{f"with {part} counted for every block": f"+ (config.depth - 1) * ({size})" for part, size in OUTSIDE.items()},
    'if a model with pool="mean" has no class token': "- 2 * D * (config.pool == 'mean')",
    "if the T·T weights of each head are counted: they are results, not parameters":
        "+ config.depth * config.num_heads * config.num_tokens**2",
    "if T·T attention weights are counted for each block: they are results, not parameters":
        "+ config.depth * config.num_tokens**2",
}  # fmt: skip
QKV, PER_HEAD = "D * 3 * D + 3 * D", "all heads together have 3·D·D weights"
MISCOUNTS = {
    **{text: ("+ head  #", f"+ head {term}  #") for text, term in TERMS.items()},
    "if the head is always counted for 1000 classes": ("config.num_classes", "1000"),
    "if the head has D biases: it has one for each of the K classes":
        ("num_classes + config.num_classes", "num_classes + D"),
    "if the MLP is always counted with 4·D instead of mlp_dim": ("config.mlp_dim", "4 * config.embed_dim"),
    "if both biases of the MLP have mlp_dim values: the second one has D": ("M * D + D", "M * D + M"),
    "if both biases of the MLP have D values: the first one has mlp_dim": ("D * M + M", "D * M + D"),
    "if images are always counted with 3 channels": ("config.patch_dim", "3 * config.patch_size**2"),
    "if a patch is counted without its channels: it has C·P·P values": ("config.patch_dim", "config.patch_size**2"),
    "if patches are always counted with 16·16 pixels": ("config.patch_dim", "256 * config.in_channels"),
    "if positions are always counted for 197 tokens": ("config.num_tokens", "197"),
    "if the grid is taken to be square, as high as wide: N = h·h": ("config.num_tokens", "(1 + config.grid[0] ** 2)"),
    "if the grid is taken to be square, as wide as high: N = w·w": ("config.num_tokens", "(1 + config.grid[1] ** 2)"),
    "if the depth is always 12": ("config.depth", "12"),
    "if only one block is counted": ("config.depth", "1"),
    "if one block is missing": ("config.depth", "(config.depth - 1)"),
    "if one block is counted twice": ("config.depth", "(config.depth + 1)"),
    "if the blocks are multiplied by the number of heads too": ("config.depth", "config.num_heads * config.depth"),
    "if everything is counted for every block, the embeddings and the head too":
        ("return embeddings + config.depth * block + 2 * D + head",
         "return config.depth * (embeddings + block + 2 * D + head)"),
    f"if q, k and v are multiplied by the number of heads: {PER_HEAD}": (QKV, f"config.num_heads * ({QKV})"),
    f"if q, k and v are counted for one head only: {PER_HEAD}": (QKV, f"({QKV}) // config.num_heads"),
}  # fmt: skip


@cache
def miscounts():
    """Return what each slip adds to the count of CONFIGS."""
    right = [my_parameter_count(config) for config in CONFIGS]
    counts = {text: map(edited(my_parameter_count, *change), CONFIGS) for text, change in MISCOUNTS.items()}
    return {text: [n - r for n, r in zip(wrong, right, strict=True)] for text, wrong in counts.items()}


def explained(off):
    """Name the slip that puts the counts of CONFIGS `off` by so many, or else two that do together."""
    if found := next((text for text, sizes in miscounts().items() if sizes == off), ""):
        return f"You get exactly this count {found}."
    pairs = combinations({text: sizes for text, sizes in miscounts().items() if text.startswith("with")}.items(), 2)
    for (one, a), (two, b) in pairs:
        if [x + y for x, y in zip(a, b, strict=True)] == off:
            both = re.sub(r" \(or .*?\)", "", f"{one}, and {two}")
            return f"Two mistakes together give exactly this count: {both}, or parts of the same sizes."
    return "No mistake that the check knows explains this, and no two do. Count a model of depth 1 first, part by part."


def judge_count(function):
    """Raise Wrong for other counts than the solution's, and for a function that builds a model to count."""
    built, counts = [], []
    hook = register_module_parameter_registration_hook(lambda *parameter: built.append(parameter))
    try:
        counts = [call(function, config) for config in CONFIGS]
    finally:
        hook.remove()
    right = [my_parameter_count(config) for config in CONFIGS]
    for n, r in zip(counts, right, strict=True):
        if not isinstance(n, int):
            raise Wrong(f"{difference(n, r)} Count in whole numbers: `//` instead of `/`, and no tensors.")
    off = [n - r for n, r in zip(counts, right, strict=True)]
    if any(off):
        c, n, r = next(row for row in zip(CONFIGS, off, right, strict=True) if row[1])
        fields = "image_size", "patch_size", "embed_dim", "depth", "num_classes", "pool"
        raise Wrong(
            f"For {', '.join(f'{field} {getattr(c, field)}' for field in fields)} your count is {abs(n):,} too "
            f"{'high' if n > 0 else 'low'}: {r:,} expected, got {r + n:,}.\n{explained(off)}"
        )
    if built:
        raise Wrong(
            "Every count is right, but your function builds a model to get it. Can you do it by arithmetic? Write down "
            "how many parameters each part has, from the fields of the config, and add them up."
        )


parameter_count = Exercise(
    my_parameter_count,
    task="`fn(config) -> int`: how many parameters the model of a ViTConfig has, by arithmetic.",
    slips={f"You get exactly this count {text}.": change for text, change in MISCOUNTS.items()},
    judge=judge_count,
    hint="Go through the model part by part. A linear layer from a to b values has a·b + b, a LayerNorm 2·D. Do not "
    "forget the biases, the class token, its position, and the final norm.",
)
