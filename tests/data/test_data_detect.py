"""What is it for, which columns, and are the labels sound?"""

from pathlib import Path

import pytest
from held_tables import table

from headway.data.open.read import read
from headway.data.records.labels import check_labels, labelled
from headway.data.records.repeats import shared, text_hashes, text_key
from headway.data.records.table import Table
from headway.errors import InputError
from headway.workflows.input import detect

WORDS = (
    "the",
    "film",
    "was",
    "not",
    "what",
    "we",
    "had",
    "hoped",
    "to",
    "see",
    "on",
    "a",
    "long",
    "night",
    "at",
    "home",
)


def sentence(i: int) -> str:
    return " ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 12)) + f" {i}"


def made(n: int = 53, **columns) -> Table:
    """A table with a text column and others given as functions of the row."""
    rows = [{"text": sentence(i), **{name: str(value(i)) for name, value in columns.items()}} for i in range(n)]
    return table(rows, list(rows[0]), Path("made.csv"))


def good(labels: list[str], texts: list[str] | None = None) -> Table:
    texts = texts or [sentence(i) for i in range(len(labels))]
    rows = [{"text": t, "label": y} for t, y in zip(texts, labels, strict=True)]
    return table(rows, ["text", "label"], Path("made.csv"))


def check(source: Table, **options) -> tuple[str, str | None, str | None]:
    found = detect(source, **options)
    assert found.reasons and all("\n" not in line for line in found.reasons)
    return found.task, found.text_column, found.label_column


def test_text_and_label():
    found = detect(made(label=lambda i: i % 3))
    assert (found.task, found.text_column, found.label_column) == ("classification", "text", "label")
    assert (
        "column 'label' has 3 distinct values in 53 rows: taken as the label (--label-column to change)"
        in found.reasons
    )


def test_names_and_values_decide():
    assert check(made(id=lambda i: i, kind=lambda i: "ab"[i % 2]))[2] == "kind"
    assert check(made(Sentiment=lambda i: "ab"[i % 2], source=lambda i: "xyz"[i % 3]))[2] == "Sentiment"
    assert check(made(category=lambda i: "ab"[i % 2], label=lambda i: "xyz"[i % 3]))[2] == "label"
    assert check(made(id=lambda i: 1000 + i)) == ("language_modeling", "text", None)
    assert check(made(sentiment=lambda i: "only"))[2] == "sentiment"
    with pytest.raises(InputError, match=r"are pairs of texts, without a label.*--task embedding"):
        detect(
            table(
                [{"first": sentence(i), "second": sentence(i + 1)} for i in range(17)], ["first", "second"], Path("a")
            )
        )
    assert check(made(stars=lambda i: i % 5 + 1))[2] == "stars"
    assert check(made(title=lambda i: f"film {i}", y=lambda i: i % 2)) == ("classification", "text", "y")


def test_explicit_columns():
    source = made(a=lambda i: "xy"[i % 2], b=lambda i: "zw"[i % 2], note=lambda i: sentence(i + 1))
    assert check(source, label_column="b", text_column="note") == ("classification", "note", "b")
    assert check(source, text_column="text", task="language_modeling") == ("language_modeling", "text", None)
    with pytest.raises(InputError, match=r"no column 'nota'; found: text, a, b, note\. Did you mean 'note'"):
        detect(source, text_column="nota")
    with pytest.raises(InputError, match=r"'a', 'b'.*--label-column"):
        detect(source, text_column="text")
    with pytest.raises(InputError, match="at once"):
        detect(source, text_column="a", label_column="a")
    with pytest.raises(InputError, match="no label"):
        detect(source, text_column="text", label_column="a", task="language_modeling")


def test_ambiguous_texts():
    source = made(body=lambda i: sentence(i + 1), label=lambda i: i % 2)
    with pytest.raises(InputError, match=r"'text' and 'body'|'body' and 'text'.*--text-column"):
        detect(source)
    empty = table([{"text": "", "label": "ab"[i % 2]} for i in range(9)], ["text", "label"], Path("made.csv"))
    with pytest.raises(InputError, match="column 'text' is empty; name the column of texts with --text-column"):
        detect(empty)
    with pytest.raises(InputError, match="no column holds texts"):
        detect(table([{"a": "1", "b": "2"}] * 7, ["a", "b"], Path("made.csv")))
    with pytest.raises(InputError, match=r"no column looks like a label.*id"):
        detect(made(id=lambda i: i), task="classification")
    with pytest.raises(InputError, match=r"--task is 'translate'; it can be .*translation, summarize, classification"):
        detect(source, task="translate")


