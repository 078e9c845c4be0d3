"""Open an engine for a model that was loaded from a directory."""

from importlib import import_module
from pathlib import Path
from typing import Any, cast

from headway.errors import InputError
from headway.hub.download import one_line
from headway.models.adapt.ensemble import Ensemble
from headway.models.transformer import Decoder
from headway.runtime.engines.engine import Engine
from headway.runtime.engines.exported import checked_export
from headway.runtime.engines.registry import SPECS


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
