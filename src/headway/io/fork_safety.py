"""A check for child processes made by ``os.fork`` after the parent computed in several threads: torch would hang there.

A fork copies the memory of the parent's threads but not the threads, so the child waits for threads that do not exist.
"""

import os

_threads_used = False
"""Whether this process, or the one that it was forked from, has computed in several threads."""
_without_threads = False
"""Whether this process was forked from one that had."""


def check_threads() -> None:
    """Call this before computing.  Raises RuntimeError in a forked child whose threads do not exist."""
    global _threads_used
    import torch

    if torch.get_num_threads() == 1:
        return
    if _without_threads:
        raise RuntimeError(
            "this process was made by os.fork() after its parent had loaded a model, so torch's threads do not run in "
            'it; make processes with multiprocessing.get_context("spawn"), fork before headway.load, or call '
            "torch.set_num_threads(1) in this process first."
        )
    _threads_used = True


def _in_child() -> None:
    global _without_threads
    _without_threads = _threads_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
