"""Models as CTranslate2 runs them: its specification of a Transformer, filled in from our own blocks.

One block in three wirings is what CTranslate2 has as well, so the parts decide and not the family: ``lacking`` says
which part it lacks.  ``transformers`` is not needed.

What follows an encoder lies beside it: ``head.json`` says how, and ``head.npz`` has a classifier's matrices.

    vectors -> pooled -> [length 1] -> [dense, activation] -> [out] -> a vector, or a logit for each label

Letters: T positions, D width, V vocabulary, C classes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.formats.subject import Subject
from headway.hub.kept_entries import kept
from headway.io.atomic_write import write_json, write_whole
from headway.io.strict_json import read_object
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, PoolingHead, gives
from headway.models.transformer import Decoder, Encoder, EncoderDecoder, Stack
from headway.nn.positions import sinusoids

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
"""Our activations -> its names."""
POSITIONS = ("learned", "sinusoidal", "rotary", "relative")
FAMILIES = (
    *("gpt2", "llama", "mistral", "qwen2", "qwen3", "bert", "roberta", "xlm-roberta", "distilbert", "bart", "marian"),
    *("m2m_100", "t5"),
)
"""The Hugging Face families that have only parts of CTranslate2."""
HEAD_ACTIVATIONS: dict[str, Any] = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}
"""The activations of the classifiers of BERT, RoBERTa and DistilBERT."""
DESCRIPTION, MATRICES = "head.json", "head.npz"
NEVER = -1e9
"""The bias of a token that is never written: the search of CTranslate2 has no list of such tokens in its files."""


def lacking(model: Any) -> str | None:
    """The part of a model that CTranslate2 has not; None if it can run it."""
    config = getattr(model, "config", None)
    if not isinstance(config, TransformerConfig):
        return f"this is {getattr(config, 'described', type(model).__name__)}, and CTranslate2 runs Transformers"
    head: Any = getattr(model, "head", None)
    if isinstance(model, EncoderDecoder | Decoder):
        if gives(model) is not Gives.VOCABULARY:
            does = "writes" if isinstance(model, EncoderDecoder) else "continues"
            return f"it has a {type(head).__name__}, and CTranslate2 {does} texts with such a model"
        if isinstance(model, Decoder):
            return _lacking_part(config)
        if config.norm_eps != model.encoder_config.norm_eps:
            return "its two stacks differ in the norms' ε, of which CTranslate2 has one"
        return _lacking_part(model.encoder_config) or _lacking_part(config)
    if not isinstance(model, Encoder) or model.patches is not None:
        return "CTranslate2 runs Transformers that read texts"
    plain = gives(model) in (Gives.HIDDEN, Gives.ROW)
    if not plain and not (gives(model) is Gives.VECTOR and head.dense is None):
        return f"it has a {type(head).__name__}, and CTranslate2 has vectors of tokens only"
    if gives(model) is Gives.ROW:
        if head.scale is not None:
            return "it predicts several label columns, whose units head.json does not describe"
        if not isinstance(head.norm, nn.Identity) or (head.dense and head.activation not in HEAD_ACTIVATIONS):
            return "its classifier has a norm or an activation that head.json does not describe"
    return _lacking_part(config)


def _lacking_part(config: TransformerConfig) -> str | None:
    """The part of a stack that CTranslate2 has not."""
    if config.activation not in ACTIVATIONS:
        return f"its activation is {config.activation}, and CTranslate2 has {', '.join(ACTIVATIONS)}"
    if config.position.kind not in POSITIONS:
        return f"its positions are {config.position.kind}, and CTranslate2 has {', '.join(POSITIONS)}"
    if not config.first_norm:
        return "its first block has no norm before its attention, and CTranslate2 has one before each"
    scaling = config.position.scaling
    if scaling is not None and scaling.kind != "linear":
        return f"its rotary positions are scaled by {scaling.kind!r}, and CTranslate2 has linear"
    windows = [config.layer_window(layer) for layer in range(config.n_layers)]
    if any(near is not None and near < config.max_length for near in windows):
        return "its layers attend to a window only, and CTranslate2's to all tokens"
    if config.qk_norm and config.norm != "rmsnorm":
        return "its queries and keys have a LayerNorm, and CTranslate2 has RMSNorm there"
    return None


def specification(model: Any, *, forbidden: Sequence[int] = ()) -> Any:
    """The specification of CTranslate2, with the weights; ``forbidden`` tokens are never written."""
    from ctranslate2.specs import common_spec
    from ctranslate2.specs import transformer_spec as specs

    def encoder(stack: Stack, config: TransformerConfig) -> Any:
        options = _options(config)
        if config.segments:  # a second table, whose vectors are added
            options |= {"num_source_embeddings": 2, "embeddings_merge": common_spec.EmbeddingsMerge.ADD}
        spec = specs.TransformerEncoderSpec(**options)
        _set_stack(spec, stack, config)
        return spec

    def decoder(stack: Stack, cross: bool) -> Any:
        spec = specs.TransformerDecoderSpec(**_options(model.config), with_encoder_attention=cross)
        _set_stack(spec, stack, model.config)
        _set_projection(spec, model.head, model.config, forbidden)
        return spec

    if isinstance(model, EncoderDecoder):
        parts = encoder(model.encoder, model.encoder_config), decoder(model.decoder, cross=True)
        spec = specs.TransformerSpec(*parts)
    elif isinstance(model, Decoder):
        spec = specs.TransformerDecoderModelSpec(decoder(model.stack, cross=False))
    else:
        spec = specs.TransformerEncoderModelSpec(encoder(model.stack, model.config))
    spec.config.layer_norm_epsilon = model.config.norm_eps
    return spec


def vocabulary(tokenizer: Any, rows: int) -> list[str]:
    """A token for each of the model's rows, those without one named by their number."""
    known = list(tokenizer.tokens[:rows])
    return [token or f"<unused {number}>" for number, token in enumerate(known + [""] * (rows - len(known)))]


