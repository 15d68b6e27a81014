"""Curves, and the figures of lessons 06 to 09, draw what they are given."""

import itertools
import math

import pytest
import torch
from reading import drawn, lines, words
from torch.testing import assert_close

from vit_tutorial import plotting
from vit_tutorial.plotting.style import CONTROL, TRAINED
from vit_tutorial.training import Epoch, Progress


@pytest.mark.parametrize("log", ["", "y", "xy"])
def test_the_line_is_the_mean_and_the_band_goes_from_the_lowest_to_the_highest(log):
    runs = torch.tensor([[1.0, 2.0, 4.0], [3.0, 6.0, 5.0]], requires_grad=True)
    axes = plotting.show_curves([1, 2, 3], {"size": {"mine": runs, "one": [7, 8, 9]}}, "block", "", log).axes[0]
    assert lines(axes) == {"mine": [2, 4, 4.5], "one": [7, 8, 9]}
    (band,) = axes.collections  # one run has none
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices}
    assert {(1, 1), (1, 3), (2, 2), (2, 6), (3, 4), (3, 5)} <= corners
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("block", "size")
    assert (axes.get_xscale(), axes.get_yscale()) == tuple("log" if axis in log else "linear" for axis in "xy")


def test_a_name_looks_as_its_meaning_asks():
    axes = plotting.show_curves([1], {"share": {"all": [1], "untrained": [4], "trained": [5]}}, "block", "").axes[0]
    other, untrained, trained = (line.get_color() for line in axes.lines[:3])
    assert (untrained, trained) == (CONTROL, TRAINED)
    assert other not in {TRAINED, CONTROL}, "their colours are taken"


def progress(step: int, loss: float, finished: Epoch | None = None) -> Progress:
    return Progress(step, 4, (step + 1) // 2, 2, loss, 100.0, 10.0 * (4 - step), finished)


@pytest.fixture
def live(monkeypatch):
    """A live figure, and the list of what it shows."""
    live, shown = plotting.LiveLoss(num_classes=8, title="it learned"), []
    monkeypatch.setattr(live, "show", shown.append)
    return live, shown


def test_the_live_figure_says_how_long_it_takes_and_ends_under_its_title(live):
    live, shown = live
    live(progress(1, 2.0))
    live(progress(2, 1.8, Epoch(1, 1e-3, 1.9, 5.0)))
    live(progress(3, 1.2))
    live(progress(4, 1.1, Epoch(2, 0.0, 1.2, 5.0)))
    first, last = shown[0].axes[0], shown[-1].axes[0]
    assert [axes.get_title("left") for axes in (first, last)] == ["epoch 1 of 2, 30 seconds left", "it learned"]
    assert last.lines[0].get_xydata().tolist() == [[1, 2.0], [3, 1.2]], "reports, not the means of epochs"
    assert last.lines[1].get_ydata()[0] == pytest.approx(math.log(8))
    assert last.get_xlim() == (0, 4)
    assert shown[-1].alt.endswith("from 2.0 to 1.2; a guess has 2.08.")


def test_an_epoch_too_short_for_a_report_is_drawn_by_its_mean(live):
    live, shown = live
    live(progress(2, 1.8, Epoch(1, 1e-3, 1.8, 0.1)))
    live(progress(4, 1.1, Epoch(2, 0.0, 1.1, 0.1)))
    assert shown[-1].axes[0].lines[0].get_xydata().tolist() == [[2, 1.8], [4, 1.1]]


def test_wrong_answers_by_images_are_on_a_log_axis_that_has_a_place_for_none():
    results = {"CNN": {500: [0.6, 0.5], 2000: [1.0, 0.995]}}
    axes = plotting.show_by_images(results, num_classes=8, title="fewer is better").axes[0]
    wrong = axes.lines[0].get_ydata()
    assert wrong == pytest.approx([40, 50, 0, 0.5])
    assert axes.lines[-1].get_ydata()[0] == 87.5
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "0.01", "0.1", "1", "10", "100"]
    low, *others = axes.transData.transform([(500, y) for y in (axes.get_ylim()[0], min(wrong), 0.5, 5, 50)])[:, 1]
    assert low < others[0] < others[1]
    assert others[3] - others[2] == pytest.approx(others[2] - others[1]), "ten times as many are as far everywhere"


