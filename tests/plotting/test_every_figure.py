"""What holds for every figure: how it looks, and what a reader who cannot see it is told."""

import re

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.text import Text

from vit_tutorial import plotting, sincos_position_embedding
from vit_tutorial.plotting.style import Figure

TITLE = "a title"
ONES, NAMES = [1.0, 1.0], ["a", "b", "c"]
PHOTO, BYTES = torch.rand(3, 8, 8), torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
OUTLINE = torch.eye(8, dtype=torch.bool)[None]
IDS = torch.arange(16).reshape(4, 4)
LINE = torch.tensor([0.0, 1.0, 2.0])
MAPS = 1 + torch.arange(4.0).reshape(1, 2, 2)


def walk(k):
    """The maps of four queries, whose largest weight is k / 10."""
    return torch.eye(4).reshape(4, 2, 2) * k / 10


def similar(k):
    """A map of similar positions in a grid of 3×4 patches, in which all are k / 10 alike."""
    return torch.full((3, 4, 3, 4), k / 10)


def cells(k):
    """A small grid of values, k of which is the largest."""
    return torch.tensor([[0.0, 1.0], [k, 0.5]])


# For each function, arguments that depend on k, and what the sentence says for k = 3 that it does not for k = 2.
FIGURES = {
    "show_attention_maps": (lambda k: (PHOTO, k * MAPS[None] / 20, ["seed 0"], TITLE, (0, 0), 8, 0), "up to 3"),
    "show_attention_stops": (lambda k: (PHOTO.expand(2, -1, -1, -1), walk(k)[:2], {"a": 0, "b": k}, TITLE), "b, 0.30"),
    "show_block": (lambda k: (), ""),  # a drawing without values
    "show_bug_table": (
        lambda k: (NAMES[:2], ["loss", "leak"], [["1", "2"]] * 2, torch.tensor([[True] * 2, [False, k == 3]]), TITLE),
        "b by leak"),
    "show_by_images": (lambda k: ({"ViT": {10: [0.1], 20: [1 - k / 10]}}, 8, TITLE), "30 % with 20"),
    "show_chosen_positions": (lambda k: (similar(k), similar(0), [0, 2], [1], TITLE), "trained, 0.3 for neighbours"),
    "show_components": (lambda k: ({"me": PHOTO}, [torch.eye(4)[k, :, None, None].expand(4, 4, 3)], TITLE), "in row 3"),
    "show_curves": (lambda k: ([1, 2], {"y": {"one": [5, k]}}, "x", TITLE), "one from 5 to 3"),
    "show_cut": (lambda k: (IDS, IDS.reshape(-1, k + 1 if k == 3 else 8), 2), "row 3 from patch 2"),
    "show_equation_one": (
        lambda k: (torch.rand(2, 3, 4, 4), torch.eye(3) * k, torch.zeros(3, 3), NAMES, TITLE), "from 0 to 3"),
    "show_found": (lambda k: (PHOTO[None], OUTLINE, {"m": torch.tensor([[[1.0, 2.0 * k - 3]]])}, TITLE), "m 1.5"),
    "show_grid": (lambda k: (torch.rand(3, 4 * k, 8), 4, TITLE), "3 rows and 2 columns"),
    "show_heads": (lambda k: (IDS[:2, :2], torch.tensor([[[0], [k + 2]], [[1], [7 - k]]]), TITLE), "1 of its own"),
    "show_layer_differences": (
        lambda k: (["a"], {"timm": [1.0 * k]}, {"mistake": [1.0]}, 1e-7, TITLE), "timm 3"),
    "show_maps": (lambda k: (PHOTO, {"trained": cells(k)[None]}, ["one"], TITLE), "trained, 0 to 3"),
    "show_mirror": (
        lambda k: ({"turned": torch.tensor([[0.1, k / 10]])}, {"turned": similar(0)}, TITLE, (2, 1)),
        "top and bottom 0.3"),
    "show_one_query": (lambda k: (NAMES, LINE, LINE / 2, k * torch.eye(3)), "0, 1.5 and 3"),
    "show_pictures": (lambda k: (BYTES[: k - 1], NAMES[: k - 1]), "2 pictures: a and b"),
    "show_position_similarity": (lambda k: ({"one": similar(k)}, TITLE), "0.3 for neighbours"),
    "show_positions_forming": (
        lambda k: ({0: similar(0), 5: similar(k)}, [0], TITLE), "mirror image in the row from 0 to 0.3"),
    "show_ranking": (lambda k: ({"AUC": {"map": (k / 10, 0.01)}}, {"AUC": 0.5}, TITLE), "map 0.3 ± 0.01"),
    "show_row": (lambda k: ([1.0, 2.0], {"new": [1.0, 1.0 * k, 2.0]}, TITLE), "new: 1, 3, 2"),
    "show_seen": (lambda k: (PHOTO, torch.eye(4)[k].reshape(1, 2, 2), ["head 0"], TITLE), "head 0 in row 1, column 1"),
    "show_similar": (lambda k: ({"me": PHOTO}, [similar(3 + k)[0, 0]], (0, 1), TITLE), "me, 100 %"),
    "show_shapes": (
        lambda k: (PHOTO, {"embeddings": (1, 5, k), "encoder.0": (1, 5, k), "": (1, 2)}, 4, [("a", 0.9)], TITLE),
        "5 tokens of 3 values"),
    "show_sincos_table": (lambda k: (sincos_position_embedding((k, 2), 8), (k, 2), TITLE), "left half changes 2"),
    "show_sizes": (lambda k: ({"wide": torch.zeros(3, 4, 4 * k, dtype=torch.uint8)}, 4, TITLE), "1×3 patches"),
    "show_values": (
        lambda k: (PHOTO, {"sky": torch.eye(2) * k / 10}, TITLE, "overlap", {"sky": (0, 1)}), "sky, median 0.3"
    ),
    "show_wrong": (lambda k: ({"9×9": {"cut": [(1, 10), (k, 10)]}}, TITLE, "cut"), "9×9: cut 20 %"),
}  # fmt: skip


def test_every_figure_is_in_the_table():
    assert set(FIGURES) == {name for name in plotting.__all__ if name.startswith("show_")}


def test_a_dollar_in_a_name_is_a_dollar():
    """In the title, the caption, and a row of a chart; a formula of the package's own is still set as one."""
    name = r"a $\x$, and US_2"
    pictures = plotting.show_pictures(BYTES[:1], [name], name)
    rows = plotting.show_wrong({name: {name: [(1, 10)]}}, name, name)
    for figure in (pictures, rows):
        figure.draw_without_rendering()
        assert figure.alt.count(name[1:]) == (2 if figure is pictures else 3)
    formulas = [text for text in plotting.show_block().axes[0].texts if "$" in text.get_text()]
    assert [text.get_parse_math() for text in formulas] == [True] * 3


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_its_values_in_words_and_is_readable_and_left_to_the_notebook_to_show(name):
    arguments, words = FIGURES[name]
    before, figure = (getattr(plotting, name)(*arguments(k)) for k in (2, 3))
    assert words in figure.alt
    assert not words or words not in before.alt
    assert not set("$\\\n") & set(figure.alt), "a screen reader would read mathtext out"
    assert not re.search(r"[.!?] [a-z]{2}", figure.alt), "sentences begin with a capital"
    assert isinstance(figure, Figure)
    assert repr(figure).startswith("<Figure size")
    assert figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    assert not plt.get_fignums(), "pyplot would show it a second time"
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    assert min(text.get_fontsize() for text in texts) >= 10
