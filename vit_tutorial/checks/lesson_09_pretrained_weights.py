"""Lesson 09: a state dict under other names, tensors that have no place, and a mistake in a copy that looks right."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import product

import torch
from torch import Tensor

from ..config import ViTConfig
from ..experiments.secret_mistakes import IN_EMBEDDINGS, MISTAKES, Suspect
from ..model import VisionTransformer
from ..pretrained.tensor_names import as_theirs
from .exercise import Exercise
from .running import Wrong, call, close, describe, joined, listed, same
from .task import Hunt, require_one_of


def my_map_state_dict(state):
    words = {
        "patch_embed.proj": "embeddings.patches.projection",
        "cls_token": "embeddings.class_token",
        "pos_embed": "embeddings.position.table",
        "blocks": "encoder",
        "attn.qkv": "attention.qkv",
        "attn.proj": "attention.projection",
        "mlp.fc1": "mlp.expand",
        "mlp.fc2": "mlp.contract",
    }
    ours = {}
    for name, tensor in state.items():
        for word, our_word in words.items():
            name = name.replace(word, our_word)
        ours[name] = tensor
    ours["embeddings.position.table"] = ours["embeddings.position.table"][0]  # (1, T, D) -> (T, D)
    return ours


def my_fold_layer_scale(state):
    layers = {"ls1.gamma": "attention.projection", "ls2.gamma": "mlp.contract"}
    folded = dict(state)
    for name, gamma in state.items():
        block, scale = name[:-9], name[-9:]  # "encoder.10." and "ls1.gamma"
        if scale in layers:
            weight, bias = (f"{block}{layers[scale]}.{end}" for end in ("weight", "bias"))
            folded[weight] = gamma[:, None] * state[weight]  # row i times γ[i]
            folded[bias] = gamma * state[bias]
            del folded[name]
    return folded


# More than ten blocks the second time: a rule for `blocks.1` may take `blocks.10`, too. And not the 12 of DINOv2.
SIZES = [
    ViTConfig(8, 4, num_classes=0, embed_dim=6, depth=2, num_heads=2, mlp_dim=10),
    ViTConfig(6, 2, num_classes=0, embed_dim=4, depth=13, num_heads=2, mlp_dim=9),
]


def their_state(config: ViTConfig) -> OrderedDict[str, Tensor]:
    """Return a state dict under Meta's names, LayerScale too. Every value is random: no two tensors are alike."""
    state = as_theirs(VisionTransformer(config).state_dict(), "timm")
    for i, n in product(range(config.depth), (1, 2)):
        state[f"blocks.{i}.ls{n}.gamma"] = torch.empty(config.embed_dim)
    generator = torch.Generator().manual_seed(config.depth)
    return OrderedDict((name, torch.randn(tensor.shape, generator=generator)) for name, tensor in state.items())


def state_dicts(solution: Callable, given_as: Callable, meaning: Callable) -> Callable:
    """Return a judge of functions from one state dict to another; `meaning` explains a wrong tensor of a name."""

    def judge(function: Callable) -> str:
        for config in SIZES:
            D, M, given = config.embed_dim, config.mlp_dim, given_as(their_state(config))
            state = OrderedDict((name, tensor.clone()) for name, tensor in given.items())
            tensors = dict(state)
            try:
                result = call(function, state, sizes={"D": D, "mlp_dim": M, "3·D": 3 * D})
                if written := [name for name, tensor in tensors.items() if not same(tensor, given[name])]:
                    raise Wrong(f"Your function writes into {listed(written)}, the model's own: make a new tensor.")
                require_state(result, solution(given), lambda name: meaning(name, result[name], given))  # noqa: B023
            except Wrong as wrong:
                before = f"Right with 2 blocks, but not with {config.depth} blocks." if config.depth > 2 else ""
                blocks = f"This model has {config.depth} blocks." if isinstance(wrong.error, KeyError) else ""
                wrong.message = joined(before, wrong.message, blocks)
                raise
        changed = list(state) != list(given) or any(state[name] is not tensor for name, tensor in tensors.items())
        return (
            "One thing to know: the dictionary that your function is given has other entries afterwards."
            if changed
            else ""
        )

    return judge


