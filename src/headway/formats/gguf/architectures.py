"""Models as llama.cpp reads them: for each family the architecture's name, its settings, and a table of tensor names.

    llama = ARCHITECTURES["llama"]
    llama.problem(model)           # why llama.cpp cannot run such a model, or None
    llama.settings(model)          # the entries of the file, by name
    llama.tensors(model)           # the tensors, by name

Names and meanings are those of llama.cpp's source (``src/models`` and ``src/llama-arch.cpp``).  Letters: D width, H
heads, K head width, R = half the head width, V vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.hub.build_model import own_weights
from headway.hub.name_table import Change, Names, Part, Row, name_rows, within, write_weights
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, gives
from headway.nn.positions import STRETCHES

GELUS = ("gelu", "gelu_tanh")
"""llama.cpp has one GELU, in float16: both of ours are within a thousandth of it."""
PLAIN = ("position_embd.", "token_types.", "rope_freqs.")
"""Tables that llama.cpp wants in float32, whatever the precision."""
CLOSE = 1e-6
"""Two factors nearer than this are the same."""
POOLINGS = {"mean": 1, "first": 2, "last": 3}
"""How an encoder's vectors are pooled -> ``pooling_type`` of llama.cpp."""


@dataclass(frozen=True)
class Architecture:
    """An architecture of llama.cpp."""

    name: str
    """``general.architecture``"""
    rows: Callable[[TransformerConfig], list[Row]]
    """the name table: our parameters and its tensors"""
    activations: tuple[str, ...]
    biases: frozenset[str] = frozenset()
    """the linear layers that may have a bias, as in ``TransformerConfig.bias``"""
    causal: bool = True
    windows: bool = False
    """whether layers with a window are run as such"""
    stretches: tuple[str, ...] = ()
    """the kinds of rotary scaling that it has"""

    @property
    def exact(self) -> bool:
        """Whether llama.cpp computes it in float32 throughout: its GELU is looked up in a table of float16."""
        return not set(self.activations) & set(GELUS)

    def problem(self, model: nn.Module) -> str | None:
        """Why llama.cpp cannot run a model of this architecture; None if it can."""
        config: Any = model.config
        head: Any = getattr(model, "head", None)
        described = "no head" if head is None else f"a {type(head).__name__}"
        if self.causal and gives(model) is not Gives.VOCABULARY:
            return f"llama.cpp continues texts, and this model has {described}"
        plain = gives(model) is Gives.VECTOR and head.dense is None
        if not self.causal and not (plain or gives(model) is Gives.HIDDEN):
            return f"llama.cpp makes vectors of texts with such an encoder, and this model has {described}"
        if config.activation not in self.activations:
            return f"its activation is {config.activation}, and llama.cpp has {' or '.join(self.activations)} there"
        if more := sorted(set(config.bias) - self.biases):
            return f"its layers {', '.join(more)} have a bias, and llama.cpp has none there"
        if (scaling := config.position.scaling) is None:
            return None
        if scaling.kind not in self.stretches:
            known = ", ".join(self.stretches) or "none"
            return f"its rotary positions are scaled by {scaling.kind!r}, and llama.cpp has {known} there"
        usual = 0.1 * math.log(scaling.factor) + 1
        if scaling.kind == "yarn" and (not scaling.whole or abs(scaling.size - usual) > CLOSE):
            return "its rotary positions are scaled by a YaRN whose size or bounds are not the paper's"
        return None

    def context(self, config: TransformerConfig) -> int:
        """The tokens that llama.cpp may read: where it has no windows, no more than the nearest window."""
        windows = [config.layer_window(layer) for layer in range(config.n_layers)]
        return min([config.max_length, *([] if self.windows else [near for near in windows if near is not None])])

    def settings(self, model: nn.Module) -> dict[str, Any]:
        """The entries of the file that describe the model, without the prefix of the architecture's name."""
        config: Any = model.config
        norm = "attention.layer_norm_epsilon" if config.norm == "layernorm" else "attention.layer_norm_rms_epsilon"
        settings: dict[str, Any] = {
            "vocab_size": config.vocab_size,
            "block_count": config.n_layers,
            "context_length": self.context(config),
            "embedding_length": config.d_model,
            "feed_forward_length": config.hidden,
            "attention.head_count": config.n_heads,
            "attention.head_count_kv": config.kv_heads,
            norm: config.norm_eps,
        }
        if config.position.kind == "rotary":
            widths = ("attention.key_length", "attention.value_length", "rope.dimension_count")
            settings |= {**dict.fromkeys(widths, config.head_width), "rope.freq_base": config.position.base}
            scaling = config.position.scaling
            if scaling is not None and scaling.kind != "llama3":  # which is a tensor
                settings |= {"rope.scaling.type": scaling.kind, "rope.scaling.factor": scaling.factor}
                if scaling.kind == "yarn":
                    settings["rope.scaling.original_context_length"] = scaling.original_length
                    settings["rope.scaling.yarn_beta_slow"] = scaling.slow
                    settings["rope.scaling.yarn_beta_fast"] = scaling.fast
        if not self.causal:
            head: Any = getattr(model, "head", None)
            pooling = POOLINGS["mean" if head is None else head.pooling]
            settings |= {"attention.causal": False, "pooling_type": pooling}
        windows = [config.layer_window(layer) for layer in range(config.n_layers)]
        near = next((window for window in windows if window is not None), None)
        if self.windows and near is not None:
            settings["attention.sliding_window"] = 2 * (near - 1)  # on both sides together
            settings["attention.sliding_window_pattern"] = [window is not None for window in windows]
            settings["rope.freq_base_swa"] = config.position.layer_base(near)
        return settings

    def tensors(self, model: nn.Module) -> dict[str, Tensor]:
        """The tensors of the file, in float32.  Raises ValueError for a weight that has no place there."""
        config: Any = model.config
        ours = {name: weight for name, weight in own_weights(model).items() if not name.startswith("pooler.")}
        theirs = write_weights(self.rows(config), ours, config)
        scaling, base, width = config.position.scaling, config.position.base, config.head_width
        if config.position.kind == "rotary" and scaling is not None and scaling.kind == "llama3":
            frequencies = 1.0 / base ** (torch.arange(0, width, 2).float() / width)
            # what every rotary frequency is divided by: (R,)
            theirs["rope_freqs.weight"] = frequencies / STRETCHES[scaling.kind](scaling, base, frequencies)
        return theirs


