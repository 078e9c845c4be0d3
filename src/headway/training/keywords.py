"""The options of ``headway.train`` by name and type, for editors and type checkers; ``TrainOptions`` says what they do.

A test keeps them equal to its fields.
"""

from typing import TypedDict


class TrainKeywords(TypedDict, total=False):
    """Each field of ``TrainOptions``, none of them required."""

    task: str | None
    text_column: str | None
    label_column: str | None
    second_column: str | None
    encoding: str | None
    delimiter: str | None
    on_bad_row: str
    stream: bool
    tokenizer: str | None
    vocab: int | None
    length: int | None
    split_seed: int | None
    known_to: str | None
    time: str | float | None
    steps: int | None
    more_time: str | float | None
    more_steps: int | None
    epochs: int | None
    seed: int
    seeds: int
    keep: str
    patience: int
    evaluations: int | None
    snapshots: bool
    on_spike: str
    on_save_error: str
    save_every: str | float
    log_every: int
    allow_changes: bool
    tensorboard: bool
    preset: str | None
    model: str | None
    match_parameters: int | None
    layout: str | None
    config_overrides: str | None
    d_model: int | None
    layers: int | None
    heads: int | None
    learning_rate: float | None
    batch_tokens: int | None
    batch_size: int | None
    accumulate: int
    grow_batch: int
    optimizer: str | None
    weight_decay: float | None
    schedule: str | None
    warmup: float | None
    max_grad_norm: float
    dropout: float | None
    label_smoothing: float | None
    r_drop: float | None
    average: float | None
    from_model: str | None
    layer_decay: float | None
    freeze: int | None
    lora: int | None
    extend_vocab: int | None
    adapt: bool
    frozen: bool
    contrastive: bool
    source_language: str | None
    target_language: str | None
    merge_labels: str | None
    labels_as_text: bool
    balance: bool
    token_dropout: float | None
    mlm_probability: float | None
    whole_words: bool
    validation_windows: int | None
    bpe_dropout: float | None
    image_size: int | None
    patch_size: int | None
    augment: str | None
    device: str
    precision: str | None
    products: str | None
    threads: int | None
    workers: int
    shard: bool
    checkpoint_activations: bool
