"""``--stream``: what is decided, recorded and measured of a run on shards that are read while it trains."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults_harness import TINY, facts_of

import headway
from headway.data.stream.streamed import Shard
from headway.errors import InputError
from headway.io.file_lock import cache_directory
from headway.workflows.evaluate import evaluate

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files in a folder, with a column of texts and one that is none of the model's business."""
    folder, draw = tmp_path_factory.mktemp("shards"), random.Random(3)
    for number in range(3):
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(3, 41))) for _ in range(89)]
        pq.write_table(
            pa.table({"text": texts, "id": list(range(89))}), folder / f"{number}.parquet", row_group_size=31
        )
    return folder


@pytest.fixture(scope="module")
def run(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; look, but do not write."""
    out = tmp_path_factory.mktemp("runs") / "run"
    headway.train(shards, out=out, quiet=True, stream=True, **TINY)
    return out


def test_what_was_read_and_set_aside_is_recorded(run: Path, shards: Path):
    facts = facts_of(run)
    data, plan = facts["data"], facts["plan"]
    assert facts["task"] == "language_modeling" and plan["partitions"] == 8 and facts["options"]["stream"]
    assert data["documents"] == 267 and "in 241 rows, read as they are needed" in data["train"]
    assert "(26 rows, set aside)" in data["validation"] and data["sample"].endswith("of 241 rows, evenly spread")
    assert [shard["rows"] for shard in data["shards"]] == [89, 89, 89]
    assert [Path(shard["name"]) for shard in data["shards"]] == sorted(shards.iterdir())
    assert data["inputs"] == [str(path) for path in sorted(shards.iterdir())]
    counted = int(data["train"].split()[1].replace(",", ""))
    words = sum(len(text.split()) for path in shards.iterdir() for text in pq.read_table(path)["text"].to_pylist())
    assert 0.7 < counted / (words + 241) / (241 / 267) < 1.5, "about as many tokens as there are"
    assert [line["name"] for line in facts["baselines"]] == ["uniform (ln V)", "unigram", "bigram"]


def test_its_held_out_rows_are_found_again(run: Path, shards: Path):
    expected = facts_of(run)["metrics"]["val_loss"]
    for inputs in ([], [shards], sorted(shards.iterdir())):
        found = evaluate(run, inputs)
        assert found["val_loss"] == pytest.approx(expected, rel=1e-6) and "held-out part" in found["on"]
    assert evaluate(run, [shards / "0.parquet"])["on"] == str(shards / "0.parquet")


def test_other_files_are_measured_as_they_are(run: Path, corpus: Path):
    assert evaluate(run, [corpus])["examples"] > 1000


def test_a_file_for_validation_leaves_all_rows_for_training(shards: Path, corpus: Path, tmp_path: Path, tiny: dict):
    found = headway.train(
        shards, out=tmp_path / "run", validation=corpus, quiet=True, stream=True, **(tiny | {"evaluations": 1})
    )
    data = facts_of(tmp_path / "run")["data"]
    assert "in 267 rows" in data["train"] and str(corpus) in data["validation"]
    assert evaluate(tmp_path / "run")["val_loss"] == pytest.approx(found["val_loss"], rel=1e-6)


def test_the_text_is_not_tokenised_before_training(shards: Path, tmp_path: Path, tiny: dict, monkeypatch):
    """Rows of a sample are, which is all of so small a text; here it is made smaller."""
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("headway.tasks.running_text.MOST_CHARACTERS", 1000)
    columns: list[int] = []
    column = Shard.column
    monkeypatch.setattr(
        Shard, "column", lambda self, group, name: (columns.append(group), column(self, group, name))[1]
    )
    monkeypatch.setattr("headway.workflows.train.run._train", lambda *given: None)
    headway.train(shards, out=tmp_path / "run", quiet=True, stream=True, **tiny)
    assert len(columns) <= 8, "one batch was looked at"
    assert facts_of(tmp_path / "run")["data"]["sample"].startswith("1,000 characters of ")
    written = sum(path.stat().st_size for path in cache_directory().glob("*.tokens"))
    text = sum(len(text) for path in shards.iterdir() for text in pq.read_table(path)["text"].to_pylist())
    assert 0 < written < text / 3


def test_a_pretrained_model_goes_on_with_a_stream(run: Path, shards: Path, tmp_path: Path):
    found = headway.train(
        shards, out=tmp_path / "run", from_model=str(run), stream=True, steps=5, quiet=True, threads=1
    )
    assert found["val_loss"] < facts_of(run)["metrics"]["val_loss"] + 0.1
    assert facts_of(tmp_path / "run")["base"]["path"] == str(run)


def test_a_model_that_fills_in_tokens_learns_from_a_stream(shards: Path, tmp_path: Path, tiny: dict):
    options = {**tiny, "task": "masked_lm", "stream": True, "quiet": True, "evaluations": 1}
    found = headway.train(shards, out=tmp_path / "run", **options)
    assert found["task"] == "masked_lm" and found["tokens"] == 20 * 256
    position = json.loads((tmp_path / "run/checkpoints/step-20/state.json").read_text())["position"]
    assert position["consumed"] == 20 * 8 and sum(cursor["epoch"] for cursor in position["lanes"]) > 0
    assert evaluate(tmp_path / "run")["val_loss"] == pytest.approx(found["val_loss"], rel=1e-6)


def test_it_is_planned_without_training(shards: Path, in_process, tiny_words: list[str]):
    status, out, err = in_process("train", shards, "--stream", "--plan", "--json", *tiny_words)
    assert status == 0 and "read as they are needed" in err
    planned = json.loads(out)
    assert [one["value"] for one in planned["decisions"] if one["what"] == "lanes"] == ["8"]


def test_what_cannot_be_streamed_is_refused(shards: Path, corpus: Path, tmp_path: Path, tiny: dict):
    options: dict[str, Any] = {"out": tmp_path / "run", "quiet": True, "stream": True, **tiny}
    with pytest.raises(InputError, match=r"corpus.txt: --stream reads .parquet files only; leave it out"):
        headway.train(corpus, **options)
    with pytest.raises(InputError, match="no column 'words'; found: text, id"):
        headway.train(shards, text_column="words", **options)
    labelled = tmp_path / "labelled.parquet"
    pq.write_table(pa.table({"text": WORDS, "label": [word[0] for word in WORDS]}), labelled)
    with pytest.raises(InputError, match="--stream is for language_modeling and masked_lm, but this is classification"):
        headway.train(labelled, task="classification", label_column="label", **options)
    pq.write_table(pa.table({"text": ["one row"]}), tmp_path / "one.parquet")
    with pytest.raises(InputError, match="has 1 row; expected several"):
        headway.train(tmp_path / "one.parquet", **options)
    pq.write_table(pa.table({"text": ["", None, " "]}), tmp_path / "blank.parquet")
    with pytest.raises(InputError, match=r"blank.parquet: column 'text' has no text in "):
        headway.train(tmp_path / "blank.parquet", **options)
    assert not (tmp_path / "run").exists()
