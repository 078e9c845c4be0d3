"""Another program that writes targets for sources writes the same tokens."""

from typing import Any

import torch

from headway.tasks.common.compare_answers import NEUTRAL, Found, Original, behind, continuations, differs, ending, worst
from headway.tasks.common.external_loader import class_loader, pipeline_loader


@torch.no_grad()
def targets(original: Original, theirs: Any) -> Found:
    """Every token that is written greedily there is the likeliest here; the value is how far it is from that."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(original.directory, local_files_only=True)
    rules, start = original.pipe.rules, len(original.pipe.rules.start)
    value, problem = 0.0, None
    for text in original.texts:
        source = tokenizer(text, return_tensors="pt")["input_ids"]
        ids = theirs.generate(source, **NEUTRAL)  # (1, T)
        written = ids[0, start:].tolist()
        if not problem and tuple(ids[0, :start].tolist()) != rules.start:
            problem = f"begins a target with the tokens {ids[0, :start].tolist()}, expected {list(rules.start)}"
        problem = problem or ending(text, written, frozenset(rules.end))
        logits = original.model(source, ids[:, :-1])[0, start - 1 :]  # (NEW, V)
        logits[:, list(rules.forbidden)] = -torch.inf
        value = worst(value, behind(logits, ids[0, start:]))
    return value, problem or differs("writes other targets", value)


LOADER = class_loader("AutoModelForSeq2SeqLM", targets)
OF_A_DECODER = pipeline_loader("text-generation", continuations, texts=8)
"""Of a decoder alone, which other programs know as a language model."""
