"""Spans that would be lost, or that were counted in UTF-16, are refused with their row."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

NAMES = ["Anna Smith", "Zoë", "Peter Parker", "李小龙"]


def sentence(i: int, emoji: str = "") -> tuple[str, str, int]:
    """A text, the name in it, and where that begins."""
    before = f"{emoji}{'Well, ' * (i % 3)}"
    return f"{before}{NAMES[i % 4]} came home {emoji}after {i} days.", NAMES[i % 4], len(before)


def write(path: Path, count: int, emoji: str, *, utf16: bool, more: tuple[dict, ...] = ()) -> Path:
    rows: list[dict] = []
    for i in range(count):
        text, name, start = sentence(i, emoji if i % 5 == 4 else "")
        units = [len(text[:at].encode("utf-16-le")) // 2 if utf16 else at for at in (start, start + len(name))]
        rows.append({"text": text, "spans": [{"start": units[0], "end": units[1], "label": "PER"}]})
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]))
    return path


@pytest.mark.parametrize("emoji", ["😀 ", "😀😀 ", "👩‍🚀 ", "𝔘𝔫 "])
def test_spans_counted_in_utf16_are_refused_with_their_row(
    emoji: str, tmp_path: Path, in_process: Callable, tiny_words: list[str]
):
    path = write(tmp_path / "a.jsonl", 40, emoji, utf16=True)
    status, _, err = in_process("train", path, "--out", tmp_path / "run", *tiny_words)
    assert status == 2 and "a.jsonl, line 5: " in err and "counted in UTF-16" in err and "'Anna Smith'" in err, err


def test_spans_of_characters_are_read_with_emoji_too(tmp_path: Path, in_process: Callable, tiny_words: list[str]):
    path = write(tmp_path / "a.jsonl", 40, "😀😀 ", utf16=False)
    words = ["train", path, "--task", "token_classification", "--out", tmp_path / "run", *tiny_words, "--plan"]
    status, _, err = in_process(*words)
    assert status == 0 and "widened" not in err, err


@pytest.mark.parametrize(("start", "end", "message"), [(4, 5, "only blank space"), (5, 40, "outside the text of 16")])
def test_spans_that_hold_no_word_are_refused_or_skipped_by_row(
    start: int, end: int, message: str, tmp_path: Path, in_process: Callable, tiny_words: list[str]
):
    bad = {"text": "Anna came  home.", "spans": [{"start": start, "end": end, "label": "PER"}]}
    path = write(tmp_path / "a.jsonl", 40, "", utf16=False, more=(bad,))
    words = ["train", path, "--out", tmp_path / "run", *tiny_words]
    status, _, err = in_process(*words)
    assert status == 2 and f"line 41: the span {start} to {end} (PER)" in err and message in err, err
    status, _, err = in_process(*words, "--on-bad-row", "skip")
    assert status == 0 and "1 malformed row left out (line 41)" in err, err


def test_rows_with_widened_spans_are_named(tmp_path: Path, in_process: Callable, tiny_words: list[str]):
    inside = {"text": "Anna came home.", "spans": [{"start": 1, "end": 4, "label": "PER"}]}
    path = write(tmp_path / "a.jsonl", 40, "", utf16=False, more=(inside,))
    status, _, err = in_process("train", path, "--out", tmp_path / "run", *tiny_words, "--plan")
    assert status == 0 and "1 span that begin or end inside a word: widened to whole words (line 41)" in err, err
