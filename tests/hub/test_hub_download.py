"""Ids of the hub: fetched when asked for and at no other time, from a stand-in server on this machine."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

import headway
from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.hub.download import ID, Download, fetch, is_hub_id, locate
from headway.io.regular_file import inside
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.text.train import train_tokenizer

FIRST, SECOND = "0123456789abcdef" * 2 + "01234567", "fedcba9876543210" * 2 + "fedcba98"
NEVER = {
    **{"modeling.py": b"raise SystemExit", "pytorch_model.bin": b"a pickle", "README.md": b"# A model"},
    **{"model.fp16.safetensors": b"a variant", "consolidated.safetensors": b"all once more"},
    **{"onnx/model.onnx": b"another layout", "onnx/config.json": b"{}", "flax_model.msgpack": b"another layout"},
}
"""What a repository may hold beside a model."""


class Hub:
    """Repositories by id and revision, and what was asked for."""

    def __init__(self):
        self.revisions: dict[str, dict[str, str]] = {}
        self.files: dict[tuple[str, str], dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.asked: list[str] = []
        self.agents: set[str] = set()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                hub.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add(self, name, commit, files, *revisions):
        self.files[name, commit] = files
        self.revisions.setdefault(name, {}).update({commit: commit}, **dict.fromkeys(revisions, commit))

    def answer(self, request):
        path = urllib.parse.unquote(urllib.parse.urlsplit(request.path).path)
        self.asked.append(f"{request.command} {path}")
        self.agents.add(request.headers.get("User-Agent", ""))
        words = path.strip("/").split("/")
        name = "/".join(words[2:4] if words[0] == "api" else words[:2])
        revision = words[5] if words[0] == "api" else words[3]
        status, body, headers = self.found(name, revision, words)
        request.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(key, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    def found(self, name, revision, words):
        if name in self.private:
            return 403, b"", {"X-Error-Code": "GatedRepo"}
        if name not in self.revisions:
            return 401, b"", {"X-Error-Code": "RepoNotFound"}
        if (commit := self.revisions[name].get(revision)) is None:
            return 404, b"", {"X-Error-Code": "RevisionNotFound"}
        files = self.files[name, commit]
        if words[0] == "api" and words[4] == "revision":
            listed = [{"rfilename": file} for file in files]
            return 200, json.dumps({"id": name, "sha": commit, "siblings": listed}).encode(), {}
        if words[0] == "api" and words[4] == "tree":
            sums = {file: hashlib.sha1(content).hexdigest() for file, content in files.items()}
            tree = [{"type": "file", "path": file, "size": len(files[file]), "oid": sums[file]} for file in files]
            return 200, json.dumps(tree).encode(), {}
        if (content := files.get("/".join(words[4:]))) is None:
            return 404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}
        return 200, content, {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": commit}


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def sharded(files):
    """The same weights in two files, under names that the index alone tells."""
    from safetensors.torch import load, save

    weights = list(load(files["model.safetensors"]).items())
    parts = {"weights-a.safetensors": dict(weights[:5]), "weights-b.safetensors": dict(weights[5:])}
    index = {"metadata": {}, "weight_map": {name: file for file, part in parts.items() for name in part}}
    others = {name: content for name, content in files.items() if name != "model.safetensors"}
    written = {file: save(part, {"format": "pt"}) for file, part in parts.items()}
    return {**others, **written, "model.safetensors.index.json": json.dumps(index).encode()}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A tiny language model."""
    tokenizer = train_tokenizer(["the cat sat on a mat\n"] * 7, "char")
    config = TransformerConfig(
        tokenizer.vocab_size, d_model=26, n_heads=1, n_layers=2, d_ff=17, max_length=29, norm_parameters="none",
        activation="relu2", gated=False, embedding_norm=True, qk_norm=True,
    )  # fmt: skip
    torch.manual_seed(3)
    directory = tmp_path_factory.mktemp("model")
    save_model(Decoder(config), directory)
    tokenizer.save(directory)
    return directory


