"""Two versions of the code beside each other: what they train, answer and print, and what differs.

    python tools/side_by_side.py OLD NEW [CASE...] [--keep FOLDER]    # OLD and NEW are checkouts
    python tools/side_by_side.py OLD NEW --messages

Both train every case of `tools/cases.py` and then use what they trained with every verb; and NEW resumes the run that
OLD was stopped in half way, as OLD does.  Weights and losses are compared to the last bit, what is printed as text
without durations.  With --messages both run their tests of the command line and of hostile files, and the messages
that these provoke are compared.  The exit status is 1 where anything differs.
"""

import argparse
import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cases import CASES, Case

WORKER = """
import json, os, sys, traceback
import torch, sklearn.linear_model
from headway.cli.main import main

for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        for descriptor, path in enumerate(("/dev/null", job["out"], job["err"])):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), descriptor)
        os.chdir(job["folder"])
        status = 1
        try:
            exec(job["script"], {})
            sys.argv = ["headway", *job["words"]]
            main(job["words"])
            status = 0
        except SystemExit as leaving:
            status = leaving.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs commands in processes forked from one that has imported everything and computed nothing."""
STOP = """
import importlib, os, pathlib, signal, headway
home = pathlib.Path(headway.__file__).parent
file = next(path for path in sorted(home.rglob("*.py")) if "\\nclass RunDirectory" in path.read_text())
module = importlib.import_module(".".join(("headway", *file.relative_to(home).with_suffix("").parts)))
log = module.RunDirectory.log
def stopping(self, event, **values):
    log(self, event, **values)
    if event == "step" and values["step"] == 6:
        os.kill(os.getpid(), signal.SIGINT)
module.RunDirectory.log = stopping
"""
"""Interrupts training after six steps, in whatever module a version keeps its run directory."""
UNSTEADY = re.compile("second|time|date|version|bytes|memory|commit|machine|speed|^checksum$|^started$")
"""Keys of JSON objects whose values differ from run to run."""
DURATION = re.compile(
    r"\d[\d,.]*( ?(ms|s|min|h|seconds|kB|MB|GB|GFLOP/s)\b| (tokens|texts|rows|characters)(/s| a second))"
)
LONG = [f"--ignore=tests/hostile/test_hostile_{name}.py" for name in ("fuzz", "runs")]
"""Tests of hostile files that take too long to be run twice."""
ASKED = (("evaluate", "run"), ("show", "run"), ("verify", "run"))


class Version:
    """A checkout, and a process that runs its commands."""

    def __init__(self, tree: Path, site: Path):
        path = os.pathsep.join([str(tree / "src"), str(site)])
        quiet = {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "MKL_CBWR": "COMPATIBLE",  # sums do not depend on where in memory a tensor lies
            "HF_HUB_OFFLINE": "1",
            "COLUMNS": "120",
            "PYTHONHASHSEED": "0",
        }
        self._scratch = Path(tempfile.mkdtemp(dir=site))
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1},
            env={**os.environ, **quiet, "PYTHONPATH": path, "HEADWAY_CACHE": str(self._scratch / "cache")},
        )

    def __call__(self, folder: Path, *words: str, script: str = "") -> list[str]:
        """The exit status and what a command printed, line by line, without what differs from run to run."""
        out, err = self._scratch / "out", self._scratch / "err"
        job = {"folder": str(folder), "words": words, "script": script, "out": str(out), "err": str(err)}
        self._process.stdin.write(json.dumps(job) + "\n")
        status = self._process.stdout.readline().strip()
        texts = out.read_text(errors="replace"), err.read_text(errors="replace")
        lines = [steady(line, folder) for text in texts for line in text.replace("\r", "\n").splitlines()]
        return [f"$ headway {' '.join(words)}", f"exit status {status}", *filter(None, lines)]


def steady(line: str, folder: Path) -> str:
    """A line without durations and without the folder; a JSON object key by key."""
    if line.startswith("{"):
        return json.dumps(_steady(json.loads(line)), indent=1, sort_keys=True).replace(str(folder), "")
    return DURATION.sub("#", line.replace(str(folder), "")).rstrip()


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _steady(one) for key, one in value.items() if not UNSTEADY.search(key)}
    if isinstance(value, list):
        return [_steady(one) for one in value]
    return DURATION.sub("#", value) if isinstance(value, str) else value


def trained(folder: Path) -> list[str]:
    """What a run is, to the last bit: its losses, weights and facts."""
    run = folder / "run"
    lines = [
        f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sorted(run.glob("*.safetensors"))
    ]
    for name in ("log.jsonl", "headway.json"):
        text = (run / name).read_text() if (run / name).exists() else ""
        for line in text.splitlines() if name == "log.jsonl" else [json.dumps(json.loads(text or "{}"))]:
            lines += steady(line, folder).splitlines()
    return lines


