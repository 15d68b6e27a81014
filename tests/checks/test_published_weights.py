"""The checks of notebook 09 on right and wrong answers."""

import re

import pytest
import torch
from einops import rearrange
from torch import nn

from vit_tutorial import VisionTransformer, check
from vit_tutorial.checks.lesson_09_pretrained_weights import CONFIGS, torchvision_tensors
from vit_tutorial.pretrained.tensor_names import as_ours, name_of

from .variants import assert_passes, cell, judged, solved


def cat(*tensors):
    return torch.cat(tensors)


def new_layer(q, k, v):
    layer = nn.Linear(q.in_features, 3 * q.out_features)
    layer.weight.data, layer.bias.data = cat(q.weight, k.weight, v.weight).data, cat(q.bias, k.bias, v.bias).data
    return layer


def by_probing(q, k, v):
    """The bias is what comes out for nothing, the columns what comes out for the unit vectors."""
    D = q.in_features
    bias = cat(*(layer(torch.zeros(D)) for layer in (q, k, v)))
    return cat(*(layer(torch.eye(D)).T for layer in (q, k, v))) - bias[:, None], bias


RIGHT_FUSED = {
    "solution": solved(check.fuse_qkv),
    "layer": new_layer,
    "vstack": lambda q, k, v: [torch.vstack([q.weight, k.weight, v.weight]), torch.hstack([q.bias, k.bias, v.bias])],
    "stack and flatten": lambda *qkv: tuple(torch.stack([getattr(x, n) for x in qkv]).flatten(0, 1)
                                            for n in ("weight", "bias")),
    "einops": lambda *qkv: (rearrange([x.weight for x in qkv], "n o i -> (n o) i"), cat(*(x.bias for x in qkv))),
    "state dict": lambda *qkv: {n: cat(*(x.state_dict()[n] for x in qkv)) for n in ("weight", "bias")},
    "probing": by_probing,
}  # fmt: skip


def weights(change):
    """`change(three matrices)` as the weight, the bias as it should be."""
    return lambda *qkv: (change(*(x.weight for x in qkv)), cat(*(x.bias for x in qkv)))


def biases(change):
    return lambda *qkv: (cat(*(x.weight for x in qkv)), change(*(x.bias for x in qkv)))


def both(change):
    return lambda *qkv: tuple(change(*p) for p in zip(*(x.parameters() for x in qkv), strict=True))


def by_heads(*parts):
    """Two heads where D is even: a head's q, k and v stand together."""
    return rearrange(list(parts), "n (h d) ... -> (h n d) ...", h=2 if len(parts[0]) % 2 == 0 else 1)


def writes(q, k, v):
    q.weight.data = cat(q.weight, k.weight, v.weight).data
    return q.weight, cat(q.bias, k.bias, v.bias)


def keeps(*qkv, kept=[]):  # noqa: B006
    kept.append(both(cat)(*qkv))
    return kept[0]


