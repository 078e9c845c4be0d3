"""A whole training run: read, decide, train, evaluate and save, or resume an earlier one."""

import contextlib
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.data.batches.batch_source import RowBatches
from headway.data.stream.batch_source import StreamBatches
from headway.errors import InputError
from headway.io.memory import keep_freed_memory
from headway.io.quantities import parse_seconds
from headway.models.adapt.lora import count_parameters
from headway.models.device import device_of
from headway.nn.global_state import isolated
from headway.nn.kernels.products import products_by
from headway.tasks.registry import spec
from headway.tasks.task import FinalMetrics
from headway.training.distributed.ranks import Ranks
from headway.training.distributed.sharding import put_together, recompute_activations, shard
from headway.training.hardware.measure import SAVED_IN_A_SECOND, evaluation_seconds
from headway.training.hardware.memory import out_of_memory, try_longest
from headway.training.loop.schedule import Budget, Load, StepBudget, TimeBudget
from headway.training.loop.trainer import Interrupted, Job, Saved, held_out_metrics, train
from headway.training.monitor.progress import NoProgress, Progress
from headway.training.option_fields import DEFAULT_TIME
from headway.training.options import TrainOptions
from headway.training.store.checkpoint import newest_checkpoint, put_back, saving, trained
from headway.training.store.cleaning import keep_once, restore_weights
from headway.training.store.facts import read_facts
from headway.training.store.log import read_log
from headway.training.store.run_directory import ReadOnlyRun, RunDirectory, clock
from headway.training.store.sizes import ADAPTED
from headway.training.store.tracking import check_installed
from headway.workflows.train.check import read_checked
from headway.workflows.train.outcome import finish, finish_fitted, known_signs, measured
from headway.workflows.train.resume import BOUNDS, as_continued, changes, check_same_data, recorded
from headway.workflows.train.setup import Prepared, TrainingSession, prepare, record_start, say_plan, try_saving

COMPLETE = "this run is complete. --more-time 5m continues it; name another directory with --out to start over."
PREPARED = "prepared"
"""The signal of the first rank that the others can load the run."""
RANK_SEED = 1_000_003
"""The distance between the seeds of two ranks, so that their dropout differs."""
COPIES = 5
"""How many times the trained weights are written at the end: two moments, the last and the best, and the model."""
CROSS_VALIDATING = 0.1
"""The fraction of the time that is left which the cross-validation of a small table may take."""
ADAPTING, ADAPTING_EPOCHS = 0.4, 10
"""Of ``--adapt``: the fraction of the time that it may take, and its epochs (Gururangan et al. 2020: up to 100)."""
SHARED = (
    *("encoding", "delimiter", "on_bad_row", "length", "threads", "device", "steps", "precision", "products", "seed"),
)
"""The options that it shares with the main run."""


@isolated()
def run_training(
    inputs: Sequence[str | Path],
    options: TrainOptions,
    *,
    out: Path,
    validation: Sequence[str | Path] = (),
    started: float | None = None,
    progress: Progress | None = None,
    command: Sequence[str] = (),
) -> RunDirectory:
    """Train on ``inputs`` and write a run directory at ``out``; an unfinished run there is resumed.

    ``started`` is when the command began, by time.monotonic: ``--time`` counts from there.  Raises InputError for
    mistakes in the input, and Interrupted after Ctrl-C, when the run is saved.
    """
    started = started if started is not None else time.monotonic()
    if options.tracker is not None:
        check_installed(options.tracker)
    session = _opened(inputs, options, out, validation, started, progress or NoProgress(), command)
    run, ranks, options = session.run, session.ranks, session.options
    if session.earlier and session.earlier.get("finished") and not session.changed and not session.once_more:
        session.progress.say(f"{out}: {COMPLETE}")
        if ranks.first:
            _meet(ranks, run, session.earlier)
        return run
    run.create(session.task)
    run.warn = session.progress.warn
    if options.fine_tuning.adapt and session.earlier is None:
        _adapt(session)
    with contextlib.ExitStack() as stack:
        if ranks.first:
            stack.enter_context(run.locked())
        prepared = _decided(session, stack)
        if ranks.first:
            _meet(ranks, run, run.facts)
        stack.enter_context(run.tracked(options.tracker if ranks.first else None))
        say_plan(prepared)
        if "cross_validation" not in run.facts:
            most = None if prepared.seconds_left is None else CROSS_VALIDATING * prepared.seconds_left
            run.update(cross_validation=prepared.data.cross_validation(prepared.plan, prepared.model, most))
        if not _fitted(prepared):
            _train(prepared)
        ranks.barrier()
        if not ranks.first:
            run.read()
        return run


