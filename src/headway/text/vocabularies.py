"""Tokenizers of vocabulary files without a ``tokenizer.json``.

``vocab.txt`` is BERT's WordPiece (Devlin et al., 2019); ``vocab.json`` with ``merges.txt`` the byte-level BPE of GPT-2
and RoBERTa (Radford et al., 2019); ``spiece.model`` T5's, Unigram with a hundred sentinel tokens (Raffel et al., 2020);
``tokenizer.model`` Llama's, BPE with bytes for unknown characters (Touvron et al., 2023).
"""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from headway.errors import InputError
from headway.text.rust_errors import guarded
from headway.text.safe.tokenizer_files import check_merge, read_lines, read_vocabulary
from headway.text.sentencepiece.model_file import CONTROL, SPACE, USER_DEFINED, SentencePieceModel, read_model
from headway.text.sentencepiece.segmenter import merges
from headway.text.special_tokens import ENCODER, END_OF_TEXT, add_tokens, content_of, encoder_template, flag, frame

GPT2 = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT}
ROBERTA = {
    **{"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>"},
    **{"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"},
}
T5 = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
MOST_GAPS = 10_000
Read = tuple[tokenizers.Tokenizer, dict[str, str]]
"""A tokenizer, and its special tokens by role."""


def load_bert(path: Path, config: dict[str, Any]) -> Read:
    """The tokenizer of a ``vocab.txt`` with one token per line; a token's id is its line number, from 0.

    ``config`` may set ``do_lower_case`` (default true), ``tokenize_chinese_chars`` (true) and ``strip_accents``
    (default: as ``do_lower_case``).  Raises InputError.
    """
    vocabulary: dict[str, int] = {}
    for number, line in enumerate(read_lines(path, "a vocabulary of one token a line")):
        token = line.rstrip()
        if not token:
            raise InputError(f"{path}: line {number + 1}: found no token, expected one on every line")
        if (first := vocabulary.setdefault(token, number)) != number:
            raise InputError(
                f"{path}: line {number + 1}: found {token[:40]!r}, which is line {first + 1}, expected it once"
            )
    unknown = content_of(config.get("unk_token", ENCODER["unk_token"]))
    if unknown not in vocabulary:
        raise InputError(f"{path}: unk_token: found no token {str(unknown)[:40]!r}, expected it there")
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=flag(config, "tokenize_chinese_chars", True, path.parent) is True,
        strip_accents=flag(config, "strip_accents", None, path.parent),
        lowercase=flag(config, "do_lower_case", True, path.parent) is True,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    names = add_tokens(backend, config, ENCODER, path)
    backend.post_processor = encoder_template(backend, names)
    return backend, names


def load_byte_level(path: Path, merges_path: Path, config: dict[str, Any], roberta: bool) -> Read:
    """The tokenizer of a ``vocab.json`` and its ``merges.txt``.

    ``roberta``: texts become ``<s> text </s>`` and pairs ``<s> first </s></s> second </s>``; otherwise
    ``add_bos_token`` and ``add_eos_token`` decide, by default neither.  Raises InputError.
    """
    vocabulary = read_vocabulary(path)
    pairs = [
        check_merge(line, vocabulary, f"{merges_path}: line {number}", path.name)
        for number, line in enumerate(read_lines(merges_path, "merges, one pair a line"), start=1)
        if not line.startswith("#version")
    ]
    backend = tokenizers.Tokenizer(guarded(lambda: models.BPE(vocabulary, pairs), f"{merges_path}: cannot be used"))
    space = bool(flag(config, "add_prefix_space", False, path.parent))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    backend.decoder = decoders.ByteLevel()
    names = add_tokens(backend, config, ROBERTA if roberta else GPT2, path)
    if roberta:
        sep, cls = ((names[role], backend.token_to_id(names[role]) or 0) for role in ("sep_token", "cls_token"))
        backend.post_processor = processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=space)
    else:
        backend.post_processor = _frame(backend, names, config, path)
    return backend, names


