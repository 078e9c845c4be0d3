"""``headway fill`` and ``headway embed``: results, files, pipes, refusals."""

import csv
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import headway
from headway.hub.directory import save_model
from headway.models.config import TransformerConfig
from headway.models.heads import MaskedTokenHead
from headway.models.transformer import Encoder
from headway.text.train import train_tokenizer

WORDS = ["the cat sat on a mat while old dogs ran past red doors"] * 9
OPEN = "the [MASK] sat on a mat"
TEXTS = ["the cat sat", "", 'old "dogs"', "red doors ran"]


def save(directory: Path, *, masked: bool) -> Path:
    tokenizer = train_tokenizer(WORDS, "wordpiece", 80, role="encoder")
    torch.manual_seed(3)
    config = TransformerConfig(
        tokenizer.vocab_size, d_model=24, n_layers=2, n_heads=3, max_length=16, norm="layernorm",
        norm_parameters="weight", activation="gelu", embedding_norm=True, first_norm=False, tied=True,
    )  # fmt: skip
    model = Encoder(config)
    if masked:
        model.head = MaskedTokenHead(config, model.stack.embedding.tokens, activation="gelu", dense_bias=False)
    save_model(model, directory)
    tokenizer.save(directory, max_length=16)
    return directory


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("masked"), masked=True)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("encoder"), masked=False)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def results(path: Path) -> list[dict]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file)) if path.suffix == ".csv" else [json.loads(line) for line in file]


def test_fill_a_text(masked: Path, in_process: Callable):
    found = in_process.json("fill", masked, OPEN, "--k", "3")
    assert set(found) == {"task", "precision", "engine", "seconds", "results"} and found["task"] == "masked_lm"
    assert found["results"] == [headway.load(masked)(OPEN, k=3)]
    out, _ = in_process.passed("fill", masked, OPEN, "--k", "3")
    assert [line.split("\t")[1] for line in out.splitlines()] == [a["token"] for a in found["results"][0]]


def test_fill_a_file_into_files(masked: Path, tmp_path: Path, in_process: Callable):
    texts = [OPEN, "a [MASK] and <mask>"]
    (tmp_path / "open.txt").write_text("\n".join(texts))
    expected = headway.load(masked)(texts, k=2)
    for to in ("out.jsonl", "out.csv"):
        in_process.passed("fill", masked, tmp_path / "open.txt", "--k", "2", "--to", tmp_path / to)
    assert results(tmp_path / "out.jsonl") == [
        {"text": text, "result": result} for text, result in zip(texts, expected, strict=True)
    ]
    rows = results(tmp_path / "out.csv")
    assert [row["token"] for row in rows] == [a["token"] for p in [expected[0], *expected[1]] for a in p]
    assert [row["place"] for row in rows] == ["1", "1", "1", "1", "2", "2"]
    assert "(place 2 of 2)" in in_process("fill", masked, tmp_path / "open.txt")[1]


def test_blank_lines_stay_blank(masked: Path, tmp_path: Path, in_process: Callable):
    path = tmp_path / "open.txt"
    path.write_text(f"{OPEN}\n\n \n<mask> dogs\n")
    first, last = headway.load(masked)([OPEN, "<mask> dogs"], k=2)
    assert in_process.json("fill", masked, path, "--k", 2)["results"] == [first, [], [], last]
    lines = in_process("fill", masked, path, "--k", 2)[1].split("\n")
    assert lines[0] == OPEN and lines[3:6] == ["", "", "<mask> dogs"] and len(lines) == 9
    for to in ("out.jsonl", "out.csv"):
        in_process.passed("fill", masked, path, "--to", tmp_path / to)
    rows = [(row["text"], bool(row["result"])) for row in results(tmp_path / "out.jsonl")]
    assert rows == [(OPEN, True), ("", False), (" ", False), ("<mask> dogs", True)]
    assert len(results(tmp_path / "out.csv")) == 10
    path.write_text("\n\n")
    assert in_process.json("fill", masked, path)["results"] == [[], []]


def test_a_line_without_an_open_place_is_named(masked: Path, tmp_path: Path, in_process, monkeypatch):
    path, table = tmp_path / "open.txt", tmp_path / "open.csv"
    path.write_text(f"{OPEN}\n\nthe cat\n")
    table.write_text(f"text,n\n{OPEN},1\nthe cat,2\n")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(b"the cat\n")))
    for place, said in ((path, f"{path}, line 3"), (table, f"{table}, row 3"), ("-", "standard input, line 1")):
        err = in_process.refused("fill", masked, place)
        assert err.startswith(f"headway: {said}: 'the cat': the text has no [MASK]; write [MASK]"), err
    for text in ("", " "):
        assert "the text has no [MASK]" in in_process("fill", masked, text)[2]


