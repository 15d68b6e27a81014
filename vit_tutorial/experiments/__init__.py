"""What the lessons try out: stored tables over three seeds, planted bugs, and models moved to another size."""

from .blocks import make_stack as make_stack
from .blocks import try_stack as try_stack
from .planted_bugs import BUGS as BUGS
from .planted_bugs import bug_table as bug_table
from .planted_bugs import draw_bug as draw_bug
from .planted_bugs import plant as plant
from .secret_mistakes import MISTAKES as MISTAKES
from .secret_mistakes import Suspect as Suspect
from .secret_mistakes import sabotage as sabotage
from .secret_mistakes import sabotaged as sabotaged
from .small_tasks import model_with_positions as model_with_positions
from .small_tasks import quarters as quarters
from .small_tasks import short_run as short_run
from .small_tasks import tune as tune
from .tables import load_block_runs as load_block_runs
from .tables import load_causes as load_causes
from .tables import load_courses as load_courses
from .tables import load_mask_scores as load_mask_scores
from .tables import load_mirror_runs as load_mirror_runs
from .tables import load_results as load_results
from .tables import load_size_runs as load_size_runs
from .tables import load_trials as load_trials
from .tables import read_table as read_table
from .weighted import answers as answers
from .weighted import kinds_of_patches as kinds_of_patches
from .weighted import weighted_attention as weighted_attention
