"""The position encoding of a configuration: one line per kind."""

from collections.abc import Callable

from headway.models.config import TransformerConfig
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
    return ENCODINGS[config.position.kind](config, causal)


def _sinusoidal(config: TransformerConfig, causal: bool) -> PositionEncoding:
    return SinusoidalEncoding(config.d_model, config.position.start, config.position.sinusoids)


def _learned(config: TransformerConfig, causal: bool) -> PositionEncoding:
    return LearnedEncoding(config.max_length, config.d_model, config.position.start)


def _rotary(config: TransformerConfig, causal: bool) -> PositionEncoding:
    position = config.position
    return RotaryEncoding(config.rotated, position.base, position.window_base, position.scaling)


def _alibi(config: TransformerConfig, causal: bool) -> PositionEncoding:
    return AlibiEncoding(config.n_heads)


def _relative(config: TransformerConfig, causal: bool) -> PositionEncoding:
    return RelativeEncoding(config.n_heads, config.position.buckets, config.position.max_distance, causal=causal)


def _none(config: TransformerConfig, causal: bool) -> PositionEncoding:
    return PositionEncoding()


ENCODINGS: dict[str, Callable[[TransformerConfig, bool], PositionEncoding]] = {
    "sinusoidal": _sinusoidal,
    "learned": _learned,
    "rotary": _rotary,
    "alibi": _alibi,
    "relative": _relative,
    "none": _none,
}
