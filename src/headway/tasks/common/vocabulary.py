"""The tokenizer of a base, with new tokens where they are wanted, and a model that has room for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from headway.errors import InputError
from headway.models.adapt.vocabulary import resize_vocabulary
from headway.tasks.common.lengths import lost_characters
from headway.tasks.task import TaskInputs
from headway.text.chat import with_chat
from headway.text.extend import extend, merged_from
from headway.text.tokenizer import Tokenizer
from headway.training.base import Base


@dataclass(frozen=True)
class Vocabulary:
    """The tokenizer of a run that begins from a base, None without one, and what to record of how it was made."""

    tokenizer: Tokenizer | None
    facts: dict[str, Any]


def base_vocabulary(
    given: TaskInputs, texts: Iterable[str], *, chat: bool = False, out_of: int | None = None
) -> Vocabulary:
    """The tokenizer for a run: from the resumed run, or the base's with ``--extend-vocab`` new tokens.

    ``texts`` are those of the training part, of ``out_of`` characters where they are no list; ``chat`` gives one
    without a chat template the usual one.  The base's model grows with it (``make_room``).  Without a base, the
    tokenizer is from the resumed run, if there is one.  Raises InputError for a tokenizer that cannot be grown.
    """
    base, wanted = given.base, given.options.fine_tuning.extend_vocab
    if base is None:
        return Vocabulary(given.tokenizer, {})
    tokenizer, facts = given.tokenizer or base.tokenizer, dict[str, Any]()
    if given.tokenizer is None and wanted is not None:
        try:
            grown = extend(tokenizer, texts, wanted, out_of=out_of)
        except InputError as error:
            raise InputError(f"--extend-vocab: {base.path}: {error}") from None
        tokenizer, before, after = grown.tokenizer, grown.tokens_per_word_before, grown.tokens_per_word_after
        given.progress.say(
            f"learnt {len(grown.added):,} new tokens: {before:.3f} tokens per word before, {after:.3f} after "
            "(--extend-vocab to change)"
        )
        facts = {"added_tokens": len(grown.added), "tokens_per_word_before": before, "tokens_per_word_after": after}
    if chat and given.tokenizer is None:
        tokenizer = with_chat(tokenizer)
    texts = () if facts and isinstance(texts, Iterator) else texts  # an iterator is used up by now
    if line := lost_characters(texts, tokenizer):
        given.progress.warn(line)
    make_room(base, tokenizer)
    return Vocabulary(tokenizer, facts)


def make_room(base: Base, tokenizer: Tokenizer) -> None:
    """Grow the tables of the base's model to what the tokenizer needs; each new row as ``resize_vocabulary`` says."""
    rows = merged_from(base.tokenizer, tokenizer)
    if rows:
        resize_vocabulary(base.model, max(base.config.vocab_size, tokenizer.vocab_size), rows)
