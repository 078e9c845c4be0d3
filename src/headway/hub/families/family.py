"""The interface of a model family: its ``config.json`` and its weight names, to and from ours.

The file of a family holds what is specific to it: the keys that correspond to our fields (``SAME``), the fields that it
fixes (``FIXED``), the rest of its configuration (``quirks``, and the inverse ``unquirk``), its classes with their
heads, and the name table.  The general part is here.
"""

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headway.hub.name_table import Row
from headway.models.config import TransformerConfig
from headway.models.heads import CLASSES, HEADS, Gives, VectorHead, gives, n_outputs
from headway.models.size import Wiring
from headway.models.transformer import Encoder

Json = dict[str, Any]

HEAD_NAMES = {
    Gives.VOCABULARY: "masked-token head",
    Gives.TOKEN: "classifier of tokens",
    Gives.ROW: "classifier",
}
"""What messages call a head that some families lack."""
TAKEN_OVER = ("pooling", "activation", "dense", "norm")
"""What a new classifier takes over from one whose classes are others."""

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
"""Their names of activations.  Of several for one of ours, the first is written."""


class Family(ABC):
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
    SPECIAL: ClassVar[Json] = {}
    """ids of special tokens that transformers assumes if ``config.json`` omits them"""
    prefix: ClassVar[str] = ""
    """the prefix of the bare model's weights in the classes with a head; ``rows`` includes it"""
    transposed: ClassVar[bool] = False
    """whether the matrices of blocks are stored (input, output) instead of (output, input)"""
    SAME: ClassVar[dict[str, tuple[str, Any]]] = {}
    """their key -> our field of the same value, and the default of ``transformers``"""
    FIXED: ClassVar[dict[str, Any]] = {}
    """our fields that have a fixed value in this family"""
    ONLY: ClassVar[Json] = {"pruned_heads": {}, "quantization_config": None, "tie_encoder_decoder": False}
    """their key -> the only supported value, if the key is present"""
    ignored: ClassVar[tuple[str, ...]] = ()
    """patterns (regular expressions) of stored names that no model needs: computed tables, old masks"""
    renamed: ClassVar[dict[str, str]] = {}
    """part of a stored name (a regular expression) in old files -> its name since"""

    def config(self, theirs: Json) -> TransformerConfig:
        """Our configuration (the decoder's, if there are two) for theirs.  Raises ValueError if unsupported."""
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
        """Their ``config.json`` for a model of ours, or None if it is not of this family.

        Raises ValueError for a part, such as a head, that the family's configuration cannot express.  Whether the
        configuration expresses everything in ours is checked by reading it back.
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
        """A model of the architecture in ``config.json``, without its weights.

        ``names`` are the stored weights: they alone show whether some parts (a pooler) exist.
        """

    @abstractmethod
    def unquirk(self, model: nn.Module) -> Json | None:
        """What ``describe`` adds to ``SAME``, including "architectures"; None for a model of another kind."""

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

    def settle(self, model: nn.Module) -> None:  # noqa: B027  # most families add nothing
        """Remove from a loaded model what ``stored`` added to its files."""

    def special(self, theirs: Json) -> Json:
        """The ids of special tokens that are assumed if ``config.json`` omits them."""
        return self.SPECIAL

    @abstractmethod
    def rows(self, theirs: Json) -> list[Row]:
        """The name table."""

    def architecture(self, theirs: Json) -> str:
        """The class in ``config.json`` (by default the first).  Raises ValueError for an unknown one."""
        known = (*self.classes.values(), *self.others)
        names = pick(theirs, "architectures", list, [known[0]]) or [known[0]]
        if (found := names[0]) not in known:
            raise ValueError(f"architecture {found!r} is not one of {', '.join(known)}")
        return names[0]

    def gives(self, theirs: Json) -> Gives:
        """What a model of that class gives."""
        return ({name: result for result, name in self.classes.items()} | self.others)[self.architecture(theirs)]

    def head(
        self, result: Gives, config: TransformerConfig, outputs: int | nn.Embedding | None = None, dropout: float = 0.0
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
        return head_type(config, outputs, **more, **self.shapes.get(result, {}))

    def reuse(self, model: Encoder, head: Any) -> None:
        """Move the parts that this family's classifier reuses from ``model`` to a new classifier.

        By default: the dense layer and the norm of an existing classifier of the same kind with other classes.
        """
        model.pooler = None
        old: Any = model.head
        if type(old) is type(head) and old.dense is not None:
            for name in TAKEN_OVER:
                if hasattr(old, name):
                    setattr(head, name, getattr(old, name))


def same(theirs: Json, key: str, field: str, default: Any) -> Any:
    """The value of a key that corresponds to one of our fields, checked for its type.

    The number of key-value heads and the width of a head may be null: the number of heads, and the width they divide.
    """
    if field in ("n_kv_heads", "d_head") and theirs.get(key, default) is None:
        return None
    if field in ("activation", "norm_eps", "dropout", "tied", "embedding_scale"):
        if field == "activation":
            return choice(theirs, key, ACTIVATIONS, default or "")
        return pick(theirs, key, float if field in ("norm_eps", "dropout") else bool, default)
    return pick(theirs, key, int, default)


def unsame(config: TransformerConfig, field: str) -> Any:
    """The value of a key that corresponds to one of our fields."""
    if field == "activation":
        return word(config.activation)
    derived = {"d_ff": config.hidden, "n_kv_heads": config.kv_heads, "d_head": config.head_width}
    return derived.get(field, getattr(config, field))


def pick(theirs: Json, name: str, kind: type, default: Any = None) -> Any:
    """A value of ``config.json``, checked for its type; null counts as missing.  Raises ValueError naming the key."""
    value: Any = theirs.get(name)
    value = default if value is None else value
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (kind is not bool and isinstance(value, bool)):
        raise ValueError(f"{name} is {value!r}, expected {kind.__name__}")
    return float(value) if kind is float else value  # type: ignore


def at_least(theirs: Json, name: str, least: int, default: int | None = None) -> int:
    """A whole number of ``config.json``, at least ``least``.  Raises ValueError naming the key."""
    value: int = pick(theirs, name, int, default)
    if value < least:
        raise ValueError(f"{name} is {value}, but must be at least {least}")
    return value


def choice(theirs: Json, name: str, known: dict[str, str], default: str) -> str:
    """Our name for theirs, by a table.  Raises ValueError naming the key if the table lacks it."""
    value = pick(theirs, name, str, default)
    if value not in known:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(known)}")
    return known[value]


def word(ours: str, known: dict[str, str] = ACTIVATIONS) -> str:
    """Their name for ours, by the same table; ours itself if the table lacks it, which reading back refuses."""
    return next((theirs for theirs, value in known.items() if value == ours), ours)


def check_head(family: Family, model: Encoder) -> None:
    """Raise ValueError unless an encoder's head, if any, has the structure of the family's head."""
    config, head, result = model.config, model.head, gives(model)
    if head is None:
        return
    if result not in family.classes:
        raise ValueError(f"it has no {type(head).__name__}")
    with torch.device("meta"):
        outputs = n_outputs(model) or nn.Embedding(config.vocab_size, config.d_model)
        wanted: nn.Module = family.head(result, config, outputs)
    wanted_names, names = ([name for name, _ in each.named_parameters()] for each in (wanted, head))
    if names != wanted_names:
        raise ValueError(f"its {type(head).__name__} has {', '.join(wanted_names)}, not {', '.join(names)}")
    for name in ("pooling", "activation"):
        found, expected = getattr(head, name, None), getattr(wanted, name, None)
        if found != expected:
            raise ValueError(f"its {type(head).__name__} has {name} {expected}, not {found}")


def refuse(theirs: Json, **wanted: Any) -> None:
    """Raise ValueError for a key with a value other than the only one supported; a missing key is fine."""
    for name, value in wanted.items():
        found = theirs.get(name)
        if found is not None and (found != value or isinstance(found, bool) != isinstance(value, bool)):
            raise ValueError(f"{name} {found!r} is not supported, only {value!r}")


def check_head_width(theirs: Json, width: int, heads: int) -> None:
    """Raise ValueError for a head_dim other than width / heads, in a family that supports no other."""
    if heads > 0 and width % heads == 0:
        refuse(theirs, head_dim=width // heads)


def class_count(theirs: Json) -> int:
    """The number of classes of a classifier; transformers assumes 2."""
    labels = theirs.get("id2label")
    if labels is not None and not isinstance(labels, dict):
        raise ValueError(f"id2label is {str(labels)[:60]!r}, expected an object of numbers and names")
    return len(labels) if labels else pick(theirs, "num_labels", int, 2)


def class_names(count: int) -> Json:
    """The entries of ``config.json`` for that many classes, before they are named."""
    labels = {str(i): f"LABEL_{i}" for i in range(count)}
    return {"id2label": labels, "label2id": {name: int(i) for i, name in labels.items()}}


def rope_base(base: float, parameters: Json) -> float:
    """The rotary base of one entry of ``rope_parameters``, else ``base``.  Raises ValueError for other ropes."""
    refuse(parameters, rope_type="default", partial_rotary_factor=1.0)
    return pick(parameters, "rope_theta", float, base)
