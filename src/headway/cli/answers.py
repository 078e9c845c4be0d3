"""Answers for many inputs, chunk by chunk: to a file, to standard output or in one JSON object."""

import contextlib
import time
import warnings
from itertools import chain
from pathlib import Path
from typing import Any

from headway.cli.common import interruptible, show_lines
from headway.cli.output_file import OutputFile
from headway.cli.results import ResultsFile
from headway.cli.texts import CHARACTERS, pieces
from headway.io.quantities import duration
from headway.tasks.command import Command

BATCHES = 16
"""Batches per thread in a chunk.  With fewer, more batches are partly filled; with more, a kill loses more."""
EVERY = 10.0
"""Seconds between two progress lines."""


def piece_size(tokens_at_once: int) -> int:
    """How many characters are read before their answers are written, given the tokens of a batch."""
    import torch

    return CHARACTERS * BATCHES * torch.get_num_threads() * tokens_at_once


def give_answers(
    use: Command, *, most: int, output: OutputFile | None, file: ResultsFile | None, as_json: bool, progress: Any
) -> list[Any]:
    """Answer the inputs of a command in order, and write or show each chunk when it is answered.

    ``most`` is the size of a chunk in characters.  With ``as_json`` all answers are returned, including those that
    ``output`` holds from an earlier command; otherwise none.
    """
    inputs = use.inputs.values
    started, said = time.monotonic(), time.monotonic()
    results: list[Any] = []
    before = 0
    if output is not None:
        results, before = output.results, output.inputs
        if before:
            progress.say(f"{output.to}: resuming after {before:,} of {len(inputs):,} inputs")
    with interruptible() if output is not None else contextlib.nullcontext():
        try:
            for start, part in pieces(inputs, most):
                stop = start + len(part)
                if stop <= before:
                    continue
                if start == before and use.inputs.several and use.spec.reads == "text":
                    _warn_of_lost(part, getattr(use.pipe, "tokenizer", None))
                found = use.answer(part)
                if output is not None and file is not None:
                    output.add(file.content(start, found), stop, use.results(found) if as_json else None)
                elif as_json:
                    results += use.results(found)
                else:
                    show_lines(use.lines(start, found))
                if stop < len(inputs) and time.monotonic() - said >= EVERY:
                    said = time.monotonic()
                    left = (said - started) / (stop - before) * (len(inputs) - stop)
                    progress.say(f"{stop:,} of {len(inputs):,} inputs, about {duration(left)} left")
        except KeyboardInterrupt:
            if output is None or not output.inputs:
                raise
            kept = f"the answers for {output.inputs:,} of {len(inputs):,} inputs are saved"
            raise KeyboardInterrupt(f"stopped; {kept}; run the same command again to resume") from None
    return results


def _warn_of_lost(texts: list[Any], tokenizer: Any) -> None:
    from headway.tasks.inputs import lost_characters

    if tokenizer is not None and (line := lost_characters(texts, tokenizer)):
        warnings.warn(line, stacklevel=2)


def asked_for(verb: str, use: Command, to: str, **more: Any) -> str:
    """A fingerprint of everything that the answers of a command depend on."""
    import torch

    from headway import __version__
    from headway.data.batches.cache import key_of
    from headway.hub.adapters.locate import locate_model
    from headway.hub.fingerprint import full_fingerprint

    model = full_fingerprint(locate_model(use.inputs.run).path)
    options = sorted({**use.depends_on, **more}.items())
    runtime = use.pipe.runtime
    by = (runtime.precision, *("" if engine is None else engine.name for engine in (runtime.few, runtime.many)))
    kind = (verb, Path(to).suffix, model, __version__, torch.get_num_threads(), *by, options)
    return key_of(chain(kind, use.inputs.known_by or use.inputs.values))
