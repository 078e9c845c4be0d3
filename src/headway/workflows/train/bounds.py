"""Where the budget of a run begins, and its bounds: steps, or time of which the end of the run keeps a part."""

from typing import Any

from headway.training.loop.budget import Budget, StepBudget, TimeBudget
from headway.training.monitor.progress import Progress
from headway.training.options import TrainOptions
from headway.training.store.run_directory import RunDirectory
from headway.workflows.train.continuing import entry


def begin_cycle(
    run: RunDirectory, cycle: int, options: TrainOptions, state: dict[str, Any], progress: Progress
) -> tuple[int, float]:
    """The step at which the budget begins and the seconds already spent, from the state of a checkpoint."""
    spent = float(state.get("seconds", 0.0))
    if not cycle or not state:
        return 0, spent
    if state.get("cycle", 0) == cycle:
        return state["since"], spent - state["since_seconds"]
    step, from_step = state["step"], state["best_step"]
    bound = options.run.more_time or f"{options.run.more_steps:,} steps"
    progress.say(
        f"{run.path}: continuing for {bound} from the weights of step {from_step:,}; the learning rate restarts"
    )
    run.log("continued", step=step, **entry(options))
    return step, 0.0


def budget_of(
    options: TrainOptions, limit: float | None, started: float, since: int, spent: float, after: dict[str, float]
) -> Budget:
    """The bounds of the run, from step ``since`` on; ``after`` are the seconds needed after training, and for what."""
    if limit is None:
        return StepBudget(options.run.more_steps or options.run.steps or 1, since)
    budget = TimeBudget(limit, started, spent)
    budget.begin(spent)
    budget.keep(**after)
    return budget
