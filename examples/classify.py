"""Train a classifier on a table of texts and labels, and print its scores for each class and for new texts.

python examples/classify.py reviews.csv --steps 200
"""

import argparse

import headway
from headway.workflows.evaluate import evaluate

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("table", help="a .csv, .tsv or .jsonl file with a column of texts and a column of labels")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", default="runs/example-table")
given = parser.parse_args()

run = headway.train(given.table, steps=given.steps, preset="tiny", out=given.out, quiet=True)
print(f"accuracy {run['accuracy']:.3f}, macro F1 {run['macro_f1']:.3f} on the held-out rows")
for baseline in run["baselines"]:
    print(f"  {baseline['name']}: {baseline['accuracy']:.3f}")

found = evaluate(given.out)
for label, scores in found["per_class"].items():
    print(f"{label}: precision {scores['precision']:.2f}, recall {scores['recall']:.2f}, {scores['support']} rows")

classify = headway.load(given.out)
for text in ("the lamp is great", "the cable is broken", "the lid is great and the case is broken"):
    answer = classify(text)
    print(f"{answer['label']} ({answer['score']:.2f}): {text}")
