"""Lesson 04: LayerNorm, the MLP, the encoder block."""

from itertools import permutations

import torch
import torch.nn.functional as F
from torch import nn

from .exercise import Exercise
from .lesson_03_attention import MySelfAttention, self_attention
from .modules import CompositeExercise, ModuleExercise
from .probes import as_sum, noise, probe_flow, probe_mixing
from .running import Wrong, close


def my_layer_norm(x, weight, bias, eps):
    mean = x.mean(dim=-1, keepdim=True)  # (B, T, 1)
    variance = x.var(dim=-1, correction=0, keepdim=True)  # (B, T, 1)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def probe_norm(got, expected, x, weight, bias, eps):
    unit = (expected - bias) / weight
    terms = {"its normed value": unit[..., 0], "1": torch.ones_like(unit[..., 0])}
    mine, right = (as_sum(each[..., 0], terms) for each in (got, expected))
    used = f"The norm is right. Then value 0 of a token becomes {mine}, and by `weight` and `bias` it becomes {right}."
    yield "normed" in mine and mine != right, used
    mine, x = ((got - bias) / weight)[0], x[0]  # of the first image
    mean = f"Without `weight` and `bias` the mean of token 0 is {mine[0].mean():.3g}, not 0"
    yield not close(mine.mean(-1), 0, 1e-3), f"{mean}: subtract the mean of each token's own D values, and then divide."
    centred, variance = x - x.mean(-1, keepdim=True), x.var(-1, correction=0)
    divisor = centred.square().sum(-1) / (mine * centred).sum(-1)
    known = {
        ": the variance divides by D - 1, not by D": (x.var(-1) + eps).sqrt(),
        ": eps is outside the root": variance.sqrt() + eps,
        ": eps has no effect, it belongs under the root": variance.sqrt(),
        " (`x ** 1/2` is x/2: write `x ** 0.5`)": (variance + eps) / 2,
    }
    how = next((text for text, other in known.items() if close(divisor, other)), "")
    root = (variance[0] + eps).sqrt()
    yield True, f"You divide token 0 by {divisor[0]:.4g}, and √(variance + eps) is {root:.4g}{how}."


def judge_layer_norm(function):
    layer_norm.judge_trials(function)
    names = set(getattr(getattr(function, "__code__", None), "co_names", ()))
    if {"layer_norm", "LayerNorm"} & names - getattr(function, "__globals__", {}).keys():  # a helper may be called so
        raise Wrong("The values are right, and they are PyTorch's own: the task is to do without `F.layer_norm`.")


TOKENS = noise(3, 5, 7)
TOKENS[2, 1] *= 1e-3  # so small that eps shows
TOKENS[1, 2] = 2  # its values are all equal: only eps keeps it finite

layer_norm = Exercise(
    my_layer_norm,
    task="`fn(x, weight, bias, eps)`: LayerNorm over the last axis, (B, T, D) → (B, T, D).",
    trials=[(x, *noise(2, x.shape[2]), eps) for x, eps in ((TOKENS, 1e-2), (0.05 * noise(2, 3, 11) + 0.3, 1e-4))],
    probes=probe_norm,
    clue="`dim=-1, keepdim=True, correction=0`. Is eps added before the root, and `bias` after `weight`?",
    shape="(B, T, D)",
    sizes=lambda x, *rest: dict(zip("BTD", x.shape, strict=True)),
    judge=judge_layer_norm,
)


class MyMlp(nn.Module):
    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.expand = nn.Linear(embed_dim, mlp_dim)
        self.activation = nn.GELU()
        self.contract = nn.Linear(mlp_dim, embed_dim)

    def forward(self, tokens):
        return self.contract(self.activation(self.expand(tokens)))


def probe_mlp(pair):
    yield from probe_mixing(pair)
    if pair.indices is None:
        return
    yield not close(pair.mine(pair.x[:, :1]), pair.mine(pair.x)[:, :1]), "Tokens mix. The MLP works on each alone."
    D, M = pair.args

    def run(x, second=1.0, first=1.0):
        return pair.mine_with(x, expand=first * torch.eye(M, D), contract=second * torch.eye(D, M))

    after = not close(run(pair.x, second=0.5), 0.5 * run(pair.x))
    yield after, "Half the second layer is not half the result: what comes after it? (It is Eq. 3 that adds the input.)"
    before = not close(run(pair.x, first=2.0), run(2 * pair.x))
    yield before, "Twice the first layer does not do what twice the input does: what comes before this layer?"
    points = torch.tensor([-3.0, -2, -1, -0.5, 0.5, 1, 2, 3])
    made = run(points[None, :, None].expand(1, -1, D))[0, :, 0]
    told = f"With layers that change nothing, your MLP makes {made[5]:.5f} of 1 and {made[2]:.5f} of -1"
    yield not close(made, F.gelu(points), 1e-5), f"{told}. GELU alone makes 0.84134 and -0.15866."


