"""Each figure draws what it was given, each value in its place and under its name, and says so in words.

All values of a row are different, so that two of them exchanged are seen: in the legend, at the axes, in the captions,
in the pictures, and in the alternative text.
"""

import itertools
from collections import namedtuple

import pytest
import torch
from reading import plain, read

from vit_tutorial import plotting
from vit_tutorial.analysis.before_training import FirstTests

ONE, TWO = torch.rand(2, 3, 4, 6, generator=torch.Generator().manual_seed(0))  # pictures of 2×3 patches of 2×2 pixels
BYTES = torch.arange(96, dtype=torch.uint8).view(4, 3, 2, 4)
MAPS = torch.tensor([[0.1, 0.5, 0.2], [0.3, 0.4, 0.6]])  # the largest in row 1, column 2
ALIKE = (torch.arange(144.0).view(3, 4, 3, 4) / 144) ** 2  # of the positions of 3×4 patches
TOKENS = torch.tensor([[0.1, 0.5, 0.2], [0.3, 0.4, 0.6], [0.7, 0.8, 0.9]])
NEARLY_TEN = {
    "scale": [("RdBu_r", -9.9, 9.9, 0)],
    "boxes": [(0, 0.05, 3, 0.9, "CLASS_TOKEN")],
    "segments": {"white": [[(1, 0), (1, 3)], [(2, 0), (2, 3)]]},
}
FOUR = {"scale": [("viridis", 1 / 4, 4, 1)]}
KINDS = ("empty MLP ATTENTION", 0, 2, 1)
SIGNED = ("RdBu_r", -1, 1, 0)
NAN = "nothing"
# A figure, its arguments, its alternative text, and what each of its panels holds.
Row = namedtuple("Row", "name arguments alt panels")


def image(picture):
    """Return a picture (C, H, W) as it is drawn."""
    return picture.expand(3, -1, -1).movedim(0, 2)


def numbers(count, step=1):
    """Return labels 0, 1, 2 … and the places of the middles of as many cells."""
    return {str(n): step * (n + 0.5) for n in range(count)}


def in_cells(rows, right=0.5, down=0.5):
    """Return texts by their places in cells one unit wide, row by row."""
    return {(x + right, y + down): text for y, row in enumerate(rows) for x, text in enumerate(row) if text}


def white(columns, rows):
    """Return the white lines around the patches of a picture."""
    return {"segments": {"white": grid(range(rows + 1), range(columns + 1))}}


def grid(ys, xs):
    """Return level lines at `ys`, then upright ones at `xs`."""
    return [[(xs[0], y), (xs[-1], y)] for y in ys] + [[(x, ys[0]), (x, ys[-1])] for x in xs]


def mosaic(maps):
    """Return maps row by row as they are drawn: after an empty line above and at the left of each."""
    rows, columns, h, w = maps.shape
    canvas = torch.full((rows * (h + 1), columns * (w + 1)), -99.0)
    for row in range(rows):
        for column in range(columns):
            top, left = row * (h + 1) + 1, column * (w + 1) + 1
            canvas[top : top + h, left : left + w] = maps[row, column]
    return canvas


def likeness(similarity):
    """The mean similarity of touching patches, and of mirror images in a row with a column between, pair by pair."""
    h, w = similarity.shape[:2]
    pairs = list(itertools.product(range(h), range(w), range(h), range(w)))
    near = [similarity[a, b, c, d] for a, b, c, d in pairs if max(abs(a - c), abs(b - d)) == 1]
    mirror = [similarity[a, b, c, d] for a, b, c, d in pairs if a == c and d == w - 1 - b and abs(b - d) > 1]
    return torch.stack(near).mean().item(), torch.stack(mirror).mean().item()


def batch_of_two():
    """Return the lines of a table of two pictures with two tokens of three features, and its names."""
    pictures = [[(0, y), (3, y)] for y in (0, 2, 4)]
    return {"x": "features, D = 3", "rows": {"picture 0": 1, "picture 1": 3},
            "segments": {"CONTROL": grid(range(5), range(4)), "BLACK": pictures}}  # fmt: skip


