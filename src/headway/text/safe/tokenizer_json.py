"""Read a tokenizer's JSON files, and refuse what would fail later or crash the program."""

from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.io.strict_json import parse_object, read_text
from headway.text.safe.expansion import parts_of

MAX_BYTES = 64 * 2**20
MAX_IDS = 2**22
"""One more than the largest id accepted: several times the largest vocabulary in use."""

SAVE_AGAIN = "save it again with `tokenizer.save_pretrained(directory)` of transformers"


def read_object(path: Path) -> tuple[dict[str, Any], str]:
    """A JSON object and its text, read strictly (``headway.io.strict_json``); at most 64 MiB.  Raises InputError."""
    text = read_text(path, max_bytes=MAX_BYTES, advice=SAVE_AGAIN)
    return parse_object(text, str(path), MAX_BYTES, SAVE_AGAIN), text


def check_tokenizer(spec: dict[str, Any], path: Path, rows: int | None = None) -> None:
    """Check a parsed ``tokenizer.json``; with ``rows``, also that every id is below that number of embedding rows.

    Raises InputError naming the field, what was found and what was expected.
    """
    vocabulary = _vocabulary(spec, path)
    added = _added_tokens(spec, path)
    ids = _unique_ids(vocabulary, added, path)
    check_largest(max(ids), rows, path)
    _check_unknown(spec["model"], vocabulary if "merges" not in spec["model"] else {**vocabulary, **added}, path)
    _check_merges(spec["model"], vocabulary, path)
    _check_truncation(spec.get("truncation"), path)
    for part in parts_of(spec.get("pre_tokenizer"), "pre_tokenizer"):
        length = part.get("length")
        if part.get("type") == "FixedLength" and not (_is_count(length) and length):
            raise InputError(f"{path}: pre_tokenizer.length: found {length!r}, expected an integer above 0")
    for part in parts_of(spec.get("post_processor"), "post_processor"):
        _check_post_processor(part, ids, path)


def check_largest(number: int, rows: int | None, path: Path) -> None:
    """Raise InputError where a model with ``rows`` rows of embeddings, where known, has none for the largest id."""
    if rows is not None and number >= rows:
        raise InputError(
            f"{path}: largest token id: found {number}, expected at most {rows - 1}: the model has "
            f"{rows} rows of embeddings; use the tokenizer that was saved with the model"
        )


def _vocabulary(spec: dict[str, Any], path: Path) -> dict[str, int]:
    model = spec.get("model")
    if not isinstance(model, dict):
        raise InputError(f"{path}: model: found {type(model).__name__}, expected an object")
    found = model.get("vocab")
    if isinstance(found, dict):
        vocabulary = found
    elif isinstance(found, list):
        pairs = [row for row in found if isinstance(row, list) and len(row) == 2 and isinstance(row[0], str)]
        if len(pairs) < len(found):
            raise InputError(f"{path}: model.vocab: found rows that are not [token, score], expected only such rows")
        vocabulary = {row[0]: number for number, row in enumerate(found)}
    else:
        raise InputError(f"{path}: model.vocab: found {type(found).__name__}, expected an object of tokens and ids")
    for token, number in vocabulary.items():
        _check_id(number, f"model.vocab[{token!r}]", path)
    return vocabulary


def _added_tokens(spec: dict[str, Any], path: Path) -> dict[str, int]:
    rows = spec.get("added_tokens") or []
    if not isinstance(rows, list):
        raise InputError(f"{path}: added_tokens: found {type(rows).__name__}, expected a list")
    added: dict[str, int] = {}
    for row in rows:
        content = row.get("content") if isinstance(row, dict) else None
        if not isinstance(content, str) or not content:
            raise InputError(f"{path}: added_tokens: found {_short(row)}, expected an object with content and id")
        if content in added:
            raise InputError(f"{path}: added_tokens: found {content!r} twice, expected it once")
        _check_id(row.get("id"), f"added_tokens, id of {content!r}", path)
        added[content] = row["id"]
    return added


def _check_id(number: Any, field: str, path: Path) -> None:
    if not _is_count(number) or number >= MAX_IDS:
        raise InputError(f"{path}: {field}: found {_short(number)}, expected an integer from 0 to {MAX_IDS - 1}")


