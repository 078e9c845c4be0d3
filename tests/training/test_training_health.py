"""The verdict of each evaluation: every rule by hand, and ten planted faults and ten healthy runs end to end.

The thresholds of `headway.training.health` and `headway.training.evidence` were set on other made-up data: sentences
of a small grammar, syllables that follow each other, reviews of keywords, topics, and words with their cipher.  No
threshold was changed for the sake of the tasks here.
"""

import json
import math
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.data.python_texts import documentation, source_code
from headway.data.toy_pairs import copies, dates
from headway.training import health as h
from headway.training import trainer
from headway.training.evidence import SPAN, fitting_pairs, repeated
from headway.training.health import Health, judge
from headway.training.signs import KEPT, START, Known, Signs
from headway.training.state import State

TEXT = Known(learning_rate=3e-3, uniform=4.0, chance=3.0, simple=2.5, examples=1000)
ROWS = Known(learning_rate=1e-3, chance=0.69, majority=0.52, majority_f1=0.34, linear=0.8, examples=100)


def signs(start: float, *evaluations: tuple[float, float], passes: float = 9.0, **more: float) -> Signs:
    """A run that begins at a loss: (training, validation loss) at evenly spread evaluations, ten steps before each."""
    found, recent = Signs(), [start] * 8
    for at in range(8):
        found.step(start, 1.0, recent[: at + 1])
    for number, (train, loss) in enumerate(evaluations, 1):
        for _ in range(10):
            recent = [*recent, train]
            found.step(train, more.get("norm", 1.0), recent)
        metrics = {"val_loss": loss, **{name: more[name] for name in ("accuracy", "macro_f1") if name in more}}
        share = number / len(evaluations)
        found.evaluated(metrics, step=10 * number, share=share, passes=passes * share, recent=recent)
    return found


def cause(found: Signs, known: Known) -> tuple[str, str]:
    health = judge(found, known)
    return health.word, health.cause


def test_a_run_that_learns_is_said_to_learn():
    assert judge(signs(4.0, (3.2, 2.9), (2.5, 2.4), (2.0, 2.1)), TEXT) == Health(h.LEARNING)
    assert str(Health()) == "learning"


@pytest.mark.parametrize(
    "evaluations",
    [[(5.5, 5.5)], [(3.0, math.nan)], [(3.0, math.inf)], [(3.0, 2.9), (7.0, 3.1)]],
    ids=["above its start", "nan", "infinity", "later"],
)
def test_a_loss_that_rises_or_is_no_number_diverges(evaluations: list[tuple[float, float]]):
    assert cause(signs(4.0, *evaluations), TEXT) == (h.DIVERGING, h.HIGH_RATE)


def test_a_loss_that_rose_above_its_start_and_has_not_come_far_since():
    """As when the learning rate is far too high at first, and the schedule then lowers it."""
    rose = signs(4.0, (5.5, 4.5), (3.4, 2.9), (2.6, 2.6), (2.2, 2.3))
    found = [judge(replace(rose, evaluations=rose.evaluations[:n], best=rose.evaluations[n - 1]), TEXT) for n in (2, 3)]
    assert [one.cause for one in found] == [h.HIGH_RATE, h.HIGH_RATE], "bigrams are better"
    assert judge(rose, TEXT).word == h.LEARNING


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ({"leaked": 0.9}, h.LEAKED),
        ({"alike": 0.9}, h.ALIKE),
        ({"unknown": 0.9}, h.UNKNOWN),
        ({"one_target": 0.9}, h.ONE_TARGET),
        ({"pretrained": True, "uniform": 3.0}, h.OTHER_TOKENIZER),
    ],
)
def test_what_is_known_of_the_data_is_a_fault_even_while_the_loss_falls(fact: dict[str, Any], expected: str):
    known = Known(**{**asdict(TEXT), **fact})
    assert cause(signs(4.0, (3.2, 2.9), (2.5, 2.4)), known) == (h.FAULT, expected)


