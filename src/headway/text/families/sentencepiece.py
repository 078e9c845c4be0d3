"""Tokenizers of SentencePiece's files: T5's and Llama's.

``spiece.model`` is T5's, Unigram with a hundred sentinel tokens (Raffel et al., 2020); ``tokenizer.model`` Llama's, BPE
with bytes for unknown characters (Touvron et al., 2023).
"""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from headway.errors import InputError
from headway.text.added_tokens import add_tokens
from headway.text.families.bert import flag
from headway.text.families.byte_level import around
from headway.text.rust_errors import guarded
from headway.text.sentencepiece.model_file import (
    BPE,
    CONTROL,
    SPACE,
    UNIGRAM,
    USER_DEFINED,
    SentencePieceModel,
    read_model,
)
from headway.text.sentencepiece.segmenter import merges

T5 = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
MOST_GAPS = 10_000
LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def load_t5(path: Path, config: dict[str, Any]) -> tuple[tokenizers.Tokenizer, dict[str, str]]:
    """The tokenizer of a ``spiece.model``; texts end with ``</s>``, and so does each text of a pair.

    ``config`` may set ``extra_ids`` (default 100), the number of tokens ``<extra_id_0>``, ...: the last has the lowest
    id.  Raises InputError.
    """
    model = read_model(path)
    if model.type != UNIGRAM:
        raise InputError(f"{path}: model_type: found bpe, expected unigram for a tokenizer of T5")
    gaps = config.get("extra_ids", 100)
    if type(gaps) is not int or not 0 <= gaps <= MOST_GAPS:
        config_path = path.parent / "tokenizer_config.json"
        raise InputError(f"{config_path}: extra_ids: found {str(gaps)[:20]}, expected an integer from 0 to {MOST_GAPS}")
    sentinels = [f"<extra_id_{number}>" for number in range(gaps - 1, -1, -1)]
    vocabulary = [(piece.text, piece.score) for piece in model.pieces]
    known = {piece.text for piece in model.pieces}
    vocabulary += [(token, 0.0) for token in sentinels if token not in known]
    backend = tokenizers.Tokenizer(models.Unigram(vocabulary, model.unknown, False))
    if model.charsmap:
        what = f"{path}: normalizer_spec.precompiled_charsmap: cannot be used"
        backend.normalizer = guarded(lambda: normalizers.Precompiled(model.charsmap), what)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=True)]
    )
    backend.decoder = decoders.Metaspace(SPACE, prepend_scheme="always", split=True)
    add_control_tokens(backend, model)
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in sentinels])
    names = add_tokens(backend, config, T5, path)
    end = names["eos_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=["$A", end], pair=["$A", end, "$B", end], special_tokens=[(end, backend.token_to_id(end))]
    )
    return backend, names


def add_control_tokens(backend: tokenizers.Tokenizer, model: SentencePieceModel) -> None:
    """Control tokens become special tokens; user-defined symbols become whole tokens that are text."""
    kinds = model.of_type
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in kinds.get(CONTROL, [])])
    backend.add_tokens([AddedToken(token, normalized=False) for token in kinds.get(USER_DEFINED, [])])


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
