"""The checks of notebook 02 on right and wrong answers."""

import math

import torch
from torch import nn

from vit_tutorial import check, sincos_position_embedding

from .variants import judged, solved


def linear_with(weight, bias):
    """A linear layer with these numbers in it."""
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    linear.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
    return linear


def filled_by(fill, sizes=lambda conv: (conv.weight[0].numel(), conv.out_channels)):
    """A linear layer of the right sizes, or others, with `fill(linear, conv)` applied to it."""

    def mine(conv):
        linear = nn.Linear(*sizes(conv))
        fill(linear, conv)
        return linear

    return mine


def kernels(change, bias=lambda bias: bias):
    """A linear layer with the kernels, (D, C, P, P), changed into this matrix."""
    return lambda conv: linear_with(change(conv.weight), bias(conv.bias))


def meshgrid(grid, dim):
    """Sin-cos positions by the formula."""
    q = dim // 4
    speeds = torch.exp(-math.log(10000) * torch.arange(q) / q)
    parts = torch.meshgrid(*map(torch.arange, grid), indexing="ij")
    angles = [part.reshape(-1, 1) * speeds for part in parts]
    return torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], dim=1)


# What is changed in the solution of `sincos`

ROWS, COLUMNS, SIDE_BY_SIDE = ".repeat_interleave(w, dim=0)", ".repeat(h, 1)", "torch.cat([rows, columns], dim=1)"
WAVES = "torch.cat([angles.sin(), angles.cos()], dim=1)"

# What is changed in the solution of `embeddings`

LAYER = "nn.Conv2d(in_channels, embed_dim, kernel_size=patch_size, stride=patch_size)"
LINEAR = "self.P = patch_size; self.projection = nn.Linear(in_channels * patch_size**2, embed_dim)"
PROJECT = "self.projection(images).flatten(2).transpose(1, 2)"
TABLE, START = (
    "torch.randn(1, 1 + num_patches, embed_dim)",
    "nn.Parameter(0.02 * torch.randn(1, 1 + num_patches, embed_dim))",
)
EXPAND, JOIN, ADD = "self.class_token.expand(len(images), -1, -1)", "[class_token, patches]", "tokens + self.position"
CUT = "nn.functional.unfold(images, self.P, stride=self.P).mT"  # patches, (B, N, C·P·P)


def on_patches(cut, layer=LINEAR):
    """A linear layer on the patches that are cut so."""
    return f"self.projection = {LAYER}", layer, PROJECT, cut if "projection" in cut else f"self.projection({cut})"


