"""One function per figure: `show_*` takes arrays and returns a matplotlib `Figure`."""

from .curve_figures import LiveLoss, show_by_images, show_curves, show_dots, show_row
from .curve_figures import show_scatter
from .model_figures import show_block, show_bug_table, show_by_head, show_cut, show_equation_one
from .model_figures import show_heads, show_norms, show_one_query, show_tokens
from .picture_figures import show_attention_maps, show_attention_stops, show_filters, show_found
from .picture_figures import show_grid, show_maps, show_pictures, show_seen, show_sizes
from .position_figures import show_positions_forming
from .rendering import register

register()  # before a reader's first figure: matplotlib's own way to show it would leave out its alternative text
