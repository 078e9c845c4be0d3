"""One file per family: what its configuration and its weights are called."""

from headway.hub.families.bert import BERT
from headway.hub.families.family import Family
from headway.hub.families.modernbert import MODERNBERT
from headway.hub.families.nanochat import NANOCHAT

FAMILIES: tuple[Family, ...] = (NANOCHAT, MODERNBERT, BERT)
"""In the order in which a model to be saved is offered to them."""
