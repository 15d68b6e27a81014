"""Make size_causes.csv, for lesson 08: at another size, is it the ground or the object?

Takes about 10 minutes on two cores.
"""

from common import SEEDS, right_answers, trained_at_home, write_table
from vit_tutorial import change_resolution
from vit_tutorial.experiments import draw_scenes, right_if, times_as_in

# At 44×44, in pixels, as a share of its size at 28×28: as before, and as usual at 44×44.
SAME, LARGER = 1.0, 1.5714


def measure(positions: str, seed: int, scenes: int = 1600) -> dict[tuple[str, float, str], int]:
    """Return right answers of a model of 28×28, by size, object and what is changed.

    At 44×44, "ground" and "all patches" weigh the patches of these groups as in the scenes of
    28×28. At 28×28, "as in 44×44" weighs all patches as in the usual scenes of 44×44.
    """
    model = trained_at_home(positions, seed)
    moved = change_resolution(model, 44)
    home = draw_scenes(scenes, "28×28")
    at_44 = {scale: draw_scenes(scenes, "44×44", scale) for scale in (SAME, LARGER)}
    right = {("28×28", SAME, "nothing"): right_answers(model, home)}
    for scale, images in at_44.items():
        right["44×44", scale, "nothing"] = right_answers(moved, images)
        for groups in ("ground", "all patches"):
            times = times_as_in(images, home, groups)
            right["44×44", scale, groups] = right_if(moved, images, times)
    times = times_as_in(home, at_44[LARGER], "all patches")
    right["28×28", SAME, "as in 44×44"] = right_if(model, home, times)
    return {about: int(answers.sum()) for about, answers in right.items()}


if __name__ == "__main__":
    lines = (
        (positions, seed, *about, right, 1600)
        for seed in SEEDS
        for positions in ("learned", "none")
        for about, right in measure(positions, seed).items()
    )
    columns = ["positions", "seed", "size", "object", "change", "right", "scenes"]
    write_table("size_causes", columns, lines)
