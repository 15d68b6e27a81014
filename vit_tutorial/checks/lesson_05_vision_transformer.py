"""Lesson 05, the Vision Transformer: for each exercise a solution, the judge, and the mistakes that it knows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import combinations_with_replacement, product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import ViTConfig
from ..embeddings import Embeddings
from ..encoder import Encoder
from ..model import VisionTransformer
from .comparing import difference, known, random_tensor, replacing, same, within
from .exercise import exercise
from .lesson_02_embeddings import EMBEDDING_MISTAKES, NO_CLASS_POSITION, last
from .lesson_04_encoder_block import MIXING_MISTAKES, STRUCTURE_MISTAKES, judge_dropout
from .modules import Trial, no_new_parameters
from .reading_weights import Reading, hidden_problem, kind_of, layouts, model_parts, model_problems, read_model
from .references import ORDERS, OURS, Layer, ModelWeights, as_it_is, block, eq1, model, pooled
from .running import Wrong, call, prefixed, raise_first


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


FIRST = ViTConfig(9, 3, 2, num_classes=7, embed_dim=20, depth=2, num_heads=5, mlp_dim=33)
SECOND = ViTConfig((4, 8), 2, 3, num_classes=5, embed_dim=14, depth=3, num_heads=2, mlp_dim=17)
MEAN = ViTConfig((6, 4), 2, 1, num_classes=4, embed_dim=15, depth=2, num_heads=3, mlp_dim=22, pool="mean")


@exercise(
    hint="Four lines: `z = embeddings(images)`, `z = encoder(z)`, `y = norm(z)[:, 0]` (or the mean of the patches, as "
    "`config.pool` says), `return head(y)`.",
    solution=MyVisionTransformer,
)
def vision_transformer(cls):
    """`cls(config)`, an nn.Module: images to logits, (B, C, H, W) → (B, K)."""
    first = ModelTrial(cls, FIRST, 3)
    parts = first.parts
    convolution = first.module.get_parameter(parts.patch[0].name).ndim == 4
    orders = (OURS,) if convolution else tuple(ORDERS)  # of the values in a patch
    ways = list(layouts(parts.one(0, FIRST.depth).attention, FIRST.embed_dim, FIRST.num_heads))
    few = [way for way in ways if way.usual and way.order == "n h d"]
    # First with zeros in attention: the order of the norms is open, and everything around attention shows.
    starts = product(((0, 1), (1, 0)), (-1, 0), orders[:2])
    readings = [Reading(norms, final, order=order, vectors=range(len(parts.vectors))) for norms, final, order in starts]
    first.recognise([reading._replace(layout=way) for reading in readings for way in few], DOUBLE_MISTAKES)
    with first.silenced(parts.attention):
        found = first.find(readings, SILENT_MISTAKES, "Already with zeros in all weights of attention", "Eqs. 1-4")
    raise_first([(
        same(first.out, first.out[:1].expand_as(first.out)),
        "Every image gets the same logits: the class token never sees a patch.",
        "Does attention run across the batch (`nn.MultiheadAttention` needs `batch_first=True`), or between the heads "
        "of one token, or is there a mask? `check.self_attention` judges it alone.",
    )])  # fmt: skip
    # Then with attention at work: the layout of its weights is open, and the order of the values in a patch.
    readings = [found._replace(layout=way, order=order) for way, order in product(ways, orders)]
    usual = [found._replace(layout=way, order=order) for way, order in product(few, orders[:2])]
    when = "With zeros in all weights of attention the model is right; with attention"
    reading = first.find(readings, LOUD_MISTAKES, when, "Eqs. 1-4", usual)
    raise_first(model_problems(first.read(reading)))
    first.confirm(reading, lambda: ModelTrial(cls, SECOND), LOUD_MISTAKES)
    with prefixed('Right with pool="cls". With pool="mean":'):
        mean = ModelTrial(cls, MEAN)
        mean.hint = POOL
        mean.find([reading], HEAD_MISTAKES, "But", "Eq. 4")
    starts = [first.initial[layer.name] for layer in parts.contract if not layer.raw]
    raise_first([
        (len(starts) > 1 and starts[0].std() > 0 and all(start.equal(starts[0]) for start in starts),
         "All blocks start with the same weights: copies of one block, or the same seed for each.",
         "Make a new block for each layer: `copy.deepcopy` and `nn.TransformerEncoder` copy the weights too."),
        (judge_dropout(first), "In training your model gives other results than in eval mode, although all "
         "rates in its config are 0.", "Use `nn.Dropout(config.dropout)`, and 0 in `nn.TransformerEncoderLayer`."),
    ])  # fmt: skip
    eps = ModelTrial(cls, replace(FIRST, norm_eps=1e-3)).parts.norms[reading.final].eps
    fixed = f"One thing for later: the eps of your final LayerNorm is {eps or 0:g}, whatever `config.norm_eps` says."
    return None if eps in (None, 1e-3) else f"{fixed} `nn.LayerNorm(config.embed_dim, eps=config.norm_eps)` reads it."


class ModelTrial(Trial):
    function = staticmethod(model)
    hint = "Put the package's `Embeddings` or `Encoder` in place of your own, one at a time: which one makes it pass?"

    def __init__(self, cls: type, c: ViTConfig, batch: int = 2):
        x = random_tensor(batch, c.in_channels, *(side * c.patch_size for side in c.grid))
        sizes = described(c, "image_size", "patch_size", "embed_dim", "depth", "pool")
        super().__init__(cls, (c,), x, (batch, c.num_classes), "(B, K)", sizes)
        self.parts, self.count = model_parts(self.inventory, c), count(c)
        check_parts(self)

    def read(self, reading: Reading) -> ModelWeights | None:
        return read_model(self.parts, reading, *self.args)


def described(config: ViTConfig, *fields: str) -> str:
    return ", ".join(f"{field} {getattr(config, field)}" for field in fields)


def check_parts(trial: ModelTrial) -> None:
    """Raise Wrong, with what there is, unless the parts are those of Eqs. 1-4."""
    (c,), parts = trial.args, trial.parts
    ones, logits = torch.ones(len(trial.out)), "Return logits, values of any size: `F.cross_entropy` takes the softmax."
    D, T, L, blocks = c.embed_dim, c.num_tokens, c.depth, len(parts.contract)
    shared = ""
    if blocks == 1:
        layer = trial.module.get_submodule(parts.contract[0].name.rpartition(".")[0])
        if sum(module is layer for module, *_ in trial.calls()) == L:
            shared = f" All {L} places share one block's weights, as `[block] * depth` makes it."
    if sum(isinstance(part, Encoder) for part in trial.module.modules()) > 1:
        shared = f" Each `Encoder(config)` has all {L} blocks already: one is enough."
    norms, matrices = len(parts.norms), sum(layer.weight.numel() for layer in parts.attention) / D**2
    last_norm = " Is the final one missing?" if norms == 2 * L else ""
    linear = [(layer, x) for layer, x, _ in trial.calls() if isinstance(layer, nn.Linear) and x is not None]
    on_images = [layer for layer, x in linear if x.shape[:-1] == trial.x.shape[:1]]
    head = " and ".join(f"`{name}`" for name, module in trial.module.named_modules() if module in on_images)
    apart = len(parts.tables) > 0 and kind_of(parts.tables[0], c) == "patch table"  # the class token's position
    needed = [
        (parts.patch, f"linear layer for the patches, from C·P·P = {c.patch_dim} to D = {D} values", EQ1),
        (parts.vectors[apart:], f"parameter of D = {D} values for the class token", EQ1),
        (parts.tables[:1], f"parameter of (1+N)·D = {T}·{D} values for the positions", EQ1),
        (parts.head, f"linear layer for the head, from D = {D} values to K = {c.num_classes} classes", EQ4),
    ]
    with trial.silenced(map(Layer, parts.tables)):
        silent = trial.out
    raise_first([
        (same(trial.out.sum(1), ones), "There is a softmax inside the model: an image's results sum to 1.", logits),
        (same(trial.out.exp().sum(1), ones), "There is a log-softmax inside the model.", logits),
        (blocks != L, f"A model of depth {L} has the weights of {L} blocks; yours has those of {blocks}.{shared}",
         "Build a new block for each layer: `nn.ModuleList(EncoderBlock(...) for _ in range(config.depth))`."),
        *(hidden_problem(layer.sizes[1], c.mlp_dim, D) for layer in parts.contract),
        (len(on_images) == 2, f"The head has two linear layers, {head}: that is the paper's head for pre-training, "
         "with a tanh in between (section 3.1, `representation_size`). Here it is one layer, from D to K.", EQ4),
        (apart and len(parts.vectors) != 2, NO_CLASS_POSITION, EQ1),
        *((len(found) != 1, f"The model needs one {what}. Among its parameters there are {len(found)}.", hint)
          for found, what, hint in needed),
        (norms != 2 * L + 1, f"There are {norms} LayerNorms among the parameters. Two in each of {L} blocks and one "
         f"after the last block make {2 * L + 1}.{last_norm}", EQ4),
        (matrices > 4 * L, f"There is a linear layer from D to D values too many: q, k, v and the output are "
         f"{4 * L} matrices of D×D, yours {matrices:g}. Is there a second one after the patch projection?", EQ1),
        (same(silent, trial.out), "The positions are never added: the logits do not depend on them.", EQ1),
    ])  # fmt: skip


EQ1 = "Eq. 1: the class token before the patches, then `+ position` on all 1+N tokens. `Embeddings(config)` does it."
EQ4 = 'Eq. 4: `y = pool(norm(z))`, then the head. With pool="cls" that is token 0, the class token.'
POOL = '`config.pool` decides: token 0 for "cls", the mean of tokens 1 to N for "mean".'
LOOP = "`for block in self.blocks: z = block(z)`: each block gets what the one before it returned."


def without_norm(w: ModelWeights, x: Tensor, **steps) -> Tensor:
    return model(w._replace(norm=as_it_is), x, **steps)


HEAD_MISTAKES = [
    *known(POOL, {
        f"The head reads {what}.": lambda w, z, pool=pool: pool(z) for what, pool in {
            "the last token, a patch, not the class token": lambda z: z[:, -1],
            "token 1, the first patch, not the class token": lambda z: z[:, 1],
            "the class token, whatever `config.pool` says": lambda z: z[:, 0],
            "the mean of all tokens, the class token among them": lambda z: z.mean(1),
            "the mean of the patches, whatever `config.pool` says": lambda z: z[:, 1:].mean(1),
            "the sum of the patches, not their mean": lambda z: z[:, 1:].sum(1),
            "the largest of the patches' values, not their mean": lambda z: z[:, 1:].amax(1)}.items()
    }, lambda pool: partial(model, pool=pool)),
    *known(EQ4, {
        "The final LayerNorm is there, and `forward` does not use it.": without_norm,
        "The final norm comes after the mean: norm first, then the mean of the patches.":
            lambda w, x: without_norm(w, x, pool=lambda _, z: w.norm(pooled(w, z))),
        **{f"There is a {function.__name__} between the final norm and the head: the head is one linear layer.":
               partial(model, pool=lambda w, z, function=function: function(pooled(w, z)))
           for function in (F.relu, F.gelu, torch.tanh)},
        **{f"There is a {function.__name__} after the head: return logits, values of any size.":
               lambda w, x, function=function: function(model(w, x))
           for function in (F.relu, F.gelu, torch.tanh, torch.sigmoid)}}),
]  # fmt: skip

# Two mistakes at once, of which one hides the other while attention is silenced.
DOUBLE_MISTAKES = known(EQ1, {
    "The class token comes last, not first, and the head reads it there.":
        partial(model, embed=partial(eq1, prepend=last), pool=lambda w, z: z[:, -1])})  # fmt: skip

DEPTH_MISTAKES = [
    *known(LOOP, {
        "The encoder's result is not used: the head sees the embeddings.": lambda blocks: [],
        "Only the first block's result reaches the head.": lambda blocks: blocks[:1],
        "Each block gets the embeddings again: only the last one counts.": lambda blocks: blocks[-1:],
        "The first block is applied again and again, the others never.": lambda blocks: blocks[:1] * len(blocks),
        "The blocks come in the opposite order.": lambda blocks: blocks[::-1],
        "The encoder is applied more than once: `Encoder(config)` has all the blocks, call it once.":
            lambda blocks: blocks * len(blocks),
    }, lambda pick: lambda w, x: model(w._replace(blocks=pick(w.blocks)), x)),
    *known(EQ4, {
        "The final norm comes before the blocks. It belongs after the last one.":
            lambda w, x: without_norm(w, x, embed=lambda *embeddings: w.norm(eq1(*embeddings))),
        "The final norm is also before each block: a block has its own norms.":
            lambda w, x: model(w, x, block=lambda of_block, z: block(of_block, w.norm(z)))}),
    *replacing(model, "block", LOOP, {
        "A block's input is added to its result once more: the block adds it already, in Eqs. 2 and 3.":
            lambda w, z: z + block(w, z)}),
]  # fmt: skip

# What can be told while attention is silenced, and what only once it is at work.
IN_BLOCKS = "Inside the blocks. "
EQ1_MISTAKES = within(model, "embed", "", EQ1, EMBEDDING_MISTAKES)
SILENT_MISTAKES = [*HEAD_MISTAKES, *EQ1_MISTAKES, *DEPTH_MISTAKES]
SILENT_MISTAKES += within(model, "block", IN_BLOCKS, None, STRUCTURE_MISTAKES)
LOUD_MISTAKES = [*EQ1_MISTAKES, *within(model, "block", IN_BLOCKS, None, MIXING_MISTAKES)]


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


@exercise(
    hint="Go through the model part by part. A linear layer from a to b values has a·b + b, a LayerNorm 2·D. Do not "
    "forget the biases, the class token, its position, and the final norm.",
    solution=my_parameter_count,
)
def parameter_count(function):
    """`fn(config) -> int`: how many parameters the model of a ViTConfig has, by arithmetic."""
    more = []
    for config in CONFIGS:
        got, expected = call(function, config), count(config)
        found = difference(got, expected)
        if found and not isinstance(got, int):
            raise Wrong(found, "Count in whole numbers: `//` instead of `/`, and no tensors.")
        more.append(int(got) - expected)
    if any(more):
        c, off = next((c, off) for c, off in zip(CONFIGS, more, strict=True) if off)
        sizes = described(c, "image_size", "patch_size", "embed_dim", "depth", "num_classes", "pool")
        raise Wrong(
            f"For {sizes} your count is {abs(off):,} too {'high' if off > 0 else 'low'}: {count(c):,} expected, got "
            f"{count(c) + off:,}.\n{explanation(tuple(more), c)}"
        )
    try:
        with no_new_parameters():
            call(function, CONFIGS[-1])
    except Wrong:
        raise Wrong(
            "Every count is right, but your function builds a model to get it. Can you do it by arithmetic?",
            "Write down how many parameters each part has, from the fields of the config, and add them up.",
        ) from None


@cache
def parameters(config: ViTConfig) -> dict[str, int]:
    """Return the size of each parameter of the package's model, on the meta device: no weight is made."""
    with torch.device("meta"):
        return {name: p.numel() for name, p in VisionTransformer(config).named_parameters()}


