"""The tables that the notebooks read, the scripts that make them, and models that are moved to another size."""

import csv
import runpy
from collections import defaultdict
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import common
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

import vit_tutorial
from vit_tutorial import ImageSet, Shapes, VisionTransformer, change_resolution, experiments, load_checkpoint, training
from vit_tutorial.experiments import blocks, tables
from vit_tutorial.model_card import ModelCard
from vit_tutorial.training import fit, print_progress

SCRIPTS = Path(__file__).resolve().parent.parent / "notebooks" / "tables"

STORED = tables.RESULTS
TABLES = sorted({path.stem for path in STORED.glob("*.csv")} - {"broken"})  # of models that a script trains
# The columns that say what a line is about; elsewhere there are two.
ABOUT = {"blocks": 3, "neighbours": 3, "quarters": 3, "scarce": 3, "shares": 5, "trials": 5}


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


class Notes(SimpleNamespace):
    """Stand in for what takes long, and note the pictures that are drawn, by their seed, and those trained on."""

    def shapes(self, count, image_size=32, seed=0, *rest, **more):
        images = Shapes(min(count, 8), image_size, seed, *rest, **more)
        self.drawn[seed] |= pictures(images)
        return images

    def fit(self, model, images, recipe, watch=()):
        self.trained |= pictures(images)
        model.card = ModelCard(images.classes, *images.mean_std())
        for epoch, look in product(range(1, 15), watch):
            look(SimpleNamespace(finished=True, epoch=epoch, epochs=14))


@pytest.fixture
def notes(monkeypatch, tmp_path):
    """Let scripts draw few scenes, look at them 14 times instead of training, and write into an empty folder."""
    found = Notes(drawn=defaultdict(set), trained=set())
    for original, stand_in in {Shapes: found.shapes, fit: found.fit, print_progress: print}.items():
        for module in (vit_tutorial, training, common, blocks, experiments.position_task, experiments.short_trainings):
            if vars(module).get(original.__name__) is original:
                monkeypatch.setattr(module, original.__name__, stand_in)
    monkeypatch.setattr(common, "SEEDS", (0,))
    monkeypatch.setattr(common, "CONFIG", replace(common.CONFIG, depth=1))
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    common.trained_at_home.cache_clear()
    yield found
    common.trained_at_home.cache_clear()


@pytest.mark.parametrize("name", TABLES)
def test_a_script_makes_the_lines_that_are_stored_and_keeps_training_and_test_scenes_apart(name, notes):
    script(name, "__main__")
    (header, made), (stored_header, stored) = (cases(folder / f"{name}.csv") for folder in (tables.RESULTS, STORED))
    assert header == stored_header
    assert list(stored) == ["0", "1", "2"]
    assert all([lines] == list(made.values()) for lines in stored.values())
    trained, drawn = notes.trained, notes.drawn
    assert not trained or drawn[1] or drawn[3]
    assert trained <= drawn[0] | drawn[10], "the scenes of lesson 06, or a seed's own"
    assert not trained & (drawn[1] | drawn[3]), "test scenes and validation scenes"
    assert not (name == "scarce" and drawn[1]), "what is chosen is chosen on validation scenes"


def test_the_first_line_of_broken_dinov2_comes_out_again():
    made = [line[-1] for _, line in zip(range(10), script("broken").lines(), strict=False)]  # of ten sets
    stored = experiments.load_results("broken", "mistake", "block")["γ of the attention forgotten", "0"]
    assert_close(made, stored, rtol=0, atol=0.021)


def test_the_shipped_model_is_what_the_recipe_of_lesson_06_trains_with_seed_0():
    card = load_checkpoint("shapes").card
    assert common.trained_at_home("learned", 0).card == card
    assert asdict(common.RECIPE).items() <= card.about["recipe"].items()
    assert card.about["test accuracy"] == experiments.load_results("ablations")["as it is"][0]


@pytest.mark.parametrize(
    ("stored", "options"),
    [
        (("complete block", 1.0), {"kind": "complete block", "steps": 6}),  # the warm-up shows
        (("post-norm", 1.0), {"kind": "post-norm", "steps": 2}),
        (("no norms", 0.5), {"kind": "no norms", "steps": 1, "start": 0.5}),
    ],
)
def test_the_first_steps_of_the_stored_blocks_come_out_again(stored, options):
    """Also that the first of many steps do not depend on how many follow."""
    losses = experiments.load_block_runs()[stored]
    assert losses.shape == (3, 150)
    assert_close(experiments.try_stack(**options), losses[0, : options["steps"]], rtol=0, atol=0.002)


def test_where_each_token_attends_to_itself_only_no_token_learns_of_another():
    z = torch.randn(1, 5, 64, requires_grad=True)
    for kind, others in (("no residual sums", 1), ("no sums, each token alone", 0)):
        (gradient,) = torch.autograd.grad(experiments.make_stack(kind).encoder(z)[0, 2].sum(), z)
        assert (gradient[0, [0, 1, 3, 4]] != 0).float().mean() == others
        assert (gradient[0, 2] != 0).all()


def test_a_table_of_positions_has_the_size_that_is_asked_and_only_a_learned_one_is_trained():
    found = []
    for kind in ("grid", "shuffled", "learned"):
        table = experiments.model_with_positions(kind, 0.3).embeddings.position.table
        assert (table[1:] - table[1:].mean(dim=0)).square().mean().sqrt().item() == pytest.approx(0.3)
        assert table.requires_grad == (kind == "learned")
        found.append(table[1:].view(7, 7, 64))
    grid, shuffled, _ = found
    assert_close(grid[2, 3, :32], grid[2, 5, :32])  # of one row
    assert (grid != shuffled).any(dim=2).sum() > 40
    assert_close(*(table.flatten(0, 1).sort(dim=0).values for table in (grid, shuffled)))


