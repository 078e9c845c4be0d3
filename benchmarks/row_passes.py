"""How often a classifier from scratch should go through its rows: accuracy on held-out rows, by passes.

    python benchmarks/row_passes.py DATA [NAME...]

DATA holds reviews/, sst2/ and trec/.  Every run is `headway train FILE --epochs N` with nothing else said but a time
that is long enough; its rate falls over those passes.  SST-2 is validated by its own file, of the others a tenth is
held out.  No test file is read.  Runs that are in results/row-passes.json already are not made again.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import RESULTS, facts, headway, write

FILES = {
    "customer": ("reviews/customer-train.csv", None),
    "sst2": ("sst2/train.csv", "sst2/dev.csv"),
    "trec": ("trec/train.csv", None),
    "airline": ("reviews/airline-train.csv", None),
}
EPOCHS = (20, 8, 4, 12)
SEEDS = range(3)


def run(data: Path, name: str, epochs: int, seed: int) -> dict[str, Any]:
    """One run: where its best model was found, and what that reaches on the held-out rows."""
    train, dev = FILES[name]
    held_out = [] if dev is None else ["--validation", str(data / dev)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = [str(data / train), *held_out, "--epochs", str(epochs), "--seed", str(seed), "--time", "3h"]
        found = headway("train", *words, "--split-seed", "0", "--out", str(out))
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    evaluations = [line for line in lines if line["event"] == "evaluation"]
    best = [line for line in evaluations if line["best"]][-1]
    return {
        "data": name,
        "epochs": epochs,
        "seed": seed,
        "accuracy": best["accuracy"],
        "val_loss": best["val_loss"],
        "losses": [line["val_loss"] for line in evaluations],
        "best_pass": epochs * best["step"] / found["steps"],
        "last_accuracy": evaluations[-1]["accuracy"],
        "steps": found["steps"],
    }


def main() -> None:
    """All runs that are not yet there."""
    data, names = Path(sys.argv[1]), sys.argv[2:] or list(FILES)
    path = RESULTS / "row-passes.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
    known = {(one["data"], one["epochs"], one["seed"]) for one in runs}
    for seed in SEEDS:
        for name in names:
            for epochs in EPOCHS:
                if (name, epochs, seed) not in known:
                    runs.append(run(data, name, epochs, seed))
                    print(runs[-1], flush=True)
                    write("row-passes", {**facts(), "runs": runs})


if __name__ == "__main__":
    main()
