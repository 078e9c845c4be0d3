"""Standard streams that are closed, full, or without a reader: a proper status and at most one message."""

import subprocess
import sys
from pathlib import Path

import pytest
from faults_harness import TINY, Forker, words

from headway.cli.main import VERBS

FEW = {**TINY, "steps": 4}
FULL = "import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), {stream})\n"
UNREAD = "import os\nleft, right = os.pipe()\nos.close(left)\nos.dup2(right, 1)\n"
LIMITED = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.getrlimit(1)[1]))\n"


@pytest.fixture
def commands(lm_run: Path, classifier_run: Path, corpus: Path, rows: Path, tmp_path: Path) -> list[list[object]]:
    """A command of each verb that takes a moment."""
    return [
        ["train", corpus, "--out", tmp_path / "run", *words(FEW)],
        ["train", corpus, "--plan", *words(FEW)],
        ["evaluate", lm_run],
        ["generate", lm_run, "the cat", "--max-tokens", 5],
        ["classify", classifier_run, rows],
        ["explain", lm_run],
        ["attention", lm_run, "the cat sat", "--out", tmp_path / "page.html"],
    ]


def test_a_full_standard_output_is_one_message(commands: list[list[object]], forker: Forker):
    for command in [*commands, ["--help"], ["--version"], *([verb, "--help"] for verb in VERBS)]:
        found = forker(*command, script=FULL.format(stream=1))
        assert found.returncode == 1, (command, found.stderr)
        last = found.stderr.splitlines()[-1]
        assert last == "headway: standard output cannot be written (No space left on device)", (command, found.stderr)
        assert "Traceback" not in found.stderr, (command, found.stderr)


def test_a_reader_who_left_ends_the_command_quietly(commands: list[list[object]], forker: Forker):
    for command in [*commands, ["--help"], ["train", "--help"]]:
        found = forker(*command, script=UNREAD)
        assert found.returncode == 0, (command, found.stderr)
        assert "Traceback" not in found.stderr and "cannot be written" not in found.stderr


def test_what_standard_error_does_not_take_is_lost(commands: list[list[object]], forker: Forker):
    for command in commands:
        found = forker(*command, script=FULL.format(stream=2))
        assert found.returncode == 0 and found.stdout, command
    assert forker("train", "nowhere.txt", script=FULL.format(stream=2)).returncode == 2
    assert forker("no-such-verb", script=FULL.format(stream=2)).returncode == 2


CLOSED = {"input": "<&-", "output": ">&-", "error": "2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_streams(closed: str, corpus: Path, lm_run: Path, tmp_path: Path):
    """In processes of their own, as a shell starts them.  No file that is opened later gets a stream's number."""
    options = " ".join(words(FEW))
    module = f"{sys.executable} -m headway"
    train = f"{module} train {corpus} --out {tmp_path / 'run'} {options} {CLOSED[closed]}"
    found = subprocess.run(["bash", "-c", train], capture_output=True, text=True, timeout=900)
    assert found.returncode == 0 and "Traceback" not in found.stderr, found.stderr
    assert (tmp_path / "run" / "report.html").exists()
    assert bool(found.stdout) == (closed not in ("output", "all"))
    read = f"{module} generate {lm_run} - --max-tokens 3 {CLOSED[closed]}"
    found = subprocess.run(["bash", "-c", read], input="the cat", capture_output=True, text=True, timeout=900)
    assert "Traceback" not in found.stderr
    if closed in ("input", "all"):
        assert found.returncode == 2
        assert closed == "all" or found.stderr == (
            "headway: standard input is closed; expected text from a file or a pipe.\n"
        )
    else:
        assert found.returncode == 0


def test_a_conversation_without_standard_input(lm_run: Path):
    talk = f"{sys.executable} -m headway generate {lm_run} --chat <&-"
    found = subprocess.run(["bash", "-c", talk], capture_output=True, text=True, timeout=900)
    assert found.returncode == 2 and found.stderr.startswith("headway: ") and "Traceback" not in found.stderr


def test_a_report_that_cannot_be_written_is_a_warning(corpus: Path, forker: Forker, tmp_path: Path):
    script = """
from pathlib import Path
from headway import api
saved = api.save_report
def last(run, progress):
    (Path(run) / "report.html").mkdir()
    saved(run, progress)
api.save_report = last
"""
    found = forker("train", corpus, "--out", tmp_path / "run", *words(FEW), script=script)
    assert found.returncode == 0 and "Traceback" not in found.stderr, found.stderr
    assert "report.html: cannot be written (Is a directory); the run is saved" in found.stderr


def test_a_disk_that_is_full_for_tensorboard_is_a_warning(corpus: Path, forker: Forker, tmp_path: Path):
    pytest.importorskip("tensorboard")
    script = """
from tensorboard.summary.writer import record_writer
def full(self, data):
    raise OSError(28, "No space left on device")
record_writer.RecordWriter.write = full
"""
    found = forker("train", corpus, "--out", tmp_path / "run", "--tensorboard", *words(FEW), script=script)
    assert found.returncode == 0 and "Traceback" not in found.stderr, found.stderr
    assert "tensorboard: cannot be written (No space left on device)" in found.stderr


def test_no_room_for_what_a_verb_writes_is_one_message(
    lm_run: Path, classifier_run: Path, rows: Path, corpus: Path, forker: Forker, tmp_path: Path
):
    for command in (
        ["train", corpus, "--out", tmp_path / "run", *words(FEW)],
        ["attention", lm_run, "the cat sat", "--out", tmp_path / "page.html"],
        ["classify", classifier_run, rows, "--to", tmp_path / "out.csv"],
        ["export", lm_run, "--to", "hf", "--out", tmp_path / "hf"],
        ["tune", rows, "--trials", 2, "--steps", 1, "--out", tmp_path / "tuned"],
        ["demo", "--time", "1m", "--out", tmp_path / "demo"],
    ):
        found = forker(*command, script=LIMITED)
        assert found.returncode in (1, 2) and "Traceback" not in found.stderr, (command, found.stderr)
        why = "disk I/O error" if command[0] == "tune" else "File too large"  # its trials are in a database
        assert why in found.stderr, (command, found.stderr)
