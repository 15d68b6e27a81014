"""Are the weights of a reader's module among its parameters? Not those in a plain list, or made in `forward`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from .verdict import Wrong

LISTS = "Layers in a plain Python list or dict are no parameters of the module: `nn.ModuleList` registers them."


def check_registered(module: nn.Module) -> None:
    """Raise Wrong if layers lie in a plain list, tuple or dict, and their weights are not among the parameters."""
    known = {id(p) for p in module.parameters()}
    for name, part in module.named_modules():
        for key, value in vars(part).items():
            if isinstance(value, (list, tuple, dict)) and any(id(p) not in known for p in weights_in(value)):
                place, kind_of = f"{name}.{key}".lstrip("."), type(value).__name__
                raise Wrong(
                    f"The layers in `{place}` are in a plain Python {kind_of}: none of their weights is among the "
                    "module's parameters, so they would never learn, and `.to(device)` would leave them behind.",
                    LISTS,
                )


@contextmanager
def none_made() -> Iterator[None]:
    """Raise Wrong if a module gets new parameters inside the block."""
    made, thread = [], get_ident()
    handle = register_module_parameter_registration_hook(
        lambda module, name, parameter: made.append(name) if get_ident() == thread else None
    )
    try:
        yield
    finally:
        handle.remove()
    if made:
        raise Wrong(
            "Layers or parameters are made in `forward`: an optimizer, which is made before the first call, never sees "
            "them.",
            "Make them in `__init__`; `forward` only uses them.",
        )


def weights_in(value, depth: int = 20) -> Iterator[Tensor]:
    """The parameters of the modules in lists, tuples and dicts within one another."""
    if isinstance(value, nn.Module):
        yield from value.parameters()
    elif isinstance(value, (list, tuple, dict)) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from weights_in(item, depth - 1)
