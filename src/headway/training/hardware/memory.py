"""The longest batch is tried before the first step, and out of memory is one message that says what helps."""

import contextlib
import re
from collections.abc import Callable, Iterator

from headway.errors import RunFailed
from headway.io.memory import check_fits, ran_out
from headway.io.quantities import size
from headway.models.config import TransformerConfig
from headway.training.plan import Plan


class OutOfMemory(RunFailed):
    """There is not enough memory; saved files are unchanged."""

    def __init__(self, where: str, wanted: int | None = None, plan: Plan | None = None):
        super().__init__(where)
        self.where, self.wanted, self.plan = where, wanted, plan

    def __str__(self) -> str:
        asked = f" ({size(self.wanted)} more were asked for)" if self.wanted else ""
        if self.plan is None:  # while data are read or a model is loaded, which other batches would not change
            return (
                f"out of memory {self.where}{asked}. Close other programs, give less data, or choose a smaller model."
            )
        return (
            f"out of memory {self.where}{asked}. The run was not changed, and every checkpoint is intact. "
            f"To use less memory (and what that changes): {', '.join(_knobs(self.plan))}. A run that has started "
            "accepts other batches or another precision with --allow-changes."
        )


def _knobs(plan: Plan) -> list[str]:
    """The options that reduce memory, with their present values and what they change."""
    batch = "a smaller --batch-tokens with a larger --accumulate (the same tokens per step)"
    precision = "--precision bfloat16 (lower precision)"
    name, size = ("size", plan.batch_size) if plan.batch_size else ("tokens", plan.batch_tokens)
    if size > 1:
        half = f"--batch-{name} {size // 2} --accumulate {2 * plan.accumulate}"
        batch = f"{half} (now {size} and {plan.accumulate}; the same tokens per step)"
    length = f"--length below {plan.length} (less of each text)"
    if plan.objective.patches:
        length = f"a larger --patch-size or a smaller --image-size (now {plan.length} tokens of an image)"
    now = f"a smaller --preset, --d-model (now {plan.config.d_model}) or --layers (now {plan.config.n_layers})"
    return [batch, length, *([] if plan.precision == "bfloat16" else [precision]), f"{now} (another model)"]


@contextlib.contextmanager
def out_of_memory(where: str | Callable[[], str], plan: Plan | None = None) -> Iterator[None]:
    """Turn every out-of-memory error into OutOfMemory, which says where it occurred."""
    try:
        yield
    except OutOfMemory as error:  # raised by an inner context, which knows more
        error.plan = error.plan or plan
        raise
    except (MemoryError, RuntimeError) as error:
        text = str(error)
        if not ran_out(error):
            raise
        wanted = re.search(r"tried to allocate (\d+) bytes", text)
        place = where if isinstance(where, str) else where()
        raise OutOfMemory(place, int(wanted[1]) if wanted else None, plan) from None


def check_room(plan: Plan) -> None:
    """Raise InputError where the weights of the model, or the vectors of a batch, exceed this machine's memory.

    It is a lower bound, so that nothing is refused that could be trained; ``try_longest`` tries the rest.
    """
    config = plan.config
    width, layers = int(config.d_model), int(getattr(config, "n_layers", 1))
    weights = layers * 4 * width**2 if isinstance(config, TransformerConfig) else 0
    weights += int(config.vocab_size) * width
    check_fits(4 * weights, f"a model that is {width:,} wide, with {layers:,} layers,")
    if plan.batch_size is None and plan.objective.patches is None:
        check_fits(4 * plan.batch_tokens * width, f"a batch of {plan.batch_tokens:,} tokens (--batch-tokens)")
