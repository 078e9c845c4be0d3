"""What a family is: its ``config.json`` and its weights' names, to and from ours.

A family's file holds what is its own: the keys that mean one of our fields (``SAME``), the fields that it fixes
(``FIXED``), what else its configuration says (``quirks``, and ``unquirk`` back), its classes with their heads, and the
name table.  The general part is here.
"""

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headway.hub.table import Row
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, MaskedTokenHead
from headway.models.transformer import Encoder

Json = dict[str, Any]

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Their words for activations.  Of several for one of ours, the first is written."""


class Family(ABC):
    """A published model family."""

    model_type: ClassVar[str]
    """the name in config.json"""
    classes: ClassVar[tuple[str, ...]]
    """the classes of ``transformers`` that can be read; the first is assumed where none is named"""
    bare: ClassVar[str]
    """the class without a head"""
    prefix: ClassVar[str] = ""
    """what the bare model's weights begin with in the classes with a head; ``rows`` has them with it"""
    SAME: ClassVar[dict[str, tuple[str, Any]]] = {}
    """their key -> our field of the same value, and what ``transformers`` assumes where the key is left out"""
    FIXED: ClassVar[dict[str, Any]] = {}
    """our fields that have one value in this family"""
    ONLY: ClassVar[Json] = {"pruned_heads": {}, "quantization_config": None, "tie_encoder_decoder": False}
    """their key -> the only value that is supported where it is said"""
    ignored: ClassVar[tuple[str, ...]] = ()
    """patterns (regular expressions) of stored names that hold nothing a model needs: computed tables, old masks"""
    renamed: ClassVar[dict[str, str]] = {}
    """what a part of a stored name (a regular expression) was called in old files -> what it is called since"""

    def config(self, theirs: Json) -> TransformerConfig:
        """Our configuration (of the decoder, where there are two) for theirs.  Raises ValueError for what we lack."""
        refuse(theirs, **self.ONLY)
        fields = {ours: same(theirs, key, ours, default) for key, (ours, default) in self.SAME.items()}
        return TransformerConfig(**{**self.FIXED, **fields, **self.quirks(theirs)})

    def encoder_config(self, theirs: Json) -> TransformerConfig | None:
        """The configuration of an encoder-decoder's encoder, or None for the other wirings."""
        return None

    def quirks(self, theirs: Json) -> dict[str, Any]:
        """The fields that need more than ``SAME``.  Raises ValueError for what we cannot represent."""
        return {}

    def describe(self, model: nn.Module) -> Json | None:
        """Their ``config.json`` for a model of ours, or None when it is not of this family.

        Raises ValueError for a part, such as a head, that the family's configuration has no word for.  Whether the
        configuration says all that ours says is checked by reading it back.
        """
        entries = self.unquirk(model)
        if entries is None:
            return None
        config: Any = model.config
        theirs = {"model_type": self.model_type}
        for key, (field, _) in self.SAME.items():
            theirs[key] = unsame(config, field)
        return {**theirs, **entries}

    @abstractmethod
    def build(self, theirs: Json, names: Set[str]) -> nn.Module:
        """A model of the architecture that ``config.json`` names, weights not yet read.

        ``names`` are the weights that are there: some parts (a pooler) are there or not without a word elsewhere.
        """

    @abstractmethod
    def unquirk(self, model: nn.Module) -> Json | None:
        """What ``describe`` adds to ``SAME``, "architectures" among it; None for a model of another kind."""

    def ignores(self, theirs: Json) -> tuple[str, ...]:
        """``ignored``, with what this configuration adds."""
        return self.ignored

    def copies(self, theirs: Json) -> dict[str, str]:
        """Names under which files may hold a tensor once more -> the name of that tensor in ``rows``."""
        return {}

    def zeros(self, theirs: Json) -> dict[str, tuple[int, ...]]:
        """Names that files may leave out -> their shapes; such a tensor is then zero."""
        return {}

    def stored(self, weights: dict[str, Tensor], theirs: Json, config: TransformerConfig) -> dict[str, Tensor]:
        """The weights of a model, by their names, as the class that ``theirs`` names has them: no more and no fewer."""
        return weights

    def settle(self, model: nn.Module) -> None:  # noqa: B027  # most families add nothing
        """Take out of a model that was read what ``stored`` added to its files."""

    def special(self, theirs: Json) -> Json:
        """The ids of special tokens that are assumed where ``config.json`` leaves them out."""
        return {}

    @abstractmethod
    def rows(self, theirs: Json) -> list[Row]:
        """The name table."""

    def classification_head(
        self, config: TransformerConfig, n_classes: int, dropout: float = 0.0
    ) -> ClassificationHead:
        """A new classifier of this family's shape.  Raises ValueError where the family has none."""
        raise ValueError(f"{self.model_type} has no classifier")

    def masked_token_head(self, config: TransformerConfig, tokens: nn.Embedding) -> MaskedTokenHead:
        """A new masked-token head of this family's shape.  Raises ValueError where the family has none."""
        raise ValueError(f"{self.model_type} has no masked-token head")

    def reuse(self, model: Encoder, head: ClassificationHead) -> None:
        """Put into a new classifier what this family's classifier takes over from ``model``, and out of the model.

        Here the dense layer and the norm of a classifier that is there, whose classes are others.
        """
        model.pooler = None
        old = model.head
        if isinstance(old, ClassificationHead) and old.dense is not None:
            head.pooling, head.activation, head.dense, head.norm = old.pooling, old.activation, old.dense, old.norm


