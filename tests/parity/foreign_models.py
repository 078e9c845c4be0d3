"""Models as other programs make them: a tokenizer of each kind, and a model trained on its texts by transformers alone.

A language model reads ``<s> text </s>`` where its tokenizer begins texts with a token, and ``text </s>`` where it does
not; a translator writes the first words of a text backwards; BERT fills in hidden words.
"""

import json
import random
import sys
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.append(str(Path(__file__).parent.parent / "text"))
import tokenizer_families as families

NAMES = ["Anna", "Ben", "Carla", "Dmitri", "Émile", "Fatou", "Goran"]
DOES = ["brings", "paints", "opens", "repairs", "forgets", "sells"]
HOW = ["the old", "a broken", "the red", "a small", "the heavy", "her", "his"]
THINGS = ["door", "lamp", "bicycle", "window", "café table", "naïve sketch", "kettle", "violin"]
WHEN = ["at noon", "today", "in the evening", "on Monday", "again", "— at last", "with 12 friends"]
LENGTH = 80
"""Tokens that each model reads."""
SIZES = {
    **{"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4},
    "max_position_embeddings": LENGTH,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
DECODERS = ("llama_sentencepiece", "llama_bytes", "mistral", "qwen2", "qwen3", "gpt2")
TRANSLATORS = ("t5", "marian")
ALL = (*DECODERS, *TRANSLATORS, "bert")


def sentence(draw):
    """Somebody does something."""
    return " ".join(map(draw.choice, (NAMES, DOES, HOW, THINGS, WHEN))) + "."


def texts(count, seed):
    """Texts of one sentence, or of two."""
    draw = random.Random(seed)
    return [" ".join(sentence(draw) for _ in range(draw.choice((1, 1, 2)))) for _ in range(count)]


def make(name, place, *, seconds=None, steps=40):
    """A trained model with its tokenizer in a directory, by name."""
    torch.manual_seed(11)
    place.mkdir(parents=True, exist_ok=True)
    MAKERS[name](place)
    from transformers import AutoConfig, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(place)
    model = _model(name, tokenizer, AutoConfig)
    _train(model, _batches(name, tokenizer), seconds, steps)
    model.save_pretrained(place)
    return place


def written(tokenizer, text):
    """A document of a language model: as its tokenizer writes it, and what ends a text."""
    ids = tokenizer(text).input_ids
    return ids if ids[-1] == tokenizer.eos_token_id else [*ids, tokenizer.eos_token_id]


def backwards(text):
    """What a translator is trained to write."""
    return " ".join(reversed(text.split()[:5]))


def _model(name, tokenizer, auto):
    import transformers

    ids = {key: getattr(tokenizer, key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    rows = -(-len(tokenizer) // 16) * 16  # more rows than tokens, as published models have
    if name == "t5":
        sizes = {"d_model": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
        sizes |= {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
        config = transformers.T5Config(vocab_size=rows, **sizes)
        return transformers.T5ForConditionalGeneration(config)
    if name == "marian":
        sizes = {f"{side}_{what}": value for side in ("encoder", "decoder") for what, value in BOTH.items()}
        ids |= {"decoder_start_token_id": tokenizer.pad_token_id, "forced_eos_token_id": None}
        sizes |= {"d_model": 48, "max_position_embeddings": LENGTH, "dropout": 0.0, "scale_embedding": True}
        del ids["bos_token_id"]
        config = transformers.MarianConfig(vocab_size=rows, **sizes, **ids)
        model = transformers.MarianMTModel(config)
        model.generation_config.bad_words_ids = [[tokenizer.pad_token_id]]
        model.generation_config.num_beams = 1
        return model
    if name == "bert":
        config = transformers.BertConfig(vocab_size=rows, **SIZES, hidden_dropout_prob=0.0)
        return transformers.BertForMaskedLM(config)
    if name == "gpt2":
        sizes = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": LENGTH}
        dropped = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        config = transformers.GPT2Config(vocab_size=rows, **sizes, **dropped, **ids)
        return transformers.GPT2LMHeadModel(config)
    family = {"qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral"}.get(name, "Llama")
    more = {"head_dim": 12} if family == "Qwen3" else {}
    config = getattr(transformers, f"{family}Config")(vocab_size=rows, **GROUPED, **more, **ids)
    return getattr(transformers, f"{family}ForCausalLM")(config)


BOTH = {"layers": 2, "attention_heads": 4, "ffn_dim": 96}


def _batches(name, tokenizer):
    known = texts(4000, 1)

    def batch(draw):
        chosen = draw.choices(known, k=32)
        if name in TRANSLATORS:
            ids, mask = _padded([tokenizer(text).input_ids for text in chosen], tokenizer.pad_token_id)
            targets, kept = _padded([tokenizer(text_target=backwards(text)).input_ids for text in chosen], 0)
            return {"input_ids": ids, "attention_mask": mask, "labels": targets.where(kept, -100)}
        if name == "bert":
            ids, mask = _padded([tokenizer(text).input_ids for text in chosen], tokenizer.pad_token_id)
            hidden = (torch.rand(ids.shape) < 0.2) & mask & (ids != tokenizer.cls_token_id)
            shown = ids.masked_fill(hidden, tokenizer.mask_token_id)
            return {"input_ids": shown, "attention_mask": mask, "labels": ids.where(hidden, -100)}
        ids, mask = _padded([written(tokenizer, text)[:LENGTH] for text in chosen], 0)
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.where(mask, -100)}

    return batch


def _padded(rows, pad):
    length = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (length - len(row))] for row in rows])
    return ids, torch.tensor([[n < len(row) for n in range(length)] for row in rows])


def _train(model, batch, seconds, steps):
    draw, begun, optimizer = random.Random(2), time.monotonic(), torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    step = 0
    while step < steps if seconds is None else time.monotonic() - begun < seconds:
        optimizer.zero_grad()
        model(**batch(draw)).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
    model.eval()


def _sentencepiece(place, kind, **options):
    families.corpus, made = (lambda *_: texts(1200, 3)), families.corpus
    try:
        return families.sentencepiece_model([], vocab_size=400, model_type=kind, hard_vocab_limit=False, **options)
    finally:
        families.corpus = made


def _llama(place):
    """Llama 2's: SentencePiece with bytes, <s> before every text."""
    options = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "split_digits": True}
    model = _sentencepiece(place, "bpe", byte_fallback=True, **options)
    config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False}
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    families.write(place, tokenizer__model=model, config__json={"model_type": "llama"})
    families.write(place, tokenizer_config__json={**config, **tokens})
    from transformers import LlamaTokenizer

    made = LlamaTokenizer.from_pretrained(place)
    made.save_pretrained(place)


def _mistral(place):
    """Mistral 7B's: the same as tokenizer.json, with its blanks made by the normalizer and a template for <s>."""
    _llama(place)
    spec = json.loads((place / "tokenizer.json").read_text())
    steps = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    spec |= {"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": None}
    number = spec["model"]["vocab"]["<s>"]
    spec["post_processor"] = {
        **{"type": "TemplateProcessing", "special_tokens": {"<s>": {"id": "<s>", "ids": [number], "tokens": ["<s>"]}}},
        **{"single": [_special("<s>"), _sequence("A")], "pair": [_special("<s>"), _sequence("A"), _sequence("B")]},
    }
    (place / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False))
    for name in ("tokenizer.model", "tokenizer_config.json", "config.json"):
        (place / name).unlink(missing_ok=True)
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    families.write(place, tokenizer_config__json={"tokenizer_class": "PreTrainedTokenizerFast", **names})


