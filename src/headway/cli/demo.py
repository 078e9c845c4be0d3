"""``headway demo``: train small models on text that comes with Python, and show what they learn."""

import json
import shlex
import shutil
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from headway.api import train_run
from headway.cli.common import Answer, verb
from headway.errors import InputError
from headway.io.atomic_write import write_json, write_whole
from headway.io.csv_text import as_csv
from headway.io.quantities import duration, parse_seconds
from headway.training.options import TrainOptions
from headway.training.progress import shown_to
from headway.workflows.command import words_of

MARKER, MADE_BY = "demo.json", "headway demo"
"""The file that marks a demo's folder, and its content: a demo removes earlier results only where it finds it."""

FULL = 240.0
"""Seconds for which the sizes below are chosen; the amount of text is proportional to the time."""

HELD_OUT = 120_000
"""Characters of text to validate on: measuring a tenth of all the text would take as long as training."""

SMALL_DECODER: dict[str, Any] = {"vocab": 2048, "d_model": 128, "layers": 3, "batch_tokens": 2048, "evaluations": 4}
"""The model that learns most in a minute on two cores."""


@dataclass(frozen=True)
class Part:
    """One model of the demo."""

    name: str
    file: str
    says: str
    share: float
    """of the time"""
    size: int
    """characters or rows of text"""
    options: dict[str, Any]
    prompts: tuple[str, ...]
    use: dict[str, Any] = field(default_factory=dict)
    """generation options for the prompts"""

    @property
    def held_out(self) -> str | None:
        """The validation file, for running text."""
        return self.file.replace(".txt", "-held-out.txt") if self.file.endswith(".txt") else None

    @property
    def makes(self) -> list[str]:
        """All files that this part writes."""
        return [self.name, self.file, *([self.held_out] if self.held_out else [])]


PARTS = (
    Part(
        "docs",
        "docs.txt",
        "A decoder reads Python's documentation and learns to predict the next token.",
        0.26,
        2_100_000,
        SMALL_DECODER,
        ("The with statement",),
        {"max_tokens": 90, "temperature": 0.5},
    ),
    Part(
        "code",
        "code.txt",
        "The same decoder reads the source of Python's standard library: code completion.",
        0.3,
        3_000_000,
        SMALL_DECODER,
        ("    def read_text(self, encoding=None):", "for name in sorted("),
        {"max_tokens": 90, "temperature": 0.4},
    ),
    Part(
        "slips",
        "slips.csv",
        "An encoder reads lines of code, half of them with two tokens swapped: which have the slip?",
        0.24,
        52_000,
        {
            **{"tokenizer": "word", "vocab": 2000, "d_model": 64, "optimizer": "muon", "learning_rate": 3e-3},
            **{"dropout": 0.05, "token_dropout": 0.02, "label_smoothing": 0.1, "evaluations": 5},
        },
        (
            "for i in range(10):",
            "for i in 10(range):",
            "return self.items[key]",
            "return items.self[key]",
            "if name is None:",
            "if name None is:",
        ),
    ),
    Part(
        "dates",
        "dates.tsv",
        "An encoder-decoder reads dates as people write them and writes them in ISO format.",
        0.15,
        20_000,
        {
            **{"task": "translation", "tokenizer": "char", "d_model": 64, "layers": 2, "dropout": 0.0},
            **{"evaluations": 3},
        },
        ("Friday, 3 Mar 1911", "December 24, 2031", "7.6.1954"),
    ),
)


def demo(
    out: str | Path = "runs/demo", time: str = "4m", *, seed: int = 0, quiet: bool = False, folder: Path | None = None
) -> list[dict[str, Any]]:
    """Train the demo's models under ``out``; returns the result of each, as ``train`` does, with ``samples`` and
    ``report``.

    ``time`` is for all of them together.  ``folder`` holds the Python files to read, if not the standard library.  A
    stopped demo resumes; a finished one starts over.  Raises InputError if ``out`` holds other files.
    """
    whole, place, say = parse_seconds(time), Path(out), shown_to(quiet).say
    asked = {"made_by": MADE_BY, "time": time, "seed": seed}
    _make_room(place, {**asked, "finished": False}, say)
    found = []
    for number, part in enumerate(PARTS, 1):
        say("")
        say(f"{number}/{len(PARTS)}  {part.says}")
        result = _run(part, place, whole, seed, quiet, folder)
        path = place / part.name
        samples, lines = _samples(part, path, seed)
        for line in lines:
            say(line)
        found.append({**result, "samples": samples, "report": str(path / "report.html")})
    write_json(place / MARKER, {**asked, "finished": True})
    return found


