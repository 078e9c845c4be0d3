"""Advice from a comparison for this task, these data and this machine, with the reasons."""

from typing import Any

from headway.io.quantities import size

HELD_OUT = "the held-out part"
"""The default data to measure on."""


def advice(result: dict[str, Any], *, better: int) -> list[str]:
    """Sentences about the rows of a comparison; ``better`` is 1 where more of the metric is better, else -1."""
    rows = sorted((row for row in result["rows"] if "failed" not in row), key=lambda row: -better * row["mean"])
    said = [f"{row['model']} is left out: {row['failed']}." for row in result["rows"] if "failed" in row]
    if not rows:
        return said
    best, metric = rows[0], result["metric"].replace("_", " ")
    equals = [row for row in rows[1:] if row["behind_interval"] is not None and row["behind_interval"][0] <= 0]
    untested = [row for row in rows[1:] if row["behind_interval"] is None]
    if not equals and not untested:
        second = f", better than {_behind(rows[1])}" if rows[1:] else ""
        said.append(f"Take {best['model']}: its {metric} is the best, {_figure(best)}{second}.")
    else:
        said.append(f"{best['model']} has the best {metric}, {_figure(best)}.")
    if untested:
        names = ", ".join(row["model"] for row in untested)
        said.append(f"{names}: there is no paired test of {metric} against {best['model']}, so neither is advised.")
    if equals:
        names = "; ".join(map(_behind, equals))
        said.append(f"On the same held-out data these may be as good, since the interval includes 0: {names}.")
        fastest = max([best, *equals], key=lambda row: row["throughput"])
        smallest = min([best, *equals], key=lambda row: row["parameters"])
        said.append(
            f"Of these {1 + len(equals)}, {fastest['model']} is the fastest ({fastest['throughput']:,.0f} per second), "
            f"{smallest['model']} is the smallest ({smallest['parameters']:,} parameters)."
        )
    quickest = max(rows, key=lambda row: row["throughput"])
    if quickest is not best and quickest["throughput"] > 2 * best["throughput"]:
        said.append(
            f"If speed matters more: {quickest['model']} answers {quickest['throughput'] / best['throughput']:.1f} "
            f"times as many, and its {metric} is {quickest['mean']:.4g}."
        )
    known = [row for row in rows if row["memory_mb"] is not None]
    least = min(known, key=lambda row: row["memory_mb"], default=best)
    if best in known and least["memory_mb"] < 0.5 * best["memory_mb"]:
        said.append(
            f"Training {best['model']} took {size(1e6 * best['memory_mb'])} at its peak, {least['model']} "
            f"{size(1e6 * least['memory_mb'])}."
        )
    said += [*_lengths(rows), *_long_texts(rows)]
    if result["metric"] == "val_loss" and len({row["size"]["vocab_size"] for row in rows}) > 1:
        said.append("Their vocabularies differ, so their losses cannot be compared.")
    said += _recipes(rows)
    if result["seeds"] == 1:
        said.append("One seed each: the intervals are over held-out data alone, another seed may differ; see --seeds.")
    if result["seeds"] == 2:
        said.append("Two seeds have no interval, since they hardly show how much seeds differ; give --seeds 3 or 1.")
    if result["trials"] > 1 and result["measured_on"] == HELD_OUT:
        said.append(f"Trials were chosen by {HELD_OUT}, where the best one's value is a little too good; see --test.")
    if result["trials"] == 1:
        said.append("Learning rates are the presets', not searched for; see --trials.")
    return said


def _figure(row: dict[str, Any]) -> str:
    ends = row["interval"]
    return f"{row['mean']:.4g}" + (f", 95 % interval {ends[0]:.4g} to {ends[1]:.4g}" if ends else "")


def _behind(row: dict[str, Any]) -> str:
    """A model, its figure, and by how much it is worse than the best."""
    low, high = row["behind_interval"]
    return f"{row['model']} ({row['mean']:.4g}, behind by {row['behind']:.3g}, 95 % interval {low:.3g} to {high:.3g})"


def _recipes(rows: list[dict[str, Any]]) -> list[str]:
    """With which optimizer and precision the models were trained: a difference of these is none of architectures."""
    kinds: dict[str, list[str]] = {}
    for row in rows:
        kinds.setdefault(f"{row['optimizer'] or 'closed form'} in {row['precision']}", []).append(row["model"])
    each = "; ".join(f"{how} ({', '.join(names)})" for how, names in kinds.items())
    own = [row["model"] for row in rows if row["pretrained"]]
    return [f"Trained with {each}.", *(f"{name} keeps its recipe of fine-tuning." for name in own)]


def _lengths(rows: list[dict[str, Any]]) -> list[str]:
    """How the time per token grows from the shortest to the longest sequences that all models were timed on."""
    timed = {
        row["model"]: {at["length"]: at["microseconds"] for at in row["lengths"]} for row in rows if row["lengths"]
    }
    shared = sorted(set.intersection(*map(set, timed.values()))) if timed else []
    if len(shared) < 2:
        return []
    short, long = shared[0], shared[-1]
    grown = ", ".join(f"{name} {times[long] / times[short]:.1f} times" for name, times in timed.items())
    return [f"Time per token in sequences of {long} tokens against {short}, with equal tokens per batch: {grown}."]


def _long_texts(rows: list[dict[str, Any]]) -> list[str]:
    """Which models can read windows longer than in training, and how far back each remembers."""
    longer, recall = [], []
    for row in rows:
        first, *_, last = row.get("longer") or [{"loss": None}, {"loss": None}]
        if first["loss"] is not None:
            changed = "cannot" if last["loss"] is None else f"{last['loss'] / first['loss'] - 1:+.1%} loss"
            longer.append(f"{row['model']} {changed}")
        if points := row.get("recall"):
            near, far = (f"{point['accuracy']:.0%} at {point['distance']}" for point in (points[0], points[-1]))
            recall.append(f"{row['model']} {near} tokens and {far}")
    said = [f"Read in windows four times as long as in training: {', '.join(longer)}."] if longer else []
    return said + ([f"Recall: {', '.join(recall)}."] if recall else [])
