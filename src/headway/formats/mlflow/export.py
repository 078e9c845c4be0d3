"""A model that MLflow serves, registers and sends to Spark: a copy of the run with a signature (``mlflow.pyfunc``)."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from headway.data.records.rows import columns_named
from headway.formats.parity import BOUND, NEW, Parity, exceeding, own_texts, room
from headway.formats.subject import Subject
from headway.training.store.facts import read_facts

LOADER = "headway.integrations.mlflow"
"""The module that opens it."""
NOT_COPIED = ("checkpoints", "exports", "snapshots", "trained_texts", "log.jsonl", "report.html", "*.part", "*.journal")
REQUIRED = ("torch", "numpy", "safetensors", "tokenizers", "pandas", "pyarrow")
"""Packages whose versions are written down.  Headway itself is not among them: no package index has it."""
TEXTS = 32


def problem(subject: Subject) -> str | None:
    """Why the model reads no texts, or is several in one run."""
    if subject.tokenizer is None:
        return "a model of MLflow is made of what answers texts; this one reads images"
    if (read_facts(subject.directory) or {}).get("members"):
        return "holds models of several seeds; export the folder of one of them"
    return None


def write(subject: Subject, directory: Path, precision: str) -> None:
    """The run without checkpoints, log and report, with its signature and the versions of what it needs."""
    pyfunc = _pyfunc()
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    inputs = Schema([ColSpec("string", name) for name in _columns(subject)])
    outputs = Schema([ColSpec(_type(kind), name) for name, kind in subject.pipe.answer_types().items()])
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        shutil.copytree(subject.directory, run, ignore=shutil.ignore_patterns(*NOT_COPIED))
        pyfunc.save_model(
            str(directory),
            loader_module=LOADER,
            data_path=str(run),
            signature=ModelSignature(inputs, outputs),
            input_example=_frame(subject, own_texts(subject.tokenizer, room(subject.model), 2)),
            pip_requirements=[f"{name}=={version(name).partition('+')[0]}" for name in REQUIRED],
            model_config={"device": "auto", **subject.pipe.default_options},
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
        return parity.unusable(error)
    here = subject.pipe.predict(frame, **fixed).drop(columns=frame.columns)
    here = here.astype(object).where(here.notna(), None)
    numbers = [name for name, kind in subject.pipe.answer_types().items() if kind is float]
    apart = (here[numbers].astype(float) - there[numbers].astype(float)).abs().max()
    difference = float(apart.max()) if numbers else 0.0
    differs = [name for name in here.columns.drop(numbers) if here[name].tolist() != there[name].tolist()]
    problems = [f"{name} differs" for name in differs] + exceeding(difference, BOUND, "the answers differ")
    return parity.holding(Parity(difference, over=f"{len(frame)} texts"), *problems)


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
    from mlflow.types.schema import Array, Object, Property

    if isinstance(kind, UnionType):  # of what may be missing
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is list:
        return Array(_type(get_args(kind)[0]))
    if is_typeddict(kind):
        return Object([Property(name, _type(field)) for name, field in get_type_hints(kind).items()])
    return {str: "string", int: "long"}.get(kind, "double")