def count(config: ViTConfig, pattern: str = "") -> int:
    """Count the parameters whose names match."""
    return sum(size for name, size in parameters(config).items() if re.search(pattern, name))


def explanation(more: tuple[int, ...], config: ViTConfig) -> str:
    """Name each mistake, or else every two, that change the counts of CONFIGS so; or else show the count by part."""
    ways = ways_to_miscount()
    if single := [text for text, sizes in ways if sizes == more]:
        return f"You get exactly this count {'; or '.join(single)}."
    simple = [(text, sizes) for text, sizes in ways if text.startswith("without") or text.endswith("twice")]
    pairs = combinations_with_replacement(simple, 2)
    double = [f"{one}, and {two}" for (one, a), (two, b) in pairs if tuple(map(sum, zip(a, b, strict=True))) == more]
    if double:
        return f"Two mistakes together give exactly this count: {'; or '.join(double)}."
    table = [f"{part}: {count(config, PARTS[part][0]):,}" for part in TABLE]
    return "\n".join(["No mistake that the check knows explains this, and no two do. Compare part by part:", *table])


@cache
def ways_to_miscount() -> list[tuple[str, tuple[int, ...]]]:
    """Return every mistake, and what it adds at each of CONFIGS. Parts of one size share a way to miscount them."""
    found = defaultdict(list)
    for part, (pattern, share) in PARTS.items():
        places = {name.startswith("encoder") for name in parameters(CONFIGS[0]) if re.search(pattern, name)}
        for way, (times, where) in WAYS.items():
            if places <= where:
                found[way, tuple(round(count(c, pattern) * share * times(c.depth)) for c in CONFIGS)].append(part)
    slips = [(f"if {slip}", tuple(map(size, CONFIGS))) for slip, size in SLIPS.items()]
    return [*((way.format(either(parts)), sizes) for (way, sizes), parts in found.items()), *slips]