def test_embed_to_standard_output(encoder: Path, lines: Path, in_process: Callable):
    vectors = headway.load(encoder)(TEXTS)
    found = in_process.json("embed", encoder, lines)
    assert set(found) == {"task", "precision", "engine", "seconds", "results"} and found["task"] == "embedding"
    np.testing.assert_allclose(found["results"], vectors, atol=1e-6)
    out = in_process("embed", encoder, lines)[1]
    np.testing.assert_allclose([list(map(float, row.split("\t"))) for row in out.splitlines()], vectors, atol=1e-5)


@pytest.mark.parametrize("ending", ["npy", "jsonl", "csv"])
def test_embed_to_a_file(encoder: Path, lines: Path, tmp_path: Path, in_process: Callable, ending: str):
    to = tmp_path / f"out.{ending}"
    assert in_process.passed("embed", encoder, lines, "--to", to)[0] == f"4 results in {to}\n"
    if ending == "npy":
        vectors = np.load(to, allow_pickle=False)
        assert vectors.dtype == np.float32
    else:
        rows = results(to)
        assert [row.pop("text") for row in rows] == TEXTS
        vectors = np.array([row.get("vector") or list(row.values()) for row in rows], dtype=float)
    np.testing.assert_allclose(vectors, headway.load(encoder)(TEXTS), atol=1e-6)


def test_a_table_by_its_column(encoder: Path, tmp_path: Path, in_process: Callable):
    path = tmp_path / "table.csv"
    path.write_text("id,body\n1,the cat\n2,old dogs\n")
    assert len(in_process.json("embed", encoder, path, "--text-column", "body")["results"]) == 2
    assert in_process("embed", encoder, path)[0] == 0, "a column with a usual name is found, as in training"
    notes = "".join(f"{i},{'the cat ' * 9}{i},{'old dogs ' * 9}{i}\n" for i in range(3))
    path.write_text("id,note,remark\n" + notes)
    in_process.refused("embed", encoder, path, said="could each be the text; choose one with --text-column")


def test_a_masked_language_model_gives_the_mean_of_its_vectors(masked: Path, in_process: Callable):
    found = in_process.json("embed", masked, "the cat")["results"]
    model, words = headway.load_model(masked), headway.load(masked).tokenizer
    model.head = None
    mean = model(torch.tensor([words.encode("the cat", special=True)]))[0].mean(dim=0)
    np.testing.assert_allclose(found[0], (mean / mean.norm()).detach().numpy(), atol=1e-5)


def test_similarity_and_nearest(encoder: Path, lines: Path, in_process: Callable, tmp_path: Path):
    emb = headway.load(encoder)
    found = in_process.json("embed", encoder, lines, "--similarity")
    np.testing.assert_allclose(found["results"], emb.similarity(TEXTS), atol=1e-6)
    out = in_process("embed", encoder, lines, "--similarity")[1]
    assert [row.split("\t")[i] for i, row in enumerate(out.splitlines())] == ["1.000"] * 4
    words = ("embed", encoder, lines, "--nearest", "the cat", "--k", "2")
    found = in_process.json(*words)
    assert found["results"] == emb.nearest("the cat", TEXTS, k=2)
    assert [line.split("\t")[1] for line in in_process(*words)[1].splitlines()] == [a["text"] for a in found["results"]]
    in_process.passed(*words, "--to", tmp_path / "near.csv")
    rows = results(tmp_path / "near.csv")
    assert [(row["text"], int(row["index"])) for row in rows] == [(a["text"], a["index"]) for a in found["results"]]


def test_standard_input(encoder: Path, masked: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch):
    for verb, run, given in (("embed", encoder, b"the cat\nold dogs\n"), ("fill", masked, b"the [MASK]\n")):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(given)))
        assert len(in_process.json(verb, run, "-")["results"]) == given.count(b"\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fill", "{masked}", "no open place"], "[MASK]"),
        (["fill", "{masked}", OPEN, "--k", "0"], "k is 0"),
        (["fill", "{masked}", OPEN, "--to", "out.txt"], ".csv, .jsonl, .tsv"),
        (["fill", "{encoder}", OPEN], "fill needs a masked language model"),
        (["fill", "{masked}", "missing.csv"], "there is no such file"),
        (["embed", "{encoder}", "{lines}", "--to", "out.txt"], ".npy, .jsonl, .csv"),
        (["embed", "{encoder}", "{lines}", "--to", "{lines}"], "this is the input file"),
        (["embed", "{encoder}", "{lines}", "--to", "{lines}/out.npy"], "is a file, not a folder"),
        (["embed", "{encoder}", "{lines}", "--nearest", "a", "--similarity"], "choose one"),
        (["embed", "{encoder}", "{lines}", "--nearest", "a", "--k", "0"], "k is 0"),
        (["embed", "{encoder}", "{lines}", "--nearest", "a", "--to", "out.npy"], ".jsonl, .csv"),
    ],
)
def test_what_cannot_be_done_is_one_plain_line(
    words: list[str], said: str, masked: Path, encoder: Path, lines: Path, in_process: Callable
):
    places = {"masked": masked, "encoder": encoder, "lines": lines}
    in_process.refused(*(word.format(**places) if word.startswith("{") else word for word in words), said=said, lines=1)
