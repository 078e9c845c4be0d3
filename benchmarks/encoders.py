"""An encoder trained from nothing on Python's own source, and a published one trained on pairs made from it.

    python benchmarks/encoders.py masked
    python benchmarks/encoders.py pairs MODEL

"masked": `headway train` hides tokens of the standard library's source for five minutes; its loss on held-out source is
compared with the entropy of single tokens, and `headway fill` fills lines that the library does not have.  "pairs":
`headway train --from MODEL` learns which sentence describes which function (docstrings and names from the same source)
for two minutes; the ranking of held-out pairs is compared with MODEL's before training.
"""

import ast
import csv
import json
import random
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from machine import facts, headway, write

from headway.data.samples import source_code, source_files

LINES = (
    "import [MASK]",
    "for i in [MASK](10):",
    "if isinstance(value, [MASK]):",
    "def __init__([MASK], name):",
    "        raise [MASK](f'unknown option {name}')",
    "    except [MASK] as error:",
)
EVERYTHING = 10**9
"""More characters than there are."""


def masked(folder: Path) -> dict[str, Any]:
    """Loss, the entropy of single tokens, and the three likeliest fillings of each line."""
    text, run = folder / "source.txt", folder / "run"
    text.write_text(source_code(EVERYTHING), encoding="utf-8")
    found = headway("train", str(text), "--task", "masked_lm", "--time", "5m", "--out", str(run))
    single = min(entry["val_loss"] for entry in found["baselines"])
    answers = {line: headway("fill", str(run), line, "--k", "3") for line in LINES}
    for answer in answers.values():
        answer.pop("wall")
    return {
        "task": "headway train source.txt --task masked_lm --time 5m; headway fill RUN LINE --k 3",
        "characters": text.stat().st_size,
        "nats_below_single_tokens": single - found["val_loss"],
        **{key: found[key] for key in ("val_loss", "accuracy", "baselines", "parameters", "steps", "tokens", "wall")},
        "fill": answers,
    }


def pairs(model: str, folder: Path) -> dict[str, Any]:
    """Mean reciprocal rank of the right function among all held-out ones, before and after training."""
    file, run = folder / "pairs.csv", folder / "run"
    rows = described_functions()
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([("description", "function"), *rows])
    found = headway("train", str(file), "--task", "embedding", "--from", model, "--time", "2m", "--out", str(run))
    keys = ("val_loss", "baselines", "steps", "wall")
    metrics = json.loads((run / "headway.json").read_text(encoding="utf-8"))["metrics"]
    return {
        "task": "headway train pairs.csv --task embedding --from MODEL --time 2m",
        "pairs": len(rows),
        "mrr": metrics["mrr"],
        **{key: found[key] for key in keys},
    }


def described_functions() -> list[tuple[str, str]]:
    """(first sentence of the docstring, name in words) of the standard library's functions, each name once."""
    found: dict[str, str] = {}
    for path in source_files():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                first = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ").strip()
                if len(first) > 20:
                    found.setdefault(" ".join(words_of(node.name)), first)
    rows = [(description, name) for name, description in sorted(found.items())]
    random.Random(0).shuffle(rows)
    return rows


def words_of(name: str) -> list[str]:
    """The words that a name is made of: read_text and readText are "read" and "text"."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)] or [name]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        result = masked(Path(place)) if sys.argv[1] == "masked" else pairs(sys.argv[2], Path(place))
    print(result)
    write(f"encoders-{sys.argv[1]}", {**facts(), **result})
