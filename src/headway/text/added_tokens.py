"""Tokens in addition to a model's vocabulary: special tokens, and those added after training."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from headway.errors import InputError
from headway.text.safe.tokenizer_json import MAX_IDS, read_object
from headway.text.special_tokens import NAMES, content_of

_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def add_tokens(
    backend: tokenizers.Tokenizer, config: Mapping[str, Any], defaults: Mapping[str, str], path: Path
) -> dict[str, str]:
    """Add the tokens that a configuration names to a tokenizer without special tokens; return the roles.

    Roles come from ``config``, otherwise from ``defaults``; their tokens must be in the vocabulary (the file ``path``)
    or among the tokens added after training (``add_later``).  Raises InputError.
    """
    add_later(backend, config, path)
    names: dict[str, str] = {}
    for name in NAMES:
        named = _token(config.get(name, defaults.get(name)), f"{path.parent / 'tokenizer_config.json'}: {name}")
        if named is None:
            continue
        if backend.token_to_id(named.content) is None:
            raise InputError(
                f"{path}: {name}: found no token {named.content[:60]!r}, expected it there; "
                "use the vocabulary that was saved with the model"
            )
        names[name] = named.content
    _add_special(backend, [config.get(name, names[name]) for name in names], "")
    return names


def add_later(backend: tokenizers.Tokenizer, config: Mapping[str, Any], path: Path) -> None:
    """Add the tokens that a configuration names without a role, next to those of the vocabulary (the file ``path``).

    They are ``added_tokens_decoder``, which also decides the flags of the file's own, or ``added_tokens.json``, and
    then the additional special tokens.  Raises InputError.
    """
    known = {token.content: repr(token) for token in backend.get_added_tokens_decoder().values()}
    later = _added_after_training(config, path)
    decides = isinstance(config.get("added_tokens_decoder"), dict)
    new = [later[number] for number in sorted(later)]
    backend.add_tokens(
        [token for token in new if token.content not in known or (decides and known[token.content] != repr(token))]
    )
    for number, token in later.items():
        if (found := backend.token_to_id(token.content)) != number:
            raise InputError(
                f"{path.parent}: added_tokens_decoder or added_tokens.json: id of the added token "
                f"{token.content[:60]!r}: found {number}, expected {found}: a token has the id of {path.name}, and "
                "others follow without a gap"
            )
    entry = "extra_special_tokens" if config.get("extra_special_tokens") else "additional_special_tokens"
    listed, where = config.get(entry) or [], f"{path.parent / 'tokenizer_config.json'}: {entry}"
    if not isinstance(listed, list | dict):
        raise InputError(f"{where}: found {str(listed)[:60]}, expected a list of tokens")
    _add_special(backend, list(listed.values()) if isinstance(listed, dict) else listed, where)


def pair(backend: tokenizers.Tokenizer, token: str) -> tuple[str, int]:
    """A token of the vocabulary and its id.  Raises InputError for a token that it lacks."""
    number = backend.token_to_id(token)
    if number is None:
        raise InputError(f"found no token {token[:60]!r}, expected it in the vocabulary")
    return token, number


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


def _added_after_training(config: Mapping[str, Any], path: Path) -> dict[int, AddedToken]:
    found: dict[int, AddedToken] = {}
    listed = config.get("added_tokens_decoder")
    if isinstance(listed, dict):
        where = f"{path.parent / 'tokenizer_config.json'}: added_tokens_decoder"
        for number, value in listed.items():
            token = _token(value, where)
            if token is None or not number.isdecimal() or len(number) > 9 or int(number) >= MAX_IDS:
                raise InputError(f"{where}: found {number[:20]!r}: {str(value)[:60]}, expected an id and a token")
            token.special = bool(value.get("special", False)) if isinstance(value, dict) else True
            found[int(number)] = token
    elif (path.parent / "added_tokens.json").exists():
        ids, _ = read_object(path.parent / "added_tokens.json")
        roles = {content for name in NAMES if (content := content_of(config.get(name)))}
        for content, number in ids.items():
            if type(number) is not int or not 0 <= number < MAX_IDS or not content:
                raise InputError(
                    f"{path.parent / 'added_tokens.json'}: id of {content[:40]!r}: found {str(number)[:20]}, "
                    f"expected an integer from 0 to {MAX_IDS - 1}"
                )
            special = content in roles
            found[number] = AddedToken(content, special=special, normalized=not special)
    return found
