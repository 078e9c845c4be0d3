"""Small files, and the commands that train on them: some forty runs of twelve steps, which together take every path.

Used by `tools/side_by_side.py`, which compares two versions of the code, and by `tests/fixtures/make_runs.py`, which
keeps runs for the versions to come.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]
SIZES = ("--d-model", "16", "--layers", "1", "--heads", "2")
LENGTH = ("--length", "24")
STEPS = (
    *("--batch-tokens", "192", "--steps", "12", "--threads", "1", "--precision", "float32", "--evaluations", "3"),
    *("--log-every", "1", "--seed", "3", "--products", "torch"),
)
TINY = (*SIZES, *LENGTH, *STEPS)
RECURRENT = (*SIZES[:4], *LENGTH, *STEPS, "--tokenizer", "word")
CHARACTERS, WORD = ("--tokenizer", "char"), ("--tokenizer", "word")
INPUTS = ("the old cat sat", "red dogs sang and ran past the doors", "unknown")
DRAW = random.Random(7)


def sentence(least: int = 3, most: int = 9) -> str:
    """A few words."""
    return " ".join(DRAW.choices(WORDS, k=DRAW.randint(least, most)))


def text() -> list[str]:
    """Running text."""
    Path("text.txt").write_text("".join(f"{sentence()}.\n" for _ in range(120)))
    return ["text.txt"]


def stream() -> list[str]:
    """Running text in a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": [f"{sentence(9, 19)}." for _ in range(120)]}), "text.parquet")
    return ["text.parquet"]


def labels(rows: int = 60) -> list[str]:
    """Texts with a label."""
    table = [(sentence(), ("good", "bad")[n % 2]) for n in range(rows)]
    Path("rows.csv").write_text("text,label\n" + "".join(f"{text} {label},{label}\n" for text, label in table))
    return ["rows.csv"]


def stars() -> list[str]:
    """Texts with a number."""
    table = [(f"{'great ' * (n % 5)}{'awful ' * (4 - n % 5)}{sentence()}", 1 + n % 5) for n in range(60)]
    Path("stars.csv").write_text("text,stars\n" + "".join(f"{text},{number}\n" for text, number in table))
    return ["stars.csv"]


def columns() -> list[str]:
    """Texts with a class, a list of labels, a rating and a number each."""
    lines = ["text,sort,tags,stars,price\n"]
    for n in range(60):
        sort, tags = ("good", "bad")[n % 2], ";".join(name for at, name in enumerate("abc") if (n >> at) % 2) or "d"
        lines.append(f"{sentence()} {sort} {tags.replace(';', ' ')},{sort},{tags},{1 + n % 5},{n * n % 97 + 0.5}\n")
    Path("columns.csv").write_text("".join(lines))
    return ["columns.csv"]


def pairs() -> list[str]:
    """A text and what belongs to it."""
    rows = [(found := sentence(), found.upper()) for _ in range(60)]
    Path("pairs.csv").write_text("source,target\n" + "".join(f"{one},{other}\n" for one, other in rows))
    return ["pairs.csv"]


def scored() -> list[str]:
    """Two texts and how alike they are."""
    rows = [(found := sentence(), found if n % 2 else sentence(), round(DRAW.random(), 2)) for n in range(60)]
    Path("scored.csv").write_text("text,second,score\n" + "".join(f"{one},{two},{score}\n" for one, two, score in rows))
    return ["scored.csv"]


def tags() -> list[str]:
    """Sentences with a tag for each word, in two columns."""
    kinds = {"cat": "B-ANIMAL", "dogs": "B-ANIMAL", "mat": "B-THING", "doors": "B-THING"}
    rows = [sentence().split() for _ in range(60)]
    lines = ["".join(f"{word}\t{kinds.get(word, 'O')}\n" for word in row) for row in rows]
    Path("tags.conll").write_text("\n".join(lines))
    return ["tags.conll"]


