"""The layouts of new models at equal time: three texts or tables, three seeds, the held-out loss of each run.

    python benchmarks/layouts.py text TEXT ... [--time 60s] [--seeds 3]       language models; TEXT: a file, or stdlib
    python benchmarks/layouts.py table TABLE ... [--time 60s] [--seeds 3]     classifiers

Every run is `headway train` in a process of its own; the layouts take turns, so that a slow spell of the machine hits
all alike.  Reported is by how much the loss of each is above that of the first layout, run by run, in nats a token or a
row.
"""

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

from machine import RESULTS, facts, headway, spread, write

from headway.data.samples import source_code
from headway.training.sizing.layouts import ENCODER_LAYOUTS, LAYOUTS

CHARACTERS = 4_000_000
"""Of the source code of Python."""
WAYS: dict[str, dict[str, tuple[str, ...]]] = {
    "text": {name: ("--tokenizer", "bpe", "--layout", name) for name in LAYOUTS},
    "table": {name: ("--layout", name) for name in ENCODER_LAYOUTS},
}
"""What each layout is asked for with."""


def main() -> None:
    """All layouts on all texts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=WAYS)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--time", default="60s")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    given = parser.parse_args()
    ways, runs = WAYS[given.kind], []
    with tempfile.TemporaryDirectory() as folder:
        for number, file in enumerate(given.files):
            shown = "/".join(file.parts[-2:])  # some data sets have the same names of files
            if shown == "stdlib":
                file = Path(folder) / "stdlib.txt"  # the source code of this Python
                file.write_text(source_code(CHARACTERS), encoding="utf-8")
            for seed in range(given.seeds):
                for name, words in ways.items():
                    out = str(Path(folder) / f"{number}-{seed}-{name}")
                    found = headway("train", str(file), *words, "--seed", str(seed), "--time", given.time, "--out", out)
                    runs.append({"file": shown, "seed": seed, "layout": name, **_of_interest(found)})
                    print(runs[-1], flush=True)
    first, *others = ways
    losses = {(run["file"], run["seed"], run["layout"]): run["val_loss"] for run in runs}
    each = [(run["file"], run["seed"]) for run in runs if run["layout"] == first]
    differences = {name: spread([losses[*one, name] - losses[*one, first] for one in each]) for name in others}
    for name, found in differences.items():
        print(f"{name} - {first}: {found['median']:+.4f} nats ({found['min']:+.4f} to {found['max']:+.4f})")
    assert all(math.isfinite(run["val_loss"]) for run in runs)
    write(f"layouts-{given.kind}", {**facts(), "nats_over": {first: differences}, "runs": runs}, given.out)


def _of_interest(found: dict[str, Any]) -> dict[str, Any]:
    keys = ("val_loss", "bits_per_byte", "accuracy", "parameters", "steps", "tokens", "tokens_per_second", "wall")
    return {key: found[key] for key in keys if key in found}


if __name__ == "__main__":
    main()
