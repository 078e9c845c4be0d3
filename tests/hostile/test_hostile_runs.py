"""A run directory that others made, or that a disk spoiled: one message or the same answer, from every verb."""

import copy
import json
import os
import shutil
import time
from functools import partial

import pytest

import headway.workflows.export
import headway.workflows.verify.verify  # the 2 s of a refusal are those after the imports
from headway.data.batches.cache import tokenised
from headway.errors import InputError
from headway.reports.report import write_report
from headway.training.base import load_base
from headway.training.options import TrainOptions
from headway.training.store.contents import read_log
from headway.training.store.facts import CHECKSUM, FILES, read_facts, write_facts
from headway.workflows.load import load


def words_of(run):
    """The options that a run was made with, but for its steps."""
    defaults, chosen = TrainOptions(), read_facts(run)["options"]
    said = {name: value for name, value in chosen.items() if name not in ("steps", "time") and value is not None}
    return [
        word
        for name, value in said.items()
        if value != defaults.value(name)
        for word in (f"--{name.replace('_', '-')}", *([] if value is True else [value]))
    ]


KINDS = [None, True, -1, 10**30, 1e308, "", "x", [], {}, [None], {"a": None}, [[1]], ["../x"]]
FILES_OF_A_RUN = ["headway.json", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]


def places(value, depth=3):
    """The way to every value of a document."""
    if depth and isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 1)):
            yield (key,)
            yield from ((key, *more) for more in places(value[key], depth - 1))


def changed(facts, way, value):
    """A copy with another value in one place."""
    found = copy.deepcopy(facts)
    holder = found
    for key in way[:-1]:
        holder = holder[key]
    holder[way[-1]] = value
    return found


def check_message(status, err):
    said = [line for line in err.splitlines() if line.startswith("headway: ") and "warning: " not in line]
    assert status in (0, 2) and len(said) == (status == 2) and "Traceback" not in err, (status, err[-900:])


@pytest.mark.parametrize("run_name", ["lm_run", "classifier_run"])
def test_every_field_of_headway_json_of_every_kind(run_name, request, tmp_path, in_process):
    """What passes the reader is used; nothing that passes it ends in a traceback."""
    run = shutil.copytree(request.getfixturevalue(run_name), tmp_path / "run")
    facts = read_facts(run)
    passed = []
    for way in list(places({key: value for key, value in facts.items() if key != FILES})):
        for value in KINDS:
            (run / "headway.json").write_text(json.dumps(changed(facts, way, value)))
            try:
                read_facts(run)
                passed.append((way, value))
            except InputError as error:
                assert str(error).startswith(str(run / "headway.json")) and len(str(error)) < 600
    read = ("data", "members", "best_member", "task", "validation", "metrics", "base")
    tried = [one for one in passed if one[0][0] in read]
    assert len(tried) > 10
    for way, value in tried:
        (run / "headway.json").write_text(json.dumps(changed(facts, way, value)))
        status, _, err = in_process("evaluate", run, "--json")
        check_message(status, err)


@pytest.mark.parametrize("verb", ["evaluate", "classify", "train"])
def test_another_file_in_the_place_of_headway_json_is_one_message(verb, classifier_run, rows, tmp_path, in_process):
    """A file that is valid JSON and says nothing of a run is no run of an earlier version."""
    run = shutil.copytree(classifier_run, tmp_path / "run")
    (run / "log.jsonl").unlink()
    shutil.copy(run / "tokenizer_config.json", run / "headway.json")
    words = {"evaluate": ["evaluate", run, rows], "classify": ["classify", run, "a text"]}
    status, _, err = in_process(*words.get(verb, ["train", rows, "--out", run, "--steps", "20"]))
    check_message(status, err)
    assert status == 2 and "names no task" in err


