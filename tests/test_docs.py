"""What the pages say is run: every Python block, the README's commands, the examples, the small benchmarks."""

import ast
import importlib
import json
import os
import random
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headway.formats.registry import FORMATS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
OWN_TASKS = {ROOT / "examples" / name for name in ("own_task.py", "own_head.py")}
"""Packages for Headway, and no programs: tests/tasks run them."""
OF_ONNX = {*(ROOT / "examples").glob("onnx_*.py")}
"""Programs that read an export: tests/workflows/export/test_export_onnx.py runs them in a process without torch."""
OF_GRADIO = ROOT / "examples" / "gradio_app.py"
"""Needs Gradio: tests/serving/test_gradio_example.py runs it with a stand-in."""
EXAMPLES = sorted({*(ROOT / "examples").glob("*.py")} - OWN_TASKS - {OF_GRADIO} - OF_ONNX)
SMALLER = {
    "--time 5m": "--steps 3 --preset tiny --evaluations 1",
    'time="5m"': 'steps=3, preset="tiny", evaluations=1',
}
"""Pages show what a user would give; here the runs are cut short."""


def of_each(paths):
    """A test of each page (or picture, or program)."""
    paths = list(paths)
    return pytest.mark.parametrize("path", paths, ids=[path.name for path in paths])


def text_of(page):
    """A page without its comments."""
    return re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def blocks(page, language):
    """(line, code, whether marked to be run) of every block of a language on a page."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in re.finditer(rf"(<!-- run -->\n)?^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        code = match[2]
        for long, short in SMALLER.items():
            code = code.replace(long, short)
        found.append((text.count("\n", 0, match.start(2)), code, bool(match[1])))
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, with two small files made up from lists of words."""
    draw = random.Random(0)
    good, bad = ("great", "lovely", "solid", "bright", "quick"), ("poor", "broken", "dull", "slow", "noisy")
    things = ("screen", "battery", "case", "keyboard", "cable", "speaker", "lamp", "lid")
    rows = ["text,label"]
    for _ in range(240):
        words, label = draw.choice([(good, "positive"), (bad, "negative")])
        first, second = draw.sample(things, 2)
        rows.append(f"the {first} is {draw.choice(words)} and the {second} is {draw.choice(words)},{label}")
    (tmp_path / "reviews.csv").write_text("\n".join(rows) + "\n")
    lines = [
        f"{draw.choice(('Anna', 'Ben', 'Carla'))} {draw.choice(('finds', 'wants', 'brings'))} "
        f"a {draw.choice(good + bad)} {draw.choice(things)} {draw.choice(('today', 'again', 'at noon'))}.\n"
        for _ in range(600)
    ]
    (tmp_path / "notes.txt").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.thorough
@of_each(page for page in PAGES if list(blocks(page, "python")))
def test_python_blocks_run_in_order(path, tmp_path_factory, forker):
    """In a process and an empty folder of their own: every file that a page reads is made by the page."""
    codes = ["\n" * line + code for line, code, _ in blocks(path, "python")]
    place, shared = tmp_path_factory.mktemp(path.stem), str(ROOT / "docs" / "differences")  # formulas.py
    script = f"import os, sys\nos.chdir({str(place)!r})\nsys.path.append({shared!r})\nnames = {{'__name__': 'page'}}\n"
    script += f"for code in {codes!r}:\n    exec(compile(code, {path.name!r}, 'exec'), names)"
    done = forker("--help", script=script, timeout=180, HEADWAY_CACHE=str(tmp_path_factory.mktemp("cache")))
    assert done.returncode == 0, f"{path.name} does not run:\n{done.stderr}"


@pytest.mark.thorough
def test_the_commands_of_the_readme_run(folder):
    marked = [code for _, code, run in blocks(ROOT / "README.md", "sh") if run]
    assert marked
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    script = "set -e\n" + "\n".join(marked)
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": places})
    assert done.returncode == 0, done.stderr


