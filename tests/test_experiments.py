"""Tables over several seeds: what a row changes, and a table that goes on where it was interrupted."""

from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from vit_tutorial import ImageSet, Shapes, VisionTransformer, load_checkpoint
from vit_tutorial.analysis import opposite_edges, record_attention
from vit_tutorial.analysis.heads import right_answers
from vit_tutorial.experiments import (
    EXPERIMENTS,
    SEEDS,
    Row,
    blocks,
    load_block_runs,
    load_courses,
    load_mirror_runs,
    load_results,
    load_size_runs,
    load_suspects,
    plant,
    rows,
    run,
    scarce,
    sizes,
    suspects,
    tables,
)
from vit_tutorial.experiments import __main__ as command
from vit_tutorial.experiments.__main__ import main
from vit_tutorial.experiments.mirror import train_positions
from vit_tutorial.experiments.probe import fit_head
from vit_tutorial.hybrid import conv_stem, small_cnn
from vit_tutorial.saving import write
from vit_tutorial.training import Recipe, Score

SHAPES = EXPERIMENTS["ablations"]["as it is"]
quiet = pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")


def brief(row: Row, scenes: int = 32) -> Row:
    """The same row on so little that it takes a moment."""
    recipe = row.recipe and replace(row.recipe, epochs=64 // scenes, warmup_epochs=0.0)
    return replace(row, recipe=recipe, scenes=scenes, test_scenes=40)


def test_every_row_is_shown_as_many_images_as_the_others_of_its_table():
    for name in ("ablations", "images", "rates", "stem"):
        assert {row.scenes * row.recipe.epochs for row in EXPERIMENTS[name].values()} == {56_000}
    for name, row in EXPERIMENTS["examples"].items():
        count = 56_000 if name.startswith("from scratch") else 6400
        assert count - row.scenes < row.scenes * row.recipe.epochs <= count, f"{name}: whole epochs"
    recipes = [row.recipe for table in EXPERIMENTS.values() for row in table.values() if row.recipe]
    warmups = {recipe.warmup_epochs / recipe.epochs for recipe in recipes}
    assert max(warmups) == pytest.approx(0.05)
    assert sorted(warmups)[0] == 0, "one row of the ablations has none"


RUNS = {
    "ViT": SHAPES,
    "CNN": EXPERIMENTS["images"]["CNN, 100 images"],
    "linear probe": EXPERIMENTS["probe"]["25 examples"],
    "full fine-tune": EXPERIMENTS["examples"]["full fine-tune, 25 examples"],
    "from scratch": EXPERIMENTS["examples"]["from scratch, 25 examples"],
}


@quiet
@pytest.mark.parametrize("name", RUNS)
def test_a_run_depends_on_its_seed_and_on_nothing_else(name):
    state = torch.get_rng_state()
    first, again, other = (run(brief(RUNS[name]), seed) for seed in (0, 0, 1))
    assert first.confusion.sum() == 40
    assert first.loss == again.loss != other.loss
    assert torch.equal(torch.get_rng_state(), state)


@quiet
@pytest.mark.parametrize("name", ["ViT", "linear probe", "full fine-tune"])
def test_what_a_run_trains_and_which_scenes_it_sees(name, monkeypatch):
    """A probe trains the head alone. No test scene was seen; rows that adapt have other scenes with another seed."""
    models, pixels = [], {"fit": [], "fit_head": [], "evaluate": []}

    def noted(function):
        def note(model, images, *rest, **more):
            models.append(model)
            pixels[function.__name__].append({image.numpy().tobytes() for image in images.pixels})
            return function(model, images, *rest, **more)

        return note

    for function in (rows.fit, rows.fit_head, rows.evaluate):
        monkeypatch.setattr(rows, function.__name__, noted(function))
    for seed in (0, 1):
        run(brief(RUNS[name]), seed)
    seen, asked = pixels["fit_head" if name == "linear probe" else "fit"], pixels["evaluate"]
    assert (len(seen[0]), len(asked[0])) == (32, 40)
    assert asked[0] == asked[1]
    assert not (seen[0] | seen[1]) & asked[0]
    assert (seen[0] == seen[1]) == (name == "ViT")
    weight, shipped = (model.encoder[0].mlp.expand.weight for model in (models[-1], load_checkpoint("shapes")))
    assert torch.equal(weight, shipped) == (name == "linear probe")
    assert models[-1].head.weight.any()


def test_a_probe_is_fitted_to_convergence_on_the_examples_of_the_fine_tune():
    row, tuned = (
        EXPERIMENTS[name][f"{way}25 examples"] for name, way in (("probe", ""), ("examples", "full fine-tune, "))
    )
    assert replace(row, recipe=tuned.recipe) == tuned
    model, shipped = rows.train_model(row, 0), load_checkpoint("shapes")
    assert torch.equal(model.encoder[0].mlp.expand.weight, shipped.encoder[0].mlp.expand.weight)
    images = Shapes(25, 28, rows.OWN_SCENES, row.outlines)
    features = model.features(model.card.normalise(images.pixels)).detach()
    assert_close(model.head.weight.norm(), fitted(features, images.labels).norm(), rtol=1e-3, atol=0)
    nn.init.normal_(model.head.weight)
    start = model.head.weight.detach().clone()
    assert 10 < fit_head(model, images) < 3000, "steps: it stops by itself"
    assert_close(model.head.weight, fitted(features, images.labels), atol=2e-3, rtol=0)  # wherever it starts
    assert not torch.allclose(model.head.weight, start, atol=0.1)


def fitted(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Logistic regression by Newton's method."""
    x = torch.cat([features, torch.ones(len(features), 1)], dim=1).double()
    penalty = torch.ones_like(x[0]).index_fill(0, torch.tensor([x.shape[1] - 1]), 0)  # not of the bias

    def loss(w):
        return F.cross_entropy(x @ w.view(6, -1).T, labels, reduction="sum") + (penalty * w.view(6, -1) ** 2).sum() / 2

    w = torch.zeros(6 * x.shape[1], dtype=torch.float64)
    for _ in range(30):
        gradient, hessian = torch.func.grad(loss)(w), torch.func.hessian(loss)(w)
        w = w - torch.linalg.lstsq(hessian, gradient[:, None], driver="gelsd").solution[:, 0]
    return w.view(6, -1)[:, :-1].float()


def test_from_scratch_keeps_nothing_of_the_trained_model():
    tuned, scratch = (RUNS[name].make(RUNS[name].config) for name in ("full fine-tune", "from scratch"))
    assert scratch.config == tuned.config
    assert not (scratch.encoder[0].mlp.expand.weight == tuned.encoder[0].mlp.expand.weight).any()


def test_the_cnn_is_as_large_as_the_vit_it_is_compared_with():
    vit, cnn = (sum(p.numel() for p in row.make(row.config).parameters()) for row in (RUNS["ViT"], RUNS["CNN"]))
    assert 0.8 < cnn / vit < 1.25
    assert small_cnn(5).eval()(torch.zeros(2, 3, 28, 40)).shape == (2, 5), "of any size"


def flops(row: Row) -> int:
    model = row.make(row.config).eval()
    with record_attention(model), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, 3, row.config.image_size, row.config.image_size))
    return counter.get_total_flops()


