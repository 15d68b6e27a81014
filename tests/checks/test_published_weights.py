"""The checks of notebook 09 on right and wrong answers."""

import re
from copy import deepcopy

import pytest
import torch
from published import build_timm
from torch import nn

from vit_tutorial import SelfAttention, VisionTransformer, change_resolution, check, load_checkpoint
from vit_tutorial.checks.lesson_09_pretrained_weights import SIZES, attention_layers, their_state
from vit_tutorial.experiments import Suspect, sabotage, sabotaged

from .variants import judged, solved

# What is changed in the solutions

solution, fold = solved(check.map_state_dict), solved(check.fold_layer_scale)
LOOP, END = "for name, tensor in state.items():", "return ours"
WEIGHT, DELETE = "gamma[:, None] * state[weight]", "del folded[name]"


def ours_but(name, value):
    """The right names, and another tensor under this one: an expression of `ours` and `state`."""
    return END, f'ours["{name}"] = {value}; return ours'


def renamed(old, new):
    """The right dictionary, but for names changed by a regular expression."""
    return lambda state: {re.sub(old, new, name): tensor for name, tensor in solution(state).items()}


def popped(state):
    for name in list(state):
        state[name.replace("blocks", "encoder")] = state.pop(name)
    return solution(state)


def tensor_by_tensor(state):
    """γ is looked up for each tensor, and the order is ours."""
    folded = {}
    for name, tensor in state.items():
        if "gamma" in name:
            continue
        block = ".".join(name.split(".")[:2])
        if ".attention.projection" in name:
            tensor = torch.einsum("o,o...->o...", state[f"{block}.ls1.gamma"], tensor)
        elif "contract" in name:
            gamma = state[f"{block}.ls2.gamma"]
            tensor = (tensor.T * gamma).T if tensor.ndim == 2 else tensor * gamma
        folded[name] = nn.Parameter(tensor)
    return folded


def taken_out(state):
    """γ is taken out of the dictionary that is given."""
    for name in [name for name in state if name.endswith("gamma")]:
        layer = name.replace("ls1.gamma", "attention.projection").replace("ls2.gamma", "mlp.contract")
        gamma = state.pop(name)
        state[f"{layer}.weight"] = gamma[:, None] * state[f"{layer}.weight"]
        state[f"{layer}.bias"] = gamma * state[f"{layer}.bias"]
    return state