@of_each(PAGES)
def test_links_and_names_of_modules_lead_somewhere(path):
    text = text_of(path)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert target.startswith(("http://", "https://")) or (path.parent / target).exists(), f"a link to {target}"
    for label, target in re.findall(r"\[`([\w/]+\.py)`\]\(([^)#]+)\)", text):
        assert target.endswith(label), f"{label} leads to {target}"
    assert not list(missing(re.findall(r"`([a-z_]+(?:\.[A-Za-z_][A-Za-z_0-9]*)+)(?:\([^`]*\))?`", text)))


SOURCE = ROOT / "src" / "headway"
MODULES = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in SOURCE.rglob("*.py")}
FILES = {*("json", "jsonl", "html", "txt", "csv", "tsv", "py", "md", "svg", "png", "npz", "db", "gz", "en", "de")}
FILES |= {"safetensors", "onnx"}


def missing(named_things):
    """Those of dotted names such as ``presets.ROW_EPOCHS`` that begin with a module of ours and do not exist."""
    for name in named_things:
        words = name.removeprefix("headway.").split(".")
        for n in range(1, len(words)):
            prefix, attributes = ".".join(words[:n]), words[n:]
            modules = [one for one in MODULES if f".{one}".endswith(f".{prefix}")]
            found = [importlib.import_module(f"headway.{one}") for one in modules]
            if modules and attributes[0] not in FILES and ".".join(words) not in MODULES:
                if not any(_has(module, attributes) for module in found):
                    deeper = ".".join(words[: n + 1])
                    if not any(f".{deeper}." in f".{one}." for one in MODULES):  # a module or a folder of them
                        yield name
                break
        else:
            in_a_folder = not name.startswith("headway.") and f"{words[0]}.__init__" in MODULES
            is_there = any(f"{one}.".startswith(".".join(words) + ".") for one in MODULES) or words[-1] in FILES
            if (in_a_folder and not is_there) or (len(words) == 2 and words[1].isupper()):
                yield name


def _has(thing, attributes):
    for attribute in attributes:
        thing = getattr(thing, attribute, None)
    return thing is not None


def test_every_constant_that_a_docstring_names_exists():
    for path in MODULES.values():
        named_things = re.findall(r"``([a-z_]+(?:\.[a-z_]+)*\.[A-Z][A-Z_0-9]+)``", path.read_text(encoding="utf-8"))
        assert not list(missing(named_things)), path


def test_what_is_promised_is_there_and_every_verb_is_on_a_page():
    """What says that Headway serves waits for the verb; an extra is declared when something imports it."""
    from headway.cli.main import VERBS

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    said = [settings["project"]["description"], *(text_of(page) for page in PAGES)]
    said += [path.read_text(encoding="utf-8") for path in (SOURCE / "__init__.py", SOURCE / "cli" / "main.py")]
    pages = "".join(text_of(page) for page in PAGES)
    assert [verb for verb in VERBS if not re.search(rf"headway {verb}\b", pages)] == []
    assert ("serve" in VERBS) == any(re.search(r"runs? and serves? Transformers|headway serve", text) for text in said)
    code = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    asked_for = {"track": "torch.utils.tensorboard", "llama": "llama_cpp"}
    for extra, packages in settings["project"]["optional-dependencies"].items():
        names = [re.split(r"[<>=\[]", package)[0].replace("-", "_") for package in packages]
        known = [asked_for.get(extra, {"pillow": "PIL", "scikit_learn": "sklearn"}.get(n, n)) for n in names]
        used = [name for name in known if re.search(rf"(import|from) {re.escape(name)}\b|\"{re.escape(name)}\"", code)]
        assert extra in ("dev", "peers") or used, f"nothing imports what the extra {extra!r} brings"


def test_scores_are_divided_by_the_root_of_d_k():
    """K are the keys, so a formula that divides by √K says something else."""
    shown = [*PAGES, *PICTURES, *(ROOT / "docs").rglob("*.py"), *SOURCE.rglob("*.py"), *SOURCE.rglob("*.js")]
    wrong = re.compile(r"√ ?\(?K\b|sqrt\{K\}")
    assert [path.name for path in shown if wrong.search(path.read_text(encoding="utf-8"))] == []
    assert "√d_k" in text_of(ROOT / "docs" / "attention.md")


