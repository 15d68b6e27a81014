"""Measuring a model: arrays in, arrays out, nothing drawn."""

from .costs import Cost, cost_by_part
from .maps import attention_rollout, mean_attention_distance
from .recording import mask_heads, record_attention
from .shapes import Step, trace_shapes
from .weights import Filters, patch_filters, position_similarity

__all__ = [
    "Cost",
    "Filters",
    "Step",
    "attention_rollout",
    "cost_by_part",
    "mask_heads",
    "mean_attention_distance",
    "patch_filters",
    "position_similarity",
    "record_attention",
    "trace_shapes",
]
