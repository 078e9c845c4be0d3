"""The few-shot method of a classifier: what was done is recorded, and said wherever the run is described."""

from pathlib import Path

import pytest
from bases import make_base
from faults_harness import facts_of

import headway
from headway.hub.download import model_name
from headway.science.comparison import candidates
from headway.workflows.export import export


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base in a folder that is called as many are."""
    return make_base("bert", tmp_path_factory.mktemp("few") / "minibert" / "model")


@pytest.mark.parametrize(("way", "steps"), [("contrastive", 40), ("frozen", None)])
def test_what_was_done_is_recorded_and_on_the_card(way: str, steps: int | None, base: Path, rows: Path, tmp_path: Path):
    few = tmp_path / "few.csv"
    few.write_text("".join(rows.read_text().splitlines(keepends=True)[:41]))
    given = {way: True, "threads": 1, "quiet": True, "steps": None, "time": "60s"}
    headway.train(few, from_model=str(base), out=tmp_path / "run", **given)
    fitted = facts_of(tmp_path / "run")["fitted"]
    if steps is None:
        assert fitted["tuning"] is None
    else:
        assert fitted["tuning"]["steps"] == steps and fitted["tuning"]["learning_rate"] == 1e-4
        assert {"loss", "batch", "temperature", "warmup"} <= set(fitted["tuning"])
    classifier = fitted["classifier"]
    assert classifier["C"] == 3.0 and 20 < classifier["rows"] < 40 and "sentences_of_labels" in classifier
    export(tmp_path / "run", tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    how = f"{steps} steps of contrastive tuning on pairs of rows (SetFit) and " if steps else ""
    assert f"trained from minibert/model by {how}a logistic regression on its vectors with Headway" in card


def test_a_model_in_a_folder_called_model_is_named_by_what_holds_it(base: Path, tmp_path: Path):
    other = tmp_path / "other" / "model"
    other.mkdir(parents=True)
    assert [one.name for one in candidates([str(base), str(other)])] == ["minibert/model", "other/model"]
    assert model_name("owner/model") == "owner/model"
    assert model_name(str(tmp_path / "reviews")) == "reviews"
