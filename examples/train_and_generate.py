"""Train a small language model on a text file, and continue a line with it.

python examples/train_and_generate.py notes.txt --steps 300
"""

import argparse
from pathlib import Path

import headway

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("text", help="a text file")
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--out", default="runs/example-text")
given = parser.parse_args()

run = headway.train(given.text, steps=given.steps, preset="tiny", out=given.out, quiet=True)
print(f"loss on the held-out part: {run['val_loss']:.3f} nats per token")
for baseline in run["baselines"]:
    print(f"  {baseline['name']}: {baseline['val_loss']:.3f}")

model = headway.load(given.out)
prompt = Path(given.text).read_text(encoding="utf-8").strip()[:12]
print(prompt, end="")
for piece in model.stream(prompt, max_tokens=60, temperature=0.8, seed=1):
    print(piece, end="", flush=True)
print()
