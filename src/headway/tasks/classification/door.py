"""Another program that classifies texts gives the same labels with the same probabilities."""

from typing import Any

from headway.tasks.common.door_answers import Asked, Found, labels_differ
from headway.tasks.common.doors import pipeline_door


def classes(asked: Asked, theirs: Any) -> Found:
    """The label of each text, and the probability of every label."""
    ours = asked.pipe.probabilities(asked.texts)
    return labels_differ(asked, ours, theirs(list(asked.texts), top_k=None), asked.texts)


DOOR = pipeline_door("text-classification", classes)
