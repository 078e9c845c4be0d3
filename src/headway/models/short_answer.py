"""A model's answer to one fixed input: by it a model is compared with itself, saved and loaded again."""

from typing import Any

import torch
from torch import Tensor

from headway.errors import InputError
from headway.models.device import model_device
from headway.models.own import OwnConfig
from headway.models.wirings import wiring_name

LEAST, MOST = 64, 256
"""Tokens of a text, as far as the model reads so many: a part that begins to count after more of them is not seen."""
WORK = 1 << 32
"""Parameters times tokens, at most, beyond ``LEAST``: an answer takes less than writing the files."""
KEPT = 16
"""Values of an answer that are kept."""
CHANGED = 1e-3
"""How much they may differ from those of another machine, as a share of their root mean square."""


@torch.no_grad()
def short_answer(model: Any) -> Tensor:
    """The output of a model, in eval mode, for one image, or for two texts, of which the second is padded."""
    draw, device = torch.Generator().manual_seed(0), model_device(model)
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        if (patches := getattr(model, "patches", None)) is not None:
            return model(torch.randn(1, patches.channels, *patches.image_size, generator=draw).to(device))
        configs = [model.config, getattr(model, "encoder_config", model.config)]
        most = min(MOST, max(LEAST, WORK // sum(p.numel() for p in model.parameters())))
        length = min(most, *(config.max_length for config in configs))
        target, source = (torch.randint(one.vocab_size, (2, length), generator=draw).to(device) for one in configs)
        mask = torch.arange(length, device=device) < torch.tensor([[length], [-(-length // 2)]], device=device)
        answer = model(*((source, target, mask) if wiring_name(model) == "encoder-decoder" else (target, mask)))
        return answer
    finally:
        for module, mode in training.items():
            module.training = mode


def kept_answer(model: Any) -> list[float]:
    """Some values of the answer of a task's own model, which are kept where its weights are."""
    with torch.random.fork_rng(devices=[]):
        values = short_answer(model).detach().cpu().double().nan_to_num(0.0, 0.0, 0.0).flatten()
    return values[:: max(1, len(values) // KEPT)][:KEPT].tolist()


def check_answer(model: Any, kept: list[float] | None, where: str) -> None:
    """Raise InputError where a task's own model, whose weights are those of ``where``, answers otherwise than then."""
    if not isinstance(getattr(model, "config", None), OwnConfig) or kept is None:
        return
    then, now = (torch.tensor(values, dtype=torch.float64) for values in (kept, kept_answer(model)))
    if then.shape != now.shape or float((then - now).abs().max()) > CHANGED * float(then.square().mean().sqrt()):
        raise InputError(
            f"{where}: {model.config.described} answers otherwise than when these weights were saved: the package of "
            "the task, or one that it uses, has changed. Install the one of then, or train again."
        )
