"""The checks of notebook 02 on right and wrong answers."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn

import vit_tutorial
from vit_tutorial import check, sincos_position_embedding
from vit_tutorial.config import to_pair

from .variants import cell, changed, judged

# The functions


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


per_channel = partial(filled_by, sizes=lambda conv: (conv.kernel_size[0] ** 2, conv.out_channels))


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


def expanded(x, token):
    return token.expand(len(x), -1, -1)


def join(*tokens):
    return torch.cat(tokens, dim=1)


each_entry = partial(torch.repeat_interleave, dim=0)


def whole_list(codes, times):
    return codes.repeat(times, 1)


def waves(count, dim):
    """The codes of notebook 02: (count, dim)."""
    return sincos_position_embedding((count, 1), 2 * dim)[:, :dim]


def placed(rows=each_entry, columns=whole_list, together=torch.hstack, parts=2):
    """Codes of D/`parts` numbers, spread over the patches by `rows` and `columns`, and put together."""

    def mine(grid, dim):
        (h, w), values = grid, dim // parts
        return together([rows(waves(h, values), w), columns(waves(w, values), h)])

    return mine


def sincos(
    layout="row.sin row.cos column.sin column.cos", indexing="ij", start=0, frequencies=lambda i, q: 10000 ** -(i / q)
):
    """Sin-cos positions as people write them, with one thing wrong."""

    def mine(grid, dim):
        row, column = torch.meshgrid(*(torch.arange(side) + start for side in grid), indexing=indexing)
        q = dim // 4
        omega = frequencies(torch.arange(q), q)
        angles = {"row": row.reshape(-1, 1) * omega, "column": column.reshape(-1, 1) * omega}
        return torch.cat([getattr(angles[p.split(".")[0]], p.split(".")[1])() for p in layout.split()], dim=1)

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
        self.N = math.prod(to_pair(image_size)) // patch_size**2
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


def class_apart(self, x):
    first = (self.class_token + self.class_position).expand(len(x), 1, -1)
    return torch.cat([first, self.project(x) + self.position], dim=1)


ClassApart = variant(class_position=parameter("1 D"), position=parameter("N D"), forward=class_apart)


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
    },
    check.sincos: {
        "the package's": sincos_position_embedding,
        "meshgrid": sincos(frequencies=lambda i, q: torch.exp(-math.log(10000) * i / q)),
        "waves of the notebook": placed(),
    },
    check.embeddings: {
        "usual": Right,
        "linear, ours": flattened("c p q"),
        "linear, channels last": flattened("p q c"),
        "linear, columns first": flattened("c q p"),
        "unfold": linear(lambda x, P: F.unfold(x, P, stride=P).mT),
        "lazy": variant(projection=lambda self: nn.LazyConv2d(self.D, self.P, stride=self.P)),
        "no bias": variant(projection=lambda self: nn.Conv2d(self.C, self.D, self.P, stride=self.P, bias=False)),
        "no bias, linear": linear(vit_tutorial.patchify, bias=False),
        "token (D,)": variant(class_token=parameter("D"), token=lambda self, B: self.class_token.expand(B, 1, -1)),
        "token (1, D)": variant(
            class_token=parameter("1 D"), token=lambda self, B: self.class_token.repeat(B, 1)[:, None]
        ),
        "positions (T, D)": variant(position=parameter("T D")),
        "positions (D, T)": variant(position=parameter("D T"), place=lambda self, x: x + self.position.T),
        "positions first, then the class token": ClassApart,
        "bare parameters": variant(
            projection=parameter("C·P·P D"),
            bias=parameter("D"),
            project=lambda self, x: vit_tutorial.patchify(x, self.P) @ self.projection + self.bias,
        ),
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
        "positions at zero": (variant(position=parameter("1 T D", torch.zeros)), "Your positions all start at zero"),
    },
}


LOST = cell("""
    def project(self, x):
        x = self.projection(x).flatten(2)
        x.transpose(1, 2)
        return x
