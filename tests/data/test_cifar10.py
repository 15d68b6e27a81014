"""CIFAR-10 from a folder, from an archive or from a server: a tiny archive, built here like the real one."""

import hashlib
import io
import pickle
import shutil
import sys
import tarfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import CIFAR10

from vit_tutorial.data import cifar10, download

from .file_server import cut_off, endless, everything_in, serving, whole

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
ARCHIVE, FOLDER = "cifar-10-python.tar.gz", "cifar-10-batches-py"
MODULE = sys.modules["vit_tutorial.data.cifar10"]  # the package has the function under this name


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_batch(path: Path, first: int, count: int) -> None:
    """Write `count` images; each is filled with its own number in red, 100 in green and 200 in blue."""
    planes = np.empty((count, 3, 1024), dtype=np.uint8)
    planes[:, 0], planes[:, 1], planes[:, 2] = np.arange(first, first + count)[:, None], 100, 200
    planes[:, 0, 1] = 77  # the second pixel of the first row
    labels = [i % 10 for i in range(first, first + count)]
    path.write_bytes(pickle.dumps({"data": planes.reshape(count, 3072), "labels": labels}))


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Path:
    """An archive of 5 × 4 training and 6 test images, which CIFAR10 is told to expect; no folder is set."""
    archive = tmp_path / "source" / ARCHIVE
    batches = archive.with_name(FOLDER)
    batches.mkdir(parents=True)
    for i in range(5):
        write_batch(batches / f"data_batch_{i + 1}", 4 * i, 4)
    write_batch(batches / "test_batch", 50, 6)
    (batches / "batches.meta").write_bytes(pickle.dumps({"label_names": NAMES}))
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(batches, FOLDER)
    for attribute in ("train_list", "test_list"):
        listed = [[name, md5(batches / name)] for name, _ in getattr(CIFAR10, attribute)]
        monkeypatch.setattr(CIFAR10, attribute, listed)
    monkeypatch.setattr(CIFAR10, "meta", CIFAR10.meta | {"md5": md5(batches / "batches.meta")})
    expect(archive, "http://127.0.0.1:9", monkeypatch)  # nothing listens there
    monkeypatch.delenv("VIT_TUTORIAL_DATA", raising=False)
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(tmp_path / "home"))
    return archive


def expect(archive: Path, address: str, monkeypatch) -> None:
    """Take this archive, at this address, for the real one."""
    monkeypatch.setattr(CIFAR10, "url", f"{address}/{ARCHIVE}")
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(archive))
    monkeypatch.setattr(MODULE, "SHA256", sha256(archive))


def fetch(archive: Path, monkeypatch, root: Path | None, answer=whole, **options):
    """Return `cifar10(root, download=True)` with a server that answers with the archive, and the requests."""
    with serving(partial(answer, archive.read_bytes())) as (address, requests):
        expect(archive, address, monkeypatch)
        return cifar10(root, download=True, **options), requests


def unpack(archive: Path, folder: Path) -> Path:
    shutil.unpack_archive(archive, folder)
    return folder


def put_archive(archive: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / ARCHIVE).write_bytes(archive.read_bytes())
    return folder


def test_a_whole_download(tiny, tmp_path, monkeypatch):
    train, requests = fetch(tiny, monkeypatch, tmp_path / "root")
    test = cifar10(tmp_path / "root", train=False, download=True)
    assert len(requests) == 1, "what is there is not fetched again"
    assert (len(train), len(test)) == (20, 6)
    assert train.classes == test.classes == tuple(NAMES)
    assert train.labels.tolist() == [i % 10 for i in range(20)], "batches in their order"
    assert train.pixels[:, 0, 5, 5].tolist() == list(range(20)), "red is the first channel"
    assert test.pixels[3, :, 9, 0].tolist() == [53, 100, 200]
    assert test.pixels[3, 0, 0, :3].tolist() == [53, 77, 53], "rows are rows"
    assert not list((tmp_path / "root").rglob(f"*{download.UNFINISHED}"))


def test_a_download_that_fails_says_the_way_out(tiny, tmp_path, monkeypatch):
    with pytest.raises(ConnectionError) as caught:
        fetch(tiny, monkeypatch, tmp_path / "root", cut_off)
    message = str(caught.value)
    facts = ["cut off", CIFAR10.url, "by hand", sha256(tiny), str(tmp_path / "root")]
    assert not [fact for fact in facts if fact not in message], message
    assert "\n" not in message
    assert caught.value.__suppress_context__, "one error, not three"
    assert everything_in(tmp_path / "root") == []


