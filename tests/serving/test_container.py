"""``headway serve --dockerfile``: what it writes is complete, and starts; what it refuses leaves nothing behind."""

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import Distribution, version
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from headway.cli.serve import _named
from headway.errors import InputError
from headway.serving.container.wheel import write_wheel
from headway.serving.container.write import _with_folders, copy_model

ROOT = Path(__file__).parent.parent.parent
KEY = {"HEADWAY_API_KEY": "a-long-random-text"}


def steps(file: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with their arguments, in order."""
    joined = re.sub(r"\\\n", " ", file.read_text(encoding="utf-8"))
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def one(file: Path, word: str) -> str:
    """The arguments of the only instruction of a kind."""
    (found,) = [rest for name, rest in steps(file) if name == word]
    return found


@pytest.fixture(scope="module")
def written(models, tmp_path_factory) -> Path:
    """The directory for two models."""
    out = tmp_path_factory.mktemp("images") / "image"
    words = [models["labels"], f'odd=/ "name"={models["text"]}', "--dockerfile", out, "--port", "8765"]
    command = [sys.executable, "-m", "headway", "serve", *map(str, words), "--threads", "1", "--origin", "http://a.b"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HEADWAY_API_KEY": "never-in-an-image"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "docker build" in done.stdout, done.stderr
    return out


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_the_file_says_what_an_image_needs(written, name):
    file = written / name
    text, order = file.read_text(encoding="utf-8"), [word for word, _ in steps(file)]
    assert order[0] == "ARG" and order.index("FROM") < order.index("COPY")
    assert ("slim" in one(file, "FROM")) == (name == "Dockerfile") and ("cuda" in one(file, "FROM")) == ("cuda" in name)
    user = int(one(file, "USER"))
    assert user > 0 and order.index("USER") < order.index("ENTRYPOINT")
    assert order.index("USER") > max(at for at, word in enumerate(order) if word in ("RUN", "COPY"))
    assert any(f"useradd --uid {user} " in rest for word, rest in steps(file) if word == "RUN")
    assert one(file, "STOPSIGNAL") == "SIGTERM" and one(file, "EXPOSE") == "8765"
    assert "NO IMAGE HAS BEEN BUILT" in text and "Tried" in text
    assert "HEADWAY_API_KEY" not in "".join(rest for _, rest in steps(file))
    assert not re.search(r"https?://(?!a\.b)", "\n".join(line for line in text.splitlines() if "127.0.0.1" not in line))
    words = json.loads(one(file, "ENTRYPOINT"))
    assert words[:3] == ["headway", "serve", "/models/labels"] and words[3] == 'odd=/ "name"=/models/odd-name'
    assert words[4:] == ["--host=0.0.0.0", "--port=8765", "--origin=http://a.b", "--threads=1"]


def test_what_is_copied_lies_there_and_nothing_else_is_sent(written):
    sources = [rest.split()[0] for word, rest in steps(written / "Dockerfile") if word == "COPY"]
    assert sorted(sources) == ["constraints.txt", "models", "wheels"]
    assert all((written / source).exists() for source in sources)
    rules = [line for line in (written / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*" and sorted(rules[1:]) == [f"!{source}" for source in sorted(sources)]
    everything = [path for path in written.rglob("*") if path.is_file()]
    assert all(b"never-in-an-image" not in path.read_bytes() for path in everything)
    for path in (written / "models", *(written / "models").rglob("*"), *(written / "wheels").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)
    assert {path.name for path in written.parent.iterdir()} == {"image"}


def test_the_versions_are_those_that_served_here(written):
    lines = (written / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    assert set(pins) == {re.match(r"[\w-]+", line)[0] for line in needed}
    assert pins["torch"] == version("torch").partition("+")[0] and "+" not in "".join(pins.values())


def test_the_shell_lines_mean_what_they_say(written):
    """With and without an index of their own, as a shell reads them."""
    torch, headway = (rest for word, rest in steps(written / "Dockerfile") if word == "RUN" and "pip" in rest)
    words = {}
    for index in ("", "file:///an index"):
        script = f'pip() {{ printf "%s\\n" "$@"; }}\n{torch}\n{headway}'
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env={"TORCH_INDEX": index})
        words[index] = done.stdout.splitlines()
    assert "--index-url" not in words[""] and words[""].count("install") == 2
    assert words["file:///an index"][4:7] == ["--index-url", "file:///an index", "torch"]
    (wheel,) = (written / "wheels").iterdir()
    assert words[""][-1] == f"/install/wheels/{wheel.name}[serve]"


def test_the_entry_point_serves_from_the_wheel_until_sigterm(written, tmp_path):
    """As the image would, but for the root of paths, the address and the port; pip checks the wheel's own list."""
    (wheel,) = (written / "wheels").iterdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*pip, str(tmp_path / "site"), str(wheel)], check=True)
    words = json.loads(one(written / "Dockerfile", "ENTRYPOINT").replace("/models/", f"{written}/models/"))
    start = [sys.executable, str(tmp_path / "site" / "bin" / "headway"), *words[1:]]
    environment = {name: value for name, value in os.environ.items() if name != "HEADWAY_API_KEY"}
    environment |= {"PYTHONPATH": str(tmp_path / "site"), "HTTP_PROXY": "http://127.0.0.1:9"}
    refused = subprocess.run(start, capture_output=True, text=True, env=environment, timeout=120)
    assert refused.returncode == 2 and "HEADWAY_API_KEY" in refused.stderr and refused.stderr.count("\n") == 1
    start[start.index("--host=0.0.0.0")] = "--host=127.0.0.1"
    start[start.index("--port=8765")] = "--port=0"
    process = subprocess.Popen(start, stderr=subprocess.PIPE, text=True, env=environment | KEY, cwd=tmp_path)
    for line in process.stderr:
        if found := re.search(r"open (http://\S+?:(\d+)) in a browser", line):
            break
    told = {"authorization": f"Bearer {KEY['HEADWAY_API_KEY']}"}
    served = httpx.get(f"{found[1]}/v1/models", headers=told, trust_env=False).json()["data"]
    assert [one["id"] for one in served] == ["labels", 'odd=/ "name"']
    assert httpx.get(f"{found[1]}/v1/models", trust_env=False).status_code == 401
    check = json.loads(one(written / "Dockerfile", "HEALTHCHECK").partition(" CMD ")[2])
    check = [sys.executable, *(word.replace("8765", found[2]) for word in check[1:])]
    assert subprocess.run(check, env=environment).returncode == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert subprocess.run(check, env=environment, capture_output=True).returncode == 1


