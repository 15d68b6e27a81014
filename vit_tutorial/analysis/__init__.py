"""Measuring a model: arrays in, arrays out, nothing drawn."""

from .attention_maps import attention_rollout, mean_attention_distance, object_auc, share_on_object
from .forward_pass import cost_by_part, trace_shapes
from .heads import HeadCosts, head_costs
from .learned_embeddings import patch_filters, position_similarity, position_structure, similarity_by_offset
from .recording import ExplicitAttention, mask_heads, record_attention

__all__ = [
    "ExplicitAttention",
    "HeadCosts",
    "attention_rollout",
    "cost_by_part",
    "head_costs",
    "mask_heads",
    "mean_attention_distance",
    "object_auc",
    "patch_filters",
    "position_similarity",
    "position_structure",
    "record_attention",
    "share_on_object",
    "similarity_by_offset",
    "trace_shapes",
]
