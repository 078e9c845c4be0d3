"""A tokenizer's files from an untrusted source: read within limits, and refused where they would fail later."""

import base64
import binascii
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from headway.errors import InputError, shown
from headway.io.regular_file import open_regular, other_kind, read_within
from headway.io.strict_json import parse_object, read_text
from headway.text.sentencepiece.charsmap import charsmap_growth

MAX_BYTES = 64 * 2**20
MAX_IDS = 2**22
"""One more than the largest id accepted: several times the largest vocabulary in use."""
MAX_LINE = 4096
"""Limit of characters in a line of a vocabulary or of merges."""
MOST_ADDED = 2**16
"""Limit of added tokens.  The largest vocabularies in use have a few thousand."""
LONGEST_TOKEN = 4096
"""Limit of bytes in a token.  The longest in use are a thousand spaces."""
SAVE_AGAIN = "save it again with `tokenizer.save_pretrained(directory)` of transformers"
CHILDREN = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
"""The components of a ``tokenizer.json``, and where a sequence of each lists its parts."""


def read_object(path: Path) -> tuple[dict[str, Any], str]:
    """A JSON object and its text, read strictly (``headway.io.strict_json``); at most 64 MiB.  Raises InputError."""
    text = read_text(path, max_bytes=MAX_BYTES, advice=SAVE_AGAIN)
    return parse_object(text, str(path), MAX_BYTES, SAVE_AGAIN), text


def read_bytes(path: Path, what: str) -> bytes:
    """The content of a regular file of at most 64 MiB; ``what`` describes the expected file in an InputError."""
    with open_regular(path, f"expected {what}") as file:
        data = read_within(file, path, MAX_BYTES)
    if kind := other_kind(data[:256]):
        raise InputError(f"{path}: found {kind[0]}, expected {what}; {kind[1] or 'get the file again'}")
    if not data:
        raise InputError(f"{path}: found an empty file, expected {what}")
    return data


def read_lines(path: Path, what: str) -> list[str]:
    """The lines of a UTF-8 text file, without line ends and without empty lines at the end of the file."""
    try:
        text = read_bytes(path, what).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; expected {what}") from None
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE:
            raise InputError(f"{path}: line {number}: found {len(line)} characters, expected at most {MAX_LINE}")
    if lines == [""]:
        raise InputError(f"{path}: found no lines, expected {what}")
    return lines


def read_vocabulary(path: Path) -> dict[str, int]:
    """The tokens of a ``vocab.json`` with their ids, each unique."""
    vocabulary, _ = read_object(path)
    unique_ids(vocabulary.items(), str(path))
    return vocabulary


def unique_ids(tokens: Iterable[tuple[str, Any]], where: str) -> set[int]:
    """The ids of tokens.  Raises InputError for what is no id, for two tokens of one id, and for no tokens."""
    owner: dict[int, str] = {}
    for token, number in tokens:
        check_id(number, f"{where}: id of {token[:40]!r}")
        if (other := owner.setdefault(number, token)) != token:
            raise InputError(
                f"{where}: token id {number}: found for {other[:40]!r} and {token[:40]!r}, expected one token per id"
            )
    if not owner:
        raise InputError(f"{where}: found no tokens, expected at least one")
    return set(owner)


def check_id(number: Any, where: str) -> None:
    """Raise InputError for what cannot be the id of a token."""
    if not _is_count(number) or number >= MAX_IDS:
        raise InputError(f"{where}: found {shown(number)}, expected an integer from 0 to {MAX_IDS - 1}")


def check_merge(merge: Any, vocabulary: Container[str], where: str, known: str, prefix: str = "") -> tuple[str, str]:
    """The two tokens of a merge, which has a space between them or is a list of them.

    Raises InputError, beginning with ``where``, unless they and what they form are in the vocabulary, ``known`` by this
    name.  The second one loses ``prefix`` when it is merged.
    """
    pair = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        raise InputError(f"{where}: found {shown(merge)}, expected two tokens with a space between")
    for token in (*pair, pair[0] + pair[1][len(prefix) :]):
        if token not in vocabulary:
            raise InputError(f"{where}: found {shown(token)}, expected a token of {known}")
    return pair[0], pair[1]


def check_largest(number: int, rows: int | None, path: Path) -> None:
    """Raise InputError where a model with ``rows`` rows of embeddings, where known, has none for the largest id."""
    if rows is not None and number >= rows:
        raise InputError(
            f"{path}: largest token id: found {number}, expected at most {rows - 1}: the model has "
            f"{rows} rows of embeddings; use the tokenizer that was saved with the model"
        )


def parts_of(value: Any, component: str) -> Iterator[dict[str, Any]]:
    """The parts of a component, such as a normalizer, that do the work, in order."""
    if not isinstance(value, dict):
        return
    inside = value.get(CHILDREN[component]) if value.get("type") == "Sequence" else None
    if isinstance(inside, list):
        for child in inside:
            yield from parts_of(child, component)
    else:
        yield value


