"""The page: well-formed, self-contained, true to its numbers, and made from whatever a run has recorded."""

import html
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from headway.errors import InputError
from headway.reports.report import write_report

LABELS = ["negative", "<script>alert(1)</script>"]
CLASSIFICATION: dict[str, Any] = {
    "headway": "0.1.0",
    "task": "classification",
    "command": ["headway", "train", "my reviews.csv", "--time", "5m"],
    "decisions": [{"what": "text column", "value": "review", "why": "the longest", "option": "--text"}],
    "data": {
        **{"inputs": ["in/<img src=x>.csv"], "train": "3,055 rows", "validation": "211 rows"},
        "warnings": ["odd & so"],
    },
    "labels": LABELS,
    **{"parameters": 1790003, "seconds": 109.2, "steps": 878, "tokens": 3596288},
    "metrics": {
        **{"val_loss": 0.6213, "accuracy": 0.8057, "macro_f1": 0.7912},
        "per_class": {
            "negative": {"precision": 0.7411, "recall": 0.6529, "f1": 0.6942, "support": 61},
            LABELS[1]: {"precision": 0.8817, "recall": 0.9123, "f1": 0.8967, "support": 150},
        },
        "confusion": [[43, 18], [23, 127]],
    },
    "baselines": [
        {"name": "linear model on word and character n-grams", "accuracy": 0.7013, "macro_f1": 0.6501},
        {"name": "majority class", "accuracy": 0.7109, "macro_f1": 0.4155},
    ],
    "machine": {"device": "cpu", "threads": 2},
    "versions": {"torch": "2.9.0"},
    "started": "2026-11-21T04:00:00",
}
LANGUAGE_MODEL: dict[str, Any] = {
    "task": "language_modeling",
    "data": {"inputs": ["a.txt", "b.txt", "c.txt"], "train": "1,003,853 characters"},
    "metrics": {"val_loss": 1.4713, "perplexity": 4.3549, "bits_per_byte": 2.1226},
    "baselines": [{"name": "unigram", "val_loss": 3.3127}],
}


