"""Images as tokens: an image is cut into patches, and each patch is one token (Dosovitskiy et al. 2020).

Letters: B batch, C channels, H height, W width, P patch height, Q patch width, N patches, D width of the model.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.dropout import Dropout
from headway.nn.linear import Linear
from headway.nn.positions import LearnedEncoding


class PatchEmbedding(nn.Module):
    """A vector for each patch, after the class token, which is the same for every image, and learned positions.

    ``interpolate`` (False by default) accepts images of other sizes than ``image_size`` and interpolates the learned
    positions; otherwise such images are refused.
    """

    def __init__(
        self,
        d_model: int,
        image_size: tuple[int, int],
        patch_size: tuple[int, int],
        channels: int = 3,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.image_size, self.patch_size, self.channels = tuple(image_size), tuple(patch_size), channels
        self.grid = (image_size[0] // patch_size[0], image_size[1] // patch_size[1])
        self.projection = Linear(channels * patch_size[0] * patch_size[1], d_model)
        self.tokens = nn.Embedding(1, d_model)  # the class token is the only token
        self.position = LearnedEncoding(self.grid[0] * self.grid[1] + 1, d_model)
        self.learned = self.position.make_vectors()
        self.dropout = Dropout(dropout)
        self.interpolate = False

    def forward(
        self, images: Tensor, positions: Tensor | None = None, segments: Tensor | None = None, length: int | None = None
    ) -> Tensor:
        """(B, C, H, W) float -> (B, N + 1, D).  Pixels beyond the last whole patch at the right and bottom are ignored.

        Positions are those of the patches, row by row; the arguments for positions are ignored.  Raises ValueError for
        images of a size or a number of channels that the model was not trained on.
        """
        rows, columns = self._grid(images)
        height, width = self.patch_size
        images = images[:, :, : rows * height, : columns * width]
        patches = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))  # (B, C, rows, P, columns, Q)
        patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, N, C P Q)
        first = self.tokens.weight.expand(images.shape[0], 1, -1)  # (B, 1, D)
        x = torch.cat([first, self.projection(patches)], dim=1)  # (B, N + 1, D)
        return self.dropout(x + self._positions(rows, columns))

    def size(self, images: Tensor) -> tuple[int, int]:
        """The number of images and the number of tokens of each: B and N + 1."""
        rows, columns = self._grid(images)
        return images.shape[0], rows * columns + 1

    def _grid(self, images: Tensor) -> tuple[int, int]:
        """Rows and columns of patches; ValueError for images that do not fit."""
        if images.dim() != 4 or images.shape[1] != self.channels:
            raise ValueError(f"images have shape {list(images.shape)}, expected [B, {self.channels}, H, W]")
        size, trained = tuple(images.shape[2:]), self.image_size
        if size != trained and not self.interpolate:
            raise ValueError(
                f"images are {size[0]} × {size[1]}, but this model was trained on {trained[0]} × {trained[1]}: "
                "resize them, or set the embedding's interpolate to True"
            )
        rows, columns = size[0] // self.patch_size[0], size[1] // self.patch_size[1]
        if min(rows, columns) < 1:
            raise ValueError(f"images are {size[0]} × {size[1]}, less than one patch of {self.patch_size}")
        return rows, columns

    def _positions(self, rows: int, columns: int) -> Tensor:
        """(N + 1, D): the learned positions, or a bicubic interpolation of them for another grid."""
        table = self.learned.table.weight
        if (rows, columns) == self.grid:
            return table
        learned = table[1:].T.unflatten(1, self.grid)[None]  # (1, D, rows, columns) of the training
        between = F.interpolate(learned, size=(rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([table[:1], between[0].flatten(1).T])  # (N + 1, D)
