"""Two files, line by line."""

import gzip
import random
from pathlib import Path

import pytest

from headway.data.formats.aligned import first_unpaired, read_aligned, sides_of
from headway.errors import InputError


def write(path: Path, *texts: str) -> Path:
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    return path


def test_lines_stand_side_by_side_whatever_they_hold(tmp_path: Path):
    texts = ["one\u2028two", "a\x0bb\x1cc\x85d", "", "\ufeffnot at the begin", 'with, "quotes', "end\r"]
    first = write(tmp_path / "t.en", *texts)
    second = write(tmp_path / "t.de", *(str(i) for i in range(6)))
    found = read_aligned(first, second)
    assert found.column("source") == [*texts[:3], "not at the begin", texts[4], "end"]
    assert found.column("target") == [str(i) for i in range(6)]
    assert list(found.row_numbers) == [1, 2, 3, 4, 5, 6]


def test_packed_files_and_a_last_line_without_its_end(tmp_path: Path):
    (tmp_path / "t.en.gz").write_bytes(gzip.compress(b"a\nb"))
    (tmp_path / "t.de").write_bytes(b"x\ny\n")
    found = read_aligned(tmp_path / "t.en.gz", tmp_path / "t.de")
    assert found.rows == [{"source": "a", "target": "x"}, {"source": "b", "target": "y"}]
    other = read_aligned(tmp_path / "t.de", tmp_path / "t.en.gz")
    assert other.fingerprint != found.fingerprint


@pytest.mark.parametrize("missing", [7, 113, 380])
@pytest.mark.parametrize("side", ["source", "target"])
def test_where_a_line_is_missing_is_found(missing: int, side: str, tmp_path: Path):
    choose = random.Random(5)
    first = ["x" * choose.randint(5, 200) for _ in range(401)]
    second = ["y" * round(len(line) * choose.uniform(1.0, 1.3)) for line in first]
    del (first if side == "source" else second)[missing]
    with pytest.raises(InputError, match=r"t\.en has 40[01] lines, .*t\.de has 40[01]") as raised:
        read_aligned(write(tmp_path / "t.en", *first), write(tmp_path / "t.de", *second))
    said = int(str(raised.value).rsplit(" ", 1)[1].rstrip("."))
    assert abs(said - missing) <= 3


def test_the_place_of_parting_is_a_line_of_the_file():
    assert first_unpaired([], [5]) == 1
    assert first_unpaired([3, 9, 4], [3, 9, 4, 7]) == 4
    assert first_unpaired([3, 9, 4], [20, 3, 9, 4]) == 1


def test_one_file_twice_and_empty_ones_are_refused(tmp_path: Path):
    path = write(tmp_path / "t.en", "a")
    with pytest.raises(InputError, match="is given for both sides"):
        read_aligned(path, path)
    with pytest.raises(InputError, match=r"t\.de, line 2: a NUL byte"):
        read_aligned(write(tmp_path / "n.en", "a", "b"), write(tmp_path / "t.de", "word " * 40, "d\0"))


NAMES = {
    ("train.en", "train.de"): True,
    ("train.en.gz", "train.de.gz"): True,
    ("en.txt", "de.txt"): True,
    ("train_src.txt", "train_tgt.txt"): True,
    ("news.zh-cn", "news.en"): True,
    ("train.pt_BR", "train.en_US"): True,
    ("dev.eng_Latn", "dev.rus_Cyrl"): True,
    ("zh_Hans.txt", "en.txt"): True,
    ("q.question", "q.answer"): True,
    ("train.english", "train.quechua"): True,
    ("train.eng", "train.quy"): False,  # that could be anything; they are asked for where they have as many lines
    ("my_data.txt", "my_text.txt"): False,
    ("a.text", "a.source"): False,
    ("one.txt", "two.txt"): False,
    ("a.de", "b.en"): False,
    ("chapter1.txt", "chapter2.txt"): False,
    ("notes.txt", "letters.txt"): False,
    ("train.en", "valid.de"): False,
    ("a.csv", "b.csv"): False,
    ("train.txt", "train.md"): False,
}


@pytest.mark.parametrize("names", NAMES, ids=" ".join)
def test_names_of_two_sides(names: tuple[str, str]):
    assert (sides_of(names) is not None) is NAMES[names]
