"""Load what was saved, as the pipeline of its task."""

from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.hub.directory import load_model
from headway.hub.download import locate
from headway.io.fork_safety import check_threads
from headway.io.regular_file import check_name
from headway.tasks.registry import NAMES, room
from headway.tasks.task import Pipeline
from headway.training.store.facts import check_files, read_facts


def load(path: str | Path) -> Pipeline:
    """The pipeline of a run directory, of a Hugging Face directory, or of an id of the hub.

    Raises InputError when there is none, when a file of it is damaged, or when its model answers no task known here.

    The pipeline computes in several threads, which a child process made by ``os.fork`` does not have: there it would
    wait forever, so it raises RuntimeError.  Make processes with ``multiprocessing.get_context("spawn")`` and load in
    each, or fork first, or call ``torch.set_num_threads(1)`` in the child.
    """
    check_name(str(path), "the model's directory:")
    check_threads()
    directory = locate(path).path
    if not directory.is_dir():
        raise InputError(f"{path}: no such model directory; `headway train FILE --out DIR` makes one.")
    if not (directory / "config.json").exists():
        raise InputError(f"{path}: there is no config.json, so no model has been saved here yet.")
    check_files(directory, read_facts(directory))
    return pipeline_of(load_model(directory), directory)


def pipeline_of(model: Any, directory: Path, *, alone: bool = False) -> Pipeline:
    """The pipeline of a model that was loaded from ``directory``.

    ``alone`` leaves out the other members of a run with several seeds.  Raises InputError as ``load`` does.
    """
    facts = read_facts(directory) or {}
    facts = {key: value for key, value in facts.items() if key != "members"} if alone else facts
    for name in NAMES:
        if (pipe := room(name).pipeline(model, directory, facts)) is not None:
            return pipe
    raise InputError(f"{directory / 'config.json'}: this model answers no task that is known here.")
