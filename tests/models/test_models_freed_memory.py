"""Memory that tensors left is kept for the next ones, and returned to the system now and then."""

import subprocess
import sys

import pytest

SCRIPT = """
import threading, torch
from headway.io import memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

memory.keep_freed_memory()
def answer():
    large, small = [], []
    for number in range(300):
        large.append(torch.ones(1 << 18))  # a megabyte
        small.append(torch.ones(16))
    del large
    found.append(small)
found = []
thread = threading.Thread(target=answer)
thread.start()
thread.join()
full = resident()
memory.return_freed_memory()  # it was called a moment ago
kept = resident()
memory._returned -= memory.EVERY
memory.return_freed_memory()
print(full, kept, resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks glibc")
def test_it_is_returned_now_and_then():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    full, kept, left = map(float, done.stdout.split())
    assert abs(full - kept) < 20 and left < full - 250
