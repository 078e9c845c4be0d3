"""Directories of tokenizers as the families have them, built here from text, and lines that are hard to split."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = [
    "the quick brown fox's jumps, isn't it? 12:30 (ok) a , b .",
    "日本語の 文章 です 漢字 が か\u3099 ｶﾞ",
    "Ünïcödé naïve CAFÉ İstanbul ẞ ǅ",
    "ที่นี่ ภาษาไทย हिन्दी עברית العربية 한국어",
    "x = {1: 'a'}; // --- ___ $5.00 <b> &amp;",
    "Der schnelle braune Fuchs springt über den faulen Hund",
    "----- aaaa === .... !!! 000 aaaaaaa ------",
    "ﬁne Ⅳ ½ ㎏ ＡＢＣ İ ß",
]
WORDS = [word for line in SCRIPTS for word in line.split(" ")]
ODD = [
    *("\u00a0", "\u3000", "\t", "  ", "\u2009", "\u200b", "\u200d", "\ufeff", "\u2028", "\x00", "\x07", "\x7f", "\x85"),
    *("👩‍👩‍👧", "🏳️‍🌈", "👍🏽", "🇩🇪"),
    *("e\u0301", "a\u0308\u0323", "\u0301", "\ufffd", "\uffff", "\U0010ffff", "▁", "▁▁a", "##ing", "Ġb"),
    *("<0x41>", ">>fra", "<extra_id", "[MASK", "\\", "\u0e33", "ﷺ", "Å", "ᄒ\u1161\u11ab"),
]  # fmt: skip
SPECIALS = ["</s>", "<s>", "<unk>", "<pad>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>", "<extra_id_0>"]

Lines = Callable[..., list[str]]


def draw_lines(count: int, *, specials: bool = False, seed: int = 3) -> list[str]:
    draw = random.Random(seed)
    fixed = [
        "",
        " ",
        "   ",
        "\t",
        "a ",
        " a",
        "trailing  ",
        "\u3000",
        ">>fra<< the fox",
        ">>xyz<< the fox",
        ">> a << b",
    ]
    found = list(fixed)
    while len(found) < count:
        parts = []
        for _ in range(draw.randint(1, 11)):
            pool = draw.choices([WORDS, ODD, SPECIALS if specials else WORDS], [6, 2, 2])[0]
            parts.append(draw.choice(pool) + draw.choice([" ", " ", " ", "", "  "]))
        found.append("".join(parts))
    return found


def corpus(count: int, words: list[str], seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(2, 14))) for _ in range(count)]


def write(folder: Path, **files: Any) -> Path:
    """Write files, their names with "__" for the dot; what is no text or bytes is written as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        if not isinstance(content, str | bytes):
            content = json.dumps(content, ensure_ascii=False)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def sentencepiece_model(words: list[str], **options: Any) -> bytes:
    sentencepiece = pytest.importorskip("sentencepiece")
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus(1200, words)), model_writer=buffer, minloglevel=2, num_threads=1, **options
    )
    return buffer.getvalue()


def pieces_of(model: bytes) -> list[str]:
    import sentencepiece

    found = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [found.id_to_piece(number) for number in range(3, found.get_piece_size())]


def build_bert(folder: Path, **config: Any) -> Path:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    lower = config.get("do_lower_case", True)
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lower)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=331, special_tokens=names, show_progress=False)
    backend.train_from_iterator(corpus(300, WORDS), trainer)
    vocabulary = backend.get_vocab()
    lines = "".join(f"{token}\n" for token in sorted(vocabulary, key=vocabulary.__getitem__))
    return write(folder, vocab__txt=lines, config__json={"model_type": "bert"}, tokenizer_config__json=config)


def build_byte_level(folder: Path, specials: list[str], model_type: str, **config: Any) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=401,
        special_tokens=specials,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(corpus(300, WORDS), trainer)
    write(folder, config__json={"model_type": model_type}, tokenizer_config__json=config)
    backend.model.save(str(folder))
    return folder


def build_t5(folder: Path) -> Path:
    options = {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "hard_vocab_limit": False}
    model = sentencepiece_model(WORDS, vocab_size=300, **options)
    return write(folder, spiece__model=model, config__json={"model_type": "t5"})


def build_llama(folder: Path, **config: Any) -> Path:
    options = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "split_digits": True}
    model = sentencepiece_model(WORDS, vocab_size=700, model_type="bpe", byte_fallback=True, **options)
    config = {
        "tokenizer_class": "LlamaTokenizer",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        **config,
    }
    return write(folder, tokenizer__model=model, config__json={"model_type": "llama"}, tokenizer_config__json=config)


def build_m2m100(folder: Path) -> Path:
    model = sentencepiece_model(WORDS, vocab_size=400, model_type="bpe")
    pieces = pieces_of(model)
    random.Random(5).shuffle(pieces)
    vocabulary = {token: number for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces[:-11]])}
    config = {"tokenizer_class": "M2M100Tokenizer", "src_lang": "de", "tgt_lang": "fr"}
    write(folder, vocab__json=vocabulary, config__json={"model_type": "m2m_100"}, tokenizer_config__json=config)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    return folder


def build_marian(folder: Path, kind: str = "unigram", separate: bool = False) -> Path:
    half = len(WORDS) // 2
    options = {"vocab_size": 230, "model_type": kind, "hard_vocab_limit": kind == "bpe"}
    source, target = sentencepiece_model(WORDS[: half + 9], **options), sentencepiece_model(WORDS[half:], **options)
    pieces = sorted({*pieces_of(source), *(() if separate else pieces_of(target))})
    random.Random(7).shuffle(pieces)
    named = [*pieces[:-9], ">>fra<<", ">>deu<<", "<pad>"]
    vocabulary = {token: number for number, token in enumerate(["</s>", "<unk>", *named])}
    config = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "en",
        "target_lang": "de",
        "separate_vocabs": separate,
    }
    if separate:
        other = {token: number for number, token in enumerate(["</s>", "<unk>", "<pad>", *pieces_of(target)])}
        write(folder, target_vocab__json=other)
    write(folder, source__spm=source, target__spm=target, vocab__json=vocabulary)
    return write(folder, config__json={"model_type": "marian"}, tokenizer_config__json=config)


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "bert": build_bert,
    "bert-cased": lambda folder: build_bert(folder, do_lower_case=False, tokenize_chinese_chars=False),
    "bert-accents": lambda folder: build_bert(folder, strip_accents=False, tokenizer_class="BertTokenizer"),
    "gpt2": lambda folder: build_byte_level(folder, ["<|endoftext|>"], "gpt2"),
    "gpt2-space": lambda folder: build_byte_level(
        folder, ["<|endoftext|>"], "gpt2", add_prefix_space=True, add_bos_token=True
    ),
    "roberta": lambda folder: build_byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], "roberta"),
    "bart": lambda folder: build_byte_level(
        folder,
        ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        "bart",
        add_prefix_space=True,
        tokenizer_class="BartTokenizer",
        mask_token={"content": "<mask>", "lstrip": True, "__type": "AddedToken"},
    ),
    "t5": build_t5,
    "llama": lambda folder: build_llama(folder, add_bos_token=True, legacy=False),
    "llama-legacy": lambda folder: build_llama(folder, add_bos_token=True, add_eos_token=True, legacy=True),
    "m2m100": build_m2m100,
    "marian": build_marian,
    "marian-bpe": lambda folder: build_marian(folder, "bpe"),
    "marian-separate": lambda folder: build_marian(folder, separate=True),
}
