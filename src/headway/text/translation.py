"""``source.spm``, ``target.spm``, ``sentencepiece.bpe.model``: the tokenizers of Marian and M2M-100."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.io.regular_file import inside
from headway.text.safe.tokenizer_files import read_bytes, read_vocabulary
from headway.text.sentencepiece.backend import SentencePieceBackend
from headway.text.sentencepiece.model_file import read_model
from headway.text.sentencepiece.segmenter import Segmenter
from headway.text.special_tokens import flag, named_tokens

Sides = tuple[SentencePieceBackend, SentencePieceBackend, dict[str, str]]
"""The source side, the target side, and the special tokens by role."""

MARIAN = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
M2M100 = {"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

CODED = re.compile(r">>.+<<", re.DOTALL)
"""How a token of Marian's names a language."""
TARGET_CODE = "headway_target_language"
"""The entry in which a saved Marian tokenizer keeps the language chosen by ``Tokenizer.with_languages``."""

_M2M100 = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id
    ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si
    sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
"""
_WMT21 = "en ha is ja cs ru zh de"
_LANGUAGES = {"m2m100": _M2M100.split(), "wmt21": _WMT21.split()}
"""The languages of the two model families, in the order of their ids (Fan et al., 2021; Tran et al., 2021)."""


def load_marian(folder: Path, config: dict[str, Any]) -> Sides:
    """(source side, target side, special tokens by role) of a Marian directory (Junczys-Dowmunt et al., 2018).

    The sides are segmented by ``source.spm`` and ``target.spm``; ids come from ``vocab.json``, or for the target side
    from ``target_vocab.json`` if ``separate_vocabs`` is true.  Texts end with ``</s>``.  Raises InputError.
    """
    files = ["source.spm", "target.spm", "vocab.json"]
    if flag(config, "separate_vocabs", False, folder):
        files.append("target_vocab.json")
    paths = {name: inside(folder, name) for name in files}
    written = {name: read_bytes(path, "a file of a Marian tokenizer") for name, path in paths.items()}
    sides = []
    for side, ids in (("source.spm", "vocab.json"), ("target.spm", files[-1])):
        vocabulary = read_vocabulary(paths[ids])
        names = named_tokens(config, MARIAN, vocabulary.get, paths[ids])
        coded = {token[2:-2]: number for token, number in vocabulary.items() if CODED.fullmatch(token)}
        entries: dict[str, Any] = {"languages": coded, "written": written, "transformers_class": "MarianTokenizer"}
        sides.append(_side(paths[side], vocabulary, names, coded=True, **entries))
    source, target = sides
    chosen = config.get(TARGET_CODE)
    if chosen is not None:
        at = folder / "tokenizer_config.json"
        source = source.with_prefix((language(source.languages, chosen, f"{at}: target"),))
    return source, target, names


def load_m2m100(folder: Path, config: dict[str, Any]) -> Sides:
    """(source side, target side, special tokens by role) of an M2M-100 directory (Fan et al., 2021).

    Texts become ``__en__ text </s>``, with the language of their side: ``src_lang`` (default "en") and ``tgt_lang`` of
    the configuration.  The ids of languages follow those of ``vocab.json``.  Raises InputError.
    """
    paths = {name: inside(folder, name) for name in ("sentencepiece.bpe.model", "vocab.json")}
    vocabulary = read_vocabulary(paths["vocab.json"])
    if max(vocabulary.values()) >= len(vocabulary):
        raise InputError(
            f"{paths['vocab.json']}: largest token id: found {max(vocabulary.values())}, expected "
            f"{len(vocabulary) - 1}: the ids of languages follow"
        )
    names = named_tokens(config, M2M100, vocabulary.get, paths["vocab.json"])
    at, family = folder / "tokenizer_config.json", config.get("language_codes", "m2m100")
    if not isinstance(family, str) or family not in _LANGUAGES:
        raise InputError(f"{at}: language_codes: found {str(family)[:40]!r}, expected {' or '.join(_LANGUAGES)}")
    languages = {code: number for number, code in enumerate(_LANGUAGES[family], start=len(vocabulary))}
    source = _side(
        paths["sentencepiece.bpe.model"],
        {**vocabulary, **{f"__{code}__": number for code, number in languages.items()}},
        names,
        languages=languages,
        written={name: read_bytes(path, "a file of an M2M-100 tokenizer") for name, path in paths.items()},
        transformers_class="M2M100Tokenizer",
    )
    to = config.get("tgt_lang")
    target = source.with_prefix(() if to is None else (language(languages, to, f"{at}: target"),))
    return source.with_prefix((language(languages, config.get("src_lang", "en"), f"{at}: source"),)), target, names


def _side(model: Path, vocabulary: dict[str, int], names: dict[str, str], **entries: Any) -> SentencePieceBackend:
    """A side whose texts end with ``</s>``."""
    return SentencePieceBackend(
        Segmenter(read_model(model)),
        vocabulary,
        {token: vocabulary[token] for token in names.values()},
        unknown=vocabulary[names["unk_token"]],
        suffix=(vocabulary[names["eos_token"]],),
        **entries,
    )


def language(languages: Mapping[str, int], code: Any, side: str) -> int:
    """The id of a language.  Raises InputError for a language that the model does not have."""
    if not isinstance(code, str) or code not in languages:
        known = ", ".join(list(languages)[:12]) + (", ..." if len(languages) > 12 else "")
        raise InputError(
            f"{side} language: found {str(code)[:20]!r}, expected one of {known or 'none: it has no codes'}"
        )
    return languages[code]
