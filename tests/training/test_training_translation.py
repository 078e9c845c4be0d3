"""Pairs of texts make a translator: it learns, is measured alike again, is read by others, begins from others."""

import gzip
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from bases import make_base
from faults_harness import facts_of
from held_tables import table

import headway
from headway.data.records.text_pairs import read_text_pairs
from headway.errors import InputError
from headway.models.transformer import Decoder, EncoderDecoder
from headway.training.options import TrainOptions
from headway.training.sizing import translator as translator_preset
from headway.training.sizing.translator import by_pairs, translator_plan
from headway.workflows.evaluate import evaluate

pytestmark = pytest.mark.filterwarnings("ignore:.*cut off at the model")  # of models that know nothing yet

WORDS = ["cat", "dog", "mat", "sun", "tree", "old", "red", "sang", "ran"]
TINY: dict[str, Any] = {
    **{"d_model": 32, "layers": 2, "heads": 2, "batch_tokens": 512, "threads": 1, "precision": "float32"},
    **{"vocab": 300, "dropout": 0.0, "quiet": True},
}


def sides(place: Path, count: int = 301, name: str = "t") -> tuple[Path, Path]:
    """Two files: words, and the same words in the other order, shouted."""
    choose = random.Random(7)
    sources = [choose.choices(WORDS, k=choose.randint(2, 5)) for _ in range(count)]
    first = written(place / f"{name}.en", (" ".join(words) for words in sources))
    return first, written(place / f"{name}.de", (" ".join(words[::-1]).upper() for words in sources))


