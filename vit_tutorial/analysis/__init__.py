"""Measuring a model: arrays in, arrays out, nothing drawn."""

from .attention_maps import attention_rollout, mean_attention_distance, object_auc
from .before_training import first_tests
from .class_evidence import class_attention, patch_readout, readout
from .forward_pass import cost_by_part, trace_shapes
from .learned_embeddings import opposite_edges, position_similarity
from .patch_tokens import attention_from, patch_tokens, principal_components
from .recording import ExplicitAttention, mask_heads, record_attention

__all__ = [
    "ExplicitAttention",
    "attention_from",
    "attention_rollout",
    "class_attention",
    "cost_by_part",
    "first_tests",
    "mask_heads",
    "mean_attention_distance",
    "object_auc",
    "opposite_edges",
    "patch_readout",
    "patch_tokens",
    "position_similarity",
    "principal_components",
    "readout",
    "record_attention",
    "trace_shapes",
]
