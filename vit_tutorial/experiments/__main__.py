"""The command: `python -m vit_tutorial.experiments`."""

import sys

from .tables import main

sys.exit(main())
