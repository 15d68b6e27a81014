"""The loop: it learns, it is the loop that one would write by hand, and it says when something is wrong."""

import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vit_tutorial import ImageSet
from vit_tutorial.hybrid import small_cnn
from vit_tutorial.model_card import ModelCard
from vit_tutorial.saving import read_tensors
from vit_tutorial.training import Recipe, TrainingAlarm, evaluate, fit, loop, warmup_cosine
from vit_tutorial.training.progress import Reporter

from .toys import RESTLESS, RESTLESS_MODEL, bright_or_dark, differing, float64, short, small_vit, start, weights_of


def trained(recipe: Recipe, images: ImageSet | None = None, watch=(), **options) -> dict[str, torch.Tensor]:
    model = small_vit(**options)
    fit(model, images or bright_or_dark(), recipe, watch=watch)
    return weights_of(model)


def test_it_learns_to_tell_bright_from_dark_and_raises_no_alarm():
    model = small_vit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        history = fit(model, bright_or_dark(96), short(epochs=4))
    assert evaluate(model, bright_or_dark(101, seed=1)).accuracy == 1
    assert [epoch.number for epoch in history] == [1, 2, 3, 4]
    assert history[-1].loss < history[0].loss / 4
    assert not model.training, "ready to predict"
    assert model.card.classes == ("dark", "bright")
    assert (model.card.mean, model.card.std) == bright_or_dark(96).mean_std()


@float64()
def test_it_is_the_loop_that_one_writes_by_hand():
    """Shuffle, forward, smoothed cross-entropy, backward, clip, AdamW's equations; the last weights are the result."""
    images, recipe = bright_or_dark(20), short(label_smoothing=0.1, clip_norm=1.5, weight_decay=0.3, beta2=0.98)
    by_hand = small_vit()
    fitted = small_vit()
    history = fit(fitted, images, recipe)

    pixels = images.pixels / 255
    pixels = (pixels - pixels.mean((0, 2, 3), keepdim=True)) / pixels.std((0, 2, 3), keepdim=True, correction=0)
    first = {p: torch.zeros_like(p) for p in by_hand.parameters()}
    second = {p: torch.zeros_like(p) for p in by_hand.parameters()}
    matrices = {m.weight for m in by_hand.modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
    step, norms = 0, []
    for epoch in range(recipe.epochs):
        losses = 0.0
        order = torch.randperm(20, generator=torch.Generator().manual_seed(recipe.epoch_seed(epoch)))
        for batch in (order[:7], order[7:14], order[14:]):
            rate = recipe.learning_rate * warmup_cosine(step, 3, 9)
            logs = by_hand(pixels[batch]).log_softmax(1)
            targets = 0.9 * F.one_hot(images.labels[batch], 2) + 0.1 / 2
            loss = -(targets * logs).sum(1).mean()
            losses += loss.item()
            gradients = torch.autograd.grad(loss, list(first))
            norms.append(torch.cat([g.flatten() for g in gradients]).norm())
            step += 1
            for p, g in zip(first, gradients, strict=True):
                g = g * min(1, recipe.clip_norm / (norms[-1] + 1e-6))
                first[p].lerp_(g, 0.1)
                second[p].lerp_(g.square(), 0.02)
                moved = (first[p] / (1 - 0.9**step)) / ((second[p] / (1 - 0.98**step)).sqrt() + 1e-8)
                p.data -= rate * (moved + 0.3 * p.data * (p in matrices))
        assert history[epoch].loss == pytest.approx(losses / 3)
        assert history[epoch].learning_rate == pytest.approx(rate)
    assert min(norms) < recipe.clip_norm < max(norms), "clipping is seen both to bite and to leave alone"
    for name, parameter in by_hand.named_parameters():
        torch.testing.assert_close(fitted.get_parameter(name), parameter, atol=1e-11, rtol=0, msg=name)


def test_the_same_recipe_gives_the_same_weights_and_another_seed_others():
    recipe = short(epochs=2, **RESTLESS)
    first = trained(recipe, **RESTLESS_MODEL)
    model = small_vit(**RESTLESS_MODEL)
    torch.manual_seed(1)  # what was drawn before does not matter
    expected = torch.rand(3)
    torch.manual_seed(1)
    fit(model, bright_or_dark(), recipe)
    assert torch.equal(torch.rand(3), expected), "the caller's random numbers are left alone"
    assert not differing(weights_of(model), first)
    assert differing(trained(short(epochs=2, seed=1, **RESTLESS), **RESTLESS_MODEL), first)


@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")  # one step teaches nothing
def test_every_epoch_draws_its_own_dropout():
    """The mask of the one batch of each epoch; before them comes the one without dropout that asks whether it fits."""
    model, masks = small_vit(dropout=0.5), []
    model.embeddings.dropout.register_forward_hook(lambda layer, _, output: masks.append((output == 0).sum().item()))
    fit(model, bright_or_dark(8), short(epochs=3))
    assert len(set(masks)) == 4


@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")
def test_with_bf16_the_layers_compute_in_it_and_the_loss_and_the_weights_stay_in_float32():
    """One step, on images of one class: their order does not matter. In bfloat16 the loss would have three digits."""
    images, model, seen = bright_or_dark(16).subset(range(0, 16, 2)), small_vit(), []
    nn.init.normal_(model.head.weight)
    model.head.register_forward_hook(lambda head, inputs, logits: seen.append(logits.detach()))
    (epoch,) = fit(model, images, short(epochs=1, precision="bf16", label_smoothing=0.1))
    assert seen[-1].dtype == torch.bfloat16
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    expected = F.cross_entropy(seen[-1].double(), images.labels, label_smoothing=0.1)
    assert epoch.loss == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.usefixtures("unchecked")
def test_a_wrapped_model_keeps_its_card_and_gets_the_new_one():
    model = small_vit()
    model.card = ModelCard(("a", "b"), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), {"test accuracy": 0.9})
    wrapper = nn.DataParallel(model)
    fit(wrapper, bright_or_dark(), short(epochs=1))
    about = {"started from": {"test accuracy": 0.9}}
    assert model.card == ModelCard(("dark", "bright"), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), about)
    assert evaluate(wrapper, bright_or_dark()).confusion.sum() == 24


