"""Tasks of a few lines on the shared base: a number for each text, and one for two texts that are read as one row."""

import json
import random
from pathlib import Path

import pytest
from test_own_task import distribution, run, run_many

TASK = """
from headway.tasks.base import TextTask
from headway.tasks.losses import RowLoss
from headway.tasks.recognise import TwoTextsAndValue
from headway.tasks.spec import OF_TEXTS, TaskSpec

SPEC = TaskSpec({name!r}, "A sketch", options=OF_TEXTS | {{"layout"}})


class Squared(RowLoss):
    def losses(self, outputs, targets):
        return (outputs - targets) ** 2


class Sketch(TextTask):
    spec, objective, reads_pairs = SPEC, Squared(), {pairs}


TASK = Sketch()
"""
SMALL = ["--steps", "12", "--d-model", "32", "--layers", "1", "--heads", "2", "--layout", "bert", "--threads", "1"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both sketches are installed."""
    place = tmp_path_factory.mktemp("site")
    code = {name: TASK.format(name=name, pairs=name == "pairs") for name in ("amount", "pairs")}
    code["pairs"] += '\n\nRECOGNISER = TwoTextsAndValue("pairs")\n'
    distribution(place, "sketches", {name: name for name in code}, **code)
    return place


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sentences each, and how much of the one is said in the other."""
    draw, path = random.Random(0), tmp_path_factory.mktemp("rows") / "rows.jsonl"
    lines = []
    for number in range(240):
        one, other = ([draw.choice(["red", "green", "blue", "white", "black"]) for _ in range(4)] for _ in range(2))
        both = {"one": " ".join(one), "other": f"{' '.join(other)} {number}"}
        lines.append({**both, "score": f"{len({*one} & {*other}) / 4}"})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize("name", ["amount", "pairs"])
def test_a_sketch_trains_resumes_and_is_measured_as_it_answers(name, site, rows, tmp_path):
    out, columns = tmp_path / "run", ["--text-column", "one"] if name == "amount" else []
    words = ["train", rows, "--task", name, *columns, "--label-column", "score", "--quiet", "--json"]
    asked = [
        [*words, *SMALL, "--out", out],
        [*words, "--from", out, "--steps", "12", "--out", tmp_path / "more"],
        ["evaluate", out, "--json"],
        ["verify", out, "--json", "--quiet", "--threads", "1"],
    ]
    done = run_many(site, *asked)
    assert [status for status, _, _ in done] == [0] * len(asked), done
    trained, _, again, checked = (json.loads(said.splitlines()[-1]) for _, said, _ in done)
    assert again["val_loss"] == pytest.approx(trained["val_loss"], abs=1e-5)
    passed = {check["name"]: check["passed"] for check in checked["checks"]}
    assert all(passed[check] for check in ("batch", "accumulation", "export", "checkpoints", "resume")), passed
    facts = json.loads((out / "headway.json").read_text())
    assert facts["data"]["text_column"] == "one" and facts["data"].get("second_column") == {"pairs": "other"}.get(name)


ANSWERS = """
import json, sys, headway
pipe = headway.load(sys.argv[1])
both = [("red green", "green blue"), ("white " * 80, "black")]
whole = pipe.tokenizer.encode_pair(*both[0])
print(json.dumps([pipe(both), pipe(both[0]), whole.ids, whole.segments]))
for wrong in ("one text", ["one", "other"], [("one", "other", "third")], [("one", None)]):
    try:
        pipe(wrong)
    except headway.InputError as error:
        print(error)
"""


def test_both_texts_are_read_with_their_segments(site, rows, tmp_path):
    """As ``transformers`` reads them from an export; nothing is lost on the way."""
    transformers = pytest.importorskip("transformers")
    out = tmp_path / "run"
    words = ["train", rows, "--task", "pairs", "--label-column", "score", "--quiet", *SMALL, "--out", out]
    done = run_many(site, words, ["export", out, "--to", "hf", "--out", tmp_path / "hf"])
    assert [status for status, _, _ in done] == [0, 0], done
    refused = run(site, "export", out, "--to", "gguf", "--out", tmp_path / "gguf", status=2).stderr
    assert "reads pairs of texts, and llama.cpp has no second segment" in refused
    first, *errors = run(site, "-c", ANSWERS, out).stdout.splitlines()
    (answers, alone, ids, segments) = json.loads(first)
    assert answers[0] == pytest.approx(alone, abs=1e-6) and set(segments) == {0, 1} and len(ids) == len(segments)
    pipe = transformers.pipeline("text-classification", str(tmp_path / "hf"), function_to_apply="none", device="cpu")
    theirs = pipe({"text": "red green", "text_pair": "green blue"})
    assert theirs["score"] == pytest.approx(answers[0], abs=1e-5)
    swapped = pipe({"text": "green blue", "text_pair": "red green"})
    assert abs(swapped["score"] - theirs["score"]) > 1e-6
    assert len(errors) == 4 and all("two texts" in line or "pair of texts" in line for line in errors), errors


def test_what_is_no_pair_is_one_message(site, rows, tmp_path):
    texts = [json.loads(line) for line in rows.read_text().splitlines()]
    empty, one = tmp_path / "empty.jsonl", tmp_path / "one.jsonl"
    empty.write_text(
        "".join(f"{json.dumps({**row, 'other': '' if n % 3 else f'x {n}'})}\n" for n, row in enumerate(texts))
    )
    one.write_text("".join(f"{json.dumps({'one': row['one'], 'score': row['score']})}\n" for row in texts))
    for file, said in ((empty, "empty text in column 'one' or 'other'"), (one, "needs two columns of texts")):
        words = ["train", file, "--task", "pairs", "--label-column", "score", "--quiet", "--out", tmp_path / "run"]
        done = run(site, *words, status=2)
        assert said in done.stderr and "Traceback" not in done.stderr
