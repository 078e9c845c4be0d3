"""Pictures become what a model reads.

Letters: B batch, H height, W width.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor

PILLOW = "Opening and resizing pictures needs Pillow: pip install 'headway[data]'."


def preprocess(images: Sequence[np.ndarray], how: ImagePreprocessor) -> Tensor:
    """Pictures as ``read_image`` gives them, each of its own size -> (B, 3, H, W) float32.

    A picture is uint8, (H, W, 3) or grey: (H, W) or (H, W, 1), which counts as three equal channels.  The arithmetic is
    that of ViTImageProcessor in ``transformers``.  Raises ValueError for an array of another kind, and where pictures
    that are not resized differ in size.
    """
    if not images:
        raise ValueError("no images, expected at least one")
    arrays = [_numbers(_resized(_three_channels(image), how), how) for image in images]
    sizes = {array.shape[:2] for array in arrays}
    if len(sizes) > 1:
        found = ", ".join(sorted(f"{height} × {width}" for height, width in sizes))
        raise ValueError(f"images are {found}; without resizing, all of a batch must have one size")
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).contiguous()  # (B, 3, H, W)


def read_image(path: str | Path) -> np.ndarray:
    """A picture from a file: (H, W, 3) uint8, turned as its EXIF data say, without transparency.

    Raises InputError for a file that Pillow cannot read, that is cut short, or that unpacks to more than its limit.
    """
    pillow, exif = _pillow("Image"), _pillow("ImageOps")
    try:
        with pillow.open(path) as picture:
            return np.array(exif.exif_transpose(picture).convert("RGB"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except pillow.DecompressionBombError as error:
        raise InputError(f"{path}: this picture is too large ({error}).") from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: cannot be read as a picture ({reason}).") from None


def _three_channels(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8."""
    kind = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or 0 in image.shape:
        raise ValueError(f"an image is {kind}, expected uint8 [H, W, 3] or grey [H, W]")
    if image.ndim == 2:
        image = image[:, :, None]
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        raise ValueError(f"an image is {kind}, expected uint8 [H, W, 3] or grey [H, W]")
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def _resized(image: np.ndarray, how: ImagePreprocessor) -> np.ndarray:
    if not how.do_resize or image.shape[:2] == how.size:
        return image
    pillow = _pillow("Image")
    height, width = how.size
    picture = pillow.fromarray(np.ascontiguousarray(image))
    return np.array(picture.resize((width, height), getattr(pillow.Resampling, how.resample.upper())))


def _numbers(image: np.ndarray, how: ImagePreprocessor) -> np.ndarray:
    """(H, W, 3) uint8 -> (H, W, 3) float32, rescaled in float64 as the original does."""
    if how.channel_order == "bgr":
        image = image[:, :, ::-1]
    if how.do_rescale:
        image = image.astype(np.float64) * how.rescale_factor
    image = image.astype(np.float32)
    if how.do_normalize:
        image = (image - np.array(how.mean, dtype=np.float32)) / np.array(how.std, dtype=np.float32)
    return image


def _pillow(module: str) -> Any:
    """A module of Pillow, which is an extra."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise InputError(PILLOW) from None
    return getattr(PIL, module)
