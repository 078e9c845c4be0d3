"""A whole training run: read, decide, train, evaluate and save, or resume an earlier one."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
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
from headway.training.hardware.measure import SAVED_IN_A_SECOND, evaluation_seconds, try_longest
from headway.training.hardware.memory import out_of_memory
from headway.training.loop.schedule import Budget, Load, StepBudget, TimeBudget
from headway.training.loop.state import put_back, trained
from headway.training.loop.trainer import Interrupted, Saved, held_out_metrics, train
from headway.training.option_fields import DEFAULT_TIME
from headway.training.options import TrainOptions
from headway.training.progress import NoProgress
from headway.training.ranks import Ranks
from headway.training.sharding import put_together, recompute_activations, shard
from headway.training.store.checkpoint import newest_checkpoint, saving
from headway.training.store.cleaning import keep_once, restore_weights
from headway.training.store.contents import ADAPTED, read_log
from headway.training.store.facts import read_facts
from headway.training.store.run_directory import ReadOnlyRun, RunDirectory, clock
from headway.training.store.tracking import check_installed
from headway.workflows.train.check import BOUNDS, as_continued, changes, check_same_data, read_checked, recorded
from headway.workflows.train.outcome import finish, finish_fitted, known_signs, measured
from headway.workflows.train.setup import TrainingSession, prepare, record_start, say_plan, try_saving

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
def run_training(inputs: Sequence[Any], options: TrainOptions, *, out: Path, **given: Any) -> RunDirectory:
    """Train on ``inputs`` and write a run directory at ``out``; an unfinished run there is resumed.

    ``given`` are other fields of ``TrainingSession``: ``validation``, ``progress``, ``command``, and ``started``, when
    the command began: ``--time`` counts from there.  Raises InputError for mistakes in the input, and Interrupted after
    Ctrl-C, when the run is saved.
    """
    session = TrainingSession(options=options, inputs=inputs, **given)
    _open(session, out)
    if _is_complete(session):
        return session.run
    _adapt(session)
    with _begun(session):
        if not _fitted(session):
            _train(session)
    return session.run


def _open(session: TrainingSession, out: Path) -> None:
    """Join the other processes, and read the data and the run that is there; both must belong together."""
    if session.options.tracker is not None:
        check_installed(session.options.tracker)
    ranks = session.ranks = Ranks.joined(device_of(session.options.runtime.device))
    run = session.run = RunDirectory(out) if ranks.first else ReadOnlyRun(out)
    if not ranks.first:
        session.progress = NoProgress()
        ranks.wait(PREPARED)  # from here on it is like a resumed run
    earlier = session.earlier = run.read()
    if not ranks.first:
        _meet(ranks, run, earlier)
    session.options, session.once_more = as_continued(run, earlier, session.options)
    options = session.options
    if earlier is not None:
        session.changed = changes(earlier, options, run)
        if (options.given(BOUNDS) or options.run.allow_changes) and not session.validation:
            session.validation = earlier.get("validation") or ()
    if options.runtime.threads:
        torch.set_num_threads(options.runtime.threads)
    keep_freed_memory()
    session.progress.phase("reading")
    begins = earlier is None
    data = read_checked(session.inputs, options, session.validation, processes=ranks.count, begins=begins)
    session.source, session.found, session.held_out = data
    if earlier is not None:
        check_same_data(earlier, session.source, session.held_out, run)


def _is_complete(session: TrainingSession) -> bool:
    """Whether there is nothing to do for the run that is there, which is said; else its directory is made."""
    run, earlier = session.run, session.earlier
    if earlier and earlier.get("finished") and not session.changed and not session.once_more:
        session.progress.say(f"{run.path}: {COMPLETE}")
        if session.ranks.first:
            _meet(session.ranks, run, earlier)
        return True
    run.create(session.task)
    run.warn = session.progress.warn
    return False


@contextlib.contextmanager
def _begun(session: TrainingSession) -> Iterator[None]:
    """Decide the run and tell its plan; while it lasts, its directory is locked and what it needs is switched on."""
    run, ranks = session.run, session.ranks
    with contextlib.ExitStack() as stack:
        if ranks.first:
            stack.enter_context(run.locked())
        _decide(session, stack)
        if ranks.first:
            _meet(ranks, run, run.facts)
        stack.enter_context(run.tracked(session.options.tracker if ranks.first else None))
        say_plan(session)
        if "cross_validation" not in run.facts:
            most = None if session.seconds_left is None else CROSS_VALIDATING * session.seconds_left
            run.update(cross_validation=session.data.cross_validation(session.plan, session.model, most))
        yield
        ranks.barrier()
        if not ranks.first:
            run.read()


def _meet(ranks: Ranks, run: RunDirectory, facts: dict[str, Any] | None) -> None:
    """Let the ranks that wait in ``_open`` go on with the run of these ``facts``; all ranks take part.

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
    """With ``--adapt``, train the base on the texts without labels, as a separate run in ``adapted`` of the run.

    The task is the spec's ``pretrain_with``.  The run takes at most the fraction ADAPTING of the time, or as many steps
    as the main run.  One that was stopped keeps its time, unless it may change.
    """
    options, progress, out = session.options, session.progress, session.run.path / ADAPTED
    if not options.fine_tuning.adapt or session.earlier is not None:
        return
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


