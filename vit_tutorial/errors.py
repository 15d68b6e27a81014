"""Refuse values that cannot be: each `require_` function raises one ValueError with what was given and what would fit.

Those for numbers take NumPy's numbers too, and return Python's; a square size becomes one int.
"""

import difflib
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from numbers import Real


def to_whole(value: object) -> int | None:
    """Return a whole number of any library (NumPy, a one-element tensor) as an int, and None for anything else."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def is_number(value: object) -> bool:
    """Tell whether this is a number of Python or NumPy. True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def require_whole(name: str, value: object, least: int = 1) -> int:
    whole = to_whole(value)
    if whole is None or whole < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return whole


def require_size(name: str, value: object) -> int | tuple[int, int]:
    pair = isinstance(value, (tuple, list)) and len(value) == 2
    sides = [to_whole(side) for side in (value if pair else [value])]
    if not all(side is not None and side > 0 for side in sides):
        raise ValueError(f"{name} must be a positive whole number or a pair (height, width) of them, got {value!r}")
    return sides[0] if len(set(sides)) == 1 else tuple(sides)


def require_rate(name: str, value: object) -> float:
    if not is_number(value) or not 0 <= value < 1:
        raise ValueError(f"{name} must be a number in [0, 1), got {value!r}")
    return float(value)


def require_number(name: str, value: object, positive: bool = False) -> float:
    if not is_number(value) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if value < 0 or (positive and value == 0):
        raise ValueError(f"{name} must be {'above' if positive else 'at least'} 0, got {value!r}")
    return float(value)


def check_fields(record: object, require: Callable, *names: str, **limits) -> None:
    """Check these fields of a frozen dataclass, and keep what `require` returns: Python's numbers, and tuples."""
    for name in names:
        object.__setattr__(record, name, require(name, getattr(record, name), **limits))


def require_names(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (tuple, list)) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} are names, one for each class, got {value!r:.80}")
    return tuple(value)


def require_choice(name: str, value: str, choices: Iterable[str]) -> None:
    choices = list(choices)
    if value not in choices:
        lower = {choice.lower(): choice for choice in choices}
        words = str(value).lower().split()
        near = [lower[match] for match in difflib.get_close_matches(str(value).lower(), lower)]
        near = near or [choice for choice in choices if words and set(words) <= set(choice.lower().split())]
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(map(repr, choices))}"
        raise ValueError(f"unknown {name} {value!r}: {hint}")


def require_heads(embed_dim: int, num_heads: int) -> None:
    require_whole("num_heads", num_heads)
    if embed_dim % num_heads:
        rest = f"{embed_dim} = {embed_dim // num_heads}·{num_heads} + {embed_dim % num_heads}"
        raise ValueError(f"embed_dim {embed_dim} cannot be split over {num_heads} heads: {rest}")


def require_sincos(dim: int) -> None:
    if dim % 4:
        raise ValueError(f"sin-cos positions need a dimension divisible by 4 (sines and cosines, twice), got {dim}")


def require_whole_patches(image: tuple[int, int], patch: tuple[int, int]) -> None:
    (H, W), (P, Q) = image, patch
    for side, step in ((H, P), (W, Q)):
        if side % step:
            rest = f"{side} = {side // step}·{step} + {side % step}"
            raise ValueError(f"image {H}×{W} is not a whole number of {P}×{Q} patches: {rest}")


def require_same_classes(known: Sequence[str], asked: Sequence[str]) -> None:
    """Raise ValueError unless logit i stands for class i of the images: in another order, right answers look wrong."""
    for i, (a, b) in enumerate(zip_longest(known, asked, fillvalue="nothing")):
        if a != b:
            counts = f"the model has {len(known)} classes, the images {len(asked)}"
            raise ValueError(f"class {i} is {a!r} to the model and {b!r} in the images: {counts}")


def not_ours(model: object) -> ValueError:
    """Return the error for a model that is none of ours. It names the library of another one, and what converts it."""
    kind = type(model).__name__
    for library in ("timm", "torchvision", "transformers"):
        if any(cls.__module__.partition(".")[0] == library for cls in type(model).__mro__):
            kind = f"a {kind} of {library}: `from_{library}(model)` converts it"
    return ValueError(f"this takes a VisionTransformer of the package, got {kind}")


def require_vit(model: object) -> None:
    """Raise ValueError unless the model has the parts of ours. The reader's own class may have them, too."""
    if not all(hasattr(model, part) for part in ("embeddings", "encoder", "norm")):
        raise not_ours(model)
