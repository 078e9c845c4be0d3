"""Every bad value is one InputError that names the option, the value and what is allowed."""

import math
from pathlib import Path

import pytest

from headway.errors import InputError
from headway.models.config import TransformerConfig
from headway.training.options import TrainOptions, time_limit
from headway.training.sizing.presets import fine_tune_classifier_plan
from headway.training.store.run_directory import RunDirectory
from headway.workflows.train.check import changes, recorded


def test_a_time_may_be_a_number_of_seconds():
    found = TrainOptions(time=15, save_every=2.5)
    assert (found.run.time, found.run.save_every) == ("15s", "2.5s")
    assert time_limit(found) == 15 and found == TrainOptions(time="15s", save_every="2.5s")
    assert time_limit(TrainOptions(more_time=0.5)) == 0.5 and TrainOptions(time=90.0).run.time == "90s"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("preset", "huge", "tiny, small, medium, large"),
        ("tokenizer", "letters", "char, word, wordpiece, bpe"),
        ("optimizer", "sgd", "adam, adamw, muon"),
        ("schedule", "step", "cosine, linear"),
        ("precision", "float16", "float32, bfloat16"),
        ("on_bad_row", "ignore", "error, skip"),
        ("time", "soon", "90s, 5m or 1h"),
        *(("time", value, "90s, 5m or 1h") for value in (True, 0, -1.5, math.nan, math.inf, [5])),
        *((name, 0, "1 or more") for name in ("steps", "vocab", "length", "d_model", "layers", "heads", "threads")),
        *((name, 0, "1 or more") for name in ("batch_tokens", "accumulate", "grow_batch", "evaluations")),
        *((name, 0, "1 or more") for name in ("lora", "extend_vocab")),
        *((name, -1, "0 or more") for name in ("max_grad_norm", "patience", "seed", "weight_decay")),
        *((name, math.nan, "0 or more") for name in ("max_grad_norm", "weight_decay")),
        *((name, 1.0, "0 to below 1") for name in ("dropout", "token_dropout", "label_smoothing", "average", "warmup")),
        ("dropout", math.nan, "0 to below 1"),
        ("learning_rate", 0.0, "above 0"),
        ("learning_rate", math.inf, "above 0"),
        ("learning_rate", "fast", "a number"),
        ("steps", "10", "a whole number"),
        ("steps", 2.5, "a whole number"),
        ("steps", True, "a whole number"),
        ("seed", None, "a whole number"),
        ("seed", 1 << 63, "at most 9,223,372,036,854,775,807"),
        ("balance", 1, "true or false"),
        ("max_grad_norm", math.inf, "0 or more"),
    ],
)
def test_bad_values(name: str, value: object, allowed: str):
    with pytest.raises(InputError) as raised:
        TrainOptions(**{name: value})
    message = str(raised.value)
    assert f"--{name.replace('_', '-')} is {value!r}" in message or f"--{name.replace('_', '-')} is {value}" in message
    assert allowed in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["lora", "extend_vocab", "freeze", "layer_decay"])
def test_what_is_for_fine_tuning_needs_a_base(name: str):
    with pytest.raises(InputError, match=f"--{name.replace('_', '-')} is for fine-tuning; name the model"):
        TrainOptions(**{name: 1})
    assert TrainOptions(**{name: 1, "from_model": "runs/a"}).value(name) == 1


def test_low_rank_updates_go_with_adam_and_a_model_that_is_trained():
    with pytest.raises(InputError, match="--lora goes with --optimizer adam or adamw"):
        TrainOptions(lora=3, from_model="runs/a", optimizer="muon")
    for name in ("frozen", "contrastive"):
        with pytest.raises(InputError, match=f"--{name} and --lora were both given"):
            TrainOptions(lora=3, from_model="runs/a", **{name: True})


def test_whole_numbers_serve_where_numbers_are_asked_for():
    assert TrainOptions(dropout=0, max_grad_norm=1, learning_rate=1).optimisation.dropout == 0


@pytest.mark.parametrize(
    ("rows", "options", "seconds", "expected"),
    [
        (19_999, {}, None, (2, 4.0, 0.995)),
        (3_055, {}, None, (4, 4.0, 0.995)),
        (20_000, {}, None, (2, 0.0, 0.995)),
        (100, {"r_drop": 0.0, "average": 0.0}, None, (8, 0.0, 0.0)),
        (29_000, {"r_drop": 4.0, "epochs": 7}, None, (7, 4.0, 0.995)),
        (100, {"steps": 5}, None, (None, 0.0, 0.995)),
        (19_999, {}, 1e9, (2, 4.0, 0.995)),
        (19_999, {}, 1e-3, (2, 0.0, 0.995)),
    ],
)
def test_a_fine_tuned_classifier_is_steadied_where_rows_are_few_and_time_is_there(
    rows: int, options: dict, seconds: float | None, expected: tuple
):
    config = TransformerConfig(vocab_size=97, d_model=24, n_layers=2, n_heads=3)
    plan = fine_tune_classifier_plan(TrainOptions(**options), config, [20] * rows, 64, seconds)
    assert (plan.epochs, plan.objective.r_drop, plan.average) == expected
    assert any(decision["what"] == "R-Drop" for decision in plan.decisions) == (
        "r_drop" not in options and plan.objective.r_drop > 0
    )
    assert any(decision["what"] == "passes" for decision in plan.decisions) == (not {"epochs", "steps"} & set(options))


def test_one_time_written_in_two_ways_is_no_change(tmp_path: Path):
    run = RunDirectory(tmp_path)
    earlier = {"options": recorded(TrainOptions(time="90s"))}
    assert changes(earlier, TrainOptions(time="1m30s"), run) == []
    assert changes(earlier, TrainOptions(time="90"), run) == []
    with pytest.raises(InputError, match="--time 90s"):
        changes(earlier, TrainOptions(time="91s"), run)
