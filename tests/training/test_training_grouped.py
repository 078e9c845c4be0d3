"""Options and plans in groups: flat on command lines and in files, small dataclasses in the code."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from faults_harness import facts_of

import headway
from headway.errors import InputError
from headway.training.option_fields import entries, groups
from headway.training.options import TrainOptions
from headway.training.plan import Plan

KINDS: list[Any] = [TrainOptions, Plan]
MOST = 25


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_small_and_every_name_is_in_one_place(kind: Any):
    names = [one.name for group in groups(kind).values() for one in fields(group)]
    names += [one.name for one in fields(kind) if one.name not in groups(kind)]
    assert len(names) == len(set(names)) == len(entries(kind)) and not set(names) & set(groups(kind))
    assert all(len(fields(group)) <= MOST for group in (kind, *groups(kind).values()))


def test_options_are_made_from_flat_names_and_shown_as_them():
    options = TrainOptions(steps=7, d_model=64, delimiter=";")
    assert (options.run.steps, options.architecture.d_model, options.data.delimiter) == (7, 64, ";")
    assert TrainOptions(**json.loads(json.dumps(options.flat()))) == options
    changed = options.but(steps=11)
    assert changed.run.steps == changed.value("steps") == 11 and options.run.steps == 7 and changed != options
    assert set(options.given(options.flat())) == {"steps", "d_model", "delimiter"}
    with pytest.raises(TypeError, match="has no stepz"):
        TrainOptions(stepz=7)
    with pytest.raises(InputError, match="--time and --steps were both given"):
        options.but(time="5m")


def test_a_plan_without_what_it_needs_is_none():
    with pytest.raises(TypeError, match="missing"):
        Plan(model={})


def test_old_names_work_with_one_line_that_gives_the_new_one(
    corpus: Path, tmp_path: Path, in_process: Any, tiny_words: list[str]
):
    words = ["train", corpus, "--task", "masked_lm", "--out", tmp_path / "run", *tiny_words]
    status, _, err = in_process(*words, "--clip", "0.5", "--mask-share=0.2")
    assert status == 0, err
    assert err.count("--clip is now called --max-grad-norm") == 1
    assert err.count("--mask-share is now called --mlm-probability") == 1
    facts = facts_of(tmp_path / "run")
    assert facts["options"]["max_grad_norm"] == 0.5 and facts["plan"]["max_grad_norm"] == 0.5
    assert facts["options"]["mlm_probability"] == facts["plan"]["mlm_probability"] == 0.2
    with (
        pytest.warns(UserWarning, match="clip is now called max_grad_norm"),
        pytest.raises(InputError, match="no such"),
    ):
        headway.train(tmp_path / "nothing.txt", clip=0.5, quiet=True)
