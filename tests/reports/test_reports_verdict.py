"""The verdict says who won, in plain words, whoever it is, with its interval; and advises only where that is sure."""

from typing import Any

import numpy as np
import pytest

from headway.reports.record import Record
from headway.reports.verdict import cross_validation_in_words, kept_in_words, verdict, verdict_of
from headway.tasks.registry import spec
from headway.training.evaluation.comparison import BEFORE, judged


def rows(right: list[bool]) -> np.ndarray:
    """Predicted and true classes, by which are right."""
    return np.array([[1.0, 1.0] if ok else [0.0, 1.0] for ok in right])


def losses(*values: float) -> np.ndarray:
    return np.array([[7 * value, 7.0] for value in values])


def said(task: str, metrics: dict[str, Any], *baselines: dict[str, Any], info: Any = None, **units: Any) -> str:
    found = judged(spec(task).headline, metrics, baselines, **units)
    given = {"task": task, "metrics": metrics, "baselines": list(baselines), "verdict": found}
    return verdict(Record({**given, **(info or {})}))


def classified(ours: list[bool], theirs: list[bool], **info: Any) -> str:
    accuracies = [float(np.mean(part)) for part in (ours, theirs)]
    rival = {"name": "linear model on words", "accuracy": accuracies[1]}
    units = {"units": rows(ours), "of_baselines": {rival["name"]: rows(theirs)}, "unit": "rows"}
    return said("classification", {"accuracy": accuracies[0]}, rival, info=info, **units)


WON, LOST = [True] * 90 + [False] * 10, [True] * 60 + [False] * 40


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (
            WON,
            LOST,
            ["The Transformer beats the linear model baseline: accuracy 0.90 against 0.60, a difference of 0.30"],
        ),
        (WON, LOST, ["(95 % interval 0.2", ", on 100 held-out rows)."]),
        # the interval is that of the winner over the loser
        (
            LOST,
            WON,
            ["The linear model baseline beats the Transformer: accuracy 0.90 against 0.60", "(95 % interval 0.2"],
        ),
        (LOST, WON, ["a bag of words, which is like it (--model bow), or start from a pretrained model (--from)."]),
        (LOST, LOST, ["Undecided: "]),
        ([True] * 100, [True] * 100, ["are both perfect, on 100 held-out rows (accuracy 1.0000): nothing here tells"]),
        ([False], [True], ["1 held-out row is too few"]),
    ],
)
def test_who_is_better_is_said_with_its_interval(ours: list[bool], theirs: list[bool], words: list[str]):
    assert all(word in classified(ours, theirs) for word in words)


def test_advice_after_a_loss_from_a_base():
    assert classified([False] * 40, [True] * 40, base={"path": "x"}).endswith("(--model bow, without --from).")


def test_a_bag_of_words_is_called_so_and_not_told_to_become_one():
    plan = {"model": {"kind": "bow"}}
    found = classified(LOST, WON, plan=plan)
    assert "beats the bag of words: " in found and "Transformer" not in found and "--model bow" not in found
    assert found.endswith("That baseline is not kept; start from a pretrained model (--from).")


def test_one_answer_for_everything_is_nothing_learnt():
    truth = np.array([0.0] * 60 + [1.0] * 40)
    units, rival = np.stack([0 * truth, truth], 1), {"name": "majority class", "accuracy": 0.6}
    found = said("classification", {"accuracy": 0.6}, rival, units=units, of_baselines={"majority class": units})
    assert found == (
        "The Transformer gives one answer for every row, as the majority class does: it has learnt nothing (accuracy "
        "0.600, the majority class baseline 0.600)."
    )
    scores = np.linspace(0, 1, 40)
    pairs = np.stack([0 * scores + 0.3, scores], 1)
    found = said("embedding", {"spearman": 0.0}, units=pairs)
    assert found.startswith("The Transformer gives one answer for every pair: it has learnt nothing")
    apart = {"interval": [28.0, 32.0], "difference_interval": [13.0, 17.0], "answers": 1}
    metrics, rival = {"chrf": 30.0, "written": 200, "intervals": apart}, {"name": "the source", "chrf": 15.0}
    found = said("translation", metrics, rival)
    assert "it has learnt nothing (chrF 30.000, the source 15.000)" in found
    ranks = np.ones((40, 2))
    assert "learnt nothing" not in said("embedding", {"accuracy": 1.0}, units=ranks), "every rank is 1"


