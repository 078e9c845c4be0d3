"""``preprocessor_config.json``: how an image is prepared for a model."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from headway.errors import InputError
from headway.hub.directory import read_json
from headway.io.atomic_write import checked_files, write_json
from headway.models.config import check_field, check_number, check_types, is_number, is_whole

FILE = "preprocessor_config.json"
Filter = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
FILTERS = get_args(Filter)
"""Pillow's filters for resizing, in the order of their numbers in the file."""
REFUSED = ("do_center_crop", "do_pad")
SWITCHES = ("do_resize", "do_rescale", "do_normalize")


@dataclass(frozen=True)
class ImagePreprocessor:
    """Resize, rescale, normalise, in this order; the defaults are ViT's.  Raises ValueError for invalid settings."""

    size: tuple[int, int] = (224, 224)
    """height and width in pixels"""
    resample: Filter = "bilinear"
    """the filter for resizing"""
    rescale_factor: float = 1 / 255
    """the factor of the pixel values"""
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    """the value subtracted from each channel"""
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    """the value by which each channel is then divided"""
    channel_order: Literal["rgb", "bgr"] = "rgb"
    """the order of the channels"""
    do_resize: bool = True
    do_rescale: bool = True
    do_normalize: bool = True

    def __post_init__(self) -> None:
        check = partial(check_field, self)
        check_types(self)
        sides = isinstance(self.size, tuple) and len(self.size) == 2
        check(sides and all(is_whole(side, 1) for side in self.size), "size", "two whole numbers ≥ 1")
        check_number(self, "rescale_factor")
        check(_three(self.mean), "mean", "three numbers")
        check(_three(self.std) and min(self.std) > 0, "std", "three numbers above 0")


def load_preprocessor(directory: str | Path) -> ImagePreprocessor:
    """The image settings of a model directory.  Raises InputError naming the file and what is wrong with it."""
    path = Path(directory) / FILE
    theirs = read_json(path)
    try:
        for name in REFUSED:
            if theirs.get(name):
                raise ValueError(f"{name} is true, which is not supported")
        known: dict[str, Any] = {name: theirs[name] for name in SWITCHES if name in theirs}
        for ours, (name, read, _) in ENTRIES.items():
            if theirs.get(name) is not None:
                known[ours] = read(theirs[name])
        return ImagePreprocessor(**known, channel_order="bgr" if theirs.get("do_flip_channel_order") else "rgb")
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {error}") from None


def preprocessor_of(model: Any, directory: str | Path) -> ImagePreprocessor:
    """The image settings of a model directory, checked against its model.

    Raises InputError if the model needs another size, or other channels than red, green and blue.
    """
    preprocessor, patches = load_preprocessor(directory), model.patches
    if preprocessor.size != patches.image_size or patches.channels != 3:
        (height, width), made = patches.image_size, preprocessor.size
        raise InputError(
            f"{Path(directory) / FILE}: makes images of {made[0]} × {made[1]} pixels in 3 channels, "
            f"but the model reads {height} × {width} in {patches.channels}."
        )
    return preprocessor


def save_preprocessor(preprocessor: ImagePreprocessor, directory: str | Path) -> None:
    """Write the file into a model directory, as ``transformers`` writes it for ViT, if it reads back as the same.

    Raises ValueError for settings that do not, and for an order of channels other than RGB, the only one of
    ViTImageProcessor.
    """
    if preprocessor.channel_order != "rgb":
        raise ValueError(f"channel_order is {preprocessor.channel_order!r}, but ViTImageProcessor supports only rgb")
    entries = {
        **{"image_processor_type": "ViTImageProcessor", "do_convert_rgb": True},
        **{name: getattr(preprocessor, name) for name in SWITCHES},
        **{name: write(getattr(preprocessor, ours)) for ours, (name, _, write) in ENTRIES.items()},
    }
    with checked_files(Path(directory)) as staged:
        write_json(staged / FILE, entries)
        if (again := load_preprocessor(staged)) != preprocessor:
            raise ValueError(f"these settings would be others when they are loaded again: {again}")


def _size(value: Any) -> tuple[int, int]:
    """Height and width, also from the single number of old files."""
    if isinstance(value, dict):
        if set(value) != {"height", "width"}:
            raise ValueError(f"size has {', '.join(sorted(map(str, value)))}, expected height and width")
        return value["height"], value["width"]
    return value, value


def _filter(value: Any) -> Any:
    if not isinstance(value, int) or not 0 <= value < len(FILTERS):
        raise ValueError(f"resample is {value!r}, expected a number from 0 to {len(FILTERS) - 1}")
    return FILTERS[value]


def _each(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,) * 3


def _three(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(is_number(each) for each in value)


ENTRIES: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "size": ("size", _size, lambda size: dict(zip(("height", "width"), size, strict=True))),
    "resample": ("resample", _filter, FILTERS.index),
    "rescale_factor": ("rescale_factor", lambda factor: factor, lambda factor: factor),
    "mean": ("image_mean", _each, list),
    "std": ("image_std", _each, list),
}
"""Our settings -> their key, and what reads and writes its value."""
