"""The final sentences: is the model better than the baselines, and which step's weights are kept?

``training.evaluation.comparison`` decides the verdict, and headway.json keeps it as ``verdict``; this module words it,
in the same way for the terminal, the report, ``tune`` and ``evaluate``.  A defeat is stated as plainly as a win, every
comparison has its interval, and advice is given only if the interval leaves no doubt.
"""

from collections.abc import Mapping
from typing import Any

from headway.reports.record import Record, not_numbers
from headway.reports.wording import decimal, listing, mapping, number, short_name, words
from headway.tasks.registry import known as known_task
from headway.tasks.spec import KINDS_CALLED, TaskSpec
from headway.training.evaluation.comparison import BEFORE, judged


def verdict(record: Record) -> str:
    """The verdict on a run, in a few sentences."""
    found = verdict_of(record)
    if found.get("metric") is None:
        return _without_metrics(record)
    said = comparison_in_words(found, record.task, record.called)
    if found.get("result") == "worse" or (found.get("result") == "constant" and known_task(record.task).writes):
        said.append(_advice(record, found))
    return " ".join(said + cross_validation_in_words(record.info.get("cross_validation")))


def verdict_of(record: Record) -> dict[str, Any]:
    """The verdict at the end of the run; for an older or unfinished run, what its metrics allow."""
    known = mapping(record.info.get("verdict"))
    if isinstance(known.get("metric"), str) and number(known.get("value")) is not None:
        return known
    return judged(known_task(record.task).headline, record.metrics, record.baselines)


def comparison_in_words(found: Mapping[str, Any], task: str, called: str) -> list[str]:
    """The sentences about a model, ``called`` so, and its best baseline, without advice."""
    key, value, result = str(found["metric"]), number(found["value"]) or 0.0, found.get("result")
    figure = "a validation loss of" if key == "val_loss" else known_task(task).metric(key).name
    unit = f" {known_task(task).loss_unit}".rstrip() if key == "val_loss" else ""
    own, other = interval(found.get("interval")), number(found.get("against_value"))
    if result == "constant":
        as_majority = ", as the majority class does" if key in ("accuracy", "macro_f1") else ""
        one = known_task(task).unit
        said = f"The {called} gives one answer for every {one}{as_majority}: it has learnt nothing"
        best = "" if other is None else f", {_called(found['against'])} {decimal(other)}"
        return [f"{said} ({figure} {decimal(value)}{unit}{best})."]
    if found.get("against") is None or other is None:
        known = f" ({own})" if own else ""
        return [f"The {called} reaches {figure} {decimal(value)}{unit}{known}; no baseline was measured."]
    rival, apart = _called(found["against"]), abs(value - other)
    places = 2 if apart >= 0.1 else 3 if apart >= 0.002 else 4
    ours, theirs, gap = (decimal(one, places) for one in (value, other, apart))
    ends = _ends(found.get("difference_interval"))
    turned = (number(found.get("difference")) or 0.0) < 0  # of the winner over the other
    between = interval(None if ends is None else [-ends[1], -ends[0]] if turned else list(ends), places)
    units = number(found.get("units"))
    of, where = number(found.get("of")) or 0, found.get("where", "held-out")
    where = f"measured of {of:,.0f} held-out" if (units or 0) < of and found.get("unit") != "windows" else where
    on = f", on {units:,.0f} {where} {_plural(found.get('unit'), units)}" if units is not None else ""
    if result == "too few":
        few = f"{units or 0:,.0f} {where} {_plural(found.get('unit'), units)} {'is' if units == 1 else 'are'} too few"
        return [
            f"Not judged: {few} to compare the {called} ({figure} {ours}{unit}) with {rival} ({theirs}).",
            "Measure it on more data with `headway evaluate`, or hold out more with --validation.",
        ]
    if result == "better":
        said = f"The {called} beats {rival}: {figure} {ours}{unit} against {theirs}"
    elif result == "worse":
        said = f"{rival[0].upper()}{rival[1:]} beats the {called}: {figure} {theirs}{unit} against {ours}"
    elif result == "undecided" and value == other == 1.0 and key != "val_loss":
        return [f"The {called} and {rival} are both perfect{on} ({figure} {ours}): nothing here tells them apart."]
    elif result == "undecided":
        said = f"Undecided: the {called} reaches {figure} {ours}{unit}, {rival} {theirs}"
        return [f"{said}; the difference of {gap} ({between}{on}) may be chance.", *_by_macro_f1(found)]
    else:
        said = f"The {called} reaches {figure} {ours}{unit}, {rival} {theirs}"
        return [f"{said}; no interval was measured, so which is better is not judged."]
    return [f"{said}, a difference of {gap} ({between}{on}).", *_by_macro_f1(found)]


