"""Load directories one after the other, and tell what each did: examine.py JOBS, where JOBS is a JSON file.

A job is {"name", "path", "how"}; how is "load" (headway.load_model), "command" (headway generate PATH x), "train"
(headway train PATH, four steps), "tokenizer"
(it is loaded and used on a page of text) or "pickle" (open_weights with pickles allowed, each tensor read).  Prints a
JSON list with, for each, what was raised and said, the processor's seconds and those that went by ("waited"), the peak
of memory in bytes above what was taken before, and what it
did that it should not: files written outside the folder of JOBS, programs started, connections tried.
"""

import contextlib
import ctypes
import gc
import io
import json
import os
import re
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch  # noqa: F401

import headway.hub.directory

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def memory(key: str) -> int:
    """VmSize, VmRSS or VmHWM (the peak of VmRSS), in bytes."""
    return int(re.search(rf"{key}:\s+(\d+)", STATUS.read_text()).group(1)) * 1024


def reset() -> int:
    """Give free memory back and let the peak begin at what is then taken, where the system allows it; those bytes."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        RESET.write_text("5")
    return memory("VmRSS")


from headway.cli.main import main as command  # noqa: E402
from headway.errors import InputError  # noqa: E402
from headway.hub.safe.weights import open_weights  # noqa: E402
from headway.text import Tokenizer  # noqa: E402


def watch(allowed: Path, found: list[str]) -> None:
    """Write down every file written elsewhere, every program started; connections are refused as well."""
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

    def note(event: str, arguments: tuple) -> None:
        if event.startswith("socket.") and event != "socket.gethostname":
            found.append(event)
            raise OSError("no network in this test")
        paths = []
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & writing:
            paths = [arguments[0]]
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.truncate"):
            paths = [argument for argument in arguments if isinstance(argument, str | os.PathLike)]
        elif event in ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"):
            found.append(event)
        for path in paths:
            if isinstance(path, str | os.PathLike) and str(path) not in ("/dev/null", str(RESET)):
                whole = Path(os.path.abspath(path))  # noqa: PTH100
                if allowed not in whole.parents:
                    found.append(f"{event} {path}")

    sys.addaudithook(note)


def examine(path: str, how: str) -> tuple[str, str, str]:
    """The class raised, its message, and what was printed beside."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            if how == "train":
                command(["train", path, "--steps", "4", "--preset", "tiny", "--quiet", "--out", f"{path}.run"])
            elif how == "command":
                command(["generate", path, "x"])
            elif how == "tokenizer":
                tokenizer = Tokenizer.load(path)
                tokenizer.decode(tokenizer.encode("It is a page of text, 12 lines long.\n" * 12))
            elif how == "pickle":
                with open_weights(path, allow_pickle=True) as weights:
                    for name in weights:
                        weights[name]
            else:
                headway.hub.directory.load_model(path)
    except SystemExit as leaving:
        said = err.getvalue().removeprefix("headway: ").rstrip("\n")
        return f"exit {leaving.code}", said, out.getvalue()
    except InputError as error:
        return type(error).__name__, str(error), out.getvalue() + err.getvalue()
    except BaseException as error:
        return type(error).__name__, str(error), traceback.format_exc()
    return "nothing", "", out.getvalue() + err.getvalue()


def main(jobs: Path) -> None:
    """Do all jobs and print what was found."""
    deeds: list[str] = []
    most = memory("VmSize") + 8 * 2**30  # should a check be lost, the machine is none the worse
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    allowed = jobs.parent.resolve()
    tempfile.tempdir = str(allowed)
    listed = json.loads(jobs.read_text())
    gc.freeze()  # what was imported need not be looked through every time
    watch(allowed, deeds)
    results = []
    for job in listed:
        del deeds[:]
        before = reset()
        started, worked = time.monotonic(), time.process_time()
        raised, said, beside = examine(job["path"], job["how"])
        waited, seconds = time.monotonic() - started, time.process_time() - worked
        peak = memory("VmHWM") - before
        results.append({**job, "raised": raised, "said": said, "beside": beside, "seconds": seconds, "peak": peak})
        results[-1] |= {"deeds": list(deeds), "before": before, "waited": waited}
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
