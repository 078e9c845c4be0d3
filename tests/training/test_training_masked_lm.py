"""Masked language models and embeddings, trained from a file, measured again, used, taken up again."""

import csv
import json
import math
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faults_harness import facts_of, lines_of

import headway
from headway.data.batches.batch_source import Position, RowBatches, TextBatches
from headway.data.batches.batching import Examples, TargetKind
from headway.data.open.read import read
from headway.errors import InputError
from headway.tasks.embedding.task import Embedder
from headway.tasks.masked_lm.data import held_out_batches, task_of
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.tasks.running_text import encode_text, held_out_part
from headway.training.store.facts import read_facts, write_facts
from headway.workflows.evaluate import evaluate

TOPICS = {
    "cats": ["cat", "kitten", "purr", "tail"],
    "money": ["bank", "stock", "share", "coin"],
    "bikes": ["bike", "ride", "wheel", "path"],
    "music": ["song", "tune", "band", "choir"],
    "sea": ["ship", "sail", "wave", "port"],
}


def write_pairs(path: Path, *, scored: bool = False, n: int = 160) -> Path:
    choose = random.Random(3)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["anchor", "positive", *(["score"] if scored else [])])
        for number in range(n):
            words = choose.sample(TOPICS[choose.choice(list(TOPICS))], 4)
            first, second = f"the {words[0]} and the {words[1]} {number}", f"a {words[2]} or a {words[3]} {number + n}"
            rows.writerow([first, second, *(["1.0"] if scored else [])])
            if scored:
                other = choose.choice(TOPICS[choose.choice(list(TOPICS))])
                rows.writerow([first, f"a {other} again", "0.0" if other not in words else "0.5"])
    return path


@pytest.fixture(scope="module")
def masked_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "masked"
    options = {"d_model": 16, "layers": 2, "heads": 2, "length": 32, "batch_tokens": 256, "steps": 60}
    headway.train(corpus, task="masked_lm", out=out, quiet=True, threads=1, precision="float32", **options)
    return out


def test_a_masked_language_model_learns_and_is_measured_again(masked_run: Path, corpus: Path):
    found = facts_of(masked_run)
    metrics, baselines = found["metrics"], {entry["name"]: entry for entry in found["baselines"]}
    assert found["task"] == "masked_lm" and found["plan"]["mlm_probability"] == 0.3
    assert metrics["val_loss"] < baselines["uniform (ln V)"]["val_loss"]
    assert set(metrics) == {"val_loss", "perplexity", "accuracy"}
    for inputs in ([], [corpus]):
        again = evaluate(masked_run, inputs)
        assert {name: again[name] for name in metrics} == pytest.approx(metrics, abs=1e-6)
        assert again["examples"] > 0


def test_the_loss_is_that_of_fill_where_every_token_to_predict_is_masked(
    tmp_path: Path, in_process: Any, monkeypatch: pytest.MonkeyPatch
):
    """On independent words nothing beats the unigram baseline, unless a token to predict can be copied."""
    monkeypatch.chdir(tmp_path)
    drawn = random.Random(5).choices(range(20), weights=[1 / (1 + i) for i in range(20)], k=12_000)
    Path("text.txt").write_text(" ".join(f"w{i}" for i in drawn) + "\n")
    words = "--task masked_lm --tokenizer word --d-model 32 --layers 1 --heads 2 --length 32 --batch-tokens 1024"
    words += " --steps 160 --evaluations 2 --threads 1 --precision float32 --out run --quiet"
    trained = in_process.json("train", "text.txt", *words.split())
    unigram = {line["name"]: line for line in trained["baselines"]}["unigram"]
    assert trained["val_loss"] > unigram["val_loss"] - 0.005
    assert trained["accuracy"] < unigram["accuracy"] + 0.01
    assert facts_of(Path("run"))["data"]["measured"] == "tokens that are masked"
    assert facts_of(Path("run"))["verdict"]["result"] != "better"

    fill = headway.load("run")
    tokens = encode_text(held_out_part(read(["text.txt"], as_text=True)), fill.tokenizer, framed=True)
    task = task_of(fill.tokenizer, 0.3, whole_words=False)
    total, right, count = 0.0, 0, 0
    for batch in held_out_batches(tokens, fill.tokenizer, 32):
        for ids, chosen in zip(batch.ids, task.hide_as_always(batch)[1], strict=True):
            named = [fill.tokenizer.tokens[i] for i in ids.tolist()]
            inner = range(1, len(named) - 1)
            places = fill(" ".join("[MASK]" if chosen[i] else named[i] for i in inner), k=fill.tokenizer.vocab_size)
            places = places if isinstance(places[0], list) else [places]
            for i, answers in zip((i for i in inner if chosen[i]), places, strict=True):
                scores = {one["token"]: one["score"] for one in answers}
                total, count = total - math.log(scores[named[i]]), count + 1
                right += answers[0]["token"] == named[i]
    again = in_process.json("evaluate", "run")
    assert again["examples"] == count
    assert again["val_loss"] == pytest.approx(trained["val_loss"], abs=1e-6) == pytest.approx(total / count, abs=1e-4)
    assert again["accuracy"] == pytest.approx(right / count, abs=1e-9)


