"""Architectures that Transformers are compared with, in the same wirings: recurrent, convolutional, bag of words.

    RecurrentDecoder          a language model               RNN, LSTM or GRU
    BaselineEncoder           a classifier's vectors         the same in both directions, CNN (Kim 2014), bag of words
    RecurrentEncoderDecoder   a translator                   the same with additive attention (Bahdanau et al. 2015)

Each has the signature of the Transformer whose class it extends, so tasks, training, generation and pipelines use it
without changes; its state has ``reorder``, as caches have.

Letters: B batch, T length (target), S source length, D width, V vocabulary, C classes.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from headway.models.config import ModelConfig, check_field, check_types
from headway.models.heads import ClassificationHead, TokenHead, pool
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.baselines import (
    CELLS,
    AdditiveAttention,
    AttentionPooling,
    Convolutions,
    Recurrent,
    RecurrentState,
)
from headway.nn.dropout import Dropout

KINDS = (*CELLS, "cnn", "bow")


@dataclass(frozen=True)
class BaselineConfig(ModelConfig):
    """The architecture of a baseline.  Checked on construction: an impossible value raises ValueError."""

    kind: str
    """rnn, lstm, gru, cnn or bow"""
    vocab_size: int
    """size of the vocabulary"""
    d_model: int = 128
    """width of the token vectors and of each layer's output"""
    n_layers: int = 1
    """recurrent layers; 1 for a CNN and for a bag of words"""
    max_length: int = 256
    """context length of the training"""
    tied: bool = True
    """use the token embedding as the output matrix too"""
    dropout: float = 0.0
    """probability of dropping an entry before each layer and before the head in training"""
    widths: tuple[int, ...] = (3, 4, 5)
    """cnn: how many tokens its filters span"""

    bias: ClassVar[tuple[str, ...]] = ("head",)
    logit_softcap: ClassVar[None] = None

    def __post_init__(self) -> None:
        check = partial(check_field, self)
        check(self.kind in KINDS, "kind", "one of " + ", ".join(KINDS))
        check_types(self)
        check(self.recurrent or self.n_layers == 1, "n_layers", f"1 for {self.kind}")
        check(not self.recurrent or self.d_model % 2 == 0, "d_model", "even: each direction gets half of it")
        known = isinstance(self.dropout, int | float) and 0 <= self.dropout < 1
        check(known, "dropout", "a number from 0 to below 1")
        whole = isinstance(self.widths, tuple) and all(isinstance(w, int) and 1 <= w <= 64 for w in self.widths)
        check(whole and bool(self.widths), "widths", "a tuple of whole numbers from 1 to 64")
        check(self.kind != "cnn" or self.d_model >= len(self.widths), "d_model", "at least one for each of widths")

    @property
    def recurrent(self) -> bool:
        """Whether it reads token by token."""
        return self.kind in CELLS

    @property
    def described(self) -> str:
        """What the model is, for messages."""
        return f"a baseline ({self.kind})"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return super().from_dict({**values, "widths": tuple(values.get("widths", cls.widths))})


