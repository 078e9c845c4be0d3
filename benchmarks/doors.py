"""Every task and family, exported, and opened in a new process as its user opens it: benchmarks/results/doors.json.

    python benchmarks/doors.py                 200 texts for each model
    python benchmarks/doors.py --texts 20      a look
    python benchmarks/doors.py --own           Headway's own doors instead: benchmarks/results/doors-own.json

For each: what ``transformers`` reported of weights (nothing, or it failed), on how many texts the label, the likeliest
token or the text written is the same, and how far scores and vectors are apart (at most 1e-4).  Models are tiny and
random; the last rows are trained here.  The exit status is 1 unless all passed.

Headway's own doors are the command with texts and with a file, Python with one text and with a list, and HTTP with one
text, alone and with busy neighbours: by every engine in every precision that it offers, how far the answers are from
those to one text in Python.  An answer that differs in anything but a number is 1 apart.
"""

import argparse
import json
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from machine import facts, write
from machine import headway as measured

import headway
from headway.formats.exports import place_of
from headway.formats.parity import BOUND
from headway.formats.registry import SPECS
from headway.runtime.precision import available
from headway.tasks.checks import apart
from headway.workflows.export import export

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "doors"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "serving"))
from doors_kit import MODELS, Opened, made, open_all, prepared, texts
from served_models import Server

TINY: dict[str, Any] = {
    **{"d_model": 24, "layers": 2, "heads": 3, "length": 32, "steps": 60, "threads": 1, "precision": "float32"},
    **{"quiet": True},
}
RUNS = {
    "language_modeling": "text-generation",
    "classification": "text-classification",
    "masked_lm": "fill-mask",
    "embedding": "SentenceTransformer",
    "translation": "AutoModelForSeq2SeqLM",
}
"""A task that is trained here -> its door."""


def trained(task: str, folder: Path, **more: Any) -> Path:
    """A small run of a task."""
    lines = texts(400)
    if task in ("language_modeling", "masked_lm"):
        file = folder / f"{task}.txt"
        file.write_text("".join(f"{line} {line}\n" for line in lines))
    elif task == "token_classification":
        file = folder / f"{task}.conll"
        sentences = ["".join(f"{word}\t{'B-X' if len(word) < 4 else 'O'}\n" for word in line.split()) for line in lines]
        file.write_text("\n".join(sentences))
    else:
        file = folder / f"{task}.csv"
        if task == "classification":
            rows = [("text", "label"), *((line, "few" if len(line.split()) < 5 else "many") for line in lines)]
        else:
            rows = [("first", "second"), *((line, line.upper()) for line in lines)]
        file.write_text("".join(f"{one},{other}\n" for one, other in rows))
    options = {key: value for key, value in TINY.items() if task != "translation" or key != "length"}
    headway.train(file, out=folder / f"run-{task}", task=task, **options, **more)
    return folder / f"run-{task}"


def other_doors(count: int, folder: Path) -> list[dict[str, Any]]:
    """A row for each model that other programs open."""
    jobs: list[Opened] = []
    for kind, door in MODELS:
        place = f"{kind}-{door}"
        source = made(kind, door, folder / "made" / place)
        jobs.append(prepared(kind, door, source, folder / "exports" / place, count))
        print(f"exported {kind}", file=sys.stderr)
    for task, door in RUNS.items():
        source = trained(task, folder)
        jobs.append(prepared(f"a trained run: {task}", door, source, folder / "exports" / task, count))
        print(f"exported a run of {task}", file=sys.stderr)
    open_all(jobs, folder)
    return [job.row for job in jobs]


ODD = [
    *("", " ", "\n\n", "a", "0", "NULL", "=1+1", '{"a": [1]}', "<s> [CLS] </s>", "the\tcat\u2028sat \u200d", "THE CAT"),
    *("日本語 🙂 ภาษาไทย", "é e\u0301 ﬀ", "العربية mixed עברית", "x" * 300, "the cat" + "!" * 60, "the cat. " * 40),
]
WRITING = {"max_tokens": 12, "temperature": 0}
OWN: dict[str, dict[str, Any]] = {task: {} for task in (*RUNS, "token_classification")} | {"language_modeling": WRITING}
"""A task -> the options of its answers."""
NEIGHBOURS = 8
"""Clients at a time."""