def _decide(session: TrainingSession, stack: contextlib.ExitStack) -> None:
    """Decide the run, see that its longest batch fits, and record its start; ``stack`` holds what lasts as long."""
    run, ranks, runtime = session.run, session.ranks, session.options.runtime
    try:
        prepare(session)
        stack.enter_context(products_by(session.plan.hardware.products))
        if runtime.checkpoint_activations:
            session.plan = session.plan.but(shares=1)
            recompute_activations(session.model)
        if isinstance(session.batch_source, StreamBatches):
            session.batch_source.check(ranks.count)
        # the trial and a step, a gradient and an evaluation each, and all that is held out before and after
        step = session.batch_seconds * (4 + 2 * session.batch_source.validation_batches())
        fits = session.seconds_left is None or session.seconds_left > step
        if fits and not (session.plan.fine_tuning.frozen or runtime.shard):  # sharded may not fit here
            try_longest(session)
        if session.earlier is None:
            if ranks.first and session.base is None and not runtime.shard:
                try_saving(session)
            record_start(session)
        if session.once_more:
            run.update(continued=[*run.facts.get("continued", []), _continuation(session)], finished=False)
    except BaseException:
        run.discard()
        raise


def _continuation(session: TrainingSession) -> dict[str, Any]:
    """The entry of a continuation in headway.json."""
    return {name: session.options.value(name) for name in BOUNDS}


def _train(session: TrainingSession) -> None:
    """The training loop, from the newest checkpoint if there is one, and its records."""
    plan, model, data, batch_source = session.plan, session.model, session.data, session.batch_source
    run, options, ranks, progress = session.run, session.options, session.ranks, session.progress
    ranks.broadcast(model)
    twin = model  # a complete model if the weights are sharded over ranks
    if options.runtime.shard:
        twin = deepcopy(model)
        shard(model, ranks, plan.precision, options.runtime.replicas)
    saved = resume_point(session)
    session.cycle = len(run.facts["continued"]) if options.given(BOUNDS) else 0
    since, spent = _begin_cycle(session, saved[1] if saved is not None else {})
    if (shown := data.sampler(twin)) is not None:
        session.sample = lambda: (put_together(model, twin), shown())[1]
    final, after = _ending(session, twin)
    budget: Budget = StepBudget(options.run.more_steps or options.run.steps or 1, since)
    if session.limit is not None:
        budget = TimeBudget(session.limit, session.started, spent, after)
    of_baselines = data.baseline_units(plan)

    def save(write: Callable[..., None], *where: int) -> None:
        with out_of_memory("while the model was saved", plan):
            write(*where, put_together(model, twin), data.processor, data.labels)

    session.keep_best, session.snapshot = partial(save, run.save_model), partial(save, run.save_snapshot)
    session.known, session.min_units = known_signs(session), data.min_units
    model.train()
    try:
        now = train(session, budget, saved)
    except Interrupted:
        run.log("interrupted", time=clock())
        raise
    finally:
        progress.close()
    passes = batch_source.epochs(now.state.position)
    if passes < 1 and isinstance(batch_source, RowBatches):
        data.used = round(passes * len(batch_source.train))
    if data.used is not None and session.limit is not None:
        progress.warn(f"the time was enough for {passes:.1f} epochs only; more --time would help")
    for name, p in trained(model).items():
        put_back(p, now.best[name])
    twin.eval()
    if plan.evaluating.validation_part > 1:
        now.state.best_metrics, now.units["best"] = held_out_metrics(model.eval(), session.objective, batch_source)
    if ranks.count > 1 or not session.saved:
        session.keep_best()
    if final is not None:
        progress.phase("measuring")
        with out_of_memory("during the final measurements", plan):
            now.state.best_metrics |= measured(run, final)
    finish(session, now, of_baselines)
    if ranks.first:
        keep_once(run, progress)