def test_a_run_that_counted_other_tokens_is_measured_anew_and_goes_on_as_it_began(
    masked_run: Path, corpus: Path, tmp_path: Path, in_process: Any
):
    run = shutil.copytree(masked_run, tmp_path / "run")
    found = read_facts(run)
    del found["data"]["measured"]
    write_facts(run, found)
    out, err = in_process.passed("evaluate", run, "--json")
    assert "only masked tokens are counted now" in err
    assert json.loads(out)["val_loss"] == pytest.approx(facts_of(masked_run)["metrics"]["val_loss"], abs=1e-6)
    assert "only masked tokens" not in in_process.passed("evaluate", masked_run, "--json")[1]
    assert "it goes on as it began" in in_process.passed("train", corpus, "--out", run, "--more-steps", "1")[1]


def test_it_fills_in_words_with_both_spellings(masked_run: Path):
    fill = headway.load(masked_run)
    assert isinstance(fill, MaskFiller)
    assert fill("the [MASK] sat on a mat") == fill("the <mask> sat on a mat")
    assert not (masked_run / "generation_config.json").exists()
    config = json.loads((masked_run / "config.json").read_text())
    assert config["architectures"] == ["ModernBertForMaskedLM"] and config["cls_token_id"] is not None


@pytest.mark.parametrize(("data", "tokenizer"), [("corpus", "bpe"), ("rows", "wordpiece"), ("corpus", "word")])
def test_whole_words_and_other_shares_of_text_and_of_a_column(
    data: str, tokenizer: str, request: pytest.FixtureRequest, tmp_path: Path, tiny: dict
):
    options = {**tiny, "steps": 2, "tokenizer": tokenizer, "mlm_probability": 0.2, "whole_words": True}
    headway.train(request.getfixturevalue(data), task="masked_lm", out=tmp_path / "run", quiet=True, **options)
    facts = facts_of(tmp_path / "run")
    assert facts["task"] == "masked_lm" and facts["plan"]["mlm_probability"] == 0.2 and facts["plan"]["whole_words"]
    assert evaluate(tmp_path / "run")["val_loss"] == pytest.approx(facts["metrics"]["val_loss"], abs=1e-6)


def test_a_masked_language_model_goes_on_from_a_base(masked_run: Path, corpus: Path, tmp_path: Path):
    options = {"from_model": str(masked_run), "threads": 1, "precision": "float32", "quiet": True}
    headway.train(corpus, task="masked_lm", steps=2, length=16, out=tmp_path / "run", **options)
    assert facts_of(tmp_path / "run")["metrics"]["val_loss"] < 1.2 * facts_of(masked_run)["metrics"]["val_loss"]
    assert "head" not in decided(tmp_path / "run")


def test_windows_are_framed_and_every_token_is_in_one():
    tokens = np.arange(10, 71, dtype=np.uint16)
    batch_source = TextBatches(tokens, tokens, 11, 33, 3, ([2], [3]))
    batch, after = batch_source.next(Position())
    assert batch.ids.shape == (3, 11) and (batch.ids[:, 0] == 2).all() and (batch.ids[:, -1] == 3).all()
    assert after == Position(0, 3) and batch.mask is None
    seen = torch.cat([batch.ids[:, 1:-1].flatten() for batch in batch_source.validation()])
    assert seen.tolist() == tokens[:-1].tolist()
    assert len(list(batch_source.validation())) == batch_source.validation_batches()


