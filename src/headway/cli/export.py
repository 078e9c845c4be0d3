"""``headway export``: a saved model as other programs read it, and the proof that they do."""

import time
from pathlib import Path

import click

from headway.cli.common import emit, interruptible, output_options

TARGETS = {"hf": "a directory that transformers loads"}
"""What a model can be exported to."""


@click.command(short_help="Write a saved model for other programs, and prove that they read the same model.")
@click.argument("run")
@click.option(
    "--to",
    type=click.Choice(list(TARGETS)),
    default="hf",
    show_default=True,
    help="; ".join(f"{name}: {text}" for name, text in TARGETS.items()) + ".",
    expose_value=False,
)
@click.option("--out", help="The directory to write. [default: exports/ and the name of RUN]")
@click.option("--allow-pickle", is_flag=True, help="Read weights of torch.save, if you trust whoever made them.")
@output_options
def command(run: str, out: str | None, allow_pickle: bool, as_json: bool, quiet: bool) -> None:
    """Write the model in RUN (a run, a Hugging Face directory or a hub id) as a directory of its own.

    It holds config.json, model.safetensors, the tokenizer's files, generation_config.json and the names of labels;
    checkpoints, log and report stay behind.  Where transformers is installed, what was written is opened as its users
    open it, by pipeline(TASK, DIR), by the class of its task or by SentenceTransformer, and compared: the names of
    all weights, the logits of 32 random inputs, the labels or tokens and the scores of some texts, and the token ids of
    1,000 lines in many scripts.  When anything differs, nothing is left there and the exit status is 1.
    """
    started = time.monotonic()
    from headway.tasks.common.door_answers import BOUND
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
        lines.append(f"of the classifiers that answer together in {run}, {found.member} alone, the best")
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
    """Where an export goes when no place is named: exports/ and the last word of the run's name."""
    return Path("exports") / (Path(run.partition("@")[0]).resolve().name or "model")
