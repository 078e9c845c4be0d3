"""The options of ``headway train`` in groups.  Each field is an option; its text is its help."""

from dataclasses import dataclass

from headway.data.images.image_table import AUGMENT
from headway.training.option_fields import SHARE, Between, option, up_to
from headway.training.sizing.layouts import DEFAULT, ENCODER_DEFAULT, ENCODER_LAYOUTS, LAYOUTS

MODELS = ("transformer", "encoder-decoder", "decoder", "rnn", "lstm", "gru", "cnn", "bow")
"""The kinds of model; a task's spec lists the kinds that it supports."""
ONE_WAY = "they are two ways to train: choose one"
WHOLE = "--adapt trains the whole model: choose one"
RANDOM = Between(0, 2**63 - 1)


@dataclass(frozen=True)
class DataOptions:
    """What the data are, and how they are read and split."""

    task: str | None = option(None, "what to train for", common=True)
    text_column: str | None = option(None, "column of the text", common=True)
    label_column: str | None = option(
        None, "column of the label, or of a pair's score; of several labels, each", common=True, several=True
    )
    second_column: str | None = option(
        None, "column of the second text of each pair (embedding), or of the target", common=True
    )
    encoding: str | None = option(None, "encoding of files that are not UTF-8")
    delimiter: str | None = option(None, "column separator [default: detected]")
    on_bad_row: str = option("error", "stop at bad rows, or skip them (malformed: 1 % or 5 at most)", ("error", "skip"))
    stream: bool = option(False, "read Parquet files during training: they can be larger than memory or disk")
    tokenizer: str | None = option(
        None, "kind of tokenizer", ("char", "word", "wordpiece", "bpe"), common=True, base="excluded"
    )
    vocab: int | None = option(None, "maximum vocabulary size", allowed=up_to(2**22), base="excluded")
    length: int | None = option(None, "maximum sequence length in tokens", allowed=up_to(2**24))
    split_seed: int | None = option(
        None, "seed of the held-out rows (not of running text, whose end is held out) [default: --seed]", allowed=RANDOM
    )
    known_to: str | None = option(None, "runs, by commas, whose training rows are not held out [default: --from]")


@dataclass(frozen=True)
class RunOptions:
    """How long a run lasts, and what it saves."""

    time: str | None = option(
        None,
        "time for the whole command, such as 90s, 5m or 1h [default: 5m]",
        duration=True,
        common=True,
        change="allowed",
        excludes={"steps": "a run is limited by one of them"},
    )
    steps: int | None = option(
        None,
        "number of optimizer steps, instead of a time",
        allowed=up_to(10**9),
        common=True,
        change="allowed",
        loop=True,
    )
    more_time: str | None = option(
        None,
        "continue the run in --out for so long, with a new learning rate schedule",
        duration=True,
        change="free",
        excludes={"more_steps": "a run is continued by one of them"},
    )
    more_steps: int | None = option(
        None, "continue the run in --out for so many steps", allowed=up_to(10**9), change="free"
    )
    epochs: int | None = option(
        None, "maximum number of epochs", allowed=up_to(10**6), common=True, change="allowed", loop=True
    )
    seed: int = option(0, "random seed", allowed=RANDOM, common=True)
    seeds: int = option(
        1, "train so many classifiers with different seeds and average their answers", allowed=up_to(10**3)
    )
    keep: str = option(
        "best",
        "weights to keep: those of the best evaluation, or the last",
        ("best", "last"),
        change="allowed",
        loop=True,
    )
    patience: int = option(
        0,
        "stop after so many evaluations without improvement; 0: the task decides",
        allowed=Between(0, 10**6),
        change="allowed",
        loop=True,
    )
    evaluations: int | None = option(
        None, "number of evaluations during the run", allowed=up_to(10**6), change="allowed", loop=True
    )
    snapshots: bool = option(False, "save the model of each evaluation in snapshots/", change="free", loop=True)
    on_spike: str = option(
        "report", "what to do with a step whose loss is a spike", ("report", "skip"), change="allowed"
    )
    on_save_error: str = option(
        "continue", "what to do when a checkpoint cannot be saved", ("continue", "stop"), change="free"
    )
    save_every: str = option("60s", "time between checkpoints, such as 60s or 10m", duration=True, change="free")
    log_every: int = option(10, "steps between lines of the log", allowed=up_to(10**9), change="free")
    allow_changes: bool = option(
        False, "resume a run with the options given now, where they may change, and its own otherwise", change="free"
    )
    tensorboard: bool = option(False, "also log to TensorBoard", change="free")