def _opened(
    inputs: Sequence[str | Path],
    options: TrainOptions,
    out: Path,
    validation: Sequence[str | Path],
    started: float,
    progress: Progress,
    command: Sequence[str],
) -> TrainingSession:
    """Join the other processes, and read the data and the run that is there; both must belong together."""
    ranks = Ranks.joined(device_of(options.runtime.device))
    run = RunDirectory(out) if ranks.first else ReadOnlyRun(out)
    if not ranks.first:
        progress = NoProgress()
        ranks.wait(PREPARED)  # from here on it is like a resumed run
    earlier, changed = run.read(), []
    if not ranks.first:
        _meet(ranks, run, earlier)
    options, once_more = as_continued(run, earlier, options)
    if earlier is not None:
        changed = changes(earlier, options, run)
        if (options.given(BOUNDS) or options.run.allow_changes) and not validation:
            validation = earlier.get("validation") or ()
    if options.runtime.threads:
        torch.set_num_threads(options.runtime.threads)
    keep_freed_memory()
    progress.phase("reading")
    data = read_checked(inputs, options, validation, processes=ranks.count, begins=earlier is None)
    session = TrainingSession(options, *data, progress, started, run, ranks, inputs, validation, command)
    session.earlier, session.changed, session.once_more = earlier, changed, once_more
    if earlier is not None:
        check_same_data(earlier, session.source, session.held_out, run)
    return session


def _meet(ranks: Ranks, run: RunDirectory, facts: dict[str, Any] | None) -> None:
    """Let the ranks that wait in ``_opened`` go on with the run of these ``facts``; all ranks take part.

    Raises InputError where there is another run on another machine.
    """
    if ranks.first:
        ranks.signal(PREPARED)
    with ranks.named():
        begun = {*ranks.gathered((facts or {}).get("started"))}
    if len(begun) > 1:
        what = "the machines have different runs there; put --out on a disk that all of them share"
        raise InputError(f"{run.path}: {what}.")


def _adapt(session: TrainingSession) -> None:
    """Train the base on the same texts, without labels, as a separate run in ``adapted`` of the run's directory.

    The task is the spec's ``pretrain_with``.  The run takes at most the fraction ADAPTING of the time, or as many steps
    as the main run.  One that was stopped keeps its time, unless it may change.
    """
    options, progress, out = session.options, session.progress, session.run.path / ADAPTED
    try:
        time_left, before = None, read_facts(out)
        if options.run.steps is None:
            left = parse_seconds(options.run.time or DEFAULT_TIME) - session.seconds
            time_left = f"{max(5.0, ADAPTING * left):.3f}s"
            if before is not None and not (options.run.allow_changes and options.run.time):
                time_left = before.get("options", {}).get("time")
        task = spec(session.task).pretrain_with or session.task
        theirs = sorted(spec(task).options - spec(session.task).options - {"stream"})
        alone = TrainOptions(
            task=task,
            from_model=options.fine_tuning.from_model,
            text_column=session.found.text_column,
            **{name: value for name, value in options.named.items() if name in (*SHARED, *theirs)},
            time=time_left,
            epochs=ADAPTING_EPOCHS,
            allow_changes=options.run.allow_changes,
        )
        progress.say("first: pretraining on the texts without labels (--adapt)")
        how: dict[str, Any] = {"out": out, "started": session.started, "progress": progress}
        run_training(session.inputs, alone, validation=session.validation, **how)
        progress.say("now: training on the labels")
    except InputError:
        session.run.discard()
        raise