@pytest.mark.parametrize(
    "change",
    [
        {"data": None},
        {"data": {"inputs": 7}},
        {"options": []},
        {"plan": {"length": -5}},
        {"plan": {"model": {"d_model": 10**9, "vocab_size": -1}}},
        {"members": ["../../etc"]},
        {"files": {"../../etc/passwd": "0"}},
        {"metrics": {"val_loss": "NaN"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", ["evaluate", "generate", "verify", "explain", "export", "train", "from"])
def test_a_senseless_record_is_one_message_soon(change, verb, lm_run, corpus, tmp_path, in_process):
    run = shutil.copytree(lm_run, tmp_path / "run")
    facts = read_facts(run)
    whole = {key: {**facts[key], **value} if key == "plan" else value for key, value in change.items()}
    (run / "headway.json").write_text(json.dumps({**facts, **whole}))
    words = {
        "generate": ["generate", run, "the", "--max-tokens", "1"],
        "export": ["export", run, "--out", tmp_path / "out"],
        "train": ["train", corpus, "--out", run, "--steps", "20"],
        "from": ["train", corpus, "--from", run, "--steps", "1", "--out", tmp_path / "out"],
    }
    began = time.process_time()
    status, _, err = in_process(*words.get(verb, [verb, run]))
    check_message(status, err)
    assert status == 2 and "headway.json" in err and time.process_time() - began < 2


@pytest.mark.parametrize("name", FILES_OF_A_RUN)
def test_one_bit_of_a_finished_run(name, classifier_run, tmp_path, in_process):
    """Damage is a message, not another answer."""
    run = shutil.copytree(classifier_run, tmp_path / "run")
    content = bytearray((run / name).read_bytes())
    at = content.index(b'"seed": 0') + 8 if name == "headway.json" else len(content) // 2
    content[at] ^= 1
    (run / name).write_bytes(content)
    for words in (["evaluate", run], ["classify", run, "a good cat"], ["export", run, "--out", tmp_path / "out"]):
        status, _, err = in_process(*words)
        check_message(status, err)
        assert status == 2 and str(run / name) in err and "damaged" in err


@pytest.mark.parametrize("name", [*FILES_OF_A_RUN, "log.jsonl", "report.html"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "endless", "empty"])
def test_a_file_of_a_run_that_is_none(name, kind, lm_run, corpus, tmp_path, in_process):
    run = shutil.copytree(lm_run, tmp_path / "run")
    path = run / name
    path.unlink()
    make = {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "loop": lambda: path.symlink_to(name)}
    make |= {"endless": lambda: path.symlink_to("/dev/zero"), "empty": path.touch}
    make[kind]()
    for words in (["evaluate", run], ["train", corpus, "--out", run, "--steps", "20"]):
        status, _, err = in_process(*words)
        check_message(status, err)


def test_headway_json_vouches_for_the_files_of_a_finished_run(lm_run, tmp_path):
    """And says what to do for one who changed a file on purpose: without headway.json nothing is compared."""
    facts = json.loads((lm_run / "headway.json").read_text())
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(facts[FILES]) and CHECKSUM in facts
    run = shutil.copytree(lm_run, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config, indent=7))
    with pytest.raises(InputError, match=r"config\.json: is damaged: it has changed .* remove headway\.json"):
        headway.load(run)
    (run / "headway.json").unlink()
    assert headway.load(run).task == "language_modeling"


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 10**6 + b"\n",
        b'{"event": "step", "step": 1, "loss": ' + b"[" * 99_000 + b"]" * 99_000 + b"}\n",
        b'{"event": "step", "step": 1, "loss": NaN}\n{"event": "step", "step": 1e999, "loss": 1}\n',
        b"7\n[]\nnull\n\xff\xfe\n\0\0\n",
        b'{"event": ["step"], "step": {}}\n{"event": "evaluation", "step": "x"}\n',
        b'{"event": "step", "step": 1, "loss": ' + b"9" * 10**6 + b"}\n",
    ],
    ids=["nested", "deep", "nan", "others", "kinds", "digits"],
)
def test_a_log_of_anything(content, lm_run, tmp_path):
    run = shutil.copytree(lm_run, tmp_path / "run")
    with (run / "log.jsonl").open("ab") as file:
        file.write(content)
    before = len(read_log(lm_run))
    assert before <= len(read_log(run)) <= before + 2
    write_report(run)


def test_a_log_without_end(lm_run, tmp_path):
    """One line of a terabyte, and a log of very many lines: the end is read."""
    run = shutil.copytree(lm_run, tmp_path / "run")
    with (run / "log.jsonl").open("r+b") as file:
        file.seek(2**40)
        file.write(b'\n{"event": "end", "step": 20}\n')
    began = time.process_time()
    assert read_log(run) == [{"event": "end", "step": 20}]
    write_report(run)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("suffix", [".tokens", ".json"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "loop"])
def test_a_file_of_the_cache_that_is_none(suffix, kind, tmp_path):
    """It is written again; a pipe is not waited for."""
    encode = lambda texts: [list(text.encode()) for text in texts]  # noqa: E731
    given = {"end_of_text": None, "vocab_size": 300, "key": "k", "directory": tmp_path}
    before = tokenised([("the cat", True)], encode, **given).tolist()
    path = tmp_path / f"k{suffix}"
    path.unlink()
    make = {"pipe": lambda: os.mkfifo(path), "loop": lambda: path.symlink_to(path.name)}
    {**make, "endless": lambda: path.symlink_to("/dev/zero")}[kind]()
    assert tokenised([("the cat", True)], encode, **given).tolist() == before


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("name", ["tensors.safetensors", "MANIFEST.json", "state.json"])
def test_what_is_no_regular_file_in_a_checkpoint_is_never_waited_for(kind, name, lm_run, corpus, tmp_path, in_process):
    run = shutil.copytree(lm_run, tmp_path / "run")
    file = next((run / "checkpoints").glob(f"step-*/{name}"))
    file.unlink()
    {"pipe": partial(os.mkfifo, file), "device": partial(file.symlink_to, "/dev/zero"), "folder": file.mkdir}[kind]()
    steps = str(read_facts(run)["steps"] + 2)
    status, _, err = in_process("train", corpus, *words_of(lm_run), "--steps", steps, "--out", run, "--allow-changes")
    check_message(status, err)
    assert status == 2 and f"{name} is not a regular file" in err


def test_a_run_does_not_go_on_with_another_tokenizer(lm_run, corpus, tmp_path, in_process):
    """Of a finished run and of one that was stopped."""
    facts = read_facts(lm_run)
    for finished in (True, False):
        run = shutil.copytree(lm_run, tmp_path / f"run-{finished}")
        write_facts(run, {**facts, "finished": finished})
        text = json.loads((run / "tokenizer.json").read_text())
        (run / "tokenizer.json").write_text(json.dumps({**text, "version": "1.1"}))
        words = ["--steps", str(facts["steps"] + 2), "--out", run, "--allow-changes"]
        status, _, err = in_process("train", corpus, *words_of(lm_run), *words)
        check_message(status, err)
        assert status == 2 and "tokenizer.json: is damaged: it has changed since training wrote it" in err


def test_a_folder_in_the_place_of_cached_tokens_is_one_message(corpus, tmp_path, in_process, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    words = ["train", corpus, "--d-model", "16", "--layers", "1", "--heads", "2", "--steps", "2", "--out"]
    assert in_process(*words, tmp_path / "one")[0] == 0
    file = next((tmp_path / "cache").glob("*.tokens"))
    file.unlink()
    file.mkdir()
    status, _, err = in_process(*words, tmp_path / "two")
    check_message(status, err)
    assert status == 2 and f"{file}: this is a folder where the cache needs a file" in err


@pytest.mark.parametrize("left", ["log.jsonl", "report.html", "checkpoints"])
def test_a_run_without_its_headway_json_says_that_nothing_can_be_compared(left, classifier_run, tmp_path):
    """Also where most of what tells a run from any model is gone with it (found by an hour of fuzz)."""
    run = shutil.copytree(classifier_run, tmp_path / "run")
    (run / "checkpoints").mkdir(exist_ok=True)
    for name in {"headway.json", "log.jsonl", "report.html", "checkpoints"} - {left}:
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink(missing_ok=True)
    for use in (load, load_base):
        with pytest.warns(UserWarning, match=r"headway\.json is missing, so damage to its files cannot be detected"):
            use(str(run))
