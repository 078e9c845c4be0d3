"""Position encodings: one file for each kind, all with one interface.

Added to the embeddings: ``sinusoidal`` (Vaswani et al. 2017, 3.5) and ``learned`` (BERT, GPT-2).
Rotating queries and keys: ``rotary`` (Su et al. 2021), also stretched for longer texts.
Added to the scores: ``alibi`` (Press et al. 2021) and ``relative`` (T5, Raffel et al. 2020).
No encoding: ``encoding.PositionEncoding`` itself; a causal mask alone also gives a decoder some information on order.

A new encoding is a new file with a subclass of ``PositionEncoding``, and a line in ``models.positions``.
"""

from headway.nn.positions.alibi import AlibiEncoding, alibi_bias, alibi_slopes
from headway.nn.positions.encoding import PositionEncoding, Rotation
from headway.nn.positions.learned import LearnedEncoding, LearnedPositions
from headway.nn.positions.relative import RelativeBias, RelativeEncoding
from headway.nn.positions.rotary import (
    RotaryEncoding,
    apply_rope,
    dynamic_base,
    rope_angles,
    stretch_linear,
    stretch_llama3,
    stretch_yarn,
)
from headway.nn.positions.sinusoidal import SinusoidalEncoding, sinusoids

__all__ = [
    "AlibiEncoding",
    "LearnedEncoding",
    "LearnedPositions",
    "PositionEncoding",
    "RelativeBias",
    "RelativeEncoding",
    "RotaryEncoding",
    "Rotation",
    "SinusoidalEncoding",
    "alibi_bias",
    "alibi_slopes",
    "apply_rope",
    "dynamic_base",
    "rope_angles",
    "sinusoids",
    "stretch_linear",
    "stretch_llama3",
    "stretch_yarn",
]
