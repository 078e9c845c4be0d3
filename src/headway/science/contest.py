"""What is compared, and how: the arguments of a comparison, checked and remembered."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.io.atomic_write import write_json, write_whole
from headway.io.quantities import parse_seconds, time_text
from headway.models.baselines import KINDS as BASELINES
from headway.science.candidate import Candidate
from headway.science.recall import WINDOW, recall_text
from headway.training.option_fields import flag

WRITERS = ("transformer", "rnn", "lstm", "gru")
"""The models of running text."""
OF_INPUTS = ("task", "tokenizer", "length", "text_column", "label_column", "merge_labels", "labels_as_text")
"""Options that a text which is made for recall has of its own."""
MATCHES = ("time", "parameters", "tokens")
RATES = (1.0, 2.0, 0.5, 4.0, 0.25, 8.0, 0.125)
"""Learning rates over that of the preset, in the order in which they are tried."""

ORDER = {"pre": "norm_order=pre", "post": "norm_order=post"}
NORMS = {"layernorm": "norm=layernorm,norm_parameters=both", "rmsnorm": "norm=rmsnorm,norm_parameters=weight"}
PARTS: dict[str, dict[str, str]] = {
    "ffn": {
        "relu": "activation=relu,gated=false",
        "relu2": "activation=relu2,gated=false",
        "gelu": "activation=gelu,gated=false",
        "geglu": "activation=gelu,gated=true",
        "swiglu": "activation=silu,gated=true",
    },
    "norm": {f"{order}-{norm}": f"{ORDER[order]},{NORMS[norm]}" for order in ORDER for norm in NORMS},
    "positions": {
        kind: f"positions={kind}" for kind in ("rotary", "learned", "sinusoidal", "alibi", "relative", "none")
    },
}
"""By part, what it may be and the overrides of the configuration that make it so."""
HEADS = (1, 2, 4, 8)
VARIED = (*PARTS, "heads")


@dataclass(frozen=True)
class Contest:
    """What is compared, and how."""

    inputs: list[str]
    models: list[str] = field(default_factory=list)
    match: str | None = None
    """by default tokens where parts are compared, else time"""
    vary: str | None = None
    """the part in which Transformers differ, instead of ``models``"""
    recall: bool = False
    """compare how far back they remember, on a text that is made for it"""
    time: str = "5m"
    trials: int = 1
    seeds: int = 1
    seed: int = 0
    validation: list[str] = field(default_factory=list)
    test: str | None = None
    """a file that is measured once, by the finished models"""
    options: dict[str, Any] = field(default_factory=dict)
    """options of ``train`` that all of them have"""

    def __post_init__(self) -> None:
        if (self.vary is None) == (not self.models):
            raise InputError(f"give either --models, or --vary with one of {', '.join(VARIED)}.")
        if not self.recall and not self.inputs:
            raise InputError("expected an input, or --recall, which generates its own text.")
        if self.recall and not self.inputs:
            self._check_recall()
        if self.match is None:
            object.__setattr__(self, "match", "time" if self.vary is None else "tokens")
        if self.match not in MATCHES:
            raise InputError(f"--match is {self.match!r}; it can be {', '.join(MATCHES)}.")
        if not 1 <= self.trials <= len(RATES):
            raise InputError(f"--trials is {self.trials}; it can be from 1 to {len(RATES)}.")
        if self.match == "parameters" and self.vary is not None:
            raise InputError("--vary compares models of equal sizes, so --match can only be time or tokens.")
        if self.match == "parameters" and self.models[0] in BASELINES:
            raise InputError("--match parameters: name a Transformer first; the others get as many parameters.")
        if self.match == "parameters" and (others := [name for name in self.models[1:] if name not in BASELINES]):
            raise InputError(f"--match parameters can match baselines to {self.models[0]}, but not {others[0]}.")
        object.__setattr__(self, "time", time_text(self.time))
        if self.seeds < 1:
            raise InputError(f"--seeds is {self.seeds}; it must be 1 or more.")

    def _check_recall(self) -> None:
        """Raise InputError for what goes against a text that is made."""
        given = [name for name in ("validation", "test") if getattr(self, name)]
        given += [name for name in OF_INPUTS if name in self.options]
        if given:
            raise InputError(f"--recall generates its own text; leave out --{flag(given[0])}.")
        if others := [name for name in self.models if name not in WRITERS]:
            raise InputError(f"--recall is for models of running text ({', '.join(WRITERS)}), not {others[0]}.")

    @property
    def share(self) -> float:
        """Seconds of each training: a model's time over its trials and seeds, of which the best trial is the first."""
        return parse_seconds(self.time) / (self.trials + self.seeds - 1)


def with_text(contest: Contest, out: Path) -> Contest:
    """The comparison with the text that is made for it, kept in ``out``."""
    if contest.inputs:
        raise InputError(f"--recall generates its own text; leave out {contest.inputs[0]} or --recall.")
    fixed = {"task": "language_modeling", "tokenizer": "char", "length": WINDOW}
    contest = replace(contest, inputs=[str(out / "recall.txt")], options={**contest.options, **fixed})
    remember(contest, out)
    text = recall_text(seed=contest.seed)
    write_whole(out / "recall.txt", lambda new: new.write_text(text, encoding="utf-8"))
    return contest


def remember(contest: Contest, out: Path) -> None:
    """Record the arguments, so that only the same command resumes the comparison.  Raises InputError."""
    words = json.loads(json.dumps(vars(contest)))
    path = out / "contest.json"
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = sorted(name for name in words if before.get(name) != words[name] and name != "models")
        if changed:
            raise InputError(
                f"{out}: holds a comparison with other {', '.join(changed)}; name another directory with --out."
            )
    elif out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: this directory is not empty and holds no comparison; name another with --out.")
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, words)


def varied(part: str) -> list[Candidate]:
    """The Transformers that differ in one part.  Raises InputError for an unknown part."""
    if part == "heads":
        return [Candidate(f"{count}-heads" if count > 1 else "1-head", {"heads": count}) for count in HEADS]
    if part not in PARTS:
        raise InputError(f"--vary is {part!r}; it can be {', '.join(VARIED)}.")
    return [Candidate(name, {"config_overrides": changes}) for name, changes in PARTS[part].items()]
