"""Tables over several seeds: what a row changes, and a table that goes on where it was interrupted."""

import pytest
import torch

from vit_tutorial import experiments
from vit_tutorial.convnet import small_cnn
from vit_tutorial.experiments import EXPERIMENTS, SEEDS, Setting, load_results, main, run
from vit_tutorial.train import PRESETS

SMALL = {"image_size": 16, "patch_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 2, "mlp_dim": 16}


@pytest.fixture
def quick(monkeypatch):
    """The same code on so little that it takes a moment."""
    monkeypatch.setattr(experiments, "IMAGES_SHOWN", 64)
    monkeypatch.setattr(experiments, "TEST_SCENES", 40)
    table = {"ViT": Setting(32, config=SMALL), "CNN": Setting(64, cnn=True, config=SMALL)}
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
    monkeypatch.setattr(experiments, "RESULTS", path.parent)
    found = load_results("quick")
    assert list(found) == ["ViT", "CNN"]
    assert [len(accuracies) for accuracies in found.values()] == [3, 3]


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_the_stored_table_has_every_row_with_every_seed(name):
    found = load_results(name)
    assert list(found) == list(EXPERIMENTS[name])
    for accuracies in found.values():
        assert len(accuracies) == len(SEEDS)
        assert all(1 / 8 < accuracy <= 1 for accuracy in accuracies)


def test_an_unknown_table_names_those_there_are():
    with pytest.raises(ValueError, match="did you mean 'ablations'"):
        load_results("ablation")


def test_the_cnn_is_as_large_as_the_vit_it_is_compared_with():
    from vit_tutorial import VisionTransformer

    def count(model):
        return sum(parameter.numel() for parameter in model.parameters())

    ratio = count(small_cnn(8)) / count(VisionTransformer(PRESETS["shapes"].config))
    assert 0.8 < ratio < 1.25


def test_the_cnn_takes_any_size():
    cnn = small_cnn(5).eval()
    assert cnn(torch.zeros(2, 3, 28, 40)).shape == (2, 5)
