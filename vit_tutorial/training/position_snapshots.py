"""Save the position embeddings of a run about ten times, in one small file, to see later how they formed."""

from __future__ import annotations

from pathlib import Path

from ..model import VisionTransformer
from ..saving import read, write
from .alarms import alarm
from .progress import Progress, Watch


def save_positions(model: VisionTransformer, path: Path, count: int = 10) -> Watch:
    """Return a `watch` for `fit` that saves the position embeddings about `count` times, most of them early.

    The file names them by the number of epochs that the model has seen; "0" is the model as it is now. The first epoch
    replaces the file of an earlier run. A file that cannot be read or written costs a warning, not the run.
    """
    untrained = model.embeddings.position().detach().clone()

    def watch(progress: Progress) -> None:
        saves = min(count, 20 * progress.epochs)  # enough for every epoch
        epochs = {round(progress.epochs ** (1 - i / max(saves - 2, 1))) for i in range(saves - 1)}
        if progress.finished and progress.epoch in epochs | {1}:
            now = {str(progress.epoch): model.embeddings.position()} if progress.epoch in epochs else {}
            try:
                known = progress.epoch > 1 and path.is_file()
                write(path, (read(path)[0] if known else {"0": untrained}) | now, {})
            except (ValueError, OSError) as error:
                alarm(f"{error}. The positions of epoch {progress.epoch} are not saved.", UserWarning)

    return watch
