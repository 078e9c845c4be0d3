"""Damaged files of the cache, and a disk without room for it: named and made again, or one message; never used."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from faults_harness import TINY, Forker, outcome, words

AS_READ = "from headway.data.batches import cache\ncache.CHECKED_AT_ONCE = 0\n"
"""Blocks are checked when they are read, as those of a large file."""
LIMITED = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, resource.getrlimit(1)[1]))\n"
"""The system itself refuses to write more to a file (EFBIG), as a full disk does."""


def change_2000_bytes(folder: Path) -> None:
    choose = random.Random(3)
    for path in folder.glob("*.tokens"):
        content = bytearray(path.read_bytes())
        at = len(content) // 3
        content[at : at + 2000] = choose.randbytes(min(2000, len(content) - at))
        path.write_bytes(content)


def change_the_records(folder: Path) -> None:
    for path in folder.glob("*.json"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def cut(folder: Path) -> None:
    for path in folder.glob("*.tokens"):
        path.write_bytes(path.read_bytes()[:-2])


def swap(folder: Path) -> None:
    first, second = sorted(folder.glob("*.tokens"))
    held = first.read_bytes()
    first.write_bytes(second.read_bytes()), second.write_bytes(held)


@pytest.fixture(scope="module")
def alone(corpus: Path, forker: Forker, tmp_path_factory: pytest.TempPathFactory, tiny_words: list[str]) -> Path:
    """A run with a cache of its own."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "cache").mkdir()
    made = forker("train", corpus, "--out", folder / "run", *tiny_words, HEADWAY_CACHE=str(folder / "cache"))
    assert made.returncode == 0, made.stderr
    assert len(list((folder / "cache").glob("*.tokens"))) == 2
    return folder


@pytest.fixture(scope="module")
def tiny_words() -> list[str]:
    return words({**TINY, "steps": 12, "log_every": 1})


@pytest.mark.parametrize("damage", [change_2000_bytes, change_the_records, cut, swap])
def test_a_damaged_cache_is_made_again_and_changes_nothing(
    damage: Callable, alone: Path, corpus: Path, forker: Forker, tmp_path: Path, tiny_words: list[str]
):
    own = {"HEADWAY_CACHE": str(alone / "cache")}
    damage(alone / "cache")
    again = forker("train", corpus, "--out", tmp_path / "run", *tiny_words, **own)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("this cache file is damaged; it is deleted and rebuilt") == 2
    assert outcome(tmp_path / "run") == outcome(alone / "run")
    right = forker("evaluate", alone / "run", "--json", **own)
    assert right.returncode == 0 and "damaged" not in right.stderr
    damage(alone / "cache")
    found = forker("evaluate", alone / "run", "--json", **own)
    assert found.returncode == 0 and found.stderr.count("damaged") == 1
    assert found.stdout.partition("val_loss")[2] == right.stdout.partition("val_loss")[2]
    forker("train", corpus, "--out", tmp_path / "whole", *tiny_words, **own)  # leaves both files as they were


def test_damage_that_is_found_while_it_is_read_ends_the_command(
    alone: Path, corpus: Path, forker: Forker, tmp_path: Path, tiny_words: list[str]
):
    """And the same command, with the cache made again, ends as the run left alone."""
    own = {"HEADWAY_CACHE": str(alone / "cache")}
    change_2000_bytes(alone / "cache")
    for _ in range(2):  # one file, then the other
        found = forker("train", corpus, "--out", tmp_path / "run", *tiny_words, script=AS_READ, **own)
        assert found.returncode == 2 and "Traceback" not in found.stderr, found.stderr
        assert ".tokens: this cache file is damaged: block 1 of 1 has changed since it was written" in found.stderr
        assert "it was removed; run the command again." in found.stderr
    found = forker("train", corpus, "--out", tmp_path / "run", *tiny_words, script=AS_READ, **own)
    assert found.returncode == 0, found.stderr
    assert outcome(tmp_path / "run") == outcome(alone / "run")


def test_no_room_for_the_cache_is_one_message(
    alone: Path, corpus: Path, forker: Forker, tmp_path: Path, tiny_words: list[str]
):
    own = {"HEADWAY_CACHE": str(tmp_path / "cache")}
    script = LIMITED.format(bytes=900)
    for command in (("train", corpus, "--out", tmp_path / "run", *tiny_words), ("evaluate", alone / "run")):
        found = forker(*command, script=script, **own)
        assert found.returncode == 1 and "Traceback" not in found.stderr, found.stderr
        assert "the cache cannot be written (File too large)" in found.stderr and "HEADWAY_CACHE" in found.stderr
        assert list((tmp_path / "cache").iterdir()) == []
    assert forker("train", corpus, "--out", tmp_path / "run", *tiny_words, **own).returncode == 0
    assert outcome(tmp_path / "run") == outcome(alone / "run")
