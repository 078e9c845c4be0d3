"""``config.json`` from an untrusted directory: read as data about a model, never as code to run."""

import re
from pathlib import Path
from typing import Any

from headway.errors import InputError, shown
from headway.io.regular_file import inside
from headway.io.strict_json import read_object

MAX_LAYERS = 512
"""Several times the depth of published models; each layer takes time to build before any weight is compared."""
MAX_WIDTH = 2**20
"""Many times the width of published models, in numbers, heads or pixels."""
WIDTH = re.compile(
    r"hidden_size|intermediate_size|d_\w+|dim|\w+_dim|n_embd|n_inner|n_heads?|num_heads|\w+_heads"
    r"|image_size|patch_size|num_channels"
)
"""The keys, of all families, that give the width of a part."""
MAX_NUMBER = 2**53
TOKEN = re.compile(r".*_token_ids?")
"""The keys that hold one or more token ids."""
LABELS = ("id2label", "label2id")
"""The objects whose keys are not those of a model: a label may be "players" or "auto_map"."""
CODE = {
    "auto_map": "it names Python code in the directory, which is not run",
    "custom_pipelines": "it names Python code in the directory, which is not run",
    "trust_remote_code": "a file cannot declare itself trusted",
    "_attn_implementation_internal": "it names code to download",
}
"""Keys that make other programs run code, and why each is refused anywhere in the file."""


def read_config(directory: Path) -> dict[str, Any]:
    """The content of ``config.json`` unchanged; the model's family checks what each key means.

    Raises InputError for JSON that is not strict, for keys that would run code, and for numbers of layers, widths or
    other numbers larger than any model has.
    """
    path = inside(directory, "config.json")
    theirs = read_object(path, advice="expected a model directory with config.json")
    _check(theirs, "", path)
    return theirs


def _check(value: Any, key: str, path: Path) -> None:
    several = isinstance(value, list) and key != "pad_token_id"
    if TOKEN.fullmatch(key) and not (value is None or type(value) is int or several):
        raise InputError(f"{path}: {key}: found {shown(value)}, expected the id of a token, or null")
    if isinstance(value, dict):
        for name, entry in value.items():
            if name in CODE and entry and key not in LABELS:
                raise InputError(
                    f"{path}: {name}: found {shown(entry)}: {CODE[name]}; "
                    "remove the entry if the model is an ordinary one of its family"
                )
            _check(entry, key if key in LABELS else name, path)
    elif isinstance(value, list):
        for entry in value:
            _check(entry, key, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        most = MAX_LAYERS if key.endswith(("layer", "layers")) else MAX_WIDTH if WIDTH.fullmatch(key) else MAX_NUMBER
        if abs(value) > most:
            raise InputError(f"{path}: {key}: found {shown(value)}, expected at most {most}")