def _options(config: TransformerConfig) -> dict[str, Any]:
    """The keywords of a stack's specification."""
    from ctranslate2.specs import attention_spec, common_spec

    options: dict[str, Any] = {
        "num_layers": config.n_layers,
        "num_heads": config.n_heads,
        "num_heads_kv": config.kv_heads if config.kv_heads != config.n_heads else None,
        "head_dim": config.head_width if config.head_width * config.n_heads != config.d_model else None,
        "pre_norm": config.norm_order == "pre",
        "activation": common_spec.Activation[ACTIVATIONS[config.activation]],
        "layernorm_embedding": config.embedding_norm,
        "relative_attention_bias": config.position.kind == "relative",
        "ffn_glu": config.gated,
        "rms_norm": config.norm == "rmsnorm",
        "qk_norm": config.qk_norm,
    }
    if config.position.kind == "rotary":
        options |= {"rotary_dim": config.rotated, "rotary_interleave": False, "rotary_base": config.position.base}
        if (scaling := config.position.scaling) is not None:
            options["rotary_scaling_type"] = attention_spec.RotaryScalingType.Linear
            options["rotary_scaling_factor"] = scaling.factor
    return options


def _set_stack(spec: Any, stack: Stack, config: TransformerConfig) -> None:
    embedding: Any = stack.embedding
    tables = spec.embeddings if isinstance(spec.embeddings, list) else [spec.embeddings]
    tables[0].weight = _numbers(embedding.tokens.weight)
    if config.segments:
        tables[1].weight = _numbers(embedding.segments.weight)
    spec.scale_embeddings = config.embedding_scale
    if config.position.kind in ("learned", "sinusoidal"):
        spec.position_encodings.encodings = _position_table(embedding, config)
    if config.embedding_norm:
        _set_norm(spec.layernorm_embedding, embedding.norm, config.d_model)
    if config.norm_order == "pre":
        _set_norm(spec.layer_norm, stack.norm, config.d_model)
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        _set_block(layer, block, config)
        if config.position.kind == "relative":
            layer.self_attention.relative_attention_bias = _numbers(stack.relative.table.weight)  # type: ignore
            distance = torch.tensor(config.position.max_distance, dtype=torch.int32)
            layer.self_attention.relative_attention_max_distance = distance.numpy()[()]


