"""Train the same small decoder with each of the six position encodings, on the same text in the same order.

python examples/swap_positions.py notes.txt --steps 200
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from headway import Decoder, TransformerConfig
from headway.data.batches.batch_source import Position, Windows
from headway.models.config import Positions
from headway.models.initialise import initialise
from headway.text.train import train_tokenizer

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("text", type=Path, help="a text file")
parser.add_argument("--steps", type=int, default=200)
given = parser.parse_args()

text = given.text.read_text(encoding="utf-8")
tokenizer = train_tokenizer([text], "char")
tokens = np.array(tokenizer.encode(text))
train, held_out = tokens[: int(0.9 * len(tokens))], torch.tensor(tokens[int(0.9 * len(tokens)) :])

for kind in Positions.KINDS:
    config = TransformerConfig(
        tokenizer.vocab_size, d_model=64, n_layers=2, n_heads=2, max_length=64, positions=kind, tied=False
    )
    model = Decoder(config)
    initialise(model, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    windows, position = Windows(train, 64, seed=0), Position()
    for _ in range(given.steps):
        rows, position = windows.take(position, 16)
        ids = torch.from_numpy(rows)
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        ids = held_out[: 65 * (len(held_out) // 65)].view(-1, 65)[:32]
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    print(f"{kind:>10}: {loss.item():.3f} nats per character on held-out text")