def one_case(case: Case, versions: tuple[Version, Version], place: Path) -> dict[str, tuple[list[str], list[str]]]:
    """What both versions give at each station of a case."""
    start = place / "start"
    start.mkdir(parents=True)
    here = Path.cwd()
    os.chdir(start)
    words = case.prepare()
    os.chdir(here)
    folders = [Path(shutil.copytree(start, place / name)) for name in ("old", "new")]
    for folder in folders:
        (folder / "input.txt").write_text("".join(f"{one}\n" for one in case.inputs))
    commands = [words, *map(list, ASKED), ["evaluate", "run", words[1]], ["predict", "run", *case.inputs, *case.asking]]
    commands += [
        ["predict", "run", "input.txt", "--to", "answers.csv", *case.asking],
        ["explain", "run", case.inputs[0]],
    ]
    both: dict[str, tuple[list[str], list[str]]] = {}

    def at(name: str, give: Any) -> None:
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(give, versions, folders)
        both[name] = (one, other)

    for command in commands:
        at(" ".join(command[:3]), lambda version, folder, c=command: version(folder, *c, "--json"))
        if command is words:
            at("the run", lambda version, folder: trained(folder))
    for command in (words, *case.more):
        name = f"{' '.join(command[:4])}, in words"
        at(name, lambda version, folder, c=command: version(folder, *c))
    half = Path(shutil.copytree(start, place / "half"))
    versions[0](half, *words, script=STOP)
    folders = [Path(shutil.copytree(half, place / f"{name} resumed")) for name in ("old", "new")]
    at("resuming", lambda version, folder: version(folder, *words, "--json"))
    at("the resumed run", lambda version, folder: trained(folder))
    return both


def losses(lines: list[str]) -> str:
    """The last loss of a run, and the beginning of its weights' digest."""
    found = re.findall(r'"loss": ([-\d.e]+)', "\n".join(lines))
    digest = next((line.split()[1][:8] for line in lines if line.startswith("model.safetensors")), "no weights")
    return f"{found[-1] if found else '-'} {digest}"


def show(title: str, old: list[str], new: list[str], most: int = 40) -> bool:
    """Print what differs; whether anything does."""
    old, new = ([line for text in lines for line in text.splitlines()] for lines in (old, new))
    differ = list(difflib.unified_diff(old, new, "old", "new", lineterm="", n=1))
    if differ:
        print(f"  {title}", *differ[2:most], sep="\n    ", flush=True)
    return bool(differ)


def install_own_task(tree: Path, site: Path) -> None:
    """Make a folder for PYTHONPATH in which the example of a version is an installed package."""
    shutil.rmtree(site, ignore_errors=True)
    about = site / "own_task-0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-task\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[headway.tasks]\nstars = own_task\n")
    shutil.copy(tree / "examples" / "own_task.py", site)


def runs(old: Path, new: Path, names: list[str], place: Path) -> bool:
    """Every case by both versions; whether anything differs."""
    shutil.rmtree(place, ignore_errors=True)
    sites = place / "site old", place / "site new"
    for tree, site in zip((old, new), sites, strict=True):
        install_own_task(tree, site)
    versions = Version(old, sites[0]), Version(new, sites[1])
    changed = False
    for name in names or CASES:
        both = one_case(CASES[name], versions, place / name)
        equal = both["the run"][0] == both["the run"][1]
        print(f"{name}: {losses(both['the run'][0])} {'=' if equal else '!='} {losses(both['the run'][1])}", flush=True)
        for station, (one, other) in both.items():
            changed |= show(station, one, other)
    return changed


def messages(tree: Path, place: Path) -> list[str]:
    """The messages that a version's tests of the command line and of hostile files provoke, sorted, each once."""
    place.unlink(missing_ok=True)
    path = os.pathsep.join([str(tree / "src"), str(Path(__file__).parent)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "record_messages", "-n", "2", "--dist", "loadfile"]
    subprocess.run(
        [*command, *LONG, "tests/cli", "tests/hostile"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "HEADWAY_MESSAGES": str(place), "OMP_NUM_THREADS": "1"},
    )
    lines = place.read_text(encoding="utf-8").splitlines()
    return sorted({re.sub(r"(?<![\w.])/(?:[^\s:'\",]+/)*", "", line) for line in map(json.loads, lines)})


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", choices=[*CASES, []])
    parser.add_argument("--messages", action="store_true")
    parser.add_argument("--keep", type=Path, help="where the runs are left")
    given = parser.parse_args()
    old, new = given.old.resolve(), given.new.resolve()
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as temporary:
        place = (given.keep or Path(temporary) / "runs").resolve()
        if given.messages:
            one, other = (messages(tree, Path(temporary) / name) for name, tree in (("old", old), ("new", new)))
            sys.exit(show("messages", one, other, most=10**6))
        sys.exit(runs(old, new, given.cases, place))


if __name__ == "__main__":
    main()
