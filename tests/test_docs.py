"""What the pages say is run: every Python block, the README's commands, the examples, the small benchmarks."""

import json
import os
import random
import re
import runpy
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SMALLER = {
    "--time 5m": "--steps 3 --preset tiny --evaluations 1",
    'time="5m"': 'steps=3, preset="tiny", evaluations=1',
}
"""Pages show what a user would give; here the runs are cut short."""


def named(path):
    return path.name


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


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_python_blocks_run_in_order(page, folder):
    namespace = {"__name__": "page"}
    failed = None
    for line, code, _ in blocks(page, "python"):
        try:
            exec(compile("\n" * line + code, str(page), "exec"), namespace)
        except Exception:
            failed = traceback.format_exc()
            break
    assert failed is None, f"{page.name} does not run:\n{failed}"


def test_the_commands_of_the_readme_run(folder):
    marked = [code for _, code, run in blocks(ROOT / "README.md", "sh") if run]
    assert marked
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    script = "set -e\n" + "\n".join(marked)
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": places})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", text_of(page)):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES[1:], ids=named)
def test_every_page_is_in_the_index(page):
    """A page in a folder is in the index of that folder: docs/x/y.md in docs/x.md."""
    docs = ROOT / "docs"
    index = docs / "index.md" if page.parent == docs else page.parent.with_suffix(".md")
    assert f"({page.relative_to(index.parent).as_posix()})" in index.read_text(encoding="utf-8") or page == index


@pytest.mark.parametrize("picture", PICTURES, ids=named)
def test_pictures_are_small_and_shown(picture):
    assert picture.stat().st_size < 60_000
    assert any(f"pictures/{picture.name})" in text_of(page) for page in PAGES), "no page shows it"


EXAMPLE_INPUTS = {
    "train_and_generate": ["notes.txt", "--steps", "12"],
    "classify": ["reviews.csv", "--steps", "12"],
    "look_at_attention": ["--steps", "20"],
    "induction_heads": ["--steps", "3"],
    "toy_translation": ["copy", "--pairs", "300", "--time", "5s"],
    "swap_positions": ["notes.txt", "--steps", "3"],
}


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_examples(path, folder, monkeypatch, capsys):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
    monkeypatch.setattr(sys, "argv", [str(path), *EXAMPLE_INPUTS.get(path.stem, [])])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


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


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_of_the_model(name, folder, monkeypatch):
    places = ["--results", str(folder), "--pictures", str(folder)]
    monkeypatch.setattr(sys, "argv", [f"benchmarks/{name}.py", *BENCHMARKS[name], *places])
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
    result = json.loads((folder / f"{name}.json").read_text())
    assert {"command", "date", "machine", "versions", "rows"} <= set(result)
    assert str(folder) not in result["command"]
    assert (folder / f"{name}.svg").stat().st_size < 60_000
    if name == "length":
        refused = {(row["positions"], row["times"]) for row in result["rows"] if row["refused"]}
        assert refused == {("learned", 2), ("learned", 4)}
    else:
        assert all(row["forward"]["bytes"] > 0 and row["training_step"]["seconds"]["min"] > 0 for row in result["rows"])


def test_the_benchmark_of_texts_and_papers(folder, monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["benchmarks/differences.py", "--quick", "--results", str(folder), "--pictures", str(folder)]
    )
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    runpy.run_path(str(ROOT / "benchmarks" / "differences.py"), run_name="__main__")
    found = json.loads((folder / "differences.json").read_text())
    parts = {"layer_norm", "residual", "sinusoids", "heads", "memory"}
    assert parts <= set(found) and all(found[part]["rows"] for part in parts)
    pages = {page.stem for page in (ROOT / "docs" / "differences").glob("*.md")}
    assert {picture.stem for picture in folder.glob("*.svg")} == pages and len(pages) == 5
