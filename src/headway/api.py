"""The public functions: what each verb does, from Python; progress goes to standard error alone."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Unpack

from headway.errors import InputError, RunFailed
from headway.io.quantities import parse_seconds
from headway.io.regular_file import check_name
from headway.training.keywords import TrainKeywords
from headway.training.options import TrainOptions, by_our_names
from headway.training.progress import NoProgress, Progress, shown_to


def train(
    *inputs: Any,
    out: str | Path | None = None,
    validation: Any = (),
    quiet: bool = False,
    **options: Unpack[TrainKeywords],
) -> dict[str, Any]:
    """Train on a file, several files (as arguments or as a list) or a folder; returns what ``--json`` prints.

    Instead of files you can pass data in memory: a pandas or polars DataFrame, a ``datasets.Dataset``, a list of
    texts, a pair of a list of texts and a list of labels, a list of dicts, or a dict of columns; ``validation`` too.

    ``options`` are the command's options: ``time="5m"`` (or ``time=300``, in seconds), ``steps=100``, ``seed=0``,
    ``d_model=128`` and so on, and ``from_model`` for ``--from``.  Without ``out`` the run directory is ``runs/`` and
    the input's name.  Raises InputError for input that cannot be used.
    """
    from headway.data.open.in_memory import given_inputs
    from headway.workflows.train.outcome import result

    started, data = monotonic(), given_inputs(inputs)
    held_out = given_inputs([validation]) if not isinstance(validation, list | tuple) or validation else []
    chosen = TrainOptions(**by_our_names(options))
    for name in (*data, *held_out, *([] if out is None else [out])):
        if isinstance(name, str | Path):
            check_name(str(name), "a name among the inputs and outputs")
    folder = Path(out) if out is not None else default_out(data)
    return result(train_run(data, chosen, folder, held_out, started=started, progress=shown_to(quiet)))


def train_run(
    inputs: Sequence[Any],
    options: TrainOptions,
    out: Path,
    validation: Sequence[Any] = (),
    *,
    started: float,
    progress: Progress,
    command: Sequence[str] = (),
) -> Any:
    """The ``RunDirectory`` of a run with its report; ``started`` and ``command`` are those of ``run_training``.

    Raises InputError for input that cannot be used, RunFailed, and KeyboardInterrupt, with what is saved, after Ctrl-C.
    """
    from headway.io.memory import return_freed_memory
    from headway.training.hardware.memory import out_of_memory
    from headway.training.loop.trainer import Interrupted
    from headway.training.ranks import is_first
    from headway.workflows.train.run import run_training
    from headway.workflows.train.seeds import run_seeds

    progress = progress if is_first() else NoProgress()
    try:
        how: dict[str, Any] = {"out": out, "validation": validation, "progress": progress, "command": command}
        with out_of_memory("before training or after it"):
            if options.run.seeds > 1:
                run = run_seeds(inputs, options, **how)
            else:
                run = run_training(inputs, options, started=started, **how)
    except (Interrupted, RunFailed) as error:
        with contextlib.suppress(InputError):  # a run directory may not be there yet, or only that of a part of it
            if is_first():
                save_report(out, progress)
        if isinstance(error, RunFailed):
            raise
        model = "" if (out / "config.json").exists() else "; there is no model to use before its first evaluation"
        raise KeyboardInterrupt(f"stopped and saved in {out}; run the same command again to resume{model}") from None
    finally:
        progress.close()
        return_freed_memory(0)  # a program in Python goes on
    if is_first():
        save_report(run.path, progress)
    return run


def save_report(run: Path, progress: Progress) -> None:
    """Write a run's report; failure is only a warning, since the run itself is saved."""
    from headway.reports.report import write_report

    try:
        write_report(run)
    except OSError as error:
        progress.warn(f"{run / 'report.html'}: cannot be written ({error.strerror or error}); the run is saved")


