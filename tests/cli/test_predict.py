"""``headway predict``: any run, by its task, with the options of that; a task that is made up here too."""

import csv
import importlib
import json
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import headway
from headway.tasks import registry
from headway.tasks.command import Command, Option
from headway.tasks.spec import TaskSpec

SPEC = TaskSpec(
    name="length", title="Measure of lengths", verb="measure", help="Say how long a text is.", answers="number",
    argument='"..."', unit="text", loss_unit="", logits=0.0,
)  # fmt: skip


class Measure(Command):
    """How many characters a text has."""

    spec = SPEC
    needs = "a measure"
    does = "Say how long TEXT is."
    options = (Option("times", "Multiply by this.", int, 1),)
    tokens = 2

    def __init__(self, pipe, inputs, options):
        super().__init__(pipe, inputs, options)
        self.columns = ["text", "length"]

    def answer(self, part):
        return [self.pipe(text) * self.given["times"] for text in part]

    def lines(self, start, found):
        return map(str, found)

    def objects(self, number, one):
        yield {"text": self.inputs.values[number], "length": one}


class Pipe:
    task, model, tokenizer = "length", SimpleNamespace(), None
    runtime = SimpleNamespace(precision="float32", few=None, many=None)

    def __call__(self, text):
        return len(text)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A model of a task that no file of the command line knows, not even the table of verbs, which is read first."""
    importlib.import_module("headway.cli.main")
    module = ModuleType("headway.tasks.length.spec")
    vars(module).update(SPEC=SPEC, COMMAND=Measure)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(registry, "NAMES", (*registry.NAMES, "length"))
    monkeypatch.setattr(registry, "_values", registry._values.__wrapped__)  # what it keeps would outlive this test
    monkeypatch.setattr("headway.workflows.load.load", lambda path, **settings: Pipe())
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def test_a_task_that_is_made_up_has_a_working_verb(made_up: Path, in_process: Callable):
    assert in_process.passed("predict", made_up, "the cat", "old", "--times", "2")[0] == "14\n6\n"
    found = in_process.json("predict", made_up, "the cat")
    assert found["task"] == "length" and found["results"] == [7]
    lines = made_up / "lines.txt"
    lines.write_text("a\n\nab\n")
    assert in_process("predict", made_up, lines, "--to", made_up / "out.csv", "--times=3")[0] == 0
    with (made_up / "out.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["text", "length"], ["a", "3"], ["", "0"], ["ab", "6"]]
    assert in_process("predict", made_up, lines, "--to", made_up / "out.jsonl")[0] == 0
    assert json.loads((made_up / "out.jsonl").read_text().splitlines()[2]) == {"text": "ab", "length": 2}
    status, out, _ = in_process("predict", made_up, "--help")
    assert status == 0 and "--times" in out and "Say how long TEXT is." in out
    in_process.refused("predict", made_up, "a", "--beam", "3", said="--beam")
    said = ("holds a model for length; classify needs a classifier", f"Use `headway measure {made_up} ")
    in_process.refused("classify", made_up, "a", said=said)


def test_predict_is_the_verb_of_the_task(classifier_run: Path, lm_run: Path, tmp_path: Path, in_process: Callable):
    for verb, run, words in (
        ("classify", classifier_run, ["the cat", "old dogs"]),
        ("generate", lm_run, ["the cat", "--max-tokens", "5", "--temperature", "0"]),
    ):
        assert in_process("predict", run, *words)[:2] == in_process(verb, run, *words)[:2]
        one, other = (in_process.json(name, run, *words) for name in ("predict", verb))
        assert one["results"] == other["results"] and one["task"] == other["task"]
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the cat\nold dogs\n")
    ways = ["--temperature", "0", "--max-new-tokens", "5"]  # as other tools call it
    to = tmp_path / "out.jsonl"
    assert in_process.passed("predict", *ways, lm_run, prompts, "--to", to)[0] == f"2 results in {to}\n"
    expected = headway.load(lm_run)(["the cat", "old dogs"], temperature=0, max_tokens=5)
    assert [json.loads(line)["continuation"] for line in to.read_text().splitlines()] == expected
    status, out, _ = in_process("predict", lm_run, prompts, *ways)
    assert status == 0 and out.splitlines() == ["the cat" + expected[0], "old dogs" + expected[1]]


def test_generate_and_predict_read_prompts_by_one_rule(lm_run: Path, tmp_path: Path, in_process, monkeypatch):
    """A file has a prompt in each row, and all of standard input is one prompt, whichever verb is used."""
    prompts, table = tmp_path / "prompts.txt", tmp_path / "prompts.csv"
    prompts.write_text("the cat\nold dogs\n")
    table.write_text("text,n\nthe cat,1\nold dogs,2\n")
    ways, pipe = ["--temperature", "0", "--max-tokens", "5"], headway.load(lm_run)
    whole = "the cat\nold dogs"
    for words, expected in (
        (["the cat", "old dogs"], ["the cat", "old dogs"]),
        ([prompts], ["the cat", "old dogs"]),
        ([table], ["the cat", "old dogs"]),
        (["-"], [whole]),
    ):
        found = []
        for verb in ("generate", "predict"):
            monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(whole.encode())))
            out, _ = in_process.passed(verb, lm_run, *words, *ways)
            monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(whole.encode())))
            found.append((out, json.loads(in_process(verb, lm_run, *words, *ways, "--json")[1])["results"]))
        assert found[0] == found[1] and found[0][1] == pipe(expected, temperature=0, max_tokens=5)
    for verb in ("generate", "predict"):
        in_process.refused(verb, lm_run, "none.txt", said="there is no such file")
        assert "all of standard input as one text" in " ".join(in_process(verb, lm_run, "--help")[1].split())
    assert "the file" in in_process("generate", lm_run, "a", prompts)[2]
    in_process.refused("generate", lm_run, "a", "--chat", "--to", tmp_path / "x.txt", said="leave out --to, or --chat")
    assert not (tmp_path / "x.txt").exists()
    for option in ("--text-column", "--encoding"):
        assert "a conversation reads none" in in_process("generate", lm_run, "--chat", option, "utf-8")[2]


def test_what_predict_refuses(classifier_run: Path, tmp_path: Path, in_process: Callable):
    for words, said in (
        ([], "Missing argument 'RUN'"),
        (["--json"], "Missing argument 'RUN'"),
        ([classifier_run], "Missing argument 'TEXT...'"),
        ([tmp_path / "none", "a"], "no such model directory"),
        (["", "a"], "RUN"),
        ([classifier_run, "a", "--beam", "2"], "No such option"),
        ([classifier_run, "a", "--to", tmp_path / "x.txt"], ".csv, .jsonl, .tsv"),
    ):
        in_process.refused("predict", *words, said=said)
    assert in_process("predict", "--help")[0] == 0


@pytest.mark.parametrize("task", registry.NAMES)
@pytest.mark.parametrize("verb", sorted({registry.spec(name).verb for name in registry.NAMES} - {registry.ANY}))
def test_a_verb_for_another_task_names_the_verb_that_fits(verb: str, task: str, monkeypatch, in_process):
    """For every verb and every task whose models it does not run."""
    fits = registry.spec(task).verb
    if fits == verb:
        return
    model = SimpleNamespace(task=task, model=None)
    monkeypatch.setattr("headway.workflows.load.load", lambda run, **options: model)
    use = f"Use `headway {fits} runs/mine {registry.spec(task).argument}`."
    in_process.refused(verb, "runs/mine", "a text", said=(f"holds a model for {task}; {verb} needs a", use))


def test_other_columns_keep_their_types(classifier_run: Path, tmp_path: Path, in_process: Callable):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = {
        **{"text": ["great good", "bad awful"], "n": [1, None], "x": [2.5, 1e-7], "yes": [True, False]},
        **{"day": ["2024-01-02", ""], "tags": [["a", "b"], []], "large": [2**60 + 1, 3]},
    }
    parquet.write_table(arrow.table(rows), tmp_path / "in.parquet")

    def answered(ending: str) -> Path:
        to = tmp_path / f"out.{ending}"
        in_process.passed("predict", classifier_run, tmp_path / "in.parquet", "--to", to, "--quiet")
        return to

    table = parquet.read_table(answered("parquet"))
    kinds = {name: str(table.schema.field(name).type) for name in rows}
    assert kinds == {
        **{"text": "string", "n": "int64", "x": "double", "yes": "bool", "day": "string", "tags": "string"},
        "large": "int64",
    }
    same = ("n", "x", "yes", "day", "large")
    assert {name: table[name].to_pylist() for name in same} == {name: rows[name] for name in same}
    lines = [json.loads(line) for line in answered("jsonl").read_text().splitlines()]
    assert [{name: line[name] for name in rows} for line in lines] == [
        {name: values[at] for name, values in rows.items()} for at in (0, 1)
    ]
    calamine = pytest.importorskip("python_calamine")
    head, *cells = calamine.load_workbook(str(answered("xlsx"))).get_sheet_by_index(0).to_python()
    sheet = {name: [row[head.index(name)] for row in cells] for name in rows}
    assert sheet["n"] == [1.0, ""] and sheet["x"] == [2.5, 1e-7] and sheet["yes"] == [True, False]
    assert sheet["tags"] == ['["a", "b"]', "[]"] and sheet["large"] == ["1152921504606846977", 3.0]
    with answered("csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["n"], first["x"], first["yes"], first["large"]) == ("1", "2.5", "true", str(2**60 + 1))


def test_one_of_two_text_columns_is_named(tmp_path: Path, in_process: Callable):
    lines = (f"a {word} lamp,{word} {n},{word}\n" for n in range(20) for word in ("good", "bad"))
    (tmp_path / "t.csv").write_text("title,body,label\n" + "".join(lines))
    tiny = {"steps": 1, "d_model": 16, "layers": 1, "heads": 2, "quiet": True}
    headway.train(tmp_path / "t.csv", text_column=["title", "body"], label_column="label", out=tmp_path / "run", **tiny)
    (tmp_path / "one.csv").write_text("title\na good lamp\n")
    status, _, err = in_process("predict", tmp_path / "run", tmp_path / "one.csv")
    assert status == 0 and "has no column 'title,body': 'title' is taken as the text" in err
