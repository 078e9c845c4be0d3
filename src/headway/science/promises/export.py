"""What is written of a model is the same model: read again here, and by ``transformers`` where it is installed."""

from pathlib import Path

from headway.errors import InputError
from headway.hub.directory import has_family, load_model
from headway.inference.export import export
from headway.inference.parity import BOUND
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.science.promises.check import Check, difference, worst
from headway.science.promises.samples import Subject, different_lengths, read

NAME = "export"


def check_export(subject: Subject, directory: Path, folder: Path) -> Check:
    """Export the model in ``directory`` to ``folder``, read it again, and compare the answers of both with its own."""
    what = "answers of the model and of its export"
    config = getattr(subject.pipe.model, "config", None)
    if isinstance(config, BaselineConfig | TransformerConfig) and not has_family(subject.pipe.model):
        return Check(NAME, what, skipped="no other program has models like this one")
    try:
        found = export(directory, folder)
    except InputError as error:
        return Check(NAME, what, None, BOUND, f"it cannot be exported: {error}")
    parity = found.parity
    readers, value = [], 0.0
    if parity.checked:
        readers, value = [f"transformers {parity.version}"], float("nan")
        value = value if parity.max_difference is None else parity.max_difference
    more = {"transformers": parity.version, "tokens_equal": parity.tokens_equal}
    if not found.made:
        return Check(NAME, f"{what}, read by {readers[0]}", value, BOUND, parity.problem, more=more)
    texts = subject.inputs(different_lengths(subject.longest))
    before, after = (read(subject, load_model(place), texts) for place in (directory, folder))
    answers = zip(before, after, strict=True)
    value = worst(value, *(difference(one, other) for one, other in answers))
    readers.insert(0, "Headway")
    if not parity.checked:
        more["not_compared"] = parity.problem
    return Check(NAME, f"{what}, read by {' and '.join(readers)}", value, BOUND, more=more)
