"""The position embeddings of a run at about ten moments, in one small file, to see later how they formed."""

from __future__ import annotations

import warnings
from pathlib import Path

from ..model import VisionTransformer
from ..saving import read, write
from .progress import Progress


class PositionSnapshots:
    """A `watch` for `fit` that keeps the position embeddings at about `count` moments, closer together at the start.

    In the file they are named by the number of epochs that the model has seen; "0" is the untrained model.
    """

    def __init__(self, model: VisionTransformer, path: str | Path, count: int = 10):
        self.model, self.path, self.count = model, Path(path), count

    def start(self) -> None:
        """Write the untrained model's positions, in place of what an earlier run left there."""
        write(self.path, {"0": self.model.embeddings.position()}, {})

    def __call__(self, progress: Progress) -> None:
        """Add the positions after an epoch that is among the moments. A file in the way costs a warning, not a run."""
        count = min(self.count, 20 * progress.epochs)  # every epoch is among so many
        last = max(count - 2, 1)
        moments = {round(progress.epochs ** (1 - i / last)) for i in range(count - 1)}
        if progress.finished and progress.epoch in moments:
            try:
                kept = read(self.path)[0] if self.path.is_file() else {}
            except ValueError as error:
                warnings.warn(
                    f"{error}. The positions of earlier epochs are lost; those to come are kept.", stacklevel=2
                )
                kept = {}
            try:
                write(self.path, {**kept, str(progress.epoch): self.model.embeddings.position()}, {})
            except OSError as error:
                warnings.warn(f"{error}. The positions of epoch {progress.epoch} are not kept.", stacklevel=2)
