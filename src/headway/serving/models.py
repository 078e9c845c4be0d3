"""The models of a server, by name; each with its worker, its places, and what its task says about it."""

import math
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.hub.adapters.locate import locate_model
from headway.hub.fingerprint import full_fingerprint
from headway.models.baselines import RecurrentDecoder
from headway.models.transformer import Decoder
from headway.runtime.batcher import Batcher, OneByOne
from headway.serving.body import MOST_INPUTS, Schema, answer_schema, request_schema
from headway.serving.responses import RequestError, busy, invalid, unavailable
from headway.serving.settings import Settings
from headway.serving.worker import Worker
from headway.tasks import registry
from headway.tasks.command import Command
from headway.training.store.contents import LOG

RESERVED = {"v1", "health", "ready", "metrics", "playground", "inside", "training", "openapi.json", "favicon.ico"}
"""First words of the server's own routes."""
WRITES = "continuations"
"""What a model writes that OpenAI's completions are."""
LONGEST_RETRY = 30
"""Seconds."""
RECENT = 0.1
"""The weight of the newest text in the mean time between two that are over."""


class Places:
    """The places of a model's texts: those being computed and those that wait.  Used by the event loop alone."""

    def __init__(self, running: int, queue: int, queued_tokens: int):
        self.running, self.most, self.most_tokens = running, running + queue, queued_tokens
        self.taken = self.tokens = 0
        self.closed = ""
        """why nothing is admitted any more"""
        self._pace = 0.0
        """seconds between two texts that are over, while others wait"""
        self._left_at: float | None = None
        """when the last one was over, if others waited then"""

    @property
    def full(self) -> bool:
        """Whether there is no place for one more text."""
        return not self.closed and self.taken >= self.most

    def check(self, count: int = 1) -> None:
        """Raise RequestError unless ``count`` more texts have a place."""
        if self.closed:
            raise unavailable(self.closed)
        if count > self.most:
            raise invalid(f"the request asks for {count} texts, and {self.most} may be computed or wait: ask for fewer")
        if self.taken + count > self.most:
            words = f"{self.taken} texts are being computed or wait, and there is place for {self.most}: try again"
            raise busy(words, self.retry_after)

    def take(self, tokens: list[int]) -> None:
        """Take a place for each text, given the tokens of each.  Raises RequestError."""
        self.check(len(tokens))
        waits = self.taken + len(tokens) > self.running
        if waits and self.tokens + sum(tokens) > self.most_tokens:
            words = f"{self.tokens:,} tokens wait already, and {self.most_tokens:,} may: try again"
            raise busy(words, self.retry_after)
        self.taken += len(tokens)
        self.tokens += sum(tokens)

    @contextmanager
    def held(self, count: int = 1) -> Iterator[None]:
        """Hold places for texts whose tokens are not known yet, until the block ends.  Raises RequestError."""
        self.check(count)
        self.taken += count
        try:
            yield
        finally:
            self.taken -= count

    def leave(self, tokens: int) -> None:
        """Give back the place of one text with so many tokens."""
        self.taken -= 1
        self.tokens -= tokens
        now = time.monotonic()
        if self._left_at is not None:
            gap = now - self._left_at
            self._pace += (RECENT if self._pace else 1.0) * (gap - self._pace)
        self._left_at = now if self.taken >= self.running else None

    @property
    def retry_after(self) -> int:
        """Whole seconds in which those who wait now will have a turn, at the present pace: at least 1."""
        waiting = max(0, self.taken - self.running)
        return min(LONGEST_RETRY, max(1, math.ceil(waiting * self._pace)))


