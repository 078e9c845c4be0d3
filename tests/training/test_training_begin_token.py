"""Fine-tuning a language model whose tokenizer begins every text with <s>: documents, records, exports, chats."""

import json
import shutil
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faults_harness import facts_of
from transformers import AutoModelForCausalLM, AutoTokenizer

import headway
from headway.data.stream import batch_source
from headway.tasks import running_text

sys.path.append(str(Path(__file__).parent.parent / "parity"))
import foreign_models
from foreign_models import texts, written

ROWS = texts(60, 21)
HOW: dict[str, Any] = {"steps": 4, "threads": 1, "precision": "float32", "quiet": True, "length": 48, "seed": 3}
BEGINS = "begin_tokens"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return foreign_models.make("llama_sentencepiece", tmp_path_factory.mktemp("foreign") / "base", steps=30)


@pytest.fixture(scope="module")
def tokenizer(base: Path) -> Any:
    return AutoTokenizer.from_pretrained(base)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(base: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    headway.train(data, from_model=str(base), out=out, **HOW)
    return out


def without_record(run: Path, place: Path) -> Path:
    """The same run as a Headway that put nothing before a document left it."""
    shutil.copytree(run, place)
    facts = facts_of(run)
    del facts["data"][BEGINS], facts["checksum"]
    (place / "headway.json").write_text(json.dumps(facts))
    return place


def test_a_run_records_how_its_documents_begin_and_is_measured_so(run: Path, data: Path, tokenizer: Any):
    facts = facts_of(run)
    assert facts["data"][BEGINS] == ["<s>"]
    model = AutoModelForCausalLM.from_pretrained(run)
    ids = written(tokenizer, ROWS[0])
    with torch.no_grad():
        logits = model(torch.tensor([ids[:-1]])).logits[0]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]))
    assert headway.evaluate(run, [ROWS[0]])["val_loss"] == pytest.approx(float(loss), abs=1e-4)
    assert headway.evaluate(run)["val_loss"] == pytest.approx(facts["metrics"]["val_loss"], abs=1e-5)
    assert headway.load(run).prompt(ROWS[1]).ids == tokenizer(ROWS[1]).input_ids


def test_a_run_without_the_record_keeps_none(run: Path, tmp_path: Path, tokenizer: Any):
    before = without_record(run, tmp_path / "before")
    pipe: Any = headway.load(before)
    assert pipe.prompt(ROWS[1]).ids == tokenizer(ROWS[1], add_special_tokens=False).input_ids
    one, other = (headway.evaluate(path, [ROWS[0]]) for path in (before, run))
    assert one["examples"] == other["examples"] - 2 and one["val_loss"] != other["val_loss"]
    headway.train([*ROWS], from_model=str(before), out=tmp_path / "next", **HOW)
    assert facts_of(tmp_path / "next")["data"][BEGINS] == []
    headway.train([*ROWS], from_model=str(run), out=tmp_path / "other", **HOW)
    assert facts_of(tmp_path / "other")["data"][BEGINS] == ["<s>"]