def _make_room(place: Path, asked: dict[str, Any], say: Callable[[str], None]) -> None:
    """Make the folder, without the results of a finished demo.  Raises InputError if it holds other files."""
    try:
        before = json.loads((place / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = None
    if not isinstance(before, dict) or before.get("made_by") != MADE_BY:
        before = None
    if before is None and place.is_dir() and any(place.iterdir()):
        raise InputError(f"{place}: this directory holds files that are not from a demo; name another with --out.")
    try:
        if before == asked:
            say(f"{place}: resuming the demo that was stopped")
        elif before is not None:
            say(f"{place}: starting over; the models of an earlier demo are removed")
            for part in PARTS:
                for name in part.makes:
                    _remove(place / name)
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / MARKER, asked)
    except OSError as error:
        raise InputError(f"{place}: cannot be written ({error.strerror or error}); name another with --out.") from None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _run(part: Part, place: Path, whole: float, seed: int, quiet: bool, folder: Path | None) -> dict[str, Any]:
    """Write the part's text and train on it; the result of a complete part is read."""
    from headway.training.store.run_directory import RunDirectory
    from headway.workflows.train.outcome import result

    started, run = clock.monotonic(), RunDirectory(place / part.name)
    if (run.read() or {}).get("finished"):
        return result(run)
    file = place / part.file
    held_out = [place / part.held_out] if part.held_out else []
    if not all(path.exists() for path in [file, *held_out]):
        _write(part, place, max(1, round(part.size * whole / FULL)), seed, folder)
    options = {**part.options, "time": f"{part.share * whole:.2f}s", "seed": seed}
    words = words_of([file], {"out": run.path, "validation": next(iter(held_out), None), **options})
    command = [shlex.quote(word) for word in ("headway", *words)]
    how: dict[str, Any] = {"progress": shown_to(quiet), "started": started, "command": command}
    return result(train_run([file], TrainOptions(**options), run.path, held_out, **how))


def _write(part: Part, place: Path, size: int, seed: int, folder: Path | None) -> None:
    from headway.data.samples import dates, documentation, lines_with_slips, source_code

    if part.name == "dates":
        texts = {part.file: as_csv([("source", "target"), *dates(size, seed)], "\t")}
    elif part.name == "slips":
        texts = {part.file: as_csv([("line", "label"), *lines_with_slips(size, folder=folder, seed=seed)])}
    else:
        text = (documentation if part.name == "docs" else source_code)(size, folder=folder, seed=seed)
        cut = len(text) - min(HELD_OUT, len(text) // 10)
        texts = {str(part.held_out): text[cut:], part.file: text[:cut]}
    for name, content in texts.items():
        write_whole(place / name, partial(Path.write_text, data=content, encoding="utf-8", newline=""))


def _samples(part: Part, path: Path, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """The finished model's answers to the part's prompts, and the same as lines under the command that gives them."""
    from headway.workflows.load import load

    pipe: Any = load(path)
    use = f"headway {{}} {shlex.quote(str(path))}"
    if hasattr(pipe, "hypotheses"):
        answers = [one for (one,) in pipe.hypotheses(part.prompts, alignment=True)]
        lines = ["", f'{use.format("translate")} "..." writes for {len(answers)} dates:', ""]
        lines += [f"  {text:20} {one['text']}" for text, one in zip(part.prompts, answers, strict=True)]
        lines += ["", *(f"  {line}" for line in answers[0]["alignment"].picture())]
        pairs = zip(part.prompts, answers, strict=True)
        return [{"source": t, "text": one["text"], "alignment": one["alignment"].plain()} for t, one in pairs], lines
    if hasattr(pipe, "labels"):
        found = [{"text": text, **one} for text, one in zip(part.prompts, pipe(list(part.prompts)), strict=True)]
        lines = ["", f'{use.format("classify")} "..." says of {len(found)} lines:', ""]
        return found, lines + [f"  {one['label']}  {one['score']:4.0%}   {one['text']}" for one in found]
    found = [{"prompt": prompt, "text": pipe(prompt, seed=seed, **part.use)} for prompt in part.prompts]
    lines = []
    for one in found:
        how = f"--temperature {part.use['temperature']}"
        lines += ["", f"{use.format('generate')} {shlex.quote(one['prompt'])} {how}", ""]
        lines += [f"  {line[:96]}".rstrip() for line in (one["prompt"] + one["text"]).rstrip().split("\n")]
    return found, lines


def report(found: list[dict[str, Any]], out: str | Path) -> list[str]:
    """The summary of the demo: the models, their results against the baselines, what to try next."""
    from headway.reports.record import read_record
    from headway.reports.verdict import verdict

    whole = duration(sum(run["seconds"] or 0 for run in found))
    lines = ["", f"{len(found)} Transformers from one block, trained in {whole}:"]
    for part, run in zip(PARTS, found, strict=True):
        kind = {"classification": "encoder", "translation": "encoder-decoder"}.get(run["task"], "decoder")
        lines.append(
            f"  {part.name:6} {kind}, {run['parameters']:,} parameters, {run['steps']:,} steps: {run['report']}"
        )
        lines += wrap(verdict(read_record(Path(run["out"]))), 120, initial_indent=" " * 9, subsequent_indent=" " * 9)
    at = shlex.quote(str(out))
    return [
        *lines,
        "",
        "What to try next:",
        f'  headway generate {at}/docs "A generator"',
        f'  headway generate {at}/code "class Stack:" --temperature 0.4',
        f"  headway classify {at}/slips \"if x = y then 'a':\"",
        f'  headway translate {at}/dates "May 5, 1961" --alignment',
        f"  headway explain {at}/code",
        f"  headway train {at}/code.txt --time 20m --out runs/code",
        "  headway train YOUR_FILE --time 5m        a .csv with labels, or any text",
    ]


@verb()
@click.option("--time", default="4m", show_default=True, help="Time for the whole demo, such as 90s or 4m.")
@click.option("--out", default="runs/demo", show_default=True, help="Directory of its texts and models.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="Random seed.")
def command(time: str, out: str, seed: int, quiet: bool) -> Answer:
    """Train small Transformers on text that comes with Python, and show what they learn.

    Nothing is downloaded: the documentation and the source of Python's standard library are read from this
    installation.  Run the same command again to resume a stopped demo; a finished one starts over.
    """
    found = demo(out, time, seed=seed, quiet=quiet)
    return Answer({"task": "demo", "out": out, "runs": found}, report(found, out))
