"""Groups of parameters for AdamW: what decays in them, by name, and what should."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from ..config import ViTConfig
from ..model import VisionTransformer
from ..training import parameter_groups
from .differences import kind
from .membership import stops_at_in
from .running import call
from .verdict import ReaderError, Wrong

SMALL = {"image_size": (6, 4), "patch_size": 2, "num_classes": 5, "embed_dim": 12, "num_heads": 3, "mlp_dim": 20}

# The model and the weight decay: positions in one table, not learned, and in two tables.
CASES = (
    (lambda: VisionTransformer(ViTConfig(**SMALL, depth=2)), 0.3),
    (lambda: VisionTransformer(ViTConfig(**SMALL, depth=1, position="sincos", pool="mean")), 0.05),
    (lambda: VisionTransformer(ViTConfig(**SMALL, depth=3, position="factorized")), 0.1),
)

LOOKS_LIKE = '`[{"params": [...], "weight_decay": weight_decay}, {"params": [...], "weight_decay": 0.0}]`'
USE = "The group of the matrices has the `weight_decay` that the function is given."
BY_KIND = {
    "the norms": "A norm is an `nn.LayerNorm`; in this package every one has `norm` in its name.",
    "the biases": "Their names end in `bias`.",
    "the class token": "It is a bare parameter, with more than one axis: a rule by `ndim` takes it for a matrix.",
    "the positions": "They are bare parameters, with more than one axis: a rule by `ndim` takes them for matrices.",
    "the matrices": "`nn.Linear` and `nn.Conv2d` have them, each as `weight`. The patch projection is a convolution: "
    "its weight has four axes.",
}


def groups_from(function, model: nn.Module, weight_decay: float) -> list[tuple[list, float]]:
    """The groups that the reader's function makes; an error in its `in` is explained."""
    try:
        return groups_of(call(function, model, weight_decay))
    except ReaderError as error:
        if not stops_at_in(error.__context__):
            raise
        text = f"{error.message}\n`in` compares tensors by value, not by identity."
        raise ReaderError(text, error.code, "Compare `id(p)` with the ids of the matrices, or go by names.") from None


def groups_of(result) -> list[tuple[list, float]]:
    """What is in each group, and its weight decay. Raises Wrong if AdamW would not take it."""
    if isinstance(result, dict):
        raise Wrong("A list of groups is asked for; got one dictionary.", f"The result looks like {LOOKS_LIKE}.")
    if isinstance(result, (Tensor, str)) or not hasattr(result, "__iter__"):
        raise Wrong(f"A list of groups is asked for; got {kind(result)}.", f"The result looks like {LOOKS_LIKE}.")
    groups = []
    for number, group in enumerate(call(list, result)):  # here run the reader's generators
        if not isinstance(group, dict):
            raise Wrong(f"Every group is a dictionary; group {number} is {kind(group)}.", f"Like {LOOKS_LIKE}.")
        for key in ("params", "weight_decay"):
            if key not in group:
                default = " AdamW then puts in its own, 0.01." if key == "weight_decay" else ""
                raise Wrong(f'Group {number} has no "{key}".{default}', f"The result looks like {LOOKS_LIKE}.")
        if isinstance(group["params"], set):
            raise Wrong('AdamW takes no set for "params": a set has no order.', "Make it a list.")
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else call(list, params)
        groups += [(params, group["weight_decay"])] if params else []
    check_taken([{"params": params, "weight_decay": decay} for params, decay in groups])
    return [([p[1] if isinstance(p, tuple) else p for p in params], float(decay)) for params, decay in groups]


def check_taken(groups: list[dict]) -> None:
    """Raise Wrong with AdamW's own words if it does not take these groups; what is there twice is for later."""
    seen = set()
    for group in groups:
        params = [p for p in group["params"] if id(p) not in seen]
        seen |= set(map(id, params))
        if any(isinstance(p, str) for p in params):
            raise Wrong('"params" holds names. AdamW takes the parameters themselves.', "Keep `p`, not `name`.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.optim.AdamW([{**group, "params": params}] if params else [nn.Parameter(torch.zeros(1))])
        except (TypeError, ValueError) as error:
            raise Wrong(f"AdamW does not take your groups: {error}.", f"They look like {LOOKS_LIKE}.") from None


def right_decay(model: nn.Module, weight_decay: float) -> dict[str, float]:
    """The weight decay that is right for each parameter, by name."""
    names = {id(p): name for name, p in model.named_parameters()}
    groups = parameter_groups(model, weight_decay)
    return {names[id(p)]: group["weight_decay"] for group in groups for p in group["params"]}


def check_groups(
    groups: list[tuple[list, float]], model: nn.Module, weight_decay: float, right: dict[str, float]
) -> None:
    """Raise Wrong unless every parameter is there, once, with the weight decay that is right for it."""
    names = {id(p): name for name, p in model.named_parameters()}
    given = [id(p) for params, _ in groups for p in params]
    if set(given).isdisjoint(names):
        raise Wrong("None of the model's parameters is in your groups. Are there copies, or nothing at all?")
    if not set(given) <= set(names):
        raise Wrong("There are tensors in your groups that are no parameters of the model: copies?")
    missing = [name for key, name in names.items() if key not in given]
    if missing:
        raise Wrong(
            f"In no group, and so never trained: {listed(missing)}.",
            "Every parameter goes into one group: an `else` takes what is left over.",
        )
    twice = [name for key, name in names.items() if given.count(key) > 1]
    if twice:
        raise Wrong(
            f"More than once in your groups: {listed(twice)}. AdamW refuses that, or warns.",
            "`elif` and `else`: what has gone into one group goes into no other.",
        )
    decay = {names[id(p)]: value for params, value in groups for p in params}
    if decay == {name: weight_decay - value for name, value in right.items()}:
        raise Wrong("The groups are exchanged: what should decay does not, and what should not does.")
    if not any(decay.values()):
        raise Wrong("Nothing decays: the weight decay is 0 in every group.", BY_KIND["the matrices"])
    if all(decay.values()):
        where = "all parameters are in one group" if len(groups) == 1 else "all parameters are in groups that decay"
        raise Wrong(f"Everything decays: {where}.", "Two groups: one for the matrices, one with 0.0 for all others.")
    kinds = {name: kind_of(name, model) for name in right}
    for kind_name, hint in BY_KIND.items():
        wrong = [name for name in right if kinds[name] == kind_name and bool(decay[name]) != bool(right[name])]
        if wrong:
            all_of = len(wrong) == list(kinds.values()).count(kind_name)
            which = f"{kind_name.capitalize()}" if all_of else f"Some of {kind_name}"
            verb = "decay, and should not" if not right[wrong[0]] else "do not decay, and should"
            verb = verb.replace("decay,", "decays,", 1) if kind_name == "the class token" else verb
            raise Wrong(f"{which} {verb}: {listed(wrong)}.", hint)
    other = next((value for name, value in decay.items() if value != right[name]), None)
    if other is not None:
        raise Wrong(f"The matrices decay by {other:g}, not by the given `weight_decay`, {weight_decay:g}.", USE)


def kind_of(name: str, model: nn.Module) -> str:
    """One of BY_KIND."""
    layer = model.get_submodule(name.rpartition(".")[0])
    if isinstance(layer, nn.LayerNorm):
        return "the norms"
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        return "the biases" if name.endswith("bias") else "the matrices"
    return "the class token" if name == "embeddings.class_token" else "the positions"


def listed(names: list[str]) -> str:
    """The first three, and how many more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{name}`" for name in names[:3]) + more