def test_found_draws_multiples_of_each_maps_mean_and_the_outline_where_the_object_is():
    pictures, masks = torch.rand(2, 3, 8, 8), torch.zeros(2, 8, 8, dtype=torch.bool)
    masks[:, 1:3, 4:7] = True  # at the top right, which must not be drawn at the bottom
    maps = {"one": torch.rand(2, 4, 4) + 0.1, "two": torch.ones(2, 4, 4)}
    picture, one, two = plotting.show_found(pictures, masks, maps, "title").axes[3:6]
    assert_close(drawn(picture), pictures[1].permute(1, 2, 0))
    assert_close(drawn(one), maps["one"][1] / maps["one"][1].mean())
    assert_close(drawn(two), torch.ones(4, 4))
    for axes in (picture, one, two):
        points = torch.cat([torch.as_tensor(path.vertices) for path in axes.collections[-1].get_paths()])
        assert points[:, 0].min() > 3
        assert points[:, 0].max() < 8
        assert points[:, 1].max() < 4


def test_a_ranking_has_a_dot_an_interval_and_a_value_in_each_row_in_the_order_given():
    scores = {
        "share": {"class": (0.9, 0.01), "the middle (blind)": (0.8, 0.02), "untrained map": (0.51, 0.0)},
        "AUC": {"class": (2.5, 0.5), "untrained map": (1.0, 0.25)},
    }
    first, second = plotting.show_ranking(scores, {"AUC": 1.0}, "").axes
    assert [label.get_text() for label in first.get_yticklabels()] == list(scores["share"])
    for axes, rows in ((first, [0, 1, 2]), (second, [0, 2])):
        means, halves = zip(*scores[axes.get_xlabel()].values(), strict=True)
        dots = [bar.lines[0] for bar in axes.containers]
        assert [dot.get_xydata().tolist() for dot in dots] == [[[m, y]] for m, y in zip(means, rows, strict=True)]
        ends = [bar.lines[2][0].get_segments()[0][:, 0].tolist() for bar in axes.containers]
        assert ends == [pytest.approx([m - half, m + half]) for m, half in zip(means, halves, strict=True)]
    assert [bar.lines[0].get_color() for bar in first.containers] == [TRAINED, CONTROL, CONTROL]
    assert (words(first), words(second)) == (["0.9", "0.8", "0.51"], ["2.5", "1"])


def like_pairs(similarity):
    """The mean cosine of touching patches, and of mirror images in a row with a column between them, pair by pair."""
    h, w = similarity.shape[:2]
    near, mirror = [], []
    for a, b, c, d in itertools.product(range(h), range(w), range(h), range(w)):
        if max(abs(a - c), abs(b - d)) == 1:
            near.append(similarity[a, b, c, d].item())
        if a == c and d == w - 1 - b and abs(b - d) > 1:
            mirror.append(similarity[a, b, c, d].item())
    return sum(near) / len(near), sum(mirror) / len(mirror)


def marks(axes):
    """The places (column, row) of the marks in a map, by their shapes."""
    return {line.get_marker(): line.get_xydata()[0].tolist() for line in axes.lines}


def test_positions_forming_begins_where_training_ends_and_then_shows_every_epoch_beside_its_stops():
    history = {epoch: torch.rand(2, 5, 2, 5) * 2 - 1 for epoch in (0, 1, 4, 13)}
    figure = plotting.show_positions_forming(history, [0, 4], "title")
    left, right, *stops, _ = figure.axes
    alike = {epoch: like_pairs(maps) for epoch, maps in history.items()}
    near, mirror = (list(line.get_ydata()) for line in right.lines if len(line.get_xdata()) == 4)
    assert list(zip(near, mirror, strict=True)) == [pytest.approx(pair) for pair in alike.values()]
    shown = [left.get_title("left")]
    for moment in figure.moments:
        moment()
        shown.append(left.get_title("left"))
        epoch = int(shown[-1].removeprefix("epoch ").replace("untrained", "0"))
        assert_close(drawn(left)[4:6, 1:6].float(), history[epoch][1, 0])
        dots = dict(zip(("touching neighbours", "mirror image in the row"), alike[epoch], strict=True))
        assert lines(right) == {kind: [pytest.approx(height)] for kind, height in dots.items()}
    first, *others = (name for name, _ in itertools.groupby(shown))
    assert (first, others) == ("epoch 13", ["untrained", "epoch 1", "epoch 4"])
    for axes, (stop, name) in zip(stops, {0: "untrained", 4: "epoch 4"}.items(), strict=True):
        assert axes.get_title("left") == name
        assert_close(drawn(axes)[4:6, 1:6].float(), history[stop][1, 0])
    assert [label.get_text() for label in right.get_xticklabels()][::3] == ["0", "13"]


