"""What the tests of faults share: runs that could differ in every way, what they came to, and ways to end them."""

import hashlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headway

TINY: dict[str, Any] = {
    **{"d_model": 16, "layers": 2, "heads": 2, "length": 32, "batch_tokens": 256, "steps": 20},
    **{"threads": 1, "precision": "float32", "evaluations": 2},
}
"""A run that takes a second."""
LIVELY = {
    **{"dropout": 0.1, "accumulate": 2, "grow_batch": 2, "average": 0.9, "seed": 3},
    **{"log_every": 1, "save_every": "0.001s", "evaluations": 5},
}
"""What could make two runs differ; and every step is logged and saved."""

KILL = """
import os, signal, sys
from headway.training.store import checkpoint
from headway.training.store import run_directory
from headway.workflows.train import run as session
from headway.training.loop import trainer
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""The beginning of a script that runs before the command line."""


def losses(run: Path) -> dict[int, str]:
    """Training loss by step, to the last bit; of two lines for one step the later."""
    return {line["step"]: float(line["loss"]).hex() for line in lines_of(run) if line["event"] == "step"}


def lines_of(run: Path) -> list[dict[str, Any]]:
    """The log."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def facts_of(run: Path) -> dict[str, Any]:
    """The record, as it stands in the file."""
    return json.loads((run / "headway.json").read_text(encoding="utf-8"))


ENDED = 2**22 + 1
"""The number of a process that has ended: Linux gives none that is larger than 2^22."""


def outcome(run: Path) -> tuple[str, dict[int, str], dict[str, Any]]:
    """What a run came to, to the last bit."""
    facts = facts_of(run)
    known = {key: facts[key] for key in ("metrics", "best_step", "steps", "tokens", "train_loss", "finished")}
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest(), losses(run), known


def words(options: dict[str, Any]) -> list[str]:
    """Options as words of a command line."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def content(folder: Path) -> dict[str, bytes]:
    """What the files of a folder hold."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def alone(data: list[Path], options: dict[str, Any], out: Path) -> Any:
    """What the run comes to that is left alone."""
    headway.train(data, out=out, quiet=True, **options)
    return outcome(out)


FORKING = """
import json, os, signal, sys, traceback
import torch._dynamo, headway.reports, headway.workflows.train.run
import sklearn.feature_extraction.text, sklearn.linear_model, sklearn.pipeline, sklearn.svm
from headway.cli.main import main

for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        for descriptor, path in enumerate(("/dev/null", job["out"], job["err"])):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
        sys.stdin = open(0)
        os.environ.update(job["environment"])
        status = 1
        try:
            exec(job["script"], {})
            main(job["words"])
            status = 0
        except SystemExit as leaving:
            status = leaving.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(status)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Forker:
    """Runs the command line in processes that are forked from one which has imported everything and computed nothing.

    It is the very code of ``headway``, without the seconds that its imports take each time.
    """

    def __init__(self, folder: Path):
        self.folder, self.count = folder, 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()

    def start(self, *words: object, script: str = "", environment: dict[str, str] | None = None) -> "Forked":
        """Begin a command, ``script`` before it; one at a time."""
        self.count += 1
        out, err = self.folder / f"{self.count}.out", self.folder / f"{self.count}.err"
        job = {"words": list(map(str, words)), "script": script, "out": str(out), "err": str(err)}
        job["environment"] = environment or {}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        return Forked(int(self.process.stdout.readline()), out, err, self.process.stdout)

    def __call__(self, *words: object, script: str = "", timeout: float = 60, **environment: str) -> "Forked":
        """Run a command to its end."""
        found = self.start(*words, script=script, environment=environment)
        found.wait(timeout)
        return found


class Forked:
    """A command that was begun by a Forker."""

    def __init__(self, pid: int, out: Path, err: Path, status: Any):
        self.pid, self._out, self._err, self._status = pid, out, err, status
        self.returncode: int | None = None

    @property
    def stdout(self) -> str:
        """What it wrote."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    @property
    def stderr(self) -> str:
        """What it said."""
        return self._err.read_text(encoding="utf-8", errors="replace")

    def poll(self) -> int | None:
        """Its status, if it has ended."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait(1)
        return self.returncode

    def wait(self, timeout: float) -> None:
        """Wait for its end."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                os.kill(self.pid, signal.SIGKILL)
                self._status.readline()
                raise AssertionError(f"it has not ended in {timeout} s: {self.stderr}")
            self.returncode = os.waitstatus_to_exitcode(int(self._status.readline()))

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"it never was so in {seconds:.0f} s")
        time.sleep(0.01)


def holds(path: Path, text: str) -> Callable[[], bool]:
    """Whether a file is there and holds a text."""
    return lambda: path.exists() and text in path.read_text(encoding="utf-8")


def made_pairs(folder: Path, count: int = 97) -> list[Path]:
    """Two files: words, and the same words shouted."""
    choose = random.Random(7)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        " ".join(choose.choices(["cat", "dogs", "mat", "old", "red"], k=choose.randint(2, 7))) for _ in range(count)
    ]
    paths = [folder / "t.en", folder / "t.de"]
    for path, made in zip(paths, (lines, [line.upper() for line in lines]), strict=True):
        path.write_text("".join(f"{line}\n" for line in made), encoding="utf-8")
    return paths


PLAIN: dict[str, Any] = {
    **{"d_model": 32, "layers": 2, "heads": 2, "batch_tokens": 512, "steps": 10, "threads": 1, "dropout": 0.0},
    **{"precision": "float32", "optimizer": "adamw", "log_every": 1, "evaluations": 2, "save_every": "0.05s"},
}
"""What one process and two compute alike; steps are saved now and then."""


def free_port() -> str:
    """One that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


class Pair:
    """Two ranks, as torchrun would start them."""

    def __init__(self, forkers: list[Forker]):
        self.forkers = forkers

    def start(self, *arguments: object, scripts: tuple[str, str] = ("", "")) -> list[Forked]:
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        return [
            forker.start(*arguments, script=script, environment={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank, (forker, script) in enumerate(zip(self.forkers, scripts, strict=True))
        ]

    def __call__(self, data: list[Path], out: Path, options: dict[str, Any], *more: str) -> list[Forked]:
        ranks = self.start("train", *data, "--out", out, *words(options), *more)
        for one in ranks:
            one.wait(60)
        assert [one.returncode for one in ranks] == [0, 0], "".join(one.stderr for one in ranks)
        return ranks


def apart(one: Path, other: Path) -> float:
    """By how much the losses of two runs differ at most, relative to them."""
    first, second = losses(one), losses(other)
    assert first.keys() == second.keys() and len(first) >= 10
    return max(abs(float.fromhex(first[k]) / float.fromhex(second[k]) - 1) for k in first)