WRONG_FUSED = [
    (both(lambda q, k, v: cat(k, q, v)), "the weight holds k, q, v instead of q, k, v."),
    (both(lambda q, k, v: cat(q, q, v)), "the weight holds q, q, v instead"),
    (both(by_heads), "The weight goes head by head: q, k and v of the first of 2"),
    (both(lambda *p: torch.stack(p, 1).flatten(0, 1)), "The weight goes row by row"),
    (weights(lambda *p: torch.cat(p, 1)), "The matrices stand side by side, (D, 3·D)"),
    (weights(lambda *p: cat(*p).T), "The weight is transposed, (D, 3·D)"),
    (weights(lambda *p: cat(*(x.T for x in p))), "holds q transposed, k transposed, v tr"),
    (both(lambda *p: torch.stack(p)), "The three are stacked, with a new axis"),
    (both(lambda q, k, v: q + k + v), "The three are added up"),
    (both(lambda *p: torch.stack(p).mean(0)), "The three are averaged"),
    (weights(lambda q, k, v: v @ k @ q), "one layer after another"),
    (weights(lambda q, k, v: cat(q / 2, k, v)), "holds 0.5·q, k, v"),
    (weights(lambda q, k, v: cat(q, k, 0 * v)), "holds q, k, zeros"),
    (both(lambda q, k, v: cat(q, k)), "The weight has the wrong shape: (3·D, D) = (12, 4) expected"),
    (lambda *qkv: cat(*(x.weight for x in qkv)), "got the weight, and the bias is missing"),
    (lambda *qkv: cat(*(x.bias for x in qkv)), "got the bias, and the weight is missing"),
    (biases(lambda *p: None), "The bias is missing"),
    (biases(lambda *p: torch.zeros_like(cat(*p))), "the bias is not. The bias is zero"),
    (biases(lambda *p: torch.stack(p)), "the bias is not. The three are stacked"),
    (biases(lambda q, k, v: cat(k, q, v)), "bottom the bias holds k, q, v"),
    (lambda *qkv: both(cat)(*qkv)[::-1], "Weight and bias are exchanged"),
    (lambda *qkv: [x.weight for x in qkv], "two tensors, weight and bias; got 3 values"),
    (lambda *qkv: nn.ModuleList(qkv), "weight and bias; got a value of type ModuleList"),
    (lambda q, k, v: nn.Linear(q.in_features, 3 * q.out_features), "None of q, k and v is in the weight"),
    (weights(lambda q, k, v: cat(q, k.new_full((8, 4), torch.nan))), "holds 32 values that are inf or nan"),
    (weights(lambda *p: cat(*p).detach().numpy()), "The weight must be a tensor"),
    (both(lambda *p: cat(*p).double()), "The weight must be of dtype torch.float32"),
    (writes, "changes the layers it is given"),
    (keeps, "Right with D = 4, but not with D = 6"),
]  # fmt: skip


# A state dict under other names

solution = solved(check.map_state_dict)


def ours_for(theirs):
    """The model of ours that fits, its sizes read from the tensors."""
    D, _, P, _ = theirs["conv_proj.weight"].shape
    config = next(config for (config,) in CONFIGS.values() if (config.embed_dim, config.patch_size) == (D, P))
    return VisionTransformer(config)


def by_the_table(theirs):
    return as_ours(theirs, "torchvision", ours_for(theirs).state_dict(), 1)


def by_order(theirs):
    """Both models have the same layers in the same order."""
    ours = dict(zip(ours_for(theirs).state_dict(), theirs.values(), strict=True))
    return ours | {"embeddings.position.table": theirs["encoder.pos_embedding"][0]}


RIGHT_MAPPED = {
    "solution": solution,
    "table": by_the_table,
    "by order": by_order,
    "float64": lambda theirs: {name: tensor.double() for name, tensor in solution(theirs).items()},
    "loaded": lambda theirs: (model := ours_for(theirs)).load_state_dict(solution(theirs)) and model.state_dict(),
}


def without(*starts):
    """The right dictionary without the names that begin so."""
    return lambda theirs: {n: t for n, t in solution(theirs).items() if not n.startswith(starts)}


two_blocks = without(*(f"encoder.{i}." for i in range(2, 12)))


def renamed(old, new):
    """The right dictionary, but for names changed by a regular expression."""
    return lambda theirs: {re.sub(old, new, name): tensor for name, tensor in solution(theirs).items()}


def changed(pattern, change):
    """The right dictionary, but for the tensors whose names fit."""
    return lambda theirs: {n: change(t) if re.search(pattern, n) else t for n, t in solution(theirs).items()}


def swapped(one, other):
    names = {one: other, other: one}
    return renamed(f"{re.escape(one)}|{re.escape(other)}", lambda found: names[found[0]])


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
    return renamed(r"(?<=^encoder\.)\d+", lambda found: number[found[0]])(theirs)


def split(theirs):
    ours = {}
    for name, tensor in solution(theirs).items():
        parts = zip("qkv", tensor.chunk(3), strict=True) if ".qkv." in name else [("", tensor)]
        ours |= {name.replace("qkv", part or "qkv"): value for part, value in parts}
    return ours