def interval(value: object, places: int = 3) -> str:
    """An interval in words, "95 % interval 0.75 to 0.86", or nothing."""
    ends = _ends(value)
    return "" if ends is None else f"95 % interval {decimal(ends[0], places)} to {decimal(ends[1], places)}"


def _ends(value: object) -> tuple[float, float] | None:
    ends = [end for end in map(number, listing(value)) if end is not None]
    return (ends[0], ends[1]) if len(ends) == len(listing(value)) == 2 else None


def kept_in_words(kept: object) -> list[str]:
    """Which step's weights are kept, what came after it, and the gain of a continued run."""
    found = mapping(kept)
    step, loss, last = number(found.get("step")), number(found.get("val_loss")), mapping(found.get("last"))
    if step is None or loss is None:
        return []
    seen = number(found.get("evaluated_loss"))
    whole, loss = loss, loss if seen is None else seen  # as each evaluation measured it, to compare with others
    lowest, since = mapping(found.get("lowest")), number(found.get("since"))
    end, end_loss = number(last.get("step")), number(last.get("val_loss"))
    said = f"The weights of step {step:,.0f} are kept"
    if found.get("by") == "last":
        low, low_loss = number(lowest.get("step")), number(lowest.get("val_loss"))
        said += ", the last ones (--keep last)"
        if low is not None and low_loss is not None and low != step and low_loss < loss:
            said += f"; the validation loss was lowest at step {low:,.0f}: {decimal(low_loss)} against {decimal(loss)}"
    elif end is not None and end_loss is not None and end > step:
        low, low_loss = number(lowest.get("step")), number(lowest.get("val_loss"))
        lower = low is not None and low_loss is not None and low > step and low_loss < loss
        if lower:
            said += f"; the validation loss of step {low:,.0f}, {decimal(low_loss)}, is not clearly lower than its "
            said += decimal(loss)
        places = 3 if decimal(loss) != decimal(end_loss) else 5
        rose = f"the validation loss rose after it, from {decimal(loss, places)} to {decimal(end_loss, places)}"
        if end_loss > loss:
            said += f"; {rose} at step {end:,.0f}"
        elif not lower:
            said += f"; no later evaluation was better, up to the last at step {end:,.0f}"
    return [f"{said}.", *_gained(found, since, whole)]


def _gained(found: Mapping[str, Any], since: float | None, loss: float) -> list[str]:
    """The result of training that continued from a trained model."""
    before, gained = number(found.get("before")), found.get("gained")
    if since is None or before is None:
        return []
    began = "it began from" if since == 0 else f"it continued from at step {since:,.0f}"
    if not gained:
        if found.get("by") == "last":
            worse = f"Training made it no better: a validation loss of {decimal(loss)} against {decimal(before)}"
            return [f"{worse} of the model that {began}. --keep best keeps the better weights."]
        least = number(mapping(found.get("lowest")).get("val_loss"))
        better = "nothing that is clearly better than" if least is not None and least < before else "nothing over"
        return [f"Training gained {better} the model that {began}, which is kept as it was."]
    ends = _ends(found.get("gain"))
    fell = f"the validation loss went from {decimal(before)} to {decimal(loss)}"
    key, *both = listing(found.get("gain_of")) or [None]
    if ends is not None and isinstance(key, str):
        went = f"; {words(key)} from {decimal(both[0])} to {decimal(both[-1])}" if key != "val_loss" else ""
        fell += f"{went} (gain in {words(key) if went else 'validation loss'}: {interval(found.get('gain'))})"
    if ends is not None and ends[0] <= 0:
        return [f"The gain over the model that {began} may be chance: {fell}."]
    return [f"Over the model that {began}, {fell}."]


