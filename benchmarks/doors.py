"""Every task and family, exported, and opened in a new process as its user opens it: benchmarks/results/doors.json.

    python benchmarks/doors.py                 200 texts for each model
    python benchmarks/doors.py --texts 20      a look

For each: what ``transformers`` reported of weights (nothing, or it failed), on how many texts the label, the likeliest
token or the text written is the same, and how far scores and vectors are apart (at most 1e-4).  Models are tiny and
random; the last rows are trained here.  The exit status is 1 unless all passed.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import transformers
from machine import facts, write

import headway

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "doors"))
from doors_kit import MODELS, Opened, made, open_all, prepared, texts

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


def trained(task: str, folder: Path) -> Path:
    """A small run of a task."""
    lines = texts(400)
    if task in ("language_modeling", "masked_lm"):
        file = folder / f"{task}.txt"
        file.write_text("".join(f"{line} {line}\n" for line in lines))
    else:
        file = folder / f"{task}.csv"
        if task == "classification":
            rows = [("text", "label"), *((line, "few" if len(line.split()) < 5 else "many") for line in lines)]
        else:
            rows = [("first", "second"), *((line, line.upper()) for line in lines)]
        file.write_text("".join(f"{one},{other}\n" for one, other in rows))
    options = {key: value for key, value in TINY.items() if task != "translation" or key != "length"}
    headway.train(file, out=folder / f"run-{task}", task=task, **options)
    return folder / f"run-{task}"


def main() -> None:
    """Make, export, open, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=200)
    count = parser.parse_args().texts
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="headway-doors-") as name:
        folder = Path(name)
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
        rows = [job.row for job in jobs]
    failed = [row for row in rows if not row["passed"]]
    found = {**facts(), "texts": count, "rows": rows, "passed": len(rows) - len(failed), "failed": len(failed)}
    found["versions"] = {**found["versions"], "transformers": transformers.__version__}
    write("doors", found)
    for row in failed:
        print(row)
    print(f"{len(rows) - len(failed)} of {len(rows)} doors open every weight and give the same answers")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
