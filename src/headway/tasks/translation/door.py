"""Another program that writes targets for sources writes the same tokens."""

from typing import Any

import torch

from headway.tasks.common.door_answers import NEUTRAL, Asked, Found, behind, continuations, differs, ending, worst
from headway.tasks.common.doors import class_door, pipeline_door


@torch.no_grad()
def targets(asked: Asked, theirs: Any) -> Found:
    """Every token that is written greedily there is the likeliest here; the value is how far it is from that."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(asked.directory, local_files_only=True)
    rules, start = asked.pipe.rules, len(asked.pipe.rules.start)
    value, problem = 0.0, None
    for text in asked.texts:
        source = tokenizer(text, return_tensors="pt")["input_ids"]
        ids = theirs.generate(source, **NEUTRAL)  # (1, T)
        written = ids[0, start:].tolist()
        if not problem and tuple(ids[0, :start].tolist()) != rules.start:
            problem = f"begins a target with the tokens {ids[0, :start].tolist()}, expected {list(rules.start)}"
        problem = problem or ending(text, written, frozenset(rules.end))
        logits = asked.model(source, ids[:, :-1])[0, start - 1 :]  # (NEW, V)
        logits[:, list(rules.forbidden)] = -torch.inf
        value = worst(value, behind(logits, ids[0, start:]))
    return value, problem or differs("writes other targets", value)


DOOR = class_door("AutoModelForSeq2SeqLM", targets)
OF_A_DECODER = pipeline_door("text-generation", continuations, texts=8)
"""Of a decoder alone, which other programs know as a language model."""
