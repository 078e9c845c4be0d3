"""What more time gives on a short text: the same command with 110 s, 5 and 10 minutes, by seed.

    python benchmarks/text_time.py TEXT FOLDER [TIME...]

TEXT is Tiny Shakespeare; its runs are kept in FOLDER, and those that are finished there are read, not made again.
Every run is `headway train TEXT --tokenizer char --time TIME --seed SEED` with nothing else said, so it must be alone
on the machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

from machine import facts, headway, write
from text_sizes import found

TIMES = ("110s", "5m", "10m")
SEEDS = range(3)


def run(text: Path, out: Path, time: str, seed: int) -> dict[str, Any]:
    """Train one, unless it is finished; its seconds, and what `found` reads."""
    kept = out.with_suffix(".json")
    if not kept.exists():
        words = [str(text), "--tokenizer", "char", "--time", time, "--seed", str(seed), "--out", str(out)]
        trained = headway("train", *words)
        kept.write_text(json.dumps({"wall": trained["wall"], "val_loss": trained["val_loss"]}), encoding="utf-8")
    return {"time": time, "seed": seed, **json.loads(kept.read_text(encoding="utf-8")), **found(out)}


def main() -> None:
    """All times, seed by seed."""
    text, folder = Path(sys.argv[1]), Path(sys.argv[2])
    times = sys.argv[3:] or list(TIMES)
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for seed in SEEDS:
        for time in times:
            results.append(run(text, folder / f"{time}-{seed}", time, seed))
            print(results[-1], flush=True)
            losses = {one: [each["val_loss"] for each in results if each["time"] == one] for one in times}
            means = {one: sum(values) / len(values) for one, values in losses.items() if values}
            write("text-time", {**facts(), "mean_val_loss": means, "runs": results})


if __name__ == "__main__":
    main()
