"""Each engine gives torch's answers, for each task that its exports have; what it lacks, torch does, and says so."""

import itertools
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import export_kit as kit
import numpy as np
import pytest
import torch

import headway
from headway.formats.exports import place_of
from headway.formats.registry import SPECS
from headway.generation.sampling import Sampling
from headway.runtime import runtime as module
from headway.runtime.engine import Lacks
from headway.tasks.checks import apart
from headway.workflows.export import export
from headway.workflows.verify.check import Subject, read

TEXTS = ["the cat sat", "old dogs ran past red doors and sang", "a", "on a mat while the cat sang " * 9, "", "zebra"]
GREEDY = {"max_tokens": 70, "temperature": 0}
"""More tokens than the models read at once: the older half is forgotten on the way."""


def vectors(pipe: Any) -> np.ndarray:
    return pipe(TEXTS)


def scores(pipe: Any) -> np.ndarray:
    return np.array([[one["scores"].get(label, -1.0) for label in pipe.labels] for one in pipe(TEXTS)])


def filled(pipe: Any) -> list:
    found = pipe(["the [MASK] sat", "[MASK] dogs [MASK] past red doors", TEXTS[3] + "[MASK]"], k=3)
    return [[round(one["score"], 4) for one in place] for place in [found[0], *found[1], found[2]]]


def spans(pipe: Any) -> list:
    return [[(one["label"], one["start"], one["end"], round(one["score"], 4)) for one in each] for each in pipe(TEXTS)]


def continued(pipe: Any) -> list:
    with warnings.catch_warnings(action="ignore"):  # a prompt is longer than the model reads
        return [pipe(TEXTS, **GREEDY), "".join(pipe.stream("the cat", **GREEDY)), pipe("old", **GREEDY, stop=["5"])]


def translated(pipe: Any) -> list:
    with warnings.catch_warnings(action="ignore"):  # random models write to the end
        return [pipe(TEXTS[:3], beam=1), pipe(TEXTS[1])]


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "classification": scores,
    "embedding": vectors,
    "headless": vectors,
    "masked_lm": filled,
    "token_classification": spans,
    "language_modeling": continued,
    "translation": translated,
}
CASES = [
    *((engine, task) for engine in ("onnxruntime", "openvino") for task in ANSWERS),
    *(("ctranslate2", task) for task in ANSWERS if task not in ("masked_lm", "token_classification")),
    ("llama.cpp", "language_modeling"),
]


@pytest.mark.parametrize(("engine", "task"), CASES)
def test_an_engine_gives_the_answers_of_torch(engine: str, task: str, exported: Callable):
    if find_spec(SPECS[engine].package) is None:
        pytest.skip(f"{engine} is not installed")
    run = exported(task, SPECS[engine].format)
    own, pipe = headway.load(run), headway.load(run, engine=engine)
    assert pipe.runtime.engine is not None and pipe.runtime.engine.name == engine and own.runtime.engine is None
    answers, expected = ANSWERS[task](pipe), ANSWERS[task](own)
    if isinstance(expected, np.ndarray):
        np.testing.assert_allclose(answers, expected, atol=2e-5)
    else:
        assert answers == expected


@pytest.mark.parametrize("engine", ["torch", "onnxruntime", "openvino", "ctranslate2"])
def test_an_engine_reads_two_texts_together(engine: str, exported: Callable, monkeypatch: pytest.MonkeyPatch):
    run = exported("classification", "ctranslate2" if engine == "ctranslate2" else "onnx")
    model, runtime = headway.load(run).model.eval(), headway.load(run, engine=engine).runtime
    rows, borders = [[5, 6, 7, 8], [9, 6], [5] * 11], np.array([2, 1, 4])

    def read(borders: np.ndarray | None) -> torch.Tensor:
        return torch.stack(runtime.read(rows, lambda output, ids, mask, _: output(ids, mask), borders))

    with torch.no_grad():
        pairs = [([row], [[0] * at + [1] * (len(row) - at)]) for row, at in zip(rows, borders.tolist(), strict=True)]
        expected = torch.cat([model(torch.tensor(ids), None, torch.tensor(segments)) for ids, segments in pairs])
    assert (read(borders) - expected).abs().max() <= 2e-5 < 1e-3 < (read(None) - expected).abs().max()
    if engine == "onnxruntime":
        monkeypatch.delitem(runtime.many.session.shapes, "token_type_ids")  # a graph without segments
        with pytest.warns(UserWarning, match="does not read two texts together: torch does it"):
            assert (read(borders) - expected).abs().max() <= 2e-5


