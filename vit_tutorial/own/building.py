"""The reader's own model: of the parts that they kept in `my_vit.py`, and of ours where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from ..analysis import record_attention
from ..checks import Check
from ..checks.exercise import Exercise
from ..checks.modules import Pair
from ..checks.probes import noise
from ..checks.running import Wrong
from ..config import ViTConfig
from ..embeddings import Embeddings
from ..encoder import Encoder
from ..errors import require_choice
from ..model import ClassTokenPool, VisionTransformer, make_head
from ..saving import as_vit, build_model
from .keeping import FILE, NotKept, keep, read, readers_file

CHECK = Check()
PARTS = {  # from the inside out
    "embeddings": CHECK.embeddings,
    "attention": CHECK.self_attention,
    "MLP": CHECK.mlp,
    "block": CHECK.encoder_block,
    "whole": CHECK.vision_transformer,
}
SMALL = ViTConfig(8, 4, 3, num_classes=3, embed_dim=12, depth=1, num_heads=3, mlp_dim=20)
# A reader's part knows no other configuration.
PLAIN = {"dropout": 0.0, "attention_dropout": 0.0, "drop_path": 0.0, "norm_eps": 1e-6, "gelu": "exact"}
PLAIN |= {"position": "learned", "pool": "cls", "representation_size": None}
SIZES = ("image_size", "patch_size", "in_channels", "num_classes", "embed_dim", "depth", "num_heads", "mlp_dim")
OUR_NAMES = {  # of what the exercise on Eq. 1 calls otherwise
    "projection.weight": "patches.projection.weight",
    "projection.bias": "patches.projection.bias",
    "position": "position.table",
}


def kept() -> dict[str, Callable]:
    """Return what stands in the reader's file, by its name; nothing where it cannot be run, which is said."""
    path = readers_file()
    try:
        found = vars(read(path)[1]) if path else {}
    except NotKept as reason:
        print(f"Without `{FILE}`: {reason}")
        return {}
    return {name: value for name, value in found.items() if getattr(value, "__module__", "") == "my_vit"}


def keep_part(exercise: Exercise, answer: Callable) -> str:
    """Keep an answer that passed, and say what later lessons will do with it."""
    line = keep(exercise, answer)
    part = next((part for part, each in PARTS.items() if each is exercise), "")
    why = difference(SMALL, {part: answer}) if part and line.startswith("Kept") else ""
    return f"{line} Later lessons use ours: {why}." if why else line


def take(name: str) -> Callable:
    """Return what the reader wrote under this name, if it passes its check today; else our solution. Say which."""
    exercises = {each.answer.__name__: each for each in vars(CHECK).values()}
    require_choice("answer", name, exercises)
    exercise, own = exercises[name], kept().get(name)
    verdict = exercise(own) if own else None
    print(f"{name}: {'yours' if verdict else 'ours'}" + (f". Yours: {verdict.message}" if own and not verdict else ""))
    return own if verdict else exercise.answer


def assemble(model: VisionTransformer) -> VisionTransformer:
    """Return the same model, made of the reader's parts where they do what ours do, and say which are theirs.

    Its weights are saved and loaded under our names, cut to fit. Each part is first compared with ours in a small model
    with random weights, attention maps too; if it computes something else, ours stays, and a line says why.
    """
    model, own, good, told = as_vit(model), kept(), {}, []
    odd = [name for name, value in PLAIN.items() if getattr(model.config, name) != value]
    odd += [name for name in ("image_size", "patch_size") if not isinstance(getattr(model.config, name), int)]
    odd += ["backbone"] if "patches.backbone" in dict(model.embeddings.named_modules()) else []
    for part, exercise in PARTS.items():
        theirs = own.get(exercise.answer.__name__)
        if theirs is None:
            continue
        tried = {**good, part: theirs}
        with torch.random.fork_rng(devices=[]):
            why = f"it knows no other `{odd[0]}`" if odd else difference(model.config, tried)
        if why:
            told.append(f"{part}: yours is not used, because {why}.")
        else:
            good = tried
    ours = [part for part in PARTS if part not in good]
    print(f"yours: {', '.join(good) or 'nothing yet'}; ours: {', '.join(ours) or 'nothing'}", *told, sep="\n  ")
    return built(model, good) if good else model


