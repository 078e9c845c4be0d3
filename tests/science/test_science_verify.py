"""``verify``: a model of each kind keeps its promises; what is broken on purpose fails its own check and no other."""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import made_pairs
from safetensors.torch import load_file, save_file

import headway
from headway.errors import InputError
from headway.hub.directory import save_model
from headway.models import transformer
from headway.nn.state import KeyValueCache, State
from headway.tasks.checks import ROWS
from headway.training.loop.thread_parallel import ThreadParallel
from headway.training.progress import NoProgress
from headway.training.store.facts import read_facts
from headway.workflows.command import Command
from headway.workflows.verify import resume
from headway.workflows.verify.check import Check, Subject, difference, worst
from headway.workflows.verify.resume import own_data, replay
from headway.workflows.verify.verify import check_checkpoints, verify

SKIPPED = {"classifier": {"cache"}, "masked": {"cache"}, "embedder": {"cache", "accumulation"}}
NAMES = ["cache", "batch", "precision", "engines", "accumulation", "export", "checkpoints", "resume"]
SMALL: dict[str, Any] = {
    **{"d_model": 16, "layers": 2, "heads": 2, "batch_tokens": 128, "steps": 6, "threads": 1, "dropout": 0.1},
    **{"precision": "float32", "evaluations": 1, "quiet": True},
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return made_pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def runs(
    corpus: Path, rows: Path, pairs: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """A run of each kind, trained when it is first asked for; look, but do not write."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    table = folder / "pairs.csv"
    sources = pairs[0].read_text().splitlines()
    table.write_text("first,second\n" + "".join(f"{n} {text},{text.upper()} {n}\n" for n, text in enumerate(sources)))
    data: dict[str, tuple[Any, dict[str, Any]]] = {
        "language model": (corpus, {"length": 32}),
        "classifier": (rows, {"length": 32}),
        "masked": (corpus, {"length": 32, "task": "masked_lm"}),
        "embedder": (table, {"length": 32, "task": "embedding"}),
        "translator": (pairs, {"vocab": 300}),
        "decoder": (pairs, {"vocab": 300, "model": "decoder"}),
    }

    def run(kind: str) -> Path:
        if kind not in made:
            given, options = data[kind]
            made[kind] = folder / kind.replace(" ", "-")
            headway.train(given, out=made[kind], **{**SMALL, **options})
        return made[kind]

    return run


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def nothing_left(scratch: Path) -> bool:
    """Whether all that was made there is gone; torch keeps a folder of its own."""
    return all(path.name.startswith("torchinductor") for path in scratch.iterdir())


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def by_name(found: dict) -> dict[str, dict]:
    assert [check["name"] for check in found["checks"]] == NAMES
    assert json.loads(json.dumps(found)) == found
    return {check["name"]: check for check in found["checks"]}


def failed(found: dict) -> list[str]:
    assert found["passed"] is all(check["passed"] is not False for check in found["checks"])
    return [check["name"] for check in found["checks"] if check["passed"] is False]


@pytest.mark.parametrize("kind", ["language model", "classifier", "masked", "embedder", "translator", "decoder"])
def test_a_run_of_each_kind_keeps_every_promise(kind: str, runs: Callable, forked: Callable, scratch: Path):
    run = runs(kind)
    before = files(run)
    found = verify(run)
    checks = by_name(found)
    assert failed(found) == [], found
    skipped = {name for name, check in checks.items() if check["passed"] is None}
    assert skipped == SKIPPED.get(kind, set()) | {"precision", "engines"}
    for name, check in checks.items():
        assert {"name", "passed", "value", "bound", "what", "seconds"} <= set(check)
        assert ("skipped" in check) is (name in skipped) and "problem" not in check
        if name not in skipped:
            assert 0 <= check["value"] <= check["bound"] < 1e-3
    assert checks["resume"]["value"] == checks["resume"]["bound"] == 0
    assert checks["resume"]["killed_after"] >= checks["resume"]["resumed_from"] >= 1
    assert "its own data" in checks["resume"]["what"]
    assert checks["export"]["transformers"] and checks["export"]["tokens_equal"] is True
    assert files(run) == before and nothing_left(scratch)


DAMAGE = {
    "state.json differs from its manifest": lambda path: (path / "state.json").write_text("{}"),
    "tensors.safetensors is missing": lambda path: (path / "tensors.safetensors").unlink(),
    "MANIFEST.json is damaged": lambda path: (path / "MANIFEST.json").write_text("[" * 7),
    "its manifest does not list its files": lambda path: (path / "MANIFEST.json").write_text(
        json.dumps({"format": 1, "step": int(path.name.removeprefix("step-")), "files": {}})
    ),
}


@pytest.mark.parametrize("said", DAMAGE)
def test_a_damaged_checkpoint_is_named(said: str, runs: Callable, tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(runs("language model"), run)
    assert check_checkpoints(run).passed is True
    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name.removeprefix("step-")))
    DAMAGE[said](newest)
    found = check_checkpoints(run)
    assert found.passed is False and found.value == 1 and found.problem == f"{newest.name}: {said}"
    shutil.rmtree(run / "checkpoints")
    assert check_checkpoints(run).passed is None


FORGOTTEN = {
    "random state": "import headway.training.loop.state as state\nstate.set_random_states = lambda *given: True\n",
    "optimisers": "import headway.training.loop.state as state\nstate.restore_optimizers = lambda *given: None\n",
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_what_is_not_taken_up_fails_resume_alone(what: str, runs: Callable, forked: Callable, scratch: Path):
    forked(FORGOTTEN[what])
    found = verify(runs("language model"))
    assert failed(found) == ["resume"]
    check = by_name(found)["resume"]
    assert check["value"] > 0 and "first differs: the loss of step" in check["problem"]
    assert nothing_left(scratch)


def test_a_run_that_begins_again_from_nothing_is_not_resumed(runs: Callable, forked: Callable):
    forked(
        "import headway.workflows.train.run as session\nsession.newest_checkpoint = lambda *given: (None, [])\n"
        "from headway.training.loop import trainer\ntrainer._note_checkpoints = lambda *given: None\n"
    )
    check = resumed(runs("language model"))
    assert not check.passed and "it started over instead of resuming" in (check.problem or "")


def test_a_command_that_fails_is_a_promise_that_is_not_kept(runs: Callable, forked: Callable):
    forked("raise SystemExit(print('no room', file=sys.stderr) or 3)\n".replace("raise", "import sys\nraise"))
    check = resumed(runs("language model"))
    assert check.passed is False and check.problem == "its training failed: no room"


def resumed(run: Path) -> Check:
    subject = Subject(headway.load(run))
    with tempfile.TemporaryDirectory() as folder:
        return resume.check_resume(subject, run, Path(folder), NoProgress())


@pytest.fixture
def without_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what cannot reach the commands, which are processes of their own."""
    monkeypatch.setattr(
        "headway.workflows.verify.verify.check_resume", lambda *given: Check("resume", "nothing", skipped="not here")
    )


def blurred(self: KeyValueCache, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    known, read = append(self, keys, values)
    return known, read if keys.shape[2] > 1 else read * 1.01


def forgetful(self: State, mask: torch.Tensor | None, *sizes: Any) -> None:
    """What was padding is known of the tokens of the first call alone."""
    extend_mask(self, mask, *sizes)
    if self.mask is not None and self.length:
        self.mask = torch.ones_like(self.mask)


def leaky(*given: Any, key_mask: Any = None, **more: Any) -> Any:
    """Padding is attended to."""
    return attention_mask(*given, key_mask=None, **more)


def divided(self: ThreadParallel, model: Any, task: Any, batch: Any, precision: str, parameters: Any) -> Any:
    """The loss is divided for each part."""
    before = [None if p.grad is None else p.grad.clone() for p in parameters]
    for p in parameters:
        p.grad = None
    loss, count = add_gradient(self, model, task, batch, precision, parameters)
    for p, held in zip(parameters, before, strict=True):
        if p.grad is not None:
            p.grad = p.grad / count + (0 if held is None else held)
    return loss, 1


append, extend_mask = KeyValueCache.append, State.extend_mask
attention_mask, add_gradient = transformer.attention_mask, ThreadParallel.add_gradient
BROKEN: list[tuple[str, Any, str, Callable, tuple[str, ...]]] = [
    ("cache", KeyValueCache, "append", blurred, ("language model", "translator")),
    ("cache", State, "extend_mask", forgetful, ("language model",)),
    ("batch", transformer, "attention_mask", leaky, ("language model", "decoder", "classifier", "masked", "embedder")),
    # padding of sources
    ("batch", transformer, "across_mask", lambda mask, **_: torch.ones_like(mask)[:, None, None, :], ("translator",)),
    (
        *("accumulation", ThreadParallel, "add_gradient", divided),
        ("language model", "classifier", "masked", "translator", "decoder"),
    ),
]


@pytest.mark.parametrize(
    ("check", "owner", "name", "broken", "kind"), [(*one, kind) for *one, kinds in BROKEN for kind in kinds]
)
def test_what_is_broken_fails_its_own_check_alone(
    check: str, owner: Any, name: str, broken: Any, kind: str, runs: Callable, without_resume: None, monkeypatch
):
    run = runs(kind)
    monkeypatch.setattr(owner, name, broken)
    if check != "cache":
        monkeypatch.setitem(sys.modules, "transformers", None)  # which would read an encoder's padded texts rightly
    found = verify(run)
    measured = by_name(found)[check]
    assert failed(found) == [check] and measured["value"] > (10 if broken is forgetful else 1) * measured["bound"]


def spoiled(model: torch.nn.Module, path: Path, **entries: object) -> None:
    save_model(model, path, **entries)
    weights = load_file(path / "model.safetensors")
    first = next(name for name in sorted(weights) if weights[name].dim() == 2 and "layers" in name)
    save_file({**weights, first: weights[first] * 1.5}, path / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("kind", ["language model", "embedder"])
def test_an_export_with_other_weights_fails_export_alone(
    kind: str, installed: bool, runs: Callable, without_resume: None, scratch: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headway.formats.hf.export.save_model", spoiled)
    if not installed:
        monkeypatch.setitem(sys.modules, "transformers", None)
    found = verify(runs(kind))
    check = by_name(found)["export"]
    assert failed(found) == ["export"] and check["value"] > check["bound"]
    assert (check["transformers"] is None) is not installed and nothing_left(scratch)


def test_an_interrupt_leaves_neither_files_nor_processes(
    runs: Callable, forked: Callable, scratch: Path, monkeypatch: pytest.MonkeyPatch
):
    commands = []

    class Kept(resume.Command):  # type: ignore[misc, name-defined]
        def __init__(self, *given: Any, **more: Any):
            super().__init__(*given, **more)
            commands.append(self)

    def interrupt(run: Path) -> bool:
        raise KeyboardInterrupt

    run = runs("language model")
    monkeypatch.setattr(resume, "Command", Kept)
    monkeypatch.setattr(resume, "_ready", interrupt)
    with pytest.raises(KeyboardInterrupt):
        verify(run)
    assert [command.status for command in commands] == [0, -9] and nothing_left(scratch)


def test_a_command_is_the_command_line_in_a_process_of_its_own(tmp_path: Path):
    for words, status, said in ((["--version"], 0, "no message"), (["trian"], 2, "Did you mean 'train'")):
        command = Command(words, tmp_path / "errors.txt")
        command.wait(60)
        assert command.status == status and said in command.said
        command.kill()  # does nothing any more
        assert command.status == status
    command = Command(["demo"], tmp_path / "errors.txt", alone=True)
    command.kill()
    assert command.status == -9


def test_data_that_are_gone_or_changed_are_made_up(runs: Callable, forked: Callable, corpus: Path, tmp_path: Path):
    run = shutil.copytree(runs("language model"), tmp_path / "run")
    facts = read_facts(run)
    facts["data"]["inputs"] = [str(shutil.copy(corpus, tmp_path / "other.txt"))]
    assert own_data(facts, 32, tmp_path) is not None
    with (tmp_path / "other.txt").open("a") as file:
        file.write("one line more\n")
    assert own_data(facts, 32, tmp_path) is None
    (run / "headway.json").write_text(json.dumps(facts))
    check = resumed(run)
    assert check.passed and "made-up text" in check.what


@pytest.mark.parametrize("kind", ["classifier", "embedder", "translator"])
def test_the_beginning_of_a_table_is_a_table_of_all_classes(kind: str, runs: Callable, tmp_path: Path):
    facts = json.loads((runs(kind) / "headway.json").read_text())
    found = own_data(facts, 32, tmp_path)
    assert found is not None and found.options["task"] == facts["task"]
    rows = [json.loads(line) for line in found.file.read_text().splitlines()]
    assert 20 < len(rows) <= ROWS and all(set(row) == {*found.options} - {"task"} for row in rows)
    if kind == "classifier":
        assert {row["label_column"] for row in rows} == set(facts["labels"])
    assert own_data({**facts, "data": {**facts["data"], "inputs": [str(tmp_path / "gone")]}}, 32, tmp_path) is None


def test_a_directory_that_no_run_left(runs: Callable, forked: Callable, tmp_path: Path):
    names = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    (tmp_path / "plain").mkdir()
    for name in names:
        shutil.copy(runs("masked") / name, tmp_path / "plain")
    found = verify(tmp_path / "plain")
    assert failed(found) == [] and by_name(found)["resume"]["value"] == 0
    assert sorted(path.name for path in (tmp_path / "plain").iterdir()) == sorted(names)


def test_a_run_from_a_base_begins_from_itself(runs: Callable, forked: Callable, corpus: Path, tmp_path: Path):
    base = shutil.copytree(runs("language model"), tmp_path / "base")
    headway.train(corpus, out=tmp_path / "run", from_model=str(base), lora=2, steps=3, threads=1, quiet=True)
    shutil.rmtree(base)
    check = resumed(tmp_path / "run")
    assert check.passed and check.value == 0 and "its own data" in check.what, check


def test_what_was_fitted_without_steps_is_skipped(runs: Callable, tmp_path: Path):
    run = shutil.copytree(runs("classifier"), tmp_path / "run")
    facts = read_facts(run)
    facts["plan"]["frozen"] = True
    (run / "headway.json").write_text(json.dumps(facts))
    check = resumed(run)
    assert check.passed is None and "in closed form" in (check.skipped or "")


def test_of_several_classifiers_that_answer_together_the_best_is_trained(runs: Callable, tmp_path: Path):
    run = shutil.copytree(runs("classifier"), tmp_path / "run")
    facts = read_facts(run)
    shutil.copytree(runs("classifier"), run / "seed-3")
    (run / "seed-3" / "headway.json").write_text(json.dumps({**facts, "options": {**facts["options"], "seed": 3}}))
    (run / "headway.json").write_text(json.dumps({**facts, "members": ["seed-3"], "best_member": "seed-3"}))
    found = replay(Subject(headway.load(run)), run, tmp_path)
    assert found.options["seed"] == 3 and found.facts is not None and found.facts["options"]["seeds"] == 1
    words = found.words(tmp_path / "again", "1s")
    assert words[:2] == ["train", str(found.material.file)] and words[words.index("--seed") + 1] == "3"


def test_without_room_for_checkpoints_resume_is_skipped(runs: Callable, monkeypatch: pytest.MonkeyPatch):
    usage = type("usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    check = resumed(runs("language model"))
    assert check.passed is None and "TMPDIR" in (check.skipped or "")


def test_numbers_that_are_none_do_not_pass():
    nan, infinite = float("nan"), float("inf")
    assert Check("a", "b", nan, 1.0).passed is False and Check("a", "b", None, 1.0).passed is False
    assert Check("a", "b", 0.0, 1.0).passed is True and Check("a", "b", 0.0, 1.0, "wrong").passed is False
    assert Check("a", "b", skipped="why").passed is None
    assert worst(0.0, nan, 3.0) != worst(0.0, nan, 3.0) and worst(0.0, 3.0, infinite) == infinite
    assert difference(torch.zeros(2), torch.zeros(3)) == infinite
    assert difference(torch.tensor([0.0, nan]), torch.zeros(2)) != 0


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_directory_is_wrong_input(name: str, runs: Callable, tmp_path: Path):
    run = shutil.copytree(runs("classifier"), tmp_path / "run")
    (run / name).write_bytes((run / name).read_bytes()[:100])
    with pytest.raises(InputError, match=name):
        verify(run)
