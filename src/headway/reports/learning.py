"""The curves of a run: loss, accuracy and learning rate against steps, with notes."""

import itertools

from headway.reports.axes import MOST_POINTS
from headway.reports.curves import Chart, Line, draw
from headway.reports.record import Point, Record, not_numbers, series
from headway.reports.wording import Html, decimal, escape, mapping, number
from headway.tasks.registry import known
from headway.training.monitor.health import memorised

RISE = 1.02
"""Ratio of the last validation loss to the best from which the page reports that it rose."""


def learning(record: Record) -> Html:
    """The section of the learning curves; empty before the first logged step, a sentence for a run without steps."""
    if not record.steps and (record.finished or record.info.get("steps") == 0) and len(record.evaluations) <= 1:
        if not record.evaluations and not record.metrics:
            return Html("")
        tuned = mapping(record.info.get("plan")).get("contrastive")
        how = "tuned on pairs of rows, and its classifier fitted" if tuned else "fitted in closed form"
        said = f"This model was {how}, without training steps, so there are no curves."
        return Html(f'<section><h2>How it learned</h2><p class="soft">{said}</p></section>')
    charts = [
        _titled("Loss", draw(_loss(record)), _notes(record)),
        _titled("Accuracy on the validation data", draw(_accuracy(record)), []),
        _titled("Learning rate", draw(_learning_rate(record)), []),
    ]
    body = "".join(charts)
    return Html(f"<section><h2>How it learned</h2>{body}</section>" if body else "")


def times(record: Record) -> list[Point]:
    """Seconds at each step, if they never decrease (a resumed run may restart from zero); otherwise nothing."""
    found = series(record.steps, "seconds")
    rising = all(before[1] <= after[1] for before, after in itertools.pairwise(found))
    return found if rising and len(found) > 1 else []


def _loss(record: Record) -> Chart:
    unit = known(record.task).loss_unit or "nats"
    training = Line("training", series(record.steps, "loss"), "training")
    validation = Line("validation", series(record.evaluations, "val_loss"), "validation", marks=True)
    return Chart(
        title="Training and validation loss against steps",
        y_label=f"loss ({unit}){_trained_with(record)}",
        lines=[training, validation],
        levels=_levels(record, "val_loss"),
        seconds=times(record),
        ring=_kept(record, "val_loss"),
    )


def _trained_with(record: Record) -> str:
    """What the training loss has and the validation loss has not, in a phrase."""
    plan = mapping(record.info.get("plan"))
    dropped = mapping(plan.get("model")).get("dropout"), plan.get("token_dropout"), plan.get("bpe_dropout")
    parts = ["dropout"] if any(map(number, dropped)) else []
    if plan.get("label_smoothing") and record.evaluations and not series(record.evaluations, "train_loss"):
        parts.append("smoothing")  # as earlier versions logged it
    return f", in training with {' and '.join(parts)}" if parts else ""


def _accuracy(record: Record) -> Chart:
    return Chart(
        title="Accuracy on the validation data against steps",
        y_label="accuracy (fraction of examples)",
        lines=[Line(record.called, series(record.evaluations, "accuracy"), "validation", marks=True)],
        levels=_levels(record, "accuracy"),
        seconds=times(record),
        ring=_kept(record, "accuracy"),
        highest=1.0,
        height=280,
    )


def _learning_rate(record: Record) -> Chart:
    return Chart(
        title="Learning rate against steps",
        y_label="learning rate",
        lines=[Line("", series(record.steps, "learning_rate"), "third")],
        from_zero=True,
        height=170,
    )


def _levels(record: Record, key: str) -> list[tuple[str, float]]:
    found = ((str(line.get("name", "baseline")), number(line.get(key))) for line in record.baselines)
    return [(name, value) for name, value in found if value is not None]


def _kept(record: Record, key: str) -> Point | None:
    step, value = number(mapping(record.best).get("step")), number(record.best.get(key))
    return None if step is None or value is None else (step, value)


def _notes(record: Record) -> list[str]:
    notes = []
    if record.best:
        notes.append(f"The ring marks step {record.best['step']:,}, whose weights were kept.")
    validation = series(record.evaluations, "val_loss")
    if len(validation) > 1:
        (step, lowest), (end, last) = min(validation, key=lambda point: point[1]), validation[-1]
        trained = dict(series(record.evaluations, "train_loss"))
        if last > RISE * lowest > 0:
            rose = f"Validation loss rose from {decimal(lowest)} at step {step:,.0f} to {decimal(last)} at the end"
            if {step, end} <= set(trained) and memorised(last, trained[end], lowest, trained[step]):
                rose += ", and training loss fell: the model has memorised the training data. More data or a smaller "
                rose += "model may do better"
            notes.append(f"{rose}.")
    logged = len(series(record.steps, "loss"))
    if logged > MOST_POINTS:
        notes.append(f"Each point of the training curve is a mean of about {logged / MOST_POINTS:.0f} logged steps.")
    if broken := not_numbers(record.steps, "loss"):
        notes.append(f"At {len(broken):,} logged steps the loss was not a number, first at step {broken[0]['step']:,}.")
    return notes


def _titled(title: str, drawn: Html, notes: list[str]) -> Html:
    if not drawn:
        return Html(f'<p class="soft">{escape(" ".join(notes))}</p>' if notes else "")
    said = f'<p class="soft">{escape(" ".join(notes))}</p>' if notes else ""
    return Html(f"<h3>{escape(title)}</h3>{drawn}{said}")
