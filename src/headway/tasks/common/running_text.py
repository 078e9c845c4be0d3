"""Running text, as language models and masked language models both read it: its parts, its tokens, its size."""

from collections.abc import Iterable, Iterator
from typing import Any

from headway.data.batches.cache import cache_directory, cache_key, tokenised
from headway.data.batches.tokens import TokenFile
from headway.data.records.corpus import Corpus
from headway.data.records.split import HELD_OUT, split_text
from headway.data.stream.streamed import Streamed
from headway.text.tokenizer import Tokenizer


def text_parts(
    corpus: Corpus, held_out: Corpus | None
) -> tuple[Iterable[tuple[str, bool]], Iterable[tuple[str, bool]]]:
    """Training and validation text as chunks that can be read again and again."""
    if held_out is None:
        return split_text(corpus, HELD_OUT)
    return Chunks(corpus), Chunks(held_out)


class Chunks:
    """All of a text as chunks, as often as they are asked for."""

    def __init__(self, corpus: Corpus):
        self.corpus = corpus

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        return self.corpus.chunks()


def text_facts(corpus: Corpus, held_out: Corpus | None, n_train: int, n_validation: int) -> dict[str, Any]:
    """What headway.json says of running text, by its numbers of tokens."""
    origin = " (the last 10 % of the text)" if held_out is None else f" ({', '.join(map(str, held_out.paths))})"
    return {
        "inputs": [str(path) for path in corpus.paths],
        "fingerprint": corpus.fingerprint,
        "documents": corpus.n_documents,
        "train": f"{n_train:,} tokens",
        "validation": f"{n_validation:,} tokens{origin}",
        "warnings": [f"{corpus.n_empty} empty documents were left out"] if corpus.n_empty else [],
    }


def separator_of(tokenizer: Tokenizer) -> int | None:
    """The id between documents: what ends a text, or else what begins one."""
    return tokenizer.begin_of_text if tokenizer.end_of_text is None else tokenizer.end_of_text


def held_out_part(corpus: Corpus) -> Iterable[tuple[str, bool]]:
    """What a run on this text holds out where no validation file is named, as chunks."""
    return Chunks(corpus.held_out) if isinstance(corpus, Streamed) else split_text(corpus, HELD_OUT)[1]


def encode_text(chunks: Iterable[tuple[str, bool]], tokenizer: Tokenizer, fingerprint: str, part: str) -> TokenFile:
    """Tokens of running text, read from the cache; between documents is what ends a text, or else what begins one."""
    return tokenised(
        chunks,
        tokenizer.encode_batch,
        end_of_text=separator_of(tokenizer),
        vocab_size=tokenizer.vocab_size,
        key=cache_key(fingerprint, tokenizer.to_json(), part, HELD_OUT),
        directory=cache_directory(),
    )


def bpe_size(n_characters: int) -> int:
    """How many subwords a text of that length supports: about one for each 1,000 characters, 512 to 16,384."""
    size = 512
    while size < 16384 and size * 1500 < n_characters:
        size *= 2
    return size
