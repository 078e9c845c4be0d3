"""What is searched: around the preset, which is one of its points, and never what the user gave."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from faults_harness import made_pairs

from headway.science.search import Choice, Range, Search, search_space
from headway.training.options import TrainOptions
from headway.workflows.train.dry_run import decided
from headway.workflows.train.setup import TrainingSession

CASES = ["classifier", "language model", "masked", "embedder", "translator", "decoder"]
CASES += ["classifier from", "lm from", "lstm", "cnn"]


@pytest.fixture(scope="module")
def planned(corpus: Path, rows: Path, lm_run: Path, classifier_run: Path, tmp_path_factory: pytest.TempPathFactory):
    """(what the preset decides, the same with other options) of a case."""
    pairs = made_pairs(tmp_path_factory.mktemp("pairs"))
    table = pairs[0].with_name("pairs.csv")
    table.write_text("first,second\n" + "".join(f"the {n} cats,THE {n} CATS\n" for n in range(53)))
    small: dict[str, Any] = {"steps": 7, "threads": 1, "precision": "float32", "evaluations": 2}
    given: dict[str, tuple[list[Path], dict[str, Any]]] = {
        "classifier": ([rows], {"time": "60s"}),
        "language model": ([corpus], {}),
        "masked": ([corpus], {"task": "masked_lm"}),
        "embedder": ([table], {"task": "embedding"}),
        "translator": (pairs, {"time": "60s", "vocab": 300}),
        "decoder": (pairs, {"vocab": 300, "model": "decoder"}),
        "classifier from": ([rows], {"from_model": str(classifier_run), "epochs": 3, "time": "60s", "lora": 2}),
        "lm from": ([corpus], {"from_model": str(lm_run)}),
        "lstm": ([corpus], {"model": "lstm"}),
        "cnn": ([rows], {"model": "cnn"}),
    }
    made: dict[str, tuple[TrainOptions, list[Path], TrainingSession]] = {}

    def plan(case: str) -> tuple[TrainOptions, list[Path], TrainingSession]:
        if case not in made:
            files, more = given[case]
            options = TrainOptions(**{**small, **({"steps": None} if "time" in more else {}), **more})
            made[case] = options, files, decided(files, options)
        return made[case]

    return plan


def space_of(options: TrainOptions, prepared: TrainingSession) -> Any:
    return search_space(prepared.task, options, prepared.plan, tokenizer=prepared.data.tokenizer.kind)


@pytest.mark.parametrize("case", CASES)
def test_the_preset_is_one_of_its_points(case: str, planned: Any):
    options, files, first = planned(case)
    space = space_of(options, first)
    again = decided(files, options.but(**{name: one.preset for name, one in space.items()}), started=time.monotonic())
    # a number of passes that is given is gone through to its end
    plans = [prepared.plan.but(decisions=[], shares=1, patience_passes=0.0) for prepared in (first, again)]
    assert plans[0] == plans[1]
    assert "learning_rate" in space and "dropout" in space and "batch_tokens" in space
    assert ("d_model" in space) is (options.fine_tuning.from_model is None)
    assert ("layers" in space) is (options.fine_tuning.from_model is None and case != "cnn")
    for name, one in space.items():
        if isinstance(one, Choice):
            assert one.preset in one.values and len(set(one.values)) == len(one.values) >= 2, name
        else:
            assert one.low <= one.preset <= one.high and one.low < one.high, name
    search = Search(asked={}, pinned={}, space=space, preset={}, measure="val_loss", held_out="all")
    assert Search.read(json.loads(json.dumps(asdict(search)))) == search


class Corner:
    """Draws the least or the greatest of everything."""

    def __init__(self, greatest: bool):
        self.at = -1 if greatest else 0

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        assert not log or low > 0
        return (low, high)[self.at]

    suggest_int = suggest_float

    def suggest_categorical(self, name: str, choices: list) -> Any:
        return choices[self.at]


@pytest.mark.parametrize("greatest", [False, True])
@pytest.mark.parametrize("case", ["classifier", "language model", "translator", "classifier from", "lstm", "cnn"])
def test_the_corners_can_be_trained(case: str, greatest: bool, planned: Any):
    options, files, first = planned(case)
    chosen = {name: one.suggest(Corner(greatest), name) for name, one in space_of(options, first).items()}
    plan = decided(files, options.but(**chosen)).plan
    assert (plan.learning_rate, plan.batch_tokens) == (chosen["learning_rate"], chosen["batch_tokens"])
    assert plan.config.dropout == chosen["dropout"]
    if "d_model" in chosen:
        assert (plan.config.d_model, plan.config.n_layers) == (chosen["d_model"], chosen.get("layers", 1))


def test_what_is_given_is_not_searched(planned: Any):
    options, _, first = planned("classifier")
    assert set(space_of(options, first)) == {
        *("learning_rate", "d_model", "layers", "dropout", "batch_tokens", "epochs"),
        *("label_smoothing", "token_dropout", "r_drop", "tokenizer"),
    }
    given = options.but(learning_rate=0.002, dropout=0.0, preset="tiny", vocab=101)
    left = set(space_of(given, first))
    assert left == {"batch_tokens", "epochs", "label_smoothing", "token_dropout", "r_drop"}
    alone = space_of(options.but(d_model=48), first)
    assert "d_model" not in alone and "layers" in alone
    assert "epochs" not in space_of(options.but(epochs=5), first)


def test_ranges_follow_the_preset(planned: Any):
    options, _, first = planned("classifier")
    space = space_of(options, first)
    assert space["learning_rate"] == Range(1e-3, 1.25e-4, 8e-3, log=True)
    assert space["d_model"] == Choice(128, (64, 96, 128, 192, 256))
    assert space["layers"] == Range(2, 1, 4, whole=True)
    widths = space_of(options.but(heads=3), first)["d_model"].values
    assert widths == (96, 128, 192), "but for the preset's, those that six divides"
    text = space_of(*(planned("language model")[i] for i in (0, 2)))
    assert all(size >= planned("language model")[2].plan.length for size in text["batch_tokens"].values)
    assert "label_smoothing" not in text and "tokenizer" not in text, "they change what the loss means"