def _decided(session: TrainingSession, stack: contextlib.ExitStack) -> Prepared:
    """Decide the run, see that its longest batch fits, and record its start; ``stack`` holds what lasts as long."""
    run, ranks, runtime = session.run, session.ranks, session.options.runtime
    try:
        prepared = prepare(session)
        stack.enter_context(products_by(prepared.plan.hardware.products))
        if runtime.checkpoint_activations:
            prepared.plan = prepared.plan.but(shares=1)
            recompute_activations(prepared.model)
        if isinstance(prepared.batch_source, StreamBatches):
            prepared.batch_source.check(ranks.count)
        # the trial and a step, a gradient and an evaluation each, and all that is held out before and after
        step = prepared.batch_seconds * (4 + 2 * prepared.batch_source.validation_batches())
        fits = prepared.seconds_left is None or prepared.seconds_left > step
        if fits and not (prepared.plan.fine_tuning.frozen or runtime.shard):  # sharded may not fit here
            try_longest(prepared.model, prepared.objective, prepared.batch_source, prepared.plan, ranks)
        if session.earlier is None:
            if ranks.first and prepared.base is None and not runtime.shard:
                try_saving(prepared)
            record_start(prepared)
        if session.once_more:
            run.update(continued=[*run.facts.get("continued", []), _continuation(session)], finished=False)
    except BaseException:
        run.discard()
        raise
    return prepared


def _continuation(session: TrainingSession) -> dict[str, Any]:
    """The entry of a continuation in headway.json."""
    return {name: session.options.value(name) for name in BOUNDS}


def _train(prepared: Prepared) -> None:
    """The training loop, from the newest checkpoint if there is one, and its records."""
    session, plan, model, data = prepared.session, prepared.plan, prepared.model, prepared.data
    batch_source = prepared.batch_source
    run, options, ranks, progress = session.run, session.options, session.ranks, session.progress
    ranks.broadcast(model)
    twin = model  # a complete model if the weights are sharded over ranks
    if options.runtime.shard:
        twin = deepcopy(model)
        shard(model, ranks, plan.precision, options.runtime.replicas)
    saved = _checkpoint(prepared)
    cycle = len(run.facts["continued"]) if options.given(BOUNDS) else 0
    since, spent = _begin_cycle(session, cycle, saved[1] if saved is not None else {})
    shown = data.sampler(twin)
    sample = None if shown is None else lambda: (put_together(model, twin), shown())[1]
    final, after = _ending(prepared, twin, sample)
    budget: Budget = StepBudget(options.run.more_steps or options.run.steps or 1, since)
    if prepared.limit is not None:
        budget = TimeBudget(prepared.limit, session.started, spent, after)
    of_baselines = data.baseline_units(plan)

    def save(write: Callable[..., None], *where: int) -> None:
        with out_of_memory("while the model was saved", plan):
            write(*where, put_together(model, twin), data.processor, data.labels)

    keep_best = partial(save, run.save_model)
    snapshot, objective = partial(save, run.save_snapshot), prepared.objective
    job = Job(model, objective, batch_source, plan, options, run, ranks, cycle, keep_best, snapshot, sample)
    job.known, job.min_units = known_signs(prepared), data.min_units
    model.train()
    try:
        now = train(job, budget, progress, saved)
    except Interrupted:
        run.log("interrupted", time=clock())
        raise
    finally:
        progress.close()
    passes = batch_source.epochs(now.state.position)
    if passes < 1 and isinstance(batch_source, RowBatches):
        data.used = round(passes * len(batch_source.train))
    if data.used is not None and prepared.limit is not None:
        progress.warn(f"the time was enough for {passes:.1f} epochs only; more --time would help")
    for name, p in trained(model).items():
        put_back(p, now.best[name])
    twin.eval()
    if plan.evaluating.validation_part > 1:
        now.state.best_metrics, now.units["best"] = held_out_metrics(model.eval(), prepared.objective, batch_source)
    if ranks.count > 1 or not job.saved:
        keep_best()
    if final is not None:
        progress.phase("measuring")
        with out_of_memory("during the final measurements", plan):
            now.state.best_metrics |= measured(run, final)
    finish(prepared, now, of_baselines)
    if ranks.first:
        keep_once(run, progress)


def _begin_cycle(session: TrainingSession, cycle: int, state: dict[str, Any]) -> tuple[int, float]:
    """The step at which the budget begins and the seconds already spent, from the state of a checkpoint."""
    spent = float(state.get("seconds", 0.0))
    if not cycle or not state:
        return 0, spent
    if state.get("cycle", 0) == cycle:
        return state["since"], spent - state["since_seconds"]
    run, bounds = session.run, session.options.run
    step, from_step = state["step"], state["best_step"]
    bound = bounds.more_time or f"{bounds.more_steps:,} steps"
    session.progress.say(
        f"{run.path}: continuing for {bound} from the weights of step {from_step:,}; the learning rate restarts"
    )
    run.log("continued", step=step, **_continuation(session))
    return step, 0.0


