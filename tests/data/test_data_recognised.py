"""Tagged tokens and data for tasks that Headway does not have are recognised; everything else is left in peace."""

import csv
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from held_tables import table

from headway.data.formats.tags import listed
from headway.data.open.read import read
from headway.data.records.table import Table
from headway.errors import InputError
from headway.tasks.data_facts import DataFacts
from headway.tasks.label_sets import label_lists
from headway.tasks.ratings.recognise import rated
from headway.workflows.input import detect

NAMES = ["Anna", "Berlin", "Siemens", "Paris", "Ada", "Rome"]
WORDS = ["the", "of", "and", "we", "went", "to", "see", "a", "long", "film", "home", "while", "old", "dogs", "ran"]
NO_TASK = "for which Headway has no task yet"


def sentence(draw: random.Random, low: int = 4, high: int = 14) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(low, high)))


def sentences(count: int, seed: int = 0) -> list[list[tuple[str, str]]]:
    """Tokens with tags of IOB2."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        one = [(word, "O") for word in draw.choices(WORDS, k=draw.randint(3, 9))]
        at = draw.randrange(len(one))
        one[at] = (draw.choice(NAMES), draw.choice(["B-PER", "B-LOC", "B-ORG"]))
        found.append(one)
    return found


def conll(line: Callable[[str, str], str], count: int = 20, before: str = "") -> str:
    body = "\n\n".join("\n".join(line(word, tag) for word, tag in one) for one in sentences(count))
    return f"{before}{body}\n"


CONLL = {
    "a.conll": conll(lambda word, tag: f"{word} NNP I-NP {tag}", before="-DOCSTART- -X- -X- O\n\n"),
    "b.iob": conll(lambda word, tag: f"{word}\t{tag}"),
    "c.bio": conll(lambda word, tag: f"{word} {tag}"),
    "d.txt": conll(lambda word, tag: f"{word}\t{tag}").replace("\n", "\r\n"),
    "e.txt": conll(lambda word, tag: f"{word} {tag}", before="-DOCSTART- O\n\n"),
    "f.tsv": conll(lambda word, tag: f"{word}\t{tag}"),
    "g.tsv": conll(lambda word, tag: f"{word} {tag}", before="-DOCSTART- O\n\n"),
    "h.csv": conll(lambda word, tag: f"{word},{tag}"),
    "i.tsv": conll(lambda word, tag: f"{word}\t{tag}", before="word\ttag\n"),
    "j.csv": "sentence,word,pos,tag\n"
    + "".join(f"{n},{word},NN,{tag}\n" for n, one in enumerate(sentences(20)) for word, tag in one),
    "k.jsonl": "".join(
        json.dumps({"id": str(n), "tokens": [w for w, _ in one], "ner_tags": [len(t) % 3 for _, t in one]}) + "\n"
        for n, one in enumerate(sentences(20))
    ),
    "l.csv": "text,labels\n"
    + "".join(f"{' '.join(w for w, _ in one)},{' '.join(t for _, t in one)}\n" for one in sentences(20)),
    "m.conllu": "".join(f"{i % 5 + 1}\t{w}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n" for i, w in enumerate(WORDS)),
    "n.txt": conll(lambda word, tag: f"{word}\t{tag.replace('B-', 'S-')}"),
    "o.txt": conll(lambda word, tag: f"{word} {tag.split('-')[-1]}"),
}


WORD_BY_WORD = ("f.tsv", "g.tsv", "h.csv", "i.tsv", "j.csv")
"""Tables with a word in each row: nothing says where a sentence ends."""
LISTS = {"k.jsonl": ("tokens", "ner_tags"), "l.csv": ("text", "labels")}


@pytest.mark.parametrize("name", CONLL)
def test_tagged_tokens_are_found(name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_text(CONLL[name], newline="")
    if name in WORD_BY_WORD:
        with pytest.raises(InputError, match=rf"{name}: .*tagged tokens.*\.conll"):
            detect(read(path))
    else:
        found = detect(read(path))
        assert found.task == "token_classification"
        assert (found.text_column, found.label_column) == LISTS.get(name, (None, None))
        assert detect(read(path), task="token_classification").task == "token_classification"
    if name not in ("f.tsv", "g.tsv", "h.csv"):  # without a header there are no columns to go on with
        column = {"k.jsonl": "tokens", "i.tsv": "word"}.get(name)
        assert detect(read(path), task="language_modeling", text_column=column).task == "language_modeling"


def test_one_kind_of_files_at_a_time(tmp_path: Path):
    (tmp_path / "a.conll").write_text(CONLL["a.conll"])
    (tmp_path / "b.txt").write_text("Running text.\n" * 20)
    with pytest.raises(InputError, match=r"a\.conll holds tagged tokens, .*b\.txt does not"):
        detect(read([tmp_path / "a.conll", tmp_path / "b.txt"]))


SPANS = {
    "objects": lambda start, end: [{"start": start, "end": end, "label": "PER"}],
    "triples": lambda start, end: [[start, end, "PER"]],
}


@pytest.mark.parametrize("column", ["spans", "entities", "label"])
@pytest.mark.parametrize("kind", SPANS)
def test_spans_beside_texts_are_found(kind: str, column: str, tmp_path: Path):
    path = tmp_path / "a.jsonl"
    lines = [
        {"id": str(i), "text": f"Anna saw film {i}.", column: SPANS[kind](0, 4) if i % 3 else []} for i in range(9)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = detect(read(path))
    assert (found.task, found.text_column, found.label_column) == ("token_classification", "text", column)
    assert detect(read(path), task="language_modeling", text_column="text").task == "language_modeling"
    with pytest.raises(InputError, match="needs a column of lists of tokens"):
        detect(rows({"text": text, "topic": of("a", "b")}), task="token_classification")


@pytest.mark.parametrize("others", ({"id": ["1", "2"] * 10}, {}))
def test_lists_in_parquet_are_found(others: dict[str, list[str]], tmp_path: Path):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    one = [(word, len(tag) % 3) for word, tag in sentences(1)[0]]
    lists = {"tokens": [[word for word, _ in one]] * 20, "ner_tags": [[tag for _, tag in one]] * 20}
    path = tmp_path / "a.parquet"
    names = {"feature": {"names": ["O", "B-PER", "B-LOC"], "_type": "ClassLabel"}, "_type": "Sequence"}
    about = {"huggingface": json.dumps({"info": {"features": {"ner_tags": names}}})}
    pq.write_table(pa.table({**others, **lists}).replace_schema_metadata(about), path)
    found = detect(read(path))
    assert (found.text_column, found.label_column) == ("tokens", "ner_tags")
    assert "B-PER" in read(path).column("ner_tags")[0]
    assert detect(read(path), task="language_modeling", text_column="tokens").task == "language_modeling"
    spans = {"text": [f"Anna ran {i}" for i in range(20)], "spans": [[{"start": 0, "end": 4, "label": "PER"}]] * 20}
    pq.write_table(pa.table({**others, **spans}), path)
    found = detect(read(path))
    assert (found.task, found.label_column) == ("token_classification", "spans")


def rows(columns: dict[str, Callable[[int, random.Random], Any]], count: int = 97, seed: int = 0) -> Table:
    draw = random.Random(seed)
    found = [{name: str(value(i, draw)) for name, value in columns.items()} for i in range(count)]
    return table(found, list(columns), Path("made.csv"))


def text(i: int, draw: random.Random) -> str:
    return f"{sentence(draw)} {i}"


def long_text(i: int, draw: random.Random) -> str:
    return f"{sentence(draw, 40, 60)} {i}"


def of(*values: Any) -> Callable[[int, random.Random], Any]:
    return lambda i, draw: values[i % len(values)]


NLI = of("entailment", "neutral", "contradiction")
PAIRS = {
    "glue": {"sentence1": text, "sentence2": text, "label": of(0, 1)},
    "nli": {"premise": long_text, "hypothesis": text, "label": NLI},
    "gold": {"gold_label": NLI, "sentence1_parse": long_text, "sentence1": text, "sentence2": text},
    "quora": {"id": lambda i, d: i, "question1": text, "question2": text, "is_duplicate": of(0, 1, 1)},
    "scores": {"sentence1": text, "sentence2": text, "score": lambda i, d: round(d.random() * 5, 3)},
    "answers": {"question": text, "answer": long_text, "label": of("right", "wrong")},
    "qnli": {"question": text, "sentence": long_text, "label": of("entailment", "not_entailment")},
    "search": {"query": text, "passage": long_text, "relevance": of(0, 1, 2)},
    "claims": {"claim": text, "evidence": long_text, "label": of("SUPPORTS", "REFUTES")},
    "letters": {"text_a": text, "text_b": text, "label": of("x", "y")},
    "kept": {"prompt": text, "completion": long_text, "label": of("true", "false")},
}


@pytest.mark.parametrize("name", PAIRS)
def test_judged_pairs_are_refused_and_the_task_goes_on(name: str):
    source = rows(PAIRS[name])
    with pytest.raises(InputError, match=rf"made\.csv: columns .* are pairs of texts.*{NO_TASK}.*--task embedding"):
        detect(source)
    found = detect(source, task="classification", label_column=None if name != "scores" else "score")
    assert found.task == "classification"
    assert detect(source, task="language_modeling").task == "language_modeling"
    if name != "scores":
        assert detect(source, text_column=found.text_column, label_column=found.label_column).task == "classification"


QUANTITIES = {
    "decimals": {"text": text, "label": lambda i, d: round(d.random(), 3)},
    "prices": {"description": long_text, "price": lambda i, d: d.randint(5, 900)},
    "commas": {"text": text, "target": lambda i, d: f"{d.randint(0, 9)},{d.randint(10, 99)}"},
    "scores": {"text": text, "id": lambda i, d: i, "score": lambda i, d: round(d.gauss(0, 1), 4)},
    "large": {"text": text, "label": lambda i, d: d.randint(1000, 99999)},
}


@pytest.mark.parametrize("name", QUANTITIES)
def test_quantities_are_numbers_to_predict(name: str):
    found = detect(source := rows(QUANTITIES[name]))
    column = next(one for one in reversed(QUANTITIES[name]) if one not in ("text", "description"))
    assert (found.task, found.label_column) == ("regression", column)
    assert "distinct numbers in 97 rows, which are a quantity" in found.reasons[1]
    assert detect(source, task="language_modeling").task == "language_modeling"
    found = detect(rows({"text": text, "metres": lambda i, d: i / 7}), label_column="metres")
    assert (found.task, found.label_column) == ("regression", "metres")


RATINGS = {
    "1 to 5": ("stars", of(1, 2, 3, 4, 5)),
    "a label 1 to 5": ("label", of(1, 2, 3, 4, 5)),
    "0 to 10": ("score", of(*range(11))),
    "halves": ("rating", of("1.0", "1.5", "2.0", "3.0", "3.5", "4.0", "5.0")),
    "stars": ("label", of("★", "★★", "★★★", "★★★★", "★★★★★")),
    "in words": ("label", of("1 star", "2 stars", "4 stars", "5 Stars")),
    "of five": ("label", of("1/5", "3/5", "5/5")),
}


@pytest.mark.parametrize("name", RATINGS)
def test_ratings_are_levels_whose_order_counts(name: str):
    column, values = RATINGS[name]
    source = rows({"text": text, column: values})
    for found in (detect(source), detect(source, label_column=column)):
        assert (found.task, found.label_column) == ("ratings", column) and "whose order counts" in found.reasons[-1]
    assert "--task classification" in found.reasons[-1] and "--task regression" in found.reasons[-1]
    assert detect(source, task="classification").task == "classification"


CODES = {
    "no row of levels": ("rating", of(1, 5, 40)),
    "other codes": ("label", of(0, 1, 2)),
    "1 to 4": ("class", of(1, 2, 3, 4)),
    "two": ("stars", of(1, 5)),
    "words": ("rating", of("good", "fair", "poor")),
}


@pytest.mark.parametrize("name", CODES)
def test_other_codes_are_classes(name: str):
    column, values = CODES[name]
    assert detect(rows({"text": text, column: values}), label_column=column).task == "classification"


COMBINED = [("delay",), ("cancel",), ("delay", "cancel"), ("luggage",), ("luggage", "delay"), ("cancel", "luggage")]


def hashtags(parts: tuple[str, ...]) -> str:
    return " ".join(f"#{part}" for part in parts)


@pytest.mark.parametrize("write", [";".join, "|".join, ", ".join, hashtags, json.dumps, lambda parts: str(list(parts))])
def test_lists_of_labels_are_for_several_and_of_classes_it_is_said_what_is_lost(write: Callable[[Any], str]):
    source = rows({"text": text, "label": of(*(write(parts) for parts in COMBINED))})
    for options in ({}, {"label_column": "label"}):
        found = detect(source, **options)
        assert (found.task, found.text_column, found.label_column) == ("multi_label", "text", "label")
    found = detect(source, task="classification")
    assert (found.task, found.label_column) == ("classification", "label")
    assert len(found.warnings) == 1 and "lists of labels" in found.warnings[0]


def test_lists_of_many_kinds_are_lists():
    genres = [f"genre {n}" for n in range(20)]
    source = rows({"text": text, "genres": lambda i, d: ";".join(d.sample(genres, d.randint(1, 5)))}, count=211)
    assert detect(source).label_column == "genres" and "'genres' holds lists of labels" in detect(source).reasons[-1]
    assert detect(source, task="language_modeling").task == "language_modeling"
    found = detect(source, task="classification", label_column="genres")
    assert "each list is trained as a class of its own" in found.warnings[0]


@pytest.mark.parametrize("cells", [("a,b", "b,a", "c", "d,e"), ("x; y", "y; x", "z")], ids=str)
def test_one_set_in_several_orders_is_a_list(cells: tuple[str, ...]):
    found = detect(rows({"text": text, "label": of(*cells)}))
    assert found.task == "multi_label" and "holds lists of labels, separated by" in found.reasons[-1]


LABELS: dict[str, list[str]] = {
    "places": ["Austin, TX", "Dallas, TX", "Reno, NV", "Portland, OR", "Salem, OR"],
    "paths": ["Electronics|Phones", "Electronics|Laptops", "Books|Novels", "Books|Poems"],
    "two places": ["US|male", "US|female", "UK|male", "UK|female"],
    "commas": ["Food, Drink", "Arts", "Sports"],
    "names": ["Smith, John", "Smith, Ada", "Jones, Ada", "Doe, John"],
    "numbers": [str(n) for n in range(6)],
    "two": ["1", "5"],
    "codes": ["10", "40", "50", "60", "1140", "2462"],
    "signs": ["positive", "negative", "neutral"],
    "vitamins": ["B-12", "B-6", "B-1"],
    "blood": ["O", "A", "B", "AB"],
    "lists of one": ["[a]", "[b]"],
    "sentences": ["Yes; surely", "No"],
    "years": ["1999", "2000", "2001", "2002", "2003"],
    "emotions": ["B-side", "A-side", "other"],
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", LABELS)
def test_ordinary_labels_are_left_in_peace(name: str, seed: int):
    draw = random.Random(seed)
    column = draw.choice(["label", "category", "class", "type", "topic", "intent"])
    body = draw.choice(["text", "review", "tweet", "question", "comment"])
    extra: dict[str, Any] = draw.choice([{}, {"id": lambda i, d: i}, {"title": text}, {"length": lambda i, d: i * 7}])
    source = rows({body: long_text, **extra, column: of(*LABELS[name])}, seed=seed)
    found = detect(source)
    assert (found.task, found.text_column, found.label_column, found.warnings) == ("classification", body, column, [])


OTHERS = {
    "ids": ({"id": lambda i, d: i, "text": text}, "language_modeling"),
    "years": ({"text": text, "year": lambda i, d: 1950 + i % 60}, "language_modeling"),
    "counts": ({"text": text, "votes": lambda i, d: d.randint(0, 999)}, "language_modeling"),
    "class numbers": ({"text": text, "label": lambda i, d: i % 37}, "classification"),
    "addresses": (
        {"review": long_text, "address1": text, "address2": text, "label": of("good", "bad")},
        "classification",
    ),
    "titles": ({"title": text, "text": long_text, "label": of("a", "b")}, "classification"),
    "frequent questions": ({"question": text, "answer": text, "topic": of("a", "b", "c")}, None),
    "translations": ({"en": text, "de": text}, "translation"),
    "scored too": ({"text": text, "label": of("a", "b"), "score": lambda i, d: d.random()}, "classification"),
    "reviews": ({"review": text, "sentiment": of("good", "bad"), "stars": of(1, 5)}, None),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_tables_are_left_in_peace(name: str):
    columns, task = OTHERS[name]
    source = rows(columns)
    try:
        found = detect(source)
    except InputError as error:
        assert task is None and NO_TASK not in str(error)
    else:
        assert found.task == task and found.warnings == []


def test_running_text_is_left_in_peace(tmp_path: Path):
    draw = random.Random(7)
    texts = {
        "prose": "\n".join(sentence(draw, 1, 20) for _ in range(200)),
        "two words": "\n".join(sentence(draw, 2, 2) for _ in range(200)),
        "table": "\n".join(f"{word}\t{draw.randint(1, 9)}" for word in draw.choices(WORDS, k=200)),
        "capitals": "\n".join(f"{word} {draw.choice('OXY')}" for word in draw.choices(WORDS, k=200)),
        "moves": "\n".join(f"{draw.choice('KQRBN')} B-{draw.randint(1, 8)}" for _ in range(200)),
        "play": "ANNA:\nO Romeo\n\nROMEO:\nO Anna\n" * 40,
        "code": "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("*.py"))),
        "dictionary": "\n".join(f"{one}\t{other}" for one, other in zip(WORDS, WORDS[::-1], strict=True)),
    }
    for name, content in texts.items():
        for ending in (".txt", ".md", ".txt.gz"):
            path = tmp_path / f"{name}{ending}"
            data = content.encode()
            path.write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
            assert detect(read(path)).task == "language_modeling", name


def test_random_tables_are_not_refused():
    """Texts of words with labels of words: whatever the columns are called, no other task is seen in them."""
    for seed in range(200):
        draw = random.Random(seed)
        classes = draw.sample(["good", "bad", "spam", "ham", "x1", "x2", "A", "B", "a-b", "B-c", "yes", "no"], 3)
        body = draw.choice(["text", "review", "sentence", "tweet", "content", "body", "notes"])
        target = draw.choice(["label", "sentiment", "category", "y", "kind", "stars"])
        more = {name: text for name in draw.sample(["title", "author", "url", "place"], draw.randint(0, 2))}
        source = rows({**more, body: long_text, target: of(*classes)}, count=draw.randint(20, 80), seed=seed)
        try:
            found = detect(source)
        except InputError as error:
            assert NO_TASK not in str(error), (source.columns, str(error))
        else:
            assert found.warnings == [], source.columns


def test_recognisers_look_at_whole_columns_quickly():
    values = [f"label {i % 20_000}" for i in range(60_000)]
    source = rows({"text": text, "label": lambda i, d: values[i]}, count=60_000)

    looked = DataFacts(source, "text", "label")
    assert label_lists(looked) is None and rated(looked) is None
    assert listed("[" * 100_000 + "]" * 100_000) is None and listed('["a", 1]') == ["a", "1"]


def test_a_table_of_which_annotators_accepted_every_row_is_read():
    found = detect(rows({"text": text, "label": of("a", "b"), "answer": of("accept")}))
    assert (found.task, found.label_column) == ("classification", "label")
    for answers in (("accept", "reject"), ("accept", "ignore")):
        with pytest.raises(InputError, match="annotators rejected or ignored rows"):
            detect(rows({"text": text, "label": of("a", "b"), "answer": of(*answers)}))


def test_the_command_says_what_it_found_and_leaves_nothing(in_process: Callable, tmp_path: Path, tiny_words: list[str]):
    path = tmp_path / "words.csv"
    path.write_text(CONLL["j.csv"])
    status, out, err = in_process("train", path, "--out", tmp_path / "run", *tiny_words)
    assert status == 2 and out == "" and err.count("headway: ") == 1 and not (tmp_path / "run").exists()
    assert "holds tags of single tokens (O, B-" in err and ".conll" in err
    path = tmp_path / "ner.txt"
    path.write_text(CONLL["b.iob"])
    status, _, err = in_process(
        "train", path, "--out", tmp_path / "run", "--task", "language_modeling", "--quiet", *tiny_words
    )
    assert status == 0, err


def test_the_command_says_what_is_lost_and_goes_on(in_process: Callable, tmp_path: Path, tiny_words: list[str]):
    draw, path = random.Random(3), tmp_path / "lists.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows([sentence(draw) + f" {i}", ";".join(COMBINED[i % 6])] for i in range(101))
    words = ["train", path, "--task", "classification", "--out", tmp_path / "run", *tiny_words]
    status, _, err = in_process(*words)
    assert status == 0, err
    assert len([line for line in err.splitlines() if "each list is trained as a class of its own" in line]) == 1
    facts = json.loads((tmp_path / "run" / "headway.json").read_text())
    assert any("class of its own" in line for line in facts["data"]["warnings"])
