"""The check of notebook 09 on a state dict by hand, on right and wrong answers."""

import re

import pytest
import torch

from vit_tutorial import VisionTransformer, check
from vit_tutorial.checks.lesson_09_published_weights import CONFIGS, torchvision_tensors
from vit_tutorial.pretrained.naming import as_ours, name_of

from .variants import assert_not_attempted, assert_passes, assert_wrong, cell, solved, stubs

solution = solved(check.map_state_dict)


def ours_for(theirs):
    """The model of ours that fits, its sizes read from the tensors."""
    D, _, P, _ = theirs["conv_proj.weight"].shape
    config = next(config for config in CONFIGS if (config.embed_dim, config.patch_size) == (D, P))
    return VisionTransformer(config)


def by_the_table(theirs):
    return as_ours(theirs, "torchvision", ours_for(theirs).state_dict(), 1)


def by_order(theirs):
    """Both models have the same layers in the same order."""
    ours = dict(zip(ours_for(theirs).state_dict(), theirs.values(), strict=True))
    return ours | {"embeddings.position.table": theirs["encoder.pos_embedding"][0]}


def by_hand(theirs):
    depth = 1 + max(int(name.split(".")[2].removeprefix("encoder_layer_")) for name in theirs if "_layer_" in name)
    ours = {
        "embeddings.class_token": theirs["class_token"],
        "embeddings.position.table": theirs["encoder.pos_embedding"][0],
    }
    for end in ("weight", "bias"):
        ours[f"embeddings.patches.projection.{end}"] = theirs[f"conv_proj.{end}"]
        for i in range(depth):
            there = f"encoder.layers.encoder_layer_{i}"
            ours[f"encoder.{i}.norm1.{end}"] = theirs[f"{there}.ln_1.{end}"]
            ours[f"encoder.{i}.attention.qkv.{end}"] = theirs[f"{there}.self_attention.in_proj_{end}"]
            ours[f"encoder.{i}.attention.projection.{end}"] = theirs[f"{there}.self_attention.out_proj.{end}"]
            ours[f"encoder.{i}.norm2.{end}"] = theirs[f"{there}.ln_2.{end}"]
            ours[f"encoder.{i}.mlp.expand.{end}"] = theirs[f"{there}.mlp.0.{end}"]
            ours[f"encoder.{i}.mlp.contract.{end}"] = theirs[f"{there}.mlp.3.{end}"]
        ours[f"norm.{end}"], ours[f"head.{end}"] = theirs[f"encoder.ln.{end}"], theirs[f"heads.head.{end}"]
    return ours


def loaded(theirs):
    model = ours_for(theirs)
    model.load_state_dict(solution(theirs))
    return model.state_dict()


def popping(theirs):
    ours = solution(dict(theirs))
    theirs.clear()
    return ours


RIGHT = {
    "solution": solution,
    "table": by_the_table,
    "by order": by_order,
    "by hand": by_hand,
    "another order": lambda theirs: dict(sorted(by_hand(theirs).items())),
    "copies": lambda theirs: {name: tensor.clone() for name, tensor in by_hand(theirs).items()},
    "float64": lambda theirs: {name: tensor.double() for name, tensor in by_hand(theirs).items()},
    "loaded": loaded,
}


@pytest.mark.parametrize("mine", RIGHT.values(), ids=RIGHT)
def test_right_answers_pass(mine):
    assert assert_passes(check.map_state_dict, mine).message == ""


def test_an_answer_that_empties_the_dictionary_passes_with_a_remark():
    assert "`theirs` itself is changed" in assert_passes(check.map_state_dict, popping).message


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.depth} blocks")
def test_what_passes_is_loaded(config):
    VisionTransformer(config).load_state_dict(solution(torchvision_tensors(config)), strict=True)


def renamed(*pairs):
    """The right dictionary, but for names changed by regular expressions."""

    def mine(theirs):
        ours = {}
        for name, value in solution(theirs).items():
            for old, new in pairs:
                name = re.sub(old, new, name)
            ours[name] = value
        return ours

    return mine


def changed(pattern, change):
    """The right dictionary, but for the tensors whose names fit."""
    return lambda theirs: {n: change(t) if re.search(pattern, n) else t for n, t in solution(theirs).items()}


