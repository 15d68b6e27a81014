"""The tables that the notebooks read, the scripts that make them, and models that are moved to another size."""

import csv
import runpy
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import common
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.testing import assert_close

import vit_tutorial
from vit_tutorial import ImageSet, Shapes, VisionTransformer, load_checkpoint, training
from vit_tutorial.data.outlines import MORE_OUTLINES
from vit_tutorial.experiments import (
    answers,
    blocks,
    load_block_runs,
    load_causes,
    load_mask_scores,
    load_results,
    load_size_runs,
    load_trials,
    move,
    quarter_task,
    quarters,
    short_run,
    sizes,
    tables,
    try_stack,
    tune,
    weighted_attention,
)
from vit_tutorial.training import fit

SCRIPTS = Path(__file__).resolve().parent.parent / "notebooks" / "tables"

STORED = tables.RESULTS
TABLES = sorted({path.stem for path in STORED.glob("*.csv")} - {"masks"})  # of models that a script trains
# The columns that say what a line is about; elsewhere there are two.
ABOUT = {"scarce": 3, "causes": 3, "trials": 3, "sizes": 4}
quiet = pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")


def script(name: str, run_name: str | None = None) -> SimpleNamespace:
    """What a script defines; the table is made only under the name "__main__"."""
    return SimpleNamespace(**runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name=run_name))


def cases(path: Path) -> tuple[list[str], dict[str, list[dict]]]:
    """Return the header of a table, and by seed what its lines are about."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert {len(line) for line in lines} == {len(header)}
    found = defaultdict(list)
    for line in lines:
        about = dict(zip(header[: ABOUT.get(path.stem, 2)], line, strict=False))
        found[about.pop("seed")].append(about)
    return header, found


def pictures(images: ImageSet) -> set[bytes]:
    return {pixels.numpy().tobytes() for pixels in images.pixels}


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Let scripts draw few scenes, train for few epochs with seed 0 alone, and write into an empty folder.

    Notes the scenes that are drawn, by their seed, and those that each training sees.
    """
    classes = load_checkpoint("cifar10").card.classes
    photos = ImageSet(torch.randint(256, (66, 3, 32, 32), dtype=torch.uint8), torch.arange(66) % 10, classes)
    world = SimpleNamespace(scenes=8, epochs=1, photos=photos, drawn=defaultdict(set), trained=[], folder=tmp_path)

    def few_shapes(count, image_size=32, seed=0, *rest, **more):
        images = Shapes(min(count, world.scenes), image_size, seed, *rest, **more)
        world.drawn[seed] |= pictures(images)
        return images

    def short_fit(model, images, recipe, **more):
        world.trained.append(pictures(images))
        fit(model, images, replace(recipe, epochs=min(recipe.epochs, world.epochs), warmup_epochs=0.0), **more)

    for module in (vit_tutorial, common, blocks, quarter_task, sizes):
        monkeypatch.setattr(module, "Shapes", few_shapes)
    for module in (training, common, sizes):
        monkeypatch.setattr(module, "fit", short_fit)
    monkeypatch.setattr(vit_tutorial, "cifar10", lambda **_: photos)
    monkeypatch.setattr(common, "SEEDS", (0,))
    monkeypatch.setattr(common, "CONFIG", replace(common.CONFIG, depth=1))
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    common.trained_at_home.cache_clear()
    yield world
    common.trained_at_home.cache_clear()


# ---- the scripts


def test_each_stored_table_has_its_script():
    scripts = {path.stem for path in SCRIPTS.glob("*.py")}
    assert {path.stem for path in STORED.iterdir()} == scripts - {"common", "positions"}


@quiet
@pytest.mark.parametrize("name", TABLES)
def test_a_script_makes_the_lines_that_are_stored_and_keeps_training_and_test_scenes_apart(name, small):
    small.epochs = 14 if name == "scarce" else 1  # it looks 14 times
    script(name, "__main__")
    (header, made), (stored_header, stored) = (cases(folder / f"{name}.csv") for folder in (small.folder, STORED))
    assert header == stored_header
    assert list(stored) == ["0", "1", "2"]
    assert all([lines] == list(made.values()) for lines in stored.values())
    trained = set().union(*small.trained)
    assert not trained or small.drawn[1] or small.drawn[3]
    assert trained <= small.drawn[0] | small.drawn[10], "the scenes of lesson 06, or a seed's own"
    assert not trained & (small.drawn[1] | small.drawn[3]), "test scenes and validation scenes"
    assert not (name in ("rates", "scarce") and small.drawn[1]), "what is chosen is chosen on validation scenes"


def test_masks_are_painted_by_what_a_linear_layer_has_learned():
    """Inside, a token's first value is larger: the layer finds it."""
    masks = script("masks")
    inside = torch.zeros(2, 32, 32, dtype=torch.bool)
    inside[0, 8:16, 4:12] = inside[1, 3:20, 10:30] = True
    inside = inside.flatten(1)
    tokens = torch.stack([inside + 5.0, torch.zeros_like(inside, dtype=torch.float32)], dim=2)  # (2, N, 2)
    scores = masks.fit(tokens[:1], inside[:1])(tokens)
    assert torch.equal(scores > 0, inside)
    pixels = inside.unflatten(1, (32, 32)).repeat_interleave(14, dim=1).repeat_interleave(14, dim=2)
    assert masks.overlap(scores, pixels) > 0.8 > masks.overlap(-scores, pixels)


