"""Checkpoints on a disk that is full, slow or damaged: what was whole stays whole, and what is not is never taken."""

import os
import resource
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import LIVELY, Forker, alone, outcome, words
from safetensors.torch import load_file

import headway
from headway.training.store import checkpoint
from headway.training.store.checkpoint import SaveFailed, Saver, copied, newest_checkpoint, save_checkpoint
from headway.training.store.run_directory import RunDirectory

TENSORS = {"one": torch.arange(701.0), "two": torch.ones(3, 5, dtype=torch.int64)}


def save(folder: Path, step: int) -> None:
    save_checkpoint(folder, step, copied({name: tensor + step for name, tensor in TENSORS.items()}), {"step": step})


def newest(folder: Path) -> int | None:
    found, _ = newest_checkpoint(folder)
    return found[1]["step"] if found is not None else None


@pytest.mark.parametrize("policy", ["continue", "stop"])
@pytest.mark.parametrize("step", [1, 9, 20], ids=["first", "middle", "last"])
def test_a_disk_that_is_full_for_a_while(
    policy: str, step: int, corpus: Path, tmp_path: Path, tiny: dict, capfd: pytest.CaptureFixture, monkeypatch
):
    """RLIMIT_FSIZE, so that the system itself refuses to write (EFBIG)."""
    options = {**tiny, **LIVELY, "evaluations": 1, "on_save_error": policy}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    honest = checkpoint.save_checkpoint

    def limited(directory: Path, at: int, *given: Any, write: Callable = honest) -> Any:
        if at != step:
            return write(directory, at, *given)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        try:
            return write(directory, at, *given)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    monkeypatch.setattr(checkpoint, "save_checkpoint", limited)
    run = tmp_path / "run"
    if policy == "continue":
        headway.train(corpus, out=run, **options)
        assert "File too large" in capfd.readouterr().err
    else:
        with pytest.raises(SaveFailed, match=rf"step-{step}: cannot be saved \(.*it needs .*B, and .*B are free"):
            headway.train(corpus, out=run, quiet=True, **options)
        assert not list((run / "checkpoints").glob(".*"))
        assert newest(run / "checkpoints") in (step - 1, None)
        monkeypatch.setattr(checkpoint, "save_checkpoint", honest)
        headway.train(corpus, out=run, quiet=True, **options)
    assert outcome(run) == alone([corpus], options, tmp_path / "alone")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_small_disk(small_disk: Path, corpus: Path, tmp_path: Path, tiny: dict, forker: Forker):
    """Without room for the model (ENOSPC) the run fails and says so; with room, the same command goes on."""
    options = {**tiny, **LIVELY}
    command = ("train", corpus, "--out", small_disk / "run", *words(options))
    (small_disk / "filler").write_bytes(b"x" * 4_080_000)
    found = forker(*command)
    assert found.returncode == 1 and "Traceback" not in found.stderr, found.stderr
    assert "No space left on device" in found.stderr and "are free" in found.stderr
    for path in (small_disk / "run" / "checkpoints").glob("step-*"):
        assert checkpoint._problem(path) is None
    (small_disk / "filler").unlink()
    found = forker(*command)
    assert found.returncode == 0, found.stderr
    assert outcome(small_disk / "run") == alone([corpus], options, tmp_path / "alone")


def test_a_log_that_cannot_be_written_is_a_warning(
    corpus: Path, tmp_path: Path, tiny: dict, capfd: pytest.CaptureFixture
):
    RunDirectory(tmp_path / "run").create("language_modeling")
    (tmp_path / "run" / "log.jsonl").symlink_to("/dev/full")
    headway.train(corpus, out=tmp_path / "run", **tiny)
    assert capfd.readouterr().err.count("log.jsonl: cannot be written (No space left on device)") == 1


