"""Every option that a run suggests, it accepts: each decision of each task, from scratch and from a model."""

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.errors import InputError
from headway.workflows.train import run as session

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]
VALUES: dict[str, Any] = {
    **{"preset": "tiny", "d_model": 32, "layers": 1, "heads": 1, "length": 40, "dropout": 0.1, "epochs": 2},
    **{"vocab": 300, "tokenizer": "word", "batch_tokens": 64, "precision": "float32", "evaluations": 2, "threads": 1},
    "products": "torch",
    **{"r_drop": 0.5, "lora": 2, "learning_rate": 0.001, "weight_decay": 0.01, "frozen": True, "contrastive": True},
    **{"task": None, "match_parameters": 20_000, "model": "transformer", "config_overrides": "positions=alibi"},
    "augment": "none",
    **{"image_size": 8, "patch_size": 2, "mlm_probability": 0.2, "whole_words": True, "extend_vocab": 3},
}
"""What is given for an option that is suggested; columns and tasks are those of the case."""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "language model": ("text.txt", {"d_model": 16, "layers": 1, "heads": 2, "length": 32}),
    "masked": ("text.txt", {"task": "masked_lm", "tokenizer": "word"}),
    "classifier": ("rows.csv", {}),
    "lstm": ("rows.csv", {"model": "lstm"}),
    "cnn": ("rows.csv", {"model": "cnn"}),
    "lstm of text": ("text.txt", {"model": "lstm", "match_parameters": 20_000}),
    "parts": ("text.txt", {"config_overrides": "positions=alibi"}),
    "translator": ("pairs.csv", {"task": "translation"}),
    "decoder translator": ("pairs.csv", {"task": "translation", "model": "decoder"}),
    "dialogue": ("talk.jsonl", {}),
    "images": ("images.npz", {}),
}
FROM: dict[str, tuple[str, str, dict[str, Any]]] = {
    "language model": ("text.txt", "language model", {}),
    "updates": ("text.txt", "language model", {"lora": 2}),
    "masked": ("text.txt", "masked", {"task": "masked_lm"}),
    "few rows": ("few.csv", "masked", {}),
    "frozen": ("rows.csv", "masked", {"frozen": True}),
    "contrastive": ("rows.csv", "masked", {"contrastive": True}),
    "whole": ("rows.csv", "masked", {"epochs": 1}),
    "classifier again": ("rows.csv", "classifier", {"epochs": 1}),
    "embedding": ("scored.csv", "masked", {"task": "embedding"}),
    "translator": ("pairs.csv", "translator", {"task": "translation"}),
    "dialogue": ("talk.jsonl", "dialogue", {}),
    "images": ("images.npz", "images", {}),
}


class Accepted(Exception):
    """Everything was decided and nothing refused."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files for every task."""
    place, draw = tmp_path_factory.mktemp("data"), random.Random(3)
    lines = [" ".join(draw.choices(WORDS, k=11)) for _ in range(401)]
    (place / "text.txt").write_text("\n".join(lines))
    for name, count in (("rows", 211), ("few", 29)):
        table = [f"{draw.choice(lines)} {'good' if i % 2 else 'bad'},{'pos' if i % 2 else 'neg'}" for i in range(count)]
        (place / f"{name}.csv").write_text("\n".join(["text,label", *table]))
    pairs = [f"{line},{line.upper()}" for line in lines]
    (place / "pairs.csv").write_text("\n".join(["source,target", *pairs]))
    scored = [f"{pair},{n % 5 / 4}" for n, pair in enumerate(pairs)]
    (place / "scored.csv").write_text("\n".join(["source,target,score", *scored]))
    talk = [{"messages": [{"role": "user", "content": line}, {"role": "assistant", "content": line}]} for line in lines]
    (place / "talk.jsonl").write_text("\n".join(map(json.dumps, talk)))
    generator = np.random.default_rng(3)
    images = generator.integers(0, 255, (59, 8, 8, 3), dtype=np.uint8)
    np.savez(place / "images.npz", images=images, labels=np.arange(59) % 2)
    return place


@pytest.fixture(scope="module")
def bases(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A run of a case, made when it is first asked for."""
    place = tmp_path_factory.mktemp("bases")

    def made(name: str) -> str:
        if not (place / name).exists():
            file, options = CASES[name]
            headway.train(data / file, out=place / name, quiet=True, steps=1, threads=1, evaluations=1, **options)
        return str(place / name)

    return made


@pytest.fixture
def decided_alone(bases: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end when everything is decided; those that they begin from are made before."""
    for _, base, _ in FROM.values():
        bases(base)
    prepare = session.prepare

    def and_no_more(*given: Any) -> None:
        prepared = prepare(*given)
        for decision in prepared.plan.decisions:
            if decision["option"]:
                given[0].progress.say(f"({decision['option']} to change)")
        raise Accepted

    monkeypatch.setattr(session, "prepare", and_no_more)


def check(file: Path, options: dict[str, Any], out: Path, capsys: pytest.CaptureFixture) -> set[str]:
    """Every option that the run suggests is accepted; their names."""
    capsys.readouterr()
    with pytest.raises(Accepted):
        headway.train(file, out=out, **options)
    suggested = set(_suggested(capsys.readouterr().err))
    columns = {"text_column": "text", "label_column": "label"}
    if file.name in ("pairs.csv", "scored.csv"):
        columns = {"text_column": "source", "second_column": "target", "label_column": "score"}
    for name in suggested:
        values = {**VALUES, **columns, "from_model": options.get("from_model"), **options}
        if name == "task":
            values["task"] = "language_modeling"
        assert name in values, f"what is --{name} for?"
        given = {**options, name: values[name]}
        try:
            headway.train(file, out=out, quiet=True, **given)
        except Accepted:
            continue
        except InputError as error:
            pytest.fail(f"--{name} is suggested and refused: {error}")
    return suggested


def _suggested(said: str) -> Iterator[str]:
    for part in re.findall(r"\((--[^()]*) to change\)", said):
        for flag in re.findall(r"--([a-z-]+)", part):
            yield "from_model" if flag == "from" else flag.replace("-", "_")


@pytest.mark.parametrize("case", CASES)
def test_from_scratch(case: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture, decided_alone: None):
    file, options = CASES[case]
    assert check(data / file, {"threads": 1, **options}, tmp_path / "run", capsys)


@pytest.mark.parametrize("case", FROM)
def test_from_a_model(
    case: str, data: Path, bases: Callable, tmp_path: Path, capsys: pytest.CaptureFixture, decided_alone: None
):
    file, base, options = FROM[case]
    given = {"threads": 1, "from_model": bases(base), **options}
    suggested = check(data / file, given, tmp_path / "run", capsys)
    assert "from_model" in suggested and not suggested & {"tokenizer", "vocab", "preset", "d_model", "layers", "heads"}
