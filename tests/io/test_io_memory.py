"""How much memory there is: the machine's numbers, a container's if fewer, from stand-ins for /proc and /sys."""

import sys
from pathlib import Path

import pytest

from headway.errors import InputError
from headway.io import memory
from headway.io.memory import available_bytes, check_fits, total_bytes

MB = 10**6
MEMINFO = "MemTotal:     8000000 kB\nMemFree:  1000 kB\nMemAvailable: 5000000 kB\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes files of a system, named by their path, and has them read instead of this one's."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "sys/fs/cgroup")
    monkeypatch.setattr(memory, "_limit", lambda: None)

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    return write


def version_2(path: str, most: str, used: int, cached: int = 0) -> dict[str, str]:
    folder = f"sys/fs/cgroup{path}".rstrip("/")
    stat = f"anon 7\nfile 11\ninactive_file {cached}\nactive_file 13\n"
    return {f"{folder}/memory.max": most, f"{folder}/memory.current": f"{used}\n", f"{folder}/memory.stat": stat}


def version_1(path: str, most: int, used: int, cached: int = 0) -> dict[str, str]:
    folder = f"sys/fs/cgroup/memory{path}".rstrip("/")
    stat = f"inactive_file 3\nactive_file 13\ntotal_inactive_file {cached}\n"
    limit, usage = f"{folder}/memory.limit_in_bytes", f"{folder}/memory.usage_in_bytes"
    return {limit: f"{most}\n", usage: f"{used}\n", f"{folder}/memory.stat": stat}


def test_a_machine_without_containers(system):
    system({"proc/meminfo": MEMINFO})
    assert total_bytes() == 8_192_000_000
    assert available_bytes() == 5_120_000_000


def test_a_system_that_tells_nothing_has_its_pages(system, monkeypatch):
    monkeypatch.setattr(memory, "_physical", lambda: 17)
    assert total_bytes() == available_bytes() == 17
    monkeypatch.setattr(memory, "_physical", lambda: None)
    assert total_bytes() is None and available_bytes() is None
    check_fits(10**15)


@pytest.mark.parametrize("path", ["/", "/slurm/job_7/step_0"])
def test_a_container_of_version_2(system, path):
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": f"0::{path}\n"})
    system(version_2(path, f"{700 * MB}\n", 300 * MB, cached=100 * MB))
    assert total_bytes() == 700 * MB
    assert available_bytes() == 500 * MB


@pytest.mark.parametrize("path", ["/docker/0123", "/"])
def test_a_container_of_version_1(system, path):
    """Inside a container the path may be the host's, which is not there: then its files are at the root."""
    groups = f"12:pids:{path}\n4:cpuset,memory:{path}\n1:name=systemd:/\n0::/\n"
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": groups})
    system(version_1("/", 700 * MB, 300 * MB, cached=100 * MB))
    assert total_bytes() == 700 * MB
    assert available_bytes() == 500 * MB


def test_a_bound_above_the_process_holds_too(system):
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/slurm/job_7/step_0\n"})
    system(version_2("/slurm/job_7/step_0", "max\n", 1 * MB))
    system(version_2("/slurm/job_7", f"{900 * MB}\n", 500 * MB))
    system(version_2("/slurm", f"{2000 * MB}\n", 1900 * MB))
    assert total_bytes() == 900 * MB
    assert available_bytes() == 100 * MB


def test_no_bound_is_no_container(system):
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": "4:memory:/a\n0::/a\n"})
    system(version_2("/a", "max\n", 300 * MB) | version_1("/a", 9223372036854771712, 300 * MB))
    assert total_bytes() == 8_192_000_000
    assert available_bytes() == 5_120_000_000


def test_a_container_that_is_over_its_bound_has_nothing_left(system):
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/\n", **version_2("/", f"{100 * MB}\n", 101 * MB)})
    assert available_bytes() == 0


def test_what_does_not_fit_is_refused_with_both_numbers(system):
    system({"proc/meminfo": MEMINFO})
    check_fits(4 * 10**9)
    with pytest.raises(InputError, match=r"^the model takes 1 PB of memory, but 5.12 GB are free"):
        check_fits(10**15)
    with pytest.raises(InputError, match=r"^the header takes 5.1 GB of memory"):
        check_fits(5_100_000_000, "the header")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_machine():
    assert 2**20 < available_bytes() <= total_bytes() < 2**50
