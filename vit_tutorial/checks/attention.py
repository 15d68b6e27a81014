"""Exercises of notebook 03: one attention head, heads split and merged, the whole self-attention module."""

from __future__ import annotations

from itertools import product

import torch
from torch import nn

from .attention_mistakes import MISTAKES, attention, by_head, joined
from .comparing import compare, random_tensor
from .confirming import confirm, facts
from .exercise import exercise
from .head_mistakes import HEAD_MISTAKES, MERGE_MISTAKES, SPLIT_MISTAKES, head
from .layouts import Layout, Weights, attention_layers, complain, layouts, plain, read
from .modules import Layer, Trial, find, recognise
from .running import call
from .verdict import Wrong


@exercise(
    hint="Three steps: scores `q @ k.T`, divided by √d; a softmax along each row; the rows mix the values. "
    "The weights are (T, T), and each row sums to 1.",
    solution="""
def attention_head(q, k, v):
    scores = q @ k.T / q.shape[-1] ** 0.5  # (T, d) @ (d, T) → (T, T)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ v, weights  # (T, T) @ (T, d) → (T, d)
""",
)
def attention_head(function):
    """`fn(q, k, v) -> (out, weights)`: one head, q, k, v and out (T, d), weights (T, T)."""
    trials = [tuple(random_tensor(T, d, seed=i) for i in range(3)) for T, d in [(5, 3), (1, 2), (4, 7)]]
    compare(function, head, trials, (("out", "(T, d)"), ("weights", "(T, T)")), HEAD_MISTAKES)
    q, k, v = trials[-1]
    if not call(function, 100 * q, k, v)[0].isfinite().all():
        return (
            "One thing for later: `exp` overflows when a score passes 88. `softmax` takes off each row's maximum first."
        )
    return None


@exercise(
    hint="Two steps. `unflatten(-1, (h, d))` cuts the D numbers of a token into h pieces; then T and h change places.",
    solution="""
def split_heads(tokens, num_heads):
    B, T, D = tokens.shape
    pieces = tokens.reshape(B, T, num_heads, D // num_heads)  # (B, T, h, d)
    return pieces.transpose(1, 2)  # (B, h, T, d)
""",
)
def split_heads(function):
    """`fn(tokens, num_heads)`: (B, T, D) → (B, h, T, d), head 0 the first d numbers of a token."""
    trials = [(random_tensor(2, 5, 12), 3), (random_tensor(1, 4, 6), 1), (random_tensor(3, 7, 10), 2)]
    compare(function, by_head, trials, "(B, h, T, d)", SPLIT_MISTAKES)


@exercise(
    hint="The way back from `split_heads`, in the opposite order: first T and h change places, then (h, d) become D.",
    solution="""
def merge_heads(heads):
    B, h, T, d = heads.shape
    return heads.transpose(1, 2).reshape(B, T, h * d)  # (B, h, T, d) → (B, T, h, d) → (B, T, D)
""",
)
def merge_heads(function):
    """`fn(heads)`: (B, h, T, d) → (B, T, D), the heads of a token side by side."""
    trials = [(random_tensor(2, 3, 5, 4),), (random_tensor(1, 1, 4, 6),), (random_tensor(3, 2, 7, 5),)]
    compare(function, joined, trials, "(B, T, D)", MERGE_MISTAKES)


@exercise(
    hint="Five steps: one linear layer for q, k and v (or three); split each into heads; softmax(q kᵀ / √d) v; merge "
    "the heads; one more linear layer. `split_heads`, `merge_heads` and `attention_head` are three of them.",
    solution="""
class MySelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.projection = nn.Linear(embed_dim, embed_dim)

    def forward(self, tokens):
        B, T, D = tokens.shape
        q, k, v = (
            part.reshape(B, T, self.num_heads, -1).transpose(1, 2)  # (B, h, T, d)
            for part in self.qkv(tokens).chunk(3, dim=-1)  # each (B, T, D)
        )
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, h, T, T)
        mixed = scores.softmax(dim=-1) @ v  # (B, h, T, d)
        return self.projection(mixed.transpose(1, 2).reshape(B, T, D))
""",
    takes="class",
)
def self_attention(cls):
    """`cls(embed_dim, num_heads)`, an nn.Module: multi-head self-attention, (B, T, D) → (B, T, D)."""
    first = attention_trial(cls, 2, 7, 20, 5)
    count = 4 * (20 * 20 + 20)
    ways = list(layouts(attention_layers(first.parts, 20), 20, 5))
    layout = find(first, attention, ways, read_trial)
    if layout is None:
        check_nothing_besides(first)
        check_widths(first)
        check_shared(first)
        recognise(first, MISTAKES, plain(ways), read_trial)
        raise Wrong(
            "The shape is right, the values are not those of multi-head self-attention, and none of the usual mistakes "
            f"explains them.\n{facts(first, count)}",
            "Take it apart: `check.split_heads`, `check.attention_head` and `check.merge_heads` judge one step each. "
            "q, k, v and the output each need D·D weights and D biases.",
        )
    complain(read_trial(first, layout))
    if count - sum(p.numel() for p in first.module.parameters()) == 3 * 20:
        raise Wrong(
            "The values are right, but q, k and v have no bias: 3·D parameters fewer than the paper's.",
            "The Vision Transformer keeps these biases: leave `bias=False` out.",
        )
    confirm(first, lambda: attention_trial(cls, 3, 5, 12, 2), attention, layout, read_trial, count, MISTAKES)


