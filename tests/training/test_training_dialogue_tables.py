"""Tables of prompts and replies as conversations: by their columns, the model that is named, or because it is asked."""

import csv
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from bases import WORDS, make_base
from faults_harness import facts_of
from held_tables import table

import headway
from headway.data.open.read import read
from headway.data.records.dialogues import Turns, as_dialogues, turns_of
from headway.data.records.table import Table
from headway.errors import InputError
from headway.workflows.input import detect

TINY = ["--steps", "4", "--batch-tokens", "256", "--threads", "1", "--evaluations", "1", "--precision", "float32"]
SHAPE = ["--d-model", "16", "--layers", "1", "--heads", "2"]
ALPACA = ("instruction", "input", "output")
FORMS = {
    "alpaca": ALPACA,
    "with a system": ("system", "instruction", "input", "output"),
    "prompts": ("prompt", "completion"),
    "responses": ("prompt", "response"),
}


def rows(columns: tuple[str, ...], count: int = 61) -> list[dict[str, str]]:
    found = []
    for i in range(count):
        words = [WORDS[(i * k + k) % len(WORDS)] for k in range(1, 7)]
        row = dict(zip(columns, [f"{' '.join(words[k:])} {i} {name}" for k, name in enumerate(columns)], strict=True))
        if "input" in row and i % 2:
            row["input"] = ""
        found.append(row)
    return found


