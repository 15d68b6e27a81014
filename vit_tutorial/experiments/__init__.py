"""What the lessons try out: stored tables over three seeds, planted bugs, and models moved to another size."""

from .blocks import make_stack, try_stack
from .planted_bugs import BUGS, bug_table, draw_bug, plant
from .secret_mistakes import MISTAKES, Suspect, sabotage, sabotaged
from .small_tasks import first_steps, model_with_positions, quarters, short_run, tune, with_dabs
from .tables import load_block_runs, load_courses, load_mirror_runs, load_results
from .weighted import answers, kinds_of_patches, weighted_attention
