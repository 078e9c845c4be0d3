"""Train an encoder of one layer to reverse a word, and print its attention weights.

python examples/look_at_attention.py
"""

import argparse

import torch
import torch.nn.functional as F

from headway import Encoder, TransformerConfig
from headway.models.analysis import attention_maps
from headway.models.heads import TokenHead

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--steps", type=int, default=300)
given = parser.parse_args()

torch.manual_seed(0)
config = TransformerConfig(16, d_model=32, n_layers=1, n_heads=2, max_length=8, positions="learned", tied=False)
model = Encoder(config)
model.head = TokenHead(config, model.stack.embedding.tokens)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(given.steps):
    ids = torch.randint(16, (64, 8))
    loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss after {given.steps} steps: {loss.item():.4f} nats per letter")

word = "notebook"
letters = sorted(set(word))
ids = torch.tensor([[letters.index(letter) for letter in word]])
print("output:", "".join(letters[min(i, len(letters) - 1)] for i in model(ids)[0].argmax(-1).tolist()))

maps = attention_maps(model, ids)["self"]  # one (B, H, T, S) for each layer
for head, weights in enumerate(maps[0][0]):
    print(f"head {head + 1}: rows are output letters, columns are the letters they attend to, in per cent")
    print("     " + "    ".join(word))
    for letter, row in zip(reversed(word), weights.tolist(), strict=True):
        print(letter, " ".join(f"{100 * weight:4.0f}" for weight in row))
