"""Tokenizers as llama.cpp reads them: byte-level BPE, SentencePiece's BPE, and WordPiece.

llama.cpp has a fixed way of normalising and splitting texts for each, so a ``tokenizer.json`` is taken only if it says
the same.  Characters and words have none there.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from headway.errors import InputError
from headway.runtime.windows import frame
from headway.text.backend import RustBackend
from headway.text.tokenizer import Tokenizer

SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Types of tokens in the file."""
GPT2 = "gpt-2"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}\p{{N}}{{1,3}}{_REST}": "llama-bpe",
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}\p{{N}}{_REST}": "qwen2",
}
"""The regular expression that splits a text into words -> llama.cpp's name of it (``tokenizer.ggml.pre``)."""
WHOLE_WORDS = frozenset({"llama-bpe"})
"""The names with which a word that is a token is not split, whatever the merges (``ignore_merges``)."""
EXPRESSIBLE = (
    "llama.cpp reads byte-level BPE that splits texts as GPT-2, Llama 3, Qwen2 or SmolLM do, SentencePiece's BPE with "
    "bytes, and BERT's WordPiece"
)
UNKNOWN_THERE = {"char": "characters", "word": "words", "other": "another kind"}
"""Kinds of tokenizers that it has not -> in words."""


class Inexpressible(InputError):
    """llama.cpp has no such tokenizer; the message says why, without naming a file."""


@dataclass(frozen=True)
class Limit:
    """Some texts that llama.cpp reads in another way."""

    words: str
    """which, to go on from "texts" """
    concerns: Callable[[str], bool]


@dataclass(frozen=True)
class TokenizerEntries:
    """What the file says of a tokenizer."""

    model: str
    """``tokenizer.ggml.model``"""
    tokens: list[str]
    token_type: list[int]
    pre: str = "default"
    merges: list[str] | None = None
    scores: list[float] | None = None
    begin: int | None = None
    end: int | None = None
    """the token that is put before, and after, a text"""
    flags: dict[str, bool] = field(default_factory=dict)
    """more entries, without their prefix"""
    limits: tuple[Limit, ...] = ()
    """texts for which llama.cpp gives other ids, whatever the file says"""

    def reads(self, text: str) -> bool:
        """Whether llama.cpp is expected to give the ids of the tokenizer here."""
        return not any(limit.concerns(text) for limit in self.limits)


NFC = Limit("that are not in Unicode's form NFC", lambda text: not unicodedata.is_normalized("NFC", text))
MARKED = Limit(
    f"with the character {SPACE} (U+2581), by which it marks the beginnings of words", lambda text: SPACE in text
)
SPACED = Limit("that begin with a space: it puts another before it", lambda text: text[:1] in (" ", SPACE))
DOTTED = Limit("with the letter İ, whose lower case it writes without the dot", lambda text: "İ" in text)
ACCENTS = Limit(
    "in Korean, or with vowel signs of Indic scripts: it strips other accents there",
    lambda text: any("\uac00" <= letter <= "\ud7a3" or unicodedata.category(letter) == "Mc" for letter in text),
)


