"""Whatever is wrong with the input: exit status 2, one plain message, no traceback, and nothing left behind."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROWS = "".join(f"the cat {i} sat on {'a' if i % 2 else 'no'} mat,{'pos' if i % 2 else 'neg'}\n" for i in range(23))
TABLE = "text,label\n" + ROWS

FILES: dict[str, bytes] = {
    "empty.txt": b"",
    "blank.txt": b" \n\n\t\n",
    "short.txt": b"the cat sat on a mat",
    "one.txt": b"a",
    "binary.txt": bytes(range(256)) * 7,
    "latin.txt": "café\n".encode("latin-1") * 101,
    "utf16.txt": ("the cat sat\n" * 101).encode("utf-16"),
    "nul.txt": b"the cat\nsat \0 on a mat\n" * 101,
    "empty.csv": b"",
    "header.csv": b"text,label\n",
    "ragged.csv": (TABLE + "one,two,three\n").encode(),
    "quote.csv": (TABLE + '"the cat,neg\n' + ROWS).encode(),
    "latin.csv": (TABLE + "caf\xe9,neg\n").encode("latin-1"),
    "class.csv": b"text,label\n" + b"the cat,pos\nold dogs,pos\n" * 11,
    "unlabelled.csv": (TABLE + "old dogs,\n").encode(),
    "textless.csv": (TABLE + ",neg\n" * 7).encode(),
    "two_rows.csv": b"text,label\nthe cat,pos\nold dogs,neg\n",
    "two_texts.csv": b"first,second,label\n" + b"the cat sat on a mat,old dogs ran past red,1\n" * 11,
    "bad.jsonl": b'{"text": "the cat", "label": "a"}\n{"text": \n',
    "array.jsonl": b'["the cat", "a"]\n' * 7,
    "fine.csv": TABLE.encode(),
    "fine.txt": b"the cat sat on a mat\n" * 301,
    "excel.xlsx": b"PK\x03\x04" + bytes(99),
}

TRAIN = [
    (["nowhere.txt"], ["nowhere.txt"]),
    ([], ["INPUT"]),
    (["empty.txt"], ["empty.txt", "0 bytes"]),
    (["blank.txt"], ["blank.txt", "no text"]),
    (["short.txt"], ["token"]),
    (["one.txt"], []),
    (["binary.txt"], ["binary.txt"]),
    (["latin.txt"], ["latin.txt", "line 1", "--encoding"]),
    (["utf16.txt"], ["utf16.txt", "UTF-16"]),
    (["nul.txt"], ["nul.txt", "line 2"]),
    (["empty.csv"], ["empty.csv"]),
    (["header.csv"], ["header.csv", "no rows"]),
    (["ragged.csv"], ["ragged.csv", "25", "3 fields"]),
    (["quote.csv"], ["quote.csv", "line 25", "quote"]),
    (["latin.csv"], ["latin.csv", "25", "--encoding"]),
    (["class.csv"], ["class.csv", "only one label", "'pos'"]),
    (["unlabelled.csv"], ["unlabelled.csv", "no label", "25"]),
    (["textless.csv"], ["textless.csv", "empty text", "25"]),
    (["two_rows.csv"], ["2 rows"]),
    (["two_texts.csv"], ["--text-column"]),
    (["bad.jsonl"], ["bad.jsonl", "2"]),
    (["array.jsonl"], ["array.jsonl", "1"]),
    (["excel.xlsx"], ["excel.xlsx"]),
    (["fine.csv", "--text-column", "tekst"], ["'tekst'", "text"]),
    (["fine.csv", "--label-column", "lable"], ["'lable'", "Did you mean 'label'"]),
    (["fine.txt", "fine.csv"], ["one kind"]),
    (["fine.txt", "--task", "classification"], ["fine.txt", "running text"]),
    (["fine.txt", "--validation", "nowhere.txt"], ["nowhere.txt"]),
    (["fine.txt", "--validation", "one.txt"], ["validation"]),
    (["fine.csv", "--validation", "fine.txt"], ["fine.txt"]),
    (["fine.txt", "--encoding", "klingon"], ["klingon"]),
    (["fine.txt", "--time", "soon"], ["--time", "soon", "90s"]),
    (["fine.txt", "--time", "5m", "--steps", "7"], ["--time", "--steps"]),
    (["fine.txt", "--steps", "0"], ["--steps", "0", "1 or more"]),
    (["fine.txt", "--steps", "few"], ["--steps", "few"]),
    (["fine.txt", "--layres", "3"], ["--layres", "--layers"]),
    (["fine.txt", "--preset", "huge"], ["--preset", "huge", "tiny"]),
    (["fine.txt", "--d-model", "16", "--heads", "3"], ["heads"]),
    (["fine.txt", "--d-model", "15", "--heads", "3"], ["even"]),
    (["fine.csv", "--d-model", "15", "--heads", "2"], ["heads"]),
    (["fine.txt", "--length", "100000"], ["tokens"]),
    (["fine.txt", "--vocab", "1"], ["vocab"]),
    (["fine.txt", "--tokenizer", "wordpiece"], ["wordpiece"]),
    (["fine.txt", "--out", "fine.csv"], ["fine.csv", "--out"]),
    (["fine.txt", "--out", "fine.csv/run"], ["fine.csv/run", "--out"]),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the files above."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(in_process: Callable, words: list[object], said: list[str]) -> None:
    began = time.monotonic()
    err = in_process.refused(*words)
    last = [line for line in err.splitlines() if line][-1]
    assert last.startswith(("headway: ", "Error: ")) and "Warning" not in err, err
    assert all(word in last for word in said), err
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(("words", "said"), TRAIN, ids=[" ".join(words) or "nothing" for words, _ in TRAIN])
def test_train(words: list[str], said: list[str], here: Path, in_process: Callable):
    before = sorted(here.rglob("*"))
    steps = [] if {"--time", "--steps"} & set(words) else ["--steps", "2"]
    out = [] if "--out" in words else ["--out", "deep/run"]
    check(in_process, ["train", *words, *steps, *out], said)
    assert sorted(here.rglob("*")) == before, "nothing is left behind"


@pytest.mark.parametrize("name", ["short.txt", "class.csv", "nowhere.txt"])
def test_quiet_leaves_the_message_alone(name: str, here: Path, in_process: Callable):
    assert in_process.refused("train", name, "--quiet", "--steps", "2", lines=1).startswith("headway: ")


@pytest.mark.parametrize("verb", ["evaluate", "generate", "classify"])
@pytest.mark.parametrize("run", ["nowhere", "fine.txt", "empty"])
def test_a_run_that_is_none(verb: str, run: str, here: Path, in_process: Callable):
    (here / "empty").mkdir()
    check(in_process, [verb, run, "fine.txt"], [run])


USE = [
    (["classify", "CLF", "nowhere.csv"], ["nowhere.csv", "no such file"]),
    (["classify", "CLF", "../"], ["folder"]),
    (["classify", "CLF", "empty.csv"], ["empty.csv"]),
    (["classify", "CLF", "binary.txt"], ["binary.txt"]),
    (["classify", "CLF", "latin.txt"], ["latin.txt", "--encoding"]),
    (["classify", "CLF", "./missing"], ["./missing", "there is no such file"]),
    (["classify", "CLF", "../missing"], ["../missing", "there is no such file"]),
    (["classify", "CLF", "ragged.csv"], ["ragged.csv"]),
    (["classify", "CLF", "two_texts.csv"], ["--text-column"]),
    (["classify", "CLF", "fine.csv", "--text-column", "txt"], ["'txt'", "text"]),
    (["classify", "CLF", "great", "--to", "results.xml"], [".csv, .jsonl, .tsv"]),
    (["classify", "CLF", "great", "--to", "fine.csv/results.csv"], ["fine.csv/results.csv", "is a file, not a folder"]),
    (["classify", "LM", "great"], ["language_modeling"]),
    (["classify", "CLF"], ["TEXT"]),
    (["generate", "CLF", "the"], ["classification"]),
    (["generate", "LM", "the", "--max-tokens", "0"], ["--max-tokens"]),
    (["generate", "LM", "the", "--temperature", "-1"], ["temperature"]),
    (["generate", "LM", "the", "--top-p", "2"], ["--top-p"]),
    (["generate", "LM", "the", "--seed", "-1"], ["seed"]),
    (["generate", "LM", "the", "--stop", ""], ["stop"]),
    (["generate", "LM"], ["PROMPT"]),
    (["generate", "CHAR", "the caté"], ["'é'"]),
    (["evaluate", "CLF", "nowhere.csv"], ["nowhere.csv"]),
    (["evaluate", "CLF", "fine.txt"], ["fine.txt"]),
    (["evaluate", "CLF", "fine.csv", "--label-column", "lable"], ["Did you mean 'label'"]),
    (["evaluate", "LM", "one.txt"], ["1 token"]),
    (["evaluate", "LM", "empty.txt"], ["empty.txt"]),
    (["trian", "fine.txt"], ["trian", "train"]),
    (["--fast"], ["--fast"]),
]


@pytest.mark.parametrize(("words", "said"), USE, ids=[" ".join(words) for words, _ in USE])
def test_use(words: list[str], said: list[str], here: Path, in_process, classifier_run: Path, lm_run: Path, char_run):
    runs = {"CLF": classifier_run, "LM": lm_run, "CHAR": char_run}
    check(in_process, [runs.get(word, word) for word in words], said)


def test_standard_input_in_another_encoding(headway_command: Callable, classifier_run: Path, here: Path):
    given = "import io, sys\nsys.stdin = io.TextIOWrapper(io.BytesIO({!r}))"
    found = headway_command("classify", classifier_run, "-", script=given.format(b"caf\xe9"))
    assert (found.returncode, found.stdout) == (2, "") and "standard input is not UTF-8" in found.stderr.splitlines()[
        -1
    ]
    assert "Traceback" not in found.stderr
    script = given.format("the lamp\nworks".encode("utf-16"))
    found = headway_command("classify", classifier_run, "-", script=script)
    assert found.returncode == 2 and "--encoding" in found.stderr
    found = headway_command("classify", classifier_run, "-", "--encoding", "utf-16", "--json", script=script)
    assert found.returncode == 0 and len(json.loads(found.stdout.splitlines()[-1])["results"]) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(here: Path, in_process: Callable):
    (here / "fine.txt").chmod(0)
    check(in_process, ["train", "fine.txt", "--steps", "2"], ["fine.txt"])


def test_a_model_of_images_that_does_not_say_how_it_reads_them(tmp_path: Path, in_process: Callable):
    import transformers

    settings = {"hidden_size": 42, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 17}
    config = transformers.ViTConfig(**settings, image_size=14, patch_size=7, num_labels=5)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    (tmp_path / "fine.csv").write_bytes(FILES["fine.csv"])
    verbs = [["explain", tmp_path / "vit"], ["evaluate", tmp_path / "vit", tmp_path / "fine.csv"]]
    verbs += [[verb, tmp_path / "vit", "a cat"] for verb in ("classify", "generate", "fill", "embed", "translate")]
    verbs += [["train", tmp_path / "fine.csv", "--from", tmp_path / "vit", "--steps", 1, "--out", tmp_path / "run"]]
    for words in verbs:
        what = "which reads no text" if words[0] == "train" else "without preprocessor_config.json"
        err = in_process.refused(*words, said=("vit: is a", what, "`headway.load_model`"))
        assert err.splitlines()[-1].startswith("headway: ")
    assert not (tmp_path / "run").exists()


def test_an_argument_that_is_not_utf8(classifier_run: Path, lm_run: Path, in_process: Callable):
    text = os.fsdecode(b"caf\xe9")
    for words in (("classify", classifier_run, text), ("generate", lm_run, text), ("explain", lm_run, "--text", text)):
        status, out, err = in_process(*words)
        said = "headway: the text is not valid Unicode: found the byte 0xE9; write the text in UTF-8\n"
        assert (status, out, err) == (2, "", said)
