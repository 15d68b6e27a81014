"""One function per figure: `show_*` takes arrays and returns a matplotlib `Figure`. Nothing is measured here."""

# ruff: noqa: F401, I001
from .curve_figures import (
    LiveLoss, show_by_images, show_curves, show_dots, show_layer_differences, show_ranking, show_row, show_wrong,
)  # fmt: skip
from .model_figures import (
    show_block, show_bug_table, show_cut, show_equation_one, show_heads, show_norms, show_one_query, show_tokens,
)  # fmt: skip
from .picture_figures import (
    show_attention_maps, show_attention_stops, show_components, show_filters, show_found, show_grid, show_maps,
    show_pictures, show_seen, show_similar, show_sizes, show_values,
)  # fmt: skip
from .position_figures import show_chosen_positions, show_mirror, show_positions_forming
from .rendering import register

register()
