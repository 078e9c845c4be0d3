"""Two abilities that language models gain with scale, measured without any text: copying and learning from examples.

Tokens are drawn evenly from the model's vocabulary without its special tokens, the same for all models of one study.
Letters: B sequences, T tokens of each, V vocabulary.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.errors import InputError
from headway.hub.directory import load_model
from headway.models.transformer import Decoder
from headway.science.scaling.law import Run
from headway.text.tokenizer import Tokenizer
from headway.training.store.contents import SNAPSHOTS, read_log

SEQUENCES = 256
"""How many are measured: of copying, and for each number of examples."""
LONGEST = 32
"""Tokens of a random sequence that is repeated, at most."""
WAYS = 4
SHOTS = (0, 1, 2, 4)
"""How often each pair is shown."""


@torch.no_grad()
def induction(model: nn.Module, pool: np.ndarray, length: int, *, seed: int = 0) -> dict[str, float]:
    """Nats per token on the ``first`` and ``second`` occurrence of random sequences, for windows of ``length`` tokens.

    The second can be copied from the first (Elhage et al. 2021; Olsson et al. 2022).  The first token of each is not
    counted: nothing says which it is, nor that the sequence begins again.
    """
    once = min(LONGEST, length // 2, len(pool))
    random = np.random.default_rng([seed, 1])
    drawn = np.stack([random.choice(pool, once, replace=False) for _ in range(SEQUENCES)])  # (B, T / 2)
    ids = torch.from_numpy(np.concatenate([drawn, drawn], axis=1)).long()  # (B, T)
    logits = model(ids[:, :-1]).float()
    losses = -logits.log_softmax(dim=-1).gather(2, ids[:, 1:, None])[..., 0]  # -ln p of all but the first (B, T - 1)
    return {"first": float(losses[:, : once - 1].mean()), "second": float(losses[:, once:].mean())}


@torch.no_grad()
def few_shot(model: nn.Module, pool: np.ndarray, length: int, *, seed: int = 0) -> dict[str, float]:
    """The share of right answers by how often each pair is shown ("0", "1", ...), as far as windows have room.

    Each of WAYS keys has a value of its own; a pair is ``key link value end``, and a key and link are the question.
    Guessing is right in 1 of WAYS.
    """
    right_answers = {}
    for shots in SHOTS:
        if 4 * WAYS * shots + 2 > length:
            break
        random = np.random.default_rng([seed, 2, shots])
        made = [_examples(random, pool, shots) for _ in range(SEQUENCES)]
        ids = torch.tensor([context for context, _, _ in made])  # (B, T)
        values = torch.tensor([values for _, values, _ in made])  # (B, WAYS)
        right = torch.tensor([answer for _, _, answer in made])  # (B,)
        logits = model(ids)[:, -1].gather(1, values)  # (B, WAYS)
        right_answers[str(shots)] = float((logits.argmax(dim=1) == right).float().mean())
    return right_answers


def _examples(random: np.random.Generator, pool: np.ndarray, shots: int) -> tuple[list[int], list[int], int]:
    """A context that ends in a key and its link, the values of all keys, and the number of the right one."""
    drawn = random.choice(pool, 2 * WAYS + 2, replace=False).tolist()
    keys, values, (link, end) = drawn[:WAYS], drawn[WAYS : 2 * WAYS], drawn[2 * WAYS :]
    context: list[int] = []
    for which in random.permutation(np.repeat(np.arange(WAYS), shots)).tolist():
        context += [keys[which], link, values[which], end]
    asked = int(random.integers(WAYS))
    return [*context, keys[asked], link], values, asked


PROBES: dict[str, Callable[..., dict[str, float]]] = {"induction": induction, "fewshot": few_shot}
"""By the names that ``--probe`` takes."""


def wanted_probes(names: str | None) -> list[str]:
    """The probes that ``--probe a,b`` names.  Raises InputError for one that there is not."""
    wanted = [name.strip() for name in (names or "").split(",") if name.strip()]
    unknown = [name for name in wanted if name not in PROBES]
    if unknown:
        raise InputError(f"--probe {unknown[0]!r} is unknown; name {', '.join(PROBES)}, with commas.")
    return wanted


def probe_runs(place: Path, runs: Sequence[Run], names: Sequence[str], *, seed: int = 0) -> list[dict[str, Any]]:
    """What each run's model can do, in the folder of its name in ``place``, and before it its snapshots, if it has any.

    Raises InputError where the models are not there, or have too few tokens to draw from.
    """
    rows = []
    for run in runs:
        for directory, tokens, loss in _snapshots(place / run.name) or [(place / run.name, run.tokens, run.loss)]:
            if not (directory / "config.json").exists():
                raise InputError(f"{directory}: there is no model to probe; --probe needs the runs of a study.")
            model, tokenizer = load_model(directory), Tokenizer.load(directory)
            if not isinstance(model, Decoder):
                raise InputError(f"{directory}: this is not a language model, which --probe needs.")
            pool = np.array(sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids))
            if len(pool) < 2 * WAYS + 2:
                raise InputError(f"{directory}: has {len(pool)} tokens; the probes need {2 * WAYS + 2} or more.")
            name = run.name if tokens == run.tokens else f"{run.name}, {directory.name}"
            row = {"name": name, "parameters": run.parameters, "tokens": tokens, "loss": loss, "held_out": run.held_out}
            able = {probe: PROBES[probe](model, pool, model.config.max_length, seed=seed) for probe in names}
            rows.append({**row, **able})
    return rows


def _snapshots(run: Path) -> list[tuple[Path, float, float]]:
    """The models that a run kept on its way, with their tokens and loss, in order, the one at its end among them.

    The run's own is the best of them.  Nothing where that at the end could not be kept.
    """
    steps = {line["step"]: line for line in read_log(run, "evaluation")}  # of two for one step the later
    kept = [(run / SNAPSHOTS / f"step-{step}", line) for step, line in sorted(steps.items())]
    whole = [(path, line) for path, line in kept if (path / "model.safetensors").is_file()]
    if not whole or whole[-1] != kept[-1]:
        return []
    return [(path, line["tokens"], line["val_loss"]) for path, line in whole]
