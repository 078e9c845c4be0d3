"""Where the exports of a run lie, whether they are still the model of the run, and the engines that read them.

    RUN/exports/onnx            headway export RUN --to onnx
    RUN/exports/onnx-int8       headway export RUN --to onnx --precision int8

Each holds its record, ``headway_export.json``, with the SHA-256 of its files and the fingerprint of the model that was
exported.  An export of other weights, or one whose files have changed, is refused: it would give other answers.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, cast

from headway.errors import InputError
from headway.hub.download import one_line
from headway.hub.fingerprint import RECORD, full_fingerprint
from headway.io.digest import changed_file
from headway.io.strict_json import read_object
from headway.models.adapt.ensemble import Ensemble
from headway.models.transformer import Decoder
from headway.runtime.engines.engine import Engine
from headway.runtime.engines.registry import FLOAT32, SPECS, EngineSpec

FOLDER = "exports"


def place_of(run: Path, target: str, precision: str = FLOAT32) -> Path:
    """The directory of an export in a run."""
    return run / FOLDER / (target if precision == FLOAT32 else f"{target}-{precision}")


def checked_export(run: Path, spec: EngineSpec, precision: str) -> Path:
    """The directory that an engine reads.

    Raises InputError where there is none, where it is of another model than the run's, and where a file is damaged.
    """
    place = place_of(run, spec.target, precision)
    how = "" if precision == FLOAT32 else f" --precision {precision}"
    again = f"`headway export {run} --to {spec.target}{how}`"
    if not (place / RECORD).is_file():
        raise InputError(f"--engine {spec.name}: there is no export in {place}; {again} makes it.")
    record = read_object(place / RECORD)
    files: Any = record.get("files")
    if not isinstance(files, dict) or not all(isinstance(name, str) and _is_inside(name) for name in files):
        raise InputError(f"{place / RECORD}: is damaged; {again} replaces it.")
    if record.get("model") != full_fingerprint(run):
        raise InputError(f"{place}: is an export of another model than {run} holds now; {again} replaces it.")
    here = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} - {RECORD}
    if unnamed := sorted(here - set(files)):
        what = f"{place / unnamed[0]}: {RECORD} does not name this file, so its damage could not be noticed"
        raise InputError(f"{what}; {again} replaces the export.")
    if (found := changed_file(place, files)) is not None:
        raise InputError(
            f"{found}: is damaged: it has changed since it was exported (its SHA-256 differs), or cannot be read; "
            f"{again} replaces it."
        )
    return place


def open_engine(name: str, run: Path, model: Any, precision: str) -> Engine:
    """The engine ``name`` for the model of a directory, from the export that lies in it.

    Raises InputError where the library is not installed or cannot use the export, and where that is missing, damaged
    or of another model.
    """
    spec = SPECS[name]
    if isinstance(model, Ensemble):
        raise InputError(f"--engine {name}: {run} answers by several models together; name one of them, or torch.")
    if spec.decoders and not isinstance(model, Decoder):
        raise InputError(f"--engine {name} continues texts by decoders; name another engine for this model.")
    spec.check()
    place = checked_export(run, spec, precision)
    module = import_module(f"headway.runtime.engines.{spec.module}")
    try:
        return cast(Engine, module.open_engine(place, model, precision))
    except InputError:
        raise
    except Exception as error:  # whatever a library raises for files that it cannot use
        raise InputError(f"--engine {name} cannot use {place}: {one_line(error)}") from None


def _is_inside(name: str) -> bool:
    return not Path(name).is_absolute() and ".." not in Path(name).parts
