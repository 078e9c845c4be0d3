"""What is compared, and how: the arguments and the models, checked and remembered."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headway.errors import InputError, RunFailed
from headway.hub.download import model_name
from headway.io.atomic_write import write_json, write_whole
from headway.io.quantities import parse_seconds, time_text
from headway.models.baselines import KINDS as BASELINES
from headway.models.config import Positions
from headway.nn.baselines import CELLS
from headway.science.long_texts import WINDOW, recall_text
from headway.science.runner import check_same, kept
from headway.tasks.spec import TaskSpec
from headway.training.option_fields import flag
from headway.training.options import MODELS

WRITERS = ("transformer", "rnn", "lstm", "gru")
"""The models of running text."""
OF_INPUTS = ("task", "tokenizer", "length", "text_column", "label_column", "merge_labels", "labels_as_text")
"""Options that a text which is made for recall has of its own."""
MATCHES = ("time", "parameters", "tokens")
RATES = (1.0, 2.0, 0.5, 4.0, 0.25, 8.0, 0.125)
"""Learning rates over that of the preset, in the order in which they are tried."""

ONE_FOR_ALL = {"optimizer": "adamw", "precision": "float32"}
"""What all models are trained with where nothing else is given: their presets' differ."""
OWN = "auto"
"""Given for one of these, each model has its preset's."""
OF_BASE = ("tokenizer", "optimizer")
"""What a pretrained model keeps of its own."""
EVALUATIONS = 10
"""Points of the learning curve of each model of running text."""
USUAL_LENGTH, FEWEST, MOST = 256, 8, 128
"""Each reads a window of so many tokens for each second of training, and so many windows at least and at most."""

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
    "positions": {kind: f"positions={kind}" for kind in Positions.KINDS},
}
"""By part, what it may be and the overrides of the configuration that make it so."""
HEADS = (1, 2, 4, 8)
VARIED = (*PARTS, "heads")


@dataclass(frozen=True)
class Comparison:
    """What is compared, and how."""

    inputs: list[str]
    models: list[str] = field(default_factory=list)
    match: str | None = None
    """what is equal for all: the time of each, trials and seeds included; the parameters of the first, and the time; or
    the tokens that the first reads in its time.  By default tokens where parts are compared, else time"""
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
            given = [name for name in ("validation", "test") if getattr(self, name)]
            if given := [*given, *(name for name in OF_INPUTS if name in self.options)]:
                raise InputError(f"--recall generates its own text; leave out --{flag(given[0])}.")
            if others := [name for name in self.models if name not in WRITERS]:
                raise InputError(f"--recall is for models of running text ({', '.join(WRITERS)}), not {others[0]}.")
        if self.match is None:
            object.__setattr__(self, "match", "time" if self.vary is None else "tokens")
        if self.match not in MATCHES:
            raise InputError(f"--match is {self.match!r}; it can be {', '.join(MATCHES)}.")
        if not 1 <= self.trials <= len(RATES):
            raise InputError(f"--trials is {self.trials}; it can be from 1 to {len(RATES)}.")
        if self.match == "parameters":
            if self.vary is not None:
                raise InputError("--vary compares models of equal sizes, so --match can only be time or tokens.")
            if self.models[0] in BASELINES:
                raise InputError("--match parameters: name a Transformer first; the others get as many parameters.")
            if others := [name for name in self.models[1:] if name not in BASELINES]:
                raise InputError(f"--match parameters can match baselines to {self.models[0]}, but not {others[0]}.")
        object.__setattr__(self, "time", time_text(self.time))
        if self.seeds < 1:
            raise InputError(f"--seeds is {self.seeds}; it must be 1 or more.")

    @property
    def share(self) -> float:
        """Seconds of each training: a model's time over its trials and seeds, of which the best trial is the first."""
        return parse_seconds(self.time) / (self.trials + self.seeds - 1)

    @property
    def candidates(self) -> list["Candidate"]:
        """The models.  Raises InputError for what cannot be compared."""
        return candidates(self.models) if self.vary is None else varied(self.vary)

    @property
    def evaluations(self) -> dict[str, int]:
        """How often and on how much of the text all are evaluated: by sizes, not by a model's speed."""
        longer = max(1.0, (self.options.get("length") or 0) / USUAL_LENGTH)
        windows = max(FEWEST, min(MOST, self.share) / longer)
        return {"evaluations": EVALUATIONS, "validation_windows": int(windows)}

    def options_of(self, model: "Candidate", first: dict[str, Any] | None) -> dict[str, Any]:
        """What every training of a model has: its budget, the split, and what makes it like the first one."""
        usual = ONE_FOR_ALL if self.vary is None else {}  # variants of one preset all have its own
        own = {**usual, **self.options, **model.options}
        own = {name: value for name, value in own.items() if name not in ONE_FOR_ALL or value != OWN}
        if runs := [name for name in self.models if Path(name).is_dir()]:
            own["known_to"] = ",".join(runs)  # all hold out the same rows, which none has seen
        own["time"] = f"{self.share:.3f}s"
        if "from_model" in model.options:
            own = {name: value for name, value in own.items() if name not in OF_BASE}
        if model.name in ("cnn", "bow") and own.get("optimizer") == "muon":
            del own["optimizer"]  # which trains the matrices of layers
        if first is None:
            return own
        size = first["size"]
        own.setdefault("products", size["products"])  # else each would time them for itself
        if self.vary is not None:
            own |= {"d_model": size["d_model"], "layers": size["n_layers"], "heads": size["n_heads"]}
            own |= {name: size[name] for name in ("dropout", "weight_decay", "precision")}
            # of as many evaluations the best weights are kept
            own |= {"evaluations": size["evaluations"], **model.options}
        if self.match == "tokens":
            if not first["steps"]:
                raise RunFailed("the first model is fitted in closed form, so there is no number of tokens to match")
            own |= {"time": None, "steps": first["steps"], "batch_tokens": size["batch_tokens"]}
            if "from_model" not in model.options:
                own |= {name: size[name] for name in ("dropout", "evaluations")}
        if self.match == "parameters":
            own["match_parameters"] = first["parameters"]
        elif self.vary is None and model.name in CELLS and first["model"] in WRITERS and "d_model" not in own:
            # not as many as the machine's speed just then would give it
            own["match_parameters"] = first["parameters"]
        return own


