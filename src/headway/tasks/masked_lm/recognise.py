"""Running text, only where the task is named."""

from headway.tasks.common.recognise_text import RunningText

RECOGNISER = RunningText("masked_lm", "masked language modelling")
