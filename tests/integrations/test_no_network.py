"""What the page shows, and trackers, connect to this machine alone: traced in a network namespace without a network."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_pages import BLOCKS, PACKAGES, run_example

from headway.training.store.tracking import OPENED

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
def test_only_this_machine_is_connected_to(engine, classifier_run, tmp_path):
    if shutil.which("strace") is None or subprocess.run([*ALONE, "true"], capture_output=True).returncode:
        pytest.skip("strace, ip and a network namespace are needed")
    log = tmp_path / "connections"
    traced = [*ALONE, "strace", "-f", "-qq", "-e", "trace=connect", "-o", str(log)]
    places = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost", "WANDB_MODE": "offline"}
    places |= {"MLFLOW_TRACKING_URI": (tmp_path / "mlruns").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    places |= {"TRACKIO_DIR": str(tmp_path / "trackio")}
    ran = run_example(engine, NEEDS[engine], SCRIPTS[engine], classifier_run, tmp_path, traced, **places)
    assert "--track" not in ran.stderr, ran.stderr
    found = {address for address in ADDRESS.findall(log.read_text()) if not LOOPBACK.fullmatch(address)}
    assert found <= (OF_RAY | name_servers() if engine == "Ray" else set())


def name_servers():
    """Where this machine asks for names, and so for that of Google's cloud."""
    return set(re.findall(r"^nameserver (\S+)", Path("/etc/resolv.conf").read_text(), re.MULTILINE))
