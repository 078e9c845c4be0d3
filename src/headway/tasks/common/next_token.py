"""Predict the next token; where targets are masked, some of them."""

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batching import IGNORED, Batch
from headway.nn.kernels.dispatch import cross_entropy, unsmoothed
from headway.tasks.common.row_loss import row_losses
from headway.text.tokenizer import Tokenizer


def bytes_per_token(n_bytes: int, n_tokens: int, n_unknown: int) -> float | None:
    """The mean of a text; None, with a warning, where the tokenizer cannot write it back."""
    if n_unknown:
        share = f"{n_unknown:,} of {n_tokens:,} tokens to measure are unknown text"
        warnings.warn(f"{share}, whose characters no loss counts: bits per byte are not given", stacklevel=3)
        return None
    return max(1, n_bytes) / max(1, n_tokens)


def unknown_in(rows: Iterable[Any], tokenizer: Tokenizer) -> int:
    """How many tokens of some rows of ids are unknown text."""
    unknown = tokenizer.unknown
    if unknown is None or unknown in (tokenizer.end_of_text, tokenizer.begin_of_text, tokenizer.pad):
        return 0  # GPT-2 names the token that ends a text, since it knows every byte
    return sum(int(np.count_nonzero(np.asarray(row) == unknown)) for row in rows)


class LanguageModeling:
    """Next-token prediction for a decoder.

    ``bytes_per_token`` of the validation text turns nats per token into bits per byte, which does not depend on the
    tokenizer; it is None where tokens are unknown text, whose characters the loss does not count.
    """

    by_rows = True

    def __init__(self, bytes_per_token: float | None = 1.0, label_smoothing: float = 0.0):
        self.bytes_per_token = bytes_per_token
        self.label_smoothing = label_smoothing

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int, Tensor]:
        """The smoothed sum of -ln p over all targets but those that are ``IGNORED``, in nats, their number, and the sum
        without smoothing.

        Only the positions of those targets go through the V-wide head.
        """
        logits, targets = self._predict(model, batch)
        smoothing = self.label_smoothing if model.training else 0.0
        loss = cross_entropy(logits, targets, smoothing)
        return loss, len(targets), unsmoothed(loss, logits, targets, smoothing)

    @staticmethod
    def _predict(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits (N, V) in float32 where a target is wanted, and those targets (N,)."""
        wanted = batch.targets != IGNORED
        whole = bool(wanted.all())
        logits = model(batch.ids, batch.mask, chosen=None if whole else wanted).float()  # (B, T, V) or (N, V)
        return logits.flatten(0, -2), batch.targets[wanted]

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """val_loss (nats per token), perplexity, bits_per_byte: every target of every batch counted once."""
        total, count = 0.0, 0
        for batch in batches:
            logits, targets = self._predict(model, batch)
            rows = row_losses(logits, targets, batch.targets != IGNORED)
            total, count = total + float(rows[:, 0].sum()), count + len(targets)
            if each is not None:
                each.append(rows)
        loss_per_token, each_token = total / count, self.bytes_per_token
        return {
            "val_loss": loss_per_token,
            "perplexity": math.exp(min(loss_per_token, 700.0)),
            "bits_per_byte": None if each_token is None else loss_per_token / math.log(2) / each_token,
        }

    def cost(self, metrics: dict[str, Any]) -> float:
        """The loss."""
        return float(metrics["val_loss"])
