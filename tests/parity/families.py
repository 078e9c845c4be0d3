"""Tiny models of every family of transformers, what may not be changed in them, and what we refuse of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from kit import C, V, redraw, theirs
from torch import nn

from headway.nn.positions import LearnedPositions, SinusoidalEncoding

EVERY_SIDE = ("none", "right", "left")
NOT_LEFT = ("none", "right")
"""Their learned positions count places, ours tokens: with padding on the left only ours is independent of it."""
NO_IDS = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))


@dataclass
class Family:
    """Cases are (class, changes of the sizes); ``wrong`` are (case, changes of config.json) that must show.

    ``wirings`` change the model of the case ``base``: statements (path, value), where a function is applied to what is
    there and ``*`` means every child, or a function of the whole model.
    """

    sizes: dict[str, Any]
    cases: dict[str, tuple[str, dict[str, Any]]]
    wrong: dict[str, tuple[str, dict[str, Any]]]
    base: str
    wirings: dict[str, Any]
    sides: Callable[[str], tuple[str, ...]] = lambda name: EVERY_SIDE
    std: Callable[[str], float] = lambda name: 0.3
    finish: Callable[[str, Any], Any] = lambda name, other: None
    exact: bool = True
    unwritten: tuple[str, ...] = ()
    """cases that transformers does not read back without calling a table missing"""
    causal: tuple[str, ...] = ()
    targets: tuple[tuple[str, dict[str, Any]], ...] = ()
    """cases, with settings of the generation, whose greedy targets are compared"""
    refused: dict[str, tuple[str, dict[str, Any], str]] = field(default_factory=dict)
    """a case, changes of config.json, and a word of the message"""

    @property
    def written(self) -> list[str]:
        return [name for name in self.cases if name not in self.unwritten]


def model(family: str, name: str | None = None, **changes: Any) -> Any:
    """A redrawn model of transformers."""
    about = FAMILIES[family]
    name = name or about.base
    kind, case = about.cases[name]
    other = theirs(kind, {**about.sizes, **case, **changes}, std=about.std(name))
    about.finish(name, other)
    return other


def rewire(ours: nn.Module, wiring: Any) -> None:
    """Change what a wiring of ``Family`` says."""
    if callable(wiring):
        return wiring(ours)
    for path, value in wiring:
        *places, name = path.split(".")
        modules: list[Any] = [ours]
        for place in places:
            modules = [one for module in modules for one in (module if place == "*" else [getattr(module, place)])]
        for module in modules:
            before = getattr(module, name)
            if isinstance(before, nn.Parameter):
                before.data = value(before.data)
            else:
                setattr(module, name, value)


def causal(cases: dict[str, tuple[str, Any]]) -> tuple[str, ...]:
    return tuple(name for name, (kind, _) in cases.items() if "LM" in kind)


POST_NORM = (("stack.blocks.*.attention.pre", False), ("stack.blocks.*.feedforward.pre", False))
PRE_NORM = (("stack.blocks.*.attention.pre", True), ("stack.blocks.*.feedforward.pre", True))
NO_EMBEDDING_NORM = (("stack.embedding.norm", nn.Identity()),)
NEXT_POSITIONS = (("stack.embedding.learned.table.weight", lambda table: table.roll(-1, 0)),)
QKV = "stack.blocks.*.attention.layer.qkv.weight"
BART = {
    "vocab_size": V, "d_model": 42, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 7, "encoder_ffn_dim": 17, "decoder_ffn_dim": 19, "max_position_embeddings": 29,
}  # fmt: skip
ENCODER = {
    "vocab_size": V, "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 3,
    "max_position_embeddings": 29, "num_labels": C,
}  # fmt: skip
GROUPED = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
NEAR = {"use_sliding_window": True, "sliding_window": 5}
BASE_9000 = {"rope_parameters": {"rope_type": "default", "rope_theta": 9000.0}}


def vectors(std: float, *words: str) -> Callable[[str], float]:
    """More spread for cases whose answers would be too near to each other."""
    return lambda name: std if any(word in name for word in words) else 0.3


def positions_from(start: int) -> Callable[[nn.Module], None]:
    def change(ours: nn.Module) -> None:
        for module in ours.modules():
            if isinstance(module, LearnedPositions):
                module.start = start

    return change


def epsilon(value: float) -> Callable[[nn.Module], None]:
    def change(ours: nn.Module) -> None:
        for norm in (module for module in ours.modules() if hasattr(module, "eps")):
            norm.eps = value

    return change


BART_FAMILY = Family(
    BART,
    {
        "logits": ("BartForConditionalGeneration", {}),
        "scaled, ReLU": ("BartForConditionalGeneration", {"scale_embedding": True, "activation_function": "relu"}),
        "vectors": ("BartModel", {"encoder_layers": 3, "decoder_layers": 2}),
    },
    {
        "activation": ("logits", {"activation_function": "gelu_new"}),
        "scale": ("logits", {"scale_embedding": True}),
        "encoder's heads": ("logits", {"encoder_attention_heads": 7}),
        "decoder's heads": ("logits", {"decoder_attention_heads": 3}),
    },
    "logits",
    {
        "positions": positions_from(1),
        "pre-norm": (("encoder.blocks.1.attention.pre", True),),
        "no embedding norm": (("decoder.embedding.norm", nn.Identity()),),
        "no bias": (("head.matrix.bias", torch.zeros_like),),
        "ε": (("encoder.embedding.norm.eps", 1e-3),),
    },
    sides=lambda name: NOT_LEFT,
    targets=(
        *(("logits", {}), ("logits", {"forced_bos_token_id": 5})),
        ("logits", {"bad_words_ids": [[7], [8]], "forced_eos_token_id": None}),
    ),
)


def sinusoids(side: str, order: str, start: int) -> Callable[[Any], None]:
    def change(ours: Any) -> None:
        getattr(ours, side).embedding.position = SinusoidalEncoding(ours.config.d_model, start, order)

    return change


M2M = "M2M100ForConditionalGeneration"
M2M_FAMILY = Family(
    BART,
    {
        "logits": (M2M, {}),
        "odd width": (M2M, {"d_model": 21}),
        "SiLU, not scaled": (M2M, {"activation_function": "silu", "scale_embedding": False, "pad_token_id": 2}),
        "vectors": ("M2M100Model", {}),
    },
    {
        "activation": ("logits", {"activation_function": "silu"}),
        "scale": ("logits", {"scale_embedding": False}),
        "first position": ("logits", {"pad_token_id": 2}),
        "encoder's heads": ("logits", {"encoder_attention_heads": 7}),
    },
    "logits",
    {
        "halves": sinusoids("encoder", "halves", 2),
        "interleaved": sinusoids("encoder", "interleaved", 2),
        "post-norm": (("decoder.blocks.0.cross.pre", False),),
        "no final norm": (("encoder.norm", nn.Identity()),),
        "ε": (("decoder.norm.eps", 0.03),),
    },
    targets=(("logits", {}), ("logits", {"forced_bos_token_id": 5})),
)


def computed_tables(_: str, other: Any) -> None:
    """A table that is computed, though it is a parameter there: not to be redrawn."""
    for module in other.modules():
        if hasattr(module, "create_weight"):
            module.weight.data.copy_(module.create_weight())


APART = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 37}
MARIAN_FAMILY = Family(
    {
        **BART, "pad_token_id": 2, "decoder_start_token_id": 2, "eos_token_id": 0, "activation_function": "swish",
        "scale_embedding": True,
    },
    {
        "logits": ("MarianMTModel", {}),
        "two vocabularies": ("MarianMTModel", APART),
        "three tables": ("MarianMTModel", {**APART, "decoder_vocab_size": V, "tie_word_embeddings": False}),
        "odd width, GELU": ("MarianMTModel", {"d_model": 21, "activation_function": "gelu", "scale_embedding": False}),
        "vectors": ("MarianModel", {}),
    },
    {
        "activation": ("logits", {"activation_function": "gelu"}),
        "scale": ("logits", {"scale_embedding": False}),
        "encoder's heads": ("logits", {"encoder_attention_heads": 7}),
    },
    "logits",
    {
        "interleaved": sinusoids("decoder", "interleaved", 0),
        "tensor2tensor": sinusoids("decoder", "tensor2tensor", 0),
        "first position": sinusoids("decoder", "halves", 1),
        "pre-norm": (("decoder.blocks.2.feedforward.pre", True),),
        "no bias": (("head.matrix.bias", torch.zeros_like),),
        "ε": (("encoder.blocks.1.feedforward.norm.eps", 1e-3),),
    },
    sides=lambda name: NOT_LEFT,
    finish=computed_tables,
    unwritten=("vectors",),
    targets=(("logits", {"bad_words_ids": [[2]]}), ("two vocabularies", {"bad_words_ids": [[2]]})),
)  # fmt: skip


@torch.no_grad()
def spread(name: str, other: Any) -> None:
    """Logits and vectors of T5 are small; a head of its own, as published, is made only where a file has it."""
    if name == "1.1":
        other.lm_head.weight = nn.Parameter(other.lm_head.weight.clone())
        redraw(other.lm_head, seed=3)
        other.all_tied_weights_keys.pop("lm_head.weight")
    if name == "encoder":
        other.encoder.final_layer_norm.weight.mul_(2)
    elif name != "vectors" and other.config.scale_decoder_outputs:
        other.decoder.final_layer_norm.weight.mul_(5)


T5, NEWER = "T5ForConditionalGeneration", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
T5_FAMILY = Family(
    {
        "vocab_size": V, "d_model": 23, "d_kv": 7, "d_ff": 17, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 5,
        "relative_attention_num_buckets": 6, "relative_attention_max_distance": 11, "decoder_start_token_id": 0,
    },
    {
        "1.0": (T5, {}),
        "1.1": (T5, NEWER),
        "1.1, tied": (T5, NEWER),
        "gated SiLU": (T5, {"feed_forward_proj": "gated-silu", "layer_norm_epsilon": 1e-2}),
        "vectors": ("T5Model", {}),
        "encoder": ("T5EncoderModel", {"num_layers": 2}),
        "more blocks in the decoder": (T5, {"num_decoder_layers": 5}),
    },
    {
        "ε": ("1.0", {"layer_norm_epsilon": 1e-3}),
        "activation": ("1.0", {"feed_forward_proj": "gelu", "dense_act_fn": "gelu"}),
        "gate": ("1.1", {"feed_forward_proj": "gated-silu", "dense_act_fn": "silu"}),
        "buckets' reach": ("1.0", {"relative_attention_max_distance": 7}),
        "no scale": ("1.0", {"scale_decoder_outputs": False}),
    },
    "1.0",
    {
        "scaled scores": (("decoder.blocks.*.cross.layer.q.weight", lambda weight: weight / 7**0.5),),
        "swapped sides": (("encoder.relative.causal", True),),
        "post-norm": (("encoder.blocks.0.feedforward.pre", False),),
        "one bias for both": lambda ours: ours.decoder.relative.load_state_dict(ours.encoder.relative.state_dict()),
    },
    finish=spread,
    exact=False,
    targets=(("1.0", {"decoder_start_token_id": 0}), ("1.1", {"decoder_start_token_id": 0})),
)  # fmt: skip
BERT_FAMILY = Family(
    ENCODER,
    {
        "vectors": ("BertModel", {}),
        "masked": ("BertForMaskedLM", {}),
        "masked, ReLU, one segment": ("BertForMaskedLM", {"hidden_act": "relu", "type_vocab_size": 1}),
        "masked, untied": ("BertForMaskedLM", {"tie_word_embeddings": False}),
        "classes": ("BertForSequenceClassification", {"layer_norm_eps": 1e-2}),
        "tokens": ("BertForTokenClassification", {"classifier_dropout": 0.3}),
    },
    {
        "ε": ("masked", {"layer_norm_eps": 1e-2}),
        "activation": ("masked", {"hidden_act": "gelu_new"}),
        "another activation": ("classes", {"hidden_act": "relu"}),
    },
    "masked",
    {
        "pre-norm": PRE_NORM,
        "no segments": (("stack.embedding.segments", None),),
        "next positions": NEXT_POSITIONS,
        "queries and keys": ((QKV, lambda weight: weight.unflatten(0, (3, -1))[[1, 0, 2]].flatten(0, 1)),),
        "no embedding norm": NO_EMBEDDING_NORM,
    },
    sides=lambda name: NOT_LEFT,
    std=vectors(0.7, "tokens"),
    refused={
        name: ("vectors", {name: value}, name)
        for name, value in {"is_decoder": True, "position_embedding_type": "relative_key", "type_vocab_size": 0}.items()
    },
)


def norms_swapped(ours: Any) -> None:
    for block in ours.stack.blocks:
        block.attention.norm, block.feedforward.norm = block.feedforward.norm, block.attention.norm


DISTILBERT_FAMILY = Family(
    {
        "vocab_size": V, "dim": 42, "hidden_dim": 17, "n_layers": 3, "n_heads": 3, "max_position_embeddings": 29,
        "num_labels": C,
    },
    {
        "vectors": ("DistilBertModel", {}),
        "masked": ("DistilBertForMaskedLM", {}),
        "masked, untied": ("DistilBertForMaskedLM", {"tie_word_embeddings": False}),
        "masked, ReLU": ("DistilBertForMaskedLM", {"activation": "relu"}),
        "classes": ("DistilBertForSequenceClassification", {}),
        "tokens": ("DistilBertForTokenClassification", {}),
        "sinusoids in a table": ("DistilBertForMaskedLM", {"sinusoidal_pos_embds": True}),
    },
    {"activation": ("masked", {"activation": "relu"})},
    "classes",
    {
        "ε": epsilon(1e-3),
        "no embedding norm": NO_EMBEDDING_NORM,
        "tanh for ReLU": (("head.activation", "tanh"),),
        "next positions": NEXT_POSITIONS,
        "norms swapped": norms_swapped,
    },
    sides=lambda name: NOT_LEFT,
    std=vectors(0.5, "vectors", "tokens"),
)  # fmt: skip
ROBERTA_FAMILY = Family(
    {**ENCODER, "max_position_embeddings": 31, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    {
        "vectors": ("RobertaModel", {}),
        "masked": ("RobertaForMaskedLM", {}),
        "masked, untied, ReLU": ("RobertaForMaskedLM", {"tie_word_embeddings": False, "hidden_act": "relu"}),
        "masked, padding is 0": ("RobertaForMaskedLM", {"pad_token_id": 0}),
        "classes": ("RobertaForSequenceClassification", {"layer_norm_eps": 1e-2}),
        "tokens": ("RobertaForTokenClassification", {}),
        "XLM tokens": ("XLMRobertaForTokenClassification", {}),
        "XLM vectors": ("XLMRobertaModel", {}),
        "XLM masked": ("XLMRobertaForMaskedLM", {}),
        "XLM classes": ("XLMRobertaForSequenceClassification", {}),
    },
    {
        "ε": ("masked", {"layer_norm_eps": 1e-3}),
        "activation": ("masked", {"hidden_act": "gelu_new"}),
        "positions one later": ("masked", {"pad_token_id": 2}),
        "positions one earlier": ("classes", {"pad_token_id": 0}),
    },
    "classes",
    {
        "no offset": positions_from(0),
        "no segment": (("stack.embedding.segments", None),),
        "GELU for tanh": (("head.activation", "gelu"),),
    },
    sides=lambda name: NOT_LEFT if "classes" in name else EVERY_SIDE,  # their classifier takes the first place
    std=vectors(0.5, "vectors", "tokens"),
    refused={
        "padding before the table": ("masked", {"pad_token_id": -1}, "max_position_embeddings is"),
        "no room": ("masked", {"max_position_embeddings": 2}, "max_position_embeddings is"),
    },
)
NEAR_ROPE = {"rope_type": "default", "rope_theta": 101.0}
FAR_ROPE = {"rope_type": "default", "rope_theta": 160000.0}
EVERY_BIAS = {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True}
CLASSIFIER = "ModernBertForSequenceClassification"
MODERNBERT_FAMILY = Family(
    {
        **ENCODER, "num_hidden_layers": 5, "local_attention": 6, **NO_IDS, "cls_token_id": None, "sep_token_id": None,
    },
    {
        "vectors": ("ModernBertModel", {}),
        "all near": ("ModernBertModel", {"layer_types": ["sliding_attention"] * 5, "local_attention": 2}),
        "odd window": ("ModernBertModel", {"local_attention": 7}),
        "itself alone": ("ModernBertModel", {"local_attention": 1}),
        "one base given": ("ModernBertModel", {"rope_parameters": {"sliding_attention": NEAR_ROPE}}),
        "all far": ("ModernBertModel", {"layer_types": ["full_attention"] * 5}),
        "every bias": ("ModernBertModel", EVERY_BIAS),
        "masked": ("ModernBertForMaskedLM", {}),
        "masked, untied": ("ModernBertForMaskedLM", {"tie_word_embeddings": False, "decoder_bias": False}),
        "masked, every bias": ("ModernBertForMaskedLM", EVERY_BIAS),
        "masked, silu": ("ModernBertForMaskedLM", {"hidden_activation": "silu", "norm_eps": 1e-2}),
        "classes, first": (CLASSIFIER, {}),
        "classes, mean": (CLASSIFIER, {"classifier_pooling": "mean", "classifier_activation": "relu"}),
        "classes, every bias": (CLASSIFIER, EVERY_BIAS),
        "tokens": ("ModernBertForTokenClassification", {"classifier_activation": "relu"}),
        "tokens, every bias": ("ModernBertForTokenClassification", EVERY_BIAS),
    },
    {
        "GELU by tanh": ("vectors", {"hidden_activation": "gelu_pytorch_tanh"}),
        "near and far base swapped": (
            "vectors",
            {
                "rope_parameters": {
                    "full_attention": {**FAR_ROPE, "rope_theta": 10000.0}, "sliding_attention": FAR_ROPE,
                }
            },
        ),
        "window": ("vectors", {"local_attention": 8}),
        "pooling": ("classes, first", {"classifier_pooling": "mean"}),
    },
    "vectors",
    {},
    sides=lambda name: NOT_LEFT if "classes" in name and "mean" not in name else EVERY_SIDE,
    refused={
        "kind of layer": ("classes, first", {"layer_types": ["chunked_attention"] * 5}, "has chunked_attention"),
        "fewer layers": ("classes, first", {"layer_types": ["full_attention"] * 4}, "layer_types has 4"),
        "scaling": ("classes, first", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling"),
        "activation": ("classes, first", {"classifier_activation": "mish"}, "classifier_activation is 'mish'"),
    },
)  # fmt: skip
NANO = "NanoChatForCausalLM"
NANO_CASES = {
    "tokens": (NANO, {}),
    "grouped": (NANO, {"num_key_value_heads": 2, "final_logit_softcapping": 7.0}),
    "multi-query": (NANO, {"num_key_value_heads": 1, "rms_norm_eps": 1e-2}),
    "tied": (NANO, {"tie_word_embeddings": True, "final_logit_softcapping": None}),
    "linear": (NANO, {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 101.0}}),
    "silu": (NANO, {"hidden_act": "silu", "rope_parameters": NEAR_ROPE}),
}
NANOCHAT_FAMILY = Family(
    {
        "vocab_size": V, "hidden_size": 84, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 6,
        "max_position_embeddings": 29, **NO_IDS,
    },
    NANO_CASES,
    {
        "activation": ("tokens", {"hidden_act": "relu"}),
        "rotary base": ("tokens", BASE_9000),
        "softcap": ("tokens", {"final_logit_softcapping": None}),
    },
    "tokens",
    {
        "halves": ((QKV, lambda weight: torch.cat([weight[:168].unflatten(0, (12, 2, 7)).flip(1).flatten(0, 2),
                                                   weight[168:]])),),
        "post-norm": POST_NORM,
        "no norm of heads": (
            *(("stack.blocks.*.attention.layer.q_norm", None), ("stack.blocks.*.attention.layer.k_norm", None)),
        ),
        "no embedding norm": NO_EMBEDDING_NORM,
    },
    causal=tuple(NANO_CASES),
)  # fmt: skip
GPT2_CASES = {
    "vectors": ("GPT2Model", {}),
    "tokens": ("GPT2LMHeadModel", {}),
    "tokens, untied": ("GPT2LMHeadModel", {"tie_word_embeddings": False, "layer_norm_epsilon": 1e-2}),
    "tokens, four times as wide": ("GPT2LMHeadModel", {"n_inner": None, "activation_function": "relu"}),
    "tokens, scores by layer": ("GPT2LMHeadModel", {"scale_attn_by_inverse_layer_idx": True}),
    "tokens, scores as they are": ("GPT2LMHeadModel", {"scale_attn_weights": False}),
    "tokens, scores by layer alone": (
        "GPT2LMHeadModel",
        {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
    ),
    "classes": ("GPT2ForSequenceClassification", {"pad_token_id": 0}),
}
GPT2_FAMILY = Family(
    {
        "vocab_size": V, "n_embd": 42, "n_inner": 17, "n_layer": 3, "n_head": 3, "n_positions": 29, "num_labels": C,
        **NO_IDS,
    },
    GPT2_CASES,
    {
        "ε": ("tokens", {"layer_norm_epsilon": 1e-2}),
        "activation": ("tokens", {"activation_function": "gelu"}),
        "scores by layer": ("tokens, scores by layer", {"scale_attn_by_inverse_layer_idx": False}),
        "scores by width": ("tokens, scores as they are", {"scale_attn_weights": True}),
    },
    "tokens",
    {
        "post-norm": POST_NORM,
        "next positions": NEXT_POSITIONS,
        "transposed": (("stack.blocks.*.attention.layer.out.weight", lambda weight: weight.T.contiguous()),),
        "queries and keys": ((QKV, lambda weight: torch.cat([weight[:84].roll(42, dims=0), weight[84:]])),),
    },
    sides=lambda name: NOT_LEFT,
    std=vectors(0.5, "vectors"),
    causal=causal(GPT2_CASES),
    refused={"cross-attention": ("tokens", {"add_cross_attention": True}, "add_cross_attention True")},
)  # fmt: skip
ROPE = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0},
    "yarn": {
        "rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 7, "beta_fast": 1.5, "beta_slow": 0.1,
    },
    "yarn, mscale": {
        "rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 7, "mscale": 0.7, "mscale_all_dim": 0.3,
    },
    "yarn, exact": {
        "rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 23, "truncate": False,
        "attention_factor": 1.3,
    },
    "llama3": {
        "rope_type": "llama3", "factor": 5.0, "original_max_position_embeddings": 7, "low_freq_factor": 0.1,
        "high_freq_factor": 1.3,
    },
    "llama3, long": {
        "rope_type": "llama3", "factor": 5.0, "original_max_position_embeddings": 23, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}  # fmt: skip


def scaled(name: str, **changes: Any) -> dict[str, Any]:
    """Rotary angles by one of ``ROPE``, with changes of it."""
    return {"rope_parameters": {**ROPE[name], "rope_theta": 101.0, **changes}}


LLAMA_CASES = {
    "vectors": ("LlamaModel", {}),
    "tokens": ("LlamaForCausalLM", {}),
    "tokens, tied": ("LlamaForCausalLM", {"tie_word_embeddings": True, "rms_norm_eps": 1e-2}),
    "tokens, grouped": ("LlamaForCausalLM", {**GROUPED, "hidden_act": "gelu"}),
    "tokens, every bias": ("LlamaForCausalLM", {**GROUPED, "attention_bias": True, "mlp_bias": True}),
    "tokens, attention's biases": ("LlamaForCausalLM", {"attention_bias": True}),
    "classes": ("LlamaForSequenceClassification", {**GROUPED, "pad_token_id": 0}),
    "mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 5}),
    "mistral, far": ("MistralModel", {"num_key_value_heads": 1, "sliding_window": None}),
    **{name: ("LlamaForCausalLM", scaled(name)) for name in ROPE if name != "dynamic"},
}
LLAMA_FAMILY = Family(
    {**ENCODER, **NO_IDS},
    LLAMA_CASES,
    {
        "ε": ("tokens", {"rms_norm_eps": 1e-2}),
        "activation": ("tokens", {"hidden_act": "gelu"}),
        "rotary base": ("tokens", BASE_9000),
        "window": ("mistral", {"sliding_window": 6}),
        "no window": ("mistral", {"sliding_window": None}),
        "factor": ("linear", scaled("linear", factor=3.1)),
        "no scaling": ("llama3", {"rope_parameters": NEAR_ROPE}),
        "original length": ("llama3", {"original_max_position_embeddings": 8}),
        "size": ("yarn", scaled("yarn", attention_factor=1.0)),
        "whole pairs": ("yarn, exact", scaled("yarn, exact", truncate=True)),
    },
    "tokens",
    {
        "post-norm": POST_NORM,
        "gate and up": (("stack.blocks.*.feedforward.layer.up.weight", lambda weight: weight.roll(17, dims=0)),),
        "pairs side by side": (  # x[2i] with x[2i + 1], as Llama's own files have it
            (QKV, lambda weight: torch.cat([
                weight[:84].unflatten(0, (-1, 2, 7)).transpose(1, 2).flatten(0, 2), weight[84:],
            ])),
        ),
    },
    std=lambda name: 0.4 if name == "vectors" else 0.3,
    causal=causal(LLAMA_CASES),
    refused={
        "scaling": ("tokens", {"rope_scaling": {"type": "longrope"}}, "rope_type 'longrope' is not supported"),
        "one for each": ("tokens", {"rope_parameters": {"full_attention": {}}}, "only one set of values"),
        "part of a head": ("tokens", {"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5"),
        "no factor": ("tokens", {"rope_scaling": {"type": "linear"}}, "factor is None, expected float"),
        "heads": ("tokens", {"num_attention_heads": 9, "head_dim": 10}, "hidden_size must be a multiple"),
        "order of bounds": (
            "tokens",
            {"rope_scaling": {"type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0}},
            "fast is 1.0, but must be a number above slow = 4.0",
        ),
    },
)  # fmt: skip
QWEN2, YARN = (
    "Qwen2ForCausalLM",
    {**NEAR_ROPE, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 11},
)
QWEN2_CASES = {
    "vectors": ("Qwen2Model", {}),
    "tokens": (QWEN2, {}),
    "tokens, tied": (QWEN2, {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "tokens, grouped": (QWEN2, GROUPED),
    "tokens, yarn": (QWEN2, {"rope_parameters": YARN}),
    "tokens, last layers near": (QWEN2, {**NEAR, "max_window_layers": 2}),
    "tokens, all layers near": (QWEN2, {**GROUPED, **NEAR, "max_window_layers": 0, "sliding_window": 2}),
    "tokens, some layers near": (
        QWEN2,
        {**NEAR, "layer_types": ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"]},
    ),
    "tokens, a window not used": (QWEN2, {"sliding_window": 5, "max_window_layers": 2}),
    "classes": ("Qwen2ForSequenceClassification", {"pad_token_id": 0}),
}
CHUNKED = ["chunked_attention"] * 5
QWEN2_FAMILY = Family(
    {**ENCODER, "num_hidden_layers": 5, "num_key_value_heads": 3},
    QWEN2_CASES,
    {
        "ε": ("tokens", {"rms_norm_eps": 1e-2}),
        "activation": ("tokens", {"hidden_act": "relu"}),
        "rotary base": ("tokens", BASE_9000),
        "window": ("tokens, some layers near", {"sliding_window": 6}),
        "which layers": ("tokens, last layers near", {"layer_types": None, "max_window_layers": 3}),
        "no window": ("tokens, all layers near", {"use_sliding_window": False, "layer_types": None}),
        "size": ("tokens, yarn", {"rope_parameters": {**YARN, "attention_factor": 1.1}}),
    },
    "tokens",
    {  # a bias on a key adds the same to every score of a query, but that it is turned
        f"no bias of {name}": (("stack.blocks.0.attention.layer.qkv.bias", lambda bias, part=part: torch.where(
            (torch.arange(126) // 42) == part, 0.0, bias)),)
        for part, name in enumerate(("queries", "keys", "values"))
    },
    std=lambda name: 0.4 if name == "vectors" else 0.3,
    causal=causal(QWEN2_CASES),
    refused={
        "no window": ("tokens", {"layer_types": ["sliding_attention"] * 5}, "use_sliding_window is not true"),
        "kind of layer": ("tokens", {"layer_types": CHUNKED}, "layer_types has chunked_attention, which is not"),
        "not a list": ("tokens", {"layer_types": "full_attention"}, "layer_types is 'full_attention', expected list"),
        "fewer layers": ("tokens", {**NEAR, "layer_types": ["sliding_attention"] * 4}, "one for each of 5 layers"),
    },
)  # fmt: skip
QWEN3, LINEAR = "Qwen3ForCausalLM", {**NEAR_ROPE, "rope_type": "linear", "factor": 3.0}
QWEN3_CASES = {
    "vectors": ("Qwen3Model", {}),
    "tokens": (QWEN3, {}),
    "tokens, tied": (QWEN3, {"tie_word_embeddings": True, "rms_norm_eps": 1e-2}),
    "tokens, attention's biases": (QWEN3, {"attention_bias": True}),
    "tokens, linear": (QWEN3, {"rope_parameters": LINEAR, "num_key_value_heads": 1}),
    "tokens, as many keys": (QWEN3, {"num_key_value_heads": None, "hidden_act": "gelu"}),
    "tokens, last layers near": (QWEN3, {**NEAR, "max_window_layers": 1}),
    "tokens, some layers near": (
        QWEN3,
        {**NEAR, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
    "classes": ("Qwen3ForSequenceClassification", {"pad_token_id": 0}),
}


def one_norm_for_both(ours: Any) -> None:
    for block in ours.stack.blocks:
        block.attention.layer.k_norm = block.attention.layer.q_norm


QWEN3_FAMILY = Family(
    {**ENCODER, "hidden_size": 41, **GROUPED},
    QWEN3_CASES,
    {
        "ε": ("tokens", {"rms_norm_eps": 1e-2}),
        "activation": ("tokens", {"hidden_act": "relu"}),
        "rotary base": ("tokens", BASE_9000),
        "factor": ("tokens, linear", {"rope_parameters": {**LINEAR, "factor": 3.1}}),
        "window": ("tokens, last layers near", {"sliding_window": 6}),
        "which layers": ("tokens, some layers near", {"layer_types": ["sliding_attention"] * 3}),
    },
    "tokens",
    {
        "no norm of heads": NANOCHAT_FAMILY.wirings["no norm of heads"],
        "one norm for both": one_norm_for_both,
        "no weights of norms": (("stack.blocks.*.attention.layer.q_norm.weight", torch.ones_like),),
    },
    std=lambda name: 0.4 if name == "vectors" else 0.3,
    causal=causal(QWEN3_CASES),
)
FAMILIES = {
    "bart": BART_FAMILY,
    "bert": BERT_FAMILY,
    "distilbert": DISTILBERT_FAMILY,
    "gpt2": GPT2_FAMILY,
    "llama": LLAMA_FAMILY,
    "m2m_100": M2M_FAMILY,
    "marian": MARIAN_FAMILY,
    "modernbert": MODERNBERT_FAMILY,
    "nanochat": NANOCHAT_FAMILY,
    "qwen2": QWEN2_FAMILY,
    "qwen3": QWEN3_FAMILY,
    "roberta": ROBERTA_FAMILY,
    "t5": T5_FAMILY,
}
