"""Write a tokenizer's files in the format of transformers."""

from functools import partial
from pathlib import Path
from typing import Any

from headway.io.atomic_write import write_json, write_whole
from headway.text.backend import Backend, RustBackend
from headway.text.families.translation import TARGET_CODE
from headway.text.special_tokens import NAMES, content_of, padding

KEPT = (
    *("chat_template", "response_template", "chat_control_tokens", "padding_side", "truncation_side", "legacy"),
    *("add_prefix_space", "add_bos_token", "add_eos_token", "do_lower_case", "strip_accents", "tokenize_chinese_chars"),
)
"""Entries of a loaded ``tokenizer_config.json`` that are saved unchanged."""

KEPT_FOR_TRANSLATION = (
    *("source_lang", "target_lang", "separate_vocabs", "src_lang", "tgt_lang", "language_codes", TARGET_CODE),
)


def write(
    folder: Path,
    backend: Backend,
    names: dict[str, str],
    config: dict[str, Any],
    max_length: int | None,
    *,
    segments: bool,
    padding_side: str | None,
) -> None:
    """Write the files of a backend and ``tokenizer_config.json``, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    known = config.get("model_input_names")
    segments = segments and (not isinstance(known, list) or "token_type_ids" in known)
    inputs = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    translates = backend.transformers_class != RustBackend.transformers_class
    kept = (*KEPT, *(KEPT_FOR_TRANSLATION if translates else ()))
    said = {
        "model_input_names": inputs,
        **{key: config[key] for key in kept if key in config},
        **{key: value for key, value in config.items() if _names_tokens(key, value, backend)},
        **{name: names[name] for name in NAMES if name in names},
        **({"padding_side": padding_side, "pad_token": padding(names)} if padding_side else {}),
        "model_max_length": max_length or 10**30,
        "clean_up_tokenization_spaces": False,
        "tokenizer_class": backend.transformers_class,
    }
    for name, content in backend.files().items():
        write_whole(folder / name, partial(Path.write_bytes, data=content))
    write_json(folder / "tokenizer_config.json", said)


def _names_tokens(key: str, value: Any, backend: Backend) -> bool:
    """Whether an entry names special tokens of the backend without a role of ``NAMES``."""
    if not (key in ("additional_special_tokens", "extra_special_tokens") or key.endswith("_token")) or key in NAMES:
        return False
    listed = list(value.values()) if isinstance(value, dict) and "content" not in value else value
    tokens = [content_of(token) for token in (listed if isinstance(listed, list) else [listed])]
    return all(isinstance(token, str) and backend.vocabulary.get(token) in backend.special_ids for token in tokens)
