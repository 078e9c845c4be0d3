"""Special tokens: their names in each role, and the ones that a saved tokenizer names."""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from headway.errors import InputError
from headway.text.safe.tokenizer_json import read_object

ROLES = ("decoder", "encoder", "translator")
END_OF_TEXT = "<|endoftext|>"
UNKNOWN = "<|unk|>"

NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token")

DECODER = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "pad_token": END_OF_TEXT}
ENCODER = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
TRANSLATOR = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>"}
"""In the order of their ids, which are those of M2M-100."""

_USUAL = {
    "bos_token": ("<|begin_of_text|>", "<|bos|>", "<s>", "<bos>", END_OF_TEXT),
    "eos_token": ("<|end_of_text|>", "</s>", "<eos>", END_OF_TEXT),
    "unk_token": ("[UNK]", "<unk>", UNKNOWN),
    "pad_token": ("[PAD]", "<pad>", "<|pad|>"),
    "cls_token": ("[CLS]",),
    "sep_token": ("[SEP]",),
    "mask_token": ("[MASK]", "<mask>"),
}
"""The special tokens of files that do not name them (GPT-2's and BERT's among them)."""


def special_names(role: str, unknown: bool) -> dict[str, str]:
    """The special tokens of a tokenizer trained here, by their names in ``tokenizer_config.json``.

    ``unknown``: whether it needs a token for unknown text.  Raises InputError for an unknown role.
    """
    if role not in ROLES:
        raise InputError(f"role: found {role!r}, expected one of {', '.join(ROLES)}")
    if role == "encoder":
        return dict(ENCODER)
    if role == "translator":
        return {**TRANSLATOR, "unk_token": "<unk>"} if unknown else dict(TRANSLATOR)
    return {**DECODER, "unk_token": UNKNOWN} if unknown else dict(DECODER)


def padding(names: dict[str, str]) -> str | None:
    """The token that pads a batch: without one of its own, the one that ends, begins or stands for unknown text."""
    return next((names[role] for role in ("pad_token", "eos_token", "bos_token", "unk_token") if role in names), None)


def encoder_template(specials: list[str]) -> processors.TemplateProcessing:
    """``[CLS] text [SEP]`` and ``[CLS] first [SEP] second [SEP]``, the second with type id 1.

    The id of a token is its index in ``specials``.
    """
    return processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, specials.index(token)) for token in ("[CLS]", "[SEP]")],
    )


def translator_template(specials: list[str]) -> processors.TemplateProcessing:
    """``text </s>``, for sources and targets alike; in a pair, each text has its own end token."""
    end = TRANSLATOR["eos_token"]
    return processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B:1 {end}:1", special_tokens=[(end, specials.index(end))]
    )


def read_config(directory: Path) -> dict[str, Any]:
    """The entries of ``special_tokens_map.json`` and ``tokenizer_config.json``; the second takes precedence."""
    config: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (directory / name).exists():
            found, _ = read_object(directory / name)
            config |= {key: value for key, value in found.items() if value is not None}
    return config


def content_of(value: Any) -> Any:
    """The text of a special token as a configuration names it: by itself, or with its flags."""
    return value.get("content") if isinstance(value, dict) else value


def find_names(config: dict[str, Any], backend: tokenizers.Tokenizer, directory: Path) -> dict[str, str]:
    """The special tokens that a configuration names; the usual names where it names none.

    Raises InputError for a token that the vocabulary lacks.
    """
    names: dict[str, str] = {}
    for name in NAMES:
        token = content_of(config.get(name))
        if token is None:
            continue
        if not isinstance(token, str) or backend.token_to_id(token) is None:
            raise InputError(
                f"{directory / 'tokenizer_config.json'}: {name}: found {str(token)[:60]!r}, "
                "expected a token that tokenizer.json has"
            )
        names[name] = token
    if not names:
        known = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
        for name, usual in _USUAL.items():
            token = next((token for token in usual if token in known), None)
            if token is not None:
                names[name] = token
    return names
