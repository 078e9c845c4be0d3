"""What the page shows, and trackers, connect to this machine alone: traced in a network namespace without a network."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_pages import BLOCKS, PACKAGES, ROOT

from headway.training.store.tracking import OPENED
from headway.workflows.export import export

ADDRESS = re.compile(r'connect\(\d+, \{sa_family=AF_INET6?, .*?(?:inet_addr|inet_pton)\((?:AF_INET6, )?"([^"]+)"')
LOOPBACK = re.compile(r"(::ffff:)?127\..*|::1")
OF_RAY = {"169.254.169.254"}
"""Ray's dashboard process asks the clouds' own address where it runs, also where its reports are switched off."""
ALONE = ["unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && exec "$@"', "alone"]


TRACKED = """import headway
rows = ([f"lamp {n}" for n in range(40)], ["good", "bad"] * 20)
headway.train(rows, track=%r, steps=3, d_model=8, layers=1, heads=2, out="run", quiet=True)
"""
NEEDS = {**PACKAGES, **{name: name for name in OPENED}}
SCRIPTS = {**BLOCKS, **{name: TRACKED % name for name in OPENED}}


@pytest.mark.parametrize("engine", NEEDS)
def test_only_this_machine_is_connected_to(engine: str, classifier_run: Path, tmp_path: Path):
    if find_spec(NEEDS[engine]) is None:
        pytest.skip(f"{NEEDS[engine]} is not installed")
    if shutil.which("strace") is None or subprocess.run([*ALONE, "true"], capture_output=True).returncode:
        pytest.skip("strace, ip and a network namespace are needed")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "answers").symlink_to(classifier_run)
    if engine == "MLflow":
        export(classifier_run, tmp_path / "mlflow-answers", to="mlflow")
    log = tmp_path / "connections"
    words = ["strace", "-f", "-qq", "-e", "trace=connect", "-o", str(log), sys.executable, "-c", SCRIPTS[engine]]
    places = {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
    places |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost", "WANDB_MODE": "offline"}
    places |= {"MLFLOW_TRACKING_URI": (tmp_path / "mlruns").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    places |= {"TRACKIO_DIR": str(tmp_path / "trackio")}
    ran = subprocess.run(
        [*ALONE, *words], cwd=tmp_path, env={**os.environ, **places}, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0 and "--track" not in ran.stderr, ran.stderr
    found = {address for address in ADDRESS.findall(log.read_text()) if not LOOPBACK.fullmatch(address)}
    assert found <= (OF_RAY | name_servers() if engine == "Ray" else set())


def name_servers() -> set[str]:
    """Where this machine asks for names, and so for that of Google's cloud."""
    return set(re.findall(r"^nameserver (\S+)", Path("/etc/resolv.conf").read_text(), re.MULTILINE))