def test_the_stem_costs_as_much_as_the_block_that_is_missing():
    stem, without_stem = EXPERIMENTS["stem"].values()
    assert flops(stem) / flops(SHAPES) == pytest.approx(1, abs=0.01)
    assert flops(without_stem) < 0.8 * flops(SHAPES)
    assert conv_stem(5).eval()(torch.zeros(2, 3, 28, 44)).shape == (2, 10, 7, 11), "patches of four pixels"


# ---- tables


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_the_stored_table_has_every_row_with_every_seed(name):
    found = load_results(name)
    assert list(found) == list(EXPERIMENTS[name])
    assert {len(accuracies) for accuracies in found.values()} == {len(SEEDS)}
    assert all(0.1 < accuracy <= 1 for accuracies in found.values() for accuracy in accuracies)


TABLES = {
    "another experiment's": b"row,seed,accuracy\n0.005,0,0.5\nfar away,0,0.5\n",
    "other columns": b"a,b\n1,2\n",
    "a cut line": b"row,seed,accuracy\n0.005,0,0.",
    "a cut row": b"row,seed,accuracy\n0.005,\n",
    "empty": b"",
}


@pytest.mark.parametrize("content", TABLES.values(), ids=TABLES)
def test_a_file_that_is_no_table_of_this_experiment_is_left_alone(content, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "run", lambda *_: pytest.fail("a run began"))
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    for out, told in ((path, f"error: {path} is no"), (tmp_path, str(tmp_path))):
        with pytest.raises(SystemExit) as ended:
            main(["rates", "--out", str(out)])
        assert ended.value.code == 2
        assert told in capsys.readouterr().err
    assert path.read_bytes() == content