@of_each(PAGES[1:])
def test_every_page_is_in_the_index(path):
    """A page in a folder is in the index of that folder: docs/x/y.md in docs/x.md."""
    docs = ROOT / "docs"
    index = docs / "index.md" if path.parent == docs else path.parent.with_suffix(".md")
    assert f"({path.relative_to(index.parent).as_posix()})" in index.read_text(encoding="utf-8") or path == index


@of_each(PICTURES)
def test_pictures_are_small_and_shown(path):
    assert path.stat().st_size < 60_000
    assert any(f"pictures/{path.name})" in text_of(page) for page in PAGES), "no page shows it"


EXAMPLE_INPUTS = {
    "train_and_generate": ["notes.txt", "--steps", "12"],
    "classify": ["reviews.csv", "--steps", "12"],
    "several_columns": ["--steps", "3"],
    "look_at_attention": ["--steps", "20"],
    "induction_heads": ["--steps", "3"],
    "toy_translation": ["copy", "--pairs", "300", "--time", "5s"],
    "swap_positions": ["notes.txt", "--steps", "3"],
}


@of_each(EXAMPLES)
def test_examples(path, folder, monkeypatch, capsys):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
    monkeypatch.setattr(sys, "argv", [str(path), *EXAMPLE_INPUTS.get(path.stem, [])])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


LITTLE = ["--layers=1", "--batch=2", "--windows=2"]
BENCHMARKS = {
    "cost": ["--quick"],
    "length": [
        "notes.txt",
        "--steps=2",
        "--seeds=1",
        "--length=8",
        "--width=32",
        "--layers=1",
        "--batch=2",
        "--windows=2",
    ],
}


@pytest.fixture
def benchmark(folder, monkeypatch):
    """Run one, small; gives what it measured."""

    def run(name, *words):
        places = ["--results", str(folder), "--pictures", str(folder)]
        monkeypatch.setattr(sys, "argv", [f"benchmarks/{name}.py", *words, *places])
        monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
        runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
        return json.loads((folder / f"{name}.json").read_text())

    return run


@of_each(sorted((ROOT / "benchmarks").glob("*.py")))
def test_benchmarks_import_what_there_is(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "headway":
            module = importlib.import_module(node.module)
            missing = [name.name for name in node.names if not hasattr(module, name.name)]
            assert not missing, f"{node.module} has no {', '.join(missing)}"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_of_the_model(name, folder, benchmark):
    result = benchmark(name, *BENCHMARKS[name])
    assert {"command", "date", "machine", "versions", "rows"} <= set(result)
    assert str(folder) not in result["command"]
    assert (folder / f"{name}.svg").stat().st_size < 60_000
    if name == "length":
        refused = {(row["positions"], row["times"]) for row in result["rows"] if row["refused"]}
        assert refused == {("learned", 2), ("learned", 4)}
    else:
        assert all(row["forward"]["bytes"] > 0 and row["training_step"]["seconds"]["min"] > 0 for row in result["rows"])


def test_the_benchmark_of_texts_and_papers(folder, benchmark):
    found = benchmark("differences", "--quick")
    parts = {"layer_norm", "residual", "sinusoids", "heads", "memory"}
    assert parts <= set(found) and all(found[part]["rows"] for part in parts)
    pages = {page.stem for page in (ROOT / "docs" / "differences").glob("*.md")}
    assert {picture.stem for picture in folder.glob("*.svg")} == pages and len(pages) == 5


def test_the_table_of_formats_is_that_of_the_registry():
    rows = re.findall(r"^\| `(\w+)`.*\| ([a-z0-9, ]+) \| [^|]+ \|$", text_of(ROOT / "docs" / "export.md"), re.MULTILINE)
    assert {name: tuple(precisions.split(", ")) for name, precisions in rows} == {
        name: format.precisions for name, format in FORMATS.items()
    }
