"""SHA-256 of files: as hashlib says, in little memory."""

import hashlib
import tracemalloc
from pathlib import Path

from headway.io.regular_file import add_file, open_regular, sha256, sha256_of


def test_the_sha256_of_a_file_is_that_of_its_bytes(tmp_path: Path):
    path = tmp_path / "file"
    for content in (b"", b"abc", bytes(range(251)) * 4999):
        path.write_bytes(content)
        assert sha256(path) == hashlib.sha256(content).hexdigest()
        with open_regular(path) as file:  # unbuffered
            file.seek(2)
            assert sha256_of(file) == hashlib.sha256(content[2:]).hexdigest()
        digest = hashlib.sha256(b"before")
        with open_regular(path) as file:
            add_file(digest, file)
        assert digest.hexdigest() == hashlib.sha256(b"before" + content).hexdigest()


def test_a_large_file_is_not_held_in_memory(tmp_path: Path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(97 << 20)
    tracemalloc.start()
    sha256(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