def test_verify_reads_a_model_with_segments_as_two_texts(exported: Callable):
    pipe, text = headway.load(exported("classification")), [5, 6, 7, 8]
    alone, padded = (read(Subject(pipe), pipe.model, texts)[0] for texts in ([text], [text, [5] * 9]))
    with torch.no_grad():
        expected = pipe.model(torch.tensor([text]), None, torch.tensor([[0, 0, 1, 1]]))[0]
    assert torch.equal(alone, expected) and (padded - expected).abs().max() <= 2e-5


LOWER = [(engine, task) for engine, task in CASES if engine != "llama.cpp"]


@pytest.mark.parametrize(("engine", "task"), LOWER)
def test_in_a_lower_precision_an_answer_does_not_depend_on_those_beside_it(engine: str, task: str, exported: Callable):
    pipe = headway.load(exported(task, SPECS[engine].format, "int8"), engine=engine, precision="int8")
    assert pipe.runtime.few.precision == pipe.runtime.many.precision == "int8"
    texts = [f"{text} [MASK]" for text in TEXTS] if task == "masked_lm" else TEXTS
    texts = [text for text in texts if task != "translation" or len(text) < 60]  # it refuses long sentences
    ways = {"max_tokens": 9, "temperature": 0} if task == "language_modeling" else {}
    with warnings.catch_warnings(action="ignore"):
        together, alone = list(pipe(texts, **ways)), [pipe(text, **ways) for text in texts]
    assert apart(together, alone) <= 1e-4
    assert len({repr(one) for one in alone}) > 1, "the texts have answers of their own"


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_a_graph_computes_and_not_torch(engine: str, exported: Callable, monkeypatch: pytest.MonkeyPatch):
    """With an engine, the torch model is not called: neither to read nor to write nor to search."""
    for task in ("classification", "language_modeling", "translation"):
        pipe = headway.load(exported(task), engine=engine)
        expected = ANSWERS[task](headway.load(exported(task)))

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("torch computed")

        for part in pipe.model.modules():
            monkeypatch.setattr(part, "forward", refuse)
        answers = ANSWERS[task](pipe)
        np.testing.assert_allclose(answers, expected, atol=2e-5) if task == "classification" else None
        assert task == "classification" or answers == expected


def test_sampling_settings_are_ours_over_a_graph(exported: Callable):
    run = exported("language_modeling")
    ways = {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.1, "seed": 3}
    own, pipe = headway.load(run), headway.load(run, engine="onnxruntime")
    assert pipe("the cat", max_tokens=20, **ways) == own("the cat", max_tokens=20, **ways)
    many = [f"the cat {word}" for word in "abcdefghijklmnopqrstuvwxyz" * 2]  # more than are continued together
    assert pipe(many, max_tokens=5, temperature=0) == own(many, max_tokens=5, temperature=0)


def test_n_best_and_lengths_are_ours_over_a_graph(exported: Callable):
    own, pipe = (headway.load(exported("translation"), engine=engine) for engine in ("torch", "onnxruntime"))
    for ways in ({"beam": 4, "n_best": 3}, {"beam": 3, "length_penalty": 0.2}):
        with warnings.catch_warnings(action="ignore"):
            one, other = (each.hypotheses(TEXTS[:3], **ways) for each in (own, pipe))
        assert [[h["text"] for h in each] for each in one] == [[h["text"] for h in each] for each in other]
        for a, b in zip(one, other, strict=True):
            assert [h["score"] for h in a] == pytest.approx([h["score"] for h in b], abs=1e-4)


def test_rows_that_are_over_are_left_out(exported: Callable):
    """Rows that the caller ends, and rows that end by themselves, disturb no other."""
    own, pipe = (headway.load(exported("language_modeling"), engine=name).runtime for name in ("torch", "onnxruntime"))
    prompts = [[5, 6, 7], [8], [9, 10], [11, 12, 13, 14]]

    def tokens(runtime: Any) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {row: [] for row in range(4)}
        steps = runtime.write(prompts, Sampling(temperature=0), max_tokens=9, end={37})
        step = next(steps)
        while True:
            over = {row for row in step if row == 2 and len(found[2]) == 3}
            for row, token in step.items():
                found[row].append(token)
            try:
                step = steps.send(over)
            except StopIteration:
                return found

    assert tokens(pipe) == tokens(own)


