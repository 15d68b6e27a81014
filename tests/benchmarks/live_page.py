"""How long the live page computes one answer, in Chromium: the fastest quarter of 40, beside PyTorch in the same run.

python tests/benchmarks/live_page.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from vit_tutorial import VisionTransformer, load_checkpoint, play
from vit_tutorial.config import to_pair

sys.path.insert(0, str(Path(__file__).parents[1]))
from live.browser import Browser


def in_torch(model: VisionTransformer) -> float:
    """Return the milliseconds of one forward pass, the fastest quarter of 40."""
    image, times = torch.zeros(1, 3, *to_pair(model.config.image_size)), []
    for _ in range(40):
        start = time.perf_counter()
        with torch.no_grad():
            model(image)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.quantiles(times)[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "profile")
        for name in ("shapes", "cifar10"):
            model, page = load_checkpoint(name), Path(folder) / f"{name}.html"
            page.write_text(play(model).html, encoding="utf-8")
            browser.open(page)
            times = browser.run("Array.from({ length: 40 }, () => { compute(state.strokes); return result.took; })")
            ours, theirs = statistics.quantiles(times)[0], in_torch(model)
            print(f"{name}: {ours:.1f} ms in the page, {theirs:.1f} ms in PyTorch, ratio {ours / theirs:.1f}")
        browser.close()


if __name__ == "__main__":
    main()
