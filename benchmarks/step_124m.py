"""A training step of 124 M parameters, in turn with GPT-2 of `transformers`, both in bfloat16.

    python benchmarks/step_124m.py [ROUNDS]

Both: 12 layers, 768 wide, 12 heads, 50,304 tokens in the vocabulary, tied, no dropout; 2 sequences of 512 tokens; loss,
gradient, clipping and AdamW (torch's, fused).  Ours is the same architecture (GPT-2's parts), as the training loop of
`headway train` computes it, with the number of shares that its probe takes, and with 1 and 2 shares.  Medians of
interleaved steps.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from machine import facts, interleaved, spread, write
from transformers import GPT2Config, GPT2LMHeadModel

from headway.data.batches.batching import Batch
from headway.models.config import TransformerConfig
from headway.models.freed_memory import keep_freed_memory
from headway.models.initialise import initialise
from headway.models.transformer import Decoder
from headway.tasks.common.next_token import LanguageModeling
from headway.training.loop.thread_parallel import ThreadParallel, share_count
from headway.training.loop.trainer import divide_and_clip
from headway.training.optim.optimizers import optimizers

ROWS, LENGTH, VOCAB, WIDTH, LAYERS, HEADS = 2, 512, 50_304, 768, 12, 12


def ours(ids: torch.Tensor, count: int) -> Callable[[], None]:
    """A step of ours in so many shares."""
    config = TransformerConfig(
        vocab_size=VOCAB,
        d_model=WIDTH,
        n_layers=LAYERS,
        n_heads=HEADS,
        max_length=LENGTH,
        positions="learned",
        norm="layernorm",
        activation="gelu_tanh",
        tied=True,
    )
    model, task = initialise(Decoder(config), 0).train(), LanguageModeling()
    parameters = list(model.parameters())
    chosen = optimizers(model, "adamw", 1e-4, 0.01, precision="bfloat16")
    batch = Batch(ids[:, :-1].contiguous(), None, ids[:, 1:].contiguous())
    print(f"{sum(p.numel() for p in parameters):,} parameters; by rule {share_count(model, task, batch.places)} share")

    def step() -> None:
        with ThreadParallel(count) as shares:
            _, targets = shares.add_gradient(model, task, batch, "bfloat16", parameters)
        divide_and_clip(parameters, targets, 1.0)
        for optimizer in chosen:
            optimizer.step()
        for p in parameters:
            p.grad = None

    return step


def theirs(ids: torch.Tensor) -> Callable[[], None]:
    """A step of GPT2LMHeadModel under autocast, with the same optimiser."""
    none: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    sizes = {"n_positions": LENGTH, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, **sizes, **none)).train()
    parameters = list(model.parameters())
    print(f"{sum(p.numel() for p in parameters):,} parameters")
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01, fused=True)
    inputs = ids[:, :-1].contiguous()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(inputs, labels=inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    """Time all in turn."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    keep_freed_memory()
    ids = torch.randint(VOCAB, (ROWS, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    ways = {"ours, together": ours(ids, 1), "ours, two shares": ours(ids, 2), "transformers": theirs(ids)}
    found = {name: spread(times) for name, times in interleaved(ways, rounds).items()}
    for name, times in found.items():
        print(f"{name}: {times['median']:.2f} s ({times['min']:.2f} to {times['max']:.2f})")
    write("step-124m", {**facts(), "threads": torch.get_num_threads(), "seconds": found})


if __name__ == "__main__":
    main()