IN_ORDER = "{}.unflatten(2, (-1, self.P, self.P)).permute(0, 1, {}).flatten(2)"
RIGHT = {
    check.linear_is_conv: {
        "nn.Parameter": ("linear.weight.copy_(weight)", "linear.weight = nn.Parameter(weight.clone())"),
        ".data": ("linear.bias.copy_", "linear.bias.data = conv.bias.data.clone", "(conv.bias)", "()"),
        "state dict": kernels(lambda weight: weight.flatten(1)),
        "rounded otherwise": kernels(lambda weight: (weight.flatten(1) + 3) - 3),
    },
    check.sincos: {
        "the package's": sincos_position_embedding,
        "meshgrid": meshgrid,
        "float64": (SIDE_BY_SIDE, SIDE_BY_SIDE + ".double()"),
    },
    check.embeddings: {
        "linear, ours": on_patches(CUT),
        "linear, channels last": on_patches(IN_ORDER.format(CUT, "3, 4, 2")),
        "lazy": (LAYER, "nn.LazyConv2d(embed_dim, patch_size, stride=patch_size)"),
        "no bias": (LAYER, LAYER[:-1] + ", bias=False)"),
        "Eq. 1's E (C·P·P, D)": on_patches(
            f"{CUT} @ self.projection",
            "self.P = patch_size; self.projection = nn.Parameter(torch.randn(in_channels * patch_size**2, embed_dim))"),
        "a table with spare rows": (TABLE, "torch.randn(1, 9 + num_patches, embed_dim)",
                                    ADD, ADD + "[:, :tokens.shape[1]]"),
        "token (D,)": ("zeros(1, 1, embed_dim)", "zeros(embed_dim)", "len(images), -1, -1", "len(images), 1, -1"),
        "positions (T, D)": (TABLE, TABLE.replace("(1, ", "(", 1)),
        "positions (D, T)": (TABLE, "torch.randn(embed_dim, 1 + num_patches)", ADD, ADD + ".T"),
        "nn.Embedding": (START, "nn.Embedding(1 + num_patches, embed_dim)",
                         ADD, ADD + "(torch.arange(tokens.shape[1]))"),
        "a position of its own for the class token": (
            "1 + num_patches, embed_dim))",
             "num_patches, embed_dim)); self.cls_pos = nn.Parameter(torch.randn(1, 1, embed_dim))",
            ADD, "tokens + torch.cat([self.cls_pos, self.position], 1)"),
        "in place, with dropout": (START, START + "; self.dropout = nn.Dropout(0.1)", ADD,
         "self.dropout(tokens.add_(self.position))"),
    },
}  # fmt: skip
WRONG = {
    check.linear_is_conv: [
        (kernels(lambda weight: 2 * weight.flatten(1)), "hold kernels [None, None, None"),
        (kernels(lambda weight: weight.flatten(1).roll(1, 0)), "hold kernels [4, 0, 1, 2, 3], not"),
        (kernels(lambda weight: weight.permute(0, 2, 3, 1).flatten(1)), "run as (row, column, channel)"),
        ("conv.bias is not None:", "True:", "is None, as `conv.bias` is"),
        ("    return linear", "    nn.init.zeros_(conv.weight)\n    return linear", "changes the convolution's own"),
        ("conv.bias is not None)", "bool(conv.bias))", "Boolean value of Tensor"),
        (filled_by(lambda linear, conv: setattr(linear, "weight", nn.Parameter(conv.weight.flatten(1))),
                   sizes=lambda conv: (conv.out_channels, conv.weight[0].numel())), "`bias` has the wrong shape"),
        (lambda conv: conv.weight.flatten(1), "Return the `nn.Linear` itself"),
    ],
    check.sincos: [
        ("[rows, columns]", "[columns, rows]", "[0, 0, 0, 0, 0, 1, 1, 1]. Yours: [0, 1, 2, 3"),
        (ROWS, ".repeat(w, 1)", COLUMNS, ".repeat_interleave(h, dim=0)", "0, 0, 1, 1, 1]. Yours: [0, 1, 2, 0"),
        ("waves(h,", "waves(h + 1,", ROWS, "[1:]" + ROWS, "[0, 0, 0, 0, 0, 1, 1, 1]. Yours: [1, 1, 1, 1, 1, 2"),
        ("[rows, columns]", "[rows, rows]", "The columns of patches 0, 1, 2, … are [0, 1, 2, 3, 4, 0, 1, 2]. Yours"),
        ("10000", "100", "Sines and cosines of row 1 are [0.841, 0.495, 0.265, 0.139"),
        ("columns = waves(w,", "columns = 0.5 * waves(w,", "Sines and cosines of column 1 are [0.421, 0.133"),
        (WAVES, "torch.stack([angles.sin(), angles.cos()], 2).flatten(1)", "row 1 are [0.841, 0.54, 0.265"),
        (ROWS, "[[n // h for n in range(h * w)]]", "Places count from 0"),
        (ROWS, ".repeat(1, w)", "`columns` is (h·w, D/2)"),
        ("dim // 2).re", "dim).re", "(h·w, 56) = (15, 56)"),
        (SIDE_BY_SIDE, SIDE_BY_SIDE + "[None]", "(1, h·w, D) = (1, 15, 28), and (h·w, D)"),
    ],
    check.embeddings: [
        (ADD, ADD + " + tokens.mean(0)", "images mix"),
        (JOIN, "[patches, class_token]", "Token 0 is position + patch 0. It must be class_token + position"),
        (".flatten(2).transpose(1, 2)", ".reshape(len(images), -1, self.position.shape[2])", "Token 1 is som"),
        (ADD, ADD + " + self.class_token", "Token 0 is 2·class_token + position"),
        (ADD, "torch.cat([tokens[:, :1], (tokens + self.position)[:, 1:]], 1)", "Token 0 is class_token. It must be"),
        (ADD, ADD + " * tokens.shape[2] ** 0.5", "Token 0 is class_token + 2.236·position"),
        (PROJECT, PROJECT + " / 2", "Token 1 is position + 0.5·patch 0"),
        ("zeros(1, 1,", "zeros(2, 1,", "`class_token` is (P, 1, D) = (2, 1, 5), and"),
        (TABLE, TABLE.replace("(1,", "(4,"), "`position` is (B, 1+N, D)"),
        ("1 + num_patches", "num_patches", "`position` is (1, N, D)"),
        (EXPAND, "nn.Parameter(" + EXPAND + ")", "self.projection(", "self.two = nn.Linear(2, 2); self.projection(",
         "An optimizer does not find all layers"),
        (ADD, "tokens", "does not depend on `position`"),
        (TABLE, "torch.randn(1, 2 + num_patches, embed_dim)", ADD, "tokens + self.position[:, tokens.shape[1]]",
         "Every token gets the same position"),
        (", stride=patch_size", "", "Here `tokens` is (B, 26, D) = (4, 26, 5), `self.position` is (1, 1+N, D)"),
        (START, TABLE, "`position` is not among your parameters"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


def test_other_layers_are_not_judged():
    more = "; self.linear = nn.Linear(embed_dim, embed_dim)"
    verdict = check.embeddings(solved(check.embeddings, START, START + more, PROJECT, f"self.linear({PROJECT})"))
    assert verdict.status == "not judged"
    assert "`linear.weight (5, 5)`" in verdict.message
