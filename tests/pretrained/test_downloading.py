"""Published weights by name, over a network that fails and over one that does not.

The server is a real one, on this machine; the weights are a tiny model's, under the names that torchvision gives them.
"""

import contextlib
import hashlib
import io
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import Process
from pathlib import Path

import pytest
import torch
from data.file_server import FAILURES, everything_in, serving, stalling, whole
from torchvision.models import ViT_B_16_Weights, get_model_weights
from training.toys import start

from vit_tutorial import VisionTransformer, ViTConfig, load_pretrained
from vit_tutorial.config import VARIANTS
from vit_tutorial.data import download
from vit_tutorial.pretrained.published import PUBLISHED, source_of
from vit_tutorial.pretrained.tensor_names import as_theirs

from . import one_download
from .families import random
from .one_download import TINY, point_to


def content_of(model: VisionTransformer) -> bytes:
    """A `.pth` with the names that torchvision's files have had since 2022."""
    tensors = as_theirs(model.state_dict(), "torchvision", model.config.num_heads)
    old = {"mlp.0.": "mlp.linear_1.", "mlp.3.": "mlp.linear_2."}
    for new, name in old.items():
        tensors = {key.replace(new, name): value for key, value in tensors.items()}
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


@pytest.fixture
def published(tmp_path, monkeypatch):
    """The tiny model, its file's content, and where the file belongs; registry, table 1 and cache know no other."""
    model = random(VisionTransformer(TINY)).float().eval()
    content = content_of(model)
    name = f"vit_b_16-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    monkeypatch.setitem(VARIANTS, "B/16", TINY)
    monkeypatch.setattr(download, "PATIENCE", 0.5)
    monkeypatch.setitem(ViT_B_16_Weights.IMAGENET1K_V1.meta, "_file_size", 0.9)  # MB, an upper limit
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    point_to(f"http://127.0.0.1:9/{name}", monkeypatch.setattr)
    return model, content, tmp_path / "hub" / "checkpoints" / name


@contextlib.contextmanager
def serve(monkeypatch, answer, path: Path):
    """A file server, asked for this file."""
    with serving(answer) as (address, requests):
        url = f"{address}/{path.name}"
        point_to(url, monkeypatch.setattr)
        yield url, requests


def assert_same(ours: VisionTransformer, model: VisionTransformer) -> None:
    expected = model.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in ours.state_dict().items())
    assert not ours.training


def test_a_whole_download_is_kept_and_needs_no_network_again(published, monkeypatch, capfd):
    model, content, path = published
    monkeypatch.setattr(download, "MEGABYTE", 1000)  # progress is shown after 1000 bytes
    with serve(monkeypatch, partial(whole, content), path) as (url, requests):
        assert_same(load_pretrained("B/16"), model)
        assert_same(load_pretrained("B/16"), model)
        assert len(requests) == 1, "what is there is not fetched again"
    shown = capfd.readouterr()
    assert f"\r{url}: " in shown.err
    assert f"{len(content) // 1000} of {len(content) / 1000:.0f} MB" in shown.err, "progress"
    assert shown.out == ""
    assert everything_in(path.parent) == [path.name]
    assert_same(load_pretrained("B/16"), model)  # the server is gone


@pytest.mark.parametrize("case", FAILURES)
def test_a_download_that_fails_says_the_way_out_and_leaves_nothing(case, published, monkeypatch):
    answer, fact = FAILURES[case]
    model, content, path = published
    started = time.monotonic()
    with (
        serve(monkeypatch, partial(answer, content), path) as (url, requests),
        pytest.raises(ConnectionError) as caught,
    ):
        load_pretrained("B/16")
    message = str(caught.value)
    facts = [fact, url, "by hand", path.stem[-8:], str(path.parent), "it is not there", "1 MB", "load_checkpoint"]
    assert not [f for f in facts if f not in message], message
    assert "\n" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__, "one error, not three"
    assert everything_in(path.parent) == []
    assert len(requests) == 1
    assert time.monotonic() - started < 20, "the reader is not kept waiting"

    with serve(monkeypatch, partial(whole, content), path):  # and the next run is as good as a first one
        assert_same(load_pretrained("B/16"), model)


def test_nobody_listens(published):
    _, _, path = published
    with socket.socket() as closed, pytest.MonkeyPatch.context() as patch:
        closed.bind(("127.0.0.1", 0))  # bound and not listening, so that the port is nobody else's
        point_to(f"http://127.0.0.1:{closed.getsockname()[1]}/{path.name}", patch.setattr)
        with pytest.raises(ConnectionError, match=r"it is not there.*by hand"):
            load_pretrained("B/16")
    assert everything_in(path.parent) == []


