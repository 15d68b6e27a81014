"""The positions of a run, saved about ten times."""

import pytest
import torch

from vit_tutorial.saving import read, write
from vit_tutorial.training import Epoch, Progress
from vit_tutorial.training.position_snapshots import save_positions

from .toys import small_vit


def report(epoch: int, epochs: int, finished: bool) -> Progress:
    over = Epoch(epoch, 0.0, 0.0, 1.0) if finished else None
    return Progress(epoch, epochs, epoch, epochs, 0.0, 1.0, 0.0, over)


@pytest.mark.parametrize(("epochs", "moments"), [(30, [0, 1, 2, 4, 5, 8, 13, 20, 30]), (3, [0, 1, 2, 3]), (1, [0, 1])])
def test_closer_together_at_the_start_and_the_last_epoch_among_them(epochs, moments, tmp_path):
    """What another run left in the file goes."""
    model, path = small_vit(), tmp_path / "positions.safetensors"
    write(path, {"0": torch.ones(1, 5, 99), "7": torch.ones(1, 5, 99)}, {})
    untrained = model.embeddings.position().detach().clone()
    watch = save_positions(model, path)
    for epoch in range(1, epochs + 1):
        for weight, finished in ((-1, False), (epoch, True)):
            model.embeddings.position.table.data.fill_(weight)
            watch(report(epoch, epochs, finished))
    kept = read(path)[0]
    assert sorted(map(int, kept)) == moments
    assert torch.equal(kept["0"], untrained)
    assert all((kept[str(epoch)] == epoch).all() for epoch in moments[1:])


def test_a_file_that_is_lost_or_in_the_way_ends_no_run(tmp_path):
    path = tmp_path / "positions.safetensors"
    watch = save_positions(small_vit(), path)
    watch(report(2, 3, finished=True))
    assert sorted(read(path)[0]) == ["0", "2"]
    for block in (lambda: path.write_bytes(b"once upon a time"), lambda: (path.unlink(), path.mkdir())):
        block()
        with pytest.warns(UserWarning, match=r"positions\.safetensors.* epoch 2 are not saved"):
            watch(report(2, 3, finished=True))
