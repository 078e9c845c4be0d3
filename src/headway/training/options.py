"""The options of a training run, in groups, given by flat names.  Each field is an option; its text is its help."""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, Self

from headway.data.images.image_table import AUGMENT
from headway.errors import InputError
from headway.io.csv_text import listed
from headway.io.quantities import parse_seconds, time_text
from headway.training.loop.schedule import SCHEDULES
from headway.training.option_fields import (
    ALIASES,
    DEFAULT_TIME,
    HINTS,
    RENAMED,
    SHARE,
    Between,
    Grouped,
    check_together,
    check_value,
    entries,
    flag,
    option,
)
from headway.training.sizing.layouts import DEFAULT, ENCODER_DEFAULT, ENCODER_LAYOUTS, LAYOUTS

MODELS = ("transformer", "encoder-decoder", "decoder", "rnn", "lstm", "gru", "cnn", "bow")
"""The kinds of model; a task's spec lists the kinds that it supports."""
ONE_WAY = "they are two ways to train: choose one"
WHOLE = "--adapt trains the whole model: choose one"
RANDOM = Between(0, 2**63 - 1)

free = partial(option, change="free")
of_loop = partial(option, change="allowed", loop=True)
of_new_model = partial(option, base="excluded")
of_base = partial(option, base="needed")
of_tuning = partial(option, base="needed", loop=True)
"""Options that a resumed run may change, of the training loop, of a new model, of a pretrained one, and of its training
step by step."""


@dataclass(frozen=True)
class DataOptions:
    """What the data are, and how they are read and split."""

    task: str | None = option("what to train for", common=True)
    text_column: str | None = option("column of the text; several are joined", common=True, several=True)
    label_column: str | None = option(
        "column of the label, or of a pair's score; of several labels, each", common=True, several=True
    )
    second_column: str | None = option(
        "column of the second text of each pair (embedding), or of the target", common=True
    )
    encoding: str | None = option("encoding of files that are not UTF-8")
    delimiter: str | None = option("column separator [default: detected]")
    on_bad_row: str = option(
        "stop at bad rows, or skip them (malformed: 1 % or 5 at most)", ("error", "skip"), default="error"
    )
    stream: bool = option("read Parquet files during training: they can be larger than memory or disk", default=False)
    tokenizer: str | None = of_new_model("kind of tokenizer", ("char", "word", "wordpiece", "bpe"), common=True)
    vocab: int | None = of_new_model("maximum vocabulary size", most=2**22)
    length: int | None = option("maximum sequence length in tokens", most=2**24)
    split_seed: int | None = option(
        "seed of the held-out rows (not of running text, whose end is held out) [default: --seed]", allowed=RANDOM
    )
    known_to: str | None = option("runs, by commas, whose training rows are not held out [default: --from]")


@dataclass(frozen=True)
class RunOptions:
    """How long a run lasts, and what it saves."""

    time: str | None = option(
        "time for the whole command, such as 90s, 5m or 1h [default: 5m]",
        duration=True,
        common=True,
        change="allowed",
        excludes={"steps": "a run is limited by one of them"},
    )
    steps: int | None = of_loop("number of optimizer steps, instead of a time", most=10**9, common=True)
    more_time: str | None = free(
        "continue the run in --out for so long, with a new learning rate schedule",
        duration=True,
        excludes={"more_steps": "a run is continued by one of them"},
    )
    more_steps: int | None = free("continue the run in --out for so many steps", most=10**9)
    epochs: int | None = of_loop("maximum number of epochs", most=10**6, common=True)
    seed: int = option("random seed", default=0, allowed=RANDOM, common=True)
    seeds: int = option(
        "train so many classifiers with different seeds and average their answers", default=1, most=10**3
    )
    keep: str = of_loop("weights to keep: those of the best evaluation, or the last", ("best", "last"), default="best")
    patience: int = of_loop(
        "stop after so many evaluations without improvement; 0: the task decides", default=0, allowed=Between(0, 10**6)
    )
    evaluations: int | None = of_loop("number of evaluations during the run", most=10**6)
    snapshots: bool = option("save the model of each evaluation in snapshots/", default=False, change="free", loop=True)
    on_spike: str = option(
        "what to do with a step whose loss is a spike", ("report", "skip"), default="report", change="allowed"
    )
    on_save_error: str = free("what to do when a checkpoint cannot be saved", ("continue", "stop"), default="continue")
    save_every: str = free("time between checkpoints, such as 60s or 10m", default="60s", duration=True)
    log_every: int = free("steps between lines of the log", default=10, most=10**9)
    allow_changes: bool = free(
        "resume a run with the options given now, where they may change, and its own otherwise", default=False
    )
    track: str | None = free("also send the log to a tracker", ("tensorboard", "trackio", "mlflow", "wandb"))
    tensorboard: bool = free(
        "short for --track tensorboard", default=False, excludes={"track": "--tensorboard is short for one of them"}
    )


