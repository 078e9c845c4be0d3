"""The demo on a handful of files: what it makes, what it leaves alone, and that it resumes or starts over."""

import csv
import json

import pytest
from click.testing import CliRunner

from headway.cli import demo as module
from headway.cli.demo import MARKER, PARTS, command, demo, report
from headway.errors import InputError
from headway.io.atomic_write import write_json

MODULE = '''"""What this module does is said here, in a sentence or two, for whoever reads it."""


def name_{i}(self, other):
    """Return the name of {i} and of the other, one after the other, with a space between."""
    first_{i} = self.name[{i}] + other.name({i})
    return first_{i} + " " + str(other.number - {i})
'''


ASKED = {"made_by": module.MADE_BY, "time": "5s", "seed": 0, "finished": False}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    for i in range(61):
        (folder / f"m{i}.py").write_text(MODULE.format(i=i))
    return folder


@pytest.fixture(scope="module")
def made(source, tmp_path_factory):
    place = tmp_path_factory.mktemp("demo")
    return place, demo(place / "out", "5s", quiet=True, folder=source)


def test_every_part_is_trained_and_shown(made):
    place, found = made
    assert [run["task"] for run in found] == ["language_modeling", "language_modeling", "classification", "translation"]
    for part, run in zip(PARTS, found, strict=True):
        assert (place / "out" / part.name / "model.safetensors").exists()
        assert run["report"] == str(place / "out" / part.name / "report.html")
        assert (place / "out" / part.name / "report.html").exists()
        assert len(run["samples"]) == len(part.prompts)
        assert run["baselines"] and run["seconds"] > 0
        assert all((place / "out" / name).exists() for name in part.makes)
    assert {sample["label"] for sample in found[2]["samples"]} <= {"fine", "slip"}
    assert found[3]["samples"][0]["alignment"]["source"] == list("Friday,3Mar1911")
    assert json.loads((place / "out" / MARKER).read_text())["finished"] is True
    with (place / "out" / "slips.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["line", "label"] and len(rows) > 61
    text = (place / "out" / "docs.txt").read_text() + (place / "out" / "docs-held-out.txt").read_text()
    assert text.count("whoever reads it") == 61


def test_the_report_is_short_and_names_what_was_measured(made):
    place, found = made
    lines = report(found, place / "out")
    assert len(lines) <= 28
    text = "\n".join(lines)
    assert "bigram" in text and ("linear model" in text or "majority" in text)
    assert f"headway explain {place}/out/code" in text


def test_parts_that_are_complete_are_not_made_again(made, source):
    place, found = made
    write_json(place / "out" / MARKER, ASKED)
    before = (place / "out" / "code" / "log.jsonl").read_text()
    assert demo(place / "out", "5s", quiet=True, folder=source) == found
    assert (place / "out" / "code" / "log.jsonl").read_text() == before


def test_a_finished_demo_starts_over_and_touches_nothing_else(made):
    place, _ = made
    out = place / "out"
    (out / "mine.txt").write_text("mine")
    module._make_room(out, ASKED, str)
    assert sorted(path.name for path in out.iterdir()) == [MARKER, "mine.txt"]
    assert json.loads((out / MARKER).read_text())["finished"] is False


def test_a_stopped_demo_goes_on(tmp_path):
    said = []
    module._make_room(tmp_path / "new", ASKED, said.append)
    (tmp_path / "new" / "docs.txt").write_text("kept")
    module._make_room(tmp_path / "new", ASKED, said.append)
    assert (tmp_path / "new" / "docs.txt").exists() and "resuming" in said[0]
    module._make_room(tmp_path / "new", {**ASKED, "seed": 1}, said.append)
    assert not (tmp_path / "new" / "docs.txt").exists() and "starting over" in said[1]


def test_a_folder_of_someone_else_is_left_alone(tmp_path):
    (tmp_path / "docs.txt").write_text("mine")
    (tmp_path / MARKER).write_text('{"made_by": "me"}')
    done = CliRunner().invoke(command, ["--out", str(tmp_path), "--time", "5s"])
    assert isinstance(done.exception, InputError) and "not from a demo" in str(done.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER, "docs.txt"]
    with pytest.raises(InputError, match="--time"):
        demo(tmp_path / "new", "soon")
    assert not (tmp_path / "new").exists()


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    module._remove(tmp_path / "link")
    assert (tmp_path / "kept").is_dir() and not (tmp_path / "link").exists()


def test_no_line_says_how_a_line_ends(source, tmp_path, capsys, monkeypatch):
    """A line break within what is said would be shown as its escape."""
    monkeypatch.setattr(module, "PARTS", PARTS[2:3])
    demo(tmp_path / "out", "2s", folder=source)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["", f"1/1  {PARTS[2].says}"] and not [line for line in lines if "\\n" in line]
