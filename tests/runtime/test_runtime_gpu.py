"""On a GPU: what the processor answers, its precisions, and a training run that can be continued exactly."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_runtime_device import KINDS, SIZES, TINY, runs, same  # noqa: F401

import headway
from headway.generation.sampling import Sampling
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.runtime.runtime import Runtime
from headway.workflows.evaluate import evaluate

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def written(model: Decoder, texts: list[list[int]], most: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in texts]
    for step in Runtime(model).write(texts, Sampling(temperature=0.0), max_tokens=most):
        for row, token in step.items():
            found[row].append(token)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_answers_as_on_the_processor(kind: str, runs):  # noqa: F811
    run, questions = runs(kind), KINDS[kind][2]
    here, there = headway.load(run, device="cpu"), headway.load(run, device="cuda")
    for ask in questions[:1] if kind == "language model" else questions:  # a GPU draws other random numbers
        same(ask(there), ask(here))
    same(evaluate(run, device="cuda"), evaluate(run, device="cpu"))


@pytest.mark.parametrize(
    "more", [{}, {"positions": "learned"}, {"positions": "alibi"}, {"n_kv_heads": 2}, {"window": 9}]
)
def test_greedy_texts_are_the_processors(more: dict[str, Any]):
    torch.manual_seed(3)
    config = TransformerConfig(89, d_model=64, n_layers=3, n_heads=4, max_length=96, **more)
    model = Decoder(config).double().eval()
    texts = [[(7 * i + j) % 89 for j in range(3 + 5 * i)] for i in range(11)]
    expected = written(model, texts, 120)
    assert written(model.to("cuda"), texts, 120) == expected
    logits = {}
    for device in ("cpu", "cuda"):
        with torch.no_grad():
            logits[device] = model.float().to(device)(torch.tensor(texts[-1:], device=device)).cpu()
    torch.testing.assert_close(logits["cuda"], logits["cpu"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "auto"])
def test_a_lower_precision_answers_nearly_the_same(precision: str, runs):  # noqa: F811
    pipe: Any = headway.load(runs("classifier"), device="cuda", precision=precision)
    exact: Any = headway.load(runs("classifier"), device="cpu")
    texts = ["river stone", "a", "the quiet house under the cloud"]
    torch.testing.assert_close(
        torch.tensor(pipe.probabilities(texts)), torch.tensor(exact.probabilities(texts)), atol=0.02, rtol=0
    )
    lm: Any = headway.load(runs("language model"), device="cuda", precision=precision)
    assert lm("river", max_tokens=20, temperature=0)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_run_is_continued_exactly(precision: str, tmp_path: Path):
    file = tmp_path / "notes.txt"
    file.write_text("\n".join(f"river stone {i} cloud green {i * i}" for i in range(300)))
    options = {**TINY, **SIZES, "precision": precision, "device": "cuda", "dropout": 0.1, "log_every": 1}
    headway.train(file, out=tmp_path / "whole", **{**options, "steps": 8})
    headway.train(file, out=tmp_path / "parts", **{**options, "steps": 4})
    headway.train(file, out=tmp_path / "parts", **{**options, "steps": 8}, allow_changes=True)
    weights = [headway.load(tmp_path / name, device="cpu").model.state_dict() for name in ("whole", "parts")]
    assert weights[0].keys() == weights[1].keys()
    one, two = (headway.train(file, out=tmp_path / name, **{**options, "steps": 8}) for name in ("again", "and-again"))
    assert one["val_loss"] == two["val_loss"]
