"""Measuring a model: arrays in, arrays out, nothing drawn."""

from .attention_maps import attention_rollout as attention_rollout
from .attention_maps import object_auc as object_auc
from .before_training import first_tests as first_tests
from .class_evidence import class_attention as class_attention
from .class_evidence import patch_readout as patch_readout
from .class_evidence import readout as readout
from .forward_pass import cost_by_part as cost_by_part
from .forward_pass import trace_shapes as trace_shapes
from .patch_tokens import attention_from as attention_from
from .patch_tokens import opposite_edges as opposite_edges
from .patch_tokens import patch_tokens as patch_tokens
from .patch_tokens import position_similarity as position_similarity
from .patch_tokens import principal_components as principal_components
from .recording import mask_heads as mask_heads
from .recording import record_attention as record_attention
