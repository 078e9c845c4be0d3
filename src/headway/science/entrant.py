"""One model of a comparison: what makes it, one training of it in a process of its own, and how fast it is."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.errors import InputError, RunFailed
from headway.inference.classifier import Classifier
from headway.inference.generator import Generator
from headway.inference.load import Pipeline
from headway.training.config import MODELS, flag
from headway.training.log import read_log

TOGETHER = 32
"""Texts that are answered at once, where throughput is measured."""
WRITTEN = 64
"""Tokens that a language model writes for each, there and for its latency."""
SECONDS = 3.0
"""How long each speed is measured, at least REPEATS times."""
REPEATS = 5
LOOK_EVERY = 0.1
"""Seconds between two looks at the memory of a training."""
LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
TOKENS = 4096
"""Tokens of a batch, whatever its length, where the time of a token is measured."""


@dataclass(frozen=True)
class Entrant:
    """A model to be compared: a kind that ``--model`` knows, or a pretrained one."""

    name: str
    options: dict[str, Any]
    """options of ``train`` that make it"""

    @property
    def folder(self) -> str:
        """Its name as a part of a path."""
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in self.name).strip(".-")[-60:] or "model"


def entrants(names: Sequence[str]) -> list[Entrant]:
    """The models that are named.  Raises InputError for fewer than two, one named twice, and one that is not there."""
    found = []
    for name in names:
        if name in MODELS:
            found.append(Entrant(name, {"model": name}))
        elif Path(name).is_dir() or "/" in name:
            found.append(Entrant(Path(name).resolve().name if Path(name).is_dir() else name, {"from_model": name}))
        else:
            raise InputError(
                f"--models: there is no model {name!r}; name any of {', '.join(MODELS)}, or the directory or hub id "
                "of a pretrained one."
            )
    folders = [one.folder for one in found]
    if len(found) < 2 or len(set(folders)) < len(folders):
        raise InputError(f"--models {','.join(names)}: expected two models or more, each named once.")
    return found


def trained(words: Sequence[str], place: Path, say: Callable[[str], None]) -> float | None:
    """Train by the real command, in a process of its own, or take up what it left; its highest memory in bytes.

    None where that is not known.  Raises RunFailed with what the command said, and KeyboardInterrupt where it was told
    to stop, with everything saved.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    said = place.with_name(place.name + ".stderr.txt")
    with said.open("w+", encoding="utf-8") as stream:
        command = [sys.executable, "-m", "headway", *words, "--out", str(place), "--quiet"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream)
        try:
            peak = _ended(process)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        stream.seek(0)
        lines = [line for line in stream.read().splitlines() if line.strip()]
    said.unlink()
    if process.returncode == 130:
        raise KeyboardInterrupt
    if process.returncode:
        raise RunFailed(lines[-1].removeprefix("headway: ") if lines else f"it ended with status {process.returncode}")
    for line in lines:
        say(line)
    return peak


def _ended(process: subprocess.Popen) -> float | None:
    """Wait for the end of a process; the highest memory that it had, in bytes, where the system tells.

    Not ``ru_maxrss``: on Linux that is at least what the process had that started it.
    """
    peak = None
    while process.poll() is None:
        peak = peak_memory(process.pid) or peak
        time.sleep(LOOK_EVERY)
    return peak


def peak_memory(pid: int) -> float | None:
    """The highest memory of a process that runs, in bytes; None where the system does not tell (only Linux does)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return 1024.0 * int(found[0]) if found else None


def words_of(inputs: Sequence[str | Path], options: dict[str, Any]) -> list[str]:
    """The command that trains with these options."""
    words = ["train", *map(str, inputs)]
    for name, value in options.items():
        if value is True:
            words.append(f"--{flag(name)}")
        elif value is not None and value is not False:
            words += [f"--{flag(name)}", str(value)]
    return words


def curve(run: Path) -> list[dict[str, float]]:
    """Its evaluations: seconds, tokens and metrics, in order."""
    return read_log(run, "evaluation")


def speed(pipe: Pipeline, texts: Sequence[str]) -> dict[str, float]:
    """How fast a model answers here: ``latency_ms`` and ``throughput``.

    A classifier: milliseconds for one text, and texts a second of TOGETHER at once.  A language model: milliseconds for
    each token of one text, and tokens a second of TOGETHER texts that are written at once.
    """
    many = [texts[i % len(texts)] for i in range(TOGETHER)]
    if isinstance(pipe, Classifier):
        number = iter(range(1 << 30))
        return {
            "latency_ms": 1e3 * _median(lambda: pipe(texts[next(number) % len(texts)])),
            "throughput": TOGETHER / _median(lambda: pipe(many)),
        }
    if isinstance(pipe, Generator):
        prompts = [text[:40] or "a" for text in many]
        how: dict[str, Any] = {"max_tokens": WRITTEN, "temperature": 1.0, "seed": 0}
        return {
            "latency_ms": 1e3 * _median(lambda: pipe(prompts[0], **how)) / WRITTEN,
            "throughput": WRITTEN * TOGETHER / _median(lambda: pipe(prompts, **how)),
        }
    return {
        "latency_ms": 1e3 * _median(lambda: pipe(texts[0])),  # type: ignore[operator, call-arg]
        "throughput": TOGETHER / _median(lambda: pipe(many)),  # type: ignore[operator, call-arg]
    }


def token_seconds(model: Any, longest: int = LENGTHS[-1]) -> list[dict[str, float]]:
    """The time that training takes for each token, in sequences of more and more tokens, TOKENS of them at a time.

    Forward and backward pass of the layers, without a head: ``length`` and ``microseconds`` per token.
    """
    stack, found = model.stack, []
    vocab = model.config.vocab_size
    stack.train()
    for length in (n for n in LENGTHS if n <= longest):
        ids = torch.randint(vocab, (max(1, TOKENS // length), length), generator=torch.Generator().manual_seed(0))

        def once(ids: torch.Tensor = ids) -> None:
            stack(ids).sum().backward()
            stack.zero_grad()

        found.append({"length": length, "microseconds": 1e6 * _median(once, 0.5, 3) / ids.numel()})
    stack.eval()
    return found


def _median(run: Callable[[], Any], seconds: float = SECONDS, repeats: int = REPEATS) -> float:
    """The median time of a call, in seconds; the first call does not count."""
    run()
    times: list[float] = []
    while len(times) < repeats or sum(times) < seconds:
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
