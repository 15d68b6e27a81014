"""The reader's own code, judged: `from vit_tutorial import check`, one function for each exercise.

check.patchify(my_patchify)   →  passed; not attempted; or what is wrong, by its symptom
check.patchify.hint()         →  where to look next
check.patchify.solution()     →  one right answer, as code
"""

from __future__ import annotations

import difflib

from . import (
    attention,
    embedding_module,
    embeddings,
    encoder,
    looking_inside,
    model,
    new_resolution,
    patchify,
    published,
    training,
)
from .exercise import Exercise

# The exercises of a notebook, in its order. A new file of exercises is added here.
NOTEBOOKS = {
    "01 Patchify": (patchify.num_patches, patchify.patchify, patchify.unpatchify),
    "02 Embeddings": (
        embeddings.linear_is_conv,
        embeddings.class_token,
        embedding_module.embeddings,
        embeddings.sincos,
    ),
    "03 Attention": (
        attention.attention_head,
        attention.split_heads,
        attention.merge_heads,
        attention.self_attention,
    ),
    "04 Encoder block": (encoder.layer_norm, encoder.mlp, encoder.encoder_block),
    "05 The Vision Transformer": (model.vision_transformer, model.parameter_count),
    "06 Training": (training.warmup_cosine, training.parameter_groups, training.accuracy),
    "07 Looking inside": (
        looking_inside.position_similarity,
        looking_inside.rollout,
        looking_inside.mean_attention_distance,
    ),
    "08 A new resolution": (new_resolution.resize_positions,),
    "09 Published weights": (published.fuse_qkv, published.map_state_dict),
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