""")["project"]
PER_CHANNEL = "the P·P values of one channel"
ONE_EACH = "one class token for each of the B images"

WRONG = {
    check.linear_is_conv: [
        (lambda conv: nn.Linear(conv.weight[0].numel(), conv.out_channels), "its own random ones"),
        (lambda conv: linear_with(conv.weight.flatten(1), None), "the bias is missing"),
        (lambda conv: linear_with(conv.weight.flatten(1), 0 * conv.bias), "the bias is missing"),
        (lambda conv: linear_with(conv.weight.flatten(1), torch.rand_like(conv.bias)), "is it still the"),
        (kernels(lambda weight: weight.permute(0, 2, 3, 1).flatten(1)), "flattened as (row, column, channel)"),
        (kernels(lambda weight: weight.permute(0, 1, 3, 2).flatten(1)), "flattened as (channel, column, row)"),
        (lambda conv: linear_with(conv.weight.flatten(1).T, None), "In and out are exchanged"),
        (filled_by(lambda linear, conv: [
            linear.weight.data.copy_(conv.weight.flatten(1)), linear.bias.data.copy_(conv.bias)]),
         "Right for a convolution with a bias. This one has none"),
        (lambda conv: linear_with(conv.weight.flatten(1), torch.ones(4) if conv.bias is None else conv.bias),
         "Your layer adds one all the same"),
        (filled_by(lambda linear, conv: setattr(linear, "weight", nn.Parameter(conv.weight.flatten(1).T.contiguous()))),
         "The weight is transposed, (12, 5)"),
        (filled_by(lambda linear, conv: linear.weight.data.copy_(conv.weight)), "The kernels are not flattened"),
        (filled_by(lambda linear, conv: linear.load_state_dict({"weight": conv.weight}, strict=False)),
         "The kernels are not flattened"),
        (filled_by(lambda linear, conv: setattr(linear, "weight", conv.weight)), "The weight is still (5, 3, 2, 2)"),
        (filled_by(lambda linear, conv: linear.weight.copy_(conv.weight.flatten(1))),
         "You write into a parameter while gradients are recorded"),
        (filled_by(lambda linear, conv: linear.weight.__setitem__(..., conv.weight.flatten(1))),
         "with torch.no_grad()"),
        (kernels(lambda weight: weight.reshape(-1, len(weight)).T), "`reshape` and `.T` mix up the kernels"),
        (kernels(lambda weight: weight.flip(2, 3).flatten(1)), "in other places"),
        (lambda conv: conv, "what came back is of type Conv2d"),
        (kernels(lambda weight: weight[:, 0].flatten(1)), "layer goes from 4 to 5"),
        (filled_by(lambda linear, conv: linear.load_state_dict(by_data(conv).state_dict()), lambda conv: (12, 5)),
         "size mismatch for weight"),
        (lambda conv: (by_data(conv), nn.init.zeros_(conv.weight))[0], "changes the convolution's own weights"),
        (per_channel(lambda linear, conv: None), "your layer goes from 4 to 5"),
        (per_channel(lambda linear, conv: linear.weight.data.copy_(conv.weight.flatten(1))), PER_CHANNEL),
        (per_channel(lambda linear, conv: linear.load_state_dict({"weight": conv.weight.flatten(1)}, strict=False)),
         PER_CHANNEL),
    ],
    check.class_token: [
        (lambda x, t: join(x, expanded(x, t)), "Your class token comes last"),
        (lambda x, t: x + t, "You add the class token to every patch"),
        (lambda x, t: join(expanded(x, t), x[:, 1:]), "the place of the first patch"),
        (lambda x, t: join(expanded(x, t), x[:, :-1]), "The last patch is lost"),
        (lambda x, t: join(expanded(x, torch.zeros(1, 1, x.shape[2])), x), "made inside the function"),
        (lambda x, t: join(x.mean(1, keepdim=True), x), "the mean of the patches"),
        (lambda x, t: join(expanded(x, t), x, expanded(x, t)), "at both ends"),
        (lambda x, t: torch.cat([t.expand(1, x.shape[1], -1), x], 0), "`dim=0` counts images"),
        (lambda x, t: torch.cat([t.expand_as(x), x], 2), "`dim=2` counts the values in a token"),
        (lambda x, t: join(t.expand_as(x), x), "There are N class tokens"),
        (lambda x, t: join(t, x[:1]), "Only the first image is left"),
        (lambda x, t: join(expanded(x, t.detach()), x), "no gradient reaches the class token"),
        (lambda x, t: join(expanded(x, nn.Parameter(t)), x), "reaches the class token"),
        (lambda x, t: join(expanded(x, t), x.data), "no gradient reaches the patches"),
        (lambda x, t: join(expanded(x, t), x).float(), "of dtype torch.float64"),
        (lambda x, t: join(t.expand(3, -1, -1), x), "You put 3 class tokens in front"),
        (lambda x, t: join(torch.randn(len(x), 1, x.shape[2]), x), "made inside the function"),
        (lambda x, t: join(expanded(x, nn.Parameter(torch.randn(1, 1, x.shape[2]))), x), "made inside the function"),
        (lambda x, t: join(2 * expanded(x, t.detach()), x), "differs is at [0, 0, 0]"),
        (lambda x, t: join(expanded(x, t) + torch.rand(()), x), "something in your function is random"),
        (lambda x, t: join(t, x), ONE_EACH),
        (lambda x, t: torch.cat([t, x], 0), "`dim=0` counts images"),
        (lambda x, t: torch.cat([t, x], 2), "`dim=2` counts the values in a token"),
        (lambda x, t: torch.cat([expanded(x, t), x], 0), "`dim=0` counts images"),
        (lambda x, t: join(t.expand(32, -1, -1), x), "You put 32 class tokens in front"),
    ],
    check.sincos: [
        (sincos("column.sin column.cos row.sin row.cos"), "The halves are exchanged"),
        (sincos("row.cos row.sin column.cos column.sin"), "The cosines come before the sines"),
        (sincos("row.sin column.sin row.cos column.cos"), "All sines come first"),
        (sincos("row.sin row.cos row.sin row.cos"), "Both halves hold the row"),
        (sincos("column.sin column.cos column.sin column.cos"), "Both halves hold the column"),
        (sincos(indexing="xy"), "run down the columns of the grid"),
        (placed(rows=whole_list), "Your rows run 0, 1, 2, 0, 1, 2"),
        (placed(columns=each_entry), "Your columns stay the same for h patches"),
        (placed(rows=whole_list, columns=each_entry), "run down the columns of the grid"),
        (placed(together=sum, parts=1), "You add the row's code and the column's"),
        (placed(rows=lambda codes, _: codes, columns=lambda codes, _: codes), "repeat them first"),
        (sincos(start=1), "counted from 1"),
        (sincos(frequencies=lambda i, q: 10000 ** -(i / (q - 1))), "divide the exponent by D/4"),
        (sincos(frequencies=lambda i, q: 10000 ** (i / q)), "Your frequencies rise"),
        (sincos(frequencies=lambda i, q: 10000 ** -(2 * i / q)), "fall twice as fast"),
        (sincos(frequencies=lambda i, q: 10000 ** -(i / (2 * q))), "fall half as fast"),
        (sincos(frequencies=lambda i, q: torch.ones(q)), "All your frequencies are 1"),
        (lambda grid, dim: rearrange(sincos()(grid, dim), "n (half wave i) -> n (half i wave)", half=2, wave=2),
         "Sines and cosines alternate"),
        (lambda grid, dim: rearrange(waves(math.prod(grid), dim), "n (wave i) -> n (i wave)", wave=2),
         "along one line"),
        (placed(together=torch.cat), "Your parts stand below one another"),
        (placed(together=torch.cat, parts=1), "Your parts stand below one another"),
        (lambda grid, dim: torch.cat(sincos()(grid, dim).chunk(4, dim=1)), "Your parts stand below one another"),
        (lambda grid, dim: torch.cat([waves(side, dim // 2) for side in grid]), "Join them along the values"),
        (placed(columns=lambda codes, h: torch.cat([codes.flip(0) if row % 2 else codes for row in range(h)])),
         "Every second row of yours runs from right to left"),
        (lambda grid, dim: torch.cat([torch.zeros(1, dim), sincos()(grid, dim)]), "One row too many"),
        (lambda grid, dim: sincos()(grid, dim).reshape(*grid, dim), "The grid is still there"),
        (lambda grid, dim: sincos_position_embedding(grid, dim)[None], "a batch axis in front"),
        (lambda grid, dim: sincos_position_embedding(grid, dim).double(), "of dtype torch.float32"),
        (sincos(frequencies=lambda i, q: 100 ** -(i / q)), "fall half as fast"),
        (sincos(frequencies=lambda i, q: 1000 ** -(i / q)), "right shape and wrong values"),
        (lambda grid, dim: sincos_position_embedding((grid[0], grid[0]), dim), "(15, 12) expected, got (9, 12)"),
        (placed(together=sum), "and so a vector has D/2 values"),
        (placed(parts=1), "have 2·D values"),
    ],
    check.embeddings: [
        (variant(class_token=parameter("B 1 D")), "`class_token` is sized by the batch"),
        (variant(position=parameter("B T D")), "`position` is sized by the batch"),
        (variant(token=lambda self, B: setattr(self, "class_token", parameter("1 1 D")(self)) or Right.token(self, B)),
         "made in `forward`: an optimizer"),
        (variant(class_token=lambda self: None, token=lambda self, B: nn.Parameter(torch.zeros(B, 1, self.D))),
         "no parameter for the class token"),
        (variant(token=lambda self, B: torch.randn(B, 1, self.D)), "does not give the same result each time"),
        (variant(position=lambda self: torch.randn(1, 1 + self.N, self.D)),
         "`position` is a plain tensor: no optimizer finds it"),
        (variant(position=lambda self: self.register_buffer("table", torch.randn(1, 1 + self.N, self.D)),
                 place=lambda self, x: x + self.table),
         "`table` is a buffer: no optimizer finds it"),
        (variant(class_token=lambda self: parameter("1 1 D")(self) * 1),
         "`class_token` is a plain tensor: no optimizer finds it"),
        (variant(position=lambda self: Right.parts["position"](self).requires_grad_(False)), "requires_grad=False"),
        (variant(position=parameter("1 1 D")), "one position vector for all tokens"),
        (variant(place=lambda self, x: x + self.position[:, :1]), "All tokens get the same position"),
        (variant(place=lambda self, x: x), "The positions are never added"),
        (variant(position=parameter("1 N D"), forward=lambda self, x: self.prepend(self.place(self.project(x)))),
         "there are 9 position vectors, for the patches only"),
        (variant(position=parameter("1 N D")), "The class token needs a row too"),
        (variant(token=lambda self, B: self.class_token), "each image needs its class token"),
        (variant(forward=lambda self, x: self.prepend(self.project(x) + self.position[:, 1:])),
         "The class token gets no position"),
        (variant(position=lambda self: None, place=lambda self, x: x), "no parameter for the positions"),
        (variant(class_token=lambda self: None, forward=lambda self, x: self.project(x) + self.position[:, 1:]),
         "The class token is missing"),
        (variant(prepend=lambda self, x: join(x, self.token(len(x)))), "Your class token comes last"),
        (variant(forward=lambda self, x: Right.forward(self, x).roll(-1, 1)), "Your class token comes last"),
        (variant(token=lambda self, B: torch.zeros(B, 1, self.D)), "The class token is not used"),
        (variant(project=lambda self, x: Right.project(self, x) + self.class_token), "added to every patch as well"),
        (variant(position=parameter("1 T 1")), "`position` holds one number for every token"),
        (variant(projection=lambda self: [nn.Conv2d(self.C, self.D, self.P, self.P)],
                 project=lambda self, x: self.projection[0](x).flatten(2).mT),
         "The layers in `projection` are in a plain Python list"),
        (variant(projection=lambda self: nn.Conv2d(self.C, self.D, self.P)), "a kernel of 2×2 and moves by 1"),
        (variant(project=lambda self, x: Right.project(self, x) * self.D**0.5), "multiplied by √D"),
        (variant(forward=lambda self, x: print(end="")), "Your `forward` returns nothing"),
        (variant(place=lambda self, x: x * self.position), "The positions are multiplied"),
        (variant(project=LOST), "`x.transpose(1, 2)` changes nothing"),
        (variant(linear=lambda self: nn.Linear(self.D, self.D),
                 project=lambda self, x: self.linear(Right.project(self, x))),
         "There are 2 layers, `projection`, `linear`"),
        (variant(norm=lambda self: nn.LayerNorm(self.D)), "a normalisation in your embeddings"),
        (variant(project=lambda self, x: self.projection(x).reshape(len(x), -1, self.D)),
         "mix values of different patches"),
        (linear(lambda x, P: x.reshape(len(x), -1, x.shape[1] * P**2)), "Your patches are image rows"),
        (variant(project=lambda self, x: self.projection(x).mT.flatten(2).mT), "run down the columns of the grid"),
        (variant(project=lambda self, x: F.gelu(Right.project(self, x))), "There is a GELU after the projection"),
        (variant(place=lambda self, x: x + self.position.data), "no gradient reaches `position`"),
        (variant(token=lambda self, B: self.class_token.detach().expand(B, -1, -1)),
         "no gradient reaches `class_token`"),
        (variant(forward=torch.no_grad()(Right.forward)), "no gradient flows back"),
        (variant(place=lambda self, x: x - x.mean(0) + self.position), "0 of 18 patch tokens are right"),
        (variant(class_token=lambda self: nn.Parameter(torch.zeros(1, 1, 5))),
         "in the list. It was called as `Mine(x=tensor of (3, 2, 12, 12))`. Right with image_size=6"),
        (variant(projection=lambda self: nn.Conv2d(self.C, self.D, 2, 2)), "Right with image_size=6"),
        (variant(projection=lambda self: nn.Conv2d(self.C, self.C * self.P**2, self.P, self.P)),
         "`projection` must return D = 5 values for a patch"),
        # right the first three times
        (variant(right=lambda self: 3 * [True],
                 place=lambda self, x: x + self.position if self.right and self.right.pop() else x),
         "wrong when the same object then gets (1, 3, 6, 6)"),
        (variant(token=lambda self, B: torch.cat([self.class_token] * 2)), "Expected size 2 but got size 1"),
        (variant(forward=lambda self, x: (Right.forward(self, x), None)), "one tensor is asked"),
        (variant(scale=lambda self: nn.Parameter(torch.ones(3))), "other parameters than Eq. 1"),
        (variant(projection=lambda self: None,
                 project=lambda self, x: vit_tutorial.patchify(x, self.P)[..., : self.D]),
         "The projection E is missing"),
        (variant(project=lambda self, x: Right.project(self, x.sub_(1))), "changes its input"),
        (variant(forward=lambda self, x: torch.cat([self.class_token, self.projection(x)], dim=1)),
         "It was called as `Mine(x=tensor of (2, 3, 6, 6))`"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)