def swapped(one, other):
    names = {one: other, other: one}
    return renamed((f"{re.escape(one)}|{re.escape(other)}", lambda found: names[found[0]]))


def copied(source, target):
    return lambda theirs: (ours := solution(theirs)) | {target: ours[source]}


def eaten(theirs):
    """Block 1 takes what begins with `encoder_layer_1`."""
    right = solution(theirs)
    target = {name_of(name, "torchvision").theirs[0]: name for name in right}
    ours = {name: tensor for name, tensor in right.items() if not name.startswith("encoder.")}
    for i in range(len({name.split(".")[2] for name in theirs if "_layer_" in name})):
        start = f"encoder.layers.encoder_layer_{i}"
        for name, tensor in theirs.items():
            if name.startswith(start):
                rest = name.split(".", 3)[3]
                ours[target[f"{start}.{rest}"]] = tensor
    return ours


def eaten_and_lost(theirs):
    return without("encoder.10.", "encoder.11.")(theirs) | {n: t for n, t in eaten(theirs).items() if ".1." in n}


def sorted_as_text(theirs):
    blocks = sorted({name.split(".")[2] for name in theirs if "_layer_" in name})
    number = {block.removeprefix("encoder_layer_"): str(i) for i, block in enumerate(blocks)}
    return renamed((r"(?<=^encoder\.)\d+", lambda found: number[found[0]]))(theirs)


def split(theirs):
    ours = {}
    for name, tensor in solution(theirs).items():
        parts = zip("qkv", tensor.chunk(3), strict=True) if ".qkv." in name else [("", tensor)]
        ours |= {name.replace("qkv", part or "qkv"): value for part, value in parts}
    return ours


def two_blocks(theirs):
    return {name: tensor for name, tensor in solution(theirs).items() if not re.match(r"encoder\.([2-9]|\d\d)", name)}


def two_blocks_only(theirs):
    """A number written into the code: the other blocks keep their names."""
    left = {name: tensor for name, tensor in theirs.items() if re.search(r"encoder_layer_([2-9]|\d\d)", name)}
    return two_blocks(theirs) | left


def without(*starts):
    """The right dictionary, but for names that begin so."""
    return lambda theirs: {n: t for n, t in solution(theirs).items() if not n.startswith(starts)}


def in_place(theirs):
    theirs["class_token"].zero_()
    return solution(theirs)


def one_name(theirs):
    return {re.sub(r"^encoder\.\d+\.", "encoder.", name): tensor for name, tensor in solution(theirs).items()}


def extra(theirs):
    return solution(theirs) | {"heads.head.weight": theirs["heads.head.weight"]}


