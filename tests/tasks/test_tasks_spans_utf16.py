"""Spans that would be lost, or that were counted in UTF-16, are refused with their row."""

import json

import pytest

NAMES = ["Anna Smith", "Zoë", "Peter Parker", "李小龙"]


def write(path, emoji, *more, utf16=False):
    rows = []
    for i in range(40):
        mark, name = emoji if i % 5 == 4 else "", NAMES[i % 4]
        before = f"{mark}{'Well, ' * (i % 3)}"
        text, start = f"{before}{name} came home {mark}after {i} days.", len(before)
        units = [len(text[:at].encode("utf-16-le")) // 2 if utf16 else at for at in (start, start + len(name))]
        rows.append({"text": text, "spans": [{"start": units[0], "end": units[1], "label": "PER"}]})
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]))
    return path


@pytest.fixture
def train(in_process, tmp_path, tiny_words):
    """Training on a file: the exit status and what is said."""
    return lambda path, *words: in_process("train", path, "--out", tmp_path / "run", *tiny_words, *words)[::2]


@pytest.mark.parametrize("emoji", ["😀 ", "😀😀 ", "👩‍🚀 ", "𝔘𝔫 "])
def test_spans_counted_in_utf16_are_refused_with_their_row(emoji, tmp_path, train):
    status, err = train(write(tmp_path / "a.jsonl", emoji, utf16=True))
    assert status == 2 and "a.jsonl, line 5: " in err and "counted in UTF-16" in err and "'Anna Smith'" in err, err


def test_spans_of_characters_are_read_with_emoji_too(tmp_path, train):
    status, err = train(write(tmp_path / "a.jsonl", "😀😀 "), "--task", "token_classification", "--plan")
    assert status == 0 and "widened" not in err, err


@pytest.mark.parametrize(("start", "end", "message"), [(4, 5, "only blank space"), (5, 40, "outside the text of 16")])
def test_spans_that_hold_no_word_are_refused_or_skipped_by_row(start, end, message, tmp_path, train):
    bad = {"text": "Anna came  home.", "spans": [{"start": start, "end": end, "label": "PER"}]}
    path = write(tmp_path / "a.jsonl", "", bad)
    status, err = train(path)
    assert status == 2 and f"line 41: the span {start} to {end} (PER)" in err and message in err, err
    status, err = train(path, "--on-bad-row", "skip")
    assert status == 0 and "1 malformed row left out (line 41)" in err, err


def test_rows_with_widened_spans_are_named(tmp_path, train):
    inside = {"text": "Anna came home.", "spans": [{"start": 1, "end": 4, "label": "PER"}]}
    status, err = train(write(tmp_path / "a.jsonl", "", inside), "--plan")
    assert status == 0 and "1 span that begin or end inside a word: widened to whole words (line 41)" in err, err