@pytest.mark.parametrize("turned", [False, True])
def test_no_advice_where_the_interval_spans_zero(turned: bool):
    one, other = [True] * 81 + [False] * 19, [False] * 2 + [True] * 80 + [False] * 18
    found = classified(*((other, one) if turned else (one, other)))
    assert found.startswith("Undecided: the Transformer reaches accuracy 0.8")
    assert "may be chance." in found and "(95 % interval -0.0" in found
    assert "use that baseline" not in found and "beats" not in found


def test_of_two_rows_nothing_is_said():
    for ours in ([True, True], [True, False]):
        found = classified(ours, [True, False])
        assert found.startswith("Not judged: 2 held-out rows are too few to compare the Transformer (accuracy")
        assert "headway evaluate" in found and "use that baseline" not in found and "beats" not in found


@pytest.mark.parametrize(("ours", "start"), [(1.4, "The Transformer beats the 5-gram"), (1.9, "The 5-gram baseline b")])
def test_a_lower_loss_is_better(ours: float, start: str):
    baselines = [{"name": "unigram", "val_loss": 3.3}, {"name": "5-gram with smoothing", "val_loss": 1.6}]
    spread = np.linspace(-0.2, 0.2, 9)
    units = {"units": losses(*(ours + spread)), "unit": "windows"}
    units["of_baselines"] = {"5-gram with smoothing": losses(*(1.6 + 0.9 * spread))}
    found = said("language_modeling", {"val_loss": ours, "accuracy": None}, *baselines, **units)
    assert found.startswith(start) and "nats per token" in found and "on 9 held-out windows" in found
    few = {"units": losses(ours), "of_baselines": {}, "unit": "conversations"}
    assert "Not judged: 1 held-out conversation is" in said("language_modeling", {"val_loss": ours}, *baselines, **few)


def test_pairing_decides_what_the_spread_of_the_windows_would_hide():
    """Windows differ by far more than the two models do, which every window tells apart."""
    hard = np.linspace(1.0, 5.0, 20)
    metrics, rival = {"val_loss": 2.95}, {"name": "bigram", "val_loss": 3.0}
    units = {"units": losses(*(hard - 0.05 + 0.01 * np.cos(hard))), "of_baselines": {"bigram": losses(*hard)}}
    found = judged(spec("language_modeling").headline, metrics, [rival], **units)
    assert found["result"] == "better" and found["interval"][1] - found["interval"][0] > 1.0


def test_a_baseline_is_compared_on_the_windows_that_the_model_read():
    """Its own figure is of all windows; the difference and its interval are of those that both read."""
    hard = np.linspace(1.0, 5.0, 20)
    ours = hard - 0.1 + 0.01 * np.cos(hard)
    metrics, rival = {"val_loss": float(ours.mean())}, {"name": "bigram", "val_loss": 2.901}
    units = {"units": losses(*ours), "of_baselines": {"bigram": losses(*hard)}}
    found = judged(spec("language_modeling").headline, metrics, [rival], **units)
    low, high = found["difference_interval"]
    assert found["against_value"] == pytest.approx(3.0) and low <= found["difference"] <= high


def test_the_model_before_training_is_a_baseline():
    units = {"units": losses(*np.linspace(0.4, 0.6, 9)), "of_baselines": {BEFORE: losses(*np.linspace(1, 2, 9))}}
    found = said("language_modeling", {"val_loss": 0.5}, {"name": BEFORE, "val_loss": 1.5}, **units)
    assert found.startswith("The Transformer beats the model before training: a validation loss of 0.50")
    assert "the the" not in found.lower()
    units = {"units": losses(*np.linspace(1, 2, 9)), "of_baselines": {BEFORE: losses(*np.linspace(0.4, 0.6, 9))}}
    found = said("language_modeling", {"val_loss": 1.5}, {"name": BEFORE, "val_loss": 0.5}, **units)
    assert found.startswith("The model before training beats the Transformer")
    assert found.endswith("Use that model as it is, or train it on more data or at a lower --learning-rate.")


