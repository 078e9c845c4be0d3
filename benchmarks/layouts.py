"""The layouts of a language model at equal time: three texts, three seeds, the held-out loss of each run.

    python benchmarks/layouts.py TEXT ... [--time 60s] [--seeds 3] [--tokenizer bpe]      TEXT: a file, or stdlib

Every run is `headway train TEXT --layout NAME --time TIME` in a process of its own; the layouts take turns, so that a
slow spell of the machine hits all alike.  Reported is by how much the loss of each is above that of the first layout,
run by run, in nats a token.
"""

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

from machine import RESULTS, facts, headway, spread, write

from headway.data.samples.python_texts import source_code
from headway.training.sizing.layouts import LAYOUTS

CHARACTERS = 4_000_000
"""Of the source code of Python."""


def main() -> None:
    """All layouts on all texts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--time", default="60s")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tokenizer", default="bpe")
    parser.add_argument("--layouts", nargs="*", default=list(LAYOUTS))
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    given = parser.parse_args()
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for text in given.texts:
            if str(text) == "stdlib":
                text = Path(folder) / "stdlib.txt"  # the source code of this Python
                text.write_text(source_code(CHARACTERS), encoding="utf-8")
            for seed in range(given.seeds):
                for name in given.layouts:
                    out = str(Path(folder) / f"{text.stem}-{seed}-{name}")
                    words = ("--layout", name, "--tokenizer", given.tokenizer, "--seed", str(seed))
                    found = headway("train", str(text), *words, "--time", given.time, "--out", out)
                    keys = ("val_loss", "bits_per_byte", "parameters", "steps", "tokens", "tokens_per_second", "wall")
                    runs.append({"text": text.name, "seed": seed, "layout": name, **{key: found[key] for key in keys}})
                    print(runs[-1], flush=True)
    first, *others = given.layouts
    losses = {(run["text"], run["seed"], run["layout"]): run["val_loss"] for run in runs}
    each = [(run["text"], run["seed"]) for run in runs if run["layout"] == first]
    differences = {name: spread([losses[*one, name] - losses[*one, first] for one in each]) for name in others}
    for name, found in differences.items():
        print(f"{name} - {first}: {found['median']:+.4f} nats a token ({found['min']:+.4f} to {found['max']:+.4f})")
    assert all(math.isfinite(run["val_loss"]) for run in runs)
    write("layouts", {**facts(), "nats_a_token_over": {first: differences}, "runs": runs}, given.out)


if __name__ == "__main__":
    main()
