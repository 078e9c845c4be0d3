"""An exported model is the same model: read again here, and as users of other programs open it."""

from pathlib import Path

from headway.errors import InputError
from headway.hub.directory import has_family, load_model
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.own import OwnConfig
from headway.tasks.common.compare_answers import BOUND
from headway.workflows.export.export import export
from headway.workflows.verify.check import Check, difference, worst
from headway.workflows.verify.samples import Subject, different_lengths, read

NAME = "export"


def check_export(subject: Subject, directory: Path, folder: Path) -> Check:
    """Export the model in ``directory`` to ``folder``, load the export, and compare the answers with the model's."""
    what = "answers of the model and of its export"
    config = getattr(subject.pipe.model, "config", None)
    if isinstance(config, BaselineConfig | TransformerConfig | OwnConfig) and not has_family(subject.pipe.model):
        return Check(NAME, what, skipped="no other program supports this model")
    try:
        found = export(directory, folder)
    except InputError as error:
        return Check(NAME, what, None, BOUND, f"it cannot be exported: {error}")
    parity = found.parity
    more = {parity.reader: parity.version, "door": parity.door, "tokens_equal": parity.tokens_equal}
    value = float("nan") if parity.max_difference is None else parity.max_difference
    by = f"{parity.door} with {parity.reader} {parity.version}"
    if not found.made:
        return Check(NAME, f"{what}, read through {by}", value, BOUND, parity.problem, more=more)
    texts = subject.inputs(different_lengths(subject.longest))
    before, after = (read(subject, load_model(place), texts) for place in (directory, folder))
    own = worst(*(difference(one, other) for one, other in zip(before, after, strict=True)))
    if not parity.checked:  # reading by Headway alone does not show that other programs can read it
        skipped = f"not checked: {parity.problem}; Headway reads its own export with the same answers"
        return Check(NAME, f"{what}, read by Headway", own, BOUND, skipped=skipped if own <= BOUND else None, more=more)
    return Check(NAME, f"{what}, read by Headway and through {by}", worst(value, own), BOUND, more=more)