def test_an_encoder_of_images(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    settings = {"hidden_size": 42, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 17}
    config = transformers.ViTConfig(**settings, image_size=14, patch_size=7, num_labels=5)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "a")
    (tmp_path / "a" / "preprocessor_config.json").write_text('{"do_resize": true, "size": {"height": 14, "width": 14}}')
    assert export(tmp_path / "a", place_of(tmp_path / "a", "onnx"), to="onnx").made
    images = np.random.default_rng(1).integers(0, 255, (3, 14, 14, 3), dtype=np.uint8)
    own, pipe = (headway.load(tmp_path / "a", engine=name) for name in ("torch", "onnxruntime"))
    torch.testing.assert_close(pipe.probabilities(list(images)), own.probabilities(list(images)), atol=1e-5, rtol=0)


def test_a_model_that_is_moved_computes_itself(exported: Callable, monkeypatch: pytest.MonkeyPatch):
    """A runtime follows its model: an engine is for the CPU."""
    pipe = headway.load(exported("classification"), engine="onnxruntime")
    real = module.model_device
    monkeypatch.setattr(
        module, "model_device", lambda model: torch.device("meta") if model is pipe.model else real(model)
    )
    assert pipe.runtime._engine_for(1) is None and pipe.runtime._engine_for(32) is None


def test_few_and_many_inputs_may_have_different_engines(exported: Callable):
    pipe = headway.load(exported("classification"), engine="onnxruntime")
    runtime = pipe.runtime
    few = runtime.few
    runtime.use(few, None)
    assert runtime._engine_for(1) is few is runtime._engine_for(5) and runtime._engine_for(6) is None
    runtime.use(None, few)
    assert runtime._engine_for(5) is None and runtime._engine_for(6) is few is runtime.engine
    np.testing.assert_allclose(scores(pipe), scores(headway.load(exported("classification"))), atol=2e-5)


def test_what_an_engine_lacks_torch_does_and_says_so_once(exported: Callable, monkeypatch: pytest.MonkeyPatch):
    own, pipe = (headway.load(exported("language_modeling"), engine=name) for name in ("torch", "onnxruntime"))

    def lacks(*_: object) -> None:
        raise Lacks("sample")

    monkeypatch.setattr(pipe.runtime.few, "write", lacks)
    with pytest.warns(UserWarning, match="onnxruntime does not sample: torch does it instead"):
        assert pipe("the cat", max_tokens=5, temperature=0) == own("the cat", max_tokens=5, temperature=0)
    with warnings.catch_warnings(action="error"):
        assert pipe("the cat", max_tokens=5, seed=1) == own("the cat", max_tokens=5, seed=1)


def test_llama_is_freed_before_python_ends(exported: Callable):
    """A pipeline that lives to the end of a program: nothing is said about it there."""
    pytest.importorskip("llama_cpp")
    code = "import sys, headway; pipe = headway.load(sys.argv[1], engine='llama.cpp'); pipe('the cat', max_tokens=3)"
    run = exported("language_modeling", "gguf")
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_llama_keeps_two_texts_apart_that_are_written_in_turn(exported: Callable):
    pytest.importorskip("llama_cpp")
    run = exported("language_modeling", "gguf")
    own, pipe = headway.load(run), headway.load(run, engine="llama.cpp")
    first, second = (pipe.stream(text, max_tokens=9, temperature=0) for text in ("the cat", "old dogs"))
    pieces = list(zip(first, second, strict=False))
    expected = list(
        zip(*(own.stream(text, max_tokens=9, temperature=0) for text in ("the cat", "old dogs")), strict=False)
    )
    assert pieces == expected
    with pytest.raises(headway.InputError, match="continues texts by decoders"):
        headway.load(exported("embedding", "gguf"), engine="llama.cpp")


