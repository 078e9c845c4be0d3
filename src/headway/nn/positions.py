"""Position encodings, all with one interface: what a token is told of its place.

Added to the embeddings: ``sinusoidal`` (Vaswani et al. 2017, 3.5) and ``learned`` (BERT, GPT-2).
Rotating queries and keys: ``rotary`` (Su et al. 2021), also stretched for texts longer than those of the training.
Added to the scores: ``alibi`` (Press et al. 2021) and ``relative`` (T5, Raffel et al. 2020).
No encoding: ``PositionEncoding`` itself; a causal mask alone also gives a decoder some information on order.

A new encoding is a subclass of ``PositionEncoding``, and a line in ``models.transformer.ENCODINGS``.

Letters: B batch, T length (or queries), S keys, D width, H heads, K head width, R rotated pairs.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.nn.kernels.dispatch import apply_rope

Rotation = Callable[[Tensor], Tensor]
"""A function that rotates queries, or keys, or both together: (B, any heads, T, K) -> the same."""


class PositionEncoding:
    """What a Transformer asks of a position encoding.  This one encodes nothing; subclasses override what they need.

    An encoding is not a module.  The modules that it trains are made once, when the model asks for them: the model
    registers them under its own names (``embedding.learned``, ``relative``), which are the names of the saved weights.
    """

    max_length: int | None = None
    """the number of positions that can be encoded; None: any number"""

    def make_vectors(self) -> nn.Module | None:
        """Make and keep the module that ``embed`` uses, registered with the token embedding; None: there is none."""
        return None

    def make_biases(self) -> nn.Module | None:
        """Make and keep the module that ``bias`` uses, registered with the stack of blocks; None: there is none."""
        return None

    def embed(self, positions: Tensor, length: int) -> Tensor | None:
        """Vectors to add to the embeddings of tokens at these positions: (B or 1, T) int -> (B or 1, T, D), or None.

        ``length`` is the number of tokens up to the last of these, padding included: it exceeds every position and,
        unlike them, is known without waiting for an accelerator.  Raises ValueError past ``max_length``.
        """
        return None

    def rotation(self, positions: Tensor, window: int | None) -> Rotation | None:
        """The rotation of the queries and new keys at these positions, (B or 1, T) int, in layers with that window."""
        return None

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """The bias to add to the scores: positions (B or 1, T) and (B or 1, S) -> (B or 1, H, T, S), or None."""
        return None


class SinusoidalEncoding(PositionEncoding):
    """The encoding by ``sinusoids`` of the positions, counted from ``start``."""

    def __init__(self, width: int, start: int = 0, order: str = "interleaved"):
        self.width, self.start, self.order = width, start, order

    def embed(self, positions: Tensor, length: int) -> Tensor:
        """(B or 1, T) int -> (B or 1, T, D)."""
        return sinusoids(positions + self.start, self.width, self.order)


def sinusoids(positions: Tensor, width: int, order: str = "interleaved") -> Tensor:
    """sin(p / 10000^(2i/D)) and cos(p / 10000^(2i/D)) for each i below D/2: (..., ) int -> (..., D), any D.

    "interleaved" puts the sine at 2i and the cosine at 2i + 1 (Vaswani et al. 2017); "halves" puts all sines first
    (Marian); "tensor2tensor" does too, with that program's wavelengths, 10000^(i/(D/2 - 1)) (M2M-100).
    """
    half = width // 2 if order == "tensor2tensor" else -(-width // 2)
    i = torch.arange(half, device=positions.device)
    if order == "tensor2tensor":
        angles = positions[..., None].float() * torch.exp(i * (-math.log(10000.0) / max(half - 1, 1)))  # (..., D / 2)
    else:
        # rounded after the sine and not before: at position 500, float32 angles are wrong by up to 3e-5
        exact = torch.float32 if positions.device.type == "mps" else torch.float64  # mps has no float64
        angles = positions[..., None] * torch.exp(2 * i.to(exact) * (-math.log(10000.0) / width))  # (..., ceil(D / 2))
    table = torch.zeros(*positions.shape, width, device=positions.device)
    if order == "interleaved":
        table[..., 0::2] = angles.sin()
        table[..., 1::2] = angles.cos()[..., : width // 2]
    else:
        table[..., :half] = angles.sin()
        table[..., half : half + width // 2] = angles.cos()[..., : width // 2]
    return table


class LearnedPositions(nn.Module):
    """A table of vectors for the positions below ``max_length``; positions beyond are refused.

    The table has ``start`` rows before the row of the first position (RoBERTa and BART: 2).
    """

    def __init__(self, max_length: int, width: int, start: int = 0):
        super().__init__()
        self.max_length, self.start = max_length, start
        self.table = nn.Embedding(max_length + start, width)

    def forward(self, positions: Tensor, length: int | None = None) -> Tensor:
        """(B or 1, T) int -> (B or 1, T, D).  Raises ValueError past the trained length.

        ``length``, where given, is an upper bound of the positions.  The positions themselves, which an accelerator may
        not have computed yet, are then only looked at where the bound is too long, which may be due to padding.
        """
        if (length is None or length > self.max_length) and positions.numel():
            longest = int(positions.max()) + 1
            if longest > self.max_length:
                raise ValueError(
                    f"{longest} tokens, but this model has learned positions for {self.max_length} only: "
                    "beyond that its result would be undefined"
                )
        return self.table(positions + self.start)


class LearnedEncoding(PositionEncoding):
    """The encoding with a table of its own, ``LearnedPositions``."""

    def __init__(self, max_length: int, width: int, start: int = 0):
        self.max_length, self.sizes = max_length, (max_length, width, start)

    def make_vectors(self) -> LearnedPositions:
        self.vectors = LearnedPositions(*self.sizes)
        return self.vectors

    def embed(self, positions: Tensor, length: int) -> Tensor:
        """(B or 1, T) int -> (B or 1, T, D)."""
        return self.vectors(positions, length)


Angles = tuple[Tensor, Tensor]  # cosines and sines, each (B or 1, 1, T, R)
Scaling = Any
"""The numbers of a stretch: ``models.config.RopeScaling``, which explains each."""


class RotaryEncoding(PositionEncoding):
    """Rotation by ``rope_angles``, in layers with a window by ``window_base`` where given (ModernBERT).

    ``scaling`` stretches the frequencies for texts longer than those of the training.
    """

    def __init__(self, width: int, base: float, window_base: float | None = None, scaling: Scaling | None = None):
        self.width, self.base, self.window_base, self.scaling = width, base, window_base, scaling

    def rotation(self, positions: Tensor, window: int | None) -> Rotation:
        """The rotation of (B, any heads, T, K) at positions (B or 1, T)."""
        scaling = self.scaling
        base = self.base if window is None or self.window_base is None else self.window_base
        if scaling is None:
            cos, sin = rope_angles(positions, self.width, base)
        elif scaling.kind == "dynamic":
            lengths = positions.amax(dim=1) + 1  # tokens so far, row by row: a batch gives what its rows give alone
            slower = dynamic_base(base, self.width, scaling.factor, scaling.original_length, lengths)
            cos, sin = rope_angles(positions, self.width, slower)
        else:
            stretch = partial(STRETCHES[scaling.kind], scaling, base)
            cos, sin = rope_angles(positions, self.width, base, stretch, scaling.size)
        return partial(apply_rope, cos=cos, sin=sin)


def rope_angles(
    positions: Tensor,
    d_rotated: int,
    base: float | Tensor,
    stretch: Callable[[Tensor], Tensor] | None = None,
    size: float = 1.0,
) -> Angles:
    """Cosines and sines of p / base^(2i/d): (B or 1, T) int -> two of (B or 1, 1, T, R) with R = d_rotated / 2.

    ``base`` may be one number per row, (B, 1, 1, 1).  ``stretch`` changes the frequencies 1 / base^(2i/d), (R,) ->
    (R,), and ``size`` multiplies cosines and sines, so that scores grow by its square (YaRN).
    """
    powers = torch.arange(0, d_rotated, 2, device=positions.device).float() / d_rotated  # (R,)
    frequencies = 1.0 / base**powers  # (R,) or (B, 1, 1, R)
    if stretch is not None:
        frequencies = stretch(frequencies)
    angles = positions[:, None, :, None].float() * frequencies  # (B, 1, T, R)
    if size != 1.0:
        return angles.cos() * size, angles.sin() * size
    return angles.cos(), angles.sin()


def stretch_linear(frequencies: Tensor, factor: float) -> Tensor:
    """Position interpolation (Chen et al. 2023): every frequency is divided by ``factor``: (R,) -> (R,)."""
    return frequencies / factor


def stretch_llama3(frequencies: Tensor, factor: float, original_length: int, slow: float, fast: float) -> Tensor:
    """Llama 3.1's rule (Meta 2024, reference code): (R,) -> (R,).

    A pair that turns more than ``fast`` times within the original length keeps its frequency, one that turns fewer than
    ``slow`` times is divided by ``factor``; in between, the kept fraction grows with the number of turns.
    """
    turns = original_length * frequencies / (2 * math.pi)
    kept = ((turns - slow) / (fast - slow)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)


def stretch_yarn(
    frequencies: Tensor, factor: float, original_length: int, slow: float, fast: float, base: float, whole: bool = True
) -> Tensor:
    """YaRN (Peng et al. 2023, "NTK-by-parts", 3.2): (R,) -> (R,).

    As ``stretch_llama3``, but in between the kept fraction falls with the index of the pair: from the pair that turns
    ``fast`` times within the original length to the one that turns ``slow`` times.  ``whole`` rounds both outwards.
    """
    width = 2 * len(frequencies)

    def pair(turns: float) -> float:
        """The index i of the pair with that many turns: base^(-2i/d) original_length = 2π turns."""
        return width * math.log(original_length / (2 * math.pi * turns)) / (2 * math.log(base))

    first, last = (math.floor(pair(fast)), math.ceil(pair(slow))) if whole else (pair(fast), pair(slow))
    first, last = max(first, 0), min(last, width - 1)
    i = torch.arange(len(frequencies), device=frequencies.device).float()
    kept = 1 - ((i - first) / (last - first or 0.001)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)


def dynamic_base(base: float, d_rotated: int, factor: float, original_length: int, lengths: Tensor) -> Tensor:
    """The base for texts of ``lengths`` tokens: (B,) int -> (B, 1, 1, 1); ``base`` up to the original length.

    Beyond it, base (factor n / original - factor + 1)^(d / (d - 2)) for n tokens: "dynamic NTK" (Peng et al. 2023, 3.3,
    with the factor as transformers applies it).  With factor 1 the slowest pair then turns over n tokens as far as it
    did over the original length.
    """
    lengths = lengths.clamp(min=original_length).float()
    grown = base * (factor * lengths / original_length - (factor - 1)) ** (d_rotated / (d_rotated - 2))
    return grown[:, None, None, None]


STRETCHES: dict[str, Callable[[Scaling, float, Tensor], Tensor]] = {
    "linear": lambda by, base, f: stretch_linear(f, by.factor),
    "llama3": lambda by, base, f: stretch_llama3(f, by.factor, by.original_length, by.slow, by.fast),
    "yarn": lambda by, base, f: stretch_yarn(f, by.factor, by.original_length, by.slow, by.fast, base, by.whole),
}
"""By kind: the frequencies (R,) from the scaling, the base, and the unscaled frequencies (R,) of that base."""


class AlibiEncoding(PositionEncoding):
    """``alibi_bias`` with the slopes of ``alibi_slopes``."""

    def __init__(self, n_heads: int):
        self.slopes = alibi_slopes(n_heads)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B or 1, T) and (B or 1, S) -> (B or 1, H, T, S)."""
        self.slopes = self.slopes.to(queries.device)  # moved there once
        return alibi_bias(queries, keys, self.slopes)


