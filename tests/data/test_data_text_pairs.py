"""Which columns hold pairs, and what looks wrong with the pairs themselves."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from held_tables import table

from headway.data.open.read import read
from headway.data.records import text_pairs
from headway.data.records.repeats import text_hashes, text_key
from headway.data.records.split import split_rows
from headway.data.records.table import Table
from headway.data.records.text_pairs import TextPairs, exchanged_pairs, exchanged_sides, extreme_pairs, read_text_pairs
from headway.errors import InputError
from headway.tasks.data_facts import DataFacts
from headway.workflows.input import detect

EN = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran"]
DE = ["die", "Katze", "saß", "auf", "einer", "Matte", "alte", "Hunde", "liefen"]


def made(count: int = 53, first: str = "en", second: str = "de") -> Table:
    choose = random.Random(5)
    rows = [{first: " ".join(choose.choices(EN, k=9)), second: " ".join(choose.choices(DE, k=8))} for _ in range(count)]
    return table(rows, [first, second], Path("made.csv"))


def pairs_of(source: Table) -> TextPairs:
    return read_text_pairs(source, *source.columns)


@pytest.mark.parametrize(
    ("first", "second"),
    [("en", "de"), ("english", "German"), ("source", "target"), ("text", "summary"), ("src", "tgt")],
)
def test_two_columns_called_like_sides_are_pairs(first: str, second: str):
    found = detect(made(first=first, second=second))
    assert (found.task, found.text_column, found.second_column) == ("translation", first, second)
    assert any("--text-column, --second-column to change" in line for line in found.reasons)
    asked = detect(made(first=first, second=second), task="translation", text_column=second)
    assert (asked.text_column, asked.second_column) == (second, first)


def with_ids(row: dict[str, str], i: int) -> dict[str, str]:
    return {"id": f"rev-{i:03}", **row}


def test_ids_and_addresses_are_no_sides():
    rows = [with_ids({"text": row["en"], "sentiment": "ab"[i % 2]}, i) for i, row in enumerate(made().rows)]
    found = detect(table(rows, list(rows[0]), Path("reviews.csv")))
    assert (found.task, found.text_column, found.label_column) == ("classification", "text", "sentiment")
    rows = [{"text": row["en"], "source": f"https://example.org/{i}"} for i, row in enumerate(made().rows)]
    found = detect(table(rows, list(rows[0]), Path("pages.csv")))
    assert (found.task, found.text_column) == ("language_modeling", "text")
    rows = [with_ids({"text": row["en"]}, i) for i, row in enumerate(made().rows)]
    assert detect(table(rows, list(rows[0]), Path("texts.csv"))).task == "language_modeling"
    rows = [with_ids(row, i) for i, row in enumerate(made().rows)]
    found = detect(table(rows, list(rows[0]), Path("pairs.csv")))
    assert (found.task, found.text_column, found.second_column) == ("translation", "en", "de")


def test_a_source_is_one_wherever_its_column_stands():
    rows = [{"answer": row["de"], "n": str(i), "question": row["en"]} for i, row in enumerate(made().rows)]
    found = detect(table(rows, list(rows[0]), Path("made.csv")))
    assert (found.text_column, found.second_column) == ("question", "answer")
    rows = [{"instruction": row["de"], "input": row["en"], "output": row["de"]} for row in made().rows]
    with pytest.raises(InputError, match="--task translation for pairs"):
        detect(table(rows, list(rows[0]), Path("made.csv")))


def test_objects_of_languages_are_pairs(tmp_path: Path):
    path = tmp_path / "wmt.jsonl"
    path.write_text("".join(json.dumps({"id": "x", "translation": row}) + "\n" for row in made().rows))
    source = read(path)
    assert isinstance(source, Table) and source.columns == ["id", "en", "de"]
    assert detect(source).task == "translation"


def test_other_columns_are_pairs_when_asked_for():
    source = made(first="left", second="right")
    found = detect(source, task="summarize", second_column="left")
    assert (found.task, found.text_column, found.second_column) == ("translation", "right", "left")
    with pytest.raises(InputError, match="could each be the text"):
        detect(source)
    rows = [{"text": row["en"], "n": "1"} for row in made().rows]
    with pytest.raises(InputError, match="translation needs two columns of texts"):
        detect(table(rows, ["text", "n"], Path("one.csv")), task="translation")
    with pytest.raises(InputError, match="translation has no label"):
        detect(source, task="translation", label_column="right")


def test_two_columns_that_are_named_are_pairs_where_their_names_are_sides():
    source = made()
    source.columns.append("fr")
    for row in source.rows:
        row["fr"] = row["de"]
    found = detect(source, text_column="fr", second_column="en")
    assert (found.task, found.text_column, found.second_column) == ("translation", "fr", "en")
    with pytest.raises(InputError, match="--task embedding or --task translation"):
        detect(made(first="left", second="right"), text_column="left", second_column="right")


def test_who_only_looks_for_the_text_is_not_told_of_tasks():
    with pytest.raises(InputError, match=r"choose one with --text-column\.$"):
        DataFacts(made(first="left", second="right")).only_text()


def test_a_label_beside_a_source_is_still_a_label():
    rows = [{"source": row["en"], "target": "ab"[i % 2]} for i, row in enumerate(made().rows)]
    found = detect(table(rows, ["source", "target"], Path("made.csv")))
    assert (found.task, found.label_column) == ("classification", "target")


def test_good_pairs_raise_no_alarm():
    found = pairs_of(made())
    assert found.warnings == [] and len(found) == 53


def test_a_pair_with_an_empty_side_is_left_out_whole():
    source = made()
    source.rows[3]["en"], source.rows[7]["de"] = " ", ""
    source.rows[9].update(en="", de="")
    found = pairs_of(source)
    assert len(found) == 50
    assert list(found.sources)[3] == source.rows[4]["en"] and list(found.targets)[3] == source.rows[4]["de"]
    assert [*found][3] == (source.rows[4]["en"], source.rows[4]["de"]) and found.lengths[0, 3] == len([*found][3][0])
    assert found.warnings == [
        "left out because one side is empty: 2 (rows 5, 9)",
        "left out because both sides are empty: 1",
    ]


def test_pairs_that_come_in_small_chunks_are_the_same(monkeypatch: pytest.MonkeyPatch):
    source = made(97)
    for row in source.rows[::9]:
        row["de"] += "\u2028"
    source.rows[5]["en"] = source.rows[5]["de"]
    source.rows[8].update(en="", de="x")
    source.rows[70].update(en="y", de="")
    whole = pairs_of(source)
    monkeypatch.setattr("headway.data.records.rows.ROWS", 3)
    parts = pairs_of(source)
    assert list(parts) == list(whole) and parts.warnings == whole.warnings and len(whole.warnings) == 3
    assert "rows 2, 11, 20, 29, 38, ...)" in whole.warnings[2]
    for name in ("index", "hashes", "lengths"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist()


def test_the_same_rows_are_held_out_as_of_texts_in_memory():
    source = made(211)
    for row in source.rows[::3]:
        row["en"] = "The  Cat"
    source.rows[12]["en"] = "the cat"
    pairs = pairs_of(source)
    for seed in (0, 5):
        parts = pairs.split(seed)
        expected = split_rows(text_hashes(source.column("en")), np.zeros(211, dtype=np.int32), 0.1, seed)
        assert [part.index.tolist() for part in parts] == [rows.tolist() for rows in expected]
        assert not {*map(text_key, parts[0].sources)} & {*map(text_key, parts[1].sources)}


def test_equal_sides_are_counted():
    source = made()
    source.rows[0]["de"] = source.rows[0]["en"]
    assert pairs_of(source).warnings[0].startswith("the same text on both sides: 1 of 53 pairs, 1.9% (row 2)")
    for row in source.rows:
        row["de"] = row["en"]
    assert pairs_of(source).warnings[0].startswith("the same text on both sides: 53 of 53 pairs, 100.0%")


def test_extreme_ratios_exchanged_sides_and_separators_are_named_by_line():
    source = made(211)
    source.rows[4]["de"] = source.rows[4]["de"] * 20
    source.rows[8]["en"], source.rows[8]["de"] = source.rows[8]["de"], source.rows[8]["en"]
    source.rows[11]["en"] += "\u2028"
    found = pairs_of(source)
    assert extreme_pairs(found).tolist() == [4] and exchanged_pairs(found).tolist() == [8]
    assert [warning.rpartition("(")[2] for warning in found.warnings] == ["row 6)", "row 10)", "row 13)"]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.45, 0.6, 0.9])
def test_however_many_pairs_are_exchanged_the_fewer_ones_are_named(share: float):
    source, choose = made(307), random.Random(8)
    chosen = sorted(choose.sample(range(307), round(share * 307)))
    for i in chosen:
        source.rows[i].update(en=source.rows[i]["de"], de=source.rows[i]["en"])
    fewer = chosen if share < 0.5 else [i for i in range(307) if i not in chosen]
    assert exchanged_pairs(pairs_of(source)).tolist() == fewer


def test_a_rare_word_on_the_other_side_is_no_alarm():
    source = made(300)
    source.rows[3]["de"] += " Ada"
    source.rows[7]["en"] += " Bob"
    source.rows[5].update(en="Ada", de="Bob")  # each was seen on the other side alone, but once
    assert exchanged_pairs(pairs_of(source)).tolist() == []


def test_of_many_pairs_some_are_looked_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_pairs, "LOOKED_AT", 100)
    source = made(211)
    source.rows[6].update(en=source.rows[6]["de"], de=source.rows[6]["en"])
    (warning,) = pairs_of(source).warnings
    assert "swapped (one in 3 was checked): 1 of 211 pairs" in warning


def test_sides_of_one_language_are_not_told_apart():
    choose = random.Random(3)
    texts = [" ".join(choose.choices(EN, k=12)) for _ in range(301)]
    source = table([{"en": text, "de": text[:20]} for text in texts], ["en", "de"], Path("made.csv"))
    assert exchanged_pairs(pairs_of(source)).tolist() == []


def test_validation_with_its_sides_exchanged_is_noticed():
    train, other = pairs_of(made()), pairs_of(made(17))
    assert not exchanged_sides(train, other)
    assert exchanged_sides(train, read_text_pairs(other.table, "de", "en"))