mlp = ModuleExercise(
    MyMlp,
    task="`cls(embed_dim, mlp_dim)`, an nn.Module: two linear layers and a GELU, (B, T, D) → (B, T, D).",
    trials=[((14, 33), noise(2, 5, 14)), ((9, 20), noise(3, 4, 9))],
    probes=probe_mlp,
    names={
        # the numbers are those in an `nn.Sequential`
        "expand": "fc1 linear1 lin1 l1 up first w1 b1 c_fc layer1 dense1 fc_in up_proj hidden dense 0",
        "contract": "fc2 linear2 lin2 l2 down second w2 b2 c_proj layer2 dense2 fc_out down_proj out 1 2 3",
    },
    clue="Two layers, D to mlp_dim and back, and `nn.GELU()` between them.",
    shape="(B, T, D)",
    sizes=lambda D, M, x: {"B": len(x), "T": x.shape[1], "D": D, "mlp_dim": M},
)


def judge_norm(build):
    """Judge a norm, a part of other modules, by what it makes of tokens so small that eps shows."""
    D = 20
    norm, x = build(D), 0.01 * noise(2, 5, D)
    for seed, parameter in enumerate(norm.parameters()):
        parameter.data = noise(*parameter.shape, seed=seed)
    orders = [each for each in permutations(norm.parameters()) if [p.numel() for p in each] == [D, D]]
    right = [F.layer_norm(x, (D,), weight.flatten(), bias.flatten(), eps=1e-6) for weight, bias in orders]
    if not any(close(norm(x), each) for each in right):
        raise Wrong("Small tokens come out differently than by `nn.LayerNorm(embed_dim, eps=1e-6)`: is eps 1e-6?")


class MyEncoderBlock(nn.Module):
    def __init__(self, embed_dim, num_heads, mlp_dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.attention = MySelfAttention(embed_dim, num_heads)
        self.norm2 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.mlp = MyMlp(embed_dim, mlp_dim)

    def forward(self, z):
        z = z + self.attention(self.norm1(z))  # Eq. 2
        return z + self.mlp(self.norm2(z))  # Eq. 3


def probe_block(pair):
    if pair.indices is not None:
        parts = {name: part for name, (part,) in encoder_block.find_parts(pair.mine).items()}
        asked = {"norm1": "z", "attention": "norm1", "norm2": "z + attention", "mlp": "norm2"}
        yield from probe_flow(pair, parts, "z", asked, "block", "z + attention + mlp", "Eqs. 2 and 3")


encoder_block = CompositeExercise(
    MyEncoderBlock,
    task="`cls(embed_dim, num_heads, mlp_dim)`, an nn.Module: Eqs. 2 and 3, (B, T, D) → (B, T, D).",
    trials=[((20, 5, 33), noise(2, 7, 20)), ((12, 2, 17), noise(3, 5, 12))],
    probes=probe_block,
    names={
        "norm1": "ln1 layer_norm1 attention_norm attn_norm norm_attention n1",
        "attention": "attn self_attn self_attention mha msa sa multihead_attention attention_layer",
        "norm2": "ln2 layer_norm2 mlp_norm ffn_norm norm_mlp n2",
        "mlp": "ffn ff ffwd feed_forward mlp_block feed_forward_layer",
    },
    parts={
        "norm1": (judge_norm, lambda D: (D, 5, 33)),
        "attention": (self_attention.judge_trials, lambda D, h: (D, h, 33)),
        "norm2": (judge_norm, lambda D: (D, 5, 33)),
        "mlp": (mlp.judge_trials, lambda D, M: (D, 1, M)),
    },
    clue="A sum takes z as it was before the norm: `z = z + attention(norm1(z))`. Eq. 3 goes on with this z.",
    shape="(B, T, D)",
    sizes=lambda D, h, M, x: {"B": len(x), "T": x.shape[1], "D": D, "mlp_dim": M, "d": D // h},
    imports='from vit_tutorial import take\n\nMySelfAttention, MyMlp = take("MySelfAttention"), take("MyMlp")',
)
