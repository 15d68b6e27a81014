"""Lesson 05: hint, solution, judge and known mistakes of each exercise."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import combinations, product

import torch
import torch.nn.functional as F

from ..config import ViTConfig
from ..model import VisionTransformer
from .comparing import Mistake, difference, mistakes_in, random_tensor, same
from .exercise import exercise
from .lesson_02_embeddings import NO_CLASS_POSITION
from .lesson_04_encoder_block import MIXING_MISTAKES, STRUCTURE_MISTAKES
from .modules import Layer, Trial, confirm, facts, find, recognise_module
from .reading_weights import (
    ModelParts,
    ModelReading,
    check_eps,
    check_hidden,
    complain_about_block,
    layouts,
    model_parts,
    read_model,
    silent_parameters,
    usual_layouts,
)
from .references import ORDERS, OURS, block, embedded, model, normed, patch_tokens, pooled
from .running import Wrong, call


def check_model_parts(trial: Trial) -> ModelParts:
    """The parts of the model. Raises Wrong, with what there is, if they are not those of Eqs. 1-4."""
    (c,), parts = trial.args, model_parts(trial)
    D, T, L = c.embed_dim, c.num_tokens, c.depth
    check_depth(trial, parts.blocks.contract, L)
    check_hidden(parts.blocks.contract[0].sizes[1], c.mlp_dim, D)
    needed = [
        (parts.patch, f"linear layer for the patches, from C·P·P = {c.patch_dim} to D = {D} numbers", EQ1),
        (parts.class_token, f"parameter of D = {D} numbers for the class token", EQ1),
        (parts.position[:1], f"parameter of (1+N)·D = {T}·{D} numbers for the positions", EQ1),
        (parts.head, f"linear layer for the head, from D = {D} numbers to K = {c.num_classes} classes", EQ4),
    ]
    if parts.of_patches and not parts.position:
        raise Wrong(NO_CLASS_POSITION, EQ1)
    for found, what, hint in needed:
        if len(found) != 1:
            raise Wrong(f"The model needs one {what}. Among its parameters there are {len(found)}.", hint)
    if len(parts.blocks.norms) != 2 * L + 1:
        missing = " Is the final one missing?" if len(parts.blocks.norms) == 2 * L else ""
        raise Wrong(
            f"There are {len(parts.blocks.norms)} LayerNorms among the parameters. Two in each of {L} blocks and one "
            f"after the last block make {2 * L + 1}.{missing}",
            EQ4,
        )
    matrices = sum(layer.weight.numel() for layer in parts.blocks.attention) / D**2
    if matrices > 4 * L:
        raise Wrong(
            f"There is a linear layer from D to D numbers too many: q, k, v and the output of {L} blocks are {4 * L} "
            f"matrices of D×D, and your model has {matrices:g}. Is there a second one after the patch projection?",
            "Eq. 1 has one linear map E from a patch to a token, and Eq. 4 one from y to the logits.",
        )
    return parts


def check_depth(trial: Trial, found: list[Layer], depth: int) -> None:
    """Raise Wrong unless `depth` blocks are registered; `found` has one layer of each block."""
    if len(found) == depth:
        return
    shared = ""
    if len(found) == 1 and calls(trial, found[0]) == depth:
        shared = f" All {depth} places share one block's weights, as `[block] * depth` makes it."
    raise Wrong(
        f"A model of depth {depth} has the weights of {depth} blocks; yours has those of {len(found)}.{shared}",
        "Build a new block for each layer: `nn.ModuleList(EncoderBlock(...) for _ in range(config.depth))`.",
    )


def calls(trial: Trial, layer: Layer) -> int:
    """How often the module that holds this layer's weight is called for one input."""
    counted = []
    owner = trial.module.get_submodule(layer.name.rpartition(".")[0])
    handle = owner.register_forward_hook(lambda *_: counted.append(owner))
    trial.run()
    handle.remove()
    return len(counted)