def test_running_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("hello\n")
    assert detect(read([path])).task == "language_modeling"
    with pytest.raises(InputError, match="running text"):
        detect(read([path]), task="classification")
    with pytest.raises(InputError, match=r"a\.txt.*no column 'text'"):
        detect(read([path]), text_column="text")
    path = tmp_path / "b.csv"
    path.write_text("review\nfine\nbad\n")
    assert detect(read([path]), text_column="review").text_column == "review"
    with pytest.raises(InputError, match=r"b\.csv: no column 'label'; found: review"):
        detect(read([path]), label_column="label")


def test_labelled_strips_labels_and_keeps_texts():
    found = labelled(good([" pos", "neg "] * 13, [f" {sentence(i)} " for i in range(26)]), "text", "label")
    assert found.classes == ["neg", "pos"] and found.texts[0].startswith(" ")
    assert found.warnings == [] and list(found.table.row_numbers[:2]) == [2, 3]


@pytest.mark.parametrize("missing", ["", "nan", "NaN", " ", "null", "N/A", "n/a", "NA", "#N/A"])
def test_missing_labels_are_no_class(missing):
    source = good(["pos", "neg"] * 11 + [missing] * 2)
    with pytest.raises(InputError, match=r"made\.csv: 2 rows have no label in column 'label' \(rows 24, 25\)"):
        labelled(source, "text", "label")
    found = labelled(source, "text", "label", on_bad_row="skip")
    assert (found.classes, len(found)) == (["neg", "pos"], 22)
    (warning,) = found.warnings
    assert warning.startswith("2 rows without text or label left out (rows 24, 25)")
    assert (repr(missing) in warning) == bool(missing.strip())


def test_the_message_says_what_is_read_as_no_label():
    source = good(["pos", "neg"] * 11 + ["NA", "", "N/A", "NA"])
    with pytest.raises(InputError, match=r"\(rows 24, 25, 26, 27\); 'NA' and 'N/A' there is read as no label\. Fill"):
        labelled(source, "text", "label")


@pytest.mark.parametrize("word", ["None", "none", "na"])
def test_words_that_can_name_a_class_are_classes(word):
    found = labelled(good(["pos", "neg", word] * 11), "text", "label")
    assert found.classes == sorted(["pos", "neg", word])
    assert found.warnings == [f"label {word!r} (11 rows) is taken as a class of its own, not as missing"]


def test_empty_texts():
    texts = [sentence(i) for i in range(211)]
    texts[7] = " \t"
    found = labelled(good(["a", "b"] * 105 + ["a"], texts), "text", "label")
    assert "1 row" in found.warnings[0] and "row 9" in found.warnings[0]
    for i in range(3, 17):
        texts[i] = ""
    with pytest.raises(InputError, match=r"14 rows have empty text in column 'text' \(rows 5, 6, 7, 8, 9, \.\.\.\)"):
        labelled(good(["a", "b"] * 105 + ["a"], texts), "text", "label")
    skipped = labelled(good(["a", "b"] * 105 + ["a"], texts), "text", "label", on_bad_row="skip")
    assert "14 rows without text or label left out" in skipped.warnings[0]


def test_labels_that_cannot_be_learned():
    with pytest.raises(InputError, match=r"only one label in column 'label' \('spam', 13 rows\)"):
        labelled(good(["spam"] * 13), "text", "label")
    with pytest.raises(InputError, match=r"13 distinct values in 13 rows.*not look like a label"):
        labelled(good([f"x{i}" for i in range(13)]), "text", "label")
    with pytest.raises(InputError, match=r"'1' and '1\.0'"):
        labelled(good(["1", "0", "1.0"] * 5), "text", "label")


def test_warnings():
    texts = [sentence(i) for i in range(101)]
    texts[3], texts[5], texts[7] = "The cafÃ© was fine", "Lost \ufffd letter", "Say <|endoftext|> now"
    texts[11], texts[13] = "Same  TEXT", "same text"
    texts[17], texts[19] = "hidden\u202eword", "black &amp; white at R&D; it&#39;s"
    labels = ["a", "b"] * 49 + ["c", "a", "None"]
    labels[13] = "a"
    found = "\n".join(labelled(good(labels, texts), "text", "label").warnings)
    for words in [
        "1 row (1.0%) with 'Ã©'-style text: probably decoded twice (row 5)",
        "U+FFFD",
        "<|endoftext|>",
        "direction-turning",
        "1 row (1.0%) with HTML entities such as &amp;, read as they are",
        "1 row (1.0%) with a text seen before (rows 13, 15)",
        "1 text with more than one label: 'Same  TEXT' is 'b' and 'a' (rows 13, 15)",
        "2 of 4 labels have fewer than 10 rows: 'None' (1), 'c' (1)",
        "'None' (1 rows) is taken as a class",
    ]:
        assert words.replace(" (1 rows)", " (1 row)") in found, (words, found)


