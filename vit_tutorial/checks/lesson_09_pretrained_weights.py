"""Lesson 09: three layers in one, and a state dict under other names."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial

import torch
from einops import rearrange
from torch import Tensor, nn

from ..config import ViTConfig
from ..model import VisionTransformer
from ..pretrained.tensor_names import as_theirs
from .exercise import Exercise, all_for
from .running import Wrong, call, kind, listed, same


def my_fuse_qkv(q, k, v):
    weight = torch.cat([q.weight, k.weight, v.weight])  # (3·D, D)
    bias = torch.cat([q.bias, k.bias, v.bias])  # (3·D,)
    return weight, bias


def three_layers(D: int) -> list[nn.Linear]:
    """Return layers for q, k and v, the same each time."""
    torch.default_generator.manual_seed(D)
    return [nn.Linear(D, D) for _ in "qkv"]


def fused_layer(result, *layers):
    """Return both, be they in a pair, in a layer or under their names.

    Raises Wrong if the given layers are changed, or if the three parts stand in another order.
    """
    now, before = (nn.ModuleList(three).state_dict() for three in (layers, three_layers(layers[0].in_features)))
    if not all(same(now[name], before[name]) for name in now):
        raise Wrong("Your function changes the layers it is given: the result is a new tensor, or a new layer.")
    if isinstance(result, nn.Linear):
        result = result.weight, result.bias
    if isinstance(result, Mapping) and {"weight", "bias"} <= set(result):
        result = result["weight"], result["bias"]
    for name, fused in zip(("weight", "bias"), result if isinstance(result, (tuple, list)) else (), strict=False):
        parts = {letter: getattr(layer, name) for letter, layer in zip("qkv", layers, strict=True)}
        thirds = fused.chunk(3) if isinstance(fused, Tensor) else ()
        found = [letter for third in thirds for letter, part in parts.items() if same(third, part)]
        if len(found) == 3 and found != ["q", "k", "v"]:
            raise Wrong(f"From top to bottom the {name} holds {', '.join(found)} instead of q, k, v.")
    return result


def row_by_row(parts: list[Tensor]) -> Tensor:
    return rearrange(parts, "n d ... -> (d n) ...")


def head_by_head(parts: list[Tensor]) -> Tensor:
    return rearrange(parts, "n (h d) ... -> (h n d) ...", h=2)


JOINED_BY = {  # ways to join the three weights, or the three biases, or both
    "The three are stacked, with a new axis of 3 in front. A layer's weight is (3·D, D), its bias (3·D,).":
        "torch.stack",
    "The three are added up: what comes out is q + k + v.": "sum",
    "The three are averaged: what comes out is the mean of q, k and v.": "1 / 3 * sum",
    "Yours go row by row: q's first, k's first, v's first, then the second of each. First come all rows of q.":
        "row_by_row",
    "Yours go head by head: q, k and v of the first head, then of the next. First come all rows of q.": "head_by_head",
}  # fmt: skip

fuse_qkv = Exercise(
    my_fuse_qkv,
    task="`fn(q, k, v)`, three `nn.Linear(D, D)` → weight (3·D, D), bias (3·D,): one layer for q, k and v.",
    trials=[partial(three_layers, D) for D in (6, 12)],
    view=fused_layer,
    slips={
        "None of q, k and v is in the layer: a new `nn.Linear` is random until their weights are copied in.":
            lambda q, k, v: nn.Linear(q.in_features, 3 * q.out_features),
        **{message: [(f"torch.cat([q.{part}", f"{way}([q.{part}") for part in ("", "weight", "bias")]
           for message, way in JOINED_BY.items()},
        "The bias is missing: q, k and v each have one.":
            [("return weight, bias", f"return weight{none}") for none in ("", ", None", ", 0 * bias")],
        "Only the bias is returned: the weight is missing.": ("return weight, bias", "return bias"),
        "Weight and bias are exchanged: weight first.": ("return weight, bias", "return bias, weight"),
    } | all_for("torch.cat([q.weight, k.weight, v.weight])", {
        "q, k and v are layers, not tensors: `torch.cat` joins their weights, such as `q.weight`.":
            "torch.cat([q, k, v])",
        "Each of the three matrices is transposed: `nn.Linear` keeps it as (out, in), and so does the fused layer.":
            "torch.cat([q.weight.T, k.weight.T, v.weight.T])",
        "The weight is transposed, (D, 3·D): `nn.Linear` keeps it as (out, in).":
            "torch.cat([q.weight, k.weight, v.weight]).T",
        "The matrices stand side by side, (D, 3·D): that layer takes 3·D values and adds q, k and v up. Put them one "
        "below the other.": "torch.cat([q.weight, k.weight, v.weight], dim=1)",
        "The matrices are multiplied: that is one layer after another.": "v.weight @ k.weight @ q.weight",
    }),
    hint="A linear layer's weight is (out, in): each row makes one value of the result. Put the rows of the three "
    "layers one below the other, q's first, `torch.cat([...], dim=0)`, and their biases in the same order. Return "
    "both.",
    shape="weight (3·D, D); bias (3·D,)",
    gradients=False,
)  # fmt: skip


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


# More than ten blocks the second time: a rule for `blocks.1` may take `blocks.10`, too.
TIMM_CONFIGS = [
    ViTConfig(8, 4, num_classes=5, embed_dim=6, depth=2, num_heads=2, mlp_dim=10),
    ViTConfig(6, 2, num_classes=7, embed_dim=4, depth=12, num_heads=2, mlp_dim=9),
]


def timm_state(config: ViTConfig) -> OrderedDict[str, Tensor]:
    """Return the state dict of timm's model, made without timm. Every value is random: no two tensors are alike."""
    ours = {name: torch.randn(tensor.shape) for name, tensor in VisionTransformer(config).state_dict().items()}
    theirs = as_theirs(ours, "timm")
    return OrderedDict(dict.fromkeys(["cls_token", "pos_embed"]) | theirs)  # timm lists these two first


