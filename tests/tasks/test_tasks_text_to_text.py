"""``text_to_text``: the folder of translation under another name, with a metric that needs no words."""

import pytest
from faults_harness import facts_of

import headway
from headway.data.samples import dates
from headway.errors import InputError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on questions with their answers."""
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "pairs.tsv").write_text("asked\tmeant\n" + "".join(f"{one}\t{other}\n" for one, other in dates(300)))
    columns = {"text_column": "asked", "second_column": "meant"}
    tiny = {"tokenizer": "char", "d_model": 16, "layers": 1, "steps": 3, "evaluations": 1, "threads": 1, "quiet": True}
    headway.train(folder / "pairs.tsv", task="text_to_text", out=folder / "run", **columns, **tiny)
    return folder / "run"


def test_the_run_is_called_so_and_compared_by_chrf(run):
    facts = facts_of(run)
    assert facts["task"] == "text_to_text" and facts["verdict"]["metric"] == "chrf"
    page = (run / "report.html").read_text()
    assert "Writer of a text for a text" in page and "Translator" not in page


def test_the_verb_of_translation_answers_for_it(run, in_process):
    found = in_process.json("translate", run, "3 May 2021")
    assert found["task"] == "text_to_text" and len(found["results"]) == 1
    assert in_process.passed("predict", run, "3 May 2021")[0].strip() == found["results"][0].strip()


def test_it_is_loaded_as_what_it_is(run):
    assert headway.load(run).task == headway.load(run, task="text_to_text").task == "text_to_text"
    with pytest.raises(InputError, match="text_to_text"):
        headway.load(run, task="translation")


def test_a_label_is_refused_by_its_name(run, tmp_path):
    with pytest.raises(InputError, match="text_to_text has no label"):
        headway.train(run.parent / "pairs.tsv", task="text_to_text", label_column="asked", out=tmp_path / "no")
