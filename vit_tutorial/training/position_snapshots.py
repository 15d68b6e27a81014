"""Save the position embeddings of a run about ten times, in one small file, to see later how they formed."""

from __future__ import annotations

from pathlib import Path

from ..model import VisionTransformer
from ..saving import read, write
from .alarms import alarm
from .progress import Progress


class PositionSnapshots:
    """A `watch` for `fit` that saves the position embeddings about `count` times, most of them early in the run.

    The file names them by the number of epochs that the model has seen; "0" is the model as it is now.
    """

    def __init__(self, model: VisionTransformer, path: str | Path, count: int = 10):
        self.model, self.path, self.count = model, Path(path), count
        self.untrained = model.embeddings.position().detach().clone()

    def __call__(self, progress: Progress) -> None:
        """Add the positions after an epoch. The first one replaces the file of an earlier run.

        A file that cannot be read or written costs a warning, not the run.
        """
        count = min(self.count, 20 * progress.epochs)  # enough for every epoch
        epochs = {round(progress.epochs ** (1 - i / max(count - 2, 1))) for i in range(count - 1)}
        if progress.finished and progress.epoch in epochs | {1}:
            now = {str(progress.epoch): self.model.embeddings.position()} if progress.epoch in epochs else {}
            try:
                known = progress.epoch > 1 and self.path.is_file()
                write(self.path, (read(self.path)[0] if known else {"0": self.untrained}) | now, {})
            except (ValueError, OSError) as error:
                alarm(f"{error}. The positions of epoch {progress.epoch} are not saved.", UserWarning)
