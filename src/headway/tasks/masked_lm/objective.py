"""Fill in hidden tokens (masked language modelling; Devlin et al. 2018, 3.1).

Letters: B batch, T length, N hidden tokens, V vocabulary.
"""

import math
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch
from headway.nn.kernels.dispatch import cross_entropy
from headway.nn.kernels.dropout import generator
from headway.tasks.count_baselines import mean_loss, unigrams
from headway.tasks.losses import TokenLoss
from headway.text.tokenizer import Tokenizer

SHARE = 0.15
"""The share of tokens to be predicted with a published model, as most were trained."""
MASKED, RANDOM = 0.8, 0.1
"""Of the tokens to be predicted, these shares are replaced by [MASK] and by any token; the rest stays as it is."""
LARGEST_SHARE = 0.8


class MaskedLM(TokenLoss):
    """Prediction of hidden tokens from those on both sides.

    ``share`` of the tokens is to be predicted: 0.15 in BERT, 0.3 in ModernBERT.  With ``starts_word``, bool (V,), whole
    words are hidden or left (``word_starts`` makes it).  Tokens in ``special`` are never hidden and never put in; a
    sequence with any other token has at least one to be predicted.

    Training draws new masked tokens each time, from torch's generator on the CPU, so that a resumed run draws the
    same ones as an uninterrupted one.  The tokens masked in evaluation depend only on the sequence: not on the
    batch it comes in, nor on what was evaluated before.  There all of them are [MASK], as where ``fill`` answers:
    a token that stands as it is could be copied, which no unigram can.  ``mixed`` evaluates as earlier versions did,
    with the shares of training.
    """

    def __init__(
        self,
        mask_token: int,
        special: Iterable[int],
        vocab_size: int,
        *,
        share: float = SHARE,
        starts_word: Tensor | None = None,
        seed: int = 0,
        mixed: bool = False,
    ):
        if not 0 < share <= LARGEST_SHARE:
            raise ValueError(f"share is {share}, but must be above 0 and at most {LARGEST_SHARE}")
        if starts_word is not None and starts_word.shape != (vocab_size,):
            raise ValueError(f"starts_word has the shape {tuple(starts_word.shape)}, but must have ({vocab_size},)")
        self.mask_token, self.vocab_size, self.share, self.seed = mask_token, vocab_size, share, seed
        self.mixed = mixed
        self.is_special = torch.zeros(vocab_size, dtype=torch.bool)
        self.is_special[[number for number in {*special, mask_token} if number < vocab_size]] = True
        self.ordinary = (~self.is_special).nonzero()[:, 0]
        self.starts_word = starts_word
        if not len(self.ordinary):
            raise ValueError(f"all {vocab_size} tokens are special: none can be predicted")

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        """The sum of -ln p over the hidden tokens, in nats, and their number.

        Only their positions go through the V-wide head.
        """
        logits, targets = self._predict(model, batch, *self.hide(batch))
        return cross_entropy(logits, targets), len(targets)

    def predicted(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        hidden, chosen = self.hide_as_always(batch)
        return *self._predict(model, batch, hidden, chosen), chosen

    def hide(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(ids with tokens hidden (B, T), which to predict, bool (B, T)), newly drawn; on the CPU."""
        ids, mask = _on_cpu(batch)
        return self._hide(ids, mask, torch.rand(3, *ids.shape, generator=generator()))

    def hide_as_always(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Ids with [MASK] at every token to predict, and which those are, drawn by each sequence alone."""
        ids, mask = _on_cpu(batch)
        draws = torch.ones(3, *ids.shape)
        for row in range(len(ids)):
            real = slice(None) if mask is None else mask[row]
            content = ids[row, real].numpy()
            random = np.random.default_rng([self.seed, zlib.crc32(content.astype("<i8").tobytes())])
            draws[:, row, real] = torch.from_numpy(random.random((3, len(content)), dtype=np.float32))
        if not self.mixed:
            draws[1] = 0.0
        return self._hide(ids, mask, draws)

    def held_out_counts(self, batches: Iterable[Batch]) -> np.ndarray:
        """How often ``evaluate`` hides each token, int64 (V,): what baselines are measured on."""
        counts = torch.zeros(len(self.is_special), dtype=torch.int64)
        for batch in batches:
            counts += batch.ids.cpu()[self.hide_as_always(batch)[1]].bincount(minlength=len(counts))
        return counts.numpy()

    def losses_of(self, losses: np.ndarray, batch: Batch) -> np.ndarray:
        """(sum of the loss, number of targets) of each row where every token costs ``losses`` (V,): float64 (B, 2)."""
        ids, hidden = batch.ids.cpu().numpy(), self.hide_as_always(batch)[1].numpy()
        return np.stack([(losses[ids] * hidden).sum(axis=1), hidden.sum(axis=1)], axis=1)

    def _hide(self, ids: Tensor, mask: Tensor | None, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Hide tokens of ids (B, T) by draws from [0, 1), (3, B, T): which, how, and the number of any other token."""
        special = self.is_special[ids]
        allowed = ~special if mask is None else ~special & mask
        which = draws[0] if self.starts_word is None else draws[0].gather(1, self._words(ids, special))
        which = which.masked_fill(~allowed, 2.0)
        least = which.amin(dim=1, keepdim=True)
        chosen = allowed & ((which < self.share) | (which == least))
        other = self.ordinary[(draws[2] * len(self.ordinary)).long().clamp(max=len(self.ordinary) - 1)]
        hidden = torch.where(draws[1] < MASKED, self.mask_token, torch.where(draws[1] < MASKED + RANDOM, other, ids))
        return torch.where(chosen, hidden, ids), chosen

    def _words(self, ids: Tensor, special: Tensor) -> Tensor:
        """The number of the word that each token is of, within its sequence, from 0: int64 (B, T)."""
        starts = self.starts_word[ids] | special  # type: ignore[index]
        starts[:, 1:] |= special[:, :-1]
        starts[:, 0] = True
        return starts.long().cumsum(dim=1) - 1

    @staticmethod
    def _predict(model: nn.Module, batch: Batch, hidden: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, V) in float32 at the chosen positions, and what stood there (N,)."""
        device = batch.ids.device
        chosen = chosen.to(device)
        logits = model(hidden.to(device), *batch.read[1:], chosen=chosen).float()
        return logits, batch.ids[chosen]


def word_starts(tokenizer: Tokenizer) -> Tensor | None:
    """Bool (V,): whether a token starts a word; None for tokens that do not tell.

    WordPiece marks what continues a word with ##; byte-level BPE and SentencePiece mark what begins one with a space
    (Ġ and ▁), and there a line break or a tab begins one too.  Tokens that are whole words all start one.  Characters
    do not tell.
    """
    tokens, kind = tokenizer.tokens, tokenizer.kind
    if kind in ("wordpiece", "word"):
        return torch.tensor([kind == "word" or not token.startswith("##") for token in tokens])
    if kind in ("bpe", "unigram", "sentencepiece") and any(token.startswith(("Ġ", "▁")) for token in tokens):
        return torch.tensor([token.startswith(("Ġ", "▁", "Ċ", "ĉ")) for token in tokens])
    return None


def masked_baselines(train_counts: np.ndarray, targets: np.ndarray) -> list[dict[str, Any]]:
    """Nats per hidden token, and accuracy, of guessing evenly and by frequency.

    ``train_counts`` (V,): how often each token that can be hidden occurs in training; one is added to each.
    ``targets`` (V,): how often each is hidden of the held-out text.
    """
    n_tokens = len(train_counts)
    baselines = [{"name": "uniform (ln V)", "val_loss": math.log(n_tokens), "accuracy": 1 / n_tokens}]
    if targets.any():
        chances = unigrams(train_counts)
        right = float(targets[chances.argmax()] / targets.sum())
        baselines.append({"name": "unigram", "val_loss": mean_loss(chances, targets), "accuracy": right})
    return baselines


def _on_cpu(batch: Batch) -> tuple[Tensor, Tensor | None]:
    return batch.ids.cpu(), None if batch.mask is None else batch.mask.cpu()


class SameHidden(MaskedLM):
    """Masked language modelling that hides the same tokens of a text whatever batch it comes in."""

    def hide(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """As in evaluation."""
        return self.hide_as_always(batch)
