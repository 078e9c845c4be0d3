"""The most memory that a task takes on large tables: training, measuring, and answering for every row.

    python benchmarks/table_memory.py TASK FOLDER [MEGABYTES ...] [--characters 200] [--only train evaluate]
                                      [--first 100000]

TASK is one of ``TASKS``.  Tables are made in FOLDER from seeds: rows of 200 characters, of pairs half on each side, of
tagged words in CoNLL; the words are invented, and as frequent as 1 / rank.  With --first the model is measured, and
answers, on so many rows of each table, at most all but one: of its own file only the held-out rows would be measured.
The base has two layers, 64 wide.  The
peak is the greatest resident size of the process (VmHWM); ``bytes_a_row`` is its growth for each row more.
"""

import argparse
import random
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

from machine import facts, write

SIZES = (20, 60, 200)
SMALL = ("--d-model", "64", "--layers", "2", "--heads", "2", "--length", "128")
TASKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "classification": ("classify", (*SMALL, "--tokenizer", "wordpiece")),
    "embedding": ("embed", (*SMALL, "--tokenizer", "wordpiece", "--task", "embedding")),
    "translation": ("translate", (*SMALL, "--vocab", "4000", "--task", "translation")),
    "token_classification": ("tag", (*SMALL, "--tokenizer", "wordpiece", "--task", "token_classification")),
    **{
        task: ("predict", (*SMALL, "--tokenizer", "wordpiece", *named, "--task", task))
        for task, named in {
            **{"regression": (), "ratings": (), "multi_label": ()},
            "multi_column": ("--label-column", "label", "--label-column", "number"),
        }.items()
    },
}
"""The verb that answers, and the options that make the base."""
CELLS = {
    "regression": lambda draw: f"{draw.uniform(1, 900):.2f}",
    "ratings": lambda draw: str(draw.randint(1, 5)),
    "multi_label": lambda draw: ";".join(draw.sample(("late", "lost", "rude", "wrong"), draw.randint(1, 3))),
    "multi_column": lambda draw: f"class{draw.randrange(5)},{draw.uniform(1, 900):.2f}",
}
"""What a row has to learn, where it is not one of five classes."""
CHILD = """
import sys
from pathlib import Path
from headway.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("peak", *Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[:1], file=sys.stderr)
"""


def table(path: Path, task: str, size: int, characters: int) -> int:
    """Write rows of a text and one of five labels, of two texts, or of tagged words, until there are ``size`` bytes.

    Returns how many rows.
    """
    draw, rows, written = random.Random(7), 0, 0
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(30_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    tagged, paired, half = task == "token_classification", task in ("embedding", "translation"), characters // 2
    with path.open("w", encoding="utf-8") as file:
        if not tagged:
            several = ",number" * (task == "multi_column")
            written += file.write("source,target\n" if paired else f"text,label{several}\n")
        while written < size:
            text = " ".join(draw.choices(words, weights, k=3_000))
            for at in range(0, len(text) - characters, characters):
                row = text[at : at + characters]
                if tagged:
                    tags = draw.choices(("O", "B-PER", "B-LOC"), (8, 1, 1), k=len(row.split()))
                    lines = (f"{word} {tag}\n" for word, tag in zip(row.split(), tags, strict=True))
                    written, rows = written + file.write("".join(lines) + "\n"), rows + 1
                    continue
                label = CELLS.get(task, lambda draw: f"class{draw.randrange(5)}")(draw)
                cells = (row[:half], row[half:]) if paired else (row, label)
                written += file.write(",".join(cells) + "\n")
                rows += 1
    return rows


def peak_of(*words: str | Path) -> dict[str, Any]:
    """The peak of a command in bytes, and how many seconds it took."""
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", CHILD, *map(str, words)], capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    peak = next(int(line.split()[1]) * 1024 for line in ended.stderr.splitlines() if line.startswith("peak "))
    return {"peak_bytes": peak, "seconds": time.monotonic() - began}


def main() -> None:
    """Each verb on each table in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sizes", type=int, nargs="*", default=SIZES, metavar="MEGABYTES")
    parser.add_argument("--characters", type=int, default=200)
    parser.add_argument("--only", nargs="+", metavar="VERB")
    parser.add_argument("--first", type=int, metavar="ROWS")
    given = parser.parse_args()
    verb, model = TASKS[given.task]
    folder = given.folder / given.task
    folder.mkdir(parents=True, exist_ok=True)
    ending = ".conll" if given.task == "token_classification" else ".csv"
    base, small = folder / "base", folder / f"small{ending}"
    if not (base / "config.json").exists():
        table(small, given.task, 1_000_000, given.characters)
        peak_of("train", small, "--steps", "2", "--quiet", *model, "--out", base)
    results: list[dict[str, Any]] = []
    for size in given.sizes:
        path = folder / f"{size}mb{ending}"
        rows = table(path, given.task, size * 1_000_000, given.characters)
        run, answers = path.with_suffix(""), folder / f"{size}mb-answers.csv"
        named = model[model.index("--label-column") :] if "--label-column" in model else ("--task", given.task)
        bounds = ("--steps", "50", "--evaluations", "1", *named)
        asked, measured = path, list[Path]()
        if given.first:
            asked = folder / f"{size}mb-first{ending}"
            with path.open(encoding="utf-8") as lines:
                asked.write_text("".join(islice(lines, min(given.first, rows - 1) + 1)), encoding="utf-8")
            measured = [asked]
        verbs: dict[str, tuple[str | Path, ...]] = {
            "train": ("train", path, "--from", base, *bounds, "--out", run, "--quiet"),
            "evaluate": ("evaluate", run, *measured),
            verb: (verb, run, asked, "--to", answers, "--quiet"),
        }
        for name in given.only or verbs:
            found = {"verb": name, "bytes": path.stat().st_size, "rows": rows, **peak_of(*verbs[name])}
            before = next((one for one in reversed(results) if one["verb"] == name), None)
            if before is not None:
                found["bytes_a_row"] = (found["peak_bytes"] - before["peak_bytes"]) / (rows - before["rows"])
            results.append(found)
            print(found, flush=True)
            write(f"table-memory-{given.task}", {**facts(), "characters": given.characters, "runs": results})


if __name__ == "__main__":
    main()