def test_pairs_are_stacked_first_texts_above_second():
    pairs = [([5, 6], [7]), ([8], [9, 10, 11]), ([12], [13])]
    sides, scores = tuple(zip(*pairs, strict=True)), np.array([1.0, 0.5, 0.0])
    examples = Examples(sides[0], scores, TargetKind.PAIR, sides[1])
    batch_source = RowBatches(examples, examples, 4, 0)
    seen, position = {}, Position()
    while position.epoch == 0:
        batch, position = batch_source.next(position)
        half = len(batch.ids) // 2
        for row, score in enumerate(batch.targets.tolist()):
            kept = [[int(i) for i in batch.ids[r] if i] for r in (row, half + row)]
            seen[score] = tuple(kept)
    assert seen == {1.0: ([5, 6], [7]), 0.5: ([8], [9, 10, 11]), 0.0: ([12], [13])}
    assert len(list(batch_source.validation())) == batch_source.validation_batches()


def test_of_many_pairs_few_are_held_out_but_runs_from_before_keep_theirs(tmp_path: Path, tiny: dict, monkeypatch):
    source, options = write_pairs(tmp_path / "pairs.csv"), {**tiny, "steps": 2, "task": "embedding", "quiet": True}
    whole = headway.train(source, out=tmp_path / "whole", **options)
    assert evaluate(tmp_path / "whole")["examples"] > 5
    before = read_facts(tmp_path / "whole")
    monkeypatch.setattr("headway.tasks.embedding.data.MOST_HELD_OUT", 5)
    found = headway.train(source, out=tmp_path / "run", **options)
    few = evaluate(tmp_path / "run")
    assert few["examples"] == 5 and few["val_loss"] == pytest.approx(found["val_loss"], rel=1e-5)
    assert facts_of(tmp_path / "run")["data"]["validation"].startswith("5 pairs (10 %, 5 at most, ")
    del before["data"]["most_held_out"]
    write_facts(tmp_path / "whole", before)
    again = evaluate(tmp_path / "whole")
    assert again["examples"] > 5 and again["val_loss"] == pytest.approx(whole["val_loss"], rel=1e-5)
    headway.train(source, out=tmp_path / "whole", **{**options, "steps": 4, "allow_changes": True})
    assert facts_of(tmp_path / "whole")["data"]["validation"] == before["data"]["validation"]


@pytest.mark.parametrize("scored", [False, True])
def test_training_on_pairs_improves_the_ranking_of_held_out_pairs(scored: bool, tmp_path: Path, tiny: dict):
    source = write_pairs(tmp_path / "pairs.csv", scored=scored)
    options = {**tiny, "steps": 40, "batch_tokens": 512, "learning_rate": 5e-3, "evaluations": 10}
    headway.train(source, task="embedding", out=tmp_path / "run", quiet=True, **options)
    found = facts_of(tmp_path / "run")
    metric = "spearman" if scored else "mrr"
    first = next(line for line in lines_of(tmp_path / "run") if line["event"] == "evaluation")
    assert found["metrics"][metric] > max(first[metric], found["baselines"][0][metric])
    again = evaluate(tmp_path / "run")
    assert again[metric] == pytest.approx(found["metrics"][metric], abs=1e-6)
    assert again["val_loss"] == pytest.approx(found["metrics"]["val_loss"], rel=1e-5)
    emb = headway.load(tmp_path / "run")
    assert isinstance(emb, Embedder) and emb("the cat").shape == (16,)
    said = "rank correlation" if scored else "mean reciprocal rank"
    assert said in (tmp_path / "run" / "report.html").read_text()


def test_an_embedding_goes_on_from_a_base_of_another_task(masked_run: Path, tmp_path: Path):
    source, options = write_pairs(tmp_path / "pairs.csv"), {"threads": 1, "precision": "float32", "quiet": True}
    options |= {"task": "embedding", "steps": 10, "learning_rate": 3e-3}
    headway.train(source, from_model=str(masked_run), out=tmp_path / "run", **options)
    found = facts_of(tmp_path / "run")
    before = next(entry for entry in found["baselines"] if entry["name"] == "the model before training")
    assert found["metrics"]["val_loss"] < before["val_loss"]
    assert (tmp_path / "run" / "modules.json").exists()


