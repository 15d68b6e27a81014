"""The checks of notebook 02 on right and wrong answers."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn

import vit_tutorial
from vit_tutorial import check, sincos_position_embedding

from .variants import changed, judged


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


@filled_by
def by_parameters(linear, conv):
    linear.weight = nn.Parameter(conv.weight.detach().reshape(conv.out_channels, -1))
    linear.bias = conv.bias


@filled_by
def by_data(linear, conv):
    linear.weight.data = conv.weight.data.flatten(1).clone()
    linear.bias.data = torch.zeros(conv.out_channels) if conv.bias is None else conv.bias.data.clone()


def kernels(change):
    """A linear layer with the kernels, (D, C, P, P), changed into this matrix."""
    return lambda conv: linear_with(change(conv.weight), conv.bias)


each_entry = partial(torch.repeat_interleave, dim=0)


def waves(count, dim):
    """The codes of notebook 02: (count, dim)."""
    return sincos_position_embedding((count, 1), 2 * dim)[:, :dim]


def placed(rows=each_entry, columns=lambda codes, h: codes.repeat(h, 1), together=torch.hstack, parts=2):
    """Codes of D/`parts` numbers, spread over the patches by `rows` and `columns`, and put together."""

    def mine(grid, dim):
        (h, w), values = grid, dim // parts
        return together([rows(waves(h, values), w), columns(waves(w, values), h)])

    return mine


def by_loop(row, column):
    """The code of each patch's row and column, which are found by these functions of n, h and w."""

    def mine(grid, dim):
        (h, w), half = grid, dim // 2
        codes = [(waves(h, half)[row(n, h, w)], waves(w, half)[column(n, h, w)]) for n in range(h * w)]
        return torch.stack([torch.cat(pair) for pair in codes])

    return mine


def meshgrid(indexing="ij"):
    """Sin-cos positions by the formula."""

    def mine(grid, dim):
        q = dim // 4
        speeds = torch.exp(-math.log(10000) * torch.arange(q) / q)
        parts = torch.meshgrid(*map(torch.arange, grid), indexing=indexing)
        angles = [part.reshape(-1, 1) * speeds for part in parts]
        return torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], dim=1)

    return mine


# Eq. 1 as a module


def parameter(axes, fill=torch.randn):
    def make(self):
        sizes = {"B": 4, "1": 1, "T": 1 + self.N, "N": self.N, "D": self.D, "C·P·P": self.C * self.P**2}
        return nn.Parameter(fill(*(sizes[axis] for axis in axes.split())))

    return make