WRONG = {
    "as it is": (lambda theirs: dict(theirs), "All names are still torchvision's"),
    "head": (renamed(("^head", "heads.head")), "Still torchvision's names: `heads.head.weight`, `heads.head.bias`."),
    "head twice": (extra, "would refuse these names. Still torchvision's names: `heads.head.weight`."),
    "norms": (renamed(("norm1", "ln_1"), ("norm2", "ln_2")), "`encoder.0.ln_1.weight` holds `encoder.layers.encoder_l"),
    "no head": (without("head"), "Missing: `head.weight`, `head.bias`."),
    "no positions": (without("embeddings.position"), "Missing: `embeddings.position.table`."),
    "prefix": (renamed(("^", "model.")), "Not ours:"),
    "from one": (renamed((r"(?<=^encoder\.)\d+", lambda n: str(int(n[0]) + 1))), "Not ours: `encoder.2.norm1.weight`,"),
    "one name": (one_name, "Not ours: `encoder.norm1.weight`"),
    "layers": (renamed((r"^encoder\.(\d)", r"encoder.layers.\1")), "which ours calls `encoder.0.norm1.weight`"),
    "two blocks": (two_blocks, "Right for a model with 2 blocks, wrong for one with 12. Of the 12 blocks, counted"),
    "no block 0": (without("encoder.0."), "Of the 2 blocks, counted from 0, block 0 is missing."),
    "eaten": (eaten, "`encoder_layer_1` is the beginning of `encoder_layer_11`, too."),
    "eaten, lost": (eaten_and_lost, "blocks 10, 11 are missing. `encoder.1` holds torchvision's block 11: `enc"),
    "sorted": (sorted_as_text, "wrong for one with 12. The names are right."),
    "split": (split, "q, k and v are split: `encoder.0.attention.q.weight` holds a third of"),
    "norms swapped": (swapped("norm1", "norm2"), "It is in `encoder.0.norm2.weight`: the two are exchanged."),
    "mlp swapped": (swapped("expand", "contract"), "`encoder.0.mlp.expand.weight` holds `encoder.layers.encoder_layer_"
                    "0.mlp.3.weight`, and"),
    "blocks backwards": (swapped("encoder.0.", "encoder.1."), "the two are exchanged"),
    "first two blocks": (two_blocks_only, "counted from 0, this is so in blocks 2, 3, 4, 5, 6, 7, 8, 9, 10, 11."),
    "cut": (changed("table", lambda t: t[1:]), "`embeddings.position.table` holds 24 of the 30 numbers of `enc"),
    "no numbers": (changed("table", lambda t: t.to("meta")), "`embeddings.position.table` is on the meta device"),
    "axis of one": (changed("table", lambda t: t[None]), "the right numbers and the wrong shape, (1, 5, 6) in pla"),
    "class token": (changed("class_token", torch.squeeze), "`embeddings.class_token` has the right numbers and the"),
    "qkv transposed": (changed("qkv.weight", lambda t: t.T), "`encoder.0.attention.qkv.weight` is transposed, (6, 18)"),
    "all transposed": (changed(r"(qkv|expand|contract|head).weight", lambda t: t.mT), "is transposed"),
    "square transposed": (changed("attention.projection.weight", lambda t: t.T), "`encoder.0.attention.projection.we"),
    "third": (changed("qkv", lambda t: t.chunk(3)[0]), "holds only a third of"),
    "rows": (changed("qkv", lambda t: t.flip(0)), "in another order"),
    "copied": (copied("norm.weight", "norm.bias"), "`norm.bias` holds `encoder.ln.weight`, and `encoder.ln.bias` bel"),
    "copied, nowhere": (copied("norm.weight", "norm.bias"), "Nowhere in yours is that one."),
    "half": (changed("", lambda t: t.half()), "nowhere in torchvision's: its dtype is torch.float16"),
    "zeros": (changed("qkv.bias", torch.zeros_like), "holds numbers that are nowhere in torchvision's."),
    "untrained": (lambda theirs: ours_for(theirs).state_dict(), "holds numbers that are nowhere in torchvision's."),
    "in place": (in_place, "writes into tensors it is given: `class_token`"),
    "model": (ours_for, "A state dict is asked for; got a model, VisionTransformer"),
    "load": (lambda theirs: ours_for(theirs).load_state_dict(solution(theirs)), "A dictionary is asked for; got a val"),
    "pairs": (lambda theirs: list(solution(theirs).items()), "A dictionary is asked for; got a value of type list"),
    "names": (lambda theirs: {n: n for n in theirs}, "`class_token` must be a tensor; it is a value of type str"),
    "empty": (lambda theirs: {}, "Your dictionary is empty"),
    "nothing": (lambda theirs: None, "returns nothing"),
    "numpy": (changed("", lambda t: t.numpy()), "must be a tensor; it is a value of type ndarray"),
    "crash": (lambda theirs: theirs["encoder.layers.2"], "KeyError: 'encoder.layers.2' It was called as `<lambda>(the"),
}  # fmt: skip


@pytest.mark.parametrize(("mine", "phrase"), WRONG.values(), ids=WRONG)
def test_wrong_answers_are_told_what_is_wrong(mine, phrase):
    assert_wrong(check.map_state_dict, mine, phrase)


@pytest.mark.parametrize("stub", stubs("theirs").items(), ids=lambda stub: stub[0])
def test_untouched(stub):
    assert_not_attempted(check.map_state_dict, stub[1])


def test_a_crash_shows_the_readers_line_and_not_all_numbers():
    verdict = check.map_state_dict(cell("def mine(theirs):\n    return theirs['pos_embed'][0]")["mine"])
    assert "return theirs['pos_embed'][0]" in verdict.code
    assert "theirs={32 tensors by name}" in verdict.message