def _begin_cycle(session: TrainingSession, state: dict[str, Any]) -> tuple[int, float]:
    """The step at which the budget begins and the seconds already spent, from the state of a checkpoint."""
    run, bounds, spent = session.run, session.options.run, float(state.get("seconds", 0.0))
    if not session.cycle or not state:
        return 0, spent
    if state.get("cycle", 0) == session.cycle:
        return state["since"], spent - state["since_seconds"]
    bound = bounds.more_time or f"{bounds.more_steps:,} steps"
    where = f"from the weights of step {state['best_step']:,}; the learning rate restarts"
    session.progress.say(f"{run.path}: continuing for {bound} {where}")
    run.log("continued", step=state["step"], **_continuation(session))
    return state["step"], 0.0


def _ending(session: TrainingSession, model: nn.Module) -> tuple[FinalMetrics | None, dict[str, float]]:
    """What is measured of the model at the end of the run, and the seconds that the end will need, by what for."""
    load, part = Load(), session.plan.evaluating.validation_part
    final = session.data.final_metrics(model, session.limit)
    evaluation = 1.25 * evaluation_seconds(session, session.sample) * (1 + 1 / part if part > 1 else 1)
    saving = 4 * COPIES * count_parameters(session.model)[1] / SAVED_IN_A_SECOND
    closing = final.seconds if final else 0.0
    return final, {"evaluation": evaluation, "saving": saving, "ending": load.ending, "closing": closing}


def resume_point(session: TrainingSession) -> Saved | None:
    """The checkpoint to resume from, logged; None for a run that begins.  Raises InputError if all are lost."""
    plan, changed, options = session.plan, session.changed, session.options
    run, ranks, progress = session.run, session.ranks, session.progress
    saved, problems = newest_checkpoint(run.checkpoints, session.model)
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
        state, step = saved[1], saved[1]["step"]
        progress.say(f"{run.path}: resuming from step {step:,}")
        run.log("resume", step=step, time=clock())
        if ranks.first:
            with saving(place := run.checkpoints / f"step-{step}"):
                restore_weights(place)
        ranks.barrier()
        if options.run.steps is not None and step > options.run.steps and not options.given(BOUNDS):
            progress.warn(f"it is already beyond --steps {options.run.steps:,}, so there is nothing to train")
        if changed:
            run.log("changed", step=step, options={name: options.value(name) for name in changed})
            regrouped = isinstance(session.batch_source, RowBatches) and {"batch_tokens", "batch_size"} & set(changed)
            if regrouped and state["position"]["consumed"]:
                state["position"] = {"epoch": state["position"]["epoch"] + 1, "consumed": 0}
                progress.warn("the batch size changed: the rest of this epoch is skipped")
            best = state["best_metrics"]
            if best and plan.evaluating.validation_part == 1:  # else the loss is of a part, unlike the last one
                before = {"cost": state["best_loss"], "val_loss": best["val_loss"]}
                state["before"] = {"step": state["best_step"], **before}
            state["since"] = step
    if changed:
        run.update(options=recorded(options), plan=plan.flat(), finished=False)
    return saved


def _fitted(session: TrainingSession) -> bool:
    """Fit and finish the model without the loop if the plan says so; returns whether it did."""
    began, final, seconds = time.monotonic(), None, None
    if session.plan.fine_tuning.frozen:
        final, after = _ending(session, session.model)
        if session.seconds_left is not None:
            seconds = max(0.0, session.seconds_left - sum(after.values()))

    def show(share: float, loss: float) -> None:
        used = time.monotonic() - began
        session.progress.step(share, 0, loss, used * (1 / max(share, 1e-9) - 1), 0.0)

    try:
        fitted = session.data.fit(session.plan, session.model, show, seconds)
    except KeyboardInterrupt:
        session.progress.say(f"{session.run.path}: interrupted: nothing was saved; run the same command again")
        raise
    if fitted:
        finish_fitted(session, final)
    return fitted
