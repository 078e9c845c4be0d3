"""Token classification from a file to answers: trained, measured, used, and read by transformers."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from bases import FAMILIES, V, tokenizer

import headway
from headway.errors import InputError
from headway.hub.directory import load_model
from headway.models.heads import TokenClassificationHead
from headway.training.store.facts import read_facts
from headway.workflows.evaluate import evaluate

QUICK = {"threads": 1, "precision": "float32", "quiet": True, "evaluations": 2}
TINY = {**QUICK, "d_model": 32, "layers": 1}
PEOPLE, PLACES = ["Anna", "Ben Smith", "Clara", "Ida Novak"], ["Rome", "New York", "Oslo", "San Juan"]
FRAMES = ["{P} lives in {L} .", "Yesterday {P} met {P} .", "The train to {L} was late .", "It rained all day in {L} ."]
TEXT = "Clara met Ben Smith in New York. It rained in Rome, and Ida Novak was late."


def sentences(count: int, seed: int = 0) -> list[list[tuple[str, str]]]:
    draw, found = random.Random(seed), []
    for _ in range(count):
        words: list[tuple[str, str]] = []
        for word in draw.choice(FRAMES).split():
            names = {"{P}": ("PER", PEOPLE), "{L}": ("LOC", PLACES)}.get(word)
            parts = draw.choice(names[1]).split() if names else [word]
            words += [(part, f"{'I' if i else 'B'}-{names[0]}" if names else "O") for i, part in enumerate(parts)]
        found.append([*words, (str(draw.randint(0, 99)), "O")])
    return found


def write(path: Path, made: list[list[tuple[str, str]]]) -> Path:
    path.write_text("\n\n".join("\n".join("\t".join(pair) for pair in one) for one in made) + "\n")
    return path


def json_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def spans_of(run: Path, text: str) -> list[tuple[str, int, int]]:
    """As the pipeline of transformers gives them."""
    theirs = transformers.pipeline("token-classification", str(run), aggregation_strategy="first")(text)
    return [
        (one["entity_group"], one["start"], one["end"], pytest.approx(float(one["score"]), abs=1e-5)) for one in theirs
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tags")
    headway.train(write(folder / "data.conll", sentences(97)), out=folder / "run", steps=60, **TINY)
    return folder


def test_a_run_measures_entities_and_is_measured_again(trained: Path):
    facts = read_facts(trained / "run")
    assert facts["task"] == "token_classification" and facts["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    metrics = facts["metrics"]
    assert 0.5 < metrics["entity_f1"] <= 1 and set(metrics["per_class"]) == {"LOC", "PER"}
    assert facts["baselines"][0]["name"] == "most frequent tag of each word"
    again = evaluate(trained / "run")
    assert again["val_loss"] == pytest.approx(metrics["val_loss"], abs=1e-6)
    assert again["entity_f1"] == metrics["entity_f1"] and again["examples"] > 20
    other = evaluate(trained / "run", [write(trained / "other.conll", sentences(31, seed=5))])
    assert 0 <= other["entity_f1"] <= 1


def test_spans_are_those_of_the_text_and_of_the_pipeline_of_transformers(trained: Path):
    pipe = headway.load(trained / "run")
    spans = pipe(TEXT)
    assert spans and all(TEXT[one["start"] : one["end"]] == one["text"] for one in spans)
    assert {one["label"] for one in spans} <= {"PER", "LOC"} and all(0 < one["score"] <= 1 for one in spans)
    assert [(one["label"], one["start"], one["end"], one["score"]) for one in spans] == spans_of(trained / "run", TEXT)
    assert pipe([TEXT, "", "It rained."])[0] == [
        {**one, "score": pytest.approx(one["score"], abs=1e-5)} for one in spans
    ]
    assert pipe("") == [] and pipe([]) == []
    with pytest.raises(InputError, match="text 1 is int; expected a text"):
        pipe(["a", 1])


def test_a_long_text_is_read_in_windows(trained: Path):
    pipe = headway.load(trained / "run")
    text = " ".join([TEXT] * 9)
    assert len(pipe.tokenizer.encode(text)) > 3 * pipe.model.config.max_length
    spans = pipe(text)
    assert all(text[one["start"] : one["end"]] == one["text"] for one in spans)
    assert [one["start"] for one in spans] == sorted(one["start"] for one in spans)
    assert max(one["end"] for one in spans) > 8 * len(TEXT)


@pytest.mark.parametrize("family", FAMILIES)
def test_from_every_family(family: str, trained: Path, tmp_path: Path):
    cls = getattr(transformers, family + "Model")
    words = tokenizer("wordpiece", "encoder")
    settings = FAMILIES[family] | {"pad_token_id": words.pad}
    torch.manual_seed(0)
    cls(cls.config_class(**settings)).save_pretrained(tmp_path / "base")
    words.save(tmp_path / "base", max_length=61)
    headway.train(trained / "data.conll", out=tmp_path / "run", from_model=str(tmp_path / "base"), steps=3, **QUICK)
    model = load_model(tmp_path / "run")
    assert isinstance(model.head, TokenClassificationHead)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["architectures"] == [f"{family}ForTokenClassification"]
    assert config["id2label"] == {str(i): label for i, label in enumerate(["O", "B-LOC", "I-LOC", "B-PER", "I-PER"])}
    text = "the cat met anna in rome"
    found = headway.load(tmp_path / "run")(text)
    assert [(one["label"], one["start"], one["end"], one["score"]) for one in found] == spans_of(tmp_path / "run", text)


def test_a_base_that_knows_the_tags_goes_on_with_its_head(trained: Path, tmp_path: Path):
    before = load_model(trained / "run")
    only = [[(word, tag) for word, tag in one if "LOC" not in tag] for one in sentences(60, seed=2)]
    path = write(tmp_path / "people.conll", only)
    options = {"from_model": str(trained / "run"), "steps": 1, "learning_rate": 1e-9, "average": 0.0}
    headway.train(path, out=tmp_path / "run", **options, **QUICK)
    facts = read_facts(tmp_path / "run")
    assert facts["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert torch.allclose(load_model(tmp_path / "run").head.out.weight, before.head.out.weight, atol=1e-5)


def test_lists_and_spans_train_the_same_way(tmp_path: Path):
    rows = []
    for one in sentences(60):
        text, spans = "", []
        for word, tag in one:
            start = len(text) + bool(text)
            text = f"{text} {word}".strip()
            if tag[0] == "B":
                spans.append({"start": start, "end": len(text), "label": tag[2:]})
            elif tag[0] == "I":
                spans[-1]["end"] = len(text)
        rows.append((one, text, spans))
    lists = [{"tokens": [word for word, _ in one], "tags": [tag for _, tag in one]} for one, _, _ in rows]
    found = []
    for name, given in (("lists", lists), ("spans", [{"text": text, "spans": spans} for _, text, spans in rows])):
        headway.train(json_lines(tmp_path / f"{name}.jsonl", given), out=tmp_path / name, steps=3, **TINY)
        found.append(read_facts(tmp_path / name)["metrics"])
    assert found[0] == found[1]


def test_unknown_tags_are_named(trained: Path, tmp_path: Path, in_process: Any):
    path = tmp_path / "new.conll"
    path.write_text("It\tO\nrained\tO\nat\tO\nAcme\tB-ORG\n.\tO\n")
    in_process.refused("evaluate", trained / "run", path, said=("new.conll, line 4: the tag 'B-ORG'", ": O, B-LOC"))
    options = {"validation": [path], "out": tmp_path / "run", "steps": 3, **TINY}
    with pytest.raises(InputError, match="line 4: the tag 'B-ORG' is not one of the tags of the training data"):
        headway.train(trained / "data.conll", **options)


def test_a_decoder_is_refused(trained: Path, tmp_path: Path):
    config = {"n_embd": 24, "n_layer": 1, "n_head": 3, "n_positions": 61, "vocab_size": V}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**config)).save_pretrained(tmp_path / "base")
    tokenizer().save(tmp_path / "base")
    with pytest.raises(InputError, match="is not an encoder; name one"):
        headway.train(trained / "data.conll", out=tmp_path / "run", from_model=str(tmp_path / "base"), steps=1, **QUICK)
