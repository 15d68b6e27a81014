"""Draw the pictures of this folder again: `python images/draw.py`.

They are the same drawings as in the notebooks, kept as files for the README.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path

import torch
from overview import captions, show_overview
from PIL import Image

from vit_tutorial import Shapes, load_checkpoint
from vit_tutorial.analysis import (
    attention_from,
    patch_tokens,
    principal_components,
    record_attention,
)
from vit_tutorial.data import load_photo
from vit_tutorial.plotting import show_pictures
from vit_tutorial.plotting.picture_figures import in_fog
from vit_tutorial.plotting.rendering import to_png, with_palette

HERE = Path(__file__).resolve().parent


def overview_arrays() -> tuple:
    """A star, sharp; the tokens, the attention (mean over the heads) and the logits of the shipped Shapes model."""
    model = load_checkpoint("shapes").eval()
    scene, sharp = (Shapes(16, size, seed=7).pixels[15:] for size in (model.config.image_size, 448))
    outputs = []
    for module in (model.embeddings, *model.encoder):
        module.register_forward_hook(lambda module, inputs, output: outputs.append(output[0]))
    with torch.no_grad(), record_attention(model) as maps:
        logits = model(model.card.normalise(scene))[0]
    weights = torch.stack([layer[0].mean(dim=0) for layer in maps])  # (L, T, T)
    return sharp[0] / 255, torch.stack(outputs), weights, logits, model.card.classes


def save_animation(path: Path, frames_per_stage: int = 8, milliseconds: int = 190) -> None:
    """Picture → patches → tokens → blocks → class, with a rest at the end."""
    arrays, images = overview_arrays(), []
    for i in range((len(captions(4, "")) - 1) * frames_per_stage + 2):
        buffer = io.BytesIO()
        show_overview(*arrays, moment=i / frames_per_stage).savefig(buffer, format="png")
        images.append(Image.open(buffer).convert("RGB"))
    palette = with_palette(images[-1])
    first, *others = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    durations = [milliseconds] * len(others) + [4000]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0)


def save_photo(path: Path) -> None:
    """Draw a photo, the components of its patch tokens in DINOv2, and what two heads of the last block see."""
    model, photo = load_checkpoint("dinov2-s14"), load_photo("grace_hopper", 518)
    images = model.card.normalise(photo[None])
    components = principal_components(patch_tokens(model, images)[-1, 0]).movedim(2, 0)  # (3, 37, 37)
    components = components.repeat_interleave(14, dim=1).repeat_interleave(14, dim=2)
    cap_and_face = attention_from(model, images, [11])[0, 0, [0, 5]]  # (2, 37, 37)
    pictures = torch.stack([photo, components, *in_fog(photo, cap_and_face)])
    names = ["a photo", "its patch tokens", "what one head sees", "and another"]
    figure = show_pictures(pictures, names, "The class that you will write, with published weights", columns=4)
    path.write_bytes(base64.b64decode(to_png(figure)[0]))


def main() -> None:
    save_photo(HERE / "photo.png")
    save_animation(HERE / "forward.gif")
    still, _ = to_png(show_overview(*overview_arrays()))
    (HERE / "forward.png").write_bytes(base64.b64decode(still))
    for path in sorted(HERE.glob("*.[gp][in][fg]")):
        print(f"{path.name}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
