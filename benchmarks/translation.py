"""Multi30k, English to German: one `headway train` command on raw text, measured on test2016.

    python benchmarks/translation.py DATA [20m] [60m] [--options ...]

DATA holds multi30k/.  Settings were chosen on val; test2016 is read by `headway evaluate` alone.  BLEU is sacrebleu's,
cased and of detokenised text; bleu_lowercase is what the literature on this set reports.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from fine_tune import headway
from machine import facts, write

TIMES = ("20m", "60m")


def run(data: Path, time: str, folder: Path, more: list[str]) -> dict[str, Any]:
    """One run, and what it reaches on the held-out and on the test pairs."""
    train, val, test = ([str(data / "multi30k" / f"{name}.{side}.gz") for side in ("en", "de")] for name in PARTS)
    out = str(folder / time)
    found = headway("train", *train, "--validation", *val, "--time", time, "--out", out, *more)
    result = {key: found[key] for key in ("val_loss", "parameters", "steps", "tokens", "tokens_per_second", "wall")}
    for name, files in (("val", val), ("test2016", test)):
        measured = headway("evaluate", out, *files)
        keys = ("val_loss", "bleu", "bleu_lowercase", "chrf", "examples", "signatures")
        result[name] = {key: measured[key] for key in keys}
    return result


PARTS = ("train", "val", "test2016")

if __name__ == "__main__":
    data, words = Path(sys.argv[1]), sys.argv[2:]
    times = [word for word in words if not word.startswith("--") and word in TIMES] or list(TIMES)
    more = words[len([word for word in words if word in TIMES]) :]
    for time in times:
        with tempfile.TemporaryDirectory() as place:
            result = run(data, time, Path(place), more)
        print(time, result, flush=True)
        task = f"headway train train.en.gz train.de.gz --validation val.en.gz val.de.gz --time {time}"
        write(f"translation-{time}", {**facts(), "task": " ".join([task, *more]), "results": result})
