"""Images with a class each."""

from headway.data.images.image_table import ImageTable
from headway.data.open.detected import IMAGES, Detected
from headway.errors import InputError
from headway.tasks.given import Given
from headway.tasks.recognise import BY_VALUES, Recogniser


class ImagesByClass(Recogniser):
    """Folders of images, and arrays of images and labels."""

    reads = frozenset({IMAGES})

    def check(self, given: Given) -> None:
        if given.shape != IMAGES:
            raise InputError(
                f"{given.name}: holds no images; {self.task} needs a folder with a folder of images for each "
                "class, or an .npz file of images and labels."
            )

    def fit(self, given: Given) -> int | None:
        return BY_VALUES if given.shape == IMAGES else None

    def columns(self, given: Given) -> Detected:
        images = given.source
        if not isinstance(images, ImageTable):
            raise TypeError("only images have sizes")
        low, high = (f"{height} × {width}" for height, width in (min(images.sizes), max(images.sizes)))
        sizes = f"all {low} pixels" if low == high else f"{low} to {high} pixels"
        many = f"{len(images):,} images in {len(set(images.labels)):,} classes, {sizes}"
        return Detected(self.task, None, None, [f"{given.name}: {many}: image classification"])


RECOGNISER = ImagesByClass("image_classification")