def test_unseen_labels():
    other = labelled(good(["a", "x", "b", "y", "x"]), "text", "label", to_learn=False)
    with pytest.raises(
        InputError, match=r"made\.csv: validation has 2 labels absent.*'x', 'y' \(3 rows: rows 3, 5, 6\)"
    ):
        check_labels(["a", "b"], other, "validation")
    check_labels(["a", "b", "x", "y", "z"], other, "validation")


def test_leaks():
    assert text_key("  ﬁne\tDay\u2028STRASSE ") == text_key("fine day straße") == "fine day strasse"
    known, others = text_hashes(["One two", "three"]), text_hashes(["four", "ONE\u00a0TWO", "three", "five"])
    assert shared(known, others).tolist() == [1, 2]


def test_texts_that_are_not_read_are_named():
    found = detect(made(label=lambda i: i % 3, other=lambda i: sentence(i + 99)), text_column="text")
    both = "--text-column other --text-column text reads both as one"
    assert any(reason.startswith(f"'other' is not read ({both}") for reason in found.reasons)
    assert not any("is not read" in reason for reason in detect(made(label=lambda i: i % 3)).reasons)


def test_classes_are_no_second_text_of_a_pair():
    with pytest.raises(InputError, match="embedding needs two columns of texts; found 'text'"):
        detect(made(label=lambda i: ("good", "bad")[i % 2]), task="embedding")
    source = made(label=lambda i: ("good", "bad")[i % 2], other=lambda i: sentence(i + 99))
    found = detect(source, task="embedding", text_column="text", second_column="other")
    assert (found.text_column, found.second_column, found.label_column) == ("text", "other", None)


def pairs(**columns) -> Table:
    return made(other=lambda i: sentence(i + 99), **columns)


@pytest.mark.parametrize("name", ["label", "type", "relation"])
def test_scores_in_words_are_refused(name):
    source = pairs(id=lambda i: i, **{name: lambda i: ("positive", "negative")[i % 2]})
    with pytest.raises(InputError) as raised:
        detect(source, task="embedding")
    assert str(raised.value) == (
        f"made.csv: column {name!r} looks like the score of each pair, but holds 'positive' (row 2). Scores must be "
        "numbers (for example 0 and 1); use --text-column and --second-column to count every "
        "pair as a match."
    )
    with pytest.raises(InputError, match=f"column {name!r} looks like the score"):
        detect(source, task="embedding", text_column="text")
    found = detect(source, task="embedding", text_column="text", second_column="other")
    assert (found.second_column, found.label_column) == ("other", None)
    assert f"column {name!r} is not read: every pair counts as a match" in found.reasons
    assert not any("'id'" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"is_duplicate": lambda i: i % 2}, "'is_duplicate'"),
        ({"rating": lambda i: i / 7}, "'rating'"),
        ({"score": lambda i: i, "label": lambda i: i % 2}, "'score' or 'label'"),
    ],
)
def test_numbers_that_could_be_scores_have_to_be_named(columns, names):
    with pytest.raises(InputError, match=f"column {names} could be the score of each pair: name it with --label"):
        detect(pairs(**columns), task="embedding")
    name = next(iter(columns))
    assert detect(pairs(**columns), task="embedding", label_column=name).label_column == name
    found = detect(pairs(**columns), task="embedding", text_column="text", second_column="other")
    assert found.label_column is None and any(f"column {name!r} is not read" in reason for reason in found.reasons)


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf", "n/a", "unknown"])
@pytest.mark.parametrize("named", [{}, {"text_column": "text", "second_column": "other"}], ids=["found", "named"])
def test_a_score_that_is_no_number_in_a_few_rows_is_still_the_score(bad, named):
    found = detect(pairs(score=lambda i: bad if i in (7, 11) else i / 53), task="embedding", **named)
    assert (found.text_column, found.second_column, found.label_column) == ("text", "other", "score")


def test_a_score_beside_other_columns_of_a_few_values():
    found = detect(pairs(score=lambda i: i / 53, split=lambda i: i % 2), task="embedding")
    assert found.label_column == "score" and not any("not read" in reason for reason in found.reasons)
    found = detect(pairs(id=lambda i: i), task="embedding")
    assert found.label_column is None and not any("not read" in reason for reason in found.reasons)
    repeated = made(other=lambda i: f"question {i % 5}")
    assert detect(repeated, task="embedding").second_column == "other"


def test_a_list_is_a_label_as_it_is_written():
    found = labelled(good(['["a", "b"]', '["a"]', '["b"]'] * 7), "text", "label")
    assert found.classes == ['["a", "b"]', '["a"]', '["b"]']
    assert labelled(good(["[a]", "[b]"]), "text", "label").classes == ["[a]", "[b]"]
