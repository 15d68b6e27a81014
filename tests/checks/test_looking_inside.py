"""The checks of notebook 07 on right and wrong answers."""

from vit_tutorial import check

from .variants import judged

# What is changed in the solutions

COVERED, CLONE = "whole - model(covered)", "covered = images.clone()"
ROW, COLUMN = "row : row + P", "column : column + P"
GRID = "images.shape[2] // P, images.shape[3] // P"
LOOPS = "for row in range(0, images.shape[2], P):\n        for column in range(0, images.shape[3], P):"
TURNED = "for column in range(0, images.shape[3], P):\n        for row in range(0, images.shape[2], P):"

RIGHT = {
    check.occlusion: {
        "in eval mode": ("whole, falls", "model.eval()\n    whole, falls"),
        "column by column, then turned": (
            LOOPS,
            TURNED,
            f"{GRID}))",
            "images.shape[3] // P, images.shape[2] // P)).mT",
        ),
        "times a mask": (
            CLONE,
            "mask = torch.ones(images.shape[2:])",
            f"covered[:, :, {ROW}, {COLUMN}]",
            f"mask[{ROW}, {COLUMN}]",
            "model(covered)",
            "model(images * mask)",
        ),
    },
}
WRONG = {
    check.occlusion: [
        (COVERED, "model(covered) - whole", "Your map is -1·y(whole) + y(patch i covered). It must be y(whole)"),
        (COVERED, "model(covered)", "Your map is y(patch i covered). It must"),
        (CLONE, "covered = images", "changes its input"),
        (CLONE, "", "whole, falls", "covered = images.clone()\n    whole, falls", "1440 values are changed"),
        (COVERED, "whole.softmax(1) - model(covered).softmax(1)", "softmax(y(whole)) + -1·softmax(y(patch i covered))"),
        (COVERED, "whole - model(images - covered)", "1392 values are changed"),
        (LOOPS, TURNED, "The sizes are right, and signs or places are not"),
        (f"-1, ({GRID})", "-1, (images.shape[3] // P, -1)", "(B, K, w, h)"),
        (f".unflatten(-1, ({GRID}))", "", "(B, K, 30) = (2, 11, 30)"),
        (COVERED, "(whole - model(covered))[0]", "(K, h, w) = (11, 5, 6)"),
        (COVERED, "whole.log_softmax(1) - model(covered).log_softmax(1)", "log_softmax(y(whole)) + -1·log_softmax(y("),
        ("= 0", "= 1", "48 values are changed to [1.0]: channels 0 to 2, rows 16 to 19, columns 20 to 23"),
        ("[:, :,", "[:, 0,", "16 values are changed to [0.0]: channels 0 to 0, rows 16 to 19"),
        ("range(0, images.shape[2], P)", "range(images.shape[2] // P)",
         "range(0, images.shape[3], P)", "range(images.shape[3] // P)", "rows 4 to 7, columns 5 to 8"),
        (COVERED, "(whole - model(covered)) ** 2", "The shape is right, the values are not"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)
