"""Predict the class of an image."""

from headway.tasks.common.classes import Classification


class ImageClassification(Classification):
    """One class for each image: the same loss and metrics as for texts, on batches of pixels."""

    name = "image_classification"
