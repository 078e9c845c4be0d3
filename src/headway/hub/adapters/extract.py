"""The PEFT adapter of a model that was trained with LoRA: what its weights add to those of its base.

A run keeps the merged model.  The updates are the difference from the base, whose rank is that of the training; they
are factored again by a truncated singular value decomposition.  Letters: I input width of a matrix, O its output width,
R rank.
"""

from typing import Any

import torch
from torch import Tensor, nn

from headway.hub.adapters.merge import DOWN, START, UP
from headway.hub.build_model import own_weights
from headway.hub.directory import family_of, model_config
from headway.hub.families.entries import Json
from headway.hub.name_table import expand, write_weights
from headway.models.adapt.lora import SCALE
from headway.models.heads import CLASSES, Gives, gives

TASKS = {
    "ForCausalLM": "CAUSAL_LM",
    "LMHeadModel": "CAUSAL_LM",
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForConditionalGeneration": "SEQ_2_SEQ_LM",
    "MTModel": "SEQ_2_SEQ_LM",
    "ForImageClassification": None,
    "Model": "FEATURE_EXTRACTION",
}
"""The end of an architecture's name -> ``task_type``; the first that fits."""
STACKED = 3
"""The most matrices with an update of their own that a family stores as one: queries, keys and values."""
ROUNDING = 8 * torch.finfo(torch.float32).eps
"""The largest change of a weight by rounding, as a share of the largest weight of its matrix."""


def adapter_of(model: Any, base: nn.Module, rank: int) -> tuple[Json, dict[str, Tensor]]:
    """(``adapter_config.json`` without the base, the tensors of ``adapter_model.safetensors``).

    ``model`` was trained from ``base`` by updates of this rank, its classifier in full.  Both are bare models of one
    family (``without_modules``).  Raises ValueError for any other difference between the two.
    """
    family, theirs = family_of(model)
    prefix = family.prefix if family.gives(theirs) is Gives.HIDDEN else ""
    base_family, base_theirs = family_of(base)
    before = write_weights(base_family.rows(base_theirs), own_weights(base), model_config(base))
    after = write_weights(family.rows(theirs), own_weights(model), model_config(model))
    whole = gives(model) in CLASSES
    tensors: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    matrices, saved = [], set()
    for entry in expand(family.rows(theirs), own_weights(model)):
        for part in entry.theirs:
            name, new, old = part.name.removeprefix(prefix), after[part.name], before.get(part.name)
            module = name.rpartition(".")[0]
            if whole and entry.ours.startswith("head."):
                tensors[START + name] = new
                # PEFT saves whole modules: its classes of classifiers name ``classifier`` themselves
                saved.add("classifier" if module.startswith("classifier.") else module)
                continue
            if ".blocks." in entry.ours and new.dim() == 2:
                matrices.append(module)
            if old is None or old.shape != new.shape:
                raise ValueError(f"its {name} is not in the base in this shape: tokens or blocks were added")
            if torch.equal(old, new):
                continue
            if module not in matrices:
                raise ValueError(f"its {name} is not that of the base, and no update of a matrix")
            update = new - old
            found = _factors(update.T if family.transposed else update, rank, ROUNDING * float(new.abs().max()))
            if found is None:
                raise ValueError(f"its {name} differs from the base's by more than an update of rank {rank}")
            tensors[START + module + DOWN], tensors[START + module + UP] = found
            ranks[module] = len(found[0])
    if not ranks:
        raise ValueError("its blocks are those of the base: no update was trained")
    names = _short(list(ranks), matrices)
    keys = {module: _end(module) if _end(module) in names else f"^{module}" for module in ranks}
    others = {keys[module]: own_rank for module, own_rank in ranks.items() if own_rank != rank}
    task = next(task for end, task in TASKS.items() if family.architecture(theirs).endswith(end))
    return {
        "peft_type": "LORA",
        "task_type": task,
        "r": rank,
        "lora_alpha": SCALE * rank,
        "rank_pattern": others,
        "alpha_pattern": {module: SCALE * own_rank for module, own_rank in others.items()},
        "target_modules": names,
        "modules_to_save": sorted(saved) or None,
        "fan_in_fan_out": family.transposed,
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }, tensors


def _factors(update: Tensor, rank: int, rounding: float) -> tuple[Tensor, Tensor] | None:
    """A (R, I) and B (O, R) with SCALE · B A = ``update`` (O, I) up to rounding; None: its rank is too high.

    R is ``rank`` or, where matrices with updates of their own are stored as one, a multiple of it.
    """
    most = min(STACKED * rank, *update.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        left, values, right = torch.svd_lowrank(update, q=min(most + 8, *update.shape), niter=4)  # (O, Q), (Q,), (I, Q)
    for kept in range(rank, most + rank, rank):
        kept = min(kept, most)
        root = (values[:kept] / SCALE).sqrt()
        down, up = (right[:, :kept] * root).T.contiguous(), (left[:, :kept] * root).contiguous()
        if (SCALE * up @ down - update).abs().max() <= rounding + ROUNDING * float(values[0]):
            return down, up
    return None


def _short(targets: list[str], matrices: list[str]) -> list[str]:
    """``target_modules``: the ends of names behind the block's number, or, where not all have one, whole names."""
    short = sorted({_end(module) for module in targets})
    covered = [module for module in matrices if any(f".{module}".endswith(f".{name}") for name in short)]
    return short if set(covered) == set(targets) else sorted(targets)


def _end(module: str) -> str:
    """The part of a module's name behind the number of its block."""
    parts = module.split(".")
    number = max(index for index, part in enumerate(parts) if part.isdigit() and index < len(parts) - 1)
    return ".".join(parts[number + 1 :])