@dataclass(frozen=True)
class ArchitectureOptions:
    """The model of a run from scratch."""

    preset: str | None = of_new_model("model size", ("tiny", "small", "medium", "large"), common=True)
    model: str | None = option("kind of model [default: a Transformer]", MODELS)
    match_parameters: int | None = of_new_model(
        "approximate parameters of a baseline [default: as many as the Transformer]", most=10**12
    )
    layout: str | None = of_new_model(
        f"parts of a published model [default: {DEFAULT}; of an encoder {ENCODER_DEFAULT}]",
        (*LAYOUTS, *ENCODER_LAYOUTS),
    )
    config_overrides: str | None = of_new_model("variants of a Transformer, such as positions=alibi,norm_order=post")
    d_model: int | None = of_new_model("width of the model", most=2**17)
    layers: int | None = of_new_model("number of blocks", most=2**12)
    heads: int | None = of_new_model("attention heads per block", most=2**12)


@dataclass(frozen=True)
class OptimisationOptions:
    """Batches, optimizer and regularisation."""

    learning_rate: float | None = of_loop("maximum learning rate", allowed=Between(0, 10, above=True), common=True)
    batch_tokens: int | None = of_loop("tokens per batch", most=2**31)
    batch_size: int | None = of_loop("maximum sequences per batch, for texts of different lengths", most=2**24)
    accumulate: int = of_loop("batches per step", default=1, most=2**20)
    grow_batch: int = of_loop("grow the batch to this many times its size during training", default=1, most=2**16)
    optimizer: str | None = option("optimizer", ("adam", "adamw", "muon"), loop=True)
    weight_decay: float | None = of_loop(
        "weight decay of matrices, per unit of learning rate; with --optimizer adam an L2 penalty, added to the "
        "gradient [default: by task; with adam 0]",
        allowed=Between(0, 10**3),
    )
    schedule: str | None = of_loop("learning rate schedule after warm-up", SCHEDULES)
    warmup: float | None = of_loop(
        "share of the run for warm-up [default: 0.02; of images 0.05; with --from 0.06]", allowed=SHARE
    )
    max_grad_norm: float = of_loop(
        "maximum gradient norm, 0 to turn clipping off", default=1.0, allowed=Between(0, 10**9)
    )
    dropout: float | None = option(
        "dropout probability [default: by task; with --from the model's own]", allowed=SHARE, loop=True
    )
    label_smoothing: float | None = of_loop(
        "label smoothing: share of each target spread over all classes", allowed=SHARE
    )
    r_drop: float | None = option(
        "R-Drop weight: read batches twice, and penalise different answers", allowed=Between(0, 10**3), loop=True
    )
    average: float | None = option(
        "decay of the weights' moving average (EMA), such as 0.999; 0 for none", allowed=SHARE, loop=True
    )


@dataclass(frozen=True)
class FineTuningOptions:
    """Training that starts from a pretrained model."""

    from_model: str | None = option("pretrained model to start from: a run or a Hugging Face directory", common=True)
    layer_decay: float | None = of_tuning(
        "layer-wise learning rate decay: each block's rate over the next block's", allowed=Between(0, 1, above=True)
    )
    freeze: int | None = of_tuning("freeze the embeddings and so many of the first blocks", allowed=Between(0, 2**12))
    lora: int | None = of_tuning("train low-rank updates of this rank (LoRA) and freeze the weights", most=2**14)
    extend_vocab: int | None = of_tuning("first add up to so many new tokens, learnt from the data", most=2**20)
    adapt: bool = of_base(
        "first train the model to fill in masked tokens of the same texts",
        default=False,
        excludes={"frozen": WHOLE, "contrastive": WHOLE},
    )
    frozen: bool = of_base(
        "fit only a linear classifier on the model's vectors", default=False, excludes={"lora": ONE_WAY}
    )
    contrastive: bool = of_base(
        "tune the vectors on pairs of rows (SetFit), then as --frozen", default=False, excludes={"lora": ONE_WAY}
    )


