"""How a language model reads on past the length that it was trained at."""

from collections.abc import Sequence
from typing import Any

from headway.data.corpus import Corpus
from headway.data.feed import text_batches
from headway.data.tokens import Tokens
from headway.errors import InputError
from headway.tasks.language_modeling import LanguageModeling
from headway.text.tokenizer import Tokenizer
from headway.training.config import TrainOptions
from headway.training.prepare import read_input
from headway.training.recipes.language_modeling import Chunks, encode_text, held_out_part

TIMES = (1, 2, 4)
"""The length of training, and longer ones."""
TOKENS = 1 << 16
"""Of the held-out text that are read at each length, at most; the same at all."""
TOGETHER = 8192
"""Tokens of a batch."""


def held_out_tokens(corpus: Corpus, validation: Sequence[str], options: TrainOptions, tokenizer: Tokenizer) -> Tokens:
    """The text that a run on ``corpus`` is validated on.  Raises InputError for validation files of another kind."""
    if not validation:
        return encode_text(held_out_part(corpus), tokenizer, corpus.fingerprint, "validation")
    other, _ = read_input(validation, options)
    if not isinstance(other, Corpus):
        raise InputError(f"{other.name}: a language model is measured on running text.")
    return encode_text(Chunks(other), tokenizer, other.fingerprint, "all")


def loss_by_length(model: Any, tokens: Tokens, length: int, longest: int) -> list[dict[str, Any]]:
    """Nats per token in windows of ``length`` tokens, of twice and of four times as many, which do not overlap.

    The same tokens are predicted at all lengths, so a model that can use more context than it was trained with gets
    better and one that is lost past it gets worse.  ``loss`` is None beyond ``longest``, where a model with learned
    positions has none, and where the text is too short for four windows.
    """
    reach = TIMES[-1] * length
    whole = min(len(tokens) - 1, TOKENS) // reach
    found: list[dict[str, Any]] = []
    for times in TIMES:
        loss = None
        if times * length <= longest and whole >= 4:
            part = tokens[: whole * reach + 1]
            batches = text_batches(part, times * length, max(1, TOGETHER // (times * length)))
            loss = LanguageModeling().evaluate(model, batches)["val_loss"]
        found.append({"length": times * length, "times": times, "loss": loss})
    return found
