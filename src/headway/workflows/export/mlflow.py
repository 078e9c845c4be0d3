"""A model that MLflow serves, registers and sends to Spark: a copy of the run with a signature (``mlflow.pyfunc``)."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headway.data.records.rows import columns_named
from headway.errors import InputError
from headway.hub.download import one_line
from headway.tasks.checks import BOUND, NEW
from headway.tasks.frames import answered
from headway.tasks.registry import command
from headway.training.store.facts import read_facts
from headway.workflows.export.parity import Parity, exceeding, own_texts, room
from headway.workflows.export.target import Subject

LOADER = "headway.integrations.mlflow"
"""The module that opens it."""
NOT_COPIED = ("checkpoints", "exports", "snapshots", "trained_texts", "log.jsonl", "report.html", "*.part", "*.journal")
REQUIRED = ("torch", "numpy", "safetensors", "tokenizers", "pandas", "pyarrow")
"""Packages whose versions are written down.  Headway itself is not among them: no package index has it."""
TEXTS = 32


def refuse(subject: Subject) -> None:
    """Raise InputError for a model that reads no texts, and for several models in one run."""
    if subject.tokenizer is None:
        raise InputError(
            f"{subject.directory}: a model of MLflow is made of what answers texts; this one reads images."
        )
    if (read_facts(subject.directory) or {}).get("members"):
        raise InputError(f"{subject.directory}: holds models of several seeds; export the folder of one of them.")


def write(subject: Subject, directory: Path, precision: str) -> None:
    """The run without checkpoints, log and report, with its signature and the versions of what it needs."""
    pyfunc = _pyfunc()
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    inputs = Schema([ColSpec("string", name) for name in _columns(subject)])
    types, _ = answered(subject.pipe, [])
    outputs = Schema([ColSpec(_type(kind), name) for name, kind in types.items()])
    pinned = [f"{name}=={version(name).partition('+')[0]}" for name in REQUIRED]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        shutil.copytree(subject.directory, run, ignore=shutil.ignore_patterns(*NOT_COPIED))
        pyfunc.save_model(
            str(directory),
            loader_module=LOADER,
            data_path=str(run),
            signature=ModelSignature(inputs, outputs),
            input_example=_frame(subject, own_texts(subject.tokenizer, room(subject.model), 2)),
            pip_requirements=pinned,
            model_config={"device": "auto"}
            | {option.name: option.usual for option in command(subject.pipe.task).options},
        )


def compare(subject: Subject, directory: Path, precision: str) -> Parity:
    """By ``mlflow.pyfunc.load_model``: the answers to some texts, and to a row without one."""
    pyfunc, package = _pyfunc(), "mlflow-skinny"
    parity = Parity(reader="mlflow", version=version(package), needs=package, door="mlflow.pyfunc.load_model(DIR)")
    frame = _frame(subject, [*own_texts(subject.tokenizer, room(subject.model), TEXTS), None])
    fixed = {"seed": 0, "max_tokens": NEW} if hasattr(subject.pipe, "stream") else {}
    try:
        there = pyfunc.load_model(str(directory), model_config=fixed).predict(frame)
    except Exception as error:  # any error means that its users cannot use the directory
        return parity.holding(parity, f"{parity.door} cannot use it: {one_line(error)}")
    here = subject.pipe.predict(frame, **fixed).drop(columns=frame.columns)
    here = here.astype(object).where(here.notna(), None)
    numbers = [name for name, kind in answered(subject.pipe, [])[0].items() if kind is float]
    apart = (here[numbers].astype(float) - there[numbers].astype(float)).abs().max()
    difference = float(apart.max()) if numbers else 0.0
    differs = [name for name in here.columns.drop(numbers) if here[name].tolist() != there[name].tolist()]
    problems = [f"{name} differs" for name in differs] + exceeding(difference, BOUND, "the answers differ")
    return parity.holding(Parity(max_difference=difference, over=f"{len(frame)} texts", texts=len(frame)), *problems)


def _pyfunc() -> Any:
    """``mlflow.pyfunc``, which reports no use unless the user has switched that on."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow.pyfunc

    return mlflow.pyfunc


def _columns(subject: Subject) -> list[str]:
    """The columns of texts that its users send."""
    return [*columns_named(subject.pipe.text_column or "text", ())]


def _frame(subject: Subject, texts: Sequence[str | None]) -> Any:
    import pandas

    if hasattr(subject.pipe, "is_open"):  # a text of a masked language model has a mask
        texts = [text and f"{text} [MASK]" for text in texts]
    return pandas.DataFrame(dict.fromkeys(_columns(subject), texts))


def _type(kind: Any) -> Any:
    """The type of MLflow for a column of answers."""
    import pyarrow
    from mlflow.types.schema import Array, Object, Property

    from headway.tasks.frames import arrow_type

    def converted(arrow: Any) -> Any:
        if pyarrow.types.is_list(arrow):
            return Array(converted(arrow.value_type))
        if pyarrow.types.is_struct(arrow):
            return Object([Property(field.name, converted(field.type)) for field in arrow])
        return {pyarrow.string(): "string", pyarrow.int64(): "long"}.get(arrow, "double")

    return converted(arrow_type(kind))
