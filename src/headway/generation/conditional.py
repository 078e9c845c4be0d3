"""An encoder-decoder with encoded sources, so that ``decode`` can generate the targets as for any model.

    model = Conditional(encoder_decoder, sources)
    for step in decode(model, [start] * len(sources), sampling, max_tokens=n, context=n + len(start), end=end):
        ...

Letters: B batch, T target length, S source length, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from headway.data.batches.batching import padded
from headway.models.transformer import EncoderDecoder
from headway.nn.state import State


class Conditional:
    """The targets of given sources, decoded token by token; the sources are encoded once, on construction.

    A state holds what its rows need of their sources: ``reorder`` may drop and repeat rows.  A new state always covers
    all sources, so ``decode`` needs a ``context`` that holds a whole target.
    """

    @torch.no_grad()
    def __init__(self, model: EncoderDecoder, sources: Sequence[Sequence[int]], device: torch.device | str = "cpu"):
        if not all(sources):
            raise ValueError(f"source {[bool(source) for source in sources].index(False)} has no tokens")
        ids, self.source_mask = padded(sources, device)  # (B, S) both, the mask None where nothing is padding
        self.model = model
        self.source = model.encode(ids, self.source_mask)  # (B, S, D)

    def new_state(self) -> State:
        """An empty state for the targets of all sources, in their order."""
        return self.model.new_state()

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: State | None = None) -> Tensor:
        """Logits of the token after the last of each target: (B, T) -> (B, V).  Padding must be on the left.

        Raises ValueError when a new state starts with a number of targets other than the number of sources.
        """
        if (state is None or state.length == 0) and len(ids) != len(self.source):
            raise ValueError(f"{len(ids)} targets for {len(self.source)} sources: start with one target per source")
        return self.model.next_logits(ids, self.source, self.source_mask, state, mask)
