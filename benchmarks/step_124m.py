"""A training step of 124 M parameters, in turn with GPT-2 of `transformers`, both in bfloat16.

    python benchmarks/step_124m.py [ROUNDS]

Both: 12 layers, 768 wide, 12 heads, 50,304 tokens in the vocabulary, tied, no dropout; 2 sequences of 512 tokens; loss,
gradient, clipping and AdamW (torch's, fused).  Ours is the same architecture (GPT-2's parts), as the training loop of
`headway train` computes it, with the number of shares that its probe takes, and with 1 and 2 shares.  Medians of
interleaved steps.
"""

import sys

import torch
from machine import facts, interleaved, spread, write
from training_step import Step, gpt2_config, of_headway, of_torch
from transformers import GPT2Config, GPT2LMHeadModel

from headway.data.batches.batching import Batch, TargetKind
from headway.io.memory import keep_freed_memory
from headway.models.initialise import initialise
from headway.models.transformer import Decoder
from headway.tasks.losses import LanguageModeling

ROWS, LENGTH, VOCAB, WIDTH, LAYERS, HEADS = 2, 512, 50_304, 768, 12, 12


def ours(ids: torch.Tensor, count: int) -> Step:
    """A step of ours in so many shares."""
    model = initialise(Decoder(gpt2_config(VOCAB, WIDTH, LAYERS, HEADS, LENGTH)), 0)
    batch = Batch({"ids": ids[:, :-1].contiguous()}, None, ids[:, 1:].contiguous(), TargetKind.TOKEN)
    return of_headway(model, LanguageModeling(), batch, "bfloat16", count)


def theirs(ids: torch.Tensor) -> Step:
    """A step of GPT2LMHeadModel."""
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    sizes = {"n_positions": LENGTH, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, **sizes, **none))
    inputs = ids[:, :-1].contiguous()
    return of_torch(model, lambda: model(inputs, labels=inputs).loss, "bfloat16")


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
