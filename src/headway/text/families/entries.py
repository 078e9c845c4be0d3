"""Entries of ``tokenizer_config.json`` next to a ``tokenizer.json`` that says otherwise, as transformers reads them.

Some classes of transformers make parts of the tokenizer again from these entries and their own defaults; other classes
take ``tokenizer.json`` as it is.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.text.backend import RustBackend
from headway.text.families.bert import flag
from headway.text.rust_errors import guarded
from headway.text.safe.expansion import parts_of
from headway.text.sentencepiece.model_file import SPACE
from headway.text.special_tokens import content_of

BERT = ("BertTokenizer", "DistilBertTokenizer", "MobileBertTokenizer", "bert", "distilbert")
BYTE_LEVEL = (
    *("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "Qwen2Tokenizer"),
    *("gpt2", "roberta", "bart", "qwen2", "qwen3"),
)
LLAMA = ("LlamaTokenizer",)
FRAMED = (*BERT, "RobertaTokenizer", "BartTokenizer", "roberta", "bart")
"""Classes that put ``cls_token`` before a text and ``sep_token`` after it."""
AS_IT_IS = ("mistral", "modernbert")
"""Types of models for which transformers takes the file as it is, whatever class is named."""

Keys = Mapping[str, tuple[str, bool | None]]
"""For each entry, its name in ``tokenizer.json`` and the class's default."""
_BERT: Keys = {
    "do_lower_case": ("lowercase", True),
    "strip_accents": ("strip_accents", None),
    "tokenize_chinese_chars": ("handle_chinese_chars", True),
}
_BYTE_LEVEL: Keys = {"add_prefix_space": ("add_prefix_space", False)}


def follow(spec: dict[str, Any], family: str, config: dict[str, Any], path: Path) -> bool:
    """Change a parsed ``tokenizer.json`` (at ``path``) to what the entries say; whether anything was changed.

    ``family``: the tokenizer class, or the type of model where none is named.  Raises InputError naming an entry that
    the file cannot follow.
    """
    if family not in (*BERT, *BYTE_LEVEL, *LLAMA):
        return False
    _check_tokens(spec, family, config, path)
    if family in BERT:
        return _follow(spec, "normalizer", "BertNormalizer", _BERT, config, path)
    if family in BYTE_LEVEL:
        return _follow(spec, "pre_tokenizer", "ByteLevel", _BYTE_LEVEL, config, path)
    parts = {name: list(parts_of(spec.get(name), name)) for name in ("normalizer", "pre_tokenizer", "decoder")}
    if any(part.get("type") == "ByteLevel" for part in [*parts["pre_tokenizer"], *parts["decoder"]]):
        return False  # Llama 3's, which the class of Llama 2 does not read
    before = {name: spec.get(name) for name in parts}
    space = flag(config, "add_prefix_space", True, path) is not False
    scheme = ("always" if flag(config, "legacy", False, path) else "first") if space else "never"
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if space else []
    spec |= {
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False},
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                *({"type": "ByteFallback"}, {"type": "Fuse"}, *strip),
            ],
        },
    }
    return before != {name: spec[name] for name in parts}


def check_frame(backend: RustBackend, family: str, names: dict[str, str], path: Path) -> None:
    """Refuse roles other than those of the tokens that ``tokenizer.json`` puts around a text: transformers uses them."""
    if family in FRAMED:
        ids = guarded(lambda: backend.encode(["a"], special=True, allow_special=False)[0], f"{path}: cannot be used")
        for role, found in (("cls_token", ids[:1]), ("sep_token", ids[-1:])):
            if role in names and [backend.vocabulary[names[role]]] != found:
                raise _refused(path, role, names[role], "the token that tokenizer.json puts before or after a text")


def _follow(
    spec: dict[str, Any], component: str, kind: str, keys: Keys, config: dict[str, Any], path: Path
) -> bool:
    parts = [part for part in parts_of(spec.get(component), component) if part.get("type") == kind]
    changed = False
    for entry, (key, default) in keys.items():
        value = flag(config, entry, default, path)
        if entry in config and not parts:
            raise _refused(path, entry, value, f"a tokenizer.json whose {component} has a {kind}")
        for part in parts:
            changed |= part.get(key) is not value
            part[key] = value
    return changed


def _check_tokens(spec: dict[str, Any], family: str, config: dict[str, Any], path: Path) -> None:
    """Refuse entries about tokens that would change ids: transformers takes them, and not those of the file."""
    unknown = content_of(config.get("unk_token"))
    if family in BERT and unknown is not None and unknown != spec["model"].get("unk_token"):
        raise _refused(path, "unk_token", unknown, f"{spec['model'].get('unk_token')!r} as in tokenizer.json")
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return
    named = [value for key, value in config.items() if key.endswith("_token")]
    for entry in (config.get("additional_special_tokens"), config.get("extra_special_tokens")):
        named += entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ()
    known = [content_of(value) for value in [*listed.values(), *named]]
    for row in spec.get("added_tokens") or []:
        if row["content"] not in known:
            found = f"no token {row['content'][:40]!r}"
            raise _refused(path, "added_tokens_decoder", found, "all added tokens of tokenizer.json")


def _refused(path: Path, entry: str, found: object, expected: str) -> InputError:
    return InputError(
        f"{path.parent / 'tokenizer_config.json'}: {entry}: found {str(found)[:60]}, expected {expected}; "
        "save the tokenizer again with `tokenizer.save_pretrained(directory)` of transformers"
    )