class TokenVectors(nn.Module):
    """The token embedding."""

    def __init__(self, config: BaselineConfig):
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) int -> (B, T, D)."""
        return self.tokens(ids)


class BaselineStack(nn.Module):
    """Token vectors and the layers over them: the baselines' counterpart of ``Stack``.

    With ``both`` a recurrent stack reads in both directions, each with half of the width.
    """

    def __init__(self, config: BaselineConfig, *, both: bool):
        super().__init__()
        self.config = config
        self.embedding = TokenVectors(config)
        width = config.d_model
        layers: list[nn.Module] = []
        if config.recurrent:
            state = width // 2 if both else width
            kind: Any = config.kind
            layers = [Recurrent(kind, width, state, both=both) for _ in range(config.n_layers)]
        elif config.kind == "cnn":
            layers = [Convolutions(width, width, config.widths)]
        self.blocks = nn.ModuleList(layers)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        state: RecurrentState | None = None,
        *,
        segments: Tensor | None = None,
    ) -> Tensor:
        """(B, T) int -> (B, T, D).  With a state, ``ids`` and ``mask`` continue what it has read.

        Raises ValueError for segments, which these models do not have.
        """
        if segments is not None:
            raise ValueError(f"{self.config.kind} has no embedding of segments")
        x = self.dropout(self.embedding(ids))
        for number, layer in enumerate(self.blocks):
            if isinstance(layer, Recurrent):
                x, memory = layer(x, mask, None if state is None else state.layers[number])
                if state is not None:
                    state.layers[number] = memory
            else:
                x = layer(x, mask)
            x = self.dropout(x)
        if state is not None:
            state.length += ids.shape[1]
        return x


class RecurrentDecoder(Decoder):
    """A language model of stacked RNN, LSTM or GRU layers."""

    def __init__(self, config: BaselineConfig):
        nn.Module.__init__(self)
        if not config.recurrent:
            raise ValueError(f"{config.kind} cannot predict the next token: it reads all tokens at once")
        own: Any = config
        self.config = own
        self.stack: Any = BaselineStack(config, both=False)
        self.head = TokenHead(own, self.stack.embedding.tokens)

    def new_state(self) -> Any:
        """An empty state, to pass to every call that continues the same sequences."""
        return RecurrentState(self.config.n_layers)


class BaselineEncoder(Encoder):
    """Vectors of tokens in the context of both sides (bag of words: without context), and a head."""

    def __init__(self, config: BaselineConfig, head: nn.Module | None = None):
        nn.Module.__init__(self)
        own: Any = config
        self.config = own
        self.patches = self.pooler = None
        self.stack: Any = BaselineStack(config, both=True)
        self.head = head


class BaselineClassificationHead(ClassificationHead):
    """Pool as suits the model, then compute one logit per class.

    Recurrent: attention over the tokens; CNN: the maximum of each filter; bag of words: the mean.
    """

    def __init__(self, config: BaselineConfig, n_classes: int):
        own: Any = config
        super().__init__(own, n_classes, dense=False, dropout=config.dropout)
        self.kind = config.kind
        self.attention = AttentionPooling(config.d_model) if config.recurrent else None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, C)."""
        if self.attention is not None:
            x = self.attention(x, mask)
        elif self.kind == "cnn":
            x = (x if mask is None else x.masked_fill(~mask[..., None], -torch.inf)).amax(dim=1)
        else:
            x = pool(x, mask, "mean")
        return self.out(self.dropout(x))


class RecurrentEncoderDecoder(EncoderDecoder):
    """A translation model: a bidirectional recurrent encoder, and a decoder that attends to its output.

    The decoder starts from the mean of the encoded source.  Its state attends to the source by additive attention, and
    both together give the next token (in the order of Luong et al. 2015, which computes all of a target at once).
    """

    def __init__(self, config: BaselineConfig):
        nn.Module.__init__(self)
        if not config.recurrent:
            raise ValueError(f"{config.kind} cannot write a text: it reads all tokens at once")
        own: Any = config
        self.config = self.encoder_config = own
        self.encoder: Any = BaselineStack(config, both=True)
        self.decoder: Any = BaselineStack(config, both=False)
        self.shared = True
        self.encoder.embedding.tokens.weight = self.decoder.embedding.tokens.weight
        width = config.d_model
        self.begin = nn.Linear(width, width)
        self.attention = AdditiveAttention(width, width, width)
        self.combine = nn.Linear(2 * width, width)
        self.head = TokenHead(own, self.decoder.embedding.tokens)

    def new_state(self) -> Any:
        """An empty state for ``decode``; it keeps the source."""
        return RecurrentState(self.config.n_layers)

    def _read(
        self, target_ids: Tensor, mask: Tensor | None, source: Tensor, source_mask: Tensor | None, state: Any
    ) -> Tensor:
        state = self.new_state() if state is None else state
        if state.source is None:
            state.source, state.source_mask = source, source_mask
            first = torch.tanh(self.begin(pool(source, source_mask, "mean")))[None]  # (1, B, D)
            memory = (first, torch.zeros_like(first)) if self.decoder.config.kind == "lstm" else (first,)
            state.layers = [memory] * self.config.n_layers
        x = self.decoder(target_ids, mask, state)
        context, _ = self.attention(x, state.source, state.source_mask)
        return torch.tanh(self.combine(torch.cat([x, context], dim=-1)))