def entries_of(tokenizer: Tokenizer, rows: int) -> TokenizerEntries:
    """The entries of a tokenizer for a model with ``rows`` token vectors.  Raises Inexpressible."""
    if not isinstance(tokenizer.backend, RustBackend) or tokenizer.target is not tokenizer:
        raise Inexpressible(f"its tokenizer is one of translation, {EXPRESSIBLE}")
    if tokenizer.kind in UNKNOWN_THERE:
        raise Inexpressible(
            f"its tokenizer is one of {UNKNOWN_THERE[tokenizer.kind]}; {EXPRESSIBLE}; train with --tokenizer bpe"
        )
    spec = json.loads(tokenizer.to_json())
    kind, bytes_too = spec["model"]["type"], bool(spec["model"].get("byte_fallback"))
    steps, splits = _steps(spec.get("normalizer"), "normalizers"), _steps(spec.get("pre_tokenizer"), "pretokenizers")
    normalises = bool(steps) and steps[0].get("type") == "NFC"
    steps = steps[normalises:]
    unknown = None if tokenizer.unknown is None else tokenizer.tokens[tokenizer.unknown]
    if kind == "WordPiece":
        entries = _wordpiece(spec, steps, splits, unknown)
    elif kind == "BPE":
        entries = _sentencepiece(spec, steps, splits, unknown) if bytes_too else _byte_level(spec, steps, splits)
    else:
        raise Inexpressible(f"its tokenizer is of the kind {kind}; {EXPRESSIBLE}")
    before, after = frame(tokenizer)
    tokens = [token or f"[unused row {number}]" for number, token in enumerate(entries.tokens)]
    tokens += [f"[unused row {number}]" for number in range(len(tokens), rows)]
    if twice := next((name for name, count in Counter(tokens).items() if count > 1), None):
        raise Inexpressible(f"its tokenizer has {twice!r} twice, and llama.cpp takes each token once")
    if len(before) > 1 or len(after) > 1:
        raise Inexpressible("its tokenizer puts several tokens before or after a text, and llama.cpp puts one")
    more = rows - len(entries.tokens)
    return replace(
        entries,
        tokens=tokens,
        token_type=[*entries.token_type, *[UNUSED] * more],
        scores=None if entries.scores is None else [*entries.scores, *[0.0] * more],
        begin=next(iter(before), None),
        end=next(iter(after), None),
        limits=(*((NFC,) if normalises else ()), *entries.limits),
    )


Steps = list[dict[str, Any]]
"""The parts of a normalizer or of a pre-tokenizer, one after the other."""


def _byte_level(spec: dict[str, Any], steps: Steps, splits: Steps) -> TokenizerEntries:
    """GPT-2's BPE over bytes."""
    if steps:
        raise Inexpressible(f"its tokenizer changes texts by {_names(steps)} first, and llama.cpp does not")
    pre, whole = _split_as(splits), bool(spec["model"].get("ignore_merges"))
    if whole != (pre in WHOLE_WORDS):
        raise Inexpressible(f"its tokenizer has ignore_merges {str(whole).lower()}, and llama.cpp's {pre} has not")
    return TokenizerEntries("gpt2", *_typed(spec), pre, [" ".join(pair) for pair in _pairs(spec)])


def _split_as(splits: Steps) -> str:
    """llama.cpp's name of the way in which a byte-level tokenizer splits texts."""
    last = splits[-1] if splits else {}
    if last.get("type") == "ByteLevel" and not last.get("add_prefix_space", True):
        first, usual = splits[0], last.get("use_regex", True)
        if len(splits) == 1 and usual:
            return GPT2
        if len(splits) == 2 and usual and first.get("type") == "Digits" and first.get("individual_digits"):
            return "smollm"
        isolated = first.get("behavior") == "Isolated" and not first.get("invert")
        pattern = (first.get("pattern") or {}).get("Regex")
        if len(splits) == 2 and not usual and first.get("type") == "Split" and isolated and pattern in PATTERNS:
            return PATTERNS[pattern]
    raise Inexpressible(f"its tokenizer splits texts in another way ({_names(splits)}): {EXPRESSIBLE}")


def _sentencepiece(spec: dict[str, Any], steps: Steps, splits: Steps, unknown: str | None) -> TokenizerEntries:
    """SentencePiece's BPE: the pair whose token has the highest score is merged first."""
    prefix, limits = _prepends(steps, splits)
    tokens, types = _typed(spec, unknown)
    ranks: dict[str, int] = {}
    last = None
    for rank, pair in enumerate(_pairs(spec)):
        made = "".join(pair)
        if made in ranks and made != last:
            raise Inexpressible("its tokenizer merges pairs in an order that scores of tokens cannot express")
        ranks.setdefault(made, rank)
        last = made
    known = {token: number for number, token in enumerate(tokens)}
    for byte in (f"<0x{byte:02X}>" for byte in range(256)):
        if byte not in known:
            raise Inexpressible(f"its tokenizer has no token {byte}, and llama.cpp needs one for each byte")
        types[known[byte]] = BYTE
    scores = [-float(ranks.get(token, len(ranks) + 1)) for token in tokens]
    return TokenizerEntries("llama", tokens, types, scores=scores, flags={"add_space_prefix": prefix}, limits=limits)


