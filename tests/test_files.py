"""A path as a reader types it, and a file that is whole or not there."""

import errno
import os
from pathlib import Path

import pytest

from vit_tutorial.files import as_path, write_atomically


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "note.txt"
    write_atomically(path, b"old")
    (tmp_path / "note.txt.unfinished").write_bytes(b"what a killed process left")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows knows no limit on the size of a file")
def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    """A real write that really fails, half way through the file, as on a full disk."""
    import resource

    write_atomically(path := tmp_path / "note.txt", b"old")
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, most))
    try:
        with pytest.raises(OSError, match=r"note\.txt'$") as error:
            write_atomically(path, bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    assert error.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("unchecked")
def test_a_path_begins_at_home_where_it_says_so():
    assert as_path("root", "~/pets") == Path.home() / "pets"
    assert as_path("root", Path("pets")) == Path("pets")
    for wrong in ("", None, 3, b"pets", ["pets"]):
        with pytest.raises(ValueError, match="root must be a path, got"):
            as_path("root", wrong)
