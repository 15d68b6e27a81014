"""What the reader wrote: kept in `my_vit.py`, beside the notebooks, and a model made of it."""

from ..checks import Check
from .building import assemble, keep_part, take
from .finishing import finish

check = Check(keep_part)
