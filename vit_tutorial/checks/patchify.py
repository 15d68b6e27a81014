"""Exercises of notebook 01: how many patches, an image cut into them, and put together again."""

from __future__ import annotations

from .comparing import compare
from .exercise import exercise


@exercise(
    hint="How many patches fit side by side, how many fit above one another? `//` divides whole numbers.",
    solution="""
def num_patches(height, width, patch_size):
    return (height // patch_size) * (width // patch_size)
""",
)
def num_patches(function):
    """`fn(height, width, patch_size) -> int`: how many patches an image is cut into."""
    compare(function, lambda H, W, P: (H // P) * (W // P), [(4, 6, 2), (6, 9, 3)], gradients=False)
