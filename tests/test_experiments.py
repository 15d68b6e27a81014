"""Tables over several seeds: what a row changes, and a table that goes on where it was interrupted."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vit_tutorial import VisionTransformer, load_checkpoint
from vit_tutorial.analysis import record_attention
from vit_tutorial.experiments import (
    EXPERIMENTS,
    SEEDS,
    NewSize,
    NewTask,
    Setting,
    adapted,
    load_results,
    main,
    run,
    tables,
)
from vit_tutorial.experiments import from_scratch as scratch
from vit_tutorial.hybrid import conv_stem, small_cnn
from vit_tutorial.training import PRESETS

SMALL = {"image_size": 16, "patch_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 2, "mlp_dim": 16}


@pytest.fixture
def quick(monkeypatch):
    """The same code on so little that it takes a moment."""
    monkeypatch.setattr(scratch, "IMAGES_SHOWN", 64)
    monkeypatch.setattr(adapted, "IMAGES_SHOWN", 64)
    monkeypatch.setattr(scratch, "TEST_SCENES", 40)
    monkeypatch.setattr(adapted, "TEST_SCENES", 40)
    table = {"ViT": Setting(32, config=SMALL), "CNN": Setting(64, "CNN", config=SMALL)}
    monkeypatch.setitem(EXPERIMENTS, "quick", table)
    return table


@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")
def test_a_run_depends_on_its_seed_and_on_nothing_else(quick):
    first, again, other = (run(quick["ViT"], seed) for seed in (0, 0, 1))
    assert first.confusion.sum() == 40
    assert first.loss == again.loss != other.loss


@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")
def test_every_row_is_shown_as_many_images(quick):
    shown = {}
    for name, setting in quick.items():
        told = []
        run(setting, 0, watch=[told.append])
        shown[name] = sum(setting.scenes for progress in told if progress.finished)
    assert shown == {"ViT": 64, "CNN": 64}


@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")
def test_an_interrupted_table_goes_on_with_the_next_run(quick, tmp_path, monkeypatch, capsys):
    path = tmp_path / "results" / "quick.csv"
    main(["quick", "--out", str(path)])
    whole = path.read_text(encoding="utf-8")
    assert len(whole.splitlines()) == 1 + len(quick) * len(SEEDS)
    path.write_text("".join(whole.splitlines(keepends=True)[:3]), encoding="utf-8")
    capsys.readouterr()
    main(["quick", "--out", str(path)])
    assert path.read_text(encoding="utf-8") == whole
    assert "seed 0" not in capsys.readouterr().out
    monkeypatch.setattr(tables, "RESULTS", path.parent)
    found = load_results("quick")
    assert list(found) == ["ViT", "CNN"]
    assert [len(accuracies) for accuracies in found.values()] == [3, 3]


@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")
def test_a_row_is_tested_on_scenes_that_it_has_not_seen(quick, monkeypatch):
    drawn = {}

    def noting(name):
        function = getattr(scratch, name)

        def noted(model, images, *rest, **more):
            drawn[name] = {pixels.numpy().tobytes() for pixels in images.pixels}
            return function(model, images, *rest, **more)

        return noted

    for name in ("fit", "evaluate"):
        monkeypatch.setattr(scratch, name, noting(name))
    run(quick["ViT"], 0)
    seen, asked = drawn["fit"], drawn["evaluate"]
    assert len(seen) == 32
    assert len(asked) == 40
    assert not seen & asked


def test_a_table_that_is_whole_says_so(capsys, monkeypatch):
    monkeypatch.setattr(tables, "run", None)  # nothing is left to run
    main(["ablations"])
    told = capsys.readouterr().out
    assert told.startswith("27 of 27 runs are in ")
    assert "ablations.csv" in told


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_the_stored_table_has_every_row_with_every_seed(name):
    found = load_results(name)
    assert list(found) == list(EXPERIMENTS[name])
    for accuracies in found.values():
        assert len(accuracies) == len(SEEDS)
        assert all(0.1 < accuracy <= 1 for accuracy in accuracies)


def test_an_unknown_table_names_those_there_are():
    with pytest.raises(ValueError, match="did you mean 'ablations'"):
        load_results("ablation")


def test_the_cnn_is_as_large_as_the_vit_it_is_compared_with():
    def count(model):
        return sum(parameter.numel() for parameter in model.parameters())

    ratio = count(small_cnn(8)) / count(VisionTransformer(PRESETS["shapes"].config))
    assert 0.8 < ratio < 1.25


def test_the_cnn_takes_any_size():
    cnn = small_cnn(5).eval()
    assert cnn(torch.zeros(2, 3, 28, 40)).shape == (2, 5)


def flops(setting: Setting) -> int:
    model, config = setting.build()
    with record_attention(model.eval()), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, 3, config.image_size, config.image_size))
    return counter.get_total_flops()


def test_the_stem_costs_as_much_as_the_block_that_is_missing():
    stem, without_stem = EXPERIMENTS["stem"].values()
    as_it_is = EXPERIMENTS["ablations"]["as it is"]
    assert flops(stem) / flops(as_it_is) == pytest.approx(1, abs=0.01)
    assert flops(without_stem) < 0.8 * flops(as_it_is)


def test_the_stem_takes_patches_of_four_pixels():
    assert conv_stem(5).eval()(torch.zeros(2, 3, 28, 44)).shape == (2, 10, 7, 11)


# ---- moved models


def table(model: VisionTransformer) -> torch.Tensor:
    return model.embeddings.position.table.detach()


@pytest.mark.parametrize("size", [(44, 44), (20, 20)])
def test_the_old_rows_in_their_old_order(size):
    old, new = table(model := load_checkpoint("shapes")), table(adapted.in_old_order(model, size))
    assert torch.equal(new[:26], old[:26]), "the class token's and the first 25"
    assert all(torch.equal(row, old[1 + i % 49]) for i, row in enumerate(new[1:]))


def test_random_positions_are_as_large_as_the_learned_ones():
    old, new = table(model := load_checkpoint("shapes")), table(adapted.at_random(model, (44, 44)))
    assert torch.equal(new[0], old[0])
    assert new[1:].std() == pytest.approx(old[1:].std().item(), rel=0.05)
    assert torch.equal(
        model.encoder[0].mlp.expand.weight, adapted.at_random(model, (20, 20)).encoder[0].mlp.expand.weight
    )


def test_from_scratch_keeps_nothing_but_the_card():
    new = adapted.from_scratch(model := load_checkpoint("shapes"), (20, 20))
    assert new.card == model.card
    assert not new.head.weight.any()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "row",
    [
        NewSize((20, 20), "random"),
        NewSize((20, 20), "interpolated", scenes=40),
        NewTask("linear probe", examples=30),
        NewTask("full fine-tune", examples=30),
        NewTask("from scratch", examples=30),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")
def test_a_moved_model_depends_on_the_seed(row):
    first, again, other = (run(row, seed) for seed in (0, 0, 1))
    assert first.confusion.sum() == 40
    assert first.loss == again.loss != other.loss


@pytest.mark.usefixtures("quick")
@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")
def test_a_probe_moves_the_head_alone(monkeypatch):
    tuned, score = {}, adapted.evaluate

    def note(model, images):
        tuned["model"] = model
        return score(model, images)

    monkeypatch.setattr(adapted, "evaluate", note)
    for way in ("linear probe", "full fine-tune"):
        NewTask(way, examples=30).run(0)
        kept = torch.equal(
            tuned["model"].encoder[0].mlp.expand.weight, load_checkpoint("shapes").encoder[0].mlp.expand.weight
        )
        assert kept == (way == "linear probe")
        assert tuned["model"].head.weight.any()


def test_fine_tuning_is_quiet_about_a_head_that_was_trained_before(quick, recwarn):
    replace(NewSize((20, 20)), scenes=40).run(0)
    assert not recwarn.list


TABLES = {
    "another experiment's": "row,seed,accuracy\nViT,0,0.5\nfar away,0,0.5\n",
    "no table": "<html>",
    "other columns": "a,b\n1,2\n",
    "a cut line": "row,seed,accuracy\nViT,0,0.",
    "a cut row": "row,seed,accuracy\nViT,",
    "bytes": b"\xff\xfe",
    "empty": "",
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_a_file_that_is_no_table_of_this_experiment_is_left_alone(text, quick, tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = path.read_bytes()
    with pytest.raises(SystemExit) as ended:
        main(["quick", "--out", str(path)])
    assert ended.value.code == 2
    assert f"error: {path} is no" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_table_that_cannot_be_written_is_told_before_anything_runs(quick, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["quick", "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert str(tmp_path) in capsys.readouterr().err
