"""A model family: its ``config.json`` and its weight names, to and from ours.

The file of a family holds what is specific to it, as tables: the keys of our fields (``KEYS``) and their defaults, its
classes, the names of its modules.  What a table cannot say is in ``read_config`` and the inverse ``write_config``.
"""

import re
from collections.abc import Set
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headway.hub.families.entries import (
    ACTIVATIONS,
    Json,
    choice,
    class_count,
    class_names,
    pick,
    read_field,
    refuse,
    word,
    written_field,
)
from headway.hub.name_table import Names, Row, name_rows, within
from headway.models.config import LINEAR_BIASES, TransformerConfig
from headway.models.heads import CLASSES, HEADS, Gives, Pooler, TokenHead, VectorHead, gives, n_outputs
from headway.models.size import Wiring
from headway.models.transformer import Decoder, Encoder, EncoderDecoder

ENCODER = {
    **{Gives.HIDDEN: "Model", Gives.VOCABULARY: "ForMaskedLM"},
    **{Gives.ROW: "ForSequenceClassification", Gives.TOKEN: "ForTokenClassification"},
}
DECODER = {Gives.VOCABULARY: "ForCausalLM", Gives.HIDDEN: "Model", Gives.ROW: "ForSequenceClassification"}
ENCODER_DECODER = {Gives.VOCABULARY: "ForConditionalGeneration", Gives.HIDDEN: "Model"}
"""The endings of a family's classes in ``transformers``, by what their models give."""
MODELS = {"encoder": Encoder, "decoder": Decoder, "encoder-decoder": EncoderDecoder}
HEAD_NAMES = {
    Gives.VOCABULARY: "masked-token head",
    Gives.TOKEN: "classifier of tokens",
    Gives.ROW: "classifier",
}
"""What messages call a head that some families lack."""
TAKEN_OVER = ("pooling", "activation", "dense", "norm")
"""What a new classifier takes over from one whose classes are others."""


def classes_of(name: str, endings: dict[Gives, str]) -> dict[Gives, str]:
    """The classes of a family by what their models give; the first is the default."""
    return {result: name + ending for result, ending in endings.items()}