def _prepends(steps: Steps, splits: Steps) -> tuple[bool, tuple[Limit, ...]]:
    """Whether a space is put before a text, which ``tokenizer.json`` says in one of two forms.  Raises Inexpressible.

    In the second form, no space is put before one that is there already; llama.cpp puts one before every text.
    """
    types = [step.get("type") for step in steps]
    if types in (["Prepend", "Replace"], ["Replace"]) and not splits:
        spaces = steps[-1].get("pattern") == {"String": " "} and steps[-1].get("content") == SPACE
        if spaces and (len(steps) == 1 or steps[0].get("prepend") == SPACE):
            return len(steps) == 2, ()
    if not types and [step.get("type") for step in splits] == ["Metaspace"]:
        step = splits[0]
        if step.get("replacement", SPACE) == SPACE and not step.get("split", True):
            prepends = step.get("prepend_scheme", "always") != "never"
            return prepends, (SPACED,) if prepends else ()
    raise Inexpressible(f"its tokenizer prepares texts by {_names([*steps, *splits])}, and llama.cpp's does not")


def _wordpiece(spec: dict[str, Any], steps: Steps, splits: Steps, unknown: str | None) -> TokenizerEntries:
    """BERT's WordPiece: there a token that begins a word has a mark, here one that does not."""
    rules = steps[0] if len(steps) == 1 and steps[0].get("type") == "BertNormalizer" else {}
    usual = rules.get("clean_text", False) and rules.get("handle_chinese_chars", False)
    if not usual or [step.get("type") for step in splits] != ["BertPreTokenizer"]:
        raise Inexpressible("its WordPiece does not clean and split texts as BERT's does, and llama.cpp has no other")
    if spec["model"].get("continuing_subword_prefix") != "##":
        raise Inexpressible("its WordPiece does not mark the later parts of a word by ##, and llama.cpp has no other")
    lowercase, strips = bool(rules.get("lowercase", True)), rules.get("strip_accents")
    strips = lowercase if strips is None else strips
    tokens, types = _typed(spec, unknown)
    for number, (token, kind) in enumerate(zip(tokens, types, strict=True)):
        if kind not in (CONTROL, UNKNOWN):
            tokens[number] = token[2:] if token.startswith("##") and len(token) > 2 else SPACE + token
    flags = {"normalizer.lowercase": lowercase, "normalizer.strip_accents": strips}
    limits = (MARKED, *((ACCENTS,) if strips else (DOTTED,) if lowercase else ()))
    return TokenizerEntries("bert", tokens, types, flags=flags, limits=limits)


def _typed(spec: dict[str, Any], unknown: str | None = None) -> tuple[list[str], list[int]]:
    """The tokens of the vocabulary and those that were added, by id, and their types; "" for an id without one."""
    added = {row["id"]: row for row in spec.get("added_tokens") or []}
    ids = {number: token for token, number in spec["model"]["vocab"].items()}
    ids |= {number: row["content"] for number, row in added.items()}
    tokens = [ids.get(number, "") for number in range(max(ids) + 1)]
    types = [NORMAL if token else UNUSED for token in tokens]
    for number, row in added.items():
        types[number] = CONTROL if row["special"] else USER_DEFINED
    if unknown in tokens:
        types[tokens.index(unknown)] = UNKNOWN
    return tokens, types


def _pairs(spec: dict[str, Any]) -> list[list[str]]:
    """The merges; older files have each as one string."""
    return [merge.split(" ") if isinstance(merge, str) else merge for merge in spec["model"]["merges"]]


def _steps(part: dict[str, Any] | None, key: str) -> Steps:
    if part is None:
        return []
    return [step for one in part[key] for step in _steps(one, key)] if part["type"] == "Sequence" else [part]


def _names(steps: Steps) -> str:
    return ", ".join(str(step.get("type")) for step in steps) or "nothing"