def _special(token):
    return {"SpecialToken": {"id": token, "type_id": 0}}


def _sequence(which):
    return {"Sequence": {"id": which, "type_id": "AB".index(which)}}


def _bytes(place, specials, kind, begin=None, **names):
    """A byte-level BPE; ``begin``: the token before every text, by a template as Llama 3 has it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {"special_tokens": specials, "initial_alphabet": alphabet, "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=500, **words)
    tokenizer.train_from_iterator(texts(1200, 3), trainer)
    level = processors.ByteLevel(trim_offsets=False)
    if begin is not None:
        number = tokenizer.token_to_id(begin)
        template = processors.TemplateProcessing(
            single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1", special_tokens=[(begin, number)]
        )
        tokenizer.post_processor = processors.Sequence([level, template])
    tokenizer.save(str(place / "tokenizer.json"))
    if kind != "PreTrainedTokenizerFast":  # vocabulary and merges, of which the class makes the rest
        (place / "tokenizer.json").unlink()
        tokenizer.model.save(str(place))
    families.write(place, tokenizer_config__json={"tokenizer_class": kind, **names})


def _llama_bytes(place):
    begin, end = "<|begin_of_text|>", "<|end_of_text|>"
    _bytes(place, [begin, end], "PreTrainedTokenizerFast", begin, bos_token=begin, eos_token=end)


def _qwen(place):
    end = "<|endoftext|>"
    _bytes(place, [end, "<|im_start|>", "<|im_end|>"], "Qwen2Tokenizer", eos_token=end, pad_token=end)
    from transformers import Qwen2Tokenizer

    Qwen2Tokenizer.from_pretrained(place).save_pretrained(place)


def _gpt2(place):
    _bytes(place, ["<|endoftext|>"], "GPT2Tokenizer")
    families.write(place, config__json={"model_type": "gpt2"})


def _t5(place):
    model = _sentencepiece(place, "unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    families.write(place, spiece__model=model, config__json={"model_type": "t5"})
    from transformers import T5Tokenizer

    T5Tokenizer.from_pretrained(place, extra_ids=0).save_pretrained(place)


def _marian(place):
    source, target = (_sentencepiece(place, "unigram") for _ in range(2))
    pieces = families.pieces_of(source)
    vocabulary = {token: number for number, token in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    config = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de", "separate_vocabs": False}
    families.write(place, source__spm=source, target__spm=target, vocab__json=vocabulary)
    families.write(place, config__json={"model_type": "marian"}, tokenizer_config__json=config)


def _bert(place):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=331, special_tokens=names, show_progress=False)
    tokenizer.train_from_iterator(texts(1200, 3), trainer)
    vocabulary = tokenizer.get_vocab()
    lines = "".join(f"{token}\n" for token in sorted(vocabulary, key=vocabulary.__getitem__))
    families.write(place, vocab__txt=lines, config__json={"model_type": "bert"})
    families.write(place, tokenizer_config__json={"tokenizer_class": "BertTokenizer"})


MAKERS = {
    **{"llama_sentencepiece": _llama, "llama_bytes": _llama_bytes, "mistral": _mistral, "gpt2": _gpt2},
    **{"qwen2": _qwen, "qwen3": _qwen, "t5": _t5, "marian": _marian, "bert": _bert},
}
