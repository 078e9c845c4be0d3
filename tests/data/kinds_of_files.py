"""Files of the kinds that people have, and what must be found in each: ``python kinds_of_files.py FOLDER`` writes them.

``markdown()`` is the table of docs/kinds_of_files.md.
"""

import gzip
import json
import random
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FOUND, ASKED, REFUSED = "found", "asked", "refused"
N = 90
"""The rows of most files."""
_ENGLISH = (
    "the customer wrote to us that it was not in the box and that he is still waiting for an answer to his mail of"
    " last week which we have now found in the wrong folder and will send to the team at once so that they can look"
)
_GERMAN = (
    "der Kunde hat uns geschrieben dass es nicht in der Schachtel war und er noch auf eine Antwort wartet die wir"
    " jetzt im falschen Ordner gefunden haben und sofort an das Team geben werden damit sie es sich ansehen"
)
_RUSSIAN = "клиент написал нам что посылка не пришла и он ждёт ответа который мы нашли в другой папке"
ENGLISH, GERMAN, RUSSIAN = _ENGLISH.split(), _GERMAN.split(), _RUSSIAN.split()
GOODS = ["lamp", "screen", "cable", "keyboard", "battery", "monitor", "charger", "router"]
NAMES = ["Anna", "Berlin", "Siemens", "Paris", "Ada", "Rome"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of file."""

    what: str
    """in words, for the table in docs"""
    write: Callable[[Path], Path | Sequence[Path]]
    """writes it into a folder"""
    answer: str
    """FOUND, ASKED or REFUSED"""
    shown: tuple[str, ...]
    """the task that is found; what the message names where it is asked about or refused"""
    columns: dict[str, Any] = field(default_factory=dict)
    """of what is found: text_column, label_column, second_column or label_columns"""
    said: tuple[str, ...] = ()
    """what the lines about what was found name"""
    options: tuple[str, ...] = ()
    """of the command"""


def found(task: str, text: str | None = None, label: str | None = None, second: str | None = None) -> tuple[Any, ...]:
    """The answer, what is shown and the columns of a kind whose task is found."""
    columns = {"text_column": text, "second_column": second, "label_column": label}
    return FOUND, (task,), {name: value for name, value in columns.items() if value is not None}


class Draw(random.Random):
    """Values of the cells of one row."""

    def text(self, words: Sequence[str] = ENGLISH, low: int = 8, high: int = 20) -> str:
        return f"{' '.join(self.choices(words, k=self.randint(low, high)))} {self.choice(GOODS)}"

    def name(self) -> str:
        return f"{self.choice(NAMES)} {self.choice(NAMES)}"

    def day(self) -> str:
        return f"2026-{self.randint(1, 12):02}-{self.randint(1, 28):02}"


def rows(make: Callable[[Draw, int], Row], count: int = N) -> list[Row]:
    draw = Draw(7)
    return [make(draw, number) for number in range(count)]


def table(
    make: Callable[[Draw, int], Row], name: str = "table.csv", *, header: bool = True, count: int = N
) -> Callable:
    """Writes rows as the ending says."""

    def write(folder: Path) -> Path:
        made, path = rows(make, count), folder / name
        ending = name.removesuffix(".gz").rpartition(".")[2]
        if ending == "xlsx":
            return _workbook(path, made)
        if ending == "parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(made), path)
            return path
        if ending == "json":
            text = json.dumps(made)
        elif ending == "jsonl":
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made)
        else:
            text = _delimited([list(made[0])] * header + [list(row.values()) for row in made], ending)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


def _delimited(cells: list[list[Any]], ending: str) -> str:
    between = "\t" if ending == "tsv" else ","

    def shown(cell: Any) -> str:
        text = "" if cell is None else str(cell)
        return '"' + text.replace('"', '""') + '"' if between in text or '"' in text else text

    return "".join(between.join(map(shown, line)) + "\n" for line in cells)


def _workbook(path: Path, made: list[Row], sheets: int = 1) -> Path:
    import xlsxwriter

    with xlsxwriter.Workbook(str(path)) as book:
        for _ in range(sheets):
            sheet = book.add_worksheet()
            sheet.write_row(0, 0, list(made[0]))
            for number, row in enumerate(made, start=1):
                sheet.write_row(number, 0, list(row.values()))
    return path


def text(name: str, content: Callable[[Draw], str]) -> Callable[[Path], Path]:
    """Writes a file of text."""

    def write(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content(Draw(7)), encoding="utf-8")
        return path

    return write


def lines(name: str, line: Callable[[Draw], str], count: int = 400) -> Callable[[Path], Path]:
    return text(name, lambda draw: "".join(line(draw) + "\n" for _ in range(count)))


def both(*writes: Callable[[Path], Path]) -> Callable[[Path], list[Path]]:
    return lambda folder: [write(folder) for write in writes]


def folder_of(*writes: Callable[[Path], Path]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        for each in writes:
            each(folder)
        return folder

    return write


def conll(draw: Draw, form: str = "{word} NNP I-NP {tag}\n", before: str = "") -> str:
    """Sentences of tagged tokens."""
    made = [before]
    for _ in range(40):
        tokens = [(word, "O") for word in draw.choices(ENGLISH, k=draw.randint(4, 9))]
        tokens[draw.randrange(len(tokens))] = (draw.choice(NAMES), draw.choice(["B-PER", "B-LOC", "B-ORG"]))
        made += [
            form.format(word=word, tag=tag, number=at, pos="PROPN" if tag != "O" else "NOUN")
            for at, (word, tag) in enumerate(tokens, start=1)
        ] + ["\n"]
    return "".join(made)


def tokens(draw: Draw, _: int) -> Row:
    words = [*draw.choices(ENGLISH, k=6), draw.choice(NAMES)]
    return {"tokens": words, "ner_tags": ["O"] * 6 + [draw.choice(["B-PER", "B-LOC"])]}


def spans(draw: Draw, number: int) -> Row:
    words = draw.text()
    return {"id": number, "text": f"{words} Anna", "label": [[len(words) + 1, len(words) + 5, "PER"]]}


def images(folder: Path) -> Path:
    from PIL import Image

    for name in ("cats", "dogs"):
        (folder / name).mkdir()
        for number in range(20):
            Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(folder / name / f"{number}.png")
    return folder


def arrays(folder: Path) -> Path:
    np.savez(
        folder / "digits.npz",
        images=np.random.default_rng(0).integers(0, 255, (60, 8, 8), np.uint8),
        labels=np.arange(60) % 3,
    )
    return folder / "digits.npz"


BINARY = bytes(range(256)) * 9


def blob(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def word(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "report.docx", "w") as archive:
        archive.writestr("word/document.xml", "<w:document/>")
    return folder / "report.docx"


def squad(folder: Path) -> Path:
    answers = [{"text": "the box", "answer_start": 3}]
    asked = [{"id": str(i), "question": f"Where is it, number {i}?", "answers": answers} for i in range(40)]
    path = folder / "train-v1.1.json"
    path.write_text(
        json.dumps(
            {"version": "1.1", "data": [{"title": "Box", "paragraphs": [{"context": "In the box.", "qas": asked}]}]}
        )
    )
    return path


def chat(draw: Draw, _: int) -> Row:
    said = [{"role": "user", "content": draw.text()}, {"role": "assistant", "content": draw.text()}]
    return {"messages": said}


def sharegpt(draw: Draw, _: int) -> Row:
    return {"conversations": [{"from": "human", "value": draw.text()}, {"from": "gpt", "value": draw.text()}]}


KINDS = {
    # reviews and labels
    "imdb": Kind(
        "film reviews: review, sentiment",
        table(lambda d, _: {"review": d.text(), "sentiment": d.choice(["positive", "negative"])}),
        *found("classification", "review", "sentiment"),
    ),
    "sst2": Kind(
        "sentences with 0 and 1, tab-separated",
        table(lambda d, _: {"sentence": d.text(), "label": d.randint(0, 1)}, "sst2.tsv"),
        *found("classification", "sentence", "label"),
    ),
    "trec": Kind(
        "questions with a class, compressed",
        table(lambda d, _: {"text": d.text(), "label": d.choice(["DESC", "HUM", "NUM", "LOC"])}, "trec.csv.gz"),
        *found("classification", "text", "label"),
    ),
    "spam": Kind(
        "messages as spam or ham, columns v1 and v2",
        table(lambda d, _: {"v1": d.choice(["ham", "ham", "spam"]), "v2": d.text()}),
        *found("classification", "v2", "v1"),
    ),
    "spam without a header": Kind(
        "the same without a header",
        table(lambda d, _: {"v1": d.choice(["ham", "ham", "spam"]), "v2": d.text()}, "spam.tsv", header=False),
        REFUSED,
        ("line 1", "header"),
    ),
    "agnews": Kind(
        "news: class index, title, description",
        table(
            lambda d, _: {
                "Class Index": d.randint(1, 4),
                "Title": d.text(low=4, high=8),
                "Description": d.text(low=20, high=30),
            }
        ),
        *found("classification", "Description", "Class Index"),
        ("'Title' is not read", "--text-column"),
    ),
    "fasttext": Kind(
        "fastText's lines that begin with __label__",
        lines("train.txt", lambda d: f"__label__{d.choice(['pos', 'neg'])} {d.text()}"),
        *found("classification"),
    ),
    "folders of texts": Kind(
        "a folder of .txt files for each class",
        folder_of(
            *(text(f"{c}/{i}.txt", lambda d, n=i: f"{d.text()} {n}\n") for c in ("pos", "neg") for i in range(20))
        ),
        *found("classification"),
    ),
    "airline": Kind(
        "tweets of airlines: an id, a sentiment, its confidence, a reason, the text, a time",
        table(
            lambda d, i: {
                "tweet_id": 5703060 + 3 * i,
                "airline_sentiment": d.choice(["positive", "neutral", "negative"]),
                "airline_sentiment_confidence": round(d.random(), 4),
                "airline": d.choice(["United", "Delta"]),
                "name": d.name(),
                "retweet_count": d.randint(0, 2),
                "text": d.text(),
                "tweet_created": d.day(),
            }
        ),
        ASKED,
        ("--label-column", "airline_sentiment"),
    ),
    "codes": Kind(
        "class codes 0 to 12",
        table(lambda d, i: {"text": d.text(), "label": i % 13}),
        *found("classification"),
    ),
    "paths of classes": Kind(
        "categories as paths (Home > Lighting)",
        table(
            lambda d, _: {"title": d.text(), "category": d.choice(["Home > Light", "Home > Garden", "Office > Desk"])}
        ),
        *found("classification", label="category"),
    ),
    "intents": Kind(
        "utterances and intents as JSON Lines",
        table(
            lambda d, _: {"text": d.text(), "intent": d.choice(["refund", "track_order", "cancel"])}, "intents.jsonl"
        ),
        *found("classification", label="intent"),
    ),
    "list of objects": Kind(
        "a .json file that is a list of objects",
        table(lambda d, _: {"text": d.text(), "label": d.choice(["a", "b"])}, "export.json"),
        *found("classification", "text", "label"),
    ),
    # tickets
    "ticket": Kind(
        "tickets: Subject, Body, Queue",
        table(
            lambda d, _: {
                "Subject": d.text(low=4, high=8),
                "Body": d.text(low=30, high=50),
                "Queue": d.choice(["Billing", "Tech", "Sales"]),
            }
        ),
        *found("classification", "Body", "Queue"),
        ("'Subject' is not read", "--text-column Subject --text-column Body"),
    ),
    "ticket with urgency": Kind(
        "tickets: Subject, Body, Queue, Priority",
        table(
            lambda d, _: {
                "Subject": d.text(low=4, high=8),
                "Body": d.text(low=30, high=50),
                "Queue": d.choice(["Billing", "Tech", "Sales"]),
                "Priority": d.choice(["low", "high"]),
            }
        ),
        ASKED,
        ("--label-column", "'Queue'", "'Priority'"),
    ),
    "ticket with named columns": Kind(
        "the same with --label-column Queue --label-column Priority",
        table(
            lambda d, _: {
                "Subject": d.text(low=4, high=8),
                "Body": d.text(low=30, high=50),
                "Queue": d.choice(["Billing", "Tech", "Sales"]),
                "Priority": d.choice(["low", "high"]),
            }
        ),
        FOUND,
        ("multi_column",),
        {"text_column": "Body", "label_columns": ("Queue", "Priority")},
        (),
        ("--label-column", "Queue", "--label-column", "Priority"),
    ),
    "ticket with tags": Kind(
        "tickets with a list of tags, JSON Lines",
        table(
            lambda d, i: {
                "id": i,
                "description": d.text(),
                "tags": d.sample(["refund", "bug", "login", "slow"], d.randint(1, 3)),
            },
            "tickets.jsonl",
        ),
        *found("multi_label", "description", "tags"),
    ),
    "tags with commas": Kind(
        "tags in one cell, with commas between them",
        table(
            lambda d, _: {
                "text": d.text(),
                "tags": ", ".join(d.sample(["refund", "bug", "login", "slow"], d.randint(1, 3))),
            }
        ),
        *found("multi_label", label="tags"),
    ),
    "toxic": Kind(
        "comments with a column of 0 and 1 for each label",
        table(
            lambda d, i: {
                "id": f"{i:016x}",
                "comment_text": d.text(),
                **{name: int(d.random() < 0.3) for name in ("toxic", "obscene", "threat", "insult")},
            }
        ),
        FOUND,
        ("multi_label",),
        {"text_column": "comment_text", "label_columns": ("toxic", "obscene", "threat", "insult")},
    ),
    "emotions": Kind(
        "texts with lists of label numbers, Parquet",
        table(
            lambda d, i: {"text": d.text(), "labels": d.sample(range(6), d.randint(1, 2)), "id": f"e{i}"},
            "emotions.parquet",
        ),
        *found("multi_label", label="labels"),
    ),
    # ratings and numbers
    "amazon": Kind(
        "product reviews: reviewText, overall (1.0 to 5.0), summary",
        table(
            lambda d, i: {
                "reviewerID": f"A{i:07}",
                "asin": f"B{i % 70:05}",
                "reviewText": d.text(low=20, high=40),
                "overall": float(d.randint(1, 5)),
                "summary": d.text(low=2, high=4),
                "unixReviewTime": 1390000000 + 86400 * i,
            },
            "reviews.jsonl",
        ),
        *found("ratings", "reviewText", "overall"),
    ),
    "app store": Kind(
        "app reviews: content, score, thumbsUpCount, at",
        table(
            lambda d, i: {
                "userName": f"{d.name()} {i % 80}",
                "content": d.text(),
                "score": d.randint(1, 5),
                "thumbsUpCount": d.randint(0, 40),
                "at": d.day(),
            }
        ),
        *found("ratings", "content", "score"),
    ),
    "stars in a workbook": Kind(
        "review and stars, an Excel workbook",
        table(lambda d, _: {"review": d.text(), "stars": d.randint(1, 5)}, "reviews.xlsx"),
        *found("ratings", "review", "stars"),
    ),
    "nps": Kind(
        "a survey: comment, nps (0 to 10)",
        table(lambda d, _: {"respondent": d.randint(1000, 9999), "comment": d.text(), "nps": d.randint(0, 10)}),
        *found("ratings", "comment", "nps"),
    ),
    "half stars": Kind(
        "review and rating in halves (0.5 to 5)",
        table(lambda d, _: {"review": d.text(), "rating": d.randint(1, 10) / 2}),
        *found("ratings", label="rating"),
    ),
    "stars in words": Kind(
        "ratings written as words (4 stars)",
        table(lambda d, _: {"review": d.text(), "rating": f"{d.randint(2, 5)} stars"}),
        *found("ratings", label="rating"),
    ),
    "prices": Kind(
        "a price list: title, description, price",
        table(
            lambda d, _: {
                "title": d.text(low=2, high=4),
                "description": d.text(low=12, high=20),
                "price": round(d.uniform(3, 900), 2),
            }
        ),
        *found("regression", "description", "price"),
        ("'title' is not read",),
    ),
    "prices in euros": Kind(
        "prices written as 1.234,50 €",
        table(
            lambda d, _: {
                "description": d.text(),
                "price": f"{d.randint(1, 9)}.{d.randint(100, 999)},{d.randint(10, 99)} €",
            }
        ),
        *found("regression", label="price"),
    ),
    "prices in dollars": Kind(
        "prices written as $1,234.50",
        table(lambda d, _: {"description": d.text(), "price": f"${d.uniform(3, 4999):,.2f}"}),
        *found("regression", label="price"),
    ),
    "salaries": Kind(
        "job advertisements: Job Title, Description, Salary",
        table(
            lambda d, _: {
                "Job Title": d.text(low=2, high=4),
                "Description": d.text(low=20, high=30),
                "Salary": d.randint(200, 1900) * 50,
            },
            "jobs.xlsx",
        ),
        *found("regression", "Description", "Salary"),
    ),
    "essays": Kind(
        "essays and scores with decimals",
        table(
            lambda d, _: {
                "essay_id": d.randint(1, 99999),
                "essay": d.text(low=40, high=60),
                "score": round(d.uniform(0, 6), 2),
            }
        ),
        *found("regression", "essay", "score"),
    ),
    "real labels": Kind(
        "a label between 0 and 1",
        table(lambda d, _: {"text": d.text(), "label": round(d.random(), 3)}),
        *found("regression", label="label"),
    ),
    "likes": Kind(
        "tweets with the numbers of likes and retweets",
        table(lambda d, i: {"tweet": d.text(), "likes": d.randint(0, 5000), "retweets": d.randint(0, 900)}),
        *found("language_modeling", "tweet"),
    ),
    "tonnes": Kind(
        "a text and a number of unknown meaning",
        table(lambda d, _: {"text": d.text(), "tonnes": round(d.uniform(0, 90), 1)}),
        ASKED,
        ("--label-column tonnes",),
    ),
    # pairs
    "snli": Kind(
        "entailment: sentence1, sentence2, gold_label",
        table(
            lambda d, _: {
                "gold_label": d.choice(["entailment", "neutral", "contradiction"]),
                "sentence1": d.text(),
                "sentence2": d.text(),
            },
            "snli.jsonl",
        ),
        REFUSED,
        ("pairs", "--task embedding"),
    ),
    "mnli": Kind(
        "entailment: premise, hypothesis, label",
        table(lambda d, _: {"premise": d.text(), "hypothesis": d.text(), "label": d.randint(0, 2)}, "mnli.parquet"),
        REFUSED,
        ("pairs", "--task embedding"),
    ),
    "three texts": Kind(
        "three texts: text1, text2, text3",
        table(lambda d, _: {f"text{number}": d.text() for number in (1, 2, 3)}),
        ASKED,
        ("text1", "text3", "--text-column"),
    ),
    "stsb": Kind(
        "similarity: sentence1, sentence2, score",
        table(lambda d, _: {"sentence1": d.text(), "sentence2": d.text(), "score": round(d.uniform(0, 5), 2)}),
        REFUSED,
        ("pairs", "--task embedding"),
    ),
    "stsb as embedding": Kind(
        "the same with --task embedding",
        table(lambda d, _: {"sentence1": d.text(), "sentence2": d.text(), "score": round(d.uniform(0, 5), 2)}),
        *found("embedding", "sentence1", "score", second="sentence2"),
        (),
        ("--task", "embedding"),
    ),
    "qqp": Kind(
        "duplicates: question1, question2, is_duplicate",
        table(
            lambda d, i: {
                "id": i,
                "qid1": 2 * i,
                "qid2": 2 * i + 1,
                "question1": d.text(),
                "question2": d.text(),
                "is_duplicate": d.randint(0, 1),
            }
        ),
        REFUSED,
        ("pairs", "'question1'", "'is_duplicate'"),
    ),
    "relevance": Kind(
        "search: query, product, relevance",
        table(lambda d, _: {"query": d.text(low=2, high=4), "product": d.text(), "relevance": d.randint(1, 4)}),
        REFUSED,
        ("pairs", "'query'", "'relevance'"),
    ),
    "queries": Kind(
        "search: query, passage, without a judgement",
        table(lambda d, _: {"query": d.text(low=3, high=6), "passage": d.text(low=20, high=30)}),
        ASKED,
        ("--task embedding", "--task text_to_text", "--text-column"),
    ),
    "triplets": Kind(
        "anchor, positive, negative",
        table(lambda d, _: {"anchor": d.text(), "positive": d.text(), "negative": d.text()}),
        ASKED,
        ("'anchor'", "'positive'", "'negative'"),
    ),
    # questions
    "squad": Kind("SQuAD's .json", squad, REFUSED, (".json",)),
    "squad rows": Kind(
        "SQuAD's rows: id, title, context, question, answers",
        table(
            lambda d, i: {
                "id": f"q{i}",
                "title": "Box",
                "context": f"In the box. {d.text(low=30, high=40)}",
                "question": d.text(),
                "answers": {"text": ["the box"], "answer_start": [3]},
            },
            "squad.parquet",
        ),
        REFUSED,
        ("'answers'", "answering questions"),
    ),
    "faq": Kind(
        "questions and answers in one language",
        table(lambda d, _: {"question": d.text(low=5, high=9), "answer": d.text()}),
        ASKED,
        ("--task text_to_text", "--task translation", "--task embedding"),
    ),
    "faq in a workbook": Kind(
        "the same with a category, an Excel workbook",
        table(
            lambda d, _: {
                "Category": d.choice(["Orders", "Returns"]),
                "Question": d.text(low=5, high=9),
                "Answer": d.text(),
            },
            "faq.xlsx",
        ),
        ASKED,
        ("--task text_to_text", "--task embedding"),
    ),
    "multiple choice": Kind(
        "question, choices A to D, the letter of the answer",
        table(
            lambda d, _: {
                "question": d.text(),
                **{letter: d.text(low=2, high=4) for letter in "ABCD"},
                "answer": d.choice("ABCD"),
            }
        ),
        *found("classification", "question", "answer"),
    ),
    # tagged tokens
    "conll2003": Kind(
        "CoNLL-2003",
        text("eng.train", lambda d: conll(d, before="-DOCSTART- -X- -X- O\n\n")),
        *found("token_classification"),
    ),
    "conll columns": Kind(
        "a token, a tab and its tag on each line",
        text("train.conll", lambda d: conll(d, "{word}\t{tag}\n")),
        *found("token_classification"),
    ),
    "iob": Kind(
        "IOB2 with other columns between",
        text("train.iob2", lambda d: conll(d, "{number}\t{word}\t_\t{tag}\n")),
        *found("token_classification"),
    ),
    "conllu": Kind(
        "CoNLL-U",
        text("train.conllu", lambda d: conll(d, "{number}\t{word}\t_\t{pos}\t_\t_\t0\troot\t_\t_\n")),
        *found("token_classification"),
    ),
    "a word a row": Kind(
        "a table with a token in each row",
        table(
            lambda d, i: {
                "Sentence #": i // 9,
                "Word": d.choice(ENGLISH + NAMES),
                "POS": "NN",
                "Tag": d.choice(["O", "O", "B-PER", "B-LOC"]),
            }
        ),
        REFUSED,
        (".conll", "'Tag'"),
    ),
    "lists of tokens": Kind(
        "tokens and ner_tags as lists, JSON Lines",
        table(tokens, "ner.jsonl"),
        *found("token_classification", "tokens", "ner_tags"),
    ),
    "spans": Kind(
        "texts and spans, as Doccano exports them",
        table(spans, "doccano.jsonl"),
        *found("token_classification", "text", "label"),
    ),
    # conversations and preferences
    "messages": Kind(
        "conversations with messages", table(chat, "chat.jsonl"), FOUND, ("language_modeling",), said=("messages",)
    ),
    "sharegpt": Kind(
        "conversations of ShareGPT",
        table(sharegpt, "sharegpt.jsonl"),
        FOUND,
        ("language_modeling",),
        said=("ShareGPT",),
    ),
    "alpaca": Kind(
        "instruction, input, output",
        table(
            lambda d, _: {"instruction": d.text(low=4, high=8), "input": d.text(), "output": d.text()}, "alpaca.jsonl"
        ),
        ASKED,
        ("--task dialogue", "--task text_to_text", "--from"),
    ),
    "completions": Kind(
        "prompt, completion",
        table(lambda d, _: {"prompt": d.text(), "completion": d.text()}, "completions.jsonl"),
        ASKED,
        ("--task dialogue", "--task text_to_text", "--from"),
    ),
    "dpo": Kind(
        "preferences: prompt, chosen, rejected",
        table(lambda d, _: {"prompt": d.text(), "chosen": d.text(), "rejected": d.text()}, "dpo.jsonl"),
        REFUSED,
        ("preferences", "'chosen'", "'rejected'"),
    ),
    "hh": Kind(
        "preferences without prompts: chosen, rejected",
        table(lambda d, _: {"chosen": d.text(), "rejected": d.text()}, "hh.jsonl.gz"),
        REFUSED,
        ("preferences",),
    ),
    "kto": Kind(
        "prompt, completion and a label of each",
        table(lambda d, _: {"prompt": d.text(), "completion": d.text(), "label": d.choice([True, False])}, "kto.jsonl"),
        REFUSED,
        ("pairs",),
    ),
    # translations and other targets
    "languages": Kind(
        "two columns called like languages",
        table(lambda d, _: {"en": d.text(), "de": d.text(GERMAN)}, "en-de.tsv"),
        *found("translation", "en", second="de"),
    ),
    "wmt": Kind(
        "objects of languages, JSON Lines",
        table(lambda d, _: {"translation": {"en": d.text(), "de": d.text(GERMAN)}}, "wmt.jsonl"),
        *found("translation"),
    ),
    "aligned": Kind(
        "two aligned files, train.en and train.de",
        both(lines("train.en", Draw.text), lines("train.de", lambda d: d.text(GERMAN))),
        *found("translation"),
    ),
    "source and target": Kind(
        "source, target in two languages",
        table(lambda d, _: {"source": d.text(), "target": d.text(GERMAN)}),
        *found("translation", "source", second="target"),
        ("frequent words",),
    ),
    "two scripts": Kind(
        "source, target in two scripts",
        table(lambda d, _: {"src": d.text(), "tgt": " ".join(d.choices(RUSSIAN, k=9))}),
        *found("translation"),
        ("Latin and Cyrillic",),
    ),
    "corrections": Kind(
        "source, target in one language",
        table(lambda d, _: {"source": d.text(), "target": d.text()}),
        ASKED,
        ("--task text_to_text", "--task translation", "--task embedding"),
    ),
    "summaries": Kind(
        "text, summary",
        table(lambda d, _: {"text": d.text(low=30, high=50), "summary": d.text()}),
        ASKED,
        ("--task text_to_text", "--task translation", "--task embedding"),
    ),
    "aligned in one language": Kind(
        "two aligned files, train.src and train.tgt, in one language",
        both(lines("train.src", Draw.text), lines("train.tgt", Draw.text)),
        ASKED,
        ("--task text_to_text", "--task translation"),
    ),
    "aligned, named alike": Kind(
        "two files of as many lines whose names say nothing",
        both(lines("part.one", Draw.text), lines("part.two", Draw.text)),
        ASKED,
        ("--task translation", "--task language_modeling"),
    ),
    # running text
    "book": Kind(
        "a book as .txt", lines("book.txt", lambda d: d.text().capitalize() + "."), FOUND, ("language_modeling",)
    ),
    "one column": Kind(
        "a table with one column of texts",
        table(lambda d, _: {"text": d.text()}),
        *found("language_modeling", "text"),
    ),
    "posts": Kind(
        "posts: id, date, title, body",
        table(
            lambda d, i: {"id": i, "date": d.day(), "title": d.text(low=3, high=5), "body": d.text(low=30, high=50)},
            "posts.parquet",
        ),
        *found("language_modeling", "body"),
    ),
    "log": Kind(
        "a log of lines",
        lines("server.log", lambda d: f"{d.day()} 12:00:01 INFO [worker-1] {d.text()}"),
        *found("language_modeling"),
    ),
    "log as a table": Kind(
        "a log as a table: time, level, message",
        table(
            lambda d, i: {
                "time": f"{d.day()}T12:00:{i % 60:02}",
                "level": d.choice(["INFO", "WARN", "ERROR"]),
                "message": d.text(),
            }
        ),
        *found("classification", "message", "level"),
    ),
    "key and value": Kind(
        "lines of a key and a value",
        lines("facts.txt", lambda d: f"{d.choice(GOODS)}: {d.text()}"),
        *found("language_modeling"),
    ),
    "markdown": Kind(
        "a folder of .md files",
        folder_of(*(text(f"page{i}.md", lambda d: f"# Page\n\n{d.text()}\n" * 9) for i in range(8))),
        REFUSED,
        ("page0.md", "name the file"),
    ),
    "subtitles": Kind(
        "subtitles, .srt",
        lines("film.srt", lambda d: f"{d.randint(1, 99)}\n00:01:02,000 --> 00:01:04,000\n{d.text()}\n"),
        *found("language_modeling"),
    ),
    # images
    "images": Kind("a folder of images for each class", images, FOUND, ("image_classification",)),
    "arrays": Kind("images and labels, .npz", arrays, FOUND, ("image_classification",)),
    # nothing to learn from
    "iris": Kind(
        "measurements and a class, without texts",
        table(
            lambda d, _: {
                **{name: round(d.uniform(0, 8), 1) for name in ("sepal_length", "sepal_width")},
                "species": d.choice(["setosa", "virginica"]),
            }
        ),
        REFUSED,
        ("no column holds texts", "species"),
    ),
    "series": Kind(
        "a time series: date, value",
        table(lambda d, _: {"date": d.day(), "value": round(d.random(), 4)}),
        REFUSED,
        ("no column holds texts",),
    ),
    "three sheets": Kind(
        "a workbook with three sheets",
        lambda folder: _workbook(folder / "b.xlsx", rows(lambda d, _: {"text": d.text(), "label": d.choice("ab")}), 3),
        REFUSED,
        ("sheets",),
    ),
    "pdf": Kind("a PDF", blob("report.pdf", b"%PDF-1.7\n" + BINARY), REFUSED, ("PDF", "save it as .txt")),
    "word": Kind("a document of Word", word, REFUSED, ("Word file", "plain text")),
    "pickle": Kind("a pickle", blob("data.pkl", b"\x80\x04\x95" + BINARY), REFUSED, ("binary file",)),
}


ROLES = {"text_column": "text", "second_column": "second text", "label_column": "label", "label_columns": "labels"}


def markdown() -> str:
    """The table for docs."""
    lines = ["| file | answer | task and columns, or what the message names |", "|---|---|---|"]
    for kind in KINDS.values():
        columns = [f"{ROLES[role]} {_code(name)}" for role, name in kind.columns.items()]
        lines.append(f"| {kind.what} | {kind.answer} | {', '.join([*map(_code, kind.shown), *columns])} |")
    return "\n".join(lines)


def _code(shown: str | tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in ([shown] if isinstance(shown, str) else shown))


if __name__ == "__main__":
    for name, kind in KINDS.items():
        place = Path(sys.argv[1]) / name.replace(" ", "-")
        place.mkdir(parents=True)
        print(name, kind.write(place))
