"""Results in a file, written as they come: a killed command continues; two at once do not write the same file."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.cli import output_file, results
from headway.cli.inputs import pieces
from headway.cli.output_file import OutputFile
from headway.data.open.read import read
from headway.errors import InputError, RunFailed

WORDS = ["the", "cat", "sat", "on", "a", "mat", "old", "dogs", "great", "awful", "fine"]
KILLED = """
import os, signal
from headway.cli import output_file, results
results.piece_size = lambda tokens: 300
os.environ["MKL_CBWR"] = "COMPATIBLE"
"""
"""Small pieces, and products that are equal in all processes: MKL's usual ones differ in a bit in one of ten."""
AT_PIECE = """
write, calls = output_file._write, []
def killing(descriptor, data):
    calls.append(1)
    if len(calls) == {call}:
        write(descriptor, data[: len(data) * {part} // 3])
        os.kill(os.getpid(), signal.SIGKILL)
    write(descriptor, data)
output_file._write = killing
"""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """211 rows of a table, some with line ends and quotes."""
    choose, path = random.Random(5), tmp_path_factory.mktemp("texts") / "texts.csv"
    rows = [" ".join(choose.choices(WORDS, k=choose.randint(1, 13))) for _ in range(211)]
    rows[7], rows[11] = 'two\nlines and a "quote"', "a, b"
    lines = ("{},{}\n".format('"' + row.replace('"', '""') + '"', number) for number, row in enumerate(rows))
    path.write_text("text,number\n" + "".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def places(
    classifier_run: Path, corpus: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Runs of three tasks, texts, and lines with open places and blank ones."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "lines.txt").write_text(
        "".join("\n" if n % 17 == 3 else f"the [MASK] sat {n} [MASK]\n" for n in range(211))
    )
    pairs = "".join(f"{one} {other}\t{other} {one}\n" for one in WORDS for other in WORDS)
    (folder / "pairs.tsv").write_text(f"source\ttarget\n{pairs}")
    tiny = {"d_model": 16, "layers": 1, "heads": 2, "length": 32, "batch_tokens": 256, "threads": 1, "steps": 8}
    tiny |= {"precision": "float32", "quiet": True}
    headway.train(folder / "pairs.tsv", out=folder / "translator", task="translation", **tiny)
    headway.train(corpus, out=folder / "encoder", task="masked_lm", **tiny)
    made = {name: folder / name for name in ("translator", "encoder")}
    return {**made, "classifier": classifier_run, "texts": texts, "masked": folder / "lines.txt"}


def read_rows(path: Path) -> list[dict[str, str]]:
    table: Any = read([path])
    return [dict(row) for row in table.rows]


COMMANDS = {
    "classify csv": ("classify", "classifier", "texts", "out.csv"),
    "classify jsonl": ("classify", "classifier", "texts", "out.jsonl", "--json"),
    "predict parquet": ("predict", "classifier", "texts", "out.parquet"),
    "predict xlsx": ("predict", "classifier", "texts", "out.xlsx"),
    "translate txt": ("translate", "translator", "texts", "out.txt", "--beam", "2"),
    "translate csv": ("translate", "translator", "texts", "out.csv", "--beam", "2", "--n-best", "2"),
    "embed npy": ("embed", "encoder", "texts", "out.npy"),
    "embed csv": ("embed", "encoder", "texts", "out.csv"),
    "embed similarity": ("embed", "encoder", "texts", "out.npy", "--similarity"),
    "embed nearest": ("embed", "encoder", "texts", "out.csv", "--nearest", "the cat"),
    "fill csv": ("fill", "encoder", "masked", "out.csv"),
    "fill jsonl": ("fill", "encoder", "masked", "out.jsonl"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_continues_and_ends_as_one_left_alone(
    name: str, places: dict[str, Path], forker: Any, tmp_path: Path
):
    """SIGKILL after half of the pieces, in the middle of a row, and in the middle of a line of the journal."""
    verb, run, data, to, *more = COMMANDS[name]
    words = [verb, places[run], places[data], *more, "--threads", "1", "--to"]
    (tmp_path / "alone").mkdir()
    alone = forker(*words, tmp_path / "alone" / to, script=KILLED)
    assert alone.returncode == 0, alone.stderr
    content = read_rows if to.endswith(".xlsx") else Path.read_bytes  # a workbook says when it was made
    whole = content(tmp_path / "alone" / to)
    for call, part in ((12, 0), (7, 1), (8, 2), (5, 2)):  # data and lines of the journal take turns
        killed = forker(*words, tmp_path / to, script=KILLED + AT_PIECE.format(call=call, part=part))
        assert killed.returncode == -signal.SIGKILL, (call, killed.stderr)
        assert not (tmp_path / to).exists()
    again = forker(*words, tmp_path / to, script=KILLED)
    assert again.returncode == 0 and "resuming after" in again.stderr and "Traceback" not in again.stderr, again.stderr
    assert content(tmp_path / to) == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["alone", to])
    if "--json" in more:
        one, other = (json.loads(found.stdout.splitlines()[-1]) for found in (alone, again))
        assert one["results"] == other["results"] and len(one["results"]) == 211


def test_answers_do_not_depend_on_the_pieces(
    classifier_run: Path, texts: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    found = []
    for most in (1, 500, 10**9):
        monkeypatch.setattr(results, "piece_size", lambda tokens, most=most: most)
        to = tmp_path / f"{most}.jsonl"
        assert in_process("classify", classifier_run, texts, "--to", to)[0] == 0
        rows = [json.loads(line) for line in to.read_text().splitlines()]
        assert [row["number"] for row in rows] == [str(number) for number in range(211)]
        found.append(np.array([list(row["scores"].values()) for row in rows]))
    assert np.abs(found[0] - found[2]).max() < 1e-5 and np.abs(found[1] - found[2]).max() < 1e-5


def test_what_is_of_other_texts_or_another_model_is_not_continued(
    classifier_run: Path, texts: Path, tmp_path: Path, forker: Any
):
    kill = KILLED + AT_PIECE.format(call=12, part=0)
    other = tmp_path / "other.csv"
    other.write_text(texts.read_text().replace("two\nlines", "one\nline"), encoding="utf-8")
    to, alone = tmp_path / "out.csv", tmp_path / "alone.csv"
    assert forker("classify", classifier_run, other, "--to", alone, script=KILLED).returncode == 0
    assert forker("classify", classifier_run, texts, "--to", to, script=kill).returncode == -signal.SIGKILL
    found = forker("classify", classifier_run, other, "--to", to, script=KILLED)
    assert found.returncode == 0 and "going on" not in found.stderr
    assert to.read_bytes() == alone.read_bytes()
    copy = shutil.copytree(classifier_run, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    assert forker("classify", copy, texts, "--to", to, script=kill).returncode == -signal.SIGKILL
    config = json.loads((copy / "config.json").read_text())
    config["id2label"] = {number: f"{label}!" for number, label in config["id2label"].items()}
    config["label2id"] = {label: int(number) for number, label in config["id2label"].items()}
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "headway.json").unlink()  # which says what the file was
    found = forker("classify", copy, texts, "--to", to, script=KILLED)
    assert found.returncode == 0 and "going on" not in found.stderr
    assert to.read_text(encoding="utf-8").count("!") >= 211


def test_two_commands_do_not_write_one_file(classifier_run: Path, texts: Path, tmp_path: Path, in_process: Callable):
    to = tmp_path / "out.csv"
    with OutputFile(to, "another command") as held:
        held.add(b"abc", 1)
        status, out, err = in_process("classify", classifier_run, texts, "--to", to)
        assert status == 2 and out == "" and f"{to}: another command is writing this file" in err
        held.finish()
    assert to.read_bytes() == b"abc" and in_process("classify", classifier_run, texts, "--to", to)[0] == 0
    assert len(to.read_text().splitlines()) > 211


def test_a_file_of_the_users_is_not_written_over(classifier_run: Path, texts: Path, tmp_path: Path, in_process):
    (tmp_path / "out.csv.part").write_text("mine")
    said = "out.csv.part: this file exists and was not written by this command"
    in_process.refused("classify", classifier_run, texts, "--to", tmp_path / "out.csv", said=said)
    assert (tmp_path / "out.csv.part").read_text() == "mine"


def pieces_of(path: Path, until: int, crash: bool = True) -> None:
    with OutputFile(path, "same", b"header\n") as output:
        for number in range(output.inputs, until):
            output.add(f"row {number}\n".encode(), number + 1)
        if not crash:
            output.finish()


def test_every_damage_of_what_was_kept_is_found(tmp_path: Path):
    """Any cut and any changed bit of the rows or of the journal: what remains is right, and the end is the same."""
    to, choose = tmp_path / "out.csv", random.Random(3)
    pieces_of(to, 9, crash=False)
    whole = to.read_bytes()
    pieces_of(to, 5)
    kept = {path: path.read_bytes() for path in (tmp_path / "out.csv.part", tmp_path / "out.csv.journal")}
    for path, content in kept.items():
        damages = [content[:size] for size in range(len(content))]
        for _ in range(60):
            changed = bytearray(content)
            changed[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
            damages.append(bytes(changed))
        damages.append(content + b"more")
        for damaged in damages:
            for each, right in kept.items():
                each.write_bytes(damaged if each == path else right)
            try:
                pieces_of(to, 9, crash=False)
            except InputError as error:  # nothing says that these rows are ours
                assert path.suffix == ".journal" and "remove or rename it" in str(error)
                continue
            assert to.read_bytes() == whole
            to.unlink()


def test_a_full_disk_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    honest = output_file._write

    def full(descriptor: int, data: bytes) -> None:
        if b"row 3" in data:
            raise OSError(28, "No space left on device")
        honest(descriptor, data)

    monkeypatch.setattr(output_file, "_write", full)
    with pytest.raises(RunFailed, match=r"out.csv: cannot be written \(No space left on device\).* 3 inputs are saved"):
        pieces_of(tmp_path / "out.csv", 9)
    monkeypatch.setattr(output_file, "_write", honest)
    pieces_of(tmp_path / "out.csv", 9, crash=False)
    assert (tmp_path / "out.csv").read_text() == "header\n" + "".join(f"row {n}\n" for n in range(9))


def test_ctrl_c_says_what_is_kept(classifier_run: Path, texts: Path, tmp_path: Path):
    script = KILLED + AT_PIECE.format(call=12, part=3).replace("SIGKILL", "SIGINT")
    code = f"{script}\nfrom headway.cli.main import main\nmain()"
    words = [sys.executable, "-c", code, "classify", classifier_run, texts, "--to", tmp_path / "out.csv"]
    found = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=900, env={**os.environ})
    assert found.returncode == 130 and "Traceback" not in found.stderr
    assert "of 211 inputs are saved; run the same command again to resume" in found.stderr


def test_pieces():
    assert list(pieces([], 10)) == []
    assert list(pieces(["aaaaaa", "b", "", "cccccccccccc"], 10)) == [(0, ["aaaaaa"]), (1, ["b", "", "cccccccccccc"])]
    paths = [Path("a"), Path("b"), Path("c")]
    assert list(pieces(paths, 1)) == [(at, [path]) for at, path in enumerate(paths)]
    assert results.piece_size(256) >= 16 * 256


@pytest.mark.parametrize("name", ["table.csv", "one.csv", "lines.txt"])
def test_a_file_is_read_twice_and_never_held(
    name: str, classifier_run: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    """Once to look at it, once to answer; what is read for a moment from its beginning does not count."""
    from headway.data.open import files
    from headway.data.records import table

    monkeypatch.setattr(table, "HELD", 100)
    monkeypatch.setattr(files, "BLOCK", 2000)
    rows = [f"{WORDS[n % 11]} {WORDS[n % 7]} {n}" for n in range(3001)]
    header, more = {"table.csv": ("text,n\n", ",1"), "one.csv": ("review\n", ""), "lines.txt": ("", "")}[name]
    path = tmp_path / name
    path.write_text(header + "".join(f"{row}{more}\n" for row in rows))
    read_bytes: list[int] = []
    honest = files.blocks

    def counting(path: Path, size: int = 2000) -> Any:
        for block in honest(path, size):
            read_bytes.append(len(block))
            yield block

    monkeypatch.setattr(files, "blocks", counting)
    assert in_process("classify", classifier_run, path, "--to", tmp_path / "out.jsonl")[0] == 0
    assert 2 * path.stat().st_size <= sum(read_bytes) <= 2 * path.stat().st_size + 3 * 2000
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [one["text"] for one in found] == rows
    assert all(("n" in one) == (name == "table.csv") for one in found)


def test_texts_hold_the_rows_of_one_piece(texts: Path, monkeypatch: pytest.MonkeyPatch):
    from headway.cli.inputs import Texts
    from headway.data.open import read
    from headway.data.records import rows as table_rows
    from headway.data.records.rows import chunked

    table = read.read_rows(texts)
    everything = list(table.rows)
    monkeypatch.setattr(table_rows, "ROWS", 13)
    table.chunks = lambda: chunked(table.columns, ((n, list(row.values())) for n, row in enumerate(everything)))
    found = Texts(table, "text", table.columns)
    assert found.others == ["number"] and list(found) == [row["text"] for row in everything]
    for start, part in found.pieces(90):
        for at in range(start, start + len(part)):
            assert found[at] == everything[at]["text"] == part[at - start] and found.row(at) == everything[at]
        assert sum(len(chunk) for _, chunk in found._held) <= len(part) + 2 * 13
    assert found[-1] == everything[-1]["text"] and found[3:5] == [row["text"] for row in everything[3:5]]
    with pytest.raises(IndexError):
        found[211]


def test_files_without_lines_and_with_one_column_of_numbers(classifier_run: Path, tmp_path: Path, in_process: Callable):
    to = tmp_path / "out.jsonl"
    for name, text, expected in (("empty.txt", "", []), ("one.csv", "code\n11\n12\n13\n", ["11", "12", "13"])):
        (tmp_path / name).write_text(text)
        in_process.passed("classify", classifier_run, tmp_path / name, "--to", to)
        found = [json.loads(line) for line in to.read_text().splitlines()]
        assert [one["text"] for one in found] == expected and all("code" not in one for one in found)
    in_process.refused("classify", classifier_run, tmp_path / "one.csv", "--text-column", "cod", said="no column 'cod'")
