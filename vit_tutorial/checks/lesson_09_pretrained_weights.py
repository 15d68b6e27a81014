"""Lesson 09: a state dict under other names, tensors that have no place, and a mistake in a copy that looks right."""

from collections import OrderedDict
from functools import partial

import torch
from torch import Tensor

from ..config import ViTConfig
from ..experiments.secret_mistakes import MISTAKES, Suspect
from ..model import VisionTransformer
from ..pretrained.tensor_names import as_theirs
from .exercise import Exercise
from .running import Wrong, call, describe, joined, listed, same
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


def their_state(config):
    """Return a state dict under Meta's names, LayerScale too. Every value is random: no two tensors are alike."""
    state = as_theirs(VisionTransformer(config).state_dict(), "timm")
    state |= {f"blocks.{i}.ls{n}.gamma": torch.empty(config.embed_dim) for i in range(config.depth) for n in (1, 2)}
    generator = torch.Generator().manual_seed(config.depth)
    return OrderedDict((name, torch.randn(tensor.shape, generator=generator)) for name, tensor in state.items())


def judge_tensors(solution, given, function):
    """Give the function two state dicts, `given(config)`. Raise Wrong with the names of what is not the solution's."""
    for config in SIZES:
        state = given(config)
        tensors, before = dict(state), {name: tensor.clone() for name, tensor in state.items()}
        expected = solution(before)
        result = call(function, state, sizes={"D": config.embed_dim, "mlp_dim": config.mlp_dim})
        if written := [name for name, tensor in tensors.items() if not same(tensor, before[name])]:
            raise Wrong(f"Your function writes into {listed(written)}, the model's own: make a new tensor.")
        if not isinstance(result, dict) or not all(isinstance(value, Tensor) for value in result.values()):
            raise Wrong(f"The task asks for a dictionary of tensors, a state dict; got {describe(result)}.")
        there = [name for name in expected if name in result]
        found = {
            "Missing": [name for name in expected if name not in result],
            "Not ours": [name for name in result if name not in expected],
            "Wrong shapes": [name for name in there if result[name].shape != expected[name].shape],
            "Wrong values": [name for name in there if not same(result[name].flatten(), expected[name].flatten())],
        }
        told = [f"{what}, {len(names)} of {len(expected)}: {listed(names)}." for what, names in found.items() if names]
        if told:
            right = "" if config == SIZES[0] else f"Right with {SIZES[0].depth} blocks, but not with {config.depth}."
            raise Wrong(joined(right, *told))


map_state_dict = Exercise(
    my_map_state_dict,
    task="`fn(state)`: a state dict of DINOv2 → the same tensors under our names; γ keeps its own.",
    judge=partial(judge_tensors, my_map_state_dict, their_state),
    clue="Compare the two lists of names: eight of Meta's words differ from ours. Apply eight times "
    "`name = name.replace(word, our_word)`, each to what the one before returned, and the longer word first: `proj` is "
    "also in `patch_embed.proj` and in `attn.proj`. Meta's positions are (1, T, D), ours (T, D).",
)

fold_layer_scale = Exercise(
    my_fold_layer_scale,
    task="`fn(state)`: a state dict under our names, with γ (D,) as `encoder.0.ls1.gamma` → the same model without γ.",
    judge=partial(judge_tensors, my_fold_layer_scale, lambda config: my_map_state_dict(their_state(config))),
    clue="γ ⊙ (W x + b) = (γ ⊙ W) x + γ ⊙ b: multiply row i of the weight by γ[i], `gamma[:, None] * weight`, and the "
    "bias by γ. The layers are the last of each branch: `attention.projection` for `ls1.gamma`, `mlp.contract` for "
    "`ls2.gamma`. Begin with `folded = dict(state)`, and cut the block's beginning from γ's own name.",
)


def my_find_mistake(right, suspect, images):
    one, other = images, images
    for stage in ("embeddings", *(f"encoder.{i}" for i in range(12))):
        one, other = right.get_submodule(stage)(one), suspect.get_submodule(stage)(other)
        if not torch.equal(one, other):
            return stage  # and then in the same way inside it


def judge_mistake(suspect, mistake, where):
    """Raise Wrong with what speaks against this mistake in this place."""
    if not isinstance(suspect, Suspect):
        raise Wrong("The check needs one suspect itself, such as `suspects[0]`: not its model, and not all of them.")
    stages = ["embeddings", *(f"encoder.{i}" for i in range(len(suspect.original.encoder)))]
    mistake = require_one_of("mistake", mistake, MISTAKES)
    where = require_one_of("place", f"encoder.{where}" if str(where).isdigit() else where, stages)
    if where != suspect.where:
        raise Wrong(f"It does not begin in `{where}`. Give both models the same tokens, stage by stage.")
    if mistake == suspect.mistake:
        return f"{mistake}, in `{where}`."
    raise Wrong("The place is right, and the mistake is another: compare its parts in turn, given the same tokens.")


find_mistake = Hunt(
    my_find_mistake,
    task="`check.find_mistake(suspect, mistake, where)`: the mistake in a copy of DINOv2, and the stage where it acts.",
    judge=judge_mistake,
    clue="Compare what `embeddings`, `encoder.0`, `encoder.1` and so on return in both models. The first stage that "
    "differs is the place. Inside a block, give both the same tokens, and compare `norm1`, `attention.qkv`, "
    "`attention` and `mlp`. Which mistake acts there first?",
)