def _unique_ids(vocabulary: dict[str, int], added: dict[str, int], path: Path) -> set[int]:
    owner: dict[int, str] = {}
    for token, number in [*vocabulary.items(), *added.items()]:
        other = owner.setdefault(number, token)
        if other != token:
            raise InputError(f"{path}: token id {number}: found for {other!r} and {token!r}, expected one token per id")
    for token in added.keys() & vocabulary.keys():
        if added[token] != vocabulary[token]:
            raise InputError(
                f"{path}: added_tokens, id of {token!r}: found {added[token]}, "
                f"expected {vocabulary[token]} as in model.vocab"
            )
    if not owner:
        raise InputError(f"{path}: model.vocab: found no tokens, expected at least one")
    return set(owner)


def _check_unknown(model: dict[str, Any], vocabulary: dict[str, int], path: Path) -> None:
    unknown = model.get("unk_token")
    needs_one = model.get("type") in ("WordLevel", "WordPiece")
    if (unknown is not None or needs_one) and str(unknown) not in vocabulary:
        raise InputError(f"{path}: model.unk_token: found {unknown!r}, expected a token of model.vocab")
    number = model.get("unk_id")
    if number is not None and not (_is_count(number) and number < len(vocabulary)):
        raise InputError(f"{path}: model.unk_id: found {number!r}, expected an id below {len(vocabulary)}")


def _check_merges(model: dict[str, Any], vocabulary: dict[str, int], path: Path) -> None:
    merges = model.get("merges") or []
    prefix = model.get("continuing_subword_prefix") or ""
    if not isinstance(merges, list) or not isinstance(prefix, str):
        raise InputError(f"{path}: model.merges: found {type(merges).__name__}, expected a list of pairs")
    for number, merge in enumerate(merges):
        if isinstance(merge, str) and merge.startswith("#version"):
            continue
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise InputError(f"{path}: model.merges[{number}]: found {_short(merge)}, expected a pair of tokens")
        for token in (*pair, pair[0] + pair[1][len(prefix) :]):
            if token not in vocabulary:
                raise InputError(
                    f"{path}: model.merges[{number}]: found {_short(token)}, expected a token of model.vocab"
                )


def _check_truncation(truncation: Any, path: Path) -> None:
    if truncation is None:
        return
    found = truncation if isinstance(truncation, dict) else {}
    stride, longest = found.get("stride", 0), found.get("max_length", 0)
    if not (_is_count(stride) and _is_count(longest) and stride < longest):
        raise InputError(
            f"{path}: truncation: found stride {_short(stride)} and max_length {_short(longest)}, "
            "expected a stride below max_length"
        )


def _check_post_processor(part: dict[str, Any], ids: set[int], path: Path) -> None:
    for name in ("sep", "cls"):
        value = part.get(name)
        known = isinstance(value, list) and len(value) == 2 and _is_count(value[1]) and value[1] in ids
        if value is not None and not known:
            raise InputError(f"{path}: post_processor.{name}: found {_short(value)}, expected a token and its id")
    if part.get("type") != "TemplateProcessing":
        return
    specials = part.get("special_tokens") or {}
    if not isinstance(specials, dict):
        raise InputError(f"{path}: post_processor.special_tokens: found {_short(specials)}, expected an object")
    for name, entry in specials.items():
        found = entry.get("ids") if isinstance(entry, dict) else None
        if not isinstance(found, list) or not all(_is_count(number) and number in ids for number in found):
            raise InputError(
                f"{path}: post_processor.special_tokens[{name!r}].ids: found {_short(found)}, "
                "expected ids of the vocabulary"
            )
    for template in ("single", "pair"):
        pieces = part.get(template) or []
        if not isinstance(pieces, list):
            raise InputError(f"{path}: post_processor.{template}: found {_short(pieces)}, expected a list")
        for piece in pieces:
            special = piece.get("SpecialToken") if isinstance(piece, dict) else None
            if isinstance(special, dict) and str(special.get("id")) not in specials:
                raise InputError(
                    f"{path}: post_processor.{template}: found the special token {special.get('id')!r}, "
                    "expected one listed in post_processor.special_tokens"
                )


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
