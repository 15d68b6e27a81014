"""CIFAR-10 from a folder, from an archive, and over a network that fails in every way that networks do.

The server is a real one, on this machine, and serves a tiny archive that is built here like the real one.
"""

import contextlib
import hashlib
import io
import pickle
import socket
import sys
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.datasets import CIFAR10

from vit_tutorial.data import cifar10, download

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
ARCHIVE, FOLDER = "cifar-10-python.tar.gz", "cifar-10-batches-py"


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def write_batch(path: Path, first: int, count: int) -> None:
    """`count` images; each is filled with its own number in red, 100 in green and 200 in blue."""
    planes = np.empty((count, 3, 1024), dtype=np.uint8)
    planes[:, 0], planes[:, 1], planes[:, 2] = np.arange(first, first + count)[:, None], 100, 200
    planes[:, 0, 1] = 77  # the second pixel of the first row
    with path.open("wb") as file:
        pickle.dump(
            {"data": planes.reshape(count, 3072), "labels": [i % 10 for i in range(first, first + count)]}, file
        )


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Path:
    """An archive of 5 × 4 training and 6 test images, which CIFAR10 is told to expect; no folder is set."""
    source = tmp_path / "source"
    batches = source / FOLDER
    batches.mkdir(parents=True)
    for i in range(5):
        write_batch(batches / f"data_batch_{i + 1}", 4 * i, 4)
    write_batch(batches / "test_batch", 50, 6)
    with (batches / "batches.meta").open("wb") as file:
        pickle.dump({"label_names": NAMES}, file)
    with tarfile.open(source / ARCHIVE, "w:gz") as archive:
        archive.add(batches, FOLDER)
    for attribute in ("train_list", "test_list"):
        listed = [[name, md5(batches / name)] for name, _ in getattr(CIFAR10, attribute)]
        monkeypatch.setattr(CIFAR10, attribute, listed)
    monkeypatch.setattr(CIFAR10, "meta", CIFAR10.meta | {"md5": md5(batches / "batches.meta")})
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(source / ARCHIVE))
    monkeypatch.setattr(CIFAR10, "url", "http://127.0.0.1:9/nothing-listens-here.tar.gz")
    monkeypatch.setattr(sys.modules["vit_tutorial.data.cifar10"], "SIZE", 2 * 10**6)
    monkeypatch.setattr(download, "PATIENCE", 0.5)
    monkeypatch.delenv("VIT_TUTORIAL_DATA", raising=False)
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(tmp_path / "home"))
    return source / ARCHIVE


@contextlib.contextmanager
def serving(monkeypatch, answer):
    """A file server; `answer(handler)` is what it does with a request. Gives the list of requests so far."""
    requests, over = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            with contextlib.suppress(ConnectionError):
                answer(self, over)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setattr(CIFAR10, "url", f"http://127.0.0.1:{server.server_port}/{ARCHIVE}")
    try:
        yield requests
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def begin(handler, length: int) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(length))
    handler.end_headers()


def whole(content: bytes):
    def answer(handler, over):
        begin(handler, len(content))
        handler.wfile.write(content)

    return answer


