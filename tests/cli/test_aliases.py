"""Names that other tools have for options are accepted; what has no equal is answered with what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import headway
from headway.cli.common import NAMES, in_our_words
from headway.cli.main import VERBS
from headway.cli.main import headway as command
from headway.errors import InputError
from headway.training.option_fields import HINTS


def test_lr_is_the_learning_rate(rows: Path, tmp_path: Path, tiny_words: list[str], in_process: Callable):
    words = ["train", rows, *tiny_words, "--lr", "0.0123", "--batch=7", "--output_dir", tmp_path / "run"]
    in_process.passed(*words)
    options = json.loads((tmp_path / "run" / "headway.json").read_text())["options"]
    assert options["learning_rate"] == 0.0123 and options["batch_size"] == 7
    headway.train(rows, out=tmp_path / "python", lr=0.0123, max_steps=1, preset="tiny", quiet=True)
    options = json.loads((tmp_path / "python" / "headway.json").read_text())["options"]
    assert options["learning_rate"] == 0.0123 and options["steps"] == 1
    with pytest.raises(InputError, match="did you mean learning_rate"):
        headway.train(rows, learning_rat=1.0)


def test_every_name_stands_for_an_option_of_some_verb():
    context = click.Context(command)
    known = {verb: command.get_command(context, verb) for verb in VERBS}
    ours = {verb: {name for option in one.params for name in option.opts} for verb, one in known.items()}
    for option, names in NAMES.items():
        verbs = [verb for verb in VERBS if f"--{option}" in ours[verb]]
        assert verbs, option
        for name in names:
            assert not any(f"--{name}" in ours[verb] for verb in verbs), f"--{name} is an option itself"
    for verb, one in known.items():
        for name in sorted({name for names in NAMES.values() for name in names}):
            found = [*in_our_words(one, [f"--{name}", "3"]), *in_our_words(one, [f"--{name}=3"])]
            given = found[0] in ours[verb]
            assert found == [found[0], "3", f"{found[0]}=3"] and (given or found[0] == f"--{name}")


def test_what_follows_two_dashes_and_values_stay(in_process: Callable):
    train = command.get_command(click.Context(command), "train")
    words = ["a.csv", "--lr", "1", "--", "--lr", "--max_steps"]
    assert in_our_words(train, words) == ["a.csv", "--learning-rate", "1", "--", "--lr", "--max_steps"]


@pytest.mark.parametrize("name", HINTS)
def test_what_has_no_equal_is_answered(name: str, rows: Path, in_process: Callable):
    in_process.refused("train", rows, f"--{name}", "3", said=HINTS[name])
    for word in HINTS[name].split():
        if word.startswith("--"):
            assert word.strip(",.") in {name for one in train_options() for name in one}


def train_options() -> list[list[str]]:
    return [option.opts for option in command.get_command(click.Context(command), "train").params]


def test_a_slip_is_answered_with_what_was_meant(rows: Path, in_process: Callable):
    in_process.refused("train", rows, "--learning-rat", "3", said="--learning-rate")
