"""Which figure should choose the weights that a classifier keeps: accuracy on new rows, by rule.

    python benchmarks/best_checkpoint.py DATA

DATA holds trec/, sst2/ and reviews/.  Every run is `headway train` from scratch with its default label smoothing on
some rows of a training file, for 20 epochs with an evaluation after each; a tenth of the rows validates.  Each rule
chooses one of the 20 models by the validation rows alone, and the model is judged on 2,000 other rows of the same
training file.  No test file is read.  Each seed draws other rows.  Runs that are in the results are not made again.
"""

import csv
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from machine import RESULTS, facts, headway, write

from headway import load
from headway.tasks.losses import scores

FILES = {"trec": "trec/train.csv", "sst2": "sst2/train.csv", "airline": "reviews/airline-train.csv"}
SIZES, SEEDS, JUDGED, EPOCHS, SMOOTHING = (400, 2000), range(3), 2000, 20, 0.1
RULES = {
    "loss": lambda one: one["loss"],
    "smoothed loss": lambda one: one["smoothed_loss"],
    "accuracy, then loss": lambda one: (-one["accuracy"], one["loss"]),
    "accuracy, then smoothed loss": lambda one: (-one["accuracy"], one["smoothed_loss"]),
    "macro F1, then smoothed loss": lambda one: (-one["macro_f1"], one["smoothed_loss"]),
    "last": lambda one: -one["step"],
}
"""By name, the key whose minimum over the evaluations on the validation rows a rule chooses."""


def rows_of(path: Path) -> list[tuple[str, str]]:
    """The texts and labels of a file, each text once."""
    with path.open(encoding="utf-8", newline="") as file:
        return list({line["text"]: (line["text"], line["label"]) for line in csv.DictReader(file)}.values())


def saved(path: Path, rows: list[tuple[str, str]]) -> Path:
    """The file, written with these rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


def measured(model: Any, rows: list[tuple[str, str]]) -> dict[str, float]:
    """Accuracy, macro F1, and the loss in nats per text without and with smoothing."""
    log_p = model.probabilities([text for text, _ in rows]).double().clamp(min=1e-30).log().numpy()  # (N, C)
    targets = np.array([model.labels.index(label) for _, label in rows])
    plain = -log_p[np.arange(len(rows)), targets]
    smoothed = (1 - SMOOTHING) * plain - SMOOTHING * log_p.mean(axis=1)
    found = scores(targets, log_p.argmax(axis=1), model.labels)
    return {
        **{name: found[name] for name in ("accuracy", "macro_f1")},
        **{"loss": float(plain.mean()), "smoothed_loss": float(smoothed.mean())},
    }


def run(data: Path, name: str, size: int, seed: int) -> dict[str, Any]:
    """One run: every evaluation on the validation rows and on the rows that judge, and what each rule chose."""
    rows = rows_of(data / FILES[name])
    random.Random(seed).shuffle(rows)
    held_out, judged = rows[size * 9 // 10 : size], rows[size : size + JUDGED]
    evaluations = []
    with tempfile.TemporaryDirectory() as folder:
        train = saved(Path(folder) / "train.csv", rows[: size * 9 // 10])
        validation = saved(Path(folder) / "validation.csv", held_out)
        words = ["--epochs", str(EPOCHS), "--evaluations", str(EPOCHS), "--time", "3h", "--threads", "1", "--snapshots"]
        words += ["--seed", str(seed), "--label-smoothing", str(SMOOTHING), "--precision", "float32"]
        out = Path(folder) / "run"
        headway("train", str(train), "--validation", str(validation), *words, "--out", str(out))
        for snapshot in sorted(out.glob("snapshots/step-*"), key=lambda one: int(one.name.split("-")[1])):
            model: Any = load(snapshot, precision="float32")
            step = int(snapshot.name.split("-")[1])
            evaluations.append({"step": step, **measured(model, held_out), "judged": measured(model, judged)})
    best = min(evaluations, key=lambda one: -one["judged"]["accuracy"])
    chosen = {rule: min(evaluations, key=key) for rule, key in RULES.items()} | {"best on the judging rows": best}
    return {
        **{"data": name, "rows": size, "seed": seed, "evaluations": evaluations},
        "chosen": {rule: {"step": one["step"], **one["judged"]} for rule, one in chosen.items()},
    }


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each rule the means over two or more runs, and how far above those of "loss", with the standard error."""
    rows = []
    for rule in runs[0]["chosen"]:
        found: dict[str, Any] = {"rule": rule, "runs": len(runs)}
        for key in ("accuracy", "macro_f1", "loss"):
            values = np.array([one["chosen"][rule][key] for one in runs])
            apart = values - [one["chosen"]["loss"][key] for one in runs]
            mean, error = apart.mean(), apart.std(ddof=1) / len(apart) ** 0.5
            found |= {key: float(values.mean()), f"{key}_difference": float(mean), f"{key}_error": float(error)}
        found["share"] = float(np.mean([one["chosen"][rule]["step"] / one["evaluations"][-1]["step"] for one in runs]))
        rows.append(found)
    return rows


def main() -> None:
    """All runs that are not yet there."""
    data, path = Path(sys.argv[1]), RESULTS / "best-checkpoint.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
    known = {(one["data"], one["rows"], one["seed"]) for one in runs}
    for seed in SEEDS:
        for size in SIZES:
            for name in FILES:
                if (name, size, seed) not in known:
                    runs.append(run(data, name, size, seed))
                    print({key: runs[-1][key] for key in ("data", "rows", "seed", "chosen")}, flush=True)
                    write(
                        "best-checkpoint", {**facts(), "summary": summary(runs) if len(runs) > 1 else [], "runs": runs}
                    )


if __name__ == "__main__":
    main()
