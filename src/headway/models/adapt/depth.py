"""Cut a model off after its first blocks: vectors from the middle of an encoder are often better for other tasks."""

from dataclasses import replace

from torch import nn

from headway.models.transformer import Encoder


def first_blocks(model: Encoder, n_blocks: int) -> Encoder:
    """Keep the first ``n_blocks`` blocks of an encoder, in place; the final norm is kept.

    Raises ValueError unless 1 ≤ n_blocks ≤ the number of blocks.
    """
    config = model.config
    if not 1 <= n_blocks <= config.n_layers:
        raise ValueError(f"{n_blocks} blocks cannot be kept: the model has {config.n_layers}")
    window = config.window[:n_blocks] if isinstance(config.window, tuple) else config.window
    positions = config.positions
    if isinstance(window, tuple) and not any(window):  # no block with a window is left, nor its positions
        window, positions = None, replace(config.position, window_base=None)
    model.config = model.stack.config = config.but(n_layers=n_blocks, window=window, positions=positions)
    model.stack.blocks = nn.ModuleList(list(model.stack.blocks)[:n_blocks])
    model.stack.windows = model.stack.windows[:n_blocks]
    return model