def check_starts(trial: Trial, parts: ModelParts) -> None:
    """Raise Wrong if all blocks start from the same random numbers."""
    starts = [trial.initial[layer.name] for layer in parts.blocks.contract if not layer.raw]
    if len(starts) > 1 and starts[0].std() > 0 and all(start.equal(starts[0]) for start in starts):
        raise Wrong(
            "All blocks start with the same weights: copies of one block, or the same seed for each.",
            "A block drawn anew for each layer starts from numbers of its own. `copy.deepcopy` copies the weights too, "
            "and so does `nn.TransformerEncoder`: draw them again after building it.",
        )


def positions_on_patches(w, images):
    return embedded(w._replace(position=w.position * (torch.arange(len(w.position)) > 0)[:, None]), images)


def positions_on_class_token(w, images):
    return embedded(w._replace(position=w.position * (torch.arange(len(w.position)) == 0)[:, None]), images)


def without_class_token(w, images):
    return embedded(w._replace(class_token=torch.zeros_like(w.class_token)), images)


def class_token_last(w, images):
    patches = patch_tokens(w, images)
    return torch.cat([patches, w.class_token.expand(len(images), 1, -1)], dim=1) + w.position


def column_by_column(w, images):
    patches = patch_tokens(w, images).unflatten(1, (images.shape[2] // w.patch_size, -1))  # (B, h, w, D)
    patches = patches.transpose(1, 2).flatten(1, 2)
    return torch.cat([w.class_token.expand(len(images), 1, -1), patches], dim=1) + w.position


def norm_after_pool(w, images):
    return model(w, images, pool=lambda w, z: normed(w.norm, pooled(w, z)), end=lambda norm, z: z)


wrong = mistakes_in(model)


EQ1 = (
    "Eq. 1: the class token in front of the patches, then `+ position` on all 1+N tokens. `Embeddings(config)` does it."
)


EQ4 = 'Eq. 4: `y = pool(norm(z))`, then the head. With pool="cls" that is token 0, the class token.'


POOL = '`config.pool` decides: token 0 for "cls", the mean of tokens 1 to N for "mean".'


HEAD_MISTAKES = [
    wrong("The final LayerNorm is there, and `forward` does not use it.", EQ4, end=lambda norm, z: z),
    wrong("The head reads the last token, a patch, not the class token.", EQ4, pool=lambda w, z: z[:, -1]),
    wrong("The head reads token 1, the first patch, not the class token.", EQ4, pool=lambda w, z: z[:, 1]),
    wrong("The head reads the class token, whatever `config.pool` says.", EQ4, pool=lambda w, z: z[:, 0]),
    wrong("The head reads the mean of all tokens, the class token among them.",
          POOL, pool=lambda w, z: z.mean(1)),
    wrong("The head reads the mean of the patches, whatever `config.pool` says.", POOL,
          pool=lambda w, z: z[:, 1:].mean(1)),
    Mistake(norm_after_pool, "The final norm comes after the mean: norm first, then the mean of the patches.", EQ4),
    wrong("The head reads the sum of the patches, not their mean.", POOL, pool=lambda w, z: z[:, 1:].sum(1)),
    wrong("The head reads the largest of the patches' numbers, not their mean.", POOL,
          pool=lambda w, z: z[:, 1:].amax(1)),
    *(wrong(f"There is a {name} between the final norm and the head: the head is one linear layer.", EQ4,
            pool=lambda w, z, function=function: function(pooled(w, z)))
      for name, function in (("ReLU", F.relu), ("GELU", F.gelu), ("tanh", torch.tanh))),
]  # fmt: skip


EMBEDDING_MISTAKES = [
    wrong(NO_CLASS_POSITION, EQ1, embed=positions_on_patches),
    wrong("Only the class token gets its position, the patches none.", EQ1, embed=positions_on_class_token),
    wrong("The class token's own vector is not used: a zero stands in its place.", EQ1, embed=without_class_token),
    wrong("The class token stands last, and the head reads the first token, a patch.", EQ1, embed=class_token_last),
    wrong("The class token stands last, not first.", EQ1, embed=class_token_last, pool=lambda w, z: z[:, -1]),
    wrong("The patches stand column by column, not row by row.", EQ1, embed=column_by_column),
]  # fmt: skip


def first_only(w, images):
    return model(w._replace(blocks=w.blocks[:1]), images)


def first_again(w, images):
    return model(w._replace(blocks=w.blocks[:1] * len(w.blocks)), images)


def last_first(w, images):
    return model(w._replace(blocks=w.blocks[::-1]), images)


def none_of_them(w, images):
    return model(w._replace(blocks=[]), images)


def normed_first(w, images):
    return model(w, images, embed=lambda w, x: normed(w.norm, embedded(w, x)), end=lambda norm, z: z)


def normed_between(w, images):
    return model(w, images, block=lambda weights, z: block(weights, normed(w.norm, z)))


LOOP = "`for block in self.blocks: z = block(z)`: each block gets what the one before it returned."


DEPTH_MISTAKES = [
    Mistake(none_of_them, "The encoder's result is not used: the head sees the embeddings.", LOOP),
    Mistake(first_only, "Only the first block's result reaches the head.", LOOP),
    Mistake(lambda w, x: model(w._replace(blocks=w.blocks[-1:]), x), "Each block gets the embeddings, not the block "
            "before it: only the last one counts.", LOOP),
    Mistake(first_again, "The first block is applied again and again, the others never.", LOOP),
    Mistake(last_first, "The blocks come in the opposite order.", LOOP),
    Mistake(normed_first, "The final norm comes before the blocks: it stands after the last one.", EQ4),
    Mistake(normed_between, "The final norm is also before each block: a block has its own norms.", EQ4),
    wrong("A block's input is added to its result once more: the block adds it already, in Eqs. 2 and 3.", LOOP,
          block=lambda w, z: z + block(w, z)),
]  # fmt: skip


def in_blocks(mistakes: list[Mistake]) -> list[Mistake]:
    return [Mistake(partial(model, block=m.function), f"Inside the blocks. {m.message}", m.hint) for m in mistakes]


# What can be told with attention silenced, and what only once it is at work.
SILENT_MISTAKES = [*HEAD_MISTAKES, *EMBEDDING_MISTAKES, *DEPTH_MISTAKES, *in_blocks(STRUCTURE_MISTAKES)]


LOUD_MISTAKES = [*EMBEDDING_MISTAKES, *in_blocks(MIXING_MISTAKES)]


CONFIGS = [
    ViTConfig.named("B/16"),
    ViTConfig.named("B/32", image_size=(64, 96), num_classes=10),
    ViTConfig((8, 12), 2, 1, num_classes=7, embed_dim=20, depth=3, num_heads=5, mlp_dim=33, pool="mean"),
    ViTConfig(9, 3, 2, num_classes=11, embed_dim=14, depth=2, num_heads=2, mlp_dim=15),
]


@cache
def count(config: ViTConfig) -> int:
    """The parameters of the package's model, counted on the meta device: no weight is made."""
    with torch.device("meta"):
        return sum(p.numel() for p in VisionTransformer(config).parameters())


# What may be forgotten or counted twice, and how many parameters it has.
PARTS: dict[str, Callable[[ViTConfig], int]] = {
    "the class token": lambda c: c.embed_dim,
    "the bias of the patch projection": lambda c: c.embed_dim,
    "the position of the class token": lambda c: c.embed_dim,
    "the positions": lambda c: c.num_tokens * c.embed_dim,
    "the weights of the patch projection": lambda c: c.patch_dim * c.embed_dim,
    "one of the matrices of q, k and v in each block": lambda c: c.depth * c.embed_dim**2,
    "two of the matrices of q, k and v in each block": lambda c: c.depth * 2 * c.embed_dim**2,
    "the matrices of q, k and v": lambda c: c.depth * 3 * c.embed_dim**2,
    "the biases of q, k and v": lambda c: c.depth * 3 * c.embed_dim,
    "one of the biases of q, k and v in each block": lambda c: c.depth * c.embed_dim,
    "two of the biases of q, k and v in each block": lambda c: c.depth * 2 * c.embed_dim,
    "the weights of attention's output projection": lambda c: c.depth * c.embed_dim**2,
    "the bias of attention's output projection": lambda c: c.depth * c.embed_dim,
    "attention's output projection": lambda c: c.depth * (c.embed_dim**2 + c.embed_dim),
    "attention's four biases": lambda c: c.depth * 4 * c.embed_dim,
    "one of the MLP's matrices": lambda c: c.depth * c.embed_dim * c.mlp_dim,
    "the bias of the MLP's first layer": lambda c: c.depth * c.mlp_dim,
    "the bias of the MLP's second layer": lambda c: c.depth * c.embed_dim,
    "the MLP's biases": lambda c: c.depth * (c.mlp_dim + c.embed_dim),
    "the biases of attention and MLP": lambda c: c.depth * (5 * c.embed_dim + c.mlp_dim),
    "one LayerNorm in each block": lambda c: c.depth * 2 * c.embed_dim,
    "the biases of the blocks' LayerNorms": lambda c: c.depth * 2 * c.embed_dim,
    "the biases of all LayerNorms": lambda c: (2 * c.depth + 1) * c.embed_dim,
    "the blocks' LayerNorms": lambda c: c.depth * 4 * c.embed_dim,
    "all LayerNorms": lambda c: (2 * c.depth + 1) * 2 * c.embed_dim,
    "the final LayerNorm": lambda c: 2 * c.embed_dim,
    "the weight, or the bias, of the final LayerNorm": lambda c: c.embed_dim,
    "the weights of the head": lambda c: c.embed_dim * c.num_classes,
    "the bias of the head": lambda c: c.num_classes,
    "the head": lambda c: (c.embed_dim + 1) * c.num_classes,
    "one block": lambda c: block_count(c),
    "all blocks but one": lambda c: (c.depth - 1) * block_count(c),
    'the class token and its position where pool="mean"': lambda c: 2 * c.embed_dim * (c.pool == "mean"),
    "every bias of a linear layer": lambda c: linear_biases(c),
    "all biases": lambda c: linear_biases(c) + (2 * c.depth + 1) * c.embed_dim,
    "all biases and LayerNorms": lambda c: linear_biases(c) + (2 * c.depth + 1) * 2 * c.embed_dim,
}


# Sizes written into the code: how many parameters too many that makes.
FIXED: dict[str, Callable[[ViTConfig], int]] = {
    "The head is always counted for 1000 classes.": lambda c: (1000 - c.num_classes) * (c.embed_dim + 1),
    "The MLP is always counted with 4·D in place of mlp_dim.": lambda c: (
        c.depth * (4 * c.embed_dim - c.mlp_dim) * (2 * c.embed_dim + 1)
    ),
    "Images are always counted with 3 channels.": lambda c: (
        (3 - c.in_channels) * c.patch_dim // c.in_channels * c.embed_dim
    ),
    "Patches are always counted with 16·16 pixels.": lambda c: (
        (256 - c.patch_dim // c.in_channels) * c.in_channels * c.embed_dim
    ),
    "Positions are always counted for 197 tokens.": lambda c: (197 - c.num_tokens) * c.embed_dim,
    "The grid is taken to be square, as high as wide: N = h·h.": lambda c: (
        (c.grid[0] ** 2 - c.num_patches) * c.embed_dim
    ),
    "The grid is taken to be square, as wide as high: N = w·w.": lambda c: (
        (c.grid[1] ** 2 - c.num_patches) * c.embed_dim
    ),
    "q, k and v are multiplied by the number of heads: all heads together have 3·D·D weights.": lambda c: (
        c.depth * (c.num_heads - 1) * 3 * (c.embed_dim**2 + c.embed_dim)
    ),
    "Images are counted without their channels: a patch has C·P·P numbers.": lambda c: (
        (c.patch_dim // c.in_channels - c.patch_dim) * c.embed_dim
    ),
    "q, k and v are counted for one head only, D → d: all heads together have 3·D·D weights.": lambda c: (
        c.depth * 3 * (c.head_dim - c.embed_dim) * (c.embed_dim + 1)
    ),
    "The bias of the MLP's first layer is counted with D numbers: it has mlp_dim of them.": lambda c: (
        c.depth * (c.embed_dim - c.mlp_dim)
    ),
    "The final LayerNorm is counted once for each block: there is one, after the last.": lambda c: (
        (c.depth - 1) * 2 * c.embed_dim
    ),
    "The T·T weights of each head are counted: they are results, not parameters.": lambda c: (
        c.depth * c.num_heads * c.num_tokens**2
    ),
    "T·T attention weights are counted in each block: they are results, not parameters.": lambda c: (
        c.depth * c.num_tokens**2
    ),
    "The depth is always 12.": lambda c: (12 - c.depth) * block_count(c),
    "The blocks are multiplied by the number of heads too.": lambda c: c.depth * (c.num_heads - 1) * block_count(c),
}


def linear_biases(c: ViTConfig) -> int:
    return c.depth * (5 * c.embed_dim + c.mlp_dim) + c.embed_dim + c.num_classes


def block_count(c: ViTConfig) -> int:
    return 4 * (c.embed_dim**2 + c.embed_dim) + 2 * c.embed_dim * c.mlp_dim + c.mlp_dim + 5 * c.embed_dim


def judge_count(function: Callable) -> None:
    """Raise Wrong unless `function` counts every configuration right; names the part that explains all differences."""
    extra = []
    for config in CONFIGS:
        got, expected = call(function, config), count(config)
        found = difference(got, expected)
        if found and not isinstance(got, int):
            raise Wrong(found, "Count in whole numbers: `//` in place of `/`, and no tensors.")
        extra.append(int(got) - expected)
    if not any(extra):
        return
    worst = next(i for i, difference in enumerate(extra) if difference)
    c, more = CONFIGS[worst], extra[worst]
    shown = ("image_size", "patch_size", "embed_dim", "depth", "num_classes", "pool")
    first = (
        f"For {', '.join(f'{name} {getattr(c, name)}' for name in shown)} your count is "
        f"{abs(more):,} too {'high' if more > 0 else 'low'}: {count(c):,} expected, got {count(c) + more:,}."
    )
    raise Wrong(f"{first}\n{explanation(extra)}".strip())


def explanation(extra: list[int]) -> str:
    """Which part, or which two, make exactly these differences, in one sentence; empty if none does."""
    sizes = {sentence: [size(c) for c in CONFIGS] for sentence, size in FIXED.items()}
    if fixed := [sentence for sentence, size in sizes.items() if size == extra]:
        return fixed[0]
    signed = [
        (name, verb, [sign * size(c) for c in CONFIGS])
        for name, size in PARTS.items()
        for sign, verb in ((-1, "missing"), (1, "counted twice"))
    ]
    if single := [(name, verb) for name, verb, size in signed if size == extra]:
        return f"That is exactly {' or '.join(name for name, _ in single)}: {single[0][1]}?"
    for (one, verb, a), (two, other, b) in combinations(signed, 2):
        if [x + y for x, y in zip(a, b, strict=True)] == extra:
            return f"Two things together would make this difference: {one} ({verb}) and {two} ({other})."
    return ""


FIRST = ViTConfig(9, 3, 2, num_classes=7, embed_dim=20, depth=2, num_heads=5, mlp_dim=33)


SECOND = ViTConfig((4, 8), 2, 3, num_classes=5, embed_dim=14, depth=3, num_heads=2, mlp_dim=17)


MEAN = ViTConfig((6, 4), 2, 1, num_classes=4, embed_dim=15, depth=2, num_heads=3, mlp_dim=22, pool="mean")


LOGITS = "The model returns logits, numbers of any size and sign: `F.cross_entropy` takes the softmax itself."


@exercise(
    hint="Four lines: `z = embeddings(images)`, `z = encoder(z)`, `y = norm(z)[:, 0]` (or the mean of the patches, as "
    "`config.pool` says), `return head(y)`.",
    solution="""
class MyVisionTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.pool = config.pool
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.norm = nn.LayerNorm(config.embed_dim, eps=config.norm_eps)
        self.head = nn.Linear(config.embed_dim, config.num_classes)

    def forward(self, images):
        z = self.embeddings(images)  # Eq. 1     (B, 1+N, D)
        z = self.encoder(z)  #         Eqs. 2-3  (B, 1+N, D)
        z = self.norm(z)
        y = z[:, 0] if self.pool == "cls" else z[:, 1:].mean(dim=1)  # Eq. 4  (B, D)
        return self.head(y)  #                   (B, K)
""",
    takes="class",
)
def vision_transformer(cls):
    """`cls(config)`, an nn.Module: images to logits, (B, C, H, W) → (B, K)."""
    first = model_trial(cls, FIRST, 3)
    check_logits(first)
    parts = check_model_parts(first)
    convolution = first.module.get_parameter(parts.patch[0].name).ndim == 4
    orders = (OURS,) if convolution else tuple(ORDERS)  # of the numbers in a patch
    check_positions(first, parts)
    # First with zeros in attention: the order of the norms is open, and everything around attention shows.
    starts = product(((0, 1), (1, 0)), (-1, 0), orders[:2])
    readings = [ModelReading(norms, final, order=order) for norms, final, order in starts]
    with first.silenced(silent_parameters(parts.blocks)):
        found = find(first, model, readings, read_model)
        if found is None:
            recognise_module(first, SILENT_MISTAKES, readings, read_model)
    if found is None:
        raise unrecognised(first, "Already with zeros in all weights of attention")
    # Then with attention at work: the layout of its weights is open, and the order of the numbers in a patch.
    ways = list(layouts(parts.blocks.one(0, FIRST.depth).attention, FIRST.embed_dim, FIRST.num_heads))
    readings = [found._replace(layout=layout, order=order) for layout, order in product(ways, orders)]
    reading = find(first, model, readings, read_model)
    if reading is None:
        check_patches_seen(first)
        ways = [layout for layout in usual_layouts(ways) if layout.order == "n h d"]
        usual = [found._replace(layout=layout, order=order) for layout, order in product(ways, orders[:2])]
        recognise_module(first, LOUD_MISTAKES, usual, read_model)
        raise unrecognised(first, "With zeros in all weights of attention the model is right; with attention")
    check_numbers(first, parts, reading)
    confirm(first, lambda: whole_trial(cls, SECOND), model, reading, read_model, count(FIRST), LOUD_MISTAKES)
    check_mean(cls, reading)
    check_training(first)


def model_trial(cls: type, config: ViTConfig, batch: int) -> Trial:
    height, width = (side * config.patch_size for side in config.grid)
    shown = ("image_size", "patch_size", "embed_dim", "depth", "pool")
    sizes = ", ".join(f"{name} {getattr(config, name)}" for name in shown)
    x = random_tensor(batch, config.in_channels, height, width)
    return Trial(cls, (config,), x, (batch, config.num_classes), "(B, K)", sizes)


def whole_trial(cls: type, config: ViTConfig) -> Trial:
    """A trial of two images, with all parts of the model."""
    trial = model_trial(cls, config, 2)
    check_model_parts(trial)
    return trial


def check_logits(trial: Trial) -> None:
    """Raise Wrong if what comes out are probabilities, or their logarithms."""
    ones = torch.ones(len(trial.out))
    if same(trial.out.sum(dim=1), ones):
        raise Wrong("There is a softmax inside the model: the results of each image sum to 1.", LOGITS)
    if same(trial.out.exp().sum(dim=1), ones):
        raise Wrong("There is a log-softmax inside the model: exp of the results sums to 1 for each image.", LOGITS)


def check_positions(trial: Trial, parts: ModelParts) -> None:
    """Raise Wrong if the results do not depend on the positions."""
    out = trial.out
    with trial.silenced(parts.position):
        if trial.agrees(out):
            raise Wrong("The positions are there, and never added.", EQ1)


def check_training(trial: Trial) -> None:
    """Raise Wrong if the model drops numbers in training, where every rate of the config is zero."""
    trial.module.train()
    repeats = all(same(trial.run(), trial.out) for _ in range(10))
    trial.module.eval()
    if not repeats:
        raise Wrong(
            "In training your model gives other results than in eval mode, and all dropout rates of its config are 0.",
            "A rate comes from the config: `nn.Dropout(config.dropout)`. The default of `nn.TransformerEncoderLayer` "
            "is 0.1.",
        )


def check_patches_seen(trial: Trial) -> None:
    """Raise Wrong if different images get the same logits."""
    if same(trial.out, trial.out[:1].expand_as(trial.out)):
        raise Wrong(
            "Every image gets the same logits: the class token never sees a patch.",
            "Does attention run across the batch (`nn.MultiheadAttention` needs `batch_first=True`)? Or is there a "
            "mask, or an attention between the heads of one token? `check.self_attention` judges it alone.",
        )


def check_numbers(trial: Trial, parts, reading: ModelReading) -> None:
    """Raise Wrong for what the values do not show: eps, the layout's oddities, blocks that start alike."""
    w = read_model(trial, reading)
    for weights in w.blocks:
        complain_about_block(weights)
    check_eps(w.norm)
    check_starts(trial, parts)


def check_mean(cls: type, reading: ModelReading) -> None:
    """Raise Wrong unless `pool="mean"` is right too."""
    try:
        mean = whole_trial(cls, MEAN)
    except Wrong as wrong:
        wrong.message = f'Right with pool="cls". With pool="mean":\n{wrong.message}'
        raise
    if find(mean, model, [reading], read_model) is None:
        recognise_module(mean, HEAD_MISTAKES, [reading], read_model)
        raise Wrong('Right with pool="cls", wrong with pool="mean".', POOL)


def unrecognised(trial: Trial, when: str) -> Wrong:
    return Wrong(
        f"The shape is right. {when} the values are not those of Eqs. 1-4, and none of the usual mistakes explains "
        f"them.\n{facts(trial, count(FIRST), tokens=False)}",
        "Put the package's `Embeddings` or `Encoder` in place of your own, one at a time: which one makes it pass?",
    )


@exercise(
    hint="Go through the model part by part. A linear layer from a to b numbers has a·b + b, a LayerNorm 2·D. Do not "
    "forget the biases, the class token, its position, and the final norm.",
    solution="""
def parameter_count(config):
    D, M = config.embed_dim, config.mlp_dim
    embeddings = config.patch_dim * D + D + D + config.num_tokens * D  # projection, class token, positions
    attention = D * 3 * D + 3 * D + D * D + D  # q, k, v, output
    mlp = D * M + M + M * D + D
    block = 2 * D + attention + 2 * D + mlp
    head = D * config.num_classes + config.num_classes
    return embeddings + config.depth * block + 2 * D + head  # 2·D: the final norm
""",
)
def parameter_count(function):
    """`fn(config) -> int`: how many parameters the model of a ViTConfig has, by arithmetic."""
    judge_count(function)
