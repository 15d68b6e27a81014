"""Lesson 05: the whole Vision Transformer, and how many parameters it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from ..analysis.before_training import first_tests
from ..config import ViTConfig
from ..embeddings import Embeddings
from ..encoder import Encoder
from ..experiments.planted_bugs import BrokenModel
from .exercise import WRITTEN_IN, Exercise
from .lesson_02_embeddings import embeddings
from .lesson_03_attention import in_training
from .lesson_04_encoder_block import NORM, encoder_block
from .modules import CompositeExercise, ModuleExercise, sums, trace
from .probes import noise
from .running import Wrong, call, close, joined, misfit, value_difference
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


def one_layer(pair):
    y, other = pair.x, noise(*pair.x.shape, seed=3)
    with torch.no_grad():
        linear = close(pair.mine(y + other) - pair.mine(y), pair.mine(other) - pair.mine(0 * y))
    told = "The head is one linear layer here, D to K, and yours is not linear"
    yield linear, f"{told}. (For pre-training the paper's has a tanh between two layers, section 3.1.)"


HEAD = ModuleExercise(
    nn.Linear,
    task="a linear layer",
    hint="",
    trials=[((20, 7), noise(3, 20)), ((10, 4), noise(2, 10))],
    probes=one_layer,
    names={"weight": "", "bias": ""},
    shape="(B, K)",
    sizes=lambda D, K, x: {"B": len(x), "D": D, "K": K},
)

FIRST = ViTConfig(9, 3, 2, num_classes=7, embed_dim=20, depth=2, num_heads=5, mlp_dim=33)
SECOND = ViTConfig((4, 8), 2, 3, num_classes=5, embed_dim=14, depth=3, num_heads=2, mlp_dim=17)
MEAN = ViTConfig((6, 4), 2, 1, num_classes=4, embed_dim=15, depth=2, num_heads=3, mlp_dim=22, pool="mean")


def images_for(c):
    return noise(6, c.in_channels, *(side * c.patch_size for side in c.grid))


def sized(**sizes):
    return (replace(FIRST, **sizes),)


def by_tokens(value, known):
    """Write what the head is given by the tokens of a part's result, and anything else as a sum."""
    for name, z in ((name, each) for name, each in known.items() if each.ndim == 3 and each[:, 0].shape == value.shape):
        ways = {f"token {t}": z[:, t] for t in range(z.shape[1])}
        ways |= {"the mean of the patches": z[:, 1:].mean(1), "the mean of all tokens": z.mean(1)}
        ways |= {"the sum of the patches": z[:, 1:].sum(1), "the largest values of the patches": z[:, 1:].amax(1)}
        if told := next((way for way, each in ways.items() if close(value, each)), ""):
            return f"{told} of {name}"
    return sums(value, known)


def other_depth(model, config):
    """Say how many blocks the model has, if it is another number than its depth."""
    found, L = vision_transformer.find_parts(model)["encoder"], config.depth
    if len(set(found)) < len(found):
        return "All places share one block's weights, as `[block] * depth` makes it. Build a new block for each layer."
    more = " One `Encoder(config)` has all the blocks already." if len(found) == L * L else ""
    return "" if len(found) == L else f"A model of depth {L} has {L} blocks; yours has {len(found)}.{more}"


# fmt: off
def equations_1_to_4(pair):
    (config,), parts = pair.args, vision_transformer.find_parts(pair.mine)
    blocks = {f"block {i}": block for i, block in enumerate(parts["encoder"])}
    yield not (told := other_depth(pair.mine, config)), told
    single = {name: parts[name][0] for name in ("embeddings", "norm", "head")}
    (_, *calls), returned = trace(pair.mine, single | blocks, pair.x, by_tokens)
    yours = f"Your model computes {', '.join(f'{name}({inputs})' for name, inputs in calls)}, and returns {returned}."
    pooled = f"{'token 0' if config.pool == 'cls' else 'the mean of the patches'} of norm"
    for name, right in zip([*blocks, "norm", "head"], ["embeddings", *blocks, pooled], strict=True):
        given = [inputs for called, inputs in calls if called == name]
        told = f"`{name}` is given {' and then '.join(given) or 'nothing'}"
        yield given == [right], f"{told}. It must be given {right}, once. {yours}"
    with torch.no_grad():
        logits = pair.mine(pair.x)
    for name, values in {"softmax": logits, "log-softmax": logits.exp()}.items():
        yield not close(values.sum(1), 1), (
            f"There is a {name} inside the model: `F.cross_entropy` takes it. Return logits.")
    span = f"values from {logits.min():.2g} to {logits.max():.2g}"
    yield returned == "head", f"Your model returns something other than the head's result, {span}. Return the logits."
