"""The training loop."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from ..data import ImageSet
from ..inference import require_logits
from ..model_card import ModelCard
from .batches import batches, make_mix
from .distributed import distribute, rank_and_world
from .evaluation import evaluate, require_same_classes
from .optimizer import only_trained, parameter_groups
from .progress import Epoch, Reporter, Watch, require_finite
from .recipe import Recipe
from .resuming import Checkpoint, locked

RANDOM = threading.RLock()  # dropout and mixing draw from generators that all threads share


def fit(
    model: nn.Module,
    images: ImageSet,
    recipe: Recipe,
    *,
    validation: ImageSet | None = None,
    folder: str | Path | None = None,
    watch: Iterable[Watch] = (),
) -> list[Epoch]:
    """Train in place on the model's device (CPU, CUDA or MPS); return one `Epoch` per epoch.

    The weights after the last step are the result: `validation` helps to choose a recipe, not an epoch. `watch` are
    functions that get the `Progress`. A model without a card gets one, with mean and standard deviation of the images;
    one with a card gets the images' classes, and what it said about the old weights moves under "started from".

    With a `folder`, write `checkpoint.safetensors` and `metrics.csv` there after each epoch, and go on from them if
    the run was interrupted. It then ends with the weights of a run without interruption, bit by bit on a CPU with as
    many threads. One process at a time can train in a folder.

    Warns (`TrainingAlarm`) if the first loss is far from ln K, and if after warm-up it is still ln K or all answers
    are the same. Raises FloatingPointError if the loss or a weight is not finite; ValueError if there is nothing to
    train, the validation has other classes, another process is training in the folder, or it belongs to another
    recipe, model or images; OSError if the folder cannot be written.
    """
    if validation:
        require_same_classes(images.classes, validation.classes)
    with locked(folder), only_trained(model, recipe.trained):
        device = next(model.parameters()).device
        groups = parameter_groups(model, recipe.weight_decay, recipe.layer_decay)
        optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, recipe.beta2), fused=True)
        checkpoint = Checkpoint(folder, model, optimizer, recipe, images) if folder is not None else None
        history = checkpoint.load() if checkpoint else []
        card = getattr(model, "card", None) or ModelCard((), *images.mean_std())
        model.card = card.passed_on(images.classes)
        trained = torch.compile(distribute(model)) if recipe.compile else distribute(model)
        watch = tuple(watch)
        for index in range(len(history), recipe.epochs):
            reporter = Reporter(watch, recipe, images, index, device)
            with RANDOM, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                epoch = train_epoch(trained, model.card, optimizer, images, recipe, index, reporter)
            norm = nn.utils.get_total_norm(model.parameters()).item()  # as the last step left them
            require_finite("norm of all weights", norm, epoch.number, epoch.learning_rate)
            if validation:
                score = evaluate(model, validation)
                epoch = epoch._replace(validation_loss=score.loss, validation_accuracy=score.accuracy)
            history.append(epoch)
            reporter.report(epoch.loss, len(images) / epoch.seconds, epoch)
            if checkpoint:
                checkpoint.save(history)
    model.eval()
    return history


def train_epoch(
    model: nn.Module,
    card: ModelCard,
    optimizer: torch.optim.Optimizer,
    images: ImageSet,
    recipe: Recipe,
    index: int,
    reporter: Reporter,
) -> Epoch:
    """Take one optimizer step for each batch, until every image was seen once."""
    rank, world = rank_and_world()
    weight, num_classes, steps = next(model.parameters()), len(card.classes), recipe.steps_per_epoch(len(images))
    # Only these are clipped: a frozen weight may hold an old gradient.
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    pixels, labels = images.pixels.to(weight.device), images.labels.to(weight.device)
    mix = make_mix(recipe, num_classes)
    autocast = torch.autocast(weight.device.type, torch.bfloat16, enabled=recipe.precision == "bf16")
    # Mixing and dropout depend on the seed, the epoch and the process, not on what ran before.
    torch.manual_seed(4096 * (1 + recipe.epoch_seed(index)) + rank)
    for step, (crops, targets, share) in enumerate(batches(pixels, labels, recipe, index, rank, world), index * steps):
        learning_rate = recipe.learning_rate_at(step, steps)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * group.get("lr_scale", 1.0)
        inputs, targets = mix(card.normalise(crops).to(weight.dtype), targets)
        with autocast:
            logits = model(inputs)
        require_logits(logits, num_classes)
        loss = F.cross_entropy(logits.to(inputs.dtype), targets, label_smoothing=recipe.label_smoothing)
        optimizer.zero_grad()
        # DDP averages over processes; this factor turns the average into the gradient of the whole batch.
        loss.backward(torch.full_like(loss, share * world))
        nn.utils.clip_grad_norm_(trained, recipe.clip_norm)
        optimizer.step()
        reporter.add(loss.detach(), logits.detach(), learning_rate)
    return reporter.summary()
