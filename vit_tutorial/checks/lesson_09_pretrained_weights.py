"""Lesson 09: a state dict under other names, tensors that have no place, and a mistake in a copy that looks right."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product

import torch
from torch import Tensor

from ..config import ViTConfig
from ..experiments.secret_mistakes import IN_EMBEDDINGS, MISTAKES, Suspect
from ..model import VisionTransformer
from ..pretrained.tensor_names import as_theirs
from .exercise import Exercise
from .running import Wrong, call, describe, first_three, same
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


def judge_mapping(function: Callable) -> str:
    """Raise Wrong unless their tensors come back under our names; return a remark if the given names are changed."""
    for config in SIZES:
        state = their_state(config)
        given = OrderedDict((name, tensor.clone()) for name, tensor in state.items())
        tensors = dict(given)
        try:
            ours = call(function, given)
            if written := [name for name, tensor in tensors.items() if not same(tensor, state[name], 0)]:
                raise Wrong(f"Your function writes into {first_three(written)}, the model's own: make a new tensor.")
            check_mapping(ours, state)
        except Wrong as wrong:
            if isinstance(wrong.error, KeyError) and re.search(r"\d", str(wrong.error)):
                wrong.message += f"\nThis model has {config.depth} blocks: the names that you get show how many."
            if config.depth > 2:
                wrong.message = f"Right with 2 blocks, but not with {config.depth} blocks. {wrong.message}"
            raise
    changed = list(given) != list(state) or any(given[name] is not tensor for name, tensor in tensors.items())
    return "One thing to know: the dictionary that your function is given has other entries afterwards." * changed


def check_mapping(ours: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    """Raise Wrong with the names that are missing or too many, and with the first tensor that is not what it should."""
    require_state_dict(ours)
    if set(ours) == set(state):
        raise Wrong("All names are still Meta's. `name.replace(...)` returns a new string: is it kept, and used?")
    expected = my_map_state_dict(state)
    missing, extra = [name for name in expected if name not in ours], [name for name in ours if name not in expected]
    wrong = extra or [name for name in ours if not same(ours[name], expected[name], 0)]
    lines = [f"The names are right. Wrong tensors, {len(wrong)} of {len(ours)}: {first_three(wrong)}."]
    if missing or extra:
        lines = ["Not all names are those of our model, and of the γ in its blocks.", *lists(missing, extra)]
    lost, every = (set(re.findall(r"encoder\.(\d+)", " ".join(names))) for names in (missing, expected))
    if lost and lost != every:
        lines.append(f"Of the blocks, counted from 0, this is so in {', '.join(sorted(lost, key=int))}.")
    if twice := re.search(r"[a-z]+?([a-z]{3,})\1", " ".join(map(str, extra))):
        lines.append(f"`{twice[0]}`: `.replace` finds its word anywhere, also in what an earlier one wrote.")
    if wrong:
        lines.append(origin(wrong[0], ours[wrong[0]], state))
    if missing or wrong:
        raise Wrong("\n".join(lines))


def require_state_dict(result) -> None:
    """Raise Wrong unless the result is a dictionary of tensors."""
    if not isinstance(result, Mapping):
        raise Wrong(f"The task asks for a dictionary of tensors, a state dict; got {describe(result)}.")
    if strange := [name for name, value in result.items() if not isinstance(value, Tensor)]:
        raise Wrong(f"`{strange[0]}` must be a tensor; it is {describe(result[strange[0]])}.")


def lists(missing: list[str], extra: list[str]) -> list[str]:
    return [f"{start}: {first_three(names)}." for start, names in (("Missing", missing), ("Not ours", extra)) if names]


def origin(name: str, tensor: Tensor, state: dict[str, Tensor]) -> str:
    """Say which of the given tensors has these values, what was done to it, and what ours calls it."""
    values = tensor.detach().flatten().float()
    ways = {
        "": lambda t: values.equal(t.flatten()),
        " transposed": lambda t: t.ndim > 1 and values.equal(t.mT.flatten()),
        " in another order, or a part of it": lambda t: torch.isin(values, t).all(),
    }
    found = ((theirs, how) for how, holds in ways.items() for theirs, t in state.items() if holds(t))
    theirs, how = next(found, ("", ""))
    if not theirs:
        asked = "Does your function use its argument, and nothing else?"
        return f"`{name}` holds values that are nowhere in the given ones. {asked} Its dtype is {tensor.dtype}."
    right = dict(zip(state, my_map_state_dict(state).items(), strict=True))[theirs]
    if right[0] != name:
        return f"`{name}` holds Meta's `{theirs}`{how}, which ours calls `{right[0]}`."
    return f"`{name}` holds Meta's `{theirs}`{how}. It is {tuple(tensor.shape)}, and {tuple(right[1].shape)} is asked."


map_state_dict = Exercise(
    my_map_state_dict,
    task="`fn(state)`: a state dict of DINOv2 → the same tensors under our names; γ keeps its own.",
    judge=judge_mapping,
    hint="Compare the two lists of names: eight of Meta's words differ from ours. Apply eight times "
    "`name = name.replace(word, our_word)`, each to what the one before returned, and the longer word first: `proj` is "
    "also in `patch_embed.proj` and in `attn.proj`. Meta's positions are (1, T, D), ours (T, D).",
)


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


def mapped_state(config: ViTConfig) -> tuple[OrderedDict[str, Tensor]]:
    """Return the arguments of a run: random tensors under our names, with two γ (D,) in each block.

    The attribute `given` keeps what they were before a reader's function had them.
    """
    state = OrderedDict(my_map_state_dict(their_state(config)))
    state.given = {name: tensor.clone() for name, tensor in state.items()}
    return (state,)


LAST_LAYERS = [f"{layer}.{end}" for layer in ("attention.projection", "mlp.contract") for end in ("weight", "bias")]


def last_layers(result, state) -> list[Tensor]:
    """Return the four tensors that γ goes into, each stacked over the blocks.

    Raises Wrong for other names or shapes than our model's, and if another tensor is not what it was.
    """
    require_state_dict(result)
    given = state.given
    names = [name for name in given if not name.endswith("gamma")]
    depth = (len(given) - len(names)) // 2
    missing, extra = [name for name in names if name not in result], [name for name in result if name not in names]
    if missing or extra:
        lines = ["`load_state_dict` would refuse these names.", *lists(missing, extra)]
        if set(extra) & set(given):
            lines.append("Our class has no place for γ: leave it out once it is multiplied into its layer.")
        if missing:
            lines.append("Return all tensors of the model, also those that stay as they are.")
        raise Wrong("\n".join([*lines, f"This model has {depth} blocks."]))
    for name in names:
        if result[name].shape != given[name].shape:
            shapes = f"{tuple(given[name].shape)}; yours is {tuple(result[name].shape)}"
            raise Wrong(f"`{name}` must keep its shape, {shapes}.")
    others = [name for name in names if not name.startswith("encoder.") or not name.endswith(tuple(LAST_LAYERS))]
    if changed := [name for name in others if not same(result[name], given[name])]:
        raise Wrong(
            f"These tensors are not what they were: {first_three(changed)}.\nγ multiplies what a branch returns, so it "
            "belongs in the branch's last layer, `attention.projection` or `mlp.contract`. All else stays as it is."
        )
    return [torch.stack([result[f"encoder.{block}.{name}"] for block in range(depth)]) for name in LAST_LAYERS]


def remark_on_changes(function) -> str:
    """Return a remark on a function that changes the dictionary that it is given; raise Wrong for changed tensors."""
    (state,) = mapped_state(SIZES[0])
    tensors = dict(state)
    function(state)
    if changed := [name for name, tensor in tensors.items() if not torch.equal(tensor, state.given[name])]:
        raise Wrong(
            f"The result is right, but tensors of the model that it was given have changed: {first_three(changed)}. "
            "`weight = weight * …` makes a new one, and `weight *= …` does not."
        )
    if state.keys() != tensors.keys() or any(state[name] is not tensor for name, tensor in tensors.items()):
        return "One thing: your function changes the dictionary that it is given. `folded = dict(state)` makes another."
    return ""


WEIGHT, BIAS = "gamma[:, None] * state[weight]", "gamma * state[bias]"
ATTENTION, MLP = '"attention.projection"', '"mlp.contract"'


def only_if(condition: str) -> tuple[str, ...]:
    """Return the edit by which γ is multiplied into some layers alone."""
    return WEIGHT, f"({WEIGHT} if {condition} else state[weight])", BIAS, f"({BIAS} if {condition} else state[bias])"


fold_layer_scale = Exercise(
    my_fold_layer_scale,
    task="`fn(state)`: a state dict under our names, with γ (D,) as `encoder.0.ls1.gamma` → the same model without γ.",
    trials=[partial(mapped_state, config) for config in SIZES],
    view=last_layers,
    slips={
        "γ is left out, and multiplied into nothing: the model computes something else.": only_if("False"),
        "The bias is not multiplied: γ scales all that the layer returns, W·x and b.": (BIAS, "state[bias]"),
        "The weight is not multiplied: γ scales all that the layer returns, W·x and b.": (WEIGHT, "state[weight]"),
        "γ is on the columns of the weight. Row i makes value i of the result, so γ[i] multiplies row i: "
        "`gamma[:, None] * weight`.":
            [(WEIGHT, way) for way in ("gamma * state[weight]", "state[weight] * gamma", "state[weight] @ gamma.diag()",
                                       f'(gamma * state[weight] if scale == "ls1.gamma" else {WEIGHT})')],
        "γ₁ and γ₂ are exchanged: `ls1` belongs to the attention, `ls2` to the MLP.":
            (f"{ATTENTION}, ", f"{MLP}, ", f'2.gamma": {MLP}', f'2.gamma": {ATTENTION}'),
        "Only one branch is folded: `ls1` belongs to the attention, `ls2` to the MLP.":
            [only_if(f'scale == "ls{n}.gamma"') for n in (1, 2)],
        "γ does not fit the first layer of a branch. It multiplies what the branch returns, so it belongs in the last "
        "layer, `attention.projection` or `mlp.contract`.":
            [(ATTENTION, '"attention.qkv"', MLP, '"mlp.expand"', *order)
             for order in ((), (WEIGHT, "state[weight] * gamma[:, None]"))] + [(MLP, '"mlp.expand"')],
        "γ is added. It multiplies.": (WEIGHT, "gamma[:, None] + state[weight]", BIAS, "gamma + state[bias]"),
        "It is divided by γ, and not multiplied.":
            (WEIGHT, "state[weight] / gamma[:, None]", BIAS, "state[bias] / gamma"),
        **{f"You multiply by {what}, and not by γ.":
               (WEIGHT, f"({code})[:, None] * state[weight]", BIAS, f"({code}) * state[bias]")
           for what, code in {"|γ|": "gamma.abs()", "1 + γ": "1 + gamma", "γ²": "gamma**2"}.items()},
        "Only one block is folded: every block has a γ₁ and a γ₂.": only_if('block == "encoder.0."'),
        "Blocks from 10 on are not folded: a block's number may have two digits.": only_if("len(block) == 10"),
        "One block's γ is in all blocks: every block has its own.":
            [("if scale in layers:", f'if scale in layers:\n            gamma = state[f"encoder.{block}.{{scale}}"]')
             for block in ("0", "{max(int(n.split('.')[1]) for n in state if scale in n)}")],
        "The dictionary changes while the loop goes over it: loop over `state`, and change a copy, "
        "`folded = dict(state)`.": ("folded = dict(state)", "folded = state"),
    },
    hint="γ ⊙ (W x + b) = (γ ⊙ W) x + γ ⊙ b: multiply row i of the weight by γ[i], `gamma[:, None] * weight`, and the "
    "bias by γ. The layers are the last of each branch: `attention.projection` for `ls1.gamma`, `mlp.contract` for "
    "`ls2.gamma`. Begin with `folded = dict(state)`, and cut the block's beginning from γ's own name.",
    shape="; ".join(f"encoder.*.{name} (blocks, …)" for name in LAST_LAYERS),
    more=remark_on_changes,
)  # fmt: skip


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


def judge_mistake(suspect: Suspect, mistake: str, where: str = "") -> str:
    """Raise Wrong with what speaks against this mistake in this place."""
    if not isinstance(suspect, Suspect):
        raise Wrong("The check needs one suspect itself, such as `suspects[0]`: not its model, and not all of them.")
    stages = ["embeddings", *(f"encoder.{i}" for i in range(len(suspect.original.encoder)))]
    require_one_of(mistake, MISTAKES)
    require_one_of(where, stages)
    if stages.index(where) < stages.index(suspect.where):
        raise Wrong(f"After `{where}` both models still have the same tokens. The mistake is later.")
    if where != suspect.where:
        raise Wrong(f"`{where}` already gets other tokens than in the right model. The mistake is earlier.")
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
