"""``tokenizer.model``: Llama's tokenizer, BPE with bytes for unknown characters (Touvron et al., 2023)."""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from headway.errors import InputError
from headway.text.added_tokens import add_tokens
from headway.text.families.bert import flag
from headway.text.families.byte_level import around
from headway.text.families.t5 import add_control_tokens
from headway.text.rust_errors import guarded
from headway.text.sentencepiece.model_file import BPE, SPACE, read_model
from headway.text.sentencepiece.segmenter import merges

LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def load_llama(path: Path, config: dict[str, Any]) -> tuple[tokenizers.Tokenizer, dict[str, str]]:
    """The tokenizer of a ``tokenizer.model``.

    ``config`` may set ``add_bos_token`` and ``add_eos_token`` (default false: texts get these tokens only where a
    directory asks for them), ``add_prefix_space`` (true), and ``legacy`` (false: a space is put only before the first
    word, and not after special tokens).  Character rules in the file are not applied, as in transformers; Llama's files
    have none.  Raises InputError.
    """
    model = read_model(path)
    if model.type != BPE:
        raise InputError(f"{path}: model_type: found unigram, expected bpe for a tokenizer of Llama")
    vocabulary = {piece.text: number for number, piece in enumerate(model.pieces)}
    pairs = merges(vocabulary)
    backend = tokenizers.Tokenizer(
        guarded(lambda: models.BPE(vocabulary, pairs, fuse_unk=True, byte_fallback=True), f"{path}: cannot be used")
    )
    space = flag(config, "add_prefix_space", True, path) is not False
    everywhere = bool(flag(config, "legacy", False, path))
    scheme = ("always" if everywhere else "first") if space else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=False)
    parts = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*parts, *([decoders.Strip(" ", 1, 0)] if space else [])])
    add_control_tokens(backend, model)
    names = add_tokens(backend, config, LLAMA, path)
    backend.post_processor = around(backend, names, config, path)
    return backend, names
