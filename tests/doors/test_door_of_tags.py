"""A token classifier through the pipeline of transformers for it, and small data to verify it with."""

import json

import pytest
import transformers
from doors_kit import SETTINGS, WORDS, saved

from headway.data.open.read import read
from headway.hub.directory import load_model as load_bare
from headway.hub.directory import save_model
from headway.models.heads import TokenClassificationHead
from headway.tasks.checks import MaterialInputs
from headway.tasks.registry import task_named
from headway.text.train import train_tokenizer
from headway.training.options import TrainOptions
from headway.workflows.export import export
from headway.workflows.input import detect
from headway.workflows.load import load

FAMILIES = ("Bert", "Roberta", "XLMRoberta", "DistilBert", "ModernBert")
TAGS = {"0": "O", "1": "B-PER", "2": "I-PER"}


def made(family, folder):
    words = train_tokenizer([" ".join(WORDS)] * 9, "wordpiece", 80, role="encoder")
    cls = getattr(transformers, f"{family}ForTokenClassification")
    ids = {"pad_token_id": words.pad, "vocab_size": words.vocab_size}
    if family == "ModernBert":
        ids |= dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
    saved(cls(cls.config_class(**{**SETTINGS[family], **ids})), folder / "theirs")
    names = {"id2label": TAGS, "label2id": {tag: int(number) for number, tag in TAGS.items()}}
    save_model(load_bare(folder / "theirs"), folder / "ours", **names)
    words.save(folder / "ours", max_length=61)
    return folder / "ours"


@pytest.mark.parametrize("family", FAMILIES)
def test_an_export_is_read_through_its_door(family, tmp_path):
    source = made(family, tmp_path)
    assert isinstance(load(source).model.head, TokenClassificationHead)
    found = export(source, tmp_path / "out")
    assert found.parity.door == """pipeline("token-classification", DIR, aggregation_strategy='first')"""
    assert found.parity.passed, found.parity


def test_small_data_to_verify_with(tmp_path):
    task, pipe = task_named("token_classification"), load(made("Bert", tmp_path))
    given = MaterialInputs({}, 16, tmp_path)
    found = task.synthetic_data(pipe, given)
    rows = [json.loads(line) for line in found.file.read_text().splitlines()]
    assert all(len(row["text_column"]) == len(row["label_column"]) for row in rows)
    assert detect(read(found.file), task="token_classification", **found.options).label_column == "label_column"
    (tmp_path / "a.conll").write_text("Anna\tB-PER\nran\tO\n\n" * 50)
    source = read(tmp_path / "a.conll")
    found = task.first_rows(source, detect(source), TrainOptions(), given)
    rows = [json.loads(line) for line in found.file.read_text().splitlines()]
    assert len(rows) == 40 and rows[0] == {"text_column": ["Anna", "ran"], "label_column": ["B-PER", "O"]}
