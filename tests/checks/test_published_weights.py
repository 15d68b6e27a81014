"""The checks of notebook 09 on right and wrong answers."""

import re

import pytest
import torch
from einops import rearrange
from published import build_timm
from torch import nn

from vit_tutorial import VisionTransformer, check
from vit_tutorial.checks.lesson_09_pretrained_weights import CONFIGS, timm_tensors
from vit_tutorial.pretrained.tensor_names import as_ours

from .test_embeddings import linear_with
from .variants import judged, solved

RIGHT, WRONG = {}, {}


def cat(*tensors):
    return torch.cat(tensors)


def by_probing(q, k, v):
    """The bias is what comes out for nothing, the columns what comes out for the unit vectors."""
    D = q.in_features
    bias = cat(*(layer(torch.zeros(D)) for layer in (q, k, v)))
    return cat(*(layer(torch.eye(D)).T for layer in (q, k, v))) - bias[:, None], bias


RIGHT[check.fuse_qkv] = {
    "layer": lambda *qkv: linear_with(*fused()(*qkv)),
    "vstack": lambda q, k, v: [torch.vstack([q.weight, k.weight, v.weight]), torch.hstack([q.bias, k.bias, v.bias])],
    "einops": lambda *qkv: (rearrange([x.weight for x in qkv], "n o i -> (n o) i"), cat(*(x.bias for x in qkv))),
    "state dict": lambda *qkv: {n: cat(*(x.state_dict()[n] for x in qkv)) for n in ("weight", "bias")},
    "probing": by_probing,
}  # fmt: skip


def fused(weight=cat, bias=cat):
    """What these functions make of the three matrices, and of the three biases."""
    return lambda *qkv: (weight(*(x.weight for x in qkv)), bias(*(x.bias for x in qkv)))


def both(change):
    return fused(change, change)


def by_heads(*parts):
    """Two heads where D is even: a head's q, k and v stand together."""
    return rearrange(list(parts), "n (h d) ... -> (h n d) ...", h=2 if len(parts[0]) % 2 == 0 else 1)


def writes(q, k, v):
    q.weight.data = cat(q.weight, k.weight, v.weight).data
    return q.weight, cat(q.bias, k.bias, v.bias)


def keeps(*qkv, kept=[]):  # noqa: B006
    kept.append(both(cat)(*qkv))
    return kept[0]


WRONG[check.fuse_qkv] = [
    (both(lambda q, k, v: cat(k, q, v)), "the weight holds k, q, v instead of q, k, v."),
    (both(lambda q, k, v: cat(q, q, v)), "the weight holds q, q, v instead"),
    (both(by_heads), "The weight goes head by head: q, k and v of the first of 2"),
    (both(lambda *p: torch.stack(p, 1).flatten(0, 1)), "The weight goes row by row"),
    (fused(lambda *p: torch.cat(p, 1)), "The matrices stand side by side, (D, 3·D)"),
    (fused(lambda *p: cat(*p).T), "The weight is transposed, (D, 3·D)"),
    (fused(lambda *p: cat(*(x.T for x in p))), "holds q transposed, k transposed, v tr"),
    (both(lambda *p: torch.stack(p)), "The three are stacked, with a new axis"),
    (both(lambda q, k, v: q + k + v), "The three are added up"),
    (both(lambda *p: torch.stack(p).mean(0)), "The three are averaged"),
    (fused(lambda q, k, v: v @ k @ q), "one layer after another"),
    (fused(lambda q, k, v: cat(q / 2, k, v)), "holds 0.5·q, k, v"),
    (fused(lambda q, k, v: cat(q, k, 0 * v)), "holds q, k, zeros"),
    (both(lambda q, k, v: cat(q, k)), "The weight has the wrong shape: (3·D, D) = (12, 4) expected"),
    (lambda *qkv: cat(*(x.weight for x in qkv)), "got the weight, and the bias is missing"),
    (lambda *qkv: cat(*(x.bias for x in qkv)), "got the bias, and the weight is missing"),
    (fused(bias=lambda *p: None), "The bias is missing"),
    (fused(bias=lambda *p: torch.zeros_like(cat(*p))), "the bias is not. The bias is zero"),
    (fused(bias=lambda *p: torch.stack(p)), "the bias is not. The three are stacked"),
    (fused(bias=lambda q, k, v: cat(k, q, v)), "bottom the bias holds k, q, v"),
    (lambda *qkv: both(cat)(*qkv)[::-1], "Weight and bias are exchanged"),
    (lambda *qkv: [x.weight for x in qkv], "two tensors, weight and bias; got 3 values"),
    (lambda *qkv: nn.ModuleList(qkv), "weight and bias; got a value of type ModuleList"),
    (lambda q, k, v: nn.Linear(q.in_features, 3 * q.out_features), "None of q, k and v is in the weight"),
    (fused(lambda q, k, v: cat(q, k.new_full((8, 4), torch.nan))), "holds 32 values that are inf or nan"),
    (fused(lambda *p: cat(*p).detach().numpy()), "The weight must be a tensor"),
    (both(lambda *p: cat(*p).double()), "The weight must be of dtype torch.float32"),
    (writes, "changes the layers it is given"),
    (keeps, "Right with D = 4, but not with D = 6"),
]  # fmt: skip


