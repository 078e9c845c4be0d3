"""``headway.json``, read and written in one place; invalid content is refused before it is used."""

import hashlib
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from headway.errors import InputError, shown
from headway.io.atomic_write import checked_files, write_json
from headway.io.quantities import counted, size
from headway.io.regular_file import open_regular, sha256_of
from headway.io.strict_json import MAX_BYTES, read_object
from headway.nn.kernels.products import KINDS
from headway.training.evaluation.metric import REPORTED
from headway.training.option_fields import entries as fields_of
from headway.training.option_fields import kind_of
from headway.training.options import TrainOptions
from headway.training.plan import FORMER_NAMES, Plan
from headway.training.store.contents import MOST_FACTS

FILE = "headway.json"
LEFT_BY_RUNS = ("log.jsonl", "checkpoints", "report.html")
"""Files that show that a directory is a run and not just a model, where ``headway.json`` is missing."""
CHECKSUM, FILES = "checksum", "files"
"""The keys of the SHA-256 of the content itself, and of those of the model's files, which a finished run has: so that a
damaged run gives an error and never a wrong answer.  Files of earlier versions have neither, and are read without."""
NOT_OF_THE_MODEL = (FILE, "log.jsonl", "report.html")
PART = re.compile(r"\d+_[A-Za-z]+")
"""A folder with one module of a sentence encoder, such as 1_Pooling."""
OF_THE_READER = ("tokenizer", "special_tokens", "chat_template", "preprocessor")
"""Prefixes of the processor's files (tokenizer, image preprocessor); training does not change them."""
ENDINGS = (".json", ".safetensors", ".txt", ".model", ".spm", ".jinja")
"""Suffixes of the files of a model; other files in the directory are the user's own."""
ADVICE = "restore the original file, or use another --out to start over"
MOST_OF_LABELS, LINE = MAX_BYTES // 2, 16
"""Bytes that labels may take in ``config.json``, where each stands in two lines, and of a line without its label."""

Kind = tuple[Callable[[Any], bool], str]
"""A check of a value, and the name of what it accepts."""


def _whole(least: int, most: int) -> Kind:
    return lambda value: type(value) is int and least <= value <= most, f"a whole number from {least} to {most}"


def _or_none(kind: Kind) -> Kind:
    return lambda value: value is None or kind[0](value), f"{kind[1]} or null"


def _list_of(kind: Kind, what: str) -> Kind:
    return lambda value: isinstance(value, list) and all(map(kind[0], value)), what


def _entries(kinds: Mapping[str, Kind], what: str = "an object") -> Kind:
    """An object that has these entries, and perhaps others."""
    return lambda value: isinstance(value, dict) and all(kind[0](value.get(key)) for key, kind in kinds.items()), what


TEXT: Kind = lambda value: isinstance(value, str), "a text"
FLAG: Kind = lambda value: isinstance(value, bool), "true or false"
COUNT = _whole(0, 2**53)
NUMBER: Kind = lambda value: type(value) in (int, float) and math.isfinite(value), "a number"
MEASURED: Kind = lambda value: isinstance(value, dict | list) or NUMBER[0](value), "a number"
ABOVE_ZERO: Kind = lambda value: NUMBER[0](value) and value > 0, "a number above 0"
POSITIVE: Kind = lambda value: NUMBER[0](value) and value >= 0, "a number from 0"
OBJECT: Kind = lambda value: isinstance(value, dict), "an object"
MEMBER: Kind = lambda value: TEXT[0](value) and re.fullmatch(r"seed-\d+", value) is not None, "a name such as seed-0"
TEXTS = _list_of(TEXT, "a list of texts")
OBJECTS = _list_of(OBJECT, "a list of objects")
TEXTS_BY_NAME: Kind = lambda value: OBJECT[0](value) and all(map(TEXT[0], value.values())), "an object of texts"
COUNTS: Kind = lambda value: OBJECT[0](value) and all(map(COUNT[0], value.values())), "an object of counts"
BETAS: Kind = (
    lambda value: (
        isinstance(value, list | tuple) and len(value) == 2 and all(POSITIVE[0](beta) and beta < 1 for beta in value)
    ),
    "two numbers from 0 to below 1",
)
PRODUCTS: Kind = lambda value: value in KINDS, f"one of {', '.join(KINDS)}"
SPEEDS = _list_of(_entries({"per_second": ABOVE_ZERO}), "a list of speeds")
FILLED: Kind = lambda value: SPEEDS[0](value) and len(value) > 0, SPEEDS[1]
BENCH = "what `headway bench RUN --store` writes"
ROW = _entries({"precision": TEXT, "metric": _or_none(TEXT), "value": _or_none(NUMBER), "speeds": FILLED})
PRECISION = _entries({"chosen": TEXT, "best": TEXT, "measured": _list_of(ROW, BENCH)}, BENCH)
"""The entries that ``workflows.precisions`` writes."""
ROW_OF_ENGINE = _entries({"engine": TEXT, "precision": TEXT, "speeds": SPEEDS})
BEST: Kind = lambda value: OBJECT[0](value) and all(map(TEXTS_BY_NAME[0], value.values())), BENCH
ENGINES = _entries({"best": BEST, "measured": _list_of(ROW_OF_ENGINE, BENCH)}, BENCH)
"""The entries that ``workflows.engines`` writes."""

