"""The positions of a run, kept at about ten moments."""

import pytest

from vit_tutorial.saving import read
from vit_tutorial.training import Epoch, Progress
from vit_tutorial.training.position_snapshots import PositionSnapshots

from .toys import small_vit


def report(epoch: int, epochs: int, finished: bool) -> Progress:
    over = Epoch(epoch, 0.0, 0.0, 1.0) if finished else None
    return Progress(epoch, epochs, epoch, epochs, 0.0, 1.0, 0.0, over)


@pytest.mark.parametrize(
    ("epochs", "count", "moments"),
    [
        (30, 10, [0, 1, 2, 4, 5, 8, 13, 20, 30]),
        (3, 10, [0, 1, 2, 3]),
        (100, 4, [0, 1, 10, 100]),
        (30, 2, [0, 30]),
        (12, 10**9, [*range(13)]),
    ],
)
def test_closer_together_at_the_start_and_the_last_epoch_among_them(epochs, count, moments, tmp_path):
    model = small_vit()
    snapshots = PositionSnapshots(model, tmp_path / "positions.safetensors", count)
    snapshots.start()
    for epoch in range(1, epochs + 1):
        model.embeddings.position.table.data.fill_(-1)
        snapshots(report(epoch, epochs, finished=False))
        model.embeddings.position.table.data.fill_(epoch)
        snapshots(report(epoch, epochs, finished=True))
    kept = read(tmp_path / "positions.safetensors")[0]
    assert sorted(map(int, kept)) == moments
    assert all((kept[str(epoch)] == epoch).all() for epoch in moments[1:])


def test_a_lost_file_is_begun_again(tmp_path):
    PositionSnapshots(small_vit(), tmp_path / "positions.safetensors")(report(2, 3, finished=True))
    assert list(read(tmp_path / "positions.safetensors")[0]) == ["2"]


@pytest.mark.parametrize("obstacle", ["no whole file", "a folder"])
def test_a_file_in_the_way_costs_a_warning_and_no_epoch(obstacle, tmp_path):
    path = tmp_path / "positions.safetensors"
    path.write_bytes(b"once upon a time") if obstacle == "no whole file" else path.mkdir()
    snapshots = PositionSnapshots(small_vit(), path)
    with pytest.warns(UserWarning, match=r"positions\.safetensors"):
        snapshots(report(2, 3, finished=True))
    if obstacle == "no whole file":
        snapshots(report(3, 3, finished=True))
        assert sorted(read(path)[0]) == ["2", "3"]
