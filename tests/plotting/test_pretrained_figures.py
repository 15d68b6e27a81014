"""The figures of notebook 09 draw what they are given."""

from matplotlib.colors import to_rgba

from vit_tutorial import plotting
from vit_tutorial.plotting.pretrained_figures import NOTHING

ROWS = ["one", "two"]
SHAPES = {"ours": ["(2, 3)", "(4,)"], "theirs": ["(3, 2)", "(4,)"]}
DIFFERS = {"ours": [False, False], "theirs": [True, False]}
LINES = {"float64": {"timm": [0.0, 1e-15]}, "float32": {"timm": [1e-7, 2e-7]}}
CONTROLS = {name: {"rounding": [1e-16, 0.0], "a mistake": [1e-5, 1e-4]} for name in LINES}
EPS = {"float64": 2.2e-16, "float32": 1.2e-7}


def test_shapes_stand_in_their_cells_and_only_the_others_are_framed():
    (axes,) = plotting.show_tensor_shapes(ROWS, SHAPES, DIFFERS, "title").axes
    found = {text.get_position(): text.get_text() for text in axes.texts}
    assert found[(0.5, -0.5)] == "ours"
    assert found[(1.5, 0.5)] == "(3, 2)"
    assert found[(0.5, 1.5)] == "(4,)"
    (frame,) = axes.patches
    assert (round(frame.get_x()), round(frame.get_y())) == (1, 0)
    assert [label.get_text() for label in axes.get_yticklabels()] == ROWS


def test_differences_have_a_panel_a_precision_and_zero_lies_on_the_axis():
    figure = plotting.show_layer_differences(["Eq. 1", "logits"], LINES, CONTROLS, EPS, "title")
    first, second = figure.axes
    lines = {line.get_label(): list(line.get_ydata()) for line in first.lines}
    assert lines["timm"] == [NOTHING, 1e-15]
    assert lines["rounding"] == [1e-16, NOTHING]
    assert lines["a mistake"] == [1e-5, 1e-4]
    assert [2.2e-16, 2.2e-16] in [list(line.get_ydata()) for line in first.lines]
    assert first.get_ylim()[0] == NOTHING
    assert first.get_yticklabels()[0].get_text() == "exactly 0"
    assert second.get_title(loc="left") == "float32"
    assert [label.get_text() for label in second.get_xticklabels()] == ["Eq. 1", "logits"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["timm", "rounding", "a mistake"]


def test_a_cost_within_its_spread_is_hollow():
    figure = plotting.show_mistake_costs(["dear", "free"], [2.0, 1e-3], [20.0, 0.1], [2.0, 0.3], "title")
    left, right = figure.axes
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in left.lines] == [(2.0, 0), (1e-3, 1)]
    marks = [container.lines[0] for container in right.containers]
    assert [mark.get_xdata()[0] for mark in marks] == [20.0, 0.1]
    assert [to_rgba(mark.get_markerfacecolor()) == to_rgba("white") for mark in marks] == [False, True]
    (bar,) = right.containers[0].lines[2]
    assert bar.get_segments()[0][:, 0].tolist() == [18.0, 22.0]
    assert left.get_ylim()[0] > left.get_ylim()[1], "the first mistake stands at the top"


DRAWN = {
    "shapes": lambda: plotting.show_tensor_shapes(ROWS, SHAPES, DIFFERS, "title"),
    "differences": lambda: plotting.show_layer_differences(["Eq. 1", "logits"], LINES, CONTROLS, EPS, "title"),
    "mistakes": lambda: plotting.show_mistake_costs(["dear", "free"], [2.0, 1e-3], [20.0, 0.1], [2.0, 0.3], "title"),
}
