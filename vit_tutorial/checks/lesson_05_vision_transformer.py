"""Lesson 05: the whole Vision Transformer, and how many parameters it has."""

from collections.abc import Callable
from itertools import combinations

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.utils import parameters_to_vector

from ..analysis.before_training import first_tests
from ..config import ViTConfig
from ..data import Shapes
from ..experiments.planted_bugs import BrokenModel
from ..pretrained import load_checkpoint
from .exercise import Exercise
from .lesson_02_embeddings import MyEmbeddings, embeddings
from .lesson_04_encoder_block import MyEncoderBlock, encoder_block, judge_norm
from .modules import CompositeExercise
from .probes import noise, probe_flow
from .running import Wrong, call, close, misfit
from .task import Hunt, require_one_of


class MyVisionTransformer(nn.Module):
    def __init__(self, image_size, patch_size, in_channels, num_classes, embed_dim, depth, num_heads, mlp_dim):
        super().__init__()
        blocks = [MyEncoderBlock(embed_dim, num_heads, mlp_dim) for _ in range(depth)]
        self.embeddings = MyEmbeddings(image_size, patch_size, in_channels, embed_dim)
        self.encoder = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)

    def forward(self, images):
        z = self.embeddings(images)  # Eq. 1: (B, 1+N, D)
        z = self.encoder(z)  # Eqs. 2-3: (B, 1+N, D)
        y = self.norm(z)[:, 0]  # Eq. 4: (B, D)
        return self.head(y)  # (B, K)


def probe_model(pair):
    if pair.indices is None:
        return
    logits = pair.mine(pair.x)
    for name, shares in {"softmax": logits, "log-softmax": logits.exp()}.items():
        yield close(shares.sum(1), 1), f"A {name} is inside the model. `F.cross_entropy` has one: return logits."
    parts = vision_transformer.find_parts(pair.mine)
    blocks = {f"block {i}": block for i, block in enumerate(parts.pop("encoder"))}
    sources = ["images", "embeddings", *blocks, "token 0 of norm"]
    asked = dict(zip(["embeddings", *blocks, "norm", "head"], sources, strict=True))
    single = {name: part for name, (part,) in parts.items()}
    yield from probe_flow(pair, single | blocks, "images", asked, "model", "head", "Eqs. 1 to 4")


def judge_model(cls):
    """Judge the model and its parts; then raise Wrong for too few blocks, equal ones, another head, or dropout."""
    vision_transformer.judge_trials(cls)
    for args, images in vision_transformer.trials:
        *_, K, D, L, _, _ = args
        model = cls(*args)
        parts = vision_transformer.find_parts(model)
        blocks = [parameters_to_vector(block.parameters()) for block in parts["encoder"]]
        if len(blocks) != L:
            raise Wrong(f"A model of depth {L} has {L} blocks; yours has {len(blocks)}.")
        if blocks[0].equal(blocks[1]):
            raise Wrong("All blocks have the same weights, as copies or by `[block] * depth`: make a new one each.")
        count = sum(parameter.numel() for parameter in parts["head"][0].parameters())
        if count != (D + 1) * K:
            raise Wrong(f"The head is one linear layer, D to K, with D·K + K parameters. Yours has {count}.")
        logits = model.eval()(images)
        if not all(close(model.train()(images), logits) for _ in range(10)):
            raise Wrong("In training your model gives other results than in eval mode: leave out dropout.")


