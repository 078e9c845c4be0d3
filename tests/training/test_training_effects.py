"""Every option of training has an effect on what is trained, or is refused: each with each task, by training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.data.batches.batch_source import Position
from headway.errors import InputError
from headway.training.option_fields import flag
from headway.training.options import OPTIONS, TrainOptions
from headway.training.store.contents import read_log
from headway.workflows.train.dry_run import decided

COMMON: dict[str, Any] = {
    **{"steps": 5, "evaluations": 1, "keep": "last", "log_every": 1, "threads": 1, "precision": "float32"},
    **{"batch_tokens": 512, "products": "torch"},
}
SHAPE: dict[str, Any] = {"d_model": 16, "layers": 1, "heads": 2}
SIDES = {"text_column": "source", "second_column": "target"}
ELSEWHERE: dict[str, str] = {
    "task": "the cases are the tasks",
    **dict.fromkeys(("time", "more_time", "more_steps", "allow_changes"), "how long a run lasts, and how it goes on"),
    **dict.fromkeys(("keep", "patience", "on_spike", "on_save_error", "save_every"), "acts on what happens in a run"),
    **dict.fromkeys(("device", "products", "threads", "workers", "checkpoint_activations"), "how it is computed"),
    **dict.fromkeys(("on_bad_row", "labels_as_text", "known_to"), "acts on rows that these data do not have"),
    **dict.fromkeys(("tensorboard", "track"), "another log"),
    **dict.fromkeys(("seeds", "shard", "replicas"), "several runs or processes"),
    **{"encoding": "is for files that are not UTF-8", "extend_vocab": "learns from other texts than those of the base"},
    "from_model": "the cases with a base",
}
"""Options whose effect is not seen in the weights and the log of these runs, and why."""
VALUES: dict[str, Any] = {
    **{"text_column": "note", "label_column": "kind", "second_column": "other", "weight_column": "count"},
    **{"delimiter": ";", "stream": True, "tokenizer": "char", "vocab": 270, "length": 9, "split_seed": 3},
    **{"steps": 3, "epochs": 1, "seed": 2, "evaluations": 2, "snapshots": True, "log_every": 2},
    **{"preset": "tiny", "model": "gru", "match_parameters": 9000, "layout": "llama", "d_model": 24, "layers": 2},
    **{"config_overrides": "activation=relu", "heads": 4, "learning_rate": 0.0123, "batch_tokens": 128},
    **{"batch_size": 3, "accumulate": 2, "grow_batch": 3, "optimizer": "adam", "weight_decay": 0.7},
    **{"schedule": "inverse_sqrt", "warmup": 0.5, "max_grad_norm": 0.001, "dropout": 0.45, "label_smoothing": 0.3},
    **{"r_drop": 2.0, "average": 0.05, "layer_decay": 0.3, "freeze": 0, "lora": 2, "adapt": True},
    **{"frozen": True, "contrastive": True, "source_language": "fr", "target_language": "de", "merge_labels": "all"},
    **{"balance": True, "token_dropout": 0.5, "mlm_probability": 0.6, "whole_words": True, "validation_windows": 1},
    **{"bpe_dropout": 0.5, "image_size": 6, "patch_size": 4, "augment": "none", "precision": "bfloat16"},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("text.txt", {**SHAPE, "length": 24}),
    "text of a gru": ("text.txt", {"model": "gru", "d_model": 16, "length": 24}),
    "one column": ("column.csv", {**SHAPE, "length": 24}),
    "stream": ("text.parquet", {**SHAPE, "length": 24, "stream": True}),
    "masked": ("text.txt", {**SHAPE, "task": "masked_lm", "length": 24}),
    "dialogue": ("talk.jsonl", {**SHAPE, "batch_tokens": 2048}),
    "turns": ("turns.csv", {**SHAPE, "task": "dialogue", "batch_tokens": 2048}),
    "rows": ("rows.csv", SHAPE),
    "rows of json": ("rows.jsonl", SHAPE),
    **{f"rows of a {kind}": ("rows.csv", {"model": kind, "d_model": 16}) for kind in ("lstm", "cnn", "bow")},
    "pairs": ("pairs.csv", {**SHAPE, **SIDES, "task": "embedding", "batch_tokens": 2048}),
    "scores": ("scored.csv", {**SHAPE, "task": "embedding", "batch_tokens": 2048}),
    "tags": ("tags.conll", SHAPE),
    "tags of json": ("tags.jsonl", SHAPE),
    "translation": ("pairs.csv", {**SHAPE, **SIDES, "task": "translation"}),
    "decoder": ("two.csv", {**SHAPE, "task": "translation", "model": "decoder", "batch_tokens": 2048}),
    "images": ("images.npz", SHAPE),
}
FROM = ("text", "masked", "dialogue", "rows", "pairs", "tags", "translation", "images")
"""The cases that are also trained from a run of the same case."""
OTHERS: dict[tuple[str, str], Any] = {
    **{(case, "vocab"): 14 for case in CASES if case.startswith("rows")},
    **{(case, "vocab"): 40 for case in ("pairs", "scores", "tags", "tags of json")},
    **{(case, "layout"): "bert" for case in CASES if case.startswith(("masked", "rows", "pairs", "scores", "tags"))},
    **{(case, name): "third" for case in ("translation", "pairs") for name in ("text_column", "second_column")},
    ("turns", "second_column"): "reply",
    ("translation", "config_overrides"): "activation=gelu",
    ("text of a gru", "layers"): 3,
    **{(case, "optimizer"): "muon" for case in CASES if " of a" in case},
}
"""Values for one case."""


def trace(run: Path) -> tuple[Any, ...]:
    """What came of a run: its weights, its tokenizer, its files and its log."""
    files = sorted(path.name for path in run.rglob("*") if "checkpoints" not in path.parts)
    seen = ("step", "loss", "learning_rate", "norm", "val_loss", "tokens", "event")
    log = [{name: line.get(name) for name in seen} for line in read_log(run)]
    kept = [path.read_bytes() for path in sorted(run.glob("*")) if path.name in ("model.safetensors", "tokenizer.json")]
    return kept, files, log


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Any, ...]]:
    """Train a case, once without more options; from a run of it where ``base``."""
    place, found = tmp_path_factory.mktemp("runs"), dict[Path, tuple[Any, ...]]()

    def train(case: str, base: bool, out: Path | None = None, **options: Any) -> tuple[Any, ...]:
        file, own = CASES[case]
        out = out or place / f"{case} {base}"
        if out in found:
            return found[out]
        values = {**COMMON, **own}
        if base:
            train(case, False)
            values = {name: value for name, value in values.items() if name not in (*SHAPE, "model", "length")}
            values |= {"from_model": str(place / f"{case} False"), "keep": "last"}  # the base may be the best
        for name in options:
            values = {other: value for other, value in values.items() if other not in INSTEAD.get(name, ())}
        headway.train(files / file, out=out, quiet=True, **{**values, **options})
        found[out] = trace(out)
        return found[out]

    return train


LOOP = tuple(name for name, entry in OPTIONS.items() if entry.metadata["loop"])
INSTEAD = {
    **{"preset": ("layers", "d_model"), "match_parameters": ("d_model",), "batch_size": ("batch_tokens",)},
    **{"frozen": LOOP, "contrastive": LOOP},
}
"""Options of the cases that another one takes the place of."""
PAIRS = [
    (case, False, name)
    for case, (_, own) in CASES.items()
    for name in OPTIONS
    if name not in ELSEWHERE and own.get(name) != OTHERS.get((case, name), VALUES[name])
    if (case, name) != ("one column", "delimiter")  # nothing is delimited
]
PAIRS += [
    (case, True, name)
    for case in FROM
    for name, entry in OPTIONS.items()
    if name not in ELSEWHERE and (entry.metadata["base"] or entry.metadata["loop"] or name in ("length", "precision"))
]


def test_every_option_is_tried_or_has_a_reason():
    assert set(VALUES) | set(ELSEWHERE) == set(OPTIONS) and not set(VALUES) & set(ELSEWHERE)


@pytest.mark.thorough
@pytest.mark.parametrize(("case", "base", "name"), PAIRS, ids=str)
def test_an_option_has_an_effect_or_is_refused(
    case: str, base: bool, name: str, trained: Callable, tmp_path: Path, recwarn: pytest.WarningsRecorder
):
    given = OTHERS.get((case, name), VALUES[name])
    try:
        found = trained(case, base, tmp_path / "run", **{name: given})
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert found != trained(case, base), f"--{flag(name)} {given} changed nothing"


ROWS, ALONE = "is for rows: of running text the end is held out", "is for .csv and .tsv files"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("text.txt", {"split_seed": 3}, f"--split-seed {ROWS}"),
    ("text.parquet", {"split_seed": 3, "stream": True}, f"--split-seed {ROWS}"),
    *((name, {"delimiter": ";"}, f"--delimiter {ALONE}") for name in ("text.txt", "rows.jsonl", "tags.conll")),
    *((name, {"second_column": "x"}, "has no column 'x'") for name in ("text.txt", "tags.conll")),
    ("column.csv", {"second_column": "text"}, "--second-column is for pairs of texts"),
    ("text.parquet", {"encoding": "latin-1", "stream": True}, r"\.parquet files say their encoding"),
    ("rows.csv", {"model": "bow", "optimizer": "muon"}, "--optimizer muon trains the matrices of layers"),
    *(("rows.csv", {"model": one, "weight_decay": 0.1}, "--weight-decay is for") for one in ("bow", "cnn")),
    *(("rows.csv", {"model": one, "layout": "bert"}, "--layout is for") for one in ("bow", "cnn", "lstm", "gru")),
    ("text.txt", {"model": "gru", "layout": "llama"}, "--layout is for Transformers"),
    *(
        ("rows.csv", {"config_overrides": one}, "a classifier has no logits of tokens")
        for one in ("logit_softcap=5", "tied=false", "bias=qkv+head")
    ),
    ("text.txt", {"config_overrides": "norm_parameters=both"}, "rmsnorm has no bias"),
    ("text.txt", {"task": "masked_lm", "length": 2}, "--length is 2; windows with masked tokens need 4"),
    *(
        ("rows.csv", one, "is for image_classification, but this is classification")
        for one in ({"image_size": 8}, {"patch_size": 2}, {"augment": "flip"})
    ),
    ("text.txt", {"batch_size": 3}, "for running text use --batch-tokens"),
    ("two.csv", {"task": "translation", "tokenizer": "char", "bpe_dropout": 0.1}, "'char'; leave out --bpe-dropout"),
    ("talk.jsonl", {"validation_windows": 2}, "--validation-windows is for running text"),
    ("turns.csv", {"task": "dialogue", "label_column": "reply"}, "have no columns to name"),
]


@pytest.mark.parametrize(("name", "options", "said"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_would_have_no_effect_is_refused_before_anything_is_written(
    name: str, options: dict[str, Any], said: str, files: Path, tmp_path: Path
):
    with pytest.raises(InputError, match=said):
        headway.train(files / name, out=tmp_path / "run", steps=2, quiet=True, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("case", ["pairs", "dialogue"])
def test_a_length_that_the_base_does_not_read_is_refused(case: str, files: Path, tmp_path: Path):
    file, own = CASES[case]
    headway.train(files / file, out=tmp_path / "base", quiet=True, **{**COMMON, **own, "steps": 1})
    own = {name: value for name, value in own.items() if name not in SHAPE}
    own |= {"from_model": str(tmp_path / "base"), "length": 5000, "steps": 1}
    with pytest.raises(InputError, match=r"--length is 5,000, but .* reads .* tokens at most"):
        headway.train(files / file, out=tmp_path / "run", **own)


def test_bfloat16_is_refused_where_a_classifier_is_fitted(files: Path, tmp_path: Path):
    headway.train(files / "text.txt", task="masked_lm", out=tmp_path / "base", quiet=True, **{**COMMON, **SHAPE})
    given = TrainOptions(from_model=str(tmp_path / "base"), threads=1)
    for way in ("frozen", "contrastive"):
        with pytest.raises(InputError, match=r"--precision is for training in steps: .* fitted in float32"):
            decided([files / "rows.csv"], given.but(**{way: True}, precision="bfloat16"))
    for precision, frozen in ((None, True), ("bfloat16", False)):  # few rows are fitted in float32 alone
        assert decided([files / "rows.csv"], given.but(precision=precision)).plan.fine_tuning.frozen == frozen


def test_a_number_of_rows_is_that_of_the_largest_batches(files: Path):
    """Whatever the tokens of a batch are otherwise; for tagged sentences as lines as for those as JSON."""
    tasks = {"scored.csv": "embedding", "two.csv": "translation"}
    for file in ("talk.jsonl", *tasks, "tags.conll", "tags.jsonl", "images.npz"):
        given = {"task": tasks.get(file), "steps": 1, "threads": 1, "precision": "float32", "batch_size": 37}
        source = decided([files / file], TrainOptions(**SHAPE, **given)).batch_source
        assert max(len(source.examples(at)) for at in positions(source)) == 37, file


def positions(source: Any) -> list[Position]:
    """The beginning of each batch of the first epoch."""
    found = [Position()]
    while (after := source.after(found[-1])).epoch == 0:
        found.append(after)
    return found


@pytest.mark.parametrize("kind", ["bpe", "word", "char"])
def test_the_vocabulary_of_conversations_has_at_most_the_tokens_that_are_given(kind: str, files: Path, tmp_path: Path):
    options: dict[str, Any] = {**COMMON, **SHAPE, "steps": 1, "tokenizer": kind, "vocab": 260 if kind == "bpe" else 12}
    headway.train(files / "talk.jsonl", out=tmp_path, quiet=True, **options)
    assert headway.load(tmp_path).tokenizer.vocab_size == options["vocab"]
    if kind == "bpe":
        with pytest.raises(InputError, match="found 258, expected at least 259"):
            headway.train(files / "talk.jsonl", out=tmp_path / "small", quiet=True, **{**options, "vocab": 258})


@pytest.mark.parametrize("words", [("--steps", 5), ("--time", "1h"), ("--epochs", 2)], ids=str)
def test_a_plan_has_one_number_of_tokens(words: tuple[Any, ...], files: Path, in_process: Callable):
    for what in (("--parameters", "1M"), (files / "text.txt",)):
        status, _, err = in_process("train", "--plan", *what, "--tokens", "1M", *words)
        assert status == 2 and f"--tokens and {words[0]} both say how long" in err