def cross_validation_in_words(found: object) -> list[str]:
    """The result of repeated cross-validation over all rows of a small table, for models that are cheap to fit."""
    lines = [line for line in listing(mapping(found).get("models")) if isinstance(line, dict)]
    lines = [line for line in lines if number(line.get("accuracy")) is not None]
    if not lines:
        return []
    facts = mapping(found)
    how = f"{number(facts.get('repeats')) or 0:.0f} times {number(facts.get('folds')) or 0:.0f}-fold cross-validation"
    reached = ", ".join(
        f"{short_name(line.get('name'), 60)} {decimal(line['accuracy'], 2)} ({interval(line.get('interval'), 2)})"
        for line in lines
    )
    said = [f"By {how} over all {number(facts.get('rows')) or 0:,.0f} rows, accuracy: {reached}."]
    better = mapping(facts.get("difference"))
    if (ends := _ends(better.get("interval"))) is not None:
        one, other = (short_name(better.get(name), 60) for name in ("of", "over"))
        between = interval(better.get("interval"), 2)
        if ends[0] > 0 or ends[1] < 0:
            winner, loser = (one, other) if ends[0] > 0 else (other, one)
            said.append(f"There, the {winner} beats the {loser} ({between} of the difference).")
        else:
            said.append(f"There, the {one} and the {other} cannot be distinguished ({between} of the difference).")
    return said


def _plural(unit: object, count: float | None) -> str:
    name = unit if isinstance(unit, str) and unit else "examples"
    return name.removesuffix("s") if count == 1 else name


def _called(name: object) -> str:
    """A baseline in a sentence: "the linear model baseline"; a name with an article is unchanged."""
    short = short_name(name)
    return short if short.startswith("the ") else f"the {short} baseline"


def _by_macro_f1(found: Mapping[str, Any]) -> list[str]:
    """A sentence if the model loses by macro F1, which weights rare and common classes equally, but not by accuracy."""
    line = mapping(found.get("macro_f1"))
    if number(line.get("value")) is None or number(line.get("against_value")) is None:
        return []
    ours, theirs = decimal(line["value"]), decimal(line["against_value"])
    between = interval(line.get("behind"))
    if (few := number(line.get("fewest"))) is not None:
        rows = f"{few:,.0f} held-out {'row' if few == 1 else 'rows'}, which would decide it"
        against = f"{ours} against {theirs} for {_called(line.get('against'))}"
        return [f"By macro F1 ({against}) nothing is judged: a class has {rows}."]
    which = "By macro F1, which weights rare and common classes equally,"
    return [f"{which} {_called(line.get('against'))} is better: {theirs} against {ours} ({between} of the difference)."]


def _without_metrics(record: Record) -> str:
    broken = not_numbers(record.evaluations, "val_loss") or not_numbers(record.steps, "loss")
    if broken:
        return (
            f"Training failed: from step {broken[0]['step']:,} on the loss was not a number. "
            "A lower learning rate usually helps."
        )
    losses = [number(line.get("loss")) for line in record.steps]
    last = losses[-1] if losses else None
    if last is None:
        return "Nothing was measured yet."
    return (
        f"Not evaluated yet: after {record.last_step:,} steps the training loss is {decimal(last)}, "
        "which says nothing about new text."
    )


def _advice(record: Record, found: Mapping[str, Any]) -> str:
    if found.get("against") == BEFORE:
        return "Use that model as it is, or train it on more data or at a lower --learning-rate."
    task = TaskSpec if record.called in KINDS_CALLED.values() else known_task(record.task)
    from_scratch, from_base = task.advice_if_baseline_wins
    return from_base if record.info.get("base") else from_scratch
