"""Check the options against the task: each task's spec lists the options that it reads."""

from collections.abc import Sequence

from headway.errors import InputError
from headway.tasks.registry import NAMES, spec
from headway.tasks.spec import OF_TEXTS
from headway.training.option_fields import flag
from headway.training.options import OPTIONS, TrainOptions


def check_for_task(options: TrainOptions, task: str, reasons: Sequence[str] = ()) -> None:
    """Raise InputError for an option that the task does not read; ``reasons`` say how the task was found.

    With ``--adapt`` the options of the pretraining task are read too.
    """
    its = spec(task)
    if options.architecture.model is not None and its.models and options.architecture.model not in its.models:
        raise InputError(f"--model {options.architecture.model} is not for {task}, which has {', '.join(its.models)}.")
    known = its.options
    if options.fine_tuning.adapt and its.pretrain_with is not None:
        known |= spec(its.pretrain_with).options
    for name in options.given(OPTIONS):
        if name in known:
            continue
        if wanted := sorted(one for one in NAMES if name in spec(one).options):
            why = f" Found: {'; '.join(reasons)}." if reasons else ""
            what = "texts" if name in OF_TEXTS else " and ".join(wanted)
            raise InputError(f"--{flag(name)} is for {what}, but this is {task}; leave it out.{why}")
