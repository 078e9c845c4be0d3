"""The verdict says who won, in plain words, whoever it is."""

import pytest

from headway.reports.record import Record
from headway.reports.verdict import uncertainty, validation_examples, verdict


def judge(task: str, metrics: dict[str, object], *baselines: dict[str, object]) -> str:
    return verdict(Record({"task": task, "metrics": metrics, "baselines": list(baselines)}))


def test_win() -> None:
    said = judge(
        "classification", {"accuracy": 0.812}, {"name": "linear", "accuracy": 0.79}, {"name": "m", "accuracy": 0.5}
    )
    assert said == "The Transformer reaches accuracy 0.81, ahead of the linear baseline's 0.79."


def test_loss() -> None:
    said = judge("classification", {"accuracy": 0.81}, {"name": "linear baseline", "accuracy": 0.84})
    assert said == (
        "The linear baseline wins: accuracy 0.84 against the Transformer's 0.81. "
        "For this data use that baseline, or start from a pretrained model."
    )


def test_tie() -> None:
    said = judge("classification", {"accuracy": 0.81004}, {"name": "linear", "accuracy": 0.81})
    assert said.startswith("A tie: the Transformer and the linear baseline both reach accuracy 0.810.")


def test_a_baseline_whose_name_has_an_article() -> None:
    name = "the model before training"
    for ours, said in (
        (0.5, "A tie: the Transformer and the model before training both reach rank correlation 0.500."),
        (0.6, "reaches rank correlation 0.60, ahead of the model before training, which reaches 0.50."),
        (0.4, "The model before training wins: rank correlation 0.50 against the Transformer's 0.40."),
    ):
        found = judge("embedding", {"spearman": ours}, {"name": name, "spearman": 0.5})
        assert said in found and "the the" not in found.lower()
    rival = {"name": "the source, unchanged", "accuracy": 0.79, "macro_f1": 0.71}
    said = judge("classification", {"accuracy": 0.81, "macro_f1": 0.62}, rival)
    assert said.endswith("the source wins: 0.71 against 0.62.")


def test_few_written_texts_are_too_few_to_tell() -> None:
    rival = {"name": "the source, unchanged", "chrf": 15.0}
    few, many = (judge("translation", {"chrf": 30.0, "written": n}, rival) for n in (1, 200))
    assert many.endswith("ahead of the source, which reaches 15.00.")
    assert few.startswith(many) and "But 1 held-out row is too few to tell" in few


def test_sources_as_they_are_are_not_advised() -> None:
    said = judge("translation", {"chrf": 3.0}, {"name": "the source, unchanged", "chrf": 15.0})
    assert said.endswith("Train longer, on more pairs, or start from a pretrained model.")


def test_close_numbers_are_told_apart() -> None:
    said = judge("classification", {"accuracy": 0.811}, {"name": "linear", "accuracy": 0.813})
    assert "wins: accuracy 0.813 against the Transformer's 0.811." in said


@pytest.mark.parametrize(("ours", "start"), [(1.4, "The Transformer reaches"), (1.9, "The 5-gram baseline wins")])
def test_a_lower_loss_is_better(ours: float, start: str) -> None:
    baselines = [{"name": "unigram", "val_loss": 3.3}, {"name": "5-gram with smoothing", "val_loss": 1.6}]
    said = judge("language_modeling", {"val_loss": ours, "accuracy": None}, *baselines)
    assert said.startswith(start) and "1.60" in said and f"{ours:.2f}" in said


def test_a_loss_by_macro_f1_is_not_hidden() -> None:
    rival = {"name": "linear", "accuracy": 0.79, "macro_f1": 0.71}
    said = judge("classification", {"accuracy": 0.81, "macro_f1": 0.62}, rival)
    assert said.endswith("the linear baseline wins: 0.71 against 0.62.")


def test_without_baselines_and_without_anything() -> None:
    assert judge("classification", {"accuracy": 0.5}).endswith("no baseline was measured.")
    assert verdict(Record()) == "Nothing was measured yet."


def test_a_baseline_that_is_not_a_number_does_not_win() -> None:
    said = judge("language_modeling", {"val_loss": 2.0}, {"name": "u", "val_loss": float("nan")}, {"name": "v"})
    assert said.endswith("no baseline was measured.")


def test_metrics_come_from_the_best_evaluation_where_headway_json_has_none() -> None:
    log = [{"step": 10, "val_loss": 2.0}, {"step": 20, "val_loss": 1.5}, {"step": 30, "val_loss": 1.75}]
    assert "a validation loss of 1.500 nats per token" in verdict(Record({"task": "language_modeling"}, [], log))
    log[2]["best"] = True
    assert "a validation loss of 1.750" in verdict(Record({"task": "language_modeling"}, [], log))


def test_uncertainty_against_hand_computed_values() -> None:
    metrics = {"accuracy": 0.8, "confusion": [[50, 10], [10, 30]]}
    far = Record({"metrics": metrics, "baselines": [{"name": "m", "accuracy": 0.6}]})
    near = Record({"metrics": metrics, "baselines": [{"name": "m", "accuracy": 0.75}]})
    assert validation_examples(far) == 100
    assert uncertainty(far).endswith("about ±0.078.")  # 1.96 sqrt(0.8 * 0.2 / 100) = 0.0784
    assert uncertainty(near).endswith("may be chance.")
    assert uncertainty(Record({"metrics": {"accuracy": 0.8}})) == ""
    supports = {"a": {"support": 7}, "b": {"support": 11}, "c": None}
    assert validation_examples(Record({"metrics": {"per_class": supports}})) == 18