def either(names: list[str]) -> str:
    return ", or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


# Each part by the names of the package's parameters, and how often it holds them.
PARTS = {
    "the class token": ("class_token", 1),
    "the position of the class token": ("class_token", 1),
    "the class token and its position": ("class_token", 2),
    **{f"{some}the {kind} of q, k and v": (f"qkv.{name}", share)
       for kind, name in (("matrices", "weight"), ("biases", "bias"))
       for some, share in (("", 1), ("one of ", 1 / 3), ("two of ", 2 / 3))},
    **{f"{some}{layer}": (f"{pattern}{name}", 1)
       for some, name in (("", ""), ("the weights of ", ".*weight"), ("the bias of ", ".*bias"))
       for layer, pattern in {
           "the patch projection": "patches", "attention's output projection": "attention.projection",
           "the MLP's first layer": "expand", "the MLP's second layer": "contract", "the head": "head"}.items()},
    **{part: (pattern, 1) for part, pattern in {
        "the positions": "position",
        "the embeddings": "embeddings",
        "attention's four biases": "attention.*bias",
        "attention": "attention",
        "the MLP's biases": "mlp.*bias",
        "the MLP": "mlp",
        "the biases of attention and MLP": "(attention|mlp).*bias",
        "one of the two LayerNorms of a block": "norm1",
        "the biases of the blocks' LayerNorms": r"norm[12]\.bias",
        "the blocks' LayerNorms": "norm[12]",
        "the MLP and the blocks' LayerNorms": "mlp|norm[12]",
        "the final LayerNorm": "^norm",
        "half of the final LayerNorm": r"^norm\.bias",
        "the biases of all LayerNorms": r"norm.?\.bias",
        "all LayerNorms": "norm",
        "the biases of all linear layers": "(patches|attention|mlp|head).*bias",
        "all biases": "bias",
        "all biases and LayerNorms": "bias|norm"}.items()},
}  # fmt: skip
TABLE = ("the patch projection", "the class token", "the positions", "attention", "the MLP", "the blocks' LayerNorms",
         "the final LayerNorm", "the head")  # fmt: skip

