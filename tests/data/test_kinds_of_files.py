"""Files of the kinds that people have: what is found, asked about or refused, and the table of it in docs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kinds_of_files import ASKED, FOUND, KINDS, Kind, markdown

from headway.errors import InputError
from headway.training.options import TrainOptions
from headway.workflows.input import read_input

PAGE = Path(__file__).parents[2] / "docs" / "kinds_of_files.md"


def paths(kind: Kind, folder: Path) -> list[str]:
    written = kind.write(folder)
    return [str(written)] if isinstance(written, Path) else [str(path) for path in written]


@pytest.mark.parametrize("name", KINDS)
def test_what_is_in_a_file_is_found_asked_about_or_refused(name: str, tmp_path: Path):
    kind = KINDS[name]
    given: dict[str, str] = {}
    for option, value in zip(kind.options[::2], kind.options[1::2], strict=True):
        name = option.removeprefix("--").replace("-", "_")
        given[name] = f"{given[name]},{value}" if name in given else value
    options = TrainOptions().but(**given)
    inputs = paths(kind, tmp_path)
    if kind.answer != FOUND:
        with pytest.raises(InputError) as caught:
            read_input(inputs, options)
        said = str(caught.value)
        assert all(word in said for word in kind.shown), said
        return
    _, found = read_input(inputs, options)
    assert found.task == kind.shown[0], found
    assert {role: getattr(found, role) for role in kind.columns} == kind.columns
    assert all(word in " ".join(found.reasons) for word in kind.said), found.reasons


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_the_command_says_so(name: str, tmp_path: Path, in_process: Callable):
    kind, small = KINDS[name], ("--preset", "tiny", "--steps", "2", "--threads", "1", "--precision", "float32")
    status, out, err = in_process("train", *paths(kind, tmp_path), "--plan", "--json", *kind.options, *small)
    if kind.answer == FOUND:
        assert status == 0 and json.loads(out)["task"] == kind.shown[0], err
    else:
        assert status == 2 and all(word in err for word in kind.shown) and "Traceback" not in err, err
        assert (" --" in err) or kind.answer != ASKED


def test_a_folder_whose_texts_are_all_equal_is_one_message(tmp_path: Path):
    for place in ("pos/1.txt", "pos/2.txt", "neg/1.txt", "neg/2.txt"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("the same text\n")
    with pytest.raises(InputError, match="--text-column"):
        read_input([str(tmp_path)], TrainOptions())


def test_the_page_has_the_table():
    assert markdown() in PAGE.read_text(encoding="utf-8")
    assert len(KINDS) >= 60
