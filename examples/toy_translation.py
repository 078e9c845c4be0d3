"""Watch cross-attention learn an alignment: copy a word, reverse it, or write a date in ISO form.

python examples/toy_translation.py reverse
"""

import argparse
from pathlib import Path

import headway
from headway.data.samples import TOYS

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("task", nargs="?", default="reverse", choices=sorted(TOYS))
parser.add_argument("--pairs", type=int, default=20_000)
parser.add_argument("--time", default="60s")
parser.add_argument("--out", default="runs/toy")
given = parser.parse_args()

folder = Path(given.out)
folder.mkdir(parents=True, exist_ok=True)
table = folder / f"{given.task}.tsv"
pairs = TOYS[given.task](given.pairs, 0)
table.write_text("source\ttarget\n" + "".join(f"{source}\t{target}\n" for source, target in pairs))

run = headway.train(
    table, task="translation", tokenizer="char", d_model=64, layers=2, dropout=0.0, time=given.time,
    out=folder / given.task, quiet=True,
)  # fmt: skip
print(f"{run['steps']:,} steps: {run['accuracy']:.1%} of the next characters in the held-out pairs are right")

translate = headway.load(folder / given.task)
texts = {"copy": ["headway"], "reverse": ["headway"], "dates": ["Friday, 3 Mar 1911", "March 3, 2011"]}[given.task]
for text in texts:
    answer = translate.hypotheses([text], beam=1, alignment=True)[0][0]
    print(f"\n{text} -> {answer['text']}")
    print("\n".join(answer["alignment"].picture()))
