"""A file over a network that fails in every way that networks do: all of it arrives, or nothing."""

import hashlib
import socket
from functools import partial

import pytest

from vit_tutorial.data import download
from vit_tutorial.data.download import UNFINISHED, Source, fetch

from .file_server import FAILURES, everything_in, serving, whole

CONTENT = bytes(range(256)) * 10


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(download, "PATIENCE", 0.5)


def source(address: str) -> Source:
    return Source(f"{address}/file.bin", "md5", hashlib.md5(CONTENT).hexdigest(), size=2 * 10**6)


@pytest.mark.parametrize("case", FAILURES)
def test_a_download_that_fails_says_why_and_leaves_nothing(case, tmp_path):
    answer, fact = FAILURES[case]
    with serving(partial(answer, CONTENT)) as (address, requests), pytest.raises(OSError, match=r"file\.bin") as caught:
        fetch(source(address), tmp_path / "file.bin")
    assert fact in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert everything_in(tmp_path) == []
    assert len(requests) == 1
    with serving(partial(whole, CONTENT)) as (address, _):  # and the next run is as good as a first one
        fetch(source(address), tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_nobody_listens(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening, so that the port is nobody else's
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(OSError, match=address):
            fetch(source(address), tmp_path / "file.bin")
    assert everything_in(tmp_path) == []


def test_an_interrupted_download_leaves_nothing(tmp_path, monkeypatch):
    """Ctrl-C halfway: what arrived so far goes away, and the interruption goes on."""

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "MEGABYTE", 10)  # progress is shown after 10 bytes
    monkeypatch.setattr("builtins.print", interrupt)
    with serving(partial(whole, CONTENT)) as (address, _), pytest.raises(KeyboardInterrupt):
        fetch(source(address), tmp_path / "file.bin")
    assert everything_in(tmp_path) == []


def test_what_is_there_is_not_fetched_again_and_progress_is_shown(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(download, "MEGABYTE", 1000)
    with serving(partial(whole, CONTENT)) as (address, requests):
        fetch(source(address), tmp_path / "folder" / "file.bin")
        fetch(source(address), tmp_path / "folder" / "file.bin")
    assert len(requests) == 1
    assert everything_in(tmp_path / "folder") == ["file.bin"]
    shown = capfd.readouterr()
    assert f"\r{address}/file.bin: 2 of 3 MB" in shown.err
    assert shown.out == ""


def test_what_a_killed_download_left_is_removed(tmp_path):
    (tmp_path / f"file.bin.0123{UNFINISHED}").write_text("half", encoding="utf-8")
    with serving(partial(whole, CONTENT)) as (address, _):
        fetch(source(address), tmp_path / "file.bin")
    assert everything_in(tmp_path) == ["file.bin"]
