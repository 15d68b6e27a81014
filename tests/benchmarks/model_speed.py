"""Our Vision Transformer's speed and memory beside those of the published ones, in one run.

    python tests/benchmarks/model_speed.py --variants Ti/16 S/16 --rounds 20

In a round every implementation runs once, in random order, so that whatever else the machine does meets all of them.
A ratio is theirs over ours, of two runs in the same round: above 1, ours is faster. Shown are its median over the
rounds, the 95 % interval of that median (bootstrap), and the ratio of the shortest times, which other work disturbs
least.
Peak memory is what PyTorch's allocator reports to the profiler, above the weights: exact, and the same in every run,
which the resident size of a process is not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler looks for a GPU, and is loud where there is none

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


def forward(model: nn.Module, images: Tensor) -> None:
    with torch.inference_mode():
        logits_of(model(images))


def forward_backward(model: nn.Module, images: Tensor) -> None:
    model.zero_grad(set_to_none=True)
    logits_of(model(images)).sum().backward()


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


def report(title: str, times: dict[str, list[float]], memory: dict[str, int]) -> None:
    """One table: a row for each implementation."""
    heads = ("median", 11), ("shortest", 12), ("ratio", 8), ("95 % interval", 15), ("of shortest", 13), ("peak", 14)
    print(f"\n{title}   {len(times[OURS])} rounds")
    print(" " * 14 + "".join(f"{head:>{width}}" for head, width in heads))
    for name, spent in times.items():
        ratio, low, high = median_interval([t / ours for t, ours in zip(spent, times[OURS], strict=True)])
        print(
            f"{name:14}{statistics.median(spent) * 1e3:8.1f} ms{min(spent) * 1e3:9.1f} ms{ratio:8.3f}"
            f"  {low:.3f} – {high:.3f}  {min(spent) / min(times[OURS]):11.3f}{memory[name] / 2**20:10.1f} MiB"
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--variants", nargs="+", default=["Ti/16", "S/16", "B/16"], help="names of VARIANTS")
    parser.add_argument("--batch", type=int, default=8, help="images at once (a batch of 1 is measured too)")
    parser.add_argument("--image-size", type=int, default=224, help="pixels, a multiple of the variants' patch size")
    parser.add_argument("--rounds", type=int, default=20, help="for each table")
    options = parser.parse_args(arguments)

    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, images of {options.image_size} pixels")
    for variant in options.variants:
        config = ViTConfig.named(variant, image_size=options.image_size)
        models = build_all(config)
        cases = {(1, False): "forward", (options.batch, False): "forward", (options.batch, True): "forward+backward"}
        for (batch, backward), what in cases.items():
            images = torch.randn(batch, config.in_channels, config.image_size, config.image_size)
            step = forward_backward if backward else forward
            calls = {name: (lambda m=m, x=images, s=step: s(m, x)) for name, m in models.items()}
            for model in models.values():
                model.train(backward)
            memory = {name: peak_memory(call) for name, call in calls.items()}
            times = measure(calls, options.rounds)
            report(f"{variant} {what}, batch {batch}", times, memory)


if __name__ == "__main__":
    main()