RIGHT = {
    check.map_state_dict: {
        "float64": ("= tensor", "= tensor.double()"),
        "parameters, in another order": lambda state: {n: nn.Parameter(t) for n, t in [*solution(state).items()][::-1]},
        "renamed in place": popped,
    },
    check.to_qkv: {
        "heads last": ("flatten(1).T for part in parts", "permute(1, 2, 0).flatten(0, 1) for part in parts"),
        "permuted": ("kernel.T", 'state["out/kernel"].permute(2, 0, 1).flatten(1)'),
    },
    check.fold_layer_scale: {
        "tensor by tensor": tensor_by_tensor,
        "the given dictionary, changed": taken_out,
        "into a copy": lambda state: taken_out(dict(state)),
        "into copies of all tensors": lambda state: taken_out(deepcopy(state)),
        "float64": lambda state: {name: tensor.double() for name, tensor in fold(state).items()},
    },
}
WRONG = {
    check.map_state_dict: [
        (lambda state: {n: state[f"blocks.{n}.norm1.weight"] for n in range(4)}, "KeyError: 'blocks.2.norm1.weight'"),
        (lambda state: dict(state), "Should not be there, 32 of 34: `cls_token`"),
        (renamed("norm[12]", "norm1"), "Missing, 4 of 34: `encoder.0.norm2.weight`"),
        (*ours_but("encoder.0.norm1.weight", 'state["blocks.0.norm2.weight"]'), "Wrong values, 1 of 34: `encoder.0.n"),
        (LOOP, LOOP + "\n        tensor = tensor.T if 'qkv.w' in name else tensor",
         "`encoder.0.attention.qkv.weight` is (D, 3·D) = (6, 18), not (3·D, D)"),
        (renamed(r"encoder\.([2-9]|\d\d)", "x"), "Right for 2 blocks, but not for 13 blocks: Missing"),
        (END, 'state["cls_token"].zero_(); return ours', "writes into `cls_token`"),
        (END, "return [*ours]", "asks for a dictionary of tensors, a state dict; got a list of 34"),
    ],
    check.to_qkv: [
        ("kernel.T", "kernel", "Right for transformers, but not for JAX: Wrong values, 1 of 4: `projection"),
        ("flatten(1).T for", "flatten(1) for", "was at `query/kernel`[0, 0, 1], not what was at `query/kernel`[1"),
        ("torch.cat(weights)", "torch.stack([w.unflatten(0, (3, -1)) for w in weights], 1).flatten(0, 2)",
         "`qkv.weight`[4, 0] stands what was at `k_proj.weight`[0, 0], not what was at `q_proj.weight`[4, 0]."),
        ("torch.cat(weights)", "torch.cat(weights, dim=1)", "`qkv.weight` is (D, 36) = (12, 36), not (36, D)"),
        (lambda state: {"qkv.weight": torch.cat([state[f"{part}_proj.weight"] for part in "qkv"])},
         "Missing, 3 of 4: `qkv.bias`"),
        ('if "q_proj.weight" in state', 'if "q_proj" in state', "KeyError: 'query/kernel'"),
    ],
    check.fold_layer_scale: [
        (WEIGHT, "state[weight]", "stands what was at `encoder.0.attention.projection.weight`[0, 0], not `enc"),
        ('"ls1.gamma": ', '"ls2.gamma": ', '"ls2.gamma": "m', '"ls1.gamma": "m',
         "[0, 0] stands `encoder.0.ls2.gamma`[0] times"),
        (DELETE, "pass", "Should not be there, 4 of 30: `encoder.0.ls1.gamma`, `encoder.0.ls2.gamma`"),
        (lambda state: {n: t for n, t in fold(state).items() if t is not state[n]}, "Missing, 22 of 30: `embeddings"),
        ("gamma[:, None]", "gamma", "`gamma` is (D,) = (6,), `state[weight]` is (D, mlp_dim) = (6, 10)"),
        ('"attention.projection"', '"attention.qkv"', "`state[weight]` is (3·D, D) = (18, 6)"),
        (WEIGHT, "state[weight].mul_(gamma[:, None])", "writes into `encoder.0.attention.projection.weight`"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


@pytest.mark.parametrize("config", SIZES, ids=["2 blocks", "13 blocks"])
def test_what_is_mapped_and_folded_computes_what_timms_class_does(config):
    """timm multiplies by γ; ours has no γ left."""
    theirs, state = build_timm(config, init_values=1.0).double().eval(), their_state(config)
    assert set(state) == set(theirs.state_dict())
    theirs.load_state_dict(state, strict=True)
    ours = VisionTransformer(config).double().eval()
    ours.load_state_dict(fold({name: tensor.double() for name, tensor in solution(state).items()}), strict=True)
    images = torch.randn(2, 3, config.image_size, config.image_size, dtype=torch.float64)
    torch.testing.assert_close(ours(images), theirs(images))


def test_two_libraries_keep_one_layer_and_a_kernel_of_jax_multiplies_from_the_right():
    layers, x = attention_layers(), torch.randn(1, 5, 12)
    ours, kernels = {name: check.to_qkv.answer(state) for name, state in layers.items()}, layers["JAX"]
    torch.testing.assert_close(ours["transformers"], ours["JAX"])
    q, k, v = (
        torch.einsum("btD,Dhd->bhtd", x, kernels[f"{part}/kernel"]) + kernels[f"{part}/bias"][:, None]
        for part in ("query", "key", "value")
    )
    mixed = (q @ k.mT / 2).softmax(dim=-1) @ v
    attention = SelfAttention(12, 3)
    attention.load_state_dict(ours["JAX"])
    by_hand = torch.einsum("bhtd,hdD->btD", mixed, kernels["out/kernel"]) + kernels["out/bias"]
    torch.testing.assert_close(attention(x), by_hand)


# A mistake in a copy that looks right


@pytest.fixture(scope="module")
def right():
    return change_resolution(load_checkpoint("dinov2-s14"), 56)


DIFFER = {
    "norms exchanged": ["norm1", "norm2"],
    "q and k exchanged": ["attention.qkv", "attention"],
    "12 heads instead of 6": ["attention"],
    "γ of the attention forgotten": ["attention.projection", "attention"],
    "ReLU instead of GELU": ["mlp"],
    "red and blue exchanged": ["patches"],
    "positions moved by one": ["position"],
}


@pytest.mark.parametrize("seed", range(3))
def test_the_first_stage_that_differs_is_where_the_mistake_is(seed, right):
    images = torch.randn(1, 3, 56, 56, generator=torch.Generator().manual_seed(seed))
    for suspect in sabotaged(right, count=7, seed=seed):
        where, parts = check.find_mistake.answer(right, suspect.model, images)
        assert parts == DIFFER[suspect.mistake]
        found = check.find_mistake(suspect, suspect.mistake, where)
        assert found.status == "passed"
        assert suspect.reveal() == f"{suspect.mistake}, in {where}"


def test_what_is_no_suspect_is_told_what_to_give(right):
    suspects = sabotaged(right, seed=0)
    for given in (suspects, suspects[0].model):
        assert "one suspect itself" in check.find_mistake(given, "norms exchanged", "encoder.6").message
    for said in (["norms exchanged"], ["norms exchanged", "encoder.6", "c"], []):
        assert "find_mistake(suspect, mistake, where)" in check.find_mistake(suspects[0], *said).message
    assert "unknown mistake" in check.find_mistake(suspects[0], ["norms exchanged"], 6).message
    named = {"mistake": suspects[0].mistake, "where": suspects[0].where}
    assert check.find_mistake(suspects[0], **named).status == "passed"


def test_secrets_are_new_each_time_and_do_not_show(right):
    secrets = {sabotaged(right, count=1)[0].reveal() for _ in range(8)}
    assert len(secrets) > 1
    assert repr(sabotaged(right, count=1)[0]) == "Suspect()"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (("norms exchanged", None), "Put what you found in the place of `None`"),
        (("norms swapped", "encoder.6"), "did you mean"),
        (("gamma forgotten", "encoder.6"), "did you mean 'γ of the attention forgotten'?"),
        (("norms exchanged", "block 12"), "There is no `encoder.12`: the first block is `encoder.0`, and the last"),
        (("norms exchanged", 7), "No. We put “norms exchanged” into `encoder.7` of the right model"),
        (("red and blue exchanged", "encoder.6"), "cannot be in `encoder.6`: pixels and positions"),
        (("relu instead of gelu", "embeddings"), "cannot be in `embeddings`"),
        (("relu instead of gelu", "6"), "with a cosine of 1. The median cosine is 0."),
        (("12 heads instead of 6", "block 6"), "12 heads instead of 6, in `encoder.6`"),
        ((" 12 Heads instead of 6", "Encoder.6 "), "12 heads instead of 6, in `encoder.6`"),
    ],
)  # fmt: skip
def test_what_speaks_against_a_guess(said, message, right):
    mistake = "12 heads instead of 6", "encoder.6"
    suspect = Suspect(sabotage(right, *mistake), right, *mistake)
    assert message in check.find_mistake(suspect, *said).message
