"""The checks of notebook 09 on right and wrong answers."""

import re
from copy import deepcopy

import pytest
import torch
from published import build_timm
from torch import nn

from vit_tutorial import VisionTransformer, change_resolution, check, load_checkpoint
from vit_tutorial.checks.lesson_09_pretrained_weights import SHOWS_IN, SIZES, their_state
from vit_tutorial.experiments import MISTAKES, Suspect, sabotage, sabotaged

from .variants import judged, solved

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


def reshaped(state):
    state["pos_embed"] = state["pos_embed"][0]
    return solution(state | {"pos_embed": state["pos_embed"][None]})


def popped(state):
    for name in list(state):
        state[name.replace("blocks", "encoder")] = state.pop(name)
    return solution(state)


# A state dict without γ

fold = solved(check.fold_layer_scale)
NAMES = ("attention.projection", "ls1.gamma"), ("mlp.contract", "ls2.gamma")


def depth_of(state):
    return 1 + max(int(name.split(".")[1]) for name in state if name.startswith("encoder."))


def block_by_block(weight=lambda w, g: w * g.unsqueeze(1), bias=torch.mul, blocks=depth_of, names=NAMES):
    """One block after the other, each γ taken out of a copy."""

    def mine(state):
        state = state.copy()
        for i in range(blocks(state)):
            for layer, scale in names:
                gamma = state.pop(f"encoder.{i}.{scale}")
                state[f"encoder.{i}.{layer}.weight"] = weight(state[f"encoder.{i}.{layer}.weight"], gamma)
                state[f"encoder.{i}.{layer}.bias"] = bias(state[f"encoder.{i}.{layer}.bias"], gamma)
        return state

    return mine


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
    for name in [name for name in state if name.endswith("gamma")]:
        layer = name.replace("ls1.gamma", "attention.projection").replace("ls2.gamma", "mlp.contract")
        gamma = state.pop(name)
        state[f"{layer}.weight"] = gamma[:, None] * state[f"{layer}.weight"]
        state[f"{layer}.bias"] = gamma * state[f"{layer}.bias"]
    return state


def in_place(state):
    folded = dict(state)
    for name in [name for name in state if name.endswith("gamma")]:
        layer = name.replace("ls1.gamma", "attention.projection").replace("ls2.gamma", "mlp.contract")
        gamma = folded.pop(name)
        folded[f"{layer}.weight"] *= gamma[:, None]
        folded[f"{layer}.bias"] *= gamma
    return folded


