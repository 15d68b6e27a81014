"""The end of the reader's own file: run outside of the notebook, it paints a photo with DINOv2's weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from ..adapting import replace_head
from ..data import load_photo
from ..files import write_atomically
from ..pretrained import load_checkpoint
from .assembled import CHECK, PARTS, built
from .building import SMALL, difference
from .keeping import FILE, HEAD, MAIN, pieces, read, readers_file, run, with_answer

NEEDED = [CHECK.embeddings, CHECK.self_attention, CHECK.mlp, CHECK.encoder_block, CHECK.vision_transformer]
NEEDED += [CHECK.principal_components]
PAINTING = """

if __name__ == "__main__":  # python my_vit.py photo.jpg: DINOv2 in my class paints my photo into seen.png
    import sys

    import torch.nn.functional as F
    from torchvision.io import decode_image, write_png

    photo = decode_image(sys.argv[1], mode="RGB").float()[None] / 255  # (1, 3, H, W)
    side = min(photo.shape[2:])
    top, left = (photo.shape[2] - side) // 2, (photo.shape[3] - side) // 2
    photo = F.interpolate(photo[..., top : top + side, left : left + side], (518, 518), mode="bicubic", antialias=True)
    mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).view(2, 1, 3, 1, 1)
    model = MyVisionTransformer(518, 14, 3, 1, 384, 12, 6, 1536).eval()
    model.load_state_dict(torch.load("my_vit.pt", weights_only=True), strict=False)  # DINOv2 has no head
    with torch.inference_mode():
        z = model.embeddings((photo - mean) / std)
        for block in model.encoder:
            z = block(z)
        seen = my_principal_components(model.norm(z)[0, 1:], 3)  # (1369, 3)
    seen = (seen - seen.amin(dim=0)) / (seen.amax(dim=0) - seen.amin(dim=0))
    picture = (255 * seen).byte().T.reshape(3, 37, 37)
    write_png(picture.repeat_interleave(14, 1).repeat_interleave(14, 2), "seen.png")
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(seen)} tokens: seen.png")
"""


def finish(photo: str) -> Float[Tensor, "2 3 518 518"]:
    """Complete the reader's file, run it alone on a photo, and return the photo and what the file paints, in [0, 1].

    What they have not written is ours, in a copy; where a notebook is only stored, all of it is. Raises ValueError if
    their parts cannot have DINOv2's weights.
    """
    path = readers_file()
    text = read(path) if path else HEAD
    names = [exercise.answer.__name__ for exercise in NEEDED]
    ours = [exercise for exercise in NEEDED if exercise.answer.__name__ not in pieces(text)]
    if ours:  # theirs stays without
        path = Path("runs", FILE)
        path.parent.mkdir(exist_ok=True)
    for exercise in ours:
        scope = vars(sys.modules[exercise.answer.__module__])
        text = with_answer(text, exercise.answer.__name__, exercise.solution().source, scope)
    if MAIN not in pieces(text):
        text += PAINTING
    module = run(text)
    parts = {part: getattr(module, exercise.answer.__name__) for part, exercise in PARTS.items()}
    if why := difference(SMALL, parts):
        raise ValueError(f"{FILE} cannot have these weights: {why}")
    model = built(replace_head(load_checkpoint("dinov2-s14"), 1), parts)
    weights = {name: parameter.data for name, parameter in model.named_parameters()}
    try:
        parts["whole"](518, 14, 3, 1, 384, 12, 6, 1536).load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{FILE} builds its model of other parts than it keeps: {error}") from None
    torch.save(weights, path.with_suffix(".pt"))
    write_atomically(path, text.encode())
    given = load_photo(photo, 518)
    Image.fromarray((255 * given).byte().movedim(0, 2).numpy()).save(path.with_name("photo.png"))
    path.with_name("seen.png").unlink(missing_ok=True)
    command = [sys.executable, FILE, "photo.png"]
    ran = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
    yours = len(names) - len(ours)
    print(f"{path.as_posix()}: {len(text.splitlines())} lines; {yours} of its {len(names)} parts are yours")
    if ran.returncode:
        raise ValueError(f"{FILE} stops: {ran.stderr.strip().splitlines()[-1]}")
    print(ran.stdout.strip())
    painted = torch.from_numpy(np.array(Image.open(path.with_name("seen.png")))).movedim(2, 0) / 255
    return torch.stack([given, painted])
