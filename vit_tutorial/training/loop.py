"""The training loop."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW

from ..data import ImageSet
from ..data.image_set import require_image_set
from ..files import as_path
from ..inference import eval_mode, require_logits
from ..model_card import ModelCard
from ..saving import find_card, unwrapped
from .batches import batches, make_mix
from .distributed import distribute, is_first, my_part, rank_and_world, seed_process
from .progress import Epoch, Reporter, Watch, require_finite
from .recipe import Recipe, parameter_groups
from .resuming import describe_run, load_run, save_run


def fit(
    model: nn.Module, images: ImageSet, recipe: Recipe, *, folder: str | Path | None = None, watch: Iterable[Watch] = ()
) -> list[Epoch]:
    """Train in place on the model's device (CPU, CUDA or MPS); return one `Epoch` per epoch.

    The weights after the last step are the result. `watch` are functions that get the `Progress`: in one, after an
    epoch, `evaluate` tells how held-out images do. A model without a card gets one, with mean and standard deviation of
    the images; a card gets the images' classes, and what it said of the old weights moves under "started from".

    With a `folder`, write `checkpoint.safetensors` and `metrics.csv` there after each epoch, and go on from them if
    the run was interrupted. On a CPU, with as many threads, it ends bit-identical to a run that was not. Before the
    first epoch is over there is nothing to go on from: make the model anew.

    Warns (`TrainingAlarm`) if the first loss is far above ln K, and if after warm-up it is still what knowing the
    counts of the classes costs. Raises ValueError, with the model as it was, if model, recipe and images do not fit
    together, or if the folder belongs to another run; OSError if it cannot be written; FloatingPointError for a loss or
    a weight that is not finite. The model ends in eval mode.
    """
    if callable(watch):
        raise ValueError("watch is a list of functions, such as watch=[print_progress], got one function")
    watch = list(watch) if is_first() else []
    require_image_set(images)
    card = (find_card(model) or ModelCard((), *images.mean_std())).with_classes(images.classes)
    require_trainable(model, card, images, recipe)
    optimizer = AdamW(parameter_groups(model, recipe.weight_decay), betas=(0.9, recipe.beta2), fused=True)
    history = []
    if folder is not None:
        folder = as_path("folder", folder)
        run = describe_run(folder, recipe, model, card, images)
        history = load_run(folder, run, model, optimizer)
    # Nothing is refused from here on, so the model may change.
    unwrapped(model).card = model.card = card
    device = next(model.parameters()).device
    trained = distribute(model.train())
    try:
        for index in range(len(history), recipe.epochs):
            reporter = Reporter(watch, recipe, images, index)
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                for loss in train_epoch(trained, card, optimizer, images, recipe, index):
                    reporter.add(loss)
            epoch = reporter.so_far()
            require_finite(epoch, nn.utils.get_total_norm(model.parameters()).item())
            reporter.warn_if_nothing_is_learned()
            reporter.tell(epoch, finished=True)
            history.append(epoch)
            if folder is not None and is_first():
                save_run(folder, run, model, optimizer, history)
    finally:
        model.eval()
    return history


def require_trainable(model: nn.Module, card: ModelCard, images: ImageSet, recipe: Recipe) -> None:
    """Raise ValueError unless there are weights to train, in float32 or float64, and model, images and recipe fit."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    if not trained or not torch.is_grad_enabled():
        raise ValueError("nothing to train: all weights are frozen, or gradients are off here (torch.no_grad)")
    if dtypes := {weight.dtype for weight in trained} - {torch.float32, torch.float64}:
        raise ValueError(f"fit trains weights in float32 or float64, these are {dtypes}: model.float() makes them so")
    with torch.no_grad(), eval_mode(model):
        logits = model(card.normalise(images.pixels[:1].to(trained[0].device)).to(trained[0].dtype))
    require_logits(logits, len(card.classes))
    smallest, world = len(images) // recipe.steps_per_epoch(len(images)), rank_and_world()[1]
    if smallest < world:
        raise ValueError(f"batches of {smallest} images cannot be shared by {world} processes")
    if recipe.crop >= min(images.pixels.shape[2:]):
        raise ValueError(f"crop {recipe.crop} is no less than a side of images {tuple(images.pixels.shape[2:])}")


def train_epoch(
    model: nn.Module, card: ModelCard, optimizer: AdamW, images: ImageSet, recipe: Recipe, index: int
) -> Iterator[Float[Tensor, ""]]:
    """Take one optimizer step for each batch, until every image was seen once; yield their losses."""
    steps = recipe.steps_per_epoch(len(images))
    # Only these are clipped: a frozen weight may hold an old gradient.
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    device, dtype = trained[0].device, trained[0].dtype
    pixels, labels = images.pixels.to(device), images.labels.to(device)
    mix = make_mix(recipe, len(card.classes))
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bf16")
    seed_process(recipe.epoch_seed(index))  # dropout and mixing do not depend on what ran before
    for step, batch in enumerate(batches(pixels, labels, recipe, index), start=index * steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate_at(step, steps)
        pixels_here, targets, weight = my_part(*batch)  # in one process: the whole batch, and a weight of 1
        inputs, targets = mix(card.normalise(pixels_here).to(dtype), targets)
        with autocast:
            logits = model(inputs)
        loss = F.cross_entropy(logits.to(dtype), targets, label_smoothing=recipe.label_smoothing)
        optimizer.zero_grad()
        (weight * loss).backward()
        nn.utils.clip_grad_norm_(trained, recipe.clip_norm)
        optimizer.step()
        yield loss.detach()
