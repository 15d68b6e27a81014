"""Calls measured in turns, so that whatever else the machine does meets all of them."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable


def measure(calls: dict[str, Callable[[], None]], rounds: int, seconds: float = 0) -> dict[str, list[float]]:
    """Seconds of each call in each round, in random order, after a first one that is not counted.

    At least `rounds` of them, and more until `seconds` have passed.
    """
    order, times, done = random.Random(0), {name: [] for name in calls}, 0
    for call in calls.values():
        call()
    begin = time.perf_counter()
    while done < rounds or time.perf_counter() - begin < seconds:
        for name in order.sample(list(calls), len(calls)):
            start = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - start)
        done += 1
    return times


def median_interval(values: list[float], resamples: int = 2000) -> tuple[float, float, float]:
    """The median and its 95 % bootstrap interval."""
    generator = random.Random(0)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(resamples))
    return statistics.median(values), medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]