def test_what_is_saved_is_the_state_of_its_step_however_slow_the_disk_is(tmp_path: Path, monkeypatch):
    go, began = threading.Event(), threading.Event()

    def slow(*given: Any) -> None:
        began.set()
        assert go.wait(30)
        honest(*given)

    honest = checkpoint.save_file
    monkeypatch.setattr(checkpoint, "save_file", slow)
    weights, writer = torch.arange(7.0), Saver(tmp_path, pytest.fail)
    writer.save(1, {"weights": weights}, {"step": 1})
    assert began.wait(30)
    weights += 100.0
    assert newest(tmp_path) is None
    second = threading.Thread(target=writer.save, args=(2, {"weights": weights}, {"step": 2}))
    second.start()
    second.join(0.2)
    assert second.is_alive(), "one is written at a time"
    go.set()
    second.join(30)
    writer.wait()
    assert load_file(tmp_path / "step-1" / "tensors.safetensors")["weights"].tolist() == list(range(7))
    assert load_file(tmp_path / "step-2" / "tensors.safetensors")["weights"][0] == 100


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("a bug")])
def test_what_goes_wrong_in_the_background_is_said(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def failing(*given: Any) -> None:
        raise error

    monkeypatch.setattr(checkpoint, "save_file", failing)
    said: list[str] = []
    strict, patient = Saver(tmp_path / "a", said.append, "stop"), Saver(tmp_path / "b", said.append)
    for writer in (strict, patient):
        writer.save(1, TENSORS, {"step": 1})
    with pytest.raises(SaveFailed if isinstance(error, OSError) else RuntimeError):
        strict.wait()
    if isinstance(error, OSError):
        patient.wait()
        assert len(said) == 1 and "Training continues" in said[0]
    else:
        with pytest.raises(RuntimeError, match="a bug"):
            patient.wait()


def test_there_is_a_whole_checkpoint_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save(tmp_path, 1)
    seen: list[int | None] = []
    for module, name in ((Path, "rename"), (shutil, "rmtree"), (os, "fsync"), (os, "unlink")):
        honest = getattr(module, name)

        def looking(*given: Any, honest: Callable = honest, **more: Any) -> Any:
            seen.append(newest(tmp_path))
            return honest(*given, **more)

        monkeypatch.setattr(module, name, looking)
    for step in range(2, 7):
        save(tmp_path, step)
    assert len(seen) > 20 and None not in seen
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-5", "step-6"]


def test_what_cannot_be_removed_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []
    writer = Saver(tmp_path, said.append)
    honest = Path.rename

    def refusing(path: Path, target: Path) -> Any:
        if ".old." in str(target):
            raise PermissionError(1, "Operation not permitted")
        return honest(path, target)

    monkeypatch.setattr(Path, "rename", refusing)
    for step in (1, 2, 3):
        writer.save(step, TENSORS, {"step": step})
    writer.wait()
    assert newest(tmp_path) == 3 and (tmp_path / "step-1").exists()
    assert len(said) == 1 and "step-1: is no longer needed, but cannot be removed" in said[0]


def test_what_is_written_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, Path.rename

    def flushed(descriptor: int) -> None:
        done.append(("flush", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        fsync(descriptor)

    def renamed(path: Path, target: Path) -> Any:
        done.append(("rename", target.name))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", renamed)
    mask = os.umask(0)
    os.umask(mask)
    save(tmp_path, 1)
    at = done.index(("rename", "step-1"))
    before = [name for what, name in done[:at] if what == "flush"]
    assert "tensors.safetensors" in before
    assert any(name.startswith(".state.json") for name in before)
    assert any(name.startswith(".MANIFEST.json") for name in before)
    assert before[-1].startswith(".step-1."), "the directory that is renamed"
    assert ("flush", tmp_path.name) in done[at:], "the directory it is in"
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "step-1").iterdir()}
    assert modes == {0o666 & ~mask}


def test_many_saves_leave_nothing_behind(tmp_path: Path):
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    writer = Saver(tmp_path, pytest.fail)
    for step in range(1, 61):
        writer.save(step, TENSORS, {"step": step})
        if step == 10:
            writer.wait()
            before = descriptors()
    writer.wait()
    assert descriptors() == before and threading.active_count() < 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-59", "step-60"]


def test_unusual_places(corpus: Path, tmp_path: Path, tiny: dict):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "läufe und mehr").symlink_to(tmp_path / "elsewhere")
    out = tmp_path / "läufe und mehr" / "ein lauf ☃"
    headway.train(corpus, out=out, quiet=True, **tiny)
    assert headway.load(out)("the", max_tokens=2, seed=1)
