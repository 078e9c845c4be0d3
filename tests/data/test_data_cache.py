"""The token cache: right, small in memory, used again, rebuilt when damaged."""

import json
import random
import stat
import threading
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

from headway.data.batches import cache
from headway.data.batches import tokens as tokens_module
from headway.data.batches.cache import cache_key, tokenised
from headway.data.batches.tokens import BLOCK, TokenFile
from headway.errors import InputError
from headway.io.file_lock import cache_directory

CALLS = []


def encode(texts: list[str], continued: bool = False) -> list[list[int]]:
    CALLS.append(len(texts))
    return [list(text.encode("utf-8")) for text in texts]


def build(chunks, directory: Path, key: str = "k", **options) -> TokenFile:
    options = {"end_of_text": 256, "vocab_size": 257, "encode": encode, **options}
    return tokenised(chunks, key=key, directory=directory, **options)


@pytest.mark.parametrize(
    "chunks, expected",
    [
        ([("ab", False), ("c", True)], [97, 98, 99]),
        ([("ab", True), ("c", True)], [97, 98, 256, 99, 256]),
        ([("ab", True), ("c", False)], [97, 98, 256, 99]),
        ([("ab", False), ("", True), ("c", True)], [97, 98, 256, 99, 256]),
        ([("ab", False)], [97, 98]),
    ],
)
def test_end_of_text_goes_between_documents(tmp_path, chunks, expected):
    assert build(chunks, tmp_path).tolist() == expected
    assert build(chunks, tmp_path, "none", end_of_text=None).tolist() == [i for i in expected if i != 256]


def test_long_chunks_are_cut_and_joined(tmp_path):
    text = "".join(f"line {i} ends\n" for i in range(20_011))
    tokens = build([(text[:100_003], False), (text[100_003:], True), ("é" * 40_009, True)], tmp_path)
    assert tokens.dtype == np.uint16
    expected = [*text.encode(), 256, *("é" * 40_009).encode(), 256]
    assert np.array_equal(tokens, expected)


def test_width_of_ids(tmp_path):
    wide = build(
        [("ab", True)], tmp_path, encode=lambda texts, continued=False: [[65_536] for _ in texts], vocab_size=65_537
    )
    assert wide.dtype == np.uint32 and wide.tolist() == [65_536]
    with pytest.raises(ValueError, match="vocabulary has 97"):
        build([("ab", True)], tmp_path, "small", vocab_size=97)
    with pytest.raises(ValueError, match="key"):
        build([("ab", True)], tmp_path, "../up")
    with pytest.raises(InputError, match="no text"):
        build([], tmp_path, "empty")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["k.json", "k.tokens"]


def test_reused_until_damaged(tmp_path):
    def never():
        raise AssertionError("the cache was not used")
        yield

    first = build([("hello", True)], tmp_path)
    again = build(never(), tmp_path)
    assert isinstance(again, TokenFile) and not again[1:3].flags.writeable
    assert (len(again), again[-1], again[1:-1].tolist()) == (5, ord("o"), list(b"ell"))
    with pytest.raises(IndexError):
        again[5]
    assert np.array_equal(first, again)
    first = first.tolist()

    def change(name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)

    record = (tmp_path / "k.json").read_bytes()
    damages = {
        "truncated": lambda: change("k.tokens", b"123"),
        "another size": lambda: change("k.tokens", b"h\0e\0l\0l\0o\0o\0"),
        "changed": lambda: change("k.tokens", b"h\0e\0l\0l\0a\0"),
        "no tokens": lambda: (tmp_path / "k.tokens").unlink(),
        "no facts": lambda: (tmp_path / "k.json").unlink(),
        "bad facts": lambda: change("k.json", b"["),
        "facts of another kind": lambda: change("k.json", b"[1]"),
        "other facts": lambda: change("k.json", record.replace(b'"count": 5', b'"count": 4')),
        "other sums": lambda: change("k.json", record.replace(b'"sums": "', b'"sums": "00')),
        "an older version": lambda: change("k.json", json.dumps({"version": 1, "key": "k", "count": 5}).encode()),
    }
    silent = ("no tokens", "no facts", "an older version")  # of which nothing is damaged
    for damage, do in damages.items():
        do()
        calls = len(CALLS)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert build([("hello", True)], tmp_path).tolist() == first, damage
        assert len(CALLS) == calls + 1, damage
        expected = f"{tmp_path / 'k.tokens'}: this cache file is damaged; it is deleted and rebuilt"
        assert [str(one.message) for one in said if one.category is UserWarning] == (
            [] if damage in silent else [expected]
        ), damage


