"""Draw the pictures of this folder again: `python images/draw.py`.

They are the same drawings as in the notebooks, kept as files for the README.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path

import torch
from overview import END, show_overview
from PIL import Image

from vit_tutorial import VisionTransformer, ViTConfig, load_checkpoint, load_photo
from vit_tutorial.analysis import position_similarity, record_attention
from vit_tutorial.plotting import show_position_similarity
from vit_tutorial.plotting.rendering import to_png, with_palette

HERE = Path(__file__).resolve().parent


def overview_arrays() -> tuple[torch.Tensor, ...]:
    """A photo, its tokens, the class token's attention and the logits, from a small model with random weights."""
    torch.manual_seed(0)
    config = ViTConfig(image_size=224, patch_size=56, embed_dim=12, depth=4, num_heads=2, mlp_dim=48, num_classes=6)
    model, photo = VisionTransformer(config).eval(), load_photo("grace_hopper", 224)
    # At the start class token and head are zero and attention is nearly even: enlarged, there is something to draw.
    torch.nn.init.normal_(model.embeddings.class_token)
    torch.nn.init.normal_(model.head.weight)
    for block in model.encoder:
        torch.nn.init.normal_(block.attention.qkv.weight, std=0.8)
    with torch.no_grad(), record_attention(model) as maps:
        logits, tokens = model(photo[None])[0], model.embeddings(photo[None])[0]
    weights = torch.stack([layer[0].mean(dim=0)[0] for layer in maps])  # (L, T): the class token's row
    return photo, tokens, weights, logits


def save_animation(path: Path, frames_per_stage: int = 8, milliseconds: int = 120) -> None:
    """Photo → patches → tokens → encoder → class, with a rest at the end."""
    arrays, frames = overview_arrays(), []
    for i in range(int(END) * frames_per_stage + 1):
        buffer = io.BytesIO()
        show_overview(*arrays, moment=i / frames_per_stage).savefig(buffer, format="png")
        frames.append(with_palette(Image.open(buffer).convert("RGB"), 96))
    durations = [milliseconds] * (len(frames) - 1) + [4000]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)


def save_positions(path: Path) -> None:
    """Draw how similar the positions of the shipped CIFAR-10 model are, beside the same model before training."""
    torch.manual_seed(0)
    trained = load_checkpoint("cifar10")
    maps = {
        "trained": position_similarity(trained),
        "untrained": position_similarity(VisionTransformer(trained.config)),
    }
    figure = show_position_similarity(maps, "Which positions does the model find similar?")
    path.write_bytes(base64.b64decode(to_png(figure)[0]))


def main() -> None:
    save_positions(HERE / "positions.png")
    save_animation(HERE / "forward.gif")
    show_overview(*overview_arrays()).savefig(HERE / "forward.png")
    for path in sorted(HERE.glob("*.[gp][in][fg]")):
        print(f"{path.name}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
