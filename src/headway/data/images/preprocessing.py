"""Preprocessing: images become the inputs of a model.

Letters: B batch, H height, W width.
"""

import contextlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.io.regular_file import open_regular

PILLOW = "Opening and resizing images needs Pillow: pip install 'headway[data]'."
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
"""What files of images are called, in lower case."""
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")
"""The formats that are read, whatever a file is called: Pillow has others, some of which run other programs."""
ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)
"""The entry of EXIF data that says how an image was held, and its values for an upright one that was taken lying."""


def preprocess(images: Sequence[np.ndarray], how: ImagePreprocessor) -> Tensor:
    """Images as ``read_image`` gives them, each of its own size -> (B, 3, H, W) float32.

    An image is uint8, (H, W, 3) or grey: (H, W) or (H, W, 1), which counts as three equal channels.  The arithmetic is
    that of ViTImageProcessor in ``transformers``.  Raises ValueError for an array of another kind, and where images
    that are not resized differ in size.
    """
    if not images:
        raise ValueError("no images, expected at least one")
    arrays = [fitted(image, how) for image in images]
    sizes = {array.shape[:2] for array in arrays}
    if len(sizes) > 1:
        shown = ", ".join(sorted(f"{height} × {width}" for height, width in sizes))
        raise ValueError(f"images are {shown}; without resizing, all of a batch must have one size")
    return normalised(np.stack(arrays), how)


def fitted(image: np.ndarray, how: ImagePreprocessor) -> np.ndarray:
    """An image as ``preprocess`` takes it, in the size that the model reads: (H, W, 3) uint8."""
    image = _three_channels(image)
    if not how.do_resize or image.shape[:2] == how.size:
        return image
    pillow = _pillow("Image")
    height, width = how.size
    whole = pillow.fromarray(np.ascontiguousarray(image))
    return np.array(whole.resize((width, height), getattr(pillow.Resampling, how.resample.upper())))


def normalised(images: np.ndarray, how: ImagePreprocessor) -> Tensor:
    """(B, H, W, 3), uint8 or float of the same range -> (B, 3, H, W) float32, rescaled in float64 as the original does.

    Each channel then has its mean subtracted and is divided by its deviation.
    """
    if how.channel_order == "bgr":
        images = images[..., ::-1]
    if how.do_rescale:
        images = images.astype(np.float64) * how.rescale_factor
    images = images.astype(np.float32)
    if how.do_normalize:
        images = (images - np.array(how.mean, dtype=np.float32)) / np.array(how.std, dtype=np.float32)
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()  # (B, 3, H, W)


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Images as bytes: uint8 as they are, numbers from 0 (black) to 1 (white) times 255.

    Raises ValueError, which says what was found, for anything else.
    """
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise ValueError(f"numbers of type {array.dtype}, expected uint8, or float from 0 to 1")
    if array.size and not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
        values = f"from {array.min():g} to {array.max():g}" if np.isfinite(array).all() else "that are not finite"
        raise ValueError(f"float numbers {values}, expected 0 (black) to 1 (white), or uint8")
    return np.rint(array * 255).astype(np.uint8)


def read_image(path: str | Path) -> np.ndarray:
    """An image from a file: (H, W, 3) uint8, turned as its EXIF data say, without transparency; of several the first.

    Raises InputError for a file that Pillow cannot read, that is cut short, that unpacks to more than Pillow's limit,
    or whose numbers have more than 8 bits (which Pillow would cut off).
    """
    _pillow("Image")  # said before the file is opened, where it is missing
    with open_regular(Path(path), "expected an image") as file:  # nothing waits for a pipe
        return image_from_file(file, path)


def image_from_file(file: BinaryIO, path: str | Path) -> np.ndarray:
    """The image in an open file, as ``read_image`` gives it; ``path`` is what messages call it."""
    with _opened(file, path) as image:
        return np.array(_pillow("ImageOps").exif_transpose(image).convert("RGB"))


def image_size(file: BinaryIO, path: str | Path) -> tuple[int, int]:
    """Height and width of an image in an open file, by its first bytes; turned as its EXIF data say.

    Raises InputError as ``read_image`` does, except for what only unpacking shows.
    """
    with _opened(file, path) as image:
        width, height = image.size
        return (width, height) if image.getexif().get(ORIENTATION) in TURNED else (height, width)


def pixels_by_header(file: BinaryIO, path: str | Path) -> int:
    """Height × width of an image in an open file, by its header alone: nothing is unpacked (Pillow unpacks a PNG to
    look for EXIF data).

    Raises InputError as ``image_size`` does.
    """
    with _opened(file, path) as image:
        return int(image.width * image.height)


@contextlib.contextmanager
def _opened(file: BinaryIO, path: str | Path) -> Iterator[Any]:
    """The image in an open file, still packed.  Raises InputError for one that must not be unpacked."""
    pillow = _pillow("Image")
    try:
        with pillow.open(file, formats=FORMATS) as image:
            (width, height), most = image.size, pillow.MAX_IMAGE_PIXELS
            if most is not None and width * height > most:
                size = f"{width:,} × {height:,} pixels, the limit is {most:,}"
                raise InputError(f"{path}: this image is too large: {size}.")
            if image.mode.startswith(("I", "F")):
                raise InputError(f"{path}: has more than 8 bits per channel ({image.mode}); save it with 8.")
            yield image
    except InputError:
        raise
    except pillow.DecompressionBombError as error:
        raise InputError(f"{path}: this image is too large ({error}).") from None
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError, OverflowError, struct.error, zlib.error) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "cannot identify" in reason:
            reason = f"it is not one of {', '.join(FORMATS)}"
        raise InputError(f"{path}: cannot be read as an image ({reason}).") from None


def _three_channels(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8."""
    is_array = isinstance(image, np.ndarray)
    shape = (*image.shape, 1)[:3] if is_array and image.ndim in (2, 3) else ()
    if not is_array or image.dtype != np.uint8 or 0 in shape or shape[2:] not in ((1,), (3,)):
        kind = f"{image.dtype} {list(image.shape)}" if is_array else type(image).__name__
        raise ValueError(f"an image is {kind}, expected uint8 [H, W, 3] or grey [H, W]")
    return np.repeat(image.reshape(shape), 3, axis=2) if shape[2] == 1 else image


def _pillow(module: str) -> Any:
    """A module of Pillow, which is an extra."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise InputError(PILLOW) from None
    return getattr(PIL, module)
