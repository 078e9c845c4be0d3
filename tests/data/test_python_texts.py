"""Texts from a folder of Python files: what is taken, what is left out, and that labels differ by order alone."""

import random
from collections import Counter

import pytest

from headway.data.samples import documentation, exchanged, lines_with_slips, source_code, source_files
from headway.errors import InputError

MODULE = '''"""A module of which the documentation says what it is for."""

import os


class Thing:
    """A thing that has a name and can be asked for it, at any time."""

    def name(self, prefix):
        "short"
        return prefix + self.first_name
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pydoc_data").mkdir()
    (tmp_path / "pydoc_data" / "topics.py").write_text("topics = {'a': 'All about the letter a.', 'b': 'And b.'}\n")
    (tmp_path / "one.py").write_text("# about the file\n" + MODULE)
    for name in ("test", "site-packages", "idlelib"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hidden.py").write_text("hidden = hidden + hidden * hidden\n")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken.py").write_text("def broken(:\n")
    (tmp_path / "many.py").write_text("".join(f"value_{i} = first_{i} + second_{i} * third\n" for i in range(41)))
    return tmp_path


def test_files_without_tests_in_an_order_by_seed(folder):
    names = [path.name for path in source_files(folder)]
    assert sorted(names) == ["binary.py", "broken.py", "many.py", "one.py"]
    assert names == [path.name for path in source_files(folder)]
    assert any(names != [path.name for path in source_files(folder, seed=s)] for s in range(1, 7))


def test_code_is_whole_files_up_to_a_size(folder):
    assert MODULE.strip() in source_code(10**6, folder=folder)
    assert "hidden" not in source_code(10**6, folder=folder) and "about the file" not in source_code(
        10**6, folder=folder
    )
    sizes = [len(source_code(n, folder=folder)) for n in (1, 10**6)]
    assert 0 < sizes[0] < sizes[1]


def test_documentation_is_topics_and_docstrings(folder):
    text = documentation(10**6, folder=folder)
    for part in ("All about the letter a.", "And b.", "says what it is for.", "asked for it, at any time."):
        assert text.count(part) == 1
    assert "return" not in text and "short" not in text and "class" not in text
    assert "letter a" in documentation(1, folder=folder)


def test_topics_may_be_missing(folder):
    (folder / "pydoc_data" / "topics.py").unlink()
    assert documentation(10**6, folder=folder).startswith("A module of which")


def test_a_slip_changes_the_order_alone(folder):
    rows = lines_with_slips(1000, folder=folder)
    assert len(rows) == len({text for text, _ in rows}) == 43  # the lines of many.py and two of one.py
    assert sorted(Counter(label for _, label in rows).values()) == [21, 22]
    originals = {f"value_{i} = first_{i} + second_{i} * third" for i in range(41)}
    originals |= {"return prefix + self . first_name", "def name ( self , prefix ) :"}
    by_tokens = {tuple(sorted(line.split())): line for line in originals}
    for text, label in rows:
        assert (text in originals) == (label == "fine")
        assert by_tokens.pop(tuple(sorted(text.split())))  # each line once, in one of the two ways
    assert rows == lines_with_slips(1000, folder=folder)
    assert rows != lines_with_slips(1000, folder=folder, seed=1)


def test_two_tokens_that_differ_are_exchanged():
    line = ("a", "A", "(", "b")
    for seed in range(20):
        found = exchanged(line, random.Random(seed))
        assert sorted(found) == sorted(line)
        moved = [i for i in range(4) if found[i] != line[i]]
        assert len(moved) == 2 and moved != [0, 1]
    assert exchanged(("a", "A"), random.Random(0)) == ("a", "A")


@pytest.mark.parametrize(
    "statement",
    [
        "import a, b, c, d",
        "@cached(a, b, c)",
        "x = f'{a}' + b * c",
        "x = rf'{a}' + b * c",
        "x = (a +\n     b * c)",
        "x = 1",
        "x = " + " + ".join("abcdefghijklmnop"),
        "x = a + b * 'far too long to stand in a line of this kind'",
    ],
)
def test_lines_that_make_no_row(tmp_path, statement):
    (tmp_path / "a.py").write_text("".join(f"y{i} = a{i} + b * c\n" for i in range(23)) + statement + "\n")
    assert len(lines_with_slips(100, folder=tmp_path)) == 23


def test_nothing_to_read(tmp_path):
    for function in (source_code, documentation):
        with pytest.raises(InputError, match="no Python source"):
            function(100, folder=tmp_path)
    with pytest.raises(InputError, match="expected 20 or more"):
        lines_with_slips(100, folder=tmp_path)


def test_this_python_has_enough():
    assert len(source_code(20_000)) >= 20_000
    assert len(documentation(20_000)) >= 20_000
    rows = lines_with_slips(600)
    assert len(rows) > 500 and abs(sum(label == "slip" for _, label in rows) - len(rows) / 2) < 2
