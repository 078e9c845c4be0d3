"""Change the dropout of a model after it was built or loaded."""

from torch import nn

from headway.models.config import TransformerConfig
from headway.nn.attention import Attention
from headway.nn.dropout import Dropout
from headway.nn.feedforward import FeedForward


def set_dropout(model: nn.Module, p: float) -> nn.Module:
    """Give every layer the dropout it would have in a model built with ``p``; in place.

    Embeddings, residual branches, attention weights and heads drop with probability ``p``, and every configuration in
    the model is updated.  The hidden units of the feed-forward layers keep their dropout, which is none in a model
    built from a configuration.  Raises ValueError unless 0 ≤ p < 1.
    """
    if not 0 <= p < 1:
        raise ValueError(f"dropout is {p}; it must be from 0 to below 1")
    hidden = {id(module.dropout) for module in model.modules() if isinstance(module, FeedForward)}
    for module in model.modules():
        if (isinstance(module, Dropout) and id(module) not in hidden) or isinstance(module, Attention):
            setattr(module, "p" if isinstance(module, Dropout) else "dropout", p)
        for name in ("config", "encoder_config"):
            config = getattr(module, name, None)
            if isinstance(config, TransformerConfig):
                setattr(module, name, config.but(dropout=p))
    return model