def test_rank_correlations_are_paired():
    draw = np.random.default_rng(3)
    scores = draw.normal(size=97)
    good, bad = (np.stack([scores + noise * draw.normal(size=97), scores], axis=1) for noise in (0.1, 3.0))
    metrics, rival = {"spearman": 0.97}, {"name": "words", "spearman": 0.3}
    found = judged(spec("embedding").headline, metrics, [rival], units=good, of_baselines={"words": bad})
    assert found["result"] == "better" and found["difference_interval"][0] > 0.3 and found["interval"][0] > 0.9
    few = judged(spec("embedding").headline, metrics, [rival], units=good[:20], of_baselines={"words": bad[:20]})
    assert few["result"] == "too few"


def test_translations_by_what_was_written():
    rival = {"name": "the source, unchanged", "chrf": 15.0}
    apart = {"interval": [28.0, 32.0], "difference_interval": [13.0, 17.0]}
    metrics = {"chrf": 30.0, "bleu": 9.0, "written": 200, "intervals": apart}
    found = said("translation", metrics, rival, unit="pairs")
    assert found == (
        "The Transformer beats the source: chrF 30.00 against 15.00, a difference of 15.00 (95 % interval 13.00 to "
        "17.00, on 200 held-out pairs)."
    )
    lost = {**metrics, "chrf": 3.0, "intervals": {"interval": [2, 4], "difference_interval": [-14, -10]}}
    assert said("translation", lost, rival).endswith("known answers with --task embedding.")
    assert "Not judged: 1 held-out pair is" in said("translation", {**metrics, "written": 1}, rival, unit="pairs")
    unknown = {"chrf": 30.0, "written": 200}
    assert "no interval was measured, so which is better is not judged" in said("translation", unknown, rival)


def test_macro_f1_that_is_surely_lower_is_not_hidden():
    truth = np.array([0.0] * 180 + [1.0] * 20)
    ours, theirs = truth.copy(), truth.copy()
    ours[180:199] = 0.0
    theirs[:20] = 1.0
    units = np.stack([ours, truth], axis=1)
    rival = {"name": "linear", "accuracy": 0.9, "macro_f1": 0.80}
    metrics = {"accuracy": 0.9, "macro_f1": 0.47}
    found = said("classification", metrics, rival, units=units, of_baselines={"linear": np.stack([theirs, truth], 1)})
    assert "By macro F1, which weights rare and common classes equally, the linear baseline is better: 0.800" in found


def test_macro_f1_is_not_decided_by_four_rows():
    truth = np.array([0.0] * 196 + [1.0] * 4)
    units, theirs = np.stack([0 * truth, truth], 1), np.stack([truth, truth], 1)
    units[0, 0] = 1.0
    rival, metrics = {"name": "linear", "accuracy": 0.99, "macro_f1": 1.0}, {"accuracy": 0.98, "macro_f1": 0.495}
    found = said("classification", metrics, rival, units=units, of_baselines={"linear": theirs})
    assert "(0.495 against 1.000 for the linear baseline) nothing is judged: a class has 4 held-out rows" in found


def test_an_older_run_is_judged_by_its_numbers_alone():
    """As independent shares, by Newcombe's interval: 160 of 211 and 150 of 211 are not told apart."""
    metrics = {"accuracy": 160 / 211, "confusion": [[70, 30], [21, 90]]}
    record = Record({"task": "classification", "metrics": metrics, "baselines": [{"name": "m", "accuracy": 150 / 211}]})
    found = verdict_of(record)
    assert found["result"] == "undecided" and found["units"] == 211 and not found["paired"]
    assert found["interval"] == pytest.approx([0.6964, 0.8111], abs=1e-3)
    far = {"task": "classification", "metrics": metrics, "baselines": [{"name": "m", "accuracy": 0.5}]}
    assert verdict(Record(far)).startswith("The Transformer beats the m baseline")
    text = {"task": "language_modeling", "metrics": {"val_loss": 1.4}, "baselines": [{"name": "u", "val_loss": 3.3}]}
    assert verdict(Record(text)).endswith("no interval was measured, so which is better is not judged.")


def test_without_baselines_and_without_anything():
    assert said("classification", {"accuracy": 0.5}).endswith("no baseline was measured.")
    assert verdict(Record()) == "Nothing was measured yet."


