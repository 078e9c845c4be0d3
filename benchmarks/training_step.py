"""A step of training that is timed: Headway's, as its loop computes it, and torch's, as its documentation writes it.

Both: loss, gradient, clipping at 1, torch's fused AdamW.  Each function gives a call that makes one step.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch
from headway.models.config import TransformerConfig
from headway.training.loop.thread_parallel import ThreadParallel, share_count
from headway.training.loop.trainer import divide_and_clip
from headway.training.objective import Objective
from headway.training.optimizers import optimizers

Step = Callable[[], None]


def gpt2_config(vocab: int, width: int, layers: int, heads: int, length: int) -> TransformerConfig:
    """GPT-2's parts in these sizes, without dropout."""
    sizes = {"vocab_size": vocab, "d_model": width, "n_layers": layers, "n_heads": heads, "max_length": length}
    return TransformerConfig(**sizes, positions="learned", norm="layernorm", activation="gelu_tanh", tied=True)


def of_headway(model: nn.Module, task: Objective, batch: Batch, precision: str, count: int | None = None) -> Step:
    """Of the training loop, in ``count`` shares, or in as many as its rule takes."""
    parameters = list(model.train().parameters())
    chosen = optimizers(model, "adamw", 1e-4, 0.01, precision=precision)
    by_rule = share_count(model, task, batch.places)
    print(f"headway: {sum(p.numel() for p in parameters):,} parameters, by rule {by_rule} shares", flush=True)

    def step() -> None:
        with ThreadParallel(count or by_rule) as shares:
            _, targets = shares.add_gradient(model, task, batch, precision, parameters)
        divide_and_clip(parameters, targets, 1.0)
        for optimizer in chosen:
            optimizer.step()
        for p in parameters:
            p.grad = None

    return step


def of_torch(model: nn.Module, loss: Callable[[], Tensor], precision: str, device: str = "cpu") -> Step:
    """Of a plain loop, in bfloat16 under autocast."""
    parameters = list(model.train().parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01, fused=True)
    print(f"{type(model).__module__.split('.')[0]}: {sum(p.numel() for p in parameters):,} parameters", flush=True)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            found = loss()
        found.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step
