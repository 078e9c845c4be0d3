"""Damage run directories and caches at random, and use them: fuzz_runs.py [SECONDS] [SEED].

A case copies what a finished or a stopped training left, spoils one or two files of it, and runs one of the verbs that
read it.  The verb must say what it says without the damage, to the last digit, or refuse with one message.  A
traceback, an abort, a hang, too much memory or another answer is printed with the seed of its case;
``fuzz_runs.py 0 SEED`` repeats that case alone.  Exit status 1 when there was any.
"""

import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import fuzz

SECONDS = 20.0
"""Of the processor that a command may take: it needs less than one.  Other programs may be busy."""
WAITED = 120.0
BYTES = 3 * 2**30
"""Of address space, above what was imported."""
ANSWER = re.compile(r'"(seconds|training_seconds|tokens_per_second|out)": [^,}]+')
"""What may be another number each time."""
SAVED = ("model.safetensors", "config.json", "tokenizer.json")
FEW = ["--d-model", "16", "--layers", "2", "--heads", "2", "--length", "32", "--threads", "1", "--precision", "float32"]

Words = list[str]


class Kind:
    """A run, and the verbs that are tried on it; {} is where it is."""

    def __init__(self, name: str, train: Words, verbs: list[Words]):
        self.name, self.train, self.verbs = name, train, verbs


def kinds(data: Path) -> list[Kind]:
    """What is trained and used."""
    text, rows = str(data / "corpus.txt"), str(data / "rows.csv")
    of_text = ["train", text, *FEW, "--batch-tokens", "256", "--seed", "3", "--steps"]
    of_rows = ["train", rows, *FEW, "--batch-tokens", "256", "--seed", "3", "--steps"]
    more = [*of_text, "9", "--out", "{}", "--json"]
    return [
        Kind(
            "language model",
            [*of_text, "6", "--out", "{}"],
            [
                ["evaluate", "{}", "--json"],
                ["generate", "{}", "the cat", "--max-tokens", "9", "--seed", "1", "--json"],
                ["explain", "{}", "--json"],
                [*of_text, "6", "--out", "{}", "--json"],
                [*more, "--allow-changes"],
                ["train", text, "--from", "{}", "--steps", "2", "--threads", "1", "--out", "{}-from", "--json"],
            ],
        ),
        Kind(
            "classifier",
            [*of_rows, "6", "--out", "{}"],
            [
                ["evaluate", "{}", "--json"],
                ["evaluate", "{}", rows, "--json"],
                ["classify", "{}", "the cat sat on a good mat", "--json"],
                ["classify", "{}", rows, "--json"],
                [*of_rows, "6", "--out", "{}", "--json"],
                [*of_rows, "9", "--out", "{}", "--json", "--allow-changes"],
            ],
        ),
    ]


def write_data(folder: Path) -> None:
    """A text and a table."""
    choose = random.Random(3)
    words = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors"]
    lines = [" ".join(choose.choices(words, k=9)) for _ in range(150)]
    (folder / "corpus.txt").write_text("".join(f"{line}\n" for line in lines))
    rows = (
        f"{line} {'good' if number % 2 else 'bad'},{'pos' if number % 2 else 'neg'}\n"
        for number, line in enumerate(lines)
    )
    (folder / "rows.csv").write_text("text,label\n" + "".join(rows))


def some_json(content: bytes, choose: random.Random) -> bytes:
    """One value of a JSON document, or of one of its lines, replaced."""
    lines = content.split(b"\n") if content.count(b"\n{") else [content]
    number = choose.randrange(len(lines))
    lines[number] = json.dumps(
        fuzz.some_values(json.loads(lines[number]), choose), indent=choose.choice((None, 2))
    ).encode()
    return b"\n".join(lines)


def damage(path: Path, files: list[Path], choose: random.Random) -> str:
    """Spoil one file; what was done."""
    what = choose.choice(
        ("bytes", "bytes", "bit", "bit", "cut", "empty", "swap", "json", "json", "json", "gone", "kind")
    )
    content = path.read_bytes()
    if what == "bytes":
        path.write_bytes(fuzz.some_bytes(content, choose))
    elif what == "bit" and content:
        place = choose.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << choose.randrange(8)]) + content[place + 1 :])
    elif what == "cut":
        path.write_bytes(content[: choose.randrange(len(content) + 1)])
    elif what == "empty":
        path.write_bytes(b"\0" * len(content) if choose.random() < 0.5 else b"")
    elif what == "swap":
        path.write_bytes(choose.choice(files).read_bytes())
    elif what == "json" and path.suffix in (".json", ".jsonl"):
        path.write_bytes(some_json(content, choose))
    elif what == "gone":
        path.unlink()
    else:
        path.unlink()
        links = [partial(path.symlink_to, target) for target in (path.name, "/dev/zero")]
        make = choose.choice((path.mkdir, partial(os.mkfifo, path), *links))
        make()
        what = "another kind of file"
    return f"{path.name}: {what}"


