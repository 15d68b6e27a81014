"""A file over a network: checked before it gets its name; all of it arrives, or nothing."""

import hashlib

import pytest

from vit_tutorial.data.download import fetch

from .file_server import NOBODY, serving

CONTENT = bytes(range(256)) * 10
SHA256 = hashlib.sha256(CONTENT).hexdigest()


# What arrives instead of the file, and how much more the server announces.
FAILURES = {
    "cut off": (CONTENT[:1000], len(CONTENT)),
    "another file": (CONTENT[::-1], None),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_download_that_fails_says_the_way_out_and_leaves_nothing(case, tmp_path):
    path, (content, announced) = tmp_path / "file.bin", FAILURES[case]
    with serving(content, announced) as (address, _), pytest.raises(ConnectionError) as caught:
        fetch(f"{address}/file.bin", path, SHA256, 3)
    facts = ["no file.bin in", str(tmp_path), f"fetch {address}/file.bin by hand", "3 MB", SHA256]
    assert not [fact for fact in facts if fact not in str(caught.value)], str(caught.value)
    assert caught.value.__suppress_context__, "one error, not two"
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_is_not_trusted_and_not_lost_without_a_better_one(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"something else")
    with pytest.raises(FileNotFoundError, match="or a broken one: download=True, or --download, fetches it"):
        fetch(f"{NOBODY}/file.bin", path, SHA256, 3, download=False)
    with pytest.raises(ConnectionError, match="or a broken one, and fetching failed"):
        fetch(f"{NOBODY}/file.bin", path, SHA256, 3)
    assert path.read_bytes() == b"something else"
    with serving(CONTENT) as (address, _):
        fetch(f"{address}/file.bin", path, SHA256, 3)
    assert path.read_bytes() == CONTENT
