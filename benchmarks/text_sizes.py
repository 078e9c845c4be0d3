"""Size, dropout, weight decay and passes of a short text: validation loss under a fixed number of steps.

    python benchmarks/text_sizes.py TEXT FOLDER [whole|quarter]

TEXT is Tiny Shakespeare; its runs are kept in FOLDER, and those that are finished there are read, not made again.
Steps do not depend on how busy the machine is; those of "whole" are what --time 110s, 5m and 10m allow for each size on
two quiet cores with bfloat16 (30,000 tokens a second of 1.25 M parameters; others by the seconds that their steps took
in turn).  "quarter" is the same in small: a quarter of the text and of the parameters, and a quarter or half of the
batch, so that passes and parameters for each token are alike at a sixteenth of the cost.  Held out is always text that
no run trains on.
"""

import json
import sys
from pathlib import Path
from typing import Any

from machine import facts, headway, write

Regularisation = tuple[tuple[float, float], ...]
WHOLE: tuple[tuple[str, int, int, int, int, Regularisation], ...] = (
    # time, width, layers, tokens of a batch, steps, (dropout, weight decay)
    ("110s", 128, 3, 2048, 2640, ((0.0, 0.0), (0.0, 0.05))),
    ("5m", 160, 4, 4096, 2100, ((0.0, 0.0), (0.0, 0.1))),
    ("10m", 160, 4, 4096, 4270, ((0.05, 0.1),)),
)
QUARTER: tuple[tuple[str, int, int, int, int, Regularisation], ...] = (
    ("5m", 96, 3, 2048, 1068, ((0.0, 0.0), (0.0, 0.1), (0.02, 0.1), (0.05, 0.0))),
    ("10m", 96, 3, 2048, 2136, ((0.0, 0.1), (0.0, 0.3), (0.05, 0.0), (0.05, 0.1), (0.05, 0.2))),
    ("10m", 96, 3, 2048, 2136, ((0.1, 0.0), (0.2, 0.0))),
    ("10m", 96, 3, 1024, 4270, ((0.0, 0.0),)),
)
TRAINED, MEASURED = 250_000, 60_000
"""Characters of "quarter": the last of the training part, and the first of the held-out part."""


def quarter(text: Path, folder: Path) -> tuple[Path, list[str]]:
    """A quarter of the training part as a file, and the options that validate by text beyond it."""
    whole = text.read_text(encoding="utf-8")
    cut = int(0.9 * len(whole))
    train, held_out = folder / "quarter.txt", folder / "held-out.txt"
    train.write_text(whole[cut - TRAINED : cut], encoding="utf-8")
    held_out.write_text(whole[cut : cut + MEASURED], encoding="utf-8")
    return train, ["--validation", str(held_out)]


def run(data: Path, out: Path, case: tuple[Any, ...], dropout: float, decay: float, more: list[str]) -> None:
    """Train one, unless it is finished."""
    _, width, layers, batch, steps, _ = case
    if out.exists() and json.loads((out / "headway.json").read_text(encoding="utf-8")).get("finished"):
        return
    sizes = ["--d-model", str(width), "--layers", str(layers), "--length", "256", "--batch-tokens", str(batch)]
    words = [str(data), "--tokenizer", "char", "--steps", str(steps), *sizes, *more]
    headway("train", *words, "--dropout", str(dropout), "--weight-decay", str(decay), "--out", str(out))


def found(out: Path) -> dict[str, Any]:
    """What a finished run says: its size, its passes, the best and the last loss."""
    info = json.loads((out / "headway.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = [line["val_loss"] for line in lines if line["event"] == "evaluation"]
    steps = [line["loss"] for line in lines if line["event"] == "step"]
    plan, tokens = info["plan"], int(info["data"]["train"].split()[0].replace(",", ""))
    return {
        **{name: plan["model"][name] for name in ("d_model", "n_layers", "dropout")},
        **{name: plan[name] for name in ("weight_decay", "batch_tokens")},
        **{name: info[name] for name in ("parameters", "steps")},
        "passes": info["steps"] * plan["batch_tokens"] / tokens,
        "parameters_per_token": info["parameters"] / tokens,
        **{"best_val_loss": min(losses), "last_val_loss": losses[-1], "last_train_loss": sum(steps[-10:]) / 10},
    }


def main() -> None:
    """All cases of one kind."""
    text, folder = Path(sys.argv[1]), Path(sys.argv[2])
    kind = sys.argv[3] if len(sys.argv) > 3 else "whole"
    folder.mkdir(parents=True, exist_ok=True)
    data, more = quarter(text, folder) if kind == "quarter" else (text, [])
    results = []
    for case in QUARTER if kind == "quarter" else WHOLE:
        for dropout, decay in case[-1]:
            out = folder / f"{kind}-{case[0]}-{case[1]}-{case[3]}-{dropout:g}-{decay:g}"
            run(data, out, case, dropout, decay, more)
            results.append({"time": case[0], **found(out)})
            print(results[-1], flush=True)
            write(f"text-sizes-{kind}", {**facts(), "runs": results})


if __name__ == "__main__":
    main()