WRONG_MAPPED = [
    (lambda theirs: dict(theirs), "All names are still torchvision's"),
    (renamed("^head", "heads.head"), "Still torchvision's names: `heads.head.weight`, `heads.head.bias`."),
    (lambda theirs: solution(theirs) | {"heads.head.weight": theirs["heads.head.weight"]}, "refuse these names. Still"),
    (renamed("norm([12])", r"ln_\1"), "`encoder.0.ln_1.weight` holds `encoder.layers.encoder_l"),
    (without("embeddings.position"), "Missing: `embeddings.position.table`."),
    (renamed(r"(?<=^encoder\.)\d+", lambda n: str(int(n[0]) + 1)), "Not ours: `encoder.2.norm1.weight`,"),
    (renamed(r"^encoder\.(\d)", r"encoder.layers.\1"), "which ours calls `encoder.0.norm1.weight`"),
    (two_blocks, "Of the 12 blocks, counted from 0, this is so in blocks 2, 3, 4,"),
    (without("encoder.0."), "Of the 2 blocks, counted from 0, this is so in block 0."),
    (eaten, "`encoder_layer_1` is the beginning of `encoder_layer_11`, too."),
    (eaten_and_lost, "in blocks 10, 11. `encoder.1` holds torchvision's block 11."),
    (sorted_as_text, "but not with 12 blocks. The names are right."),
    (split, "`encoder.0.attention.q.weight` holds a third of `encoder.layers.encoder_layer_0.self_a"),
    (swapped("norm1", "norm2"), "It is in `encoder.0.norm2.weight`: the two are exchanged."),
    (lambda theirs: two_blocks(theirs) | {n: t for n, t in theirs.items() if re.search(r"_layer_([2-9]|\d\d)", n)},
     "counted from 0, this is so in blocks 2, 3, 4, 5, 6, 7, 8, 9, 10, 11."),
    (changed("table", lambda t: t[1:]), "`embeddings.position.table` holds 24 of the values of `enc"),
    (changed("table", lambda t: t.to("meta")), "`embeddings.position.table` is on the meta device"),
    (changed("table", lambda t: t[None]), "holds `encoder.pos_embedding`, (1, 5, 6) instead of"),
    (changed("class_token", torch.squeeze), "`embeddings.class_token` holds `class_token`, (6,) ins"),
    (changed("qkv.weight", lambda t: t.T), "attention.in_proj_weight` transposed, (6, 18)"),
    (changed(r"(qkv|expand|contract|head).weight", lambda t: t.mT), "transposed"),
    (changed("qkv", lambda t: t.flip(0)), "in another order"),
    (lambda theirs: (ours := solution(theirs)) | {"norm.bias": ours["norm.weight"]}, "and `encoder.ln.bias` belongs"),
    (changed("", lambda t: t.half()), "nowhere in torchvision's: its dtype is torch.float16"),
    (changed("qkv.bias", torch.zeros_like), "holds values that are nowhere in torchvision's."),
    (lambda theirs: solution({n: t.zero_() if n == "class_token" else t for n, t in theirs.items()}),
     "writes into tensors it is given: `class_token`"),
    (ours_for, "a state dict; got a model, VisionTransformer"),
    (lambda theirs: list(solution(theirs).items()), "a state dict; got a value of type list"),
    (lambda theirs: {n: n for n in theirs}, "`class_token` must be a tensor; it is a value of type str"),
    (lambda theirs: {}, "a state dict; got an empty one"),
    (lambda theirs: theirs["encoder.layers.2"], "KeyError: 'encoder.layers.2' It was called as `<lambda>(the"),
]  # fmt: skip

RIGHT = {check.fuse_qkv: RIGHT_FUSED, check.map_state_dict: RIGHT_MAPPED}
WRONG = {check.fuse_qkv: WRONG_FUSED, check.map_state_dict: WRONG_MAPPED}
test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)


def test_an_answer_that_empties_the_dictionary_passes_with_a_remark():
    verdict = assert_passes(check.map_state_dict, lambda theirs: solution(dict(theirs)) | (theirs.clear() or {}))
    assert "`theirs` itself is changed" in verdict.message


@pytest.mark.parametrize("config", [config for (config,) in CONFIGS.values()], ids=CONFIGS)
def test_what_passes_is_loaded(config):
    VisionTransformer(config).load_state_dict(solution(torchvision_tensors(config)), strict=True)


def test_a_crash_shows_the_readers_line_and_not_all_numbers():
    verdict = check.map_state_dict(cell("def mine(theirs):\n    return theirs['pos_embed'][0]")["mine"])
    assert "return theirs['pos_embed'][0]" in verdict.code
    assert "theirs={32 tensors by name}" in verdict.message
