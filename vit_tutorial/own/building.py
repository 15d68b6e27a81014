"""Build a model of what the reader kept in `my_vit.py`, where it does what ours does, and say which is whose."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

from ..analysis import record_attention
from ..checks import check
from ..checks.exercise import Exercise
from ..checks.probes import noise
from ..checks.running import Wrong
from ..config import ViTConfig
from ..errors import require_choice
from ..hybrid import is_hybrid
from ..model import VisionTransformer
from ..saving import as_vit
from .adopting import HIDDEN, PARTS
from .assembled import built
from .keeping import keep, usable_text, written_in

SIZES = ("image_size", "patch_size", "in_channels", "num_classes", "embed_dim", "depth", "num_heads", "mlp_dim")
SMALL = ViTConfig(8, 4, 3, num_classes=3, embed_dim=12, depth=1, num_heads=3, mlp_dim=20)


def keep_part(exercise: Exercise, answer: Callable) -> str:
    """Keep an answer that passed, and say if a model with our weights cannot have it."""
    line = keep(exercise, answer)
    part = next((part for part, each in PARTS.items() if each is exercise), "")
    why = difference(SMALL, {part: answer}) if part and line.startswith("Kept") else ""
    return f"{line} `assemble` will put ours in its place: {why}." if why else line


def take(name: str) -> Callable:
    """Return what the reader wrote under this name, if it passes its check today; else our solution. Say which."""
    exercises = {each.answer.__name__: each for each in vars(check).values()}
    require_choice("answer", name, exercises)
    exercise, own = exercises[name], written_in(usable_text()).get(name)
    verdict = own and exercise(own)
    told = f"ours. Yours: {verdict.message}" if own else "ours"
    print(f"{name}: {'yours' if verdict else told}")
    return own if verdict else exercise.answer


def assemble(model: VisionTransformer) -> VisionTransformer:
    """Return the same model, made of the reader's parts where they do what ours do, and say which are theirs.

    Its weights are saved and loaded under our names, cut to fit; `dict(model.named_parameters())` has the reader's
    names. Each part is first compared with ours in a small model with random weights, attention maps too; if it
    computes something else, ours stays, and a line says why.
    """
    model, own, told = as_vit(model), written_in(usable_text()), []
    plain = ViTConfig(**{name: getattr(model.config, name) for name in SIZES})
    square = isinstance(plain.image_size, int) and isinstance(plain.patch_size, int)
    if own and (plain != model.config or not square or is_hybrid(model)):
        told.append("Yours are for square pictures, learned positions and no dropout, and this model is another one.")
        own = {}
    good, unlike = fitting(model.config, own)
    yours, ours = (", ".join(part for part in PARTS if (part in good) == theirs) for theirs in (True, False))
    print(f"yours: {yours or 'nothing yet'}; ours: {ours or 'nothing'}", *told, *unlike, sep="\n  ")
    return built(model, good) if good else model


def fitting(config: ViTConfig, own: Mapping[str, Callable]) -> tuple[dict[str, Callable], list[str]]:
    """Return those of the reader's parts that do what ours do in a model, and what is to be said of the others."""
    good, told = {}, []
    for part, exercise in PARTS.items():
        if theirs := own.get(exercise.answer.__name__):
            if why := difference(config, {**good, part: theirs}):
                told.append(f"{part}: yours is not used, because {why}.")
            else:
                good[part] = theirs
    return good, told


@torch.no_grad()
def difference(config: ViTConfig, parts: Mapping[str, Callable]) -> str:
    """Return how a small model with these parts differs from ours with the same random weights; "" if it does not."""
    small = replace(config, image_size=2 * config.patch_size, depth=1, num_classes=3)
    images = noise(2, small.in_channels, small.image_size, small.image_size)
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay
        ours = VisionTransformer(small).eval()
        for parameter in ours.parameters():
            spread = max(1, parameter[0].numel()) ** -0.5
            parameter.copy_((parameter == 1).all() + spread * noise(*parameter.shape))
        try:
            theirs = built(ours, parts).train()
            right, result = ours(images), theirs(images)
        except Exception as error:  # of the reader's code
            return str(error) if isinstance(error, Wrong) else f"{type(error).__name__}, {error}"
    if result.shape != right.shape or (result - right).abs().max() > 1e-4 * right.abs().max():
        return "with our weights it computes something else, or has dropout"
    try:
        with record_attention(ours) as asked, record_attention(theirs) as maps:
            ours(images)
            theirs(images)
        torch.testing.assert_close(maps[0], asked[0], atol=1e-4, rtol=0)
    except Exception:  # a layer that was not called, or called twice
        return HIDDEN
    return ""