# How a part is counted, how many times too often that is in a model of this depth, and where: True in the blocks.
WAYS = {
    "without {}": (lambda depth: -1, {True, False}),
    "with {} counted twice": (lambda depth: 1, {True, False}),
    "with {} counted for one block only": (lambda depth: 1 / depth - 1, {True}),
    "with {} counted for every block": (lambda depth: depth - 1, {False}),
}


def changed(c: ViTConfig, grid: tuple[int, int] | None = None, **fields) -> int:
    """Return how many parameters a model gains with these fields, or with patches in this grid."""
    if grid:
        fields["image_size"] = tuple(side * fields.get("patch_size", c.patch_size) for side in grid)
    return count(replace(c, **fields)) - count(c)


# Other mistakes, and how many parameters too many they count.
SLIPS: dict[str, Callable[[ViTConfig], int]] = {
    "the head is always counted for 1000 classes": lambda c: changed(c, num_classes=1000),
    "the MLP is always counted with 4·D instead of mlp_dim": lambda c: changed(c, mlp_dim=4 * c.embed_dim),
    "images are always counted with 3 channels": lambda c: changed(c, in_channels=3),
    "a patch is counted without its channels: it has C·P·P values": lambda c: changed(c, in_channels=1),
    "patches are always counted with 16·16 pixels": lambda c: changed(c, c.grid, patch_size=16),
    "positions are always counted for 197 tokens": lambda c: changed(c, (14, 14)),
    "the grid is taken to be square, as high as wide: N = h·h": lambda c: changed(c, (c.grid[0], c.grid[0])),
    "the grid is taken to be square, as wide as high: N = w·w": lambda c: changed(c, (c.grid[1], c.grid[1])),
    'a model with pool="mean" has no class token': lambda c: -2 * count(c, "class_token") * (c.pool == "mean"),
    "the depth is always 12": lambda c: changed(c, depth=12),
    "everything is counted for every block, the embeddings and the head too":
        lambda c: (c.depth - 1) * (count(c) - count(c, "encoder")),
    "the head has D biases: it has one for each of the K classes": lambda c: c.embed_dim - c.num_classes,
    "only one block is counted": lambda c: changed(c, depth=1),
    "one block is missing": lambda c: changed(c, depth=c.depth - 1),
    "one block is counted twice": lambda c: changed(c, depth=c.depth + 1),
    "the blocks are multiplied by the number of heads too": lambda c: (c.num_heads - 1) * count(c, "encoder"),
    "q, k and v are multiplied by the number of heads: all heads together have 3·D·D weights":
        lambda c: (c.num_heads - 1) * count(c, "qkv"),
    "q, k and v are counted for one head only: all heads together have 3·D·D weights":
        lambda c: count(c, "qkv") // c.num_heads - count(c, "qkv"),
    "both biases of the MLP have mlp_dim values: the second one has D": lambda c: c.depth * (c.mlp_dim - c.embed_dim),
    "both biases of the MLP have D values: the first one has mlp_dim": lambda c: c.depth * (c.embed_dim - c.mlp_dim),
    "the T·T weights of each head are counted: they are results, not parameters":
        lambda c: c.depth * c.num_heads * c.num_tokens**2,
    "T·T attention weights are counted for each block: they are results, not parameters":
        lambda c: c.depth * c.num_tokens**2,
}  # fmt: skip
