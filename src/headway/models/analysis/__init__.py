"""What happens inside a model: attention maps, head statistics, the logit lens, attribution, position tables.

Each function takes a model and that model's inputs, such as ``pipe.model`` and ids; see ``docs/inside.md``.
"""

from headway.models.analysis.logits import gradient_times_input, logit_lens, residual_stream
from headway.models.analysis.maps import attention_maps, fused_difference, heads_off
from headway.models.analysis.statistics import (
    PositionTable,
    head_statistics,
    induction_score,
    induction_scores,
    patch_distance,
    position_tables,
)

__all__ = [
    "PositionTable",
    "attention_maps",
    "fused_difference",
    "gradient_times_input",
    "head_statistics",
    "heads_off",
    "induction_score",
    "induction_scores",
    "logit_lens",
    "patch_distance",
    "position_tables",
    "residual_stream",
]