def test_sigterm_ends_what_is_still_loading(models):
    code = "import os, signal, headway.workflows.load as l\n"
    code += "l.load = lambda *a, **k: (print('loads', flush=True), signal.pause())\n"
    code += "from headway.cli.main import main\nmain()"
    command = [sys.executable, "-c", code, "serve", str(models["labels"])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    assert process.stdout.readline() == b"loads\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM


REFUSED = [
    (["{labels}", "--dockerfile", "full"], ["full", "not empty", "kept.txt"]),
    (["{labels}", "--dockerfile", "full/kept.txt"], ["kept.txt", "no directory"]),
    (["{labels}", "--dockerfile", "full/kept.txt/image"], ["cannot be written"]),
    (["{labels}", "--dockerfile", "link"], ["link", "no directory"]),
    (["{labels}", "--dockerfile", ""], ["--dockerfile", "empty"]),
    (["nowhere", "--dockerfile", "image"], ["nowhere", "no such model"]),
    (["full", "--dockerfile", "image"], ["full", "config.json"]),
    (["{labels}", "nowhere", "--dockerfile", "image"], ["nowhere", "no such model"]),
    (["{labels}", "{labels}", "--dockerfile", "image"], ["two models", "'labels'", "NAME=RUN"]),
    (["{labels}", "--dockerfile", "image", "--host", "0.0.0.0"], ["--host", "every address"]),
    (["{labels}", "--dockerfile", "image", "--keys", "full/kept.txt"], ["--keys", "HEADWAY_API_KEY"]),
    (["{labels}", "--dockerfile", "image", "--insecure"], ["--insecure", "start the container"]),
    (["{labels}", "--dockerfile", "image", "--port", "0"], ["--port 0"]),
    (["{labels}", "--dockerfile", "image", "--origin", "*"], ["--origin"]),
    (["{labels}", "--dockerfile", "image", "--device", "mps"], ["--device mps"]),
    (["{labels}", "--dockerfile", "image", "--engine", "llama.cpp"], ["--engine llama.cpp", "compiled"]),
    (["{labels}", "--dockerfile", "image", "--engine", "onnxruntime"], ["headway export"]),
]


@pytest.mark.parametrize(("words", "says"), REFUSED, ids=lambda value: " ".join(value))
def test_bad_input_is_one_message_and_nothing_is_written(words, says, models, tmp_path, monkeypatch, in_process):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept.txt").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    given = [word.format(labels=models["labels"]) for word in words]
    in_process.refused("serve", *given, said=tuple(says), lines=1)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "kept.txt", "link"]


