"""What an encoder-decoder on pairs of texts will be, by a rule."""

from dataclasses import asdict, dataclass
from typing import Any

from headway.io.quantities import duration
from headway.models.config import Positions, TransformerConfig
from headway.models.device import device_of
from headway.training.hardware.precision import training_rate
from headway.training.loop.schedule import mean_accumulation
from headway.training.options import TrainOptions
from headway.training.plan import Plan, decision_of
from headway.training.ranks import Ranks
from headway.training.sizing.presets import epochs_of, given_or, head_count, new_plan, passes, sized, tokens_of_rows


@dataclass(frozen=True)
class Row:
    """A size, for up to so many pairs."""

    pairs: float
    width: int
    layers: int
    """of the encoder, and as many of the decoder"""
    vocab: int
    """subwords"""


ROWS = (
    Row(5e3, 128, 2, 1000),
    Row(2e4, 128, 3, 4000),
    Row(1e5, 128, 4, 8000),
    Row(1e6, 256, 5, 16_000),
    Row(float("inf"), 512, 6, 32_000),
)
LEAST_PASSES = 8.0
"""Over all pairs, for which the time must be enough; with fewer, fewer layers learnt more (Multi30k, val)."""
DROPOUTS = ((8.0, 0.1), (25.0, 0.2), (float("inf"), 0.3))
"""Up to so many passes over the pairs, the dropout."""
MOST_PASSES, LEAST_STEPS = 100, 1000
"""Maximum number of epochs, as more rarely help; few pairs have more epochs, up to so many steps."""
SHORTEST_STEP = 0.02
"""Seconds that any step takes, however small, so that the number of epochs over few pairs is predicted correctly."""
MUON_RATE = 5 / 3
"""Muon's rate over Adam's, 0.01 and 0.006: tied token vectors tolerate a higher rate, matrices a lower one."""
USUAL = {"optimizer": "muon", "learning_rate": 6e-3, "weight_decay": 0.0, "schedule": "constant_then_decay"}
"""Where the options say nothing else."""
M2M100: dict[str, Any] = {
    "positions": asdict(Positions("sinusoidal", start=2, sinusoids="tensor2tensor")),
    **{"norm": "layernorm", "norm_parameters": "both", "activation": "relu", "gated": False},
    **{"bias": ("qkv", "out", "ff"), "tied": True, "embedding_scale": True},
}
"""The fields of M2M-100's layout, except the sizes: norms before each layer, sinusoids, ReLU, one table of vectors."""


def by_pairs(n_pairs: int) -> Row:
    """The row for so many pairs."""
    return next(row for row in ROWS if n_pairs <= row.pairs)


def translator_plan(
    options: TrainOptions, vocab_size: int, n_pairs: int, tokens: tuple[int, int], longest: int, seconds: float | None
) -> Plan:
    """The plan of a translator for ``n_pairs`` pairs, with so many ``tokens`` of sources and of targets in them.

    Few pairs want a small model and few subwords: by their number, the first of ROWS that has room for them, or, where
    the time is not enough for LEAST_PASSES, an earlier one.  The more often pairs are read, the more is dropped.
    """
    asked, why = options.optimisation, f"{n_pairs:,} pairs"
    rows = ROWS[: ROWS.index(by_pairs(n_pairs)) + 1]
    flops = seconds * training_rate(device_of(options.runtime.device), options.runtime.precision) if seconds else 0.0
    flops *= Ranks.joined().count
    flops /= 2 if asked.r_drop else 1  # every batch is read twice
    while len(rows) > 1 and 0 < flops < LEAST_PASSES * _pass_flops(rows[-1].width, rows[-1].layers, vocab_size, tokens):
        rows = rows[:-1]
        why = f"{n_pairs:,} pairs, as many as fit {LEAST_PASSES:g} epochs in {duration(seconds or 0)} here"
    width, layers, why = sized(options, rows[-1].width, rows[-1].layers, why)
    batch_tokens = asked.batch_tokens or 4096
    step_tokens = batch_tokens * mean_accumulation(asked.accumulate, asked.grow_batch)
    most_passes = options.run.epochs or max(MOST_PASSES, round(LEAST_STEPS * step_tokens / sum(tokens)))
    seen = float(most_passes)
    if options.run.steps is not None:
        seen = min(seen, options.run.steps * step_tokens / sum(tokens))
    elif seconds is not None:
        steps = max(1.0, sum(tokens) / batch_tokens)
        by_work, by_steps = flops / _pass_flops(width, layers, vocab_size, tokens), seconds / (SHORTEST_STEP * steps)
        seen = min(seen, by_work, by_steps)
    dropout = given_or(asked.dropout, next(p for most, p in DROPOUTS if seen <= most))
    heads = options.architecture.heads or head_count(width, 32)
    layout = {**M2M100, "positions": Positions(**M2M100["positions"]), "dropout": dropout}
    config = TransformerConfig(vocab_size, width, layers, heads, d_ff=4 * width, max_length=longest, **layout)
    shape = f"width {config.d_model}, {layers} + {layers} layers, {config.n_heads} heads, {longest} tokens"
    decisions = [
        decision_of("model", shape, why, "--preset, --d-model, --layers, --length"),
        decision_of("dropout", f"{dropout:g}", f"about {seen:.0f} passes over the pairs", "--dropout"),
    ]
    decisions += passes(options, f"at most {most_passes:,}", "more rarely helps")
    return new_plan(
        options,
        config,
        decisions,
        {**USUAL, "label_smoothing": 0.1},
        length=longest,
        batch_tokens=tokens_of_rows(options, 2 * longest, batch_tokens),
        muon_rate=MUON_RATE,
        epochs=epochs_of(options, most_passes),
    )


def _pass_flops(width: int, layers: int, vocab_size: int, tokens: tuple[int, int]) -> float:
    """FLOPs of training once on all pairs: 6 for each weight and token (attention's own products left out)."""
    encoder = 12 * width**2 * layers
    decoder = 16 * width**2 * layers + vocab_size * width
    return 6.0 * (encoder * tokens[0] + decoder * tokens[1])
