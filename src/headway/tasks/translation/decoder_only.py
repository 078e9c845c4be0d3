"""Write a text for a text with a decoder alone: source and target as one sequence, the loss on the target."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.data.batches.batching import IGNORED, TargetKind
from headway.data.batches.encoded import Rows, row_lengths
from headway.data.batches.examples import Examples
from headway.errors import InputError
from headway.hub.generation_config import TargetRules
from headway.models.size import Wiring
from headway.tasks.common.next_token import LanguageModeling, bytes_per_token, unknown_in
from headway.tasks.common.rows import EncodedPairs
from headway.tasks.task import TaskInputs
from headway.tasks.translation.data import TranslationData
from headway.text.tokenizer import Tokenizer
from headway.training.objective import Objective
from headway.training.plan import Plan

NOT_HERE = ("bpe_dropout", "r_drop")
"""Options of encoder-decoders alone."""


class DecoderOnlyData(TranslationData):
    """A decoder from scratch on pairs of texts, each as ``source </s> target </s>`` (Liu et al. 2018).

    Nothing is asked of the source; its width is that of the encoder-decoder for these pairs, with twice the layers.
    """

    def __init__(self, given: TaskInputs):
        if given.base is not None:
            raise InputError("--model decoder is trained from scratch; leave out --from or --model.")
        for name in NOT_HERE:
            if given.options.value(name):
                raise InputError(
                    f"--{name.replace('_', '-')} is for encoder-decoders; leave out this option or --model decoder."
                )
        super().__init__(given)
        self.rules = TargetRules(start=(), end=self.rules.end)

    wiring: Wiring = "decoder"
    texts_in_row = 1  # both texts, in one sequence

    def preset(self, seconds: float | None) -> Plan:
        plan = super().preset(seconds)
        before = plan.config
        config = before.but(
            n_layers=self.options.architecture.layers or 2 * before.n_layers,
            max_length=2 * before.max_length,
            positions="rotary",
            norm="rmsnorm",
            norm_parameters="weight",
            activation="silu",
            gated=True,
            d_ff=None,
            bias=(),
            embedding_scale=False,
        )
        shape = f"width {config.d_model}, {config.n_layers} layers, {config.n_heads} heads, {config.max_length} tokens"
        first = {**plan.decisions[0], "value": f"a decoder, {shape}"}
        return plan.but(model=asdict(config), length=config.max_length, decisions=[first, *plan.decisions[1:]])

    def batch_source(self, plan: Plan) -> BatchSource:
        train, held_out = joined(self.train), joined(self.validation)
        return RowBatches(train, held_out, plan.batch_tokens, plan.seed, max_examples=plan.max_examples)

    def objective(self, plan: Plan) -> Objective:
        return prefix_task(self.validation.second, self.tokenizer, plan.objective.label_smoothing)


@dataclass(frozen=True, eq=False)
class Joined(Rows):
    """Each source with its target, less the last id, as input; or what is to be predicted after each of these ids."""

    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]
    wanted: bool
    """whether these are the predictions; what is to be predicted of the source is ``IGNORED``"""

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def lengths(self) -> np.ndarray:
        """The ids of each row, int64 (N,)."""
        return row_lengths(self.sources) + row_lengths(self.targets) - 1

    def row(self, at: int) -> list[int]:
        """One row."""
        source, target = self.sources[at], self.targets[at]
        return [*[IGNORED] * (len(source) - 1), *target] if self.wanted else [*source, *target[:-1]]


def joined(pairs: EncodedPairs) -> Examples:
    """Inputs and targets of the same length for each pair."""
    inputs, targets = (Joined(pairs.first, pairs.second, wanted) for wanted in (False, True))
    return Examples(inputs, targets, TargetKind.TOKEN)


def prefix_task(targets: Sequence[list[int]], tokenizer: Tokenizer, label_smoothing: float = 0.0) -> Objective:
    """The task whose bits per byte are those of these targets."""
    n_bytes = sum(len(tokenizer.decode(target).encode("utf-8", "surrogatepass")) for target in targets)
    n_tokens = int(row_lengths(targets).sum())
    return LanguageModeling(bytes_per_token(n_bytes, n_tokens, unknown_in(targets, tokenizer)), label_smoothing)
