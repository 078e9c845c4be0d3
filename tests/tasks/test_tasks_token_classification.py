"""Schemes, reading, alignment, metrics and objective of token classification."""

import json
import random
import zlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from objectives_kit import Recorder

import headway
from headway.data.batches.batching import IGNORED, Batch, TargetKind
from headway.data.formats.tags import entities, in_labels, iob2, labels_for
from headway.data.open.read import read
from headway.data.records.tagged import read_tagged
from headway.data.records.words import PLAIN, first_tokens
from headway.errors import InputError
from headway.runtime.windows import read_in_windows
from headway.tasks.token_classification.data import WordTags, encoded
from headway.tasks.token_classification.objective import Counts, TokenClassification
from headway.text.train import train_tokenizer
from headway.workflows.input import detect

LABELS = ["O", "B-LOC", "I-LOC", "B-MISC", "I-MISC", "B-PER", "I-PER"]


def counted(wanted, found, labels=LABELS):
    counts = Counts(labels)
    for targets, guesses in zip(wanted, found, strict=True):
        counts.add([labels.index(tag) for tag in targets], [labels.index(tag) for tag in guesses])
    return counts


def test_the_example_of_seqeval():
    """The one in its documentation: F1, precision and recall 0.50, accuracy 0.80; PER 1.00, MISC 0.00."""
    wanted = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    found = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    metrics = counted(wanted, found).metrics()
    assert metrics["entity_f1"] == metrics["entity_precision"] == metrics["entity_recall"] == 0.5
    assert metrics["accuracy"] == pytest.approx(0.8)
    assert metrics["per_class"]["PER"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1}
    assert metrics["per_class"]["MISC"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}


ENTITIES = {
    "B-PER I-PER O B-LOC": [("PER", 0, 2), ("LOC", 3, 4)],  # in the documentation of seqeval
    "I-PER I-PER O": [("PER", 0, 2)],  # an I begins where none is open
    "B-PER B-PER I-PER": [("PER", 0, 1), ("PER", 1, 3)],
    "I-PER B-PER": [("PER", 0, 1), ("PER", 1, 2)],  # IOB1
    "B-PER I-LOC": [("PER", 0, 1), ("LOC", 1, 2)],  # another type
    "B-PER E-PER S-LOC S-LOC": [("PER", 0, 2), ("LOC", 2, 3), ("LOC", 3, 4)],  # BIOES
    "B-PER I-PER L-PER U-LOC": [("PER", 0, 3), ("LOC", 3, 4)],  # BILOU
    "E-PER E-PER": [("PER", 0, 1), ("PER", 1, 2)],
    "S-PER I-PER": [("PER", 0, 1), ("PER", 1, 2)],
    "B I O B": [("_", 0, 2), ("_", 3, 4)],
    "PER PER O LOC": [("PER", 0, 2), ("LOC", 3, 4)],  # IO
    "O O": [],
    "": [],
}


@pytest.mark.parametrize("tags", ENTITIES)
def test_entities_of_every_scheme(tags):
    found = entities(tags.split())
    assert found == ENTITIES[tags]
    assert entities(iob2(tags.split())) == found
    assert {tag[0] for tag in iob2(tags.split())} <= set("BIO")


def test_tags_of_words_are_no_entities():
    tags = ["DET", "NOUN", "NOUN", "VERB"]
    assert labels_for(tags) == ["DET", "NOUN", "VERB"]
    assert [end - start for _, start, end in entities(tags, whole=True)] == [1, 1, 1, 1]
    assert labels_for(["O", "I-PER", "LOC"]) == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert in_labels(["B-PER", "I-PER", "O", "B-LOC"], ["O", "I-PER", "LOC"]) == ["I-PER", "I-PER", "O", "LOC"]
    metrics = counted([tags], [["DET", "NOUN", "VERB", "VERB"]], ["DET", "NOUN", "VERB"]).metrics()
    assert metrics["entity_f1"] == metrics["accuracy"] == 0.75


def tagged(path, text, **options):
    path.write_text(text, encoding="utf-8", newline="")
    source = read(path)
    return read_tagged(source, detect(source, task="token_classification", **options), "error")


FOX = ["Anna\tB-PER", "Smith\tI-PER", "saw\tO", "Rome\tB-LOC", ".\tO"]
READ = {
    "tabs": "\n".join(FOX) + "\n\n" + "\n".join(FOX),
    "blanks": "\n".join(FOX).replace("\t", " ") + "\n\n\n\n" + "\n".join(FOX).replace("\t", "  ") + "\n\n",
    "windows": ("\n".join(FOX) + "\n \n" + "\n".join(FOX) + "\n").replace("\n", "\r\n"),
    "documents": "-DOCSTART- -X- O O\n\n" + "\n\n".join(["\n".join(f.replace("\t", " NN X ") for f in FOX)] * 2),
    "comments": "\n\n".join(["# text = Anna Smith saw Rome .\n" + "\n".join(FOX)] * 2),
}


