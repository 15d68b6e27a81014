"""Keep answers that passed in the reader's own file, take them from it, build a model of them, and finish the file."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from ..adapting import replace_head
from ..checks.exercise import Exercise
from ..checks.running import Wrong
from ..config import ViTConfig
from ..data import load_photo
from ..errors import require_choice
from ..files import write_atomically
from ..hybrid import is_hybrid
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..saving import as_vit
from .lending import Lender, built, difference
from .source import EXERCISES, FILE, needed, pieces, with_answer, with_ours, written_in

HEAD = '"""My own Vision Transformer, written in the lessons."""\n\nimport torch\nfrom torch import nn\n'
PARTS = {"MyEmbeddings": "embeddings", "MySelfAttention": "attention", "MyMlp": "MLP"}  # from the inside out
PARTS |= {"MyEncoderBlock": "block", "MyVisionTransformer": "whole"}
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
    said = f"Kept in `{FILE}`, beside the notebooks."
    if "google.colab" in sys.modules:
        said += " Colab forgets it with this notebook: download it, and put it beside the next one."
    why = difference(SMALL, with_ours(text, PARTS.keys() - {name})) if name in PARTS else ""
    return f"{said} `assemble` will put ours in its place: {why}." if why else said


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
        text = path.read_text("utf-8-sig") if path and path.exists() else HEAD
        written_in(text)
    except (Wrong, OSError, UnicodeDecodeError) as reason:
        print(f"Without `{FILE}`: {reason}")
        return HEAD
    return text


def take(name: str) -> Callable:
    """Return what the reader wrote under this name, if it passes its check today; else our solution. Say which."""
    require_choice("answer", name, EXERCISES)
    exercise, own = EXERCISES[name], written_in(usable_text()).get(name)
    verdict = exercise(own) if own else None
    print(f"{name}: yours" if verdict else f"{name}: ours" + (f". Yours: {verdict.message}" if own else ""))
    return own if verdict else exercise.answer


@torch.random.fork_rng(devices=[])  # the reader's random numbers stay
def assemble(model: VisionTransformer) -> VisionTransformer:
    """Return the same model, made of the reader's parts where they do what ours do, and say which are theirs.

    Its weights have our names, and are cut to fit the reader's layers. Each part is first compared with ours in a small
    model with random weights; if it computes something else, ours stays, and a line says why.
    """
    model = as_vit(model)
    sizes = astuple(model.config)[:8]  # all that the reader's class is told
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


CUTTING_OUT = """if __name__ == "__main__":  # DINOv2 in my class, and what ten patches pointed at
    import sys
    from pathlib import Path

    import torch
    import torch.nn.functional as F
    from PIL import Image, ImageOps
    from torchvision.transforms.functional import normalize, to_tensor
    from torchvision.utils import save_image

    path = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("photo.png")
    picture = ImageOps.exif_transpose(Image.open(path)).convert("RGB")  # a phone's photo may lie on its side
    photo = to_tensor(ImageOps.fit(picture, (518, 518)))  # (3, 518, 518), in [0, 1]
    model = MyVisionTransformer(518, 14, 3, 1, 384, 12, 6, 1536).eval()
    weights = torch.load(Path(__file__).with_name("my_vit.pt"), weights_only=True)
    w = weights.pop("direction")  # (384,)
    model.load_state_dict(weights)  # DINOv2 has no head: this one is zero
    with torch.inference_mode():
        z = model.embeddings(normalize(photo, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))[None])
        for block in model.encoder:
            z = block(z)
        z = model.norm(z)[0, 1:]  # (1369, 384)
    scores = ((z - z.mean(dim=0)) @ w).reshape(1, 1, 37, 37)
    found = F.interpolate(scores, (518, 518), mode="bilinear")[0] > 0
    green = torch.tensor([0.4, 0.66, 0.6]).view(3, 1, 1)
    save_image(torch.where(found, photo, 0.2 * photo + green), "seen.png")
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(z)} tokens: seen.png")
"""


@torch.random.fork_rng(devices=[])  # the reader's random numbers stay
def finish(photo: str, direction: Float[Tensor, "384"]) -> Float[Tensor, "2 3 518 518"]:
    """Complete a copy of the reader's file, run it alone on a photo; return the photo and what it cuts out, in [0, 1].

    A patch stays if its token, less the photo's mean token, has a positive product with `direction`. What the reader
    has not written is ours, and so is what cannot have DINOv2's weights, or needs this package. Where a notebook is
    only stored, everything is ours, and nothing is left in `runs`. Raises ValueError if the file stops.
    """
    given, dino = load_photo(photo, 518), replace_head(load_checkpoint("dinov2-s14"), 1)
    text, needs = without_package(usable_text())
    text, good, unlike = completed(text, dino.config)
    text = text if "__main__" in text else f"{text}\n\n{CUTTING_OUT}"
    model = built(dino, written_in(text)["MyVisionTransformer"])
    for name, layer in [*model.named_modules()]:
        if isinstance(layer, Lender):  # in the file stands the reader's layer, with the weights that were lent to it
            layer.borrower.load_state_dict(layer.lent(), strict=False)
            model.set_submodule(name, layer.borrower)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary if "VIT_TUTORIAL_STILL" in os.environ else "runs")
        write_atomically(folder / FILE, text.encode())
        torch.save({**model.state_dict(), "direction": direction}, folder / "my_vit.pt")
        Image.fromarray((255 * given).byte().movedim(0, 2).numpy()).save(folder / "photo.png")
        ran = subprocess.run([sys.executable, FILE], cwd=folder, capture_output=True, text=True)
        parts = f"{len(good)} of its {len(PARTS)} parts are yours"
        print(f"runs/{FILE}: {len(text.splitlines())} lines; {parts}", *needs, *unlike, sep="\n  ")
        if ran.returncode:
            raise ValueError(f"{FILE} stops: {ran.stderr.strip().splitlines()[-1]}")
        print(f"{ran.stdout.strip()}\nAgain: python runs/{FILE} photo.jpg")
        return torch.stack([given, load_photo(folder / "seen.png", 518)])


def without_package(text: str) -> tuple[str, list[str]]:
    """Return the file's text without what needs this package, and what to say of it."""
    there = pieces(text)
    lost = [p for p in there if any(q.is_import and "vit_tutorial" in q.source for q in needed([p], there))]
    alone = "".join(piece.source for piece in there if piece not in lost)
    left = written_in(alone).keys()
    told = [f"`{name}` is not used, because it needs `vit_tutorial`." for name in written_in(text) if name not in left]
    called = {name for piece in pieces(alone) for name in piece.uses} & EXERCISES.keys()
    return with_ours(alone, called - left - PARTS.keys()), told
