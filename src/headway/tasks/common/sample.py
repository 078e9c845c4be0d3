"""A sample of a language model's text at each evaluation."""

from collections.abc import Sequence

from torch import nn

from headway.generation.sampling import Sampling
from headway.hub.directory import model_config
from headway.runtime.runtime import Runtime
from headway.tasks.common.prompt import forbidden_ids
from headway.text.tokenizer import Tokenizer

LENGTH = 80
"""Tokens of a sample."""


def sampled(model: nn.Module, tokenizer: Tokenizer, prompt: Sequence[int], ends: set[int]) -> str:
    """A continuation of the prompt's ids, always drawn with the same seed so that samples can be compared."""
    steps = Runtime(model).write(
        [list(prompt)],
        Sampling(temperature=0.8),
        max_tokens=LENGTH,
        end=ends,
        forbidden=forbidden_ids(tokenizer, model_config(model).vocab_size, ends),
        seed=1,
    )
    text = tokenizer.stream(prompt)
    return "".join(text.push(step[0]) for step in steps) + text.finish()
