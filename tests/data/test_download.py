"""A file over a network that fails in every way that networks do: all of it arrives, or nothing."""

import hashlib
import threading
import time
from functools import partial

import pytest
from training.toys import start

from vit_tutorial.data import download
from vit_tutorial.data.download import UNFINISHED, fetch

from .file_server import FAILURES, begin_and_fetch, everything_in, serving, stalling, whole

CONTENT = bytes(range(256)) * 10
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SIZE = 2 * 10**6  # an upper limit


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.5)


@pytest.mark.parametrize("case", FAILURES)
def test_a_download_that_fails_says_why_and_leaves_nothing(case, tmp_path):
    answer, fact = FAILURES[case]
    with serving(partial(answer, CONTENT)) as (address, requests), pytest.raises(OSError, match=r"file\.bin") as caught:
        fetch(f"{address}/file.bin", tmp_path / "file.bin", SHA256, SIZE)
    assert fact in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert everything_in(tmp_path) == []
    assert len(requests) == 1
    with serving(partial(whole, CONTENT)) as (address, _):  # and the next run is as good as a first one
        fetch(f"{address}/file.bin", tmp_path / "file.bin", SHA256, SIZE)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_an_interrupted_download_leaves_nothing(tmp_path, monkeypatch):
    """Ctrl-C halfway: what arrived so far goes away, and the interruption goes on."""

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "MEGABYTE", 10)  # progress is shown after 10 bytes
    monkeypatch.setattr("builtins.print", interrupt)
    with serving(partial(whole, CONTENT)) as (address, _), pytest.raises(KeyboardInterrupt):
        fetch(f"{address}/file.bin", tmp_path / "file.bin", SHA256, SIZE)
    assert everything_in(tmp_path) == []


def test_what_is_there_is_not_fetched_again_and_progress_is_shown(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(download, "MEGABYTE", 1000)
    with serving(partial(whole, CONTENT)) as (address, requests):
        fetch(f"{address}/file.bin", tmp_path / "folder" / "file.bin", SHA256, SIZE)
        fetch(f"{address}/file.bin", tmp_path / "folder" / "file.bin", SHA256, SIZE)
    assert len(requests) == 1
    assert everything_in(tmp_path / "folder") == ["file.bin"]
    shown = capfd.readouterr()
    assert f"\r{address}/file.bin: 2 of 3 MB" in shown.err
    assert shown.out == ""


def wait_for(condition, process) -> None:
    while not condition():
        assert process.is_alive()
        time.sleep(0.01)


def test_two_processes_at_once(tmp_path):
    """The one that asks first downloads; the other waits, and finds the file there."""
    both_have_begun, outputs = threading.Event(), [tmp_path / "first", tmp_path / "second"]

    def answer(handler, over):
        assert both_have_begun.wait(200)
        over.wait(0.5)
        whole(CONTENT, handler, over)

    path = tmp_path / "here" / "file.bin"
    with serving(answer) as (address, requests):
        processes = [
            start(begin_and_fetch, f"{address}/file.bin", path, SHA256, SIZE, output=output) for output in outputs
        ]
        for process, output in zip(processes, outputs, strict=True):
            wait_for(lambda output=output: output.is_file() and "begun" in output.read_text(), process)
        both_have_begun.set()
        for process in processes:
            process.join(300)
    assert [process.exitcode for process in processes] == [0, 0], [output.read_text() for output in outputs]
    assert path.read_bytes() == CONTENT
    assert len(requests) == 1


def test_a_process_killed_in_the_middle_leaves_nothing_that_is_trusted(tmp_path):
    path = tmp_path / "here" / "file.bin"
    with serving(partial(stalling, CONTENT)) as (address, requests):
        process = start(begin_and_fetch, f"{address}/file.bin", path, SHA256, SIZE, output=tmp_path / "printed")
        wait_for(lambda: requests and list(path.parent.glob(f"*{UNFINISHED}")), process)
        process.kill()
        process.join()
    assert not path.exists()
    with serving(partial(whole, CONTENT)) as (address, _):
        fetch(f"{address}/file.bin", path, SHA256, SIZE)
    assert path.read_bytes() == CONTENT
    assert everything_in(path.parent) == [path.name], "what the killed one left is gone"