def cut_off(content: bytes):
    def answer(handler, over):
        begin(handler, len(content))
        handler.wfile.write(content[: len(content) // 2])

    return answer


def stalling(content: bytes):
    def answer(handler, over):
        begin(handler, len(content))
        handler.wfile.write(content[: len(content) // 2])
        over.wait(20)

    return answer


def trickling(content: bytes):
    """A byte now and then: the connection never times out, and never ends."""

    def answer(handler, over):
        begin(handler, len(content))
        for byte in content:
            handler.wfile.write(bytes([byte]))
            if over.wait(0.1):
                return

    return answer


def silent(content: bytes):
    def answer(handler, over):
        over.wait(20)

    return answer


def missing(content: bytes):
    def answer(handler, over):
        handler.send_error(503, "throttled")

    return answer


def trickling_headers(content: bytes):
    """Every byte comes in time, the last one never."""

    def answer(handler, over):
        handler.send_response(200)
        while not over.wait(0.1):
            handler.send_header("X-More", "to come")
            handler.flush_headers()

    return answer


def endless(content: bytes):
    """No length, and no end."""

    def answer(handler, over):
        handler.send_response(200)
        handler.end_headers()
        while not over.is_set():
            handler.wfile.write(bytes(2**16))

    return answer


def announcing(length: str):
    def make(content: bytes):
        def answer(handler, over):
            handler.send_response(200)
            handler.send_header("Content-Length", length)
            handler.end_headers()
            handler.wfile.write(content[:-1])

        return answer

    return make


# How the network fails, and what the message must show beside the way out.
FAILURES = {
    "cut off": (cut_off, "cut off"),
    "another file": (lambda content: whole(content[::-1]), "another file"),
    "a web page": (lambda content: whole(b"<html>please log in</html>"), "26 bytes"),
    "stalls": (stalling, "timed out"),
    "trickles": (trickling, "bytes in"),
    "never answers": (silent, "timed out"),
    "throttled": (missing, "503"),
    "trickles in the headers": (trickling_headers, "timed out"),
    "never ends": (endless, "at most"),
    "announces too much": (announcing("5000000"), "5,000,000 bytes"),
    "announces no number": (announcing("abc"), "cut off"),
}


def everything_in(folder: Path) -> list[str]:
    """Every file but the empty ones that a lock leaves."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix != ".lock")


@pytest.mark.parametrize("case", FAILURES)
def test_a_download_that_fails_says_the_way_out_and_leaves_nothing(case, tiny, tmp_path, monkeypatch):
    answer, fact = FAILURES[case]
    root, started = tmp_path / "root", time.monotonic()
    with serving(monkeypatch, answer(tiny.read_bytes())) as requests:
        with pytest.raises(ConnectionError) as caught:
            cifar10(root, download=True)
        url = CIFAR10.url
    message = str(caught.value)
    assert not [f for f in (fact, url, "by hand", CIFAR10.tgz_md5, str(root)) if f not in message], message
    assert "\n" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__, "one error, not three"
    assert everything_in(root) == []
    assert len(requests) == 1
    assert time.monotonic() - started < 10, "the reader is not kept waiting"

    with serving(monkeypatch, whole(tiny.read_bytes())):  # and the next run is as good as a first one
        assert len(cifar10(root, download=True)) == 20


def test_nobody_listens(tiny, tmp_path, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening, so that the port is nobody else's
        monkeypatch.setattr(CIFAR10, "url", f"http://127.0.0.1:{closed.getsockname()[1]}/{ARCHIVE}")
        with pytest.raises(ConnectionError, match="by hand"):
            cifar10(tmp_path / "root", download=True)
    assert everything_in(tmp_path / "root") == []


def test_an_interrupted_download_leaves_nothing(tiny, tmp_path, monkeypatch):
    """Ctrl-C in the middle: what arrived so far goes away, and the interruption goes on."""

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "MEGABYTE", 10)  # progress is shown after 10 bytes, in the middle of the file
    monkeypatch.setattr("builtins.print", interrupt)
    with serving(monkeypatch, whole(tiny.read_bytes())), pytest.raises(KeyboardInterrupt):
        cifar10(tmp_path / "root", download=True)
    assert everything_in(tmp_path / "root") == []


def test_a_whole_download(tiny, tmp_path, monkeypatch):
    with serving(monkeypatch, whole(tiny.read_bytes())) as requests:
        train = cifar10(tmp_path / "root", download=True)
        test = cifar10(tmp_path / "root", train=False, download=True)
        assert len(requests) == 1, "what is there is not fetched again"
    assert (len(train), len(test)) == (20, 6)
    assert train.classes == test.classes == tuple(NAMES)
    assert train.labels.tolist() == [i % 10 for i in range(20)], "batches in their order"
    assert train.pixels[:, 0, 5, 5].tolist() == list(range(20)), "red is the first channel"
    assert test.pixels[3, :, 9, 0].tolist() == [53, 100, 200]
    assert test.pixels[3, 0, 0, :3].tolist() == [53, 77, 53], "rows are rows"
    assert not list((tmp_path / "root").glob("*.part"))


def test_what_a_killed_download_left_is_removed_and_never_written_through(tiny, tmp_path, monkeypatch):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.write_text("precious", encoding="utf-8")
    try:
        (root / f"{ARCHIVE}.part").symlink_to(elsewhere)
    except OSError:  # Windows lets administrators alone make links
        (root / f"{ARCHIVE}.part").write_text("half", encoding="utf-8")
    with serving(monkeypatch, whole(tiny.read_bytes())):
        assert len(cifar10(root, download=True)) == 20
    assert elsewhere.read_text(encoding="utf-8") == "precious"
    assert not list(root.rglob("*.part"))


def test_the_archive_is_unpacked_without_a_warning_and_only_what_is_expected(tiny, tmp_path, monkeypatch, recwarn):
    """A name in an archive may lead out of the folder."""
    with tarfile.open(tiny) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar if member.isfile()]
    with tarfile.open(tiny, "w:gz") as tar:
        for member, content in members:
            for name in (member.name, f"../{Path(member.name).name}"):
                member.name = name
                tar.addfile(member, io.BytesIO(content))
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(tiny))
    assert len(cifar10(put_archive(tiny, tmp_path / "root"))) == 20
    assert not list(tmp_path.glob("*batch*"))
    assert not recwarn.list


def test_each_file_is_read_once_for_its_md5(tiny, tmp_path, monkeypatch):
    """Five batches, the test batch and the names: 186 MB of the real ones."""
    root, computed = unpack(tiny, tmp_path / "root"), []
    for name in ("md5", "new"):
        digest = getattr(hashlib, name)
        monkeypatch.setattr(hashlib, name, lambda *a, digest=digest, **b: computed.append(a) or digest(*a, **b))
    cifar10(root)
    assert len(computed) == 7


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def put_archive(archive: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / ARCHIVE).write_bytes(archive.read_bytes())
    return folder


@pytest.mark.parametrize("put", [unpack, put_archive])
def test_what_was_fetched_by_hand_needs_no_network(put, tiny, tmp_path):
    assert len(cifar10(put(tiny, tmp_path / "root"))) == 20


@pytest.mark.parametrize("damage", ["missing", "cut off", "changed", "labels"])
def test_a_half_unpacked_folder_is_not_trusted(damage, tiny, tmp_path, monkeypatch):
    root = unpack(tiny, tmp_path / "root")
    batch = root / FOLDER / ("batches.meta" if damage == "labels" else "data_batch_3")
    content = batch.read_bytes()
    broken = {"missing": b"", "cut off": content[:-1], "changed": content[:-1] + b"?", "labels": content[:-1]}[damage]
    batch.unlink() if damage == "missing" else batch.write_bytes(broken)
    with pytest.raises(FileNotFoundError, match=f"{FOLDER}, but broken or not whole"):
        cifar10(root)
    with serving(monkeypatch, whole(tiny.read_bytes())):
        assert len(cifar10(root, download=True)) == 20
    assert batch.read_bytes() == content


def test_an_archive_that_is_half_there_is_not_trusted(tiny, tmp_path, monkeypatch):
    root = put_archive(tiny, tmp_path / "root")
    (root / ARCHIVE).write_bytes(tiny.read_bytes()[:-1])
    with pytest.raises(FileNotFoundError, match=f"{ARCHIVE}, but broken or not whole"):
        cifar10(root)
    with serving(monkeypatch, whole(tiny.read_bytes())):
        assert len(cifar10(root, download=True)) == 20


def test_absent_without_a_download_it_says_where_it_looked_and_what_to_do(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_TUTORIAL_DATA", str(tmp_path / "first"))
    with pytest.raises(FileNotFoundError) as caught:
        cifar10(tmp_path / "root")
    message = str(caught.value)
    facts = [*(str(tmp_path / place) for place in ("first", "root", "home"))]
    facts += ["cifar10(download=True)", "170 MB", CIFAR10.url, CIFAR10.tgz_md5, "Shapes("]
    assert not [fact for fact in facts if fact not in message], message
    assert not (tmp_path / "root").exists(), "looking makes no folders"


@pytest.mark.parametrize("places", [["first", "root", "home"], ["root", "home"], ["home"]], ids=", ".join)
def test_where_it_looks_first(places, tiny, tmp_path, monkeypatch):
    """A copy in each place; the one that is read is the first, and it is unpacked there."""
    monkeypatch.setenv("VIT_TUTORIAL_DATA", str(tmp_path / "first"))
    folders = {"first": tmp_path / "first", "root": tmp_path / "root", "home": tmp_path / "home/.cache/vit_tutorial"}
    for place in places:
        put_archive(tiny, folders[place])
    cifar10(folders["root"])
    assert [place for place in folders if (folders[place] / FOLDER).exists()] == places[:1]


@pytest.mark.parametrize(
    ("first", "root", "target"),
    [
        ("first", "root", "root"),
        ("first", None, "first"),
        (None, "root", "root"),
        (None, None, "home/.cache/vit_tutorial"),
    ],
)
def test_where_it_is_put(first, root, target, tiny, tmp_path, monkeypatch):
    if first:
        monkeypatch.setenv("VIT_TUTORIAL_DATA", str(tmp_path / first))
    with serving(monkeypatch, whole(tiny.read_bytes())):
        cifar10(root and tmp_path / root, download=True)
    assert (tmp_path / target / ARCHIVE).is_file()


def test_the_real_ones_that_torchvision_expects():
    """The tests above put their own in place of these; what a reader is told to fetch is the real one."""
    assert CIFAR10.url.endswith(f"/{ARCHIVE}")
    assert (CIFAR10.filename, CIFAR10.base_folder) == (ARCHIVE, FOLDER)
    assert torch.equal(torch.tensor([len(CIFAR10.train_list), len(CIFAR10.test_list)]), torch.tensor([5, 1]))
