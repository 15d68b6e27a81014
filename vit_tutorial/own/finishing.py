"""The end of the reader's own file: run by itself, it cuts a thing out of a photo with DINOv2's weights."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from ..adapting import replace_head
from ..data import load_photo
from ..files import write_atomically
from ..pretrained import load_checkpoint
from .keeping import PARTS, completed, usable_text
from .lending import Lender, built
from .source import EXERCISES, FILE, needed, pieces, with_ours, written_in

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
            layer.borrower[0].load_state_dict(layer.lent(), strict=False)
            model.set_submodule(name, layer.borrower[0])
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
