"""Rows have the number that a spreadsheet shows, in text files that of the line, in frames the label of the index."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest

import headway

ROWS = [(f"the {'cat' if i % 2 else 'dog'} number {i}", "pos" if i % 2 else "neg") for i in range(60)]


def written(path: Path, bad: str) -> Path:
    """A cell of three lines in row 2 and a blank line as row 3; ``bad`` is row 4, as a spreadsheet shows it."""
    rows = "".join(f"{text},{label}\n" for text, label in ROWS)
    path.write_text(f'text,label\n"one\ntwo\nthree",pos\n\n{bad}\n{rows}')
    return path


@pytest.mark.parametrize(
    ("bad", "words"), [("alone", "a.csv, row 4: this row has 1 field"), ("no label,", "no label in .* \\(row 4\\)")]
)
def test_a_row_of_a_csv_has_the_number_of_a_spreadsheet(
    bad: str, words: str, tmp_path: Path, in_process: Callable, tiny: dict
):
    path = written(tmp_path / "a.csv", bad)
    with pytest.raises(headway.InputError, match=words):
        headway.train(path, out=tmp_path / "run", **tiny)
    status, _, err = in_process(
        "train", path, "--out", tmp_path / "run", "--steps", 1, "--on-bad-row", "skip", "--plan"
    )
    assert status == 0 and "row 4" in err and "line" not in err.partition("left out")[2].partition("\n")[0], err


def test_a_line_of_a_jsonl_has_the_number_of_its_line(tmp_path: Path, tiny: dict):
    rows = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    (tmp_path / "a.jsonl").write_text("\n".join([rows[0], "", "nothing", *rows[1:]]))
    with pytest.raises(headway.InputError, match=r"a\.jsonl, line 3"):
        headway.train(tmp_path / "a.jsonl", out=tmp_path / "run", **tiny)


@pytest.mark.parametrize("index", [range(100, 160), [f"id-{i}" for i in range(60)]])
def test_a_row_of_a_frame_has_the_label_of_its_index(index, tmp_path: Path, tiny: dict):
    frame = pandas.DataFrame(ROWS, columns=["text", "label"], index=index)
    frame.loc[index[7], "label"] = None
    for one in (frame, frame.rename_axis("key")):
        with pytest.raises(headway.InputError, match=rf"no label in column 'label' \(index {index[7]}\)"):
            headway.train(one, out=tmp_path / "run", **tiny, text_column="text", label_column="label")
    with pytest.raises(headway.InputError, match=r"no label in column 'label' \(index 7\)"):
        headway.train(frame.to_dict("records"), out=tmp_path / "run", **tiny)
