"""The model card of an export for Hugging Face, README.md: what ``headway.json`` says of the model, in its own words.

The fields of its front matter are those of the hub (``huggingface_hub.ModelCardData``).  Paths on this machine are not
written, only the names of files.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from headway import __version__
from headway.formats.ctranslate2.engine import engine_class
from headway.formats.hf.export import loader_of
from headway.formats.onnx.engine import DECODER, ENCODER, MODEL
from headway.formats.parity import Parity
from headway.formats.subject import Subject, refusals
from headway.hub.directory import family_of
from headway.hub.download import is_hub_id, model_name
from headway.hub.sentence_transformers import without_modules
from headway.io.quantities import rows_in_words
from headway.models.heads import Gives
from headway.models.transformer import Decoder, EncoderDecoder
from headway.reports.record import Record
from headway.reports.verdict import verdict, verdict_of
from headway.reports.wording import decimal
from headway.tasks.registry import known, task_named
from headway.tasks.spec import TaskSpec

FILE = "README.md"
HUB_NAMES = {"macro_f1": "f1"}
"""A metric's key -> its name in the hub's model index, where it is another."""
OF_FILES = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet", ".md")
POOLED = {
    "mean": "(tokens * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)",
    "first": "tokens[:, 0]",
    "last": "tokens[range(len(tokens)), mask.sum(dim=1) - 1]",
}
"""How torch makes a vector of those of a text's tokens."""


