"""Images with a class each: folders of images, and arrays of images and labels."""

from typing import cast

from headway.data.images.image_table import ImageTable
from headway.data.open.columns import IMAGES, Detected
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import BY_VALUES, Recogniser


class ImagesByClass(Recogniser):
    """Images, whose classes are known."""

    reads, fits = frozenset({IMAGES}), {IMAGES: BY_VALUES}

    def check(self, facts: DataFacts) -> None:
        if facts.shape != IMAGES:
            raise facts.error(
                f"holds no images; {self.task} needs a folder with a folder of images for each class, or an .npz file "
                "of images and labels."
            )

    def columns(self, facts: DataFacts) -> Detected:
        images = cast(ImageTable, facts.source)
        low, high = (f"{height} × {width}" for height, width in (min(images.sizes), max(images.sizes)))
        sizes = f"all {low} pixels" if low == high else f"{low} to {high} pixels"
        many = f"{len(images):,} images in {len(set(images.labels)):,} classes, {sizes}"
        return Detected(self.task, None, None, [f"{facts.source.name}: {many}: image classification"])


RECOGNISER = ImagesByClass("image_classification")