def check_tokenizer(spec: dict[str, Any], path: Path, rows: int | None = None) -> None:
    """Check a parsed ``tokenizer.json``; with ``rows``, also that every id is below that number of embedding rows.

    Raises InputError naming the field, what was found and what was expected.
    """
    model = spec.get("model")
    if not isinstance(model, dict):
        raise InputError(f"{path}: model: found {type(model).__name__}, expected an object")
    vocabulary, added = _vocabulary(model, path), _added_tokens(spec, path)
    ids = unique_ids([*vocabulary.items(), *added.items()], f"{path}: model.vocab and added_tokens")
    for token in added.keys() & vocabulary.keys():
        if added[token] != vocabulary[token]:
            raise InputError(
                f"{path}: added_tokens, id of {token!r}: found {added[token]}, "
                f"expected {vocabulary[token]} as in model.vocab"
            )
    longest = len(max([*vocabulary, *added], key=len).encode("utf-8", "surrogatepass"))
    if longest > LONGEST_TOKEN:
        raise InputError(f"{path}: a token has {longest} bytes, expected at most {LONGEST_TOKEN}")
    check_largest(max(ids), rows, path)
    _check_model(model, vocabulary, added, path)
    if (truncation := spec.get("truncation")) is not None:
        limits = truncation if isinstance(truncation, dict) else {}
        stride, most = limits.get("stride", 0), limits.get("max_length", 0)
        if not (_is_count(stride) and _is_count(most) and stride < most):
            raise InputError(
                f"{path}: truncation: found stride {shown(stride)} and max_length {shown(most)}, "
                "expected a stride below max_length"
            )
    for part in parts_of(spec.get("pre_tokenizer"), "pre_tokenizer"):
        length = part.get("length")
        if part.get("type") == "FixedLength" and not (_is_count(length) and length):
            raise InputError(f"{path}: pre_tokenizer.length: found {length!r}, expected an integer above 0")
    for part in parts_of(spec.get("post_processor"), "post_processor"):
        _check_post_processor(part, ids, f"{path}: post_processor")


def _vocabulary(model: dict[str, Any], path: Path) -> dict[str, int]:
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, list):
        if not all(isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) for row in vocabulary):
            raise InputError(f"{path}: model.vocab: found rows that are not [token, score], expected only such rows")
        return {row[0]: number for number, row in enumerate(vocabulary)}
    if not isinstance(vocabulary, dict):
        kind = type(vocabulary).__name__
        raise InputError(f"{path}: model.vocab: found {kind}, expected an object of tokens and ids")
    return vocabulary


def _added_tokens(spec: dict[str, Any], path: Path) -> dict[str, Any]:
    rows = spec.get("added_tokens") or []
    if not isinstance(rows, list):
        raise InputError(f"{path}: added_tokens: found {type(rows).__name__}, expected a list")
    if len(rows) > MOST_ADDED:
        raise InputError(f"{path}: added_tokens: found {len(rows)}, expected at most {MOST_ADDED}")
    added: dict[str, Any] = {}
    for row in rows:
        content = row.get("content") if isinstance(row, dict) else None
        if not isinstance(content, str) or not content:
            raise InputError(f"{path}: added_tokens: found {shown(row)}, expected an object with content and id")
        if content in added:
            raise InputError(f"{path}: added_tokens: found {content!r} twice, expected it once")
        added[content] = row.get("id")
    return added


def _check_model(model: dict[str, Any], vocabulary: dict[str, int], added: dict[str, int], path: Path) -> None:
    """Refuse an unknown token that is not there, and merges of tokens that are not."""
    unknown, number = model.get("unk_token"), model.get("unk_id")
    needs_one = model.get("type") in ("WordLevel", "WordPiece")
    known = {**vocabulary, **added} if "merges" in model else vocabulary
    if (unknown is not None or needs_one) and str(unknown) not in known:
        raise InputError(f"{path}: model.unk_token: found {unknown!r}, expected a token of model.vocab")
    if number is not None and not (_is_count(number) and number < len(known)):
        raise InputError(f"{path}: model.unk_id: found {number!r}, expected an id below {len(known)}")
    merges, prefix = model.get("merges") or [], model.get("continuing_subword_prefix") or ""
    if not isinstance(merges, list) or not isinstance(prefix, str):
        raise InputError(f"{path}: model.merges: found {type(merges).__name__}, expected a list of pairs")
    for row, merge in enumerate(merges):
        if not (isinstance(merge, str) and merge.startswith("#version")):
            check_merge(merge, vocabulary, f"{path}: model.merges[{row}]", "model.vocab", prefix)