def test_only_whole_documents_begin(base: Path, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file is one document: its held-out end goes on within it, and is not begun."""
    seen: list[np.ndarray] = []
    encode = running_text.tokenised
    monkeypatch.setattr(running_text, "tokenised", lambda *a, **k: seen.append(np.asarray(f := encode(*a, **k))) or f)
    path = tmp_path / "text.txt"
    path.write_text("\n".join(ROWS), encoding="utf-8")
    headway.evaluate(base, path)
    whole = seen.pop().tolist()
    assert whole == written(tokenizer, path.read_text(encoding="utf-8"))
    headway.train(path, from_model=str(base), out=tmp_path / "run", **HOW)
    train, held_out = (one.tolist() for one in seen)
    begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    assert train[0] == begin and end not in train and train.count(begin) == 1
    assert begin not in held_out and held_out[-1] == end


def test_streamed_documents_begin_and_end(base: Path, tokenizer: Any, tmp_path: Path):
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    parquet.write_table(arrow.table({"text": ROWS}), tmp_path / "rows.parquet", row_group_size=20)
    (tmp_path / "held.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in ROWS[:9]))
    windows: list[list[int]] = []
    part = batch_source.StreamBatches.part

    def noting(self: Any, *words: Any) -> Any:
        batch, after = part(self, *words)
        windows.extend(batch.ids.tolist())
        return batch, after

    given = {"from_model": str(base), "stream": True, "validation": tmp_path / "held.jsonl", **HOW}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_source.StreamBatches, "part", noting)
        headway.train(tmp_path / "rows.parquet", out=tmp_path / "run", **given)
    documents = {tuple(written(tokenizer, row)) for row in ROWS}
    begin, checked = tokenizer.bos_token_id, 0
    for window in windows:
        starts = [at for at, number in enumerate(window) if number == begin]
        for one, other in pairwise(starts):
            assert tuple(window[one:other]) in documents
            checked += 1
    assert checked > 5
    tokens = sum(len(written(tokenizer, row)) for row in ROWS[:9])
    assert facts_of(tmp_path / "run")["data"]["validation"].startswith(f"{tokens:,} tokens")


@pytest.mark.parametrize("recorded", [True, False])
def test_a_gguf_file_says_what_is_fed(run: Path, recorded: bool, tmp_path: Path, in_process: Callable):
    gguf = pytest.importorskip("gguf")
    place = run if recorded else without_record(run, tmp_path / "before")
    status, _, err = in_process("export", place, "--to", "gguf", "--out", tmp_path / "gguf")
    assert status == 0, err
    reader = gguf.GGUFReader(tmp_path / "gguf" / "model.gguf")
    assert reader.get_field("tokenizer.ggml.add_bos_token").contents() is recorded


def test_a_conversation_keeps_the_single_begin_token_of_its_template(base: Path, tokenizer: Any, tmp_path: Path):
    place = tmp_path / "chat"
    shutil.copytree(base, place)
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}{{ '[' + m['role'] + '] ' + m['content'] + eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    tokenizer.save_pretrained(place)
    messages = [{"role": "user", "content": "Anna brings"}]
    theirs = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    ids = headway.load(place).prompt_of_chat(messages).ids  # type: ignore[union-attr]
    assert (
        ids == (theirs["input_ids"] if hasattr(theirs, "keys") else theirs) and ids.count(tokenizer.bos_token_id) == 1
    )


def test_a_tokenizer_that_also_ends_texts(base: Path, tmp_path: Path):
    """A prompt has the ids that its tokenizer gives; that they end a text is said."""
    place = tmp_path / "ends"
    shutil.copytree(base, place)
    spec = json.loads((place / "tokenizer.json").read_text())
    begin, text = spec["post_processor"]["single"]
    end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    number = spec["model"]["vocab"]["</s>"]
    spec["post_processor"]["single"] = [begin, text, end]
    spec["post_processor"]["special_tokens"]["</s>"] = {"id": "</s>", "ids": [number], "tokens": ["</s>"]}
    (place / "tokenizer.json").write_text(json.dumps(spec))
    pipe: Any = headway.load(place)
    with pytest.warns(UserWarning, match="ends every text with </s>"):
        pipe("Anna", max_tokens=1)
    assert pipe.prompt("Anna").ids == AutoTokenizer.from_pretrained(place)("Anna").input_ids
    assert headway.evaluate(place, [ROWS[0]]) | {"seconds": 0} == headway.evaluate(base, [ROWS[0]]) | {"seconds": 0}


def test_an_empty_prompt_is_the_begin_token_that_the_files_of_a_model_name(tmp_path: Path):
    """Qwen2's tokenizer puts nothing before a text; its configuration names what begins one."""
    place = foreign_models.make("qwen2", tmp_path / "qwen2", steps=0)
    (place / "generation_config.json").write_text('{"bos_token_id": 0, "eos_token_id": [2, 0]}')
    config = json.loads((place / "tokenizer_config.json").read_text())
    (place / "tokenizer_config.json").write_text(json.dumps({**config, "eos_token": "<|im_end|>"}))
    pipe: Any = headway.load(place)
    assert pipe.prompt("").ids == [0] and pipe.ends == {0, 2}