@torch.no_grad()
def difference(config: ViTConfig, parts: Mapping[str, Callable]) -> str:
    """Return how a small model with these parts differs from ours with the same random weights; "" if it does not."""
    small = replace(config, image_size=2 * config.patch_size, depth=1, num_classes=3)
    ours, images = VisionTransformer(small).eval(), noise(2, small.in_channels, small.image_size, small.image_size)
    for parameter in ours.parameters():
        spread = max(1, parameter[0].numel()) ** -0.5
        parameter.copy_((parameter == 1).all() + spread * noise(*parameter.shape))
    try:
        theirs = built(ours, parts).train()
        right, result = ours(images), theirs(images)
    except Exception as error:  # of the reader's code
        return str(error) if isinstance(error, Wrong) else f"{type(error).__name__}, {error}"
    if result.shape != right.shape or (result - right).abs().max() > 1e-4 * right.abs().max():
        return "with our weights it computes something else: other orders, of q, k and v or in a patch, or dropout"
    try:
        with record_attention(ours) as asked, record_attention(theirs) as maps:
            ours(images), theirs(images)
        torch.testing.assert_close(maps[0], asked[0], atol=1e-4, rtol=0)
    except Exception:  # a layer that was not called, or called twice
        return "its attention cannot be looked into: q, k, v and output are `nn.Linear`, called once, with all tokens"
    return ""


# Building -------------------------------------------------------------------------------------------------------------


class Assembled(VisionTransformer):
    """A VisionTransformer with parts of the reader's."""

    parts: Mapping[str, Callable]

    def positions(self) -> Tensor:
        return self.state_dict()["embeddings.position.table"]

    def ours(self) -> VisionTransformer:
        """Return a model of the package with these weights."""
        model = build_model(self.config, self.state_dict(), self.card).train(self.training)
        freeze(model, self)
        return model

    def rebuilt(self, model: VisionTransformer) -> Assembled:
        """Build a model with the same parts, and the weights of another model. Raises ValueError for wide pictures."""
        if not isinstance(model.config.image_size, int):
            raise ValueError(f"a reader's parts are made for square pictures, got {model.config.image_size}")
        return built(model, self.parts)


def built(model: VisionTransformer, parts: Mapping[str, Callable]) -> Assembled:
    """Build a model with the parts of a reader, and the weights of another model."""
    config = model.config
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay: these weights are replaced at once
        made = whole(config, parts)
        made.embeddings = embeddings(config, parts)
        made.encoder = nn.Sequential(*(block(config, parts) for _ in range(config.depth)))
    made.parts, made.config, made.card = parts, config, model.card
    made.to(next(model.parameters())).load_state_dict(model.state_dict())
    freeze(made, model)
    return made.train(model.training)


def freeze(model: VisionTransformer, like: VisionTransformer) -> None:
    """Freeze what is frozen in another model, part by part, since a reader's parameters have other names."""
    parts = ("norm1", "attention", "norm2", "mlp")
    inside = [f"encoder.{i}.{part}" for i in range(model.config.depth) for part in parts]
    for name in ("embeddings", *inside, "norm", "head"):
        model.get_submodule(name).requires_grad_(any(p.requires_grad for p in like.get_submodule(name).parameters()))


def whole(config: ViTConfig, parts: Mapping[str, Callable]) -> Assembled:
    if "whole" not in parts:
        return Assembled(config)
    headed = config if config.num_classes else replace(config, num_classes=1)
    made = parts["whole"](*(getattr(headed, size) for size in SIZES))
    if not {"embeddings", "encoder", "norm", "head"} <= made._modules.keys():
        raise Wrong("later lessons know its parts by the names `embeddings`, `encoder`, `norm` and `head`")
    made.__class__ = type(type(made).__name__, (type(made), Assembled), {})  # their `forward`, our other methods
    made.pool = ClassTokenPool()
    made.head = made.head if config.num_classes else make_head(config)
    return made


def embeddings(config: ViTConfig, parts: Mapping[str, Callable]) -> nn.Module:
    ours, args = Embeddings(config), (config.image_size, config.patch_size, config.in_channels, config.embed_dim)
    return adopted(parts["embeddings"], "embeddings", args, ours, OUR_NAMES) if "embeddings" in parts else ours


