"""--precision of the verbs that answer, and what ``headway bench RUN`` says of it."""

import shutil

import pytest
import torch

from headway.runtime.precision import available

pytestmark = pytest.mark.skipif("int8" not in available(torch.device("cpu")), reason="this processor has float32 only")


@pytest.fixture(scope="module")
def run(lm_run, tmp_path_factory):
    """A run to which the precision of its answers may be written."""
    return shutil.copytree(lm_run, tmp_path_factory.mktemp("precision") / "run")


def test_bench_measures_each_precision_and_stores_the_one_named(run, in_process):
    found = in_process.json("bench", run, "--time", "12s", "--store", "int8")
    assert {row["kind"] for row in found["rows"]} == {"read", "write"} and found["best"] in available(
        torch.device("cpu")
    )
    assert [row["precision"] for row in found["precisions"]] == list(available(torch.device("cpu")))
    assert in_process.json("generate", run, "the quick", "--max-tokens", "3", "--precision", "auto")["results"]
    out, _ = in_process.passed("bench", run, "--time", "6s", "--store")
    assert "float32" in out and "best" in out and "from now on" in out


def test_naming_one_says_what_it_costs(run, in_process):
    _, _, err = in_process("generate", run, "the quick", "--precision", "int8")
    assert "val_loss" in err or "was not measured" in err
    _, _, err = in_process("generate", run, "the quick", "--precision", "int8", "--quiet")
    assert "int8" not in err


def test_an_unknown_precision_is_one_message(run, in_process):
    for words in (("generate", run, "the quick"), ("predict", run, "the quick"), ("evaluate", run)):
        in_process.refused(*words, "--precision", "int3", said="--precision is 'int3'; it can be float32")
    in_process.refused("bench", run, "--time", "3s", "--store", "int3", said="--store int3: it can be best, float32")
    in_process.refused("bench", "--lengths", "8", "--store", "int8", said="--store is for the precisions of a RUN")
