"""Exercises of notebook 05: the whole Vision Transformer, and its parameters counted."""

from __future__ import annotations

from itertools import product

import torch

from ..config import ViTConfig
from .block_weights import complain_about_block, require_eps, silent_parameters
from .comparing import random_tensor
from .confirming import confirm, facts
from .differences import same
from .exercise import exercise
from .layouts import layouts, plain
from .model_mistakes import EQ1, HEAD_MISTAKES, LOUD_MISTAKES, POOL, SILENT_MISTAKES, model
from .model_weights import ModelParts, ModelReading, check_model_parts, check_starts, read_model
from .modules import Trial, find, recognise
from .parameters import count, judge_count
from .rearranging import ORDERS, OURS
from .verdict import Wrong

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
            recognise(first, SILENT_MISTAKES, readings, read_model)
    if found is None:
        raise unrecognised(first, "Already with zeros in all weights of attention")
    # Then with attention at work: the layout of its weights is open, and the order of the numbers in a patch.
    ways = list(layouts(parts.blocks.one(0, FIRST.depth).attention, FIRST.embed_dim, FIRST.num_heads))
    readings = [found._replace(layout=layout, order=order) for layout, order in product(ways, orders)]
    reading = find(first, model, readings, read_model)
    if reading is None:
        check_patches_seen(first)
        ways = [layout for layout in plain(ways) if layout.order == "n h d"]
        usual = [found._replace(layout=layout, order=order) for layout, order in product(ways, orders[:2])]
        recognise(first, LOUD_MISTAKES, usual, read_model)
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
    require_eps(w.norm)
    check_starts(trial, parts)


def check_mean(cls: type, reading: ModelReading) -> None:
    """Raise Wrong unless `pool="mean"` is right too."""
    try:
        mean = whole_trial(cls, MEAN)
    except Wrong as wrong:
        wrong.message = f'Right with pool="cls". With pool="mean":\n{wrong.message}'
        raise
    if find(mean, model, [reading], read_model) is None:
        recognise(mean, HEAD_MISTAKES, [reading], read_model)
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
