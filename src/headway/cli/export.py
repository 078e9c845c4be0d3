"""``headway export``: write a saved model for other programs, and check that they read the same model."""

from pathlib import Path
from typing import Any

import click

from headway.cli.common import Answer, interruptible, verb
from headway.io.quantities import figure
from headway.workflows.export.registry import TARGETS

PRECISIONS = tuple(dict.fromkeys(precision for spec in TARGETS.values() for precision in spec.precisions))
"""What weights can be stored in, for some target."""


@verb()
@click.argument("run")
@click.option(
    "--to",
    type=click.Choice(list(TARGETS)),
    default=next(iter(TARGETS)),
    show_default=True,
    help="; ".join(f"{spec.name}: {spec.description}" for spec in TARGETS.values()) + ".",
)
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="What the weights are stored in ("
    + "; ".join(f"{spec.name}: {', '.join(spec.precisions)}" for spec in TARGETS.values())
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
def command(run: str, to: str, precision: str | None, out: str | None, **how: Any) -> Answer:
    """Write the model in RUN (a run, a Hugging Face directory or a hub id) for another program.

    The model and its tokenizer are written, but not the checkpoints, log and report.  The result is then opened as its
    users open it, and compared: the outputs for random inputs, the labels, tokens or vectors of some texts,
    and the token ids of 1,000 lines in many scripts.  If anything differs, the directory is removed and the exit status
    is 1.  With a lower precision, the difference and the number of equal answers are reported.
    """
    from headway.workflows.export.export import export

    with interruptible():
        found = export(run, out or default_out(run, to, precision), to=to, precision=precision, **how)
    parity = found.parity
    there, here = (None, None) if parity.seconds is None else (parity.seconds[1], parity.seconds[0])
    result = {
        "task": found.task,
        "out": str(found.out) if found.made else None,
        "target": found.target,
        "precision": found.precision,
        "max_difference": parity.max_difference,
        "checked": parity.checked,
        "tokens_equal": parity.tokens_equal,
        "agreement": None if parity.agreement is None else parity.agreement[0] / parity.agreement[1],
        "door": parity.door,
        "seconds_there": there,
        "seconds_here": here,
    }
    lines = [f"saved in {found.out}"] if found.made else []
    if found.address is not None:
        result["address"] = found.address
        lines.append(f"pushed to {found.address}")
    if found.made and found.member:
        result["member"] = found.member
        lines.append(f"of the ensemble in {run} only the best member, {found.member}")
    if parity.passed:
        lines.append(f"read through {parity.door} with {parity.reader} {parity.version}: {parity.words}")
        lines += parity.notes
        if there is not None and here is not None:
            lines.append(f"time for these answers: {figure(there, 2)} s there, {figure(here, 2)} s here")
    elif not parity.checked:
        lines.append(
            f"not checked: {parity.problem}; to check, `pip install --upgrade {parity.needs}` and run this command "
            "again"
        )
    elif parity.max_difference is not None:
        lines.append(f"max_difference {parity.max_difference:.3g}")
    return Answer(result, lines, "" if found.made else f"{run}: {parity.problem}; nothing was left in {found.out}.")


def default_out(run: str, to: str, precision: str | None = None) -> Path:
    """The default directory of an export: in the run, where engines look for it; for a hub id, exports/NAME-TARGET."""
    from headway.runtime.engines.exported import FOLDER, place_of

    place = place_of(Path(run), to, precision or TARGETS[to].precisions[0])
    if Path(run).is_dir():
        return place
    return Path(FOLDER) / f"{Path(run.partition('@')[0]).name or 'model'}-{place.name}"
