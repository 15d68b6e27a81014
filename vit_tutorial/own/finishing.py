"""The end of the reader's own file: run by itself, it cuts a thing out of a photo with DINOv2's weights."""

import subprocess
import sys
from pathlib import Path

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from ..adapting import replace_head
from ..data.photo import as_tensor, load_photo
from ..files import write_atomically
from ..pretrained import load_checkpoint
from .assembled import PARTS, built
from .building import SMALL, difference
from .keeping import FILE, MAIN, pieces, read, readers_file, run, with_answer

CUTTING_OUT = """

if __name__ == "__main__":  # python my_vit.py photo.jpg: DINOv2 in my class, and what ten patches pointed at
    import sys

    import torch.nn.functional as F
    from torchvision.io import decode_image, write_png

    photo = decode_image(sys.argv[1], mode="RGB").float()[None] / 255  # (1, 3, H, W)
    side = min(photo.shape[2:])
    top, left = (photo.shape[2] - side) // 2, (photo.shape[3] - side) // 2
    photo = F.interpolate(photo[..., top : top + side, left : left + side], (518, 518), mode="bicubic", antialias=True)
    mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).view(2, 1, 3, 1, 1)
    model = MyVisionTransformer(518, 14, 3, 1, 384, 12, 6, 1536).eval()
    weights = torch.load("my_vit.pt", weights_only=True)
    w = weights.pop("direction")  # (384,)
    model.load_state_dict(weights)  # DINOv2 has no head: this one is zero
    with torch.inference_mode():
        z = model.embeddings((photo - mean) / std)
        for block in model.encoder:
            z = block(z)
        z = model.norm(z)[0, 1:]  # (1369, 384)
    scores = ((z - z.mean(dim=0)) @ w).reshape(1, 1, 37, 37)
    found = F.interpolate(scores, (518, 518), mode="bilinear")[0] > 0
    green = torch.tensor([0.4, 0.66, 0.6]).view(3, 1, 1)
    seen = torch.where(found, photo[0], 0.2 * photo[0] + green)
    write_png((255 * seen.clamp(0, 1)).byte(), "seen.png")
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(z)} tokens: seen.png")
"""


def finish(photo: str, direction: Float[Tensor, "384"]) -> Float[Tensor, "2 3 518 518"]:
    """Complete a copy of the reader's file, run it alone on a photo; return the photo and what it cuts out, in [0, 1].

    A patch stays if its token, less the photo's mean token, has a positive product with `direction`. What the reader
    has not written is ours; where a notebook is only stored, all of it is. Raises ValueError if their parts cannot
    have DINOv2's weights, or the file stops.
    """
    text, folder = read(readers_file()), Path("runs")
    missing = [exercise for exercise in PARTS.values() if exercise.answer.__name__ not in pieces(text)]
    for exercise in missing:
        scope = vars(sys.modules[exercise.answer.__module__])
        text = with_answer(text, exercise.answer.__name__, exercise.source, scope)
    if MAIN not in pieces(text):
        text += CUTTING_OUT
    module = run(text)
    parts = {part: getattr(module, exercise.answer.__name__) for part, exercise in PARTS.items()}
    if why := difference(SMALL, parts):
        raise ValueError(f"{FILE} cannot have these weights: {why}")
    model = built(replace_head(load_checkpoint("dinov2-s14"), 1), parts)
    given = load_photo(photo, 518)
    folder.mkdir(exist_ok=True)
    weights = {name: weight.data for name, weight in model.named_parameters()}
    torch.save({**weights, "direction": direction}, folder / "my_vit.pt")
    write_atomically(folder / FILE, text.encode())
    Image.fromarray((255 * given).byte().movedim(0, 2).numpy()).save(folder / "photo.png")
    command = [sys.executable, FILE, "photo.png"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    yours = f"{len(PARTS) - len(missing)} of its {len(PARTS)} parts are yours"
    print(f"{folder.name}/{FILE}: {len(text.splitlines())} lines; {yours}")
    if ran.returncode:
        raise ValueError(f"{FILE} stops: {ran.stderr.strip().splitlines()[-1]}")
    print(ran.stdout.strip())
    return torch.stack([given, as_tensor(Image.open(folder / "seen.png")) / 255])