def test_ctranslate2_continues_greedily_by_itself(exported: Callable, monkeypatch: pytest.MonkeyPatch):
    """One prompt as a stream and several at once; what is drawn, or goes beyond the context, torch does."""
    pytest.importorskip("ctranslate2")
    run = exported("language_modeling", "ctranslate2")
    own, pipe = headway.load(run), headway.load(run, engine="ctranslate2")
    prompts = [[5, 6, 7], [8], [9, 10], [11, 12, 13, 14]]
    ways: list[dict[str, Any]] = [{"end": {37, 5}}, {"forbidden": [3, 9, 30]}, {"end": ()}]
    greedy = Sampling(temperature=0)
    expected = [list(own.runtime.write(prompts, greedy, max_tokens=9, **way)) for way in ways]
    alone = [list(own.runtime.write(prompts[:1], greedy, max_tokens=9, **way)) for way in ways]
    monkeypatch.setattr(pipe.model, "forward", None)
    with warnings.catch_warnings(action="error"):
        for way, several, one in zip(ways, expected, alone, strict=True):
            found = list(pipe.runtime.write(prompts, greedy, max_tokens=9, **way))
            assert _by_row(found) == _by_row(several)
            assert _by_row(pipe.runtime.write(prompts[:1], greedy, max_tokens=9, **way)) == _by_row(one)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="ctranslate2 does not sample as Headway does"):
        assert pipe("the cat", max_tokens=5, seed=1) == own("the cat", max_tokens=5, seed=1)
    with pytest.warns(UserWarning, match=r"ctranslate2 does not go on beyond the \d+ tokens"):
        assert pipe("the cat", **GREEDY) == own("the cat", **GREEDY)


def test_a_list_of_which_an_engine_lacks_one_is_not_answered_otherwise(exported: Callable):
    """One prompt goes beyond the context, which torch continues: the others stay with the engine, as each alone."""
    pytest.importorskip("ctranslate2")
    pipe = headway.load(exported("language_modeling", "ctranslate2", "int8"), engine="ctranslate2", precision="int8")
    texts = ["the cat sat", TEXTS[3], "old dogs"]
    with warnings.catch_warnings(action="ignore"):
        alone = [pipe(text, max_tokens=20, temperature=0) for text in texts]
        assert pipe(texts, max_tokens=20, temperature=0) == alone
        assert pipe(texts, max_tokens=20, temperature=0, stop=[alone[0][3:6]])[2] == alone[2]


def _by_row(steps: Iterable[dict[int, int]]) -> dict[int, list[int]]:
    """The tokens of each row."""
    found: dict[int, list[int]] = {}
    for step in steps:
        for row, token in step.items():
            found.setdefault(row, []).append(token)
    return found


def test_ctranslate2_gives_the_best_targets_with_their_scores(exported: Callable, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("ctranslate2")
    run = exported("translation", "ctranslate2")
    own, pipe = headway.load(run), headway.load(run, engine="ctranslate2")
    for ways in ({"beam": 1}, {"beam": 3, "n_best": 2}, {"beam": 2, "length_penalty": 0.3}):
        with warnings.catch_warnings(action="ignore"):
            one, other = (each.hypotheses(TEXTS[:3], **ways) for each in (own, pipe))
        for a, b in zip(one, other, strict=True):
            assert [h["text"] for h in b] == [h["text"] for h in a]
            assert [h["score"] for h in b] == pytest.approx([h["score"] for h in a], abs=1e-4)


def test_ctranslate2_searches_by_the_length_penalty(tmp_path: Path):
    """Targets may end at any token: which one is the best depends on the penalty, as it does by torch."""
    pytest.importorskip("ctranslate2")
    run = kit.ending_translator(tmp_path / "run")
    assert export(run, place_of(run, "ctranslate2"), to="ctranslate2").made
    own, pipe = headway.load(run), headway.load(run, engine="ctranslate2")
    texts = [" ".join(words) for words in itertools.permutations(["the cat", "old dogs", "red doors", "a mat"])]
    length: dict[float, float] = {}
    for penalty in (0.0, 1.0):
        with warnings.catch_warnings(action="ignore"):
            one, other = (each.hypotheses(texts, 4, 2, length_penalty=penalty) for each in (own, pipe))
        pairs = [(a, b) for a, b in zip(one, other, strict=True) if a[0]["text"] == b[0]["text"]]
        assert len(pairs) >= 0.8 * len(texts), penalty
        for a, b in pairs:
            assert b[0]["score"] == pytest.approx(a[0]["score"], abs=1e-4) and b[1]["score"] <= b[0]["score"]
        length[penalty] = sum(len(each[0]["text"]) for each in other) / len(texts)
    assert length[0.0] < length[1.0]
