"""Predict the class of a picture."""

from headway.tasks.common.classes import Classification


class ImageClassification(Classification):
    """One class for each picture: the same loss and metrics as for texts, on batches of pixels."""

    name = "image_classification"