def judge_mapping(function: Callable) -> str:
    """Raise Wrong unless timm's tensors come back under our names; return a remark if the given names are changed."""
    for config in TIMM_CONFIGS:
        state = timm_state(config)
        given = OrderedDict((name, tensor.clone()) for name, tensor in state.items())
        tensors = dict(given)
        try:
            ours = call(function, given)
            if written := [name for name, tensor in tensors.items() if not same(tensor, state[name], 0)]:
                raise Wrong(f"Your function writes into {listed(written)}, the model's own: make a new tensor.")
            check_mapping(ours, state)
        except Wrong as wrong:
            if isinstance(wrong.error, KeyError) and re.search(r"\d", str(wrong.error)):
                wrong.message += f"\nThis model has {config.depth} blocks: the names that you get show how many."
            if config.depth > 2:
                wrong.message = f"Right with 2 blocks, but not with {config.depth} blocks. {wrong.message}"
            raise
    changed = list(given) != list(state)
    return "One thing to know: the dictionary that your function is given has other names afterwards." * changed


def check_mapping(ours: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    """Raise Wrong with the names that are missing or too many, and with the first tensor that is not what it should."""
    if not isinstance(ours, Mapping):
        raise Wrong(f"The task asks for a dictionary of tensors, a state dict; got {kind(ours)}.")
    if strange := [name for name, value in ours.items() if not isinstance(value, Tensor)]:
        raise Wrong(f"`{strange[0]}` must be a tensor; it is {kind(ours[strange[0]])}.")
    if set(ours) == set(state):
        raise Wrong("All names are still timm's. `name.replace(...)` returns a new string: is it kept, and used?")
    expected = my_map_state_dict(state)
    missing, extra = [name for name in expected if name not in ours], [name for name in ours if name not in expected]
    wrong = extra or [name for name in ours if not same(ours[name], expected[name], 0)]
    lines = [f"The names are right. Wrong tensors, {len(wrong)} of {len(ours)}: {listed(wrong)}."]
    if missing or extra:
        lists = {"Missing": missing, "Not ours": extra}
        lines = ["`load_state_dict(..., strict=True)` would refuse these names."]
        lines += [f"{start}: {listed(names)}." for start, names in lists.items() if names]
    lost, every = (set(re.findall(r"encoder\.(\d+)", " ".join(names))) for names in (missing, expected))
    if lost and lost != every:
        lines.append(f"Of the blocks, counted from 0, this is so in {', '.join(sorted(lost, key=int))}.")
    if twice := re.search(r"[a-z]+?([a-z]{3,})\1", " ".join(extra)):
        lines.append(f"`{twice[0]}`: `.replace` finds its word anywhere, also in what an earlier one wrote.")
    if wrong:
        lines.append(origin(wrong[0], ours[wrong[0]], state))
    if missing or wrong:
        raise Wrong("\n".join(lines))


def origin(name: str, tensor: Tensor, state: dict[str, Tensor]) -> str:
    """Say which of timm's tensors has these values, what was done to it, and what ours calls it."""
    values = tensor.detach().flatten().float()
    ways = {
        "": lambda t: values.equal(t.flatten()),
        " transposed": lambda t: t.ndim > 1 and values.equal(t.mT.flatten()),
        " in another order, or a part of it": lambda t: torch.isin(values, t).all(),
    }
    found = ((theirs, how) for how, holds in ways.items() for theirs, t in state.items() if holds(t))
    theirs, how = next(found, ("", ""))
    if not theirs:
        return f"`{name}` holds values that are nowhere in timm's. Its dtype is {tensor.dtype}."
    right = dict(zip(state, my_map_state_dict(state).items(), strict=True))[theirs]
    if right[0] != name:
        return f"`{name}` holds timm's `{theirs}`{how}, which ours calls `{right[0]}`."
    return f"`{name}` holds timm's `{theirs}`{how}. It is {tuple(tensor.shape)}, and {tuple(right[1].shape)} is asked."


map_state_dict = Exercise(
    my_map_state_dict,
    task="`fn(state)`: the state dict of timm's ViT → ours, as `load_state_dict(..., strict=True)` takes it.",
    judge=judge_mapping,
    hint="Compare the two lists of names: eight of timm's words differ from ours. Apply eight times "
    "`name = name.replace(word, our_word)`, each to what the one before returned, and the longer word first: `proj` is "
    "also in `patch_embed.proj` and in `attn.proj`. timm's positions are (1, T, D), ours (T, D).",
)
