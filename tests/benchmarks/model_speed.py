"""Our Vision Transformer's speed and memory beside those of the published ones, in one run.

    python tests/benchmarks/model_speed.py --variants Ti/16 S/16 --rounds 20

In a round every implementation runs once, in random order, so that whatever else the machine does meets all of them.
A ratio is theirs over ours, of two runs in the same round: above 1, ours is faster. Shown are its median over the
rounds and the 95 % interval of that median (bootstrap). Peak memory is what PyTorch's allocator reports to the
profiler, above the weights: exact, and the same in every run.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from vit_tutorial import VisionTransformer, ViTConfig

sys.path.insert(0, str(Path(__file__).parents[1]))
from published import BUILD, logits_of, randomize, twin

OURS = "vit_tutorial"


def build_all(config: ViTConfig) -> dict[str, nn.Module]:
    """Ours, and its twins with the same weights (checked: the same logits)."""
    models = {OURS: randomize(VisionTransformer(config), scale=0.02)}
    models |= {library: twin(models[OURS], library) for library in BUILD}
    images = torch.randn(1, config.in_channels, config.image_size, config.image_size)
    with torch.inference_mode():
        for library in BUILD:
            torch.testing.assert_close(logits_of(models[library](images)), models[OURS](images), atol=1e-4, rtol=1e-4)
    return models


def step(model: nn.Module, images: Tensor, backward: bool) -> None:
    model.zero_grad(set_to_none=True)
    with torch.inference_mode(not backward):
        total = logits_of(model(images)).sum()
    if backward:
        total.backward()


def peak_memory(call: Callable[[], None]) -> int:
    """Bytes allocated at the worst moment of `call`, above what was there before."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            call()
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    now = peak = 0
    for event in sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"]):
        now += event["args"]["Bytes"]
        peak = max(peak, now)
    return peak


def measure(calls: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call in each round, in random order, after a first one that is not counted."""
    order, times = random.Random(0), {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name in order.sample(list(calls), len(calls)):
            start = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - start)
    return times


def median_interval(values: list[float], resamples: int = 2000) -> tuple[float, float, float]:
    """The median and its 95 % bootstrap interval."""
    generator = random.Random(0)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(resamples))
    return statistics.median(values), medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]


def report(times: dict[str, list[float]], memory: dict[str, int]) -> None:
    """One table: a row for each implementation."""
    for name, spent in times.items():
        ratio, low, high = median_interval([t / ours for t, ours in zip(spent, times[OURS], strict=True)])
        speed = f"{statistics.median(spent) * 1e3:8.1f} ms, ratio {ratio:.3f} ({low:.3f} – {high:.3f})"
        print(f"{name:14}{speed}, peak {memory[name] / 2**20:.1f} MiB")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--variants", nargs="+", default=["Ti/16", "S/16", "B/16"], help="names of VARIANTS")
    parser.add_argument("--batch", type=int, default=8, help="images at once (a batch of 1 is measured too)")
    parser.add_argument("--rounds", type=int, default=20, help="for each table")
    options = parser.parse_args(arguments)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, images of 224 pixels")
    for variant in options.variants:
        config = ViTConfig.named(variant)
        models = build_all(config)
        for batch, backward in ((1, False), (options.batch, False), (options.batch, True)):
            what = "forward and backward" if backward else "forward"
            images = torch.randn(batch, config.in_channels, config.image_size, config.image_size)
            calls = {name: partial(step, model, images, backward) for name, model in models.items()}
            for model in models.values():
                model.train(backward)
            memory = {name: peak_memory(call) for name, call in calls.items()}
            print(f"\n{variant} {what}, batch {batch}   {options.rounds} rounds")
            report(measure(calls, options.rounds), memory)


if __name__ == "__main__":
    main()