# Of one table of rows, and of each that has a measurement of its own: the function that measures, what it shall find,
# and a value that is read from the table then.
TWO = torch.tensor([1.0, 0.5])
SUSPECTS = {("28×28", 1.0, "nothing"): 1200, ("44×44", 1.0, "ground"): 800}
MEASURED = {
    "ablations": (
        "run",
        lambda row, seed, watch: Score(torch.tensor([[seed, 3 - seed], [0, 1]]), 0.0),
        lambda path: [
            accuracy for row, _, accuracy in tables.read_lines(path, tables.RUN_COLUMNS) if row == "no warm-up"
        ],
        [0.25, 0.5, 0.75],
    ),
    "blocks": (
        "measure_block",
        lambda variant, seed: blocks.BlockRun(TWO, TWO, TWO * seed, TWO),
        lambda path: load_block_runs(path)["post-norm"].gradients,
        [[0, 0], [1, 0.5], [2, 1]],
    ),
    "scarce": (
        "measure_course",
        lambda scenes, way, seed: scarce.Course(TWO, TWO, TWO * seed, TWO),
        lambda path: load_courses(path)[500, "mixup"].validation_loss,
        [[0, 0], [1, 0.5], [2, 1]],
    ),
    "sizes": (
        "measure_size",
        lambda size, seed: {("zero", "nothing"): sizes.SizeRun(100, 60, 10, 20 + seed)},
        lambda path: load_size_runs(path)["44×44", "zero", "nothing"],
        [[100, 60, 10, 20 + seed] for seed in SEEDS],
    ),
    "suspects": (
        "measure_suspects",
        lambda positions, seed, scenes: SUSPECTS,
        lambda path: load_suspects(path)["none", "28×28", 1.0, "nothing"],
        [0.75] * 3,
    ),
}


