"""Make examples.csv, for lesson 08: six new classes from few examples.

The recipe of the full fine-tune was chosen on scenes of other seeds, with an earlier checkpoint.
Takes about 40 minutes on two cores.
"""

from dataclasses import replace
from functools import partial

from common import CONFIG, SEEDS, recipe_for, train, write_table
from vit_tutorial import Shapes, VisionTransformer, load_checkpoint, replace_head
from vit_tutorial.data.outlines import MORE_OUTLINES
from vit_tutorial.experiments.short_trainings import OWN_SCENES
from vit_tutorial.training import evaluate

EXAMPLES = (25, 100, 400, 1600, 6400)
CLASSES = len(MORE_OUTLINES)


def measure(way: str, examples: int, seed: int) -> float:
    """Return the accuracy of a model that was trained on examples of its seed's own."""
    images = Shapes(examples, 28, OWN_SCENES + seed, MORE_OUTLINES)
    recipe = recipe_for(examples)  # 56,000 pictures are shown in all, either way
    if way == "full fine-tune":
        recipe = replace(recipe, learning_rate=1e-3)
        make = partial(replace_head, load_checkpoint("shapes"), CLASSES)
    else:
        make = partial(VisionTransformer, replace(CONFIG, num_classes=CLASSES))
    model = train(make, recipe, images, seed)
    return evaluate(model, Shapes(3200, 28, seed=1, outlines=MORE_OUTLINES)).accuracy


if __name__ == "__main__":
    lines = (
        (f"{way}, {examples:,} examples", seed, measure(way, examples, seed))
        for seed in SEEDS
        for way in ("full fine-tune", "from scratch")
        for examples in EXAMPLES
    )
    write_table("examples", ["row", "seed", "accuracy"], lines)