@pytest.mark.parametrize(("side", "shift"), [(4, 0), (2, 0), (2, -1)])
def test_paint_of_the_objects_colour_fills_the_middle_of_the_patches_farthest_from_it(side, shift):
    images, which = Shapes(4, 28, seed=9), [0, 2]
    painted, first = experiments.with_dabs(images, which, 3, side, shift), (4 - side) // 2 + shift
    middle = slice(first, first + side)
    changed = (painted != images.pixels[which]).any(dim=1)  # (2, 28, 28)
    masks = images.masks[which]
    assert not (changed & masks).any()
    for scene, picture, mask, where in zip(images.pixels[which], painted, masks, changed, strict=True):
        patches = {(row // 4, column // 4) for row, column in where.nonzero().tolist()}
        assert len(patches) == 3
        assert where.sum() == 3 * side**2
        right = scene[:, mask].float().median(dim=1).values
        for row, column in patches:
            patch = picture[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            assert_close(patch[:, middle, middle].float(), right[:, None, None].expand(3, side, side))
        centre = mask.nonzero().float().mean(dim=0)
        distance = (torch.cartesian_prod(torch.arange(7.0), torch.arange(7.0)) * 4 + 1.5 - centre).norm(dim=1)
        far = {divmod(n, 7) for n in distance.topk(3).indices.tolist()}
        assert patches == far


def test_in_the_first_step_only_the_head_moves_because_it_is_zero():
    moved, clipped = experiments.first_steps(seed=0, count=3)
    assert 5 * moved[0] < moved[1] > moved[2]
    assert moved[0] == pytest.approx((8 * 64 + 8) ** 0.5, rel=0.02), "each of its weights by the rate"
    assert clipped == 3


def test_a_quarter_is_where_the_object_lies():
    drawings = experiments.quarters(50)
    for mask, label in zip(drawings.masks, drawings.labels.tolist(), strict=True):
        rows, columns = mask.nonzero().float().mean(dim=0)
        lower, right = divmod(label, 2)
        assert (rows > 13.5, columns > 13.5) == (lower, right)


def at_20_pixels() -> VisionTransformer:
    return change_resolution(load_checkpoint("shapes"), 20)


@pytest.mark.parametrize(("trained", "count"), [("head", 2), ("norm", 18)])
def test_tuning_a_part_changes_this_part_alone_and_leaves_nothing_frozen(trained, count):
    model = at_20_pixels()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    experiments.tune(model, trained, 0, scenes=64)
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    assert len(changed) == count
    assert all(trained in name for name in changed)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_each_seed_is_tuned_on_scenes_of_its_own(monkeypatch):
    seen = []
    monkeypatch.setattr(experiments.short_trainings, "fit", lambda model, images, recipe: seen.append(images.pixels))
    for seed in (0, 1):
        experiments.tune(at_20_pixels(), "head", seed, scenes=8)
    assert (seen[0] != seen[1]).any()


def test_a_reader_who_stops_it_finds_nothing_frozen(monkeypatch):
    model = at_20_pixels()

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments.short_trainings, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        experiments.tune(model, "head", 0, scenes=8)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_table_that_is_not_there_shows_those_that_are():
    with pytest.raises(ValueError, match=r"unknown table 'nope': there are 'ablations', 'blocks', "):
        experiments.load_results("nope")


def test_a_token_that_counts_three_times_is_as_good_as_three_tokens():
    """Each key and value is repeated as often as it counts: the plain attention of lesson 03."""
    q, k, v = torch.randn(3, 1, 2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    times = torch.tensor([[1, 3, 2, 1]])
    repeated = (x.repeat_interleave(times[0], dim=2) for x in (k, v))
    assert_close(experiments.weighted_attention(q, k, v, times.double()), scaled_dot_product_attention(q, *repeated))


def test_the_readers_own_attention_takes_the_place_of_ours():
    scenes, model, asked = Shapes(3, 28, seed=1), load_checkpoint("shapes"), []

    def mine(q, k, v, times):
        asked.append(times.shape)
        return experiments.weighted_attention(q, k, v, times)

    ours = experiments.answers(model, scenes.pixels)
    assert torch.equal(experiments.answers(model, scenes.pixels, attend=mine), ours)
    assert asked == [(3, 50)] * model.config.depth


def test_the_stored_shares_come_out_again_on_their_first_scenes():
    shares, scenes = script("shares"), Shapes(200, 44, seed=1)
    moved = change_resolution(load_checkpoint("shapes"), 44)
    stored = experiments.load_results("shares", "size", "positions", "patches", "share")
    for share, right in shares.right_by_share(moved, scenes, experiments.kinds_of_patches(scenes) == 1):
        assert right == pytest.approx(stored["44×44", "interpolated", "outline", str(share)][0], abs=0.1)


def test_a_short_run_learns_and_leaves_the_readers_generator_alone(monkeypatch):
    monkeypatch.setattr(experiments.short_trainings, "STEPS", 125)
    state = torch.get_rng_state()
    assert experiments.short_run(0.0081) > 0.35  # a guess is right one time in eight
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ValueError, match=r"learning_rate must be above 0, got 0\.0"):
        experiments.short_run(0.0)
