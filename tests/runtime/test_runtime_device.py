"""Every pipeline answers where its model is: on a device that refuses to mix, as on the processor."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from elsewhere import Somewhere

import headway
from headway.errors import InputError
from headway.models.device import device_of
from headway.workflows import bench
from headway.workflows.evaluate import evaluate
from headway.workflows.inside import look_inside
from headway.workflows.verify.check import Subject
from headway.workflows.verify.verify import check_accumulation, check_batch, check_cache

WORDS = ["river", "stone", "cloud", "green", "quiet", "under", "seven", "house", "window", "letter", "garden"]
TINY = {"batch_tokens": 128, "steps": 2, "evaluations": 1, "threads": 1, "quiet": True, "precision": "float32"}
SIZES = {"d_model": 32, "layers": 2, "heads": 2, "length": 32}
TEXTS = ["river stone", "a", "the quiet house under the cloud", "green " * 40]
IMAGES = np.random.default_rng(5).integers(0, 255, (7, 16, 16, 3), dtype=np.uint8)

Ask = Callable[[Any], Any]
KINDS: dict[str, tuple[str, dict[str, Any], list[Ask]]] = {
    "language model": (
        "notes.txt",
        SIZES,
        [
            lambda lm: lm(TEXTS[:3], max_tokens=40, temperature=0, repetition_penalty=1.3),
            lambda lm: "".join(lm.stream("river", max_tokens=40, seed=1, top_k=20, top_p=0.9, min_p=0.01)),
            lambda lm: lm(["river", "stone"], max_tokens=20, temperature=0, stop=["e"]),
        ],
    ),
    "classifier": ("rows.csv", SIZES, [lambda clf: clf.probabilities(TEXTS).tolist(), lambda clf: clf("river")]),
    "classifiers of several seeds": ("rows.csv", {**SIZES, "seeds": 2}, [lambda clf: clf.probabilities(TEXTS)]),
    "masked tokens": (
        "notes.txt",
        {**SIZES, "task": "masked_lm", "tokenizer": "word"},
        [lambda fill: fill(["river [MASK] cloud", "[MASK] green [MASK]", "green " * 40 + "[MASK]"], k=3)],
    ),
    "vectors": (
        "pairs.tsv",
        {**SIZES, "task": "embedding", "text_column": "en", "second_column": "de"},
        [lambda emb: emb(TEXTS), lambda emb: emb.nearest("river", TEXTS, k=2), lambda emb: emb.similarity("a", TEXTS)],
    ),
    "translator": (
        "pairs.tsv",
        {**SIZES, "task": "translation", "tokenizer": "char"},
        [
            lambda mt: mt(["river", "a stone", "under"], beam=1),
            lambda mt: mt(["river", "a stone", "under"], beam=3, n_best=2),
            lambda mt: mt.hypotheses(["river"], beam=2, alignment=True)[0][0]["text"],
        ],
    ),
    "translating decoder": (
        "pairs.tsv",
        {**SIZES, "length": 128, "task": "translation", "tokenizer": "char", "model": "decoder"},
        [lambda mt: mt(["river", "a stone"], beam=3, n_best=2)],
    ),
    "images": (
        "images.npz",
        {"d_model": 32, "layers": 1, "heads": 2, "patch_size": 8},
        [lambda clf: clf.probabilities(IMAGES), lambda clf: clf(IMAGES[0])],
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Trains a small model of a kind, once."""
    folder = tmp_path_factory.mktemp("runs")
    draw = random.Random(3)

    def sentence() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(3, 6)))

    (folder / "notes.txt").write_text("\n".join(sentence() for _ in range(200)))
    (folder / "rows.csv").write_text("text,label\n" + "\n".join(f"{sentence()},{draw.choice('ab')}" for _ in range(60)))
    (folder / "pairs.tsv").write_text("en\tde\n" + "\n".join(f"{sentence()}\t{sentence()}" for _ in range(60)))
    pixels = np.random.default_rng(3).integers(0, 255, (60, 16, 16, 3), dtype=np.uint8)
    np.savez(folder / "images.npz", images=pixels, labels=np.arange(60) % 2)

    def run(kind: str) -> Path:
        file, options, _ = KINDS[kind]
        out = folder / kind
        if not out.exists():
            headway.train(folder / file, out=out, **{**TINY, **options})
        return out

    return run


