"""Tiny models of every family and task, exported, and opened in a new process by the doors of other programs."""

import json
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import headway
from headway.generation.decode import Conditional, decode
from headway.generation.sampling import Sampling
from headway.hub.directory import load_model, save_model
from headway.models.heads import PoolingHead
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.workflows.export import export

READER = Path(__file__).with_name("door_reader.py")
NEW, BOUND = 8, 1e-4
LABELS = ["ant", "bee", "cow"]
WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]
ENCODER = {
    **{"hidden_size": 24, "intermediate_size": 17, "num_hidden_layers": 2, "num_attention_heads": 3},
    **{"max_position_embeddings": 61, "num_labels": 3},
}
DECODER = {**ENCODER, "num_key_value_heads": 3}
GPT2 = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 61, "num_labels": 3}
DISTIL = {"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 17, "max_position_embeddings": 61, "num_labels": 3}
BOTH = {
    **{"d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 17},
    **{"decoder_attention_heads": 3, "decoder_ffn_dim": 17, "max_position_embeddings": 61},
}
T5 = {"d_model": 24, "d_kv": 8, "d_ff": 17, "num_layers": 2, "num_heads": 3}
VIT = {**ENCODER, "image_size": 14, "patch_size": 7}
SETTINGS = {
    **dict.fromkeys(("ModernBert", "Bert", "Roberta", "XLMRoberta"), ENCODER),
    **dict.fromkeys(("Llama", "Mistral", "Qwen2", "Qwen3"), DECODER),
    **{"NanoChat": DECODER, "DistilBert": DISTIL, "GPT2": GPT2, "T5": T5, "ViT": VIT},
    **dict.fromkeys(("Bart", "Marian", "M2M100"), BOTH),
}
ENCODERS = ("ModernBert", "Bert", "Roberta", "XLMRoberta", "DistilBert")
DECODERS = ("Llama", "Mistral", "Qwen2", "Qwen3", "GPT2")
VIT_CLASSES = ("ViTForImageClassification", "image-classification")
MODELS = [
    *((f"{name}Model", "feature-extraction") for name in ENCODERS),
    *((f"{name}Model", "SentenceTransformer") for name in ENCODERS),
    *((f"{name}ForMaskedLM", "fill-mask") for name in ENCODERS),
    *((f"{name}ForSequenceClassification", "text-classification") for name in (*ENCODERS, *DECODERS)),
    *((name, "text-generation") for name in ("NanoChatForCausalLM", "LlamaForCausalLM", "MistralForCausalLM")),
    *((name, "text-generation") for name in ("Qwen2ForCausalLM", "Qwen3ForCausalLM", "GPT2LMHeadModel")),
    *((f"{name}Model", "AutoModel") for name in (*DECODERS, "NanoChat", "ViT", "T5", "Bart", "Marian", "M2M100")),
    *(("T5ForConditionalGeneration", "AutoModelForSeq2SeqLM"), ("T5EncoderModel", "AutoModelForTextEncoding")),
    *(("BartForConditionalGeneration", "AutoModelForSeq2SeqLM"), ("MarianMTModel", "AutoModelForSeq2SeqLM")),
    *(("M2M100ForConditionalGeneration", "AutoModelForSeq2SeqLM"), VIT_CLASSES),
]
"""Classes of ``transformers``, and the door by which each is opened."""
SHORT = [
    *((f"{name}ForSequenceClassification", "text-classification") for name in ("ModernBert", "Bert", "DistilBert")),
    *((f"{name}ForSequenceClassification", "text-classification") for name in ("Qwen2", "GPT2")),
    *(("RobertaForMaskedLM", "fill-mask"), ("XLMRobertaModel", "feature-extraction")),
    *(("BertModel", "SentenceTransformer"), ("MistralModel", "AutoModel"), ("ViTModel", "AutoModel")),
    *((f"{name}ForCausalLM", "text-generation") for name in ("NanoChat", "Llama", "Qwen3")),
    *(("T5ForConditionalGeneration", "AutoModelForSeq2SeqLM"), ("T5EncoderModel", "AutoModelForTextEncoding")),
    *(("BartForConditionalGeneration", "AutoModelForSeq2SeqLM"), ("MarianMTModel", "AutoModelForSeq2SeqLM")),
    *(("M2M100ForConditionalGeneration", "AutoModelForSeq2SeqLM"), VIT_CLASSES),
]
"""Each family and each door once or twice, for the suite."""


@dataclass
class Opened:
    """One exported model, what it was asked, and what was found."""

    name: str
    door: str
    directory: Path
    inputs: list[Any]
    expected: list[Any]
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def row(self):
        """The result: what was reported of weights, how many labels (or texts) are equal, how far scores are apart."""
        base = {"model": self.name, "door": self.door, "inputs": len(self.inputs)}
        if "error" in self.answer:
            return {**base, "passed": False, "error": self.answer["error"]}
        equal, apart = compared(self.door, self.expected, self.answer["answers"])
        loaded = self.answer["loaded"]
        passed = not loaded and equal == len(self.inputs) > 0 and apart <= BOUND
        found = {"class": self.answer["class"], "weights_reported": loaded, "equal": equal, "largest_difference": apart}
        return {**base, "passed": passed, **found}


def texts(count, seed=0):
    """Lines of known words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(count)]


def made(name, door, place):
    """A random model of that class, with its tokenizer, and of vectors of texts with its pooling."""
    family = next(family for family in SETTINGS if name.startswith(family))
    cls = getattr(transformers, name)
    if family == "ViT":
        model = cls(cls.config_class(**VIT, id2label=dict(enumerate(LABELS))))
        return saved(model, place)
    role = "encoder" if family in ENCODERS else "translator" if family in ("Bart", "Marian", "M2M100") else "decoder"
    kind = "wordpiece" if family in ("Bert", "DistilBert", "ModernBert") else "bpe"
    words = train_tokenizer([" ".join(WORDS)] * 9, kind, 300, role=role)
    ids = {"pad_token_id": words.pad, "bos_token_id": words.begin_of_text, "eos_token_id": words.end_of_text}
    if family == "T5":
        ids = {"pad_token_id": words.end_of_text, "eos_token_id": words.end_of_text}
    ids = {key: value for key, value in ids.items() if value is not None}
    if family in (*ENCODERS, *DECODERS):
        ids = {"id2label": dict(enumerate(LABELS)), **ids}
    if family in ("Bart", "Marian", "M2M100", "T5"):
        ids["decoder_start_token_id"] = words.end_of_text if words.end_of_text is not None else 0
    model = cls(cls.config_class(**SETTINGS[family], vocab_size=words.vocab_size, **ids))
    saved(model, place, silent=sorted(words.special_ids))
    words.save(place, segments=family == "Bert")
    if family == "Qwen2":  # transformers normalises so for this family, whatever the file says
        spec = json.loads((place / "tokenizer.json").read_text())
        (place / "tokenizer.json").write_text(json.dumps({**spec, "normalizer": {"type": "NFC"}}))
    if door == "SentenceTransformer":
        ours = load_model(place)
        ours.head = PoolingHead("mean")
        save_model(ours, place)
    return place


@torch.no_grad()
def saved(model, place, silent=None):
    """Weights that spread the answers; the ``silent`` tokens are never the likeliest."""
    draw = torch.Generator().manual_seed(7)
    for name, p in model.named_parameters():
        around = float("norm" in name.lower() or ".ln_" in name) if name.endswith("weight") else 0.0
        p.copy_(around + 0.3 * torch.randn(p.shape, generator=draw))
    out = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if silent and out is not None:
        out.weight[silent] = 0.0
        for bias in (getattr(out, "bias", None), getattr(model, "final_logits_bias", None)):
            if bias is not None:
                bias[..., silent] = -30.0
    model.save_pretrained(place)
    if model.config.model_type == "vit":
        (place / "preprocessor_config.json").write_text('{"size": {"height": 14, "width": 14}}')
    return place


def prepared(name, door, source, out, count):
    """A model exported, with what it is asked and its own answers."""
    found = export(source, out)
    assert found.made and found.parity.passed, f"{name}: {found.parity.problem}"
    if door in ("AutoModel", "AutoModelForTextEncoding"):
        inputs, expected = bare(load_model(source), Tokenizer.load(source) if name != "ViTModel" else None, count)
        return Opened(name, door, out, inputs, expected)
    pipe = headway.load(source)
    if door == "image-classification":
        draw = np.random.default_rng(0)
        images = [draw.integers(0, 256, (14 + i % 3, 14 + i % 5, 3), dtype=np.uint8) for i in range(count)]
        inputs = [[one.shape[1], one.shape[0], one.tobytes().hex()] for one in images]
        return Opened(name, door, out, inputs, [pipe(one)["scores"] for one in images])
    lines = texts(count)
    return Opened(name, door, out, lines, answers(door, pipe, lines))


@torch.no_grad()
def answers(door, pipe, lines):
    """What the pipeline here answers."""
    if door == "text-classification":
        return [one["scores"] for one in pipe(lines)]
    if door == "SentenceTransformer":
        return pipe(lines).tolist()
    if door == "text-generation":
        return [pipe(line, temperature=0, max_tokens=NEW) for line in lines]
    if door == "AutoModelForSeq2SeqLM":
        return [written(pipe, line) for line in lines]
    if door == "fill-mask":
        found = []
        for line in lines:
            ids = pipe.ids_of(f"{line} [MASK]")
            scores = pipe.model(torch.tensor([ids]))[0, ids.index(pipe.mask)].softmax(dim=-1)
            best = scores.topk(5)
            found.append([list(each) for each in zip(best.indices.tolist(), best.values.tolist(), strict=True)])
        return found
    return [pipe.model(torch.tensor([pipe.tokenizer.encode(line, special=True)]))[0].tolist() for line in lines]


def written(pipe, line):
    """The ids of the target that is written greedily for a line, with what it begins with and without its end."""
    rules, source = pipe.rules, [pipe.tokenizer.encode(line, special=True)]
    words = {"max_tokens": NEW, "context": NEW + len(rules.start), "end": rules.end, "forbidden": rules.forbidden}
    steps = decode(Conditional(pipe.model, source), [rules.start], Sampling(temperature=0), **words)
    return [*rules.start, *(token for step in steps for token in step.values() if token not in rules.end)]


@torch.no_grad()
def bare(model, tokenizer, count):
    """Inputs of a model without a head, by the names that ``transformers`` has for them, and its vectors."""
    if tokenizer is None:
        images = torch.randn(count, 1, 3, 14, 14, generator=torch.Generator().manual_seed(0))
        return [{"pixel_values": one.tolist()} for one in images], [model(one)[0].tolist() for one in images]
    rows = [torch.tensor([tokenizer.encode(line)]) for line in texts(count)]
    if hasattr(model, "encoder_config"):
        inputs = [{"input_ids": row.tolist(), "decoder_input_ids": row.tolist()} for row in rows]
        return inputs, [model(row, row)[0].tolist() for row in rows]
    return [{"input_ids": row.tolist()} for row in rows], [model(row)[0].tolist() for row in rows]


def compared(door, expected, found):
    """(how many labels, texts, best tokens or shapes are equal, the largest difference of scores)."""
    equal, apart = 0, 0.0
    for one, other in zip(expected, found, strict=True):
        if isinstance(one, str):
            equal += one == other
        elif door == "AutoModelForSeq2SeqLM":
            equal += one == other[: len(one)] and len(other) - len(one) in (0, 1)
        elif isinstance(one, dict):
            equal += set(one) == set(other) and max(one, key=one.get) == max(other, key=other.get)
            apart = max(apart, *(abs(score - other.get(label, 2.0)) for label, score in one.items()))
        elif door == "fill-mask":
            equal += one[0][0] == other[0][0]
            apart = max(apart, *(abs(a[1] - b[1]) for a, b in zip(one, other, strict=True)))
        else:
            one, other = np.asarray(one), np.asarray(other)
            equal += one.shape == other.shape
            apart = max(apart, float(np.abs(one - other).max()) if one.shape == other.shape else np.inf)
    return equal, apart


def open_all(jobs, folder):
    """Open every directory in one new process, which does not know headway."""
    said = [{"directory": str(job.directory), "door": job.door, "inputs": job.inputs} for job in jobs]
    (folder / "jobs.json").write_text(json.dumps(said))
    words = [sys.executable, str(READER), str(folder / "jobs.json"), str(folder / "answers.json")]
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    for job, answer in zip(jobs, json.loads((folder / "answers.json").read_text()), strict=True):
        job.answer = answer
