"""Multi30k, English to German: one `headway train` command on raw text, measured on test2016.

    python benchmarks/translation.py DATA TIME [--name NAME] [--out FOLDER] [OPTIONS OF TRAIN ...]

DATA holds multi30k/, TIME is 20m, 60m or another.  Settings were chosen on val; test2016 is read by `headway evaluate`
alone.  BLEU is sacrebleu's, cased and of detokenised text; bleu_lowercase is what the literature on this set reports.
The result is translation-TIME.json, or translation-TIME-NAME.json.  The run is kept in FOLDER, if one is named; a
complete run that lies there is measured and not trained again.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from machine import facts, headway, write

PARTS = ("train", "val", "test2016")


def run(data: Path, time: str, out: str, more: list[str]) -> dict[str, Any]:
    """One run, and what it reaches on the held-out and on the test pairs."""
    train, val, test = ([str(data / "multi30k" / f"{name}.{side}.gz") for side in ("en", "de")] for name in PARTS)
    found = headway("train", *train, "--validation", *val, "--time", time, "--out", out, *more)
    result = {key: found[key] for key in ("val_loss", "parameters", "steps", "tokens", "tokens_per_second", "seconds")}
    for name, files in (("val", val), ("test2016", test)):
        measured = headway("evaluate", out, *files)
        keys = ("val_loss", "bleu", "bleu_lowercase", "chrf", "examples", "signatures")
        result[name] = {key: measured[key] for key in keys}
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("time")
    parser.add_argument("--name")
    parser.add_argument("--out")
    given, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as place:
        result = run(given.data, given.time, given.out or str(Path(place) / "run"), more)
    print(result)
    words = ["headway train train.en.gz train.de.gz --validation val.en.gz val.de.gz --time", given.time, *more]
    name = "-".join(["translation", given.time, *([given.name] if given.name else [])])
    write(name, {**facts(), "task": " ".join(words), "results": result})
