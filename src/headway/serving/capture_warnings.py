"""What a pipeline warns about while it computes answers: for the client who asked, not for the server's log."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_THREAD = threading.local()


def install() -> None:
    """Let ``capture_warnings`` see what Headway's pipelines warn of; once for a process, before its threads begin."""
    warnings.filterwarnings("always", category=UserWarning)
    otherwise = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        said = getattr(_THREAD, "said", None)
        if said is None or not issubclass(category, UserWarning):
            otherwise(message, category, *place, **more)
        elif _THREAD.refuse:
            raise RuntimeError(str(message))
        elif str(message) not in said:
            said.append(str(message))

    warnings.showwarning = show


def of_part(said: list[str], name: str, part: slice, whole: int) -> list[str]:
    """Warnings about some of the ``whole`` inputs of a request, which the field ``name`` holds: they say of which."""
    few = f"{name}[{part.start}] to {name}[{part.stop - 1}]: " if part.stop - part.start < whole else ""
    return [few + one for one in said]


@contextmanager
def capture_warnings(*, refuse: bool = False) -> Iterator[list[str]]:
    """The warnings of this thread, each once, as they come; ``refuse`` raises RuntimeError at the first."""
    before, _THREAD.said, _THREAD.refuse = getattr(_THREAD, "said", None), [], refuse
    try:
        yield _THREAD.said
    finally:
        _THREAD.said = before
