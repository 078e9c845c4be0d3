"""The position encoding of a configuration: one line per kind."""

from collections.abc import Callable

from headway.models.config import Positions, TransformerConfig
from headway.nn.positions import (
    AlibiEncoding,
    LearnedEncoding,
    PositionEncoding,
    RelativeEncoding,
    RotaryEncoding,
    SinusoidalEncoding,
)


def position_encoding(config: TransformerConfig, *, causal: bool) -> PositionEncoding:
    """A new encoding, for one stack of blocks; ``causal``: whether its queries cannot attend to later keys."""
    return ENCODINGS[config.position.kind](config, config.position, causal)


ENCODINGS: dict[str, Callable[[TransformerConfig, Positions, bool], PositionEncoding]] = {
    "sinusoidal": lambda config, own, _: SinusoidalEncoding(config.d_model, own.start, own.sinusoids),
    "learned": lambda config, own, _: LearnedEncoding(config.max_length, config.d_model, own.start),
    "rotary": lambda config, own, _: RotaryEncoding(config.rotated, own.base, own.window_base, own.scaling),
    "alibi": lambda config, *_: AlibiEncoding(config.n_heads),
    "relative": lambda config, own, causal: RelativeEncoding(
        config.n_heads, own.buckets, own.max_distance, causal=causal
    ),
    "none": lambda *_: PositionEncoding(),
}
