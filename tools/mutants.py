"""What the quick tests cover, and how many seeded mutants of the code they find.

    python tools/mutants.py cover OUT                          # run the quick tests, note which lines each reaches
    python tools/mutants.py run OUT [--count 400] [--seed 0]   # continues after a stop

Run in a checkout that nobody else uses; OUT is a folder outside of it.  A mutant has one comparison, one arithmetic or
boolean operator, one number, one truth value or one condition changed.  For it only the tests that reach its line run,
the fastest of each file first and then the other fast ones, up to the first that fails, and no more than usually take
a minute.  A mutant on a line that no test reaches is not found.  Tests that fail without a mutant are left out, and
what processes do that a signal ends is not seen.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

SWAPPED: dict[type, str] = {
    **{ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="},
    **{ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"},
    **{ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*"},
    **{ast.And: "or", ast.Or: "and"},
}
USUAL = 60
"""Seconds that the tests of a mutant take without it, at most."""
SECONDS, WAIT = 300, 1800
"""Processor and wall seconds after which a mutant counts as found: an endless loop."""
PLUGIN = """
import json, os
import coverage, pytest

seen = {}

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(item.nodeid)
    yield

def pytest_runtest_logreport(report):
    test = seen.setdefault(report.nodeid, {"seconds": 0.0, "passed": True})
    test["seconds"] += report.duration
    test["passed"] &= report.passed

def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        with open(os.environ["TESTS_SEEN"], "w") as file:
            json.dump(seen, file)
"""
SETTINGS = """[run]
branch = True
parallel = True
source = headway
data_file = {folder}/coverage
context = ${{PYTEST_CURRENT_TEST}}
patch = subprocess, _exit
[report]
exclude_also =
    if TYPE_CHECKING
"""


class Mutant(NamedTuple):
    """A changed piece of a file: characters ``start`` to ``end`` become ``text``."""

    path: str
    line: int
    statement: int
    start: int
    end: int
    text: str
    at_import: bool


def mutants(path: Path, root: Path) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its tree."""
    text = path.read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def visit(node: ast.AST, statement: int, at_import: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.stmt):
            statement = node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            at_import = False
        for first, last, replacement in edits(node):
            begin, end = offset(*first), offset(*last)
            yield Mutant(
                str(path.relative_to(root)), node.lineno, statement, begin, end, replacement(text[begin:end]), at_import
            )
        for name, field in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params"):
                continue
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST):
                    yield from visit(child, statement, at_import)

    yield from visit(ast.parse(text), 0, True)


