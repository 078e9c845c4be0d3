"""Generate a target for every source: beam search with an encoder-decoder, batch by batch.

Letters: S source length.
"""

from collections.abc import Sequence

import torch

from headway.data.batches import length_batches
from headway.generation.beam import Hypothesis, beam_search
from headway.generation.conditional import Conditional
from headway.generation.decode import Model
from headway.hub.generation_config import TargetRules
from headway.io.fork_safety import check_threads
from headway.models.transformer import Decoder, EncoderDecoder
from headway.nn.threads import Threads

BATCH_TOKENS = 8192
"""Source tokens that each thread processes at once, counted once per hypothesis of a beam."""


def write_targets(
    model: EncoderDecoder | Decoder,
    sources: Sequence[Sequence[int]],
    rules: TargetRules,
    *,
    beam: int = 5,
    n_best: int = 1,
    length_penalty: float = 1.0,
    most: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The ``n_best`` best targets of each source, best first; each source's result is independent of the others.

    A decoder continues the source itself.  ``most`` limits the tokens of each target, its ending token included;
    without it, targets may be as long as the model and the rules allow.
    """
    check_threads()
    limits = [longest_target(model, rules, len(source)) for source in sources]
    if most is not None:
        limits = [min(pair) for pair in zip(limits, most, strict=True)]
    device = next(model.parameters()).device
    batches = length_batches([beam * len(source) for source in sources], BATCH_TOKENS, 0, 0) if sources else []
    batches.sort(key=lambda index: -sum(len(sources[i]) for i in index))  # so the last batch to finish is a small one

    def write(index: Sequence[int]) -> list[list[Hypothesis]]:
        chosen = [sources[i] for i in index]
        writer: Model = Conditional(model, chosen, device) if isinstance(model, EncoderDecoder) else model
        return beam_search(
            writer,
            [list(rules.start) if writer is not model else [*source, *rules.start] for source in chosen],
            beam=beam,
            n_best=n_best,
            max_tokens=[limits[i] for i in index],
            end=rules.end,
            forbidden=rules.forbidden,
            length_penalty=length_penalty,
            device=device,
        )

    found: list[list[Hypothesis]] = [[] for _ in sources]
    count = min(torch.get_num_threads(), len(batches)) if device.type == "cpu" else 1
    with Threads(max(1, count)) as threads:
        for index, answers in zip(batches, threads.map(write, batches), strict=True):
            for i, answer in zip(index, answers, strict=True):
                found[i] = answer
    return found


def longest_target(model: EncoderDecoder | Decoder, rules: TargetRules, n_source: int) -> int:
    """The maximum length of the target of a source of ``n_source`` tokens, its ending token counted, its start not."""
    room = min(model.config.max_length, rules.max_length or model.config.max_length) - len(rules.start)
    if isinstance(model, Decoder):
        room -= n_source
    return max(1, room)