def write(path: Path, columns: tuple[str, ...]) -> Path:
    given = rows(columns)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in given))
    elif path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(given), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(given)
    return path


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a chat template, from a table, because it was asked for."""
    place = tmp_path_factory.mktemp("talker")
    options: Any = {"steps": 4, "batch_tokens": 256, "threads": 1, "evaluations": 1, "d_model": 16, "layers": 1}
    source = write(place / "alpaca.csv", ALPACA)
    headway.train(source, task="dialogue", heads=2, quiet=True, out=place / "run", **options)
    return place / "run"


def made(columns: tuple[str, ...]) -> Table:
    given = rows(columns)
    return table(given, list(columns), Path("made.csv"))


def test_columns_are_known_by_their_names():
    assert turns_of(["Instruction", "input", "OUTPUT", "text"]) == Turns("Instruction", "OUTPUT", "input")
    assert turns_of(["system", "prompt", "completion"]) == Turns("prompt", "completion", None, "system")
    assert turns_of(["question", "answer"]) is None
    assert turns_of(["question", "answer"], asked=True) == Turns("question", "answer")
    assert turns_of(["a", "b"], "b", "a") == Turns("b", "a") and turns_of(["a", "b"], "b", None) is None
    for others in (["text", "label"], ["prompt", "chosen", "rejected"], ["input", "output"], ["instruction"]):
        assert turns_of(others, asked=True) is None


def test_an_input_stands_below_its_instruction():
    source = as_dialogues(made(("system", *ALPACA)), Turns("instruction", "output", "input", "system"))
    first, second = islice(source.conversations, 2)
    row, other = rows(("system", *ALPACA))[:2]
    assert [message["role"] for message in first] == ["system", "user", "assistant"]
    assert first[1]["content"] == f"{row['instruction']}\n\n{row['input']}" and first[2]["content"] == row["output"]
    assert second[1]["content"] == other["instruction"] and source.place(3) == "row 5"


def test_messages_in_cells_are_messages():
    said = [{"role": "user", "content": "hello"}]
    row = {"prompt": json.dumps(said), "completion": json.dumps([{"role": "assistant", "content": "good day"}])}
    found = as_dialogues(table([row], list(row), Path("a.jsonl")), Turns("prompt", "completion"))
    assert list(found.conversations) == [[*said, {"role": "assistant", "content": "good day"}]]


def test_rows_without_a_reply_are_named_or_left_out():
    source = made(ALPACA)
    source.rows[7]["output"] = " "
    with pytest.raises(InputError, match=r"made\.csv, row 9: column 'output' is empty"):
        as_dialogues(source, Turns("instruction", "output"))
    found = as_dialogues(source, Turns("instruction", "output"), "skip")
    assert len(found) == 60 and found.skipped[0][0] == "row 9" and found.row_numbers[7] == 10


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("form", FORMS)
def test_a_table_without_a_model_is_refused_with_what_is_needed(
    form: str, ending: str, tmp_path: Path, in_process: Callable
):
    path = write(tmp_path / f"talk.{ending}", FORMS[form])
    status, _, err = in_process("train", path, "--out", tmp_path / "run", *TINY)
    assert status == 2 and "these are conversations" in err and "no chat model is named" in err
    assert "--from" in err and "--task dialogue" in err and not (tmp_path / "run").exists()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_chat_model_learns_from_tables(ending: str, tmp_path: Path, in_process: Callable, talker: Path):
    path, out = write(tmp_path / f"talk.{ending}", ALPACA), tmp_path / "run"
    words = ["train", path, "--from", talker, "--out", out, *TINY]
    status, said, err = in_process(*words)
    assert status == 0, err
    assert "conversations: 'instruction' and 'input' as the prompt, 'output' as the reply" in err
    assert f"to use it: headway generate {out} --chat" in said
    facts = facts_of(out)
    assert facts["task"] == "language_modeling" and facts["data"]["conversations"] == 61
    status, found, err = in_process("evaluate", out, "--json")
    assert status == 0 and json.loads(found)["val_loss"] == pytest.approx(facts["metrics"]["val_loss"], abs=1e-6), err
    other = write(tmp_path / "other.jsonl", ("prompt", "completion"))
    assert in_process("evaluate", out, other)[0] == 0
    assert in_process(*words)[0] == 0  # complete


def test_validation_and_other_names_of_columns(tmp_path: Path, in_process: Callable, talker: Path):
    path, out = write(tmp_path / "talk.csv", ("said", "heard")), tmp_path / "run"
    named = ["--text-column", "said", "--second-column", "heard"]
    words = ["train", path, "--task", "dialogue", *named, "--out", out, *TINY, *SHAPE]
    assert in_process(*words, "--validation", path)[0] == 0
    assert in_process("evaluate", out)[0] == 0
    status, _, err = in_process("train", path, "--task", "dialogue", "--out", tmp_path / "other", *TINY)
    assert status == 2 and "holds no conversations" in err and "--second-column" in err
    asked = write(tmp_path / "asked.csv", ("question", "answer"))
    with pytest.raises(InputError, match="--task text_to_text writes the 'answer' of a 'question'"):
        detect(read(asked))
    status, _, err = in_process("train", asked, "--from", talker, "--out", tmp_path / "asked", *TINY)
    assert status == 0 and "conversations: 'question' as the prompt" in err


def test_models_that_do_not_talk(tmp_path: Path, in_process: Callable):
    path = write(tmp_path / "talk.csv", ALPACA)
    base = make_base("llama", tmp_path / "llama")
    status, _, err = in_process("train", path, "--from", base, "--out", tmp_path / "run", *TINY)
    assert status == 2 and f"{base} has no chat template" in err
    status, _, err = in_process("train", path, "--from", base, "--task", "dialogue", "--out", tmp_path / "run", *TINY)
    assert status == 0, err
    pairs = write(tmp_path / "pairs.csv", ("prompt", "completion"))
    base = make_base("t5", tmp_path / "t5")
    words = ["train", pairs, "--from", base, "--out", tmp_path / "pairs", *TINY]
    status, _, err = in_process(*words)
    assert status == 2 and "--task text_to_text writes the 'completion' of a 'prompt'" in err
    assert in_process(*words, "--task", "text_to_text")[0] == 0


def test_judged_replies_are_refused(tmp_path: Path, in_process: Callable, talker: Path):
    path = tmp_path / "kto.jsonl"
    judged = [{**row, "label": i % 2 == 0} for i, row in enumerate(rows(("prompt", "completion")))]
    path.write_text("".join(json.dumps(row) + "\n" for row in judged))
    status, _, err = in_process("train", path, "--from", talker, "--out", tmp_path / "run", *TINY)
    assert status == 2 and "classification or scoring of pairs" in err
    with pytest.raises(InputError, match="line 2: 'label' is false: this reply is a bad example"):
        as_dialogues(read(path), Turns("prompt", "completion"))


def test_commands_of_a_chat(talker: Path, headway_command: Callable):
    few = ["--max-tokens", "3", "--json"]
    found = headway_command("generate", talker, "--chat", *few, stdin="/help\nhello\n//hello\n/etc/fstab\n/exit\nno\n")
    assert found.returncode == 0, found.stderr
    assert all(name in found.stderr for name in ("/help", "/reset", "/exit"))
    said = [message["content"] for message in json.loads(found.stdout)["results"] if message["role"] == "user"]
    assert said == ["hello", "/hello", "/etc/fstab"]
    found = headway_command("generate", talker, "--chat", *few, stdin="/quit\nhello\n")
    assert found.returncode == 0, found.stderr
    assert found.stderr.startswith("headway: there is no command /quit; there are /help, /reset, /exit")
    said = [message["content"] for message in json.loads(found.stdout)["results"] if message["role"] == "user"]
    assert said == ["hello"], "the conversation goes on"
