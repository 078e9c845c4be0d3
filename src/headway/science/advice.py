"""Advice from a comparison for this task, these data and this machine, with the reasons."""

from typing import Any

from headway.io.quantities import size

HELD_OUT = "the held-out part"
"""The default data to measure on."""


def advice(result: dict[str, Any], *, better: int) -> list[str]:
    """Sentences about the rows of a comparison; ``better`` is 1 where more of the metric is better, else -1."""
    rows = sorted((row for row in result["rows"] if "failed" not in row), key=lambda row: -better * row["mean"])
    failed = [row["model"] for row in result["rows"] if "failed" in row]
    said = [f"Not trained: {', '.join(failed)}."] if failed else []
    if not rows:
        return said
    best, metric = rows[0], result["metric"].replace("_", " ")
    equals = [row for row in rows[1:] if _equal(best, row)]
    if not equals:
        second = f", better than {rows[1]['model']} ({_figure(rows[1])})" if rows[1:] else ""
        said.append(f"Take {best['model']}: its {metric} is the best, {_figure(best)}{second}.")
    else:
        names = ", ".join(f"{row['model']} ({_figure(row)})" for row in equals)
        why = "their intervals overlap" if best["interval"] else "one seed each gives no interval"
        said.append(f"{best['model']} has the best {metric}, {_figure(best)}, but {names} may be as good: {why}.")
        fastest = max([best, *equals], key=lambda row: row["throughput"])
        smallest = min([best, *equals], key=lambda row: row["parameters"])
        said.append(
            f"Of these, {fastest['model']} is the fastest ({fastest['throughput']:,.0f} per second) and "
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
    said += [*_lengths(rows), *_longer(rows), *_recall(rows)]
    if result["metric"] == "val_loss" and len({row["size"]["vocab_size"] for row in rows}) > 1:
        said.append("Their vocabularies differ, so their losses cannot be compared.")
    if result["seeds"] == 1:
        said.append("One seed each: differences of a few points in the last digits mean nothing; see --seeds.")
    if result["trials"] > 1 and result["measured_on"] == HELD_OUT:
        said.append(f"Trials were chosen by {HELD_OUT}, where the best one's value is a little too good; see --test.")
    if result["trials"] == 1:
        said.append("Learning rates are the presets', not searched for; see --trials.")
    return said


def _equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two rows cannot be distinguished; without intervals none can."""
    if one["interval"] and other["interval"]:
        return one["interval"][0] <= other["interval"][1] and other["interval"][0] <= one["interval"][1]
    return True


def _figure(row: dict[str, Any]) -> str:
    ends = row["interval"]
    return f"{row['mean']:.4g}" + (f", 95 % interval {ends[0]:.4g} to {ends[1]:.4g}" if ends else "")


def _lengths(rows: list[dict[str, Any]]) -> list[str]:
    """How the time per token grows from the shortest to the longest sequences that all models were timed on."""
    timed = {
        row["model"]: {at["length"]: at["microseconds"] for at in row["lengths"]} for row in rows if row["lengths"]
    }
    shared = sorted(set.intersection(*map(set, timed.values()))) if timed else []
    if len(shared) < 2:
        return []
    short, long = shared[0], shared[-1]
    grown = ", ".join(f"{name} {found[long] / found[short]:.1f} times" for name, found in timed.items())
    return [f"Time per token in sequences of {long} tokens against {short}, with equal tokens per batch: {grown}."]


def _longer(rows: list[dict[str, Any]]) -> list[str]:
    """Which models can read windows longer than in training."""
    told = []
    for row in rows:
        first, *_, last = row.get("longer") or [{"loss": None}, {"loss": None}]
        if first["loss"] is None:
            continue
        changed = "cannot" if last["loss"] is None else f"{last['loss'] / first['loss'] - 1:+.1%} loss"
        told.append(f"{row['model']} {changed}")
    return [f"Read in windows four times as long as in training: {', '.join(told)}."] if told else []


def _recall(rows: list[dict[str, Any]]) -> list[str]:
    """How far back each model remembers: recall accuracy at the nearest and the farthest distance."""
    told = []
    for row in rows:
        if points := row.get("recall"):
            near, far = points[0], points[-1]
            told.append(
                f"{row['model']} {near['accuracy']:.0%} at {near['distance']} tokens and {far['accuracy']:.0%} at "
                f"{far['distance']}"
            )
    return [f"Recall: {', '.join(told)}."] if told else []