@dataclass(frozen=True)
class TaskOptions:
    """Options of single tasks; the spec of a task names its own."""

    source_language: str | None = of_base("language of the sources, for a base of many languages (M2M-100)")
    target_language: str | None = of_base("language of the targets, for a base of many languages")
    merge_labels: str | None = option(
        "join labels that differ only in typing: all, or a .csv, .tsv or .json of pairs (found, meant)"
    )
    labels_as_text: bool = option(
        "take each label exactly as it is written: NA and null are classes, and so are 1.1 and 1.10", default=False
    )
    balance: bool = option("weight the classes equally", default=False)
    weight_column: str | None = option("column of numbers: how much each row counts in training")
    token_dropout: float | None = option(
        "share of tokens masked in training (classification)", allowed=SHARE, loop=True
    )
    mlm_probability: float | None = option(
        "share of tokens to predict (masked_lm) [default: 0.3, with --from 0.15]", allowed=Between(0, 0.8, above=True)
    )
    whole_words: bool = option("mask whole words (masked_lm)", default=False)
    validation_windows: int | None = option(
        "evaluate so many evenly spaced windows of the held-out text during training [default: what the time allows]",
        most=10**9,
    )
    bpe_dropout: float | None = option(
        "BPE dropout: share of merges skipped in each epoch (translation)", allowed=SHARE
    )
    image_size: int | None = of_new_model("side in pixels to which images are resized", most=2**14)
    patch_size: int | None = of_new_model("side of a patch in pixels (images)", most=2**14)
    augment: str | None = option("image augmentation in training [default: usual]", AUGMENT)


@dataclass(frozen=True)
class RuntimeOptions:
    """Device, precision and processes."""

    device: str = option(
        "device: auto, cpu, cuda, cuda:N or mps; auto is a GPU if PyTorch finds one",
        default="auto",
        common=True,
        change="allowed",
    )
    precision: str | None = option(
        "precision [default: the faster one here; without --time bfloat16 where the processor has instructions for it]",
        ("float32", "bfloat16"),
        change="allowed",
    )
    products: str | None = option(
        "library of float32 products on a CPU [default: the faster one here; without --time torch's]",
        ("torch", "onednn"),
        change="allowed",
    )
    threads: int | None = option("processor threads", most=2**10, change="allowed")
    workers: int = free("processes that prepare batches during training", default=0, allowed=Between(0, 2**8))
    shard: bool = free("shard the weights over the processes that torchrun started (FSDP)", default=False)
    replicas: int = free(
        "with --shard: copies of the weights, each sharded over as many processes, such as those of a machine (HSDP)",
        default=1,
        most=2**16,
    )
    checkpoint_activations: bool = free("activation checkpointing: less memory, more time", default=False)