@pytest.fixture(scope="module")
def hub(directory):
    """The model as org/plain (two commits), org/shards and org/empty; org/closed asks for terms."""
    hub, files = Hub(), contents(directory)
    hub.add("org/plain", FIRST, {**files, **NEVER}, "v1.0")
    hub.add("org/plain", SECOND, {**files, "chat_template.jinja": b"{{ messages }}", **NEVER}, "main")
    hub.add("org/shards", FIRST, {**sharded(files), **NEVER}, "main")
    hub.add("org/empty", FIRST, {"README.md": b"# Nothing"}, "main")
    hub.add("org/pickle", FIRST, {"config.json": files["config.json"], "pytorch_model.bin": b"a pickle"}, "main")
    hub.private.add("org/closed")
    return hub


def run(code, home, hub, *words, **environment):
    """Run Python in a process of its own: the hub's library reads its variables when it is imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    kept |= {"HF_HOME": str(home), "HF_ENDPOINT": hub if isinstance(hub, str) else hub.address, **environment}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=kept, cwd=home, capture_output=True, text=True, timeout=60)


FETCH = """
import json, sys
from headway.errors import InputError
from headway.hub.download import fetch
for word in sys.argv[1:]:
    try:
        found = fetch(word, allow_pickle=word.startswith("org/pickle"))
        files = sorted(path.relative_to(found.path).as_posix() for path in found.path.rglob("*") if path.is_file())
        print(json.dumps([str(found.path), found.id, found.revision, files]))
    except InputError as error:
        print(json.dumps(str(error)))
"""
USE = """
import sys, torch, headway
for name in sys.argv[1:]:
    pipe = headway.load(name)
    assert torch.equal(*(next(m.parameters()) for m in (pipe.model, headway.load_model(name))))
    print(pipe("the", temperature=0, max_tokens=7))
"""


def test_what_a_model_is_made_of_is_fetched_once_and_its_commit_told(hub, directory, tmp_path):
    hub.asked.clear()
    hub.agents.clear()
    ids = ["org/plain", "org/plain@v1.0", f"org/plain@{FIRST}", "org/shards"]
    found = run(FETCH, tmp_path, hub, *ids, TQDM_POSITION="1")
    assert found.returncode == 0 and found.stderr == "", found.stderr
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    names = sorted(path.name for path in directory.iterdir())
    assert [answer[1:3] for answer in answers] == [
        *(["org/plain", SECOND], ["org/plain", FIRST], ["org/plain", FIRST], ["org/shards", FIRST])
    ]
    assert [answer[3] for answer in answers[:3]] == [sorted([*names, "chat_template.jinja"]), names, names]
    assert sorted({*names, "weights-a.safetensors", "weights-b.safetensors", "model.safetensors.index.json"} - {
        "model.safetensors"
    }) == answers[3][3]  # fmt: skip
    assert all(Path(answer[0]).is_relative_to(tmp_path) for answer in answers)
    assert not [line for line in hub.asked if line.endswith(tuple(NEVER))]
    assert len([line for line in hub.asked if line.startswith("GET") and line.endswith("/model.safetensors")]) == 1
    assert all(agent.startswith("headway/") and "torch" not in agent for agent in hub.agents), hub.agents

    expected = headway.load(directory)("the", temperature=0, max_tokens=7)
    hub.asked.clear()
    assert run(FETCH, tmp_path, hub, "org/plain", "org/shards").stdout
    assert hub.asked and not [line for line in hub.asked if line.startswith("GET /org")], "nothing is fetched twice"
    gone = run(USE, tmp_path, "http://127.0.0.1:9", "org/plain", "org/shards")
    assert gone.stdout == f"{expected}\n" * 2 and gone.stderr == "", "without a connection, the cache is used"


def test_what_cannot_be_fetched_is_said_in_one_line(hub, tmp_path):
    said = {"org/none": "no such model", "org/closed": "terms"}
    said |= {"org/plain@v9": "no revision 'v9'", "org/empty": "no config.json"}
    found = run(FETCH, tmp_path, hub, *said)
    assert found.returncode == 0 and found.stderr == "", found.stderr
    for line, (name, words) in zip(found.stdout.splitlines(), said.items(), strict=True):
        message = json.loads(line)
        assert isinstance(message, str) and "\n" not in message
        assert message.startswith(name.partition("@")[0] + ": ") and words in message


def test_pickles_are_fetched_when_that_is_allowed_and_at_no_other_time(hub, tmp_path):
    code = f"""{FETCH}
