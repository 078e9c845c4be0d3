"""What the system is asked for while a run saves, as strace sees it: contents first, then names (FT-15)."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from faults_harness import TINY, Forker, wait_for, words

CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?P<given>.*)\) += (?P<result>-?\d+)")
PATH = re.compile(r'(?<!AT_FDCWD)[<"](/[^>"]*)[>"]')
STOPPED = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n"
CALLS = "trace=write,pwrite64,fsync,fdatasync,rename,renameat,renameat2"


@pytest.fixture(scope="module")
def calls(corpus: Path, tmp_path_factory: pytest.TempPathFactory, forker: Forker) -> list[tuple[str, list[str]]]:
    """Calls that succeeded, in their order: (name, paths)."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    folder = tmp_path_factory.mktemp("traced")
    options = words({**TINY, "steps": 4, "save_every": "0.001s"})
    running = forker.start("train", corpus, "--out", folder / "run", *options, script=STOPPED)
    wait_for(lambda: _state(running.pid) == "T")  # it goes on by a signal that comes after it has stopped
    given = ["strace", "-f", "-y", "-s", "0", "-e", CALLS, "-o", str(folder / "trace"), "-p", str(running.pid)]
    tracer = subprocess.Popen(given, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    if "not permitted" in said:
        os.kill(running.pid, signal.SIGKILL)
        running.wait(10)
        pytest.skip(f"strace may not look at processes here: {said.strip()}")
    assert "attached" in said
    os.kill(running.pid, signal.SIGCONT)
    running.wait(120)
    tracer.wait(10)
    assert running.returncode == 0, running.stderr
    found = [CALL.match(line) for line in _whole((folder / "trace").read_text(errors="replace").splitlines())]
    done = [call for call in found if call and call["result"] != "-1"]
    kept = [(call["name"], PATH.findall(call["given"])) for call in done]
    return [(name, paths) for name, paths in kept if any(path.startswith(str(folder / "run")) for path in paths)]


def _state(pid: int) -> str:
    """What Linux says that a process does: R runs, S sleeps, T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _whole(lines: list[str]) -> list[str]:
    """The lines, with a call that another process interrupted in one piece, where it ended."""
    begun: dict[str, str] = {}
    found = []
    for line in lines:
        process = line.split(" ", 1)[0]
        if line.endswith("<unfinished ...>"):
            begun[process] = line.removesuffix("<unfinished ...>")
        elif "resumed>" in line:
            found.append(begun.pop(process, "") + line.split("resumed>", 1)[1])
        else:
            found.append(line)
    return found


def test_contents_are_on_the_disk_before_they_have_their_name(calls: list[tuple[str, list[str]]]):
    unsaved: set[str] = set()
    renamed = []
    for name, paths in calls:
        if name in ("write", "pwrite64"):
            unsaved.add(paths[0])
        elif name in ("fsync", "fdatasync"):
            unsaved.discard(paths[0])
        elif name.startswith("rename"):
            old, new = paths[-2:]
            moved = {path for path in unsaved if path == old or path.startswith(f"{old}/")}
            unsaved = unsaved - moved | {new + path.removeprefix(old) for path in moved}
            hidden = any(part.startswith(".") and part.endswith(".tmp") for part in Path(new).parts)
            assert hidden or not moved, f"{new} has its name before its contents are on the disk"
            renamed.append(new)
    assert {"model.safetensors", "config.json", "headway.json", "MANIFEST.json", "step-4"} <= {
        Path(path).name for path in renamed
    }


def test_a_name_is_on_the_disk_before_anything_is_removed_for_it(calls: list[tuple[str, list[str]]]):
    waiting: set[str] = set()
    committed = 0
    for name, paths in calls:
        if name.startswith("rename"):
            old, new = paths[-2:]
            if ".old." in new:  # an older checkpoint is given up
                assert not waiting, f"{new} goes before {waiting} are sure to stay"
            elif Path(new).name.startswith("step-"):
                waiting.add(new)
                committed += 1
            assert old != new
        elif name == "fsync" and Path(paths[0]).name == "checkpoints":
            waiting.clear()
    assert committed >= 2 and not waiting


def test_files_have_the_rights_that_the_user_wants(calls: list[tuple[str, list[str]]]):
    renamed = [Path(paths[-1]) for name, paths in calls if name.startswith("rename")]
    run = next(path for path in renamed if path.match("run/config.json"))
    mask = os.umask(0)
    os.umask(mask)
    files = [path for path in run.parent.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~mask}
