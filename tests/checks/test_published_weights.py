"""The checks of notebook 09 on right and wrong answers."""

import re

import pytest
import torch
from einops import rearrange
from published import build_timm
from torch import nn

from vit_tutorial import VisionTransformer, check
from vit_tutorial.checks.lesson_09_pretrained_weights import TIMM_CONFIGS, timm_state

from .variants import judged, solved

# Three layers in one


def cat(*tensors):
    return torch.cat(tensors)


def fused(weight=cat, bias=cat):
    """What these functions make of the three matrices, and of the three biases."""
    return lambda *qkv: (weight(*(x.weight for x in qkv)), bias(*(x.bias for x in qkv)))


def layer(q, k, v):
    """One `nn.Linear` into which the three are copied."""
    one = nn.Linear(q.in_features, 3 * q.in_features)
    weight, bias = fused()(q, k, v)
    one.load_state_dict({"weight": weight, "bias": bias})
    return one


def by_probing(q, k, v):
    """The bias is what comes out for nothing, the columns what comes out for the unit vectors."""
    bias = cat(*(layer(torch.zeros(q.in_features)) for layer in (q, k, v)))
    return cat(*(layer(torch.eye(q.in_features)).T for layer in (q, k, v))) - bias[:, None], bias


def writes(q, k, v):
    q.weight.data = cat(q.weight, k.weight, v.weight).data
    return q.weight, cat(q.bias, k.bias, v.bias)


# A state dict under other names

solution = solved(check.map_state_dict)


def words(*rules):
    """One word after the other, in the order in which a reader finds them."""

    def mine(state):
        ours = {}
        for name, tensor in state.items():
            for word, our_word in rules:
                name = name.replace(word, our_word)
            ours[name] = tensor.squeeze(0) if name.endswith("table") else tensor
        return ours

    return mine


WORDS = [("cls_token", "embeddings.class_token"), ("pos_embed", "embeddings.position.table"), ("blocks", "encoder")]
WORDS += [("attn", "attention"), ("fc1", "expand"), ("fc2", "contract")]


def renamed(old, new):
    """The right dictionary, but for names changed by a regular expression."""
    return lambda state: {re.sub(old, new, name): tensor for name, tensor in solution(state).items()}


def popped(state):
    for name in list(state):
        state[name.replace("blocks", "encoder")] = state.pop(name)
    return solution(state)


RIGHT = {
    check.fuse_qkv: {
        "layer": layer,
        "vstack": lambda q, k, v: [
            torch.vstack([q.weight, k.weight, v.weight]),
            torch.hstack([q.bias, k.bias, v.bias]),
        ],
        "einops": lambda *qkv: (rearrange([x.weight for x in qkv], "n o i -> (n o) i"), cat(*(x.bias for x in qkv))),
        "state dict": lambda *qkv: {n: cat(*(x.state_dict()[n] for x in qkv)) for n in ("weight", "bias")},
        "probing": by_probing,
    },
    check.map_state_dict: {
        "words": words(("attn", "attention"), ("proj", "projection"), ("patch_embed", "embeddings.patches"), *WORDS),
        "float64": lambda state: {name: tensor.double() for name, tensor in solution(state).items()},
        "parameters, in another order": lambda state: {n: nn.Parameter(t) for n, t in [*solution(state).items()][::-1]},
        "renamed in place": (popped, "the dictionary that your function is given has other names"),
    },
}
WRONG = {
    check.fuse_qkv: [
        (lambda *qkv: torch.cat(qkv), "q, k and v are layers, not tensors"),
        (fused(bias=lambda q, k, v: cat(q, k, k)), "From top to bottom the bias holds q, k, k instead of q, k, v."),
        (fused(lambda *p: torch.cat(p, 1)), "The matrices stand side by side, (D, 3·D)"),
        (fused(bias=lambda *p: torch.stack(p)), "The three are stacked, with a new axis of 3 in front"),
        (lambda *qkv: cat(*(x.weight for x in qkv)), "The bias is missing"),
        (lambda *qkv: nn.ModuleList(qkv), "got a value of type ModuleList"),
        (writes, "changes the layers it is given"),
    ],
    check.map_state_dict: [
        (lambda state: {n: state[f"blocks.{n}.norm1.weight"] for n in range(4)}, "This model has 2 blocks"),
        (lambda state: dict(state), "All names are still timm's"),
        (words(("patch_embed.proj", "embeddings.patches.projection"), ("proj", "projection"), *WORDS),
         "`projectionection`: `.replace` finds its word anywhere, also in what an earlier one wrote."),
        (renamed("norm[12]", "norm1"), "`encoder.0.norm1.weight` holds timm's `blocks.0.norm2.weight`, which"),
        (lambda state: {n: t for n, t in solution(state).items() if not re.match(r"encoder\.([2-9]|\d\d)", n)},
         "Right with 2 blocks, but not with 12 blocks. `load_state_dict(..., strict=True)` would refuse these names."),
        (lambda state: solution(state) | {"embeddings.position.table": state["pos_embed"]},
         "`embeddings.position.table` holds timm's `pos_embed`. It is (1, 5, 6), and (5, 6) is asked."),
        (lambda state: solution(state) | {"cls_token": state["cls_token"]}, "Not ours: `cls_token`."),
        (lambda state: solution({n: t.zero_() if n == "cls_token" else t for n, t in state.items()}),
         "writes into `cls_token`"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


@pytest.mark.parametrize("config", TIMM_CONFIGS, ids=["2 blocks", "12 blocks"])
def test_the_tensors_are_timms_and_what_passes_is_loaded(config):
    """In timm's order, which is not ours."""
    state = timm_state(config)
    shapes = [(name, tensor.shape) for name, tensor in build_timm(config).state_dict().items()]
    assert [(name, tensor.shape) for name, tensor in state.items()] == shapes
    VisionTransformer(config).load_state_dict(solution(state), strict=True)
