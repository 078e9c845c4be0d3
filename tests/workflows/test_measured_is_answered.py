"""What is measured is what answers: row by row, by the command, over HTTP, from Python and in ``transformers``."""

import csv
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.tasks.registry import task_named
from headway.workflows.evaluate import given_for

sys.path.append(str(Path(__file__).parent.parent / "serving"))
from served_models import Server

LENGTH = 16
TINY = {"d_model": 16, "layers": 1, "heads": 2, "batch_tokens": 1024, "threads": 1, "precision": "float32"}
COMMON = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran"]


def long_texts(count: int) -> list[tuple[str, str]]:
    """Texts of which the sixth word decides, and words of both classes come behind what is read."""
    draw = random.Random(7)
    rows = []
    for number in range(count):
        label = ("bad", "good")[number % 2]
        words = [*draw.choices(COMMON, k=5), label, *draw.choices(COMMON, k=4)]
        words += draw.choices([*COMMON, "bad", "good"], k=draw.choice([0, 30]))
        rows.append((" ".join(words), label))
    return rows


def written(path: Path, header: list[str], rows: list[tuple[str, ...]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def base(folder: Path) -> Path:
    """A pretrained encoder that reads more than the runs that start from it."""
    (folder / "text.txt").write_text("".join(f"{text}\n" for text, _ in long_texts(99)), encoding="utf-8")
    options = {**TINY, "length": 64, "batch_tokens": 256, "steps": 3, "tokenizer": "word"}
    headway.train(folder / "text.txt", task="masked_lm", out=folder / "base", quiet=True, **options)
    return folder / "base"


@pytest.fixture(scope="module")
def long(folder: Path) -> Path:
    return written(folder / "long.csv", ["text", "label"], long_texts(300))


@pytest.fixture(scope="module")
def runs(folder: Path, base: Path, long: Path) -> dict[str, Path]:
    """Classifiers that read the beginning of a text: from scratch, from a base, and an ensemble."""
    options = {**TINY, "length": LENGTH, "quiet": True}
    headway.train(long, out=folder / "scratch", steps=60, learning_rate=0.01, **options)
    headway.train(long, out=folder / "seeds", steps=20, learning_rate=0.01, seeds=2, **options)
    kept = {key: value for key, value in options.items() if key not in ("d_model", "layers", "heads")}
    headway.train(long, out=folder / "tuned", from_model=str(base), steps=20, learning_rate=0.01, **kept)
    return {name: folder / name for name in ("scratch", "seeds", "tuned")}


@pytest.fixture(scope="module")
def server(runs: dict[str, Path], unknown: Path) -> Iterator[Server]:
    found = Server(*runs.values(), unknown, "--quiet")
    yield found
    assert found.stop() == 0


def measured(run: Path, file: Path) -> tuple[dict, list[str | None]]:
    """The metrics of a run on a file, and the label of each row that they were counted from."""
    pipe = headway.load(run)
    given = given_for(run, pipe, [str(file)], whole=True)
    metrics = task_named(pipe.task).evaluate(pipe, given)
    return metrics, [None if number < 0 else pipe.labels[int(number)] for number in np.concatenate(given.each)[:, 0]]


def texts_of(file: Path) -> list[str]:
    return [row["text"] for row in csv.DictReader(file.open(encoding="utf-8"))]


@pytest.mark.parametrize("name", ["scratch", "seeds", "tuned"])
def test_every_row_is_answered_as_it_is_measured(
    name: str, runs: dict[str, Path], long: Path, server: Server, tmp_path: Path, in_process: Callable
):
    fresh = written(tmp_path / "fresh.csv", ["text", "label"], long_texts(200)[60:])
    metrics, expected = measured(runs[name], fresh)
    texts, wanted = texts_of(fresh), [label for _, label in long_texts(200)[60:]]
    pipe = headway.load(runs[name])
    assert pipe.max_length == LENGTH and max(len(pipe.tokenizer.encode(text)) for text in texts) > 2 * LENGTH
    cut = sum(len(pipe.tokenizer.encode(text, special=True)) > LENGTH for text in texts)
    said = f"{cut} of {len(texts)} texts are longer than {LENGTH} tokens: only the beginning is read"
    with pytest.warns(UserWarning, match=said) as heard:
        answers = pipe(texts)
    assert len(heard) == 1
    assert [one["label"] for one in answers] == expected
    assert np.mean([one["label"] == label for one, label in zip(answers, wanted, strict=True)]) == metrics["accuracy"]
    status, _, err = in_process("classify", runs[name], fresh, "--to", tmp_path / "answers.csv")
    assert status == 0 and err.count("texts are longer") == 1 and said in err
    with (tmp_path / "answers.csv").open(encoding="utf-8") as file:
        assert [row["label"] for row in csv.DictReader(file)] == expected
    found = server.post("/classify", {"model": name, "inputs": texts[:40]}).json()
    assert [one["label"] for one in found["answers"]] == expected[:40]
    assert any("longer than 16 tokens" in line for line in found["warnings"])


@pytest.mark.parametrize("name", ["scratch", "tuned"])
def test_transformers_reads_as_much_of_a_text(name: str, runs: dict[str, Path], long: Path, tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    from headway.workflows.export import export

    export(runs[name], tmp_path / "exported")
    texts = texts_of(long)[:60]
    with warnings.catch_warnings(action="ignore"):
        expected = headway.load(runs[name])(texts)
    for place in (runs[name], tmp_path / "exported"):
        theirs = transformers.pipeline("text-classification", str(place), device="cpu", truncation=True)
        assert theirs.tokenizer.model_max_length == LENGTH
        found = theirs(texts)
        assert [one["label"] for one in found] == [one["label"] for one in expected]
        np.testing.assert_allclose([one["score"] for one in found], [one["score"] for one in expected], atol=1e-4)
    assert "truncation=True" in (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")


def test_files_of_another_program_say_how_much_is_read(runs: dict[str, Path], long: Path, tmp_path: Path):
    """Without headway.json the tokenizer's model_max_length decides, of answers and of evaluation."""
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((runs["scratch"] / name).read_bytes())
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": 8}))
    pipe = headway.load(tmp_path)
    with pytest.warns(UserWarning, match="longer than 8 tokens"):
        answers = pipe(texts_of(long))
    assert [one["label"] for one in answers] == measured(tmp_path, long)[1]


def test_a_run_of_before_answers_at_the_length_of_its_plan(runs: dict[str, Path], long: Path, tmp_path: Path):
    """Earlier versions wrote the base's length into the tokenizer's file."""
    for path in runs["tuned"].iterdir():
        if path.is_file() and path.name != "headway.json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": 64}))
    facts = json.loads((runs["tuned"] / "headway.json").read_text())
    facts = {key: value for key, value in facts.items() if key not in ("checksum", "files")}
    (tmp_path / "headway.json").write_text(json.dumps(facts))
    assert headway.load(tmp_path).max_length == LENGTH


def test_vectors_are_of_what_training_read(folder: Path, base: Path, tmp_path: Path, in_process: Callable):
    rows = [(f"{text} {text}", text) for text, _ in long_texts(80)]
    file = written(folder / "pairs.csv", ["one", "other"], rows)
    options = {key: value for key, value in TINY.items() if key not in ("d_model", "layers", "heads")}
    out = folder / "vectors"
    headway.train(file, task="embedding", out=out, from_model=str(base), length=LENGTH, steps=4, quiet=True, **options)
    pipe = headway.load(out)
    text = rows[0][0]
    first = pipe.tokenizer.decode(pipe.tokenizer.encode(text)[: LENGTH - 2])
    with pytest.warns(UserWarning, match="the text is longer than 16 tokens"):
        found = pipe(text)
    np.testing.assert_allclose(found, pipe(first), atol=1e-6)
    assert json.loads((out / "sentence_bert_config.json").read_text())["max_seq_length"] == LENGTH
    assert "1 of 2 texts is longer" in in_process("embed", out, text, first)[2]
    sentence_transformers = pytest.importorskip("sentence_transformers")
    theirs = sentence_transformers.SentenceTransformer(str(out), device="cpu", local_files_only=True)
    np.testing.assert_allclose(theirs.encode([text])[0], found, atol=1e-5)


def mutual_ranks(first: np.ndarray, second: np.ndarray, texts: list[tuple[str, str]]) -> list[int]:
    """The rank of each right text, ties before it, by vectors of length 1; pairs that share a text do not count."""
    keys = [tuple(" ".join(text.lower().split()) for text in pair) for pair in texts]
    ranks = []
    for at, cosines in enumerate(first @ second.T):
        others = [n for n, key in enumerate(keys) if n != at and key[0] != keys[at][0] and key[1] != keys[at][1]]
        ranks.append(1 + int((cosines[others] > cosines[at] - 1e-6).sum()))
    return ranks


@pytest.mark.parametrize("kind", ["cut", "unknown", "equal"])
def test_texts_that_look_equal_to_the_model_are_not_found(kind: str, base: Path, tmp_path: Path):
    """What the vectors find is the figure of evaluate, and of training on its held-out pairs."""
    draw = random.Random(3)
    begin = " ".join(draw.choices(COMMON, k=LENGTH))
    rows = []
    for number in range(120):
        word = f"w{number}"
        if kind == "cut":
            rows.append((f"{begin} {word}", f"{begin} {word} again"))
        elif kind == "unknown":
            rows.append((f"{word}x", f"{word}y {word}z"))
        else:
            rows.append((f"{COMMON[number % 5]} sat {number}", ("The  Mat", "the mat", "a mat")[number % 3]))
    file = written(tmp_path / "pairs.csv", ["one", "other"], rows)
    options = {key: value for key, value in TINY.items() if key not in ("d_model", "layers", "heads")}
    options |= {"from_model": str(base), "length": LENGTH, "steps": 2, "quiet": True}
    trained = headway.train(file, task="embedding", out=tmp_path / "run", **options)
    pipe = headway.load(tmp_path / "run")
    found = headway.evaluate(tmp_path / "run", str(written(tmp_path / "new.csv", ["one", "other"], rows[1:])))
    with warnings.catch_warnings(action="ignore"):
        vectors = [pipe([pair[side] for pair in rows[1:]]) for side in (0, 1)]
        held_out = list(task_named("embedding").held_out_inputs(pipe, given_for(tmp_path / "run", pipe), 999))
    ranks = mutual_ranks(*vectors, rows[1:])
    assert found["accuracy"] == np.mean([rank == 1 for rank in ranks])
    assert found["mrr"] == pytest.approx(np.mean([1 / rank for rank in ranks]), abs=1e-12)
    if kind != "equal":
        assert found["accuracy"] == 0.0 == trained["accuracy"]
    of_run = [pair for pair in rows if pair[0] in held_out]
    with warnings.catch_warnings(action="ignore"):
        vectors = [pipe([pair[side] for pair in of_run]) for side in (0, 1)]
    assert trained["accuracy"] == np.mean([rank == 1 for rank in mutual_ranks(*vectors, of_run)])
    assert headway.evaluate(tmp_path / "run")["accuracy"] == trained["accuracy"]


ODD = [
    "the good cat sat",
    "Где мой заказ",
    "",
    "   ",
    "🙂 🙃",
    "Где мой заказ good",
    "Где мой good cat",
    "Где мой заказ?",
]
SHARES = [1.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.0]


@pytest.fixture(scope="module")
def unknown(folder: Path) -> Path:
    """A classifier of English words; one row in four has words that no other row has."""
    rows = [
        (f"{number}x {number}y" if number % 4 == 0 else text, label)
        for number, (text, label) in enumerate(long_texts(240))
    ]
    options = {**TINY, "length": LENGTH, "quiet": True, "steps": 40, "learning_rate": 0.01, "tokenizer": "word"}
    headway.train(written(folder / "odd.csv", ["text", "label"], rows), out=folder / "unknown", **options)
    return folder / "unknown"


def close(found: object, expected: object) -> bool:
    """Equal, but for rounding of numbers."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(close(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    return found == pytest.approx(expected, abs=1e-5) if isinstance(expected, float) else found == expected


def expected_of(share: float, one: dict) -> dict:
    """What an answer has, by the share of known tokens."""
    if not share:
        return {"label": None, "score": None, "scores": {}}
    return {**one, "known": share} if share < 0.5 else {key: one[key] for key in ("label", "score", "scores")}


def test_texts_without_a_known_token_get_no_label_through_every_door(
    unknown: Path, server: Server, tmp_path: Path, in_process: Callable
):
    pipe = headway.load(unknown)
    said = "5 of 8 texts have no token that the model knows: no label is given"
    with pytest.warns(UserWarning, match=said) as heard:
        answers = pipe(ODD)
    assert len(heard) == 1
    assert answers == [expected_of(share, one) for share, one in zip(SHARES, answers, strict=True)]
    with pytest.warns(UserWarning, match="the text has no token"):
        assert pipe("") == {"label": None, "score": None, "scores": {}}
    file = written(tmp_path / "odd.csv", ["text", "known"], [(text, "mine") for text in ODD])
    for verb in ("classify", "predict"):
        status, out, err = in_process(verb, unknown, file, "--to", tmp_path / "out.csv", "--json")
        assert status == 0 and err.count("no token") == 1 and said in err
        assert close(json.loads(out.splitlines()[-1])["results"], answers)
        with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as opened:
            rows = list(csv.DictReader(opened))
        assert [row["label"] for row in rows] == [one["label"] or "" for one in answers]
        assert [row["score"] == row["score: bad"] == "" for row in rows] == [not share for share in SHARES]
        assert [row["known"] for row in rows] == ["" if s >= 0.5 else f"{s:.6f}" for s in SHARES]
        assert {row["given: known"] for row in rows} == {"mine"}
    assert in_process("classify", unknown, file, "--to", tmp_path / "out.jsonl")[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert close([{key: line[key] for key in one} for line, one in zip(lines, answers, strict=True)], answers)
    shown = in_process("classify", unknown, *ODD[4:7])[1].splitlines()
    assert shown[0] == f"\t\t{ODD[4]}" and shown[1].endswith("\tknown 0.25") and "known" not in shown[2]
    found = server.post("/classify", {"model": "unknown", "inputs": ODD}).json()
    assert close(found["answers"], answers) and found["warnings"] == [said]
    schema = server.get("/openapi.json").json()["paths"]["/classify"]["post"]["responses"]["200"]["content"]
    answer = schema["application/json"]["schema"]["properties"]["answers"]["items"]
    assert answer["required"] == ["label", "score", "scores"] and "known" in answer["properties"]
    assert {"type": "null"} in answer["properties"]["label"]["anyOf"]


def test_a_row_without_a_label_is_wrong_in_every_figure(unknown: Path, folder: Path, tmp_path: Path):
    metrics = pytest.importorskip("sklearn.metrics")
    texts = [text for text in ODD if text.strip()] * 9
    wanted = [("good", "bad")[number % 2] for number in range(len(texts))]
    file = written(tmp_path / "odd.csv", ["text", "label"], list(zip(texts, wanted, strict=True)))
    pipe = headway.load(unknown)

    def scored(texts: list[str], wanted: list[str]) -> tuple[float, float]:
        with warnings.catch_warnings(action="ignore"):
            given = [one["label"] or "" for one in pipe(texts)]
        assert "" in given
        known = sorted({*wanted, *given} - {""})
        return metrics.accuracy_score(wanted, given), metrics.f1_score(wanted, given, labels=known, average="macro")

    found = headway.evaluate(unknown, str(file))
    assert (found["accuracy"], found["macro_f1"]) == pytest.approx(scored(texts, wanted), abs=1e-12)
    assert found["examples"] == len(texts)
    facts = json.loads((unknown / "headway.json").read_text())
    with (folder / "odd.csv").open(encoding="utf-8") as opened:
        of_run = {row["text"]: row["label"] for row in csv.DictReader(opened)}
    held_out = task_named("classification").held_out_inputs(pipe, given_for(unknown, pipe), 999)
    expected = scored(held_out, [of_run[text] for text in held_out])
    for figures in (facts["metrics"], headway.evaluate(unknown)):
        assert (figures["accuracy"], figures["macro_f1"]) == pytest.approx(expected, abs=1e-12)
    assert all(not row["text"].endswith("y") for row in facts["shown"]["worst"])


@pytest.mark.parametrize("kind", ["bpe", "char", "wordpiece", "word"])
def test_white_space_says_nothing_whatever_the_tokenizer(kind: str):
    from headway.tasks.inputs import known_shares
    from headway.text.train import train_tokenizer

    tokenizer = train_tokenizer(["the cat sat on a mat"] * 9, kind, None, role="encoder")
    rows = tokenizer.encode_batch(["the cat", "", " \n\t", "Ж"], special=True)
    with pytest.warns(UserWarning, match=f"{2 if kind == 'bpe' else 3} of 4 texts have no token"):
        shares = known_shares(tokenizer, rows, "x")
    assert shares == [1.0, 0.0, 0.0, 1.0 if kind == "bpe" else 0.0]


def test_a_vector_of_unknown_words_is_given_with_a_warning(base: Path, tmp_path: Path, in_process: Callable):
    status, out, err = in_process("embed", base, "Где мой", "the cat")
    assert status == 0 and len(out.splitlines()) == 2
    assert "1 of 2 texts has no token that the model knows: such a vector means nothing" in err
