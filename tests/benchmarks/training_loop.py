"""What the training loop costs beyond the model: `train_epoch` beside the bare step, in one run.

    python tests/benchmarks/training_loop.py --steps 10 --rounds 20

The bare step is forward, cross-entropy, backward and AdamW on one batch that lies ready. The loop adds all else that an
epoch does: cutting batches, shifting, flipping and normalising images, the learning rate, clipping, counting, progress.
In a round both do so many steps, in random order, so that whatever else the machine does meets both. Shown are the
median over the rounds of loop over bare step, the 95 % interval of that median (bootstrap), and the ratio of the
shortest times, which other work disturbs least. The model is that of `python -m vit_tutorial.train --dataset shapes`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from vit_tutorial import Shapes, VisionTransformer
from vit_tutorial.card import Card
from vit_tutorial.train import PRESETS
from vit_tutorial.training.loop import train_epoch
from vit_tutorial.training.optimizer import parameter_groups
from vit_tutorial.training.progress import Reporter

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.side_by_side import measure, median_interval

LOOP, BARE = "loop", "bare step"


def make_calls(steps: int, batch_size: int) -> dict[str, Callable[[], None]]:
    """An epoch of so many steps with the loop, and as many bare steps."""
    preset = PRESETS["shapes"]
    images = Shapes(steps * batch_size, preset.config.image_size)
    config = replace(preset.config, num_classes=len(images.classes))
    recipe = replace(preset.recipe, batch_size=batch_size, crop=4, flip=True)
    card = Card(images.classes, *images.mean_std())
    models, optimizers = {}, {}
    for name in (LOOP, BARE):
        torch.manual_seed(0)
        models[name] = VisionTransformer(config).train()
        groups = parameter_groups(models[name], recipe.weight_decay)
        optimizers[name] = torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)
    reporter = Reporter((), recipe, len(images), images.classes)
    inputs, labels = card.normalise(images.pixels[:batch_size]), images.labels[:batch_size]

    def loop() -> None:
        train_epoch(models[LOOP], card, optimizers[LOOP], images, recipe, 0, reporter)

    def bare() -> None:
        for _ in range(steps):
            optimizers[BARE].zero_grad()
            F.cross_entropy(models[BARE](inputs), labels).backward()
            optimizers[BARE].step()

    return {LOOP: loop, BARE: bare}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=40, help="in a round, of the loop and of the bare step")
    parser.add_argument("--batch", type=int, default=PRESETS["shapes"].recipe.batch_size, help="images in a step")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args(arguments)

    times = measure(make_calls(options.steps, options.batch), options.rounds)
    ratio, low, high = median_interval([loop / bare for loop, bare in zip(*times.values(), strict=True)])
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, batches of {options.batch}")
    for name, spent in times.items():
        milliseconds = [1e3 * seconds / options.steps for seconds in spent]
        print(f"{name:10}{statistics.median(milliseconds):8.1f} ms a step, shortest {min(milliseconds):.1f} ms")
    print(f"loop / bare step   {ratio:.3f}   95 % interval {low:.3f} – {high:.3f}   of {options.rounds} rounds")
    print(f"of the shortest    {min(times[LOOP]) / min(times[BARE]):.3f}")


if __name__ == "__main__":
    main()
