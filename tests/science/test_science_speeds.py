"""How fast models are: all of them in turn, so that a machine that slows down slows all of them down."""

import time

from headway.science.speeds import medians, speeds


def test_all_are_called_in_turn_and_the_first_round_does_not_count():
    called = []

    def run(name, seconds):
        def once():
            called.append(name)
            time.sleep(0.05 if len(called) <= 2 else seconds)

        return once

    slow, fast = medians([run("slow", 0.004), run("fast", 0.001)], 0.0, 3)
    assert called == ["slow", "fast"] * (1 + 3)
    assert fast < slow < 0.05


def test_of_no_models_nothing_is_measured():
    assert speeds([], ["a text"]) == []