def alibi_slopes(n_heads: int) -> Tensor:
    """How steeply the scores of each head fall with distance: (H,).

    A geometric sequence from 2^(-8/H); where H is no power of two, the one for the next lower power followed by every
    second number of the one for the next higher power (the paper's rule).
    """

    def powers(n: int) -> list[float]:
        return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]

    lower = 2 ** math.floor(math.log2(n_heads))
    return torch.tensor(powers(lower) + powers(2 * lower)[0::2][: n_heads - lower])


def alibi_bias(queries: Tensor, keys: Tensor, slopes: Tensor) -> Tensor:
    """-slope × distance: positions (B or 1, T) and (B or 1, S) -> (B or 1, H, T, S)."""
    distance = (queries[:, None, :, None] - keys[:, None, None, :]).abs()  # (B, 1, T, S)
    return -slopes.to(distance.device)[None, :, None, None] * distance


class RelativeBias(nn.Module):
    """T5's learned bias per head and bucket of distances; near distances exactly, far ones on a logarithmic scale."""

    def __init__(self, n_heads: int, buckets: int, max_distance: int, *, causal: bool):
        super().__init__()
        self.table = nn.Embedding(buckets, n_heads)
        self.buckets, self.max_distance, self.causal = buckets, max_distance, causal

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions (B or 1, T) and (B or 1, S) -> (B or 1, H, T, S)."""
        ahead = keys[:, None, :] - queries[:, :, None]  # (B, T, S), positive when the key comes later
        return self.table(self.bucket(ahead)).permute(0, 3, 1, 2)  # (B, H, T, S)

    def bucket(self, ahead: Tensor) -> Tensor:
        """The bucket of each signed distance: half for later keys unless causal; half exact, half logarithmic."""
        count, offset = self.buckets, torch.zeros_like(ahead)
        if self.causal:
            distance = (-ahead).clamp(min=0)
        else:
            count //= 2
            offset = (ahead > 0).long() * count
            distance = ahead.abs()
        exact = count // 2
        share = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        far = exact + (share * (count - exact)).long()
        return offset + torch.where(distance < exact, distance, far.clamp(max=count - 1))


class RelativeEncoding(PositionEncoding):
    """The encoding with a ``RelativeBias`` that all blocks share."""

    def __init__(self, n_heads: int, buckets: int, max_distance: int, *, causal: bool):
        self.n_heads, self.buckets, self.max_distance, self.causal = n_heads, buckets, max_distance, causal

    def make_biases(self) -> RelativeBias:
        self.biases = RelativeBias(self.n_heads, self.buckets, self.max_distance, causal=self.causal)
        return self.biases

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B or 1, T) and (B or 1, S) -> (B or 1, H, T, S)."""
        return self.biases(queries, keys)
