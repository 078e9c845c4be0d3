"""The geometry of image patches, and the embedding that it describes."""

from dataclasses import dataclass

from headway.models.config import TransformerConfig
from headway.nn.patch_embedding import PatchEmbedding


@dataclass(frozen=True)
class Patches:
    """The geometry of an image encoder; sizes are (height, width) in pixels.  Checked when built: ValueError."""

    image_size: tuple[int, int] = (224, 224)
    """the size of the training images"""
    patch_size: tuple[int, int] = (16, 16)
    """the size of a patch: one token"""
    channels: int = 3
    """3 for red, green and blue"""

    def __post_init__(self) -> None:
        for name in ("image_size", "patch_size"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or len(value) != 2 or not all(_count(side) for side in value):
                raise ValueError(f"{name} is {value!r}, but must be two whole numbers ≥ 1, height and width")
        if not _count(self.channels):
            raise ValueError(f"channels is {self.channels!r}, but must be a whole number ≥ 1")
        if self.image_size[0] < self.patch_size[0] or self.image_size[1] < self.patch_size[1]:
            raise ValueError(f"patch_size is {self.patch_size}, but must not exceed image_size = {self.image_size}")

    @property
    def tokens(self) -> int:
        """The number of tokens of an image: one for each whole patch, and the class token."""
        return (self.image_size[0] // self.patch_size[0]) * (self.image_size[1] // self.patch_size[1]) + 1

    @property
    def pixels(self) -> int:
        """The number of values in a patch."""
        return self.channels * self.patch_size[0] * self.patch_size[1]


def patch_embedding(config: TransformerConfig, patches: Patches) -> PatchEmbedding:
    """The embedding of a model that reads images.

    Raises ValueError where the configuration asks for something that such an embedding does not support.
    """
    wanted = {
        "vocab_size": 0,
        "max_length": patches.tokens,
        "embedding_norm": False,
        "embedding_scale": False,
        "segments": 0,
    }
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise ValueError(f"{name} is {getattr(config, name)!r}, but must be {value} for these patches")
    if config.position.kind != "learned" or config.position.start:
        raise ValueError(f"positions is {config.position.kind!r}, but must be learned, from 0, for patches")
    return PatchEmbedding(config.d_model, patches.image_size, patches.patch_size, patches.channels, config.dropout)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