@pytest.mark.parametrize("name", MEASURED)
def test_a_table_that_stopped_half_way_goes_on_from_there(name, tmp_path, monkeypatch, capsys):
    function, find, load, expected = MEASURED[name]
    path, asked = tmp_path / "results" / "table.csv", []
    monkeypatch.setattr(command, function, lambda *what, **options: asked.append(what) or find(*what, **options))
    main([name, "--out", str(path)])
    whole, all_runs, half = path.read_text(encoding="utf-8"), list(asked), len(asked) // 2
    header, *lines = whole.splitlines(keepends=True)
    path.write_text("".join([header, *lines[: len(lines) * half // len(all_runs)]]), encoding="utf-8")
    main([name, "--out", str(path)])
    assert path.read_text(encoding="utf-8") == whole
    assert asked == all_runs + all_runs[half:], "what was there is not measured again"
    assert_close(torch.as_tensor(load(path)), torch.tensor(expected), check_dtype=False)
    capsys.readouterr()
    main([name, "--out", str(path)])
    assert capsys.readouterr().out == f"{len(all_runs)} of {len(all_runs)} runs are in {path}\n"


UNKNOWN = {
    "ablations": lambda: load_results("ablation"),
    "interpolated": lambda: sizes.move("interpolate", 44, 0),
    "norms": lambda: sizes.tune(load_checkpoint("shapes"), "norm", 0),
    "post-norm": lambda: blocks.measure_block("postnorm", seed=0),
    "no final norm": lambda: plant("no final nrom", VisionTransformer(rows.CONFIG), torch.zeros(1).long()),
}


@pytest.mark.parametrize("meant", UNKNOWN)
def test_an_unknown_name_is_told_which_is_near(meant):
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        UNKNOWN[meant]()


# ---- another size


@pytest.fixture
def shipped_for_all(monkeypatch):
    """No training on 28×28: 67 seconds each."""
    bare = VisionTransformer(replace(rows.CONFIG, position="none"))
    bare.card = load_checkpoint("shapes").card
    monkeypatch.setattr(
        sizes, "model_at_28", lambda position, seed: bare if position == "none" else load_checkpoint("shapes")
    )


def test_the_lead_of_a_size_and_its_spread_by_hand():
    """Of 100 scenes 10 won and 20 lost: the differences are 1, -1 or 0, with variance 30/100 - 0.1²."""
    run = sizes.SizeRun(100, 60, 10, 20)
    assert (run.accuracy, run.lead) == (0.6, -0.1)
    assert run.spread == pytest.approx(1.96 * (0.3 - 0.01) ** 0.5 / 10)


def test_the_shipped_model_is_what_the_recipe_of_lesson_06_trains_with_seed_0():
    card, row = load_checkpoint("shapes").card, rows.train_with()
    assert sizes.model_at_28("learned", 0).card == card
    assert replace(row.recipe, seed=0) == Recipe(**card.about["recipe"])
    assert card.about["test accuracy"] == load_results("ablations")["as it is"][0]


def table(model: VisionTransformer) -> torch.Tensor:
    return model.embeddings.position.table.detach()


@pytest.mark.parametrize("size", [(44, 44), (20, 20)])
def test_the_old_rows_in_their_old_order(size):
    old, new = table(load_checkpoint("shapes")), table(sizes.move("in old order", size, 0))
    assert len(new) == 1 + (size[0] // 4) ** 2
    assert torch.equal(new[0], old[0]), "the class token's"
    assert all(torch.equal(row, old[1 + i % 49]) for i, row in enumerate(new[1:]))


@pytest.mark.usefixtures("shipped_for_all")
def test_random_positions_are_as_large_as_the_learned_ones_and_nothing_else_changes():
    old, new = load_checkpoint("shapes"), sizes.move("at random", 44, 0)
    assert torch.equal(table(new)[0], table(old)[0])
    assert table(new)[1:].std() == pytest.approx(table(old)[1:].std().item(), rel=0.05)
    assert torch.equal(new.encoder[0].mlp.expand.weight, old.encoder[0].mlp.expand.weight)
    assert not torch.equal(table(new), table(sizes.move("at random", 44, 1))), "other seeds, other positions"


def test_tuning_is_quiet_about_a_head_that_was_trained_before(recwarn):
    sizes.tune(sizes.move("interpolated", 20, 0), "everything", 0, scenes=32)
    assert not recwarn.list


def test_an_interrupted_tuning_leaves_nothing_frozen(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sizes, "fit", interrupt)
    model = sizes.move("interpolated", 20, 0)
    with pytest.raises(KeyboardInterrupt):
        sizes.tune(model, "positions", 0, scenes=8)
    assert all(parameter.requires_grad for parameter in model.parameters())
    model(torch.rand(2, 3, 20, 20)).square().sum().backward()
    assert model.embeddings.position.table.grad[0].any(), "the class token's"


PARTS = {
    "nothing": [],
    "head": ["head.weight", "head.bias"],
    "one vector": ["embeddings.patches.projection.bias"],
    "positions": ["embeddings.position.table"],
    "norms": [f"encoder.{i}.norm{k}.{p}" for i in range(4) for k in (1, 2) for p in ("weight", "bias")]
    + ["norm.weight", "norm.bias"],
}


@pytest.mark.parametrize("trained", PARTS)
def test_tuning_a_part_changes_this_part_alone_and_leaves_nothing_frozen(trained):
    model = sizes.move("zero", (20, 28), 0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    sizes.tune(model, trained, 0, scenes=64)
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert sorted(changed) == sorted(PARTS[trained])
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_positions_are_trained_without_that_of_the_class_token():
    before, after = (sizes.move("zero", (20, 28), 0) for _ in range(2))
    assert not table(before)[1:].any()
    sizes.tune(after, "positions", 0, scenes=64)
    assert table(after)[1:].any(dim=1).all()
    assert torch.equal(table(after)[0], table(before)[0])
    sizes.tune(after, "everything", 0, scenes=64)
    assert not torch.equal(table(after)[0], table(before)[0]), "it moves with everything"


@pytest.mark.usefixtures("shipped_for_all")
def test_a_size_is_measured_on_the_same_scenes_for_all_ways():
    state = torch.get_rng_state()
    runs = sizes.measure_size("20×20", 0, scenes=32, test_scenes=60)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(runs) == 3 * 5 - 1 + 4 + 2
    for (way, trained), found in runs.items():
        base = runs["interpolated", trained]
        assert found.scenes == 60
        assert found.gained - found.lost == found.right - base.right
        assert way != "interpolated" or found.gained == found.lost == 0
    test = Shapes(60, 20, seed=1)
    right = {way: right_answers(sizes.move(way, 20, 0), test) for way in ("interpolated", "zero")}
    assert runs["zero", "nothing"].gained == (right["zero"] & ~right["interpolated"]).sum()


def test_the_stored_sizes_are_whole():
    stored = load_size_runs()
    assert len(stored) == 2 * (16 + 4) + 7 + 4
    assert {len(runs) for runs in stored.values()} == {len(SEEDS)}
    for (size, _, trained), runs in stored.items():
        for found, base in zip(runs, stored[size, "interpolated", trained], strict=True):
            assert found.gained - found.lost == found.right - base.right
            assert found.scenes == 3200
    at_28 = stored["28×28", "interpolated", "nothing"][0]
    right = right_answers(load_checkpoint("shapes"), Shapes(at_28.scenes, 28, seed=1)).sum().item()
    assert right == pytest.approx(at_28.right, abs=2), "the shipped model, on the same test scenes"


@pytest.mark.parametrize("groups", suspects.GROUPS)
def test_each_group_of_patches_counts_as_in_the_other_scenes(groups):
    home, large = suspects.draw_scenes(20, "28×28"), suspects.draw_scenes(20, "44×44", 44 / 28)
    here, there = suspects.kinds_of_patches(large), suspects.kinds_of_patches(home)
    times = suspects.times_as_in(large, home, groups)
    for group in suspects.GROUPS[groups]:
        mine = torch.isin(here, torch.tensor(group))
        count = torch.isin(there, torch.tensor(group)).sum(dim=1).float()
        assert_close((times * mine).sum(dim=1), count, rtol=1e-4, atol=0.11)  # 0.1 where the other scene has none
        assert all(len(times[i][mine[i]].unique()) == 1 for i in range(20)), "one number for all patches of a group"


def test_lesson_08s_star_is_a_star_again_if_the_inside_of_it_counts_half():
    star = Shapes(16, 44, seed=7).subset(range(15, 16))
    moved = sizes.move("interpolated", 44, seed=0)
    for inside, right in ((1.0, False), (0.5, True)):
        times = torch.tensor([1.0, 1.0, inside])[suspects.kinds_of_patches(star)]
        assert suspects.right_if(moved, star, times).item() == right


def test_the_stored_suspects_are_whole_and_come_out_again_on_their_first_scenes():
    stored, live = load_suspects(), suspects.measure_suspects("learned", seed=0, scenes=50)
    assert {len(runs) for runs in stored.values()} == {len(SEEDS)}
    assert set(stored) == {(position, *key) for position in ("learned", "none") for key in live}
    for key, right in live.items():
        assert right / 50 == pytest.approx(stored[("learned", *key)][0], abs=0.1)
    assert live["44×44", 1.0, "nothing"] < live["44×44", 1.0, "ground"]
    assert live["28×28", 1.0, "as in 44×44"] < live["28×28", 1.0, "nothing"]


# ---- blocks that lack one thing


@pytest.mark.parametrize("variant", blocks.VARIANTS)
def test_the_first_steps_of_the_stored_runs_come_out_again(variant):
    """Also that the first of many steps do not depend on how many follow, and that no other random number moves.

    All variants learn at the rate of the first one, or at a share of it: what it does shows after eight steps.
    """
    state, steps = torch.get_rng_state(), 8 if variant in ("complete block", "post-norm") else 2
    live, stored = blocks.measure_block(variant, seed=0, steps=steps), load_block_runs()[variant]
    assert torch.equal(torch.get_rng_state(), state)
    assert_close(live.lengths, stored.lengths[0], rtol=0.01, atol=0)
    assert_close(live.apart, stored.apart[0], rtol=0.01, atol=1e-4)
    if variant.startswith("no norms"):  # one part in a million of the weights changes these several times over
        assert min(run[0] / run[-1] for run in (live.gradients, *stored.gradients)) > 100
    else:
        assert_close(live.gradients, stored.gradients[0], rtol=0.02, atol=0)
    assert_close(live.losses, stored.losses[0, :steps], rtol=0, atol=0.002)


def test_the_stored_runs_are_whole_and_differ_in_nothing_but_the_blocks():
    stored = load_block_runs()
    assert list(stored) == list(blocks.VARIANTS)
    L, S = blocks.CONFIG.depth, len(SEEDS)
    for found in stored.values():
        assert [values.shape for values in found] == [(S, L + 1), (S, L + 1), (S, L), (S, blocks.STEPS)]
        assert all(values.isfinite().all() for values in found)
        assert_close(found.lengths[:, 0], stored["complete block"].lengths[:, 0])  # same embeddings, same images
        assert_close(found.losses[:, 0], torch.full((S,), 8.0).log(), atol=1e-3, rtol=0)  # the head starts at zero


# ---- few scenes


@quiet
def test_a_course_looks_at_its_own_scenes_and_at_new_ones(monkeypatch):
    """Memorising: the loss on the 16 scenes falls far below the loss on new ones."""
    monkeypatch.setattr(scarce, "SHOWN", 16 * 32)
    monkeypatch.setattr(scarce, "NEW", 100)
    seeds = []
    monkeypatch.setattr(scarce, "Shapes", lambda *asked: seeds.append(asked[2]) or Shapes(*asked))
    state = torch.get_rng_state()
    course, again, other = (scarce.measure_course(16, way, 0, points=4) for way in ("none", "none", "CutMix"))
    assert torch.equal(torch.get_rng_state(), state)
    assert set(seeds) == {0, 3}, "those of lesson 06 to train on, and its validation scenes; 1 is for testing"
    assert course.epochs.tolist() == [8, 16, 24, 32]
    assert_close(course, again, rtol=0, atol=0)
    assert course.training_loss[-1] < 0.5 * course.training_loss[0]
    assert course.validation_loss[-1] > 2 * course.training_loss[-1]
    assert ((course.validation_accuracy > 0) & (course.validation_accuracy < 0.6)).all()
    assert not torch.equal(course.training_loss, other.training_loss)


def test_the_stored_courses_are_whole():
    found = load_courses()
    assert list(found) == list(product(scarce.SCENES, scarce.AUGMENTATIONS))
    for (scenes, _), course in found.items():
        assert {values.shape for values in course} == {(len(SEEDS), scarce.POINTS)}
        assert course.epochs[:, -1].tolist() == [scarce.SHOWN // scenes] * len(SEEDS)


PHOTOS = ImageSet(torch.randint(256, (66, 3, 32, 32), dtype=torch.uint8), torch.arange(66) % 4, tuple("abcd"))


@quiet
def test_positions_from_turned_photos_are_those_of_photos_that_somebody_else_turned():
    turned = replace(PHOTOS, pixels=PHOTOS.pixels.transpose(2, 3))
    trained = {way: train_positions(way, 0, PHOTOS) for way in ("turned", "as they are", "half flipped")}
    assert torch.equal(trained["turned"], train_positions("as they are", 0, turned))
    assert not torch.equal(trained["turned"], trained["as they are"])
    assert not torch.equal(trained["half flipped"], trained["as they are"])


def test_the_stored_positions_are_whole_and_the_mirror_turns_with_the_photos():
    runs = load_mirror_runs()
    assert {positions.shape for positions in runs.values()} == {(len(SEEDS), 65, 128)}
    for seed in SEEDS:
        unit = {way: F.normalize(positions[seed, 1:], dim=1) for way, positions in runs.items()}
        edges = {way: opposite_edges((u @ u.T).reshape(8, 8, 8, 8)) for way, u in unit.items()}
        for way in ("half flipped", "as they are"):
            assert edges[way].left_right > edges[way].top_bottom + 0.08
        assert edges["turned"].top_bottom > edges["turned"].left_right + 0.08


def test_an_interrupted_file_of_positions_goes_on_with_the_next_run(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(command, "train_positions", lambda way, seed, photos: asked.append(way) or torch.rand(65, 128))
    monkeypatch.setattr(command, "image_folder", lambda *_: PHOTOS)
    path = tmp_path / "mirror.safetensors"
    write(path, {"half flipped, seed 0": torch.zeros(65, 128)}, {})
    assert main(["mirror", "--data", "photos", "--out", str(path)]) == 0
    assert len(asked) == 8
    runs = load_mirror_runs(path)
    assert {way: len(tables) for way, tables in runs.items()} == {"half flipped": 3, "as they are": 3, "turned": 3}
    assert not runs["half flipped"][0].any()