# A state dict under other names

solution = solved(check.map_state_dict)


def ours_for(theirs):
    """The model of ours that fits, its sizes read from the tensors."""
    D, _, P, _ = theirs["patch_embed.proj.weight"].shape
    config = next(config for (config,) in CONFIGS.values() if (config.embed_dim, config.patch_size) == (D, P))
    return VisionTransformer(config)


def words(*rules):
    """One word after the other, in the order in which a reader finds them."""

    def mine(theirs):
        ours = {}
        for name, tensor in theirs.items():
            for word, our_word in rules:
                name = name.replace(word, our_word)
            ours[name] = tensor.squeeze(0) if name.endswith("table") else tensor
        return ours

    return mine


WORDS = [("cls_token", "embeddings.class_token"), ("pos_embed", "embeddings.position.table"), ("blocks", "encoder")]
WORDS += [("attn", "attention"), ("fc1", "expand"), ("fc2", "contract")]


RIGHT[check.map_state_dict] = {
    "table": lambda theirs: as_ours(theirs, "timm", ours_for(theirs).state_dict()),
    "words": words(("attn", "attention"), ("proj", "projection"), ("patch_embed", "embeddings.patches"), *WORDS),
    "float64": lambda theirs: {name: tensor.double() for name, tensor in solution(theirs).items()},
    "loaded": lambda theirs: (model := ours_for(theirs)).load_state_dict(solution(theirs)) and model.state_dict(),
    "emptied": (lambda theirs: solution(dict(theirs)) | (theirs.clear() or {}), "`theirs` itself is changed"),
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


def eaten(theirs):
    """Block 1 takes what begins with `blocks.1`: after its own what is of 10 and 11."""
    ours = solution(theirs)
    tens = {name: tensor for name, tensor in ours.items() if re.match(r"encoder\.1\d", name)}
    return ours | {re.sub(r"\.1\d", ".1", name): tensor for name, tensor in tens.items()}


def popped_on_the_way(theirs):
    for name in theirs:
        theirs[name.replace("blocks", "encoder")] = theirs.pop(name)
    return theirs


def sorted_as_text(theirs):
    blocks = sorted({name.split(".")[1] for name in theirs if "blocks" in name})
    number = {block: str(i) for i, block in enumerate(blocks)}
    return renamed(r"(?<=^encoder\.)\d+", lambda found: number[found[0]])(theirs)


def split(theirs):
    ours = {}
    for name, tensor in solution(theirs).items():
        parts = zip("qkv", tensor.chunk(3), strict=True) if ".qkv." in name else [("", tensor)]
        ours |= {name.replace("qkv", part or "qkv"): value for part, value in parts}
    return ours


WRONG[check.map_state_dict] = [
    (lambda theirs: {f"encoder.{i}.norm1.weight": theirs[f"blocks.{i}.norm1.weight"] for i in range(4)},
     "This model has 2 blocks"),
    (popped_on_the_way, "loop over `list(theirs.items())`"),
    (lambda theirs: dict(theirs), "All names are still timm's"),
    (words(("patch_embed", "embeddings.patches"), ("embed", "embeddings"), *WORDS),
     "`embeddingsdings`: `.replace` finds its word anywhere"),
    # each replacement begins again with timm's name, so only the last counts
    (lambda theirs: {name.replace("mlp.fc2", "mlp.contract"): tensor for name, tensor in theirs.items()},
     "`blocks.0.mlp.contract.weight` holds `blocks.0.mlp.fc2.weight`, which ours calls `encoder.0.m"),
    (words(*WORDS[:3], ("attn.proj", "attention.projection")), "`encoder.0.attn.qkv.weight` holds `blocks.0.attn.qkv"),
    (words(("patch_embed.proj", "embeddings.patches.projection"), ("proj", "projection"), *WORDS),
     "`projectionection`: `.replace` finds its word anywhere, also in what an earlier one wrote."),
    (words(("proj", "projection"), ("attn", "attention"), *WORDS),
     "`patch_embed.projection.weight` holds `patch_embed.proj.weight`, which ours calls `embeddings.patches."),
    (words(("norm", "encoder.norm"), *WORDS), "`encoder.0.encoder.norm1.weight` holds `blocks.0.norm1.weight`, which"),
    (renamed("norm.", "norm."), "Yours are 28 tensors, timm's 32: of two with one name the later is kept."),
    (renamed("norm[12]", "norm1"), "`encoder.0.norm1.weight` holds `blocks.0.norm2.weight`: two names became one"),
    (renamed(r"encoder\.(\d)\d?", r"encoder.\1"),
     "`encoder.1.norm1.weight` holds `blocks.11.norm1.weight`: two names became one"),
    (lambda theirs: dict(zip(ours_for(theirs).state_dict(), theirs.values(), strict=True)),
     "in timm's order, in which `pos_embed` is the second: go by the names."),
    (renamed("^head", "heads.head"), "Not ours: `heads.head.weight`, `heads.head.bias`. `heads.head.weight` holds `h"),
    (lambda theirs: solution(theirs) | {"cls_token": theirs["cls_token"]}, "refuse these names. Still timm's names: "),
    (renamed("norm([12])", r"ln_\1"), "`encoder.0.ln_1.weight` holds `blocks.0.norm1.weight`, which"),
    (without("embeddings.position"), "Missing: `embeddings.position.table`."),
    (renamed(r"(?<=^encoder\.)\d+", lambda n: str(int(n[0]) + 1)), "Not ours: `encoder.2.norm1.weight`,"),
    (renamed(r"^encoder\.(\d)", r"encoder.layers.\1"), "which ours calls `encoder.0.norm1.weight`"),
    (two_blocks, "Of the 12 blocks, counted from 0, this is so in blocks 2, 3, 4,"),
    (without("encoder.0."), "Of the 2 blocks, counted from 0, this is so in block 0."),
    (eaten, "`blocks.1` is the beginning of `blocks.11`, too."),
    (lambda theirs: without("encoder.10.", "encoder.11.")(theirs) | {
        n: t for n, t in eaten(theirs).items() if ".1." in n},
     "in blocks 10, 11. `encoder.1.norm1.weight` holds `blocks.11.norm1.weight`: two names became one"),
    (sorted_as_text, "but not with 12 blocks. The names are right."),
    (split, "`encoder.0.attention.q.weight` holds a third of `blocks.0.attn.qkv.weight`"),
    (renamed("norm1|norm2", lambda found: {"norm1": "norm2", "norm2": "norm1"}[found[0]]),
     "It is in `encoder.0.norm2.weight`: the two are exchanged."),
    (lambda theirs: two_blocks(theirs) | {n: t for n, t in theirs.items() if re.search(r"blocks.([2-9]|\d\d)", n)},
     "counted from 0, this is so in blocks 2, 3, 4, 5, 6, 7, 8, 9, 10, 11."),
    (changed("table", lambda t: t[1:]), "`embeddings.position.table` holds 24 of the values of `pos_embed`"),
    (changed("table", lambda t: t.to("meta")), "`embeddings.position.table` is on the meta device"),
    (changed("table", lambda t: t[None]), "`embeddings.position.table` holds `pos_embed`, (1, 5, 6) instead of (5, 6)"),
    (changed("table", lambda t: t.T), "`embeddings.position.table` holds `pos_embed` transposed, (6, 5) instead of"),
    (changed("class_token", torch.squeeze), "`embeddings.class_token` holds `cls_token`, (6,) instead of (1, 1, 6)."),
    (changed("class_token", lambda t: t[0]), "`embeddings.class_token` holds `cls_token`, (1, 6) instead of (1, 1, 6)"),
    (changed("qkv.weight", lambda t: t.T), "attn.qkv.weight` transposed, (6, 18)"),
    (changed(r"(qkv|expand|contract|head).weight", lambda t: t.mT), "transposed"),
    (changed("qkv", lambda t: t.flip(0)), "in another order"),
    (lambda theirs: (ours := solution(theirs)) | {"norm.bias": ours["norm.weight"]}, "and `norm.bias` belongs there."),
    (changed("", lambda t: t.half()), "nowhere in timm's: its dtype is torch.float16"),
    (changed("qkv.bias", torch.zeros_like), "holds values that are nowhere in timm's."),
    (lambda theirs: solution({n: t.zero_() if n == "cls_token" else t for n, t in theirs.items()}),
     "writes into tensors it is given: `cls_token`"),
    (ours_for, "a state dict; got a model, VisionTransformer"),
    (lambda theirs: list(solution(theirs).items()), "a state dict; got a value of type list"),
    (lambda theirs: {n: n for n in theirs}, "`cls_token` must be a tensor; it is a value of type str"),
    (lambda theirs: {}, "a state dict; got an empty one"),
    (lambda theirs: theirs["blocks.2"], "KeyError: 'blocks.2' It was called as `<lambda>(the"),
    (lambda theirs: theirs["positions"][0], "It was called as `<lambda>(theirs={32 tensors by name})`"),
]  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)


@pytest.mark.parametrize("config", [config for (config,) in CONFIGS.values()], ids=CONFIGS)
def test_the_tensors_are_timms_and_what_passes_is_loaded(config):
    """In timm's order, which is not ours."""
    theirs = timm_tensors(config)
    shapes = [(name, tensor.shape) for name, tensor in build_timm(config).state_dict().items()]
    assert [(name, tensor.shape) for name, tensor in theirs.items()] == shapes
    VisionTransformer(config).load_state_dict(solution(theirs), strict=True)
