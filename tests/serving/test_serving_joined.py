"""Waiting requests with the same options are answered in one call, and each gets its own answer."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from test_serving_typed import close

import headway
from headway.errors import InputError
from headway.serving.worker import Worker

Run = Callable[..., Awaitable[list[Any]]]


class Doubled:
    """Doubles numbers; refuses 13 where it begins and 14 where it computes, and fails at 15."""

    most = 6

    def __init__(self, calls: list[list[int]], kind: str = "a"):
        self.calls, self.kind, self.found = calls, kind, []

    def __call__(self, part: Any) -> Any:
        if part is None:
            return None
        return self.found if part is ... else self.take(self.compute(part))

    def compute(self, inputs: list[int]) -> list[int]:
        self.calls.append(inputs)
        if 14 in inputs:
            raise InputError("14 is refused")
        if 15 in inputs:
            raise RuntimeError("15 fails")
        return [2 * one for one in inputs]

    def take(self, answers: list[int]) -> None:
        self.found.extend(answers)


class Refusing(Doubled):
    """Refuses its options."""

    def __call__(self, part: Any) -> Any:
        raise InputError("13 is refused")


def worked(requests: Callable[[Run], list[Awaitable[Any]]]) -> list[Any]:
    """What all of some requests get that wait while the worker is busy with another."""

    async def ask() -> list[Any]:
        worker = Worker()
        worker.start(asyncio.get_running_loop())
        held = asyncio.get_running_loop().create_future()
        first = asyncio.ensure_future(worker.run(lambda _: asyncio.run(asyncio.sleep(0.2)), [None], held))
        await held
        try:
            found = await asyncio.gather(*requests(worker.run), return_exceptions=True)
            await first
            return found
        finally:
            worker.stop()

    return asyncio.run(ask())


def test_what_waits_is_computed_together():
    calls: list[list[int]] = []
    found = worked(lambda run: [run(Doubled(calls), [None, [n], ...]) for n in range(4)])
    assert [one[-1] for one in found] == [[0], [2], [4], [6]] and calls == [[0, 1, 2, 3]]


def test_no_more_than_a_call_may_have_and_only_of_one_kind():
    calls: list[list[int]] = []
    parts = [("a", [0, 1]), ("b", [2]), ("a", [3, 4, 5]), ("a", [6, 7]), ("b", [8])]
    found = worked(lambda run: [run(Doubled(calls, kind), [None, part, ...]) for kind, part in parts])
    assert [one[-1] for one in found] == [[2 * n for n in part] for _, part in parts]
    assert sorted(calls) == [[0, 1, 3, 4, 5], [2, 8], [6, 7]]


def test_a_request_of_several_parts_gets_them_in_order():
    calls: list[list[int]] = []
    parts = [[0, 1], [2, 3], [4]]
    found = worked(lambda run: [run(Doubled(calls), [None, *parts, ...]), run(Doubled(calls), [None, [9], ...])])
    assert [one[-1] for one in found] == [[0, 2, 4, 6, 8], [18]] and [0, 1, 9] in calls


@pytest.mark.parametrize("bad,error", [(14, InputError), (15, RuntimeError)])
def test_one_that_fails_fails_alone(bad, error):
    calls: list[list[int]] = []
    found = worked(lambda run: [run(Doubled(calls), [None, [n], ...]) for n in (1, bad, 3)])
    assert [found[0][-1], found[2][-1]] == [[2], [6]] and isinstance(found[1], error)
    assert calls[0] == [1, bad, 3]


def test_one_that_is_refused_where_it_begins():
    calls: list[list[int]] = []
    given = ((Doubled, 1), (Refusing, 13), (Doubled, 2))
    found = worked(lambda run: [run(kind(calls), [None, [number], ...]) for kind, number in given])
    assert [found[0][-1], found[2][-1]] == [[2], [4]] and isinstance(found[1], InputError)
    assert calls == [[1, 2]]


def test_a_client_that_has_left_is_left_out():
    calls: list[list[int]] = []

    def requests(run: Run) -> list[Awaitable[Any]]:
        left = asyncio.ensure_future(run(Doubled(calls), [None, [7], ...]))
        asyncio.get_running_loop().call_later(0.05, left.cancel)
        return [run(Doubled(calls), [None, [1], ...]), left, run(Doubled(calls), [None, [2], ...])]

    found = worked(requests)
    assert found[0][-1] == [2] and found[2][-1] == [4] and isinstance(found[1], asyncio.CancelledError)
    assert calls == [[1, 2]]


def test_many_clients_get_the_pipelines_answers(server, models):
    texts = [f"the cat {'sat on a mat ' * (n % 7)}{n}" for n in range(48)]

    def ask(number: int) -> Any:
        return server.post("/classify", {"model": "labels", "inputs": [texts[number]]}).json()["answers"][0]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(len(texts))))
    assert close(found, headway.load(models["labels"])(texts))