def same(theirs: Json, key: str, field: str, default: Any) -> Any:
    """The value of a key that means one of our fields, checked for its type.

    The numbers of key-value heads and the width of a head may be null: as many as heads, and what they leave for each.
    """
    if field in ("n_kv_heads", "d_head") and theirs.get(key, default) is None:
        return None
    if field in ("activation", "norm_eps", "dropout", "tied", "embedding_scale"):
        if field == "activation":
            return choice(theirs, key, ACTIVATIONS, default or "")
        return pick(theirs, key, float if field in ("norm_eps", "dropout") else bool, default)
    return pick(theirs, key, int, default)


def unsame(config: TransformerConfig, field: str) -> Any:
    """What a key that means one of our fields says."""
    if field == "activation":
        return next((theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation), config.activation)
    derived = {"d_ff": config.hidden, "n_kv_heads": config.kv_heads, "d_head": config.head_width}
    return derived.get(field, getattr(config, field))


def pick(theirs: Json, name: str, kind: type, default: Any = None) -> Any:
    """A value of ``config.json``, checked for its type; null counts as left out.  Raises ValueError naming the key."""
    value: Any = theirs.get(name)
    value = default if value is None else value
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (kind is not bool and isinstance(value, bool)):
        raise ValueError(f"{name} is {value!r}, expected {kind.__name__}")
    return float(value) if kind is float else value  # type: ignore


def at_least(theirs: Json, name: str, least: int, default: int | None = None) -> int:
    """A whole number of ``config.json`` from ``least`` on.  Raises ValueError naming the key."""
    value: int = pick(theirs, name, int, default)
    if value < least:
        raise ValueError(f"{name} is {value}, but must be at least {least}")
    return value


def choice(theirs: Json, name: str, known: dict[str, str], default: str) -> str:
    """Our word for theirs, by a table.  Raises ValueError naming the key when the table lacks it."""
    value = pick(theirs, name, str, default)
    if value not in known:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(known)}")
    return known[value]


def word(ours: str, known: dict[str, str] = ACTIVATIONS) -> str:
    """Their word for ours, by the same table; ours itself where the table lacks it, which reading back refuses."""
    return next((theirs for theirs, value in known.items() if value == ours), ours)


def check_head(family: Family, model: Encoder) -> None:
    """Raise ValueError unless an encoder's head, if it has one, is of the shape that the family makes."""
    config, head = model.config, model.head
    if head is None:
        return
    with torch.device("meta"):
        if isinstance(head, ClassificationHead):
            wanted: nn.Module = family.classification_head(config, head.out.out_features)
        elif isinstance(head, MaskedTokenHead):
            wanted = family.masked_token_head(config, nn.Embedding(config.vocab_size, config.d_model))
        else:
            raise ValueError(f"it has no {type(head).__name__}")
    wanted_names, names = ([name for name, _ in each.named_parameters()] for each in (wanted, head))
    if names != wanted_names:
        raise ValueError(f"its {type(head).__name__} has {', '.join(wanted_names)}, not {', '.join(names)}")
    for name in ("pooling", "activation"):
        found, expected = getattr(head, name, None), getattr(wanted, name, None)
        if found != expected:
            raise ValueError(f"its {type(head).__name__} has {name} {expected}, not {found}")


def refuse(theirs: Json, **wanted: Any) -> None:
    """Raise ValueError for a key with a value other than the only one that is supported; left out is fine."""
    for name, value in wanted.items():
        found = theirs.get(name)
        if found is not None and (found != value or isinstance(found, bool) != isinstance(value, bool)):
            raise ValueError(f"{name} {found!r} is not supported, only {value!r}")


def check_head_width(theirs: Json, width: int, heads: int) -> None:
    """Raise ValueError for a head_dim other than the width divided by the heads, in a family that has no other."""
    if heads > 0 and width % heads == 0:
        refuse(theirs, head_dim=width // heads)


def architecture(theirs: Json, known: tuple[str, ...]) -> str:
    """The class that ``config.json`` names (the first of ``known`` if none); another one raises ValueError."""
    names = pick(theirs, "architectures", list, [known[0]]) or [known[0]]
    if (found := names[0]) not in known:
        raise ValueError(f"architecture {found!r} is not one of {', '.join(known)}")
    return names[0]


def class_count(theirs: Json) -> int:
    """How many classes a classifier has; transformers assumes 2."""
    labels = theirs.get("id2label")
    if labels is not None and not isinstance(labels, dict):
        raise ValueError(f"id2label is {str(labels)[:60]!r}, expected an object of numbers and names")
    return len(labels) if labels else pick(theirs, "num_labels", int, 2)


def class_names(count: int) -> Json:
    """The entries of ``config.json`` for that many classes, before they are named."""
    labels = {str(i): f"LABEL_{i}" for i in range(count)}
    return {"id2label": labels, "label2id": {name: int(i) for i, name in labels.items()}}


def rope_base(base: float, parameters: Json) -> float:
    """The rotary base of one entry of ``rope_parameters``, else ``base``.  Other kinds of rope raise ValueError."""
    refuse(parameters, rope_type="default", partial_rotary_factor=1.0)
    return pick(parameters, "rope_theta", float, base)
