"""The loss of a language model beyond its training length."""

from typing import Any

from headway.data.batches.batch_source import text_batches
from headway.data.batches.tokens import Tokens
from headway.data.records.corpus import Corpus
from headway.models.adapt.lora import count_parameters
from headway.tasks.losses import LanguageModeling
from headway.tasks.running_text import encode_text, held_out_part, whole
from headway.text.tokenizer import Tokenizer
from headway.training.sizing.presets import MOST_LOGITS

TIMES = (1, 2, 4)
"""The length of training, and longer ones."""
WINDOWS = 4
"""Of the longest kind, at least: fewer say nothing."""
TOKENS = 1 << 16
"""Of the held-out text that are read at each length, at most; the same at all."""
WORK = 2e12
"""Parameters times tokens that are read at each length, at most, where that leaves enough windows."""
TOGETHER = 8192
"""Tokens of a batch, at most."""


def held_out_tokens(corpus: Corpus, held_out: Corpus | None, tokenizer: Tokenizer) -> Tokens:
    """The text that a run on ``corpus`` is validated on: ``held_out``, or else a part of it."""
    if held_out is None:
        return encode_text(held_out_part(corpus), tokenizer)
    return encode_text(whole(held_out), tokenizer)


def loss_by_length(model: Any, tokens: Tokens, length: int, longest: int) -> list[dict[str, Any]]:
    """Nats per token in windows of ``length`` tokens, of twice and of four times as many, which do not overlap.

    The same tokens are predicted at all lengths, so a model that can use more context than it was trained with gets
    better and one that is lost past it gets worse.  ``loss`` is None beyond ``longest``, where a model with learned
    positions has none, and where the text is too short for WINDOWS.
    """
    reach = TIMES[-1] * length
    most = min(TOKENS, int(WORK / count_parameters(model)[0]))
    whole = min(len(tokens) - 1, max(most, WINDOWS * reach)) // reach
    together = min(TOGETHER, MOST_LOGITS // model.config.vocab_size)
    found: list[dict[str, Any]] = []
    for times in TIMES:
        loss = None
        if times * length <= longest and whole >= WINDOWS:
            part = tokens[: whole * reach + 1]
            batches = text_batches(part, times * length, max(1, together // (times * length)))
            loss = LanguageModeling().evaluate(model, batches)["val_loss"]
        found.append({"length": times * length, "times": times, "loss": loss})
    return found