def with_text(comparison: Comparison, out: Path) -> Comparison:
    """The comparison with the text that is made for it, kept in ``out``."""
    if comparison.inputs:
        raise InputError(f"--recall generates its own text; leave out {comparison.inputs[0]} or --recall.")
    fixed = {"task": "language_modeling", "tokenizer": "char", "length": WINDOW}
    comparison = replace(comparison, inputs=[str(out / "recall.txt")], options={**comparison.options, **fixed})
    remember(comparison, out)
    text = recall_text(seed=comparison.seed)
    write_whole(out / "recall.txt", lambda new: new.write_text(text, encoding="utf-8"))
    return comparison


def remember(comparison: Comparison, out: Path) -> None:
    """Record the arguments, so that only the same command resumes the comparison.  Raises InputError."""
    asked = json.loads(json.dumps(vars(comparison)))
    if (before := kept(out / "contest.json", "comparison")) is not None:
        # models may be added
        check_same(out, "comparison with other", {**before, "models": asked["models"]}, asked)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "contest.json", asked)


@dataclass(frozen=True)
class Candidate:
    """A model to compare: a kind of ``--model``, or a pretrained one."""

    name: str
    options: dict[str, Any]
    """options of ``train`` that make it"""

    @property
    def folder(self) -> str:
        """Its name as a part of a path."""
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in self.name).strip(".-")[-60:] or "model"


def candidates(names: Sequence[str]) -> list[Candidate]:
    """The named models.  Raises InputError for fewer than two, duplicates and unknown models."""
    models = []
    for name in names:
        if name in MODELS:
            models.append(Candidate(name, {"model": name}))
        elif Path(name).is_dir() or "/" in name:
            models.append(Candidate(model_name(name), {"from_model": name}))
        else:
            raise InputError(
                f"--models: there is no model {name!r}; choose from {', '.join(MODELS)}, or give the directory or "
                "hub id of a pretrained one."
            )
    if len(models) < 2 or len({one.folder for one in models}) < len(models):
        raise InputError(f"--models {','.join(names)}: expected two models or more, each named once.")
    return models


def varied(part: str) -> list[Candidate]:
    """The Transformers that differ in one part.  Raises InputError for an unknown part."""
    if part == "heads":
        return [Candidate(f"{count}-heads" if count > 1 else "1-head", {"heads": count}) for count in HEADS]
    if part not in PARTS:
        raise InputError(f"--vary is {part!r}; it can be {', '.join(VARIED)}.")
    return [Candidate(name, {"config_overrides": changes}) for name, changes in PARTS[part].items()]


def fitting(model: Candidate, task: TaskSpec) -> Candidate:
    """A model as it is named for a task: where there are only Transformers, --model has nothing to say.

    Raises InputError for a model of another kind there.
    """
    if "config_overrides" in model.options and "config_overrides" not in task.options:
        raise InputError(f"--vary: a Transformer for {task.name} has no such variants; it can be heads.")
    if "model" in task.options or "model" not in model.options:
        return model
    if model.options["model"] != "transformer":
        raise InputError(
            f"--models: {task.name} has no model {model.name}; name transformer, and pretrained models by their "
            "directory or hub id."
        )
    return replace(model, options={})
