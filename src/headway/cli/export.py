"""``headway export``: write a saved model for other programs, and check that they read the same model."""

from typing import Any

import click

from headway.cli.common import Answer, interruptible, verb
from headway.formats.registry import FORMATS
from headway.io.quantities import figure

PRECISIONS = tuple(dict.fromkeys(precision for format in FORMATS.values() for precision in format.precisions))
"""What weights can be stored in, for some format."""


@verb()
@click.argument("run")
@click.option(
    "--to",
    type=click.Choice(list(FORMATS)),
    default=next(iter(FORMATS)),
    show_default=True,
    help="; ".join(f"{format.name}: {format.description}" for format in FORMATS.values()) + ".",
)
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="What the weights are stored in ("
    + "; ".join(f"{format.name}: {', '.join(format.precisions)}" for format in FORMATS.values())
    + "). [default: float32]",
)
@click.option("--out", help="Directory to write. [default: RUN/exports/TARGET-PRECISION, without float32]")
@click.option("--allow-pickle", is_flag=True, help="Read weights saved by torch.save; only if you trust their source.")
@click.option(
    "--push",
    metavar="OWNER/NAME",
    help="Upload what was written and compared to this repository of the Hugging Face hub, which is made where there "
    "is none (--to hf and peft).",
)
@click.option("--public", is_flag=True, help="With --push: a public repository. [default: private]")
@click.option("--license", help="The license that the model card names, such as apache-2.0 (--to hf and peft).")
def command(run: str, **how: Any) -> Answer:
    """Write the model in RUN (a run, a Hugging Face directory or a hub id) for another program.

    The model and its tokenizer are written, but not the checkpoints, log and report.  The result is then opened as its
    users open it, and compared: the outputs for random inputs, the labels, tokens or vectors of some texts,
    and the token ids of 1,000 lines in many scripts.  If anything differs, the directory is removed and the exit status
    is 1.  With a lower precision, the difference and the number of equal answers are reported.
    """
    from headway.workflows.export import export

    with interruptible():
        exported = export(run, **how)
    parity = exported.parity
    lines = [f"saved in {exported.out}"] if exported.made else []
    if exported.address is not None:
        lines.append(f"pushed to {exported.address}")
    if exported.made and exported.member:
        lines.append(f"of the ensemble in {run} only the best member, {exported.member}")
    if parity.passed:
        through = f"through {parity.door} " if parity.door else ""
        lines.append(f"read {through}with {parity.reader} {parity.version}: {parity.words}")
        lines += parity.notes
        if parity.seconds is not None:
            here, there = parity.seconds
            lines.append(f"time for these answers: {figure(there, 2)} s there, {figure(here, 2)} s here")
    elif not parity.checked:
        lines.append(
            f"not checked: {parity.problem}; to check, `pip install --upgrade {parity.needs}` and run this command "
            "again"
        )
    elif parity.max_difference is not None:
        lines.append(f"max_difference {parity.max_difference:.3g}")
    return Answer(exported.result, lines, f"{run}: {exported.problem}" if exported.problem else "")
