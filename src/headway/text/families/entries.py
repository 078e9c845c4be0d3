"""Entries of ``tokenizer_config.json`` next to a ``tokenizer.json`` that says otherwise, as transformers reads them.

Some classes of transformers make parts of the tokenizer from these entries and their own defaults; other classes take
``tokenizer.json`` as it is.
"""

from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.text.backend import RustBackend
from headway.text.families.vocabularies import llama_spaces
from headway.text.rust_errors import guarded
from headway.text.safe.tokenizer_files import SAVE_AGAIN, parts_of
from headway.text.sentencepiece.model_file import SPACE
from headway.text.special_tokens import content_of, flag

BERT = ("BertTokenizer", "DistilBertTokenizer", "MobileBertTokenizer", "bert", "distilbert")
ROBERTA = ("RobertaTokenizer", "BartTokenizer", "roberta", "bart")
BYTE_LEVEL = (*ROBERTA, "GPT2Tokenizer", "Qwen2Tokenizer", "gpt2", "qwen2", "qwen3")
LLAMA = "LlamaTokenizer"
AS_IT_IS = ("mistral", "modernbert")
"""Types of models for which transformers takes the file as it is, whatever class is named."""

_BERT: dict[str, tuple[str, bool | None]] = {
    "do_lower_case": ("lowercase", True),
    "strip_accents": ("strip_accents", None),
    "tokenize_chinese_chars": ("handle_chinese_chars", True),
}
"""For each entry, its name in ``tokenizer.json`` and the class's default."""


def follow(spec: dict[str, Any], family: str, config: dict[str, Any], path: Path) -> bool:
    """Change a parsed ``tokenizer.json`` (at ``path``) to what the entries say; whether anything was changed.

    ``family``: the tokenizer class, or the type of model where none is named.  Raises InputError naming an entry that
    the file cannot follow.
    """
    if family not in (*BERT, *BYTE_LEVEL, LLAMA):
        return False
    if (kind := spec["model"].get("type")) not in (None, "WordPiece" if family in BERT else "BPE"):
        raise _refused(path, "tokenizer_class", family, f"a class for a {kind}")
    _check_tokens(spec, family, config, path)
    if family == LLAMA:
        return _follow_llama(spec, config, path)
    component, part_type, keys = "normalizer", "BertNormalizer", _BERT
    if family in BYTE_LEVEL:
        component, part_type, keys = "pre_tokenizer", "ByteLevel", {"add_prefix_space": ("add_prefix_space", False)}
    parts = [part for part in parts_of(spec.get(component), component) if part.get("type") == part_type]
    if family in BYTE_LEVEL and not parts:
        raise _refused(path, "tokenizer_class", family, "a class for a tokenizer.json without ByteLevel")
    changed = False
    for entry, (key, default) in keys.items():
        value = flag(config, entry, default, path.parent)
        if entry in config and not parts:
            raise _refused(path, entry, value, f"a tokenizer.json whose {component} has a {part_type}")
        for part in parts:
            changed |= part.get(key) is not value
            part[key] = value
    return changed


def _follow_llama(spec: dict[str, Any], config: dict[str, Any], path: Path) -> bool:
    read = [part for name in ("pre_tokenizer", "decoder") for part in parts_of(spec.get(name), name)]
    if any(part.get("type") == "ByteLevel" for part in read):
        return False  # Llama 3's, which the class of Llama 2 does not read
    scheme = llama_spaces(config, path.parent)
    decoders: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    decoders += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    decoders += [] if scheme == "never" else [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    made: dict[str, Any] = {
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False},
        "decoder": {"type": "Sequence", "decoders": decoders},
    }
    changed = any(spec.get(name) != part for name, part in made.items())
    spec |= made
    return changed


def check_frame(backend: RustBackend, family: str, names: dict[str, str], path: Path) -> None:
    """Refuse other roles than ``tokenizer.json`` has for what is put around a text: transformers puts these around."""
    if family in (*BERT, *ROBERTA):
        ids = guarded(lambda: backend.encode(["a"], special=True, allow_special=False)[0], f"{path}: cannot be used")
        for role, found in (("cls_token", ids[:1]), ("sep_token", ids[-1:])):
            if role in names and [backend.vocabulary[names[role]]] != found:
                raise _refused(path, role, names[role], "the token that tokenizer.json puts before or after a text")


def _check_tokens(spec: dict[str, Any], family: str, config: dict[str, Any], path: Path) -> None:
    """Refuse entries about tokens that would change ids: transformers takes them, and not those of the file."""
    unknown, own = content_of(config.get("unk_token")), spec["model"].get("unk_token")
    if family in BERT and unknown not in (None, own):
        raise _refused(path, "unk_token", unknown, f"{own!r} as in tokenizer.json")
    listed = config.get("added_tokens_decoder")
    named = [value for key, value in config.items() if key.endswith("_token")]
    for entry in (listed, config.get("additional_special_tokens"), config.get("extra_special_tokens")):
        named += entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ()
    known = [content_of(value) for value in named]
    lost = next((row["content"] for row in spec.get("added_tokens") or [] if row["content"] not in known), None)
    if isinstance(listed, dict) and lost is not None:
        raise _refused(path, "added_tokens_decoder", f"no token {lost[:40]!r}", "all added tokens of tokenizer.json")


def _refused(path: Path, entry: str, found: object, expected: str) -> InputError:
    place = path.parent / "tokenizer_config.json"
    return InputError(f"{place}: {entry}: found {str(found)[:60]}, expected {expected}; {SAVE_AGAIN}")
