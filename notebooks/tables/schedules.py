"""Make schedules.csv, for lesson 06: how the learning rate begins and ends, for several peaks.

Takes about 5 minutes on two cores.
"""

from common import SEEDS, write_table
from vit_tutorial.experiments import short_run

RATES = (0.001, 0.002, 0.004, 0.008, 0.016)
WAYS = {  # steps of warm-up, and what follows
    "warm-up, then a cosine": (50, "cosine"),
    "warm-up, then constant": (50, "constant"),
    "a cosine, no warm-up": (0, "cosine"),
}


def measure(way: str, rate: float, seed: int) -> float:
    warmup_steps, schedule = WAYS[way]
    return short_run(rate, warmup_steps, seed, schedule)


if __name__ == "__main__":
    rows = [(way, rate) for rate in RATES for way in WAYS]
    lines = ((way, rate, seed, measure(way, rate, seed)) for seed in SEEDS for way, rate in rows)
    write_table("schedules", ["schedule", "rate", "seed", "accuracy"], lines)