def test_a_base_without_a_head_for_tokens_is_told(masked_run: Path, corpus: Path, tmp_path: Path):
    source, words = write_pairs(tmp_path / "pairs.csv"), {"steps": 1, "quiet": True, "threads": 1}
    headway.train(source, task="embedding", from_model=str(masked_run), out=tmp_path / "vectors", **words)
    headway.train(corpus, task="masked_lm", from_model=str(tmp_path / "vectors"), out=tmp_path / "run", **words)
    assert "starts untrained" in decided(tmp_path / "run")["head"]


def decided(run: Path) -> dict[str, str]:
    return {decision["what"]: decision["value"] for decision in facts_of(run)["plan"]["decisions"]}


BAD: dict[str, tuple[str, dict[str, object], str]] = {
    "one column of texts": ("a,b\nthe cat,1\nold dogs,2\n", {}, "two columns of texts"),
    "three columns of texts": ("a,b,c\nthe cat,old dogs,red doors\nmats,rats,cats\n", {}, "--second-column"),
    "an empty text": ("a,b\nthe cat,old dogs\nmats,rats\n,cats\n", {}, "on-bad-row"),
    "no number": ("a,b,label\nx y,p q,good\nz w,r s,bad\n", {"label_column": "label"}, "number as score"),
    "a score that is nan": ("a,b,score\nx y,p q,1\nz w,r s,nan\n", {}, r"5 rows .*\(rows 3, 5, .*, score 'nan'\)"),
    "an infinite score, with the pairs named": (
        "a,b,score\nx y,p q,1\nz w,r s,0\nt u,v w,-inf\n",
        {"text_column": "a", "second_column": "b"},
        r"score in column 'score' \(rows 4, 7, .*, score '-inf'\)",
    ),
    "scores in words": ("a,b,label\nx y,p q,good\nz w,r s,bad\n", {}, r"holds 'good' \(row 2\)"),
    "one score": ("a,b,score\nx y,p q,1\nz w,r s,1\n", {}, "every pair has the score"),
    "a column that is missing": ("a,b\nthe cat,old dogs\nmats,rats\n", {"second_column": "c"}, "'c'"),
    "one column twice": ("a,b\nthe cat,dogs\nmats,rats\n", {"text_column": "a", "second_column": "a"}, "different"),
}


@pytest.mark.parametrize("problem", BAD)
def test_tables_that_hold_no_pairs(problem: str, tmp_path: Path, tiny: dict):
    text, options, said = BAD[problem]
    header, _, rows = text.partition("\n")
    (tmp_path / "pairs.csv").write_text(f"{header}\n{rows * 5}")
    with pytest.raises(InputError, match=said):
        headway.train(tmp_path / "pairs.csv", task="embedding", out=tmp_path / "run", quiet=True, **{**tiny, **options})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ("corpus", {"task": "embedding"}, "two columns of texts"),
        ("rows", {"second_column": "label"}, "--task embedding"),
        ("corpus", {"task": "masked_lm", "mlm_probability": 0.9}, "mlm-probability"),
        ("corpus", {"task": "masked_lm", "tokenizer": "char", "whole_words": True}, "whole-words"),
        ("corpus", {"task": "masked_lm", "from_model": "lm_run"}, "not an encoder"),
    ],
)
def test_options_of_other_tasks(data: str, options: dict, said: str, request: pytest.FixtureRequest, tmp_path: Path):
    if "from_model" in options:
        options = {**options, "from_model": str(request.getfixturevalue(options["from_model"]))}
    with pytest.raises(InputError, match=said):
        headway.train(request.getfixturevalue(data), out=tmp_path / "run", quiet=True, steps=2, **options)


def test_unknown_words_are_neither_masked_nor_measured(in_process: Any, tmp_path: Path):
    (tmp_path / "a.txt").write_text("".join(f"the cat sat on mat {n}\n" for n in range(400)))
    words = "--task masked_lm --tokenizer word --vocab 12 --length 16 --steps 2 --threads 1"
    _, err = in_process.passed("train", tmp_path / "a.txt", "--out", tmp_path / "run", *words.split())
    assert "neither masked nor measured" in err
