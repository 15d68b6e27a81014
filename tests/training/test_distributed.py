"""Two processes, started as `torchrun` starts them, do what one does."""

import json
import os
import socket
from pathlib import Path

import pytest
import torch

from vit_tutorial import train
from vit_tutorial.saving import load_model
from vit_tutorial.training import loop

from .toys import float64, shrink, start

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that share an import, which takes a fork")


def command(out: Path) -> int:
    """Train in float64: Adam makes a whole step of a gradient that is nothing but float32's rounding.

    Batches of 15 and 16 images are each cut in two.
    """
    shrink(scenes=61, dropout=False, crop=2, flip=True, randaugment=True, label_smoothing=0.1)
    with float64():
        return train.main(["--epochs", "1", "--learning-rate", "1e-4", "--device", "cpu", "--out", str(out)])


def one_of_two(folder: Path, rank: int, port: int) -> int:
    """Be one of two processes, with the environment that `torchrun` gives them, and write down what it saw."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    seen = {"seeds": [], "written": []}
    seed, put = loop.seed_process, os.replace
    loop.seed_process = lambda number: seed(number) or seen["seeds"].append(torch.initial_seed())
    os.replace = lambda part, path: seen["written"].append(Path(path).name) or put(part, path)
    status = command(folder / "run")
    (folder / f"seen-{rank}.json").write_text(json.dumps(seen), encoding="utf-8")
    return status


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> tuple[Path, list[dict], str]:
    """Where two processes ran, what each saw, and what they printed."""
    folder = tmp_path_factory.mktemp("together")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    processes = [start(one_of_two, folder, rank, port, output=folder / "printed") for rank in (0, 1)]
    for process in processes:
        process.join(300)
    printed = (folder / "printed").read_text(encoding="utf-8")
    assert [process.exitcode for process in processes] == [0, 0], printed
    return folder, [json.loads((folder / f"seen-{rank}.json").read_text("utf-8")) for rank in (0, 1)], printed


def test_each_draws_its_own_dropout_and_only_the_first_writes_prints_and_warns(together):
    _, (first, second), printed = together
    assert len(first["seeds"]) == len(second["seeds"]) == 1
    assert first["seeds"] != second["seeds"]
    files = ["model.safetensors", "metrics.csv", "checkpoint.safetensors", "model.safetensors"]
    assert (first["written"], second["written"]) == (files, [])
    assert printed.count("test: ") == printed.count("ImageSet: 61 images") == 1
    assert printed.count("TrainingAlarm: after warm-up the loss is still") == 1


def test_the_command_ends_with_the_weights_of_one_process(together, tmp_path):
    """A batch of 15 is 8 images here and 7 there: the mean of the two means would be another number.

    The sums are made in another order, so not bit by bit.
    """
    start(command, tmp_path / "run", output=tmp_path / "printed").join(300)
    alone, shared = (load_model(folder / "run" / "model.safetensors") for folder in (tmp_path, together[0]))
    torch.testing.assert_close(shared.state_dict(), alone.state_dict(), rtol=1e-6, atol=1e-9)
    assert shared.card.about["test accuracy"] == alone.card.about["test accuracy"]