def _ending(
    prepared: Prepared, model: nn.Module, sample: Callable[[], str] | None
) -> tuple[FinalMetrics | None, dict[str, float]]:
    """What is measured of the model at the end of the run, and the seconds that the end will need, by what for."""
    load = Load()
    final = prepared.data.final_metrics(model, prepared.limit)
    cost = evaluation_seconds(prepared, sample)
    part = prepared.plan.evaluating.validation_part
    evaluation = 1.25 * cost * (1 + 1 / part if part > 1 else 1)
    saving = 4 * COPIES * count_parameters(prepared.model)[1] / SAVED_IN_A_SECOND
    closing = final.seconds if final else 0.0
    return final, {"evaluation": evaluation, "saving": saving, "ending": load.ending, "closing": closing}


def _checkpoint(prepared: Prepared) -> Saved | None:
    """The checkpoint to resume from, logged; None for a run that begins.  Raises InputError if all are lost."""
    session, plan, changed = prepared.session, prepared.plan, prepared.session.changed
    run, options, ranks, progress = session.run, session.options, session.ranks, session.progress
    saved, problems = newest_checkpoint(run.checkpoints, prepared.model)
    if saved is None and (problems or run.facts.get("checkpoints") or run.facts.get("finished")):
        lost = "; ".join(problems) or f"{run.checkpoints} is empty"
        raise InputError(
            f"{run.path}: no checkpoint can be used, so the run cannot resume: {lost}. Restore one, or start over in "
            f"another directory with --out, if you like from its best model with --from {run.path}."
        )
    for problem in problems:
        progress.warn(f"a checkpoint cannot be used: {problem}")
    torch.manual_seed(plan.seed + RANK_SEED * ranks.rank)
    if saved is None:
        if read_log(run.path, "start"):
            progress.say(f"{run.path}: it was stopped before its first checkpoint: training begins again")
        run.log("start", time=clock())
    else:
        progress.say(f"{run.path}: resuming from step {saved[1]['step']:,}")
        run.log("resume", step=saved[1]["step"], time=clock())
        if ranks.first:
            with saving(place := run.checkpoints / f"step-{saved[1]['step']}"):
                restore_weights(place)
        ranks.barrier()
        if options.run.steps is not None and saved[1]["step"] > options.run.steps and not options.given(BOUNDS):
            progress.warn(f"it is already beyond --steps {options.run.steps:,}, so there is nothing to train")
        if changed:
            run.log("changed", step=saved[1]["step"], options={name: options.value(name) for name in changed})
            position = saved[1]["position"]
            regrouped = isinstance(prepared.batch_source, RowBatches) and {"batch_tokens", "batch_size"} & set(changed)
            if regrouped and position["consumed"]:
                saved[1]["position"] = {"epoch": position["epoch"] + 1, "consumed": 0}
                progress.warn("the batch size changed: the rest of this epoch is skipped")
            _mark_continued(saved[1], plan.evaluating.validation_part)
    if changed:
        run.update(options=recorded(options), plan=plan.flat(), finished=False)
    return saved


def _mark_continued(state: dict[str, Any], part: int) -> None:
    """Record in the plain state of a checkpoint that the run continues here with other options.

    Where evaluations read one of every ``part`` batches, the loss there is none of all, with which the last compares.
    """
    metrics = state["best_metrics"]
    if metrics and part == 1:
        state["before"] = {"step": state["best_step"], "cost": state["best_loss"], "val_loss": metrics["val_loss"]}
    state["since"] = state["step"]


def _fitted(prepared: Prepared) -> bool:
    """Fit and finish the model without the loop if the plan says so; returns whether it did."""
    session, began = prepared.session, time.monotonic()
    final, seconds = None, None
    if prepared.plan.fine_tuning.frozen:
        final, after = _ending(prepared, prepared.model, None)
        if prepared.seconds_left is not None:
            seconds = max(0.0, prepared.seconds_left - sum(after.values()))

    def show(share: float, loss: float) -> None:
        used = time.monotonic() - began
        session.progress.step(share, 0, loss, used * (1 / max(share, 1e-9) - 1), 0.0)

    try:
        fitted = prepared.data.fit(prepared.plan, prepared.model, show, seconds)
    except KeyboardInterrupt:
        session.progress.say(f"{session.run.path}: interrupted: nothing was saved; run the same command again")
        raise
    if fitted:
        finish_fitted(prepared, final)
    return fitted
