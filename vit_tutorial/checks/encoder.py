"""Exercises of notebook 04: LayerNorm, the MLP and the encoder block."""

from __future__ import annotations

from torch import nn

from .block_weights import (
    NORM_ORDERS,
    BlockParts,
    BlockReading,
    check_block_parts,
    check_hidden,
    complain_about_block,
    mlp_parameters,
    read_block,
    read_mlp,
    silent_parameters,
    sort_layers,
)
from .comparing import compare, random_tensor
from .confirming import confirm, facts
from .differences import same
from .encoder_mistakes import (
    IDENTITY,
    MIXING_MISTAKES,
    MLP_MISTAKES,
    RESIDUAL,
    STRUCTURE_MISTAKES,
    BlockWeights,
    MlpWeights,
    block,
)
from .encoder_mistakes import mlp as reference_mlp
from .exercise import exercise
from .layouts import layouts, plain
from .modules import Layer, Trial, find, paired, recognise
from .norm_mistakes import NORM_MISTAKES
from .norm_mistakes import layer_norm as reference_norm
from .registered import LISTS
from .verdict import Wrong


@exercise(
    hint="Mean and variance of each token over its D numbers (`dim=-1, keepdim=True, correction=0`); subtract the "
    "mean, divide by √(variance + eps); multiply by `weight`, add `bias`.",
    solution="""
def layer_norm(x, weight, bias, eps):
    mean = x.mean(dim=-1, keepdim=True)  # (B, T, 1)
    variance = x.var(dim=-1, correction=0, keepdim=True)  # (B, T, 1)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias
""",
)
def layer_norm(function):
    """`fn(x, weight, bias, eps)`: LayerNorm over the last axis, (B, T, D) → (B, T, D)."""
    flat, small = random_tensor(3, 4, 6), 0.05 * random_tensor(2, 3, 7) + 0.3
    flat[1, 2] = 2.0  # a token whose numbers are all equal: only eps keeps it finite
    flat[2, 1] *= 1e-3  # one in which a small eps shows
    trials = [
        (x, random_tensor(x.shape[-1]), random_tensor(x.shape[-1], seed=1), eps)
        for x, eps in ((flat, 1e-2), (small, 1e-4))
    ]
    compare(function, reference_norm, trials, "(B, T, D)", NORM_MISTAKES)


@exercise(
    hint="`nn.Linear(embed_dim, mlp_dim)`, `nn.GELU()`, `nn.Linear(mlp_dim, embed_dim)`, one after another.",
    solution="""
class MyMlp(nn.Module):
    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.expand = nn.Linear(embed_dim, mlp_dim)
        self.activation = nn.GELU()
        self.contract = nn.Linear(mlp_dim, embed_dim)

    def forward(self, tokens):
        return self.contract(self.activation(self.expand(tokens)))
""",
    takes="class",
)
def mlp(cls):
    """`cls(embed_dim, mlp_dim)`, an nn.Module: two linear layers and a GELU, (B, T, D) → (B, T, D)."""
    D, M = 14, 33
    first, count = mlp_trial(cls, 2, 5, D, M), 2 * D * M + M + D
    orders = mlp_orders(first)
    order = find(first, reference_mlp, orders, read_mlp_trial)
    if order is None:
        recognise(first, MLP_MISTAKES, orders, read_mlp_trial)
        raise Wrong(
            "The shape is right, the values are not those of the MLP, and none of the usual mistakes explains them.\n"
            + facts(first, count)
            + ("" if same(first.run(first.x[:, :1]), first.out[:, :1]) else MIXED),
            "Three steps, one after another: linear to mlp_dim, `nn.GELU()`, linear back to embed_dim. Nothing else.",
        )
    confirm(first, lambda: mlp_trial(cls, 3, 4, 9, 20), reference_mlp, order, read_mlp_trial, count)


MIXED = " But a token's result depends on the other tokens: an MLP works on each token alone."


def mlp_trial(cls: type, B: int, T: int, D: int, M: int) -> Trial:
    """A trial with the parts of an MLP: two layers, mlp_dim numbers between them, no norm."""
    sizes = f"embed_dim {D} and mlp_dim {M}, for {B} images of {T} tokens"
    trial = Trial(cls, (D, M), random_tensor(B, T, D), (B, T, D), "(B, T, D)", sizes)
    if trial.parts.norms:
        raise Wrong("There is a LayerNorm inside your MLP.", "The norm is the encoder block's work (Eq. 3).")
    if len(found := mlp_layers(trial)) != 2:
        are = "is" if len(found) == 1 else "are"
        raise Wrong(f"An MLP has two linear layers; among your parameters there {are} {len(found)}.", LISTS)
    for order in mlp_orders(trial):
        check_hidden(len(read_mlp_trial(trial, order).expand), M, D)
    return trial


def mlp_orders(trial: Trial) -> list[tuple[int, int]]:
    """Which of the two layers may come first."""
    return [order for order in ((0, 1), (1, 0)) if read_mlp_trial(trial, order)]


def mlp_layers(trial: Trial) -> list[Layer]:
    return [*trial.parts.layers, *paired(trial.parts.loose, max(trial.args))]


