"""Every field of a conversation is read, refused, or named as not read, whatever the conversations are read from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from bases import tokenizer
from faults_harness import facts_of

import headway
from headway.data.open.in_memory import given_inputs
from headway.data.records.dialogues import Dialogues
from headway.errors import InputError
from headway.tasks.count_baselines import token_counts
from headway.tasks.dialogue import encoded_talks, talks
from headway.text.chat import encode_chat, with_chat
from headway.training.options import TrainOptions
from headway.workflows.input import read_input

N = 13
TINY: dict[str, Any] = {
    **{"steps": 2, "batch_tokens": 256, "threads": 1, "evaluations": 1, "quiet": True, "precision": "float32"},
    **{"d_model": 16, "layers": 1, "heads": 2},
}


def said(*contents: str, **of_first_reply: Any) -> list[dict[str, Any]]:
    found = [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]
    found[1] |= of_first_reply
    return found


def jsonl(folder: Path, rows: list[Any]) -> Any:
    (folder / "talk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "talk.jsonl"


def array(folder: Path, rows: list[Any]) -> Any:
    (folder / "talk.json").write_text("[" + ",\n".join(map(json.dumps, rows)) + "]")
    return folder / "talk.json"


def parquet(folder: Path, rows: list[Any]) -> Any:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "talk.parquet")
    return folder / "talk.parquet"


def dicts(folder: Path, rows: list[Any]) -> Any:
    return given_inputs([rows])[0]


def frame(folder: Path, rows: list[Any]) -> Any:
    pandas = pytest.importorskip("pandas")
    return given_inputs([pandas.DataFrame(rows)])[0]


def data_set(folder: Path, rows: list[Any]) -> Any:
    return given_inputs([pytest.importorskip("datasets").Dataset.from_list(rows)])[0]


FORMS: list[Callable[[Path, list[Any]], Any]] = [jsonl, array, parquet, dicts, frame, data_set]
FILES = (jsonl, array, parquet)
"""In these rows are counted from 1; what is in memory has an index."""


def opened(form: Any, folder: Path, rows: list[Any], **options: Any) -> tuple[Dialogues, list[str]]:
    source, found = read_input([form(folder, rows)], TrainOptions().but(**options))
    assert isinstance(source, Dialogues)
    return source, found.reasons


WEIGHTS: list[dict[str, Any]] = [{"weight": 0}, {"weight": 0.0}, {"train": False}, {"loss": False}, {"training": False}]


@pytest.mark.parametrize("field", WEIGHTS)
@pytest.mark.parametrize("form", FORMS)
def test_a_reply_of_weight_0_is_context_and_no_target(form: Any, field: dict[str, Any], tmp_path: Path):
    rows = [{"messages": said(f"the cat {n}", "sat on", "a mat", "red doors", **field)} for n in range(N)]
    source, reasons = opened(form, tmp_path, rows)
    words = with_chat(tokenizer())
    examples = encoded_talks(talks(source), words).cut(300)
    assert {words.decode(reply, skip_special=False) for reply in examples.replies()} == {"red doors<|im_end|>"}
    counts = token_counts(examples.targets, words.vocab_size)
    assert examples.n_targets == N * len(next(examples.replies())) == counts.sum()
    plain = [{"role": one["role"], "content": one["content"]} for one in rows[0]["messages"]]
    assert examples.ids[0] == encode_chat(words, plain)[0][:-1] and "not read" not in str(reasons)


def test_training_and_evaluating_count_the_same_targets(tmp_path: Path):
    rows = [{"messages": said(f"the cat {n}", "sat on", "a mat", f"red doors {n}", weight=0)} for n in range(61)]
    some = headway.train(jsonl(tmp_path, rows), out=tmp_path / "some", **TINY)
    facts = facts_of(tmp_path / "some")
    again = headway.evaluate(tmp_path / "some")
    assert again["val_loss"] == pytest.approx(some["val_loss"], abs=1e-6)
    assert facts["data"]["validation"].split(" conversations with ")[1].startswith(str(again["examples"]))
    for row in rows:
        del row["messages"][1]["weight"]
    every = headway.evaluate(tmp_path / "some", jsonl(tmp_path, rows))
    assert every["examples"] > 10 * again["examples"] and every["val_loss"] != some["val_loss"]


def test_weights_are_located_where_the_template_marks_replies():
    words = tokenizer().with_template(
        "{% for m in messages %}<|im_start|>{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] }}"
        "<|im_end|>{% endgeneration %}{% else %}{{ m['content'] }}<|im_end|>{% endif %}{% endfor %}",
        {"eos_token": "<|im_end|>"},
        ["<|im_start|>", "<|im_end|>"],
    )
    ids, reply = encode_chat(words, said("the cat", "sat on", "a mat", "red doors", weight=0))
    assert words.decode(np.array(ids)[reply].tolist(), skip_special=False) == "red doors<|im_end|>"


SYSTEM = {"role": "system", "content": "be kind"}
SHARE = [{"from": "human", "value": "the cat"}, {"from": "gpt", "value": "sat on"}]
PAIRS = [["hello", "good day"], ["and", "so on"]]
READ: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "system": ({"system": "be kind", "conversations": SHARE}, [SYSTEM, *said("the cat", "sat on")]),
    "system_prompt": ({"messages": said("a", "b"), "system_prompt": "be kind"}, [SYSTEM, *said("a", "b")]),
    "the same twice": ({"messages": [SYSTEM, *said("a", "b")], "system": "be kind"}, [SYSTEM, *said("a", "b")]),
    "nothing in them": (
        {"messages": said("a", "b", tool_calls=None, weight=None), "system": "", "tools": "[]", "images": None},
        said("a", "b"),
    ),
    "a good example": ({"messages": said("a", "b"), "label": True}, said("a", "b")),
    "history": (
        {"instruction": "a", "input": "", "output": "b", "history": PAIRS, "system": "be kind"},
        [SYSTEM, *said("hello", "good day", "and", "so on", "a", "b")],
    ),
    "messages in cells": (
        {"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]},
        said("a", "b"),
    ),
}


@pytest.mark.parametrize("case", READ)
@pytest.mark.parametrize("form", FORMS)
def test_what_has_a_meaning_here_is_read(form: Any, case: str, tmp_path: Path):
    row, wanted = READ[case]
    table = {"task": "dialogue"} if "messages" not in row and "conversations" not in row else {}
    source, _ = opened(form, tmp_path, [row] * N, **table)
    assert list(source.conversations) == [wanted] * N


TABLE = {"prompt": "a", "completion": "b"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "half a weight": ({"messages": said("a", "b", weight=0.5)}, "message 2: its 'weight' is '0.5', expected 0"),
    "no target": ({"messages": said("a", "b", weight=0)}, "no reply is trained on"),
    "a trained question": (
        {"messages": [{"role": "user", "content": "a", "train": True}, said("a", "b")[1]]},
        "message 1: its 'train' is 'true', expected 0, as only replies are trained on",
    ),
    "two systems": ({"messages": [SYSTEM, *said("a", "b")], "system": "be bad"}, "keep one of the two"),
    "thoughts": ({"messages": said("a", "b", reasoning_content="so")}, "message 2 has 'reasoning_content'"),
    "tool calls": ({"messages": said("a", "b", tool_calls=[{"id": "x"}])}, "message 2 has 'tool_calls'"),
    "images in a message": ({"messages": said("a", "b", images=["a.png"])}, "a language model reads only text"),
    "tools": ({"messages": said("a", "b"), "tools": [{"name": "f"}]}, "the conversation has 'tools'"),
    "documents": ({"messages": said("a", "b"), "documents": [{"text": "f"}]}, "the conversation has 'documents'"),
    "images": ({"conversations": SHARE, "images": ["a.png"]}, "the conversation has 'images'"),
    "history": ({"messages": said("a", "b"), "history": PAIRS}, "write its turns into the messages"),
    "rejected": ({"messages": said("a", "b"), "rejected": "c"}, "no task for preferences"),
    "a bad example": ({"messages": said("a", "b"), "label": False}, "'label' is false: this reply is a bad example"),
    "a bad completion": ({**TABLE, "label": False}, "'label' is false: this reply is a bad example"),
    "tools of a table": ({**TABLE, "tools": '[{"name": "f"}]'}, "the conversation has 'tools'"),
    "history of three": ({"instruction": "a", "output": "b", "history": [["x", "y", "z"]]}, "expected a list of pairs"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("form", FORMS)
def test_what_would_change_the_result_is_refused_with_its_row(form: Any, case: str, tmp_path: Path):
    row, words = REFUSED[case]
    other = {key: [] if key in ("tools", "images", "documents", "history") else value for key, value in row.items()}
    other = {key: True if value is False else "" if key == "rejected" else value for key, value in other.items()}
    if "messages" in row:
        other |= {"messages": said("c", "d")}
    if case == "two systems":
        other["system"] = ""
    if "tools" in row and "messages" not in row:
        other["tools"] = "[]"
    with pytest.raises(InputError) as raised:
        opened(form, tmp_path, [other, other, row], task="dialogue" if "messages" not in row else None)
    place = " 3: " if form in FILES else "index 2: "
    assert words in str(raised.value) and place in str(raised.value), raised.value


@pytest.mark.parametrize("form", FORMS)
def test_what_changes_nothing_is_named_in_one_line(form: Any, tmp_path: Path):
    rows = [{"id": f"x{n}", "messages": said("a", "b", name=None if n < 5 else "anna")} for n in range(N)]
    _, reasons = opened(form, tmp_path, rows)
    [line] = [reason for reason in reasons if "not read" in reason]
    assert f"'id' ({N} times, the first in " in line and f"'name' of messages ({N - 5} times, the first in " in line
    assert line.count("talk.") == 2 * (form in FILES) and (" 6)" if form in FILES else "index 5)") in line
    rows = [{"source": "x", "prompt": "a", "completion": "b"}] * N
    assert f"'source' ({N} times" in str(opened(form, tmp_path, rows, task="dialogue")[1])


def test_preferences_are_refused(tmp_path: Path, in_process: Callable):
    rows = [{"prompt": f"the cat {n}", "chosen": f"sat on {n}", "rejected": f"ran {n}"} for n in range(N)]
    for path in (jsonl(tmp_path, rows), parquet(tmp_path, rows)):
        status, _, err = in_process("train", path, "--plan")
        assert status == 2 and "columns 'chosen' and 'rejected' are a preferred and a rejected reply" in err


def test_a_chat_refuses_what_its_template_does_not_read(tmp_path: Path):
    headway.train(jsonl(tmp_path, [{"messages": said(f"a {n}", "b")} for n in range(N)]), out=tmp_path / "run", **TINY)
    pipe = headway.load(tmp_path / "run")
    with pytest.raises(InputError, match="message 1 has 'images', which the chat template does not read"):
        pipe.chat([{"role": "user", "content": "a", "images": ["a.png"]}], max_tokens=3)
    assert isinstance(pipe.chat([{"role": "user", "content": "a", "name": "anna", "images": []}], max_tokens=3), str)