def test_every_switch_of_the_recipe_is_connected():
    switches = {**RESTLESS, "label_smoothing": 0.2, "schedule": "constant", "precision": "bf16", "clip_norm": 0.01}
    switches |= {"weight_decay": 0.5, "beta2": 0.9, "warmup_epochs": 0.5}
    plain = {"epochs": 1, "warmup_epochs": 0.0}
    before = trained(short(**plain))
    assert [
        name for name, value in switches.items() if not differing(trained(short(**{**plain, name: value})), before)
    ] == []


def test_frozen_weights_stay_and_the_others_move():
    """An old gradient of a frozen weight is no part of the norm that the gradients are clipped to."""
    used, fresh = small_vit().requires_grad_(False), small_vit().requires_grad_(False)
    before = weights_of(fresh)
    for parameter in used.parameters():
        parameter.grad = torch.ones_like(parameter)
    for model in (used, fresh):
        model.head.requires_grad_(True)
        fit(model, bright_or_dark(), short(epochs=1))
        assert differing(weights_of(model), before) == ["head.weight", "head.bias"]
    assert not differing(weights_of(used), weights_of(fresh))


def run_a_cell_twice() -> None:
    """Print what is told of each alarm: its file, its line, counted from here, and its text."""

    def show(message, category, filename, lineno, file=None, line=None):
        print(Path(filename).name, lineno - run_a_cell_twice.__code__.co_firstlineno, message)

    warnings.showwarning, recipe = show, short(epochs=1, warmup_epochs=0.0, learning_rate=1e-5)
    for _ in range(2):
        model = small_vit()
        model.head.bias.data[0] = 9
        fit(model, bright_or_dark(), recipe)


def test_alarms_are_at_the_readers_line_and_come_again_with_the_cell(tmp_path):
    """In a process of its own: Python's filters and not those of pytest, and no shape checker in between."""
    start(run_a_cell_twice, output=tmp_path / "told").join(300)
    lines = (tmp_path / "told").read_text(encoding="utf-8").splitlines()
    for told, alarm in zip(lines, ["the first loss is ", "after warm-up the loss is still "] * 2, strict=True):
        assert told.startswith(f"{Path(__file__).name} 10 {alarm}")
    assert "2 equally likely classes cost ln 2 = 0.69. Look at the head" in lines[0]


