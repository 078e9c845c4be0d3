"""Letters with accents, composed or not, are the same to a run; bits per byte are of text that can be written back."""

import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers

import headway
from headway.data.records.label_typing import Merging
from headway.text.train import KINDS, train_tokenizer

OPTIONS = {"threads": 1, "precision": "float32", "quiet": True, "evaluations": 1, "d_model": 16, "layers": 1}
WORDS = ["café", "déjà", "naïve", "Ångström", "überall", "señor", "ça", "œuvre", "the", "cat"]


def apart(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize("role", ["decoder", "encoder", "translator"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_tokenizer_reads_both_forms_alike(kind: str, role: str, tmp_path: Path):
    text = " ".join(WORDS)
    for trained_on in (text, apart(text)):
        made = train_tokenizer([trained_on] * 9, kind, 300, role=role)
        assert made.encode(text) == made.encode(apart(text))
        made.save(tmp_path)
        theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        ids = theirs.encode(apart(text), add_special_tokens=False).ids
        assert ids == made.encode(text)
        if kind in ("bpe", "char") and role == "decoder":
            assert made.decode(made.encode(apart(text))) == text
        for _, places in made.encode_places([apart(text)]):
            assert max(end for _, end in places) == len(apart(text))


def test_classes_and_answers_in_both_forms(in_process: Callable, tmp_path: Path):
    draw = random.Random(0)
    rows = [(f"{' '.join(draw.choices(WORDS, k=5))} {i}", ["été", "forêt"][i % 2]) for i in range(80)]
    rows = [(text, apart(label) if i % 3 else label) for i, (text, label) in enumerate(rows)]
    for name, given in (
        ("a", rows),
        ("b", rows[1:]),
        ("apart", [(apart(text), apart(label)) for text, label in rows[1:]]),
    ):
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in given))
    found = headway.train(tmp_path / "a.csv", task="classification", out=tmp_path / "run", steps=3, **OPTIONS)
    assert found["task"] == "classification"
    pipe = headway.load(tmp_path / "run")
    assert pipe.labels == ["forêt", "été"]
    one, other = (headway.evaluate(tmp_path / "run", tmp_path / f"{name}.csv") for name in ("b", "apart"))
    assert (one["accuracy"], one["val_loss"]) == (other["accuracy"], other["val_loss"]) and one["examples"] == 79
    (tmp_path / "joined.csv").write_text(f"found,meant\n{apart('été')},hiver\n")
    joined = {"merge_labels": str(tmp_path / "joined.csv"), "task": "classification"}
    headway.train(tmp_path / "apart.csv", out=tmp_path / "joined", steps=1, **joined, **OPTIONS)
    assert headway.load(tmp_path / "joined").labels == ["forêt", "hiver"]
    for label in ("été", "forêt"):
        (tmp_path / "texts" / apart(label)).mkdir(parents=True)
        for i in range(9):
            (tmp_path / "texts" / apart(label) / f"{i}.txt").write_text(f"the cat {i}")
    assert headway.evaluate(tmp_path / "run", tmp_path / "texts")["examples"] > 0
    (tmp_path / "strange.csv").write_text("text,label\n" + "the cat,fоrêt\nthe,été\n" * 9)  # a Cyrillic o
    status, _, err = in_process("evaluate", tmp_path / "run", tmp_path / "strange.csv")
    assert status == 2 and "it has U+043E and not U+006F of 'forêt'" in err
    (tmp_path / "strange.csv").write_text("text,label\n" + "the cat,for\u200bêt\nthe,été\n" * 9)
    status, _, err = in_process("evaluate", tmp_path / "run", tmp_path / "strange.csv")
    assert status == 2 and "differs from 'forêt' by U+200B" in err


def test_a_run_of_before_keeps_its_labels(tmp_path: Path):
    """Labels that an earlier version stored decomposed are found by composed ones."""
    assert Merging().merged(["été", apart("été")], [apart("été")]) == [apart("été")] * 2
    assert Merging().merged(["été", apart("été")], ["été", apart("été")]) == ["été", apart("été")]


def test_places_are_those_of_the_text_that_was_given(tmp_path: Path):
    names = ["José", "Zoë", "Chloé", "André", "Renée"]
    rows = [{"tokens": [name, "saw", str(i)], "tags": ["B-PER", "O", "O"]} for i in range(9) for name in names]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    headway.train(tmp_path / "a.jsonl", out=tmp_path / "run", steps=60, **OPTIONS)
    pipe = headway.load(tmp_path / "run")
    text = apart("José saw 3")
    spans = pipe(text)
    assert spans and all(text[one["start"] : one["end"]] == one["text"] for one in spans)
    assert [one["label"] for one in spans] == [one["label"] for one in pipe("José saw 3")]
    assert spans[0]["text"] == apart("José")


def corpus(path: Path, form: Callable[[str], str] = str) -> Path:
    draw = random.Random(1)
    path.write_text("".join(form(" ".join(draw.choices(WORDS, k=9))) + "\n" for _ in range(300)))
    return path


def test_bits_per_byte_of_both_forms(tmp_path: Path):
    given = {**OPTIONS, "steps": 3, "length": 16, "batch_tokens": 64, "tokenizer": "char"}
    figures = []
    for name, form in (("composed", str), ("apart", apart)):
        found = headway.train(corpus(tmp_path / f"{name}.txt", form), out=tmp_path / name, **given)
        assert headway.evaluate(tmp_path / name)["bits_per_byte"] == pytest.approx(found["bits_per_byte"], rel=1e-6)
        figures.append((found["val_loss"], found["bits_per_byte"]))
    assert figures[0] == figures[1]


def test_no_bits_per_byte_with_unknown_words(in_process: Callable, tmp_path: Path):
    file, small = corpus(tmp_path / "a.txt"), ("--vocab", "8", "--tokenizer", "word")
    options = ("--steps", 3, "--threads", 1, "--d-model", 16, "--layers", 1, "--length", 16, "--batch-tokens", 64)
    status, out, err = in_process("train", file, "--out", tmp_path / "run", "--json", *small, *options)
    found = json.loads(out.splitlines()[-1])
    assert status == 0 and found["bits_per_byte"] is None and found["val_loss"] > 0, err
    assert "tokens to measure are unknown text, whose characters no loss counts" in err
    status, out, err = in_process("evaluate", tmp_path / "run")
    assert status == 0 and "bits per byte are not given" in err
    assert headway.evaluate(tmp_path / "run")["bits_per_byte"] is None
    whole = ("--tokenizer", "word")
    status, out, err = in_process("train", file, "--out", tmp_path / "whole", "--json", *whole, *options)
    assert json.loads(out.splitlines()[-1])["bits_per_byte"] > 0 and "unknown text" not in err


@pytest.mark.thorough
def test_models_are_compared_without_bits_per_byte(in_process: Callable, tmp_path: Path):
    (tmp_path / "new.txt").write_text("the new cat\n" * 90)
    given = (corpus(tmp_path / "a.txt"), "--validation", tmp_path / "new.txt", "--out", tmp_path / "compare")
    models = ("--models", "lstm,gru", "--time", "15s", "--length", 16, "--threads", 1, "--tokenizer", "word")
    status, out, err = in_process("compare", *given, "--json", *models)
    assert status == 0, err
    rows = json.loads(out.splitlines()[-1])["rows"]  # a busy machine may leave a model no time for a step
    assert {row["metric"] for row in rows if "failed" not in row} == {"val_loss"}, rows
