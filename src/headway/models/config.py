"""The configuration of every Transformer, of its position encoding, and of the patches of images."""

import math
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

from headway.nn.activations import ACTIVATIONS


@dataclass(frozen=True)
class RopeScaling:
    """How rotary frequencies are scaled for texts longer than those of the training.

    "linear" divides every frequency by ``factor`` (Chen et al. 2023).  "llama3" (Llama 3.1) and "yarn" (Peng et al.
    2023) keep the fast pairs and divide the slow ones.  "dynamic" (dynamic NTK) raises the base with the length of each
    text past ``original_length``; the formulas are in nn.positions.

    Under "dynamic" the frequencies depend on the number of tokens read, and keys in a state keep the rotation they got
    when they were read.  Cached and uncached logits therefore agree up to ``original_length`` tokens, as everywhere,
    but not beyond: uncached, a longer text rotates all its keys again.  transformers does the same in both cases.
    """

    kind: Literal["linear", "dynamic", "yarn", "llama3"]
    factor: float
    """the factor by which frequencies are divided"""
    original_length: int = 2048
    """dynamic, yarn, llama3: the length before scaling (for "dynamic", that of the model's configuration)"""
    slow: float = 1.0
    """yarn, llama3: pairs that turn fewer times within the original length are divided by the whole factor"""
    fast: float = 32.0
    """yarn, llama3: pairs that turn more often keep their frequency"""
    whole: bool = True
    """yarn: round the two bounds outwards to whole pairs"""
    size: float = 1.0
    """yarn: factor of cosines and sines; the paper's 3.4 has 0.1 ln(factor) + 1"""

    KINDS: ClassVar[tuple[str, ...]] = ("linear", "dynamic", "yarn", "llama3")

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("factor", "slow", "size"):
            check_number(self, name)
        above = is_number(self.fast) and self.slow < self.fast < math.inf
        check_field(self, above, "fast", f"a number above slow = {self.slow}")