def attempt(do: Callable[[], None], folder: Path, seconds: float = WAITED) -> tuple[int, str, str]:
    """Do something in a child, within limits: (exit status or minus the signal, standard output, standard error)."""
    out, err = folder / "out", folder / "err"
    child = os.fork()
    if child == 0:
        status = 70
        try:
            _limit()
            for descriptor, path in ((0, "/dev/null"), (1, out), (2, err)):
                os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
            sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, "wr"[number == 0], 1) for number in range(3))
            os.chdir(folder)
            do()
            status = 0
        except SystemExit as leaving:
            status = int(leaving.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    waiting = os.pidfd_open(child)
    try:
        ended = bool(select.select([waiting], [], [], seconds)[0])
    finally:
        os.close(waiting)
    if not ended:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return (code if ended else 124), out.read_text(errors="replace"), err.read_text(errors="replace")


def _limit() -> None:
    size = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text()).group(1)) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, size + BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS) + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))


def command(words: Words, folder: Path, cache: Path) -> tuple[int, str, str]:
    """A command of Headway in a child."""

    def do() -> None:
        from headway.cli import main

        os.environ["HEADWAY_CACHE"] = str(cache)
        main.main(words)

    return attempt(do, folder)


class Corpus:
    """Runs that are well, what each verb says of them, and the means to spoil a copy."""

    def __init__(self, folder: Path):
        self.folder = folder
        write_data(folder)
        self.kinds = kinds(folder)
        self.answers: dict[tuple[str, int], str] = {}
        for kind in self.kinds:
            place, cache = self.well(kind)
            cache.mkdir()
            self._must(command(self.words(kind.train, place), folder, cache))
            for number in range(len(kind.verbs)):
                work = folder / "work"
                run = self._copy(kind, work)
                self.answers[kind.name, number] = self.answer(kind.verbs[number], run, work, self._must)
                shutil.rmtree(work)

    def well(self, kind: Kind) -> tuple[Path, Path]:
        """Where its run and its cache are."""
        return self.folder / kind.name.replace(" ", "-"), self.folder / f"cache-{kind.name.replace(' ', '-')}"

    def words(self, words: Words, run: Path) -> Words:
        return [word.replace("{}", str(run)) for word in words]

    def answer(self, words: Words, run: Path, work: Path, check: Callable[[tuple[int, str, str]], None]) -> str:
        """What a verb says, without what may differ."""
        found = command(self.words(words, run), work, work / "cache")
        check(found)
        return ANSWER.sub(r'"\1"', found[1].strip()).replace(str(work), "")

    def _copy(self, kind: Kind, work: Path) -> Path:
        work.mkdir()
        run, cache = self.well(kind)
        shutil.copytree(run, work / "run")
        shutil.copytree(cache, work / "cache")
        return work / "run"

    def _must(self, found: tuple[int, str, str]) -> None:
        if found[0] != 0:
            raise RuntimeError(f"without damage: {found}")

    def case(self, number: int) -> tuple[str, str | None]:
        """(what happened, what should not have): its number decides everything."""
        choose = random.Random(number)
        kind = choose.choice(self.kinds)
        verb = choose.randrange(len(kind.verbs))
        work = self.folder / f"case-{number}"
        run = self._copy(kind, work)
        done = []
        for _ in range(choose.choice((1, 1, 1, 2))):
            files = sorted(path for path in work.rglob("*") if path.is_file() and not path.is_symlink())
            own = [path for path in files if path.parent == run]
            chosen = choose.choice(
                choose.choice((files, own, [path for path in own if path.name == "headway.json"] or own))
            )
            try:
                done.append(damage(chosen, files, choose))
            except (ValueError, IndexError, TypeError, RecursionError, OSError):  # a file that was spoiled before
                continue
        outcome: list[tuple[int, str, str]] = []
        said = self.answer(kind.verbs[verb], run, work, outcome.append)
        status, _, err = outcome[0]
        problem = self._problem(status, err, said, self.answers[kind.name, verb])
        if problem is not None:
            words = " ".join(kind.verbs[verb])
            problem = f"case {number}: {kind.name}: {words}: after {'; '.join(done)}: {problem}"
        shutil.rmtree(work)
        return {0: "the same", 2: "refused", 1: "refused (1)"}.get(status, "ended"), problem

    @staticmethod
    def _problem(status: int, err: str, said: str, expected: str) -> str | None:
        if "Traceback" in err or "panicked" in err or status not in (0, 1, 2):
            return f"status {status}: {err[-3000:]}"
        if status == 0:
            told = "headway.json is missing" in err  # another answer, but not in silence
            return (
                None if said == expected or told else f"another answer: {said[:1500]}\n  instead of: {expected[:1500]}"
            )
        lines = [line for line in err.splitlines() if line.startswith("headway: ") and "warning:" not in line]
        return None if len(lines) == 1 else f"status {status}, found {len(lines)} messages: {err[-1500:]}"


def preload() -> None:
    """Import what the verbs import, once, and compute nothing: a child that is forked then may compute."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch._dynamo  # noqa: F401

    from headway.nn.kernels import products

    products._chosen = products.TORCH  # else each child times both, and a busy machine decides the last digits

    import headway.reports
    import headway.workflows.evaluate
    import headway.workflows.export
    import headway.workflows.train.run  # noqa: F401


LEAST = 8
"""Cases that are tried however slow the machine is."""


def main(seconds: float = 3600.0, first: int | None = None) -> int:
    """Fuzz for that long."""
    preload()
    with tempfile.TemporaryDirectory() as folder:
        return fuzz.drive(Corpus(Path(folder)).case, seconds, first, LEAST)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