def talks() -> list[str]:
    """Conversations."""
    lines = []
    for _ in range(51):
        said = ({"role": "user", "content": sentence()}, {"role": "assistant", "content": sentence(2, 4)})
        lines.append(json.dumps({"messages": said}))
    Path("talks.jsonl").write_text("\n".join(lines) + "\n")
    return ["talks.jsonl"]


def images() -> list[str]:
    """Light and dark images."""
    from PIL import Image

    draw = np.random.default_rng(7)
    kind = np.arange(60) % 2
    pixels = (draw.integers(0, 128, (60, 8, 8)) + 127 * kind[:, None, None]).astype(np.uint8)
    np.savez("pictures.npz", images=pixels, labels=kind)
    for number in (0, 1):
        Image.fromarray(pixels[number]).save(f"picture{number}.png")
    return ["pictures.npz"]


def llama() -> None:
    """A Llama whose tokenizer begins every text with <s>."""
    from tokenizers import processors
    from transformers import LlamaConfig, LlamaForCausalLM

    vocabulary = ["<unk>", "<s>", "</s>", *WORDS, "."]
    begins = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 1)])
    _tokenizer(vocabulary, begins, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(vocabulary), max_position_embeddings=32, pad_token_id=0, **sizes)
    _saved(LlamaForCausalLM(config))


def bert() -> None:
    """A BERT."""
    from tokenizers import processors
    from transformers import BertConfig, BertForMaskedLM

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ".", "good", "bad"]
    ends = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    _tokenizer(vocabulary, ends, **{f"{name}_token": token for name, token in names.items()})
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=32, pad_token_id=0, **sizes)
    _saved(BertForMaskedLM(config))


