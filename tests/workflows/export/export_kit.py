"""Tiny models of each wiring, drawn at random and saved as Hugging Face directories, for the tests of targets."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.hub.directory import load_model, save_model
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer

WORDS = ["the cat sat on a mat while old dogs ran past red doors and sang"] * 9
BPE = train_tokenizer(WORDS, "bpe", 300)
PIECES = train_tokenizer(WORDS, "wordpiece", 90, role="encoder")
BOTH = train_tokenizer(WORDS, "bpe", 300, role="translator")
QWEN3 = {
    **{"d_model": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_head": 6, "d_ff": 29, "max_length": 61},
    **{"norm_eps": 1e-6, "qk_norm": True, "tied": False},
}
LLAMA = {**QWEN3, "qk_norm": False, "d_head": None, "bias": ("qkv", "out", "ff")}
GPT2 = {
    **{"d_model": 24, "n_layers": 2, "n_heads": 3, "d_ff": 29, "max_length": 61, "norm": "layernorm"},
    **{"norm_parameters": "both", "positions": "learned", "activation": "gelu_tanh", "gated": False},
    **{"bias": ("qkv", "out", "ff")},
}
BERT = {
    **{**GPT2, "norm_order": "post", "norm_eps": 1e-12, "activation": "gelu", "embedding_norm": True, "segments": 2},
    **{"bias": ("qkv", "out", "ff", "head")},
}
BART = {
    **{**GPT2, "positions": Positions("learned", start=2), "norm_order": "post", "activation": "gelu"},
    **{"embedding_norm": True, "bias": ("qkv", "out", "ff", "head")},
}
LABELS = {"id2label": {"0": "ant", "1": "bee", "2": "cow"}, "label2id": {"ant": 0, "bee": 1, "cow": 2}}

KINDS = {
    "classifier": ("BertForSequenceClassification", "text-classification"),
    "vectors": ("ModernBertModel", "SentenceTransformer"),
    "language model": ("LlamaForCausalLM", "text-generation"),
    "translator": ("M2M100ForConditionalGeneration", "AutoModelForSeq2SeqLM"),
}
"""Models of ``doors_kit``: a class of transformers, and how its users open it."""


@torch.no_grad()
def spread(model: nn.Module) -> nn.Module:
    """Weights that spread the answers: matrices around 0, norms around 1."""
    draw = torch.Generator().manual_seed(7)
    for name, parameter in model.named_parameters():
        around = float("norm" in name and name.endswith("weight"))
        parameter.copy_(around + 0.3 * torch.randn(parameter.shape, generator=draw))
    return model.eval()


def ids_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """The entries of config.json for special tokens."""
    found = {"bos_token_id": tokenizer.begin_of_text, "eos_token_id": tokenizer.end_of_text}
    return {key: number for key, number in {**found, "pad_token_id": tokenizer.pad}.items() if number is not None}


def decoder(place: Path, tokenizer: Tokenizer = BPE, rows: int | None = None, **config: Any) -> Path:
    """A language model; by default in Qwen3's layout, with two key-value heads and an odd hidden width."""
    chosen = TransformerConfig(rows or tokenizer.vocab_size, **(config or QWEN3))
    save_model(spread(Decoder(chosen)), place, **ids_of(tokenizer))
    tokenizer.save(place)
    return place


def encoder(place: Path, head: Any = None, tokenizer: Tokenizer = PIECES, **config: Any) -> Path:
    """An encoder in BERT's layout, with a head if one is given."""
    chosen = TransformerConfig(tokenizer.vocab_size, **(config or BERT))
    save_model(spread(Encoder(chosen, head)), place, **(LABELS if isinstance(head, ClassificationHead) else {}))
    tokenizer.save(place, segments=True)
    return place


def classifier_head(tokenizer: Tokenizer = PIECES) -> ClassificationHead:
    """BERT's classifier of three classes."""
    config = TransformerConfig(tokenizer.vocab_size, **BERT)
    return ClassificationHead(config, 3, pooling="first", activation="tanh", dense_bias=True)


def translator(place: Path, tokenizer: Tokenizer = BOTH, **config: Any) -> Path:
    """An encoder-decoder in BART's layout."""
    model = spread(EncoderDecoder(TransformerConfig(tokenizer.vocab_size, **(config or BART))))
    end = tokenizer.end_of_text
    save_model(model, place, **ids_of(tokenizer), decoder_start_token_id=end, forced_eos_token_id=None)
    tokenizer.save(place)
    return place


def ending_translator(place: Path) -> Path:
    """A translator that may end a target at any token, with nearly equal likelihoods of all others."""
    model = load_model(translator(place))
    with torch.no_grad():
        model.head.matrix.weight.mul_(0.6)
        model.head.matrix.bias[BOTH.end_of_text] += 3.0
    end = BOTH.end_of_text
    save_model(model, place, **ids_of(BOTH), decoder_start_token_id=end, forced_eos_token_id=None)
    return place


def names(directory: Path) -> set[str]:
    """The names of a directory's files."""
    return {path.name for path in directory.iterdir()}
