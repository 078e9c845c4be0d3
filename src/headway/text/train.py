"""Train a tokenizer on text, in one pass and in bounded memory: on a sample, in pieces of limited size."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

from headway.errors import InputError
from headway.text.safe.tokenizer_files import LONGEST_TOKEN
from headway.text.special_tokens import ENCODER, TRANSLATOR, encoder_template, frame, special_names
from headway.text.tokenizer import Tokenizer

PIECE = 16_384
"""Maximum number of characters in a piece."""

MOST_CHARACTERS = 10_000_000
"""Characters read to learn words or parts of words: the memory needed grows with the number of distinct words."""

MAX_DISTINCT = 8_000_000
"""Bytes of distinct words after which reading stops: a trainer needs about 100 bytes of memory for each word.

Ten million characters of English have far fewer; text without spaces reaches this limit first.
"""


class Sample:
    """Iterate once over pieces of texts, up to ``max_characters`` and ``MAX_DISTINCT``; pieces break before spaces.

    If the number of characters is known (``out_of``, or from a list), the pieces are spread evenly over all of them.
    ``words``: whether distinct words are counted.  Afterwards ``characters`` is the number of characters returned, and
    ``cut_short`` whether there were more.
    """

    def __init__(
        self, texts: Iterable[str], max_characters: int, *, out_of: int | None = None, words: bool = True
    ) -> None:
        if isinstance(texts, str):
            texts = [texts]
        if out_of is None and isinstance(texts, Sequence):
            out_of = sum(map(len, texts))
        self._texts, self._max_characters, self._count_words = texts, max_characters, words
        self._share = min(1.0, max_characters / out_of) if out_of else 1.0
        self._words: set[str] = set()
        self._distinct = 0
        self.characters = 0
        self.cut_short = False

    def __iter__(self) -> Iterator[str]:
        passed = 0
        for row, text in enumerate(self._texts, start=1):
            start = 0
            while start < len(text):
                room = self._max_characters - self.characters
                if room <= 0 or self._distinct >= MAX_DISTINCT:
                    self.cut_short = True
                    return
                piece = _cut(text[start : start + min(PIECE, room)], start + min(PIECE, room) >= len(text))
                start += len(piece)
                passed += len(piece)
                if self.characters > self._share * passed:
                    self.cut_short = True
                    continue
                self._count(piece, row)
                yield piece

    def _count(self, piece: str, row: int) -> None:
        self.characters += len(piece)
        new = set(piece.split()) - self._words if self._count_words else {piece}
        try:
            size = sum(len(word.encode()) for word in new)
        except UnicodeEncodeError as error:
            raise InputError(
                f"text {row}: found the lone surrogate U+{ord(error.object[error.start]):04X}, expected Unicode text; "
                "read the file as UTF-8"
            ) from None
        if self._count_words:
            self._words |= new
            self._distinct += size


def _cut(piece: str, last: bool) -> str:
    """A piece, shortened to end before its last space or line end unless it is the last of its text."""
    border = -1 if last else max(piece.rfind(" "), piece.rfind("\n"))
    return piece[:border] if border > 0 else piece


KINDS = ("bpe", "wordpiece", "word", "char")

DEFAULT_SIZE = {"bpe": 8192, "wordpiece": 8192, "word": 20_000, "char": 1_000_000}

LONGEST_WORD = 100
"""Limit of characters in a word; WordPiece reads a longer word as unknown."""


def train_tokenizer(
    texts: Iterable[str],
    kind: str,
    vocab_size: int | None = None,
    *,
    role: str = "decoder",
    lowercase: bool | None = None,
    max_characters: int | None = None,
    out_of: int | None = None,
    reserved: int = 0,
) -> Tokenizer:
    """Train a tokenizer; the same texts give the same tokenizer, byte for byte.

    - "bpe": byte-level BPE (Sennrich et al., 2016; Radford et al., 2019).  Decoding restores any text in NFC exactly.
    - "wordpiece": BERT's subwords (Devlin et al., 2019).  Spaces are not restored.
    - "word": words and punctuation.  For a decoder spaces and line ends are tokens too, so text of known words is
      restored exactly; for an encoder they are dropped.
    - "char": every character of the texts is a token.

    ``vocab_size``: maximum number of tokens, special ones included (default: 8192, 8192, 20,000 and all characters);
    texts that support fewer give fewer.  ``role``: "decoder" has ``<|endoftext|>`` and, where text can be unknown,
    ``<|unk|>``; "encoder" has ``[PAD] [UNK] [CLS] [SEP] [MASK]``; "translator" has ``<s> <pad> </s>`` and treats the
    first word of a text like any other.  Every tokenizer reads texts in NFC, so that letters with accents are the same
    however they are written.  ``lowercase``: by default for "wordpiece" and "word" of an encoder.  Reads at most
    ``max_characters`` (by default ten million, for "char" fifty), spread evenly over the texts if they are a list or
    have ``out_of`` characters; ``Tokenizer.trained_on_characters`` and ``sampled`` record what was read.
    ``reserved`` tokens of the vocabulary are left for the caller to add.

    Raises InputError: no text, an unknown kind or role, or a vocabulary too small for the kind.
    """
    if kind not in KINDS:
        raise InputError(f"tokenizer: found {kind!r}, expected one of {', '.join(KINDS)}")
    names = special_names(role, unknown=kind != "bpe")
    specials = list(dict.fromkeys(names.values()))
    size = DEFAULT_SIZE[kind] if vocab_size is None else vocab_size
    _check_size(kind, size, len(specials) + reserved)
    if lowercase is None:
        lowercase = role == "encoder" and kind in ("wordpiece", "word")
    most = max_characters or (MOST_CHARACTERS if kind != "char" else 5 * MOST_CHARACTERS)
    sample = Sample(texts, most, out_of=out_of, words=kind != "char")
    train = {"bpe": _train_bpe, "wordpiece": _train_wordpiece, "word": _train_word, "char": _train_char}[kind]
    backend = train(sample, size - reserved, specials, role, lowercase)
    if sample.characters == 0 or backend.get_vocab_size() <= len(specials):
        raise InputError("there is no text to train a tokenizer on: expected at least one character besides spaces")
    backend.add_special_tokens([_special(token, kind) for token in specials])
    if role == "encoder":
        backend.post_processor = encoder_template(backend, names)
    if role == "translator":
        backend.post_processor = frame(None, TRANSLATOR["eos_token"], backend)
    return Tokenizer(backend, names, trained_on_characters=sample.characters, sampled=sample.cut_short)


def _check_size(kind: str, size: int, n_specials: int) -> None:
    needed = n_specials + (256 if kind == "bpe" else 2)
    if size < needed:
        parts = "256 bytes" if kind == "bpe" else "2 others"
        raise InputError(
            f"vocabulary size: found {size}, expected at least {needed} for {kind} "
            f"({n_specials} special tokens and {parts})"
        )


def _train_bpe(sample: Sample, size: int, specials: list[str], role: str, lowercase: bool) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    steps = _steps(lowercase)
    if role == "translator":  # decoding removes the space added before the first word
        steps.append(normalizers.Prepend(" "))
        backend.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    _normalise(backend, steps)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=specials,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        max_token_length=LONGEST_TOKEN // 2,  # a byte is a character of up to two bytes
    )
    backend.train_from_iterator(sample, trainer)
    return backend


def _special(token: str, kind: str) -> AddedToken:
    """A special token.  [MASK] includes the space before it where words do."""
    return AddedToken(token, special=True, normalized=False, lstrip=kind == "bpe" and token == ENCODER["mask_token"])


def _train_word(sample: Sample, size: int, specials: list[str], role: str, lowercase: bool) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.WordLevel(unk_token=_unknown(role)))
    _normalise(backend, _steps(lowercase))
    if role == "encoder":
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+|[^\w\s]"), "removed", invert=True)
    else:
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s|\w+|[^\w\s]"), "isolated")
        backend.decoder = decoders.Fuse()
    trainer = trainers.WordLevelTrainer(vocab_size=size, special_tokens=specials, show_progress=False)
    backend.train_from_iterator(sample, trainer)
    known = sorted(backend.get_vocab(with_added_tokens=False).items(), key=lambda row: row[1])
    short = [token for token, _ in known if len(token.encode()) <= LONGEST_TOKEN]  # a longer one stays unknown
    backend.model = models.WordLevel({token: number for number, token in enumerate(short)}, unk_token=_unknown(role))
    return backend


def _steps(lowercase: bool) -> list[normalizers.Normalizer]:
    return [normalizers.NFC(), *([normalizers.Lowercase()] if lowercase else [])]


def _normalise(backend: tokenizers.Tokenizer, steps: list[normalizers.Normalizer]) -> None:
    backend.normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(steps)


def _train_char(sample: Sample, size: int, specials: list[str], role: str, lowercase: bool) -> tokenizers.Tokenizer:
    """A BPE without merges: six times as fast as splitting into characters first."""
    steps = _steps(lowercase)
    whole = normalizers.Sequence(steps)
    counts: Counter[str] = Counter()
    for piece in sample:
        counts.update(whole.normalize_str(piece))
    kept = sorted(counts, key=lambda character: (-counts[character], character))[: size - len(specials)]
    vocabulary = {token: number for number, token in enumerate([*specials, *sorted(kept)])}
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token=_unknown(role)))
    _normalise(backend, steps)
    backend.decoder = decoders.Fuse()
    return backend


def _train_wordpiece(
    sample: Sample, size: int, specials: list[str], role: str, lowercase: bool
) -> tokenizers.Tokenizer:
    """The vocabulary of a BPE over whole words, used with longest match.

    The library's trainer numbers the characters that continue a word in an order that changes from run to run, and with
    it the merges.  So words are counted first, and those characters are passed to the trainer in a fixed order.
    Accents are kept when lowercasing: stripping them would remove the vowels of Thai and Hindi.
    """
    normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.BertNormalizer(lowercase=lowercase, strip_accents=False)]
    )
    splitter = pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for piece in sample:
        words.update([word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(piece))])
    alphabet, continuing = _alphabet(words, size - len(specials))
    named = [*specials, *(f"##{character}" for character in continuing)]
    pieces = tokenizers.Tokenizer(models.BPE(continuing_subword_prefix="##"))
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, special_tokens=named, continuing_subword_prefix="##", show_progress=False
    )
    pieces.train_from_iterator(_repeated(words, alphabet), trainer)
    vocabulary = pieces.get_vocab(with_added_tokens=True)
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=_unknown(role)))
    backend.normalizer = normalizer
    backend.pre_tokenizer = splitter
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return backend


def _alphabet(words: Counter[str], room: int) -> tuple[set[str], list[str]]:
    """The most frequent characters, alone and (second) as continuations of a word, that fit in ``room`` together."""
    counts: Counter[str] = Counter()
    inside: set[str] = set()
    for word, times in words.items():
        inside.update(word[1:])
        for character in word:
            counts[character] += times
    alphabet: set[str] = set()
    for character in sorted(counts, key=lambda character: (-counts[character], character)):
        room -= 2 if character in inside else 1
        if room < 0:
            break
        alphabet.add(character)
    return alphabet, sorted(alphabet & inside)


def _repeated(words: Counter[str], alphabet: set[str]) -> Iterator[str]:
    """Every word as often as it was counted, in a fixed order, without words that have other characters."""
    for word, times in sorted(words.items()):
        if len(word) <= LONGEST_WORD and alphabet.issuperset(word):
            while times > 0:
                yield f"{word} " * min(times, 4096)
                times -= 4096


def _unknown(role: str) -> str:
    return special_names(role, unknown=True)["unk_token"]
