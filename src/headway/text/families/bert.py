"""``vocab.txt``: BERT's WordPiece (Devlin et al., 2019)."""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from headway.errors import InputError
from headway.text.added_tokens import add_tokens, pair
from headway.text.safe.vocabulary_files import read_lines
from headway.text.special_tokens import ENCODER, content_of


def load_bert(path: Path, config: dict[str, Any]) -> tuple[tokenizers.Tokenizer, dict[str, str]]:
    """The tokenizer of a ``vocab.txt`` with one token per line; a token's id is its line number, from 0.

    ``config`` may set ``do_lower_case`` (default true), ``tokenize_chinese_chars`` (true) and ``strip_accents``
    (default: as ``do_lower_case``).  Raises InputError.
    """
    vocabulary: dict[str, int] = {}
    for number, line in enumerate(read_lines(path, "a vocabulary of one token a line")):
        token = line.rstrip()
        if not token:
            raise InputError(f"{path}: line {number + 1}: found no token, expected one on every line")
        if token in vocabulary:
            raise InputError(
                f"{path}: line {number + 1}: found {token[:40]!r}, which is line {vocabulary[token] + 1}, "
                "expected it once"
            )
        vocabulary[token] = number
    lower = flag(config, "do_lower_case", True, path)
    unknown = content_of(config.get("unk_token", ENCODER["unk_token"]))
    if unknown not in vocabulary:
        raise InputError(f"{path}: unk_token: found no token {str(unknown)[:40]!r}, expected it there")
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=flag(config, "tokenize_chinese_chars", True, path) is True,
        strip_accents=flag(config, "strip_accents", None, path),
        lowercase=lower is True,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    names = add_tokens(backend, config, ENCODER, path)
    cls, sep = (pair(backend, names[name]) for name in ("cls_token", "sep_token"))
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls[0]}:0 $A:0 {sep[0]}:0",
        pair=f"{cls[0]}:0 $A:0 {sep[0]}:0 $B:1 {sep[0]}:1",
        special_tokens=[cls, sep],
    )
    return backend, names


def flag(config: dict[str, Any], name: str, default: bool | None, path: Path) -> bool | None:
    """A boolean of ``tokenizer_config.json``.  Raises InputError for any other value."""
    found = config.get(name, default)
    if found is not None and not isinstance(found, bool):
        config_path = path.parent / "tokenizer_config.json"
        raise InputError(f"{config_path}: {name}: found {str(found)[:40]!r}, expected true or false")
    return found