def read_mlp_trial(trial: Trial, order: tuple[int, int]) -> MlpWeights | None:
    first, second = (mlp_layers(trial)[i] for i in order)
    return read_mlp(first, second, trial.args[0])


@exercise(
    hint="Two lines. `z = z + attention(norm1(z))`, then `z = z + mlp(norm2(z))`. Both norms are "
    "`nn.LayerNorm(embed_dim, eps=1e-6)`.",
    solution="""
class MyEncoderBlock(nn.Module):
    def __init__(self, embed_dim, num_heads, mlp_dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.attention = SelfAttention(embed_dim, num_heads)
        self.norm2 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.mlp = Mlp(embed_dim, mlp_dim)

    def forward(self, z):
        z = z + self.attention(self.norm1(z))  # Eq. 2
        return z + self.mlp(self.norm2(z))  # Eq. 3
""",
    takes="class",
)
def encoder_block(cls):
    """`cls(embed_dim, num_heads, mlp_dim)`, an nn.Module: Eqs. 2 and 3, (B, T, D) → (B, T, D)."""
    D, heads, M = 20, 5, 33
    first, count = block_trial(cls, 2, 7, D, heads, M), 4 * (D * D + D) + 2 * D * M + M + D + 4 * D
    parts = block_parts(first)
    # First with zeros in attention: only the norms' order is open, and the sums around it show.
    orders = [BlockReading(order) for order in NORM_ORDERS]
    with first.silenced(silent_parameters(parts)):
        order = find(first, block, orders, read_block_trial)
        if order is None:
            recognise(first, STRUCTURE_MISTAKES, orders, read_block_trial)
    if order is None:
        with first.silenced([*silent_parameters(parts), *mlp_parameters(parts)]):
            identity = "" if first.agrees(first.x) else f" {IDENTITY}"
        raise unrecognised_block(first, count, "Already with zeros in all weights of attention", identity)
    # Then with attention at work: only the layout of its weights is open.
    seconds = [other.norms for other in orders if other.norms[1] == order.norms[1]]
    ways = list(layouts(parts.attention, D, heads))
    readings = [BlockReading(norms, layout) for norms in seconds for layout in ways]
    reading = find(first, block, readings, read_block_trial)
    if reading is None:
        usual = [BlockReading(order.norms, layout) for layout in plain(ways)]
        recognise(first, MIXING_MISTAKES, usual, read_block_trial)
        raise unrecognised_block(
            first, count, "With zeros in all weights of attention the block is right; with attention"
        )
    complain_about_block(read_block_trial(first, reading))
    check_dropout(first)
    confirm(first, lambda: block_trial(cls, 3, 5, 12, 2, 17), block, reading, read_block_trial, count, MIXING_MISTAKES)


def block_trial(cls: type, B: int, T: int, D: int, heads: int, M: int) -> Trial:
    sizes = f"embed_dim {D}, num_heads {heads} and mlp_dim {M}, for {B} images of {T} tokens"
    small = 0.05 * random_tensor(B, T, D)  # so that eps shows
    trial = Trial(cls, (D, heads, M), small, (B, T, D), "(B, T, D)", sizes)
    check_block_parts(block_parts(trial), 1, M, D)
    return trial


def block_parts(trial: Trial) -> BlockParts:
    D, heads, _ = trial.args
    return sort_layers([*trial.parts.layers, *paired(trial.parts.loose, 3 * D)], trial.parts.norms, D, heads)


def read_block_trial(trial: Trial, reading: BlockReading) -> BlockWeights | None:
    D, heads, _ = trial.args
    return read_block(block_parts(trial), reading, D, heads)


def check_dropout(trial: Trial) -> None:
    """Raise Wrong if what one dropout returns goes straight into another."""
    dropped, twice = [], []

    def note(module, inputs, output):
        twice.extend(x for x in inputs if any(x is y for y in dropped))
        dropped.append(output)

    active = [m for m in trial.module.modules() if isinstance(m, nn.Dropout) and m.p > 0]
    handles = [m.register_forward_hook(note) for m in active]
    trial.module.train()
    trial.run()
    trial.module.eval()
    for handle in handles:
        handle.remove()
    if twice:
        raise Wrong(
            "In training the same numbers are dropped twice: one dropout stands right behind another.",
            "One dropout after each linear layer is enough: in the block, or inside attention and MLP, not both.",
        )


def unrecognised_block(trial: Trial, count: int, when: str, identity: str = "") -> Wrong:
    found = len(trial.parts.norms)
    norms = "" if found == 2 else f" It has {found} LayerNorm{'s'[: found != 1]}; two are needed."
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in trial.module.modules()):
        norms = (
            " Its norm is a BatchNorm, which normalises over the batch; a LayerNorm is needed, over each token's own D."
        )
    return Wrong(
        f"The shape is right. {when} the values are not those of Eqs. 2 and 3, and none of the usual mistakes explains "
        f"them.{identity}\n{facts(trial, count)}{norms}",
        f"{RESIDUAL} Put the package's `SelfAttention` or `Mlp` in place of your own: does it pass then?",
    )