def _set_block(spec: Any, block: Any, config: TransformerConfig) -> None:
    _set_linear(spec.self_attention.linear[0], block.attention.layer.qkv)
    _set_attention(spec.self_attention, block.attention, config)
    if block.cross is not None:
        _set_linear(spec.attention.linear[0], block.cross.layer.q)
        _set_linear(spec.attention.linear[1], block.cross.layer.kv)
        _set_attention(spec.attention, block.cross, config)
    up, dense = block.feedforward.layer.up, spec.ffn
    if config.gated:  # the gate, and what it is multiplied with
        for name in ("weight", "bias") if up.bias is not None else ("weight",):
            gate, other = _numbers(getattr(up, name)).chunk(2)
            setattr(dense.linear_0, name, gate.contiguous())
            setattr(dense.linear_0_noact, name, other.contiguous())
    else:
        _set_linear(dense.linear_0, up)
    _set_linear(dense.linear_1, block.feedforward.layer.out)
    _set_norm(dense.layer_norm, block.feedforward.norm, config.d_model)


def _set_attention(spec: Any, part: Any, config: TransformerConfig) -> None:
    """What self- and cross-attention have in common: the output, the norm, the norms of queries and keys."""
    _set_linear(spec.linear[-1], part.layer.out)
    _set_norm(spec.layer_norm, part.norm, config.d_model)
    if config.qk_norm:
        _set_norm(spec.q_norm, part.layer.q_norm, config.head_width)
        _set_norm(spec.k_norm, part.layer.k_norm, config.head_width)


def _set_projection(spec: Any, head: Any, config: TransformerConfig, forbidden: Sequence[int]) -> None:
    _set_linear(spec.projection, head.matrix)
    if forbidden:
        bias = torch.zeros(config.vocab_size) if head.matrix.bias is None else _numbers(head.matrix.bias)
        bias[list(forbidden)] = NEVER
        spec.projection.bias = bias
    if head.softcap is not None:
        spec.final_logit_softcapping = float(head.softcap)


def _set_linear(spec: Any, layer: nn.Linear) -> None:
    spec.weight = _numbers(layer.weight)
    if layer.bias is not None:
        spec.bias = _numbers(layer.bias)


def _set_norm(spec: Any, norm: Any, width: int) -> None:
    """γ and β, with 1 and 0 for those that a norm has not."""
    spec.gamma = torch.ones(width) if norm.weight is None else _numbers(norm.weight)
    if hasattr(spec, "beta"):
        bias = getattr(norm, "bias", None)
        spec.beta = torch.zeros(width) if bias is None else _numbers(bias)


def _position_table(embedding: Any, config: TransformerConfig) -> Tensor:
    """The vectors of the positions, (T, D), the first of them at row 0."""
    position = config.position
    if position.kind == "learned":
        return _numbers(embedding.learned.table.weight)[position.start :].contiguous()
    places = torch.arange(position.start, position.start + config.max_length)
    return sinusoids(places, config.d_model, position.sinusoids)


def _numbers(weight: Tensor) -> Tensor:
    """A copy: CTranslate2 quantizes in place."""
    return weight.detach().float().clone(memory_format=torch.contiguous_format)


def write_head(subject: Subject, directory: Path) -> None:
    """Write the files of an encoder's head; nothing for another model."""
    if not isinstance(subject.model, Encoder):
        return
    head: Any = subject.model.head or PoolingHead()
    described = {"pooling": head.pooling, "normalise": head.normalise}
    if head.gives is Gives.ROW:
        described |= {"activation": head.activation, "labels": list(getattr(subject.pipe, "labels", []))}
        if (problem := kept(subject.model, "problem_type")) is not None:
            described["problem_type"] = problem
        arrays: dict[str, Any] = {name: weight.detach().float().numpy() for name, weight in head.named_parameters()}

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, **arrays)

        write_whole(directory / MATRICES, write)
    write_json(directory / DESCRIPTION, described)


def apply_head(vectors: np.ndarray, directory: Path) -> np.ndarray:
    """The vectors of the tokens of one text, (T, D) -> its vector (D,), or its logits (C,), by numpy alone."""
    described = read_object(directory / DESCRIPTION)
    x = {"mean": vectors.mean(axis=0), "first": vectors[0], "last": vectors[-1]}[described["pooling"]]
    if described["normalise"]:
        x = x / np.linalg.norm(x)
    if "labels" not in described:
        return x
    with np.load(directory / MATRICES) as matrices:
        if "dense.weight" in matrices:
            inner = matrices["dense.weight"] @ x + matrices.get("dense.bias", 0.0)
            x = HEAD_ACTIVATIONS[described["activation"]](inner)
        return matrices["out.weight"] @ x + matrices.get("out.bias", 0.0)