BLOCKS = "stack.blocks.{i}.", "blk.{i}."
EMBEDDING, END, HEAD = (
    {"stack.embedding.tokens": "token_embd"},
    {"stack.norm": "output_norm"},
    {"head.matrix": "output"},
)
PRE_NORM = {
    "attention.norm": "attn_norm",
    "attention.layer.qkv": "attn_qkv",
    "attention.layer.out": "attn_output",
    "feedforward.norm": "ffn_norm",
    "feedforward.layer.up": "ffn_up",
    "feedforward.layer.out": "ffn_down",
}
"""A block of pre-norm layouts whose matrices lie as ours do, ours and theirs."""


def _neighbours(x: Tensor, config: TransformerConfig) -> Tensor:
    """Rows of each head from (first half, second half) to pairs of neighbours: (H K, D) or (H K,) -> the same."""
    halves = x.reshape(-1, 2, config.head_width // 2, *x.shape[1:])  # (H, 2, R, ...)
    return halves.transpose(1, 2).reshape(x.shape)


def _decoder_rows(order: Change | None, config: TransformerConfig) -> list[Row]:
    """Llama's and Qwen's layout; ``order`` is that of the entries of queries and keys."""
    block = {
        "attention.norm": "attn_norm",
        "attention.layer.q_norm": "attn_q_norm",
        "attention.layer.k_norm": "attn_k_norm",
        "attention.layer.out": "attn_output",
        "feedforward.norm": "ffn_norm",
        "feedforward.layer.out": "ffn_down",
    }
    stacked: Names = {
        "attention.layer.qkv": (Part("attn_q", write=order), Part("attn_k", write=order), "attn_v"),
        "feedforward.layer.up": ("ffn_gate", "ffn_up"),
    }
    return name_rows({**EMBEDDING, **within(*BLOCKS, block), **END, **HEAD, **within(*BLOCKS, stacked)})


_llama_rows = partial(_decoder_rows, _neighbours)  # it rotates neighbours, Headway entries half a head apart
_qwen_rows = partial(_decoder_rows, None)


def _gpt2_rows(config: TransformerConfig) -> list[Row]:
    positions = {"stack.embedding.learned.table": "position_embd"}
    return name_rows({**EMBEDDING, **positions, **within(*BLOCKS, PRE_NORM), **END, **HEAD})


def _bert_rows(config: TransformerConfig) -> list[Row]:
    """Positions without the rows before the first that is used (RoBERTa)."""
    start = config.position.start
    block = {
        "attention.layer.out": "attn_output",
        "attention.norm": "attn_output_norm",
        "feedforward.layer.up": "ffn_up",
        "feedforward.layer.out": "ffn_down",
        "feedforward.norm": "layer_output_norm",
    }
    names: Names = {
        **EMBEDDING,
        "stack.embedding.segments": "token_types",
        "stack.embedding.norm": "token_embd_norm",
        **within(*BLOCKS, block),
        "stack.embedding.learned.table.weight": Part("position_embd.weight", write=lambda x, _: x[start:]),
        **within(*BLOCKS, {"attention.layer.qkv": ("attn_q", "attn_k", "attn_v")}),
    }
    return name_rows(names)


def _modernbert_rows(config: TransformerConfig) -> list[Row]:
    return name_rows({**EMBEDDING, "stack.embedding.norm": "token_embd_norm", **within(*BLOCKS, PRE_NORM), **END})


_LLAMA = Architecture(
    "llama", _llama_rows, ("silu",), frozenset({"qkv", "out", "ff"}), stretches=("linear", "llama3", "yarn")
)
_BERT = Architecture("bert", _bert_rows, GELUS, frozenset({"qkv", "out", "ff", "head"}), causal=False)
ARCHITECTURES = {
    "gpt2": Architecture("gpt2", _gpt2_rows, GELUS, frozenset({"qkv", "out", "ff"})),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": Architecture("qwen2", _qwen_rows, ("silu",), frozenset({"qkv"}), stretches=("linear", "yarn")),
    "qwen3": Architecture("qwen3", _qwen_rows, ("silu",), stretches=("linear", "yarn")),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "distilbert"), _BERT),
    "modernbert": Architecture("modern-bert", _modernbert_rows, GELUS, frozenset({"head"}), causal=False, windows=True),
}
"""The ``model_type`` of a Hugging Face family -> how llama.cpp runs it."""