try:
    fetch("org/pickle")
except InputError as error:
    print(json.dumps(str(error)))
    import urllib.request
    urllib.request.urlopen("{hub.address}/api/models/org/plain/revision/main")
{FETCH}
"""
    hub.asked.clear()
    words = ["org/pickle"]
    found = run(code.replace("sys.argv[1:]", "[]", 1), tmp_path, hub, *words)
    refused, allowed = (json.loads(line) for line in found.stdout.splitlines())
    assert "--allow-pickle" in refused
    before = hub.asked[: hub.asked.index("GET /api/models/org/plain/revision/main")]
    assert before and not [line for line in before if line.endswith(".bin")]
    assert allowed[3] == ["config.json", "pytorch_model.bin"]


def test_without_a_connection(tmp_path):
    nobody = "http://127.0.0.1:9"
    offline = run(FETCH, tmp_path, nobody, "org/plain", HF_HUB_OFFLINE="1")
    assert "org/plain: " in offline.stdout and "HF_HUB_OFFLINE is set" in offline.stdout
    code = "from headway.cli.main import main; main()"
    found = run(code, tmp_path, nobody, "generate", "org/plain", "the")
    assert found.returncode == 2 and found.stdout == "", found.stderr
    assert found.stderr.startswith("headway: org/plain: ") and "cannot be reached" in found.stderr
    assert found.stderr.count("\n") == 1


def test_without_the_library_one_line_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for load in (headway.load, headway.load_model):
        with pytest.raises(InputError, match=r"^org/plain: .*pip install 'headway\[hub\]'$"):
            load("org/plain")


def test_a_path_opens_no_socket(directory, tmp_path, monkeypatch):
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, lambda *_, **__: pytest.fail("a socket was opened"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "plain").symlink_to(directory)
    monkeypatch.chdir(tmp_path)
    expected = headway.load(directory)("the", temperature=0, max_tokens=7)
    assert headway.load("org/plain")("the", temperature=0, max_tokens=7) == expected, "a path that exists is a path"
    assert load_model("org/plain").config == load_model(directory).config
    assert locate("org/plain") == Download(Path("org/plain"))
    for place in ("org/other", "nowhere", "nowhere/", "./org/plain2", "a/b/c", "org name/b", Path("some/model")):
        with pytest.raises(InputError, match="no such model directory"):
            headway.load(place)


def test_a_cache_that_shares_files_among_models(directory, tmp_path):
    """Since version 2 of the library, a large file may be a link to a link: to one store for all models."""
    model, store = tmp_path / "models--org--plain", tmp_path / "blobs" / "01"
    snapshot = model / "snapshots" / FIRST
    for folder in (snapshot, model / "blobs", store):
        folder.mkdir(parents=True)
    for number, (name, content) in enumerate(contents(directory).items()):
        (store / f"{number}").write_bytes(content)
        (model / "blobs" / f"{number}").symlink_to(f"../../blobs/01/{number}")
        (snapshot / name).symlink_to(f"../../blobs/{number}")
    assert headway.load(snapshot)("the", temperature=0) == headway.load(directory)("the", temperature=0)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert inside(snapshot, name).is_file()
    (snapshot / "added_tokens.json").symlink_to("../../../elsewhere.json")
    with pytest.raises(InputError, match="stays inside"):
        inside(snapshot, "added_tokens.json")


def test_what_has_the_form_of_an_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = ("org/name", "org/name@main", "a/b", "Org-1/na.me_2", "org/name@refs/pr/3", "org/name@v1.0")
    assert all(is_hub_id(place) for place in ids)
    others = (
        *("name", "org/name/more", "/org/name", "./org/name", "../name", "org/", "org/na me", "org/name@"),
        *("org/..", "o..g/name", "org/name@../x", "o--g/name", "org/name.git", "", "org/näme", "org\\name", "org/na\n"),
    )
    assert not [place for place in others if is_hub_id(place)]
    (tmp_path / "runs").mkdir()
    assert not is_hub_id("runs/reviews"), "a mistyped path is not looked up anywhere"
    assert is_hub_id("runs/reviews@main")
    with pytest.raises(InputError, match="expected org/name"):
        fetch("reviews")
    assert ID.fullmatch("org/" + "x" * 97) is None
