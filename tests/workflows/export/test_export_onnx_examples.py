"""What an export to ONNX answers in a process without Headway and torch, by the programs of ``examples/``."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doors_kit import texts

import headway
from headway.generation.sampling import Sampling
from headway.hub.generation_config import TargetRules
from headway.workflows.export import export

EXAMPLES = Path(__file__).parents[3] / "examples"
NEW = 12
TEXTS = texts(200, seed=3)


def without_headway(name: str, *words: object) -> list[dict[str, Any]]:
    """Run an example in a process of its own; what its lines say."""
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[0], run_name='__main__'); "
        "found = {'torch', 'headway', 'transformers'} & set(sys.modules); assert not found, found"
    )
    words = (EXAMPLES / f"{name}.py", *words)
    program = f"import sys; sys.argv = sys.argv[1:]; {code}"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_classifier_answers_without_headway(classifier_run: Path, tmp_path: Path):
    found = export(classifier_run, tmp_path / "out", to="onnx")
    rows = without_headway("onnx_classify", found.out, *TEXTS)
    answers = headway.load(classifier_run)(TEXTS)
    assert [row["label"] for row in rows] == [answer["label"] for answer in answers]
    assert [row["score"] for row in rows] == pytest.approx([answer["score"] for answer in answers], abs=1e-5)
    assert len({row["label"] for row in rows}) == 2, "the answers depend on the texts"


def test_vectors_are_computed_without_headway(exported: Callable):
    source, found = exported("vectors")
    rows = without_headway("onnx_embed", found.out, *TEXTS)
    vectors = np.array([row["vector"] for row in rows])
    assert np.abs(vectors - headway.load(source)(TEXTS)).max() < 1e-5
    assert [row["cosine"] for row in rows] == pytest.approx((vectors @ vectors[0]).tolist(), abs=1e-5)
    assert any("1.0000 at least" in note for note in found.parity.notes)


def test_a_language_model_continues_texts_without_headway(exported: Callable):
    source, found = exported("language model")
    rows = without_headway("onnx_generate", found.out, NEW, *TEXTS)
    ours = headway.load(source)(TEXTS, max_tokens=NEW, temperature=0)
    assert [row["text"] for row in rows] == ours
    assert len(set(ours)) > 100, "the continuations depend on the texts"


def test_a_translator_translates_without_headway(exported: Callable):
    source, found = exported("translator")
    rows = without_headway("onnx_translate", found.out, *TEXTS)
    with warnings.catch_warnings(action="ignore"):  # a random model does not end its translations
        ours = headway.load(source)(TEXTS, beam=1)
    assert [row["text"] for row in rows] == ours
    assert len(set(ours)) > 20, "the translations depend on the texts"


def test_odd_texts_are_read_without_headway_as_here(
    exported: Callable, classifier_run: Path, lm_run: Path, tmp_path: Path
):
    """Empty texts, special tokens that a text spells, and what is longer than the model reads."""
    spelt = ["", "a cat </s> sat", "<|endoftext|>old dogs", "[CLS] [MASK] ran", "<s><pad>"]
    found = export(classifier_run, tmp_path / "classifier", to="onnx")
    rows, answers = without_headway("onnx_classify", found.out, *spelt), headway.load(classifier_run)(spelt)
    assert [answer["label"] is None for answer in answers] == [True, False, False, False, True]
    both = [(row["score"], one["score"]) for row, one in zip(rows, answers, strict=True) if one["label"]]
    assert [theirs for theirs, _ in both] == pytest.approx([ours for _, ours in both], abs=1e-5)
    for kind, example in (("language model", "onnx_generate"), ("vectors", "onnx_embed")):
        source, found = exported(kind)
        rows = without_headway(example, found.out, *([NEW] if kind == "language model" else []), *spelt)
        if kind == "vectors":
            assert np.abs(np.array([row["vector"] for row in rows]) - headway.load(source)(spelt)).max() < 1e-5
        else:
            assert [row["text"] for row in rows] == headway.load(source)(spelt, max_tokens=NEW, temperature=0)
    pipe, long = headway.load(lm_run), " ".join(TEXTS)
    length = pipe.model.config.max_length
    found = export(lm_run, tmp_path / "lm", to="onnx")
    (row,) = without_headway("onnx_generate", found.out, NEW, long)
    prompt, forbidden = pipe.tokenizer.encode(long)[NEW - length :], sorted(pipe.tokenizer.special_ids - pipe.ends)
    steps = pipe.runtime.write([prompt], Sampling(temperature=0), max_tokens=NEW, end=pipe.ends, forbidden=forbidden)
    ids = [token for step in steps for token in step.values()]
    assert row["text"] == pipe.tokenizer.decode(ids), "the end of the prompt, with room for what is written"
    source, found = exported("translator")
    assert len(without_headway("onnx_translate", found.out, long, "")) == 2


def test_a_translator_starts_with_its_language_and_never_writes_what_is_forbidden(exported: Callable, tmp_path: Path):
    source = shutil.copytree(exported("translator")[0], tmp_path / "a")
    (first,) = headway.load(source).runtime.search([[5, 2]], TargetRules(start=(2, 7), end=(2,)), beam=1)[0]
    said = {"decoder_start_token_id": 2, "eos_token_id": 2, "forced_bos_token_id": 7, "bad_words_ids": [[first.ids[0]]]}
    (source / "generation_config.json").write_text(json.dumps(said))
    found = export(source, tmp_path / "b", to="onnx")
    with warnings.catch_warnings(action="ignore"):
        ours = headway.load(source)(TEXTS[:40], beam=1)
    assert [row["text"] for row in without_headway("onnx_translate", found.out, *TEXTS[:40])] == ours


def test_examples_are_short():
    for path in EXAMPLES.glob("onnx_*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 45, path
