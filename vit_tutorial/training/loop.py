"""The training loop."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from ..data import ImageSet
from ..inference import changing
from ..model_card import ModelCard
from .alarms import check_finite, check_width
from .batches import batches, make_mix, make_randaugment
from .distributed import distribute, rank_and_world
from .evaluation import check_classes, evaluate
from .optimizer import SCHEDULES, parameter_groups
from .progress import Epoch, Reporter, Watch
from .recipe import Recipe
from .resuming import hold, resume, save_checkpoint

RANDOM = threading.RLock()  # dropout and mixing draw from a generator that all threads share


def fit(
    model: nn.Module,
    images: ImageSet,
    recipe: Recipe,
    *,
    validation: ImageSet | None = None,
    folder: str | Path | None = None,
    watch: Iterable[Watch] = (),
) -> list[Epoch]:
    """Train `model` in place on `images`, where it stands (CPU, CUDA or MPS); what each epoch came to.

    A model without a card gets one, with the images' mean and standard deviation; the names of the classes are
    those of the images, and what the card said of the old weights stands under "started from". The last weights are
    the result: `validation` serves to choose a recipe, not an epoch. `watch` are functions that are told the
    `Progress`, to print it or to draw it.

    With a `folder` the run leaves `checkpoint.safetensors` and `metrics.csv` there after each epoch, and goes
    on from them if it was interrupted. Its weights at the end are then those of a run without interruption,
    bit by bit on a CPU with as many threads. One process at a time can train in a folder.

    Warns (`TrainingAlarm`) of a first loss far from ln K, and after warm-up of a loss still there or of one
    answer to everything. Raises FloatingPointError if the loss or a weight is not finite, ValueError if the folder
    belongs to another recipe, model or images, or another process is training in it, or if there is nothing to train,
    or the validation has other classes, OSError if the folder cannot be written.
    Threads train one after the other; a RuntimeError for one that uses a model in another way meanwhile.
    """
    if validation:
        check_classes(images.classes, validation.classes)
    with hold(folder), changing(model), only_trained(model, recipe.trained), own_random_numbers(model):
        groups = parameter_groups(model, recipe.weight_decay, recipe.layer_decay)
        optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, recipe.beta2), fused=True)
        history = resume(folder, model, optimizer, recipe, images) if folder is not None else []
        card = getattr(model, "card", None) or ModelCard((), *images.mean_std())
        model.card = card.passed_on(images.classes)
        trained = torch.compile(distribute(model)) if recipe.compile else distribute(model)
        reporter = Reporter(watch, recipe, len(images), images.classes)
        for index in range(len(history), recipe.epochs):
            epoch = train_epoch(trained, model.card, optimizer, images, recipe, index, reporter)
            norm = nn.utils.get_total_norm(model.parameters()).item()
            check_finite("norm of all weights", norm, epoch.number, epoch.learning_rate)  # as the last step left them
            if validation:
                score = evaluate(model, validation)
                epoch = epoch._replace(validation_loss=score.loss, validation_accuracy=score.accuracy)
            history.append(epoch)
            reporter.tell(finished=epoch)
            if folder is not None and rank_and_world()[0] == 0:
                save_checkpoint(folder, model, optimizer, recipe, images, history)
    model.eval()
    return history


@contextmanager
def own_random_numbers(model: nn.Module) -> Iterator[None]:
    """Give the global generators back as they were; dropout and mixing inside the block draw from them."""
    device = next(model.parameters()).device
    with RANDOM, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextmanager
def only_trained(model: nn.Module, part: str) -> Iterator[None]:
    """Inside the block everything but `part` ("head", or "all") is frozen, and in `eval` mode.

    Raises ValueError if nothing is left to train, or not in float32 or float64.
    """
    if part == "head" and not hasattr(model, "head"):
        raise ValueError(f"trained='head' needs a model with a head, {type(model).__name__} has none")
    trained = set((model if part == "all" else model.head).parameters())
    if not torch.is_grad_enabled() or not any(parameter.requires_grad for parameter in trained):
        raise ValueError("nothing to train: all weights are frozen, or gradients are off here (torch.no_grad)")
    if dtypes := {parameter.dtype for parameter in trained} - {torch.float32, torch.float64}:
        raise ValueError(f"fit trains weights in float32 or float64, these are {dtypes}: model.float() makes them so")
    frozen = [parameter for parameter in model.parameters() if parameter.requires_grad and parameter not in trained]
    modes = [(module, module.training) for module in model.modules()]
    model.train(part == "all")
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
        for module, training in modes:
            module.training = training


def train_epoch(
    model: nn.Module,
    card: ModelCard,
    optimizer: torch.optim.Optimizer,
    images: ImageSet,
    recipe: Recipe,
    index: int,
    reporter: Reporter,
) -> Epoch:
    """One optimizer step for each batch of the epoch, until every image was seen once."""
    rank, world = rank_and_world()
    weight = next(model.parameters())
    device = weight.device
    # What is clipped: not the old gradient that a frozen weight may hold. Collected once, since it takes time.
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    pixels, labels = images.pixels.to(device), images.labels.to(device)
    randaugment, mix = make_randaugment(recipe), make_mix(recipe, len(card.classes))
    steps, factor = recipe.steps_per_epoch(len(images)), SCHEDULES[recipe.schedule]
    warmup_steps, all_steps = round(recipe.warmup_epochs * steps), recipe.epochs * steps
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bf16")
    reporter.start(index, device)
    # What dropout and mixing draw depends on the seed, the epoch and the process, not on what ran before.
    torch.manual_seed(4096 * (1 + recipe.epoch_seed(index)) + rank)
    for step, (crops, targets, share) in enumerate(batches(pixels, labels, recipe, index, rank, world)):
        rate = recipe.learning_rate * factor(index * steps + step, warmup_steps, all_steps)
        for group in optimizer.param_groups:
            group["lr"] = rate * group.get("lr_scale", 1.0)
        inputs, targets = mix(card.normalise(randaugment(crops)).to(weight.dtype), targets)
        with autocast:
            logits = model(inputs)
        check_width(logits, len(card.classes))
        loss = F.cross_entropy(logits.to(inputs.dtype), targets, label_smoothing=recipe.label_smoothing)
        optimizer.zero_grad()
        # DDP averages the gradients of the processes; times this factor that is the gradient of the whole batch.
        loss.backward(torch.full_like(loss, share * world))
        nn.utils.clip_grad_norm_(trained, recipe.clip_norm)
        optimizer.step()
        reporter.add(loss.detach(), logits.detach(), rate)
    return reporter.summary()