class Right(nn.Module):
    """Eq. 1 in the usual way. The variants change a part or a method."""

    parts = {  # noqa: RUF012
        "projection": lambda self: nn.Conv2d(self.C, self.D, self.P, stride=self.P),
        "class_token": parameter("1 1 D", torch.zeros),
        "position": parameter("1 T D"),
    }

    def __init__(self, image_size, patch_size, in_channels, embed_dim):
        super().__init__()
        self.P, self.C, self.D = patch_size, in_channels, embed_dim
        self.N = (image_size // patch_size) ** 2
        for name, make in self.parts.items():
            setattr(self, name, make(self))

    def project(self, x):
        return self.projection(x).flatten(2).transpose(1, 2)

    def token(self, B):
        return self.class_token.expand(B, -1, -1)

    def prepend(self, x):
        return torch.cat([self.token(len(x)), x], dim=1)

    def place(self, x):
        return x + self.position

    def forward(self, x):
        return self.place(self.prepend(self.project(x)))


METHODS = ("project", "token", "prepend", "place", "forward")


def variant(**changes) -> type:
    """`Right` with other methods, and with other or more parts: what `part(self)` makes."""
    methods = {name: changes.pop(name) for name in METHODS if name in changes}
    return changed(Right, parts={**Right.parts, **changes}, **methods)


def linear(cut, bias=True):
    """A linear layer on the patches that `cut(images, P)` makes."""
    return variant(
        projection=lambda self: nn.Linear(self.C * self.P**2, self.D, bias=bias),
        project=lambda self, x: self.projection(cut(x, self.P)),
    )


def flattened(order):
    """A linear layer on patches flattened in this order."""
    return linear(lambda x, P: rearrange(x, f"b c (h p) (w q) -> b (h w) ({order})", p=P, q=P))


RIGHT = {
    check.linear_is_conv: {
        "nn.Parameter": by_parameters,
        ".data": by_data,
        "state dict": lambda conv: linear_with(conv.weight.flatten(1), conv.bias),
    },
    check.class_token: {
        "repeat": lambda x, token: torch.cat([token.repeat(len(x), 1, 1), x], dim=1),
        "expand to the shape": lambda x, token: torch.cat([token.expand(len(x), 1, x.size(-1)), x], dim=-2),
        "einops": lambda x, token: torch.cat([repeat(token, "1 1 d -> b 1 d", b=len(x)), x], dim=1),
        "hstack": lambda x, token: torch.hstack([token.tile(len(x), 1, 1), x]),
        "ones": lambda x, token: torch.cat([token * torch.ones(len(x), 1, 1), x], dim=1),
        "always float32": (
            lambda x, token: torch.cat([token.expand(len(x), -1, -1), x], dim=1).float(),
            "your result is torch.float32, and the solution's torch.float64",
        ),
    },
    check.sincos: {
        "the package's": sincos_position_embedding,
        "meshgrid": meshgrid(),
        "waves of the notebook": placed(),
        "a loop": by_loop(lambda n, h, w: n // w, lambda n, h, w: n % w),
        "float64": (
            lambda grid, dim: meshgrid()(grid, dim).double(),
            "your result is torch.float64, and the solution's",
        ),
    },
    check.embeddings: {
        "usual": Right,
        "linear, ours": flattened("c p q"),
        "linear, channels last": flattened("p q c"),
        "unfold": linear(lambda x, P: F.unfold(x, P, stride=P).mT),
        "lazy": variant(projection=lambda self: nn.LazyConv2d(self.D, self.P, stride=self.P)),
        "no bias": (linear(vit_tutorial.patchify, bias=False), "Eq. 1 has none either"),
        "Eq. 1's E (C·P·P, D)": (
            variant(
                projection=parameter("C·P·P D"),
                project=lambda self, x: vit_tutorial.patchify(x, self.P) @ self.projection,
            ),
            "Eq. 1 has none either",
        ),
        "a table with spare rows": variant(
            position=lambda self: nn.Parameter(torch.randn(1, 9 + self.N, self.D)),
            place=lambda self, x: x + self.position[:, : x.shape[1]],
        ),
        "token (D,)": variant(class_token=parameter("D"), token=lambda self, B: self.class_token.expand(B, 1, -1)),
        "positions (T, D)": variant(position=parameter("T D")),
        "positions (D, T)": variant(position=parameter("D T"), place=lambda self, x: x + self.position.T),
        "nested": variant(
            projection=lambda self: vit_tutorial.PatchEmbedding(self.P, self.C, self.D),
            project=lambda self, x: self.projection(x),
            dropout=lambda self: nn.Dropout(0.1),
            place=lambda self, x: self.dropout(x.add_(self.position)),
        ),
        "nn.Embedding": variant(
            position=lambda self: nn.Embedding(1 + self.N, self.D),
            indices=lambda self: self.register_buffer("index", torch.arange(1 + self.N)),
            place=lambda self, x: x + self.position(self.index),
        ),
        "positions at zero": (
            variant(position=parameter("1 T D", torch.zeros)),
            "Your positions all start with the same value",
        ),
    },
}


WRONG = {
    check.linear_is_conv: [
        (lambda conv: nn.Linear(conv.weight[0].numel(), conv.out_channels), "is it still its own random one"),
        (lambda conv: linear_with(conv.weight.flatten(1), None), "the bias is missing"),
        (kernels(lambda weight: weight.permute(0, 2, 3, 1).flatten(1)), "flattened as (row, column, channel)"),
        (filled_by(lambda linear, conv: [
            linear.weight.data.copy_(conv.weight.flatten(1)), linear.bias.data.copy_(conv.bias)]),
         "Right for a convolution with a bias. This one has none"),
        (filled_by(lambda linear, conv: linear.weight.copy_(conv.weight.flatten(1))),
         "You write into a tensor whose gradient is recorded, such as a parameter."),
        (lambda conv: (by_data(conv), nn.init.zeros_(conv.weight))[0], "changes the convolution's own weights"),
    ],
    check.class_token: [
        (lambda x, t: torch.cat([x, t.expand(len(x), -1, -1)], 1), "Your class token comes last"),
        (lambda x, t: x + t, "You add the class token to every patch"),
        (lambda x, t: torch.cat([t.detach().expand(len(x), -1, -1), x], 1), "the gradient that flows back is not"),
        (lambda x, t: torch.cat([t, x], 1), "one class token for each of the B images"),
        (lambda x, t: torch.cat([t.expand(len(x), -1, -1), x], 0), "`dim=0` counts images"),
        (lambda x, t: torch.ones(3, 5, 5), "right shape and wrong values"),
    ],
    check.sincos: [
        (meshgrid("xy"), "run down the columns of the grid"),
        (by_loop(lambda n, h, w: n // h, lambda n, h, w: n % h), "Your patch n is in row n // h, column n % h"),
        (placed(rows=lambda codes, w: codes.repeat(1, w)), "There are only h codes of rows for h·w patches"),
        (placed(together=sum, parts=1), "You add the row's code and the column's. They stand side by side"),
        (lambda grid, dim: rearrange(waves(math.prod(grid), dim), "n (wave i) -> n (i wave)", wave=2),
         "along one line"),
        (lambda grid, dim: sincos_position_embedding(grid, dim)[None], "(h·w, D) = (15, 12) expected, got (1, 15, 12)"),
    ],
    check.embeddings: [
        (variant(class_token=parameter("B 1 D")), "must match the existing size"),
        (variant(token=lambda self, B: setattr(self, "class_token", parameter("1 1 D")(self)) or Right.token(self, B)),
         "made in `forward`: an optimizer"),
        (variant(position=parameter("1 1 D")), "one position vector for all tokens"),
        (variant(position=parameter("1 N D")), "The class token needs a row too"),
        (variant(projection=lambda self: None, layer=lambda self: nn.Linear(self.C * self.P**2, self.D),
                 project=lambda self, x: self.layer(vit_tutorial.patchify(x, self.P)), place=lambda self, x: x),
         "The positions are never added"),
        (variant(prepend=lambda self, x: torch.cat([x, self.token(len(x))], dim=1)), "Your class token comes last"),
        (variant(project=lambda self, x: self.projection(x).reshape(len(x), -1, self.D)),
         "mix values of different patches"),
        (variant(projection=lambda self: nn.Conv2d(self.C, self.D, self.P)), "moves by one pixel"),
        (variant(position=lambda self: torch.randn(1, 1 + self.N, self.D)), "`position` is a plain tensor"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


UNKNOWN = {
    "`linear.weight` (5, 5)": variant(
        linear=lambda self: nn.Linear(self.D, self.D), project=lambda self, x: self.linear(Right.project(self, x))
    ),
}


@pytest.mark.parametrize("phrase", UNKNOWN)
def test_other_layers_are_not_judged(phrase):
    verdict = check.embeddings(UNKNOWN[phrase])
    assert verdict.status == "not judged"
    assert phrase in verdict.message