def block(config: ViTConfig, parts: Mapping[str, Callable]) -> nn.Module:
    D, h, M = config.embed_dim, config.num_heads, config.mlp_dim
    ours = Encoder(replace(config, depth=1))[0]
    attention, mlp = ours.attention, ours.mlp
    if "attention" in parts:
        attention = adopted(parts["attention"], "attention", (D, h), ours.attention)
        let_look_into(attention, h, config.head_dim)
    if "MLP" in parts:
        mlp = adopted(parts["MLP"], "MLP", (D, M), ours.mlp)
    made = parts["block"](D, h, M) if "block" in parts else ours
    names = {ours: theirs for theirs, ours in roles(made._modules, "block").items()}
    setattr(made, names["attention"], attention)
    setattr(made, names["mlp"], mlp)
    call_as_ours(made, names)
    return made


def roles(names: Iterable[str], part: str) -> dict[str, str]:
    """Return what we call each of these layers of a reader's; those that we do not know are left out."""
    words = PARTS[part].words
    known = {name: [words[word] for word in name.lower().split(".") if word in words] for name in names}
    return {name: found[0] for name, found in known.items() if found}


def adopted(cls: Callable, part: str, args: tuple, ours: nn.Module, names: Mapping[str, str] = {}) -> nn.Module:
    """Build a reader's layer that saves and loads its weights under our names, cut to fit."""
    made, where = cls(*args), places(cls, part, args)
    buffers = made.state_dict().keys() - dict(made.named_parameters()).keys()  # they stay what `__init__` made of them
    where = {names.get(name, name): place for name, place in where.items()}
    shapes = {name: parameter.shape for name, parameter in ours.named_parameters()}
    if missing := [name for name in shapes if name not in where]:
        raise Wrong(f"it has no `{missing[0]}`, and the weights that others publish have one")

    def save(module: nn.Module, state: dict, prefix: str, metadata: dict) -> None:
        weights = parameters_to_vector(module.parameters()).detach()
        for name in [name for name in state if name.startswith(prefix)]:
            del state[name]
        for name, place in where.items():
            state[prefix + name] = weights[place].reshape(shapes[name])

    def load(module: nn.Module, state: dict, prefix: str, *rest) -> None:
        weights = parameters_to_vector(module.parameters()).detach()
        for name, place in where.items():
            if prefix + name in state and state[prefix + name].shape == shapes[name]:  # else torch says what is wrong
                weights[place] = state.pop(prefix + name).flatten().to(weights)
        for name, parameter in module.named_parameters():
            values, weights = weights.split([parameter.numel(), len(weights) - parameter.numel()])
            state[prefix + name] = values.reshape(parameter.shape)
        state.update({prefix + name: module.get_buffer(name) for name in buffers})

    made.register_state_dict_post_hook(save)
    made.register_load_state_dict_pre_hook(load)
    return made


@cache
def places(cls: Callable, part: str, args: tuple) -> dict[str, Tensor]:
    """Return where our parameters' values stand among a reader's, in one row. Raises Wrong where that is not known."""
    exercise = PARTS[part]
    ways, doubt = exercise.match(Pair(cls(*args), exercise.answer(*args), args, torch.empty(0)), {})
    if doubt:
        raise Wrong(doubt)
    return ways[0]  # the plain order


def let_look_into(attention: nn.Module, num_heads: int, head_dim: int) -> None:
    """Say which layers make q, k and v, and which joins the heads, as `analysis.record_attention` asks for it."""
    layers = {name: layer for name, layer in attention.named_modules() if isinstance(layer, nn.Linear)}
    found = roles(layers, "attention")
    attention.makers = [
        (layers[name], role if role == "qkv" else role[0]) for name, role in found.items() if role != "projection"
    ]
    call_as_ours(attention, {role: name for name, role in found.items() if role == "projection"})
    attention.num_heads, attention.head_dim, attention.attention_dropout = num_heads, head_dim, 0.0


def call_as_ours(module: nn.Module, names: Mapping[str, str]) -> None:
    """Let a reader's module have its layers under our names, too, as attributes and in what is saved."""
    others = {ours: theirs for ours, theirs in names.items() if ours != theirs}
    aliases = {ours: property(lambda module, theirs=theirs: getattr(module, theirs)) for ours, theirs in others.items()}
    module.__class__ = type(type(module).__name__, (type(module),), aliases)

    def moved(state: dict, prefix: str, names: dict) -> None:
        for old, new in names.items():
            for name in [name for name in state if name.startswith(f"{prefix}{old}.")]:
                state[f"{prefix}{new}{name[len(prefix) + len(old) :]}"] = state.pop(name)

    back = {theirs: ours for ours, theirs in others.items()}
    module.register_state_dict_post_hook(lambda module, state, prefix, metadata: moved(state, prefix, back))
    module.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: moved(state, prefix, others))
