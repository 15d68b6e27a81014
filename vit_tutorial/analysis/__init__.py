"""Measuring a model: arrays in, arrays out, nothing drawn."""

from .costs import Cost, cost_by_part
from .heads import HeadCosts, head_costs
from .maps import attention_rollout, mean_attention_distance
from .positions import Structure, position_structure, similarity_by_offset
from .recording import mask_heads, record_attention
from .scores import object_auc, share_on_object
from .shapes import Step, trace_shapes
from .weights import Filters, patch_filters, position_similarity

__all__ = [
    "Cost",
    "Filters",
    "HeadCosts",
    "Step",
    "Structure",
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