def alarms(images: ImageSet, **options) -> list[str]:
    """What a run warns of; the head is not zero at the start, so that answers are not all alike."""
    model = small_vit()
    nn.init.normal_(model.head.weight, std=0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(model, images, short(**options))
    assert all(warning.category is TrainingAlarm for warning in caught)
    return [str(warning.message) for warning in caught]


def shuffled_labels(bright: int) -> ImageSet:
    """80 images with labels that say nothing of them; so many are called bright."""
    labels = (torch.randperm(80) < bright).long()
    return ImageSet(bright_or_dark(80).pixels, labels, ("dark", "bright"))


@pytest.mark.parametrize(("epochs", "warmup", "count"), [(4, 1.0, 1), (1, 0.2, 1), (2, 1.5, 1), (1, 1.0, 1)])
def test_alarm_nothing_learned_once_in_the_first_half_epoch_after_warm_up(epochs, warmup, count):
    told = alarms(shuffled_labels(40), epochs=epochs, warmup_epochs=warmup, learning_rate=1e-5)
    assert [message[:37] for message in told] == ["after warm-up the loss is still 0.69,"] * count
    assert all("Look at the learning rate" in message for message in told)


def test_alarm_by_the_second_half_alone():
    reporter = Reporter((), short(warmup_epochs=0.5, batch_size=20), shuffled_labels(40), 0)
    reporter.losses = list(torch.tensor([0.1, 0.1, 0.9, 0.9]))  # ln 2 is 0.69
    with pytest.warns(TrainingAlarm):
        reporter.warn_if_nothing_is_learned()


def test_alarm_a_loss_below_ln_K_that_the_counts_alone_explain():
    """Of 80 images 4 are bright: 0.1985, with a tenth of the target shared 0.3139. What is learned is that."""
    for smoothing, cost in ((0.0, "0.20"), (0.1, "0.31")):
        options = {"learning_rate": 3e-3, "label_smoothing": smoothing}
        (told,) = alarms(shuffled_labels(4), epochs=2, warmup_epochs=1.0, **options)
        assert f"knowing nothing but how often each class comes costs {cost}. Look" in told
    learnable = bright_or_dark(80).subset([*range(0, 80, 2), *range(1, 16, 2)])  # 40 dark, 8 bright
    assert alarms(learnable, epochs=4, warmup_epochs=3.0) == []
    assert alarms(bright_or_dark().subset(range(0, 24, 2)), epochs=2) == [], "one label, of two classes: no fault"


@pytest.mark.parametrize(
    ("spoiled", "told"), [("logits", "the loss is nan"), ("gradient", "the norm of all weights nan")]
)
def test_what_is_not_finite_stops_the_run_and_leaves_the_epoch_before(spoiled, told, tmp_path):
    """The last step of epoch 2. Its loss says nothing about what the step does to the weights."""
    model, recipe, steps = small_vit(), short(), []

    def spoil(*values):
        steps.extend([1] * model.training)
        return values[-1] * torch.nan if len(steps) == 6 else values[-1]  # three steps in an epoch

    (model.head.register_forward_hook if spoiled == "logits" else model.head.weight.register_hook)(spoil)
    with pytest.raises(FloatingPointError, match=f"in epoch 2.*{told}.*Lower the learning rate"):
        fit(model, bright_or_dark(), recipe, folder=tmp_path)
    assert not model.training
    tensors, about = read_tensors(tmp_path / "checkpoint.safetensors")
    assert [row[0] for row in about["history"]] == [1]
    assert all(tensor.isfinite().all() for tensor in tensors.values())
    again = small_vit()
    fit(again, bright_or_dark(), recipe, folder=tmp_path)
    assert not differing(weights_of(again), trained(recipe))


ONE_CLASS = ImageSet(bright_or_dark().pixels, torch.zeros(24, dtype=torch.int64), ("PetImages",))
REFUSED = {
    "frozen": (lambda: small_vit().requires_grad_(False), {}, "nothing to train"),
    "half": (lambda: small_vit().bfloat16(), {}, "float32 or float64, these are {torch.bfloat16}"),
    "a CNN": (lambda: small_cnn(5), {}, "5 logits for 2 classes: build it for 2, or give"),
    "too large": (lambda: small_vit(image_size=12), {}, "12×12"),
    "no folder": (small_vit, {"folder": ""}, "folder must be a path, got ''"),
    "a DataLoader": (small_vit, {"images": torch.utils.data.DataLoader(bright_or_dark())}, "an ImageSet, got DataLo"),
    "one function": (small_vit, {"watch": print}, "watch is a list of functions"),
    "two processes": (small_vit, {"recipe": short(batch_size=1)}, "batches of 1 images cannot be shared by 2"),
    "a crop": (small_vit, {"recipe": short(crop=8)}, r"crop 8 is no less than a side of images \(8, 8\)"),
    "one class": (small_vit, {"images": ONE_CLASS}, "one class, 'PetImages', so every answer is right"),
}


@pytest.mark.parametrize(("build", "options", "told"), REFUSED.values(), ids=REFUSED)
@pytest.mark.usefixtures("unchecked")
def test_a_refused_model_is_left_as_it_was(build, options, told, tmp_path, monkeypatch):
    """Weights, mode, what is frozen, the names of its classes; and no folder was made."""
    monkeypatch.setattr(loop, "rank_and_world", lambda: (0, 2))
    model = build().eval()
    card = model.card = ModelCard(("cat", "dog"), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    weights, frozen = weights_of(model), [parameter.requires_grad for parameter in model.parameters()]
    with pytest.raises(ValueError, match=told):
        fit(model, **{"images": bright_or_dark(), "recipe": short(), "folder": tmp_path / "run", **options})
    assert model.card is card
    assert not any(module.training for module in model.modules())
    assert [parameter.requires_grad for parameter in model.parameters()] == frozen
    assert not differing(weights_of(model), weights)
    assert not list(tmp_path.iterdir())