@dataclass(frozen=True)
class ArchitectureOptions:
    """The model of a run from scratch."""

    preset: str | None = option(None, "model size", ("tiny", "small", "medium", "large"), common=True, base="excluded")
    model: str | None = option(None, "kind of model [default: a Transformer]", MODELS)
    match_parameters: int | None = option(
        None,
        "approximate parameters of a baseline [default: as many as the Transformer]",
        allowed=up_to(10**12),
        base="excluded",
    )
    layout: str | None = option(
        None,
        f"parts of a published model [default: {DEFAULT}; of an encoder {ENCODER_DEFAULT}]",
        (*LAYOUTS, *ENCODER_LAYOUTS),
        base="excluded",
    )
    config_overrides: str | None = option(
        None, "variants of a Transformer, such as positions=alibi,norm_order=post", base="excluded"
    )
    d_model: int | None = option(None, "width of the model", allowed=up_to(2**17), base="excluded")
    layers: int | None = option(None, "number of blocks", allowed=up_to(2**12), base="excluded")
    heads: int | None = option(None, "attention heads per block", allowed=up_to(2**12), base="excluded")


@dataclass(frozen=True)
class OptimisationOptions:
    """Batches, optimizer and regularisation."""

    learning_rate: float | None = option(
        None, "maximum learning rate", allowed=Between(0, 10, above=True), common=True, change="allowed", loop=True
    )
    batch_tokens: int | None = option(None, "tokens per batch", allowed=up_to(2**31), change="allowed", loop=True)
    batch_size: int | None = option(
        None,
        "maximum sequences per batch, for texts of different lengths",
        allowed=up_to(2**24),
        change="allowed",
        loop=True,
    )
    accumulate: int = option(1, "batches per step", allowed=up_to(2**20), change="allowed", loop=True)
    grow_batch: int = option(
        1,
        "grow the batch to this many times its size during training",
        allowed=up_to(2**16),
        change="allowed",
        loop=True,
    )
    optimizer: str | None = option(None, "optimizer", ("adam", "adamw", "muon"), loop=True)
    weight_decay: float | None = option(
        None,
        "weight decay of matrices, per unit of learning rate; with --optimizer adam an L2 penalty, added to the "
        "gradient [default: by task; with adam 0]",
        allowed=Between(0, 10**3),
        change="allowed",
        loop=True,
    )
    schedule: str | None = option(
        None,
        "learning rate schedule after warm-up",
        ("cosine", "linear", "inverse_sqrt", "constant_then_decay"),
        change="allowed",
        loop=True,
    )
    warmup: float | None = option(
        None,
        "share of the run for warm-up [default: 0.02; of images 0.05; with --from 0.06]",
        allowed=SHARE,
        change="allowed",
        loop=True,
    )
    max_grad_norm: float = option(
        1.0, "maximum gradient norm, 0 to turn clipping off", allowed=Between(0, 10**9), change="allowed", loop=True
    )
    dropout: float | None = option(
        None, "dropout probability [default: by task; with --from the model's own]", allowed=SHARE, loop=True
    )
    label_smoothing: float | None = option(
        None,
        "label smoothing: share of each target spread over all classes",
        allowed=SHARE,
        change="allowed",
        loop=True,
    )
    r_drop: float | None = option(
        None, "R-Drop weight: read batches twice, and penalise different answers", allowed=Between(0, 10**3), loop=True
    )
    average: float | None = option(
        None, "decay of the weights' moving average (EMA), such as 0.999; 0 for none", allowed=SHARE, loop=True
    )


