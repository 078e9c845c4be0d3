"""How long the target of a source may be, and how many sources are searched together."""

from headway.hub.generation_config import TargetRules
from headway.models.transformer import Decoder, EncoderDecoder

BATCH_TOKENS = 8192
"""Source tokens that each thread processes at once, counted once per hypothesis of a beam."""


def longest_target(model: EncoderDecoder | Decoder, rules: TargetRules, n_source: int) -> int:
    """The maximum length of the target of a source of ``n_source`` tokens, its ending token counted, its start not."""
    room = min(model.config.max_length, rules.max_length or model.config.max_length) - len(rules.start)
    if isinstance(model, Decoder):
        room -= n_source
    return max(1, room)
