"""Load a saved model as the pipeline of its task."""

import warnings
from pathlib import Path
from typing import Any

from torch import nn

from headway.errors import InputError, shown
from headway.formats.exports import choose, engine_device, open_engine
from headway.formats.registry import AUTO, SPECS, TORCH, check_engine
from headway.hub import directory as hub
from headway.hub.adapters.locate import locate_model
from headway.hub.kept_entries import kept
from headway.io.regular_file import check_name
from headway.models.heads import gives
from headway.models.own import OwnConfig
from headway.models.wirings import Ensemble, wiring_name
from headway.nn.global_state import isolated
from headway.nn.threads import check_threads
from headway.runtime.engine import Engine
from headway.tasks.checks import own_model
from headway.tasks.frames import FrameAnswers
from headway.tasks.registry import NAMES, check, others, spec, task_named, with_head
from headway.tasks.task import Pipeline
from headway.training.store.facts import check_files, read_facts


@isolated()
def load(
    path: str | Path,
    task: str | None = None,
    *,
    device: str = "auto",
    precision: str | None = None,
    engine: str = TORCH,
) -> Pipeline:
    """The pipeline of a run directory, of a Hugging Face directory, or of an id of the hub.

    It computes on ``device``: auto, cpu, cuda, cuda:N or mps; auto is a CUDA GPU if PyTorch finds one.  You can move
    the model later (``pipe.model.to("cuda")``); the pipeline follows.  With ``task``, editors and type checkers know
    the type of the pipeline.  Raises InputError if there is no such model, device or precision, if one of its files is
    damaged, or if the model has another task or an unknown one.

    ``precision`` is float32, bfloat16, float16, int8 or int4; without it, the one that the run stores, else float32.
    "auto" is the fastest that was measured on the run's held-out data and lost next to nothing (``headway bench RUN``),
    and float32 where nothing was measured.  A model in another precision than float32 answers only: it has no gradients
    and cannot be saved.

    ``engine`` computes the answers, on the CPU, from an export that lies in the run (``headway.formats``): torch,
    onnxruntime, openvino, ctranslate2 or llama.cpp.  "auto" is the fastest that was measured to give the same answers
    (``headway bench RUN --store``), and torch where nothing was measured.  Raises InputError for an engine that is not
    installed, and for an export that is missing, damaged or of another model.  What an engine lacks, torch does.

    The pipeline computes in several threads, which a child process made by ``os.fork`` does not have: there it would
    wait forever, so it raises RuntimeError.  Create processes with ``multiprocessing.get_context("spawn")`` and load
    the model in each, or fork first, or call ``torch.set_num_threads(1)`` in the child.
    """
    check_name(str(path), "the model's directory:")
    check_threads()
    check_engine(engine)
    chosen = engine_device(engine, device)
    if task is not None:
        check(task)
    directory = locate_model(path).path
    if not directory.is_dir():
        raise InputError(f"{path}: no such model directory; `headway train FILE --out DIR` makes one.")
    if not (directory / "config.json").exists():
        raise InputError(f"{path}: there is no config.json; no model has been saved here yet.")
    facts = read_facts(directory)
    check_files(directory, facts)
    choice = choose(engine, precision, facts, chosen, Path(path))
    pipe = pipeline_of(load_model(directory, choice.of_torch if chosen.type == "cpu" else None), directory, facts)
    if task is not None and pipe.task != task:
        raise InputError(f"{path}: this is a model for {pipe.task}, not for {task}.")
    pipe.model.to(chosen)
    pipe.runtime.prepare(choice.of_torch)
    opened = {
        name: _opened(name, choice.precision, pipe, directory, measured=engine == AUTO)
        for name in {choice.few, choice.many} - {TORCH}
    }
    pipe.runtime.use(opened.get(choice.few), opened.get(choice.many))
    return pipe


def _opened(name: str, precision: str, pipe: Pipeline, directory: Path, *, measured: bool) -> Engine | None:
    """An engine of a run; None, with a warning, where it was ``measured`` and is not there any more.

    Raises InputError as ``open_engine`` does for one that was named, without its advice to export the model where no
    such export can be made.
    """
    from headway.formats.subject import refusals

    try:
        return open_engine(name, directory, pipe.model, precision)
    except InputError as error:
        if measured:
            warnings.warn(f"torch answers, since the engine that was measured cannot: {error}", stacklevel=5)
            return None
        if not isinstance(pipe.model, Ensemble) and (
            reason := refusals(pipe.model, pipe.tokenizer)[SPECS[name].format]
        ):
            raise InputError(f"--engine {name} cannot answer by this model: {reason}.") from None
        raise


def load_model(directory: Path, precision: str | None = None) -> nn.Module:
    """The model of a directory; one that only its task can build is built by that task.  Raises InputError.

    ``precision`` as in ``hub.directory.load_model``.
    """

    def build(config: OwnConfig) -> nn.Module:
        _check_installed(config.task, directory)
        return own_model(task_named(config.task), config)

    return hub.load_model(directory, build_own=build, precision=precision)


def pipeline_of(model: Any, directory: Path, facts: dict[str, Any] | None = None, *, alone: bool = False) -> Pipeline:
    """The pipeline of a model that was loaded from ``directory``; ``facts`` are its headway.json, if that was read.

    ``alone`` ignores the other members of a run with several seeds.  Raises InputError as ``load`` does.
    """
    facts = facts or read_facts(directory) or {}
    facts = {key: value for key, value in facts.items() if key != "members"} if alone else facts
    named = facts.get("task")
    if named is not None and named not in NAMES:
        _check_installed(named, directory)
    if (name := named if named in others() else task_of(model, named)) is None:
        if getattr(model, "patches", None) is not None:
            raise InputError(
                f"{directory}: is an image model without a classifier, which gives vectors. From Python, "
                "`headway.load_model` gives it, and `headway.data.images.preprocessing` prepares images for it; "
                "`headway train FOLDER --from` it makes a classifier."
            )
        raise InputError(f"{directory / 'config.json'}: the task of this model is unknown.")
    pipe = task_named(name).pipeline(model, directory, facts)
    if isinstance(pipe, FrameAnswers):
        pipe.text_column = facts.get("data", {}).get("text_column")
    return pipe


def task_of(model: nn.Module, named: str | None = None) -> str | None:
    """The task of a model: the one that it names, if it has such models, else the one with such heads; or None."""
    reads, head = "text" if getattr(model, "patches", None) is None else "picture", (wiring_name(model), gives(model))
    if named in NAMES and spec(named).reads == reads and head in (*spec(named).heads, *spec(named).named_heads):
        return named
    return with_head(reads, *head, kept(model, "problem_type"))


def _check_installed(task: str, directory: Path) -> None:
    """Raise InputError for the model of a task that no installed package has."""
    if task not in others():
        raise InputError(
            f"{directory}: is a model for {shown(task)}, a task that no installed package has; install the package "
            "that trained it."
        )
