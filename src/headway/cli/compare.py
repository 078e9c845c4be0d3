"""``headway compare``: architectures side by side on one file."""

import signal
from pathlib import Path
from typing import Any

import click

from headway.api import default_out
from headway.cli.common import SEVERAL, THREADS, Answer, aligned, interruptible, resumable, set_threads, verb

FEW = click.IntRange(1, 1000)


@verb()
@click.argument("inputs", nargs=-1)
@click.option("--models", default="", help="Models to compare, with commas: transformer,lstm,gru,rnn,cnn,bow, MODEL...")
@click.option("--vary", help="Compare variants of one part of the Transformer instead: ffn, norm, positions or heads.")
@click.option("--recall", is_flag=True, help="Compare how far back the models remember, on a synthetic text.")
@click.option(
    "--match", help="What is equal for all models: time, parameters or tokens.  [default: time; with --vary tokens]"
)
@click.option(
    "--time", "limit", default="5m", show_default=True, help="Time for each model, including trials and seeds."
)
@click.option("--trials", type=FEW, default=1, show_default=True, help="Learning rates to try for each model.")
@click.option("--seeds", type=FEW, default=1, show_default=True, help="Seeds to train each model with.")
@click.option("--validation", multiple=True, help="Validation file.  [default: a held-out part of the data]")
@click.option("--test", help="Test file: the finished models are measured on it once; it chooses nothing.")
@click.option("--out", help="Directory of the comparison.  [default: runs/ and the input's name]")
@click.option("--seed", default=0, show_default=True, help="First seed; it also determines the held-out rows.")
@click.option("--task", help="Task, if not detected correctly.")
@click.option("--text-column", **SEVERAL, help="Text column; several are joined.")
@click.option("--label-column", **SEVERAL, help="Label column; several are learnt together.")
@click.option("--on-bad-row", help="What to do with a malformed row: error or skip.")
@click.option("--merge-labels", help="Merge labels that differ only in spelling: all, or a file of pairs.")
@click.option("--tokenizer", help="Tokenizer; a pretrained MODEL keeps its own.")
@click.option("--length", type=int, help="Maximum sequence length in tokens.")
@click.option("--optimizer", help="Optimizer of all models, or auto for each model's own.  [default: adamw]")
@click.option("--precision", help="Precision of all models, or auto for each model's own.  [default: float32]")
@click.option("--threads", type=THREADS, help="CPU threads of every training and measurement.")
def command(inputs: tuple[str, ...], limit: str, out: str | None, progress: Any, **given: Any) -> Answer:
    """Train several models on INPUTS with the same split, tokenizer, optimizer, precision, budget, trials and seeds,
    and compare them.

    Each of --models has --time in total.  transformer, lstm, gru and rnn are for language models, translators and
    classifiers, cnn and bow for classifiers; any other name is a pretrained model, which is fine-tuned.  --vary
    compares Transformers that differ in one part, of equal sizes and on equally many tokens.  The result is a table
    with advice; compare.json, report.html and plots are written to --out.  Run the same command again to resume an
    interrupted comparison.
    """
    from headway.reports.comparison import write_comparison
    from headway.reports.plots import NoMatplotlib
    from headway.science.compare import compare
    from headway.science.comparison import Comparison
    from headway.science.long_texts import LETTERS

    place = Path(out) if out is not None else default_out(inputs or ("recall",))
    if out is None:
        place = place.with_name(place.name + "-compared")
    comparison = Comparison(
        inputs=list(inputs),
        models=[name.strip() for name in given.pop("models").split(",") if name.strip()],
        time=limit,
        validation=list(given.pop("validation")),
        **{name: given.pop(name) for name in ("match", "vary", "recall", "trials", "seeds", "seed", "test")},
        options={name: value for name, value in given.items() if value is not None},
    )
    set_threads(given["threads"])
    with resumable(f"the comparison in {place}"), interruptible(signal.SIGTERM):  # which stops a training too
        result = compare(comparison, place, progress)
    drawn = "report, plots and compare.json"
    try:
        write_comparison(result, place, guessing=1 / len(LETTERS))
    except NoMatplotlib as error:
        drawn = f"{error} compare.json"
    lines = [*_table(result), "", *result["advice"], "", f"{drawn}: {place}"]
    return Answer({"out": str(place), **result}, lines)


def _table(result: dict[str, Any]) -> list[str]:
    heads = ["model", result["metric"].replace("_", " "), "95 % interval", "parameters", "optimizer", "precision"]
    heads += ["trained, s", "tokens/s", "latency, ms", "throughput/s", "memory, MB"]
    lines = [heads]
    for row in result["rows"]:
        if "failed" in row:
            lines.append([row["model"], "failed", row["failed"][:60], *[""] * (len(heads) - 3)])
            continue
        between = "-" if row["interval"] is None else "{:.4g} to {:.4g}".format(*row["interval"])
        lines.append(
            [
                *(row["model"], f"{row['mean']:.4g}", between, f"{row['parameters']:,}", row["optimizer"] or "-"),
                *(row["precision"], f"{row['seconds']:.0f}"),
                *(f"{row['tokens_per_second']:,.0f}", f"{row['latency_ms']:.2f}", f"{row['throughput']:,.0f}"),
                "-" if row["memory_mb"] is None else f"{row['memory_mb']:,.0f}",
            ]
        )
    return aligned(lines)