def card(
    subject: Subject,
    facts: Mapping[str, Any],
    task: str,
    parity: Parity,
    place: str,
    *,
    format: str,
    license: str | None,
) -> str:
    """The text of README.md.  ``place`` is what other programs load: OWNER/NAME, or a directory's name.

    ``facts`` is headway.json of the run, empty for a model of other origin; ``license`` is the one that the user gives.
    Of an ensemble it is that of the member which is written, with ``ensemble``, what answers in the run itself.
    """
    spec, record, name = known(task), Record(info=dict(facts)), place.rpartition("/")[2]
    measured = _measured(record, task)
    library = "peft" if format == "peft" else _library(parity)
    front = _front_matter(record, spec, measured, name, library, license)
    parts = [front, f"# {name}", " ".join(_origin(facts, spec.title, subject))]
    if facts:
        parts += ["## Data", _list(_data(facts)), "## Results", verdict(record), _results(record, spec, measured)]
        parts += ["## Limits", _list(_limits(facts, record, subject))]
    parts += ["## Use", *_uses(subject, parity, place, format, facts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _measured(record: Record, task: str) -> dict[str, float]:
    """The task's metrics that the run has."""
    values = {metric.key: record.metrics.get(metric.key) for metric in known(task).metrics}
    return {key: value for key, value in values.items() if isinstance(value, int | float)}


def _front_matter(
    record: Record, spec: TaskSpec, measured: Mapping[str, float], name: str, library: str, license: str | None
) -> str:
    """The hub's fields, the results on the held-out data as its model index wants them among them."""
    base, tag = (record.info.get("base") or {}).get("path", ""), task_named(spec.name).pipeline_tag
    inputs, judged = (record.info.get("data") or {}).get("inputs", []), verdict_of(record)
    index = []
    if measured and inputs:
        kind = inputs[0].partition("@")[0] if _is_id(inputs[0]) else "custom"
        metrics = [
            {"type": HUB_NAMES.get(key, key), "value": value, "name": spec.metric(key).name + _interval(judged, key)}
            for key, value in measured.items()
        ]
        dataset = {"type": kind, "name": ", ".join(map(_file, inputs))}
        result = {"task": {"type": tag, "name": spec.title}, "dataset": dataset, "metrics": metrics}
        index.append({"name": name, "results": [result]})
    fields: dict[str, Any] = {
        "license": license,
        "library_name": library.replace("_", "-"),
        "pipeline_tag": tag,
        "tags": ["headway"],
        "base_model": base if _is_id(base) else None,
        "datasets": [entry.partition("@")[0] for entry in inputs if _is_id(entry)],
        "metrics": [HUB_NAMES.get(key, key) for key in measured],
        "model-index": index,
    }
    return "\n".join(["---", *_yaml({key: value for key, value in fields.items() if value}), "---"])


def _yaml(value: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """Objects, lists and values as lines of YAML; a text is written as in JSON, which YAML reads alike."""
    space = " " * indent
    for key, entry in value.items():
        if not isinstance(entry, dict | list):
            yield f"{space}{key}: {json.dumps(entry, ensure_ascii=False)}"
            continue
        yield f"{space}{key}:"
        if isinstance(entry, dict):
            yield from _yaml(entry, indent + 2)
            continue
        for one in entry:
            if isinstance(one, dict):
                first, *rest = _yaml(one, indent + 2)
                yield from (f"{space}- {first.lstrip()}", *rest)
            else:
                yield f"{space}- {json.dumps(one, ensure_ascii=False)}"


def _origin(facts: Mapping[str, Any], title: str, subject: Subject) -> Iterator[str]:
    parameters = sum(p.numel() for p in subject.model.parameters())
    yield f"{title}, {parameters:,} parameters."
    if not facts:
        yield f"It was written by Headway {__version__}."
        return
    base = (facts.get("base") or {}).get("path")
    start = "from scratch" if base is None else f"from {model_name(base)}"
    updates = (facts.get("plan") or {}).get("lora")
    how = f" by low-rank updates of rank {updates} (LoRA)" if updates else ""
    if fitted := facts.get("fitted"):
        tuned = fitted.get("tuning")
        first = f"{tuned['steps']} steps of contrastive tuning on pairs of rows (SetFit) and " if tuned else ""
        how = f" by {first}a logistic regression on its vectors"
    yield f"It was trained {start}{how} with Headway {facts.get('headway', __version__)}."
    if whole := facts.get("ensemble"):
        spec, answers = known(facts["task"]), _measured(Record(info={"metrics": whole["metrics"]}), facts["task"])
        figures = ", ".join(f"{spec.metric(key).name} {decimal(value)}" for key, value in answers.items())
        yield f"It has the lowest validation loss of {whole['members']} models; the run answers with the mean of all."
        yield f"Figures of that mean: {figures}."
    if labels := facts.get("labels"):
        yield f"Its labels: {', '.join(labels[:20])}{', ...' if len(labels) > 20 else ''}."


def _data(facts: Mapping[str, Any]) -> Iterator[str]:
    data = facts.get("data") or {}
    yield f"input: {', '.join(_file(name) for name in data.get('inputs', []))}"
    for key, words in (("train", "trained on"), ("validation", "held out")):
        if data.get(key):
            yield f"{words}: {data[key]}"
    if data.get("rows"):
        yield rows_in_words(data["rows"])
    if classes := data.get("classes"):
        yield "rows by label: " + ", ".join(f"{name} {count:,}" for name, count in list(classes.items())[:20])
    if data.get("fingerprint"):
        yield f"fingerprint (SHA-256): {data['fingerprint']}"


def _results(record: Record, spec: TaskSpec, measured: Mapping[str, float]) -> str:
    """A table of the model and its baselines on the held-out data; the headline metric with its interval."""
    if not measured:
        return ""
    judged = verdict_of(record)
    rows = [["", *(spec.metric(key).name for key in measured)], ["---"] * (len(measured) + 1)]
    for line in record.baselines:
        cells = (decimal(line[key]) if isinstance(line.get(key), int | float) else "" for key in measured)
        rows.append([str(line.get("name")), *cells])
    rows.append(["**this model**", *(decimal(value) + _interval(judged, key) for key, value in measured.items())])
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


def _interval(judged: Mapping[str, Any], key: str) -> str:
    """The interval of the headline metric, to go on from its name or its value; empty for another metric."""
    if key != judged.get("metric") or not judged.get("interval"):
        return ""
    low, high = judged["interval"]
    return f" (95 % interval {decimal(low)} to {decimal(high)})"


def _limits(facts: Mapping[str, Any], record: Record, subject: Subject) -> Iterator[str]:
    yield "The results are of held-out data of the same source; on other data they may be worse."
    judged = verdict_of(record)
    if judged.get("result") == "constant":
        yield "It gives one answer for everything: it has learnt nothing."
    if judged.get("result") in ("too few", "undecided", "worse"):
        yield f"It is not shown to be better than the baseline: {judged.get('against')}."
    length = getattr(subject.pipe, "max_length", None) or getattr(subject.model.config, "max_length", None)
    if subject.tokenizer is not None and length:
        yield f"It reads at most {length:,} tokens at a time."
    yield from (f"{warning[0].upper()}{warning[1:]}." for warning in (facts.get("data") or {}).get("warnings", []))


def _uses(subject: Subject, parity: Parity, place: str, format: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """How to load it in each program that can."""
    if folders := [folder for folder in subject.parts if folder]:
        yield f"Each column is a model of its own, in a folder: {', '.join(folders)}."
        place = f"{place}/{folders[0]}"
    door, base = parity.door or "", (facts.get("base") or {}).get("path", "BASE")
    if format == "peft":
        call = door.replace("BASE", json.dumps(base if _is_id(base) else _file(base))).replace("DIR", json.dumps(place))
        yield _code("peft", "python", *filter(None, _on_its_base(subject, call, place)))
    elif door:
        name, call = door.partition("(")[0].partition(".")[0], door.replace("DIR", json.dumps(place))
        library = _library(parity)
        lines = f"from {library} import {name}", "", f"model = {call}"
        yield _code(library.replace("_", "-"), "python", *lines)
    yield _code("Headway", "python", "import headway", "", f"model = headway.load({json.dumps(place)})")
    refused = refusals(subject.model, subject.tokenizer, subject.pipe)
    if refused["gguf"] is None:
        run = f"llama-{'completion' if isinstance(subject.model, Decoder) else 'embedding'} -m gguf/model.gguf"
        yield _code("llama.cpp", "sh", f"headway export {place} --to gguf --out gguf", f'{run} -p "a text"')
    if refused["ctranslate2"] is None:
        command = f"# headway export {place} --to ctranslate2 --out ct2"
        opened = f'model = ctranslate2.{engine_class(subject.model).opener}("ct2")'
        yield _code("CTranslate2", "python", command, "import ctranslate2", "", opened)
    if refused["onnx"] is None and not folders:
        command = f"# headway export {place} --to onnx --out onnx"
        files = (ENCODER, DECODER) if isinstance(subject.model, EncoderDecoder) else (MODEL,)
        sessions = [f'{file.partition(".")[0]} = onnxruntime.InferenceSession("onnx/{file}")' for file in files]
        yield _code("ONNX Runtime", "python", command, "import onnxruntime", "", *sessions)


def _on_its_base(subject: Subject, call: str, place: str) -> Iterator[str]:
    """How PEFT puts an adapter on its base, and how ``transformers`` answers with that; ``call`` makes the model."""
    model, head = cast(Any, without_modules(subject.model))
    name, kind = ("image_processor", "ImageProcessor") if subject.tokenizer is None else ("tokenizer", "Tokenizer")
    answers = loader_of(subject, family_of(model)[1]["architectures"][0]).words
    piped = ", pipeline" if answers.startswith("pipeline(") else ""
    pools = head is not None and head.gives is Gives.VECTOR
    yield f"{'import torch' if pools else ''}\nfrom peft import PeftModel".strip()
    yield f"from transformers import Auto{kind}, {call.partition('(')[2].partition('.')[0]}{piped}\n"
    yield f"model = {call}.merge_and_unload()\n{name} = Auto{kind}.from_pretrained({json.dumps(place)})"
    if labels := getattr(subject.pipe, "labels", None):
        yield f"model.config.id2label = {dict(enumerate(labels))}"
    if piped:
        yield f"answer = {answers.replace('DIR', f'model=model, {name}={name}')}"
    if pools:
        yield 'texts = tokenizer(["a text", "another one"], padding=True, truncation=True, return_tensors="pt")'
        yield "with torch.no_grad():\n    tokens, mask = model(**texts).last_hidden_state, texts['attention_mask']"
        yield f"vectors = {POOLED[head.pooling]}"
        yield "vectors = torch.nn.functional.normalize(vectors, dim=-1)" if head.normalise else ""


def _library(parity: Parity) -> str:
    return "sentence_transformers" if (parity.door or "").startswith("SentenceTransformer") else "transformers"


def _code(title: str, language: str, *lines: str) -> str:
    return "\n".join([f"With {title}:", "", f"```{language}", *lines, "```"])


def _list(lines: Iterator[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _is_id(name: str) -> bool:
    """Whether a name is an id of the hub; one of a file that is not here looks like one."""
    return is_hub_id(name) and Path(name).suffix.lower() not in OF_FILES


def _file(name: str) -> str:
    """The name of a file without the folders of this machine; an id of the hub as it is."""
    return name if _is_id(name) else Path(name).name or name
