"""ModernBERT (Warner et al. 2024): an encoder with rotary positions, GEGLU, pre-norm and no biases.

Quirks: the embeddings are normalised, so the first block's attention is not preceded by a norm; some layers attend to
a window only; the masked-token head and the classifier begin with the same dense layer, activation and norm.
"""

from torch import nn

from headway.hub.families.family import Family, Json, architecture, choice, pick, rope_base
from headway.hub.table import Row, row
from headway.models.config import Positions, TransformerConfig
from headway.models.heads import ClassificationHead, MaskedTokenHead, make_norm
from headway.models.transformer import Encoder

CLASSES = ("ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification")
ACTIVATIONS = {"gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "silu": "silu", "relu": "relu"}
THEIRS = {ours: theirs for theirs, ours in ACTIVATIONS.items()}


class ModernBert(Family):
    """ModernBertModel, ModernBertForMaskedLM and ModernBertForSequenceClassification."""

    model_type = "modernbert"

    def config(self, theirs: Json) -> TransformerConfig:
        n_layers = pick(theirs, "num_hidden_layers", int)
        every = theirs.get("global_attn_every_n_layers", 3)
        kinds = theirs.get("layer_types") or [
            "sliding_attention" if i % every else "full_attention" for i in range(n_layers)
        ]
        near = pick(theirs, "local_attention", int, 128) // 2 + 1
        windows = tuple(near if kind == "sliding_attention" else None for kind in kinds)
        rope = theirs.get("rope_parameters") or {}
        bases = {
            kind: rope_base({"rope_theta": theirs.get(f"{where}_rope_theta", default)}, rope.get(kind), default)
            for kind, where, default in (
                ("full_attention", "global", 160000.0),
                ("sliding_attention", "local", 10000.0),
            )
            if kind in kinds
        }
        base = bases.get("full_attention", bases.get("sliding_attention", 160000.0))
        near_base = bases.get("sliding_attention", base)
        bias = [name for key, names in BIASES.items() if theirs.get(key, key == "decoder_bias") for name in names]
        return TransformerConfig(
            vocab_size=pick(theirs, "vocab_size", int),
            d_model=pick(theirs, "hidden_size", int),
            n_layers=n_layers,
            n_heads=pick(theirs, "num_attention_heads", int),
            d_ff=pick(theirs, "intermediate_size", int),
            max_length=pick(theirs, "max_position_embeddings", int),
            positions=Positions("rotary", base=base, window_base=None if near_base == base else near_base),
            norm="layernorm",
            norm_eps=float(pick(theirs, "norm_eps", float, 1e-5)),
            norm_parameters="both" if theirs.get("norm_bias", False) else "weight",
            activation=choice(theirs, "hidden_activation", ACTIVATIONS, "gelu"),
            gated=True,
            bias=tuple(name for name in TransformerConfig.BIASES if name in bias),
            tied=pick(theirs, "tie_word_embeddings", bool, True),
            embedding_norm=True,
            first_norm=False,
            window=windows if any(windows) else None,
        )

    def build(self, theirs: Json) -> nn.Module:
        kind = architecture(theirs, CLASSES, "ModernBertModel")
        config, dense_bias = self.config(theirs), bool(theirs.get("classifier_bias", False))
        if kind == "ModernBertModel":
            return Encoder(config)
        model = Encoder(config)
        activation = choice(theirs, "classifier_activation", ACTIVATIONS, "gelu")
        if kind == "ModernBertForMaskedLM":
            model.head = MaskedTokenHead(
                config, model.stack.embedding.tokens, activation=activation, dense_bias=dense_bias
            )
        else:
            model.head = ClassificationHead(
                config,
                len(theirs.get("id2label") or {}) or int(theirs.get("num_labels", 2)),
                pooling="mean" if theirs.get("classifier_pooling", "cls") == "mean" else "first",
                activation=activation,
                norm=lambda: make_norm(config),
                dense_bias=dense_bias,
                dropout=float(theirs.get("classifier_dropout", 0.0)),
            )
        return model

    def describe(self, model: nn.Module) -> Json | None:
        if not isinstance(model, Encoder):
            return None
        config, head = model.config, model.head
        windows = [config.layer_window(layer) for layer in range(config.n_layers)]
        full, near = ({"rope_type": "default", "rope_theta": config.position.layer_base(w)} for w in (None, 1))
        if not isinstance(head, MaskedTokenHead | ClassificationHead | None):
            raise ValueError(f"it has no {type(head).__name__}")
        theirs: Json = {
            "architectures": [CLASSES[0]],
            "model_type": self.model_type,
            "vocab_size": config.vocab_size,
            "hidden_size": config.d_model,
            "intermediate_size": config.hidden,
            "num_hidden_layers": config.n_layers,
            "num_attention_heads": config.n_heads,
            "hidden_activation": THEIRS.get(config.activation, config.activation),
            "max_position_embeddings": config.max_length,
            "norm_eps": config.norm_eps,
            "norm_bias": config.norm_parameters == "both",
            "attention_bias": "qkv" in config.bias,
            "mlp_bias": "ff" in config.bias,
            "decoder_bias": "head" in config.bias,
            "layer_types": ["sliding_attention" if window else "full_attention" for window in windows],
            "local_attention": max(((window - 1) * 2 for window in windows if window), default=128),
            "rope_parameters": {"full_attention": full, "sliding_attention": near},
            "tie_word_embeddings": config.tied,
            **dict.fromkeys(SPECIAL_IDS),
        }
        if isinstance(head, MaskedTokenHead):
            theirs["architectures"] = [CLASSES[1]]
            theirs["classifier_bias"] = head.dense.bias is not None
            theirs["classifier_activation"] = THEIRS.get(head.activation, head.activation)
        elif isinstance(head, ClassificationHead):
            if head.pooling == "last" or isinstance(head.norm, nn.Identity):
                raise ValueError("its classifier pools the mean or the first token, and has a norm")
            theirs["classifier_activation"] = THEIRS.get(head.activation, head.activation)
            theirs["architectures"] = [CLASSES[2]]
            theirs["classifier_pooling"] = "mean" if head.pooling == "mean" else "cls"
            theirs["classifier_bias"] = head.dense.bias is not None
            theirs["id2label"] = {str(i): f"LABEL_{i}" for i in range(head.out.out_features)}
            theirs["label2id"] = {name: int(i) for i, name in theirs["id2label"].items()}
        choice(theirs, "classifier_activation", ACTIVATIONS, "gelu")
        return theirs

    def rows(self, theirs: Json) -> list[Row]:
        base = "" if architecture(theirs, CLASSES, "ModernBertModel") == "ModernBertModel" else "model."
        ours, layer = "stack.blocks.{i}.", base + "layers.{i}."
        pairs = [
            ("stack.embedding.tokens", base + "embeddings.tok_embeddings"),
            ("stack.embedding.norm", base + "embeddings.norm"),
            (ours + "attention.norm", layer + "attn_norm"),
            (ours + "attention.layer.qkv", layer + "attn.Wqkv"),
            (ours + "attention.layer.out", layer + "attn.Wo"),
            (ours + "feedforward.norm", layer + "mlp_norm"),
            (ours + "feedforward.layer.up", layer + "mlp.Wi"),
            (ours + "feedforward.layer.out", layer + "mlp.Wo"),
            ("stack.norm", base + "final_norm"),
            ("head.dense", "head.dense"),
            ("head.norm", "head.norm"),
            ("head.token.matrix", "decoder"),
            ("head.out", "classifier"),
        ]
        return [row(f"{a}.{kind}", f"{b}.{kind}") for a, b in pairs for kind in ("weight", "bias")]


SPECIAL_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
BIASES = {"attention_bias": ("qkv", "out"), "mlp_bias": ("ff",), "decoder_bias": ("head",)}

MODERNBERT = ModernBert()