def test_each_score_of_the_masks_is_stored_for_three_seeds():
    """A trained model's tokens paint better than the best disc, and no better than the true patches."""
    found = load_mask_scores()
    disc, best = found.pop("best disc in the centre").item(), found.pop("the true patches").item()
    assert {scores.shape for scores in found.values()} == {(3, 6)}
    assert disc < found["DINOv2, block 8"].min() <= found["DINOv2, block 8"].max() < best


def test_the_probe_of_25_examples_comes_out_again():
    """With seed 1, whose accuracy is far below the others: examples of another seed would show."""
    stored = load_results("probe")["25 examples"]
    assert stored[1] + 0.05 < min(stored[0], stored[2])
    assert script("probe").measure(25, seed=1) == pytest.approx(stored[1], abs=0.002)


def test_the_shipped_model_is_what_the_recipe_of_lesson_06_trains_with_seed_0():
    card = load_checkpoint("shapes").card
    assert common.trained_at_home("learned", 0).card == card
    assert asdict(common.RECIPE).items() <= card.about["recipe"].items()
    assert card.about["test accuracy"] == load_results("ablations")["as it is"][0]


def test_however_few_the_scenes_56_000_are_shown():
    assert common.recipe_for(28_000) == common.RECIPE
    assert all(scenes * common.recipe_for(scenes).epochs == 56_000 for scenes in (100, 500, 2000, 8000))


def test_a_probe_is_fitted_to_convergence():
    """Where the gradient of a convex loss vanishes, no other weights are better."""
    probe, images = script("probe"), Shapes(25, 28, 10, MORE_OUTLINES)
    features = probe.features_of(images)
    head = probe.fit_head(features, images.labels)
    loss = cross_entropy(head(features), images.labels, reduction="sum") + head.weight.square().sum() / 2
    assert all(gradient.abs().max() < 1e-4 for gradient in torch.autograd.grad(loss, head.parameters()))


@pytest.mark.parametrize("variant", ["complete block", "no residual sums", "no norms", "post-norm"])
def test_the_first_steps_of_the_stored_blocks_come_out_again(variant):
    """Also that the first of many steps do not depend on how many follow. After twelve, the warm-up shows."""
    steps = 12 if variant == "complete block" else 2
    live, stored = try_stack(variant, steps=steps), load_block_runs()[variant]
    assert [values.shape for values in stored] == [(3, 13), (3, 13), (3, 150)]
    assert_close(live.lengths, stored.lengths[0], rtol=0.01, atol=0)
    assert_close(live.apart, stored.apart[0], rtol=0.01, atol=1e-4)
    assert_close(live.losses, stored.losses[0, :steps], rtol=0, atol=0.002)


def test_half_the_weights_and_other_standard_deviations_start_as_stored():
    runs = load_block_runs()
    for name, start in {"half the weights": {"start": 0.5}, "std 0.02": {"std": 0.02}}.items():
        live, stored = try_stack("no norms", steps=1, **start), runs[f"no norms, {name}"]
        # Without norms rounding grows from block to block: on the oldest torch one length is 1 % off.
        assert_close(live.lengths, stored.lengths[0], rtol=0.03, atol=0)
    with pytest.raises(ValueError, match="kind"):
        try_stack("no attention")


def test_a_quarter_is_where_the_object_lies():
    drawings = quarters(50)
    for mask, label in zip(drawings.masks, drawings.labels.tolist(), strict=True):
        rows, columns = mask.nonzero().float().mean(dim=0)
        lower, right = divmod(label, 2)
        assert (rows > 13.5, columns > 13.5) == (lower, right)


@quiet
def test_positions_from_turned_photos_are_those_of_photos_that_somebody_else_turned(small):
    mirror, stored = script("mirror", "__main__"), load_file(STORED / "mirror.safetensors")
    made = load_file(small.folder / "mirror.safetensors")
    assert made.keys() == {name for name in stored if name.endswith("seed 0")}
    flipped, straight, turned = (made[f"{way}, seed 0"] for way in ("half flipped", "as they are", "turned"))
    already = replace(small.photos, pixels=small.photos.pixels.transpose(2, 3))
    assert torch.equal(turned, mirror.learned_positions("as they are", 0, already))
    assert not torch.equal(turned, straight)
    assert not torch.equal(flipped, straight)


# ---- another size


def positions_of(model: VisionTransformer) -> torch.Tensor:
    return model.embeddings.position.table.detach()


