"""--precision of the verbs that answer, and what ``headway bench RUN`` says of it."""

import json

import pytest
import torch

from headway.runtime.precision import available

pytestmark = pytest.mark.skipif("int8" not in available(torch.device("cpu")), reason="this processor has float32 only")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    import headway

    folder = tmp_path_factory.mktemp("precision")
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 400)
    headway.train(folder / "text.txt", steps=4, d_model=32, layers=1, heads=2, out=folder / "run", evaluations=1)
    return folder / "run"


def test_bench_measures_each_precision_and_stores_the_one_named(run, in_process):
    status, out, err = in_process("bench", run, "--time", "12s", "--store", "int8", "--json")
    assert status == 0, err
    found = json.loads(out.splitlines()[-1])
    assert {row["kind"] for row in found["rows"]} == {"read", "write"} and found["best"] in available(
        torch.device("cpu")
    )
    assert [row["precision"] for row in found["precisions"]] == list(available(torch.device("cpu")))
    status, out, _ = in_process("generate", run, "the quick", "--json", "--max-tokens", "3", "--precision", "auto")
    assert status == 0 and json.loads(out)["results"]
    status, out, err = in_process("bench", run, "--time", "6s", "--store")
    assert status == 0 and "float32" in out and "best" in out and "from now on" in out


def test_naming_one_says_what_it_costs(run, in_process):
    _, _, err = in_process("generate", run, "the quick", "--precision", "int8")
    assert "val_loss" in err or "was not measured" in err
    _, _, err = in_process("generate", run, "the quick", "--precision", "int8", "--quiet")
    assert "int8" not in err


@pytest.mark.parametrize("verb", ["generate", "predict", "evaluate"])
def test_an_unknown_precision_is_one_message(run, in_process, verb):
    words = [] if verb == "evaluate" else ["the quick"]
    status, out, err = in_process(verb, run, *words, "--precision", "int3")
    assert status == 2 and not out and "--precision is 'int3'; it can be float32" in err and "Traceback" not in err


def test_store_names_a_precision(run, in_process):
    status, _, err = in_process("bench", run, "--time", "3s", "--store", "int3")
    assert status == 2 and "--store int3: it can be best, float32" in err
    status, _, err = in_process("bench", "--lengths", "8", "--store", "int8")
    assert status == 2 and "--store is for the precisions of a RUN" in err
