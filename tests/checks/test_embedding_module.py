"""The check of notebook 02's class, Eq. 1 as a module, on right and wrong answers."""

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from einops.layers.torch import Rearrange
from torch import nn

import vit_tutorial
from vit_tutorial import check

from .variants import assert_passes, assert_wrong, cell, named, rows, solved


class Right(nn.Module):
    """Eq. 1 in the usual way. The variants change one method."""

    def __init__(self, image_size, patch_size, in_channels, embed_dim):
        super().__init__()
        self.P, self.C, self.D, self.N = patch_size, in_channels, embed_dim, (image_size // patch_size) ** 2
        self.projection = self.make_projection()
        self.class_token = self.make_class_token()
        self.position = self.make_position()

    def make_projection(self):
        return nn.Conv2d(self.C, self.D, self.P, stride=self.P)

    def make_class_token(self):
        return nn.Parameter(torch.zeros(1, 1, self.D))

    def make_position(self):
        return nn.Parameter(torch.randn(1, 1 + self.N, self.D))

    def project(self, x):
        return self.projection(x).flatten(2).transpose(1, 2)

    def prepend(self, x):
        return torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)

    def place(self, x):
        return x + self.position

    def forward(self, x):
        return self.place(self.prepend(self.project(x)))


def variant(**methods) -> type:
    """`Right` with other methods."""
    return type("Mine", (Right,), methods)


def parameter(*axes, fill=torch.randn):
    sizes = {"B": lambda self: 4, "1": lambda self: 1, "T": lambda self: 1 + self.N, "N": lambda self: self.N,
             "D": lambda self: self.D}  # fmt: skip
    return lambda self: nn.Parameter(fill(*(sizes[axis](self) for axis in axes)))


def beside(make, name, **methods):
    """A variant that has one more parameter or layer, made before its positions."""
    return variant(
        make_position=lambda self: (setattr(self, name, make(self)), Right.make_position(self))[1], **methods
    )


def linear(order):
    """A linear layer on patches flattened in this order."""
    pattern = f"b c (h p) (w q) -> b (h w) ({order})"
    return variant(
        make_projection=lambda self: nn.Linear(self.C * self.P**2, self.D),
        project=lambda self, x: self.projection(rearrange(x, pattern, p=self.P, q=self.P)),
    )


class Separate(Right):
    """The class token and the patches have position parameters of their own."""

    def make_position(self):
        self.class_position = nn.Parameter(torch.randn(1, self.D))
        return nn.Parameter(torch.randn(self.N, self.D))

    def forward(self, x):
        first = (self.class_token + self.class_position).expand(len(x), 1, -1)
        return torch.cat([first, self.project(x) + self.position], dim=1)


