"""One file per model family: the names of its configuration keys and of its weights."""

from headway.hub.families.bart import BART
from headway.hub.families.bert import BERT
from headway.hub.families.distilbert import DISTILBERT
from headway.hub.families.family import Family
from headway.hub.families.gpt2 import GPT_2
from headway.hub.families.llama import LLAMA
from headway.hub.families.m2m_100 import M2M_100
from headway.hub.families.marian import MARIAN
from headway.hub.families.mistral import MISTRAL
from headway.hub.families.modernbert import MODERNBERT
from headway.hub.families.nanochat import NANOCHAT
from headway.hub.families.qwen import QWEN2, QWEN3
from headway.hub.families.roberta import ROBERTA, XLM_ROBERTA
from headway.hub.families.t5 import T5
from headway.hub.families.vit import VIT

FAMILIES: tuple[Family, ...] = (
    *(NANOCHAT, MODERNBERT, BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, VIT),
    *(GPT_2, LLAMA, MISTRAL, QWEN2, QWEN3),
    *(T5, BART, MARIAN, M2M_100),
)
"""The order in which they are tried for a model to be saved."""


def family_named(model_type: str) -> Family:
    """The family with this ``model_type``; there must be one."""
    return next(family for family in FAMILIES if family.model_type == model_type)
