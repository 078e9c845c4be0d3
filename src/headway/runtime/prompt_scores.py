"""How likely a model finds each token of a prompt."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from headway.data.batches.batching import sent
from headway.generation.sampling import Likely
from headway.models.device import model_device
from headway.models.transformer import Decoder
from headway.runtime.batcher import PIECE


def prompt_scores(model: Decoder, ids: Sequence[int], count: int) -> Iterator[list[Likely]]:
    """Of each token but the first, given those before it, with ``count`` alternatives; a piece of the prompt at a time.

    The prompt must not be longer than the model reads.
    """
    state, device = model.new_state(), model_device(model)
    for start in range(0, len(ids) - 1, PIECE):
        following = ids[start + 1 : start + 1 + PIECE]
        part = ids[start : start + len(following)]
        likely: Tensor = model(sent([part], device), None, state)[0].float().log_softmax(dim=-1)  # (T, V)
        chosen = likely.gather(1, sent([[number] for number in following], device))[:, 0].tolist()
        best = likely.topk(min(count, likely.shape[1]))
        others = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        yield [Likely(value, list(zip(*pair, strict=True))) for value, pair in zip(chosen, others, strict=True)]