def test_targets_that_neither_the_model_nor_a_simple_one_can_tell():
    flat = [(3.0, 3.0), (2.9, 3.01), (2.8, 3.05), (2.6, 3.1)]
    nothing = Known(**{**asdict(TEXT), "simple": 3.02})
    assert cause(signs(4.0, *flat), nothing) == (h.FAULT, h.UNRELATED)
    assert cause(signs(4.0, *flat), TEXT) == (h.STUCK, h.WEAK)
    assert cause(signs(0.69, *[(0.69, 0.7)] * 4, accuracy=0.5), Known(**{**asdict(ROWS), "linear": 0.55})) == (
        h.FAULT,
        h.UNRELATED,
    )
    few = Known(**{**asdict(ROWS), "linear": 0.55, "examples": 20})
    assert cause(signs(0.69, *[(0.69, 0.7)] * 4, accuracy=0.5), few) == (h.STUCK, h.WEAK)


def test_pairs_that_do_not_belong_together():
    known = Known(**{**asdict(TEXT), "paired": 0.51})
    run = signs(4.0, (3.2, 2.9), (2.6, 2.5), (2.3, 2.4))
    assert cause(run, known) == (h.FAULT, h.UNRELATED)
    assert cause(run, Known(**{**asdict(TEXT), "paired": 0.8})) == (h.LEARNING, "")
    better = signs(4.0, (3.2, 2.9), (2.0, 1.9), (1.0, 1.2))
    assert cause(better, known) == (h.LEARNING, ""), "it tells them apart, whatever words stand together"


def test_held_out_data_of_another_kind_are_known_in_the_first_pass():
    apart = [(3.0, 4.9), (2.4, 4.8), (2.1, 4.8)]
    assert cause(signs(4.5, *apart, passes=1.0), TEXT) == (h.FAULT, h.UNLIKE)
    assert cause(signs(4.5, *apart, passes=50.0), TEXT) != (h.FAULT, h.UNLIKE), "by then it may have learnt by heart"
    exchanged = Known(**{**asdict(ROWS), "linear": 0.1})
    assert cause(signs(0.69, (0.3, 2.0), (0.1, 3.0), accuracy=0.1), exchanged) == (h.FAULT, h.UNLIKE)


def test_learning_by_heart():
    falls_and_rises = [(3.0, 2.8), (2.2, 2.4), (1.7, 2.5), (1.2, 2.7), (0.8, 3.0)]
    assert cause(signs(4.0, *falls_and_rises), TEXT) == (h.OVERFITTING, h.BY_HEART)
    assert cause(signs(4.0, *falls_and_rises[:3]), TEXT) == (h.LEARNING, ""), "not at the first rise"


def test_a_run_that_does_not_move():
    still = [(4.0, 4.0)] * 4
    slow = Known(**{**asdict(TEXT), "learning_rate": 1e-6})
    assert cause(signs(4.0, *still), slow) == (h.STUCK, h.LOW_RATE)
    assert cause(signs(4.0, *still, norm=0.0), TEXT) == (h.STUCK, h.NO_GRADIENT)
    assert cause(signs(4.0, *still), TEXT) == (h.STUCK, h.WEAK)
    assert cause(signs(4.0, *still[:1]), TEXT) == (h.LEARNING, ""), "one evaluation tells nothing of it"


def test_nothing_is_judged_before_the_first_evaluation():
    with pytest.raises(ValueError, match="after an evaluation"):
        judge(Signs(), Known())


def test_every_cause_has_its_advice():
    assert {word for word, *_ in h.RULES} == {h.STUCK, h.OVERFITTING, h.DIVERGING, h.FAULT}
    assert all(advice.endswith(".") for *_, advice in h.RULES)


