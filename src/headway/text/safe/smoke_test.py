"""Try a tokenizer on a few texts when it is loaded, so that a bad file fails then and not in use."""

import itertools
from functools import partial
from pathlib import Path

from headway.errors import InputError
from headway.text.backend import Backend
from headway.text.rust_errors import guarded

PROBES = (
    "",
    "Hello, world! It's 12:30.",
    "Ünïcödé, 日本語, ไทย, عربي, 👩‍👩‍👧 \ufffd",
    "\t tabs\nand  lines\r\n\n",
    "a" * 48 + "!",
    " " * 48 + "0" * 48,
)


def probe(backend: Backend, path: Path) -> None:
    """Encode and decode a few texts.  Raises InputError, its message beginning with ``path``."""
    size = 1 + max(backend.vocabulary.values())
    for text, special in itertools.product(PROBES, (False, True)):
        what = f"{path}: loads, but cannot encode and decode {text[:24]!r}; expected any text to work"
        ids = guarded(partial(backend.encode, [text], special=special, allow_special=False), what)[0]
        guarded(partial(backend.decode, ids, skip_special=True), what)
        if ids and max(ids) >= size:
            raise InputError(f"{path}: found the id {max(ids)} in use, expected ids below {size}")
