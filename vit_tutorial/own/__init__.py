"""What the reader wrote: kept in `my_vit.py`, beside the notebooks, and a model made of it."""

from ..checks import Task, check
from .keeping import assemble, finish, keep, take

Task.keep = keep  # a method of every exercise, put in here, because checks import nothing from `own`
