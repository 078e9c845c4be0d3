"""Special tokens by role, and tokens added after training: those trained here, and those that files name."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, processors

from headway.errors import InputError
from headway.text.safe.tokenizer_files import MAX_IDS, check_id, read_object

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
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


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


def encoder_template(backend: tokenizers.Tokenizer, names: Mapping[str, str]) -> processors.TemplateProcessing:
    """``[CLS] text [SEP]`` and ``[CLS] first [SEP] second [SEP]``, the second with type id 1."""
    cls, sep = names["cls_token"], names["sep_token"]
    return processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(token, backend.token_to_id(token)) for token in (cls, sep)],
    )


def frame(begin: str | None, end: str | None, backend: tokenizers.Tokenizer) -> processors.TemplateProcessing:
    """Tokens put before and after each text, if any; in a pair around each, the second with type id 1."""
    first, second = (
        [*([f"{begin}:{n}"] if begin else []), f"${'AB'[n]}:{n}", *([f"{end}:{n}"] if end else [])] for n in (0, 1)
    )
    used = sorted({token for token in (begin, end) if token})
    return processors.TemplateProcessing(
        single=first, pair=first + second, special_tokens=[(token, backend.token_to_id(token)) for token in used]
    )


def read_config(directory: Path) -> dict[str, Any]:
    """The entries of ``special_tokens_map.json`` and ``tokenizer_config.json``; the second takes precedence."""
    config: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (directory / name).exists():
            entries, _ = read_object(directory / name)
            config |= {key: value for key, value in entries.items() if value is not None}
    return config


def flag(config: Mapping[str, Any], name: str, default: bool | None, folder: Path) -> bool | None:
    """A boolean of the ``tokenizer_config.json`` of a folder.  Raises InputError for any other value."""
    value = config.get(name, default)
    if value is not None and not isinstance(value, bool):
        raise InputError(
            f"{folder / 'tokenizer_config.json'}: {name}: found {str(value)[:40]!r}, expected true or false"
        )
    return value


def content_of(value: Any) -> Any:
    """The text of a special token as a configuration names it: by itself, or with its flags."""
    return value.get("content") if isinstance(value, dict) else value


def named_tokens(
    config: Mapping[str, Any], defaults: Mapping[str, str], id_of: Callable[[str], int | None], path: Path
) -> dict[str, str]:
    """The special tokens by role that a configuration names, otherwise ``defaults``.

    Raises InputError for a token that the vocabulary in the file ``path``, asked by ``id_of``, lacks.
    """
    names: dict[str, str] = {}
    config_path = path.parent / "tokenizer_config.json"
    for role in NAMES:
        token = _token(config.get(role, defaults.get(role)), f"{config_path}: {role}")
        if token is None:
            continue
        if id_of(token.content) is None:
            shown = f"{token.content[:60]!r}"
            raise InputError(
                f"{path}: {role}: found no token {shown}, expected it there; use the vocabulary that was saved with "
                "the model"
                if defaults
                else f"{config_path}: {role}: found {shown}, expected a token that {path.name} has"
            )
        names[role] = token.content
    return names


def usual_names(backend: tokenizers.Tokenizer) -> dict[str, str]:
    """The special tokens by role of a tokenizer whose files name none."""
    known = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    present = {role: [token for token in usual if token in known] for role, usual in _USUAL.items()}
    return {role: tokens[0] for role, tokens in present.items() if tokens}


def add_tokens(
    backend: tokenizers.Tokenizer, config: Mapping[str, Any], defaults: Mapping[str, str], path: Path
) -> dict[str, str]:
    """Add the tokens that a configuration names to a tokenizer without special tokens; return the roles.

    Roles come from ``config``, otherwise from ``defaults``; their tokens must be in the vocabulary (the file ``path``)
    or among the tokens added after training (``add_later``).  Raises InputError.
    """
    add_later(backend, config, path)
    names = named_tokens(config, defaults, backend.token_to_id, path)
    _add_special(backend, [config.get(role, names[role]) for role in names], "")
    return names


def add_later(backend: tokenizers.Tokenizer, config: Mapping[str, Any], path: Path) -> None:
    """Add the tokens that a configuration names without a role, next to those of the vocabulary (the file ``path``).

    They are ``added_tokens_decoder``, which also decides the flags of the file's own, or ``added_tokens.json``, and
    then the additional special tokens.  Raises InputError.
    """
    known = {token.content: repr(token) for token in backend.get_added_tokens_decoder().values()}
    later = _added_after_training(config, path.parent)
    decides = isinstance(config.get("added_tokens_decoder"), dict)
    new = [token for _, token in sorted(later.items())]
    backend.add_tokens(
        [token for token in new if token.content not in known or (decides and known[token.content] != repr(token))]
    )
    for number, token in later.items():
        if (expected := backend.token_to_id(token.content)) != number:
            raise InputError(
                f"{path.parent}: added_tokens_decoder or added_tokens.json: id of the added token "
                f"{token.content[:60]!r}: found {number}, expected {expected}: a token has the id of {path.name}, and "
                "others follow without a gap"
            )
    entry = "extra_special_tokens" if config.get("extra_special_tokens") else "additional_special_tokens"
    listed, where = config.get(entry) or [], f"{path.parent / 'tokenizer_config.json'}: {entry}"
    if not isinstance(listed, list | dict):
        raise InputError(f"{where}: found {str(listed)[:60]}, expected a list of tokens")
    _add_special(backend, list(listed.values()) if isinstance(listed, dict) else listed, where)


def _add_special(backend: tokenizers.Tokenizer, values: Iterable[Any], where: str) -> None:
    """A special token that is named without flags keeps those that it has."""
    known = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    tokens = [(token, isinstance(value, dict)) for value in values if (token := _token(value, where)) is not None]
    backend.add_special_tokens([token for token, flags in tokens if flags or token.content not in known])


def _token(value: Any, where: str) -> AddedToken | None:
    content = content_of(value)
    if content is None:
        return None
    if not isinstance(content, str) or not content:
        raise InputError(f"{where}: found {str(value)[:60]!r}, expected a token")
    flags = {flag: bool(value[flag]) for flag in _FLAGS if flag in value} if isinstance(value, dict) else {}
    return AddedToken(content, special=True, **{"normalized": False, **flags})


def _added_after_training(config: Mapping[str, Any], folder: Path) -> dict[int, AddedToken]:
    later: dict[int, AddedToken] = {}
    listed, path = config.get("added_tokens_decoder"), folder / "added_tokens.json"
    if isinstance(listed, dict):
        where = f"{folder / 'tokenizer_config.json'}: added_tokens_decoder"
        for number, value in listed.items():
            token = _token(value, where)
            if token is None or not number.isdecimal() or len(number) > 9 or int(number) >= MAX_IDS:
                raise InputError(f"{where}: found {number[:20]!r}: {str(value)[:60]}, expected an id and a token")
            token.special = bool(value.get("special", False)) if isinstance(value, dict) else True
            later[int(number)] = token
    elif path.exists():
        ids, _ = read_object(path)
        roles = {content for role in NAMES if (content := content_of(config.get(role)))}
        for content, number in ids.items():
            check_id(number, f"{path}: id of {content[:40]!r}")
            if not content:
                raise InputError(f"{path}: found {content!r}, expected a token")
            special = content in roles
            later[number] = AddedToken(content, special=special, normalized=not special)
    return later
