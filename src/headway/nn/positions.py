"""How a Transformer is told the order of its tokens: six ways, in three kinds.

Added to the embeddings: ``sinusoids`` (Vaswani et al. 2017, 3.5) and ``LearnedPositions`` (BERT, GPT-2).
Turning queries and keys: ``rotation`` and ``rotate`` (Su et al. 2021, rotary); ``stretch_linear``, ``stretch_yarn``,
``stretch_llama3`` and ``dynamic_base`` turn more slowly, for texts longer than those of the training.
Added to the scores: ``alibi_slopes`` (Press et al. 2021) and ``RelativeBias`` (T5, Raffel et al. 2020).
"none" is the sixth: a causal mask alone also tells a decoder something of the order.

Letters: B batch, T queries, S keys, D width, H heads, K head width, R = rotated half width.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

Rotation = tuple[Tensor, Tensor]  # cosines and sines, each (B or 1, 1, T, R)


def sinusoids(positions: Tensor, width: int, order: str = "interleaved") -> Tensor:
    """sin(p / 10000^(2i/D)) and cos(p / 10000^(2i/D)) for each i below D/2: (..., ) int -> (..., D), any D.

    "interleaved" puts the sine at 2i and the cosine at 2i + 1 (Vaswani et al. 2017); "halves" puts all sines first
    (Marian); "tensor2tensor" too, with the wavelengths of that program, 10000^(i/(D/2 - 1)) (M2M-100).
    """
    half = -(-width // 2)
    i = torch.arange(half, device=positions.device)
    if order == "tensor2tensor":
        half = width // 2
        i = torch.arange(half, device=positions.device)
        angles = positions[..., None].float() * torch.exp(i * (-math.log(10000.0) / max(half - 1, 1)))  # (..., D / 2)
    else:
        # rounded after the sine and not before: at position 500, float32 angles are wrong by up to 3e-5
        exact = torch.float32 if positions.device.type == "mps" else torch.float64  # where there is no other
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
    """A vector for each position below ``max_length``; undefined beyond, and refused there.

    The table has ``start`` rows before that of the first position (RoBERTa and BART: 2).
    """

    def __init__(self, max_length: int, width: int, start: int = 0):
        super().__init__()
        self.max_length, self.start = max_length, start
        self.table = nn.Embedding(max_length + start, width)

    def forward(self, positions: Tensor) -> Tensor:
        """(B or 1, T) int -> (B or 1, T, D).  Raises ValueError past the trained length."""
        longest = int(positions.max()) + 1 if positions.numel() else 0
        if longest > self.max_length:
            raise ValueError(
                f"{longest} tokens, but this model has learned positions for {self.max_length} only: "
                "beyond that its result would be undefined"
            )
        return self.table(positions + self.start)


def rotation(
    positions: Tensor,
    d_rotated: int,
    base: float | Tensor,
    stretch: Callable[[Tensor], Tensor] | None = None,
    size: float = 1.0,
) -> Rotation:
    """Cosines and sines of p / base^(2i/d): (B or 1, T) int -> two of (B or 1, 1, T, R) with R = d_rotated / 2.

    ``base`` may be one number for each row, (B, 1, 1, 1).  ``stretch`` changes the frequencies 1 / base^(2i/d), (R,) ->
    (R,), and ``size`` multiplies cosines and sines: scores then grow by its square (YaRN).
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
    """Position interpolation (Chen et al. 2023): every pair turns ``factor`` times as slowly: (R,) -> (R,)."""
    return frequencies / factor


def stretch_llama3(frequencies: Tensor, factor: float, original_length: int, slow: float, fast: float) -> Tensor:
    """Llama 3.1's rule (Meta 2024, reference code): (R,) -> (R,).

    A pair that turns more than ``fast`` times within the original length keeps its frequency, one that turns less than
    ``slow`` times is divided by ``factor``, and between the two the share that is kept grows with the number of turns.
    """
    turns = original_length * frequencies / (2 * math.pi)
    kept = ((turns - slow) / (fast - slow)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)


def stretch_yarn(
    frequencies: Tensor, factor: float, original_length: int, slow: float, fast: float, base: float, whole: bool = True
) -> Tensor:
    """YaRN (Peng et al. 2023, "NTK-by-parts", 3.2): (R,) -> (R,).

    As ``stretch_llama3``, but between the two the share falls with the number of the pair: from the pair that turns
    ``fast`` times within the original length, to the one that turns ``slow`` times.  ``whole`` rounds both outwards.
    """
    width = 2 * len(frequencies)

    def pair(turns: float) -> float:
        """The pair i that turns so often: base^(-2i/d) original_length = 2π turns."""
        return width * math.log(original_length / (2 * math.pi * turns)) / (2 * math.log(base))

    first, last = (math.floor(pair(fast)), math.ceil(pair(slow))) if whole else (pair(fast), pair(slow))
    first, last = max(first, 0), min(last, width - 1)
    i = torch.arange(len(frequencies), device=frequencies.device).float()
    kept = 1 - ((i - first) / (last - first or 0.001)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)


def dynamic_base(base: float, d_rotated: int, factor: float, original_length: int, lengths: Tensor) -> Tensor:
    """The base for texts of ``lengths`` tokens: (B,) int -> (B, 1, 1, 1); ``base`` up to the original length.

    Beyond it, base (factor n / original - factor + 1)^(d / (d - 2)) for n tokens: "dynamic NTK" (Peng et al. 2023, 3.3,
    with the factor that transformers gives it).  With factor 1 the slowest pair then turns over n tokens as far as it
    did over the original length.
    """
    lengths = lengths.clamp(min=original_length).float()
    grown = base * (factor * lengths / original_length - (factor - 1)) ** (d_rotated / (d_rotated - 2))
    return grown[:, None, None, None]


def rotate(x: Tensor, by: Rotation) -> Tensor:
    """Turn each pair (x[i], x[i + R]) by its position's angle: (B, H, T, K) -> the same; what is past 2 R stays.

    The product of a query and a key turned this way depends on the difference of their positions alone.
    """
    cos, sin = (part.to(x.dtype) for part in by)
    half = cos.shape[-1]
    turned = _Turn.apply(x[..., : 2 * half], cos, sin)
    return turned if 2 * half == x.shape[-1] else torch.cat([turned, x[..., 2 * half :]], dim=-1)


class _Turn(torch.autograd.Function):
    """A rotation, whose gradient is the rotation back: nothing of ``x`` need be kept."""

    @staticmethod
    def forward(ctx, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turn(grads[0], cos, -sin), None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = cos.shape[-1]
    first, second = x[..., :half], x[..., half:]
    out = torch.empty_like(x)
    torch.mul(first, cos, out=out[..., :half]).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=out[..., half:]).addcmul_(first, sin)
    return out


def alibi_slopes(n_heads: int) -> Tensor:
    """How steeply each head's scores fall with distance: (H,).

    A geometric sequence from 2^(-8/H); for H not a power of two, that of the next lower power and every second one of
    the next higher (the paper's rule).
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
    """T5's learned bias for each head and each bucket of distances; near distances exactly, far ones by logarithm."""

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