class FromFunctions(nn.Module):
    """No layer at all: bare parameters."""

    def __init__(self, image_size, patch_size, in_channels, embed_dim):
        super().__init__()
        self.P, self.D = patch_size, embed_dim
        self.E = nn.Parameter(torch.randn(in_channels * patch_size**2, embed_dim))
        self.b = nn.Parameter(torch.zeros(embed_dim))
        self.x_class = nn.Parameter(torch.randn(embed_dim))
        self.E_pos = nn.Parameter(torch.randn(1 + (image_size // patch_size) ** 2, embed_dim))

    def forward(self, x):
        z = vit_tutorial.patchify(x, self.P) @ self.E + self.b
        return torch.cat([self.x_class.expand(len(x), 1, self.D), z], 1) + self.E_pos


class Nested(nn.Module):
    """The package's projection, and einops for the class token."""

    def __init__(self, image_size, patch_size, in_channels, embed_dim):
        super().__init__()
        self.to_patches = vit_tutorial.PatchEmbedding(patch_size, in_channels, embed_dim)
        self.cls = nn.Parameter(torch.randn(1, 1, embed_dim))
        self.pos = nn.Parameter(torch.randn(1, 1 + (image_size // patch_size) ** 2, embed_dim))
        self.dropout = nn.Dropout(0.1)

    def forward(self, img):
        x = self.to_patches(img)
        x = torch.cat((repeat(self.cls, "1 1 d -> b 1 d", b=x.shape[0]), x), dim=1)
        x += self.pos[:, : x.shape[1]]
        return self.dropout(x)


class PositionIndices(Right):
    """Positions from nn.Embedding."""

    def make_position(self):
        self.register_buffer("indices", torch.arange(1 + self.N))
        return nn.Embedding(1 + self.N, self.D)

    def place(self, x):
        return x + self.position(self.indices)


RIGHT = {
    "usual": Right,
    "solution": solved(check.embeddings),
    "linear, ours": linear("c p q"),
    "linear, channels last": linear("p q c"),
    "linear, columns first": linear("c q p"),
    "linear in a Sequential": variant(
        make_projection=lambda self: nn.Sequential(
            Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=self.P, q=self.P), nn.Linear(self.C * self.P**2, self.D)
        ),
        project=lambda self, x: self.projection(x),
    ),
    "unfold": variant(
        make_projection=lambda self: nn.Linear(self.C * self.P**2, self.D),
        project=lambda self, x: self.projection(F.unfold(x, self.P, stride=self.P).mT),
    ),
    "lazy": variant(make_projection=lambda self: nn.LazyConv2d(self.D, self.P, stride=self.P)),
    "no bias": variant(make_projection=lambda self: nn.Conv2d(self.C, self.D, self.P, stride=self.P, bias=False)),
    "no bias, linear": variant(
        make_projection=lambda self: nn.Linear(self.C * self.P**2, self.D, bias=False),
        project=lambda self, x: self.projection(vit_tutorial.patchify(x, self.P)),
    ),
    "class token (D,)": variant(
        make_class_token=lambda self: nn.Parameter(torch.ones(self.D)),
        prepend=lambda self, x: torch.cat([self.class_token.expand(len(x), 1, -1), x], 1),
    ),
    "class token (1, D)": variant(
        make_class_token=lambda self: nn.Parameter(torch.ones(1, self.D)),
        prepend=lambda self, x: torch.cat([self.class_token.repeat(len(x), 1)[:, None], x], 1),
    ),
    "positions (T, D)": variant(make_position=parameter("T", "D")),
    "positions (D, T)": variant(
        make_position=parameter("D", "T"),
        place=lambda self, x: x + self.position.T,
    ),
    "positions first, then the class token": Separate,
    "bare parameters": FromFunctions,
    "nested": Nested,
    "nn.Embedding": PositionIndices,
}


@named(RIGHT)
def test_right_embeddings_pass(answer):
    assert assert_passes(check.embeddings, answer).message == ""


def test_positions_that_start_at_zero_pass_with_a_remark():
    zeros = variant(make_position=parameter("1", "T", "D", fill=torch.zeros))
    assert "Your positions all start at zero" in assert_passes(check.embeddings, zeros).message


class MadeInForward(Right):
    def forward(self, x):
        self.class_token = nn.Parameter(torch.zeros(1, 1, self.D))
        return super().forward(x)


class FirstCall(Right):
    """Right the first three times it is called."""

    calls = 0

    def place(self, x):
        self.calls += 1
        return super().place(x) if self.calls < 4 else x


def patches_first(self, x):
    return self.prepend(self.place(self.project(x)))


def at_end(self, x):
    return torch.cat([x, self.class_token.expand(len(x), -1, -1)], dim=1)


def first(make):
    """`prepend` with the token that `make(self, B)` returns."""
    return lambda self, x: torch.cat([make(self, len(x)), x], dim=1)


WRONG = [
    ("`class_token` is sized by the batch", variant(make_class_token=parameter("B", "1", "D"))),
    ("`position` is sized by the batch", variant(make_position=parameter("B", "T", "D"))),
    ("made in `forward`: an optimizer", MadeInForward),
    ("no parameter for the class token",
     variant(make_class_token=lambda self: None, prepend=first(
        lambda self, B: nn.Parameter(torch.zeros(B, 1, self.D))))),
    ("does not give the same result each time", variant(prepend=first(lambda self, B: torch.randn(B, 1, self.D)))),
    ("`position` is a plain tensor: no optimizer finds it",
     variant(make_position=lambda self: torch.randn(1, 1 + self.N, self.D))),
    ("`table` is a buffer: no optimizer finds it",
     variant(make_position=lambda self: self.register_buffer("table", torch.randn(1, 1 + self.N, self.D)),
                       place=lambda self, x: x + self.table)),
    ("`class_token` is a plain tensor: no optimizer finds it",
     variant(make_class_token=lambda self: nn.Parameter(torch.zeros(1, 1, self.D)) * 1)),
    ("requires_grad=False", variant(make_position=lambda self: Right.make_position(self).requires_grad_(False))),
    ("one position vector for all tokens", variant(make_position=parameter("1", "1", "D"))),
    ("All tokens get the same position", variant(place=lambda self, x: x + self.position[:, :1])),
    ("The positions are never added", variant(place=lambda self, x: x)),
    ("there are 9 position vectors, for the patches only",
     variant(make_position=parameter("1", "N", "D"), forward=patches_first)),
    ("The class token needs a row too", variant(make_position=parameter("1", "N", "D"))),
    ("each image needs its class token", variant(prepend=first(lambda self, B: self.class_token))),
    ("The class token gets no position",
     variant(forward=lambda self, x: self.prepend(self.project(x) + self.position[:, 1:]))),
    ("no parameter for the positions", variant(make_position=lambda self: None, place=lambda self, x: x)),
    ("The class token is missing",
     variant(make_class_token=lambda self: None, prepend=lambda self, x: x,
                               place=lambda self, x: x + self.position[:, 1:])),
    ("Your class token comes last", variant(prepend=at_end)),
    ("Your class token comes last", variant(forward=lambda self, x: Right.forward(self, x).roll(-1, 1))),
    ("The class token is not used", variant(prepend=first(lambda self, B: torch.zeros(B, 1, self.D)))),
    ("added to every patch as well", variant(project=lambda self, x: Right.project(self, x) + self.class_token)),
    ("`position` holds one number for every token", variant(make_position=parameter("1", "T", "1"))),
    ("The layers in `projection` are in a plain Python list",
     variant(make_projection=lambda self: [nn.Conv2d(self.C, self.D, self.P, self.P)],
                                     project=lambda self, x: self.projection[0](x).flatten(2).mT)),
    ("a kernel of 2×2 and moves by 1", variant(make_projection=lambda self: nn.Conv2d(self.C, self.D, self.P))),
    ("multiplied by √D", variant(project=lambda self, x: Right.project(self, x) * self.D**0.5)),
    ("Your `forward` returns nothing", variant(forward=lambda self, x: print(end=""))),
    ("The positions are multiplied", variant(place=lambda self, x: x * self.position)),
    ("There are 2 layers, `projection`, `linear`",
     beside(lambda self: nn.Linear(self.D, self.D), "linear", project=lambda self, x: self.linear(
        Right.project(self, x)))),
    ("a normalisation in your embeddings", beside(lambda self: nn.LayerNorm(self.D), "norm")),
    ("mix values of different patches",
     variant(project=lambda self, x: self.projection(x).reshape(len(x), -1, self.D))),
    ("Your patches are image rows",
     variant(make_projection=lambda self: nn.Linear(self.C * self.P**2, self.D), project=lambda self, x:
                           self.projection(x.reshape(len(x), -1, self.C * self.P**2)))),
    ("run down the columns of the grid", variant(project=lambda self, x: self.projection(x).mT.flatten(2).mT)),
    ("There is a GELU after the projection", variant(project=lambda self, x: F.gelu(Right.project(self, x)))),
    ("no gradient reaches `position`", variant(place=lambda self, x: x + self.position.data)),
    ("no gradient reaches `class_token`",
     variant(prepend=first(lambda self, B: self.class_token.detach().expand(B, -1, -1)))),
    ("no gradient flows back", variant(forward=torch.no_grad()(Right.forward))),
    ("0 of 18 patch tokens are right", variant(place=lambda self, x: x - x.mean(0) + self.position)),
    ("for tensor number 1 in the list. It was called as `Mine(x=tensor of (3, 2, 12, 12))`. Right with " "image_size=6",
     variant(make_class_token=lambda self: nn.Parameter(torch.zeros(1, 1, 5)))),
    ("Right with image_size=6", variant(make_projection=lambda self: nn.Conv2d(self.C, self.D, 2, 2))),
    ("`projection` must return D = 5 values for a patch",
     variant(make_projection=lambda self: nn.Conv2d(self.C, self.C * self.P**2, self.P, self.P))),
    ("wrong when the same object then gets (1, 3, 6, 6)", FirstCall),
    ("Expected size 2 but got size 1", variant(prepend=first(lambda self, B: torch.cat([self.class_token] * 2)))),
    ("one tensor is asked", variant(forward=lambda self, x: (Right.forward(self, x), None))),
    ("other parameters than Eq. 1", beside(lambda self: nn.Parameter(torch.ones(3)), "scale")),
    ("The projection E is missing",
     variant(make_projection=lambda self: None,
                              project=lambda self, x: vit_tutorial.patchify(x, self.P)[..., : self.D])),
    ("changes its input", variant(project=lambda self, x: Right.project(self, x.sub_(1)))),
]  # fmt: skip


@rows(WRONG)
def test_wrong_embeddings_are_named(answer, phrase):
    assert_wrong(check.embeddings, answer, phrase)


def test_an_error_shows_the_readers_line():
    mine = cell("""
        class Mine(nn.Module):
            def __init__(self, image_size, patch_size, in_channels, embed_dim):
                super().__init__()
                self.projection = nn.Conv2d(in_channels, embed_dim, patch_size, stride=patch_size)
                self.class_token = nn.Parameter(torch.zeros(1, 1, embed_dim))

            def forward(self, images):
                x = self.projection(images)
                return torch.cat([self.class_token, x], dim=1)
    """)["Mine"]
    verdict = assert_wrong(check.embeddings, mine, "in line 9 of your cell, in forward")
    assert verdict.code == "return torch.cat([self.class_token, x], dim=1)"
