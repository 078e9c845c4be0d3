"""Several texts on one command line: answered in their order, as each would be alone."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent.parent / "training"))
from bases import make_base

TEXTS = ["the cat sat on a mat", "old dogs ran", "red doors and [MASK] sang"]


@pytest.fixture(scope="module")
def models(classifier_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    bert = make_base("bert", place / "bert")
    return {"classify": classifier_run, "translate": make_base("t5", place / "t5"), "fill": bert, "embed": bert}


@pytest.mark.parametrize("verb", ["classify", "translate", "fill", "embed"])
def test_several_texts_are_answered_in_order(verb: str, models: dict[str, Path], in_process: Callable, tmp_path: Path):
    texts = [f"{text} [MASK]" for text in TEXTS[:2]] if verb == "fill" else TEXTS

    def results(*words: Any) -> list[Any]:
        return in_process.json(verb, models[verb], *words)["results"]

    together, alone = results(*texts), [results(text) for text in texts]
    assert len(together) == len(texts) and all(len(one) == 1 for one in alone)
    for one, (other,) in zip(together, alone, strict=True):
        if verb == "classify":
            assert one["label"] == other["label"] and one["score"] == pytest.approx(other["score"], abs=1e-5)
        elif verb == "fill":
            assert [each["token"] for each in one] == [each["token"] for each in other]
        else:
            assert one == (pytest.approx(other, abs=1e-5) if verb == "embed" else other)
    status, out, err = in_process(verb, models[verb], *texts, "--to", tmp_path / "out.jsonl")
    assert status == 0 and len((tmp_path / "out.jsonl").read_text().splitlines()) == len(texts), err
    status, out, err = in_process(verb, models[verb], *texts)
    assert status == 0 and len(out.splitlines()) >= len(texts)


@pytest.mark.parametrize("verb", ["classify", "translate", "fill", "embed"])
def test_a_file_is_given_alone(verb: str, models: dict[str, Path], in_process: Callable, tmp_path: Path):
    path = tmp_path / "texts.txt"
    path.write_text("the cat [MASK]\n")
    status, _, err = in_process(verb, models[verb], "old dogs [MASK]", path)
    assert status == 2 and f"the file {path} was given together with other words" in err
    assert "standard input was given together with other words" in in_process(verb, models[verb], "-", "old dogs")[2]
    assert "there is no such file" in in_process(verb, models[verb], "old dogs", "missing.csv")[2]
    assert in_process(verb, models[verb])[0] == 2