def _check_post_processor(part: dict[str, Any], ids: set[int], where: str) -> None:
    for name in ("sep", "cls"):
        value = part.get(name)
        known = isinstance(value, list) and len(value) == 2 and _is_count(value[1]) and value[1] in ids
        if value is not None and not known:
            raise InputError(f"{where}.{name}: found {shown(value)}, expected a token and its id")
    if part.get("type") != "TemplateProcessing":
        return
    specials = part.get("special_tokens") or {}
    if not isinstance(specials, dict):
        raise InputError(f"{where}.special_tokens: found {shown(specials)}, expected an object")
    for name, entry in specials.items():
        numbers = entry.get("ids") if isinstance(entry, dict) else None
        if not isinstance(numbers, list) or not all(_is_count(number) and number in ids for number in numbers):
            raise InputError(
                f"{where}.special_tokens[{name!r}].ids: found {shown(numbers)}, expected ids of the vocabulary"
            )
    for template in ("single", "pair"):
        pieces = part.get(template) or []
        if not isinstance(pieces, list):
            raise InputError(f"{where}.{template}: found {shown(pieces)}, expected a list")
        for piece in pieces:
            special = piece.get("SpecialToken") if isinstance(piece, dict) else None
            if isinstance(special, dict) and str(special.get("id")) not in specials:
                raise InputError(
                    f"{where}.{template}: found the special token {special.get('id')!r}, "
                    "expected one listed in post_processor.special_tokens"
                )


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


_ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_CUT = r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
_CASES = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|"
)
_APART = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PUBLISHED = frozenset(
    [
        *(r"\w+|[^\w\s]", r"\s|\w+|[^\w\s]"),  # Headway's words
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",  # GPT-2
        r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",  # CLIP
        _APART + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _ENDS,  # Llama 3
        _APART + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _ENDS,  # Qwen 2 and 3
        _APART + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _ENDS,  # Qwen 3.5
        *("'(?i:[sdmt]|ll|ve|re)|" + _CUT % digits for digits in (2, 3)),  # nanochat, GPT-4
        _CASES % (f"{_APART}?", f"{_APART}?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _ENDS,  # GPT-4o, Llama 4
        _CASES % ("", "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _ENDS,  # Mistral NeMo
        r" ?[^(\s|[.,!?…。，、।۔،])]+",  # BLOOM
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|" + _ENDS,  # DeepSeek V3
        *(r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"),  # DeepSeek Coder
        *("[0-9][0-9][0-9]", r"\p{N}{1,3}", r"\p{N}", "[\r\n]", r"[\r\n]", " {2,}", r"\s{2,}|[\n\r\t]", r"\s+", r"\n"),
    ]
)
"""Patterns that many models have: each takes a time linear in the text, and finds nothing empty."""
PLAIN = frozenset(
    [
        *("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents", "Strip", "BertNormalizer", "ByteLevel"),
        *("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits", "UnicodeScripts", "Metaspace"),
        *("ByteFallback", "Fuse", "WordPiece", "BertProcessing", "RobertaProcessing"),
    ]
)
"""Types of parts without a pattern or a text of their own."""
SEVERAL = ("Replace", "Split")
"""Types of which a component may have several: they make no more characters than there are."""
MOST_PIECES, MOST_GROWTH = 8, 16
"""Pieces of a template, and bytes that rules of SentencePiece make of one; 11 are in use."""
LONGEST_WORD = 200
"""Characters of a word that WordPiece splits: the time grows with the cube."""


def is_known(spec: dict[str, Any]) -> bool:
    """Whether a parsed ``tokenizer.json`` is made of parts that published ones have."""
    for component in CHILDREN:
        parts = list(parts_of(spec.get(component), component))
        counts = Counter(str(part.get("type")) for part in parts)
        once = all(count == 1 or kind in SEVERAL for kind, count in counts.items())
        if not (once and len(parts) <= 2 * MOST_PIECES and all(map(_is_known, parts))):
            return False
    word = spec["model"].get("max_input_chars_per_word", 0)
    return type(word) is int and word <= LONGEST_WORD


def _is_known(part: dict[str, Any]) -> bool:
    kind, pattern = str(part.get("type")), part.get("pattern")
    if kind in SEVERAL:
        known = isinstance(pattern, dict) and (pattern.get("String") or str(pattern.get("Regex")) in PUBLISHED)
        return bool(known) and len(str(part.get("content", ""))) <= 1
    if kind == "Prepend":
        return len(str(part.get("prepend"))) <= 1
    if kind == "Precompiled":
        try:
            return charsmap_growth(base64.b64decode(str(part.get("precompiled_charsmap")))) <= MOST_GROWTH
        except (binascii.Error, ValueError):
            return False
    if kind == "TemplateProcessing":
        specials = part.get("special_tokens") or {}  # ``check_tokenizer`` has looked at them
        lists = [part.get("single"), part.get("pair"), *(entry["ids"] for entry in specials.values())]
        return all(isinstance(pieces, list) and len(pieces) <= MOST_PIECES for pieces in lists)
    return kind in PLAIN
