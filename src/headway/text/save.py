"""Write a tokenizer's files in the format of transformers."""

from functools import partial
from pathlib import Path
from typing import Any

from headway.io.atomic_write import write_json, write_whole
from headway.text.backend import Backend, RustBackend
from headway.text.families.translation import TARGET_CODE
from headway.text.special_tokens import NAMES

KEPT = ("chat_template", "model_input_names")
"""Entries of a loaded ``tokenizer_config.json`` that are saved unchanged."""

KEPT_FOR_TRANSLATION = (
    *("source_lang", "target_lang", "separate_vocabs", "src_lang", "tgt_lang", "language_codes", TARGET_CODE),
)


def write(
    folder: Path,
    backend: Backend,
    names: dict[str, str],
    config: dict[str, Any],
    *,
    max_length: int | None,
    segments: bool,
) -> None:
    """Write the files of a backend and ``tokenizer_config.json``, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    translates = backend.transformers_class != RustBackend.transformers_class
    kept = (*KEPT, *(KEPT_FOR_TRANSLATION if translates else ()))
    said = {
        "model_input_names": inputs,
        **{key: config[key] for key in kept if key in config},
        **{name: names[name] for name in NAMES if name in names},
        "model_max_length": max_length or 10**30,
        "clean_up_tokenization_spaces": False,
        "tokenizer_class": backend.transformers_class,
    }
    for name, content in backend.files().items():
        write_whole(folder / name, partial(Path.write_bytes, data=content))
    write_json(folder / "tokenizer_config.json", said)
