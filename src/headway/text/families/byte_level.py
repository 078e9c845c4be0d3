"""``vocab.json`` and ``merges.txt``: the byte-level BPE of GPT-2 and RoBERTa (Radford et al., 2019)."""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from headway.errors import InputError
from headway.text.added_tokens import add_tokens, pair
from headway.text.families.bert import flag
from headway.text.rust_errors import guarded
from headway.text.safe.vocabulary_files import read_lines, read_vocabulary
from headway.text.special_tokens import END_OF_TEXT

GPT2 = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT}
ROBERTA = {
    **{"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>"},
    **{"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"},
}


def load_byte_level(
    path: Path, merges_path: Path, config: dict[str, Any], roberta: bool
) -> tuple[tokenizers.Tokenizer, dict[str, str]]:
    """The tokenizer of a ``vocab.json`` and its ``merges.txt``.

    ``roberta``: texts become ``<s> text </s>`` and pairs ``<s> first </s></s> second </s>``; otherwise
    ``add_bos_token`` and ``add_eos_token`` decide, by default neither.  Raises InputError.
    """
    vocabulary = read_vocabulary(path)
    merges = read_merges(merges_path, vocabulary, path)
    model = guarded(lambda: models.BPE(vocabulary, merges), f"{merges_path}: cannot be used")
    backend = tokenizers.Tokenizer(model)
    space = bool(flag(config, "add_prefix_space", False, path))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    backend.decoder = decoders.ByteLevel()
    names = add_tokens(backend, config, ROBERTA if roberta else GPT2, path)
    if roberta:
        sep, cls = (pair(backend, names[name]) for name in ("sep_token", "cls_token"))
        backend.post_processor = processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=space)
    else:
        backend.post_processor = around(backend, names, config, path)
    return backend, names


def around(
    backend: tokenizers.Tokenizer, names: dict[str, str], config: dict[str, Any], path: Path
) -> processors.TemplateProcessing:
    """The tokens that ``add_bos_token`` and ``add_eos_token`` put around each text; the second of a pair has type 1."""
    begin = names.get("bos_token") if flag(config, "add_bos_token", False, path) else None
    end = names.get("eos_token") if flag(config, "add_eos_token", False, path) else None
    first, second = (
        [*([f"{begin}:{n}"] if begin else []), f"${'AB'[n]}:{n}", *([f"{end}:{n}"] if end else [])] for n in (0, 1)
    )
    used = sorted({token for token in (begin, end) if token})
    return processors.TemplateProcessing(
        single=first, pair=first + second, special_tokens=[(token, backend.token_to_id(token)) for token in used]
    )


def read_merges(path: Path, vocabulary: dict[str, int], vocabulary_path: Path) -> list[tuple[str, str]]:
    """The pairs of a ``merges.txt``, each forming a token of the vocabulary.  Raises InputError naming the line."""
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(read_lines(path, "merges, one pair a line"), start=1):
        if line.startswith("#version"):
            continue
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise InputError(f"{path}: line {number}: found {line[:40]!r}, expected two tokens with a space between")
        for token in (*pair, "".join(pair)):
            if token not in vocabulary:
                raise InputError(
                    f"{path}: line {number}: found {token[:40]!r}, expected a token of {vocabulary_path.name}"
                )
        merges.append((pair[0], pair[1]))
    return merges
