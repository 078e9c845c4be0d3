"""A few steps of a model's own training, as the words of a command: with its plan, tokenizer, optimiser and options."""

import json
import shutil
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.hub.fingerprint import fingerprint
from headway.science.promises.material import Material, made_up, own_data
from headway.science.promises.samples import Subject
from headway.storage import write_json
from headway.training.config import TrainOptions, flag
from headway.training.plan import Plan
from headway.training.prepare import read_input
from headway.training.resume import recorded
from headway.training.run_directory import best_member

STEPS, EVALUATIONS = 8, 2
WORK = 1e10
"""FLOPs of a batch: of a large model, a batch is made smaller than in its own run."""
LEAST_TOKENS, MOST_TOKENS = 64, 1024
"""Of a batch; the most where no run says how many there are."""
MOST_BATCHES = 2
"""Batches of a step, at most, and how many times as many there may be in the end."""
NEVER = "1000h"


@dataclass(frozen=True)
class Replay:
    """What is trained again, on what, and how much of it there is."""

    material: Material
    options: dict[str, Any]
    """options of ``train`` that are not as they are by default"""
    facts: dict[str, Any] | None
    """headway.json to begin from, as of a run that was killed before its first checkpoint; None for a new run"""
    directory: Path
    """where the tokenizer is"""
    flops: float
    """of all steps"""

    def begin(self, run: Path) -> None:
        """Make the directory of a run of which nothing has been trained; none for a new run."""
        if self.facts is None:
            return
        run.mkdir()
        for name in _TOKENIZER:
            if (self.directory / name).is_file():
                shutil.copyfile(self.directory / name, run / name)
        write_json(run / "headway.json", self.facts)

    def words(self, run: Path, save_every: str) -> list[str]:
        """The command that trains it in ``run``, or takes it up there."""
        words = ["train", str(self.material.file), "--out", str(run), "--save-every", save_every, "--quiet"]
        for name, value in self.options.items():
            words += [f"--{flag(name)}"] if value is True else [f"--{flag(name)}", str(value)]
        return words


_TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"),
    *("merges.txt", "vocab.txt", "spiece.model", "tokenizer.model", "source.spm", "target.spm", "target_vocab.json"),
    *("sentencepiece.bpe.model", "chat_template.jinja"),
)


def replay(subject: Subject, directory: Path, folder: Path) -> Replay | None:
    """A few steps of the training of a model, in files of ``folder``; None for one that was fitted without steps.

    A run from scratch begins anew, from the weights that its plan draws; one that began from a base, and a directory
    that no run left, begin from the model itself.  Raises InputError for a run whose records cannot be followed.
    """
    member = best_member(directory)
    directory = directory if member is None else directory / member
    facts = _facts(directory)
    weights = sum(p.numel() for p in subject.one.parameters())
    tokens = max(LEAST_TOKENS, int(WORK / (6 * weights)))
    if "plan" not in facts:
        tokens = min(tokens, MOST_TOKENS)
        length = max(1, min(subject.longest, tokens))
        material = made_up(subject, {}, length, folder)
        options = _common(material) | {"from_model": str(directory), "batch_tokens": tokens}
        if subject.pipe.task != "translation":
            options["length"] = length
        return Replay(material, options, None, directory, 6.0 * weights * tokens * STEPS)
    plan = _known(Plan, facts["plan"])
    if plan.frozen:
        return None
    plan = replace(
        plan,
        length=min(plan.length, max(tokens, 1)),
        batch_tokens=min(plan.batch_tokens, tokens),
        accumulate=min(plan.accumulate, MOST_BATCHES),
        grow_batch=min(plan.grow_batch, MOST_BATCHES),
        **{"epochs": None, "patience": 0, "evaluations": EVALUATIONS, "validation_every": 1, "log_every": 1},
    )
    material = own_data(facts, plan.length, folder) or made_up(subject, facts, plan.length, folder)
    options = _asked(facts, plan, material, directory)
    chosen = TrainOptions(**options)
    facts = facts | {
        "options": recorded(chosen),
        "plan": plan.plain(),
        "data": {**facts["data"], "inputs": [str(material.file)], "fingerprint": _print(material, chosen)},
        **{"validation": [], "validation_fingerprint": None, "finished": False},
    }
    if chosen.from_model is not None:
        facts["base"] = {"path": chosen.from_model, "fingerprint": fingerprint(directory)}
    batches = STEPS * plan.accumulate * plan.grow_batch
    return Replay(material, options, facts, directory, 6.0 * weights * plan.batch_tokens * batches)


def _common(material: Material) -> dict[str, Any]:
    """Options of every replay."""
    return {**material.options, "steps": STEPS, "evaluations": EVALUATIONS, "log_every": 1, "on_save_error": "stop"}


OTHERWISE = (
    *(
        "text_column",
        "label_column",
        "second_column",
        "encoding",
        "delimiter",
        "on_bad_row",
    ),  # the material has its own
    *("time", "epochs", "patience", "save_every", "allow_changes", "tensorboard", "shard", "seeds", "adapt"),
)
"""Options of a run that its replay leaves out."""


def _asked(facts: dict[str, Any], plan: Plan, material: Material, directory: Path) -> dict[str, Any]:
    """The options of the run, for a few steps on other data."""
    before = _known(TrainOptions, facts["options"])
    kept = {
        entry.name: getattr(before, entry.name)
        for entry in fields(before)
        if entry.name not in OTHERWISE and getattr(before, entry.name) != entry.default
    }
    length = plan.length // 2 if before.model == "decoder" else plan.length
    asked = {**kept, **_common(material), "batch_tokens": plan.batch_tokens, "length": max(1, length)}
    asked |= {"accumulate": plan.accumulate, "grow_batch": plan.grow_batch}
    if before.from_model is not None:
        asked["from_model"] = str(directory.absolute())
    return asked


def _facts(directory: Path) -> dict[str, Any]:
    """headway.json, or nothing where no run left one.  Raises InputError for one that is damaged."""
    path = directory / "headway.json"
    if not path.exists():
        return {}
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}).") from None
    if not isinstance(facts, dict) or not {"options", "plan", "data"} <= set(facts):
        raise InputError(f"{path}: is not as headway writes it.")
    return facts


def _known(kind: Any, values: dict[str, Any]) -> Any:
    """A dataclass from a record, of which what another version had more is left out."""
    names = {entry.name for entry in fields(kind)}
    try:
        return kind(**{name: value for name, value in values.items() if name in names})
    except TypeError as error:
        raise InputError(f"headway.json: {kind.__name__}: {error}.") from None


def _print(material: Material, options: TrainOptions) -> str:
    """The fingerprint by which a run knows these data again."""
    return read_input([material.file], options)[0].fingerprint