def test_an_empty_directory_is_filled_unless_it_is_the_working_directory(models, tmp_path, monkeypatch, in_process):
    (tmp_path / "image").mkdir()
    monkeypatch.chdir(tmp_path / "image")
    status, _, err = in_process("serve", models["labels"], "--dockerfile", ".")
    assert status == 2 and "working directory" in err and not any((tmp_path / "image").iterdir())
    monkeypatch.chdir(tmp_path)
    assert in_process("serve", models["labels"], "--dockerfile", "image")[0] == 0
    assert (tmp_path / "image" / "Dockerfile").is_file() and [path.name for path in tmp_path.iterdir()] == ["image"]


def test_a_full_disk_leaves_nothing(models, tmp_path, monkeypatch, in_process):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(shutil, "copyfileobj", Mock(side_effect=full))
    out = tmp_path / "new" / "image"
    in_process.refused("serve", models["labels"], "--dockerfile", out, said="No space left", lines=1)
    assert not any(tmp_path.iterdir())


def test_only_what_answers_is_copied(models, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(models["vectors"], run)
    (run / "log.jsonl").write_text("{}\n")
    for name in ("report.html", ".env", "train.csv", "checkpoints/step-1/model.safetensors", "adapted/config.json"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("{}")
    (run / "seed-1").mkdir()
    (run / "seed-1" / "config.json").write_text("{}")
    os.mkfifo(run / "pipe.json")
    assert copy_model(run, tmp_path / "copy") > 1000
    copy, original = tmp_path / "copy", models["vectors"]
    found = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    model = {path.relative_to(original).as_posix() for path in original.rglob("*.*") if path.is_file()}
    assert {"config.json", "model.safetensors", "log.jsonl", "seed-1/config.json"} <= found
    assert found - {"log.jsonl", "seed-1/config.json"} <= model
    assert {name for name in model if re.match(r"\d+_\w+/", name)} <= found
    (run / "secret.json").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match=r"secret\.json.*link"):
        copy_model(run, tmp_path / "other")


def test_models_that_lack_a_file_of_another_kind_are_refused(models, tmp_path, monkeypatch, in_process):
    """Where the files that are copied are not enough, this is found before an image is."""
    monkeypatch.setattr("headway.serving.container.write.ENDINGS", (".json",))
    status, _, err = in_process("serve", models["labels"], "--dockerfile", tmp_path / "image")
    assert status == 2 and "a copy of it cannot be served" in err and not any(tmp_path.iterdir())


def test_every_name_survives_its_folder(tmp_path):
    names = [
        "reviews",
        "Reviews",
        "org/name",
        "org-name",
        "lr=0.1",
        "a b",
        "..",
        "-x",
        "日本",
        "$HOME",
        'q"\\',
        "x" * 200,
    ]
    found = _with_folders([(name, "run") for name in names])
    folders = [model.folder for model in found]
    assert len({folder.lower() for folder in folders}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,85}", folder) for folder in folders)
    assert found[0].argument == "/models/reviews"
    for model in found:
        (tmp_path / "models" / model.folder).mkdir(parents=True)
        place = model.argument.replace("/models/", f"{tmp_path}/models/")
        assert _named(place) == (model.name, f"{tmp_path}/models/{model.folder}")


def test_a_picture_model_brings_pillow(models, tmp_path, in_process):
    assert in_process("serve", models["pictures"], "--dockerfile", tmp_path / "image")[0] == 0
    last = [rest for word, rest in steps(tmp_path / "image" / "Dockerfile") if word == "RUN" and "pip" in rest][-1]
    assert shlex.split(last)[-1] == "pillow"
    assert f"pillow=={version('pillow')}\n" in (tmp_path / "image" / "constraints.txt").read_text()


def test_an_engine_brings_its_export(models, tmp_path, in_process):
    run = tmp_path / "labels"
    shutil.copytree(models["labels"], run)
    assert in_process("export", run, "--to", "onnx")[0] == 0
    words = ("--dockerfile", tmp_path / "image", "--engine", "onnxruntime")
    assert in_process("serve", run, *words)[0] == 0
    image = tmp_path / "image"
    assert (image / "models" / "labels" / "exports" / "onnx" / "model.onnx").is_file()
    last = [rest for word, rest in steps(image / "Dockerfile") if word == "RUN" and "pip" in rest][-1]
    assert shlex.split(last)[-1] == "onnxruntime"
    assert "--engine=onnxruntime" in json.loads(one(image / "Dockerfile", "ENTRYPOINT"))


TASK_OF_OTHERS = """
import sys
import headway
from headway.cli.main import main
headway.train(sys.argv[1], task="stars", steps=2, batch_tokens=256, out="stars", quiet=True)
main(["serve", "stars", "--dockerfile", "image"])
"""


def test_a_task_of_another_package_is_installed_too(tmp_path):
    site = tmp_path / "site"
    about = site / "own_task-0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-task\nVersion: 0.1\nRequires-Dist: rich\n")
    (about / "entry_points.txt").write_text("[headway.tasks]\nstars = own_task\n")
    shutil.copy(ROOT / "examples" / "own_task.py", site)
    rows = "".join(f"the lamp is {word},{stars}\n" for word, stars in (("great", 5), ("awful", 1)) * 40)
    (tmp_path / "stars.csv").write_text(f"text,stars\n{rows}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(site)])}
    command = [sys.executable, "-c", TASK_OF_OTHERS, "stars.csv"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    last = [rest for word, rest in steps(tmp_path / "image" / "Dockerfile") if word == "RUN" and "pip" in rest][-1]
    assert shlex.split(last)[-1] == "/install/wheels/own_task-0.1-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / "image" / "wheels" / "own_task-0.1-py3-none-any.whl") as wheel:
        assert wheel.read("own_task.py") == (site / "own_task.py").read_bytes()


def test_a_wheel_is_the_same_every_time_and_holds_no_compiled_code(tmp_path, monkeypatch):
    site = tmp_path / "site"
    about = site / "a_task-0.3.dist-info"
    (site / "a_task" / "__pycache__").mkdir(parents=True)
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: a-task\nVersion: 0.3\n")
    (about / "entry_points.txt").write_text("[headway.tasks]\nstars = a_task\n")
    (site / "a_task" / "__init__.py").write_text("STARS = 5\n")
    (site / "a_task" / "words.txt").write_text("five\n")
    (site / "a_task" / "__pycache__" / "x.pyc").write_bytes(b"x")
    monkeypatch.syspath_prepend(str(site))
    package = Distribution.at(about)
    (tmp_path / "again").mkdir()
    made = write_wheel(package, {"a_task"}, tmp_path)
    assert made.name == "a_task-0.3-py3-none-any.whl"
    assert made.read_bytes() == write_wheel(package, {"a_task"}, tmp_path / "again").read_bytes()
    with zipfile.ZipFile(made) as wheel:
        files = {"a_task/__init__.py", "a_task/words.txt"}
        about_it = {f"a_task-0.3.dist-info/{name}" for name in ("METADATA", "entry_points.txt", "WHEEL", "RECORD")}
        assert set(wheel.namelist()) == files | about_it
    (site / "a_task" / "fast.so").write_bytes(b"\x7fELF")
    with pytest.raises(InputError, match=r"fast\.so.*compiled"):
        write_wheel(package, {"a_task"}, tmp_path)