def require_state(result, expected: Mapping[str, Tensor], meaning: Callable[[str], str]) -> None:
    """Raise Wrong with the names that are missing or too many, and with the first tensor that is not what it should."""
    if not isinstance(result, Mapping) or not all(isinstance(value, Tensor) for value in result.values()):
        raise Wrong(f"The task asks for a dictionary of tensors, a state dict; got {describe(result)}.")
    missing, extra = (
        [name for name in expected if name not in result],
        [name for name in result if name not in expected],
    )
    wrong = [name for name in expected if not missing and not same(result[name], expected[name].to(result[name]))]
    if missing or extra or wrong:
        told = f"The names are right. Wrong tensors, {len(wrong)} of {len(result)}: {listed(wrong)}." if wrong else ""
        twice = re.search(r"[a-z]+?([a-z]{3,})\1", " ".join(map(str, extra)))
        raise Wrong(joined(
            told,
            f"Missing, {len(missing)} of {len(expected)}: {listed(missing)}." if missing else "",
            f"Not ours: {listed(extra)}." if extra else "",
            f"`{twice[0]}`: `.replace` finds its word anywhere, also in what an earlier one wrote." if twice else "",
            meaning(next(iter(wrong or extra))) if wrong or extra else "",
        ))  # fmt: skip


def origin(name: str, tensor: Tensor, given: Mapping[str, Tensor]) -> str:
    """Say which of Meta's tensors has these values, what was done to it, and what ours calls it."""
    values = tensor.detach().flatten().to(given["cls_token"])
    ways = {
        "": lambda t: values.equal(t.flatten()),
        " transposed": lambda t: t.ndim > 1 and values.equal(t.mT.flatten()),
        " in another order, or a part of it": lambda t: torch.isin(values, t).all(),
    }
    found = ((theirs, how) for how, holds in ways.items() for theirs, t in given.items() if holds(t))
    theirs, how = next(found, ("", ""))
    if not theirs:
        return f"`{name}` holds values that are nowhere in the given ones. Does your function use its argument alone?"
    right, asked = dict(zip(given, my_map_state_dict(given).items(), strict=True))[theirs]
    shapes = f"It is {tuple(tensor.shape)}, and {tuple(asked.shape)} is asked."
    return (
        f"`{name}` holds Meta's `{theirs}`{how}{f', which ours calls `{right}`.' if right != name else f'. {shapes}'}"
    )


map_state_dict = Exercise(
    my_map_state_dict,
    task="`fn(state)`: a state dict of DINOv2 → the same tensors under our names; γ keeps its own.",
    judge=state_dicts(my_map_state_dict, dict, origin),
    hint="Compare the two lists of names: eight of Meta's words differ from ours. Apply eight times "
    "`name = name.replace(word, our_word)`, each to what the one before returned, and the longer word first: `proj` is "
    "also in `patch_embed.proj` and in `attn.proj`. Meta's positions are (1, T, D), ours (T, D).",
)


