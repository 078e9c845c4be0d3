"""A scaling law on one text: the verb `scale`, its result and its pictures, kept.

python benchmarks/scaling.py TEXT --time 40m --out runs/scaling
python benchmarks/scaling.py stdlib --time 40m --out runs/scaling     the source code of this Python

Writes benchmarks/results/scaling-NAME.json and docs/pictures/scaling-loss.svg, -compute.svg, -optimal.svg and
-abilities.svg.  The same command goes on with a study that was stopped.
"""

import argparse
import shutil
from pathlib import Path

from machine import PICTURES, RESULTS, facts, headway, write

from headway.data.samples import source_code

CHARACTERS = 40_000_000
"""Of the standard library's source, at most: more than it has."""


def main() -> None:
    """Run the verb and keep what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="a file, or stdlib")
    parser.add_argument("--time", default="40m")
    parser.add_argument("--out", type=Path, default=Path("runs/scaling"))
    parser.add_argument("--tokenizer", default="char")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    given = parser.parse_args()
    text, name = given.text, Path(given.text).stem
    if given.text == "stdlib":
        given.out.mkdir(parents=True, exist_ok=True)
        text = str(given.out / "stdlib.txt")
        if not Path(text).exists():
            Path(text).write_text(source_code(CHARACTERS), encoding="utf-8")
    more = ["--time", given.time, "--out", str(given.out / name), "--tokenizer", given.tokenizer]
    found = headway("scale", text, *more, "--probe", "induction,fewshot", "--predict", "1e18")
    found = {key: value for key, value in found.items() if key not in ("out", "plots")}
    write(f"scaling-{name}", {**facts(), **found}, given.results)
    for picture in ("loss", "compute", "optimal", "abilities"):
        shutil.copyfile(given.out / name / f"{picture}.svg", given.pictures / f"scaling-{picture}.svg")
    last = found["held_out"]
    print(f"foretold {last['predicted']:.4f}, measured {last['measured']:.4f}: {last['error']:.2%} off")


if __name__ == "__main__":
    main()
