"""One function per figure: `show_*` takes arrays and returns a matplotlib `Figure`. Nothing is measured here."""

from .attention_figures import show_attention_maps, show_attention_stops, show_found, show_heads, show_one_query
from .curve_figures import LiveLoss, show_by_images, show_curves, show_layer_differences, show_row
from .model_figures import show_block, show_shapes
from .patch_figures import show_cut, show_equation_one, show_grid, show_maps, show_pictures, show_sizes
from .photo_figures import show_components, show_seen, show_similar, show_values
from .position_figures import (
    show_chosen_positions,
    show_mirror,
    show_position_similarity,
    show_positions_forming,
    show_sincos_table,
)
from .rendering import register
from .table_figures import show_bug_table, show_ranking, show_wrong

__all__ = [
    "LiveLoss", "show_attention_maps", "show_attention_stops", "show_block", "show_bug_table", "show_by_images",
    "show_chosen_positions", "show_components", "show_curves", "show_cut",
    "show_equation_one", "show_found", "show_grid", "show_heads", "show_layer_differences", "show_maps", "show_mirror",
    "show_one_query", "show_pictures", "show_position_similarity", "show_positions_forming",
    "show_ranking", "show_row", "show_seen", "show_shapes", "show_similar", "show_sincos_table", "show_sizes",
    "show_values", "show_wrong",
]  # fmt: skip

register()
