"""Lesson 09: tensors of other names and shapes, tensors without a place, and a mistake in a copy that looks right."""

import re
from collections import OrderedDict
from functools import partial

import torch
from torch import Tensor

from ..config import ViTConfig
from ..experiments.secret_mistakes import IN_EMBEDDINGS, MISTAKES, Suspect
from ..model import VisionTransformer
from ..pretrained.tensor_names import as_theirs
from .exercise import Exercise
from .probes import noise
from .running import Wrong, call, describe, joined, listed, same, spell, told_first
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


def my_to_qkv(state):
    if "q_proj.weight" in state:  # transformers: q, k and v apart
        weights = [state[f"{part}_proj.weight"] for part in "qkv"]
        biases = [state[f"{part}_proj.bias"] for part in "qkv"]
        joined = {"projection.weight": state["o_proj.weight"], "projection.bias": state["o_proj.bias"]}
    else:  # JAX: apart, by heads, and turned
        parts = ("query", "key", "value")
        weights = [state[f"{part}/kernel"].flatten(1).T for part in parts]  # (D, h, d) -> (D, D), turned
        biases = [state[f"{part}/bias"].flatten() for part in parts]
        kernel = state["out/kernel"].flatten(0, 1)  # (h, d, D) -> (D, D)
        joined = {"projection.weight": kernel.T, "projection.bias": state["out/bias"]}
    return {"qkv.weight": torch.cat(weights), "qkv.bias": torch.cat(biases)} | joined


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
SIZES = [ViTConfig(8, 4, num_classes=0, embed_dim=6, depth=L, num_heads=2, mlp_dim=10) for L in (2, 13)]
LETTERS = {"D": 6, "3·D": 18, "mlp_dim": 10}


def their_state(config):
    """Return a state dict under Meta's names, LayerScale too. Every value is random: no two tensors are alike."""
    state = as_theirs(VisionTransformer(config).state_dict(), "timm")
    state |= {f"blocks.{i}.ls{n}.gamma": torch.empty(config.embed_dim) for i in range(config.depth) for n in (1, 2)}
    return OrderedDict((name, noise(*each.shape, seed=99 * n)) for n, (name, each) in enumerate(state.items()))


def attention_layers(D=12, h=3):
    """Return the tensors of one attention layer as two libraries keep them."""
    W, b = noise(4, D, D), noise(4, D)  # of q, k, v, and where the heads are joined
    apart, by_heads = {}, {"out/kernel": W[3].T.reshape(h, -1, D), "out/bias": b[3]}
    for part, weight, bias in zip("qkvo", W, b, strict=True):
        apart |= {f"{part}_proj.weight": weight, f"{part}_proj.bias": bias}
    for part, weight, bias in zip(("query", "key", "value"), W, b, strict=False):
        by_heads |= {f"{part}/kernel": weight.T.reshape(D, h, -1), f"{part}/bias": bias.view(h, -1)}
    return {"transformers": apart, "JAX": by_heads}


def place_of(value, tensors, old):
    """Say where a value, or the γ by which it is `old` multiplied, is: "what was at `q_proj.weight`[4, 0]"."""
    for name, tensor in tensors.items():
        if places := (tensor == value).nonzero().tolist():
            return f"what was at `{name}`{places[0]}"
        if name.endswith("gamma") and (places := torch.isclose(tensor.double(), value / old).nonzero().tolist()):
            return f"`{name}`{places[0]} times what was there, {value:.4g}"
    return f"the new value {value:.4g}"


def their_states(change=dict):
    """Return such a state dict for each of SIZES, changed by a function."""
    return {f"{config.depth} blocks": change(their_state(config)) for config in SIZES}


def judge_kinds(solution, given, sizes, function):
    """Give the function the state dicts of `given()`, {kind: tensors}; raise Wrong unless all are right."""
    first, *others = given()
    for kind, state in given().items():
        with told_first(f"Right for {first}, but not for {kind}: " if kind in others else f"For {kind}: "):
            judge_tensors(solution, state, function, sizes)


