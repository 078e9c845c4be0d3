"""ViT (Dosovitskiy et al. 2020): an encoder of images, cut into patches, normalised before each layer.

Quirks: the patch projection is stored as a convolution kernel, which is our matrix with its columns in three axes; the
classifier reads the class token's vector directly and does not use the pooler.
"""

from typing import Any, ClassVar

from torch import Tensor, nn

from headway.hub.families.encoder import EncoderFamily
from headway.hub.families.family import ACTIVATIONS, Json, check_head_width, choice, pick, refuse, word
from headway.hub.name_table import Part, Row, layers, row, stacked
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, Pooler
from headway.models.patches import Patches
from headway.models.transformer import Encoder


class ViT(EncoderFamily):
    """ViTModel, with or without its pooler, and ViTForImageClassification."""

    model_type = "vit"
    classes: ClassVar = {Gives.HIDDEN: "ViTModel", Gives.ROW: "ViTForImageClassification"}
    prefix = "vit."
    reads_images = True
    dropouts: ClassVar = {Gives.ROW: (None, 0.0)}
    pooler_activation = None
    bare_pools = True
    SAME: ClassVar = {
        "hidden_size": ("d_model", 768),
        "num_hidden_layers": ("n_layers", 12),
        "num_attention_heads": ("n_heads", 12),
        "intermediate_size": ("d_ff", 3072),
        "hidden_act": ("activation", "gelu"),
        "layer_norm_eps": ("norm_eps", 1e-12),
        "hidden_dropout_prob": ("dropout", 0.0),
    }
    FIXED: ClassVar = {
        "vocab_size": 0,
        "positions": "learned",
        "norm": "layernorm",
        "norm_order": "pre",
        "norm_parameters": "both",
        "gated": False,
    }
    shapes: ClassVar = {Gives.ROW: {"pooling": "first", "dense": False}}
    ignored = (r"vit\.embeddings\.mask_token",)

    def quirks(self, theirs: Json) -> dict[str, Any]:
        config_width = pick(theirs, "hidden_size", int, 768)
        refuse(theirs, pooler_output_size=config_width)
        check_head_width(theirs, config_width, pick(theirs, "num_attention_heads", int, 12))
        bias = ("qkv", "out", "ff") if pick(theirs, "qkv_bias", bool, True) else ("out", "ff")
        return {"max_length": patches(theirs).tokens, "bias": bias}

    def encoder(self, config: TransformerConfig, theirs: Json) -> Encoder:
        return Encoder(config, patches=patches(theirs))

    def pooler(self, config: TransformerConfig, theirs: Json) -> Pooler:
        return Pooler(config, choice(theirs, "pooler_act", ACTIVATIONS, "tanh"))

    def unquirk(self, model: nn.Module) -> Json | None:
        entries = super().unquirk(model)
        if entries is None or not isinstance(model, Encoder) or model.patches is None:
            return None
        sizes = {"image_size": model.patches.image_size, "patch_size": model.patches.patch_size}
        return {
            **entries,
            **{key: size[0] if size[0] == size[1] else list(size) for key, size in sizes.items()},
            "num_channels": model.patches.channels,
            "qkv_bias": "qkv" in model.config.bias,
            "pooler_act": word(getattr(model.pooler, "activation", "tanh")),
        }

    def rows(self, theirs: Json) -> list[Row]:
        ours, layer = "stack.blocks.{i}.", "vit.encoder.layer.{i}."
        projection = "vit.embeddings.patch_embeddings.projection"
        height, width = patches(theirs).patch_size

        def matrix(kernel: Tensor, _: TransformerConfig) -> Tensor:
            return kernel.flatten(1) if kernel.shape[2:] == (height, width) else kernel  # (D, C P Q)

        def kernel(matrix: Tensor, _: TransformerConfig) -> Tensor:
            return matrix.unflatten(1, (-1, height, width))  # (D, C, P, Q)

        return [
            row("stack.embedding.tokens.weight", in_front("vit.embeddings.cls_token")),
            row("stack.embedding.learned.table.weight", in_front("vit.embeddings.position_embeddings")),
            row("stack.embedding.projection.weight", Part(f"{projection}.weight", matrix, kernel)),
            row("stack.embedding.projection.bias", f"{projection}.bias"),
            *layers(
                (ours + "attention.norm", layer + "layernorm_before"),
                (ours + "attention.layer.out", layer + "attention.output.dense"),
                (ours + "feedforward.norm", layer + "layernorm_after"),
                (ours + "feedforward.layer.up", layer + "intermediate.dense"),
                (ours + "feedforward.layer.out", layer + "output.dense"),
                ("stack.norm", "vit.layernorm"),
                ("pooler.dense", "vit.pooler.dense"),
                ("head.out", "classifier"),
            ),
            *stacked(ours + "attention.layer.qkv", *(f"{layer}attention.attention.{x}" for x in QKV)),
        ]


def patches(theirs: Json) -> Patches:
    """The patch geometry of their configuration; one number means a square."""
    image, patch = (pair(theirs, name, default) for name, default in (("image_size", 224), ("patch_size", 16)))
    return Patches(image, patch, pick(theirs, "num_channels", int, 3))


def pair(theirs: Json, name: str, default: int) -> tuple[int, int]:
    """A size of ``config.json`` as height and width."""
    value = theirs.get(name, default)
    return tuple(value) if isinstance(value, list) else (value, value)  # type: ignore[return-value]


def in_front(name: str) -> Part:
    """A table that is stored with a leading axis of size one."""
    return Part(name, lambda table, _: table.squeeze(0), lambda table, _: table[None])


QKV = ("query", "key", "value")
VIT = ViT()