vision_transformer = CompositeExercise(
    MyVisionTransformer,
    task="`cls(image_size, patch_size, in_channels, num_classes, embed_dim, depth, num_heads, mlp_dim)`, an nn.Module: "
    "images to logits, (B, C, H, W) → (B, K).",
    trials=[((9, 3, 2, 7, 20, 2, 5, 33), noise(12, 2, 9, 9)), ((8, 2, 3, 5, 14, 3, 2, 17), noise(12, 3, 8, 8))],
    probes=probe_model,
    names={
        "embeddings": "embedding embed patch_embed patch_embedding patch_embeddings tokens stem",
        "encoder": "blocks layers transformer encoder_blocks transformer_blocks encoder_layers body",
        "norm": "ln layer_norm final_norm ln_f norm_f last_norm",
        "head": "classifier mlp_head fc heads classification_head linear_head output",
    },
    called="`embeddings`, `encoder` (of `norm1`, `attention`, `norm2`, `mlp`), `norm`, `head`",
    parts={
        "embeddings": (embeddings.judge_trials, lambda size, P, C, D: (size, P, C, 7, D, 2, 1, 33)),
        "encoder": (encoder_block.judge_trials, lambda D, h, M: (9, 3, 2, 7, D, 2, h, M)),
        "norm": (judge_norm, lambda D: (9, 3, 2, 7, D, 2, 5, 33)),
    },
    stacks={"encoder": encoder_block},
    clue="A list of `depth` new blocks is `nn.Sequential(*blocks)`. Of what `norm` returns, the head gets token 0.",
    shape="(B, K)",
    sizes=lambda size, P, C, K, D, *rest: {"B": len(rest[-1]), "K": K, "D": D, "1+N": 1 + (size // P) ** 2},
    judge=judge_model,
    imports="from vit_tutorial import take\n\n"
    'MyEmbeddings, MyEncoderBlock = take("MyEmbeddings"), take("MyEncoderBlock")',
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


def terms_and_slips(c: ViTConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Return the terms of the count, those of one size in every model in one line, and what common slips add to it."""
    D, M, L, K = c.embed_dim, c.mlp_dim, c.depth, c.num_classes
    terms = {
        "the class token (or its position, or the bias of the patch projection, or half of the final LayerNorm)": D,
        "the final LayerNorm (or two of class token, its position and the bias of the patch projection)": 2 * D,
        "the patch projection's matrix": c.patch_dim * D,
        "the positions": c.num_tokens * D,
        "one of the matrices of q, k and v (or attention's last one)": L * D * D,
        "the matrices of q, k and v": L * 3 * D * D,
        "the biases of q, k and v": L * 3 * D,
        "the bias of attention's projection (or of the MLP's second layer)": L * D,
        "one of the MLP's two matrices": L * D * M,
        "the first bias of the MLP": L * M,
        "one of the two LayerNorms of a block (or half of both, or the biases of two of q, k and v)": L * 2 * D,
        "the blocks' LayerNorms (or attention's four biases)": L * 4 * D,
        "the head's matrix": D * K,
        "the bias of the head": K,
    }
    slips = {
        "for a single block": (1 - L) * (4 * D + 4 * D * (D + 1) + 2 * D * M + M + D),
        "without any bias": -D - L * (5 * D + M) - K,
        "without the MLPs": -L * (2 * D * M + M + D),
        "with q, k and v once for each head": L * (c.num_heads - 1) * 3 * D * (D + 1),
        "with an MLP that is 4·D wide, and not `mlp_dim`": L * (4 * D - M) * (2 * D + 1),
    }
    return terms, slips


def miscount(off: list[int]) -> str:
    """Say which slip, or which terms, up to four, explain by how much the counts of CONFIGS are off."""
    tables, slips = zip(*map(terms_and_slips, CONFIGS), strict=True)
    for name in slips[0]:
        if off == [slip[name] for slip in slips]:
            return name
    for names in (names for n in (1, 2, 3, 4) for names in combinations(tables[0], n)):
        sums = [sum(table[name] for name in names) for table in tables]
        if off == sums:
            return f"with {', and '.join(names)} counted twice"
        if off == [-total for total in sums]:
            return f"without {', and '.join(names)}"
    return ""


def judge_count(function: Callable) -> None:
    """Raise Wrong with the miscount that explains the reader's numbers for all configs, or for counting by building."""
    built, right = [], [my_parameter_count(config) for config in CONFIGS]
    with register_module_parameter_registration_hook(lambda *parameter: built.append(parameter)):
        counts = [call(function, config) for config in CONFIGS]
    if wrong_kind := next(filter(None, map(misfit, counts, right)), ""):
        raise Wrong(wrong_kind)
    off = [got - expected for got, expected in zip(counts, right, strict=True)]
    if any(off) and (told := miscount(off)):
        raise Wrong(f"You get exactly this count {told}.")
    for c, got, more in zip(CONFIGS, counts, off, strict=True):
        if more:
            sizes = f"N {c.num_patches}, D {c.embed_dim}, mlp_dim {c.mlp_dim}, L {c.depth}, K {c.num_classes}"
            raise Wrong(f"With {sizes}: {got:,} is {abs(more):,} too {'many' if more > 0 else 'few'}.")
    if built:
        raise Wrong("Every count is right, but your function builds a model to get it. Can you do it by arithmetic?")


parameter_count = Exercise(
    my_parameter_count,
    task="`fn(config) -> int`: how many parameters the model of a ViTConfig has, by arithmetic.",
    judge=judge_count,
    clue="A linear layer from a to b has a·b + b, a LayerNorm 2·D. Which parameters are in no layer, and in no block?",
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
    bug = require_one_of("bug", bug, SHOWS)
    if bug != broken.bug:
        images = load_checkpoint("shapes").card.normalise(Shapes(8, 28, seed=7).pixels)  # those of the lesson
        raise Wrong(f"It is not “{bug}”. With that, {SHOWS[bug]}. Of this model: {broken.measured(images)}.")
    return f"{bug}. The shortest way to it: {SHOWS[bug]}."


find_bug = Hunt(
    my_find_bug,
    task="`check.find_bug(broken, bug)`: the bug in a model that `draw_bug` has made.",
    judge=judge_bug,
    clue="Compare the tests with the table's first row. All alike? Count parameters, silence parts, look at labels.",
)
