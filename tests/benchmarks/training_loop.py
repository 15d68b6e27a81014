"""What the training loop costs beyond the model: `train_epoch` beside the bare step, in one run.

    python tests/benchmarks/training_loop.py --dataset shapes

The bare step is forward, cross-entropy, backward and AdamW on one batch that lies ready. The loop adds all else that an
epoch does: cutting batches, shifting and flipping images where the recipe says so, normalising them, the learning
rate, clipping, counting, progress. A bare step follows each step of the loop, so that whatever else the machine does
meets both, and an epoch's beginning and end count as the loop's. Shown are the median over the epochs of loop over bare
step, the 95 % interval of that median (bootstrap), and the ratio of all times. Model and recipe are those of
`python -m vit_tutorial.train`; the images are Shapes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from vit_tutorial import Shapes, VisionTransformer
from vit_tutorial.data import ImageSet
from vit_tutorial.model_card import ModelCard
from vit_tutorial.training import PRESETS, TrainingAlarm
from vit_tutorial.training.loop import train_epoch
from vit_tutorial.training.optimizer import parameter_groups
from vit_tutorial.training.progress import Reporter
from vit_tutorial.training.recipe import Preset

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.model_speed import median_interval


def make_model(preset: Preset, num_classes: int) -> tuple[VisionTransformer, torch.optim.AdamW]:
    torch.manual_seed(0)
    model = VisionTransformer(replace(preset.config, num_classes=num_classes)).train()
    groups = parameter_groups(model, preset.recipe.weight_decay)
    betas = (0.9, preset.recipe.beta2)
    return model, torch.optim.AdamW(groups, lr=preset.recipe.learning_rate, betas=betas, fused=True)


def make_bare_step(preset: Preset, card: ModelCard, images: ImageSet) -> Callable[[], None]:
    """A step on the first batch of `images`."""
    model, optimizer = make_model(preset, len(images.classes))
    size = preset.recipe.batch_size
    inputs, labels = card.normalise(images.pixels[:size]), images.labels[:size]

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def measure(preset: Preset, steps: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of the loop and of the bare step in each of `rounds` epochs, after a first one that is not counted."""
    images = Shapes(steps * preset.recipe.batch_size, preset.config.image_size)
    card = ModelCard(images.classes, *images.mean_std())
    model, optimizer = make_model(preset, len(images.classes))
    bare_step, bare_times = make_bare_step(preset, card, images), []

    def timed_bare_step(*_) -> None:
        start = time.perf_counter()
        bare_step()
        bare_times.append(time.perf_counter() - start)

    optimizer.register_step_post_hook(timed_bare_step)
    loop, bare = [], []
    for index in range(1 + rounds):
        bare_times.clear()
        start = time.perf_counter()
        reporter = Reporter((), preset.recipe, images, index)
        train_epoch(model, card, optimizer, images, preset.recipe, index, reporter)
        bare.append(sum(bare_times))
        loop.append(time.perf_counter() - start - bare[-1])
    return loop[1:], bare[1:]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", choices=("shapes", "cifar10"), default="shapes", help="whose model and recipe")
    parser.add_argument("--batch", type=int, help="images in a step (default: the recipe's)")
    parser.add_argument("--steps", type=int, default=40, help="of an epoch")
    parser.add_argument("--rounds", type=int, default=20, help="epochs")
    options = parser.parse_args(arguments)

    preset = PRESETS[options.dataset]
    recipe = replace(preset.recipe, batch_size=options.batch or preset.recipe.batch_size, epochs=1 + options.rounds)
    warnings.simplefilter("ignore", TrainingAlarm)  # a few steps teach little
    loop, bare = measure(preset._replace(recipe=recipe), options.steps, options.rounds)
    ratio, low, high = median_interval([whole / alone for whole, alone in zip(loop, bare, strict=True)])
    threads = torch.get_num_threads()
    print(f"{options.dataset}: torch {torch.__version__}, {threads} threads, batches of {recipe.batch_size}")
    for name, spent in (("loop", loop), ("bare step", bare)):
        print(f"{name:10}{1e3 * statistics.median(spent) / options.steps:8.1f} ms a step")
    print(f"loop / bare step   {ratio:.3f}   95 % interval {low:.3f} – {high:.3f}   of {options.rounds} rounds")
    print(f"of all times       {sum(loop) / sum(bare):.3f}")


if __name__ == "__main__":
    main()