RIGHT = {
    check.map_state_dict: {
        "words": words(("attn", "attention"), ("proj", "projection"), ("patch_embed", "embeddings.patches"), *WORDS),
        "float64": lambda state: {name: tensor.double() for name, tensor in solution(state).items()},
        "parameters, in another order": lambda state: {n: nn.Parameter(t) for n, t in [*solution(state).items()][::-1]},
        "renamed in place": (popped, "the dictionary that your function is given has other entries"),
        "positions put back": (reshaped, "the dictionary that your function is given has other entries"),
    },
    check.fold_layer_scale: {
        "block by block": block_by_block(),
        "tensor by tensor": tensor_by_tensor,
        "into copies of all tensors": lambda state: block_by_block(lambda w, g: w.mul_(g[:, None]))(deepcopy(state)),
        "the given dictionary, changed": (taken_out, "your function changes the dictionary that it is given"),
        "float64": (lambda state: {name: tensor.double() for name, tensor in fold(state).items()}, "torch.float64"),
    },
}
WRONG = {
    check.map_state_dict: [
        (lambda state: {n: state[f"blocks.{n}.norm1.weight"] for n in range(4)}, "This model has 2 blocks"),
        (lambda state: dict(state), "All names are still Meta's"),
        (lambda state: dict(enumerate(state.values())), "Not ours: `0`, `1`, `2` and"),
        (words(("patch_embed.proj", "embeddings.patches.projection"), ("proj", "projection"), *WORDS),
         "`projectionection`: `.replace` finds its word anywhere, also in what an earlier one wrote."),
        (renamed("norm[12]", "norm1"), "`encoder.0.norm1.weight` holds Meta's `blocks.0.norm2.weight`, which"),
        (lambda state: {n: t for n, t in solution(state).items() if not re.match(r"encoder\.([2-9]|\d\d)", n)},
         "Right with 2 blocks, but not with 13 blocks. Not all names are those of our model"),
        (lambda state: solution(state) | {"embeddings.position.table": state["pos_embed"]},
         "`embeddings.position.table` holds Meta's `pos_embed`. It is (1, 5, 6), and (5, 6) is asked."),
        (lambda state: solution({n: t.zero_() if n == "cls_token" else t for n, t in state.items()}),
         "writes into `cls_token`"),
    ],
    check.fold_layer_scale: [
        (lambda state: dict(state), "Our class has no place for γ: leave it out"),
        (lambda state: {n: t for n, t in fold(state).items() if t is not state[n]},
         "Return all tensors of the model, also those that stay as they are."),
        (block_by_block(lambda w, g: g * w), "γ is on the columns of the weight"),
        (block_by_block(lambda w, g: w.T * g), "`encoder.0.mlp.contract.weight` must keep its shape, (6, 10)"),
        (block_by_block(torch.mul, names=[("norm1", "ls1.gamma"), ("norm2", "ls2.gamma")]),
         "γ multiplies what a branch returns, so it belongs in the branch's last layer"),
        (block_by_block(blocks=lambda state: 1), "Not ours: `encoder.1.ls1.gamma`, `encoder.1.ls2.gamma`."),
        (in_place, "tensors of the model that it was given have changed: `encoder.*.attention.projection."),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


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


# A mistake in a copy that looks right


@pytest.fixture(scope="module")
def right():
    return change_resolution(load_checkpoint("dinov2-s14"), 56)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_stage_that_differs_is_where_the_mistake_is(seed, right):
    images = torch.randn(1, 3, 56, 56, generator=torch.Generator().manual_seed(seed))
    for suspect in sabotaged(right, count=7, seed=seed):
        where = check.find_mistake.answer(right, suspect.model, images)
        found = check.find_mistake(suspect, suspect.mistake, where)
        assert found.status == "passed"
        assert suspect.reveal() == f"{suspect.mistake}, in {where}"


def test_what_is_no_suspect_is_told_what_to_give(right):
    suspects = sabotaged(right, seed=0)
    for given in (suspects, suspects[0].model):
        assert "one suspect itself" in check.find_mistake(given, "norms exchanged", "encoder.6").message
    assert "none of these: “embeddings”" in check.find_mistake(suspects[0], "norms exchanged").message
    assert (
        "none of these: “norms exchanged”" in check.find_mistake(suspects[0], ["norms exchanged"], "encoder.6").message
    )
    assert "is called as" in check.find_mistake(suspects[0]).message
    named = {"mistake": suspects[0].mistake, "where": suspects[0].where}
    assert check.find_mistake(suspects[0], **named).status == "passed"
    assert "is called as" in check.find_mistake(suspects[0], "a", "b", "c").message


def test_secrets_are_new_each_time_and_do_not_show(right):
    secrets = {sabotaged(right, count=1)[0].reveal() for _ in range(8)}
    assert len(secrets) > 1
    assert repr(sabotaged(right, count=1)[0]) == "Suspect()"


INSIDE = {"`norm1`": "norm1", "`attention.qkv`": "attention.qkv", "`attention`": "attention", "`mlp`": "mlp"}


@pytest.mark.parametrize("mistake", MISTAKES[:5])
@torch.no_grad()
def test_a_mistake_shows_first_where_the_check_says(mistake, right):
    """Both blocks get the same tokens. Later parts differ as well, or are not reached by it."""
    z, suspect = torch.randn(1, 17, 384), sabotage(right, mistake, "encoder.6")
    ours, theirs = (model.get_submodule("encoder.6") for model in (right, suspect))
    differs = [told for told, part in INSIDE.items()
               if not torch.equal(ours.get_submodule(part)(z), theirs.get_submodule(part)(z))]  # fmt: skip
    assert SHOWS_IN[mistake].startswith(differs[0])


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ((None, None), "Nothing is named yet."),
        (("norms swapped", "encoder.6"), "“norms swapped” is none of these: “norms exchanged”, “q and k exchanged”"),
        (("norms exchanged", "block 6"), "“block 6” is none of these: “embeddings”, “encoder.0”"),
        (("norms exchanged", "encoder.5"), "After `encoder.5` both models still have the same tokens."),
        (("norms exchanged", "encoder.7"), "`encoder.7` already gets other tokens than in the right model."),
        (("red and blue exchanged", "encoder.6"), "“red and blue exchanged” cannot be in `encoder.6`."),
        (("norms exchanged", "encoder.6"),
         "The place is right. But “norms exchanged” would show first in `norm1`."),
        (("ReLU instead of GELU", "encoder.6"), "would show first in `mlp`."),
        (("γ of the attention forgotten", "encoder.6"), "dividing one result by the other gives γ"),
        (("12 heads instead of 6", "encoder.6"), "12 heads instead of 6, in `encoder.6`."),
    ],
)  # fmt: skip
def test_what_speaks_against_a_guess(said, message, right):
    mistake = "12 heads instead of 6", "encoder.6"
    suspect = Suspect(sabotage(right, *mistake), right, *mistake)
    assert message in check.find_mistake(suspect, *said).message
