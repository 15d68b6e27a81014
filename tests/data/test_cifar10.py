"""CIFAR-10 out of an archive: a tiny one, built here like the real one."""

import hashlib
import io
import tarfile

import pytest

from vit_tutorial.data import cifar10, cifar10_files

from .file_server import NOBODY, serving

ARCHIVE = "cifar-10-binary.tar.gz"


def image(number: int) -> bytes:
    """The last digit as the label, then 1024 bytes each of red (the number, but 77 second), green and blue."""
    return bytes([number % 10, number, 77]) + bytes([number]) * 1022 + bytes([100]) * 1024 + bytes([200]) * 1024


@pytest.fixture
def archive(tmp_path, monkeypatch) -> bytes:
    """5 × 4 training and 6 test images, whose SHA-256 is expected."""
    with tarfile.open(fileobj=(file := io.BytesIO()), mode="w:gz") as tar:
        batches = {f"data_batch_{i}.bin": range(4 * i - 4, 4 * i) for i in range(1, 6)}
        for name, numbers in {**batches, "test_batch.bin": range(50, 56)}.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = 3073 * len(numbers)
            tar.addfile(entry, io.BytesIO(b"".join(map(image, numbers))))
    monkeypatch.setattr(cifar10_files, "SHA256", hashlib.sha256(file.getvalue()).hexdigest())
    monkeypatch.setattr(cifar10_files, "URL", f"{NOBODY}/{ARCHIVE}")
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(tmp_path / "home"))
    return file.getvalue()


def test_images_labels_and_names_are_read_in_the_authors_order(archive, tmp_path, monkeypatch):
    with serving(archive) as (address, requests):
        monkeypatch.setattr(cifar10_files, "URL", f"{address}/{ARCHIVE}")
        train = cifar10(tmp_path, download=True)
        test = cifar10(tmp_path, train=False, download=True)
    assert requests == [f"/{ARCHIVE}"], "what is there is not fetched again"
    assert [path.name for path in tmp_path.iterdir()] == [ARCHIVE], "read, and not unpacked"
    assert (len(train), len(test)) == (20, 6)
    assert train.classes[3:6] == test.classes[3:6] == ("cat", "deer", "dog")
    assert train.labels.tolist() == [i % 10 for i in range(20)], "batches in their order"
    assert train.pixels[:, 0, 5, 5].tolist() == list(range(20)), "red is the first channel"
    assert test.pixels[3, :, 9, 0].tolist() == [53, 100, 200]
    assert test.pixels[3, 0, 0, :3].tolist() == [53, 77, 53], "rows are rows"


def test_where_it_is_looked_for_and_what_is_said_if_it_is_not_there(archive, tmp_path):
    path = tmp_path / "home/.cache/vit_tutorial" / ARCHIVE
    path.parent.mkdir(parents=True)
    path.write_bytes(archive)
    assert len(cifar10(train=False)) == 6
    with pytest.raises(FileNotFoundError, match=rf"no {ARCHIVE} in .*root, or a broken one: .*\(170 MB\)"):
        cifar10(tmp_path / "root")
    assert not (tmp_path / "root").exists(), "looking makes no folders"