def edits(node: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int], Any]]:
    """The changes of one node itself: from where, to where, and what becomes of the text between."""

    def start(expression: ast.expr) -> tuple[int, int]:
        return expression.lineno, expression.col_offset

    def end(expression: ast.expr) -> tuple[int, int]:
        return expression.end_lineno or 0, expression.end_col_offset or 0

    def swap(operator: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Any]:
        words = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.And: "and", ast.Or: "or"}
        signs = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Add: "+"}
        signs |= {ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"}
        sign = (words | signs).get(type(operator))
        if sign is not None:
            yield end(left), start(right), lambda text: text.replace(sign, SWAPPED[type(operator)], 1)

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from swap(node.ops[0], node.left, node.comparators[0])
    elif isinstance(node, ast.BinOp):
        yield from swap(node.op, node.left, node.right)
    elif isinstance(node, ast.BoolOp):
        yield from swap(node.op, node.values[0], node.values[1])
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield start(node), end(node), lambda text: str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield start(node), end(node), lambda text: f"({text} + 1)"
    elif isinstance(node, ast.If | ast.While | ast.IfExp) and "TYPE_CHECKING" not in ast.unparse(node.test):
        yield start(node.test), end(node.test), lambda text: f"(not ({text}))"


def valid(mutant: Mutant, root: Path) -> bool:
    """Whether the changed file is Python, and another program than before."""
    text = (root / mutant.path).read_text(encoding="utf-8")
    changed = text[: mutant.start] + mutant.text + text[mutant.end :]
    try:
        return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    except SyntaxError:
        return False


def cover(out: Path) -> None:
    """Run the quick tests under coverage; prints the share of lines and branches."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "reached_lines.py").write_text(PLUGIN, encoding="utf-8")
    settings = out / "settings.cfg"
    settings.write_text(SETTINGS.format(folder=out), encoding="utf-8")
    python = [sys.executable, "-m"]
    test = [*python, "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"]
    environment = os.environ | {
        **{"PYTHONPATH": f"{Path.cwd() / 'src'}:{out}", "OMP_NUM_THREADS": "1"},
        **{"TESTS_SEEN": str(out / "tests.json")},
    }
    subprocess.run([*test, "-m", "not thorough", "-p", "reached_lines"], env=environment, check=False)
    subprocess.run([*python, "coverage", "combine", f"--rcfile={settings}", "-q"], env=environment, check=True)
    report = [*python, "coverage", "report", f"--rcfile={settings}", "--precision", "2", "--format", "total"]
    print(
        "lines and branches:",
        subprocess.run(report, env=environment, check=True, text=True, capture_output=True).stdout,
    )


def reaching(mutant: Mutant, data: Any, tests: dict[str, dict[str, Any]]) -> list[str]:
    """Tests that reach the line of a mutant; of a line that runs at import, those that reach the file."""
    path = next((path for path in data.measured_files() if path.endswith(mutant.path)), None)
    if path is None:
        return []
    contexts = data.contexts_by_lineno(path)
    if mutant.at_import:
        reached = {context for line in contexts.values() for context in line}
    else:
        reached = {*contexts.get(mutant.line, ()), *contexts.get(mutant.statement, ())}
    names = {context.removesuffix(f" ({stage})") for context in reached for stage in ("setup", "call", "teardown")}
    passing = sorted((test["seconds"], name) for name, test in tests.items() if name in names and test["passed"])
    first = list({name.split("::")[0]: (seconds, name) for seconds, name in reversed(passing)}.values())
    chosen: list[str] = []
    taken = 0.0
    for seconds, name in [*sorted(first), *sorted({*passing} - {*first})]:
        taken += seconds
        if not chosen or taken <= USUAL:
            chosen.append(name)
    return chosen


def found(mutant: Mutant, names: list[str], tree: Path) -> bool:
    """Whether a test fails on the mutant, in a tree that is put back afterwards."""
    path = tree / mutant.path
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: mutant.start] + mutant.text + text[mutant.end :], encoding="utf-8")
    try:
        return bool(names) and fails(names, tree)
    finally:
        path.write_text(text, encoding="utf-8")


def fails(names: list[str], tree: Path) -> bool:
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(names))
        file.flush()
        test = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"@{file.name}"]
        try:
            done = subprocess.run(
                ["bash", "-c", f'ulimit -t {SECONDS}; exec "$@"', "bash", *test],
                cwd=tree,
                env=environment,
                capture_output=True,
                timeout=WAIT,
                check=False,
            )
            return done.returncode != 0
        except subprocess.TimeoutExpired:
            return True


def run(out: Path, count: int, seed: int) -> None:
    """Try mutants; a line of ``mutants.jsonl`` for each."""
    from coverage import CoverageData

    root = Path.cwd()
    paths = sorted((root / "src/headway").rglob("*.py"))
    everything = [mutant for path in paths for mutant in mutants(path, root)]
    random.Random(seed).shuffle(everything)
    chosen = [mutant for mutant in everything[: 2 * count] if valid(mutant, root)][:count]
    data = CoverageData(str(out / "coverage"))
    data.read()
    tests = json.loads((out / "tests.json").read_text())
    log = out / "mutants.jsonl"
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    rest = chosen[len(done) :]
    reached = [reaching(mutant, data, tests) for mutant in rest]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        free: Queue[Path] = Queue()  # the trees in which no mutant is tried now
        for place in ("a", "b"):
            tree = Path(folder, place, "main")
            shutil.copytree(root, tree, symlinks=True, ignore=shutil.ignore_patterns(".venv", "__pycache__"))
            if (root.parent / "shared").exists():
                (tree.parent / "shared").symlink_to(root.parent / "shared")
            free.put(tree)

        def tried(mutant: Mutant, names: list[str]) -> bool:
            tree = free.get()
            try:
                return found(mutant, names, tree)
            finally:
                free.put(tree)

        for mutant, names, result in zip(rest, reached, pool.map(tried, rest, reached), strict=True):
            done.append({**mutant._asdict(), "tests": len(names), "found": result})
            with log.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    print(f"{sum(line['found'] for line in done)} of {len(done)} mutants found, of {len(everything):,} in the code")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("cover", "run"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.verb == "cover":
        cover(options.out.resolve())
    else:
        run(options.out.resolve(), options.count, options.seed)
