"""Train a decoder of two layers to repeat a sequence, and watch its induction heads appear.

python examples/induction_heads.py
"""

import argparse

import torch
import torch.nn.functional as F

from headway import Decoder, TransformerConfig
from headway.models.analysis import attention_maps, head_statistics, induction_scores

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--steps", type=int, default=400)
given = parser.parse_args()

torch.manual_seed(0)
config = TransformerConfig(32, d_model=64, n_layers=2, n_heads=2, max_length=48, positions="rotary", tied=False)
model = Decoder(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


def rows(heads: torch.Tensor) -> str:
    return " | ".join(" ".join(f"{score:.2f}" for score in layer) for layer in heads.tolist())


for step in range(given.steps):
    length = int(torch.randint(8, 25, ()))
    once = torch.stack([torch.randperm(32)[:length] for _ in range(32)])
    ids = torch.cat([once, once], dim=1)  # (B, T): the first half predicts the second
    loss = F.cross_entropy(model(ids)[:, length:-1].flatten(0, 1), ids[:, length + 1 :].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % 100 == 0 or step + 1 == given.steps:
        before = head_statistics(attention_maps(model, ids)["self"])["previous_token"].mean(dim=1)  # (L, H)
        print(f"step {step + 1}: loss {loss.item():.3f} nats; layer 1 | layer 2, one number for each head")
        print(f"  weight on the previous token:                {rows(before)}")
        print(f"  weight on the token that followed last time: {rows(induction_scores(model))}")
