"""What the lessons try out: other blocks, planted bugs, tasks, short trainings, and stored tables over three seeds."""

from .blocks import make_stack, try_stack
from .dabs import with_dabs
from .planted_bugs import BUGS, bug_table, draw_bug, plant
from .position_task import model_with_positions, quarters
from .secret_mistakes import MISTAKES, Suspect, sabotage, sabotaged
from .short_trainings import first_steps, short_run, tune
from .tables import load_block_runs, load_courses, load_results
from .weighted import answers, kinds_of_patches, weighted_attention
