"""The checks of lesson 04 on right and wrong answers."""

import torch
import torch.nn.functional as F
from torch import nn

from vit_tutorial import EncoderBlock, Mlp, check
from vit_tutorial.experiments.blocks import SUSPECTS

from .variants import cell, judged, module, parameters, solved, with_parts


def divided(x, variance, eps):
    return (x - x.mean(-1, keepdim=True)) / (variance + eps).sqrt()


def by_matrix(x, w, b, eps):
    D = x.shape[-1]
    centred = x @ (torch.eye(D) - 1 / D)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * w + b


# What is changed in the solutions

MEAN, SPREAD = "x.mean(dim=-1", "x.var(dim=-1, correction=0"
ROOT = "torch.sqrt(variance + eps)"


def normalised(axes, correction=0):
    """LayerNorm over other axes."""
    return MEAN, f"x.mean(dim={axes}", SPREAD, f"x.var(dim={axes}, correction={correction}"


UP, GELU, DOWN = "nn.Linear(embed_dim, mlp_dim)", "nn.GELU()", "nn.Linear(mlp_dim, embed_dim)"
FORWARD = "self.contract(self.activation(self.expand(tokens)))"


def activation(formula):
    """The MLP with this formula of `x` for its activation."""
    return FORWARD, f"self.contract((lambda x: {formula})(self.expand(tokens)))", "self.activation = nn.GELU()", "pass"


NORM, ATTENTION, MLP = (
    "nn.LayerNorm(embed_dim, eps=1e-6)",
    "MySelfAttention(embed_dim, num_heads)",
    "MyMlp(embed_dim, mlp_dim)",
)
CALL, EQUATION_2 = "self.attention(self.norm1(z))", "z = z + self.attention(self.norm1(z))"
RESULT = "z + self.mlp(self.norm2(z))"
SECOND = "self.norm2 = nn.LayerNorm(embed_dim, eps=1e-6)"


def torchs(options="batch_first=True", call="self.attention(*[self.norm1(z)] * 3)[0]"):
    """A block with torch's attention."""
    return ATTENTION, f"nn.MultiheadAttention(embed_dim, num_heads, {options})", CALL, call


def sequential(*layers):
    """A block with another MLP, an `nn.Sequential` of these layers."""
    return MLP, f"nn.Sequential({', '.join(layers)})"


Backwards = module(  # the second layer made first
    lambda D, M: {"second": nn.Linear(M, D), "first": nn.Linear(D, M)},
    lambda self, x: self.second(F.gelu(self.first(x))),
)
Convolutions = module(  # a convolution of width 1 is a linear layer for each token
    lambda D, M: {"second": nn.Conv1d(M, D, 1), "first": nn.Conv1d(D, M, 1)},
    lambda self, x: self.second(F.gelu(self.first(x.mT))).mT,
)
BareMlp = module(
    lambda D, M: parameters("w1 w2 b1 b2", (D, M), (M, D), M, D),
    lambda self, x: F.gelu(x @ self.w1 + self.b1) @ self.w2 + self.b2,
)
Sequential = module(
    lambda D, M: {"0": nn.Linear(D, M), "1": nn.GELU(), "2": nn.Linear(M, D)}, nn.Sequential.forward, nn.Sequential
)
HandNorm = module(
    lambda D, *rest: {"gamma": nn.Parameter(torch.ones(D)), "beta": nn.Parameter(torch.zeros(D))},
    lambda self, x: divided(x, x.var(-1, keepdim=True, correction=0), 1e-6) * self.gamma + self.beta,
)
ThreeInputs = module(
    lambda D, h, M: {"inner": nn.MultiheadAttention(D, h, batch_first=True)},
    lambda self, q, k, v: self.inner(q, k, v),
)


