"""``--layout``: models of the parts of published families, which other programs read as such."""

import json
from pathlib import Path

import pytest
import torch
import transformers

import headway
from headway.errors import InputError
from headway.models.size import parameters
from headway.tasks.masked_lm.data import encoder_config
from headway.training.sizing.layouts import DEFAULT, ENCODER_DEFAULT, ENCODER_LAYOUTS, LAYOUTS, layout_fields
from headway.training.sizing.presets import decoder_config

SMALL = {"steps": 2, "d_model": 32, "layers": 2, "heads": 2, "length": 16, "evaluations": 1, "quiet": True}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("All that is gold does not glitter.\n" * 60)
    return path


@pytest.mark.parametrize("name", [*LAYOUTS, None])
def test_a_model_is_saved_as_one_of_its_family(name: str | None, text: Path, tmp_path: Path):
    headway.train(text, out=tmp_path / "run", layout=name, **SMALL)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model_type"] == (name or DEFAULT)
    assert headway.load(tmp_path / "run")("All that", max_tokens=3, seed=0)


def test_all_have_about_as_many_parameters():
    for width in (32, 128, 256, 640):
        counts = [parameters(decoder_config(4096, width, 4, width // 32, 64, name))["total"] for name in LAYOUTS]
        assert max(counts) <= 1.02 * min(counts), width
    counts = [parameters(encoder_config(4096, 256, 4, 4, 64, name))["total"] for name in ENCODER_LAYOUTS]
    assert max(counts) <= 1.02 * min(counts)


def test_what_there_is_not_is_refused(text: Path, tmp_path: Path):
    with pytest.raises(InputError, match="qwen3, llama, nanochat"):
        layout_fields("gpt5", 32)
    with pytest.raises(InputError, match="layout"):
        headway.train(text, out=tmp_path / "run", layout="gpt5", **SMALL)
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "".join(f"{'good' if n % 2 else 'bad'} {n},{n % 2}\n" for n in range(60)))
    with pytest.raises(InputError, match="an encoder can have modernbert, bert"):
        headway.train(rows, out=tmp_path / "run", layout="llama", steps=2, quiet=True)
    with pytest.raises(InputError, match="a language model can have qwen3, llama, nanochat"):
        headway.train(text, out=tmp_path / "run", layout="bert", **SMALL)
    assert not (tmp_path / "run").exists()


def rows_of(task: str, place: Path) -> Path:
    """A file for a task of encoders."""
    columns = {"classification": ["text,label"], "embedding": ["first,second"]}
    lines = columns.get(task, [])
    for n in range(80):
        good = "good" if n % 2 else "bad"
        line = {"classification": f"{good} {n},{good}", "embedding": f"the {good} {n},a {good} {n}"}
        lines.append(line.get(task, f"all that is {good} does glitter {n}"))
    if task == "token_classification":
        lines = [f"Anna B-PER\nfinds O\nlamp{n} O\n" for n in range(80)]
    path = place / {"masked_lm": "text.txt", "token_classification": "tags.conll"}.get(task, "rows.csv")
    path.write_text("\n".join(lines) + "\n")
    return path


KINDS = {
    "classification": "ForSequenceClassification",
    "token_classification": "ForTokenClassification",
    "embedding": "Model",
    "masked_lm": "ForMaskedLM",
}


@pytest.mark.parametrize("name", [*ENCODER_LAYOUTS, None])
@pytest.mark.parametrize("task", KINDS)
def test_an_encoder_is_what_transformers_reads(task: str, name: str | None, tmp_path: Path):
    run, small = tmp_path / "run", {"steps": 2, "d_model": 32, "layers": 1, "evaluations": 1, "quiet": True}
    headway.train(rows_of(task, tmp_path), task=task, out=run, layout=name, **small)
    family = {"bert": "Bert", "modernbert": "ModernBert"}[name or ENCODER_DEFAULT]
    assert json.loads((run / "config.json").read_text())["architectures"] == [family + KINDS[task]]
    theirs = getattr(transformers, family + KINDS[task]).from_pretrained(run).eval()
    ours = headway.load_model(run)
    ids = torch.randint(ours.config.vocab_size, (2, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = theirs(input_ids=ids, attention_mask=torch.ones_like(ids))
        if task == "embedding":
            assert torch.allclose(ours.stack(ids), found.last_hidden_state, atol=1e-5)
        else:
            assert torch.allclose(ours(ids), found.logits, atol=1e-5)