@pytest.mark.parametrize("name", READ)
def test_sentences_of_a_file(name, tmp_path):
    found = tagged(tmp_path / "a.conll", READ[name])
    assert [one.text for one in found] == ["Anna Smith saw Rome ."] * 2
    assert next(iter(found)).tags == ["B-PER", "I-PER", "O", "B-LOC", "O"]
    assert [list(found)[1].text[start:end] for start, end in list(found)[1].words][3] == "Rome"
    line = next(i for i, one in enumerate(READ[name].split("\n"), start=1) if one.startswith("Rome"))
    assert next(iter(found)).place(3) == f"{tmp_path / 'a.conll'}, line {line}"


BAD = {
    "one field": ("\n".join([*FOX, "Rome", *FOX]), "line 6: 1 field, where other lines have 2"),
    "no token": ("\n".join([*FOX, "\tO", *FOX]), "line 6: the tag 'O' has no token"),
    "no tag": ("\n".join([*FOX, "Rome\t", *FOX]), "line 6: the token 'Rome' has no tag"),
    "no type": ("\n".join([*FOX, "Rome\tB-", *FOX]), "line 6: the tag 'B-' has no type"),
    "running text": ("Rome\n\nParis\n", "no token with its tag on a line"),
    "three fields": ("\n".join([*FOX * 3, "New York\tB-LOC\tO"]), "line 16: 3 fields, where other lines have 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_lines_are_named(name, tmp_path):
    text, said = BAD[name]
    with pytest.raises(InputError, match=f"a.conll.*{said}"):
        tagged(tmp_path / "a.conll", text)


def test_bad_sentences_can_be_left_out_and_tags_of_one_kind_teach_nothing(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("\n\n".join(["\n".join(FOX)] * 3 + ["Rome\n" + "\n".join(FOX)]))
    found = read_tagged(source := read(path), detect(source), "skip")
    assert len(found) == len(list(found)) == 3 and "1 sentence with malformed lines left out" in found.warnings[0]
    path.write_text("".join(f"word{i}\tO\nran\tO\n\n" for i in range(20)))
    with pytest.raises(InputError, match=r"a\.conll: every tag is 'O', so there is nothing to learn"):
        headway.train(path, task="token_classification", steps=1, out=tmp_path / "run", quiet=True)


def jsonl(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


TEXT = "Née Anna Smith saw Rome."
PERSON = {"start": 4, "end": 14, "label": "PER"}
LISTS = {"tokens": ["Anna", "saw", "Rome"], "tags": ["B-PER", "O", "B-LOC"]}


def test_spans_of_a_text(tmp_path):
    spans = [{"start": 19, "end": 23, "label": "LOC"}, PERSON]
    found = tagged(tmp_path / "a.jsonl", jsonl({"text": TEXT, "spans": spans}, {"text": "It rained.", "spans": []}))
    one, other = found
    assert one.text == TEXT and one.tags == ["O", "B-PER", "I-PER", "O", "B-LOC", "O"]
    assert other.tags == ["O", "O", "O"] and not found.warnings
    wide = tagged(tmp_path / "b.jsonl", jsonl({"text": TEXT, "spans": [{"start": 5, "end": 8, "label": "PER"}]}))
    assert next(iter(wide)).tags[1] == "B-PER" and "1 span" in wide.warnings[0]


BAD_ROWS = {
    "outside": ({"spans": [{"start": 19, "end": 29, "label": "X"}]}, "19 to 29 .X. lies outside the text"),
    "empty": ({"spans": [{"start": 4, "end": 4, "label": "X"}]}, "4 to 4 .X. lies outside"),
    "crossing": ({"spans": [PERSON, {"start": 9, "end": 18, "label": "X"}]}, "9 to 18 .X. crosses"),
    "no span": ({"spans": [{"start": "a"}]}, "column 'spans' holds .* expected spans such as"),
    "no text": ({"text": "", "spans": [PERSON]}, "lies outside the text of 0 characters"),
}
BAD_LISTS = {
    "fewer": ({"tags": ["O", "O"]}, "3 tokens in column 'tokens', but 2 tags in column 'tags'"),
    "no tokens": ({"tokens": [], "tags": ["O"]}, "1 tag in column 'tags', but no text"),
    "numbers": ({"tags": [0, 1, 2]}, "the tag '0' in column 'tags' is a number"),
    "empty tag": ({"tags": ["O", "", "O"]}, "an empty tag"),
    "no type": ({"tags": ["O", "I-", "O"]}, "the tag 'I-' has no type"),
}


@pytest.mark.parametrize("name", [*BAD_ROWS, *BAD_LISTS])
def test_bad_rows_are_named(name, tmp_path):
    row, said = {**BAD_ROWS, **BAD_LISTS}[name]
    good = LISTS if name in BAD_LISTS else {"text": TEXT, "spans": [PERSON]}
    named = {"text_column": "tokens", "label_column": "tags"} if name in BAD_LISTS else {}
    with pytest.raises(InputError, match=f"a.jsonl, line 2: .*{said}"):
        tagged(tmp_path / "a.jsonl", jsonl(good, good | row, *[good] * 20), **named)


def test_unknown_tags_are_named(tmp_path):
    found = tagged(tmp_path / "a.conll", READ["tabs"])
    with pytest.raises(InputError, match=r"line 4: the tag 'B-LOC' is not one of the model's tags: O, B-PER, I-PER"):
        found.check_labels(["O", "B-PER", "I-PER"], "the model's tags")


def test_universal_dependencies_and_lists_of_tokens(tmp_path):
    lines = ["# text = can't see", "1-2\tcan't" + "\t_" * 8]
    for number, (word, kind) in enumerate([("ca", "AUX"), ("n't", "PART"), ("see", "VERB")] * 2, start=1):
        lines.append(f"{number}\t{word}\t{word}\t{kind}\t_\t_\t0\troot\t_\t_")
    found = tagged(tmp_path / "a.conllu", "\n".join(lines))
    (one,) = found
    assert one.text == "ca n't see ca n't see" and found.whole and one.tags[:3] == ["AUX", "PART", "VERB"]
    _, other = tagged(tmp_path / "a.jsonl", jsonl(LISTS, LISTS))
    assert other.text == "Anna saw Rome" and other.tags == LISTS["tags"]
    assert other.place(2) == f"{tmp_path / 'a.jsonl'}, line 2"


def test_words_of_a_text_and_the_first_token_of_each():
    text = "Mr. Smith's 日本 हिन्दी!"
    assert [text[a:b] for a, b in PLAIN.split(text)] == ["Mr", ".", "Smith", "'", "s", "日", "本", "हिन्दी", "!"]
    assert PLAIN.split("") == PLAIN.split(" \n") == []
    words = [(0, 2), (2, 3), (4, 9), (9, 10), (10, 11)]  # Mr . Smith ' s
    found = first_tokens(words, [(0, 1), (1, 2), (2, 3), (3, 6), (6, 9), (9, 11)])
    assert found == [(0, 0, 1), (2, 1, 2), (3, 2, 3), (5, 3, 5)]  # 's is one token, and so one word
    assert first_tokens([(0, 1), (1, 2), (3, 4)], [(0, 1), (3, 4)]) == [(0, 0, 1), (1, 2, 3)]  # nothing is kept of one
    assert first_tokens(words, []) == []


@pytest.mark.parametrize("kind", ["wordpiece", "word", "bpe", "char"])
def test_rows_have_a_target_at_the_first_token_of_each_word(kind, tmp_path):
    found = tagged(tmp_path / "a.conll", READ["tabs"])
    tokenizer = train_tokenizer([one.text for one in found], kind, 300, role="encoder", lowercase=False)
    whole = encoded(found, tokenizer, LABELS)
    texts, tags = [one.text for one in found], [one.tags for one in found]
    assert whole.ids == tokenizer.encode_batch(texts, special=True)
    for (ids, targets, words), wanted in zip(whole.triples(), tags, strict=True):
        assert len(ids) == len(targets)
        assert words == [0, *(zlib.crc32(word.encode()) for word in ["Anna", "Smith", "saw", "Rome", "."])]
        assert [LABELS[tag - 1] for tag in targets if tag] == wanted
        assert targets[0] == targets[-1] == 0
    assert whole.lost == 0 and whole.cut(100) is whole
    assert whole.too_long(7).tolist() == [len(ids) > 7 for ids in whole.ids]
    parts = whole.cut(7)
    assert all(len(row) <= 7 for row in parts.ids)
    one, other = ([tag for row in rows.targets for tag in row if tag != IGNORED] for rows in (parts, whole))
    assert one == other == [LABELS.index(tag) for row in tags for tag in row]
    one, other = ([word for _, _, row in rows.triples() for word in row[1:]] for rows in (parts, whole))
    assert one == other
    assert parts.words.sum() == whole.words.sum() == 10


def test_words_of_which_nothing_is_kept_have_no_target(tmp_path):
    found = tagged(tmp_path / "a.conll", READ["tabs"] + "\n\n\u200b O\n".replace(" ", "\t"))
    tokenizer = train_tokenizer([one.text for one in found], "wordpiece", 300, role="encoder", lowercase=False)
    rows = encoded(found, tokenizer, LABELS)
    assert (rows.lost, rows.words.tolist()) == (1, [5, 5, 0])
    assert len(rows.cut(100).ids) == 2


def test_the_baseline_gives_each_word_its_most_frequent_tag(tmp_path):
    lines = ["Rome\tB-LOC", "Rome\tB-LOC", "Rome\tB-PER", "saw\tO", "saw\tO", "Anna\tB-PER", "it\tO"]
    found = tagged(tmp_path / "a.conll", "\n".join(lines))
    tokenizer = train_tokenizer([one.text for one in found], "word", 50, role="encoder", lowercase=False)

    baseline = WordTags(encoded(found, tokenizer, LABELS))
    test = tagged(tmp_path / "b.conll", "Anna\tB-PER\nsaw\tO\nRome\tB-PER\nBen\tB-PER\n.\tO\n")
    line, units = baseline.measured(encoded(test, tokenizer, LABELS))
    # found: PER, LOC; wanted: PER, PER, PER; unknown words are O
    assert line["name"] == "most frequent tag of each word" and line["accuracy"] == 0.6
    assert (line["entity_precision"], line["entity_recall"]) == (0.5, 1 / 3)
    assert units.tolist() == [[2, 5]] and line["entity_f1"] == 0.4


def test_loss_and_evaluation_count_words():
    logits = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(3))
    targets = torch.tensor([[IGNORED, 5, 6, 0, IGNORED], [IGNORED, 0, IGNORED, IGNORED, IGNORED]])
    batch = Batch({"ids": torch.ones(2, 5, dtype=torch.int64)}, None, targets, TargetKind.TOKEN)
    task, model = TokenClassification(LABELS), Recorder(logits).eval()
    total, count, _ = task.loss(model, batch)
    wanted = targets != IGNORED
    assert count == 4
    torch.testing.assert_close(total, F.cross_entropy(logits[wanted], targets[wanted], reduction="sum"))
    each = []
    metrics = task.evaluate(model, [batch], each)
    assert metrics["val_loss"] == pytest.approx(total.item() / 4)
    units = np.concatenate(each)
    assert units.shape == (2, 2) and units[:, 0].sum() / units[:, 1].sum() == pytest.approx(metrics["entity_f1"])
    assert task.cost({"entity_f1": 0.9, "val_loss": 9.0}) < task.cost({"entity_f1": 0.8, "val_loss": 0.1})
    smooth = TokenClassification(LABELS, label_smoothing=0.1).loss(model.train(), batch)[0]
    expected = F.cross_entropy(logits[wanted], targets[wanted], reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(smooth, expected)


def test_windows_keep_every_token_once_and_far_from_their_ends():
    around = [101], [102, 103]
    for length, room in ((0, 5), (1, 5), (5, 5), (6, 5), (13, 5), (31, 7), (9, 1), (100, 8)):
        margins = []

        def read(rows, room=room, length=length, margins=margins):
            for ids in rows:
                assert ids[:1] == [101] and ids[-2:] == [102, 103] and len(ids) <= room + 3
                before, after = torch.arange(len(ids)) - 1, len(ids) - 3 - torch.arange(len(ids))
                before = before if ids[1] else torch.full_like(before, length)
                after = after if ids[-3] < length - 1 else torch.full_like(after, length)
                margins.append(torch.minimum(before, after))
            return [torch.stack([torch.tensor(ids), margin], 1) for ids, margin in zip(rows, margins, strict=True)]

        (found,) = read_in_windows([list(range(length))], room + 3, around, read)
        assert found[:, 0].tolist() == list(range(length))
        assert room < 3 or all(margin >= (room - 1) // 4 for margin in found[:, 1].tolist())


def test_random_tags_are_read_back(tmp_path):
    draw = random.Random(3)
    sentences = [[(draw.choice("abc"), draw.choice(["O", "B-X", "I-X", "B-Y"])) for _ in range(5)] for _ in range(29)]
    text = "\n\n".join("\n".join(f"{word} {tag}" for word, tag in one) for one in sentences)
    found = tagged(tmp_path / "a.txt", text)
    assert [list(zip(one.text.split(), one.tags, strict=True)) for one in found.stream()] == sentences
    assert [one.tags for one in found] == [iob2([tag for _, tag in one]) for one in sentences]
    part = found.part(np.array([3, 11, 28]))
    assert [one.text.split() for one in part] == [[word for word, _ in sentences[i]] for i in (3, 11, 28)]
    assert len(part) == 3 and part.words.tolist() == [5, 5, 5] and part.key != found.key
