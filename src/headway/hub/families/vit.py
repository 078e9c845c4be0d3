"""ViT (Dosovitskiy et al. 2020): an encoder of images, cut into patches, normalised before each layer.

Quirks: the patch projection is stored as a convolution kernel, which is our matrix with its columns in three axes; the
classifier reads the class token's vector directly and does not use the pooler.
"""

from typing import Any, ClassVar

from torch import Tensor, nn

from headway.hub.families.entries import Json, check_head_width, pick, refuse
from headway.hub.families.family import EncoderFamily
from headway.hub.name_table import Part, Row, each, name_rows
from headway.models.config import Patches, TransformerConfig
from headway.models.heads import Gives
from headway.models.transformer import Encoder


def in_front(name: str) -> Part:
    """A table that is stored with a leading axis of size one."""
    return Part(name, lambda table, _: table.squeeze(0), lambda table, _: table[None])


class ViT(EncoderFamily):
    """ViTModel, with or without its pooler, and ViTForImageClassification."""

    model_type = "vit"
    classes: ClassVar = {Gives.HIDDEN: "ViTModel", Gives.ROW: "ViTForImageClassification"}
    shapes: ClassVar = {Gives.ROW: {"pooling": "first", "dense": False}}
    dropouts: ClassVar = {Gives.ROW: (None, 0.0)}
    prefix = "vit."
    pools = (Gives.HIDDEN,)
    pooler_key = "pooler_act"
    DEFAULTS: ClassVar = {
        **{"d_model": 768, "n_layers": 12, "n_heads": 12, "d_ff": 3072},
        **{"activation": "gelu", "norm_eps": 1e-12, "dropout": 0.0},
    }
    BIASES: ClassVar = {"qkv_bias": (("qkv",), True)}
    FIXED: ClassVar = {
        **{"vocab_size": 0, "positions": "learned", "norm": "layernorm", "norm_order": "pre"},
        **{"norm_parameters": "both", "gated": False, "bias": ("out", "ff")},
    }
    NAMES: ClassVar = {
        "stack.embedding.tokens.weight": in_front("embeddings.cls_token"),
        "stack.embedding.learned.table.weight": in_front("embeddings.position_embeddings"),
        "stack.embedding.projection.bias": "embeddings.patch_embeddings.projection.bias",
        "stack.norm": "layernorm",
        "pooler.dense": "pooler.dense",
    }
    block = "encoder.layer.{i}."
    BLOCK: ClassVar = {
        "attention.norm": "layernorm_before",
        "attention.layer.qkv": each("attention.attention.{}", "query", "key", "value"),
        "attention.layer.out": "attention.output.dense",
        "feedforward.norm": "layernorm_after",
        "feedforward.layer.up": "intermediate.dense",
        "feedforward.layer.out": "output.dense",
    }
    HEADS: ClassVar = {Gives.ROW: {"head.out": "classifier"}}
    ignored = (r"vit\.embeddings\.mask_token",)

    def has(self, model: nn.Module) -> bool:
        return isinstance(model, Encoder) and model.patches is not None

    def read_config(self, theirs: Json) -> dict[str, Any]:
        width = pick(theirs, "hidden_size", int, 768)
        refuse(theirs, pooler_output_size=width)
        check_head_width(theirs, width, pick(theirs, "num_attention_heads", int, 12))
        return {"max_length": patches(theirs).tokens}

    def write_config(self, model: Any) -> Json:
        sizes = {"image_size": model.patches.image_size, "patch_size": model.patches.patch_size}
        sizes = {key: size[0] if size[0] == size[1] else list(size) for key, size in sizes.items()}
        return {**sizes, "num_channels": model.patches.channels}

    def bare(self, config: TransformerConfig, theirs: Json) -> Encoder:
        return Encoder(config, patches=patches(theirs))

    def rows(self, theirs: Json) -> list[Row]:
        height, width = patches(theirs).patch_size

        def matrix(kernel: Tensor, _: TransformerConfig) -> Tensor:
            return kernel.flatten(1) if kernel.shape[2:] == (height, width) else kernel  # (D, C P Q)

        def kernel(matrix: Tensor, _: TransformerConfig) -> Tensor:
            return matrix.unflatten(1, (-1, height, width))  # (D, C, P, Q)

        projection = Part("vit.embeddings.patch_embeddings.projection.weight", matrix, kernel)
        return [*super().rows(theirs), *name_rows({"stack.embedding.projection.weight": projection})]


def patches(theirs: Json) -> Patches:
    """The patch geometry of their configuration; one number means a square."""
    image, patch = (pair(theirs, name, default) for name, default in (("image_size", 224), ("patch_size", 16)))
    return Patches(image, patch, pick(theirs, "num_channels", int, 3))


def pair(theirs: Json, name: str, default: int) -> tuple[int, int]:
    """A size of ``config.json`` as height and width."""
    value = theirs.get(name, default)
    return tuple(value) if isinstance(value, list) else (value, value)  # type: ignore[return-value]
