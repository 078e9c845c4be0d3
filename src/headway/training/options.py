"""What a user may ask of a training run.  Each field is an option of ``headway train``; its text is its help."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from headway.data.detect import IMAGES, TASKS
from headway.data.pictures import AUGMENT
from headway.errors import InputError, shown
from headway.io.quantities import parse_seconds, time_text
from headway.io.regular_file import check_name

MODELS = {
    "transformer": ("language_modeling", "classification", "translation"),
    "encoder-decoder": ("translation",),
    "decoder": ("translation",),
    **dict.fromkeys(("rnn", "lstm", "gru"), ("language_modeling", "classification", "translation")),
    **dict.fromkeys(("cnn", "bow"), ("classification",)),
}
"""The kinds of model, with the tasks that each can be trained for."""
DEFAULT_TIME = "5m"
"""For a run that is given neither a time nor steps."""

RANGES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("steps", "more_steps", "log_every"), (1, 10**9)),
    **dict.fromkeys(("epochs", "evaluations"), (1, 10**6)),
    **{"match_parameters": (1, 10**12), "vocab": (1, 2**22), "extend_vocab": (1, 2**20), "lora": (1, 2**14)},
    **dict.fromkeys(("image_size", "patch_size"), (1, 2**14)),
    **{"length": (1, 2**24), "d_model": (1, 2**17), "layers": (1, 2**12), "heads": (1, 2**12)},
    **{"batch_tokens": (1, 2**31), "batch_size": (1, 2**24), "accumulate": (1, 2**20), "grow_batch": (1, 2**16)},
    **{"clip": (0, 10**9), "weight_decay": (0, 10**3), "r_drop": (0, 10**3)},
    **{"freeze": (0, 2**12), "patience": (0, 10**6), "seeds": (1, 10**3)},
    **{"threads": (1, 2**10), "workers": (0, 2**8)},
    **dict.fromkeys(("seed", "split_seed"), (0, 2**63 - 1)),
}
"""The least and the most that an option may be; nothing in use comes near the most."""


def option(default: Any, text: str, choices: tuple[str, ...] = ()) -> Any:
    """A field with its help and, where there are few, its choices."""
    return field(default=default, metadata={"help": text, "choices": choices})


@dataclass(frozen=True)
class TrainOptions:
    """Everything a run depends on beside the data.  None means: decided from the data, the machine and the time."""

    task: str | None = option(None, "what to train for", TASKS)
    from_model: str | None = option(None, "pretrained model to begin from: a run or a Hugging Face directory")
    text_column: str | None = option(None, "column that holds the text")
    label_column: str | None = option(None, "column that holds the label, or the score of a pair (embedding)")
    second_column: str | None = option(None, "column of the second text of each pair (embedding), or of the target")
    source_language: str | None = option(None, "language of the sources, for a base of many languages (M2M-100)")
    target_language: str | None = option(None, "language of the targets, for a base of many languages")
    encoding: str | None = option(None, "encoding of the files that are not UTF-8")
    delimiter: str | None = option(None, "what separates columns, if not found by itself")
    on_bad_row: str = option(
        "error",
        "stop at bad rows, or leave them out (malformed: 1 % or 5 at most)",
        ("error", "skip"),
    )
    merge_labels: str | None = option(
        None, "join labels that differ only in typing: all, or a .csv, .tsv or .json of pairs (found, meant)"
    )
    stream: bool = option(False, "read Parquet files while training on them, larger than memory or disk as they may be")
    time: str | None = option(None, "time for the whole command, such as 90s, 5m or 1h [default: 5m]")
    steps: int | None = option(None, "optimiser steps, instead of a time")
    more_time: str | None = option(None, "continue the run in --out for so long, its rate rising and falling again")
    more_steps: int | None = option(None, "the same by steps")
    keep: str = option("best", "which weights the run ends with: its best evaluation's, or the last", ("best", "last"))
    epochs: int | None = option(None, "end after so many passes over the data, if that is sooner")
    model: str | None = option(None, "kind of model [default: a Transformer]", tuple(MODELS))
    match_parameters: int | None = option(None, "parameters of a baseline, about [default: as a Transformer has here]")
    config_overrides: str | None = option(None, "parts of a Transformer, such as positions=alibi,norm_order=post")
    preset: str | None = option(None, "model size", ("tiny", "small", "medium", "large"))
    tokenizer: str | None = option(None, "how text is cut into tokens", ("char", "word", "wordpiece", "bpe"))
    vocab: int | None = option(None, "how many tokens the tokenizer may have")
    image_size: int | None = option(None, "side in pixels to which pictures are brought (images)")
    patch_size: int | None = option(None, "side in pixels of what becomes one token (images)")
    augment: str | None = option(None, "how pictures are changed in training [default: usual]", AUGMENT)
    length: int | None = option(None, "longest sequence in tokens")
    d_model: int | None = option(None, "width of the model")
    layers: int | None = option(None, "how many blocks")
    heads: int | None = option(None, "attention heads of each block")
    batch_tokens: int | None = option(None, "tokens of a batch")
    batch_size: int | None = option(None, "sequences of a batch at most, for texts of different lengths")
    accumulate: int = option(1, "batches for each step")
    grow_batch: int = option(1, "grow the batch to this many times its size in the course of training")
    optimizer: str | None = option(None, "how weights are changed", ("adam", "adamw", "muon"))
    learning_rate: float | None = option(None, "highest learning rate (or --lr)")
    weight_decay: float | None = option(None, "decay of matrices, per unit of learning rate")
    schedule: str | None = option(
        None,
        "how the learning rate goes after warm-up",
        ("cosine", "linear", "inverse_sqrt", "constant_then_decay"),
    )
    warmup: float = option(0.02, "share of the run in which the learning rate rises")
    clip: float = option(1.0, "longest gradient, 0 for no limit")
    dropout: float | None = option(None, "share of activations dropped in training")
    token_dropout: float | None = option(None, "share of tokens hidden in training (classification)")
    mask_share: float | None = option(None, "share of tokens to predict (masked_lm) [default: 0.3, with --from 0.15]")
    whole_words: bool = option(False, "hide whole words (masked_lm)")
    label_smoothing: float | None = option(None, "share of each target spread over all classes")
    r_drop: float | None = option(None, "read batches twice, and weigh by this how far the answers are apart")
    bpe_dropout: float | None = option(None, "cut words anew in each pass, without this share of merges (translation)")
    layer_decay: float | None = option(None, "rate of each block over that of the next, with --from")
    freeze: int | None = option(None, "leave the embeddings and so many of the first blocks as they are, with --from")
    lora: int | None = option(None, "train updates of this rank (LoRA) and leave the weights as they are, with --from")
    extend_vocab: int | None = option(None, "first learn up to so many new tokens from the data, with --from")
    adapt: bool = option(False, "first train the model to fill in masked tokens of the same texts, with --from")
    frozen: bool = option(False, "fit only a linear classifier on the model's vectors, with --from")
    contrastive: bool = option(False, "bring the vectors into order by pairs of rows, then as --frozen")
    average: float | None = option(None, "decay of the running average of the weights, such as 0.999; 0 for none")
    patience: int = option(0, "stop after this many evaluations without improvement; 0: as the task does")
    evaluations: int | None = option(None, "how often to evaluate in the course of the run")
    snapshots: bool = option(False, "keep the model of each evaluation, in snapshots/")
    on_spike: str = option("report", "what to do with a step whose loss stands out", ("report", "skip"))
    on_save_error: str = option("continue", "what to do when a checkpoint cannot be saved", ("continue", "stop"))
    balance: bool = option(False, "weight classes so that each counts the same")
    precision: str | None = option(None, "arithmetic; by default whichever is faster here", ("float32", "bfloat16"))
    threads: int | None = option(None, "processor threads")
    device: str = option("auto", "where to compute; by default on a GPU if PyTorch finds one", ("auto", "cpu", "cuda"))
    workers: int = option(0, "processes that make batches ready beside training")
    shard: bool = option(False, "spread the weights over the processes that torchrun started (FSDP)")
    checkpoint_activations: bool = option(False, "compute activations again for the gradient: less memory, more time")
    seed: int = option(0, "all randomness follows from it")
    split_seed: int | None = option(None, "which rows are held out [default: as the seed says]")
    seeds: int = option(1, "train this many classifiers with seeds of their own and average their answers")
    save_every: str = option("60s", "time between checkpoints, such as 60s or 10m")
    log_every: int = option(10, "steps for each line of the log")
    allow_changes: bool = option(False, "go on with a run although options that may change are others now")
    tensorboard: bool = option(False, "write TensorBoard files too")

    def given(self, names: Collection[str]) -> list[str]:
        """Those of the named options that are not as they are by default."""
        return [one.name for one in fields(self) if one.name in names and getattr(self, one.name) != one.default]

    def __post_init__(self) -> None:
        for name in ("time", "save_every", "more_time"):
            if getattr(self, name) is not None:  # from Python a number of seconds too
                object.__setattr__(self, name, time_text(getattr(self, name), f"--{flag(name)}"))
        for entry in fields(self):
            value, choices = getattr(self, entry.name), entry.metadata["choices"]
            _check_kind(entry.name, entry.type, value)
            if choices and value is not None and value not in choices:
                raise InputError(f"--{flag(entry.name)} is {value!r}; it can be {', '.join(choices)}.")
        if self.time is not None and self.steps is not None:
            raise InputError("--time and --steps were both given; a run is bounded by one of them.")
        if self.more_time is not None and self.more_steps is not None:
            raise InputError("--more-time and --more-steps were both given; a run is continued by one of them.")
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                bounds = f"{least:,} or more, and at most {most:,}"
                raise InputError(f"--{flag(name)} is {shown(value)}; it must be {bounds}.")
        if self.from_model is not None:
            check_name(self.from_model, "--from")
        for name in ("dropout", "token_dropout", "label_smoothing", "average", "warmup", "bpe_dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"--{flag(name)} is {shown(value)}; it must be from 0 to below 1.")
        if self.mask_share is not None and not 0 < self.mask_share <= 0.8:
            raise InputError(f"--mask-share is {shown(self.mask_share)}; it must be above 0 and at most 0.8.")
        if self.layer_decay is not None and not 0 < self.layer_decay <= 1:
            raise InputError(f"--layer-decay is {shown(self.layer_decay)}; it must be above 0 and at most 1.")
        for name in ("layer_decay", "freeze", "lora", "extend_vocab", "source_language", "target_language"):
            if getattr(self, name) is not None and self.from_model is None:
                raise InputError(f"--{flag(name)} is for fine-tuning; say from which model with --from.")
        for name in ("frozen", "contrastive", "adapt"):
            if getattr(self, name) and self.from_model is None:
                raise InputError(f"--{flag(name)} is for fine-tuning; say from which model with --from.")
        if (self.frozen or self.contrastive) and self.adapt:
            raise InputError("--adapt trains the whole model, which --frozen and --contrastive do not; choose one.")
        for name in (*OF_THE_BASE, "tokenizer", "vocab"):
            if getattr(self, name) is not None and self.from_model is not None:
                raise InputError(f"--{flag(name)} cannot be chosen with --from: the model brings its own.")
        if self.from_model is not None and self.model not in (None, "encoder-decoder", "decoder"):
            raise InputError(f"--model {self.model} begins from scratch; leave out --from, or leave out --model.")
        for name in ("frozen", "contrastive"):
            if getattr(self, name) and self.lora is not None:
                raise InputError(f"--{name} and --lora were both given; they are two ways to train, choose one.")
        for name in self.given(OF_THE_LOOP) if self.frozen or self.contrastive else ():
            way = "contrastive" if self.contrastive else "frozen"
            raise InputError(f"--{flag(name)} is for training the whole model, which --{way} does not; choose one.")
        if self.frozen and not self.contrastive and self.seeds > 1:
            raise InputError(
                "--frozen draws nothing at random, so all --seeds would give one classifier; leave one out."
            )
        if self.lora is not None and self.optimizer == "muon":
            raise InputError("--lora goes with --optimizer adam or adamw: Muon is for whole matrices.")
        if self.learning_rate is not None and not 0 < self.learning_rate <= 10:
            raise InputError(f"--learning-rate is {shown(self.learning_rate)}; it must be above 0 and at most 10.")


OF_THE_BASE = (
    "match_parameters", "config_overrides", "d_model", "layers", "heads", "preset", "image_size", "patch_size",
)  # fmt: skip
"""Options that a model has which a run begins from."""
OF_THE_LOOP = (
    "steps", "epochs", "batch_tokens", "batch_size", "accumulate", "grow_batch", "optimizer", "learning_rate",
    "weight_decay", "schedule", "warmup", "clip", "dropout", "token_dropout", "label_smoothing", "r_drop",
    "layer_decay", "freeze", "lora", "extend_vocab", "average", "patience", "evaluations", "snapshots", "keep",
)  # fmt: skip
"""Options of training a whole model step by step: a linear classifier on its vectors has none of these."""
OF_TEXTS = (
    "text_column", "label_column", "second_column", "encoding", "delimiter", "tokenizer", "vocab", "length",
    "extend_vocab",
)  # fmt: skip
"""Options that mean something for texts alone."""
FOR_TASK = {
    **dict.fromkeys(OF_TEXTS, tuple(task for task in TASKS if task != IMAGES)),
    **dict.fromkeys(("image_size", "patch_size", "augment"), (IMAGES,)),
    **dict.fromkeys(("frozen", "contrastive", "adapt", "token_dropout"), ("classification",)),
    "merge_labels": ("classification",),
    "balance": ("classification", IMAGES),
    **dict.fromkeys(("mask_share", "whole_words"), ("masked_lm",)),
    "stream": ("language_modeling", "masked_lm"),
    "r_drop": ("classification", "translation"),
    "label_smoothing": ("language_modeling", "classification", "translation", IMAGES),
    **dict.fromkeys(("bpe_dropout", "source_language", "target_language"), ("translation",)),
    **dict.fromkeys(("model", "match_parameters", "config_overrides"), MODELS["transformer"]),
}
"""Options that mean something for some tasks alone; those of masked_lm also where ``adapt`` begins with it."""


def check_for_task(options: TrainOptions, task: str, reasons: Sequence[str] = ()) -> None:
    """Raise InputError when an option was given that the task does not read; ``reasons`` say why it is this task."""
    tasks = {task, "masked_lm"} if options.adapt else {task}
    if options.model is not None and task in FOR_TASK["model"] and task not in MODELS[options.model]:
        known = ", ".join(name for name, its in MODELS.items() if task in its)
        raise InputError(f"--model {options.model} is not for {task}, which has {known}.")
    for entry in fields(options):
        wanted = FOR_TASK.get(entry.name, (task,))
        if getattr(options, entry.name) != entry.default and not tasks & set(wanted):
            why = f" Found: {'; '.join(reasons)}." if reasons else ""
            what = "texts" if entry.name in OF_TEXTS else " and ".join(wanted)
            raise InputError(f"--{flag(entry.name)} is for {what}, and this is {task}; leave it out.{why}")


def flag(name: str) -> str:
    """A field's option: label_column -> label-column, and from_model -> from, which Python keeps for itself."""
    return "from" if name == "from_model" else name.replace("_", "-")


def split_seed(options: dict[str, Any]) -> int:
    """What decides which rows are held out, of a run's options as they are recorded."""
    chosen = options.get("split_seed")
    return int(options.get("seed", 0) if chosen is None else chosen)


def time_limit(options: TrainOptions) -> float | None:
    """The seconds that the command may take; None where steps bound it."""
    if options.more_time is not None:
        return parse_seconds(options.more_time, "--more-time")
    by_steps = options.steps is not None or options.more_steps is not None
    return None if by_steps else parse_seconds(options.time or DEFAULT_TIME)


KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a text"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
}


def _check_kind(name: str, declared: Any, value: Any) -> None:
    """Raise InputError when a value, given from Python, is not of the kind that its field declares."""
    written = declared.__name__ if isinstance(declared, type) else str(declared)
    kind, _, optional = written.partition(" | ")
    accepted, words = KINDS[kind]
    if value is None and optional:
        return
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind != "bool"):
        raise InputError(f"--{flag(name)} is {value!r}; it must be {words}.")
