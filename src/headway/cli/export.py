"""``headway export``: write a saved model for other programs, and check that they read the same model."""

import time
from pathlib import Path

import click

from headway.cli.common import emit, interruptible, output_options

TARGETS = {"hf": "a directory that transformers loads"}
"""What a model can be exported to."""


@click.command(short_help="Write a saved model for other programs, and check that they read the same model.")
@click.argument("run")
@click.option(
    "--to",
    type=click.Choice(list(TARGETS)),
    default="hf",
    show_default=True,
    help="; ".join(f"{name}: {text}" for name, text in TARGETS.items()) + ".",
    expose_value=False,
)
@click.option("--out", help="Directory to write. [default: exports/ and the name of RUN]")
@click.option("--allow-pickle", is_flag=True, help="Read weights saved by torch.save; only if you trust their source.")
@output_options
def command(run: str, out: str | None, allow_pickle: bool, as_json: bool, quiet: bool) -> None:
    """Write the model in RUN (a run, a Hugging Face directory or a hub id) as a directory of its own.

    It holds config.json, model.safetensors, the tokenizer's files, generation_config.json and the label names, but not
    the checkpoints, log and report.  If transformers is installed, the result is loaded as users load it, with
    pipeline(TASK, DIR), the class of its task or SentenceTransformer, and compared: the names of all weights, the
    logits of 32 random inputs, the labels or tokens and the scores of some texts, and the token ids of 1,000 lines in
    many scripts.  If anything differs, the directory is removed and the exit status is 1.
    """
    started = time.monotonic()
    from headway.tasks.common.compare_answers import BOUND
    from headway.workflows.export.export import export
    from headway.workflows.export.parity import INPUTS, LINES

    with interruptible():
        found = export(run, out or default_out(run), allow_pickle=allow_pickle)
    parity = found.parity
    result = {
        "task": found.task,
        "seconds": time.monotonic() - started,
        "out": str(found.out) if found.made else None,
        "max_difference": parity.max_difference,
        "checked": parity.checked,
        "tokens_equal": parity.tokens_equal,
        "door": parity.door,
    }
    lines = [f"saved in {found.out}"] if found.made else []
    if found.made and found.member:
        result["member"] = found.member
        lines.append(f"of the ensemble in {run} only the best member, {found.member}")
    if parity.passed:
        same = "" if parity.tokens_equal is None else f", the same ids for {LINES:,} lines"
        texts = f" and the answers to {parity.texts} texts" if parity.texts else ""
        lines.append(
            f"read through {parity.door} with transformers {parity.version}: no weight missing or left over, "
            f"max_difference {parity.max_difference:.2g} over {INPUTS} random inputs{texts} (at most {BOUND:g}){same}"
        )
    elif not parity.checked:
        lines.append(
            f"not checked: {parity.problem}; to check, `pip install --upgrade {parity.needs}` and run this command "
            "again"
        )
    elif parity.max_difference is not None:
        lines.append(f"max_difference {parity.max_difference:.3g}")
    emit(result, as_json, lines)
    if not found.made:
        raise click.ClickException(f"{run}: {parity.problem}; nothing was left in {found.out}.")


def default_out(run: str) -> Path:
    """The default directory of an export: exports/ and the last part of the run's name."""
    return Path("exports") / (Path(run.partition("@")[0]).resolve().name or "model")