def own_doors(count: int, folder: Path) -> list[dict[str, Any]]:
    """A row for each task, engine and precision, or for an export that the task does not have."""
    rows = []
    for task, options in OWN.items():
        run = trained(task, folder, **({"tokenizer": "bpe"} if task == "language_modeling" else {}))
        asked = [*ODD, *texts(count, seed=1)][:count]
        asked = [f"{text} [MASK]" for text in asked] if task == "masked_lm" else asked
        for engine, precision in [("torch", name) for name in available(torch.device("cpu"))] + [
            (spec.name, name) for spec in SPECS.values() if spec.installed for name in spec.precisions
        ]:
            row: dict[str, Any] = {"task": task, "engine": engine, "precision": precision}
            try:
                if engine != "torch" and not (place := place_of(run, SPECS[engine].format, precision)).is_dir():
                    export(run, place, to=SPECS[engine].format, precision=precision)
                headway.load(run, engine=engine, precision=precision)
            except headway.InputError as error:
                rows.append(row | {"refused": str(error).replace(f"{run.parent}/", ""), "passed": True})
                continue
            found = through_doors(run, ["--engine", engine, "--precision", precision], asked, options)
            largest = max(found.values())
            rows.append(row | {"texts": len(asked), "apart": found, "largest": largest, "passed": largest <= BOUND})
            print(rows[-1], file=sys.stderr)
    return rows


def through_doors(run: Path, by: list[str], asked: list[str], options: dict[str, Any]) -> dict[str, float]:
    """By door: how far its answers are from those to one text in Python; texts that are refused are left out."""
    pipe = headway.load(run, **dict(zip(("engine", "precision"), by[1::2], strict=True)))
    words = [*by, *(word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value)))]
    file, alone, server = run.parent / "asked.jsonl", {}, Server(run, "--quiet", *by)

    def post(text: str) -> Any:
        return server.post("/predict", {"inputs": [text], **options}).json()["answers"][0]

    try:
        with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(NEIGHBOURS) as pool:
            for text in asked:
                with suppress(headway.InputError):
                    alone[text] = plain(pipe([text], **options))[0]
            file.write_text("".join(json.dumps({"text": text}) + "\n" for text in alone))
            found = {
                "Python, a list": plain(pipe(list(alone), **options)),
                "command, texts": measured("predict", str(run), *alone, "--threads", "1", *words)["results"],
                "command, a file": measured("predict", str(run), str(file), "--threads", "1", *words)["results"],
                "HTTP, alone": [post(text) for text in alone],
                "HTTP, with neighbours": list(pool.map(post, alone)),
            }
    finally:
        server.stop()
    return {door: apart(list(alone.values()), answers) for door, answers in found.items()}


def plain(answers: Any) -> list[Any]:
    """Answers as JSON has them."""
    found: list[Any] = answers.tolist() if isinstance(answers, np.ndarray) else list(answers)
    return found


def main() -> None:
    """Make, export, open, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--own", action="store_true", help="Headway's own doors")
    given = parser.parse_args()
    count = given.texts
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="headway-doors-") as name:
        folder = Path(name)
        rows = own_doors(count, folder) if given.own else other_doors(count, folder)
    failed = [row for row in rows if not row["passed"]]
    found = {**facts(), "texts": count, "rows": rows, "passed": len(rows) - len(failed), "failed": len(failed)}
    found["versions"] = {**found["versions"], "transformers": transformers.__version__}
    write("doors-own" if given.own else "doors", found)
    for row in failed:
        print(row)
    print(f"{len(rows) - len(failed)} of {len(rows)} rows passed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