def test_signs_are_plain_bounded_and_come_back_as_they_were():
    state = State(signs=signs(4.0, *[(3.0 - n / 200, 3.0 - n / 100) for n in range(97)]))
    state.signs.evaluated({"val_loss": math.inf}, step=1000, share=1.0, passes=9.0, recent=[])
    assert len(state.signs.evaluations) == KEPT + 1 and len(state.signs.first) == START
    assert state.signs.evaluations[0]["step"] == 10 and state.signs.best["step"] == 970 and state.signs.worse == 1
    assert State.of(json.loads(json.dumps(state.plain(), allow_nan=False))).signs == state.signs


def test_a_run_taken_up_again_says_what_it_would_have_said(
    corpus: Path, tmp_path: Path, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """Stopped twice; the corpus is of words drawn at random, so there is something to say."""
    options, seen, honest = {**tiny, "steps": 40, "evaluations": 8, "quiet": True}, [], trainer.accumulation
    headway.train(corpus, out=tmp_path / "alone", **options)

    def stopping(*given: Any) -> int:
        seen.append(1)
        if len(seen) in (13, 27):
            signal.raise_signal(signal.SIGINT)
        return honest(*given)

    monkeypatch.setattr(trainer, "accumulation", stopping)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            headway.train(corpus, out=tmp_path / "run", **options)
    headway.train(corpus, out=tmp_path / "run", **options)
    alone, run = (logged(tmp_path / name) for name in ("alone", "run"))
    assert alone == run and len(run) == 8


def test_spans_of_held_out_text_that_occur_in_training():
    random_ = np.random.default_rng(3)
    train, other = random_.integers(0, 50, 7001), random_.integers(0, 50, 5 * SPAN + 3)
    assert repeated(train, other) == 0.0 and repeated(train, other[: SPAN - 1]) == 0.0
    assert repeated(train, train[137 : 137 + 4 * SPAN]) == 1.0, "wherever they stand"
    assert repeated(train, np.concatenate([train[-3 * SPAN :], other[:SPAN]])) == 0.75
    assert repeated(train[: SPAN - 1], other) == 0.0


def test_pairs_fit_each_other_better_than_others_or_not():
    choose = random.Random(5)
    rows = [choose.choices(range(40), k=choose.randint(3, 9)) for _ in range(600)]
    targets = [[token + 40 for token in row] for row in rows]
    mixed = choose.sample(targets, len(targets))
    assert fitting_pairs(rows[:500], targets[:500], rows[500:], targets[500:]) > 0.95
    assert abs(fitting_pairs(rows[:500], mixed[:500], rows[500:], mixed[500:]) - 0.5) < 0.15
    assert fitting_pairs([[1], [1]], [[2], [2]], [[1]], [[2]]) is None


# End to end: what the runs are of.

SMALL = {
    **{"d_model": 32, "layers": 2, "heads": 2, "length": 32, "batch_tokens": 512, "steps": 80},
    **{"threads": 1, "precision": "float32", "evaluations": 8},
}
FRUIT = ["apple", "pear", "plum", "grape", "melon", "cherry"]
STARS = ["orbit", "comet", "planet", "galaxy", "moon", "crater"]
OTHER = ["a", "of", "to", "in", "we", "saw", "some", "was", "so", "then", "more", "while", "they", "said", "very"]


def prose(length: int, seed: int) -> str:
    """Documentation of the standard library, each paragraph once: some stand there twice, which would be a leak."""
    paragraphs = dict.fromkeys(documentation(3 * length, seed=seed).split("\n\n"))
    return "\n\n".join(paragraphs)[:length]


def sums(count: int, seed: int) -> str:
    """Lines such as 7+12=19."""
    choose = random.Random(seed)
    pairs = ((choose.randrange(20), choose.randrange(20)) for _ in range(count))
    return "".join(f"{a}+{b}={a + b}\n" for a, b in pairs)


def notes(count: int, seed: int) -> list[tuple[str, str]]:
    """Texts about fruit and about stars, with which of the two it is."""
    choose, rows = random.Random(seed), []
    for _ in range(count):
        kind, words = choose.choice([("fruit", FRUIT), ("stars", STARS)])
        text = [*choose.choices(OTHER, k=choose.randint(5, 13)), *choose.choices(words, k=2)]
        rows.append((" ".join(choose.sample(text, len(text))), kind))
    return rows


def shouted(count: int, seed: int) -> list[tuple[str, str]]:
    """Words, and the same in capitals from behind."""
    choose = random.Random(seed)
    lines = [choose.choices([*FRUIT, *STARS, *OTHER], k=choose.randint(2, 6)) for _ in range(count)]
    return [(" ".join(line), " ".join(line[::-1]).upper()) for line in lines]


def mixed(rows: list[tuple[str, str]], seed: int) -> list[tuple[str, str]]:
    """The same inputs and the same targets, but not together."""
    targets = random.Random(seed).sample([target for _, target in rows], len(rows))
    return [(text, target) for (text, _), target in zip(rows, targets, strict=True)]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def table(path: Path, rows: list[tuple[str, str]]) -> Path:
    return written(path, "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))


def sides(folder: Path, pairs: list[tuple[str, str]]) -> list[Path]:
    return [
        written(folder / name, "".join(f"{pair[side]}\n" for pair in pairs))
        for side, name in enumerate(("t.en", "t.de"))
    ]


def logged(run: Path) -> list[tuple[str, str]]:
    """(word, cause) of every evaluation of a run."""
    lines = map(json.loads, (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [(line["health"], line["cause"]) for line in lines if line["event"] == "evaluation"]


def verdicts(data: Any, out: Path, **options: Any) -> list[tuple[str, str]]:
    """Train, and give (word, cause) of every evaluation."""
    options = {**SMALL, **options}
    if "from_model" in options:
        for name in ("d_model", "layers", "heads"):
            del options[name]
    headway.train(data, out=out, quiet=True, **options)
    return logged(out)


Case = Callable[[Path], tuple[Any, dict[str, Any]]]
"""Writes data into a folder, and gives them with options."""

HEALTHY: dict[str, Case] = {
    "documentation, subwords": lambda at: (written(at / "d.txt", prose(60_000, 0)), {"vocab": 400}),
    "documentation, characters": lambda at: (
        written(at / "d.txt", prose(40_000, 1)),
        {"tokenizer": "char"},
    ),
    "sums": lambda at: (written(at / "s.txt", sums(3000, 2)), {"tokenizer": "char", "seed": 2}),
    "two subjects": lambda at: (table(at / "n.csv", notes(400, 3)), {}),
    "two subjects, long": lambda at: (table(at / "n.csv", notes(300, 4)), {"steps": 200, "seed": 4}),
    "two subjects, some rows wrong": lambda at: (
        table(at / "n.csv", notes(400, 5) + mixed(notes(80, 6), 6)),
        {"seed": 5},
    ),
    "shouted": lambda at: (sides(at, shouted(500, 7)), {"tokenizer": "word", "learning_rate": 3e-3}),
    "copies": lambda at: (sides(at, copies(500, 8)), {"tokenizer": "char", "learning_rate": 3e-3}),
    "dates": lambda at: (sides(at, dates(500, 9)), {"tokenizer": "char", "learning_rate": 3e-3}),
    "hidden characters": lambda at: (
        written(at / "s.txt", sums(3000, 10)),
        {"task": "masked_lm", "tokenizer": "char", "steps": 160},
    ),
}


def wrong_tokenizer(at: Path) -> tuple[Any, dict[str, Any]]:
    """A base in which the tokenizer of another lies, of the same size and kind."""
    text = written(at / "d.txt", prose(60_000, 3))
    other = written(at / "s.txt", source_code(40_000, seed=4)[:40_000])
    options = {**SMALL, "vocab": 800, "evaluations": 1, "quiet": True}
    headway.train(text, out=at / "base", **options)
    headway.train(other, out=at / "other", **{**options, "steps": 1})
    shutil.copy(at / "other" / "tokenizer.json", at / "base" / "tokenizer.json")
    return text, {"from_model": str(at / "base"), "steps": 30}


def letter(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same texts below a heading that all have."""
    heading = "to all who read this on behalf of the club and its many friends in town and in the country"
    return [(f"{heading} {text}", label) for text, label in rows]


def mostly(rows: list[tuple[str, str]], seed: int) -> list[tuple[str, str]]:
    """The same texts, nearly all with one label."""
    choose = random.Random(seed)
    return [(text, "fruit" if choose.random() < 0.95 else "stars") for text, _ in rows]


def exchanged(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(text, "fruit" if label == "stars" else "stars") for text, label in rows]


FAULTS: dict[str, tuple[Case, set[str], str]] = {
    "labels shuffled": (lambda at: (table(at / "n.csv", mixed(notes(500, 11), 1)), {}), {h.FAULT}, h.UNRELATED),
    "pairs out of step": (
        lambda at: (sides(at, mixed(shouted(500, 12), 2)), {"tokenizer": "word", "learning_rate": 3e-3}),
        {h.FAULT},
        h.UNRELATED,
    ),
    "learning rate times 100": (
        lambda at: (written(at / "s.txt", sums(3000, 13)), {"tokenizer": "char", "learning_rate": 0.3}),
        {h.DIVERGING},
        h.HIGH_RATE,
    ),
    "learning rate over 10,000": (
        lambda at: (table(at / "n.csv", notes(400, 14)), {"learning_rate": 1e-7}),
        {h.STUCK},
        h.LOW_RATE,
    ),
    "validation duplicated": (
        lambda at: (
            table(at / "n.csv", notes(400, 15)),
            {"validation": table(at / "v.csv", notes(400, 15)[100:170])},
        ),
        {h.FAULT},
        h.LEAKED,
    ),
    "wrong tokenizer": (wrong_tokenizer, {h.FAULT}, h.OTHER_TOKENIZER),
    "labels constant": (lambda at: (table(at / "n.csv", mostly(notes(500, 16), 3)), {}), {h.FAULT}, h.ONE_TARGET),
    "inputs cut alike": (
        lambda at: (table(at / "n.csv", letter(notes(400, 17))), {"length": 16}),
        {h.FAULT},
        h.ALIKE,
    ),
    "labels exchanged in validation": (
        lambda at: (
            table(at / "n.csv", notes(400, 18)),
            {"validation": table(at / "v.csv", exchanged(notes(70, 19)))},
        ),
        {h.FAULT},
        h.UNLIKE,
    ),
    "too little text": (
        lambda at: (
            written(at / "d.txt", prose(3_000, 5)),
            {"tokenizer": "char", "dropout": 0.0, "steps": 250, "d_model": 48, "batch_tokens": 256},
        ),
        {h.OVERFITTING},
        h.BY_HEART,
    ),
}


def test_ten_healthy_runs_raise_no_alarm(tmp_path: Path):
    alarms = {}
    for name, case in HEALTHY.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        data, options = case(folder)
        found = verdicts(data, folder / "run", **options)
        assert len(found) >= 2
        if alarm := [one for one in found if one[0] != h.LEARNING]:
            alarms[name] = alarm
    assert len(HEALTHY) == 10 and not alarms


def test_of_ten_planted_faults_eight_are_named(tmp_path: Path):
    """A fault is named by the last alarm of its run: word and cause."""
    named, missed = [], {}
    for name, (case, words, expected) in FAULTS.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        data, options = case(folder)
        found = verdicts(data, folder / "run", **options)
        last = next((one for one in reversed(found) if one[0] != h.LEARNING), None)
        if last is not None and last[0] in words and last[1] == expected:
            named.append(name)
        else:
            missed[name] = found
    assert len(FAULTS) == 10 and len(named) >= 8, missed