def test_the_archive_is_unpacked_without_a_warning_and_only_what_is_expected(tiny, tmp_path, monkeypatch, recwarn):
    """A name in an archive may lead out of the folder."""
    with tarfile.open(tiny) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar if member.isfile()]
    with tarfile.open(tiny, "w:gz") as tar:
        for member, content in members:
            for name in (member.name, f"../{Path(member.name).name}"):
                member.name = name
                tar.addfile(member, io.BytesIO(content))
    expect(tiny, "http://127.0.0.1:9", monkeypatch)
    put_archive(tiny, tmp_path / "root")
    (tmp_path / "root" / FOLDER).mkdir()
    (tmp_path / "root" / FOLDER / f"test_batch.0123{download.UNFINISHED}").write_text("half", encoding="utf-8")
    assert len(cifar10(tmp_path / "root")) == 20
    assert not list(tmp_path.glob("*batch*"))
    assert not list((tmp_path / "root").rglob(f"*{download.UNFINISHED}")), "what a killed process left is deleted"
    assert not recwarn.list


def test_a_server_that_never_ends_is_left(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(MODULE, "SIZE", 2 * 10**6)
    with pytest.raises(ConnectionError, match="the file has 2,000,000 at most"):
        fetch(tiny, monkeypatch, tmp_path / "root", endless)


DAMAGES = {  # how the data lie there, which file is damaged, and how
    "missing": (unpack, f"{FOLDER}/data_batch_3", lambda content: None),
    "changed": (unpack, f"{FOLDER}/data_batch_3", lambda content: content[:-1] + b"?"),
    "names": (unpack, f"{FOLDER}/batches.meta", lambda content: content[:-1]),
    "archive": (put_archive, ARCHIVE, lambda content: content[:-1]),
}


@pytest.mark.parametrize(("put", "file", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_what_is_half_there_is_not_trusted(put, file, damage, tiny, tmp_path, monkeypatch):
    root = put(tiny, tmp_path / "root")
    content = (root / file).read_bytes()
    if broken := damage(content):
        (root / file).write_bytes(broken)
    else:
        (root / file).unlink()
    with pytest.raises(FileNotFoundError, match=f"{Path(file).parts[0]}, but broken or not whole"):
        cifar10(root)
    images, _ = fetch(tiny, monkeypatch, root)
    assert len(images) == 20
    assert (root / file).read_bytes() == content


def test_absent_without_a_download_it_says_where_it_looked_and_what_to_do(tiny, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        cifar10(tmp_path / "root")
    facts = [f"{tmp_path / 'root'} (nothing)", "cifar10(download=True)", "170 MB", CIFAR10.url, sha256(tiny), "Shapes("]
    assert not [fact for fact in facts if fact not in str(caught.value)], str(caught.value)
    assert not (tmp_path / "root").exists(), "looking makes no folders"


HOME = "home/.cache/vit_tutorial"
PUT = [("first", "root", "root"), ("first", None, "first"), (None, "root", "root"), (None, None, HOME)]


@pytest.mark.parametrize(("first", "root", "target"), PUT)
def test_where_it_is_put_and_looked_for(first, root, target, tiny, tmp_path, monkeypatch):
    if first:
        monkeypatch.setenv("VIT_TUTORIAL_DATA", str(tmp_path / first))
    fetch(tiny, monkeypatch, root and tmp_path / root)
    assert (tmp_path / target / ARCHIVE).is_file()
    assert len(cifar10(root and tmp_path / root, train=False)) == 6


def test_the_archive_is_the_one_that_torchvision_unpacks():
    """The tests above put their own in its place. This is the SHA-256 that Keras checks, and torchvision's md5."""
    assert MODULE.SHA256 == "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
    assert MODULE.SIZE == 170_498_071
    assert CIFAR10.tgz_md5 == "c58f30108f718f92721af3b95e74349a"
    assert CIFAR10.url.endswith(f"/{ARCHIVE}")
    assert (CIFAR10.filename, CIFAR10.base_folder) == (ARCHIVE, FOLDER)
    assert (len(CIFAR10.train_list), len(CIFAR10.test_list)) == (5, 1)