@dataclass(frozen=True)
class FineTuningOptions:
    """Training that starts from a pretrained model."""

    from_model: str | None = option(
        None, "pretrained model to start from: a run or a Hugging Face directory", common=True
    )
    layer_decay: float | None = option(
        None,
        "layer-wise learning rate decay: each block's rate over the next block's",
        allowed=Between(0, 1, above=True),
        base="needed",
        loop=True,
    )
    freeze: int | None = option(
        None,
        "freeze the embeddings and so many of the first blocks",
        allowed=Between(0, 2**12),
        base="needed",
        loop=True,
    )
    lora: int | None = option(
        None,
        "train low-rank updates of this rank (LoRA) and freeze the weights",
        allowed=up_to(2**14),
        base="needed",
        loop=True,
    )
    extend_vocab: int | None = option(
        None, "first add up to so many new tokens, learnt from the data", allowed=up_to(2**20), base="needed", loop=True
    )
    adapt: bool = option(
        False,
        "first train the model to fill in masked tokens of the same texts",
        base="needed",
        excludes={"frozen": WHOLE, "contrastive": WHOLE},
    )
    frozen: bool = option(
        False, "fit only a linear classifier on the model's vectors", base="needed", excludes={"lora": ONE_WAY}
    )
    contrastive: bool = option(
        False, "tune the vectors on pairs of rows (SetFit), then as --frozen", base="needed", excludes={"lora": ONE_WAY}
    )


@dataclass(frozen=True)
class TaskOptions:
    """Options of single tasks; the spec of a task names its own."""

    source_language: str | None = option(
        None, "language of the sources, for a base of many languages (M2M-100)", base="needed"
    )
    target_language: str | None = option(None, "language of the targets, for a base of many languages", base="needed")
    merge_labels: str | None = option(
        None, "join labels that differ only in typing: all, or a .csv, .tsv or .json of pairs (found, meant)"
    )
    labels_as_text: bool = option(
        False, "take each label exactly as it is written: NA and null are classes, and so are 1.1 and 1.10"
    )
    balance: bool = option(False, "weight the classes equally")
    token_dropout: float | None = option(
        None, "share of tokens masked in training (classification)", allowed=SHARE, loop=True
    )
    mlm_probability: float | None = option(
        None,
        "share of tokens to predict (masked_lm) [default: 0.3, with --from 0.15]",
        allowed=Between(0, 0.8, above=True),
    )
    whole_words: bool = option(False, "mask whole words (masked_lm)")
    validation_windows: int | None = option(
        None,
        "evaluate so many evenly spaced windows of the held-out text during training [default: what the time allows]",
        allowed=up_to(10**9),
    )
    bpe_dropout: float | None = option(
        None, "BPE dropout: share of merges skipped in each epoch (translation)", allowed=SHARE
    )
    image_size: int | None = option(
        None, "side in pixels to which images are resized", allowed=up_to(2**14), base="excluded"
    )
    patch_size: int | None = option(None, "side of a patch in pixels (images)", allowed=up_to(2**14), base="excluded")
    augment: str | None = option(None, "image augmentation in training [default: usual]", AUGMENT)


@dataclass(frozen=True)
class RuntimeOptions:
    """Device, precision and processes."""

    device: str = option(
        "auto",
        "device: auto, cpu, cuda, cuda:N or mps; auto is a GPU if PyTorch finds one",
        common=True,
        change="allowed",
    )
    precision: str | None = option(
        None,
        "precision [default: the faster one here; without --time bfloat16 where the processor has instructions for it]",
        ("float32", "bfloat16"),
        change="allowed",
    )
    products: str | None = option(
        None,
        "library of float32 products on a CPU [default: the faster one here; without --time torch's]",
        ("torch", "onednn"),
        change="allowed",
    )
    threads: int | None = option(None, "processor threads", allowed=up_to(2**10), change="allowed")
    workers: int = option(0, "processes that prepare batches during training", allowed=Between(0, 2**8), change="free")
    shard: bool = option(False, "shard the weights over the processes that torchrun started (FSDP)", change="free")
    checkpoint_activations: bool = option(False, "activation checkpointing: less memory, more time", change="free")