def multiplied(name: str, tensor: Tensor, given: Mapping[str, Tensor]) -> str:
    """Say by which γ a tensor was multiplied, and how; or that γ has no place."""
    if name.endswith("gamma"):
        return "Our class has no place for γ: leave it out once it is multiplied into its layer."
    if tensor.shape != given[name].shape:
        return f"`{name}` must keep its shape, {tuple(given[name].shape)}; yours is {tuple(tensor.shape)}."
    values, before = tensor.detach().float(), given[name]
    gammas = {name: gamma[:, None] if before.ndim == 2 else gamma for name, gamma in given.items() if "gamma" in name}
    known = {"as it was": before}
    for scale, g in gammas.items() if len(before) == len(next(iter(gammas.values()))) else ():
        known |= {f"its rows times `{scale}`": g * before, f"its rows times |γ| of `{scale}`": g.abs() * before}
        known |= {
            f"its rows times γ² of `{scale}`": g**2 * before,
            f"its rows times 1 + γ of `{scale}`": (1 + g) * before,
        }
        known |= {f"its rows divided by `{scale}`": before / g, f"itself plus `{scale}`": before + g}
        if before.ndim == 2 and len(g) == before.shape[1]:
            known |= {f"its columns times `{scale}`": g.T * before}
    how = next((text for text, other in known.items() if close(values, other)), "multiplied by something else")
    layers = (
        "`attention.projection` by its block's `ls1.gamma`, `mlp.contract` by `ls2.gamma`, row by row, weight and bias"
    )
    return f"`{name}` is {how}. γ scales what a branch returns: multiply its last layer, {layers}. All else stays."


fold_layer_scale = Exercise(
    my_fold_layer_scale,
    task="`fn(state)`: a state dict under our names, with γ (D,) as `encoder.0.ls1.gamma` → the same model without γ.",
    judge=state_dicts(my_fold_layer_scale, my_map_state_dict, multiplied),
    hint="γ ⊙ (W x + b) = (γ ⊙ W) x + γ ⊙ b: multiply row i of the weight by γ[i], `gamma[:, None] * weight`, and the "
    "bias by γ. The layers are the last of each branch: `attention.projection` for `ls1.gamma`, `mlp.contract` for "
    "`ls2.gamma`. Begin with `folded = dict(state)`, and cut the block's beginning from γ's own name.",
)


def my_find_mistake(right, suspect, images):
    one, other = images, images
    for stage in ("embeddings", *(f"encoder.{i}" for i in range(12))):
        one, other = right.get_submodule(stage)(one), suspect.get_submodule(stage)(other)
        if not torch.equal(one, other):
            return stage  # and then in the same way inside it


SHOWS_IN = {  # when both parts are given the same tokens
    "norms exchanged": "`norm1`",
    "q and k exchanged": "`attention.qkv`",
    "12 heads instead of 6": "`attention`, by something that stands in no tensor",
    "γ of the attention forgotten": "`attention`, and dividing one result by the other gives γ",
    "ReLU instead of GELU": "`mlp`",
    "red and blue exchanged": "`patches`",
    "positions moved by one": "`position`",
}


def judge_mistake(suspect: Suspect, mistake: str, where: str | int) -> str:
    """Raise Wrong with what speaks against this mistake in this place."""
    if not isinstance(suspect, Suspect):
        raise Wrong("The check needs one suspect itself, such as `suspects[0]`: not its model, and not all of them.")
    stages = ["embeddings", *(f"encoder.{i}" for i in range(len(suspect.original.encoder)))]
    mistake = require_one_of(mistake, MISTAKES)
    where = require_one_of(f"encoder.{where}" if str(where).isdigit() else where, stages)
    if where != suspect.where:
        raise Wrong(f"It does not begin in `{where}`. Give both models the same tokens, stage by stage.")
    if mistake == suspect.mistake:
        return f"{mistake}, in `{where}`."
    if (mistake in IN_EMBEDDINGS) != (where == "embeddings"):
        raise Wrong(f"The place is right. But “{mistake}” cannot be in `{where}`.")
    raise Wrong(f"The place is right. But “{mistake}” would show first in {SHOWS_IN[mistake]}.")


find_mistake = Hunt(
    my_find_mistake,
    task="`check.find_mistake(suspect, mistake, where)`: the mistake in a copy of DINOv2, and the stage where it acts.",
    judge=judge_mistake,
    hint="Compare what `embeddings`, `encoder.0`, `encoder.1` and so on return in both models. The first stage that "
    "differs is the place. Inside a block, give both the same tokens, and compare `norm1`, `attention.qkv`, "
    "`attention` and `mlp`. Which mistake acts there first?",
)
