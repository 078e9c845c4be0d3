"""Running text, only where the task is named."""

from headway.tasks.recognise import RunningText

RECOGNISER = RunningText("masked_lm", "masked language modelling")
