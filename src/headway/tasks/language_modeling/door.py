"""Another program that continues texts writes the same tokens."""

from headway.tasks.common.door_answers import continuations
from headway.tasks.common.doors import pipeline_door

DOOR = pipeline_door("text-generation", continuations, texts=8)