Block = check.encoder_block.answer
RIGHT = {
    check.layer_norm: {
        "std": lambda x, w, b, eps: divided(x, x.std(2, unbiased=False, keepdim=True) ** 2, eps) * w + b,
        "E[x²] - E[x]²": (SPREAD + ", keepdim=True)", "x.square().mean(-1, True) - mean ** 2"),
        "a centring matrix": by_matrix,
        "an object": staticmethod(by_matrix),  # it has no `__code__`
        "in float64": ("mean = x", "x = x.double(); mean = x"),
        "with a helper of that name": cell("def layer_norm(x, w, b, e):\n    return ours(x, w, b, e)\n\n\n"
                                           "def f(*given):\n    return layer_norm(*given)",
                                           ours=check.layer_norm.answer)["f"],
    },
    check.mlp: {
        "the package's": Mlp,
        "sequential": Sequential,
        "backwards": Backwards,
        "numbered": ("self.expand", "self.lin_1", "self.contract", "self.Lin_2"),
        "convolutions": Convolutions,
        "bare parameters": BareMlp,
        "GELU by hand": activation("x * 0.5 * (1 + torch.erf(x / 2**0.5))"),
        "dropout": (DOWN, "nn.Sequential(nn.Linear(mlp_dim, embed_dim), nn.Dropout(0.1))"),
        "a layer under two names": (GELU, "nn.GELU(); self.both = nn.Sequential(self.expand, self.activation)"),
    },
    check.encoder_block: {
        "the package's": EncoderBlock,
        "suspect B": SUSPECTS["B"],
        "torch's attention": torchs(),
        "dropout": (*sequential(UP, GELU, "nn.Dropout(0.1)", DOWN),),
        "own attention and MLP": with_parts(
            Block, attention=lambda D, h, M: solved(check.self_attention)(D, h), mlp=lambda D, h, M: Backwards(D, M)),
        "bare parameters, norms by hand": with_parts(
            Block, mlp=lambda D, h, M: BareMlp(D, M), norm1=HandNorm, norm2=HandNorm),
        "attention without biases": torchs("bias=False, batch_first=True"),
    },
}  # fmt: skip
WRONG = {
    check.layer_norm: [
        (" * weight + bias", "", "a token becomes its normed value, and by"),
        (" + bias", "", "a token becomes 0.045·its normed value, and by"),
        ("weight + bias", "bias + weight", "becomes 0.297·its normed value + 0.045·1, and"),
        (*normalised(1), "the mean of token 0 is -0.295, not 0"),
        ("(x - mean)", "x", "the mean of token 0 is -0.553, not 0"),
        ("correction=0", "correction=1", "0.7561: the variance divides by D - 1"),
        (ROOT, "(torch.sqrt(variance) + eps)", "0.7561: eps is outside the root"),
        (lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b, eps), "do without `F.layer_norm`"),
    ],
    check.mlp: [
        (*activation("F.gelu(x) + x.mean(0)"), "somewhere images mix"),
        (*activation("F.gelu(x) + x.mean(1, keepdim=True)"), "Tokens mix. The MLP works on each alone"),
        (FORWARD, "tokens + " + FORWARD, "It is Eq. 3 that adds the input"),
        (FORWARD, "self.contract(self.expand(self.activation(tokens)))", "what comes before this layer?"),
        (GELU, "nn.ReLU()", "your MLP makes 1.00000 of 1 and 0.00000 of -1"),
        (UP, UP.replace("mlp_dim", "4 * embed_dim"), DOWN, DOWN.replace("mlp_dim", "4 * embed_dim"),
         "`expand.weight` is (56, D)"),
        (UP, UP[:-1] + ", bias=False)", "no `expand.bias`"),
        ("self.expand = " + UP, f'self.parts = {{"up": {UP}}}', "self.expand(", 'self.parts["up"](',
         "An optimizer does not find"),
    ],
    check.encoder_block: [
        (SUSPECTS["A"], "`norm1` is given z + attention. By Eqs. 2 and 3"),
        (SUSPECTS["D"], "`norm2` is given norm1 + attention. By Eqs. 2 and 3"),
        (RESULT, "z + self.mlp(z + 0 * self.norm2(z))", "`mlp` is given z + attention. By Eqs. 2 and 3"),
        (RESULT, RESULT.replace("norm2(z)", f"norm2(z + {CALL})"), EQUATION_2, "pass", "returns z + mlp. By Eqs."),
        (*torchs(call="self.attention(self.norm1(z), z, z)[0]"), "`attention` is given norm1, z. By"),
        (NORM, "nn.Identity()", "In `norm1`: Small tokens come out differently than by `nn.LayerNorm"),
        (SECOND, SECOND.replace(", eps=1e-6", ""), "In `norm2`: Small tokens come out differently"),
        (*sequential(UP, "nn.ReLU()", DOWN), "In `mlp`: With layers that change nothing"),
        (*torchs(call="self.attention(*[self.norm1(z)] * 3)"), "A pair, as `image_size`, `(images, "),
        (SECOND, SECOND + "; self.norm3 = nn.LayerNorm(embed_dim)", "does not depend on `norm3.weight`"),
        (MLP, "MyMlp(20, 33)", "wrong at another. Your code stops"),
        (SECOND, "self.norm2 = self.norm1", "are one and the same module"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


def test_other_parts_are_not_called_wrong():
    three = with_parts(solved(check.encoder_block, *torchs()), attention=ThreeInputs)
    assert check.encoder_block(three).status == "not judged"
    verdict = check.encoder_block(nn.TransformerEncoderLayer)
    assert verdict.status == "not judged"
    assert "There is no `mlp`. The check looks for `norm1`, `attention`, `norm2`, `mlp`. Yours" in verdict.message