@pytest.mark.parametrize(
    "broken",
    [
        {"metric": 3, "value": "x"},
        {"metric": "accuracy", "value": float("nan")},
        {"metric": "accuracy", "value": 0.5, "against": ["x"], "against_value": 0.4, "interval": "abc", "units": "z"},
        {"metric": "accuracy", "value": 0.5, "against": "m", "against_value": 0.4, "result": "worse", "unit": 7},
        ["worse"],
    ],
)
def test_a_verdict_that_is_not_as_it_is_written_is_no_error(broken: Any):
    info = {"task": "classification", "metrics": {"accuracy": 0.5}, "verdict": broken, "kept": [1], "baselines": [3]}
    assert verdict(Record(info))
    assert kept_in_words(broken) == [] and cross_validation_in_words(broken) == []


def test_a_baseline_that_is_not_a_number_does_not_win():
    found = said("language_modeling", {"val_loss": 2.0}, {"name": "u", "val_loss": float("nan")}, {"name": "v"})
    assert found.endswith("no baseline was measured.")


def test_metrics_come_from_the_best_evaluation_where_headway_json_has_none():
    log = [{"step": 10, "val_loss": 2.0}, {"step": 20, "val_loss": 1.5}, {"step": 30, "val_loss": 1.75}]
    assert "a validation loss of 1.500 nats per token" in verdict(Record({"task": "language_modeling"}, [], log))
    log[2]["best"] = True
    assert "a validation loss of 1.750" in verdict(Record({"task": "language_modeling"}, [], log))


def kept(step: int, loss: float, last: tuple[int, float], **more: Any) -> str:
    found = {"by": "best", "step": step, "val_loss": loss, "last": {"step": last[0], "val_loss": last[1]}, **more}
    return " ".join(kept_in_words(found))


def test_the_kept_step_is_named_with_what_came_after_it():
    assert kept(400, 1.5, (400, 1.5)) == "The weights of step 400 are kept."
    assert kept(34, 2.1, (400, 3.3)) == (
        "The weights of step 34 are kept; the validation loss rose after it, from 2.100 to 3.300 at step 400."
    )
    assert "no later evaluation was better, up to the last at step 400" in kept(34, 2.1, (400, 2.0))
    near = kept(34, 2.1, (400, 2.09), lowest={"step": 400, "val_loss": 2.09})
    assert near.endswith("; the validation loss of step 400, 2.090, is not clearly lower than its 2.100.")
    lowest = {"lowest": {"step": 34, "val_loss": 2.1}, "by": "last"}
    assert kept(400, 3.3, (400, 3.3), **lowest) == (
        "The weights of step 400 are kept, the last ones (--keep last); the validation loss was lowest at step 34: "
        "2.100 against 3.300."
    )


def test_what_a_continued_run_gained_is_said():
    nothing = kept(40, 2.1, (70, 2.3), since=40, before=2.1, gained=False)
    assert nothing.endswith(
        "Training gained nothing over the model that it continued from at step 40, which is kept as it was."
    )
    not_sure = kept(40, 2.1, (70, 2.09), lowest={"step": 60, "val_loss": 2.08}, since=40, before=2.1, gained=False)
    assert "Training gained nothing that is clearly better than the model that it continued from at step 40" in not_sure
    loss = {"gain": [0.05, 0.15], "gain_of": ["val_loss", 2.1, 2.0]}
    sure = kept(70, 2.0, (70, 2.0), since=40, before=2.1, gained=True, **loss)
    assert sure.endswith(
        "the validation loss went from 2.100 to 2.000 (gain in validation loss: 95 % interval 0.050 to 0.150)."
    )
    accuracy = {"gain": [-0.05, 0.25], "gain_of": ["accuracy", 0.8, 0.9]}
    chance = kept(70, 2.0, (70, 2.0), since=0, before=2.1, gained=True, **accuracy)
    assert "The gain over the model that it began from may be chance" in chance
    assert chance.endswith(
        "the validation loss went from 2.100 to 2.000; accuracy from 0.800 to 0.900 (gain in accuracy: 95 % interval "
        "-0.050 to 0.250)."
    )
    earlier = kept(70, 2.0, (70, 2.0), since=0, before=2.1, gained=True, gain=[0.05, 0.15])
    assert earlier.endswith("from 2.100 to 2.000."), "it is not recorded of which metric the interval is"
    worse = kept(70, 2.4, (70, 2.4), since=40, before=2.1, gained=False, by="last")
    assert "made it no better: a validation loss of 2.400 against 2.100" in worse and "--keep best" in worse
