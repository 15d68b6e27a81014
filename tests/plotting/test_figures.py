"""What one figure alone does: it refuses, moves, is drawn while a model trains, or hides a photo in fog."""

from types import SimpleNamespace

import pytest
import torch
from reading import colour, plain, read
from test_what_is_drawn import HISTORY, likeness, mosaic
from torch.testing import assert_close

from vit_tutorial import plotting
from vit_tutorial.plotting import curve_figures
from vit_tutorial.plotting.picture_figures import in_fog

PHOTO = torch.rand(3, 8, 12, generator=torch.Generator().manual_seed(0))


def test_what_cannot_be_drawn_is_refused_with_the_facts():
    with pytest.raises(ValueError, match="8×12 is not a whole number of 5×5 patches"):
        plotting.show_grid(PHOTO, 5, "")


def test_every_new_row_is_drawn():
    lines = {name: [1.0, 2.0] for name in ("one", "two", "three", "four")}
    assert lines.keys() <= {line.get_label() for line in plotting.show_row([1.0], lines, "").axes[0].lines}


def test_the_band_goes_from_the_lowest_to_the_highest_run():
    runs = torch.tensor([[1.0, 2.0, 4.0], [3.0, 6.0, 5.0]], requires_grad=True)
    axes = plotting.show_curves([1, 2, 3], {"mine": runs}, "block", "size", "", "y").axes[0]
    (band,) = axes.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices}
    assert corners == {(1, 1), (1, 3), (2, 2), (2, 6), (3, 4), (3, 5)}
    assert colour(band.get_facecolor()[0, :3]) == "TRAINED", "as its line"
    assert (axes.get_xscale(), axes.get_yscale(), axes.figure.get_figwidth()) == ("linear", "log", 9)


def test_numbers_below_zero_have_a_minus_sign_and_no_hyphen():
    keys, scores, *_ = read(plotting.show_one_query("ab", -torch.ones(1), torch.tensor([[1.0], [-2]]), torch.eye(2)))
    assert {"−2", "−1"} <= {*keys["words"].values(), *scores["words"].values()}


def test_found_draws_the_outline_where_the_object_is():
    masks = torch.zeros(1, 8, 12, dtype=torch.bool)
    masks[0, 1:3, 6:9] = True  # at the top right: row 0.25 to 0.75 and column 1.5 to 2.25 of 2×3 patches
    for axes in plotting.show_found(PHOTO[None], masks, {"one": torch.ones(1, 2, 3)}, "title").axes[:2]:
        points = torch.cat([torch.as_tensor(path.vertices) for path in axes.collections[-1].get_paths()])
        assert_close(points.amin(0).tolist(), [1.5, 0.25], atol=0.15, rtol=0)
        assert_close(points.amax(0).tolist(), [2.25, 0.75], atol=0.15, rtol=0)


def test_what_a_head_does_not_look_at_is_in_fog():
    """Three patches of 5×8 share the weight of the first head; in the second their neighbour has half as much."""
    photo, maps = torch.rand(3, 40, 64), torch.zeros(2, 5, 8)
    maps[:, 1:4, 0], maps[1, 2, 1] = 0.2, 0.1
    figure = plotting.show_seen(photo, maps, ["one", "two"], "heads", columns=2)
    seen = read(figure)
    assert figure.alt == (
        "Heads. A picture of 5×8 patches, clear where each head looks. "
        "The largest weights: one in row 1, column 0; two in row 1, column 0."
    )
    assert [panel.get("title") for panel in seen] == ["picture", "one", "two", None]
    image, grey = photo.movedim(0, 2), 0.85 * 0.82 + 0.15 * photo.mean(0)[..., None].expand(-1, -1, 3)
    for panel, light in zip(seen[:3], (1, 0, 0.5), strict=True):
        drawn = torch.tensor(panel["images"][0])
        assert_close(drawn[20, :4], image[20, :4], atol=1e-4, rtol=0)  # in the brightest patch
        assert_close(drawn[20, 11:13], (light * image + (1 - light) * grey)[20, 11:13], atol=0.1, rtol=0)
    only = torch.eye(40)[:1].view(1, 5, 8)  # all weight on one patch
    assert in_fog(photo, only).isfinite().all()


def test_positions_forming_shows_the_last_epoch_and_then_the_stops():
    figure = plotting.show_positions_forming(HISTORY, [0, 4], "forming")
    epochs = {"epoch 13": 13, "untrained": 0, "epoch 4": 4}
    for (name, epoch), moment in zip(epochs.items(), figure.moments, strict=True):
        moment()
        left, right, *_ = read(figure)
        near, mirror = likeness(HISTORY[epoch])
        assert (left["title"], left["images"]) == (name, plain([mosaic(HISTORY[epoch])]))
        dots = [right["lines"]["TRAINED BLACK o"], right["lines"]["MLP BLACK s"]]
        assert dots == plain([[(epoch, near)], [(epoch, mirror)]])


def test_the_live_figure_is_drawn_again_after_two_seconds_and_ends_under_its_title(monkeypatch):
    clock, shown = iter([0.0, 1.0, 2.9, 3.1, 4.0, 5.0]), []
    handle = SimpleNamespace(update=shown.append)
    monkeypatch.setattr(curve_figures.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr("IPython.display.display", lambda figure, display_id: shown.append(figure) or handle)
    live = plotting.LiveLoss(num_classes=8, title="it learned")
    for step, losses in ((2, [2.0, 1.0]), (4, [1.25]), (6, [1.0]), (8, [1.0, 0.5])):
        live.add(step, 8, losses)
    assert [figure.get_suptitle() for figure in shown] == ["step 2 of 8", "step 6 of 8", "it learned"]
    assert read(shown[-1]) == [plain({
        "x": "step", "y": "loss", "words": {(8, 2.0794): "ln 8: every class equally likely"},
        "lines": {"TRAINED -": [(2, 1.5), (4, 1.25), (6, 1), (8, 0.75)], "CONTROL --": [(0, 2.0794), (1, 2.0794)]},
    })]  # fmt: skip
    assert shown[-1].alt == "It learned. The loss over 8 steps, from 1.5 to 0.8; a guess has 2.08."
    assert shown[-1].axes[0].get_xlim() == (0, 8)
