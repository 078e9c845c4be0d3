"""Memory: the longest batch is tried before the first step, and running out is one message that says what would help.

Nothing is tried again with another batch: how much a step learns from is for the user to decide.
"""

import contextlib
import re
from collections.abc import Callable, Iterator

import torch
from torch import nn

from headway.data.feed import Feed
from headway.errors import RunFailed
from headway.io.memory import check_fits
from headway.io.quantities import size
from headway.models.config import TransformerConfig
from headway.training.distributed.ranks import Ranks
from headway.training.loop.randomness import random_state, set_random_state
from headway.training.loop.thread_parallel import ThreadParallel
from headway.training.objective import Objective
from headway.training.plan import Plan

LATER = 2
"""How often the weights are held again, at least, once a step was taken: by the optimiser, and as the best so far."""
SIGNS = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc", "failed to allocate")
"""By one of which torch's errors on a CPU say what they are; on a GPU they have a class of their own."""


class OutOfMemory(RunFailed):
    """There is not enough memory for what was begun; what is saved is as it was."""

    def __init__(self, where: str, wanted: int | None = None, plan: Plan | None = None):
        super().__init__(where)
        self.where, self.wanted, self.plan = where, wanted, plan

    def __str__(self) -> str:
        asked = f" ({size(self.wanted)} more were asked for)" if self.wanted else ""
        return (
            f"out of memory {self.where}{asked}. Nothing was changed to go on, and every checkpoint is as it was. "
            f"What needs less, with what else it changes: {', '.join(_knobs(self.plan))}. A run that has begun takes "
            "other batches or another precision up with --allow-changes."
        )


def _knobs(plan: Plan | None) -> list[str]:
    """The options that decide how much memory training needs, with what they are now and what they may be."""
    batch = "a smaller --batch-tokens with so much more --accumulate (as much in each step)"
    length, precision = "a smaller --length (less of each text)", "--precision bfloat16 (fewer digits)"
    model = "a smaller --preset, --d-model or --layers (another model)"
    if plan is None:
        return [batch, length, precision, model]
    name, size = ("size", plan.max_examples) if plan.max_examples else ("tokens", plan.batch_tokens)
    if size > 1:
        half = f"--batch-{name} {size // 2} --accumulate {2 * plan.accumulate}"
        batch = f"{half} (now {size} and {plan.accumulate}: as much in each step)"
    length = f"--length below {plan.length} (less of each text)"
    if plan.objective.patches:
        length = f"a larger --patch-size or a smaller --image-size (now {plan.length} tokens of a picture)"
    now = f"a smaller --preset, --d-model (now {plan.config.d_model}) or --layers (now {plan.config.n_layers})"
    return [batch, length, *([] if plan.precision == "bfloat16" else [precision]), f"{now} (another model)"]


@contextlib.contextmanager
def out_of_memory(where: str | Callable[[], str], plan: Plan | None = None) -> Iterator[None]:
    """Turn every error that means too little memory into OutOfMemory, which says where it was."""
    try:
        yield
    except OutOfMemory as error:  # from within, where more is known
        error.plan = error.plan or plan
        raise
    except (MemoryError, RuntimeError) as error:
        text = str(error)
        known = isinstance(error, MemoryError | torch.OutOfMemoryError) or any(sign in text.lower() for sign in SIGNS)
        if not known:
            raise
        wanted = re.search(r"tried to allocate (\d+) bytes", text)
        place = where if isinstance(where, str) else where()
        raise OutOfMemory(place, int(wanted[1]) if wanted else None, plan) from None


def check_room(plan: Plan) -> None:
    """Raise InputError for a model whose weights alone, or a batch whose vectors alone, no memory here holds.

    It is a lower bound, so that nothing is refused that could be trained; the rest is tried (``try_longest``).
    """
    config = plan.config
    width, layers = int(config.d_model), int(getattr(config, "n_layers", 1))
    weights = layers * 4 * width**2 if isinstance(config, TransformerConfig) else 0
    weights += int(config.vocab_size) * width
    check_fits(4 * weights, f"a model that is {width:,} wide, with {layers:,} layers,")
    if plan.max_examples is None and plan.objective.patches is None:
        check_fits(4 * plan.batch_tokens * width, f"a batch of {plan.batch_tokens:,} tokens (--batch-tokens)")


def try_longest(model: nn.Module, objective: Objective, feed: Feed, plan: Plan, ranks: Ranks) -> None:
    """One gradient of the longest batch, and one evaluation of the longest: raises OutOfMemory where they do not fit.

    Weights, random state and mode are as before, and there is no gradient.  Of several ranks, each tries its own part.
    """
    device = next(model.parameters()).device
    parameters = [p for p in model.parameters() if p.requires_grad]
    random, training = random_state(device), model.training
    with out_of_memory("at the longest batch, tried before step 1", plan):
        try:
            longest, held_out = feed.longest()
            later = [torch.empty_like(p) for p in parameters for _ in range(LATER)]
            model.train()
            if (batch := ranks.part(longest)) is not None:
                with ThreadParallel(plan.shares) as shares:
                    shares.add_gradient(model, objective, batch.to(device), plan.precision, parameters)
            model.eval()
            objective.evaluate(model, [held_out.to(device)])
            del later
        finally:
            for p in parameters:
                p.grad = None
            model.train(training)
            set_random_state(device, random)
