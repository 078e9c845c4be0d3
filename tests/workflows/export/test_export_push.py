"""``export --push``: a stand-in of the hub's API on this machine says what was asked of it."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

huggingface_hub = pytest.importorskip("huggingface_hub")
NAME = "ada/notes"


class Hub:
    """Answers the calls of an upload, and keeps the files of a commit."""

    def __init__(self) -> None:
        self.repositories: dict[str, bool] = {}
        """whether each is private"""
        self.files: dict[str, bytes] = {}
        self.refuse: dict[str, int] = {}
        """the end of a path -> the status that it is refused with; 0: the connection is dropped"""
        self.uploads: dict[str, bytes] = {}
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.partition("?")[0]
                for end, status in hub.refuse.items():
                    if path.endswith(end):
                        if status == 0:
                            self.connection.close()
                            return
                        return self.send(status, {"error": "not allowed"})
                self.send(*hub.reply(self.command, path, body))

            def send(self, status: int, content: Any) -> None:
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                if status == 404:
                    self.send_header("X-Error-Code", "RepoNotFound")
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_HEAD = answer

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def reply(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if path == "/api/repos/create":
            asked = json.loads(body)
            private = asked.get("private", asked.get("visibility") == "private")
            self.repositories[NAME] = bool(private)
            return 200, {"url": f"{self.url}/{NAME}"}
        if path.startswith("/put/"):
            self.uploads[path.removeprefix("/put/")] = body
            return 200, {}
        if NAME not in self.repositories:
            return 404, {"error": "Repository not found"}
        if path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            modes = [{"path": file["path"], "uploadMode": self.mode(file["path"])} for file in files]
            return 200, {"files": [{**mode, "shouldIgnore": False} for mode in modes]}
        if path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            found = [
                {**one, "actions": {"upload": {"href": f"{self.url}/put/{one['oid']}", "header": {}}}}
                for one in objects
            ]
            return 200, {"transfer": "basic", "objects": found}
        if "/commit/" in path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = b"plain"
                if line["key"] == "lfsFile":
                    self.files[line["value"]["path"]] = self.uploads[line["value"]["oid"]]
            return 200, {"commitUrl": f"{self.url}/{NAME}/commit/a", "commitOid": "a" * 40, "success": True}
        private = self.repositories[NAME]
        return 200, {"id": NAME, "sha": "a" * 40, "private": private, "siblings": [], "tags": [], "xetEnabled": False}

    @staticmethod
    def mode(path: str) -> str:
        return "lfs" if path.endswith(".safetensors") else "regular"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub()
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", made.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", made.url)
    monkeypatch.setenv("HF_TOKEN", "hf_standin")
    yield made
    made.server.shutdown()


def test_what_was_compared_is_pushed_and_is_private(hub: Hub, lm_run: Path, tmp_path: Path, in_process: Callable):
    status, text, err = in_process("export", lm_run, "--out", tmp_path / "out", "--push", NAME)
    assert status == 0 and f"pushed to {hub.url}/{NAME}" in text, err
    assert hub.repositories == {NAME: True}
    assert set(hub.files) == {path.name for path in (tmp_path / "out").iterdir()} - {"headway_export.json"}
    assert hub.files["model.safetensors"] == (tmp_path / "out" / "model.safetensors").read_bytes()
    assert f'headway.load("{NAME}")' in (tmp_path / "out" / "README.md").read_text()


def test_public_where_that_is_asked_for(hub: Hub, lm_run: Path, tmp_path: Path, in_process: Callable):
    status, _, err = in_process("export", lm_run, "--out", tmp_path / "out", "--push", NAME, "--public")
    assert status == 0 and hub.repositories == {NAME: False}, err
    hub.files.clear()
    status, _, err = in_process("export", lm_run, "--out", tmp_path / "out", "--push", NAME)
    assert status == 2 and "this repository is public; add --public" in err and not hub.files


def test_a_failed_comparison_pushes_nothing(
    hub: Hub, lm_run: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    from headway.formats.hf import export

    monkeypatch.setattr(export, "max_difference", lambda *_: 1.0)
    status, _, err = in_process("export", lm_run, "--out", tmp_path / "out", "--push", NAME)
    assert status == 1 and "the answers differ" in err and not hub.repositories and not hub.files


REFUSED = {
    "a token that is not accepted": ("/api/repos/create", 401, "does not accept the token"),
    "another's name": ("/api/repos/create", 403, "the token may not write there"),
    "an upload that breaks off": ("/commit/main", 0, "was interrupted"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_hub_refuses_is_a_message(what: str, hub: Hub, lm_run: Path, tmp_path: Path, in_process: Callable):
    end, status, said = REFUSED[what]
    hub.refuse[end] = status
    status, _, err = in_process("export", lm_run, "--out", tmp_path / "out", "--push", NAME)
    assert status == 2 and said in err and err.count("\n") == 1 and not hub.files, err
    assert f"the export is in {tmp_path / 'out'}" in err and (tmp_path / "out" / "model.safetensors").exists()


def test_before_anything_is_exported(
    hub: Hub, lm_run: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    for words, said in (
        (("--push", "notes"), "is not the name of a repository; expected OWNER/NAME"),
        (("--push", NAME, "--to", "onnx"), "an export for onnx is not pushed"),
    ):
        status, _, err = in_process("export", lm_run, "--out", tmp_path / "out", *words)
        assert status == 2 and said in err and err.count("\n") == 1
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    status, _, err = in_process("export", lm_run, "--out", tmp_path / "out", "--push", NAME)
    assert status == 2 and "there is no token of the hub here" in err and not (tmp_path / "out").exists()