@dataclass(frozen=True, init=False)
class TrainOptions(Grouped):
    """Everything a run depends on, except the data.  None means: decided by the data, the machine and the time.

    Made from the flat names of the options: ``TrainOptions(time="5m", d_model=64).run.time``.  Raises InputError for an
    invalid value, and for options that conflict.  An option that is named here is given, also with its default; None
    is not given.
    """

    data: DataOptions
    run: RunOptions
    architecture: ArchitectureOptions
    optimisation: OptimisationOptions
    fine_tuning: FineTuningOptions
    for_tasks: TaskOptions
    runtime: RuntimeOptions

    def __init__(self, **flat: Any):
        known = entries(TrainOptions)
        durations = {name for name in flat if name in known and known[name].metadata["duration"]}
        times = {name: time_text(flat[name], f"--{flag(name)}") for name in durations if flat[name] is not None}
        super().__init__(**{**flat, **times})
        object.__setattr__(self, "_named", frozenset(name for name, value in flat.items() if value is not None))
        values = self.values()
        for name, value in values.items():
            check_value(known[name], value)
        check_together(known, values, self.given(known))
        self._check_choices()

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """The options of a run from its headway.json; those with their defaults count as not given."""
        plain = {name: (entry.default, type(entry.default)) for name, entry in OPTIONS.items()}
        given = {name for name, value in record.items() if name in plain and (value, type(value)) != plain[name]}
        if record.get("frozen") or record.get("contrastive"):  # with which they cannot have been given
            given -= {name for name, value in FORMER.items() if record.get(name) == value}
        return cls(**{name: record[name] for name in given})

    @property
    def named(self) -> dict[str, Any]:
        """The options that were given and their values, also those given with their defaults."""
        names: frozenset[str] = vars(self)["_named"]
        return {name: value for name, value in self.values().items() if name in names}

    @property
    def tracker(self) -> str | None:
        """The tracker that the log is also sent to."""
        return "tensorboard" if self.run.tensorboard else self.run.track

    @property
    def seed_of_split(self) -> int:
        """The seed that decides which rows are held out."""
        return self.run.seed if self.data.split_seed is None else self.data.split_seed

    def given(self, names: Collection[str]) -> list[str]:
        """Which of these options were given; a flag that is off asks for nothing."""
        return [name for name, value in self.named.items() if name in names and value is not False]

    def but(self, **changes: Any) -> Self:
        """A copy with some options given otherwise; None: not given."""
        return type(self)(**{**self.named, **changes})

    def _check_choices(self) -> None:
        """Raise InputError for values that conflict."""
        ours, kind = self.fine_tuning, self.architecture.model
        if ours.from_model is not None and kind not in (None, "encoder-decoder", "decoder"):
            raise InputError(f"--model {kind} is trained from scratch; leave out --from or --model.")
        if ours.frozen and not ours.contrastive and self.run.seeds > 1:
            raise InputError("--frozen is deterministic, so all --seeds would give the same classifier; leave one out.")
        if ours.lora is not None and self.optimisation.optimizer == "muon":
            raise InputError("--lora goes with --optimizer adam or adamw: Muon is for whole matrices.")


FORMER = {"warmup": 0.02}
"""Defaults of earlier versions: a record cannot tell whether they were given."""
OPTIONS = entries(TrainOptions)
"""Every option by its flat name."""
OF_THE_LOOP = tuple(name for name, entry in OPTIONS.items() if entry.metadata["loop"])
"""Options of training step by step: a linear classifier on a model's vectors has none of these."""
FREE = tuple(name for name, entry in OPTIONS.items() if entry.metadata["change"] == "free")
"""Options that do not affect the result: a resumed run may change them freely."""
CHANGEABLE = tuple(name for name, entry in OPTIONS.items() if entry.metadata["change"] == "allowed")
"""Options that a resumed run may change with ``--allow-changes``."""


def by_our_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options given as Python keywords, by our names: lr -> learning_rate.

    Raises InputError for unknown ones, and for one given twice.
    """
    ours = {alias: name for name in OPTIONS for alias in (*ALIASES.get(name, "").split(), flag(name))}
    values: dict[str, Any] = {}
    if unknown := sorted(name for name in options if name.replace("_", "-") not in ours):
        close = get_close_matches(unknown[0], OPTIONS, n=1)
        meant = f"did you mean {close[0]}?" if close else f"the options are {', '.join(OPTIONS)}."
        meant = HINTS.get(unknown[0].replace("_", "-"), meant)
        raise InputError(f"unknown options: {', '.join(unknown)}; {meant}")
    for key, value in options.items():
        name = ours[key.replace("_", "-")]
        if key in RENAMED:
            warnings.warn(f"{key} is now called {name}", stacklevel=3)
        if name in values:
            raise InputError(f"{name} is given twice, as {values[name]!r} and as {key}={value!r}; it takes one value.")
        several = OPTIONS[name].metadata["several"] and isinstance(value, list | tuple)
        values[name] = listed(value) if several else value
    return values


def split_seed(options: dict[str, Any]) -> int:
    """The seed that decides which rows are held out, from a run's recorded options."""
    chosen = options.get("split_seed")
    return int(options.get("seed", 0) if chosen is None else chosen)


def time_limit(options: TrainOptions) -> float | None:
    """The seconds that the command may take; None where steps limit it."""
    bounds = options.run
    if bounds.more_time is not None:
        return parse_seconds(bounds.more_time, "--more-time")
    by_steps = bounds.steps is not None or bounds.more_steps is not None
    return None if by_steps else parse_seconds(bounds.time or DEFAULT_TIME)
