"""Models made and trained by transformers alone answer here as they do there: ids, losses, texts.

The quick tests train each for some steps; the thorough ones for a minute, and compare more.
"""

import json
import random
from itertools import pairwise
from typing import Any

import foreign_models
import pytest
import torch
from foreign_models import DECODERS, LENGTH, TRANSLATORS, texts, written

import headway

BOUND, TIE = 1e-4, 1e-4
QUICK = {"ids": 200, "documents": 8, "answers": 12}
THOROUGH = {"ids": 1000, "documents": 200, "answers": 100}
NEW = 24


def _pairs(names):
    return [
        *(pytest.param((name, "quick"), id=f"{name}-quick") for name in names),
        *(pytest.param((name, "minute"), id=f"{name}-minute", marks=pytest.mark.thorough) for name in names),
    ]


class Foreign:
    """One model, opened here and there."""

    def __init__(self, name, place, counts):
        import transformers

        kind = "Seq2SeqLM" if name in TRANSLATORS else "MaskedLM" if name == "bert" else "CausalLM"
        self.name, self.place, self.counts = name, place, counts
        self.model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(place).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(place)
        self.pipe: Any = headway.load(place)

    @torch.no_grad()
    def next_logits(self, ids, target=None):
        """The logits (V,) of what follows ids, or a target after them."""
        given = {} if target is None else {"decoder_input_ids": torch.tensor([target])}
        return self.model(torch.tensor([ids]), **given).logits[0, -1]

    def after(self, ids, found, start):
        """Those of what follows what was found: after ``ids``, or of a target after ``start``."""
        return self.next_logits([*ids, *found]) if start is None else self.next_logits(ids, [*start, *found])

    @torch.no_grad()
    def loss(self, windows):
        """The sum of -ln p over every id but the first of each window, and their number."""
        total, count = 0.0, 0
        for window in windows:
            logits = self.model(torch.tensor([window[:-1]])).logits[0]
            total += float(torch.nn.functional.cross_entropy(logits, torch.tensor(window[1:]), reduction="sum"))
            count += len(window) - 1
        return total, count

    @torch.no_grad()
    def greedy(self, ids, start=None, never=()):
        """The likeliest tokens until one ends the text: after ``ids``, or of a target after ``start``."""
        found = []
        while len(found) < NEW:
            logits = self.after(ids, found, start)
            logits[list(never)] = -torch.inf
            found.append(int(logits.argmax()))
            if found[-1] == self.tokenizer.eos_token_id:
                return found[:-1]
        return found

    def ties(self, ids, theirs, start=None):
        """Whether somewhere on the way the two best logits differ by so little that rounding may decide."""
        best = (self.after(ids, theirs[:n], start).topk(2).values for n in range(len(theirs) + 1))
        return any(float(first - second) < TIE for first, second in best)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    made = {}

    def of(key):
        if key not in made:
            name, how = key
            place = tmp_path_factory.mktemp("foreign") / name
            foreign_models.make(name, place, seconds=60 if how == "minute" else None)
            made[key] = Foreign(name, place, THOROUGH if how == "minute" else QUICK)
        return made[key]

    return of


@pytest.mark.parametrize("key", _pairs(foreign_models.ALL))
def test_ids_of_texts_are_those_of_its_tokenizer(key, foreign):
    it = foreign(key)
    lines = [*texts(it.counts["ids"] - 4, 7), "", " ", "  two  blanks ", "日本 👍🏽 naïve"]
    assert it.pipe.tokenizer.encode_batch(lines, special=True) == it.tokenizer(lines).input_ids
    if it.name in DECODERS:
        some = [line for line in lines if line]
        assert [it.pipe.prompt(line).ids for line in some] == it.tokenizer(some).input_ids
        begin = it.model.generation_config.bos_token_id or it.tokenizer.eos_token_id
        assert it.pipe.prompt("").ids == (it.tokenizer("").input_ids or [begin])
    if it.name in TRANSLATORS:
        theirs = it.tokenizer(text_target=lines).input_ids
        assert it.pipe.tokenizer.target.encode_batch(lines, special=True) == theirs


@pytest.mark.parametrize("key", _pairs(DECODERS))
def test_losses_of_language_models(key, foreign, tmp_path):
    it = foreign(key)
    lines = texts(it.counts["documents"], 8)
    documents = [written(it.tokenizer, line) for line in lines]
    assert max(map(len, documents)) <= LENGTH
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    joined = [number for document in documents for number in document]
    windows = [joined[start : start + LENGTH + 1] for start in range(0, len(joined) - 1, LENGTH)]
    total, count = it.loss(windows)
    measured = headway.evaluate(it.place, path)
    assert measured["examples"] == count == len(joined) - 1
    assert measured["val_loss"] == pytest.approx(total / count, abs=BOUND)
    begins = bool(it.tokenizer("").input_ids)
    for line, document in zip(lines, documents, strict=True):
        alone = document if begins else document[:-1]  # nothing stands after one document where none begins
        total, count = it.loss([alone])
        measured = headway.evaluate(it.place, [line])
        assert (measured["examples"], measured["val_loss"]) == (count, pytest.approx(total / count, abs=BOUND))


