"""Compare the DINOv2 that ships with Meta's own file; print what differs.

Downloads the file (88 MB). Our copy came by another route (see its card). If nothing was changed
on the way, nothing differs.
"""

from pathlib import Path

import torch
from vit_tutorial.data.download import fetch
from vit_tutorial.pretrained.shipped import DINOV2
from vit_tutorial.saving import read_tensors

META = "https://dl.fbaipublicfiles.com/dinov2/dinov2_vits14/dinov2_vits14_pretrain.pth"
SHA256 = "b938bf1bc15cd2ec0feacfe3a1bb553fe8ea9ca46a7e1d8d00217f29aef60cd9"


def differences(path: Path) -> dict[str, float]:
    """Return the largest difference in each tensor, rounded as ours is, if there is one."""
    theirs = torch.load(path, map_location="cpu", weights_only=True)  # executes nothing
    ours, _ = read_tensors(DINOV2)
    found = {name: (theirs[name].half() - ours[name]).abs().max().item() for name in ours}
    return {name: difference for name, difference in found.items() if difference}


if __name__ == "__main__":
    path = Path(torch.hub.get_dir(), "checkpoints", Path(META).name)
    fetch(META, path, SHA256, 88)
    found = differences(path)
    print(found or "not a value differs")
