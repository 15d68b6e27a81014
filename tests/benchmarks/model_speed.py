"""Our Vision Transformer's speed beside that of the published ones, in one run.

    python tests/benchmarks/model_speed.py S/16 --rounds 20

In a round every implementation runs once, in random order, so that whatever else the machine does meets all of them.
A ratio is theirs over ours, of two runs in the same round: above 1, ours is faster. Shown are its quartiles.
"""

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from vit_tutorial import VisionTransformer, ViTConfig

sys.path.insert(0, str(Path(__file__).parents[1]))
from published import BUILD, logits_of, randomize, twin


def seconds(model: nn.Module, images: Tensor, backward: bool) -> float:
    start = time.perf_counter()
    model.zero_grad(set_to_none=True)
    with torch.inference_mode(not backward):
        total = logits_of(model(images)).sum()
    if backward:
        total.backward()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("variants", nargs="*", default=["Ti/16", "S/16", "B/16"], help="names of VARIANTS")
    parser.add_argument("--rounds", type=int, default=20, help="for each table")
    asked = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, images of 224 pixels")
    for variant in asked.variants:
        ours = randomize(VisionTransformer(ViTConfig.named(variant)), scale=0.02)
        models = {"vit_tutorial": ours} | {library: twin(ours, library) for library in BUILD}
        for batch, backward in ((1, False), (8, False), (8, True)):
            images, times = torch.randn(batch, 3, 224, 224), {name: [] for name in models}
            for _ in range(asked.rounds + 1):
                for name in random.sample(list(models), len(models)):
                    times[name].append(seconds(models[name].train(backward), images, backward))
            print(f"\n{variant} {'forward and backward' if backward else 'forward'}, batch {batch}")
            for name, spent in times.items():
                ratios = [theirs / mine for theirs, mine in zip(spent[1:], times["vit_tutorial"][1:], strict=True)]
                low, middle, high = statistics.quantiles(ratios)
                print(f"{name:14}{1e3 * statistics.median(spent):8.1f} ms, ratio {middle:.3f} ({low:.3f} – {high:.3f})")


if __name__ == "__main__":
    main()