def judge_tensors(solution, state, function, sizes):
    """Raise Wrong with the names of the tensors that are not those of the solution."""
    tensors, before = dict(state), {name: tensor.clone() for name, tensor in state.items()}
    expected = solution(before)
    result = call(function, state, sizes=sizes)
    if written := [name for name, tensor in tensors.items() if not same(tensor, before[name])]:
        raise Wrong(f"Your function writes into {listed(written)}, the model's own: make a new tensor.")
    if not isinstance(result, dict) or not all(isinstance(value, Tensor) for value in result.values()):
        raise Wrong(f"The task asks for a dictionary of tensors, a state dict; got {describe(result)}.")
    there = [name for name in expected if name in result]
    shaped = [name for name in there if result[name].shape == expected[name].shape]
    wrong = [name for name in shaped if not same(result[name], expected[name])]
    found = {
        "Missing": [name for name in expected if name not in result],
        "Should not be there": [name for name in result if name not in expected],
        "Wrong shapes": (bent := [name for name in there if name not in shaped]),
        "Wrong values": wrong,
    }
    told = [f"{what}, {len(names)} of {len(expected)}: {listed(names)}." for what, names in found.items() if names]
    told += [f"`{n}` is {spell(result[n].shape, sizes)}, not {spell(expected[n].shape, sizes)}." for n in bent[:1]]
    for name in wrong[:1]:
        mine, right = result[name].double(), expected[name].double()
        at = tuple((~torch.isclose(mine, right, 2e-5, 2e-5)).nonzero()[0].tolist())
        old = before[name][at] if name in before else torch.tensor(torch.nan)
        stands, belongs = (place_of(value, before, old) for value in (mine[at], right[at]))
        told += [f"At `{name}`{[*at]} stands {stands}, not {belongs}."]
    if told:
        raise Wrong(joined(*told))


map_state_dict = Exercise(
    my_map_state_dict,
    task="`fn(state)`: a state dict of DINOv2 → the same tensors under our names; γ keeps its own.",
    judge=partial(judge_kinds, my_map_state_dict, their_states, LETTERS),
    clue="Eight words differ. `name.replace(old, new)` for each of them, and the positions lose their first axis.",
)

to_qkv = Exercise(
    my_to_qkv,
    task="`fn(state)`: an attention layer of transformers or JAX → `qkv` and `projection`, as ours are.",
    judge=partial(judge_kinds, my_to_qkv, attention_layers, {"D": 12, "h": 3, "d": 4}),
    clue="JAX keeps (in, out), and we (out, in): flatten h and d into one axis, then `.T`. Biases get one axis, too.",
    imports="import torch",
)

fold_layer_scale = Exercise(
    my_fold_layer_scale,
    task="`fn(state)`: a state dict under our names, with γ (D,) as `encoder.0.ls1.gamma` → the same model without γ.",
    judge=partial(judge_kinds, my_fold_layer_scale, partial(their_states, my_map_state_dict), LETTERS),
    clue="γ ⊙ (W x + b) = (diag(γ) W) x + γ ⊙ b, in the last layer of a branch. Row i of W makes value i of W x.",
)


def my_find_mistake(right, suspect, images):
    z, parts = images, ["patches", "position"]
    for stage in ("embeddings", *(f"encoder.{i}" for i in range(12))):
        ours, theirs = right.get_submodule(stage), suspect.get_submodule(stage)
        if not torch.equal(ours(z), theirs(z)):
            break
        z, parts = ours(z), ["norm1", "attention.qkv", "attention.projection", "attention", "norm2", "mlp"]

    def returned(model, part):  # each is given the same
        return model.get_submodule(part)(*([] if part == "position" else [z]))

    return stage, [part for part in parts if not torch.equal(returned(ours, part), returned(theirs, part))]


def judge_mistake(suspect, mistake, where):
    """Raise Wrong with how like the suspect a copy with this mistake is, in this place, if it is another model."""
    if not isinstance(suspect, Suspect):
        raise Wrong("The check needs one suspect itself, such as `suspects[0]`: not its model, and not all of them.")
    mistake = require_one_of("mistake", str(mistake).lower().replace("gamma", "γ"), MISTAKES)
    stages = ["embeddings", *(f"encoder.{i}" for i in range(len(suspect.original.encoder)))]
    if block := re.fullmatch(r"(blocks?|encoder|)[ .]*(\d+)", str(where).strip().lower()):
        where = f"encoder.{block[2]}"
        if where not in stages:
            raise Wrong(f"There is no `{where}`: the first block is `{stages[1]}`, and the last `{stages[-1]}`.")
    where = require_one_of("place", where, stages)
    if (mistake in IN_EMBEDDINGS) != (where == "embeddings"):
        raise Wrong(f"“{mistake}” cannot be in `{where}`: pixels and positions come in there, all else is in a block.")
    if (mistake, where) == (suspect.mistake, suspect.where):
        return f"{mistake}, in `{where}`."
    raise Wrong(
        f"No. We put “{mistake}” into `{where}` of the right model, and showed this model and your suspect one photo. "
        "If you were right, each patch would have the same token in both, with a cosine of 1. "
        f"The median cosine is {suspect.likeness(mistake, where):.3f}."
    )


find_mistake = Hunt(
    my_find_mistake,
    task="`check.find_mistake(suspect, mistake, where)`: the mistake in a copy of DINOv2, and the stage where it acts.",
    judge=judge_mistake,
    clue="Which stage is the first to return something else? Inside a block, compare each part alone, on the same z.",
)