def test_the_mirror_has_a_dot_for_each_seed_and_a_map_for_each_way_marked_at_both_mirror_images():
    measured = {"half flipped": torch.tensor([[0.3, 0.0], [0.2, 0.1]]), "turned": torch.tensor([[-0.1, 0.3]])}
    maps = {way: torch.rand(4, 5, 4, 5) * 2 - 1 for way in measured}
    *panels, _ = plotting.show_mirror(measured, maps, "title", (2, 1)).axes
    for seeds, beside, (way, similarity) in zip(panels[::2], panels[1::2], maps.items(), strict=True):
        assert seeds.get_title("left") == f"photos {way}"
        for marker, values in zip("oD", measured[way].T.tolist(), strict=True):
            dots = [line.get_xydata().tolist() for line in seeds.lines if line.get_marker() == marker]
            assert dots == [[[pytest.approx(value), seed]] for seed, value in enumerate(values)]
        assert_close(drawn(beside), similarity[2, 1])
        assert beside.images[0].get_clim() == (-1, 1)
        assert marks(beside) == {"s": [1, 2], "o": [3, 2], "D": [1, 1]}


def test_outline_and_inside_are_tinted_each_over_its_patches():
    pictures, kinds = {"wide": torch.zeros(3, 8, 12, dtype=torch.uint8)}, torch.tensor([0, 1, 1, 0, 2, 1])
    figure = plotting.show_sizes(pictures, 4, "kinds", {"wide": kinds})
    picture, tint = figure.axes[0].images
    assert torch.equal(drawn(figure.axes[0], 1), kinds.view(2, 3))
    assert tint.get_extent() == picture.get_extent()
    assert tint.cmap(0)[3] == 0, "nothing over the ground"
    legend = figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["outline", "inside"]
    assert [handle.get_facecolor() for handle in legend.get_patches()] == [tint.cmap(1), tint.cmap(2)]


def test_wrong_answers_have_a_dot_with_its_interval_for_each_seed_and_a_line_at_their_mean():
    rows = {"zero": [(5, 100), (15, 100)], "cut": [(0, 200), (50, 200)]}
    figure = plotting.show_wrong({"44×44": rows, "28×44": {"zero": [(30, 200)], "cut": [(2, 200)]}}, "moved", "cut")
    first, _ = figure.axes
    points = [line for line in first.lines if len(line.get_xdata()) == 1]
    assert [list(line.get_xdata()) for line in points] == [[5], [15], [0], [25]]
    assert [line.get_color() for line in points] == [TRAINED] * 2 + [CONTROL] * 2
    assert len({line.get_ydata()[0] for line in points}) == 4, "seeds do not hide each other"
    bars = [line for line in first.lines if line.get_xdata()[0] != line.get_xdata()[-1]]
    ends = [pytest.approx([0, 1.88], abs=0.01), pytest.approx([19.5, 31.4], abs=0.1)]  # Wilson, 0 and 50 of 200
    assert [list(line.get_xdata()) for line in bars[2:]] == ends
    means = [line for line in first.lines if len(line.get_xdata()) == 2 and line not in bars]
    assert [list(line.get_xdata()) for line in means] == [pytest.approx(2 * [mean]) for mean in (10, 12.5)]


EPS = 2.2e-16


def test_differences_are_on_a_log_axis_and_zero_has_a_strip_of_its_own():
    """Mistakes, all of one colour, are told apart by their marks, and each name stands at the end of its line."""
    correct, mistakes = {"timm": [0.0, 1e-15], "explicit": [1e-16, 0.0]}, {"one": [1e-5, 1e-4], "other": [1e-5, 1e-4]}
    figure = plotting.show_layer_differences(["Eq. 1", "logits"], correct, mistakes, EPS, "title")
    upper, zeros = figure.axes
    heights = {"timm": [None, 1e-15], "explicit": [1e-16, None], **mistakes}
    rows = {"timm": [0, None], "explicit": [None, 0], "one": [None, None], "other": [None, None]}
    for axes, expected in ((upper, heights), (zeros, rows)):
        found = {name: [None if math.isnan(y) else y for y in line] for name, line in lines(axes).items()}
        assert found == expected
    assert [EPS, EPS] in [list(line.get_ydata()) for line in upper.lines]
    names = [[text.get_text() for text in axes.texts if text.get_text() in heights] for axes in (upper, zeros)]
    assert names == [["timm", "one", "other"], ["explicit"]]
    one, other = (line for line in upper.lines if line.get_label() in mistakes)
    assert one.get_color() == other.get_color()
    assert one.get_marker() != other.get_marker()


def test_a_loop_of_ones_own_adds_its_losses_a_few_steps_at_a_time(live):
    live, shown = live
    live.add(2, 4, [2.0, 1.0])
    live.add(4, 4, [1.0, 0.5])
    assert [figure.axes[0].get_title("left") for figure in shown] == ["step 2 of 4", "it learned"]
    assert shown[-1].axes[0].lines[0].get_xydata().tolist() == [[2, 1.5], [4, 0.75]]