class Family:
    """A published model family."""

    model_type: ClassVar[str]
    """the name in config.json"""
    wiring: ClassVar[Wiring]
    classes: ClassVar[dict[Gives, str]]
    """what a model gives -> its class of ``transformers``; the first is the default"""
    others: ClassVar[dict[str, Gives]] = {}
    """further classes that can be read -> what their models give"""
    shapes: ClassVar[dict[Gives, Json]] = {}
    """what a head gives -> the keywords of its class that differ from their defaults"""
    dropouts: ClassVar[dict[Gives, tuple[str | None, float | None]]] = {}
    """for each classifier, their key for its dropout, if any, and the default (None: the model's own dropout)"""
    pools: ClassVar[tuple[Gives, ...]] = ()
    """what the classes with a pooler give; ``transformers`` initialises one at random if the files have none"""
    one_dense: ClassVar[bool] = False
    """whether a classifier starts with the dense layer and the norm of the masked-token head"""
    prefix: ClassVar[str] = ""
    """the prefix of the bare model's weights in the classes with a head"""
    transposed: ClassVar[bool] = False
    """whether the matrices of blocks are stored (input, output) instead of (output, input)"""

    KEYS: ClassVar[dict[str, str]] = {
        **{"d_model": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads"},
        **{"n_kv_heads": "num_key_value_heads", "d_head": "head_dim", "d_ff": "intermediate_size"},
        **{"max_length": "max_position_embeddings", "segments": "type_vocab_size", "activation": "hidden_act"},
        **{"norm_eps": "layer_norm_eps", "dropout": "hidden_dropout_prob", "tied": "tie_word_embeddings"},
    }
    """our field -> their key for the same value; others have the same name"""
    DEFAULTS: ClassVar[dict[str, Any]] = {}
    """our fields that have a key -> the default of ``transformers``"""
    BIASES: ClassVar[dict[str, tuple[tuple[str, ...], bool]]] = {}
    """their key -> our biases that it adds to those in ``FIXED``, and whether it does by default"""
    FIXED: ClassVar[dict[str, Any]] = {}
    """our fields that have a fixed value in this family"""
    REQUIRED: ClassVar[Json] = {"pruned_heads": {}, "quantization_config": None, "tie_encoder_decoder": False}
    """their key -> the only supported value, if the key is present"""
    WRITTEN: ClassVar[Json] = {}
    """entries that are always written, such as the ids of a model without named tokens"""
    SPECIAL: ClassVar[Json] = {}
    """ids of special tokens that transformers assumes if ``config.json`` omits them"""

    NAMES: ClassVar[Names] = {}
    """our modules -> theirs in the bare model, without ``prefix``"""
    block: ClassVar[str] = ""
    BLOCK: ClassVar[Names] = {}
    """the start of their names in a block, where {i} is its number, and the modules of a block, ours -> theirs"""
    HEADS: ClassVar[dict[Gives, Names]] = {}
    """what a model gives -> the modules of its head, ours -> theirs"""
    ignored: ClassVar[tuple[str, ...]] = ()
    """patterns (regular expressions) of stored names that no model needs: computed tables, old masks"""
    renamed: ClassVar[dict[str, str]] = {}
    """part of a stored name (a regular expression) in old files -> its name since"""

    @property
    def keys(self) -> dict[str, str]:
        """Our fields that have a key -> the key."""
        return {ours: self.KEYS.get(ours, ours) for ours in self.DEFAULTS}

    def config(self, theirs: Json) -> TransformerConfig:
        """Our configuration (the decoder's, if there are two) for theirs.  Raises ValueError if unsupported."""
        refuse(theirs, **self.REQUIRED)
        fields = {ours: read_field(theirs, key, ours, self.DEFAULTS[ours]) for ours, key in self.keys.items()}
        biases = set(self.FIXED.get("bias", ()))
        for key, (names, default) in self.BIASES.items():
            biases |= set(names) if pick(theirs, key, bool, default) else set()
        fields["bias"] = tuple(name for name in LINEAR_BIASES if name in biases)
        return TransformerConfig(**{**self.FIXED, **fields, **self.read_config(theirs)})

    def encoder_config(self, theirs: Json) -> TransformerConfig | None:
        """The configuration of an encoder-decoder's encoder, or None for the other wirings."""
        return None

    def read_config(self, theirs: Json) -> dict[str, Any]:
        """The fields that need more than ``KEYS``.  Raises ValueError for what we cannot represent."""
        return {}

    def write_config(self, model: Any) -> Json:
        """Their entries for what ``read_config`` reads."""
        return {}

    def describe(self, model: nn.Module) -> Json | None:
        """Their ``config.json`` for a model of ours, or None if it is not of this family.

        Raises ValueError for a part, such as a head, that the family's configuration cannot express.  Whether the
        configuration expresses everything in ours is checked by reading it back.
        """
        if not self.has(model):
            return None
        config: Any = model.config
        if (result := gives(model)) not in self.classes:
            raise ValueError(f"it has no {type(model.head).__name__}")
        theirs = {
            "model_type": self.model_type,
            **{key: written_field(config, ours) for ours, key in self.keys.items()},
            **{key: names[0] in config.bias for key, (names, _) in self.BIASES.items()},
            "architectures": [self.classes[result]],
            **(class_names(n_outputs(model)) if result in CLASSES else {}),
            **self.WRITTEN,
            **self.write_head(model),
            **self.write_config(model),
        }
        self._check_head(model, theirs)
        return theirs

    def has(self, model: nn.Module) -> bool:
        """Whether a model is of this family's kind."""
        return isinstance(model, MODELS[self.wiring])

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        """A model of the architecture in ``config.json``, without its weights.

        ``names`` are the stored weights: they alone show whether some parts (a pooler) exist.
        """
        result, config = self.gives(theirs), self.config(theirs)
        model = self.bare(config, theirs)
        stack = model.decoder if isinstance(model, EncoderDecoder) else model.stack
        outputs = class_count(theirs) if result in CLASSES else stack.embedding.tokens
        model.head = self.head(result, config, outputs, **self.read_head(theirs, config))
        return model

    def bare(self, config: TransformerConfig, theirs: Json) -> Any:
        """The model without the head of its class."""
        return MODELS[self.wiring](config)

    def read_head(self, theirs: Json, config: TransformerConfig) -> Json:
        """The keywords of the head in ``config.json``: its dropout, by its key or what it is without that."""
        key, default = self.dropouts.get(self.gives(theirs), (None, 0.0))
        usual = config.dropout if default is None else default
        return {"dropout": usual if key is None else pick(theirs, key, float, usual)}

    def write_head(self, model: Any) -> Json:
        """Their entries for what ``read_head`` reads."""
        key = self.dropouts.get(gives(model), (None,))[0]
        return {} if key is None else {key: model.head.dropout.p}

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        """``ignored``, and the additions for this configuration."""
        return self.ignored

    def copies(self, theirs: Json) -> dict[str, str]:
        """Names under which files may store a tensor again -> the name of that tensor in ``rows``."""
        return {}

    def zeros(self, theirs: Json) -> dict[str, tuple[int, ...]]:
        """Names that files may omit -> their shapes; such a tensor is zero."""
        return {}

    def stored(self, weights: dict[str, Tensor], theirs: Json, config: TransformerConfig) -> dict[str, Tensor]:
        """The weights of a model, by their names, exactly as the class in ``theirs`` has them: no more and no fewer."""
        return weights

    def settle(self, model: nn.Module) -> None:
        """Remove from a loaded model what ``stored`` added to its files."""

    def special(self, theirs: Json) -> Json:
        """The ids of special tokens that are assumed if ``config.json`` omits them."""
        return self.SPECIAL

    def rows(self, theirs: Json) -> list[Row]:
        """The name table."""
        block = within("stack.blocks.{i}.", self.prefix + self.block, self.BLOCK)
        return name_rows({**within("", self.prefix, self.NAMES), **block, **self.HEADS.get(self.gives(theirs), {})})

    def architecture(self, theirs: Json) -> str:
        """The class in ``config.json`` (by default the first).  Raises ValueError for an unknown one."""
        known = (*self.classes.values(), *self.others)
        name = (pick(theirs, "architectures", list, [known[0]]) or known)[0]
        if name not in known:
            raise ValueError(f"architecture {name!r} is not one of {', '.join(known)}")
        return str(name)

    def gives(self, theirs: Json) -> Gives:
        """What a model of that class gives."""
        return ({name: result for result, name in self.classes.items()} | self.others)[self.architecture(theirs)]

    def head(
        self,
        result: Gives,
        config: TransformerConfig,
        outputs: int | nn.Embedding | None = None,
        dropout: float = 0.0,
        **shape: Any,
    ) -> Any:
        """A new head of this family's shape, with so many outputs, or with the table of tokens as its last matrix.

        None where the vectors of tokens need none.  Raises ValueError where the family has no such head.
        """
        if result not in self.classes:
            raise ValueError(f"{self.model_type} has no {HEAD_NAMES[result]}")
        if result is Gives.HIDDEN:
            return None if self.wiring == "encoder" else VectorHead()
        more = {"dropout": dropout} if result in CLASSES else {}
        head_type: Any = HEADS[self.wiring][result]
        return head_type(config, outputs, **more, **{**self.shapes.get(result, {}), **shape})

    def reuse(self, model: Encoder, head: Any) -> None:
        """Move the parts that this family's classifier reuses from ``model`` to a new classifier.

        They are the pooler, where it is the start of the classifier; else the dense layer and the norm of an existing
        classifier of the same kind with other classes, or of the masked-token head where they are the same.
        """
        if isinstance(model.pooler, Pooler) and head.gives in self.pools:
            head.dense = model.pooler.dense
        model.pooler = None
        old: Any = model.head
        same = type(old) is type(head) or (self.one_dense and gives(model) is Gives.VOCABULARY)
        if same and old.dense is not None:
            for name in TAKEN_OVER:
                if hasattr(old, name):
                    setattr(head, name, getattr(old, name))

    def _check_head(self, model: Any, theirs: Json) -> None:
        """Raise ValueError unless a model's head, if any, is the one that ``theirs`` describes."""
        config, head = model.config, model.head
        if head is None or (self.wiring != "encoder" and isinstance(head, TokenHead | VectorHead)):
            return
        with torch.device("meta"):
            outputs = n_outputs(model) or nn.Embedding(config.vocab_size, config.d_model)
            wanted: Any = self.head(gives(model), config, outputs, **self.read_head(theirs, config))
        if wanted is None:
            return
        wanted_names, names = ([name for name, _ in each.named_parameters()] for each in (wanted, head))
        if names != wanted_names:
            raise ValueError(f"its {type(head).__name__} has {', '.join(wanted_names)}, not {', '.join(names)}")
        for name in ("pooling", "activation") if getattr(head, "dense", None) is not None else ("pooling",):
            value, expected = getattr(head, name, None), getattr(wanted, name, None)
            if value != expected:
                raise ValueError(f"its {type(head).__name__} has {name} {expected}, not {value}")


class EncoderFamily(Family):
    """A family of encoders: a bare class, and with heads for masked tokens, classes of texts and classes of tokens."""

    wiring = "encoder"
    REQUIRED: ClassVar = {
        **{**Family.REQUIRED, "is_causal": False, "is_encoder_decoder": False, "add_cross_attention": False},
        **{"position_embedding_type": "absolute", "is_decoder": False},
    }
    dropouts: ClassVar = dict.fromkeys(CLASSES, ("classifier_dropout", None))
    attention_dropout: ClassVar[str | None] = "attention_probs_dropout_prob"
    """their key for the dropout of attention weights, which must equal the dropout of everything else"""
    pooler_key: ClassVar[str | None] = None
    """their key for the activation of the pooler; None where it is tanh"""

    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        model: Any = super().build(theirs, names)
        stored = Gives.HIDDEN in self.pools and f"{self.prefix}pooler.dense.weight" in names
        if stored and self.gives(theirs) not in CLASSES:
            key = self.pooler_key
            model.pooler = Pooler(model.config, "tanh" if key is None else choice(theirs, key, ACTIVATIONS, "tanh"))
        return model

    def has(self, model: nn.Module) -> bool:
        return isinstance(model, Encoder) and model.patches is None

    def describe(self, model: nn.Module) -> Json | None:
        theirs = super().describe(model)
        ending = getattr(getattr(model, "pooler", None), "activation", "tanh")
        if theirs is not None and self.pooler_key is not None:
            theirs[self.pooler_key] = word(ending)
        elif theirs is not None and ending != "tanh":
            raise ValueError(f"its pooler ends with tanh, not {ending}")
        return theirs

    def write_head(self, model: Any) -> Json:
        dropout = {} if self.attention_dropout is None else {self.attention_dropout: model.config.dropout}
        return {**dropout, **super().write_head(model)}

    def stored(self, weights: dict[str, Tensor], theirs: Json, config: TransformerConfig) -> dict[str, Tensor]:
        """With a pooler for the class that has one, zeros if the model has none; without a pooler for the others."""
        result, name, width = self.gives(theirs), f"{self.prefix}pooler.dense", config.d_model
        if result is Gives.HIDDEN:
            empty = {f"{name}.weight": torch.zeros(width, width), f"{name}.bias": torch.zeros(width)}
            return {**(empty if result in self.pools else {}), **weights}
        if result in self.pools:
            return weights
        return {key: tensor for key, tensor in weights.items() if not key.startswith(f"{name}.")}

    def settle(self, model: nn.Module) -> None:
        pooler = getattr(model, "pooler", None)
        if pooler is not None and not any(p.any() for p in pooler.parameters()):
            model.pooler = None  # type: ignore[assignment]

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        """The ignored names, including a pooler in a classifier's file whose class does not use it."""
        if (result := self.gives(theirs)) not in CLASSES or result in self.pools:
            return self.ignored
        return (*self.ignored, re.escape(self.prefix) + r"pooler\..*")


class DecoderFamily(Family):
    """A family of decoders: with logits, without a head, and (if there is such a class) with classes.

    The class without a head returns the normalised vectors of the last layer (``VectorHead``).  The one with classes
    uses the last token's vector: transformers finds that token by ``pad_token_id``, which it needs for batches, Headway
    by the mask.
    """

    wiring = "decoder"
    REQUIRED: ClassVar = {
        **{**Family.REQUIRED, "is_causal": True, "is_encoder_decoder": False, "add_cross_attention": False}
    }
    WRITTEN: ClassVar = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    HEADS: ClassVar = {Gives.VOCABULARY: {"head.matrix": "lm_head"}, Gives.ROW: {"head.out": "score"}}
    shapes: ClassVar = {Gives.ROW: {"pooling": "last", "dense": False, "out_bias": False}}