class Served:
    """One model that answers."""

    def __init__(self, name: str, pipe: Any, settings: Settings, directory: Path | None = None, version: str = ""):
        self.directory = directory
        """the run that it was loaded from, if it has one"""
        runtime = getattr(pipe, "runtime", None)
        self.loaded_as = {"task": pipe.task, "version": version, **({} if runtime is None else runtime.described)}
        """its task, the version of its files, and the precision and the engine that answer"""
        self.name, self.pipe, self.created = name, pipe, int(time.time())
        self.spec = registry.spec(pipe.task)
        self.command: type[Command] = registry.command(pipe.task)
        self.writes = self.spec.writes == WRITES and hasattr(pipe, "prompt_of_ids")
        self.places = Places(settings.running, settings.queue, settings.queued_tokens)
        self.batched = isinstance(pipe.model, Decoder) and not isinstance(pipe.model, RecurrentDecoder)
        self.batched &= self.writes and pipe.runtime.engine is None
        self.worker = Worker(self._batcher if self.writes else None)
        if runtime is not None:
            runtime.between = self.worker.between
        self.sound = True
        """whether the last try to compute something succeeded"""

    def _batcher(self) -> Batcher:
        if self.batched:
            return Batcher(self.pipe.model, slots=self.places.running, checks=True)
        return OneByOne(self.pipe.runtime, slots=self.places.running)

    @property
    def verb(self) -> str:
        """The last part of its route; that of every model where the server has a route of the verb's name."""
        return registry.ANY if self.spec.verb in RESERVED else self.spec.verb

    @property
    def context(self) -> int:
        """The longest text in tokens."""
        length: int = getattr(self.pipe, "max_length", None) or self.pipe.model.config.max_length
        return length

    @cached_property
    def chat(self) -> bool:
        """Whether it was made for conversations: its template is rendered once, in a process of its own."""
        try:
            return self.writes and bool(self.pipe.prompt_of_chat([{"role": "user", "content": "a"}]))
        except InputError:
            return False

    def request_schema(self) -> Schema:
        """The body of a request to its typed route; texts that are continued have a place each."""
        return request_schema(self.command, min(MOST_INPUTS, self.places.most) if self.writes else MOST_INPUTS)

    def described(self) -> dict[str, Any]:
        """Its entry in the list of models."""
        fields = self.request_schema()["properties"]
        return {
            **{"id": self.name, "object": "model", "created": self.created, "owned_by": "headway"},
            **{**self.loaded_as, "title": self.spec.title, "kind": self.spec.answers, "verb": self.verb},
            **{"route": f"/{self.verb}", "reads": self.spec.reads},
            "labels": [str(label) for label in getattr(self.pipe, "labels", [])],
            **{"context": self.context, "chat": self.chat, "completions": self.writes},
            "training": self.directory is not None,
            **{"schema": fields["inputs"], "answer": answer_schema(self.command.answers)},
            "options": {name: field for name, field in fields.items() if name not in ("model", "inputs")},
        }

    def test(self) -> None:
        """Compute something small, in the calling thread; sets ``sound``.

        One that failed is repeated, so that a server which has recovered is ready again.
        """
        try:
            if self.writes:
                prompt = self.pipe.prompt("")
                batcher = self._batcher()
                from headway.generation.sampling import Sampling

                batcher.submit(prompt.ids, Sampling(temperature=0.0), max_tokens=1)
                batcher.step()
            elif self.spec.reads == "text":
                with warnings.catch_warnings(action="ignore"):  # of this text
                    self.pipe(["a"])
        except InputError:
            pass  # the model refuses this text, and computes
        except Exception:
            self.sound = False
            return
        self.sound = True


class Models:
    """The models of a server; they may come and go while others answer."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self._served: dict[str, Served] = {}
        self._lock = threading.Lock()
        self._loop: Any = None

    def __iter__(self) -> Iterator[Served]:
        return iter(list(self._served.values()))

    def __len__(self) -> int:
        return len(self._served)

    @property
    def full(self) -> bool:
        """Whether no model has a place for one more text."""
        return bool(self._served) and all(one.places.full for one in self)

    @property
    def retry_after(self) -> int:
        """Whole seconds after which one of them may have a place."""
        return min((one.places.retry_after for one in self), default=1)

    def load(self, path: str, name: str | None = None, **how: Any) -> Served:
        """Load a run and serve it, by its folder's name unless another is given; one of that name is replaced.

        Raises InputError as ``workflows.load.load`` does.
        """
        from headway.workflows.load import load

        directory = Path(path).resolve()
        run = directory if (directory / LOG).is_file() else None
        pipe = load(path, **how)
        return self.add(pipe, name or directory.name, run, full_fingerprint(locate_model(path).path)[:12])

    def add(self, pipe: Any, name: str, directory: Path | None = None, version: str = "") -> Served:
        """Serve a loaded pipeline under a name; ``directory`` is the run that it comes from, ``version`` its files'."""
        served = Served(name, pipe, self.settings, directory, version)
        served.test()
        served.worker.on_failure, served.worker.on_idle = served.test, lambda: None if served.sound else served.test()
        with self._lock:
            before, self._served[name] = self._served.get(name), served
        if self._loop is not None:
            served.worker.start(self._loop)
        if before is not None:
            before.places.closed = f"the model {name!r} has just been replaced: try again"
            self._retire(before)
        return served

    def drop(self, name: str) -> None:
        """Serve a model no longer; what it is computing is finished."""
        with self._lock:
            served = self._served.pop(name)
        served.places.closed = f"the model {name!r} is served no longer"
        self._retire(served)

    def _retire(self, served: Served) -> None:
        """End a worker when its last text is over."""

        def wait() -> None:
            limit = time.monotonic() + self.settings.total_seconds
            while served.places.taken and time.monotonic() < limit:
                time.sleep(0.05)
            served.worker.stop()

        threading.Thread(target=wait, daemon=True, name="headway-retire").start()

    def start(self, loop: Any) -> None:
        """Let every worker begin; they tell in this event loop."""
        self._loop = loop
        for served in self:
            served.worker.start(loop)

    def stop(self) -> None:
        """End every worker."""
        for served in self:
            served.worker.stop()

    def find(self, name: str | None, verb: str | None = None) -> Served:
        """The model of a name; without one, the only one that is served, or the only one of a verb.

        Raises RequestError.
        """
        some = [one for one in self if verb in (None, registry.ANY, one.verb)]
        if name is None:
            if len(some) == 1:
                return some[0]
            raise invalid(f"name one of the models: {self._names(some)}", "model", "missing_required_parameter")
        found = self._served.get(name)
        if found is None:
            names = self._names(list(self))
            raise RequestError(404, f"there is no model {name[:80]!r}; there is {names}", "model_not_found", "model")
        if found not in some:
            raise invalid(f"{name} is no model for /{verb}: use /{found.verb}", "model")
        return found

    def _names(self, some: list[Served]) -> str:
        return ", ".join(one.name for one in some[:20]) or "none"