FACTS: dict[str, Kind] = {
    **dict.fromkeys(("headway", "task", "started"), TEXT),
    **dict.fromkeys(("command", "validation", "labels"), TEXTS),
    **{"members": _list_of(MEMBER, "names such as seed-0"), "best_member": MEMBER},
    **dict.fromkeys(("options", "plan", "data", "machine", "metrics", "seeds", "tuning", FILES), OBJECT),
    **{"precision": _or_none(PRECISION), "engines": _or_none(ENGINES)},
    **dict.fromkeys(("parameters", "trained_parameters", "best_step", "steps", "tokens", "snapshot"), COUNT),
    **dict.fromkeys(("training_seconds", "tokens_per_second", "seconds"), POSITIVE),
    **{"finished": FLAG, "checkpoints": FLAG, "versions": TEXTS_BY_NAME},
    **{"validation_fingerprint": _or_none(TEXT), "train_loss": _or_none(NUMBER)},
    **dict.fromkeys(("base", "fitted"), _or_none(OBJECT)),
    **{"decisions": _list_of(TEXTS_BY_NAME, "a list of objects of texts"), "baselines": OBJECTS},
}
DATA: dict[str, Kind] = {
    **dict.fromkeys(("inputs", "warnings"), TEXTS),
    **dict.fromkeys(("fingerprint", "train", "validation", "sample", "held_in_memory", "measured"), TEXT),
    **dict.fromkeys(("text_column", "label_column", "second_column"), _or_none(TEXT)),
    **{"documents": COUNT, "added_tokens": COUNT, "classes": COUNTS, "rows": COUNTS, "shards": OBJECTS},
    **{"label_columns": TEXTS, "lists": TEXT},
    **{"in_memory": FLAG, "words": OBJECT},
    **dict.fromkeys(("tokens_per_word_before", "tokens_per_word_after"), POSITIVE),
}
OF_TYPE = {"bool": FLAG, "int": COUNT, "float": POSITIVE, "str": TEXT, "dict": OBJECT, "list": OBJECTS}
"""What a field of a plan may be, by the type that it is declared with."""
PLAN: dict[str, Kind] = {
    **dict.fromkeys(
        ("length", "batch_tokens", "accumulate", "grow_batch", "validation_every", "validation_part"), _whole(1, 2**40)
    ),
    **{"shares": _whole(1, 2**12), "log_every": _whole(1, 2**53), "seed": _whole(0, 2**63 - 1)},
    **dict.fromkeys(("epochs", "batch_size", "lora"), _or_none(_whole(1, 2**53))),
    **{"betas": BETAS, "products": PRODUCTS},
}
"""Fields with narrower bounds."""


def read_facts(run: Path) -> dict[str, Any] | None:
    """The content of ``headway.json`` of a directory; None where there is none.

    Raises InputError for a file that is damaged or describes no possible run.
    """
    path = run / FILE
    if not path.exists() and not path.is_symlink():
        return None
    found = read_object(path, max_bytes=MOST_FACTS, advice=ADVICE)
    told = found.pop(CHECKSUM, None)
    if told is not None and told != checksum(found):
        raise InputError(
            f"{path}: is damaged: it has changed since headway wrote it (its checksum differs); {ADVICE}. "
            f"If you changed it yourself, remove the line of {CHECKSUM!r}."
        )
    if "task" not in found:
        raise InputError(f"{path}: names no task: it is damaged or another file; {ADVICE}.")
    for key in ("options", "plan"):
        if isinstance(values := found.get(key), dict):  # of an earlier version
            found[key] = {FORMER_NAMES.get(name, name): value for name, value in values.items()}
    check_facts(found, path)
    return found


def write_facts(run: Path, facts: Mapping[str, Any]) -> None:
    """Write ``headway.json`` atomically.

    It holds checksums of the model's files once the run is finished, and of the processor's files from the start.
    Raises InputError for facts that ``read_facts`` would refuse.
    """
    kept = {key: value for key, value in facts.items() if key not in (CHECKSUM, FILES)}
    kept[FILES] = sums(run, "" if kept.get("finished") else OF_THE_READER)
    with checked_files(run) as staged:
        plain = json.loads(json.dumps(kept, allow_nan=False))  # as it will be read: tuples become lists
        write_json(staged / FILE, {**plain, CHECKSUM: checksum(plain)})
        read_facts(staged)


def check_labels(labels: Sequence[str]) -> None:
    """Raise InputError for labels that together are too long to be read again."""
    sizes = [2 * (len(json.dumps(label, ensure_ascii=False).encode(errors="replace")) + LINE) for label in labels]
    if sum(sizes) > MOST_OF_LABELS:
        longest = labels[sizes.index(max(sizes))]
        raise InputError(
            f"the {counted(len(labels), 'label')} would take {size(sum(sizes))} in config.json, expected "
            f"{size(MOST_OF_LABELS)} at most (the longest is {shown(longest)}): shorten them, or name another column "
            "with --label-column."
        )


