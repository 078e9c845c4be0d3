"""``headway train --watch``: what the page is told while a run trains, and that its server leaves with the training."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

sys.path.append(str(Path(__file__).parent))
from served_models import ROOT, until
from watched_run import SNAPSHOTS, gone, told, write_run

from headway.cli import train as watching
from headway.cli.train import watched
from headway.serving import watch_server
from headway.serving.responses import RequestError
from headway.serving.training import MOST_SNAPSHOTS, run_so_far, training

ADDRESS = re.compile(r"watch it at (http://127\.0\.0\.1:\d+)")


@contextmanager
def shown(run: Path, capsys: pytest.CaptureFixture) -> Iterator[str]:
    """The address of the page of a run."""
    with watched(run, True):
        yield ADDRESS.search(capsys.readouterr().err)[1]


class Training:
    """``headway train --watch`` in a process of its own, without standard input."""

    def __init__(self, folder: Path, *words: object):
        command = [sys.executable, "-m", "headway", "train", *map(str, words), "--watch", "--json"]
        self.out, self.err = folder / "out.txt", folder / "err.txt"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                ["sh", "-c", 'exec "$@" <&-', "sh", *command], stdout=out, stderr=err, env=environment
            )
        until(lambda: ADDRESS.search(self.said) or self.process.poll() is not None)
        self.address = ADDRESS.search(self.said)[1]

    @property
    def said(self) -> str:
        return self.err.read_text()


def test_a_training_is_shown_until_it_stops_and_when_it_goes_on(corpus, tiny_words_but, tmp_path):
    words = [corpus, "--out", tmp_path / "run", "--snapshots", "--quiet", "--allow-changes"]
    long = Training(tmp_path, *words, *tiny_words_but(steps=200_000))
    page = httpx.get(long.address)
    assert "<title>Headway playground</title>" in page.text
    assert "default-src 'self'" in page.headers["content-security-policy"]
    until(lambda: told(long.address)["steps"], 60)
    found: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: found.append(told(long.address, wait=30)))
    asking.start()
    time.sleep(0.5)
    long.process.send_signal(signal.SIGINT)
    assert long.process.wait(60) == 130 and gone(long.address) and long.out.read_text() == ""
    asking.join(10)
    assert found[0]["ended"] and not found[0]["finished"] and found[0]["last_step"] > 0

    step = found[0]["last_step"]
    short = Training(tmp_path, *words, *tiny_words_but(steps=step + 200, evaluations=3))
    while not (now := told(short.address, wait=20))["ended"]:
        assert not now["begun"] or now["last_step"] >= step - 10
    assert now["finished"] and now["last_step"] == step + 200 and now["verdict"] and now["snapshots"]
    assert short.process.wait(60) == 0 and gone(short.address)
    result = json.loads(short.out.read_text())
    assert result["steps"] == step + 200 and "warning" not in short.said


def test_the_page_is_gone_when_the_training_is_killed(corpus, tiny_words_but, tmp_path):
    training = Training(tmp_path, corpus, "--out", tmp_path / "run", *tiny_words_but(steps=200_000))
    assert not told(training.address)["finished"]
    training.process.kill()
    training.process.wait(60)
    assert until(lambda: gone(training.address), 5) < 5


def test_a_training_that_fails_takes_the_page_with_it(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    training = Training(tmp_path, tmp_path / "empty.txt", "--out", tmp_path / "run")
    assert training.process.wait(60) == 2 and gone(training.address)
    assert "empty.txt" in training.said and training.out.read_text() == ""


def test_what_is_not_there_is_refused_before_training(in_process, corpus, tmp_path, monkeypatch):
    out = tmp_path / "run"
    assert "--plan does not train" in in_process("train", corpus, "--out", out, "--watch", "--plan")[2]
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    status, _, err = in_process("train", corpus, "--out", out, "--watch")
    assert status == 2 and "pip install 'headway[serve]'" in err and not out.exists()


def test_only_the_first_process_serves(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    with watched(tmp_path, True):
        assert capsys.readouterr().err == ""


def test_two_runs_are_watched_at_once(tmp_path, capsys):
    runs = [write_run(tmp_path / name) for name in ("one", "two")]
    with shown(runs[0], capsys) as first, shown(runs[1], capsys) as second:
        assert (told(first)["run"], told(second)["run"]) == ("one", "two")
        assert httpx.get(f"{first}/training?model=two").status_code == 404
    assert gone(first) and gone(second)


def test_a_page_that_died_is_said_and_harms_nothing(tmp_path, capsys):
    server, address = watching._started(tmp_path)
    server.kill()
    server.wait()
    watching._end(server)
    assert "page of --watch ended before the training" in capsys.readouterr().err and gone(address)


def test_whatever_happens_to_the_run_directory_the_page_goes_on(tmp_path, capsys):
    run = tmp_path / "my run"
    with shown(run, capsys) as address:

        def after(condition: Any) -> dict[str, Any]:
            until(lambda: condition(told(address)), 10)
            return told(address)

        after(lambda found: not found["begun"])
        run.mkdir()
        (run / "log.jsonl").write_text('{"event": "start"}\n{"event": "st')
        assert after(lambda found: found["begun"])["last_step"] is None
        lines = [
            '{"event": "step", "step": 1, "loss": NaN}',
            '{"event": "step", "step": 2, "loss": "nan"}',
            '{"event": "step", "step": 3, "loss": 1e999}',
            '{"event": "evaluation", "step": 3, "val_loss": NaN, "best": true}',
            '{"event": "sample", "step": 3, "text": "\\ud800"}',
        ]
        (run / "log.jsonl").write_text("\n".join(lines) + '\n{"event": "step", "step": 4, "lo')
        found = after(lambda found: found["last_step"] == 3)
        assert found["steps"] == [] == found["evaluations"] and len(found["samples"]) == 1
        (run / "headway.json").write_text("{")
        after(lambda found: not found["begun"])
        (run / "headway.json").unlink()
        after(lambda found: found["begun"])
        shutil.rmtree(run)
        after(lambda found: not found["begun"])
        write_run(run)
        after(lambda found: found["last_step"] == 40)


def test_snapshots_are_named_within_the_run(tmp_path):
    run = write_run(tmp_path / "my run")
    (run / "snapshots" / "step-50").mkdir()  # is being written
    (run / "snapshots" / "step-60").symlink_to(run / "snapshots" / "step-10")
    found = run_so_far(run)["snapshots"]
    assert [one["step"] for one in found] == list(SNAPSHOTS)
    assert [one["step"] for one in found if one["kept"]] == [30]
    assert found[1] == {
        **{"name": "snapshots/step-20", "step": 20, "val_loss": 4.0 - 20 / 30, "bytes": 20_002, "kept": False},
        "command": "headway generate 'my run/snapshots/step-20' \"...\"",
    }
    assert str(tmp_path) not in json.dumps(run_so_far(run))
    for step in range(100, 100 + 2 * MOST_SNAPSHOTS):
        shutil.copytree(run / "snapshots" / "step-10", run / "snapshots" / f"step-{step}")
    many = run_so_far(run)["snapshots"]
    assert len(many) == MOST_SNAPSHOTS + 1 and many[0]["step"] == 30 and many[0]["kept"]


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        ({"options": {"keep": "last"}}, 40),
        ({"finished": True, "steps": 40, "kept": {"step": 20, "val_loss": 3.0}}, 20),
        ({"steps": 40, "kept": {"step": 20, "val_loss": 3.0}}, 30),  # it is being continued
    ],
)
def test_the_snapshot_that_the_run_answers_with(tmp_path, facts, kept):
    found = run_so_far(write_run(tmp_path / "run", **facts))
    assert [one["step"] for one in found["snapshots"] if one["kept"]] == [kept]
    assert found["finished"] is facts.get("finished", False)


def test_the_run_inside_the_run_that_trains_is_shown(tmp_path, capsys):
    outer = tmp_path / "run"
    outer.mkdir()
    with shown(outer, capsys) as address:
        for name in ("seed-0", "seed-1"):
            write_run(outer / name)
            until(lambda name=name: told(address)["part"] == name, 10)
            found = told(address)
            assert found["snapshots"][0]["name"] == f"{name}/snapshots/step-10"
            assert found["snapshots"][0]["command"].startswith(f"headway generate run/{name}/snapshots/step-10 ")


def test_a_long_log_is_not_read_for_every_question(tmp_path, monkeypatch):
    read: list[Path] = []
    monkeypatch.setattr(watch_server, "run_so_far", lambda run, part: (read.append(run), time.sleep(0.2), {})[2])
    one = watch_server.Watched(tmp_path)
    for _ in range(5):
        one.told()
    assert len(read) == 1
    one.told(now=True)
    assert len(read) == 2


def test_showing_a_run_needs_no_torch(tmp_path):
    run = write_run(tmp_path / "run", finished=True, steps=40)
    code = (
        "import sys; from pathlib import Path; import headway.serving.watch_server as server\n"
        "from headway.serving.watch_server import Watched\n"
        f"assert Watched(Path({str(run)!r})).told()['verdict']\n"
        "assert server.WatchApp(Path('.'), server.Settings())\n"
        "assert not {'torch', 'fastapi', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})


def test_a_run_that_is_gone_while_its_model_is_served_is_not_found(tmp_path):
    state = SimpleNamespace(find=lambda request, name: SimpleNamespace(name=name, directory=tmp_path))
    request = SimpleNamespace(query_params={"model": "notes"})
    with pytest.raises(RequestError, match="the run directory of notes is gone") as refused:
        asyncio.run(training(request, state))
    assert refused.value.status == 404 and str(tmp_path) not in refused.value.message


def test_wrong_waits_are_refused(tmp_path, capsys):
    with shown(write_run(tmp_path / "run"), capsys) as address:
        for asked in ("-1", "31", "x", "1e1", "٣", ""):
            response = httpx.get(f"{address}/training", params={"wait": asked})
            assert response.status_code == 400 and response.json()["error"]["param"] == "wait", asked
        assert httpx.get(f"{address}/health", headers={"host": "evil.example"}).status_code == 400
        assert httpx.get(f"{address}/v1/completions").status_code == 404