def load_t5(path: Path, config: dict[str, Any]) -> Read:
    """The tokenizer of a ``spiece.model``; texts end with ``</s>``, and so does each text of a pair.

    ``config`` may set ``extra_ids`` (default 100), the number of tokens ``<extra_id_0>``, ...: the last has the lowest
    id.  Raises InputError.
    """
    model = read_model(path, "unigram", "T5")
    gaps = config.get("extra_ids", 100)
    if type(gaps) is not int or not 0 <= gaps <= MOST_GAPS:
        config_path = path.parent / "tokenizer_config.json"
        raise InputError(f"{config_path}: extra_ids: found {str(gaps)[:20]}, expected an integer from 0 to {MOST_GAPS}")
    sentinels = [f"<extra_id_{number}>" for number in range(gaps - 1, -1, -1)]
    vocabulary = {piece.text: piece.score for piece in model.pieces}
    vocabulary |= {token: 0.0 for token in sentinels if token not in vocabulary}
    backend = tokenizers.Tokenizer(models.Unigram([*vocabulary.items()], model.unknown, False))
    if model.charsmap:
        what = f"{path}: normalizer_spec.precompiled_charsmap: cannot be used"
        backend.normalizer = guarded(lambda: normalizers.Precompiled(model.charsmap), what)
    spaces = pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces])
    backend.decoder = decoders.Metaspace(SPACE, prepend_scheme="always", split=True)
    _add_control_tokens(backend, model)
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in sentinels])
    names = add_tokens(backend, config, T5, path)
    end = names["eos_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=["$A", end], pair=["$A", end, "$B", end], special_tokens=[(end, backend.token_to_id(end))]
    )
    return backend, names


def load_llama(path: Path, config: dict[str, Any]) -> Read:
    """The tokenizer of a ``tokenizer.model``.

    ``config`` may set ``add_bos_token`` and ``add_eos_token`` (default false: texts get these tokens only where a
    directory asks for them), ``add_prefix_space`` (true), and ``legacy`` (false: a space is put only before the first
    word, and not after special tokens).  Character rules in the file are not applied, as in transformers; Llama's files
    have none.  Raises InputError.
    """
    model = read_model(path, "bpe", "Llama")
    vocabulary = {piece.text: number for number, piece in enumerate(model.pieces)}
    pairs = merges(vocabulary)
    backend = tokenizers.Tokenizer(
        guarded(lambda: models.BPE(vocabulary, pairs, fuse_unk=True, byte_fallback=True), f"{path}: cannot be used")
    )
    scheme = llama_spaces(config, path.parent)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=False)
    parts = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*parts, *([] if scheme == "never" else [decoders.Strip(" ", 1, 0)])])
    _add_control_tokens(backend, model)
    names = add_tokens(backend, config, LLAMA, path)
    backend.post_processor = _frame(backend, names, config, path)
    return backend, names


def llama_spaces(config: dict[str, Any], folder: Path) -> str:
    """Where ``add_prefix_space`` and ``legacy`` put a space: before each piece of text, the first one, or none."""
    if flag(config, "add_prefix_space", True, folder) is False:
        return "never"
    return "always" if flag(config, "legacy", False, folder) else "first"


def _add_control_tokens(backend: tokenizers.Tokenizer, model: SentencePieceModel) -> None:
    """Control tokens become special tokens; user-defined symbols become whole tokens that are text."""
    kinds = model.of_type
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in kinds.get(CONTROL, [])])
    backend.add_tokens([AddedToken(token, normalized=False) for token in kinds.get(USER_DEFINED, [])])


def _frame(
    backend: tokenizers.Tokenizer, names: dict[str, str], config: dict[str, Any], path: Path
) -> processors.TemplateProcessing:
    """The tokens that ``add_bos_token`` and ``add_eos_token`` put around each text."""
    begin = names.get("bos_token") if flag(config, "add_bos_token", False, path.parent) else None
    end = names.get("eos_token") if flag(config, "add_eos_token", False, path.parent) else None
    return frame(begin, end, backend)
