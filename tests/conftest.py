"""A cache of the tests' own, two tiny files, and runs trained on them once for all tests that only look at them."""

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest

sys.path.append(str(Path(__file__).parent / "doors"))  # doors_kit.py, which makes tiny models of every family
sys.path.append(str(Path(__file__).parent / "faults"))
sys.path.append(str(Path(__file__).parent.parent / "docs" / "differences"))  # formulas.py, which its pages share
from faults_harness import TINY, Forker, Pair

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

THOROUGH = (
    *("faults", "doors", "test_imports.py", "text/test_text_hostile_files.py", "tools/test_tools_move.py"),
    *("cli/test_several_texts.py", "cli/test_scale.py", "hub/test_hub_adapters.py", "runtime/test_runtime_device.py"),
    *("models/test_models_no_waiting.py", "nn/kernels/test_nn_kernels_export.py"),
    *(f"hostile/test_hostile_{part}.py" for part in ("corpus", "fuzz", "options", "patterns", "runs", "tables")),
    *("hostile/test_hostile_tokenizers.py", "hub/test_hub_download.py", "io/test_io_fork_safety.py"),
    *(f"parity/test_{part}.py" for part in ("config_fields", "foreign_models", "lost_characters")),
    *(f"science/test_science_{part}.py" for part in ("compare", "tune", "verify")),
    *(f"workflows/export/test_export_onnx{part}.py" for part in ("", "_attention", "_examples")),
    *(f"workflows/export/test_export_{part}.py" for part in ("peft", "snippets")),
    *(f"workflows/test_{part}.py" for part in ("workflows_engines", "workflows_known_texts", "workflows_padding")),
    *("workflows/test_measured_is_answered.py", "tasks/test_sketches.py"),
    *(f"runtime/{part}.py" for part in ("test_runtime_step_graphs", "engines/test_engines_answers")),
    "runtime/engines/test_engines_choice.py",
    *(f"serving/test_serving_{part}.py" for part in ("crowds", "limits", "schema", "sizes", "soak")),
    *(f"serving/test_playground_{part}.py" for part in ("browser", "plugins", "watch")),
    *("serving/test_connections.py", "serving/test_container.py", "serving/test_watch.py"),
    *(f"training/test_training_{part}.py" for part in ("decoder_classifier", "determinism", "device", "disk")),
    *(f"training/test_training_{part}.py" for part in ("family_classifier", "health_runs", "rows", "shares")),
    *(f"training/test_training_{part}.py" for part in ("place", "probe", "suggestions", "table_memory", "time")),
)
"""Tests of every fault, device, family and engine in turn, which take minutes: ``make thorough`` runs them."""
PART, PARTS = (int(number) for number in os.environ.get("THOROUGH_PART", "0/1").split("/"))
"""Which of how many equal parts of these tests is run; CI runs one of three."""
WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]
GOOD, BAD = ["great", "good", "lovely", "fine"], ["bad", "awful", "poor", "sad"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the thorough tests, and leave out those of other parts."""
    for item in items:
        place = item.path.relative_to(Path(__file__).parent).as_posix()
        if place in THOROUGH or place.split("/")[0] in THOROUGH:
            item.add_marker("thorough")
    items[:] = [
        item for item in items if not item.get_closest_marker("thorough") or crc32(item.nodeid.encode()) % PARTS == PART
    ]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test writes to the user's home."""
    os.environ["HEADWAY_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def few_folds() -> None:
    """Small tables are cross-validated with two folds, once: 50 fits take most of the time of a tiny training."""
    from headway.tasks import fitting

    fitting.FOLDS, fitting.REPEATS = 2, 1


@pytest.fixture
def tiny() -> dict[str, int]:
    """The options of a training run that takes a second."""
    return dict(TINY)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """401 lines of running text."""
    choose = random.Random(3)
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("".join(" ".join(choose.choices(WORDS, k=11)) + "\n" for _ in range(401)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """211 texts, two thirds of them "pos"; some are longer than the tiny models read."""
    choose = random.Random(5)
    path = tmp_path_factory.mktemp("table") / "rows.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("text,label\n")
        for number in range(211):
            label = "neg" if number % 3 == 0 else "pos"
            words = [*choose.choices(WORDS, k=choose.randint(3, 41)), choose.choice(BAD if label == "neg" else GOOD)]
            file.write(f"{' '.join(words)},{label}\n")
    return path


@pytest.fixture(scope="session")
def lm_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a language model; look, but do not write."""
    return _trained(corpus, tmp_path_factory.mktemp("runs") / "lm")


@pytest.fixture(scope="session")
def char_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a tokenizer of characters."""
    return _trained(corpus, tmp_path_factory.mktemp("runs") / "char", tokenizer="char")


@pytest.fixture(scope="session")
def classifier_run(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a classifier; look, but do not write."""
    return _trained(rows, tmp_path_factory.mktemp("runs") / "classifier", steps=60)


def _trained(data: Path, out: Path, **options: object) -> Path:
    import headway

    headway.train(data, out=out, quiet=True, **{**TINY, **options})
    return out


@pytest.fixture
def headway_command() -> Callable[..., subprocess.CompletedProcess]:
    """Run ``headway`` in a process of its own; ``script`` is run before it, ``stdin`` is what it reads."""

    def run(
        *words: object, script: str = "", stdin: str = "", timeout: float = 60, **options: object
    ) -> subprocess.CompletedProcess:
        code = f"{script}\nfrom headway.cli.main import main\nmain()"
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, words)],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            **options,
        )

    return run


@pytest.fixture(scope="session")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    """Runs commands in processes of their own, without the seconds that imports take."""
    made = Forker(tmp_path_factory.mktemp("forked"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Runs commands in two processes that know each other."""
    forkers = [Forker(tmp_path_factory.mktemp(f"rank{rank}")) for rank in (0, 1)]
    yield Pair(forkers)
    for one in forkers:
        one.close()


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Press Ctrl-C in these steps of this process, counted from now on; without any: not any more."""
    from headway.training.loop import trainer

    honest = trainer.accumulation

    def stop(*steps: int) -> None:
        seen = itertools.count(1)

        def stopping(*given: object) -> int:
            if next(seen) in steps:
                signal.raise_signal(signal.SIGINT)
            return honest(*given)

        monkeypatch.setattr(trainer, "accumulation", stopping)

    return stop


class InProcess:
    """Runs ``headway`` in this process: (exit status, standard output, standard error)."""

    def __init__(self, capsys: pytest.CaptureFixture):
        self.capsys = capsys

    def __call__(self, *words: object) -> tuple[int, str, str]:
        from headway.cli import main

        self.capsys.readouterr()
        status = 0
        try:
            main.main([str(word) for word in words])
        except SystemExit as leaving:
            status = int(leaving.code or 0)
        return status, *self.capsys.readouterr()

    def passed(self, *words: object) -> tuple[str, str]:
        """What a command says that ends well."""
        status, out, err = self(*words)
        assert status == 0, err
        return out, err

    def json(self, *words: object) -> dict:
        """The object that a command writes to standard output with ``--json``, and nothing else."""
        (line,) = self.passed(*words, *() if "--json" in words else ("--json",))[0].splitlines()
        return json.loads(line)

    def refused(self, *words: object, said: str | tuple[str, ...] = (), lines: int | None = None) -> str:
        """The one message of a command that is refused, which has these words."""
        status, out, err = self(*words)
        assert (status, out) == (2, "") and "Traceback" not in err, err
        assert all(word in err for word in ((said,) if isinstance(said, str) else said)), err
        assert len([line for line in err.splitlines() if re.match("headway: (?!warning)|Error: ", line)]) == 1, err
        assert lines is None or err.count("\n") == lines, err
        return err


@pytest.fixture
def in_process(capsys: pytest.CaptureFixture) -> InProcess:
    return InProcess(capsys)


def as_words(options: dict[str, object]) -> list[str]:
    """Options as words of a command line."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture
def tiny_words(tiny: dict[str, int]) -> list[str]:
    """The tiny options as words of a command line."""
    return as_words(tiny)


@pytest.fixture
def tiny_words_but(tiny: dict[str, int]) -> Callable[..., list[str]]:
    """The same with other values."""
    return lambda **others: as_words({**tiny, **others})
