"""Keep answers that passed in the reader's own file, take them from it, and build a model of them."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from ..checks.exercise import Exercise
from ..checks.running import Wrong
from ..config import ViTConfig
from ..errors import require_choice
from ..files import write_atomically
from ..hybrid import is_hybrid
from ..model import VisionTransformer
from ..saving import as_vit
from .lending import SIZES, built, difference
from .source import EXERCISES, FILE, with_answer, with_ours, written_in

HEAD = '"""My own Vision Transformer, written in the lessons."""\n\nimport torch\nfrom torch import nn\n'
NAMES = ("MyEmbeddings", "MySelfAttention", "MyMlp", "MyEncoderBlock", "MyVisionTransformer")  # from the inside out
PARTS = dict(zip(NAMES, ("embeddings", "attention", "MLP", "block", "whole"), strict=True))
SMALL = ViTConfig(8, 4, 3, num_classes=3, embed_dim=12, depth=1, num_heads=3, mlp_dim=20)


def keep(exercise: Exercise, answer: Callable) -> str:
    """Put an answer that passed into the file, if it passes from there alone, too. Return a line for its verdict."""
    path, name = readers_file(), exercise.answer.__name__
    if path is None or answer.__module__ != "__main__":
        return ""
    try:
        text = path.read_text("utf-8-sig") if path.exists() else HEAD
        text = with_answer(text, name, cell_of(answer.__name__), vars(sys.modules["__main__"]))
        verdict = exercise(written_in(text)[name])
        if not verdict:
            raise Wrong(f"from the file alone it is {verdict.status}. {verdict.message}")
        write_atomically(path, text.encode())
    except (Wrong, OSError, UnicodeDecodeError, SyntaxError) as reason:
        return f"Not kept in `{FILE}`, which stays as it is: {reason}"
    forgets = " Colab forgets it with this notebook: download it, and put it beside the next one."
    why = name in PARTS and difference(SMALL, with_ours(text, PARTS.keys() - {name}))
    replaced = f" `assemble` will put ours in its place: {why}." if why else ""
    return f"Kept in `{FILE}`, beside the notebooks." + (forgets if "google.colab" in sys.modules else "") + replaced


def readers_file() -> Path | None:
    """Return where this notebook's reader keeps answers; None elsewhere, and where a notebook is only stored."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return Path(FILE) if hasattr(shell, "kernel") and "VIT_TUTORIAL_STILL" not in os.environ else None


def cell_of(name: str) -> str:
    """Return the text of the latest cell that defines a name, without lines that only a notebook understands."""
    history = reversed(sys.modules["IPython"].get_ipython().history_manager.input_hist_raw)
    cells = (re.sub(r"(?m)^[%!].*", "", cell) for cell in history)
    return next((cell for cell in cells if re.search(rf"(?m)^(class|def) {name}\b", cell)), "")


def usable_text() -> str:
    """Return the text of the reader's file if there is one that can be run, else how one begins; print why."""
    path = readers_file()
    try:
        written_in(text := path.read_text("utf-8-sig") if path and path.exists() else HEAD)  # does it run?
        return text
    except (Wrong, OSError, UnicodeDecodeError) as reason:
        print(f"Without `{FILE}`: {reason}")
        return HEAD


def take(name: str) -> Callable:
    """Return what the reader wrote under this name, if it passes its check today; else our solution. Say which."""
    require_choice("answer", name, EXERCISES)
    exercise, own = EXERCISES[name], written_in(usable_text()).get(name)
    verdict = own and exercise(own)
    print(f"{name}: yours" if verdict else f"{name}: ours" + (f". Yours: {verdict.message}" if own else ""))
    return own if verdict else exercise.answer


@torch.random.fork_rng(devices=[])  # the reader's random numbers stay
def assemble(model: VisionTransformer) -> VisionTransformer:
    """Return the same model, made of the reader's parts where they do what ours do, and say which are theirs.

    Its weights have our names, and are cut to fit the reader's layers. Each part is first compared with ours in a small
    model with random weights; if it computes something else, ours stays, and a line says why.
    """
    model = as_vit(model)
    sizes = [getattr(model.config, name) for name in SIZES]
    plain = ViTConfig(*sizes) == model.config and all(isinstance(size, int) for size in sizes) and not is_hybrid(model)
    text, good, told = completed(usable_text() if plain else HEAD, model.config)
    if not plain:
        told = ["Yours are for square pictures, learned positions and no dropout, and this model is another one."]
    yours = ", ".join(part for name, part in PARTS.items() if name in good)
    ours = ", ".join(part for name, part in PARTS.items() if name not in good)
    print(f"yours: {yours or 'nothing yet'}; ours: {ours or 'nothing'}", *told, sep="\n  ")
    return built(model, written_in(text)["MyVisionTransformer"]) if good else model


def completed(text: str, config: ViTConfig) -> tuple[str, set[str], list[str]]:
    """Return the file's text with ours where a part is missing or wrong; which are the reader's; and remarks."""
    own, good, told = written_in(text), set(), []
    for name in [name for name in PARTS if name in own]:
        if why := difference(config, with_ours(text, PARTS.keys() - good - {name})):
            told.append(f"{PARTS[name]}: yours is not used, because {why}.")
        else:
            good.add(name)
    return with_ours(text, PARTS.keys() - good), good, told