@pytest.mark.parametrize("key", _pairs(DECODERS))
def test_continuations_are_equal_as_text(key, foreign):
    it = foreign(key)
    draw = random.Random(9)
    lines = [line.split() for line in texts(it.counts["answers"], 9)]
    prompts = [" ".join(words[: draw.randint(1, len(words) - 1)]) for words in lines]
    ours = it.pipe(prompts, temperature=0, max_tokens=NEW)
    rows = it.model.config.vocab_size
    never = tuple({*range(len(it.tokenizer), rows), *it.tokenizer.all_special_ids} - {it.tokenizer.eos_token_id})
    different = 0
    for prompt, answer in zip(prompts, ours, strict=True):
        ids = it.tokenizer(prompt).input_ids
        theirs = it.greedy(ids, never=never)
        before, whole = (it.tokenizer.decode(row, skip_special_tokens=True) for row in (ids, [*ids, *theirs]))
        assert "".join(it.pipe.stream(prompt, temperature=0, max_tokens=NEW)) == answer
        if answer != whole[len(before) :]:
            assert it.ties(ids, theirs), (prompt, answer, whole)
            different += 1
    assert different <= len(prompts) // 10


@pytest.mark.parametrize("key", _pairs(TRANSLATORS))
def test_translations_and_their_losses(key, foreign, tmp_path):
    it = foreign(key)
    lines = texts(it.counts["answers"], 10)
    path = tmp_path / "pairs.jsonl"
    pairs = [(line, foreign_models.backwards(line)) for line in lines]
    path.write_text("".join(json.dumps({"source": one, "target": other}) + "\n" for one, other in pairs))
    total, count = 0.0, 0
    for one, other in pairs:
        ids, labels = it.tokenizer(one).input_ids, it.tokenizer(text_target=other).input_ids
        with torch.no_grad():
            found = it.model(torch.tensor([ids]), labels=torch.tensor([labels])).loss
        total, count = total + float(found) * len(labels), count + len(labels)
    measured = headway.evaluate(it.place, path, text_column="source", second_column="target")
    assert measured["val_loss"] == pytest.approx(total / count, abs=BOUND)
    start = [it.model.config.decoder_start_token_id]
    never = (*range(len(it.tokenizer), it.model.config.vocab_size), *(start if it.name == "marian" else ()))
    ours = it.pipe(lines, beam=1)
    for line, answer in zip(lines, ours, strict=True):
        ids = it.tokenizer(line).input_ids
        theirs = it.greedy(ids, start, never)
        text = it.tokenizer.decode(theirs, skip_special_tokens=True)
        equal = answer == text if len(theirs) < NEW else answer.startswith(text)
        assert equal or it.ties(ids, theirs, start), (line, answer, text)


@pytest.mark.parametrize("key", _pairs(("bert",)))
def test_fillings_and_their_losses(key, foreign, tmp_path):
    import transformers

    it = foreign(key)
    top = 5 + len(it.tokenizer.all_special_ids)
    fill = transformers.pipeline("fill-mask", it.model, tokenizer=it.tokenizer, top_k=top)
    draw = random.Random(12)
    lines = []
    for line in texts(it.counts["answers"], 11):
        words = line.split()
        words[draw.randrange(len(words))] = "[MASK]"
        lines.append(" ".join(words))
    ours, theirs = it.pipe(lines, k=5), fill(lines)
    special = set(it.tokenizer.all_special_tokens)  # which Headway never fills in
    for line, mine, likeliest in zip(lines, ours, theirs, strict=True):
        other = [row for row in likeliest if row["token_str"] not in special][:5]
        assert [row["score"] for row in mine] == pytest.approx([row["score"] for row in other], abs=BOUND)
        close = any(a["score"] - b["score"] < TIE for a, b in pairwise(other))
        assert close or [row["token"] for row in mine] == [row["token_str"] for row in other], line
    model = headway.load_model(it.place)
    total, apart = 0.0, 0.0
    for line, whole in zip(lines, texts(it.counts["answers"], 11), strict=True):
        ids, labels = (it.tokenizer(one, return_tensors="pt").input_ids for one in (line, whole))
        if ids.shape != labels.shape:
            continue
        with torch.no_grad():
            answers = (model(ids), it.model(ids).logits)
            ours_loss, their_loss = (torch.nn.functional.cross_entropy(one[0], labels[0]) for one in answers)
        total, apart = total + 1, max(apart, float((ours_loss - their_loss).abs()))
    assert total and apart < BOUND
