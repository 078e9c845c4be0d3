"""``headway attention``: the attention maps of a saved model, as one page."""

from pathlib import Path, PurePath
from typing import Any

import click

from headway.cli.common import (
    Answer,
    check_not_path,
    device_option,
    is_file,
    standard_input,
    threads_option,
    verb,
)
from headway.cli.output_file import write_output
from headway.errors import InputError
from headway.io.quantities import size
from headway.tasks.registry import spec

DEFAULT = "attention.html"


@verb()
@click.argument("run")
@click.argument("text")
@click.option("--target", help="Target text to explain, for a translator.  [default: its own translation]")
@click.option("--source-language", help="Language of the text, for a multilingual model (M2M-100).")
@click.option("--target-language", help="Language to write, for a multilingual model (M2M-100, some Marian models).")
@click.option("--encoding", help="Encoding of the file or standard input, if not UTF-8.")
@click.option("--out", default=DEFAULT, show_default=True, help="Page to write (.html).")
@device_option
@threads_option
def command(
    run: str,
    text: str,
    target: str | None,
    source_language: str | None,
    target_language: str | None,
    encoding: str | None,
    out: str,
    device: str,
    progress: Any,
) -> Answer:
    """Write a page that shows the attention of the model in RUN when it reads TEXT: every layer, every head.

    RUN is a run, a Hugging Face directory or a hub id.  TEXT is a text, a text file, or "-" for standard input; for an
    image model it is an image file.  The page needs no network and no other file.  The command overwrites a page that
    it wrote before, but no other file.
    """
    _check_out(out)
    from headway.reports.explorer import attention_page
    from headway.workflows.inside import look_inside
    from headway.workflows.load import load

    pipe = load(run, device=device, precision="float32")
    if source_language is not None or target_language is not None:
        if not hasattr(pipe, "between"):
            raise InputError(
                f"{run}: holds a model for {pipe.task.replace('_', ' ')}; only translators have languages."
            )
        pipe = pipe.between(source_language, target_language)
    images = spec(pipe.task).reads == "picture"
    if images and encoding is not None:
        raise InputError("--encoding is for texts, and this model reads images.")
    inside = look_inside(pipe, text if images else _text(text, encoding), target)
    progress.say(f"read {', '.join(f'{len(names):,} tokens of the {axis}' for axis, names in inside.tokens.items())}")
    page = attention_page(inside, PurePath(run).name or "the model")
    write_output(out, [page.encode()])
    result: dict[str, Any] = {
        "task": pipe.task,
        "out": out,
        "bytes": len(page.encode()),
        "tokens": {axis: len(names) for axis, names in inside.tokens.items()},
        "kinds": {name: [*kind.maps.shape[:2]] for name, kind in inside.kinds.items()},
        "difference": inside.difference,
        "target": inside.target,
    }
    maps = ", ".join(f"{name} {layers} x {heads}" for name, (layers, heads) in result["kinds"].items())
    lines = [f"{out}: maps of {maps} heads; {size(result['bytes'])}. Open it in a browser."]
    return Answer(result, [*lines, f"headway explain {run} shows the model block by block."])


def _check_out(out: str) -> None:
    """Raise InputError if the page cannot be written to ``out``; a file of the user's is never overwritten."""
    from headway.reports.explorer import MARK

    path = Path(out)
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"--out {out}: the page is written as HTML; use a name such as {DEFAULT}.")
    if path.is_dir():
        raise InputError(f"--out {out}: this is a folder; name a file.")
    if not path.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {path.parent}; make it first.")
    if path.exists():
        try:
            with path.open("rb") as file:
                ours = MARK.encode() in file.read(500)
        except OSError as error:
            raise InputError(f"--out {out}: cannot be read ({error.strerror or error}).") from None
        if not ours:
            raise InputError(f"--out {out}: this file exists and was not written by this command; use another name.")


def _text(argument: str, encoding: str | None) -> str:
    if argument == "-":
        return standard_input(encoding)
    if not is_file(argument):
        check_not_path(argument)
        return argument
    from headway.data.open.files import kind
    from headway.data.records.corpus import whole_text

    path = Path(argument)
    if kind(path) != "text":
        raise InputError(f"{argument}: this is a table; give a text or a text file.")
    return whole_text(path, encoding)
