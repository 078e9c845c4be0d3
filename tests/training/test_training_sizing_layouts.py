"""``--layout``: language models of the parts of published families, which other programs read as such."""

import json
from pathlib import Path

import pytest

import headway
from headway.errors import InputError
from headway.models.size import parameters
from headway.training.sizing.layouts import DEFAULT, LAYOUTS, layout_fields
from headway.training.sizing.presets import decoder_config

SMALL = {"steps": 2, "d_model": 32, "layers": 2, "heads": 2, "length": 16, "evaluations": 1, "quiet": True}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("All that is gold does not glitter.\n" * 60)
    return path


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_model_is_saved_as_one_of_its_family(name: str, text: Path, tmp_path: Path):
    headway.train(text, out=tmp_path / "run", layout=name, **SMALL)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model_type"] == name
    assert headway.load(tmp_path / "run")("All that", max_tokens=3, seed=0)


def test_the_default_is_one_of_them(text: Path, tmp_path: Path):
    headway.train(text, out=tmp_path / "run", **SMALL)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model_type"] == DEFAULT


@pytest.mark.parametrize("width", [32, 128, 256, 640])
def test_all_have_about_as_many_parameters(width: int):
    counts = [parameters(decoder_config(4096, width, 4, width // 32, 64, name))["total"] for name in LAYOUTS]
    assert max(counts) <= 1.02 * min(counts)


def test_what_there_is_not_is_refused(text: Path, tmp_path: Path):
    with pytest.raises(InputError, match="qwen3, llama, nanochat"):
        layout_fields("gpt5", 32)
    with pytest.raises(InputError, match="layout"):
        headway.train(text, out=tmp_path / "run", layout="gpt5", **SMALL)
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "".join(f"{'good' if n % 2 else 'bad'} {n},{n % 2}\n" for n in range(60)))
    with pytest.raises(InputError, match="layout"):
        headway.train(rows, out=tmp_path / "run", layout="llama", steps=2, quiet=True)
    assert not (tmp_path / "run").exists()
