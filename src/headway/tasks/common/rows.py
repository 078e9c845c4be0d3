"""Rows of texts as ids."""

from headway.data.batches.cache import cache_directory, cache_key
from headway.data.batches.encoded import EncodedRows, encoded_rows
from headway.data.records.labels import Labelled
from headway.text.tokenizer import Tokenizer


def encoded_texts(rows: Labelled, tokenizer: Tokenizer) -> EncodedRows:
    """The ids of the texts, with the special tokens around them; a text of none is the id 0."""
    return encoded_rows(
        (ids or [0] for ids in tokenizer.encode_each(rows, special=True)),
        vocab_size=tokenizer.vocab_size,
        key=cache_key(rows.fingerprint, tokenizer.to_json(), "rows"),
        directory=cache_directory(),
    )