@contextmanager
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The device that is there while this is entered, and that every ``device`` but the processor means."""
    there = torch.device("meta")
    monkeypatch.setattr(torch.__future__, "get_swap_module_params_on_conversion", lambda: True)
    generator = torch.Generator  # there is none for "meta"
    monkeypatch.setattr(torch, "Generator", lambda device="cpu": generator())
    for module in list(sys.modules.values()):
        if getattr(module, "device_of", None) is device_of:
            monkeypatch.setattr(module, "device_of", lambda asked: torch.device("cpu") if asked == "cpu" else there)
    with Somewhere():
        yield there


def same(one: Any, other: Any) -> None:
    """Raise AssertionError unless two answers are equal but for rounding."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            same(*pair)
    elif isinstance(one, torch.Tensor | np.ndarray):
        np.testing.assert_allclose(one, other, atol=1e-5)
    else:
        assert one == (pytest.approx(other, abs=1e-5) if isinstance(one, float) else other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_answers_where_its_model_is(kind: str, runs: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch):
    run, questions = runs(kind), KINDS[kind][2]
    pipe: Any = headway.load(run)
    here = [ask(pipe) for ask in questions]
    measured = evaluate(run)
    with elsewhere(monkeypatch) as there:
        moved: Any = headway.load(run, device="cuda")
        pipe.model.to(there)  # a pipeline that was there before follows its model
        for one in (moved, pipe):
            assert {p.device for p in (*one.model.parameters(), *one.model.buffers())} == {there}
            assert one.runtime.device == there
            for ask, answer in zip(questions, here, strict=True):
                same(ask(one), answer)
        assert headway.load(run, device="cpu").runtime.device.type == "cpu"
        same(evaluate(run), measured)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["language model", "classifier", "masked tokens", "translator", "images"])
def test_verify_bench_and_attention_are_done_there(kind: str, runs: Callable[[str], Path], monkeypatch):
    run = runs(kind)
    monkeypatch.setattr(bench, "BATCHES", (1, 2))
    monkeypatch.setattr(bench, "LENGTHS", (8,))
    seen = IMAGES[0] if kind == "images" else "river [MASK] stone"
    here = look_inside(headway.load(run), seen)
    with elsewhere(monkeypatch):
        pipe: Any = headway.load(run)
        for check in (check_cache, check_batch, check_accumulation):
            assert check(Subject(pipe)).passed is not False
        if kind != "images":  # cut inside a model, in inference mode, which this device does not know
            assert {row["kind"] for row in bench.speed(pipe, limit=1)} <= {"read", "write"}
        there = look_inside(pipe, seen)
    for name, found in here.kinds.items():
        np.testing.assert_allclose(there.kinds[name].maps, found.maps, atol=1e-5)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("cuda", "finds no GPU here. Leave it out to use the CPU"),
        ("cuda:1", "finds no GPU here"),
        ("mps", "--device mps: .*finds no GPU here"),
        ("tpu", "--device is 'tpu'; it can be auto, cpu, cuda, cuda:N or mps"),
        ("cuda:", "it can be"),
        (3, "--device is 3; it can be"),
    ],
)
def test_a_device_that_is_not_there_is_one_message(asked: Any, said: str, runs: Callable[[str], Path], in_process: Any):
    run = runs("classifier")
    with pytest.raises(InputError, match=said):
        headway.load(run, device=asked)
    code, _, words = in_process("evaluate", run, "--device", asked)
    assert code == 2 and "--device" in words and "Traceback" not in words


def test_a_gpu_by_its_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert device_of("cuda:1") == torch.device("cuda", 1)
    assert device_of("mps") == torch.device("mps")
    with pytest.raises(InputError, match="--device cuda:2: PyTorch finds 2 GPUs, cuda:0 to cuda:1"):
        device_of("cuda:2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(InputError, match="names one GPU, and torchrun started 2 processes"):
        device_of("cuda:0")
