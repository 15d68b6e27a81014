"""The model live in a page: `play(model)` in a notebook, `python -m vit_tutorial.live page.html` as a file."""

from .page import play
