"""Check the options against the task: each task's spec lists the options that it reads."""

from collections.abc import Sequence

from headway.data.open.detected import Detected
from headway.data.open.files import kind
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.errors import InputError
from headway.tasks.registry import NAMES, recogniser, spec
from headway.tasks.spec import OF_TEXTS
from headway.training.option_fields import flag
from headway.training.options import OPTIONS, TrainOptions
from headway.training.sizing.presets import FITTED_IN


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


def check_effects(options: TrainOptions, source: Corpus | Table, found: Detected) -> None:
    """Raise InputError for an option that would have no effect on data of this form."""
    running = isinstance(source, Corpus) and recogniser(found.task).running_text
    kinds = {kind(path) for path in source.paths}
    fitted = bool(options.given(("frozen", "contrastive"))) and options.runtime.precision != FITTED_IN
    refused = {
        "batch_size": (running, "is for texts of different lengths; for running text use --batch-tokens"),
        "split_seed": (running, "is for rows: of running text the end is held out; leave it out"),
        "validation_windows": (not running, "is for running text; leave it out"),
        "delimiter": (not kinds & {"csv", "tsv"}, "is for .csv and .tsv files; leave it out"),
        "encoding": (kinds == {"parquet"}, "is for files of text; .parquet files say their encoding: leave it out"),
        "precision": (fitted, f"is for training in steps: a linear classifier is fitted in {FITTED_IN}; leave it out"),
    }
    for name in options.given(refused):
        without_effect, why = refused[name]
        if without_effect:
            raise InputError(f"--{flag(name)} {why}.")
