"""What a variant of the Vision Transformer is: Table 1 of the paper, and two smaller ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import errors

Size = int | tuple[int, int]

POSITIONS = ("learned", "none", "sincos", "factorized")
POOLS = ("cls", "mean")
GELUS = {"exact": "none", "tanh": "tanh"}  # what PyTorch calls them


@dataclass(frozen=True)
class ViTConfig:
    """Decide the shapes and options of a Vision Transformer. The defaults are ViT-B/16.

    Sizes of images and patches are in pixels, an int or `(height, width)`; a square one is stored as an int, so that
    equal configurations compare equal. `drop_path` rises linearly, from 0 in the first block to this. `gelu` is
    "exact", or "tanh" for the authors' approximation. A model of 0 classes has no head: it returns its features.

    Raises ValueError for a configuration that cannot be built, and shows the values that do not fit.
    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929), Table 1 and appendix B.1.
    """

    image_size: Size = 224
    patch_size: Size = 16
    in_channels: int = 3
    num_classes: int = 1000
    embed_dim: int = 768
    depth: int = 12
    num_heads: int = 12
    mlp_dim: int = 3072
    dropout: float = 0.0
    attention_dropout: float = 0.0
    drop_path: float = 0.0
    position: str = "learned"
    pool: str = "cls"
    representation_size: int | None = None
    norm_eps: float = 1e-6
    gelu: str = "exact"

    def __post_init__(self):
        errors.check_fields(self, errors.require_size, "image_size", "patch_size")
        errors.check_fields(self, errors.require_whole, "in_channels", "embed_dim", "depth", "num_heads", "mlp_dim")
        errors.check_fields(self, errors.require_whole, "num_classes", least=0)
        if self.representation_size is not None:
            errors.check_fields(self, errors.require_whole, "representation_size")
        errors.check_fields(self, errors.require_rate, "dropout", "attention_dropout", "drop_path", "norm_eps")
        errors.require_choice("position", self.position, POSITIONS)
        errors.require_choice("pool", self.pool, POOLS)
        errors.require_choice("gelu", self.gelu, GELUS)
        errors.require_heads(self.embed_dim, self.num_heads)
        if self.position == "sincos":
            errors.require_sincos(self.embed_dim)
        errors.require_whole_patches(to_pair(self.image_size), to_pair(self.patch_size))

    @classmethod
    def named(cls, name: str, **overrides) -> ViTConfig:
        """Return a variant of VARIANTS with any field replaced: `named("B/16", image_size=384)`.

        Raises ValueError for a name that does not exist, and suggests the nearest ones.
        """
        errors.require_choice("variant", name, VARIANTS)
        return replace(VARIANTS[name], **overrides)

    @property
    def grid(self) -> tuple[int, int]:
        """(h, w): the number of patches down and across."""
        (height, width), (patch_height, patch_width) = to_pair(self.image_size), to_pair(self.patch_size)
        return height // patch_height, width // patch_width

    @property
    def num_patches(self) -> int:
        """N = h·w."""
        return self.grid[0] * self.grid[1]

    @property
    def num_tokens(self) -> int:
        """T = 1 + N: the class token and the patches."""
        return 1 + self.num_patches

    @property
    def head_dim(self) -> int:
        """d = D / num_heads."""
        return self.embed_dim // self.num_heads

    @property
    def patch_dim(self) -> int:
        """C·P·P: the number of values in one patch."""
        patch_height, patch_width = to_pair(self.patch_size)
        return self.in_channels * patch_height * patch_width


def to_pair(size: Size) -> tuple[int, int]:
    """Return (height, width) for an int or a pair."""
    return tuple(size) if isinstance(size, (tuple, list)) else (size, size)


# Base, Large and Huge: Table 1 of the paper. Tiny and small: Touvron et al. 2020 (arXiv 2012.12877), Table 1.
VARIANTS = {
    "Ti/16": ViTConfig(embed_dim=192, depth=12, num_heads=3, mlp_dim=768),
    "S/16": ViTConfig(embed_dim=384, depth=12, num_heads=6, mlp_dim=1536),
    "B/16": ViTConfig(),
    "B/32": ViTConfig(patch_size=32),
    "L/16": ViTConfig(embed_dim=1024, depth=24, num_heads=16, mlp_dim=4096),
    "L/32": ViTConfig(patch_size=32, embed_dim=1024, depth=24, num_heads=16, mlp_dim=4096),
    "H/14": ViTConfig(patch_size=14, embed_dim=1280, depth=32, num_heads=16, mlp_dim=5120),
}