# fmt: on


def in_training_and_at_start(cls):
    """Raise Wrong for dropout, equal blocks or too few; return a remark on an eps that is written into the code."""
    model = cls(FIRST).eval()
    if told := next(filter(None, (other_depth(cls(config), config) for config in (FIRST, SECOND))), ""):
        raise Wrong(told)
    if in_training(model, images_for(FIRST)):
        told = "In training your model gives other results than in eval mode, although all rates in its config are 0"
        raise Wrong(f"{told}. Use `nn.Dropout(config.dropout)`, or none.")
    blocks = vision_transformer.find_parts(model)["encoder"]
    if any(a.equal(b) and a.std() > 0 for a, b in zip(*(block.parameters() for block in blocks), strict=True)):
        raise Wrong(
            "All blocks start with the same weights, as copies or by one seed. Make a new block for each layer."
        )
    eps = getattr(cls(replace(FIRST, norm_eps=1e-3)).norm, "eps", 1e-3)
    fixed = f"One thing for later: the eps of your final LayerNorm is {eps:g}, whatever `config.norm_eps` says."
    return fixed if eps != 1e-3 else ""


vision_transformer = CompositeExercise(
    MyVisionTransformer,
    task="`cls(config)`, an nn.Module: images to logits, (B, C, H, W) → (B, K).",
    trials=[((c,), images_for(c)) for c in (FIRST, SECOND, MEAN)],
    stages=("", WRITTEN_IN, 'Right with pool="cls". With pool="mean", the mean of the patches after the norm:'),
    probes=equations_1_to_4,
    names={
        "embeddings": "embedding embed patch_embed patch_embedding patch_embeddings tokens stem",
        "encoder": "blocks layers transformer encoder_blocks transformer_blocks encoder_layers body",
        "norm": "ln layernorm layer_norm final_norm ln_f norm_f last_norm",
        "head": "classifier mlp_head fc heads classification_head linear_head output",
    },
    parts={
        "embeddings": (embeddings, lambda size, P, C, D: sized(
            image_size=size, patch_size=P, in_channels=C, embed_dim=D, num_heads=1)),
        "encoder": (encoder_block, lambda D, h, M: sized(embed_dim=D, num_heads=h, mlp_dim=M)),
        "norm": (NORM, lambda D: sized(embed_dim=D)),
        "head": (HEAD, lambda D, K: sized(embed_dim=D, num_classes=K)),
    },
    hint="Four lines: `z = embeddings(images)`, `z = encoder(z)`, `y = norm(z)[:, 0]` (or the mean of the patches, as "
    "`config.pool` says), `return head(y)`.",
    shape="(B, K)",
    sizes=lambda c, x: {"B": len(x), "K": c.num_classes, "D": c.embed_dim, "1+N": c.num_tokens},
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


# fmt: off
def terms(c: ViTConfig) -> dict[str, int]:
    """Return the terms of the count. Those that are of one size in every model share a line."""
    D, M, L, K = c.embed_dim, c.mlp_dim, c.depth, c.num_classes
    return {
        "the class token (or the bias of the patch projection, or half of the final LayerNorm)": D,
        "the final LayerNorm": 2 * D,
        "the patch projection's matrix": c.patch_dim * D,
        "the positions": c.num_tokens * D,
        "one of the matrices of q, k and v (or attention's last one)": L * D * D,
        "the matrices of q, k and v": L * 3 * D * D,
        "the biases of q, k and v": L * 3 * D,
        "the bias of attention's projection (or of the MLP's second layer)": L * D,
        "one of the MLP's two matrices": L * D * M,
        "the first bias of the MLP": L * M,
        "one of the two LayerNorms of a block (or half of both)": L * 2 * D,
        "the blocks' LayerNorms (or attention's four biases)": L * 4 * D,
        "the head's matrix": D * K,
        "the bias of the head": K,
    }


def wrong_sizes(c: ViTConfig) -> dict[str, int]:
    """Return the counts of who takes a number for another."""
    D, M, L, right, qkv = c.embed_dim, c.mlp_dim, c.depth, my_parameter_count(c), 3 * c.embed_dim * (c.embed_dim + 1)
    changes = {
        "if the head is always counted for 1000 classes": {"num_classes": 1000},
        "if the MLP is always counted with 4·D instead of mlp_dim": {"mlp_dim": 4 * D},
        "if images are always counted with 3 channels": {"in_channels": 3},
        "if a patch is counted without its channels: it has C·P·P values": {"in_channels": 1},
        "if the depth is always 12": {"depth": 12},
        "if only one block is counted": {"depth": 1},
        "if one block is missing": {"depth": L - 1},
        "if the grid is taken to be square, as high as wide: N = h·h": {"image_size": c.grid[0] * c.patch_size},
    }
    return {text: my_parameter_count(replace(c, **change)) for text, change in changes.items()} | {
        'if a model with pool="mean" has no class token': right - 2 * D * (c.pool == "mean"),
        "if both biases of the MLP have mlp_dim values: the second one has D": right + L * (M - D),
        "if the embeddings are counted for every block": right + (L - 1) * (c.patch_dim + 2 + c.num_tokens) * D,
        "if q, k and v are multiplied by the number of heads": right + (c.num_heads - 1) * L * qkv,
        "if q, k and v are counted for one head only": right - L * (qkv - qkv // c.num_heads),
    }
# fmt: on


def miscount(counts: list[int]) -> str:
    """Say which terms, up to four, these counts of CONFIGS leave out or count twice, or which number is a wrong one."""
    tables, off = (
        list(map(terms, CONFIGS)),
        [got - my_parameter_count(c) for got, c in zip(counts, CONFIGS, strict=True)],
    )
    for names in (names for n in (1, 2, 3, 4) for names in combinations(tables[0], n)):
        sums = [sum(table[name] for name in names) for table in tables]
        if off in (sums, [-total for total in sums]):
            told = ", and ".join(names)
            return f"with {told} counted twice" if off == sums else f"without {told}"
    wrong = list(map(wrong_sizes, CONFIGS))
    return next((text for text in wrong[0] if [table[text] for table in wrong] == counts), "")


def judge_count(function: Callable) -> str:
    """Raise Wrong with the miscount that explains the reader's numbers for all configs, or for counting by building."""
    built, right, counts = [], list(map(my_parameter_count, CONFIGS)), []
    with register_module_parameter_registration_hook(lambda *parameter: built.append(parameter)):
        for config in CONFIGS:
            counts.append(call(function, config))
            if wrong_kind := misfit(counts[-1], right[len(counts) - 1]):
                raise Wrong(wrong_kind)
    if counts != right and (told := miscount(counts)):
        raise Wrong(f"You get exactly this count {told}.")
    for c, got, expected in zip(CONFIGS, counts, right, strict=True):
        if got != expected:
            sizes = f"C·P·P {c.patch_dim}, N {c.num_patches}, D {c.embed_dim}, mlp_dim {c.mlp_dim}, L {c.depth}, K"
            before = "" if c == CONFIGS[0] else WRITTEN_IN
            raise Wrong(joined(before, f"With {sizes} {c.num_classes}: {value_difference(got, expected)}"))
    if built:
        told = "Every count is right, but your function builds a model to get it. Can you do it by arithmetic?"
        raise Wrong(f"{told} Add up how many parameters each part has, from the fields of the config.")
    return ""


parameter_count = Exercise(
    my_parameter_count,
    task="`fn(config) -> int`: how many parameters the model of a ViTConfig has, by arithmetic.",
    judge=judge_count,
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
    bug = require_one_of(bug, SHOWS)
    if bug != broken.bug:
        raise Wrong(f"It is not “{bug}”, which shows so: {SHOWS[bug]}. Some bugs show in several tests: look at all.")
    return f"{bug}. The shortest way to it: {SHOWS[bug]}."


find_bug = Hunt(
    my_find_bug,
    task="`check.find_bug(broken, bug)`: the bug in a model that `draw_bug` has made.",
    judge=judge_bug,
    hint="Run the four tests on `broken.model` with `broken.labels`, and compare each measurement with the first row "
    "of the table. If all four pass, count the parameters, silence the branches, silence the blocks, and look at the "
    "pictures with their labels.",
)
