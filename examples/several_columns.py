"""Learn several columns of one table, a class, a rating and a number, and answer for a data frame.

python examples/several_columns.py --steps 200

The tickets are made up here.  A file of yours, .xlsx too, is named in place of the frame.
"""

import argparse
import random

import pandas as pd

import headway

PARTS = {"bag": ("luggage", 90), "seat": ("booking", 40), "flight": ("delays", 250), "meal": ("service", 15)}
MOODS = {"thank you, it was great": 5, "it was fine": 3, "a great pity": 2, "never again": 1}

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--out", default="runs/example-columns")
given = parser.parse_args()

draw = random.Random(0)
rows = []
for number in range(400):
    (part, (queue, cost)), (mood, stars) = draw.choice([*PARTS.items()]), draw.choice([*MOODS.items()])
    text = f"ticket {number} about my {part}: {mood}"
    rows.append({"text": text, "queue": queue, "stars": stars, "refund": cost * draw.uniform(0.9, 1.1)})
    if number % 5 == 0:
        rows[-1]["refund"] = None  # not decided yet: this row teaches the other columns
tickets = pd.DataFrame(rows)

run = headway.train(
    tickets, label_column="queue,stars,refund", steps=given.steps, preset="tiny", out=given.out, quiet=True
)
for column, metrics in run["columns"].items():
    shown = {name: round(value, 3) for name, value in metrics.items() if isinstance(value, float)}
    print(f"{column}, as {metrics['task']}: {shown}")

predict = headway.load(given.out)
new = pd.DataFrame({"text": ["about my bag: never again", "about my meal: it was fine"]}, index=[17, 42])
print(predict(new["text"][17]))
print(predict.predict(new).to_string())
