"""A child made by ``os.fork`` after a model was loaded says so, where it would wait forever."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, sys, torch
torch.set_num_threads(int(sys.argv[2]))
import headway
{before}
child = os.fork()
if child == 0:
    try:
        {inside}
    except RuntimeError as error:
        print(error)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
"""
LOAD = "pipe = headway.load(sys.argv[1]); pipe(['the cat sat on a mat'] * 50)"
SAID = "this process was made by os.fork() after its parent had loaded a model"


def ran(run: Path, threads: int, before: str, inside: str) -> str:
    words = [sys.executable, "-c", SCRIPT.format(before=before, inside=inside), run, threads]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("inside", ["print(pipe('the cat'))", "print(headway.load(sys.argv[1])('the cat'))"])
def test_a_child_that_would_wait_forever_says_why(inside: str, classifier_run: Path):
    said = ran(classifier_run, 2, LOAD, inside)
    assert said.startswith(SAID) and "spawn" in said and "set_num_threads(1)" in said


def test_a_language_model(lm_run: Path):
    load = "pipe = headway.load(sys.argv[1]); pipe('the cat', max_tokens=3)"
    assert ran(lm_run, 2, load, "print(pipe('the cat', max_tokens=3))").startswith(SAID)


@pytest.mark.parametrize(
    ("threads", "before", "inside"),
    [
        (1, LOAD, "print(pipe('the cat'))"),
        (2, LOAD, "torch.set_num_threads(1); print(pipe('the cat'))"),
        (2, "", "print(headway.load(sys.argv[1])('the cat'))"),
    ],
    ids=["one thread", "one thread in the child", "loaded in the child"],
)
def test_a_child_that_can_answer_does(threads: int, before: str, inside: str, classifier_run: Path):
    assert "'label'" in ran(classifier_run, threads, before, inside)


FORKS = """
import os, torch
torch.set_num_threads(2)
from headway.nn.threads import Threads

def multiply(_):
    return torch.ones(64, 33) @ torch.ones(33, 64)

for _ in range(400):
    with Threads(2) as threads:
        threads.map(multiply, range(2))
    if not os.fork():
        torch.set_num_threads(1)
        multiply(0)
        os._exit(0)
    os.wait()
"""


def test_a_child_does_not_wait_for_the_lock_of_a_thread_that_was_ending():
    subprocess.run([sys.executable, "-c", FORKS], timeout=60, check=True)