@dataclass(frozen=True)
class Positions:
    """The kind of position encoding, and its parameters."""

    kind: Literal["rotary", "learned", "sinusoidal", "alibi", "relative", "none"] = "rotary"
    base: float = 10000.0
    """rotary: the base of the wavelengths."""
    window_base: float | None = None
    """rotary: the base in layers with a window, where it differs (ModernBERT)."""
    fraction: float = 1.0
    """rotary: the fraction of each head that is rotated."""
    scaling: RopeScaling | None = None
    """rotary: how the frequencies are scaled beyond the trained length, in all layers."""
    buckets: int = 32
    """relative: the number of buckets of distances."""
    max_distance: int = 128
    """relative: the distance from which all distances share the last bucket."""
    start: int = 0
    """learned, sinusoidal: the index of the first position (RoBERTa, BART, M2M-100: 2)."""
    sinusoids: Literal["interleaved", "halves", "tensor2tensor"] = "interleaved"
    """sinusoidal: the order of sines and cosines, see nn.positions."""

    KINDS: ClassVar[tuple[str, ...]] = ("rotary", "learned", "sinusoidal", "alibi", "relative", "none")

    def __post_init__(self) -> None:
        if self.kind not in self.KINDS:
            raise ValueError(f"positions is {self.kind!r}, but must be one of {', '.join(self.KINDS)}")
        check_types(self, start=0, buckets=4)
        for name in ("base", "window_base"):
            check_number(self, name, above=1)
        check_number(self, "fraction", up_to=1)
        check_field(
            self, self.scaling is None or isinstance(self.scaling, RopeScaling), "scaling", "a RopeScaling, or None"
        )
        check_field(self, self.buckets % 2 == 0, "buckets", "an even number ≥ 4")
        allowed = f"a whole number above buckets / 2 = {self.buckets // 2}"
        check_field(self, self.max_distance > self.buckets // 2, "max_distance", allowed)

    def layer_base(self, window: int | None) -> float:
        """The rotary base of a layer with that window."""
        return self.base if window is None or self.window_base is None else self.window_base


LINEAR_BIASES = ("qkv", "out", "ff", "head")
"""The linear layers that may have a bias."""


class ModelConfig:
    """What the configurations of all models have in common, which are dataclasses."""

    def but(self, **changes: Any) -> Self:
        """A copy with some fields changed; unknown names raise TypeError."""
        return replace(self, **changes)  # type: ignore[type-var]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build from a dict as ``dataclasses.asdict`` makes it; an unknown key raises ValueError."""
        return from_keys(cls, values, "the configuration")


@dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """The architecture of a Transformer.  Checked on construction: an impossible combination raises ValueError."""

    vocab_size: int
    """size of the vocabulary; 0 for a model that reads image patches"""
    d_model: int = 128
    """width of the residual stream"""
    n_layers: int = 4
    """number of blocks"""
    n_heads: int = 4
    """attention heads per block"""
    n_kv_heads: int | None = None
    """key-value heads, if fewer than heads (grouped-query attention)"""
    d_head: int | None = None
    """width of one head, if not d_model / n_heads"""
    d_ff: int | None = None
    """hidden width of the feed-forward layer, if not 4 d_model (8/3 d_model when gated)"""
    max_length: int = 256
    """context length of the training; learned positions are undefined beyond it"""
    positions: Positions | str = "rotary"
    """one of ``Positions.KINDS``"""
    norm: Literal["layernorm", "rmsnorm"] = "rmsnorm"
    """layernorm or rmsnorm"""
    norm_order: Literal["pre", "post"] = "pre"
    """pre (GPT-2, Llama) or post (Vaswani, BERT)"""
    norm_eps: float = 1e-5
    """ε under the norm's root"""
    norm_parameters: Literal["both", "weight", "none"] = "weight"
    """which of γ and β the norms have; rmsnorm has no β"""
    activation: str = "silu"
    """relu, gelu, gelu_tanh, silu or relu2"""
    gated: bool = True
    """gate the feed-forward layer (SwiGLU with silu, GEGLU with gelu)"""
    bias: tuple[str, ...] = ()
    """which linear layers have a bias: any of qkv, out, ff, head"""
    tied: bool = True
    """use the token embedding as the output matrix too"""
    embedding_norm: bool = False
    """normalise the embeddings"""
    first_norm: bool = True
    """with pre-norm: normalise before the first attention too (ModernBERT does not)"""
    embedding_scale: bool = False
    """multiply token embeddings by √d_model (Vaswani)"""
    segments: int = 0
    """number of segments (sentence A, sentence B) with an embedding of their own"""
    window: int | tuple[int | None, ...] | None = None
    """attend only to keys nearer than this; one number, or one per layer (None: all keys)"""
    qk_norm: bool = False
    """normalise queries and keys, head by head"""
    logit_softcap: float | None = None
    """limit logits to ± this by tanh"""
    dropout: float = 0.0
    """probability of dropping an entry of a residual branch, an embedding or the attention weights in training"""

    def __post_init__(self) -> None:
        check = partial(check_field, self)
        if isinstance(self.positions, str):
            object.__setattr__(self, "positions", Positions(self.positions))  # type: ignore[arg-type]
        check(isinstance(self.positions, Positions), "positions", "one of " + ", ".join(Positions.KINDS))
        check_types(self, vocab_size=0, segments=0)
        check_number(self, "norm_eps")
        check_number(self, "logit_softcap")
        check(self.activation in ACTIVATIONS, "activation", "one of " + ", ".join(ACTIVATIONS))
        check(is_number(self.dropout) and 0 <= self.dropout < 1, "dropout", "a number from 0 to below 1")
        known = isinstance(self.bias, tuple) and set(self.bias) <= set(LINEAR_BIASES)
        check(known, "bias", "a tuple of any of " + ", ".join(LINEAR_BIASES))
        check(self.n_heads % self.kv_heads == 0, "n_kv_heads", f"a divisor of n_heads = {self.n_heads}")
        if self.d_head is None:
            check(self.d_model % self.n_heads == 0, "n_heads", f"a divisor of d_model = {self.d_model}")
        if self.position.kind == "rotary":
            if self.rotated < 2 or self.rotated % 2:
                raise ValueError(
                    f"d_model is {self.d_model} with n_heads = {self.n_heads}: rotary positions rotate {self.rotated} "
                    "entries of each head, but must rotate an even number of them, 2 or more"
                )
            scaling = self.position.scaling
            dynamic = scaling is not None and scaling.kind == "dynamic"
            check(self.rotated > 2 or not dynamic, "positions", "such that more than 2 entries rotate (dynamic)")
        per_layer = self.window if isinstance(self.window, tuple) else (self.window,) * self.n_layers
        fits = len(per_layer) == self.n_layers and all(near is None or is_whole(near, 1) for near in per_layer)
        check(fits, "window", f"a whole number ≥ 1 or None, or one for each of {self.n_layers} layers")
        check(self.first_norm or self.norm_order == "pre", "first_norm", "True unless norm_order is pre")

    @property
    def position(self) -> Positions:
        """``positions`` as a Positions object, also where it was given as a name."""
        if isinstance(self.positions, str):
            raise TypeError("positions was not read yet")
        return self.positions

    @property
    def kv_heads(self) -> int:
        """Number of key-value heads, with the default applied."""
        return self.n_kv_heads or self.n_heads

    @property
    def head_width(self) -> int:
        """Width of one head, with the default applied."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def hidden(self) -> int:
        """Width of the feed-forward layer, with the default applied: 4 D, or 8/3 D rounded up to 8 when gated."""
        return self.d_ff or (-(-8 * self.d_model // 24) * 8 if self.gated else 4 * self.d_model)

    @property
    def rotated(self) -> int:
        """The number of entries of each head that a rotary encoding rotates."""
        return int(self.head_width * self.position.fraction)

    def layer_window(self, layer: int) -> int | None:
        """The window of one layer, or None when it attends to all keys."""
        return self.window[layer] if isinstance(self.window, tuple) else self.window

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        values = dict(values)
        if isinstance(values.get("positions"), dict):
            position = dict(values["positions"])
            if isinstance(position.get("scaling"), dict):
                position["scaling"] = from_keys(RopeScaling, position["scaling"], "scaling")
            values["positions"] = from_keys(Positions, position, "positions")
        for name in ("bias", "window"):
            if isinstance(values.get(name), list):
                values[name] = tuple(values[name])
        return super().from_dict(values)


@dataclass(frozen=True)
class Patches:
    """The geometry of an image encoder; sizes are (height, width) in pixels.  Checked when built: ValueError."""

    image_size: tuple[int, int] = (224, 224)
    """the size of the training images"""
    patch_size: tuple[int, int] = (16, 16)
    """the size of a patch: one token"""
    channels: int = 3
    """3 for red, green and blue"""

    def __post_init__(self) -> None:
        for name in ("image_size", "patch_size"):
            value = getattr(self, name)
            sides = isinstance(value, tuple) and len(value) == 2 and all(is_whole(side, 1) for side in value)
            check_field(self, sides, name, "two whole numbers ≥ 1, height and width")
        check_field(self, is_whole(self.channels, 1), "channels", "a whole number ≥ 1")
        if self.image_size[0] < self.patch_size[0] or self.image_size[1] < self.patch_size[1]:
            raise ValueError(f"patch_size is {self.patch_size}, but must not exceed image_size = {self.image_size}")

    @property
    def tokens(self) -> int:
        """The number of tokens of an image: one for each whole patch, and the class token."""
        return (self.image_size[0] // self.patch_size[0]) * (self.image_size[1] // self.patch_size[1]) + 1

    @property
    def pixels(self) -> int:
        """The number of values in a patch."""
        return self.channels * self.patch_size[0] * self.patch_size[1]


def from_keys(kind: type, values: dict[str, Any], name: str) -> Any:
    """A dataclass of the fields in a dict; an unknown key raises ValueError."""
    known = sorted(field.name for field in fields(kind))
    if unknown := sorted(set(values) - set(known)):
        raise ValueError(f"unknown keys of {name}: {', '.join(unknown)}; known are {', '.join(known)}")
    return kind(**values)


def is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_field(config: Any, holds: bool, name: str, allowed: str) -> None:
    """Raise ValueError, with the value of a field and what is ``allowed``, unless the check ``holds``."""
    if not holds:
        raise ValueError(f"{name} is {getattr(config, name)!r}, but must be {allowed}")


def check_types(config: Any, **least: int) -> None:
    """Check the fields that are words, switches or whole numbers (from 1, or from ``least``) by their annotations."""
    for field in fields(config):
        name, kind, value = field.name, field.type, getattr(config, field.name)
        if get_origin(kind) is Literal:
            check_field(config, value in get_args(kind), name, "one of " + ", ".join(get_args(kind)))
        elif kind is bool:
            check_field(config, isinstance(value, bool), name, "True or False")
        elif kind in (int, int | None):
            bound, optional = least.get(name, 1), kind is not int
            known = is_whole(value, bound) or (optional and value is None)
            check_field(config, known, name, f"a whole number ≥ {bound}" + ", or None" * optional)


def check_number(config: Any, name: str, *, above: float = 0, up_to: float = math.inf) -> None:
    """Check that a field is a finite number in these bounds, or None where its annotation has that."""
    value, optional = getattr(config, name), any(f.name == name and f.type == float | None for f in fields(config))
    known = (is_number(value) and above < value <= up_to and value < math.inf) or (optional and value is None)
    allowed = f"a number above {above}" + f", up to {up_to}" * (up_to < math.inf) + ", or None" * optional
    check_field(config, known, name, allowed)
