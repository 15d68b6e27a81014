"""Save the position embeddings of a run about ten times, in one small file, to see later how they formed."""

from __future__ import annotations

from pathlib import Path

from ..model import VisionTransformer
from ..saving import read, write
from .alarms import alarm
from .progress import Progress, Watch


def save_positions(model: VisionTransformer, path: Path) -> Watch:
    """Return a `watch` for `fit` that saves the position embeddings after up to nine epochs, most of them early ones.

    The file names them by the number of epochs that the model has seen; "0" is the model as it is now. The first epoch
    replaces the file of an earlier run. A file that cannot be read or written costs a warning, not the run.
    """
    untrained = model.embeddings.position().detach().clone()

    def watch(progress: Progress) -> None:
        if progress.finished and progress.epoch in {round(progress.epochs ** (i / 8)) for i in range(9)}:
            try:
                known = progress.epoch > 1 and path.is_file()
                before = read(path)[0] if known else {"0": untrained}
                write(path, before | {str(progress.epoch): model.embeddings.position()}, {})
            except (ValueError, OSError) as error:
                alarm(f"{error}. The positions of epoch {progress.epoch} are not saved.", UserWarning)

    return watch