@pytest.mark.parametrize("size", [44, 20])
def test_the_old_rows_in_their_old_order(size):
    old, new = positions_of(load_checkpoint("shapes")), positions_of(move("in old order", size, 0))
    assert len(new) == 1 + (size // 4) ** 2
    assert torch.equal(new[0], old[0]), "the class token's"
    assert all(torch.equal(row, old[1 + i % 49]) for i, row in enumerate(new[1:]))


def test_random_positions_are_as_large_as_the_learned_ones_and_nothing_else_changes():
    state = torch.get_rng_state()
    old, new = load_checkpoint("shapes"), move("at random", 44, 0)
    assert torch.equal(positions_of(new)[0], positions_of(old)[0])
    assert positions_of(new)[1:].std() == pytest.approx(positions_of(old)[1:].std().item(), rel=0.05)
    assert torch.equal(new.encoder[0].mlp.expand.weight, old.encoder[0].mlp.expand.weight)
    assert not torch.equal(positions_of(new), positions_of(move("at random", 44, 1))), "other seeds, other positions"
    assert torch.equal(torch.get_rng_state(), state)


def test_the_moved_model_gets_as_many_right_as_is_stored():
    wrong, scenes = load_size_runs()["20×20", "at random", "nothing"][0]
    right = common.right_answers(move("at random", 20, 0), Shapes(scenes, 20, seed=1)).sum().item()
    assert right == pytest.approx(scenes - wrong, abs=3)


def test_each_seed_tunes_on_scenes_of_its_own():
    """One batch holds all scenes, so the same scenes would give the same step, whatever their order."""
    first, again, other = (move("interpolated", 20, 0) for _ in range(3))
    for model, seed in ((first, 0), (again, 0), (other, 1)):
        tune(model, "head", seed, scenes=32)
    assert torch.equal(first.head.weight, again.head.weight)
    assert (first.head.weight - other.head.weight).abs().max() > 0.01


PARTS = {
    "head": ["head.weight", "head.bias"],
    "one vector": ["embeddings.patches.projection.bias"],
    "positions": ["embeddings.position.table"],
    "norms": [f"encoder.{i}.norm{k}.{p}" for i in range(4) for k in (1, 2) for p in ("weight", "bias")]
    + ["norm.weight", "norm.bias"],
}


@pytest.mark.parametrize("trained", PARTS)
def test_tuning_a_part_changes_this_part_alone_and_leaves_nothing_frozen(trained):
    model = move("zero", (20, 28), 0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tune(model, trained, 0, scenes=64)
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert sorted(changed) == sorted(PARTS[trained])
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_reader_who_stops_it_finds_nothing_frozen(monkeypatch):
    model = move("interpolated", 20, 0)

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sizes, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        tune(model, "head", 0, scenes=8)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_positions_are_trained_without_that_of_the_class_token():
    before, after = (move("zero", (20, 28), 0) for _ in range(2))
    assert not positions_of(before)[1:].any()
    script("sizes").tune_part(after, "positions", 0)
    assert positions_of(after)[1:].any(dim=1).all()
    assert torch.equal(positions_of(after)[0], positions_of(before)[0])
    tune(after, "everything", 0, scenes=64)
    assert not torch.equal(positions_of(after)[0], positions_of(before)[0]), "it moves with everything"


def test_a_token_that_counts_three_times_is_as_good_as_three_tokens():
    """Each key and value is repeated as often as it counts: the plain attention of lesson 03."""
    q, k, v = torch.randn(3, 1, 2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    times = torch.tensor([[1, 3, 2, 1]])
    repeated = (x.repeat_interleave(times[0], dim=2) for x in (k, v))
    assert_close(weighted_attention(q, k, v, times.double()), scaled_dot_product_attention(q, *repeated))


def test_the_readers_own_attention_takes_the_place_of_ours():
    scenes, model, asked = Shapes(3, 28, seed=1), load_checkpoint("shapes"), []

    def mine(q, k, v, times):
        asked.append(times.shape)
        return weighted_attention(q, k, v, times)

    assert torch.equal(answers(model, scenes.pixels, attend=mine), answers(model, scenes.pixels))
    assert asked == [(3, 50)] * model.config.depth


def test_the_stored_causes_come_out_again_on_their_first_scenes():
    causes, count, stored = script("causes"), 50, load_causes()
    causes.measure.__globals__["COUNT"] = count
    labels = Shapes(count, 28, seed=1).labels
    for what, where, said in causes.measure(seed=0):
        wrong, scenes = stored[what, where][0]
        assert (said != labels).sum().item() / count == pytest.approx(wrong / scenes, abs=0.1)


def test_a_short_run_learns_more_at_a_good_rate_and_leaves_the_readers_generator_alone():
    state = torch.get_rng_state()
    good, poor = short_run(0.008), short_run(0.0001)
    assert good > 0.5 > poor > 0.1  # a guess is right one time in eight
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ValueError, match=r"learning_rate must be above 0, got 0\.0"):
        short_run(0.0)


def test_the_stored_trials_come_out_again_on_their_first_scenes():
    trials, count, stored = script("trials"), 300, load_trials()
    trials.maps_on_trial.__globals__["COUNT"] = count
    model = load_checkpoint("shapes")
    for trial in (trials.maps_on_trial, trials.notes_on_trial):
        for what, cover, values in trial(model):
            points, half = stored[what, cover][0]
            assert values.shape == (count,)
            assert 100 * values.mean().item() == pytest.approx(points, abs=4 * half)  # of 2,000; here are 300
