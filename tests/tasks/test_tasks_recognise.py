"""Every task recognises its own data, and a task outside the package by the rules that all share."""

from pathlib import Path

import pytest
from held_tables import table

from headway.data.images.image_table import image_table
from headway.data.open.columns import ALIGNED, CONVERSATIONS, IMAGES, TABLE, TEXT
from headway.data.open.read import read
from headway.errors import InputError
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import Recogniser
from headway.tasks.registry import NAMES, named, recogniser, values
from headway.workflows import input as tasks_detect
from headway.workflows.input import detect


def reviews(*columns):
    rows = [
        {"text": f"a long review of lamp {i}", "label": "ab"[i % 2], "stars": str(i % 3), "note": f"seen by {i}"}
        for i in range(20)
    ]
    rows = [{**row, "sort": row["label"], "kind": row["stars"]} for row in rows]
    return table([{name: row[name] for name in columns} for row in rows], columns, Path("made.csv"))


@pytest.fixture()
def outside(monkeypatch):
    """A task of another package, called "stars"."""
    ours = Recogniser("stars")
    monkeypatch.setattr(tasks_detect, "NAMES", (*NAMES, "stars"))
    monkeypatch.setattr(tasks_detect, "named", lambda value: value if value == "stars" else named(value))
    monkeypatch.setattr(tasks_detect, "recogniser", lambda name: ours if name == "stars" else recogniser(name))
    return ours


def test_another_task_gets_text_and_label_by_the_common_rules(outside, tmp_path):
    found = detect(reviews("text", "stars"), task="stars")
    assert (found.task, found.text_column, found.label_column) == ("stars", "text", "stars")
    assert "text" in found.reasons[0] and "stars" in found.reasons[1] and found.reasons[2] == "task: stars, as asked"
    found = detect(reviews("text", "label", "stars", "note"), task="stars", text_column="note", label_column="stars")
    assert (found.text_column, found.label_column) == ("note", "stars")
    assert detect(reviews("text", "note"), task="stars", text_column="text").label_column is None
    path = tmp_path / "notes.txt"
    path.write_text("one\ntwo\n")
    assert detect(read(path), task="stars").text_column is None


def test_another_task_is_chosen_only_where_it_is_named(outside):
    assert detect(reviews("text", "stars")).task == "ratings"


def test_another_task_says_what_is_unclear_as_ours_do(outside):
    with pytest.raises(InputError, match=r"no column 'sters'; found: text, stars. Did you mean 'stars'"):
        detect(reviews("text", "stars"), task="stars", label_column="sters")
    with pytest.raises(InputError, match=r"several columns could be the label: 'sort', 'kind'. Choose one"):
        outside.columns(DataFacts(reviews("text", "sort", "kind"), asked="stars"))
    with pytest.raises(InputError, match="holds images, which are data for image_classification, not for stars"):
        detect(some_images(), task="stars")


def some_images():
    return image_table(Path("folder"), [("a.png", "cat"), ("b.png", "dog")], [(7, 11), (13, 11)], "")


def test_shapes(tmp_path):
    path = tmp_path / "chat.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n')
    assert DataFacts(read(path)).shape == CONVERSATIONS and DataFacts(some_images()).shape == IMAGES
    assert DataFacts(reviews("text", "label")).shape == TABLE
    path = tmp_path / "notes.txt"
    path.write_text("one\n")
    assert DataFacts(read(path)).shape == TEXT
    pair = reviews("text", "label")
    pair.paired = path
    assert DataFacts(pair).shape == ALIGNED


def test_every_shape_is_for_a_task_and_every_task_has_its_part():
    assert {one for name in NAMES for one in recogniser(name).reads} == {TEXT, TABLE, ALIGNED, CONVERSATIONS, IMAGES}
    assert [recogniser(name).task for name in NAMES] == list(NAMES)


def test_each_value_of_the_option_names_one_task():
    assert len(set(values())) == len(values()) and set(NAMES) < set(values())
    assert (named("summarize"), named("dialogue")) == ("translation", "language_modeling")
    assert [named(name) for name in NAMES] == list(NAMES)
    with pytest.raises(InputError, match="--task is 'poetry'; it can be image_classification, translation, summarize"):
        named("poetry")