def many(count: int = 400_009) -> list[tuple[str, bool]]:
    """Text whose tokens are several blocks, none like another."""
    return [("".join(chr(97 + (i * i + i // 7) % 26) for i in range(count)), True)]


@pytest.mark.parametrize("at_once", [1 << 26, 0], ids=["small", "large"])
def test_every_changed_bit_is_found_before_its_token_is_used(tmp_path, monkeypatch, at_once):
    """A small file is checked when it is opened and made again; a large one where it is read."""
    monkeypatch.setattr(cache, "CHECKED_AT_ONCE", at_once)
    good = np.array(build(many(), tmp_path))
    whole = (tmp_path / "k.tokens").read_bytes()
    record = (tmp_path / "k.json").read_bytes()
    choose = random.Random(3)
    for at in (0, len(whole) - 1, BLOCK - 1, BLOCK, *(choose.randrange(len(whole)) for _ in range(30))):
        changed = bytearray(whole)
        changed[at] ^= 1 << choose.randrange(8)
        (tmp_path / "k.tokens").write_bytes(changed), (tmp_path / "k.json").write_bytes(record)
        if at_once:
            with pytest.warns(UserWarning, match="damaged; it is deleted and rebuilt"):
                assert np.array_equal(build(many(), tmp_path), good)
            continue
        tokens = build([], tmp_path)
        for start in range(0, len(good), 60_013):  # every window elsewhere is right
            part = slice(start, start + 50_021)
            begin, end = 2 * part.start // BLOCK, -(-2 * min(part.stop, len(good)) // BLOCK)
            if begin <= at // BLOCK < end:
                with pytest.raises(InputError, match=r"k\.tokens: this cache file is damaged: block .* removed"):
                    tokens[part]
            else:
                assert np.array_equal(tokens[part], good[part])
        assert not (tmp_path / "k.tokens").exists()


def test_files_of_two_texts_that_are_swapped(tmp_path):
    one, two = np.array(build(many(), tmp_path, "one")), np.array(build([(many()[0][0][::-1], True)], tmp_path, "two"))
    for ending in ("tokens", "json", "both"):
        for name in ("tokens", "json") if ending == "both" else (ending,):
            first, second = (tmp_path / f"{key}.{name}" for key in ("one", "two"))
            held = first.read_bytes()
            first.write_bytes(second.read_bytes()), second.write_bytes(held)
        with pytest.warns(UserWarning, match="damaged"):
            assert np.array_equal(build(many(), tmp_path, "one"), one)
        with pytest.warns(UserWarning, match="damaged"):
            assert np.array_equal(build([(many()[0][0][::-1], True)], tmp_path, "two"), two)


def test_blocks_are_checked_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CHECKED_AT_ONCE", 0)
    tokens, calls = build(many(), tmp_path), []
    honest = tokens_module.first_damaged
    monkeypatch.setattr(
        tokens_module, "first_damaged", lambda data, sums: calls.append(len(sums)) or honest(data, sums)
    )
    for start in [*range(0, 400_009, 101), *range(0, 400_009, 997)]:
        assert len(tokens[start : start + 89])
    assert len(tokens._sums) == 13 <= sum(calls) < 2 * 13  # a block whose neighbour is new is read again with it


def test_a_file_that_is_cut_short_while_it_is_read(tmp_path):
    tokens = build([("hello", True)], tmp_path)
    (tmp_path / "k.tokens").write_bytes(b"123")
    with pytest.raises(InputError, match=r"k\.tokens: this cache file is damaged: it is shorter than it was"):
        tokens[1:3]


def test_failed_writer_leaves_nothing(tmp_path):
    def broken():
        yield "x" * 1_000_003, False
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        build(broken(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_writers_at_the_same_time(tmp_path):
    chunks = [(f"document {i} " * 101, True) for i in range(307)]
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(build(chunks, tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert all(np.array_equal(results[0], other) for other in results)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.json", "k.tokens"]


def test_memory_is_bounded(tmp_path):
    def stream():
        for i in range(23):
            yield f"{i} is a line of this long text\n" * 32_003, i == 22

    tracemalloc.start()
    tokens = build(stream(), tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(tokens) > 20_000_000
    assert peak < 16_000_000


def test_key_depends_on_every_part():
    assert cache_key("a", "bc") == cache_key("a", "bc")
    assert len({cache_key("a", "bc"), cache_key("ab", "c"), cache_key("abc"), cache_key("a", "bc", 1)}) == 4


def test_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine"
    monkeypatch.delenv("HEADWAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "headway"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fallback = cache_directory()
    assert fallback.parent == tmp_path and fallback.is_dir()
    assert stat.S_IMODE(fallback.stat().st_mode) == 0o700
    assert cache_directory() == fallback
