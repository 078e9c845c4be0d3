"""Tasks of a few lines on the shared base: a number for each text, and one for two texts that are read as one row."""

import json
import random

import pytest
from faults_harness import facts_of
from rows_kit import CHECKS, passed_checks
from test_own_task import distribution, last_lines, run, run_many

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
def site(tmp_path_factory):
    """Where both sketches are installed."""
    code = {name: TASK.format(name=name, pairs=name == "pairs") for name in ("amount", "pairs")}
    code["pairs"] += '\n\nRECOGNISER = TwoTextsAndValue("pairs")\n'
    return distribution(tmp_path_factory.mktemp("site"), "sketches", {name: name for name in code}, **code)


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """Two sentences each, and how much of the one is said in the other."""
    draw, path = random.Random(0), tmp_path_factory.mktemp("rows") / "rows.jsonl"
    lines = []
    for number in range(240):
        one, other = ([draw.choice(["red", "green", "blue", "white", "black"]) for _ in range(4)] for _ in range(2))
        both = {"one": " ".join(one), "other": f"{' '.join(other)} {number}"}
        lines.append({**both, "score": f"{len({*one} & {*other}) / 4}"})
    return written(path, lines)


def written(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.mark.parametrize("name", ["amount", "pairs"])
def test_a_sketch_trains_resumes_and_is_measured_as_it_answers(name, site, sentences, tmp_path):
    out, columns = tmp_path / "run", ["--text-column", "one"] if name == "amount" else []
    words = ["train", sentences, "--task", name, *columns, "--label-column", "score", "--quiet", "--json"]
    done = run_many(
        site,
        [*words, *SMALL, "--out", out],
        [*words, "--from", out, "--steps", "12", "--out", tmp_path / "more"],
        ["evaluate", out, "--json"],
        ["verify", out, "--json", "--quiet", "--threads", "1"],
    )
    trained, _, again, _ = last_lines(done)
    assert again["val_loss"] == pytest.approx(trained["val_loss"], abs=1e-5)
    assert passed_checks(done[3][1]) >= CHECKS
    data = facts_of(out)["data"]
    assert data["text_column"] == "one" and data.get("second_column") == {"pairs": "other"}.get(name)


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


def test_both_texts_are_read_with_their_segments(site, sentences, tmp_path):
    """As ``transformers`` reads them from an export; nothing is lost on the way."""
    transformers = pytest.importorskip("transformers")
    out = tmp_path / "run"
    words = ["train", sentences, "--task", "pairs", "--label-column", "score", "--quiet", *SMALL, "--out", out]
    run_many(site, words, ["export", out, "--to", "hf", "--out", tmp_path / "hf"])
    refused = run(site, "export", out, "--to", "gguf", "--out", tmp_path / "gguf", status=2).stderr
    assert "reads pairs of texts, and llama.cpp has no second segment" in refused
    first, *errors = run(site, "-c", ANSWERS, out).stdout.splitlines()
    (answers, alone, ids, segments) = json.loads(first)
    assert answers[0] == pytest.approx(alone, abs=1e-6) and set(segments) == {0, 1} and len(ids) == len(segments)
    pipe = transformers.pipeline("text-classification", str(tmp_path / "hf"), function_to_apply="none", device="cpu")
    theirs = pipe({"text": "red green", "text_pair": "green blue"})["score"]
    assert theirs == pytest.approx(answers[0], abs=1e-5)
    assert abs(pipe({"text": "green blue", "text_pair": "red green"})["score"] - theirs) > 1e-6
    assert len(errors) == 4 and all("two texts" in line or "pair of texts" in line for line in errors), errors


def test_what_is_no_pair_is_one_message(site, sentences, tmp_path):
    texts = [json.loads(line) for line in sentences.read_text().splitlines()]
    empty = [{**row, "other": "" if n % 3 else f"x {n}"} for n, row in enumerate(texts)]
    one = [{"one": row["one"], "score": row["score"]} for row in texts]
    for rows, said in ((empty, "empty text in column 'one' or 'other'"), (one, "needs two columns of texts")):
        words = ["--task", "pairs", "--label-column", "score", "--quiet", "--out", tmp_path / "run"]
        error = run(site, "train", written(tmp_path / "rows.jsonl", rows), *words, status=2).stderr
        assert said in error and "Traceback" not in error
