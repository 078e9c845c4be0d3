"""Training speed of a translator against plain PyTorch, in target tokens per second.

    python benchmarks/translation_speed.py DATA [--rounds 3] [--steps 25]

The peer is torch.nn.Transformer of the same size (pre-norm, tied token vectors, sinusoids, label smoothing, dropout)
with torch's fused AdamW, eager and compiled.  All read the very same batches, sorted by length; each subject runs in a
process of its own, all in turn, and goes through its batches once before the clock starts, so that nothing is compiled
or touched for the first time after that.
"headway" is its training loop with AdamW, "headway, muon" with the optimiser that it chooses by itself.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from machine import facts, spread, write
from torch import Tensor, nn

from headway.data.batches.batch_source import Position, RowBatches
from headway.data.batches.batching import IGNORED
from headway.data.formats.aligned import read_aligned
from headway.data.records.text_pairs import read_text_pairs
from headway.io.memory import keep_freed_memory
from headway.models.config import Positions, TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import EncoderDecoder
from headway.tasks.rows import EncodedPairs, encoded_pairs
from headway.tasks.text_to_text.objective import Translation, shifted
from headway.text.train import train_tokenizer
from headway.training.loop.thread_parallel import ThreadParallel, share_count
from headway.training.loop.trainer import divide_and_clip
from headway.training.optimizers import optimizers, set_rate
from headway.training.sizing.translator import M2M100

SUBJECTS = ("headway", "headway, muon", "torch", "torch, compiled")
SIZE: dict[str, Any] = {"d_model": 128, "n_layers": 4, "n_heads": 4, "d_ff": 512, "dropout": 0.2}
VOCAB, BATCH_TOKENS, SMOOTHING, END, PAD = 8000, 4096, 0.1, 2, 1


class Plain(nn.Module):
    """What a PyTorch user would write."""

    def __init__(self, vocab: int):
        super().__init__()
        d = SIZE["d_model"]
        self.tokens = nn.Embedding(vocab, d)
        nn.init.normal_(self.tokens.weight, std=d**-0.5)
        self.network = nn.Transformer(
            d, SIZE["n_heads"], SIZE["n_layers"], SIZE["n_layers"], SIZE["d_ff"], SIZE["dropout"],
            norm_first=True, batch_first=True,
        )  # fmt: skip
        self.dropout = nn.Dropout(SIZE["dropout"])
        angles = torch.arange(512)[:, None] * torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], dim=1))

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.tokens(ids) * SIZE["d_model"] ** 0.5 + self.places[: ids.shape[1]])

    def forward(self, source: Tensor, target: Tensor, padding: Tensor | None) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        found = self.network(
            self.embed(source), self.embed(target), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return found @ self.tokens.weight.T


def pairs(data: Path) -> tuple[EncodedPairs, int]:
    """The training pairs as ids, and the size of their vocabulary."""
    table = read_aligned(*(data / "multi30k" / f"train.{side}.gz" for side in ("en", "de")))
    texts = read_text_pairs(table, "source", "target")
    words = train_tokenizer([*texts.sources, *texts.targets], "bpe", VOCAB, role="translator")
    return encoded_pairs(texts, words), words.vocab_size


def ours(vocab: int, kind: str):
    """A function that takes a step of Headway's loop."""
    keep_freed_memory()
    positions = Positions(**M2M100["positions"])
    config = TransformerConfig(vocab_size=vocab, max_length=256, **{**M2M100, "positions": positions}, **SIZE)
    model = initialise(EncoderDecoder(config), 0, embedding_std=config.d_model**-0.5).train()
    task = Translation(END, label_smoothing=SMOOTHING)
    chosen = optimizers(model, kind, 1e-3, 0.0)
    parameters = [p for p in model.parameters() if p.requires_grad]
    shares = ThreadParallel(share_count(model, task, BATCH_TOKENS))

    def step(batch: Any) -> None:
        set_rate(chosen, 1.0)
        _, count = shares.add_gradient(model, task, batch, "float32", parameters)
        divide_and_clip(parameters, count, 1.0)
        for optimizer in chosen:
            optimizer.step()
        for p in parameters:
            p.grad = None

    return step


def theirs(vocab: int, compiled: bool):
    """A function that takes a step of plain PyTorch."""
    model = Plain(vocab).train()
    network = torch.compile(model, dynamic=True) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), fused=True)

    def step(batch: Any) -> None:
        padding = None if batch.mask is None else ~batch.mask
        logits = network(batch.ids, shifted(batch.targets, END), padding)
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, label_smoothing=SMOOTHING
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def measure(subject: str, data: Path, steps: int) -> float:
    """Target tokens per second of one subject in this process."""
    torch.manual_seed(0)
    rows, vocab = pairs(data)
    batch_source, position = (
        RowBatches(rows.examples, rows.examples, BATCH_TOKENS, seed=0),
        Position(),
    )
    step = (
        theirs(vocab, "compiled" in subject)
        if "torch" in subject
        else ours(vocab, ("adamw", "muon")["muon" in subject])
    )
    batches = []
    for _ in range(steps):
        batch, position = batch_source.next(position)
        batches.append(batch)
    for _ in ("unmeasured", "measured"):
        began = time.perf_counter()
        for batch in batches:
            step(batch)
        seconds = time.perf_counter() - began
    return sum(batch.tokens for batch in batches) / seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--subject", choices=SUBJECTS)
    given = parser.parse_args()
    if given.subject:
        print(json.dumps(measure(given.subject, given.data, given.steps)))
        sys.exit()
    rates: dict[str, list[float]] = {subject: [] for subject in SUBJECTS}
    for _ in range(given.rounds):
        for subject in SUBJECTS:
            command = [sys.executable, __file__, str(given.data), "--steps", str(given.steps), "--subject", subject]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rates[subject].append(json.loads(done.stdout.splitlines()[-1]))
            print(subject, round(rates[subject][-1]), flush=True)
    best = [max(rates["torch"][i], rates["torch, compiled"][i]) for i in range(given.rounds)]
    ratios = {name: spread([a / b for a, b in zip(rates[name], best, strict=True)]) for name in SUBJECTS[:2]}
    result = {"target_tokens_per_second": {name: spread(found) for name, found in rates.items()}}
    write("translation-speed", {**facts(), **result, "over_the_better_of_torch": ratios})