def t5() -> None:
    """A T5."""
    from tokenizers import processors
    from transformers import T5Config, T5ForConditionalGeneration

    vocabulary = ["<pad>", "</s>", "<unk>", *WORDS, *(word.upper() for word in WORDS)]
    ends = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    _tokenizer(vocabulary, ends, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    config = T5Config(vocab_size=len(vocabulary), decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, **sizes)
    _saved(T5ForConditionalGeneration(config))


def _saved(model: Any) -> None:
    """Save a model whose answers differ from text to text."""
    import torch

    draw = torch.Generator().manual_seed(7)
    for weights in model.parameters():
        if weights.dim() > 1:
            weights.data.normal_(0.0, 0.3, generator=draw)
    model.tie_weights()
    model.save_pretrained("base")


def _tokenizer(vocabulary: list[str], template: object, **special: str) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    numbers = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=special["unk_token"]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece(prefix="##")
    tokenizer.post_processor = template
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained("base")


@dataclass(frozen=True)
class Case:
    """One run: its data, its options, the base it starts from, and the inputs that it is asked afterwards."""

    data: Callable[[], list[str]]
    options: tuple[str, ...]
    base: Callable[[], None] | None = None
    inputs: tuple[str, ...] = INPUTS
    asking: tuple[str, ...] = ()
    """Options of ``predict``."""
    more: tuple[tuple[str, ...], ...] = ()
    """Further commands after it is trained."""

    def prepare(self) -> list[str]:
        """Make its files in the working directory; the words after ``headway``."""
        DRAW.seed(7)
        words = self.data()
        if self.base is not None:
            self.base()
            words += ["--from", "base"]
        return ["train", *words, *self.options, "--out", "run"]


MASKS = ("the old [MASK] sat", "red dogs [MASK] and ran past the [MASK]", "unknown [MASK]")
PICTURES = ("picture0.png", "picture1.png")
FROM = STEPS
FITTED = (*LENGTH, "--threads", "1", "--seed", "3", "--time", "60s")
ENCODER = (("attention", "run", "the old cat sat", "--out", "page.html"),)
ONNX, CT2 = (("export", "run", "--to", target) for target in ("onnx", "ctranslate2"))
HF, GGUF, PEFT = (("export", "run", "--to", target) for target in ("hf", "gguf", "peft"))
TASK, MODEL = "--task", "--model"
GREEDY = ("--temperature", "0", "--max-tokens", "12")

CASES = {
    "language_modeling": Case(text, (*TINY, *CHARACTERS), None, INPUTS[:2], GREEDY, (*ENCODER, GGUF, ONNX)),
    "language_modeling_bpe": Case(text, (*TINY, "--tokenizer", "bpe", "--vocab", "300"), asking=GREEDY, more=(HF,)),
    **{
        f"language_modeling_{one}": Case(text, (*RECURRENT, MODEL, one), asking=GREEDY)
        for one in ("rnn", "lstm", "gru")
    },
    "stream": Case(stream, (*TINY, *WORD, "--stream"), asking=GREEDY),
    "begins": Case(text, FROM, llama, asking=GREEDY, more=(CT2,)),
    "language_modeling_lora": Case(
        text, (*FROM, "--lora", "2"), llama, asking=GREEDY, more=(("export", "run", "--to", "peft"),)
    ),
    "masked_lm": Case(text, (*TINY, *WORD, TASK, "masked_lm"), inputs=MASKS, more=(*ENCODER, ONNX)),
    "masked_lm_from": Case(text, (*FROM, *LENGTH, TASK, "masked_lm"), bert, MASKS),
    "dialogue": Case(talks, (*TINY, *WORD), asking=GREEDY),
    "dialogue_from": Case(talks, FROM, llama, asking=GREEDY),
    "classification": Case(labels, (*TINY, *WORD), more=(*ENCODER, ONNX, CT2, HF)),
    **{f"classification_{one}": Case(labels, (*RECURRENT, MODEL, one)) for one in ("rnn", "lstm", "gru")},
    **{f"classification_{one}": Case(labels, (*LENGTH, *STEPS, *WORD, MODEL, one)) for one in ("cnn", "bow")},
    "classification_from": Case(labels, (*FROM, *LENGTH), bert),
    "classification_lora": Case(labels, (*FROM, *LENGTH, "--lora", "2"), bert),
    "classification_frozen": Case(labels, (*FITTED, "--frozen"), bert),
    "classification_few": Case(lambda: labels(24), (*FITTED, "--contrastive"), bert),
    "classification_adapt": Case(labels, (*FROM, *LENGTH, "--adapt"), bert),
    "classification_seeds": Case(labels, (*TINY, *WORD, "--seeds", "2")),
    "embedding": Case(pairs, (*TINY, *WORD, TASK, "embedding"), more=(ONNX,)),
    "embedding_scored": Case(scored, (*TINY, *WORD, TASK, "embedding")),
    "embedding_from": Case(pairs, (*FROM, *LENGTH, TASK, "embedding"), bert),
    "translation": Case(pairs, (*TINY, *WORD, TASK, "translation"), more=(ONNX, CT2)),
    "translation_decoder": Case(pairs, (*TINY, *WORD, TASK, "translation", MODEL, "decoder")),
    **{
        f"translation_{one}": Case(pairs, (*RECURRENT, TASK, "translation", MODEL, one))
        for one in ("rnn", "lstm", "gru")
    },
    "translation_from": Case(pairs, (*FROM, *LENGTH, TASK, "translation"), t5),
    "summarize": Case(pairs, (*TINY, *WORD, TASK, "summarize")),
    "image_classification": Case(images, (*SIZES, *STEPS, "--patch-size", "4"), inputs=PICTURES, more=(ONNX,)),
    "token_classification": Case(tags, (*TINY, *WORD), more=(ONNX,)),
    "token_classification_from": Case(tags, (*FROM, *LENGTH), bert),
    **{
        task: Case(columns, (*TINY, *WORD, TASK, task, "--label-column", column), more=(ONNX,))
        for task, column in {"multi_label": "tags", "ratings": "stars", "regression": "price"}.items()
    },
    "multi_column": Case(columns, (*TINY, *WORD, "--label-column", "sort,tags,stars,price"), more=(ONNX, HF)),
    "own_task": Case(stars, (*STEPS, TASK, "stars")),
}
