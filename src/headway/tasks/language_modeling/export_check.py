"""Another program that continues texts writes the same tokens."""

from headway.tasks.common.compare_answers import continuations
from headway.tasks.common.external_loader import pipeline_loader

LOADER = pipeline_loader("text-generation", continuations, texts=8)
