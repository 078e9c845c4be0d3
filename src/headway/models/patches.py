"""The geometry of image patches, and the embedding that it describes."""

from dataclasses import dataclass

from headway.models.config import TransformerConfig, check_field, is_whole
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
            sides = isinstance(value, tuple) and len(value) == 2 and all(is_whole(side, 1) for side in value)
            check_field(self, sides, name, "two whole numbers ≥ 1, height and width")
        check_field(self, is_whole(self.channels, 1), "channels", "a whole number ≥ 1")
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
    wanted = {"vocab_size": 0, "max_length": patches.tokens, "embedding_norm": False}
    for name, value in {**wanted, "embedding_scale": False, "segments": 0}.items():
        check_field(config, getattr(config, name) == value, name, f"{value} for these patches")
    if config.position.kind != "learned" or config.position.start:
        raise ValueError(f"positions is {config.position.kind!r}, but must be learned, from 0, for patches")
    return PatchEmbedding(config.d_model, patches.image_size, patches.patch_size, patches.channels, config.dropout)
