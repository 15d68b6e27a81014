"""Judge the reader's own code: `from vit_tutorial import check`, one function for each exercise.

check.patchify(my_patchify)   →  passed; not attempted; or what is wrong, by its symptom
check.patchify.hint()         →  where to look next
check.patchify.solution()     →  one right answer, as code
"""

from __future__ import annotations

import difflib

from . import (
    lesson_01_patchify,
    lesson_02_embeddings,
    lesson_03_attention,
    lesson_04_encoder_block,
    lesson_05_vision_transformer,
    lesson_06_training,
    lesson_07_looking_inside,
    lesson_08_new_resolution,
    lesson_09_published_weights,
)
from .exercise import Exercise

LESSONS = {
    "01 Patchify": lesson_01_patchify,
    "02 Embeddings": lesson_02_embeddings,
    "03 Attention": lesson_03_attention,
    "04 Encoder block": lesson_04_encoder_block,
    "05 The Vision Transformer": lesson_05_vision_transformer,
    "06 Training": lesson_06_training,
    "07 Looking inside": lesson_07_looking_inside,
    "08 A new resolution": lesson_08_new_resolution,
    "09 Published weights": lesson_09_published_weights,
}


class Check:
    """Every exercise by its name: `check.patchify(my_patchify)`. `check` alone lists them, in the lessons' order."""

    def __init__(self):
        for lesson in LESSONS.values():
            vars(self).update({each.name: each for each in vars(lesson).values() if isinstance(each, Exercise)})

    def __getattr__(self, name: str):
        near = difflib.get_close_matches(name, vars(self))
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(vars(self))}"
        raise AttributeError(f"there is no exercise {name!r}: {hint}")

    def __repr__(self) -> str:
        lines = []
        for title, lesson in LESSONS.items():
            lines += [title, *(f"    {each!r}" for each in vars(self).values() if vars(lesson).get(each.name) is each)]
        return "\n".join(lines)


check = Check()
