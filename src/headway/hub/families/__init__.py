"""Model families: the names of their configuration keys and of their weights, those with one table in one file."""

from typing import Any

from headway.hub.families.bart import M2M100, Bart, Marian
from headway.hub.families.bert import Bert, DistilBert, Roberta, XlmRoberta
from headway.hub.families.family import Family
from headway.hub.families.gpt2 import GPT2
from headway.hub.families.llama import Llama, Mistral, NanoChat, Qwen2, Qwen3
from headway.hub.families.modernbert import ModernBert
from headway.hub.families.t5 import T5
from headway.hub.families.vit import ViT

FAMILIES: tuple[Family, ...] = (
    *(NanoChat(), ModernBert(), Bert(), Roberta(), XlmRoberta(), DistilBert(), ViT()),
    *(GPT2(), Llama(), Mistral(), Qwen2(), Qwen3()),
    *(T5(), Bart(), Marian(), M2M100()),
)
"""The order in which they are tried for a model to be saved."""


def family_named(model_type: Any) -> Family:
    """The family with this ``model_type``.  Raises ValueError if there is none."""
    for family in FAMILIES:
        if family.model_type == model_type:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise ValueError(f"model_type {model_type!r} is not one of {known}")
