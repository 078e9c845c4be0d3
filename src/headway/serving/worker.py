"""The thread that owns a model: it continues all its texts together, a token of each at a time, or answers its jobs."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import torch

from headway.errors import InputError
from headway.io.memory import return_freed_memory
from headway.runtime.batcher import Batcher, Request
from headway.serving.responses import failed, unavailable
from headway.serving.text_stream import Delta, TextStream

Tell = Callable[[Delta], None]
LOG = logging.getLogger("headway.serving")
IDLE = 0.5
"""Seconds after which a worker without work gives a sign of life."""


class Left(Exception):
    """Nobody waits any more for what is being computed."""


@dataclass(eq=False)
class Job:
    """The parts of a request that a pipeline answers, one after the other, in turn with those of other requests.

    Parts that are lists of inputs and wait are answered in one call where each ``answer`` has the same ``kind``, which
    is hashable, and ``most`` inputs of a call at most; ``compute(inputs)`` gives the answers, in order and none
    dependent on the others, and ``take(answers)`` keeps those to a part: ``answer(part)`` is ``take(compute(part))``.
    """

    answer: Any
    parts: deque[Any]
    done: asyncio.Future[list[Any]]
    begun: asyncio.Future[None] | None
    found: list[Any] = field(default_factory=list)
    left: bool = False


class Worker:
    """A thread with a queue, beside a model, which alone touches it, between two steps."""

    def __init__(self, make_batcher: Callable[[], Batcher] | None = None):
        self._make, self.batcher = make_batcher, None if make_batcher is None else make_batcher()
        self._given: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._jobs: deque[Job] = deque()
        self._asked: set[asyncio.Future[list[Any]]] = set()
        """answers to jobs that are awaited; of the event loop alone"""
        self._computed: list[Job] = []
        """those of which a part is being computed"""
        self._texts: dict[Request, tuple[TextStream, Tell]] = {}
        self._thread = threading.Thread(target=self._run, name="headway-worker", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.beat = time.monotonic()
        self.fatal: BaseException | None = None
        """what makes it impossible to go on"""
        self.failures = 0
        """steps and jobs that raised an exception"""
        self.on_failure: Callable[[], None] = lambda: None
        """called in the thread after a failure"""
        self.on_idle: Callable[[], None] = lambda: None
        """called in the thread now and then while there is no work"""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to work; what is told is told in this event loop."""
        self._loop = loop
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """End the thread after the present step."""
        self._given.put(None)
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def running(self) -> int:
        """Texts and jobs that are being computed."""
        if self.batcher is not None:
            return len(self.batcher.running)
        return min(1, sum(not job.left for job in list(self._jobs)))

    def between(self) -> None:
        """Give a sign of life within a long part, between two batches of it.  Raises Left where nobody waits for it."""
        self.beat = time.monotonic()
        if self._computed and all(job.left for job in self._computed):
            raise Left

    def begin(self, text: TextStream, tell: Tell) -> None:
        """Continue a text; ``tell`` is given every piece in the event loop, the last one with ``finish``."""
        self._given.put(lambda: self._begin(text, tell))

    def leave(self, text: TextStream) -> None:
        """Stop writing a text; nothing more is told of it but one last piece with ``finish`` "cancelled"."""
        self._given.put(lambda: self._leave(text))

    def abort(self) -> None:
        """Stop writing every text and answering every job, with an error; called in the event loop.

        Those who wait for a job are told at once, also where the thread is busy with a part of it.
        """
        for done in self._asked:
            if not done.done():
                done.set_exception(unavailable("the server is stopping"))

        def end() -> None:
            for request in self._texts:
                if self.batcher is not None:
                    self.batcher.cancel(request)
            self._end_texts(Delta(finish="cancelled"))
            self._jobs.clear()

        self._given.put(end)

    async def run(
        self, answer: Callable[[Any], Any], parts: Sequence[Any], begun: asyncio.Future[None] | None = None
    ) -> list[Any]:
        """What ``answer`` gives for each part; if the caller is cancelled, what is not yet computed is left out.

        ``begun`` is done when the first part is.  What computes a long part calls ``between`` now and then.
        """
        done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        job = Job(answer, deque(parts), done, begun)
        self._asked.add(done)
        self._given.put(lambda: self._jobs.append(job))
        try:
            return await done
        finally:
            self._asked.discard(done)
            job.left = True
            self._given.put(lambda: self._drop(job))

    def _run(self) -> None:
        try:
            while True:
                self.beat = time.monotonic()
                return_freed_memory()
                if not self._take():
                    return
                if self.batcher is not None and self.batcher.busy:
                    self._step()
                if self._jobs:
                    self._work(self._jobs[0])
                    self._jobs.rotate(-1)  # a part of each in turn, so that a long one does not hold up the others
        except BaseException as error:
            self.fatal = error
            self._fail_all(error)

    def _take(self) -> bool:
        """Do what was asked for since the last step; without work, wait for it.  False: the end."""
        wait = not (self._jobs or (self.batcher is not None and self.batcher.busy))
        while True:
            try:
                asked = self._given.get(timeout=IDLE) if wait else self._given.get_nowait()
            except Empty:
                if wait:
                    self.on_idle()
                return True
            if asked is None:
                return False
            try:
                asked()
            except Exception as error:  # no reason to end: each text and job tells its own errors
                self._log(error)
            wait = False

    def _begin(self, text: TextStream, tell: Tell) -> None:
        """Let the batcher have a text; where it refuses it, this text alone fails."""
        assert self.batcher is not None
        options, prompt = text.options, text.prompt
        try:
            request = self.batcher.submit(
                prompt.ids,
                options.sampling,
                max_tokens=options.max_tokens,
                ends=prompt.ends,
                forbidden=prompt.forbidden,
                seed=options.seed,
                penalties=options.penalties,
                likely=options.likely,
            )
        except Exception as error:
            self._tell([(tell, Delta(finish="error", error=error))])
            self._log(error)
            return
        self._texts[request] = (text, tell)

    def _leave(self, text: TextStream) -> None:
        for request, (one, tell) in self._texts.items():
            if one is text and self.batcher is not None:
                self.batcher.cancel(request)
                del self._texts[request]
                self._tell([(tell, Delta(finish="cancelled"))])
                return

    def _step(self) -> None:
        """One token of every running text."""
        assert self.batcher is not None
        try:
            found = self.batcher.step()
        except Exception as error:
            self._failed(error)
            return
        told = []
        for request, token in found:
            text, tell = self._texts[request]
            piece = self._piece(request, text, token)
            if piece.finish is not None or piece.error is not None:
                del self._texts[request]
                if not request.over:
                    self.batcher.cancel(request)
            told.append((tell, piece))
        self._tell(told)

    def _piece(self, request: Request, text: TextStream, token: int | None) -> Delta:
        if request.unsound:
            return Delta(finish="error", error=failed("the model gave values that are no numbers"))
        try:
            return text.end() if token is None else text.push(token, request.likely)
        except Exception as error:
            return Delta(finish="error", error=error)

    @torch.no_grad()
    def _work(self, job: Job) -> None:
        """The next part of a job, with those of other jobs that can be answered in the same call."""
        if job.left or not job.parts:
            self._drop(job)
            return
        try:
            if isinstance(job.parts[0], list) and hasattr(job.answer, "kind") and (others := self._like(job)):
                self._work_together([job, *others])
            else:
                self._answer(job)
        finally:
            self._computed = []

    def _drop(self, job: Job) -> None:
        """Forget a job and its parts."""
        if job in self._jobs:
            self._jobs.remove(job)
        job.parts.clear()

    def _like(self, job: Job) -> list[Job]:
        """The other jobs whose next parts go with this one's."""
        kind, left = job.answer.kind, job.answer.most - len(job.parts[0])
        found = []
        for other in [one for one in self._jobs if one is not job and getattr(one.answer, "kind", None) == kind]:
            if other.parts and other.parts[0] is None and not other.left:
                self._answer(other)  # its options and inputs are checked first, and it may end by that
            if other in self._jobs and not other.left and other.parts and isinstance(other.parts[0], list):
                if (left := left - len(other.parts[0])) < 0:
                    break
                found.append(other)
        return found

    def _work_together(self, jobs: list[Job]) -> None:
        """One call for the next parts of several jobs; where it fails, each is answered alone and fails alone."""
        self._computed = jobs
        try:
            answers = jobs[0].answer.compute([one for job in jobs for one in job.parts[0]])
        except Left:
            return
        except Exception:
            for job in jobs:
                self._answer(job)
            return
        start = 0
        for job in jobs:
            end = start + len(job.parts.popleft())
            self._has_begun(job)
            job.found.append(job.answer.take(answers[start:end]))
            start = end

    def _answer(self, job: Job) -> None:
        """The next part of a job."""
        self._has_begun(job)
        self._computed = [job]
        try:
            job.found.append(job.answer(job.parts.popleft()))
        except Left:
            self._drop(job)
        except Exception as error:
            self._jobs.remove(job)
            self._settle(job, error)
            if not isinstance(error, InputError):
                self._failed(error)
        else:
            if not job.parts:
                self._jobs.remove(job)
                self._settle(job, None)

    def _has_begun(self, job: Job) -> None:
        if job.begun is not None:
            begun, job.begun = job.begun, None
            self._call(lambda: None if begun.done() else begun.set_result(None))

    def _failed(self, error: Exception) -> None:
        """A step or a job failed: what was computed in it is lost, and the worker goes on, unless memory is short."""
        self._log(error)
        if self._make is not None:
            self.batcher = self._make()
        self._end_texts(Delta(finish="error", error=error))
        if _is_fatal(error):
            raise error
        self.on_failure()

    def _log(self, error: Exception) -> None:
        self.failures += 1
        LOG.error("a model failed to compute answers", exc_info=error)

    def _fail_all(self, error: BaseException) -> None:
        """End every text and job, and those that are asked for from now on."""
        while True:
            self._end_texts(Delta(finish="error", error=failed()))
            while self._jobs:
                self._settle(self._jobs.popleft(), error)
            asked = self._given.get()
            if asked is None:
                return
            asked()

    def _end_texts(self, piece: Delta) -> None:
        """Write no text any more; the last piece of each is this one."""
        lost = [(tell, piece) for _, tell in self._texts.values()]
        self._texts.clear()
        self._tell(lost)

    def _settle(self, job: Job, error: BaseException | None) -> None:
        def settle() -> None:
            if job.done.done():
                return
            if error is None:
                job.done.set_result(job.found)
            else:
                job.done.set_exception(error if isinstance(error, Exception) else failed())

        self._call(settle)

    def _tell(self, told: list[tuple[Tell, Delta]]) -> None:
        """Tell all pieces of a step in one turn of the event loop."""
        if told:
            self._call(lambda: [tell(piece) for tell, piece in told])

    def _call(self, function: Callable[[], Any]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)


def _is_fatal(error: BaseException) -> bool:
    """Whether there is no use in going on: memory is exhausted, or the accelerator does not answer."""
    text = str(error)
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
        sign in text for sign in ("not enough memory", "can't allocate memory", "CUDA error")
    )
