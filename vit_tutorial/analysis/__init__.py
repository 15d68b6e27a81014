"""Measuring a model: arrays in, arrays out, nothing drawn."""

from .attention_maps import attention_distance, attention_rollout, object_auc
from .before_training import first_tests
from .class_evidence import class_attention, occlusion, readout
from .forward_pass import cost_by_part, multiply_adds
from .patch_tokens import attention_from, patch_tokens, position_similarity, principal_components
from .recording import head_outputs, mask_heads, record_attention, swap_head
