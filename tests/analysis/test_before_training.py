"""Which planted bug each test of an untrained model finds, and that none of the tests leaves a trace."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from vit_tutorial import Shapes, VisionTransformer, ViTConfig
from vit_tutorial.analysis.before_training import first_tests
from vit_tutorial.experiments import BUGS, bug_table, draw_bug, plant

SCENES = Shapes(16, image_size=28, seed=0)
IMAGES, LABELS = (SCENES.pixels / 255 - 0.5) / 0.25, SCENES.labels
SMALL = ViTConfig(image_size=28, patch_size=7, embed_dim=48, depth=2, num_heads=3, mlp_dim=96, num_classes=8)
TINY = replace(SMALL, dropout=0.2, attention_dropout=0.2, drop_path=0.2)  # each kind would show in the random state


def test_model_and_random_state_stay_as_they_were():
    model = VisionTransformer(TINY).eval()
    model.encoder[0].train()
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    modes, state = [module.training for module in model.modules()], torch.get_rng_state()
    found = first_tests(model, IMAGES, LABELS, 7, steps=2)
    assert found == first_tests(model, IMAGES, LABELS, 7, steps=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert model.embeddings.dropout.p == 0.2
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("patch_size", [7, (28, 14)], ids=["16 patches", "two"])
def test_which_planted_bug_is_noticed_by_which_test(patch_size):
    """The other bugs pass all tests, as lesson 05 shows."""
    noticed = {
        "none": [],
        "softmax inside the model": ["last loss"],
        "positions never added": ["shuffle"],
        "attention across the batch": ["memorised", "last loss", "shuffle"],
        "across, mean of patches": ["leak"],
        "head drawn with std 1": ["first loss"],
    }
    config = replace(SMALL, patch_size=patch_size)
    for bug, found in bug_table(config, IMAGES, LABELS, [*noticed]).items():
        tests = {
            "first loss": abs(found.first_loss - math.log(8)) > 0.1,
            "memorised": found.right < len(IMAGES),
            "last loss": found.last_loss > 0.5,
            "leak": found.image_leak > 0,
            "shuffle": found.shuffle_change < 1e-5,
        }
        assert [test for test, hit in tests.items() if hit] == noticed[bug], bug
    hidden = (draw_bug(config, LABELS, seed) for seed in range(99))
    unplaced = next(broken for broken in hidden if broken.bug == "positions never added")
    assert "; a shuffle changes 0.00%; " in unplaced.measured(IMAGES)
    assert math.isnan(first_tests(unplaced.model, IMAGES, LABELS, 28, steps=1).shuffle_change), "of one patch"


def test_every_bug_changes_what_is_trained_or_what_comes_out():
    """Else it would be no bug: a plain list hides parameters, the others change logits or labels."""
    for bug in BUGS[1:]:
        torch.manual_seed(0)
        right = VisionTransformer(TINY).eval()
        nn.init.normal_(right.head.weight)
        torch.manual_seed(0)
        wrong = VisionTransformer(TINY).eval()
        nn.init.normal_(wrong.head.weight)
        wrong, labels = plant(bug, wrong, LABELS)
        fewer = len(list(wrong.parameters())) < len(list(right.parameters()))
        assert fewer or not torch.equal(labels, LABELS) or not torch.allclose(wrong.eval()(IMAGES), right(IMAGES)), bug