def checksum(facts: Mapping[str, Any]) -> str:
    """The SHA-256 of the content of ``headway.json``, whatever its whitespace."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sums(run: Path, begin: str | tuple[str, ...] = "") -> dict[str, str]:
    """The SHA-256 of each file of the model in a directory, by name, for names that begin with ``begin``."""
    places = [run, *(place for place in run.iterdir() if PART.fullmatch(place.name) and place.is_dir())]
    files = sorted(path for place in places for path in place.iterdir() if path.is_file())
    files = [path for path in files if path.suffix in ENDINGS and path.name.startswith(begin)]
    names = [path.relative_to(run).as_posix() for path in files]
    return {name: _sum(run / name) for name in names if name not in NOT_OF_THE_MODEL and not name.startswith(".")}


def check_files(run: Path, facts: Mapping[str, Any] | None, begin: str | tuple[str, ...] = "") -> None:
    """Raise InputError where a file of the model has changed since the run wrote it.

    Only files whose names begin with ``begin`` are checked.  A run without ``headway.json`` only gives a warning.
    """
    if facts is None and any((run / name).exists() for name in LEFT_BY_RUNS):
        warnings.warn(
            f"{run}: {FILE} is missing, so damage to its files cannot be detected, and its training data are not "
            "known: evaluate uses whole files",
            stacklevel=3,
        )
    for name, told in ((facts or {}).get(FILES) or {}).items():
        if Path(name).name.startswith(begin) and _sum(run / name) != told:
            raise InputError(
                f"{run / name}: is damaged: it has changed since training wrote it (its SHA-256 differs); restore "
                f"the original, or, if you changed it yourself, remove {FILE} to turn this check off."
            )


def check_facts(found: dict[str, Any], path: Path) -> None:
    """Raise InputError, naming the field, for values that no run can have."""
    _check(found, FACTS, path, "")
    _check(found.get("data", {}), DATA, path, "data.")
    _check(found.get("base") or {}, {"path": TEXT, "fingerprint": TEXT}, path, "base.")
    numbers = {metric.key: NUMBER for metric in REPORTED}
    metrics = {name: numbers.get(name, MEASURED) for name in found.get("metrics", {})}
    _check(found.get("metrics", {}), {name: _or_none(kind) for name, kind in metrics.items()}, path, "metrics.")
    _check(found.get("tuning", {}), {"files": TEXTS}, path, "tuning.")
    for number, row in enumerate(found.get("baselines", [])):
        _check(row, {"name": TEXT, **numbers}, path, f"baselines[{number}].")
    for number, row in enumerate(found.get("data", {}).get("shards", [])):
        _check(row, {"name": TEXT, "fingerprint": TEXT, "size": COUNT, "rows": COUNT}, path, f"data.shards[{number}].")
    for name, told in found.get(FILES, {}).items():
        if not isinstance(told, str) or Path(name).is_absolute() or ".." in Path(name).parts:
            raise InputError(f"{path}: files: found {shown(name)}: {shown(told)}, expected a file and its SHA-256.")
    try:
        TrainOptions.of_record(found.get("options", {}))
    except InputError as error:
        raise InputError(f"{path}: options: {error} {ADVICE[0].upper()}{ADVICE[1:]}.") from None
    if "plan" in found:
        _check_plan(found["plan"], path)


def _check(found: Mapping[str, Any], kinds: Mapping[str, Kind], path: Path, where: str) -> None:
    for key, value in found.items():
        if key in kinds and not kinds[key][0](value):
            raise InputError(f"{path}: {where}{key}: found {shown(value)}, expected {kinds[key][1]}; {ADVICE}.")


def followed(plan: Mapping[str, Any]) -> Plan:
    """A plan from its stored fields; unknown fields are ignored.  Raises InputError where one is missing."""
    fields = fields_of(Plan)
    for name, one in fields.items():
        if name not in plan and one.default is MISSING and one.default_factory is MISSING:
            raise InputError(f"{FILE}: plan.{name} is missing; {ADVICE}.")
    return Plan(**{name: value for name, value in plan.items() if name in fields})


def _check_plan(plan: Mapping[str, Any], path: Path) -> None:
    kinds = dict(PLAN)
    for name, one in fields_of(Plan).items():
        if name in PLAN:
            continue
        written, optional = kind_of(one)
        kind = OF_TYPE[written.partition("[")[0]]
        kinds[name] = _or_none(kind) if optional else kind
    _check(plan, kinds, path, "plan.")
    try:
        made = followed(plan)
    except InputError:
        return  # it lacks fields, which matters only to those who follow it
    try:
        assert not made.model or made.config
        assert made.objective.patches is None or made.cut
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise InputError(f"{path}: plan: {error}; {ADVICE}.") from None


def _sum(path: Path) -> str:
    with open_regular(path, f"{FILE} lists this file; restore it") as file:
        try:
            return sha256_of(file)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