class Balance(HTMLParser):
    """Checks that tags close in order, and collects the text of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)


def make(run: Path, info: object = None, log: list[dict[str, Any]] | None = None, tail: str = "") -> str:
    """Write a run by hand, report on it, check what holds for every page, and return the page."""
    if info is not None:
        (run / "headway.json").write_text(json.dumps(info), encoding="utf-8")
    if log is not None:
        (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log) + tail, encoding="utf-8")
    path = write_report(run)
    assert path == run / "report.html"
    page = path.read_text(encoding="utf-8")
    parser = Balance(page)
    assert parser.open == []
    assert not parser.tags & {"script", "img", "link", "iframe", "object", "image", "use"}
    assert "http:" not in page and "https:" not in page and "url(" not in page and "@import" not in page
    assert "nan" not in re.findall(r"[a-z]+", " ".join(re.findall(r'(?:points|[dxy]|c[xy])="([^"]*)"', page)).lower())
    assert len(page.encode()) < 300_000
    assert sorted(found.name for found in run.iterdir() if found.name.startswith(".")) == []
    return page


def text_of(page: str) -> str:
    return " ".join(" ".join(Balance(page).words).split())


def steps(count: int, every: int = 1) -> list[dict[str, Any]]:
    return [
        {"event": "step", "step": n, "seconds": n / 7, "loss": 1.3 + 3 / n, "learning_rate": 1e-3 / n}
        for n in range(every, count * every + 1, every)
    ]


def evaluation(step: int, **values: Any) -> dict[str, Any]:
    return {"event": "evaluation", "step": step, "seconds": step / 7, **values}


def test_classification_numbers(tmp_path: Path) -> None:
    log = [*steps(41), evaluation(20, val_loss=0.7, accuracy=0.75), evaluation(41, val_loss=0.6213, accuracy=0.8057)]
    said = text_of(make(tmp_path, CLASSIFICATION, log))
    for expected in (
        "Text classifier trained on <img src=x>.csv",
        "The Transformer beats the majority class baseline: accuracy 0.806 against 0.711, a difference of 0.095 (95 % "
        "interval 0.013 to 0.175, on 211 held-out examples).",
        "0.806 accuracy 0.791 macro F1 0.621 validation loss 1.79 M parameters 1.8 min time 878 steps",
        "Transformer (this run) 0.806 0.791 majority class 0.711 0.415",
        "negative 0.741 0.653 0.694 61",
        "43 70% 18 30%",
        "23 15% 127 85%",
        "text column review the longest --text",
        "odd & so",
        "1,790,003",
        "7.16 MB in float32",
        "32,933 tokens per second",
        "headway train 'my reviews.csv' --time 5m",
        "Started 2026-11-21 04:00.",
        "loss (nats per example)",
        "validation 0.621",
    ):
        assert expected in said, expected


def test_parts_stand_in_order(tmp_path: Path) -> None:
    log = [*steps(11), {"event": "sample", "step": 5, "text": "ROMEO"}]
    assert re.findall("<h2>(.*?)</h2>", make(tmp_path, CLASSIFICATION, log)) == [
        *("How it learned", "Against simple models", "Metrics by class", "Samples during training", "Decisions"),
        *("The data", "The model", "Machine and versions", "To repeat it"),
    ]


def test_user_text_is_inert(tmp_path: Path) -> None:
    evil = '</pre><script>alert("x")</script>\x00\ud800\u202e'
    info = json.loads(json.dumps(CLASSIFICATION).replace("odd & so", "<script>w</script>"))
    info["command"] = ["headway", "train", "</code><script>"]
    info["baselines"][0]["name"] = "<script>b</script>"
    info["machine"] = {"<script>": ["<script>"]}
    page = make(tmp_path, info, [*steps(5), {"event": "sample", "step": 3, "text": evil}])
    assert "<script" not in page
    assert html.escape('</pre><script>alert("x")</script>') + "\ufffd?" in page


def test_language_model(tmp_path: Path) -> None:
    log = [*steps(97), evaluation(50, val_loss=1.6), evaluation(97, val_loss=1.4713, best=True)]
    log += [{"event": "sample", "step": n, "text": f"text {n}"} for n in range(1, 30)]
    said = text_of(make(tmp_path, LANGUAGE_MODEL, [*log, {"event": "end"}], '{"event": "step", "step": 98, "lo'))
    assert "Language model trained on a.txt and 2 more" in said
    assert "a validation loss of 1.47 nats per token, the unigram baseline 3.31; no interval was measured" in said
    assert "loss (nats per token)" in said and "unigram 3.313" in said
    assert "The ring marks step 97, whose weights were kept." in said
    assert "Step 1 text 1 " in said and "Step 29 text 29" in said and said.count("Step ") == 5
    assert "Metrics by class" not in said and "resumes it" not in said


def test_interrupted_before_the_first_evaluation(tmp_path: Path) -> None:
    info = {"task": "language_modeling", "command": ["headway", "train", "a.txt"]}
    said = text_of(make(tmp_path, info, [{"event": "start"}, *steps(13), {"event": "interrupted", "seconds": 2}]))
    assert "Not evaluated yet: after 13 steps the training loss is 1.531" in said
    assert "This run was interrupted: its last known step is 13." in said


@pytest.mark.parametrize("info", [None, {}, {"task": None, "metrics": None, "data": [], "labels": 3, "decisions": "x"}])
@pytest.mark.parametrize("log", [None, [], [{"event": "start"}], steps(1)])
def test_any_part_may_be_missing(tmp_path: Path, info: object, log: list[dict[str, Any]] | None) -> None:
    if info is None and log is None:
        with pytest.raises(InputError, match="neither"):
            write_report(tmp_path)
    else:
        assert "Training run" in make(tmp_path, info, log)


@pytest.mark.parametrize("key", sorted(CLASSIFICATION))
@pytest.mark.parametrize("value", [None, "text", 7, [], {}, [None], {"a": None}, [[1, 2]], float("nan"), True])
def test_any_value_may_be_odd(tmp_path: Path, key: str, value: object) -> None:
    assert "</html>" in make(tmp_path, {**CLASSIFICATION, key: value}, steps(3))
    odd = {**CLASSIFICATION["metrics"], "confusion": value, "per_class": value}
    assert "</html>" in make(tmp_path, {**CLASSIFICATION, "metrics": odd})


@pytest.mark.parametrize("content", ["[1]", "{", '"x"'])
def test_a_broken_headway_json_is_the_users_to_know(tmp_path: Path, content: str) -> None:
    (tmp_path / "headway.json").write_text(content)
    with pytest.raises(InputError, match=r"headway\.json"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_not_a_number(tmp_path: Path) -> None:
    log = [*steps(11), {"event": "step", "step": 12, "loss": math.nan}, {"event": "step", "step": 13, "loss": None}]
    log.append(evaluation(13, val_loss=math.inf, accuracy=None))
    said = text_of(make(tmp_path, {"task": "classification", "metrics": {"val_loss": math.nan, "accuracy": None}}, log))
    assert "Training failed: from step 13 on the loss was not a number." in said
    assert "At 2 logged steps the loss was not a number, first at step 12." in said


def test_long_logs_stay_small(tmp_path: Path) -> None:
    log = [*steps(20011), *(evaluation(n, val_loss=2 / n, accuracy=1 - 1 / n) for n in range(10, 20011, 10))]
    log += [{"event": "sample", "step": n, "text": "long text " * 997} for n in range(10, 5000, 10)]
    many = [f"class {n}" for n in range(211)]
    info = {
        **CLASSIFICATION,
        "labels": many,
        "metrics": {
            "accuracy": 0.5,
            "confusion": [[1 + (row * column) % 7 for column in range(211)] for row in range(211)],
            "per_class": {name: {"precision": 0.5, "recall": 0.5, "f1": n / 211} for n, name in enumerate(many)},
        },
        "decisions": [{"what": "w" * 997, "value": "v" * 997, "option": "--o"}] * 97,
        "data": {"inputs": [f"dir/{n}.txt" for n in range(9973)], "warnings": ["w" * 997] * 997},
        "command": ["headway", "train", *(f"dir/{n}.txt" for n in range(9973))],
    }
    page = make(tmp_path, info, log)
    assert all(len(points.split()) <= 400 for points in re.findall(r'points="(.*?)"', page))
    said = text_of(page)
    assert "is a mean of about 50 logged steps" in said and "The 60 of 211 classes with the lowest F1." in said
    assert "most frequent confusions among 211 classes" in said


def test_rewriting_replaces_the_page(tmp_path: Path) -> None:
    first = make(tmp_path, LANGUAGE_MODEL, steps(3))
    assert make(tmp_path, {**LANGUAGE_MODEL, "task": "translation"}) != first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["headway.json", "log.jsonl", "report.html"]


@pytest.mark.parametrize(
    "losses", [[1e290, 1e295, 1e299, 1e308], [-9e299, 9e299], [0.0, 0.0], [5e-324, 1e-320], [2.0] * 5]
)
def test_extreme_losses_still_give_a_chart(tmp_path: Path, losses: list[float]) -> None:
    log = [{"event": "step", "step": 2**n, "seconds": 0, "loss": loss} for n, loss in enumerate(losses)]
    assert "<polyline" in make(tmp_path, LANGUAGE_MODEL, log)


def test_a_strict_policy_stands_before_anything_it_rules(tmp_path: Path) -> None:
    page = make(tmp_path, CLASSIFICATION, steps(3))
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["script-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert page.index("Content-Security-Policy") < page.index("<title>") < page.index("<style>")
    assert "<script" not in page and not re.search(r"\son[a-z]+=", page)


def of_classes(count: int) -> dict[str, Any]:
    """A run of a classifier with so many classes."""
    labels = [f"a label {number}" for number in range(count)]
    matrix = [[(7 * i + j) % 3 + 50 * (i == j) for j in range(count)] for i in range(count)]
    scores = {"precision": 0.5, "recall": 0.4, "f1": 0.3}
    metrics = {"accuracy": 0.81234567, "confusion": matrix}
    metrics["per_class"] = {name: {**scores, "support": sum(row)} for name, row in zip(labels, matrix, strict=True)}
    data = {"inputs": ["a.csv"], "classes": {name: 100 + number for number, name in enumerate(labels)}}
    return {"task": "classification", "labels": labels, "metrics": metrics, "data": data}


@pytest.mark.parametrize("count", [2, 10, 14, 15, 60, 100, 101])
def test_classes_have_their_sizes_and_the_matrix_fits(count: int, tmp_path: Path) -> None:
    page = make(tmp_path, of_classes(count), steps(3))
    said = text_of(page)
    assert "101 (" in said and "held out" in said
    assert ('class="confusion' in page) == (count <= 14)
    assert ('class="map"' in page) == (14 < count <= 100)
    assert ("most frequent confusions" in said) == (count > 14)
    if 'class="map"' in page:
        width = float(re.search(r'class="map" viewBox="0 0 ([\d.]+)', page)[1])
        [(left, scale)] = re.findall(r"translate\((\d+) 18\) scale\(([\d.]+) 12\)", page)
        cells = {(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", page)}
        assert width <= 720 and float(left) + float(scale) * count <= width + 1
        assert cells == {(j, i) for i in range(count) for j in range(count) if (7 * i + j) % 3 or i == j}
        assert f"a label {count - 1} {count}" in said, "every row has its name and the number of its column"


def test_rows_are_shown_with_their_texts(tmp_path: Path) -> None:
    row = {"text": "a\x1b[31m \u202eb\n<script>alert(1)</script> " + "x" * 400, "label": "<b>no</b>", "score": 0.98765}
    row |= {"predicted": "y\x07es", "second": "<b>no</b>", "second_score": 0.0123}
    near = {**row, "text": "neither here nor there", "score": 0.51}
    shown = {"looked_at": 1000, "wrong": 17, "worst": [row], "boundary": [near]}
    page = make(tmp_path, {**CLASSIFICATION, "shown": shown}, steps(3))
    said = text_of(page)
    assert "17 of 1,000 checked validation rows" in said and "neither here nor there" in said
    assert "a[U+001B][31m [U+202E]b↵<script>alert(1)</script>" in said and "y[U+0007]es 0.988" in said
    assert "x" * 200 in said and "x" * 300 not in said and "<script" not in page
    assert not set(page) & {"\x1b", "\x07", "\u202e"}
    for strange in ([], {"worst": 3}, {"looked_at": 1, "wrong": 1, "worst": [[], None, {"text": 5}]}, "no"):
        make(tmp_path, {**CLASSIFICATION, "shown": strange}, steps(3))


def test_without_steps_there_is_no_empty_plot(tmp_path: Path) -> None:
    log = [{"event": "start"}, evaluation(0, val_loss=0.7, accuracy=0.75), {"event": "end", "step": 0}]
    page = make(tmp_path, {**CLASSIFICATION, "steps": 0}, log)
    assert "<svg" not in page and "fitted in closed form" in text_of(page)


def test_numbers_have_few_digits(tmp_path: Path) -> None:
    strange = {"tokens_per_second": 12345678.9, "share": 0.1 + 0.2, "small": 1.23456789e-7, "parameters": 348_418}
    said = text_of(make(tmp_path, {**CLASSIFICATION, "machine": strange}, steps(3)))
    assert "12.346 M" in said and "0.3 " in said and "1.2346e-07" in said and "348,418" in said
    assert not re.search(r"\d\.\d{6,}", said)
