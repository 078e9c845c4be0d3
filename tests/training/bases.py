"""Tiny models of other programs, made on the spot, and a tokenizer for them."""

from pathlib import Path

import torch
import transformers

from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]
V = 331
"""Rows of embeddings: more than the tokenizer has tokens."""
LLAMA = {
    **{"hidden_size": 24, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "max_position_embeddings": 61, "vocab_size": V},
}
GPT2 = {"n_embd": 24, "n_layer": 3, "n_head": 3, "n_positions": 61, "vocab_size": V}
BERT = {
    **{"hidden_size": 24, "intermediate_size": 17, "num_hidden_layers": 2, "num_attention_heads": 3},
    **{"max_position_embeddings": 61, "vocab_size": V},
}
DISTIL = {"dim": 24, "hidden_dim": 17, "n_layers": 2, "n_heads": 3, "max_position_embeddings": 61, "vocab_size": V}
MODERN = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
FAMILIES = {"Bert": BERT, "Roberta": BERT, "XLMRoberta": BERT, "DistilBert": DISTIL, "ModernBert": {**BERT, **MODERN}}
"""Encoders by the name of their family."""
BART = {
    **{"d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3, "vocab_size": V},
    **{"decoder_attention_heads": 3, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17, "max_position_embeddings": 61},
}
T5 = {"d_model": 24, "d_kv": 8, "d_ff": 17, "num_layers": 2, "num_heads": 3, "vocab_size": V}
QWEN3 = {**LLAMA, "head_dim": 6, "tie_word_embeddings": True}
NANOCHAT = {**LLAMA, "num_key_value_heads": 4}
KINDS = {
    "llama": ("LlamaForCausalLM", LLAMA),
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt2-bare": ("GPT2Model", GPT2),
    "qwen3": ("Qwen3ForCausalLM", QWEN3),
    "nanochat": ("NanoChatForCausalLM", NANOCHAT),
    "bert": ("BertForMaskedLM", BERT),
    "t5": ("T5ForConditionalGeneration", T5),
    "bart": ("BartForConditionalGeneration", BART),
    "m2m_100": ("M2M100ForConditionalGeneration", BART),
    "marian": ("MarianMTModel", {**BART, "decoder_start_token_id": 1}),
}


def tokenizer(kind: str = "bpe", role: str = "decoder") -> Tokenizer:
    """One that has seen letters but few words."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    text = " ".join(["the", "cat", *(one + other for one, other in zip(letters, letters[1:] + "a", strict=True))] * 3)
    return train_tokenizer([text], kind, 270 if kind == "bpe" else 71, role=role)


def make_base(kind: str, place: Path, seed: int = 0) -> Path:
    """A model of that kind with its tokenizer in a directory; its weights are small and drawn from the seed."""
    name, values = KINDS[kind]
    cls = getattr(transformers, name)
    role = {"bert": "encoder", "bart": "translator", "m2m_100": "translator", "marian": "translator"}.get(
        kind, "decoder"
    )
    words = tokenizer("wordpiece" if kind == "bert" else "bpe", role)
    ids = {"pad_token_id": words.pad, "bos_token_id": words.begin_of_text, "eos_token_id": words.end_of_text}
    model = cls(cls.config_class(**{**values, **ids}))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.copy_(0.15 * torch.randn(p.shape, generator=generator))
    model.save_pretrained(place)
    words.save(place)
    return place
