"""Write a text for a text with a decoder alone: source and target as one sequence, the loss on the target."""

from dataclasses import asdict

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.errors import InputError
from headway.hub.generation_config import TargetRules
from headway.models.size import Wiring
from headway.tasks.task import TaskInputs
from headway.tasks.text_to_text.data import TranslationData, joined, prefix_task
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