def default_out(inputs: Sequence[Any]) -> Path:
    """The default run directory: runs/ and the first input's name, or both names of two aligned files."""
    if inputs and not isinstance(inputs[0], str | Path):
        return Path("runs") / "data"
    from headway.data.formats.aligned import sides_of
    from headway.data.open.files import ENDINGS
    from headway.hub.download import dataset_id

    name = Path(inputs[0]).resolve().name if inputs else "run"
    if inputs and (wanted := dataset_id(inputs[0])) is not None:
        name = wanted.name.partition("/")[2]
    for ending in (".gz", *ENDINGS, ".npz"):
        name = name.removesuffix(ending)
    if sides := sides_of(inputs):
        name += f"-{sides[1]}"
    return Path("runs") / (name or "run")


def evaluate(
    run: str | Path,
    data: Any = None,
    *,
    device: str = "auto",
    precision: str = "float32",
    text_column: str | None = None,
    label_column: str | None = None,
    second_column: str | None = None,
    delimiter: str | None = None,
    on_bad_row: str | None = None,
    encoding: str | None = None,
    merge_labels: str | None = None,
    labels_as_text: bool = False,
) -> dict[str, Any]:
    """Measure a saved model; returns what ``headway evaluate --json`` prints.

    ``data`` is the name of a file, a list of them, or data in memory as ``headway.train`` takes it.  Without it, the
    model is measured on the held-out part of its training data.  The other options are the command's options.
    Raises InputError for data that cannot be measured.
    """
    started = monotonic()
    columns = {"text_column": text_column, "label_column": label_column, "second_column": second_column}
    how = {"delimiter": delimiter, "on_bad_row": on_bad_row, "encoding": encoding, "merge_labels": merge_labels}
    options = by_our_names({**columns, **how, "labels_as_text": labels_as_text})
    from headway.workflows.evaluate import evaluate, shown

    metrics = shown(evaluate(run, () if data is None else data, device=device, precision=precision, **options))
    return _timed(metrics, started)


def export(
    run: str | Path,
    out: str | Path | None = None,
    *,
    to: str = "hf",
    precision: str | None = None,
    push: str | None = None,
    public: bool = False,
    license: str | None = None,
    allow_pickle: bool = False,
) -> dict[str, Any]:
    """Write a saved model for another program and compare it there; returns what ``headway export --json`` prints.

    The options are the command's.  Raises InputError for a model that the format cannot hold and RunFailed where the
    answers differ, of which nothing is left.
    """
    started = monotonic()
    from headway.workflows.export import export

    how: dict[str, Any] = {"push": push, "public": public, "license": license, "allow_pickle": allow_pickle}
    exported = export(run, out, to=to, precision=precision, **how)
    if exported.problem:
        raise RunFailed(f"{run}: {exported.problem}")
    return _timed(exported.result, started)


def verify(run: str | Path, *, device: str = "auto", quiet: bool = False) -> dict[str, Any]:
    """Check that a saved model works correctly here; returns what ``headway verify --json`` prints, and ``passed``.

    Raises InputError if there is no such model or device, or if one of its files is damaged.
    """
    started = monotonic()
    from headway.workflows.verify.verify import verify

    return _timed(verify(run, shown_to(quiet), device=device), started)


def bench(
    run: str | Path,
    *,
    time: str | float = "2m",
    device: str = "auto",
    full: bool = False,
    store: str | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Measure the speed of a saved model; returns what ``headway bench RUN --json`` prints.  Raises InputError.

    ``time`` is for all of it, in seconds or such as "90s"; ``full`` and ``store`` are the command's.
    """
    started = monotonic()
    from headway.workflows.bench import bench

    how: dict[str, Any] = {"device": device, "full": full, "store": store, "progress": shown_to(quiet)}
    return _timed(bench(str(run), end=started + parse_seconds(time, "time"), **how), started)


def _timed(result: dict[str, Any], started: float) -> dict[str, Any]:
    """A result as ``--json`` prints it: its task and the seconds that it took come first."""
    return {"task": result["task"], "seconds": monotonic() - started, **result}
