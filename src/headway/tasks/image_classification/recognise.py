"""Images with a class each."""

from headway.data.images.pictures import Pictures
from headway.data.open.detected import Detected
from headway.data.open.shapes import PICTURES
from headway.errors import InputError
from headway.tasks.common.given import Given
from headway.tasks.recognise import BY_VALUES, Recogniser


class PicturesByClass(Recogniser):
    """Folders of images, and arrays of images and labels."""

    reads = frozenset({PICTURES})

    def check(self, given: Given) -> None:
        if given.shape != PICTURES:
            raise InputError(
                f"{given.name}: holds no images; {self.task} needs a folder with a folder of images for each "
                "class, or an .npz file of images and labels."
            )

    def fit(self, given: Given) -> int | None:
        return BY_VALUES if given.shape == PICTURES else None

    def columns(self, given: Given) -> Detected:
        pictures = given.source
        if not isinstance(pictures, Pictures):
            raise TypeError("only images have sizes")
        low, high = (f"{height} × {width}" for height, width in (min(pictures.sizes), max(pictures.sizes)))
        sizes = f"all {low} pixels" if low == high else f"{low} to {high} pixels"
        many = f"{len(pictures):,} images in {len(set(pictures.labels)):,} classes, {sizes}"
        return Detected(self.task, None, None, [f"{given.name}: {many}: image classification"])


RECOGNISER = PicturesByClass("image_classification")
