"""The same run with several seeds: mean and spread of the results, and an ensemble that averages the answers."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.io.quantities import parse_seconds
from headway.tasks.registry import spec, supporting
from headway.training.option_fields import DEFAULT_TIME, flag
from headway.training.options import TrainOptions
from headway.training.progress import Progress
from headway.training.store.facts import write_facts
from headway.training.store.run_directory import RunDirectory, copy_run
from headway.workflows.evaluate import evaluate
from headway.workflows.input import read_input, validation_input
from headway.workflows.train.check import BOUNDS, changes, check_same_data, recorded
from headway.workflows.train.run import run_training


def run_seeds(
    inputs: Sequence[str | Path],
    options: TrainOptions,
    *,
    out: Path,
    validation: Sequence[str | Path] = (),
    progress: Progress,
    command: Sequence[str] = (),
) -> RunDirectory:
    """Train ``options.seeds`` classifiers, each with an equal part of the time, in ``out/seed-0`` and so on.

    All hold out the same rows.  ``out`` then holds the best of them, as other programs read it, and its headway.json
    names all ``members``, whose probabilities Headway averages.  Raises InputError for another task.
    """
    source, found = read_input(inputs, options)
    if "seeds" not in spec(found.task).supports:
        raise InputError(
            f"--seeds is for {' and '.join(supporting('seeds'))}: several seeds give several models, averaged."
        )
    run = RunDirectory(out)
    before = run.read()
    if before is not None:
        if "members" not in before:
            raise InputError(f"{out}: holds another run; name another directory with --out.")
        changes(before, options.but(allow_changes=False), run)
        check_same_data(before, source, validation_input(validation, options, found), run)
        progress.say(f"{out}: this run is complete; use another --out to start over.")
        return run
    if bounds := options.given(BOUNDS):
        raise InputError(f"--{flag(bounds[0])} continues one run: continue each of {out}/seed-... by itself.")
    names = [f"seed-{options.run.seed + i}" for i in range(options.run.seeds)]
    time = None
    if options.run.steps is None:
        time = f"{parse_seconds(options.run.time or DEFAULT_TIME) / options.run.seeds:.3f}s"
    given: dict[str, Any] = {"validation": validation, "progress": progress, "command": command}
    members = []
    run.create(found.task)
    try:
        for i, name in enumerate(names):
            progress.say(f"seed {options.run.seed + i} ({i + 1} of {options.run.seeds})")
            one = options.but(seeds=1, seed=options.run.seed + i, split_seed=options.seed_of_split, time=time)
            members.append(run_training(inputs, one, out=out / name, **given))
    except InputError:
        run.discard()
        raise
    return _combined(run, members, names, options)


def _combined(run: RunDirectory, members: list[RunDirectory], names: list[str], options: TrainOptions) -> RunDirectory:
    """The common directory: the best member's files, and the results of the ensemble."""
    best = min(members, key=lambda member: member.facts["metrics"]["val_loss"])
    copy_run(best.path, run.path)
    keys = [metric.key for metric in spec(best.facts["task"]).metrics if metric.key in best.facts["metrics"]]
    each = {key: [member.facts["metrics"][key] for member in members] for key in keys}
    facts = dict(best.facts)
    one_of_all = {name: recorded(options)[name] for name in ("seeds", "seed", "split_seed", "time")}
    facts |= {"members": names, "best_member": best.path.name, "options": {**facts["options"], **one_of_all}}
    facts["seeds"] = {
        key: {"mean": statistics.fmean(values), "spread": max(values) - min(values), "values": values}
        for key, values in each.items()
    }
    for key in ("parameters", "trained_parameters", "steps", "tokens", "seconds", "training_seconds"):
        facts[key] = sum(member.facts[key] for member in members)
    write_facts(run.path, facts)
    run.facts = facts
    together = evaluate(run.path)
    named = ("task", "on", "examples", "verdict", "rows", "called", "precision", "engine", "stored")
    metrics = {key: value for key, value in together.items() if key not in named}
    run.update(metrics=metrics, verdict=together["verdict"], kept=None)
    return run