def written(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def pairs_of(files: Iterable[Path]) -> list[tuple[str, ...]]:
    return list(zip(*(path.read_text().splitlines() for path in files), strict=True))


def tabbed(path: Path, *rows: tuple[str, ...]) -> Path:
    return written(path, map("\t".join, rows))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator that has learnt its task; look, but do not write."""
    place = tmp_path_factory.mktemp("translation")
    headway.train(list(sides(place)), out=place / "run", steps=220, **TINY)
    return place / "run"


def test_two_files_make_a_translator_that_learns_and_is_measured_alike_again(run: Path):
    facts, found = facts_of(run), evaluate(run)
    assert facts["task"] == "translation" and facts["data"]["train"].endswith("pairs")
    unigram = next(one["val_loss"] for one in facts["baselines"] if one["name"] == "unigram")
    assert found["val_loss"] < 0.2 * unigram and found["accuracy"] > 0.9
    assert found["bleu_lowercase"] >= found["bleu"] > 60 and found["chrf"] > 60
    assert sorted(headway.load(run)("old cat ran").split()) == ["CAT", "OLD", "RAN"]
    assert found["val_loss"] == pytest.approx(facts["metrics"]["val_loss"], rel=1e-6)
    assert facts["data"]["validation"].startswith(f"{found['examples']} pairs")
    assert found["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_other_programs_write_the_same(run: Path):
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(run).eval()
    words = transformers.AutoTokenizer.from_pretrained(run)
    assert theirs.generation_config.num_beams == 5
    pipe = headway.load(run)
    for text in ("cat", "old dog sang", "red red sun tree"):
        given = words(text, return_tensors="pt", return_token_type_ids=False)
        for beams in (5, 1):
            ids = theirs.generate(**given, num_beams=beams, max_new_tokens=30)[0]
            assert words.decode(ids, skip_special_tokens=True) == pipe(text, beam=beams)
        assert pipe(text) == pipe(text, beam=5)


def test_files_are_measured_by_the_columns_that_were_trained_on(tmp_path: Path):
    pairs = [(a, " ".join(f"x{word}" for word in b.split())) for a, b in pairs_of(sides(tmp_path, 83))]
    trained = tabbed(tmp_path / "t.tsv", ("en", "de"), *pairs)
    other = tabbed(tmp_path / "other.tsv", ("note", "de", "en"), *(("some words", b, a) for a, b in pairs[:40]))
    headway.train(trained, out=tmp_path / "run", steps=2, **TINY)
    rows = table([{"en": a, "de": b} for a, b in pairs], ["en", "de"], trained)
    train, _ = read_text_pairs(rows, "en", "de").split(0)
    known = set(train.sources)
    both = sum(a in known for a, _ in pairs[:40])  # those of the held-out part do not count
    assert 0 < both < 40
    with pytest.warns(UserWarning, match=f"{both} of 40 first texts also occur in the training data"):
        found = evaluate(tmp_path / "run", [other])
    files = [written(tmp_path / f"o.{name}", (pair[name == "de"] for pair in pairs[:40])) for name in ("en", "de")]
    with pytest.warns(UserWarning, match="also occur"):
        assert evaluate(tmp_path / "run", files)["val_loss"] == found["val_loss"]
    with pytest.warns(UserWarning, match="source and target seem to be swapped"):
        assert evaluate(tmp_path / "run", files[::-1])["val_loss"] != found["val_loss"]
    with pytest.warns(UserWarning, match="source and target seem to be swapped"):
        evaluate(tmp_path / "run", [other], text_column="de", second_column="en")


def test_two_files_are_measured_after_a_table_whose_columns_were_named(tmp_path: Path):
    files = sides(tmp_path, 61)
    data = tabbed(tmp_path / "t.tsv", ("body", "headline"), *pairs_of(files))
    columns = {"text_column": "body", "second_column": "headline", "task": "summarize"}
    options = {**TINY, **columns, "steps": 2, "validation": list(files)}
    trained = headway.train(data, out=tmp_path / "run", **options)
    with pytest.warns(UserWarning, match="also occur"):
        assert evaluate(tmp_path / "run", files)["val_loss"] == pytest.approx(trained["val_loss"], rel=1e-6)
    files[0].write_text(files[0].read_text().replace("cat", "hat"))
    with pytest.warns(UserWarning, match="has changed since the run was measured on it"):
        evaluate(tmp_path / "run")


def test_two_files_of_as_many_lines_are_asked_for(tmp_path: Path):
    first, second = sides(tmp_path, 83)
    renamed = [first.rename(tmp_path / "t.eng"), second.rename(tmp_path / "t.quy")]
    with pytest.raises(InputError, match=r"has 83 lines.*quy 83.*--task translation.*--task language_modeling"):
        headway.train(renamed, out=tmp_path / "run", steps=2, **TINY)
    assert headway.train(renamed, out=tmp_path / "run", task="translation", steps=2, **TINY)["task"] == "translation"
    renamed[1].write_text("one line\nand another\n")  # however many: they are called alike
    with pytest.raises(InputError, match=r"t\.eng has 83 lines.*t\.quy 2\. If"):
        headway.train(renamed, out=tmp_path / "other", steps=2, **TINY)
    others = [written(tmp_path / f"{count}.txt", ["some words"] * count) for count in (400, 397)]
    with pytest.raises(InputError, match=r"400 lines.*397.*--task translation"):
        headway.train(others, out=tmp_path / "other", steps=2, **TINY)
    others[1].write_text("some words\n" * 390)
    assert headway.train(others, out=tmp_path / "other", steps=2, **TINY)["task"] == "language_modeling"


@pytest.mark.parametrize(
    ("task", "said"), [({}, " .use --task language_modeling"), ({"task": "translation"}, r"\. Ju")]
)
def test_sides_are_refused_without_advice_where_pairs_were_asked_for(task: dict, said: str, tmp_path: Path):
    first, second = sides(tmp_path, 31)
    second.write_text("one line\nand another\n")
    with pytest.raises(InputError, match=rf"has 31 lines.*must correspond{said}"):
        headway.train([first, second], out=tmp_path / "run", steps=2, **task, **TINY)


def test_targets_without_spaces_are_said_beforehand(tmp_path: Path):
    first, second = sides(tmp_path, 61)
    written(second, ["x" * 40 + line.replace(" ", "") for line in second.read_text().splitlines()])
    headway.train([first, second], out=tmp_path / "run", steps=2, **TINY)
    assert any("use chrF" in line for line in facts_of(tmp_path / "run")["data"]["warnings"])


def test_packed_files_tables_and_files_to_validate_on(tmp_path: Path):
    first, second = sides(tmp_path, 83)
    packed = [tmp_path / f"p.{path.suffix[1:]}.gz" for path in (first, second)]
    for path, to in zip((first, second), packed, strict=True):
        to.write_bytes(gzip.compress(path.read_bytes()))
    data = tabbed(tmp_path / "t.tsv", ("en", "de"), *pairs_of((first, second)))
    short = {**TINY, "steps": 2}
    options = {**short, "validation": list(sides(tmp_path, 11, "v"))}
    found = [
        headway.train(packed, out=tmp_path / "a", **options),
        headway.train(data, out=tmp_path / "b", **options),
        headway.train([first, second], task="summarize", out=tmp_path / "c", **options),
    ]
    assert len({one["val_loss"] for one in found}) == 1
    assert {one["task"] for one in found} == {"translation"}
    one_text = headway.train([first, second], task="language_modeling", out=tmp_path / "d", **short)
    assert one_text["task"] == "language_modeling"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["t5", "bart", "m2m_100", "marian"])
def test_a_published_translator_goes_on_learning(kind: str, tmp_path: Path):
    base = make_base(kind, tmp_path / "base")
    before = headway.load(base)
    options = {"quiet": True, "threads": 1, "precision": "float32", "batch_tokens": 512, "learning_rate": 3e-3}
    found = headway.train(list(sides(tmp_path, 97)), from_model=str(base), steps=40, out=tmp_path / "run", **options)
    first = next(one["val_loss"] for one in found["baselines"] if one["name"].startswith("uniform"))
    assert found["val_loss"] < 0.95 * first
    after = headway.load(tmp_path / "run")
    assert isinstance(after.model, EncoderDecoder) and after.rules.start == before.rules.start
    assert evaluate(tmp_path / "run")["val_loss"] == pytest.approx(found["val_loss"], rel=1e-6)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "run").eval()
    ids = torch.tensor([[5, 7, 11]])
    with torch.no_grad():
        logits = theirs(input_ids=ids, decoder_input_ids=torch.tensor([[2, 9]])).logits
        assert torch.allclose(logits, after.model(ids, torch.tensor([[2, 9]])), atol=1e-4)


def test_a_decoder_alone_learns_the_same_pairs(tmp_path: Path):
    pair = list(sides(tmp_path, 301))
    found = headway.train(pair, model="decoder", out=tmp_path / "run", steps=150, learning_rate=3e-3, **TINY)
    again = evaluate(tmp_path / "run")
    assert again["val_loss"] == pytest.approx(found["val_loss"], rel=1e-6) and again["bits_per_byte"] > 0
    unigram = next(one["val_loss"] for one in found["baselines"] if one["name"] == "unigram")
    assert found["val_loss"] < 0.5 * unigram and found["bleu"] == pytest.approx(again["bleu"])
    pipe = headway.load(tmp_path / "run")
    assert pipe.task == "translation" and isinstance(pipe.model, Decoder)
    texts = ["cat", "old dog sang ran red", ""]
    assert pipe(texts) == [pipe(text) for text in texts]
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run").eval()
    source = pipe.tokenizer.encode("old dog", special=True)
    ids = theirs.generate(torch.tensor([source]), max_new_tokens=20, do_sample=False)[0, len(source) :]
    assert pipe.tokenizer.decode(ids.tolist()) == pipe("old dog", beam=1)
    with pytest.raises(InputError, match="this model is a decoder"):
        pipe.hypotheses(["cat"], alignment=True)
    with pytest.raises(InputError, match="--r-drop is for encoder-decoders"):
        headway.train(pair, model="decoder", r_drop=1.0, out=tmp_path / "other", steps=2, **TINY)


def test_what_writes_no_text_is_no_base(tmp_path: Path):
    base = make_base("gpt2", tmp_path / "base")
    with pytest.raises(InputError, match="not an encoder-decoder of text"):
        headway.train(list(sides(tmp_path, 31)), from_model=str(base), steps=2, out=tmp_path / "run", quiet=True)


def test_pairs_that_are_too_long_are_left_out_and_counted(tmp_path: Path):
    first, second = sides(tmp_path, 60)
    with first.open("a") as one, second.open("a") as other:
        one.write("cat " * 50 + "\nsun\n\n")
        other.write("CAT\n" + "SUN " * 50 + "\nTREE\n")
    headway.train([first, second], out=tmp_path / "run", length=24, steps=2, **TINY)
    warnings = facts_of(tmp_path / "run")["data"]["warnings"]
    assert any("left out because one side is empty: 1 (line 63)" in line for line in warnings)
    assert sum("longer than 24 tokens" in line for line in warnings) == 1
    with pytest.raises(InputError, match="no pair has at most 2 tokens"):
        headway.train([first, second], out=tmp_path / "none", length=2, steps=2, **TINY)


def test_sizes_by_the_number_of_pairs_and_by_the_time(monkeypatch: pytest.MonkeyPatch):
    assert [by_pairs(n).width for n in (1, 5_000, 5_001, 100_000, 100_001, 10**7)] == [128, 128, 128, 128, 256, 512]
    assert [(by_pairs(n).layers, by_pairs(n).vocab) for n in (5_000, 5_001)] == [(2, 1000), (3, 4000)]
    monkeypatch.setattr(translator_preset, "training_rate", lambda device, precision: 5e10)
    sizes = [
        translator_plan(TrainOptions(), 16_000, 500_000, (10**7, 10**7), 256, seconds).config.d_model
        for seconds in (1e6, 60.0)
    ]
    assert sizes == [256, 128]
    for width, heads in ((64, 2), (100, 2), (128, 4), (512, 16)):  # of 32, or what divides the width
        assert translator_plan(TrainOptions(d_model=width), 99, 99, (99, 99), 64, None).config.n_heads == heads
    tokens = (10**5, 10**5)  # one pass is 50 steps of 4,000 tokens
    kinds = [{"steps": 50}, {"steps": 1000}, {"steps": 3000}, {"epochs": 4, "steps": 3000}, {"dropout": 0.25}]
    options = [TrainOptions(**{"batch_tokens": 4000, **kind}) for kind in kinds]
    plans = [translator_plan(each, 4000, 10_000, tokens, 64, None) for each in options]
    assert [plan.config.dropout for plan in plans] == [0.1, 0.2, 0.3, 0.1, 0.25]
    flops = 6e5 * (28 * 128**2 * 3 + 4000 * 128)  # of one pass, with three layers
    in_time = [translator_plan(TrainOptions(), 4000, 10_000, tokens, 64, n * flops / 5e10) for n in (8.1, 24, 26)]
    assert [(plan.config.n_layers, plan.config.dropout) for plan in in_time] == [(3, 0.2), (3, 0.2), (3, 0.3)]
    twice = translator_plan(TrainOptions(r_drop=5.0), 4000, 10_000, tokens, 64, 26 * flops / 5e10)
    assert twice.config.dropout == 0.2  # every batch is read twice, so there are half as many passes
    of_few = translator_plan(TrainOptions(), 500, 50, (99, 99), 64, 2.0)
    assert "about 100 passes" in of_few.decisions[1]["why"]  # each is a step, however short
    few, many = (translator_plan(TrainOptions(), 500, 50, (n, n), 64, 1e5).epochs for n in (1024, 10**6))
    assert (few, many) == (2000, 100)  # a batch is two passes of the few, and there are to be 1,000 of them
    asked = translator_plan(TrainOptions(d_model=64, layers=3, dropout=0.0), 1000, 100, (99, 99), 64, None)
    assert (asked.config.d_model, asked.config.n_layers, asked.config.dropout) == (64, 3, 0.0)