def looks(share):
    """Return a head's map in %, whose darkest colour is the largest of all maps, with the patch that asks."""
    return {"images": [100 * MAPS / share], "scale": [("viridis", 0, 60, 15)], "frames": [(0, 2)]}


def framed(*filters):
    """Return filters of 2×2 weights, each of one colour or grey, side by side as they are drawn: in white frames."""
    canvas = torch.ones(4, 7, 3)
    for n, shades in enumerate(filters):
        canvas[1:3, 3 * n + 1 : 3 * n + 3] = torch.tensor(shades).reshape(*[2, 2, 1] if len(shades) == 2 else [1, 1, 3])
    return canvas


FILTERS = torch.stack(
    [torch.tensor([2.0, -1, 0]).view(3, 1, 1).expand(3, 2, 2), torch.tensor([[0.0, 1], [-1, 0]]).expand(3, 2, 2)]
)
NEAR, MIRROR = likeness(ALIKE)
HISTORY = {0: ALIKE, 1: -ALIKE, 4: ALIKE / 2, 13: -ALIKE / 4}

FIGURES = [
    Row("show_grid", (ONE, 2, "cut"),
        "Cut. An image of 4×6 pixels under a white grid of 2 rows and 3 columns.",
        [{"x": "column of the grid", "y": "row of the grid", "columns": numbers(3), "rows": numbers(2),
         "images": [image(ONE)], **white(3, 2)}]),
    Row("show_pictures", (BYTES[:3], ["first", "second\nline", "third"], "three", 2),
        "Three. 3 pictures: first, second line and third.",
        [{"title": "first", "images": [image(BYTES[0])]}, {"title": "second\nline", "images": [image(BYTES[1])]},
         {"title": "third", "images": [image(BYTES[2])]}, {}]),
    Row("show_pictures", (BYTES[:1], ["only"]), "1 picture: only.", [{"title": "only", "images": [image(BYTES[0])]}]),
    Row("show_filters", ({"old": FILTERS, "new": -2 * FILTERS[[1, 1]]}, "filters", 2),
        "Filters. 2 filters of 2×2 pixels. One plain colour makes up, of their squares: old 77 % and new 0 %.",
        [{"title": "old", "images": [framed([1, 0.25, 0.5], [[0.5, 1], [0, 0.5]])]},
         {"title": "new", "images": [framed([[0.5, 0], [1, 0.5]], [[0.5, 0], [1, 0.5]])]}]),
    Row("show_sizes", ({"small": BYTES[0], "wide": BYTES[1].repeat(1, 1, 2)}, 2, "sizes",
         {"small": torch.tensor([1, 2]), "wide": torch.tensor([0, 2, 1, 0])}),
        "Sizes. 2 pictures: small, 2×4 pixels in 1×2 patches; wide, 2×8 pixels in 1×4 patches.",
        [{"title": "small", "images": [image(BYTES[0]), [[1, 2]]], "scale": [KINDS],
          "legend": {"MLP": "outline", "ATTENTION": "inside"}, **white(2, 1)},
         {"title": "wide", "images": [image(BYTES[1].repeat(1, 1, 2)), [[0, 2, 1, 0]]],
          "scale": [KINDS], **white(4, 1)}]),
    Row("show_maps",
        (ONE, {"old": torch.stack([MAPS, 2 * MAPS]), "new": torch.stack([-3 * MAPS, -4 * MAPS])}, ["up", "down"], "two",
         [(0, 1), (1, 2)]),
        "Two. Maps of 2×3 patches for up and down, from lowest to highest: "
        "old, 0.1 to 0.6 and 0.2 to 1.2; new, −1.8 to −0.3 and −2.4 to −0.4.",
        [{"images": [image(ONE)], "frames": [(0, 1), (1, 2), (0, 1), (1, 2)], **white(3, 2)},
         {"title": "up", "x": "colours: ±1.8", "y": "old", "images": [MAPS],
          "scale": [("RdBu_r", -1.8, 1.8, 0)], "frames": [(0, 1)]},
         {"title": "down", "x": "colours: ±2.4", "images": [2 * MAPS],
          "scale": [("RdBu_r", -2.4, 2.4, 0)], "frames": [(1, 2)]},
         {"x": "colours: ±1.8", "y": "new", "images": [-3 * MAPS],
          "scale": [("RdBu_r", -1.8, 1.8, 0)], "frames": [(0, 1)]},
         {"x": "colours: ±2.4", "images": [-4 * MAPS],
          "scale": [("RdBu_r", -2.4, 2.4, 0)], "frames": [(1, 2)]}]),
    Row("show_maps", (ONE, {"": torch.tensor([[[0.0, -10.0, 0.4], [1.5, 0.0, 3.0]]])}, ["lost"], "one"),
        "One. Maps of 2×3 patches for lost, from lowest to highest: −10 to 3.",
        [{"images": [image(ONE)], **white(3, 2)},
         {"title": "lost", "x": "colours: ±10", "columns": numbers(3), "rows": numbers(2),
          "words": in_cells([["", "−10.0", ""], ["+1.5", "", "+3.0"]]),
          "images": [[[0, -10, 0.4], [1.5, 0, 3]]], "scale": [("RdBu_r", -10, 10, 0)]}]),
    Row("show_maps", (ONE, {"": 2 * MAPS[None]}, ["share"], "none below zero"),
        "None below zero. Maps of 2×3 patches for share, from lowest to highest: 0.2 to 1.2.",
        [{"images": [image(ONE)], **white(3, 2)},
         {"title": "share", "x": "colours: 0 to 1.2", "columns": numbers(3), "rows": numbers(2),
          "words": in_cells([["0.2", "1.0", "0.4"], ["0.6", "0.8", "1.2"]]), "images": [2 * MAPS],
          "scale": [("viridis", 0, 1.2, 0.6)]}]),
    Row("show_attention_maps", (ONE, MAPS / torch.arange(1, 5).view(2, 2, 1, 1), ["yes", "no"], "looks", (0, 2)),
        "Looks. Where 2 heads look on a picture, from one patch: yes up to 60 % and no up to 20 %.",
        [{"images": [image(ONE)], "frames": [(0, 2)], "boxes": [(1, 2, 1, 1, "white"), (0, 1, 1, 1, "white")]},
         {"title": "head 0", "y": "yes", "words": in_cells([["10", "50", "20"], ["30", "40", "60"]]), **looks(1)},
         {"title": "head 1", "words": in_cells([["", "25", "10"], ["15", "20", "30"]]), **looks(2)},
         {"y": "no", "words": in_cells([["", "17", ""], ["10", "13", "20"]]), **looks(3)},
         {"words": in_cells([["", "12", ""], ["", "10", "15"]]), **looks(4)},
         {"y": "attention, %"}]),
    Row("show_attention_stops", (torch.stack([ONE, TWO]), torch.stack([MAPS, 1 - MAPS]), {"leg": 5, "arm": 1}, "stops"),
        "Stops. What 2 queries take most: leg, 0.60 from row 1, column 2; arm, 0.90 from row 0, column 0.",
        [{"title": "leg", "images": [image(ONE)], "frames": [(1, 2)], **white(3, 2)},
         {"title": "arm", "images": [image(TWO)], "frames": [(0, 1)], **white(3, 2)},
         {"images": [MAPS], "scale": [("viridis", 0, 0.9, 0.225)], "frames": [(1, 2)], **white(3, 2)},
         {"images": [1 - MAPS], "scale": [("viridis", 0, 0.9, 0.225)], "frames": [(0, 1)], **white(3, 2)},
         {"y": "weight (square-root scale)"}]),
    Row("show_found", (torch.stack([ONE, TWO]), torch.ones(2, 4, 6).triu(2).bool(),
         {"last layer": torch.stack([MAPS, 1 - MAPS]), "class": torch.stack([2 + MAPS, 3 - MAPS])}, "found"),
        "Found. 2 pictures and their maps; the largest multiple of the mean: last layer 1.71 and class 1.11.",
        [{"title": "picture", "images": [image(ONE)]},
         {"title": "last\nlayer", "images": [MAPS / MAPS.mean()], **FOUR},
         {"title": "class", "images": [(2 + MAPS) / (2 + MAPS).mean()], **FOUR},
         {"images": [image(TWO)]}, {"images": [(1 - MAPS) / (1 - MAPS).mean()], **FOUR},
         {"images": [(3 - MAPS) / (3 - MAPS).mean()], **FOUR},
         {"y": "value (1 = the map's mean)", "logarithmic": "y"}]),
    Row("show_cut", (torch.arange(8).view(2, 4), torch.tensor([[0, 1, 4], [6, 2, 3]]), 2),
        "Picture 2×4. Beside it, list 2×3; its values come, row 0 from patch 0 and row 1 from patch 1 of the image.",
        [{"title": "picture 2×4", "words": in_cells([["0", "1", "2", "3"], ["4", "5", "6", "7"]]),
          "tints": in_cells([["tint 0", "tint 0", "tint 1", "tint 1"]] * 2),
          "segments": {"BLACK": grid((0, 2), (0, 2, 4))}},
         {"title": "list 2×3", "rows": {"patch 0": 0.5, "patch 1": 1.5},
          "words": in_cells([["0", "1", "4"], ["6", "2", "3"]]), "tints": in_cells([["tint 0"] * 3, ["tint 1"] * 3]),
          "segments": {"BLACK": grid((0, 1, 2), (0, 3))}}]),
    Row("show_heads", (torch.tensor([[0, 1], [10, 11]]), torch.tensor([[[0], [10]], [[1], [0]]]), "heads"),
        "Heads. 2 tokens of 2 values are split: "
        "head 0 gets 2 of its own 2 values and head 1 gets 1 of its own 2 values.",
        [{"title": "unsplit  (2, 2)", "rows": {"token 0": 0.5, "token 1": 1.5},
          "words": in_cells([["0", "1"], ["10", "11"]]), "tints": in_cells([["tint 0", "tint 1 ///"]] * 2)},
         {"title": "head 0  (2, 1)", "words": in_cells([["0"], ["10"]]), "tints": in_cells([["tint 0"]] * 2)},
         {"title": "head 1  (2, 1)", "words": in_cells([["1"], ["0"]]),
          "tints": in_cells([["tint 1 ///"], ["tint 0"]])}]),
    Row("show_one_query",
        (["leg", "side", "arm"], torch.tensor([0.98026, 0.49013]),
         torch.tensor([[1.0, 0], [1, 2], [0, 2]]), torch.tensor([[8.0, 0], [16, 8], [4, 2]])),
        "50% of the weight goes to the best match: side. The query gives the weights leg 0.25, side 0.5 and arm 0.25; "
        "the values add up to 11 and 4.5.",
        [{"title": "1  keys", "x": "the query", "rows": {"leg": 0.5, "side": 1.5, "arm": 2.5},
          "columns": {"×\n0.98": 0.5, "×\n0.49": 1.5}, "words": in_cells([["1", "0"], ["1", "2"], ["0", "2"]]),
          "images": [[[1, 0], [1, 2], [0, 2]]], "scale": [("viridis", 0, 2, 1)]},
         {"title": r"2  scores  $q·k/\sqrt{d}$",
          "words": {(0.6931, 0): "0.693", (1.3863, 1): "1.39", (0.6931, 2): "0.693"},
          "boxes": [(n - 0.4, 0, 0.8, score, "CONTROL") for n, score in enumerate((0.6931, 1.3863, 0.6931))]},
         {"title": "3  softmax: weights", "words": {(0.25, 0): "0.25", (0.5, 1): "0.5", (0.25, 2): "0.25"},
          "boxes": [(n - 0.4, 0, 0.8, weight, "ATTENTION") for n, weight in enumerate((0.25, 0.5, 0.25))]},
         {"title": "4  weight × value", "x": "the output", "columns": {"Σ\n11": 0.5, "Σ\n4.5": 1.5},
          "words": in_cells([["2", "0"], ["8", "4"], ["1", "0.5"]]),
          "images": [[[2, 0], [8, 4], [1, 0.5]]], "scale": [("viridis", 0, 8, 4)]}]),
    Row("show_equation_one",
        (torch.stack([ONE, TWO]), TOKENS, torch.tensor([[-1.0, 2, 3], [4, 5, -6], [7, 8, 9]]), "abc", "1"),
        "1. 2 patches, and under them 3 tokens of 3 values, their positions, and the sum, which reaches from "
        "−5.4 to 9.9.",
        [{"y": "patches", "images": [image(ONE), image(TWO)], "counted upwards": True,
          "words": {(0.5, 0.5): "no patch:\na vector of\nits own"}},
         {"y": r"$[\,x_{class};\ x_p E\,]$", "rows": numbers(3),
          "words": in_cells([["0.10", "0.30", "0.70"], ["0.50", "0.40", "0.80"], ["0.20", "0.60", "0.90"]]),
          "images": [TOKENS.T], **NEARLY_TEN},
         {"y": r"$+\ E_{pos}$", "rows": numbers(3),
          "words": in_cells([["−1.00", "4.00", "7.00"], ["2.00", "5.00", "8.00"], ["3.00", "−6.00", "9.00"]]),
          "images": [[[-1, 4, 7], [2, 5, 8], [3, -6, 9]]], **NEARLY_TEN},
         {"x": "token", "y": r"$=\ z_0$", "columns": {"a": 0.5, "b": 1.5, "c": 2.5}, "rows": numbers(3),
          "words": in_cells([["−0.90", "4.30", "7.70"], ["2.50", "5.40", "8.80"], ["3.20", "−5.40", "9.90"]]),
          "images": [[[-0.9, 4.3, 7.7], [2.5, 5.4, 8.8], [3.2, -5.4, 9.9]]], **NEARLY_TEN}]),
    Row("show_bug_table",
        ({"none": FirstTests(0.7, 8, 0.1, 0, 0.2), "sly": FirstTests(0.8, 7, 0.2, 0, 0.3),
          "leaky": FirstTests(2, 6, 0.3, 0.4, 0)}, 2, "bugs"),
        "Bugs. A table of bugs and the tests that notice them: none by no test; leaky by first loss, leak (gradient) "
        "and shuffle (change); sly by no test.",
        [{"columns": {"first loss": 0, "one batch": 1, "leak (gradient)": 2, "shuffle (change)": 3},
          "rows": {"none": 0, "leaky": 1, "sly": 2}, "bold": ["2.00", "0.400", "0.0%"],
          "words": in_cells([["0.70", "8 right, loss 0.1", "0.000", "20.0%"],
                             ["2.00", "6 right, loss 0.3", "0.400", "0.0%"],
                             ["0.80", "7 right, loss 0.2", "0.000", "30.0%"]], 0.12, 0),
         "lines": {"MISTAKE o": [(0, 1), (2, 1), (3, 1)],
                   "empty CONTROL o": [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (0, 2), (1, 2), (2, 2), (3, 2)]}}]),
    Row("show_positions_forming", (HISTORY, [0, 4], "forming"),
        f"Forming. Mean cosine similarity from epoch 0 to epoch 13: touching neighbours from {NEAR:.2g} to "
        f"−{NEAR / 4:.1g}; mirror image in the row from {MIRROR:.2g} to −{MIRROR / 4:.1g}.",
        [{"title": "epoch 13", "images": [mosaic(-ALIKE / 4)], "scale": [SIGNED],
          "legend": {"TRAINED -": "touching neighbours", "MLP --": "mirror image in the row"}},
         {"x": "epochs of training\n(logarithmic)", "y": "mean cosine similarity", "logarithmic": "x",
          "columns": {"0": 0, "4": 4, "13": 13},
          "lines": {"touching neighbours": [(0, NEAR), (1, -NEAR), (4, NEAR / 2), (13, -NEAR / 4)],
                    "mirror image in the row": [(0, MIRROR), (1, -MIRROR), (4, MIRROR / 2), (13, -MIRROR / 4)],
                    "TRAINED BLACK o": [(13, -NEAR / 4)], "MLP BLACK s": [(13, -MIRROR / 4)]}},
         {"title": "untrained", "images": [mosaic(ALIKE)], "scale": [SIGNED]},
         {"title": "epoch 4", "images": [mosaic(ALIKE / 2)], "scale": [SIGNED]}, {"x": "cosine similarity"}]),
    Row("show_curves", ([2, 4, 8],
         {"untrained": [5, 8, 7], "mine": torch.tensor([[1.0, 2, 4], [3, 6, 5]]), "trained": [9, 8, 3]},
         "blocks", "size", "curves", "x", (4, "half"), {2: ONE, 8: 1 - ONE}),
        "Curves. Blocks: 2 to 8. Size: untrained from 5 to 7, at most 8 at 4; mine from 2 to 4.5; trained from 9 to 3.",
        [{"x": "blocks", "y": "size", "logarithmic": "x", "columns": {"2": 2, "8": 8},
          "words": {(2, 4): "half"}, "under": {2: image(ONE), 8: image(1 - ONE)},
         "lines": {"untrained": [(2, 5), (4, 8), (8, 7)], "mine": [(2, 2), (4, 4), (8, 4.5)],
                      "trained": [(2, 9), (4, 8), (8, 3)], "CONTROL --": [(0, 4), (1, 4)]},
         "legend": {"CONTROL X -": "untrained", "MLP s --": "mine", "TRAINED o -": "trained"}}]),
    Row("show_dots", ({"first": [1, 4], "second": torch.tensor([[2.0], [6.0]]), "one": 3}, "right, %", "dots",
         (3, "a guess")),
        "Dots. Right, %, means: first 2.5, second 4 and one 3.",
        [{"x": "right, %", "rows": {"first": 0, "second": 1, "one": 2}, "words": {(3, 2): "3", (3, -0.5): "a guess"},
          "segments": {"BLACK": [[(2.5, -0.3), (2.5, 0.3)], [(4, 0.7), (4, 1.3)]], "TRAINED": [[(0, 2), (3, 2)]]},
          "lines": {"TRAINED empty o": [(1, 0), (4, 0), (2, 1), (6, 1), (3, 2)], "CONTROL --": [(3, 0), (3, 1)]}}]),
    Row("show_scatter", ({"first": [(1, 4), (3, 2)], "second": [(5, 8)]}, "before", "after", "scatter", (6, "a guess")),
        "Scatter. Before and after, from lowest to highest: first, 1 to 3 and 2 to 4; second, 5 to 5 and 8 to 8.",
        [{"x": "before", "y": "after", "words": {(5, 6): "a guess"},
          "legend": {"TRAINED empty o": "first", "MLP empty s": "second"},
          "lines": {"first": [(1, 4), (3, 2)], "second": [(5, 8)], "CONTROL --": [(0, 6), (1, 6)]}}]),
    Row("show_by_images",
        ({"ViT": {10: [0.5, 0.7], 200: [0.9, 0.86]}, "CNN": {10: [0.8, 0.7], 200: [1.0, 0.98]}}, 5, "images"),
        "Images. Mean wrong answers by the number of training images: ViT 40 % with 10 and 12 % with 200 and CNN 25 % "
        "with 10 and 1 % with 200.",
        [{"x": "training images (log scale)", "y": "wrong answers, % (log scale)", "logarithmic": "x y",
          "columns": {"10": 10, "200": 200}, "words": {(200, 80): "a guess"},
         "lines": {"ViT": [(10, 40), (200, 12)], "CNN": [(10, 25), (200, 1)], "CONTROL --": [(0, 80), (1, 80)]},
         "legend": {"TRAINED o -": "ViT", "MLP s --": "CNN"}}]),
    Row("show_row", ([10.0, 20.0], {"4 new": [1.0, 2.0, 3.0, 4.0]}, "row"),
        "Row. A row of values before and after: old: 10, 20; 4 new: 1, 2, 3, 4.",
        [{"x": "place $u$: 0 is the centre of the first old patch", "y": "value",
         "words": {(-0.25, 1): "1", (0.25, 2): "2", (0.75, 3): "3", (1.25, 4): "4"},
         "lines": {"CONTROL -": [(-0.5, 10), (0, 10), (1, 20), (1.5, 20)], "2 old values": [(0, 10), (1, 20)],
                      "4 new": [(-0.25, 1), (0.25, 2), (0.75, 3), (1.25, 4)]},
         "legend": {"BLACK s": "2 old values", "TRAINED o": "4 new"}}]),
    Row("show_tokens", (ONE, torch.stack([TOKENS, -2 * TOKENS]), [("star", 0.75), ("cross", 0.25)], "tokens",
                        [1]),
        "Tokens. 3 tokens of 3 values, 2 times. Their size after Eq. 1 0.563 and the last block 1.13. The answer: star "
        "75 % and cross 25 %.",
        [{"title": "the picture", "images": [image(ONE)]},
         *({"title": name, "images": [TOKENS * size], "scale": [("RdBu_r", *(size * end for end in ends))],
            "boxes": [(0, 0, 1, 3, "CLASS_TOKEN"), (2, -0.21, 1, 0.15, "BLACK")]} for name, size, ends in
           (("Eq. 1", 1, (-0.884, 0.884, 0)), ("block 0", -2, (0.884, -0.884, 0)))),
         {"title": "its answer", "words": {(0, -0.22): "star 75 %", (0, 0.78): "cross 25 %"},
          "boxes": [(-0.125, 0, 0.25, 0.75, "TRAINED"), (0.875, 0, 0.25, 0.25, "TRAINED")]}]),
    Row("show_by_head", ({"zeros": 100 * MAPS, "means": 30 + 50 * MAPS.flip(1)}, "left", "by head"),
        "By head. Left, the lowest: zeros, 10 % for head 0 of block 0; means, 35 % for head 2 of block 0.",
        [{"title": "zeros", "x": "head", "columns": numbers(3), "rows": {"block 0": 0.5, "block 1": 1.5},
          "words": in_cells([["10", "50", "20"], ["30", "40", "60"]]), "images": [100 * MAPS],
          "scale": [("viridis", 0, 100, 50)]},
         {"title": "means", "x": "head", "columns": numbers(3),
          "words": in_cells([["40", "55", "35"], ["60", "50", "45"]]), "images": [30 + 50 * MAPS.flip(1)],
          "scale": [("viridis", 0, 100, 50)]},
         {"y": "left"}]),
    Row("show_block", ("block",),
        "Block. Two branches leave the residual stream and are added to it: pre-norm, LayerNorm, then attention or "
        "MLP, then the sum.",
        [{"words": {(0.4, 0): r"$z_{\ell-1}$", (4.55, 0.26): r"$z'_\ell$", (8.6, 0): r"$z_\ell$",
                (1.8, 0.9): "LayerNorm\n(B, T, D)", (3.2, 0.9): "attention\nbetween tokens\n(B, T, D)",
                (5.65, 0.9): "LayerNorm\n(B, T, D)", (7.05, 0.9): "MLP\neach token alone\n(B, T, D)",
                (4.2, 0): "+", (8.05, 0): "+", (4.5, -0.5): "the residual stream, (B, T, D) all the way", },
         "boxed": {(1.8, 0.9): "NORM", (3.2, 0.9): "ATTENTION", (4.2, 0): "BLACK",
                   (5.65, 0.9): "NORM", (7.05, 0.9): "MLP", (8.05, 0): "BLACK"},
         "lines": {"BLACK -": [(1, 0), (1, 0.9), (4.2, 0.9), (4.85, 0), (4.85, 0.9), (8.05, 0.9)]}}]),
    Row("show_norms", ("norms", 2, 2, 3),
        "Norms. A batch of 2 pictures with 2 tokens each. What shares a mean: LayerNorm: one token of 1×3 values and "
        "BatchNorm: one feature of 4×1 values.",
        [{"title": "LayerNorm: one token", "boxes": [(1, 0, 1, 3, "NORM")], **batch_of_two()},
         {"title": "BatchNorm: one feature", "boxes": [(0, 2, 4, 1, "NORM")], **batch_of_two()}]),
]  # fmt: skip


def test_every_figure_has_a_row():
    in_fog = {"show_seen"}  # test_figures.py
    assert {row.name for row in FIGURES} | in_fog == {name for name in dir(plotting) if name.startswith("show_")}


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: row.name)
def test_every_figure_draws_and_says_what_it_was_given(row):
    figure = getattr(plotting, row.name)(*row.arguments)
    assert figure.alt == row.alt
    for found, expected in zip(read(figure), row.panels, strict=True):
        assert found == plain(expected)
