"""The reader's own code, judged: `from vit_tutorial import check`, one function for each exercise.

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

# The exercises of a notebook, in its order.
NOTEBOOKS = {
    "01 Patchify": (lesson_01_patchify.num_patches, lesson_01_patchify.patchify, lesson_01_patchify.unpatchify),
    "02 Embeddings": (
        lesson_02_embeddings.linear_is_conv,
        lesson_02_embeddings.class_token,
        lesson_02_embeddings.embeddings,
        lesson_02_embeddings.sincos,
    ),
    "03 Attention": (
        lesson_03_attention.attention_head,
        lesson_03_attention.split_heads,
        lesson_03_attention.merge_heads,
        lesson_03_attention.self_attention,
    ),
    "04 Encoder block": (
        lesson_04_encoder_block.layer_norm,
        lesson_04_encoder_block.mlp,
        lesson_04_encoder_block.encoder_block,
    ),
    "05 The Vision Transformer": (
        lesson_05_vision_transformer.vision_transformer,
        lesson_05_vision_transformer.parameter_count,
    ),
    "06 Training": (
        lesson_06_training.parameter_groups,
        lesson_06_training.warmup_cosine,
        lesson_06_training.accuracy,
    ),
    "07 Looking inside": (
        lesson_07_looking_inside.position_similarity,
        lesson_07_looking_inside.mean_attention_distance,
        lesson_07_looking_inside.rollout,
    ),
    "08 A new resolution": (lesson_08_new_resolution.resize_positions,),
    "09 Published weights": (lesson_09_published_weights.fuse_qkv, lesson_09_published_weights.map_state_dict),
}


class Check:
    """Every exercise by its name: `check.patchify(my_patchify)`. `check` alone lists them."""

    def __init__(self, notebooks: dict[str, tuple[Exercise, ...]]):
        self._notebooks = notebooks
        for exercises in notebooks.values():
            vars(self).update({exercise.name: exercise for exercise in exercises})

    def __getattr__(self, name: str):
        names = [name for name in vars(self) if not name.startswith("_")]
        near = difflib.get_close_matches(name, names)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
        raise AttributeError(f"there is no exercise {name!r}: {hint}")

    def __repr__(self) -> str:
        lines = []
        for title, exercises in self._notebooks.items():
            lines += [title, *(f"    {exercise!r}" for exercise in exercises)]
        return "\n".join(lines)


check = Check(NOTEBOOKS)