def check_nothing_besides(trial: Trial) -> None:
    """Raise Wrong for layers that have no place in attention."""
    if trial.parts.norms:
        raise Wrong("There is a LayerNorm inside your attention.", "The norm is the encoder block's work (Eq. 2).")
    if any(isinstance(part, nn.MultiheadAttention) for part in trial.module.modules()) and len(trial.parts.layers) > 2:
        raise Wrong(
            "There are more linear layers beside `nn.MultiheadAttention`. It projects q, k, v and the output itself.",
            "Give it the tokens as they come: `self.attention(tokens, tokens, tokens)`.",
        )


def check_widths(trial: Trial) -> None:
    """Raise Wrong if the output projection takes in another width than D."""
    D, heads = trial.args
    for layer in attention_layers(trial.parts, D):
        name = layer.name.removesuffix(".weight")
        if layer.sizes == (D, heads * D):
            raise Wrong(
                f"`{name}` takes in h·D = {heads * D} numbers: are your heads D numbers wide each?",
                "All heads together have D numbers: a head has d = D / h of them.",
            )
        if layer.sizes == (D, D // heads):
            raise Wrong(
                f"`{name}` takes in d = {D // heads} numbers: are your heads added up or averaged?",
                "The heads of a token stand side by side, h·d = D numbers, and all of them go through the last layer.",
            )


def check_shared(trial: Trial) -> None:
    """Raise Wrong if the module is right but for q, k or v that no layer makes, or that shares one with another."""
    count = len(attention_layers(trial.parts, trial.args[0]))
    picks = product(range(count + 1), repeat=4) if count < 5 else ()  # which layer is q, k, v and the output
    found = find(trial, attention, (pick for pick in picks if count in pick[:3] or count < 4), read_picked)
    if found is None:
        return
    if count in found[:3]:
        raise Wrong(
            f"{those(found[:3], count)} come from no layer: they are the tokens as they came.",
            "Three layers for q, k and v, or one that gives 3·D numbers, cut into three; and one for the output.",
        )
    raise Wrong(
        f"{those(found, max(found, key=found.count))} come from the same layer: each needs one of its own.",
        "Three layers for q, k and v, or one that gives 3·D numbers, cut into three; and one for the output.",
    )


def those(picks: tuple[int, ...], layer: int) -> str:
    """What comes from this layer: "The queries, the keys and the values"."""
    names = ("the queries", "the keys", "the values", "the output")[: len(picks)]
    *most, last = [name for name, pick in zip(names, picks, strict=True) if pick == layer]
    return f"{', '.join(most)} and {last}".removeprefix(" and ").capitalize()


def read_picked(trial: Trial, picks: tuple[int, ...]) -> Weights | None:
    """The weights if the layers are used so; the pick after the last layer is no layer at all."""
    D, heads = trial.args
    layers = [*attention_layers(trial.parts, D), Layer("", torch.eye(D), None)]
    return read([layers[i] for i in picks], Layout(-1), D, heads)


def attention_trial(cls: type, B: int, T: int, D: int, heads: int) -> Trial:
    sizes = f"embed_dim {D} and num_heads {heads}, for {B} images of {T} tokens"
    return Trial(cls, (D, heads), random_tensor(B, T, D), (B, T, D), "(B, T, D)", sizes)


def read_trial(trial: Trial, layout: Layout) -> Weights | None:
    D, heads = trial.args
    return read(attention_layers(trial.parts, D), layout, D, heads)
