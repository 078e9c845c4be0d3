"""Characters that a base cannot read or write are named before training, evaluation and answers; no <unk> is right."""

import json

import pytest
from foreign_models import make

import headway
from headway.tasks.inputs import lost_characters

QUICK = ("--steps", 2, "--threads", 1, "--json")
PAIRS = "source,target\n" + "".join(f"the cat sat {{{i % 7}}},{{ the dog {i} }}\n" for i in range(60))


@pytest.mark.parametrize("name", ["t5", "marian"])
def test_a_translator_that_cannot_write_braces(in_process, tmp_path, name):
    base, run, said = make(name, tmp_path / "base", steps=1), tmp_path / "run", "the model's tokenizer cannot represent"
    (tmp_path / "a.csv").write_text(PAIRS)
    (tmp_path / "texts.txt").write_text("the cat {1}\nthe dog\n")
    given = (tmp_path / "a.csv", "--from", base, "--task", "translation", "--out", run)
    given += ("--text-column", "source", "--second-column", "target")
    out, err = in_process.passed("train", *given, *QUICK)
    assert err.count(said) == 1 and "{ U+007B" in err and "of the first 104 texts" in err, err
    assert json.loads(out.splitlines()[-1])["accuracy"] < 1
    _, err = in_process.passed("evaluate", run, tmp_path / "a.csv")
    assert err.count(said) == 1 and "{ U+007B" in err, err
    _, err = in_process.passed("translate", run, tmp_path / "texts.txt")
    assert "in 1 of the first 2 texts: they are lost" in err and err.count(said) == 1, err
    with pytest.warns(UserWarning, match=said):
        headway.load(run)("the cat {1}")


def test_a_cased_vocabulary_and_classes_that_differ_by_an_emoji(in_process, tmp_path):
    base = make("bert", tmp_path / "base", steps=1)
    path = base / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_lower_case": False}))
    marks = (("\U0001f600", "good"), ("\U0001f620", "bad"))
    rows = [f"The cat sat {mark} {i},{label}\n" for i in range(30) for mark, label in marks]
    (tmp_path / "a.csv").write_text("".join(["text,label\n", *rows]))
    given = (tmp_path / "a.csv", "--from", base, "--out", tmp_path / "run", "--task", "classification")
    _, err = in_process.passed("train", *given, *QUICK)
    assert "U+1F600" in err and "U+1F620" in err and "T U+0054" in err, err
    _, err = in_process.passed("classify", tmp_path / "run", tmp_path / "a.csv", "--json")
    assert "U+1F600" in err and "in 60 of the first 60 texts" in err
    pipe = headway.load(tmp_path / "run")
    assert lost_characters(["cat sat", "e\u0301 cat"], pipe.tokenizer) == ""


def test_a_target_that_is_unknown_is_never_right():
    import torch

    from headway.data.batches.batching import IGNORED, Batch, TargetKind
    from headway.tasks.text_to_text.objective import Translation

    class Right(torch.nn.Module):
        def forward(self, ids, targets, mask=None):
            return 9.0 * torch.nn.functional.one_hot(wanted.clamp(min=0), 7).float()

    wanted = torch.tensor([[5, 2, 3], [2, 4, IGNORED]])
    batch = Batch({"ids": torch.ones(2, 3, dtype=torch.int64)}, None, wanted, TargetKind.SEQUENCE)
    assert Translation(0).evaluate(Right(), [batch])["accuracy"] == 1
    assert Translation(0, unknown=2).evaluate(Right(), [batch])["accuracy"] == pytest.approx(3 / 5)