@pytest.mark.parametrize("damage", ["cut off", "empty", "changed"])
def test_a_broken_file_under_the_trusted_name_is_never_read(damage, published, monkeypatch):
    model, content, path = published
    path.parent.mkdir(parents=True)
    path.write_bytes({"cut off": content[:-9], "empty": b"", "changed": content[:-1] + b"?"}[damage])
    with pytest.raises(ConnectionError, match="it is there, but broken"):
        load_pretrained("B/16")
    with serve(monkeypatch, partial(whole, content), path):
        assert_same(load_pretrained("B/16"), model)
    assert path.read_bytes() == content


def test_what_was_fetched_by_hand_or_by_torchvision_needs_no_network(published):
    model, content, path = published
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert_same(load_pretrained("B/16"), model)


def test_an_interrupted_download_leaves_nothing(published, monkeypatch):
    _, content, path = published

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "MEGABYTE", 10)
    monkeypatch.setattr("builtins.print", interrupt)
    with serve(monkeypatch, partial(whole, content), path), pytest.raises(KeyboardInterrupt):
        load_pretrained("B/16")
    assert everything_in(path.parent) == []


def wait_until(condition: Callable[[], bool], process: Process, printed: Path) -> None:
    while not condition():
        assert process.is_alive(), printed.read_text(encoding="utf-8")
        time.sleep(0.01)


def test_two_processes_at_once(published, monkeypatch, tmp_path):
    """The one that asks first downloads; the other waits, and finds the file there."""
    model, content, path = published
    both_are_loading, printed = threading.Event(), [tmp_path / "first", tmp_path / "second"]

    def answer(handler, over):
        assert both_are_loading.wait(200)
        over.wait(0.5)
        whole(content, handler, over)

    with serve(monkeypatch, answer, path) as (url, requests):
        processes = [start(one_download.load, url, str(path.parent.parent), output=output) for output in printed]
        for process, output in zip(processes, printed, strict=True):
            wait_until(lambda output=output: output.is_file() and "loading" in output.read_text(), process, output)
        both_are_loading.set()
        for process in processes:
            process.join(300)
    told = [output.read_text(encoding="utf-8") for output in printed]
    assert [process.exitcode for process in processes] == [0, 0], told
    assert [text.split()[-1] for text in told] == [one_download.digest(model)] * 2
    assert len(requests) == 1
    assert everything_in(path.parent) == [path.name]


def test_a_process_killed_in_the_middle_leaves_nothing_that_is_trusted(published, monkeypatch, tmp_path):
    model, content, path = published
    asked = threading.Event()

    def answer(handler, over):
        asked.set()
        stalling(content, handler, over)

    with serve(monkeypatch, answer, path) as (url, _):
        process = start(one_download.load, url, str(path.parent.parent), output=tmp_path / "printed")
        assert asked.wait(200)
        wait_until(
            lambda: any(file.stat().st_size for file in path.parent.glob("*.part")), process, tmp_path / "printed"
        )
        process.kill()
        process.join()
    assert not path.exists()
    with serve(monkeypatch, partial(whole, content), path):
        assert_same(load_pretrained("B/16"), model)
    assert everything_in(path.parent) == [path.name], "what the killed one left is gone"


def test_a_file_of_another_model_lists_what_does_not_fit(published, monkeypatch):
    _, content, path = published
    monkeypatch.setitem(VARIANTS, "B/16", ViTConfig(32, 16, depth=1, embed_dim=32, num_heads=4, mlp_dim=64))
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"not expected: encoder\.layers\.encoder_layer_1"):
        load_pretrained("B/16")


def test_a_name_that_is_not_published_shows_those_that_are():
    with pytest.raises(ValueError, match="'B/16', 'B/32', 'L/16', 'L/32'"):
        load_pretrained("H/14")


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_real_ones_that_torchvision_lists(name):
    """The tests above put their own in place of these; what a reader gets is the real one."""
    weights = get_model_weights(PUBLISHED[name]).IMAGENET1K_V1
    config = ViTConfig.named(name)
    with torch.device("meta"):
        model = VisionTransformer(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == weights.meta["num_params"]
    assert weights.url.startswith("https://download.pytorch.org/models/vit_")
    assert len(source_of(weights).checksum) == 8
    assert 300e6 < source_of(weights).size < 1.3e9
    assert weights.transforms().crop_size == [config.image_size]
    assert len(weights.meta["categories"]) == config.num_classes


def test_a_file_where_the_folder_should_be_is_told(published):
    _, _, path = published
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("not a folder", encoding="utf-8")
    with pytest.raises(ConnectionError, match="could not be fetched"):
        load_pretrained("B/16")
